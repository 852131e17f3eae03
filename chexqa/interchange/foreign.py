"""Reader of other projects' benchmarks for an audit: VLMEvalKit's tables, Hugging Face folders, CheXpercept's release.

A benchmark of another project (foreign benchmark) becomes a :class:`~chexqa.contract.benchmark.Benchmark` in a
temporary folder; its pictures are copied unchanged. A category with the name of one of chexqa's kinds becomes that
kind, if its pictures and options fit. Every other category becomes a new kind. ``tables`` reads the rows.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, image_path
from chexqa.contract.declared import declaration, declared
from chexqa.contract.items import Answer, CaseKey, Item, Option, Picture, Tally, with_priors
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, sha256, write_bytes
from chexqa.interchange import layout, tables
from chexqa.interchange.release import import_release, read_release
from chexqa.interchange.tables import Row
from chexqa.version import __version__

# Roles of the pictures that an item of each kind shows when it is asked alone, in order.
_ROLES = {
    "contour_evaluation": ("radiograph", "contour"),
    "revision_expansion": ("radiograph", "points"),
    "revision_contraction": ("radiograph", "points"),
    "revision_result": ("radiograph", "contour", *["option"] * 4),
    "grid_cell": ("grid",),
}
_ALONE = ("radiograph",)
_NUMBER = re.compile(r"\d+")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 60


@contextmanager
def opened(path: Path) -> Iterator[Benchmark]:
    """Yield the benchmark in ``path``, in chexqa's or another layout.

    Pictures of another layout are copied to a temporary folder, which is deleted at the end of the ``with`` block.
    Raise ``InputError`` if the layout is unknown or the benchmark has no answers.
    """
    kind = format_of(path)
    if kind is None:
        yield benchmark.load(path)
        return
    with tempfile.TemporaryDirectory(prefix="chexqa-") as scratch:
        if kind == "CheXpercept's release":
            import_release(path, read_release(path), Path(scratch) / "release", "credentialed")
            imported = benchmark.load(Path(scratch) / "release")
            yield replace(imported, about=imported.about | {"layout": kind, "canary": ""})
        else:
            reader = tables.read_vlmevalkit if kind == "a VLMEvalKit table" else tables.read_dataset
            yield _assembled(path, kind, reader(path), Path(scratch))


def format_of(path: Path) -> str | None:
    """Return the name of a foreign benchmark's layout; None for chexqa's own layout or an unknown one."""
    if path.is_file() and path.suffix.lower() == ".tsv":
        return "a VLMEvalKit table"
    if not path.is_dir() or (path / benchmark.ABOUT).exists():
        return None
    if (path / layout.INDEX).is_file():
        return "CheXpercept's release"
    return "a Hugging Face dataset" if tables.parquet_files(path) else None


@dataclass(frozen=True)
class _Parts:
    items: list[Item]
    answers: dict[str, Answer]
    cases: dict[str, CaseKey]


def _assembled(path: Path, layout_name: str, rows: Iterable[Row], scratch: Path) -> Benchmark:
    """Return the benchmark made of ``rows``, whose pictures are written into the folder ``scratch``."""
    parts = _Parts([], {}, {})
    places: dict[str, int] = defaultdict(int)
    kinds: dict[str, Kind] = {}
    for row in rows:
        images = [_kept(data, scratch) for data in row.pictures]
        kind = _kind_of(row, len(images), kinds)
        places[row.case_id] += 1
        item = _item(row, kind, images, places[row.case_id])
        if item.item_id in parts.answers:
            raise InputError(f"{row.where}: the id '{item.item_id}' is given twice; rename one.")
        parts.items.append(item)
        wrong = kind.form.wrong_key(row.answer)
        if wrong:
            raise InputError(f"{row.where}: has {wrong}; correct the answer.")
        chance = kind.form.chance(len(item.options), len(row.answer))
        parts.answers[item.item_id] = Answer(item.item_id, row.answer, chance, 0.0, None, {})
        parts.cases[item.case_id] = CaseKey(
            item.case_id, item.case_id, row.patient, None, None, None, None, None, "credentialed", {"source": path.name}
        )
    if not parts.items:
        raise InputError(f"{path}: contains no item; give another file or folder.")
    about = _about(path, layout_name, parts, [kind for kind in kinds.values() if kind.name not in KINDS])
    answers = {answer.item_id: answer for answer in with_priors(parts.items, parts.answers.values())}
    return Benchmark(scratch, about, tables.hash_of(path), tuple(parts.items), answers, parts.cases)


def _kept(data: bytes, scratch: Path) -> str:
    image = image_path(sha256(data))
    if not (scratch / image).exists():
        (scratch / image).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(scratch / image, data)
    return image


def _kind_of(row: Row, pictures: int, known: dict[str, Kind]) -> Kind:
    """Return a row's kind: chexqa's kind with the category's name, if form and pictures fit, otherwise a new kind."""
    own = KINDS.get(row.category)
    if own is not None and own.multi == row.multi and pictures == len(_ROLES.get(own.name, _ALONE)):
        return known.setdefault(own.name, own)
    name = _NOT_IN_NAMES.sub("_", row.category.lower()).strip("_")[:_LONGEST_NAME]
    name = name if name[:1].isalpha() else f"kind_{name}".rstrip("_")
    name = f"{name}_several" if row.multi else name
    while name in KINDS:
        name = f"{name}_other"
    record: Record = {
        "name": name, "form": "multi" if row.multi else "single", "about": f"questions of the category {row.category}.",
        "heading": name[:12], "ordered": False, "evidence": {}, "words": "no evidence", "near": {},
    }  # fmt: skip
    return known.setdefault(name, declared(record, row.where))


def _item(row: Row, kind: Kind, images: Sequence[str], place: int) -> Item:
    own = kind.name in KINDS
    roles = _ROLES.get(kind.name, _ALONE) if own else ()
    if len(roles) != len(images):
        roles = _ALONE if len(images) == 1 else tuple(f"picture {number}" for number in range(1, len(images) + 1))
    pictures = tuple(Picture(role, image) for role, image in zip(roles, images, strict=True))
    shown = [image for role, image in zip(roles, images, strict=True) if role == "option"]
    options = tuple(
        Option(number, text, _picture_of(text, number, images, shown), color)
        for number, (text, color) in enumerate(row.options, start=1)
    )
    seq = kind.seq if own else place
    return Item(
        row.item_id, row.case_id, seq, kind.name, kind.level, kind.stage, row.finding, row.question, options,
        kind.multi, pictures, pictures, None if own else kind,
    )  # fmt: skip


def _picture_of(text: str | None, number: int, images: Sequence[str], shown: Sequence[str]) -> str | None:
    """Return the picture that an option means: the one with the number in its text, or the one at its position.

    Return None for an option without a picture.
    """
    if not shown:
        return None
    named = _NUMBER.search(text or "")
    place = int(named[0]) - 1 if named else -1
    return images[place] if 0 <= place < len(images) and images[place] in shown else shown[number - 1]


def _about(path: Path, layout_name: str, parts: _Parts, kinds: Sequence[Kind]) -> dict[str, Any]:
    """Return the content of ``benchmark.json`` that is known for a foreign benchmark."""
    tally = Tally()
    for item in parts.items:
        tally.item(item)
    for case in parts.cases.values():
        tally.case(case)
    return {
        "name": path.stem, "version": "", "layout": layout_name, "tool_version": __version__, "recipes": [],
        "question_bank": None, "data": "phantom" if tables.is_phantom(path) else "real", "shortfall": [], "canary": "",
        "kinds": [declaration(kind) for kind in kinds], "access": {"open": 0, "credentialed": 0},
        "counts": {"cases": len(parts.cases), "items": len(parts.items), "skipped": 0, "images": len(tally.images),
                   "kinds": tally.items_by_kind, "paths": {}},
    }  # fmt: skip
