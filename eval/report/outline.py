"""What the page holds, in reading order: its parts with their texts, plots and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chexqa.eval.report import plots
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.levels_and_stages import OVERALL

Frames = Mapping[str, pl.DataFrame]
# A plot from the frames of one protocol and the order of its models; None where there is nothing to draw.
Draw = Callable[[Frames, list[str]], Figure | None]


@dataclass(frozen=True)
class Section:
    """One part of the page: which plots (name, caption, function) and which tables it holds."""

    anchor: str
    title: str
    text: str
    plots: tuple[tuple[str, str, Draw], ...] = ()
    tables: tuple[str, ...] = ()


def _of_grid(frames: Frames, order: list[str]) -> Figure | None:
    return plots.grid(frames["grid"], order, MACRO)


def _of_cells(frames: Frames, order: list[str]) -> Figure | None:
    """Where all models together point, beside where the right cells are."""
    table = frames["cells"]
    if not table.height:
        return None
    chosen, correct = (np.zeros(64), np.zeros(64))
    for cell, count, right in table.group_by("cell").agg(pl.col("chosen", "correct").sum()).rows():
        chosen[cell - 1] = count
        correct[cell - 1] = right
    shares = [values.reshape(8, 8) / max(values.sum(), 1) for values in (chosen, correct)]
    return plots.cells(shares[0], shares[1], order[0] if len(order) == 1 else "all models")


def _of_costs(frames: Frames, order: list[str]) -> Figure | None:
    overall = frames["levels"].filter(pl.col("level") == OVERALL).select("model", "corrected")
    known = frames["costs"].join(overall, on="model").drop_nulls(["cost_per_1000_usd", "corrected"])
    return plots.cost(known.select("model", "cost_per_1000_usd", "corrected").rows())


OUTLINE = (
    Section(
        "levels",
        "Where models stop seeing",
        "Accuracy at each level of perception: whether a lesion is seen at all (coarse), whether its outline is judged "
        "and mended (fine), and whether it is described (semantic). Each level is the mean of its kinds of questions. "
        "Corrected scores put chance at 0 and a perfect reader at 100.",
        (
            (
                "levels",
                "Accuracy by level with 95 % intervals; the grey part is what chance gives. Models stand in the order "
                "of their mean over levels, corrected for chance.",
                lambda frames, order: plots.levels(frames["levels"]),
            ),
        ),
        (
            "levels",
            "drops",
        ),
    ),
    Section(
        "comparisons",
        "Which models differ",
        "Paired tests on the same patients. Models that share a letter cannot be told apart at 5 % after Holm's "
        "correction over the family that was named beforehand; everything outside the family is exploratory.",
        (),
        (
            "groups",
            "contrast",
            "detectable",
            "pairs",
        ),
    ),
    Section(
        "depth",
        "How far down the path",
        "Depth counts the stages of a case that are passed in a row. A stage is right when all its items are.",
        (
            (
                "depth",
                "Mean depth on each path with 95 % intervals; the dashed line is the best constant answer's.",
                lambda frames, order: plots.depth(frames["depth"], order),
            ),
            (
                "stages",
                "Accuracy of whole stages, as asked.",
                lambda frames, order: plots.stages(frames["stages"], order),
            ),
        ),
        ("depth", "stages"),
    ),
    Section(
        "kinds",
        "Kinds of questions",
        "Every kind by itself, the two yes/no questions as decisions, and answers that contradict each other.",
        (("kinds", "Accuracy of each kind.", lambda frames, order: plots.kinds(frames["kinds"], order)),),
        (
            "kinds",
            "decisions",
            "contradictions",
            "swapped",
        ),
    ),
    Section(
        "grid",
        "Pointing on the grid",
        "One cell of an 8 x 8 grid is named for each finding that is present; a hit covers at least half of the cell.",
        (
            ("grid", "Hit rate between chance and the ceiling: small lesions fill no cell.", _of_grid),
            ("cells", "Where models point, and where the right cells are.", _of_cells),
        ),
        ("grid", "published"),
    ),
    Section(
        "subgroups",
        "Groups of patients and lesions",
        "Groups of fewer than 30 patients are not shown. A gap compares a group with everyone else at equal finding "
        "and kind of question.",
        (
            (
                "subgroups",
                "Scores of groups, mean of levels.",
                lambda frames, order: plots.subgroups(frames["subgroups"], order),
            ),
        ),
        ("subgroups",),
    ),
    Section(
        "effects",
        "What is answered without looking",
        "Runs without pictures or with drawings alone, turned options and repeated questions, where there are any.",
        (),
        (
            "without_radiograph",
            "rotations",
            "positions",
            "agreement",
        ),
    ),
    Section(
        "states",
        "How items ended, and what it cost",
        "Everything but 'correct' counts as not correct in the headline.",
        (
            ("states", "States of all items.", lambda frames, order: plots.states(frames["states"], order)),
            ("cost", "Score against price.", _of_costs),
        ),
        ("states", "contested", "costs"),
    ),
)
