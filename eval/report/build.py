"""Writing of a complete report: the page, its plots as files, the gallery and the tables."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import polars as pl

from chexqa.eval.design import plan
from chexqa.eval.gallery import files as gallery
from chexqa.eval.records import case_flow, checklist, methods
from chexqa.eval.report import plot_style, write
from chexqa.eval.report.display_notes import unfinished_models
from chexqa.eval.report.page import figures, render
from chexqa.eval.report.page.data import page_data
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables import asked_items
from chexqa.eval.tables.all_tables import Group
from chexqa.eval.tables.numbers_markdown_latex import partly_corrected
from chexqa.eval.tables.protocol_pairs import uncompared
from chexqa.files.errors import unwritable
from chexqa.files.opening import check_folder
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import OBEYED
from chexqa.files.workers import Background

INDEX = "index.html"
# Number of mallopt's parameter M_MMAP_THRESHOLD.
_MMAP_THRESHOLD = -3


def files(
    group: Group, groups: Sequence[Group] = (), background: Background | None = None
) -> Iterable[tuple[str, bytes]]:
    """Return the path and the content of each file of the report on one group (models that were asked the same items).

    Paths are relative to the group's folder. The page names the other groups. The worker processes of ``background``
    start to make the gallery's pictures when this function is called.
    """
    graded = group.graded
    shown = gallery.files(graded, background)

    def page() -> Iterator[tuple[str, bytes]]:
        yield from page_files(group, groups).items()
        yield case_flow.FILE, case_flow.figure(graded)
        yield from checklist.files(graded, group.tables["decisions"]).items()

    return chain(page(), shown)


def page_files(group: Group, groups: Sequence[Group] = ()) -> dict[str, bytes]:
    """Return a group's page and plots as files, keyed by their paths in the folder of this page.

    A group has the models that were asked the same items; ``groups`` has all groups of the report.
    """
    graded, frames = group.graded, group.tables
    about = graded.benchmark.about
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    simulated = asked_items.simulated(graded)
    told = "\n".join(filter(None, (notice, simulated)))
    drawn = figures.draw({name: _plain(frame) for name, frame in frames.items()}, told)
    data = page_data(graded.benchmark, frames, graded.domains)
    html = render.render(
        f"Perception of chest radiographs: {about['name']} {about['version']}",
        render.asked(data, frames, len(groups) > 1),
        f"Benchmark {graded.benchmark.hash[:16]}.{_reading(graded)}",
        notice,
        asked_items.remark(graded),
        plan.verdict(frames["plan"]) if frames["plan"].height else None,
        [
            *(
                f"Models that were asked other items are on a separate page: {one.title}."
                for one in groups
                if one.number != group.number
            ),
            *filter(None, (simulated,)),
            *unfinished_models(graded, frames["states"]),
            *partly_corrected(frames["levels"]),
            *asked_items.stand_ins(graded),
            *asked_items.endings(graded),
            *uncompared(frames),
        ],
        render.sections(frames),
        render.not_asked(graded),
        methods.paragraphs(graded, frames),
        data,
    )
    made = {INDEX: html.encode()}
    several = len({plot.protocol for plot in drawn}) > 1
    for plot in drawn:
        name = f"{plot.name}-{re.sub(r'[^A-Za-z0-9]+', '-', plot.protocol).strip('-')}" if several else plot.name
        made[f"plots/{name}.svg"] = plot.svg
        made[f"plots/{name}.png"] = plot_style.png_file(plot.figure)
    return made


def _reading(graded: Graded) -> str:
    """Return a note if several versions of the parser read the replies, or if replies were read again; otherwise
    empty.
    """
    if graded.changed is not None:
        return (
            f" Replies were read again with today's parser; {graded.changed.height:,} of them are read differently now."
        )
    note = rereading.mixed(graded.runs)
    return f" {note}" if note else ""


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without the characters that an SVG file cannot contain, because it is XML."""
    return frame.with_columns(pl.col(pl.String).str.replace_all(f"[{OBEYED}]", "\ufffd"))


def write_report(groups: Sequence[Group], folder: Path, overwrite: bool = False, workers: int = 1) -> list[Path]:
    """Write the report of all groups: pages, galleries, plots and tables in every form; return the files' paths.

    ``workers`` is the number of processes, this one included; only a large gallery makes use of more than one. For
    errors and ``overwrite`` see :func:`write.write`.
    """
    _give_back_freed_memory()
    before = {path.parent for name in write.earlier(folder) if (path := folder / name).name == write.INDEX}
    with Background(workers) as background:
        page = partial(files, background=background)
        made = write.write(groups, folder, tuple(write.FORMS), page, overwrite)
    for place in before:
        _remove_pictures(place, folder)
    return made


def _give_back_freed_memory() -> None:
    """Make the C library of Linux give freed arrays of 1 MB or more back to the system at once.

    Otherwise it keeps up to 64 MB for each thread, because the tables free arrays of many MB. The setting holds until
    the process ends.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without mallopt
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)


def _remove_pictures(place: Path, folder: Path) -> None:
    """Remove the thumbnails that an earlier version wrote into a report, and the folders that are then empty."""
    try:
        check_folder(place, folder)
        there = list((place / gallery.FOLDER / "thumbs").glob("*/*.jpg"))
        for parent in {picture.parent for picture in there}:
            check_folder(parent, folder)
        for picture in there:
            picture.unlink()
        for inner in sorted(
            (path for path in place.rglob("*") if path.is_dir() and not path.is_symlink()), reverse=True
        ):
            with suppress(OSError):
                inner.rmdir()
        with suppress(OSError):
            place.rmdir()
    except OSError as error:
        raise unwritable(place, error) from None
