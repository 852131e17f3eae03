"""The parts of a report that are not tables: the page, its plots as files, the gallery and its thumbnails."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from chexqa.contract.benchmark import MAX_THUMB_BYTES, Benchmark
from chexqa.eval.report import gallery, methods, page, plots
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables import asked_items
from chexqa.files.errors import unwritable
from chexqa.files.jsonio import write_bytes
from chexqa.files.opening import MissingError, check_folder, link_or_copy
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import OBEYED

INDEX = "index.html"


def files(graded: Graded, frames: Mapping[str, pl.DataFrame], others: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the page's files by their path in the report's folder; ``frames`` are the tables of ``graded``.

    ``others``: a clause on each group of models that was asked other items and has a page of its own.
    """
    drawn = page.draw({name: _plain(frame) for name, frame in frames.items()})
    about = graded.benchmark.about
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    html = page.render(
        f"Perception of chest radiographs: {about['name']} {about['version']}",
        f"{plural(about['counts']['items'], 'item')} from {plural(about['counts']['cases'], 'case')}; benchmark "
        f"{graded.benchmark.hash[:16]}; {plural(frames['states']['model'].n_unique(), 'model')}.{_reading(graded)}",
        notice,
        asked_items.remark(graded),
        [
            *(f"Models that were asked other items have a page of their own: {one}." for one in others),
            *asked_items.stand_ins(graded),
            *asked_items.endings(graded),
        ],
        page.parts(frames, drawn),
        methods.paragraphs(graded, frames["facts"]["clusters"][0]),
    )
    made = {INDEX: html.encode()}
    several = len({plot.protocol for plot in drawn}) > 1
    for plot in drawn:
        name = f"{plot.name}-{re.sub(r'[^A-Za-z0-9]+', '-', plot.protocol).strip('-')}" if several else plot.name
        made[f"plots/{name}.svg"] = plot.svg
        made[f"plots/{name}.png"] = plots.png_file(plot.figure)
    return made | gallery.files(graded.benchmark, graded.grades)


def _reading(graded: Graded) -> str:
    """Return a note on the parser: that its versions are mixed, or how many replies are now read differently."""
    if graded.changed is not None:
        return f" Replies were read again with today's parser: {graded.changed.height:,} differently from the logs."
    note = rereading.mixed(graded.runs)
    return f" {note}" if note else ""


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame without characters that an SVG file, which is XML, cannot hold."""
    return frame.with_columns(pl.col(pl.String).str.replace_all(f"[{OBEYED}]", "\ufffd"))


def place_thumbnails(graded: Graded, folder: Path) -> int:
    """Put the gallery's pictures beside the page, as links to the benchmark's files if the disk allows.

    Return the number of pictures. Pictures of an earlier report that this one does not show are removed.
    """
    home = folder / gallery.FOLDER
    benchmark = graded.benchmark
    wanted = set(gallery.thumbnails(gallery.asked_items(benchmark, graded.grades)))
    try:
        there = list((home / "thumbs").glob("*/*.jpg"))
        for place in {path.parent for path in (*there, *(home / name for name in wanted))}:
            check_folder(place, folder)
        for old in there:
            if old.relative_to(home).as_posix() not in wanted:
                old.unlink()
        for name in sorted(wanted):
            target = home / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(benchmark, name, target)
    except OSError as error:
        raise unwritable(home, error) from None
    return len(wanted)


def _link(benchmark: Benchmark, name: str, target: Path) -> None:
    try:
        link_or_copy(benchmark.folder / name, target, MAX_THUMB_BYTES, benchmark.folder)
    except MissingError:
        image = f"images/{Path(name).parent.name}/{Path(name).stem}.png"
        write_bytes(target, benchmark.thumb_bytes(image))
