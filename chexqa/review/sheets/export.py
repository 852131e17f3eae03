"""Export of a review: a folder for every reviewer with sheets, viewers and pictures, and the batch file.

The batch file is ``OUT/review.json``. A reviewer gets the folder ``OUT/NAME`` with a sheet, an HTML viewer of the same
name, and ``pictures``. If cases are answered blind first, this sheet is ``NAME-1-blind.xlsx``. The sheet with proposals
then has a folder of its own, ``OUT/NAME-2``, which is written when the blind sheet has come back
(:mod:`chexqa.review.collect.second_part`). Everything is written to a temporary folder, which is renamed at the end.
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

from chexqa.contract import benchmark
from chexqa.contract.cases import MANIFEST, Case, read_manifest
from chexqa.files import atomic
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, write_json
from chexqa.files.opening import real, sha256_of
from chexqa.files.seeds import digest
from chexqa.review import columns
from chexqa.review.assignment import Share, deal, with_decoys
from chexqa.review.columns import SheetKind
from chexqa.review.sheets.cover_tab import About, notices
from chexqa.review.sheets.masks_sheet import Masks, from_benchmark, from_manifest, write_csv
from chexqa.review.sheets.pictures import PICTURES, FullPictures
from chexqa.review.sheets.questions import Entry, Pic, Questions, made_from
from chexqa.review.sheets.sheet import PICTURE_BOX, Book, ShownItem, write_workbook
from chexqa.review.sheets.thumbnails import Thumb, compose, room_for
from chexqa.review.sheets.viewer import Page, Plate, write_viewer
from chexqa.review.sheets.wish import Wish as Wish
from chexqa.review.sheets.wish import check_wish, chosen, drawn_blind
from chexqa.version import __version__

WORK = ".work"
Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


class Content(NamedTuple):
    """Content of a sheet, from which pages are written: its book, its rows by id, and their material.

    ``full``: the files of the material's pictures.
    """

    book: Book
    entries: Mapping[str, Entry]
    material: Questions | Masks
    full: FullPictures


class Written(NamedTuple):
    """Written page: its file relative to the export's folder, number of rows, and bytes of its source pixels."""

    file: str
    rows: int
    source_bytes: int = 0


# Writer of what goes beside a sheet, from the export's folder, the sheet's name and its content.
Beside = Callable[[Path, str, Content], Sequence[Written]]


class Source(NamedTuple):
    """Benchmark or manifest under review, as in the batch file; ``version`` is ``None`` for a manifest."""

    name: str
    version: str | None
    hash: str
    path: Path
    phantom: bool
    canary: str


@dataclass(frozen=True)
class Done:
    """Result of an export: the folder, the file and number of rows of each written sheet, reasons for cases left out.

    ``later``: sheets of the batch that are written later. ``pages``: pages written beside or instead of sheets.
    ``decoys``: cases without the finding that are only asked blind.
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


def export(
    path: Path, out: Path, wish: Wish, image_root: Path | None, progress: Progress, beside: Beside | None = None
) -> Done:
    """Assign the items or masks of ``path`` to reviewers and write all sheets to the new folder ``out``.

    ``progress``: as :func:`chexqa.files.terminal.progress`; ``beside``: a function that writes more files beside each
    sheet.
    """
    check_wish(wish)
    with new_folder(out) as folder:
        done = _write(path, folder, wish, image_root, progress, beside)
    return replace(done, folder=out)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder with a work folder inside.

    The temporary folder becomes ``out`` unless an error is raised.
    """
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists already, and sheets in it may be filled; choose another folder.")
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
        source, material = _questions(path, wish.manifest, image_root)
        left_out = ()
    works = chosen(material.works, wish, path)
    if isinstance(material, Masks) and wish.only == "redrawn":
        _check_signers(material, wish)
    shares = deal(works, wish.reviewers, wish.overlap, wish.readers, wish.seed)
    if wish.what == "items" and not wish.blind_answers:
        shares = with_decoys(shares, works, wish.seed)
    idle = [share.reviewer for share in shares if not share.cases]
    if idle:
        raise InputError(f"{path}: {len(works)} cases are too few for all reviewers; {idle[0]} would get no case.")
    batch = "r-" + digest(source.hash, repr(wish), [share.cases for share in shares]).hex()[:12]
    maker = Maker(source, material, wish, batch, folder, beside=beside)
    maker.drawn = drawn_blind(material.works, works, shares, wish)
    plan = [(share, kind) for share in shares for kind in _kinds(share, wish)]
    size = {work.case_id: work.size for work in works}
    later = [(share, kind) for share, kind in plan if kind == "items" and share.shared and not wish.both_parts]
    rows = sum(size[case] for share, kind in plan if (share, kind) not in later for case in _cases(share, kind))
    with progress("writing sheets", rows) as step:
        sheets = [
            maker.record(share, kind) if (share, kind) in later else maker.sheet(share, kind, step)
            for share, kind in plan
        ]
    write_json(folder / columns.BATCH_FILE, maker.batch_record(sheets), "review")
    return Done(
        folder,
        tuple(
            (sheet["file"], len(sheet["rows"])) for sheet, part in zip(sheets, plan, strict=True) if part not in later
        ),
        len(works),
        len({case for share in shares for case in share.shared}),
        left_out,
        len({work.patient for work in works}),
        tuple(sheet["file"] for sheet, part in zip(sheets, plan, strict=True) if part in later),
        tuple(maker.pages),
        len({case for share in shares for case in share.decoys}),
    )


def _questions(path: Path, manifest: Path | None, image_root: Path | None) -> tuple[Source, Questions]:
    if (path / MANIFEST).is_file() or path.suffix == ".jsonl":
        raise InputError(f"{path}: holds cases, not questions; give --what masks, or a benchmark of 'chexqa generate'.")
    bench = benchmark.load(path)
    bench.key("'chexqa review export'")
    return bench_source(bench), Questions(bench, sources=_sources(bench, manifest, image_root))


def _sources(bench: benchmark.Benchmark, manifest: Path | None, image_root: Path | None) -> dict[str, Case]:
    """Return the lines of the manifest that a benchmark was made from; empty if no manifest is given."""
    if manifest is not None:
        return made_from(bench, read_manifest(manifest, image_root))
    if image_root is not None:
        raise InputError("--image-root: a benchmark holds its own pictures; leave it out, or give --manifest.")
    return {}


def bench_source(bench: benchmark.Benchmark) -> Source:
    """Return a benchmark as the source of a batch file."""
    about = bench.about
    return Source(bench.name, about["version"], bench.hash, bench.folder, bench.is_phantom, about["canary"])


def _masks(
    path: Path, work: Path, image_root: Path | None, progress: Progress, manifest: Path | None
) -> tuple[Source, Masks, tuple[str, ...]]:
    """Draw the masks of a manifest or benchmark; also return why cases with faulty files are left out."""
    if (path / benchmark.ABOUT).is_file():
        bench = benchmark.load(path)
        source, subjects = bench_source(bench), from_benchmark(bench, _sources(bench, manifest, image_root))
    else:
        if manifest is not None:
            raise InputError(f"--manifest: {path} is a manifest itself; leave the option out.")
        cases = read_manifest(path, image_root)
        file = path / MANIFEST if path.is_dir() else path
        phantom = any(case.source == "phantom" for case in cases)
        source = Source(real(file.parent).name + "/" + file.name, None, sha256_of(file), path, phantom, "")
        subjects = from_manifest(cases)
    drawn, left_out = [], []
    masks = Masks(tuple(subjects), work)
    with progress("drawing outlines", len(subjects)) as step:
        for subject in subjects:
            try:
                masks.draw(subject)
                drawn.append(subject)
            except InputError as error:
                left_out.append(str(error))
            step()
    if not drawn:
        raise InputError(f"{path}: no case can be shown; the first problem: {left_out[0]}")
    return source, replace(masks, subjects=tuple(drawn)), tuple(left_out)


def _check_signers(material: Masks, wish: Wish) -> None:
    """Raise ``InputError`` if a reviewer would sign a mask that the same reviewer drew."""
    authors = {subject.author for subject in material.subjects}
    for reviewer in wish.reviewers:
        if reviewer in authors:
            raise InputError(f"--reviewers: {reviewer} drew some of these masks; name a second reader who drew none.")


def _kinds(share: Share, wish: Wish) -> tuple[SheetKind, ...]:
    if wish.what == "masks":
        return ("masks",)
    if wish.blind_answers:
        return ("readers",)
    return ("blind", "items") if share.shared else ("items",)


def _cases(share: Share, kind: SheetKind) -> tuple[str, ...]:
    return share.blind if kind == "blind" else share.cases


class Maker:
    """Writer of the sheets of one batch; a row's picture is made once for all sheets that show it."""

    def __init__(
        self, source: Source, material: Questions | Masks, wish: Wish, batch: str, folder: Path, votes: int = 0,
        beside: Beside | None = None,
    ) -> None:  # fmt: skip
        """Prepare a batch; ``votes`` is the number of reviewers whose verdicts an adjudication sheet shows."""
        self.pages: list[Written] = []
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
        """Return a sheet's entry in the batch file."""
        return self._dealt(share, kind)[0]

    def _dealt(self, share: Share, kind: SheetKind) -> tuple[Record, Questions | Masks]:
        """Return a sheet's entry in the batch file, and its content including proposals that are wrong on purpose."""
        name = columns.sheet_name(share.reviewer, kind, with_blind=bool(share.shared))
        home = columns.sheet_folder(share.reviewer, kind, with_blind=bool(share.shared))
        material, wrong = self._material, {}
        if kind == "items" and isinstance(material, Questions) and self._wish.planted:
            material = material.planted(share.cases, share.reviewer, self._wish.seed, self._wish.planted)
            wrong = {columns.item_row_id(item_id): list(answer) for item_id, answer in material.wrong.items()}
        _, entries = material.tabs(_cases(share, kind), kind)
        file = f"{home}/{name}.{'csv' if self._wish.csv else 'xlsx'}"
        seen = [entry.seen for entry in entries.values()]
        dealt = {"file": file, "reviewer": share.reviewer, "kind": kind, "rows": list(entries), "seen": seen}
        return {**dealt, "planted": wrong} if wrong else dealt, material

    def sheet(self, share: Share, kind: SheetKind, step: Callable[[], None]) -> Record:
        """Write one sheet with its viewer and pictures, and return its entry in the batch file."""
        record, material = self._dealt(share, kind)
        self.write(record["file"], kind, share.reviewer, _cases(share, kind), material, step)
        return record

    def write(
        self, file: str, kind: SheetKind, reviewer: str, cases: Sequence[str], material: Questions | Masks,
        step: Callable[[], None],
    ) -> None:  # fmt: skip
        """Write a sheet of these cases as ``file`` into the folder, with its viewer and pictures beside it."""
        path = self._folder / file
        name = path.stem
        tabs, entries = material.tabs(cases, kind)
        viewer = f"{name}.html"
        about = About(
            kind, reviewer, self._title, len(entries), self._source.phantom, self._material.is_credentialed,
            viewer, self._source.canary,
        )  # fmt: skip
        marks = {
            columns.BENCHMARK: columns.benchmark_mark(self._source.hash),
            columns.REVIEWER: reviewer,
            columns.BATCH: self._batch,
        }
        book = Book(kind, tabs, marks, about, self._votes)
        if self._wish.page_only:
            for _ in entries:
                step()
        else:
            self._write_sheet(path, book, entries, step)
        if self._beside is not None:
            self.pages += self._beside(self._folder, name, Content(book, entries, material, self._full))

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
        """Write the full pictures of these rows into ``home``, and return them by row id as the viewer shows them."""
        self._full.encode_all(pic.image for row in entries.values() for pic in row.full)
        return {
            row_id: tuple(Plate(pic.label, *self._full.put(pic.image, home)) for pic in entry.full)
            for row_id, entry in entries.items()
        }

    def _write_workbook(self, path: Path, book: Book, entries: Mapping[str, Entry], step: Callable[[], None]) -> None:
        """Write a workbook while threads make its pictures, which is the slowest step."""
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
            "sheets": list(sheets),
            **({"manifest": str(wish.manifest)} if wish.manifest is not None else {}),
        }
