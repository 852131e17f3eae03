"""Benchmark folder: items, key and pictures, read with every hash checked.

Layout: ``benchmark.json``, ``items.jsonl``, ``answers.jsonl`` (the key), ``skipped.jsonl``, ``images/ab/<sha256>.png``,
and small copies of the pictures in ``thumbs``. The key and ``skipped.jsonl`` can be withheld; a function that needs the
key then raises an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract.declared import declaration, declared
from chexqa.contract.items import ORIGINAL, Answer, CaseKey, Item, Tally
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files import limits
from chexqa.files.errors import InputError, Named, suggest
from chexqa.files.jsonio import (
    Record,
    check,
    dump,
    many_objects,
    read_json,
    read_jsonl,
    read_lines,
    sha256,
    write_json,
    write_jsonl,
    write_lines,
)
from chexqa.files.opening import InFolder, MissingError, open_binary, read_hashed, read_whole, sha256_of
from chexqa.question_banks import check_conversation, reworded
from chexqa.version import __version__

_CHECKERS = 2
ITEMS, ANSWERS, SKIPPED, ABOUT = "items.jsonl", "answers.jsonl", "skipped.jsonl", "benchmark.json"
# The card, and the list of changes after a review. A card begins with CARD_MARK; a README.md without it is kept.
CARD, CHANGES = "README.md", "CHANGES.md"
CARD_MARK = "<!-- written by 'chexqa'; 'chexqa audit' writes it anew -->"


# Even noise of 384 x 384 pixels has fewer bytes.
MAX_THUMB_BYTES = 2**20


def image_path(digest: str) -> str:
    """Return the path, relative to a benchmark's folder, of the picture with the SHA-256 ``digest``."""
    return f"images/{digest[:2]}/{digest}.png"


def thumb_path(image: str) -> str:
    """Return the path, relative to a benchmark's folder, of the small JPEG copy of the picture ``image``."""
    digest = image_digest(image)
    return f"thumbs/{digest[:2]}/{digest}.jpg"


def image_digest(image: str) -> str:
    """Return the SHA-256 of a picture, which is part of its path in a benchmark; the file is not read."""
    return image.rpartition("/")[2].rpartition(".")[0]


@dataclass(frozen=True)
class Benchmark(InFolder):
    """Benchmark in memory; pictures stay on disk, and :meth:`image_bytes` reads one picture."""

    folder: Path
    about: Record = field(repr=False)
    hash: str
    items: tuple[Item, ...] = field(repr=False)
    answers: dict[str, Answer] | None = field(repr=False)
    cases: dict[str, CaseKey] | None = field(repr=False)

    @cached_property
    def item(self) -> dict[str, Item]:
        """The items, keyed by id."""
        return Named("item", {item.item_id: item for item in self.items})

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of question, keyed by name: chexqa's own kinds in their order, then kinds from plugins."""
        return _kinds(self.about, self.folder / ABOUT)

    @property
    def name(self) -> str:
        """The benchmark's own name."""
        return str(self.about["name"])

    @property
    def is_phantom(self) -> bool:
        """True if the radiographs are drawn phantoms, so that results have no clinical meaning."""
        return bool(self.about["data"] == "phantom")

    @property
    def conversation_texts(self) -> dict[str, Any]:
        """The question bank's texts around the questions, such as the system prompt and announcements of pictures."""
        texts: dict[str, Any] = self.about["question_bank"]["conversation"]
        return texts

    def key(self, needed_by: str) -> tuple[dict[str, Answer], dict[str, CaseKey]]:
        """Return the answers, keyed by item id, and the cases, keyed by case id.

        Raise ``InputError`` if the key is withheld; the message says that ``needed_by`` needs it.
        """
        if self.answers is None or self.cases is None:
            raise InputError(
                f"{self.folder / ANSWERS}: is missing, and {needed_by} needs the key; put the file beside {ITEMS}."
            )
        return self.answers, self.cases

    def image_bytes(self, image: str) -> bytes:
        """Return the bytes of a picture (PNG); raise ``InputError`` if they do not have the hash in the file's name."""
        path = self.folder / image
        try:
            data = read_hashed(path, image_digest(image), limits.MAX_PICTURE_BYTES, self.folder)
        except MissingError:
            raise InputError(f"{path}: no such file; restore it.") from None
        if data is None:
            raise InputError(f"{path}: the picture was changed after the benchmark was written; restore it.")
        return data

    def image_size(self, image: str) -> int:
        """Return the size of a picture's file in bytes."""
        with open_binary(self.folder / image, limits.MAX_PICTURE_BYTES, self.folder) as file:
            return os.fstat(file.fileno()).st_size

    def thumb_bytes(self, image: str) -> bytes:
        """Return the small JPEG copy of a picture: the stored copy or, if there is none, a new one."""
        path = self.folder / thumb_path(image)
        try:
            data = read_whole(path, MAX_THUMB_BYTES, self.folder)
        except MissingError:
            # Code that only reads items and key does not import OpenCV.
            from chexqa.imaging.read import thumb_of_png

            return thumb_of_png(self.image_bytes(image), f"{self.folder / image}:")
        # A thumbnail goes into sheets and reports, and no hash covers it.
        if not data.startswith(b"\xff\xd8") or not data.endswith(b"\xff\xd9"):
            raise InputError(
                f"{path}: is not a complete JPEG of a thumbnail's size; remove the file, and chexqa makes it again "
                "when needed."
            )
        return data


def _kinds(about: Record, path: Path) -> dict[str, Kind]:
    return {**KINDS, **{record["name"]: declared(record, str(path)) for record in about.get("kinds", ())}}


def load(folder: Path) -> Benchmark:
    """Read a benchmark folder, and check its items and its key against the schemas and the hashes.

    Pictures are checked when they are read (:meth:`Benchmark.image_bytes`).
    """
    check_folder(folder)
    about = read_json(folder / ABOUT, "benchmark", folder)
    bank, where = about["question_bank"], f"{folder / ABOUT}, field"
    check_conversation(bank["conversation"], where, "question_bank.conversation")
    for name, texts in bank.get("prompts", {}).items():
        reworded(bank["conversation"], texts, where, f"question_bank.prompts.{name}")
    there = {name for name in (ITEMS, ANSWERS, SKIPPED) if _is_whole(folder, name, about["files"].get(name))}
    kinds = _kinds(about, folder / ABOUT)
    with many_objects():
        items = tuple(Item.from_record(record, kinds) for _, record in read_jsonl(folder / ITEMS, "item", folder))
        answers, cases = _read_key(folder) if ANSWERS in there else (None, None)
    benchmark = Benchmark(folder, about, sha256_of(folder / ABOUT, inside=folder), items, answers, cases)
    _check_whole(benchmark)
    return benchmark


def check_folder(folder: Path) -> None:
    """Raise ``InputError`` if a path is not the folder of a finished benchmark; no file in it is opened."""
    if not folder.is_dir():
        what = "is a file; name the folder of" if folder.is_file() else "no such folder; name"
        raise InputError(f"{folder}: {what} a benchmark made by 'chexqa generate'.")
    if not (folder / ABOUT).is_file():
        raise InputError(
            f"{folder}: contains no {ABOUT}, so it is not a finished benchmark; make one with 'chexqa generate'."
        )


def _is_whole(folder: Path, name: str, expected: str | None) -> bool:
    """Return True if a file has the expected hash, False if it is missing and may be withheld.

    In all other cases an error is raised.
    """
    path = folder / name
    try:
        actual = sha256_of(path, limits.MAX_TABLE_BYTES, folder)
    except MissingError:
        if name == ITEMS:
            raise
        return False
    if actual != expected:
        raise InputError(
            f"{path}: changed after the benchmark was written (its hash is not the one in {ABOUT}); restore it."
        )
    return True


def _read_key(folder: Path) -> tuple[dict[str, Answer], dict[str, CaseKey]]:
    answers: dict[str, Answer] = {}
    cases: dict[str, CaseKey] = {}
    path = folder / ANSWERS
    for number, record in read_lines(path, folder):
        is_item = isinstance(record, dict) and "item_id" in record
        check(record, "answer" if is_item else "answer_case", f"{path}, line {number}")
        if is_item:
            answers[record["item_id"]] = Answer.from_record(record)
        else:
            cases[record["case_id"]] = CaseKey(**record)
    return answers, cases


def _check_whole(benchmark: Benchmark) -> None:
    """Raise an error if an item's id is not unique, an item contradicts its kind, or a key does not fit its item."""
    where = benchmark.folder / ITEMS
    twice = [item_id for item_id, count in Counter(item.item_id for item in benchmark.items).items() if count > 1]
    if twice:
        raise InputError(f"{where}: the item id '{twice[0]}' is given twice; restore the file.")
    for item in benchmark.items:
        kind = benchmark.kinds.get(item.kind)
        if kind is None:
            raise InputError(
                f"{where}: item '{item.item_id}' is of the kind '{item.kind}', which {ABOUT} does not declare"
                f"{suggest(item.kind, benchmark.kinds)}; restore {ITEMS} and {ABOUT}."
            )
        if (item.level, item.stage, item.multi) != (kind.level, kind.stage, kind.multi):
            name = next(name for name in ("level", "stage", "multi") if getattr(item, name) != getattr(kind, name))
            raise InputError(
                f"{where}: the '{name}' of item '{item.item_id}' differs from its kind's declaration; restore the file."
            )
        if [option.n for option in item.options] != list(range(1, len(item.options) + 1)):
            raise InputError(f"{where}: item '{item.item_id}' has options not numbered 1, 2, 3, …; restore the file.")
    if benchmark.answers is None or benchmark.cases is None:
        return
    for item in benchmark.items:
        answer = benchmark.answers.get(item.item_id)
        if answer is None or item.case_id not in benchmark.cases:
            raise InputError(f"{benchmark.folder / ANSWERS}: item '{item.item_id}' has no key; restore the file.")
        wrong = wrong_key(item, answer, benchmark.kinds[item.kind])
        if wrong:
            raise InputError(f"{benchmark.folder / ANSWERS}: item '{item.item_id}' has {wrong}; restore the file.")


def wrong_key(item: Item, answer: Answer, kind: Kind) -> str | None:
    """Return the contradiction between a key and its item, as the end of the sentence "item X has …", or None."""
    if not set(answer.answer) <= {option.n for option in item.options}:
        return "a key with an option number that the item does not have"
    return item.form.wrong_key(answer.answer) or kind.evidence.misfit(answer.evidence, len(item.options))


def check_images(benchmark: Benchmark, altered: Iterable[str] = ()) -> int:
    """Check all items' pictures and the ``altered`` pictures against their hashes; return how many were checked."""
    images = sorted({*altered}.union(*(item.image_paths for item in benchmark.items)))
    with ThreadPoolExecutor(_CHECKERS) as pool:
        return sum(bool(size) for size in pool.map(lambda image: len(benchmark.image_bytes(image)), images))


def conversations(items: Iterable[Item]) -> list[tuple[Item, ...]]:
    """Return all conversations, each as a tuple of its items in the order in which they are asked.

    A case's kinds with a stage share one conversation. A kind without a stage, and an item with altered pictures, has a
    conversation of its own.
    """
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.case_id, item.task if item.condition == ORIGINAL else item.item_id), []).append(item)
    return [tuple(sorted(group, key=lambda item: item.seq)) for group in groups.values()]


@dataclass(frozen=True)
class Origin:
    """Origin of a benchmark, as ``benchmark.json`` states it.

    - ``recipes``, ``bank``: the contents of the recipes and of the question bank.
    - ``data``: ``phantom`` or ``real``.
    - ``kinds``: the kinds of question that plugins add.
    - ``fresh_of``: the older benchmark of which this benchmark is a fresh seed, or None.
    - ``interventions``: the facts on altered pictures; None if the benchmark has no altered pictures.
    """

    name: str
    version: str
    seed: int
    recipes: tuple[Record, ...]
    bank: Record
    data: str
    kinds: Sequence[Kind] = ()
    fresh_of: Record | None = None
    interventions: Record | None = None


@dataclass(frozen=True)
class Contents:
    """Items, answers and cases of a benchmark, in the order of its files; each can be an iterator."""

    items: Iterable[Item]
    answers: Iterable[Answer]
    cases: Iterable[CaseKey]
    skipped: tuple[Record, ...] = ()
    shortfall: tuple[Record, ...] = ()


def record_hash(record: Record) -> str:
    """Return the SHA-256 of the content of a recipe or question bank, whatever its file's formatting."""
    return sha256(dump(record).encode())


def _about(recipe: Record) -> Record:
    """Return a recipe's entry in ``benchmark.json``: its name, its hash, and how often it draws one, two or three
    errors.
    """
    weights = recipe.get("deformation", {}).get("edit_count_weights")
    told = {} if weights is None else {"true_points": weights}
    return {"name": recipe["name"], "hash": record_hash(recipe), **told}


class Written(NamedTuple):
    """The record of ``benchmark.json`` and the paths of the pictures that the items show."""

    about: Record
    images: set[str]


def write_files(folder: Path, origin: Origin, contents: Contents) -> Written:
    """Write the JSON files of a benchmark into ``folder``, which already contains its pictures."""
    head: Record = {
        "name": origin.name,
        "version": origin.version,
        "seed": origin.seed,
        "recipes": [_about(recipe) for recipe in origin.recipes],
        "question_bank": {
            "name": origin.bank["name"],
            "language": origin.bank["language"],
            "hash": record_hash(origin.bank),
            "conversation": origin.bank["conversation"],
            **{name: origin.bank[name] for name in ("prompts",) if name in origin.bank},
        },
        "data": origin.data,
        **({"kinds": [declaration(kind) for kind in origin.kinds]} if origin.kinds else {}),
        **({} if origin.interventions is None else {"interventions": origin.interventions}),
        **({} if origin.fresh_of is None else {"fresh_of": origin.fresh_of}),
    }
    return write_contents(folder, head, contents)


_HEAD = ("seed", "recipes", "question_bank", "data", "kinds", "fresh_of", "interventions")


def write_contents(folder: Path, head: Record, contents: Contents) -> Written:
    """Write files as :func:`write_files` does; ``head`` has the fields of ``benchmark.json`` that state the origin."""
    tally = Tally()
    write_jsonl(folder / ITEMS, (tally.item(item).to_record() for item in contents.items), "item")
    _write_key(folder / ANSWERS, contents, tally)
    write_jsonl(folder / SKIPPED, contents.skipped, "skipped")
    files = {name: sha256_of(folder / name) for name in (ITEMS, ANSWERS, SKIPPED)}
    about: Record = {
        "schema_version": 1,
        "name": head["name"],
        "version": head["version"],
        "tool_version": __version__,
        **{name: head[name] for name in _HEAD if name in head},
        "access": {name: tally.access[name] for name in ("open", "credentialed")},
        "counts": {
            "cases": tally.access.total(),
            "items": tally.kinds.total(),
            "skipped": len(contents.skipped),
            "images": len(tally.images),
            "kinds": tally.items_by_kind,
            "paths": tally.paths,
        },
        "shortfall": list(contents.shortfall),
        "files": files,
        "canary": f"CHEXQA BENCHMARK DATA, NOT FOR TRAINING {files[ITEMS][:32]}",
    }
    write_json(folder / ABOUT, about, "benchmark")
    return Written(about, tally.images)


def _write_key(path: Path, contents: Contents, tally: Tally) -> None:
    """Write the key: first a line for each case, then a line for each item."""

    def records() -> Iterator[Record]:
        for case in contents.cases:
            record = tally.case(case).to_record()
            check(record, "answer_case", f"{path}, case '{case.case_id}'")
            yield record
        for answer in contents.answers:
            record = answer.to_record()
            check(record, "answer", f"{path}, item '{answer.item_id}'")
            yield record

    write_lines(path, records())
