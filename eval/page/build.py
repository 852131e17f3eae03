"""Everything of a report that is not a table: the page, its plots as files, the gallery and its thumbnails."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from chexqa.benchmark import Benchmark
from chexqa.errors import InputError
from chexqa.eval.grading import Graded
from chexqa.eval.page import gallery, methods, page, plots
from chexqa.terminal import PHANTOM_NOTICE, plural

INDEX = "index.html"


def files(graded: Graded, frames: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """The page's files by their path in the report's folder; ``frames`` are the tables of ``graded``."""
    drawn = page.draw(frames)
    about = graded.benchmark.about
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    html = page.render(
        f"Perception of chest radiographs: {about['name']} {about['version']}",
        f"{plural(about['counts']['items'], 'item')} from {plural(about['counts']['cases'], 'case')}; benchmark "
        f"{graded.benchmark.hash[:16]}; {plural(frames['states']['model'].n_unique(), 'model')}.",
        notice,
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


def place_thumbnails(benchmark: Benchmark, folder: Path) -> int:
    """Put the gallery's pictures beside the page, as links to the benchmark's own files where the disk allows.

    Returns how many there are. Those of an earlier report that this one does not show are removed.
    """
    home = folder / gallery.FOLDER
    wanted = set(gallery.thumbnails(benchmark))
    try:
        for old in (home / "thumbs").glob("*/*.jpg"):
            if old.relative_to(home).as_posix() not in wanted:
                old.unlink()
        for name in sorted(wanted):
            target = home / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(benchmark, name, target)
    except OSError as error:
        raise InputError(f"{home}: cannot be written ({error.strerror}); the report lacks its pictures.") from None
    return len(wanted)


def _link(benchmark: Benchmark, name: str, target: Path) -> None:
    try:
        os.link(benchmark.folder / name, target)
    except OSError:
        image = f"images/{Path(name).parent.name}/{Path(name).stem}.png"
        target.write_bytes(benchmark.thumb_bytes(image))
