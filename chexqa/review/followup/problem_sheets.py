"""Correction sheets: sheets with the rows that an import could not read, for reviewers to correct.

For each exported sheet with unreadable rows, one correction sheet is written. The sheets of the first import with
problems are in ``problems/round-1``, those of the second in ``problems/round-2``, and so on. ``problems`` lies in the
batch's folder, so that rounds of different reviews stay apart. The folder of a round is never overwritten, because a
reviewer may be filling in its sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.files.errors import InputError
from chexqa.review import columns
from chexqa.review.collect.choose_rows import BadRow
from chexqa.review.collect.title_rows import read_files, sheet_files
from chexqa.review.collect.verdicts import Batch, Dealt, reviewed_folder
from chexqa.review.columns import SheetKind
from chexqa.review.export_options import Wish
from chexqa.review.followup.mask_adjudication_sheet import DisputedMasks
from chexqa.review.sheets.export import WORK, Maker, Place, Progress, Source, bench_source, mask_source, new_folder
from chexqa.review.sheets.masks_sheet import Masks
from chexqa.review.sheets.questions import Entry, Questions
from chexqa.review.sheets.sheet import Tab
from chexqa.review.study.design import case_of

FOLDER, FILE = "problems", "problems.xlsx"


class CorrectionSheet(NamedTuple):
    """A written correction sheet: its reviewer, its file and its number of rows."""

    reviewer: str
    path: Path
    rows: int


@dataclass(frozen=True)
class _Adjudicated(Questions):
    """Items of an adjudication sheet; ``said`` has each row's verdicts as they came back, keyed by row id and title."""

    said: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    blind: bool = False
    takes_places: ClassVar[bool] = False

    def entry(self, item: Item, kind: SheetKind) -> Entry:
        """Return one item's row with the readers' verdicts."""
        entry = super().entry(item, "blind" if self.blind else kind)
        votes = self.said.get(entry.row.row_id, {})
        return replace(entry, row=replace(entry.row, cells={**entry.row.cells, **votes}))


def write_problem_sheets(
    batch: Batch, loaded: Benchmark | None, bad: Iterable[BadRow], image_root: Path | None, given: Path | None,
    progress: Progress,
) -> list[CorrectionSheet]:  # fmt: skip
    """Write correction sheets into the folder ``problems`` beside the batch file, and return them.

    If the newest correction sheets have the same rows and problems, nothing is written, and those sheets are returned.
    A row of an adjudication is left out if somebody changed the verdicts that it shows.

    - ``loaded``: the benchmark, or ``None`` for a manifest.
    - ``given``: the manifest's path; None for the path in the batch file.

    Raises ``InputError`` if pictures cannot be read.
    """
    rows = [row for row in bad if _votes(row) is not None]
    sheets: dict[str, list[BadRow]] = {}
    for row in rows:
        sheets.setdefault(row.dealt.name, []).append(row)
    if not rows:
        return []
    place = batch.path.parent / FOLDER
    number = _newest(place)
    if number and _said(place / _round(number)) == {(row.dealt.name, row.row_id): row.text for row in rows}:
        return _listed(sheets, place / _round(number))
    number += 1
    place.mkdir(exist_ok=True)
    with new_folder(place / _round(number)) as folder, progress("writing rows to correct", len(rows)) as step:
        for name, own in sheets.items():
            source, material = _material(batch, loaded, own, image_root, given, folder / WORK)
            maker = Maker(source, material, _wish(batch), batch.name, folder, _count_votes(own))
            dealt = own[0].dealt
            tabs, entries = _only(material, dealt.kind, own, number)
            maker.write_rows(Place(f"{name}/{FILE}"), dealt.kind, dealt.reviewer, tabs, entries, material, step, number)
    return _listed(sheets, place / _round(number))


def _round(number: int) -> str:
    return f"round-{number}"


def _listed(sheets: Mapping[str, Sequence[BadRow]], folder: Path) -> list[CorrectionSheet]:
    return [CorrectionSheet(rows[0].dealt.reviewer, folder / name / FILE, len(rows)) for name, rows in sheets.items()]


def _newest(place: Path) -> int:
    numbers = [path.name.removeprefix("round-") for path in place.glob("round-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _said(folder: Path) -> dict[tuple[str, str], str]:
    """Return the problem of each row in a folder of earlier correction sheets, keyed by sheet and row id."""
    found = {}
    for path, inside in sheet_files([folder]).items():
        for row in read_files({path: inside}).rows:
            number = columns.problem_number(row.titles)
            text = row.cells.get(columns.problem_title(number), "")
            found[path.parent.name, row.cells.get(columns.ID, "")] = text
    return found


def _votes(row: BadRow) -> dict[str, str] | None:
    """Return the readers' verdicts that a row of an adjudication shows, keyed by title; empty for any other row.

    Returns ``None`` if the verdicts differ from those in the exported sheet.
    """
    if row.dealt.kind != "adjudication":
        return {}
    votes = {title: text for title, text in row.cells.items() if title.startswith("reviewer ")}
    changed = columns.changed_titles(row.cells)
    return None if changed is None or set(changed) & votes.keys() else votes


def _count_votes(rows: Iterable[BadRow]) -> int:
    return max((len(_votes(row) or ()) for row in rows), default=0)


def _wish(batch: Batch) -> Wish:
    about = batch.about
    return Wish(tuple(about["reviewers"]), about["overlap"], about["overlap_readers"], about["what"])


def _only(
    material: Questions | Masks, kind: SheetKind, bad: Sequence[BadRow], number: int
) -> tuple[list[Tab], dict[str, Entry]]:
    """Return the tabs with only the rows ``bad``, each with its problem and the reviewer's earlier entries."""
    wanted = {row.row_id: row for row in bad}
    cases = list(dict.fromkeys(case_of(row_id) for row_id in wanted))
    tabs, entries = material.tabs(cases, kind)
    corrected = {}
    for row_id, row in wanted.items():
        shown = entries[row_id].row
        cells = {**shown.cells, columns.problem_title(number): row.text}
        corrected[row_id] = replace(entries[row_id], row=replace(shown, cells=cells, entries=row.entries))
    kept = [Tab(tab.name, [corrected[row.row_id].row for row in tab.rows if row.row_id in corrected]) for tab in tabs]
    return [tab for tab in kept if tab.rows], corrected


def _material(
    batch: Batch, loaded: Benchmark | None, rows: Sequence[BadRow], image_root: Path | None, given: Path | None,
    work: Path,
) -> tuple[Source, Questions | Masks]:  # fmt: skip
    dealt = rows[0].dealt
    if loaded is None:
        return _masks(batch, dealt, rows, image_root, given, work)
    wrong = {row_id.removeprefix("i-"): answer for row_id, answer in dealt.planted.items()}
    if dealt.kind == "adjudication":
        said = {row.row_id: _votes(row) or {} for row in rows}
        return bench_source(loaded), _Adjudicated(loaded, wrong, said=said, blind=dealt.key_unmarked)
    return bench_source(loaded), Questions(loaded, wrong)


def _masks(
    batch: Batch, dealt: Dealt, rows: Sequence[BadRow], image_root: Path | None, given: Path | None, work: Path
) -> tuple[Source, Masks]:
    """Return the source and the masks of the given rows only; rows of an adjudication get the readers' verdicts."""
    path = reviewed_folder(batch, given)
    wanted = {row.row_id for row in rows}
    source, subjects = mask_source(path, image_root)
    source = source._replace(hash=batch.hash)  # the hash of the manifest that was exported
    own = [subject for subject in subjects if columns.mask_row_id(subject.case_id) in wanted]
    if len(own) < len(wanted):
        raise InputError(
            f"{path}: lacks cases of the sheet '{dealt.name}'; give --benchmark with the manifest from which the "
            "masks were exported."
        )
    masks = DisputedMasks(tuple(own), work, said={row.row_id: _votes(row) or {} for row in rows})
    for subject in own:
        masks.draw(subject)
    return source, masks
