"""A benchmark folder: items, key and pictures, read with every hash checked.

Layout: ``benchmark.json``, ``items.jsonl``, ``answers.jsonl``, ``skipped.jsonl``, ``images/ab/<sha256>.png``.
``answers.jsonl`` (with ``skipped.jsonl``) may be withheld; everything that needs it says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chexqa.errors import InputError
from chexqa.items import GRID, KINDS, PATHS, Answer, CaseKey, Item
from chexqa.records import (
    Record,
    check,
    dump,
    read_json,
    read_jsonl,
    read_lines,
    sha256,
    write_bytes,
    write_json,
    write_jsonl,
)
from chexqa.version import __version__

ITEMS, ANSWERS, SKIPPED, ABOUT = "items.jsonl", "answers.jsonl", "skipped.jsonl", "benchmark.json"


def image_path(digest: str) -> str:
    """Where a picture with this SHA-256 lies in a benchmark folder."""
    return f"images/{digest[:2]}/{digest}.png"


def image_digest(image: str) -> str:
    """The SHA-256 that an image path of a benchmark names."""
    return Path(image).stem


@dataclass(frozen=True)
class Benchmark:
    """A benchmark in memory; pictures stay on disk until :meth:`image_bytes` asks for one."""

    folder: Path
    about: Record
    hash: str
    items: tuple[Item, ...]
    answers: dict[str, Answer] | None = field(repr=False)
    cases: dict[str, CaseKey] | None = field(repr=False)

    @cached_property
    def item(self) -> dict[str, Item]:
        """Items by id."""
        return {item.item_id: item for item in self.items}

    @property
    def name(self) -> str:
        """The benchmark's own name."""
        return str(self.about["name"])

    @property
    def is_phantom(self) -> bool:
        """Whether the radiographs are drawn: a software test, without clinical meaning."""
        return bool(self.about["data"] == "phantom")

    @property
    def conversation_texts(self) -> dict[str, Any]:
        """The question bank's words around the questions (system prompt, picture announcements, answer forms)."""
        texts: dict[str, Any] = self.about["question_bank"]["conversation"]
        return texts

    def key(self, needed_by: str) -> tuple[dict[str, Answer], dict[str, CaseKey]]:
        """Answers by item id and cases by case id; ``InputError`` that names ``needed_by`` where they are withheld."""
        if self.answers is None or self.cases is None:
            raise InputError(
                f"{self.folder / ANSWERS}: not there, and {needed_by} needs the key; put it beside {ITEMS}."
            )
        return self.answers, self.cases

    def image_bytes(self, image: str) -> bytes:
        """The PNG file's bytes, checked against the hash in its name."""
        path = self.folder / image
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); restore it.") from None
        if sha256(data) != image_digest(image):
            raise InputError(f"{path}: the picture was changed after the benchmark was written; restore it.")
        return data


def load(folder: Path) -> Benchmark:
    """Read a benchmark folder; items and key are checked against schemas and hashes, pictures when they are used."""
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name the folder of a benchmark made by 'chexqa generate'.")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a benchmark made by 'chexqa generate'.")
    if not (folder / ABOUT).is_file():
        raise InputError(
            f"{folder}: holds no {ABOUT}, so it is no finished benchmark; make one with 'chexqa generate'."
        )
    about = read_json(folder / ABOUT, "benchmark")
    for name in (ITEMS, ANSWERS, SKIPPED):
        path = folder / name
        if name != ITEMS and not path.exists():
            continue
        _check_hash(path, about["files"].get(name))
    items = tuple(Item.from_record(record) for _, record in read_jsonl(folder / ITEMS, "item"))
    answers, cases = _read_key(folder / ANSWERS) if (folder / ANSWERS).exists() else (None, None)
    benchmark = Benchmark(folder, about, sha256((folder / ABOUT).read_bytes()), items, answers, cases)
    _check_whole(benchmark)
    return benchmark


def _check_hash(path: Path, expected: str | None) -> None:
    try:
        actual = sha256(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    if actual != expected:
        raise InputError(
            f"{path}: changed after the benchmark was written (its hash is not the one in {ABOUT}); restore it."
        )


def _read_key(path: Path) -> tuple[dict[str, Answer], dict[str, CaseKey]]:
    answers: dict[str, Answer] = {}
    cases: dict[str, CaseKey] = {}
    for number, record in read_lines(path):
        is_item = isinstance(record, dict) and "item_id" in record
        check(record, "answer" if is_item else "answer_case", f"{path}, line {number}")
        if is_item:
            answers[record["item_id"]] = Answer.from_record(record)
        else:
            cases[record["case_id"]] = CaseKey(**record)
    return answers, cases


def _check_whole(benchmark: Benchmark) -> None:
    """Ids are unique, kinds stand where they belong, and every item has a key with options it really has."""
    where = benchmark.folder / ITEMS
    twice = [item_id for item_id, count in Counter(item.item_id for item in benchmark.items).items() if count > 1]
    if twice:
        raise InputError(f"{where}: the item id '{twice[0]}' is given twice.")
    for item in benchmark.items:
        kind = KINDS[item.kind]
        if (item.level, item.stage, item.multi) != (kind.level, kind.stage, kind.multi):
            raise InputError(f"{where}: item '{item.item_id}' has a level, stage or multi that is not its kind's.")
        if [option.n for option in item.options] != list(range(1, len(item.options) + 1)):
            raise InputError(f"{where}: the options of item '{item.item_id}' are not numbered 1, 2, 3, …")
    if benchmark.answers is None or benchmark.cases is None:
        return
    for item in benchmark.items:
        answer = benchmark.answers.get(item.item_id)
        if answer is None or item.case_id not in benchmark.cases:
            raise InputError(f"{benchmark.folder / ANSWERS}: item '{item.item_id}' has no key.")
        if not set(answer.answer) <= {option.n for option in item.options}:
            raise InputError(f"{benchmark.folder / ANSWERS}: item '{item.item_id}' has an answer it has no option for.")


def check_images(benchmark: Benchmark) -> int:
    """Check every picture the items use against its hash; returns how many there are."""
    images = sorted(set().union(*(item.image_paths for item in benchmark.items)))
    for image in images:
        benchmark.image_bytes(image)
    return len(images)


def conversations(items: Iterable[Item]) -> list[tuple[Item, ...]]:
    """Items grouped into conversations in asking order: a case's perception items together, a grid item alone."""
    groups: dict[tuple[str, bool], list[Item]] = {}
    for item in items:
        groups.setdefault((item.case_id, item.kind == GRID), []).append(item)
    return [tuple(sorted(group, key=lambda item: item.seq)) for group in groups.values()]


def count_items(items: Iterable[Item], cases: Iterable[CaseKey]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Items per kind, and cases per finding and path (cases without a path left out)."""
    rows = list(items)
    kinds = Counter(item.kind for item in rows)
    finding = {item.case_id: item.finding for item in rows}
    paths: dict[str, dict[str, int]] = {}
    for case in cases:
        if case.path is not None:
            counts = paths.setdefault(finding[case.case_id], dict.fromkeys(PATHS, 0))
            counts[case.path] += 1
    return {kind: kinds[kind] for kind in KINDS}, dict(sorted(paths.items()))


@dataclass(frozen=True)
class Origin:
    """What a benchmark was made from: recipes and question bank as records, seed, and the kind of data."""

    name: str
    version: str
    seed: int
    recipes: tuple[Record, ...]
    bank: Record
    data: str


@dataclass(frozen=True)
class Contents:
    """What a benchmark holds, in the order it is written."""

    items: tuple[Item, ...]
    answers: tuple[Answer, ...]
    cases: tuple[CaseKey, ...]
    skipped: tuple[Record, ...] = ()
    shortfall: tuple[Record, ...] = ()


def record_hash(record: Record) -> str:
    """SHA-256 of a recipe's or bank's content, whatever its layout as a file."""
    return sha256(dump(record).encode())


def write_files(folder: Path, origin: Origin, contents: Contents) -> Record:
    """Write the JSON files of a benchmark into ``folder``, where its pictures lie; returns ``benchmark.json``."""
    write_jsonl(folder / ITEMS, (item.to_record() for item in contents.items), "item")
    _write_key(folder / ANSWERS, contents)
    write_jsonl(folder / SKIPPED, contents.skipped, "skipped")
    files = {name: sha256((folder / name).read_bytes()) for name in (ITEMS, ANSWERS, SKIPPED)}
    kinds, paths = count_items(contents.items, contents.cases)
    access = Counter(case.access for case in contents.cases)
    images = set().union(*(item.image_paths for item in contents.items))
    about: Record = {
        "schema_version": 1,
        "name": origin.name,
        "version": origin.version,
        "tool_version": __version__,
        "seed": origin.seed,
        "recipes": [{"name": recipe["name"], "hash": record_hash(recipe)} for recipe in origin.recipes],
        "question_bank": {
            "name": origin.bank["name"],
            "language": origin.bank["language"],
            "hash": record_hash(origin.bank),
            "conversation": origin.bank["conversation"],
        },
        "data": origin.data,
        "access": {"open": access["open"], "credentialed": access["credentialed"]},
        "counts": {
            "cases": len(contents.cases),
            "items": len(contents.items),
            "skipped": len(contents.skipped),
            "images": len(images),
            "kinds": kinds,
            "paths": paths,
        },
        "shortfall": list(contents.shortfall),
        "files": files,
        "canary": f"CHEXQA BENCHMARK DATA, NOT FOR TRAINING {files[ITEMS][:32]}",
    }
    write_json(folder / ABOUT, about, "benchmark")
    return about


def _write_key(path: Path, contents: Contents) -> None:
    """Case lines first, then item lines, in one file."""
    cases = [case.to_record() for case in contents.cases]
    answers = [answer.to_record() for answer in contents.answers]
    for record in cases:
        check(record, "answer_case", f"{path}, case '{record['case_id']}'")
    for record in answers:
        check(record, "answer", f"{path}, item '{record['item_id']}'")
    write_bytes(path, "".join(dump(record) + "\n" for record in cases + answers).encode())
