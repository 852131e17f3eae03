"""Exported sheets (the batch) and the verdicts that reviewers gave in them (the store, ``verdicts.jsonl``).

The store has one line for each sheet row in which a reviewer wrote anything. A line is identified by batch, sheet and
row, so importing a sheet twice gives the same store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from chexqa.contract import benchmark, codec
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.prompts.parser_places import fits_form
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_json, read_jsonl, write_jsonl
from chexqa.files.opening import real
from chexqa.review.binding import proposal_seen, question_seen
from chexqa.review.columns import (
    ASKING,
    BATCH_FILE,
    COUNTED,
    FIX,
    REJECT,
    SheetKind,
    benchmark_mark,
    check_name,
    is_mask_row,
    item_row_id,
)

STORE = "verdicts.jsonl"
# Lines of version 1 have neither a version nor the hash 'seen'.
STORE_VERSION = 2
_OPTIONAL = ("seen", "planted", "carried", "earlier", "place")
VerdictKey = tuple[str, str, str]


@dataclass(frozen=True)
class Verdict:
    """Reviewer's entries in one row of a sheet, with the fields of the schema ``verdict``.

    - ``answer``: option numbers, sorted.
    - ``seen``: the hash of the content that the row showed (:mod:`chexqa.review.binding`); ``None`` in old stores.
    - ``planted``: the proposed answer, if the proposal was wrong on purpose.
    - ``carried``: the hash of the benchmark from which the verdict was carried over.
    - ``earlier``: earlier entries of the row, oldest first, each with the time and file of its import.
    - ``place``: the shapes of a typed place, each ``x, y, x, y, …`` in pixels of the item's picture. It is empty for
      "nowhere", and None if no place was typed.
    """

    batch: str
    benchmark: str
    sheet: str
    kind: SheetKind
    reviewer: str
    row: str
    verdict: str | None
    answer: tuple[int, ...] | None
    reason: str | None
    comment: str | None
    seconds: float | None
    imported: str
    source: Mapping[str, Any]
    seen: str | None = None
    planted: tuple[int, ...] | None = None
    carried: str | None = None
    earlier: tuple[Record, ...] | None = None
    place: tuple[tuple[float, ...], ...] | None = None

    @property
    def key(self) -> VerdictKey:
        """The identity of a verdict: batch, sheet and row."""
        return self.batch, self.sheet, self.row

    @property
    def said(self) -> tuple[object, ...]:
        """The reviewer's entries, without the time and file of their import."""
        return self.verdict, self.answer, self.reason, self.comment, self.place

    @property
    def is_empty(self) -> bool:
        """True if the row has no entry."""
        return not any(entry is not None for entry in self.said)

    @property
    def is_judged(self) -> bool:
        """True if the row is finished: it has a verdict, an answer, or a reason for giving none."""
        return self.verdict is not None or self.answer is not None or (self.asks_answer and self.reason is not None)

    @property
    def lacks_reason(self) -> bool:
        """True for a verdict "fix" or "reject" on an item, without a reason and without a comment.

        False for every verdict on a mask.
        """
        # CheXpercept's own sheets of masks have no column for a reason, and a reviewer can redraw a mask instead.
        objects = self.verdict in (FIX, REJECT) and not self.is_on_mask
        return objects and self.reason is None and self.comment is None

    def after(self, old: Verdict) -> Verdict:
        """Return a copy of this verdict that replaces ``old``; its ``earlier`` has ``old.earlier`` and then ``old``."""
        answer = None if old.answer is None else list(old.answer)
        said: Record = {
            "verdict": old.verdict, "answer": answer, "reason": old.reason, "comment": old.comment,
            "imported": old.imported, "source": dict(old.source),
            **({} if old.place is None else {"place": list(map(list, old.place))}),
        }  # fmt: skip
        return replace(self, earlier=(*(old.earlier or ()), said))

    @property
    def asks_answer(self) -> bool:
        """True if the verdict's sheet asks for an answer and does not show the key."""
        return self.kind in ASKING

    @property
    def is_counted_answer(self) -> bool:
        """True for an answer that the reviewer gave without seeing the key; answers in training and to repeated items
        do not count.
        """
        return self.kind in COUNTED and self.answer is not None

    @property
    def is_on_mask(self) -> bool:
        """True if the verdict is on a mask, False if it is on an item."""
        return is_mask_row(self.row)

    @property
    def counts(self) -> bool:
        """True if the verdict is about the key, False if it is about a proposal that is wrong on purpose."""
        return self.planted is None

    @classmethod
    def from_record(cls, record: Record) -> Verdict:
        """Return the verdict from a record that was checked against the schema."""
        return codec.decode(cls, record)

    def to_record(self) -> Record:
        """Return the JSON form; a verdict read without ``seen`` is written without it."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record = {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}
        record["place"] = None if self.place is None else list(map(list, self.place))
        record = {name: value for name, value in record.items() if value is not None or name not in _OPTIONAL}
        return record if self.seen is None else {"schema_version": STORE_VERSION, **record}


@dataclass(frozen=True)
class Dealt:
    """One exported sheet; ``name`` is the file's name without extension.

    - ``rows``: the ids of the rows.
    - ``seen``: the hash of each row's content, keyed by row id.
    - ``planted``: the proposals that are wrong on purpose, keyed by row id.
    - ``key_unmarked``: True for an adjudication sheet that shows the key among the readers' answers and does not mark
      it.
    """

    name: str
    reviewer: str
    kind: SheetKind
    rows: frozenset[str]
    seen: Mapping[str, str] = field(default_factory=dict, compare=False)
    planted: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False)
    key_unmarked: bool = False


@dataclass(frozen=True)
class Batch:
    """Batch: the sheets of one export, as the batch file ``review.json`` describes them."""

    path: Path
    about: Record

    @property
    def name(self) -> str:
        """The batch's id, as its sheets show it."""
        return str(self.about["batch"])

    @property
    def hash(self) -> str:
        """The hash of the benchmark or manifest under review."""
        return str(self.about["benchmark"]["hash"])

    @property
    def mark(self) -> str:
        """The text of the column ``benchmark`` in the batch's sheets, which identifies the reviewed benchmark."""
        return benchmark_mark(self.hash)

    @property
    def label(self) -> str:
        """The name, version and short hash of the benchmark or manifest under review, for messages."""
        about = self.about["benchmark"]
        version = f" version {about['version']}" if about["version"] is not None else ""
        return f"'{about['name']}'{version} ({self.mark})"

    @cached_property
    def sheets(self) -> dict[tuple[str, str], Dealt]:
        """The batch's sheets, keyed by ``(sheet kind, reviewer)``, such as ``("blind", "anna")``."""
        dealt = [
            Dealt(
                PurePosixPath(sheet["file"]).stem, sheet["reviewer"], sheet["kind"], frozenset(sheet["rows"]),
                dict(zip(sheet["rows"], sheet.get("seen", ()), strict=False)),
                {row: tuple(answer) for row, answer in sheet.get("planted", {}).items()},
                sheet.get("key_unmarked", False),
            )
            for sheet in self.about["sheets"]
        ]  # fmt: skip
        return {(sheet.kind, sheet.reviewer): sheet for sheet in dealt}


def load_batch(path: Path) -> Batch:
    """Read a batch file; ``path`` is the file ``review.json`` or its folder."""
    inside = path if path.is_dir() else None
    if inside is not None:
        if not (path / BATCH_FILE).is_file():
            raise InputError(f"{path}: contains no {BATCH_FILE}; name the folder that 'chexqa review export' wrote.")
        path = path / BATCH_FILE
    about = read_json(path, "review", inside)
    for name in (*about["reviewers"], *(sheet["reviewer"] for sheet in about["sheets"])):
        check_name(name, str(path))
    for file in (sheet["file"] for sheet in about["sheets"]):
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            raise InputError(
                f"{path}: the sheet '{file}' is outside the folder of this file; give a path below that folder."
            )
    return Batch(path, about)


def reviewed_folder(batch: Batch, given: Path | None) -> Path:
    """Return the path of the benchmark or manifest that a batch is about.

    If ``given`` is None, three paths are tried: the path in the batch file, the same path relative to the batch's
    folder, and a file or folder of this name in the parent of the batch's folder. Raises ``InputError`` if ``given``
    does not exist, or if none of the three paths exists.
    """
    recorded = Path(batch.about["benchmark"]["path"])
    beside = real(batch.path).parent
    for place in [given] if given else [recorded, beside / recorded, beside.parent / recorded.name]:
        if place.exists():
            return place
    if given:
        raise InputError(f"--benchmark {given}: does not exist; give the present path of {recorded.name}.")
    raise InputError(f"{recorded}: does not exist, but {batch.path} names it; give its present path as --benchmark.")


def recorded_manifest(batch: Batch) -> Path | None:
    """Return the path of the manifest that a reviewed benchmark was made from; ``None`` if unknown or missing."""
    if "manifest" not in batch.about:
        return None
    recorded, beside = Path(batch.about["manifest"]), real(batch.path).parent
    places = (recorded, beside / recorded, beside.parent / recorded.name)
    return next((place for place in places if place.exists()), None)


def recorded_runs(batch: Batch) -> tuple[Path, ...]:
    """Return the paths of the runs whose answers (points, boxes) the sheets draw beside the proposals.

    Raises ``InputError`` if a run is missing.
    """
    found = []
    for recorded in map(Path, batch.about.get("runs", ())):
        places = (recorded, real(batch.path).parent / recorded, real(batch.path).parent.parent / recorded.name)
        there = next((place for place in places if place.exists()), None)
        if there is None:
            raise InputError(
                f"{batch.path}: the sheets show points and boxes from the run {recorded}, but this run was not found; "
                f"copy its folder into {real(batch.path).parent.parent}."
            )
        found.append(there)
    return tuple(found)


def load_reviewed(batch: Batch, given: Path | None) -> Benchmark:
    """Load the benchmark that a batch is about.

    ``given`` is the benchmark's folder; None: the folder that the batch names. Raise ``InputError`` if this folder has
    another benchmark or another version.
    """
    loaded = benchmark.load(reviewed_folder(batch, given))
    if loaded.hash != batch.hash:
        raise InputError(
            f"{loaded.folder}: is '{loaded.name}' version {loaded.about['version']} ({benchmark_mark(loaded.hash)}), "
            f"but {batch.path} is about {batch.label}; give the reviewed benchmark as --benchmark."
        )
    return loaded


def read_store(path: Path) -> dict[VerdictKey, Verdict]:
    """Return the verdicts of a store, keyed by batch, sheet and row, in the store's order.

    ``path`` is the store's file or its folder.
    """
    inside = path if path.is_dir() else None
    if inside is not None:
        path = path / STORE
    found: dict[VerdictKey, Verdict] = {}
    for line, record in read_jsonl(path, "verdict", inside):
        verdict = Verdict.from_record(record)
        check_name(verdict.reviewer, f"{path}, line {line}")
        if verdict.key in found:
            where = f"{path}, line {line}"
            raise InputError(
                f"{where}: an earlier line also has '{verdict.row}' of sheet '{verdict.sheet}'; remove one of the two "
                "lines."
            )
        found[verdict.key] = verdict
    return found


def write_store(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Write verdicts into a store, sorted by batch, sheet and row; the file is replaced completely or not at all."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.key)
    write_jsonl(path, (verdict.to_record() for verdict in ordered), "verdict")


def _is_on(verdict: Verdict, loaded: Benchmark, item_id: str) -> bool:
    """Return True if a verdict is on this benchmark, or on another benchmark that shows the same item."""
    return verdict.benchmark == loaded.hash or (
        verdict.seen is not None and verdict.counts and verdict.seen == seen_in(loaded, verdict, item_id)
    )


def seen_in(loaded: Benchmark, verdict: Verdict, item_id: str) -> str:
    """Return the hash of what a reviewer would see of the item ``item_id`` of ``loaded``.

    The hash is made from the question and, if the sheet of ``verdict`` showed a proposal, also from the key. If the
    hash equals ``verdict.seen``, the reviewer judged the same content.
    """
    item = loaded.item[item_id]
    if verdict.asks_answer:
        return question_seen(item)
    answers, cases = loaded.key("comparing verdicts")
    return proposal_seen(item, answers[item_id].answer, cases[item.case_id])


def by_item(verdicts: Iterable[Verdict], loaded: Benchmark) -> dict[str, list[Verdict]]:
    """Return the verdicts on a benchmark's items, keyed by item id.

    A verdict given on another benchmark counts if the reviewer saw the same content as the item has in ``loaded``.
    Raises ``InputError`` for any other verdict.
    """
    names = {item_row_id(item.item_id): item.item_id for item in loaded.items}
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.is_on_mask:
            raise InputError(
                f"verdict on '{verdict.row}': is about a mask; give the manifest of the cases, not a benchmark."
            )
        if verdict.row not in names or not _is_on(verdict, loaded, names[verdict.row]):
            raise InputError(
                f"verdict on '{verdict.row}': was given on another benchmark ({benchmark_mark(verdict.benchmark)}); "
                f"the item is missing or different in {loaded.folder} ('{loaded.name}' version "
                f"{loaded.about['version']}, {benchmark_mark(loaded.hash)}); give the benchmark that was reviewed, or "
                "carry over the verdicts on unchanged items with 'chexqa review carry OLD NEW'."
            )
        check_answers(verdict, loaded.item[names[verdict.row]])
        found.setdefault(names[verdict.row], []).append(verdict)
    return found


def check_answers(verdict: Verdict, item: Item) -> None:
    """Raise ``InputError`` if a verdict does not fit its item.

    - All option numbers in ``answer``, ``planted`` and ``earlier`` must be numbers of the item's options.
    - A ``place`` must be one that the item's kind of question asks for.
    """
    where = f"{STORE}, verdict of {verdict.reviewer} on '{verdict.row}'"
    before = {number for one in verdict.earlier or () for number in one["answer"] or ()}
    for name, said in (("answer", verdict.answer), ("planted", verdict.planted), ("earlier", before)):
        wrong = {*(said or ())} - {option.n for option in item.options}
        if wrong:
            raise InputError(
                f"{where}: '{name}' names option {min(wrong)}, but the "
                f"item has options 1 to {len(item.options)}; correct the line, or import the sheet again."
            )
    if verdict.place and not (item.form.is_place and fits_form(item.form.name, verdict.place)):
        raise InputError(
            f"{where}: the field 'place' does not fit a question of kind '{item.kind}'; correct the line, or import "
            "the sheet again."
        )
