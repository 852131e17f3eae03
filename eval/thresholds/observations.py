"""Answers as observations of a psychometric function: the depth of the error in an outline, and the response to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WHO, ScoredSample
from chexqa.eval.thresholds.psychometric import Form

CONTOUR, POINTS, PICTURES = "contour evaluation", "points", "four pictures"
TASKS: dict[str, Form] = {CONTOUR: "yes_no", POINTS: "marks", PICTURES: "choice"}
_POINT_KINDS = {"revision_expansion": "outside", "revision_contraction": "inside"}
_UNIT: dict[str, Any] = {"item_id": pl.String, "seen_in": pl.String, "option": pl.Int64, "depth": pl.Float64}


def observations(study: ScoredSample) -> pl.DataFrame:
    """Return the models' responses in the three :data:`TASKS`: a row for each outline, point or set of pictures.

    Columns, beside those that name model, protocol, item and patient:

    - ``seen_in``: the task.
    - ``depth``: the depth of the outline's error in pixels of the working image; null if there is no error.
    - ``response``: True if the model calls the outline wrong, marks the point, or chooses the right picture.
    - ``option``: the number of the option that stands for the response True, whether or not the model chose it.
    """
    units = list(_units(study.benchmark))
    read = study.said.select(*WHO, "item_id", "case_id", "cluster", "state", "parsed")
    rows = read.filter(pl.col("state").is_in(ANSWERED)).join(
        pl.DataFrame(units, schema=_UNIT, orient="row"), on="item_id", how="inner", maintain_order="left"
    )
    chosen = pl.col("parsed").list.contains(pl.col("option")).fill_null(False)
    return rows.select(*WHO, "seen_in", "item_id", "option", "case_id", "cluster", "depth", chosen.alias("response"))


def _units(benchmark: Benchmark) -> Iterator[tuple[str, str, int, float | None]]:
    """Yield the possible responses: the item's id, the task, the option's number, and the depth of the error."""
    answers = benchmark.key("grading")[0]
    edits: dict[str, list[Mapping[str, Any]]] = {}
    for item in benchmark.items:
        found = answers[item.item_id].evidence.get("edits")
        if found and len(found) > len(edits.get(item.case_id, ())):
            edits[item.case_id] = list(found)
    for item in benchmark.items:
        answer = answers[item.item_id]
        if item.kind == "contour_evaluation":
            yield from _of_outline(item, answer)
        elif item.kind in _POINT_KINDS:
            yield from _of_points(item, answer, edits.get(item.case_id, []))
        elif item.kind == "revision_result":
            depth = _nearest_wrong(answer)
            if depth is not None:
                yield item.item_id, PICTURES, answer.answer[0], depth


def _of_outline(item: Item, answer: Answer) -> Iterator[tuple[str, str, int, float | None]]:
    # Outlines with several errors are left out, because no single depth describes them.
    depths = [float(edit["depth"]) for edit in answer.evidence.get("edits", ()) if edit["true"]]
    if len(depths) == 1 or (not depths and answer.answer == (2,)):
        yield item.item_id, CONTOUR, 1, depths[0] if depths else None


def _of_points(
    item: Item, answer: Answer, edits: list[Mapping[str, Any]]
) -> Iterator[tuple[str, str, int, float | None]]:
    """Yield the responses to the points on the side of the outline that the item asks about."""
    # Points on the other side are never right.
    for option, point in zip(item.options, answer.evidence.get("points", ()), strict=False):
        if option.side not in (None, _POINT_KINDS[item.kind]):
            continue
        edit = point["edit"]
        if edit is not None and edit >= len(edits):
            continue
        yield item.item_id, POINTS, option.n, None if edit is None else float(edits[edit]["depth"])


def _nearest_wrong(answer: Answer) -> float | None:
    """Return how deep the difference is from the right picture to the most similar wrong one; None if unknown."""
    edits, errors = answer.evidence.get("edits", ()), answer.evidence.get("errors", ())
    wrong = [one for one in errors if one]
    if len(wrong) + 1 != len(errors) or any(edit >= len(edits) for one in wrong for edit in one):
        return None
    return min(max(float(edits[edit]["depth"]) for edit in one) for one in wrong)


def mm_per_pixel(benchmark: Benchmark) -> dict[str, float]:
    """Return the size of the working image's pixels in mm, by case; cases without a pixel spacing are missing."""
    found = {}
    for case_id, case in benchmark.key("grading")[1].items():
        spacing, source, working = (case.measures.get(name) for name in
                                    ("pixel_spacing_mm", "source_size", "working_size"))  # fmt: skip
        if spacing and source and working:
            found[case_id] = float(np.mean(np.multiply(spacing, np.divide(source, working))))
    return found
