"""Grading of localization maps and readers' marks: a row for each present finding of each radiograph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from chexqa.contract.findings import FINDINGS
from chexqa.eval.heatmaps import metrics
from chexqa.eval.heatmaps.map_files import READERS, Map, read_map
from chexqa.eval.heatmaps.targets import Directory, Lesion, Mask, Target, Truth, lesion_of
from chexqa.files.errors import InputError, WrongParts, suggest
from chexqa.files.jsonio import Record, parse_json, read_text
from chexqa.files.workers import Background, single_pictures
from chexqa.imaging import masks
from chexqa.imaging.read import mask_to_working
from chexqa.sources import chexlocalize
from chexqa.sources.tables import Table

# States of a target: a usable map or marks, a constant map, a map with NaN or infinity, a reader without marks, no map.
STATES = ("graded", "constant", "not_finite", "nothing_marked", "missing")
COLUMNS: dict[str, Any] = {
    "model": pl.String,
    "finding": pl.String,
    "case_id": pl.String,
    "item_id": pl.String,
    "patient_id": pl.String,
    "study_id": pl.String,
    "picture": pl.String,
    "state": pl.String,
    metrics.CELL: pl.Int64,
    "domain": pl.String,
    "lesion_share": pl.Float64,
    "components": pl.Int64,
    **dict.fromkeys(metrics.METRICS, pl.Float64),
    **dict.fromkeys((*metrics.SWEPT["iou"], *metrics.SWEPT["dice"]), pl.Float64),
}
# Worker processes need a second to start; in this time one process grades about so many maps.
MANY_MAPS = 1000
# Number of targets that a process gets at once.
_OF_TASK = 8
Advance = Callable[[], None]
Mark = TypeVar("Mark")
_Row = tuple[Any, ...]


@dataclass(frozen=True)
class Thresholds:
    """Segmentation thresholds, one for each finding, chosen on radiographs that are not graded."""

    path: Path
    by_finding: Mapping[str, float]

    def of(self, finding: str) -> float:
        """Return the finding's threshold; raise ``InputError`` if the file has none."""
        if finding not in self.by_finding:
            raise InputError(
                f"{self.path}: has no threshold for {finding}, which has maps to grade; add a row for this finding."
            )
        return self.by_finding[finding]


class Graded(NamedTuple):
    """Grades of one model: rows with the columns :data:`COLUMNS`, and the names of map files without a target."""

    rows: pl.DataFrame
    unused: tuple[str, ...]


def read_thresholds(path: Path) -> Thresholds:
    """Read thresholds (0 to 1) from a CSV with the columns ``finding`` (or ``task``) and ``threshold``.

    Raise ``InputError`` that lists the first wrong lines.
    """
    table = Table(path, ["threshold"])
    column = next((name for name in ("finding", "task") if name in table.columns), None)
    if column is None:
        raise InputError(
            f"{path}: has no column 'finding' (or 'task'), only {table.listed}; add a first line with "
            "the columns' names."
        )
    found: dict[str, float] = {}
    wrong = WrongParts(path)
    for line, _, row in table.rows():
        with wrong.collected():
            where, name = f"{path}, line {line}", row[column]
            finding = chexlocalize.FINDINGS.get(name, name)
            if finding not in FINDINGS:
                raise InputError(f"{where}: there is no finding '{name}'{suggest(name, FINDINGS)}.")
            try:
                value = float(row["threshold"])
            except ValueError:
                value = math.nan
            if not 0 <= value <= 1:
                raise InputError(
                    f"{where}: the threshold '{row['threshold']}' is not a number from 0 to 1; correct it."
                )
            if found.setdefault(finding, value) != value:
                raise InputError(
                    f"{where}: the threshold of {finding} is {value:g}, but {found[finding]:g} in an earlier line; "
                    "remove one of the two lines."
                )
    wrong.conclude()
    return Thresholds(path, found)


def grade_maps(
    model: str, folder: Path, truth: Truth, thresholds: Thresholds | None, advance: Advance = lambda: None
) -> Graded:
    """Return the grades of the map files of ``model`` in ``folder``.

    A target (a present finding of one radiograph) without a map file is ``missing`` and has no metrics.
    """
    return grade_folders({model: folder}, truth, thresholds, advance)[model]


def grade_folders(
    folders: Mapping[str, Path],
    truth: Truth,
    thresholds: Thresholds | None,
    advance: Advance = lambda: None,
    workers: int = 1,
) -> dict[str, Graded]:
    """Return the grades of the maps of several models, keyed by model; each model has a folder of maps.

    - ``workers``: the number of processes, this one included. Fewer than :data:`MANY_MAPS` maps are graded by threads.
    - ``advance``: called after each target.

    Raise ``InputError`` that lists the first wrong map files.
    """
    wrong = WrongParts(None, "map files")
    placed = {model: _place_files(folder, truth, wrong) for model, folder in folders.items()}
    wrong.conclude()
    jobs = [(target, {model: files.get(target) for model, (files, _) in placed.items()}) for target in truth.targets]
    tasks = [_Task(tuple(jobs[first : first + _OF_TASK]), thresholds) for first in range(0, len(jobs), _OF_TASK)]
    rows: dict[str, list[tuple[Any, ...]]] = {model: [] for model in folders}
    is_large = sum(len(files) for files, _ in placed.values()) >= MANY_MAPS
    with single_pictures(), Background(workers if is_large else 1) as background:
        for made in chain.from_iterable(background.start(_grade_task, tasks)):
            for model, row in zip(folders, made, strict=True):
                if isinstance(row, InputError):
                    wrong.add(row)
                else:
                    rows[model].append(row)
            advance()
    wrong.conclude()
    return {model: Graded(_frame(rows[model]), unused) for model, (_, unused) in placed.items()}


def _place_files(folder: Path, truth: Truth, wrong: WrongParts) -> tuple[dict[Target, Path], tuple[str, ...]]:
    """Return the map file of each target, and the names of files that belong to no case.

    The errors of files are added to ``wrong``.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; give a folder of maps ({', '.join(READERS)}).")
    directory, absent = Directory(truth.targets), Directory(truth.absent)
    files: dict[Target, Path] = {}
    unused = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in READERS:
            continue
        stem = path.stem.removesuffix("_map")
        with wrong.collected():
            target = directory.find(stem, str(path))
            if target is None:
                if absent.find(stem, str(path)) is None:
                    unused.append(path.name)
                continue
            first = files.setdefault(target, path)
            if first != path:
                raise InputError(
                    f"{path}: is a map of the same finding as {first.name} on the same radiograph; remove one of the "
                    "two."
                )
    if not files and not wrong.count:
        seen = f"'{unused[0]}' fits no case with a present finding" if unused else "there is no map file in it"
        raise InputError(
            f"{folder}: {seen}; a map is called <case id or radiograph>_<finding> and ends in {', '.join(READERS)}."
        )
    return files, tuple(unused)


class _Task(NamedTuple):
    """Some targets, each with the map file of every model (None if the model has no map), which one process grades."""

    jobs: tuple[tuple[Target, dict[str, Path | None]], ...]
    thresholds: Thresholds | None


def _grade_task(task: _Task) -> list[list[_Row | InputError]]:
    return [_grade_target(target, files, task.thresholds) for target, files in task.jobs]


def _grade_target(
    target: Target, files: Mapping[str, Path | None], thresholds: Thresholds | None
) -> list[_Row | InputError]:
    """Return, for each model, the row of its map of the target (None if it has no map), or the error of a wrong map."""
    mask = target.read()
    hits, lesion, covered = target.hit_cells(mask), lesion_of(mask), np.flatnonzero(mask)
    rows: list[_Row | InputError] = []
    for model, file in files.items():
        state, values = "missing", _none()
        if file is not None:
            try:
                state, array = _read_map(file)
            except InputError as error:
                rows.append(error.with_traceback(None))
                continue
            threshold = None if thresholds is None else thresholds.of(target.finding)
            values = metrics.grade_map(metrics.fit(array, _shape(mask)), mask, hits, threshold, covered)
        rows.append(_row(model, target, lesion, state, values))
    return rows


def _read_map(path: Path) -> tuple[str, Map]:
    """Return a map and its state; a map with a value that is not finite becomes 0 everywhere."""
    values = read_map(path)
    if not np.isfinite(values).all():
        return "not_finite", np.zeros_like(values)
    return "constant" if values.min() == values.max() else "graded", values


def grade_outlines(model: str, path: Path, truth: Truth, advance: Advance = lambda: None) -> Graded:
    """Return the grades of a reader's outlines in CheXlocalize's layout (run lengths or polygons).

    ``model`` names the reader in tables. An outline counts as a map of 0 and 1; a finding without an outline is a miss.
    """
    read = chexlocalize.read_outlines(path)
    marks = ((key, finding, rle) for key, outlines in read.items() for finding, rle in outlines.items())
    wrong = WrongParts(path, "outlines")
    outlined, unused = _place_marks(path, marks, truth, wrong)
    rows = []
    for target in truth.targets:
        mask = target.read()
        hits = target.hit_cells(mask)
        state, values = "nothing_marked", metrics.nothing_marked(hits)
        with wrong.collected():
            if target in outlined:
                outline = _same_size(masks.from_rle(outlined[target], str(path)), mask, f"{path}, {target.case_id}")
                state, values = "graded", metrics.grade_map(outline.astype(np.float32), mask, hits, 0.5)
            rows.append(_row(model, target, lesion_of(mask), state, values))
        advance()
    wrong.conclude()
    return Graded(_frame(rows), unused)


def _same_size(outline: Mask, mask: Mask, where: str) -> Mask:
    """Return a reader's outline at the mask's size, which is the size of the radiograph or of the working image."""
    for candidate in (outline, mask_to_working(outline)):
        if candidate.shape == mask.shape:
            return candidate
    raise InputError(
        f"{where}: the outline has {outline.shape[1]} x {outline.shape[0]} px, but the mask {mask.shape[1]} x "
        f"{mask.shape[0]} px, so they are of different radiographs; correct the radiographs' names in the file."
    )


def grade_points(model: str, path: Path, truth: Truth, advance: Advance = lambda: None) -> Graded:
    """Return the grades of a reader's points (CheXlocalize's ``hb_salient_pt``), by pointing game and grid cell only.

    The file has a list of ``[x, y]`` in pixels for each radiograph (``patientX_studyY_viewZ_side``) and finding. A
    finding is a hit if one of its points is a hit; without a point it is a miss. ``model`` names the reader in tables.
    """
    wrong = WrongParts(path, "points")
    pointed, unused = _place_marks(path, _read_points(path, wrong), truth, wrong)
    rows = []
    for target in truth.targets:
        mask = target.read()
        hits = target.hit_cells(mask)
        state, values = "nothing_marked", metrics.nothing_marked(hits)
        with wrong.collected():
            places = [_pixel(point, target, mask, f"{path}, {target.case_id}") for point in pointed.get(target, ())]
            pixels = [(np.array([y]), np.array([x])) for y, x in places]
            each = [metrics.grade_places(*pixel, mask, hits) for pixel in pixels]
            if each:
                best = max(range(len(each)), key=lambda place: each[place]["grid_hit"] or 0.0)
                values = {name: _best(value[name] for value in each) for name in metrics.OF_PLACES}
                state, values = "graded", {**values, metrics.CELL: metrics.most_marked_cell(*pixels[best], mask)}
        kept = (metrics.CELL, *metrics.OF_PLACES)
        rows.append(
            _row(model, target, lesion_of(mask), state, {**_none(), **{name: values.get(name) for name in kept}})
        )
        advance()
    wrong.conclude()
    return Graded(_frame(rows), unused)


def _read_points(path: Path, wrong: WrongParts) -> Iterable[tuple[str, str, list[tuple[float, float]]]]:
    record = parse_json(read_text(path), str(path))
    if not isinstance(record, dict) or not all(isinstance(entry, dict) for entry in record.values()):
        raise InputError(
            f"{path}: must be a JSON object of the form {{radiograph: {{finding: [[x, y], …]}}}}, as in CheXlocalize."
        )
    for key, entry in record.items():
        for name, points in entry.items():
            if name == "img_size":
                continue
            where = f"{path}, {key}"
            with wrong.collected():
                finding = chexlocalize.finding_of(name, where)
                yield key, finding, _pairs(points, f"{where}, {name}")


def _pairs(points: Any, where: str) -> list[tuple[float, float]]:
    try:
        return [(float(x), float(y)) for x, y in points]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: must be a list of [x, y] in pixels of the radiograph.") from None


def _pixel(point: tuple[float, float], target: Target, mask: Mask, where: str) -> tuple[int, int]:
    """Return the row and the column in the mask for a point ``(x, y)`` in pixels of the radiograph."""
    height, width = target.source_size or _shape(mask)
    x, y = point
    if not (0 <= x <= width and 0 <= y <= height):
        raise InputError(
            f"{where}: the point ({x:g}, {y:g}) lies outside the radiograph of {width} x {height} px; correct it."
        )
    row, column = min(int(y), height - 1), min(int(x), width - 1)
    return row * mask.shape[0] // height, column * mask.shape[1] // width


def _best(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _place_marks(
    path: Path, marks: Iterable[tuple[str, str, Mark]], truth: Truth, wrong: WrongParts
) -> tuple[dict[Target, Mark], tuple[str, ...]]:
    """Return a reader's marks, keyed by target, and the names (radiograph/finding) of marks without a target.

    The errors of marks that fit several targets are added to ``wrong``.
    """
    directory = Directory(truth.targets)
    placed: dict[Target, Mark] = {}
    unused = []
    for key, finding, mark in marks:
        with wrong.collected():
            target = directory.at(key, finding, f"{path}, {key}")
            if target is None:
                unused.append(f"{key}/{finding}")
            else:
                placed[target] = mark
    if not placed:
        wrong.conclude()
        raise InputError(
            f"{path}: has no point or outline for any of the {len(truth.targets)} findings that have a mask; give the "
            "masks of this file's radiographs, or name the radiographs in this file as CheXlocalize does "
            "(patientX_studyY_viewZ_side)."
        )
    return placed, tuple(unused)


def _shape(mask: Mask) -> tuple[int, int]:
    return mask.shape[0], mask.shape[1]


def _none() -> metrics.Values:
    return dict.fromkeys(metrics.METRICS)


def _row(model: str, target: Target, about_lesion: Lesion, state: str, values: metrics.Values) -> tuple[Any, ...]:
    about = (target.finding, target.case_id, target.item_id, target.patient_id, target.study_id, target.picture)
    # A constant or non-finite map points nowhere.
    cell = values.get(metrics.CELL) if state == "graded" else None
    lesion = (None, *about_lesion)
    swept = (values.get(name) for name in (*metrics.SWEPT["iou"], *metrics.SWEPT["dice"]))
    numbers = (*(values[name] for name in metrics.METRICS), *swept)
    return (model, *about, state, None if cell is None else int(cell), *lesion, *numbers)


def predictions(rows: pl.DataFrame, benchmark: str | None) -> list[Record]:
    """Return answers for ``chexqa grade``: the cell of the grid that each map, or each reader's mark, chooses.

    A map chooses the cell of its maximum; a missing map gives no answer. ``benchmark`` is the benchmark's hash.
    """
    made_on = {} if benchmark is None else {"benchmark": benchmark}
    asked = rows.filter(pl.col("item_id").is_not_null() & (pl.col("state") != "missing"))
    return [
        {"model": model, "item_id": item_id, "answer": None if cell is None else [cell], **made_on}
        for model, item_id, cell in asked.select("model", "item_id", metrics.CELL).iter_rows()
    ]


def _frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")
