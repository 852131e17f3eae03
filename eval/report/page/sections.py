"""Sections of the report's page in reading order, each with its text, plots and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chexqa.eval.report import limit_plots, plots, scatter_plots
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.levels_and_stages import OVERALL

Frames = Mapping[str, pl.DataFrame]
# Function that draws a plot from the frames of one protocol and the order of its models; None if there is no data.
Draw = Callable[[Frames, list[str]], Figure | None]


@dataclass(frozen=True)
class Section:
    """Section of the page: its question, its tables, and its plots.

    ``plots`` has, for each plot, its name, its caption and the function that draws it into a file. On the page itself,
    scripts draw the plots.
    """

    anchor: str
    title: str
    asks: str
    text: str
    plots: tuple[tuple[str, str, Draw], ...] = ()
    tables: tuple[str, ...] = ()


def _of_grid(frames: Frames, order: list[str]) -> Figure | None:
    return plots.grid(frames["grid"], order, MACRO)


def _of_cells(frames: Frames, order: list[str]) -> Figure | None:
    """Return a figure of how often all models choose each cell and how often it is right; None if no cell was asked."""
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
    return scatter_plots.cost(known.select("model", "cost_per_1000_usd", "corrected").rows())


OUTLINE = (
    Section(
        "levels",
        "Accuracy by level",
        "How well does each model see, describe and point?",
        "Accuracy at each level of perception: detecting a lesion (coarse), judging and revising its outline (fine), "
        "and describing it (semantic). Each level is the mean of its kinds of questions. In scores corrected for "
        "chance, guessing has 0 and a perfect reader 100.",
        (
            (
                "levels",
                "Accuracy by level with 95 % intervals; the grey part is chance. Models are ordered by their mean "
                "over levels, corrected for chance.",
                lambda frames, order: plots.levels(frames["levels"], order),
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
        "Which differences are significant?",
        "Paired tests on the same patients. Models with a common letter do not differ significantly (5 %, Holm's "
        "correction for all tests of a family: one of pairs of models, named in advance, and one of pairs with a "
        "reader); all other tests are exploratory. Models are called alike if the 90 % interval of their difference "
        "lies within the margin, with the same correction.",
        (),
        (
            "decided",
            "plan",
            "groups",
            "random_readers",
            "powered",
            "contrast",
            "detectable",
            "pairs",
            "protocols",
            "rankings",
        ),
    ),
    Section(
        "compare",
        "Two models side by side",
        "Choose two models: where does one see more, and which items does only one have right?",
        "Differences are on the same items of the same patients. Levels are corrected for chance. Under the "
        "report's first protocol, levels are tested with Holm's correction: pairs of models in a family named in "
        "advance, pairs with a reader in another family. Tests under other protocols, and tests of the grid, are "
        "exploratory and not corrected. Kinds and findings have intervals but no "
        "tests.",
        (),
        ("differences",),
    ),
    Section(
        "depth",
        "Stages passed in a row",
        "How far does a model get before its first error?",
        "Depth is the number of a case's stages passed in a row. A stage is passed if all its items are right.",
        (
            (
                "depth",
                "Mean depth on each path with 95 % intervals; the dashed line is the depth of the best constant "
                "answers.",
                lambda frames, order: plots.depth(frames["depth"], order),
            ),
            (
                "stages",
                "Accuracy of each stage; a stage is right if all its items are right.",
                lambda frames, order: plots.stages(frames["stages"], order),
            ),
        ),
        ("depth", "stages"),
    ),
    Section(
        "kinds",
        "Kinds of questions",
        "Which questions and findings are hard, and what is answered instead?",
        "The accuracy of each kind, the two yes/no questions as decisions, and answers that contradict each other.",
        (("kinds", "Accuracy of each kind.", lambda frames, order: plots.kinds(frames["kinds"], order)),),
        (
            "kinds",
            "finding_kinds",
            "answers_by_key",
            "second_reader",
            "decisions",
            "contradictions",
            "swapped",
        ),
    ),
    Section(
        "grid",
        "Pointing on the grid",
        "Does a model know where the finding is?",
        "For each finding present, a model names one cell of an 8 x 8 grid. A cell is a hit if the lesion covers at "
        "least half of it.",
        (
            (
                "grid",
                "Hit rate, with chance and the ceiling (the highest possible hit rate). The ceiling is below 100 % if "
                "a lesion is too small to cover half of any cell.",
                _of_grid,
            ),
            ("cells", "Where models point, and where the right cells are.", _of_cells),
        ),
        ("grid", "pointing", "published"),
    ),
    Section(
        "places",
        "Places by coordinates",
        "Can a model give the place in coordinates?",
        "A model gives the place of a finding by coordinates, or answers that it is nowhere. The finding may be "
        "present or absent. The net score is the share of present findings with a right place minus the share of "
        "absent findings with any place. A model has scores only if its answers on test markers (white marks at "
        "known places of plain pictures) prove that it uses its declared coordinate system: the unit and order of "
        "its numbers.",
        (),
        ("places", "place_frames", "where"),
    ),
    Section(
        "subgroups",
        "Groups of patients and lesions",
        "For which patients is a model better or worse?",
        "Groups of fewer than 30 patients are not shown. A gap compares a group with the other groups at the same "
        "finding and kind of question.",
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
        "grounding",
        "Does it look?",
        "Do answers follow the lesion?",
        "Detection was asked again on altered radiographs: once with the lesion filled in, once with clean lung "
        "elsewhere filled in, mostly the mirrored place in the other lung. Net grounding is the share of answers that "
        "change with the lesion minus the share that change with the other place. A model that does not use the lesion "
        "has 0, whatever its accuracy. Any change counts, from yes to no and from no to yes. Cases without altered "
        "pictures are counted below. If a fresh seed was asked, the fresh drop is the accuracy lost on it; it is large "
        "for a model that has memorised the benchmark.",
        (
            (
                "grounding",
                "Accuracy of detection against net grounding, with 95 % intervals: a model may be right without "
                "looking at the lesion.",
                lambda frames, order: (
                    scatter_plots.grounding(frames["grounding"], order) if "grounding" in frames else None
                ),
            ),
            (
                "grounded",
                "Net grounding, and the share of answers that are right and grounded, with 95 % intervals.",
                lambda frames, order: plots.grounded(frames["grounding"], order) if "grounding" in frames else None,
            ),
        ),
        ("grounding", "grounding_findings", "not_audited"),
    ),
    Section(
        "limits",
        "Limits: how deep an error must be",
        "From which depth is an error of an outline noticed?",
        "A threshold is the depth from which an error of an outline is seen. There are three tasks. Say whether an "
        "outline needs a revision: d' is 1 at the threshold (outlines with one error). Mark the point at the error: "
        "the share of marks is halfway between the share of false marks and the highest possible share. Choose the "
        "right one of four outlines: the depth is the smallest difference from a wrong one. A threshold outside the "
        "tested depths is given as the side on which it lies.",
        (
            (
                "thresholds",
                "Thresholds with 95 % intervals, models as circles, readers as diamonds; an open mark or an arrow lies "
                "outside the tested depths.",
                lambda frames, order: limit_plots.thresholds(frames["thresholds"], order),
            ),
        ),
        ("thresholds",),
    ),
    Section(
        "stress",
        "Limits: stress",
        "Do degraded radiographs, other words or a false history change the answers?",
        "The same questions about degraded radiographs (five severities each; the drawing stays as it is), in other "
        "words of the same meaning, and after one line of false history. Each number compares these answers with the "
        "answers to the originals of the same items. Kinds of stress are never pooled. The change of accuracy over "
        "all severities of a degradation is the area between the curves with and without it.",
        (
            (
                "stress",
                "Change of accuracy under each kind of stress, over all its severities, with 95 % intervals.",
                lambda frames, order: (
                    limit_plots.stress(frames["stress"], order, "change", "points") if "stress" in frames else None
                ),
            ),
            (
                "stress_curves",
                "Change of accuracy at each severity of each degradation, with 95 % intervals where there are enough "
                "patients.",
                lambda frames, order: (
                    limit_plots.stress_curves(frames["stress_curve"], order) if "stress_curve" in frames else None
                ),
            ),
            (
                "flips",
                "Share of answers that differ from the answer to the original, with 95 % intervals.",
                lambda frames, order: (
                    limit_plots.stress(frames["stress"], order, "flips", "answers changed, %")
                    if "stress" in frames
                    else None
                ),
            ),
        ),
        ("stress", "stress_curve"),
    ),
    Section(
        "confidence",
        "Limits: confidence",
        "Are answers with a high confidence more often right?",
        "Models state how likely it is that their answer is right; repeated questions and the probabilities of tokens "
        "give further estimates. A calibrated model is right in 80 % of the answers with a confidence of 80 %. "
        "Confidence is useful if it is higher for right answers than for wrong ones.",
        (
            (
                "calibration",
                "Share of right answers in each bin of confidence; for a calibrated model, the points lie on the "
                "diagonal.",
                lambda frames, order: limit_plots.calibration(frames["confidence_bins"], order),
            ),
            (
                "kept",
                "Share of wrong answers if only the most confident answers are kept; the others would go to a reader.",
                lambda frames, order: limit_plots.kept(frames["confidence_curve"], order),
            ),
        ),
        ("confidence", "abstention"),
    ),
    Section(
        "without",
        "Answers without the radiograph",
        "How much is right without the radiograph?",
        "Scores of runs without pictures or with drawings only, compared with the same questions with the radiograph.",
        (),
        ("without_radiograph",),
    ),
    Section(
        "effects",
        "Stability of answers",
        "Do answers depend on the place of an option, or on chance?",
        "How often models choose the option at each position, compared with how often it is right there; and, if "
        "they were asked, scores with options in other orders and answers to repeated questions.",
        (),
        (
            "rotations",
            "positions",
            "agreement",
        ),
    ),
    Section(
        "states",
        "States of items, and costs",
        "How did the questions end, and what did they cost?",
        "In the headline, every state except 'correct' counts as not correct.",
        (
            ("states", "States of all items.", lambda frames, order: plots.states(frames["states"], order)),
            ("cost", "Score against price.", _of_costs),
        ),
        ("states", "contested", "costs"),
    ),
)
