"""Export of a review: the batch file and, for every reviewer, a folder with sheets, viewers and pictures.

- ``OUT/review.json``: the batch file.
- ``OUT/NAME``: the folder of the reviewer NAME, with a sheet, an HTML viewer and the folder ``pictures``.
- ``OUT/NAME-1-blind-part-1``, …: the folders of blind sheets, one for each round of questions.
- ``OUT/NAME-2``: the folder of the sheet with proposals, written after the blind sheets have come back
  (:mod:`chexqa.review.followup.second_part`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from chexqa.files import atomic
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, write_json
from chexqa.files.seeds import digest
from chexqa.files.terminal import plural
from chexqa.review import columns
from chexqa.review.assignment import Share, deal, read_cases, with_decoys
from chexqa.review.columns import SheetKind
from chexqa.review.export_options import Wish as Wish
from chexqa.review.export_options import check_wish, chosen, drawn_blind, kinds_of
from chexqa.review.sheets import instructions
from chexqa.review.sheets.cover_tab import About, notices
from chexqa.review.sheets.masks_sheet import Masks, check_signers, drawn, write_csv
from chexqa.review.sheets.pictures import PICTURES, FullPictures, Page, Plate, write_viewer
from chexqa.review.sheets.questions import Entry, Pic, Questions
from chexqa.review.sheets.sheet import PICTURE_BOX, Book, ShownItem, Tab, write_workbook
from chexqa.review.sheets.source import Source as Source
from chexqa.review.sheets.source import bench_source as bench_source
from chexqa.review.sheets.source import mask_source as mask_source
from chexqa.review.sheets.source import questions
from chexqa.review.sheets.thumbnails import Thumb, compose, room_for
from chexqa.review.study.design import Design, design_study, without_seen
from chexqa.review.study.feedback import study_rows
from chexqa.version import __version__

WORK = ".work"
Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


class Content(NamedTuple):
    """Content of a sheet, from which its page is written.

    - ``book``: the workbook; ``entries``: its rows, keyed by row id.
    - ``material``: the items or masks under review; ``full``: the files of their full-size pictures.
    - ``part``: the number of this part of the sheet, from 1, and the number of parts.
    """

    book: Book
    entries: Mapping[str, Entry]
    material: Questions | Masks
    full: FullPictures
    part: tuple[int, int] = (1, 1)


class Place(NamedTuple):
    """Path of a file in an export's folder, and the part of the sheet that is in the file (see :class:`Content`)."""

    file: str
    part: tuple[int, int] = (1, 1)


class Written(NamedTuple):
    """Written review page; ``source_bytes`` is the size of the files with radiographs in their original resolution."""

    file: str
    rows: int
    source_bytes: int = 0


# Function that writes a page beside a sheet. Its arguments are the export's folder, the sheet's name and its content.
Beside = Callable[[Path, str, Content], Written]


@dataclass(frozen=True)
class Done:
    """Result of an export.

    - ``sheets``: the file and number of rows of each sheet; ``left_out``: the reasons for cases left out.
    - ``later``: the sheets of the batch that are not written yet.
    - ``pages``: the pages written beside or instead of sheets.
    - ``decoys``: the number of cases without the finding that were added to the blind questions.
    - ``in_parts``: True if a sheet has several files, to be done one after the other.
    """

    folder: Path
    sheets: tuple[tuple[str, int], ...]
    cases: int
    shared: int
    left_out: tuple[str, ...] = field(default=())
    patients: int = 0
    later: tuple[str, ...] = ()
    pages: tuple[Written, ...] = ()
    decoys: int = 0
    in_parts: bool = False


def export(
    path: Path, out: Path, wish: Wish, image_root: Path | None, progress: Progress, beside: Beside | None = None
) -> Done:
    """Assign the items or masks of ``path`` to reviewers and write all sheets to the new folder ``out``.

    - ``progress``: shows a progress bar, such as :func:`chexqa.files.terminal.progress`.
    - ``beside``: writes a page beside each sheet.
    """
    check_wish(wish)
    with new_folder(out) as folder:
        done = _write(path, folder, wish, image_root, progress, beside)
    return replace(done, folder=out)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes ``out`` unless an error is raised."""
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists already, and its sheets may be filled in; choose another folder.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: the folder {out.absolute().parent} does not exist; make it first.")
    with atomic.new_folder(out) as folder:
        (folder / WORK / PICTURES).mkdir(parents=True)
        yield folder
        shutil.rmtree(folder / WORK)


def _write(
    path: Path, folder: Path, wish: Wish, image_root: Path | None, progress: Progress, beside: Beside | None
) -> Done:
    material: Questions | Masks
    if wish.what == "masks":
        source, material, left_out = _masks(path, folder / WORK, image_root, progress, wish.manifest)
    else:
        source, material = questions(path, wish.manifest, image_root, wish.runs)
        left_out = ()
    named = None if wish.cases is None else read_cases(wish.cases)
    if named is not None and isinstance(material, Questions) and not wish.blind_answers:
        material, named = material.narrowed(named)
    everything = material.works
    if wish.study is not None:
        everything = without_seen(everything, wish.reviewers, wish.study)
    works = chosen(everything, wish, path, named)
    if isinstance(material, Masks) and wish.only == "redrawn":
        check_signers(material, wish.reviewers)
    shares = deal(works, wish.reviewers, wish.overlap, wish.readers, wish.seed)
    if wish.what == "items" and not wish.blind_answers:
        shares = with_decoys(shares, works, wish.seed)
    idle = [share.reviewer for share in shares if not share.cases]
    if idle:
        raise InputError(
            f"{path}: {idle[0]} would get no case, because there {'is' if len(works) == 1 else 'are'} only "
            f"{plural(len(works), 'case')} to judge; name fewer reviewers or give more cases."
        )
    dropped = [sorted(material.dropped)] if isinstance(material, Questions) and material.dropped else []
    batch = "r-" + digest(source.hash, repr(wish), [share.cases for share in shares], *dropped).hex()[:12]
    design = None
    if wish.study is not None and isinstance(material, Questions):
        dealt = {share.reviewer: material.items_of(share.cases) for share in shares}
        design = design_study(wish.study, everything, works, dealt, wish.seed)
    maker = Maker(source, material, wish, batch, folder, beside=beside, design=design)
    if len(everything) == len(material.works):
        maker.drawn = drawn_blind(everything, works, shares, wish)
    plan = [(share, kind) for share in shares for kind in kinds_of(wish, bool(share.shared))]
    later = [(share, kind) for share, kind in plan if kind == "items" and share.shared and not wish.both_parts]
    size = {work.case_id: work.size for work in everything}
    rows = sum(size[case] for share, kind in plan if (share, kind) not in later for case in maker.cases_of(share, kind))
    with progress("writing sheets", rows) as step:
        sheets = [
            maker.record(share, kind) if (share, kind) in later else maker.sheet(share, kind, step)
            for share, kind in plan
        ]
    write_json(folder / columns.BATCH_FILE, maker.batch_record(sheets), "review")
    return Done(
        folder,
        tuple(maker.written),
        len(works),
        len({case for share in shares for case in share.shared}),
        left_out,
        len({work.patient for work in works}),
        tuple(sheet["file"] for sheet, part in zip(sheets, plan, strict=True) if part in later),
        tuple(maker.pages),
        len({case for share in shares for case in share.decoys}),
        any("parts" in sheet for sheet in sheets),
    )


def _masks(
    path: Path, work: Path, image_root: Path | None, progress: Progress, manifest: Path | None
) -> tuple[Source, Masks, tuple[str, ...]]:
    """Draw the masks of a manifest or benchmark; return source, masks, and the problem of each case left out."""
    source, subjects = mask_source(path, image_root, manifest)
    with progress("drawing outlines", len(subjects)) as step:
        return source, *drawn(subjects, work, step, str(path))


class Maker:
    """Writer of the sheets of one batch; a picture that several sheets show is made once."""

    def __init__(
        self, source: Source, material: Questions | Masks, wish: Wish, batch: str, folder: Path, votes: int = 0,
        beside: Beside | None = None, design: Design | None = None,
    ) -> None:  # fmt: skip
        """Start a batch.

        - ``votes``: the number of verdicts in a row of an adjudication.
        - ``design``: the design of a reader study.
        """
        self._design = design
        self.pages: list[Written] = []
        self.written: list[tuple[str, int]] = []
        self.drawn: dict[str, float] = {}
        self._votes = votes
        self._beside = beside
        self._source = source
        self._material = material
        self._wish = wish
        self._batch = batch
        self._folder = folder
        self._composed: dict[tuple[str, tuple[Pic, ...]], ShownItem] = {}
        self._full = FullPictures(material, folder / WORK)

    def record(self, share: Share, kind: SheetKind) -> Record:
        """Return a sheet's record for the batch file, without writing the sheet."""
        return self._dealt(share, kind)[0]

    def cases_of(self, share: Share, kind: SheetKind) -> tuple[str, ...]:
        """Return the ids of the cases in a sheet."""
        if kind == "training" and self._design is not None:
            return self._design.training
        return share.blind if kind == "blind" else share.cases

    def _rows(self, share: Share, kind: SheetKind, material: Questions | Masks) -> tuple[list[Tab], dict[str, Entry]]:
        """Return a sheet's tabs, and its rows keyed by row id."""
        tabs, entries = material.tabs(self.cases_of(share, kind), kind)
        if self._design is None or not isinstance(material, Questions):
            return tabs, entries
        return study_rows(self._design, share.reviewer, kind, material.bench, tabs, entries)

    def _dealt(
        self, share: Share, kind: SheetKind
    ) -> tuple[Record, Questions | Masks, list[list[Tab]], dict[str, Entry]]:  # fmt: skip
        """Return a sheet's record for the batch file, its pictures, the tabs of each part, and its rows by id."""
        name = columns.sheet_name(share.reviewer, kind, with_blind=bool(share.shared))
        home = columns.sheet_folder(share.reviewer, kind, with_blind=bool(share.shared))
        material, wrong = self._material, {}
        # Some proposals are wrong on purpose.
        if kind == "items" and isinstance(material, Questions) and self._wish.planted:
            material = material.planted(share.cases, share.reviewer, self._wish.seed, self._wish.planted)
            wrong = {columns.item_row_id(item_id): list(answer) for item_id, answer in material.wrong.items()}
        tabs, entries = self._rows(share, kind, material)
        ending = "csv" if self._wish.csv else "xlsx"
        dealt: Record = {"file": f"{home}/{name}.{ending}", "reviewer": share.reviewer, "kind": kind}
        parts = [tabs]
        if kind in columns.IN_ROUNDS and isinstance(material, Questions):
            parts = material.rounds(tabs, self._batch, name)
        if len(parts) > 1:
            dealt["parts"] = [f"{part}/{part}.{ending}" for part in columns.part_names(name, len(parts))]
        rows = [row.row_id for own in parts for tab in own for row in tab.rows]
        dealt |= {"rows": rows, "seen": [entries[row].seen for row in rows]}
        return {**dealt, "planted": wrong} if wrong else dealt, material, parts, entries

    def sheet(self, share: Share, kind: SheetKind, step: Callable[[], None]) -> Record:
        """Write one sheet, or its parts, with viewer and pictures; return its entry in the batch file."""
        record, material, parts, entries = self._dealt(share, kind)
        files = record.get("parts", [record["file"]])
        for number, (file, tabs) in enumerate(zip(files, parts, strict=True), start=1):
            own = {row.row_id: entries[row.row_id] for tab in tabs for row in tab.rows}
            place = Place(file, (number, len(files)))
            self.write_rows(place, kind, share.reviewer, tabs, own, material, step)
        return record

    def write(
        self, file: str, kind: SheetKind, reviewer: str, cases: Sequence[str], material: Questions | Masks,
        step: Callable[[], None],
    ) -> None:  # fmt: skip
        """Write a sheet of the cases as ``file`` in the batch's folder, with its viewer and pictures beside it."""
        self.write_rows(Place(file), kind, reviewer, *material.tabs(cases, kind), material, step)

    def write_rows(
        self, place: Place, kind: SheetKind, reviewer: str, tabs: Sequence[Tab], entries: Mapping[str, Entry],
        material: Questions | Masks, step: Callable[[], None], failed_import: int | None = None,
    ) -> None:  # fmt: skip
        """Write one sheet for a reviewer, with the page or the viewer beside it.

        ``failed_import`` is the number (from 1) of the import that could not read these rows; None if the rows are new.
        """
        path = self._folder / place.file
        name = path.stem
        viewer = f"{name}.html"
        on_masks = isinstance(material, Masks)
        told = self._design.told() if self._design is not None else instructions.DISPUTED * (on_masks and self._votes)
        about = About(
            "masks" if on_masks else kind, reviewer, self._title, len(entries), self._source.phantom,
            self._material.is_credentialed, viewer, self._source.canary, failed_import is not None, told, place.part,
        )  # fmt: skip
        marks = {
            columns.BENCHMARK: columns.benchmark_mark(self._source.hash),
            columns.REVIEWER: reviewer,
            columns.BATCH: self._batch,
        }
        book = Book(kind, tabs, marks, about, self._votes, failed_import)
        if self._wish.page_only:
            for _ in entries:
                step()
        else:
            self._write_sheet(path, book, entries, step)
        self.written.append((place.file, len(entries)))
        if self._beside is not None:
            self.pages.append(
                self._beside(self._folder, name, Content(book, entries, material, self._full, place.part))
            )

    def _write_sheet(self, path: Path, book: Book, entries: Mapping[str, Entry], step: Callable[[], None]) -> None:
        """Write a sheet with its viewer and pictures."""
        home, name = path.parent, path.stem
        (home / PICTURES).mkdir(parents=True, exist_ok=True)
        plates = self._plates(entries, home)
        pages = [
            Page(
                row.row_id, tab.name, number, entries[row.row_id].question, entries[row.row_id].options,
                plates[row.row_id],
            )
            for tab in book.tabs
            for number, row in enumerate(tab.rows, start=1)
        ]  # fmt: skip
        write_viewer(home / f"{name}.html", f"{name}: {self._title}", notices(book.about), pages)
        if path.suffix == ".csv":
            assert isinstance(self._material, Masks), "only mask sheets are written as csv"
            # A csv names one file per row, so all pictures of a row go into one file.
            plots = {row_id: self._material.place(entry.full[-1].image, home) for row_id, entry in entries.items()}
            write_csv(path, book, entries, self._material.by_case, plots)
        else:
            self._write_workbook(path, book, entries, step)

    def _plates(self, entries: Mapping[str, Entry], home: Path) -> dict[str, tuple[Plate, ...]]:
        """Write the full-size pictures of the rows into ``home``; return the viewer's pictures, keyed by row id."""
        self._full.encode_all(pic.image for row in entries.values() for pic in row.full)
        return {
            row_id: tuple(Plate(pic.label, *self._full.put(pic.image, home)) for pic in entry.full)
            for row_id, entry in entries.items()
        }

    def _write_workbook(self, path: Path, book: Book, entries: Mapping[str, Entry], step: Callable[[], None]) -> None:
        """Write a workbook; its pictures, the slowest step, are made by several threads."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            pictures = {row_id: pool.submit(self._picture, entry) for row_id, entry in entries.items()}
            write_workbook(path, book, lambda row: pictures[row.row_id].result(), f"{path.stem}.html", step)

    @property
    def _title(self) -> str:
        version = f" version {self._source.version}" if self._source.version else ""
        return f"{self._source.name}{version}"

    def _picture(self, entry: Entry) -> ShownItem:
        key = entry.row.row_id, entry.small
        if key not in self._composed:
            room = room_for(len(entry.small), any(pic.label for pic in entry.small), PICTURE_BOX)
            thumbs = [Thumb(pic.label, self._material.small(pic.image, room)) for pic in entry.small]
            data, (width, height) = compose(entry.row.row_id, thumbs, PICTURE_BOX)
            path = self._folder / WORK / f"{digest(*key).hex()}.jpg"
            path.write_bytes(data)
            self._composed[key] = ShownItem(path, width, height)
        return self._composed[key]

    def batch_record(self, sheets: Sequence[Record]) -> Record:
        """Return the content of the batch file."""
        wish, source = self._wish, self._source
        return {
            "schema_version": 2,
            "tool_version": __version__,
            "batch": self._batch,
            "what": wish.what,
            "blind_answers": wish.blind_answers,
            "benchmark": {
                "name": source.name,
                "version": source.version,
                "hash": source.hash,
                "path": str(source.path),
            },
            "data": "phantom" if source.phantom else "real",
            "credentialed": self._material.is_credentialed,
            "reviewers": list(wish.reviewers),
            "overlap": wish.overlap,
            "overlap_readers": wish.readers,
            "only": wish.only,
            "sample": wish.sample,
            "seed": wish.seed,
            **({"drawn": self.drawn} if self.drawn else {}),
            **({} if self._design is None else {"study": self._design.to_record()}),
            "sheets": list(sheets),
            **({"manifest": str(wish.manifest)} if wish.manifest is not None else {}),
            **({"runs": [str(run) for run in wish.runs]} if wish.runs else {}),
        }
