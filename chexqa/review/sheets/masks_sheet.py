"""Review of masks in a sheet: a row shows a radiograph and a mask's outline, and asks if the outline is right.

The cases come from a manifest, or from a benchmark with masks that are reviewed again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2

from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.cases import Case, load_case
from chexqa.contract.items import clusters
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256, write_bytes
from chexqa.imaging import masks, overlays, png
from chexqa.imaging.hand_drawn import smooth_outlines
from chexqa.imaging.overlays import Image
from chexqa.imaging.read import decode_png
from chexqa.review import columns
from chexqa.review.assignment import Work
from chexqa.review.binding import LESION, LUNGS, ShownMask, shown_mask
from chexqa.review.columns import SheetKind
from chexqa.review.sheets import instructions, panels
from chexqa.review.sheets.cover_tab import notices
from chexqa.review.sheets.pictures import PICTURES, put_whole
from chexqa.review.sheets.questions import Entry, Pic
from chexqa.review.sheets.sheet import Book, SheetRow, Tab, fill_tabs, marked_cells
from chexqa.stats import cluster_id


@dataclass(frozen=True)
class Subject:
    """Case with a mask to review.

    - ``picture``: the radiograph's name in its source.
    - ``load``: a function that returns the case's working image with the masks.
    - ``case``: the manifest's line; ``None`` for a benchmark's case without a manifest.
    """

    case_id: str
    finding: str
    present: bool
    patient: str
    picture: str
    credentialed: bool
    load: Callable[[], ShownMask]
    case: Case | None = None

    @property
    def author(self) -> str | None:
        """The person who redrew the mask; None if it was not redrawn, or has been approved since."""
        redrawn = self.case.redrawn if self.case is not None else None
        return str(redrawn["by"]) if redrawn is not None and redrawn["signed_by"] is None else None


def from_manifest(cases: Iterable[Case]) -> list[Subject]:
    """Return a manifest's cases as subjects of a sheet on masks."""
    return [
        Subject(
            case.case_id,
            case.finding,
            case.present,
            cluster_id(case.patient_id, case.study_id, str(case.image)),
            case.image.stem,
            case.access == "credentialed",
            partial(_load_case, case),
            case,
        )
        for case in cases
    ]


def _load_case(case: Case) -> ShownMask:
    return shown_mask(load_case(case))


def from_benchmark(bench: Benchmark, sources: Mapping[str, Case] | None = None) -> list[Subject]:
    """Return a benchmark's cases with the masks in its key.

    ``sources`` is the result of :func:`chexqa.review.sheets.questions.made_from`. Cases without a plain radiograph are
    left out.
    """
    _, keys = bench.key("a review of its masks")
    findings: dict[str, tuple[str, str]] = {}
    for item in bench.items:
        for picture in item.alone_images:
            if picture.role == "radiograph":
                findings.setdefault(item.case_id, (item.finding, picture.image))
    people = clusters(bench.items, keys)
    subjects = []
    for case_id, (finding, image) in findings.items():
        key = keys[case_id]
        stored = key.measures.get("masks", {})
        subjects.append(
            Subject(
                case_id,
                finding,
                stored.get(LESION) is not None,
                people[case_id],
                image,
                key.access == "credentialed",
                partial(_load_stored, bench, image, key.measures.get("image_key") or image_digest(image), stored),
                (sources or {}).get(case_id),
            )
        )
    if not subjects:
        raise InputError(
            f"{bench.folder}: all radiographs have a grid drawn over them, so the masks cannot be reviewed; give "
            "the manifest that the benchmark was made from."
        )
    return subjects


def _load_stored(bench: Benchmark, image: str, image_key: str, stored: Mapping[str, Any]) -> ShownMask:
    shown = decode_png(bench.image_bytes(image), f"{bench.folder / image}:", cv2.IMREAD_GRAYSCALE)
    lesion, right, left = (
        None if stored.get(name) is None else masks.from_rle(stored[name], f"the key's mask of {image}")
        for name in (LESION, *LUNGS)
    )
    return ShownMask(shown, lesion, right, left, image_key)


@dataclass(frozen=True)
class Masks:
    """The masks under review, with their pictures and hashes keyed by case id; ``folder`` has the picture files."""

    subjects: tuple[Subject, ...]
    folder: Path
    small_pics: dict[str, tuple[Pic, ...]] = field(default_factory=dict)
    pics: dict[str, tuple[Pic, ...]] = field(default_factory=dict)
    radiographs: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def works(self) -> list[Work]:
        """The cases to be assigned."""
        return [
            Work(s.case_id, s.patient, (s.finding, "present" if s.present else "absent"), s.author is not None, 1)
            for s in self.subjects
        ]

    @property
    def is_credentialed(self) -> bool:
        """True if the terms of any case forbid passing its data on."""
        return any(subject.credentialed for subject in self.subjects)

    @property
    def by_case(self) -> dict[str, Subject]:
        """The cases, keyed by id."""
        return {subject.case_id: subject for subject in self.subjects}

    def source(self, case_id: str) -> Case | None:
        """Return the manifest's line of a case, if there is one."""
        return self.by_case[case_id].case

    def draw(self, subject: Subject) -> None:
        """Draw a case's pictures; raise ``InputError`` if its files are faulty."""
        shown = subject.load()
        self.seen[subject.case_id] = shown.seen
        radiograph = self._keep(shown.image)
        plain, small = Pic("" if shown.lesion is None else "radiograph", radiograph), []
        full = [plain]
        if shown.lesion is not None:
            outline = self._keep(overlays.draw_outline(shown.image, smooth_outlines(shown.lesion)), radiograph)
            full.append(Pic("outline", outline))
            small = [plain, full[-1]]
            if shown.right_lung is not None or shown.left_lung is not None:
                drawn = panels.lungs_panel(shown.image, shown.right_lung, shown.left_lung, shown.lesion)
                full.append(Pic(panels.LUNGS, self._keep(drawn, radiograph)))
                small = [plain, full[-1]]
        self.small_pics[subject.case_id] = tuple(small or full)
        self.pics[subject.case_id] = tuple(full)

    def _keep(self, pixels: Image, radiograph: str | None = None) -> str:
        """Write a picture into the work folder and return its name; ``radiograph`` is the picture it was drawn on."""
        data = png.encode(pixels)
        name = f"{PICTURES}/{sha256(data)}-mask.png"
        if not (self.folder / name).exists():
            (self.folder / name).write_bytes(data)
        if radiograph is not None:
            self.radiographs[name] = radiograph
        return name

    def tabs(self, cases: Sequence[str], kind: SheetKind) -> tuple[list[Tab], dict[str, Entry]]:
        """Return the work tabs of the cases, in the given order, and their rows keyed by row id."""
        subjects = self.by_case
        entries = {}
        for case_id in cases:
            entry = self._entry(subjects[case_id])
            entries[entry.row.row_id] = entry
        return fill_tabs([[entry.row] for entry in entries.values()], "part"), entries

    def _entry(self, subject: Subject) -> Entry:
        finding = subject.finding.replace("_", " ")
        question = f"Is the outline of the {finding} optimal?" if subject.present else f"Is there really no {finding}?"
        cells = {
            columns.FINDING: finding,
            columns.STATE: "present" if subject.present else "absent",
            columns.QUESTION: question,
        }
        row = SheetRow(columns.mask_row_id(subject.case_id), cells)
        small, full = self.small_pics[subject.case_id], self.pics[subject.case_id]
        return Entry(row, small, full, question, (), self.seen[subject.case_id])

    def pixels(self, image: str) -> Image:
        """Return a picture at its full size."""
        return decode_png((self.folder / image).read_bytes(), f"{self.folder / image}:")

    def small(self, image: str, room: tuple[int, int]) -> Image:
        """Return the picture at its full size, whatever ``room`` is: no smaller version is stored."""
        return self.pixels(image)

    def under(self, image: str) -> str | None:
        """Return the name of the radiograph on which the picture ``image`` was drawn.

        Return ``None`` if ``image`` is itself a radiograph.
        """
        return self.radiographs.get(image)

    def place(self, image: str, folder: Path) -> str:
        """Write a picture with its drawings as one JPEG into ``folder``; return the path relative to ``folder``."""
        return put_whole(self, image, folder)


def drawn(
    subjects: Iterable[Subject], work: Path, step: Callable[[], None], where: str
) -> tuple[Masks, tuple[str, ...]]:
    """Draw the pictures of all cases into the folder ``work``; return the masks, and the problem of each faulty case.

    Raises ``InputError``, which begins with ``where``, if all cases are faulty.
    """
    shown, left_out = [], []
    masks = Masks((), work)
    for subject in subjects:
        try:
            masks.draw(subject)
            shown.append(subject)
        except InputError as error:
            left_out.append(str(error))
        step()
    if not shown:
        raise InputError(f"{where}: no case can be shown; the first case's problem is: {left_out[0]}")
    return replace(masks, subjects=tuple(shown)), tuple(left_out)


def check_signers(material: Masks, reviewers: Sequence[str]) -> None:
    """Raise ``InputError`` if a reviewer would be asked to approve a mask that he or she drew."""
    authors = {subject.author for subject in material.subjects}
    for reviewer in reviewers:
        if reviewer in authors:
            raise InputError(f"--reviewers: {reviewer} drew some of these masks; name a second reader who drew none.")


def write_csv(
    path: Path, book: Book, entries: Mapping[str, Entry], subjects: Mapping[str, Subject], plots: Mapping[str, str]
) -> None:
    """Write a mask sheet as csv with CheXpercept's columns, and a text file with instructions beside it.

    ``plots`` has the path of each row's picture, keyed by row id.
    """
    by_row = {columns.mask_row_id(case_id): subject for case_id, subject in subjects.items()}
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    titles = columns.mask_csv_titles()
    writer.writerow(titles)
    for row_id in entries:
        subject = by_row[row_id]
        shown = {
            columns.KEY_ID: subject.case_id,
            columns.DICOM_ID: subject.picture,
            columns.TARGET: subject.finding,
            columns.PLOT_PATH: plots[row_id],
        }
        cells = marked_cells(book, SheetRow(row_id, shown))
        writer.writerow([columns.csv_cell(cells.get(title, "")) for title in titles])
    write_bytes(path, text.getvalue().encode("utf-8-sig"))
    # A csv has no first tab, so notices and instructions go into a text file.
    lines = [instructions.TITLES["masks"], *notices(book.about), *instructions.MASKS_CSV, *instructions.TASKS["masks"]]
    write_bytes(path.with_suffix(".txt"), "\n\n".join([*lines, ""]).encode())
