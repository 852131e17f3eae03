"""Tables made from grades: levels, drops from level to level, kinds, stages, depth and yes/no decisions.

A table has a row for each model, protocol and group. A number ``x`` has its 95 % interval in ``x_low`` and ``x_high``;
shares are fractions; null means "no number". ``chexqa.eval.tables.glossary`` defines the columns. Stages and depth (the
number of stages passed in a row) are defined by CheXpercept (arXiv 2606.21020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from chexqa.contract.items import CONTESTED, PATH_STAGES, PATHS
from chexqa.contract.kinds import LEVELS
from chexqa.eval.design.weights import NOT_COMPARED
from chexqa.eval.place_results.frame_proofs import mask_unproved
from chexqa.eval.scoring.grade import ROUND, UNFINISHED
from chexqa.eval.scoring.intervals import Estimates, Floats, Groups, proportion
from chexqa.eval.scoring.sample import (
    SCORED,
    WEIGHT,
    WHO,
    ScoredSample,
    contrasts,
    count_patients,
    mask_incomplete,
    mean_by,
    ordered,
    rounds,
    scores,
)

OVERALL = "mean of levels"
READINGS = {
    "end_to_end": "after the model's own answers",
    "oracle_passed": "after right answers",
    "oracle_stated": "after right answers",
    "independent": "asked alone",
}
CONSTANTS: dict[str, dict[int, Callable[[str], bool]]] = {
    "always_yes": {1: lambda path: path != "lesion_free", 2: lambda path: path == "revision_required"},
    "yes_then_no": {1: lambda path: path != "lesion_free", 2: lambda path: path == "revision_free"},
    "always_no": {1: lambda path: path == "lesion_free", 2: lambda path: path == "revision_free"},
}
DECISIONS = {"detection": "lesion_free", "contour_evaluation": "revision_free"}


def share(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return ``part / whole``; null if ``whole`` is 0."""
    return pl.when(whole.abs() > 1e-12).then(part / whole)


def beside(keys: pl.DataFrame, numbers: Mapping[str, Estimates]) -> pl.DataFrame:
    """Return ``keys`` with three columns added for each score: its value and the two ends of its interval."""
    columns = [column for name, estimates in numbers.items() for column in estimates.columns(name).values()]
    return keys.with_columns(columns)


def compared(study: ScoredSample, columns: Sequence[str]) -> pl.DataFrame:
    """Return ``columns`` of the rows that count in the scores of levels; the finding cardiomegaly is left out."""
    rows = study.rows.lazy().filter(pl.col("level").is_not_null() & (pl.col("finding") != NOT_COMPARED))
    return rows.select(columns).collect()


LEVEL_NUMBERS = ("accuracy", "corrected", "accuracy_answered", "corrected_answered", "corrected_guessed")


LevelNumbers = tuple[dict[str, tuple[pl.DataFrame, Estimates]], pl.DataFrame]


def levels(study: ScoredSample, numbers: LevelNumbers | None = None) -> pl.DataFrame:
    """Return the headline: the accuracy of each level, corrected for chance and averaged over its kinds.

    - ``model, protocol, level, kinds, kinds_corrected, items, patients, corrected, accuracy, chance, unfinished``
    - ``prior, prior_corrected``: the scores of always giving the most frequent answer.
    - ``answered``: the share of items with a readable answer.
    - ``accuracy_answered, corrected_answered``: the scores over these items.
    - ``corrected_guessed``: the corrected score if items without a readable answer count as guessed.

    The last row of a model is the mean of its levels. Items on cardiomegaly are left out. ``numbers`` is the result of
    :func:`level_numbers`, if it is known.
    """
    found, facts = numbers or level_numbers(study)
    to = [*WHO, "level"]
    rows = compared(study, [*to, "cluster"])
    means = facts.group_by(to, maintain_order=True).agg(
        pl.len().alias("kinds"), pl.col("kinds_corrected", "items").sum(),
        pl.col("chance", "prior", "prior_corrected", "answered").mean(),
    ).join(count_patients(rows, to), on=to, maintain_order="left")  # fmt: skip
    keys = next(iter(found.values()))[0]
    overall = means.group_by(WHO, maintain_order=True).agg(
        pl.lit(OVERALL).alias("level"), pl.col("kinds", "kinds_corrected", "items").sum(),
        pl.col("chance", "prior", "prior_corrected", "answered").mean(),
    ).join(count_patients(rows, WHO), on=WHO, maintain_order="left")  # fmt: skip
    table = beside(keys, {name: estimates for name, (_, estimates) in found.items()}).join(
        pl.concat([means, overall.select(means.columns)]), on=to, how="left", maintain_order="left"
    )
    columns = [*WHO, "level", "kinds", "kinds_corrected", "items", "patients", *_spread("corrected"),
               *_spread("accuracy"), "chance", "prior", "prior_corrected", "answered", *_spread("accuracy_answered"),
               *_spread("corrected_answered"), *_spread("corrected_guessed")]  # fmt: skip
    results = [*LEVEL_NUMBERS, "answered"]
    return ordered(study, mask_incomplete(study, table.select(columns), results), level=[*LEVELS, OVERALL])


def _spread(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


def level_numbers(study: ScoredSample) -> LevelNumbers:
    """Return the scores :data:`LEVEL_NUMBERS` of each model on the levels, and a table on the kinds of question.

    - A score has estimates for each level, followed by those for the mean of the levels.
    - The table has the numbers of items and patients, and chance, for each model and kind (``Scores.facts``);
      ``kinds_corrected`` is 1 if the kind has a score corrected for chance, otherwise 0.
    """
    found = scores(study, compared(study, [*WHO, "level", *SCORED]), ["level", "kind"])
    estimates = (found.accuracy, found.corrected, found.answered, found.answered_corrected, found.guessed_corrected)
    numbers = {}
    for name, entry in zip(LEVEL_NUMBERS, estimates, strict=True):
        keys, means = _by_level(found.keys, entry)
        numbers[name] = (keys, means)
    has_score = pl.Series("kinds_corrected", ~np.isnan(found.corrected.value)).cast(pl.UInt32)
    return numbers, found.facts.with_columns(has_score)


def _by_level(keys: pl.DataFrame, estimates: Estimates) -> tuple[pl.DataFrame, Estimates]:
    """Return the mean over the kinds of each level, followed by the mean of the levels."""
    by_level, means = mean_by(keys, estimates, [*WHO, "level"])
    overall, mean = mean_by(by_level, means, WHO)
    columns = [*WHO, "level"]
    return pl.concat([by_level, overall.with_columns(pl.lit(OVERALL).alias("level")).select(columns)]), means.join(mean)


def drops(study: ScoredSample, numbers: LevelNumbers | None = None) -> pl.DataFrame:
    """Return a row for each pair of levels: how much lower the headline score of the later level is.

    Columns: ``model, protocol, upper`` (the earlier level), ``lower`` (the later level), ``drop, unfinished``.
    """
    keys, means = (numbers or level_numbers(study))[0]["corrected"]
    place = {row: number for number, row in enumerate(keys.rows())}
    rows, pairs = [], []
    for model, protocol in keys.select(WHO).unique(maintain_order=True).rows():
        for upper, lower in (("coarse", "fine"), ("fine", "semantic"), ("coarse", "semantic")):
            pair = place.get((model, protocol, upper)), place.get((model, protocol, lower))
            if pair[0] is not None and pair[1] is not None:
                rows.append((model, protocol, upper, lower))
                pairs.append((pair[0], pair[1]))
    frame = pl.DataFrame(rows, schema=dict.fromkeys([*WHO, "upper", "lower"], pl.String), orient="row")
    table = beside(frame, {"drop": means.combine(contrasts(keys.height, pairs))})
    return mask_incomplete(study, table, ["drop"])


def kinds(study: ScoredSample) -> pl.DataFrame:
    """Return the scores of each kind.

    - ``model, protocol, kind, items, patients, right, accuracy, chance, prior, corrected, unfinished``
    - ``answered, accuracy_answered``: the share of answered items, and the accuracy among them.
    - ``jaccard``: the mean partial credit of multi-select kinds.
    - ``point_sensitivity``: the share of the points to be moved that the model names.
    - ``false_marks``: the share of the other points that the model names.
    """
    found = scores(study, study.rows, ["kind"])
    multi = [kind for kind, about in study.benchmark.kinds.items() if about.multi]
    jaccard = study.rows.group_by([*WHO, "kind"], maintain_order=True).agg(
        pl.when(pl.col("kind").first().is_in(multi)).then((pl.col(WEIGHT) * pl.col("partial")).sum()).alias("jaccard")
        / pl.col(WEIGHT).sum(),
        (pl.col(WEIGHT) * pl.col("correct")).sum().alias("right"),
    )
    numbers = {"accuracy": found.accuracy, "corrected": found.corrected, "accuracy_answered": found.answered}
    joined = found.facts.join(jaccard, on=[*WHO, "kind"], how="left", maintain_order="left").join(
        _marks(study), on=[*WHO, "kind"], how="left", maintain_order="left"
    )
    table = beside(joined, numbers).select(
        *WHO, "kind", "items", "patients", "right", *_spread("accuracy"), "chance", "prior", *_spread("corrected"),
        "answered", *_spread("accuracy_answered"), "jaccard", *_MARKS,
    )  # fmt: skip
    shown = ["right", "answered", "jaccard", *_MARKS, *numbers]
    hidden = mask_unproved(study, mask_incomplete(study, table, shown), shown)
    return ordered(study, hidden, kind=list(study.benchmark.kinds))


_MARKS = ("point_sensitivity", "false_marks")


def _marks(study: ScoredSample) -> pl.DataFrame:
    """Return the named shares of the points to be moved and of other points, for each kind of question on points.

    A point that must be moved in the direction that is not asked about is one of the other points.
    """
    points = {
        item.item_id: len(item.options) - 1 for item in study.benchmark.items if study.benchmark.kinds[item.kind].points
    }
    count = pl.col("item_id").replace_strict(points, default=None, return_dtype=pl.Int64)
    read = study.said.select(*WHO, "kind", WEIGHT, "answer", "parsed", count.alias("_points"))
    rows = read.filter(pl.col("_points").is_not_null())
    none = pl.concat_list(pl.col("_points") + 1)
    true, named = (pl.col(name).fill_null([]).list.set_difference(none) for name in ("answer", "parsed"))
    weight, hits = pl.col(WEIGHT), named.list.set_intersection(true).list.len()
    false = named.list.len() - hits
    return rows.group_by([*WHO, "kind"], maintain_order=True).agg(
        share((weight * hits).sum(), (weight * true.list.len()).sum()).alias("point_sensitivity"),
        share((weight * false).sum(), (weight * (pl.col("_points") - true.list.len())).sum()).alias("false_marks"),
    )


_OF_CASES = (
    *WHO, *ROUND, "case_id", "cluster", "item_id", "kind", "finding", "path", "stage", "correct", "chance",
    "chance_joint",
)  # fmt: skip


def whole_cases(study: ScoredSample) -> pl.DataFrame:
    """Return the rows that count in the accuracy of stages.

    They belong to conversations with every item finished and no item contested.
    """
    rows = study.rows.select(_OF_CASES).filter(pl.col("stage").is_not_null() & pl.col("path").is_not_null())
    doubtful = pl.col("flags").list.contains(CONTESTED)
    if study.graded.allow_partial:
        doubtful |= pl.col("state").is_in(UNFINISHED)
    broken = study.graded.grades.lazy().filter(pl.col("stage").is_not_null() & doubtful).select(rounds(study)).collect()
    return rows.join(broken.unique(), on=rounds(study), how="anti", maintain_order="left")


def case_stages(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each conversation and stage.

    - ``right``: True if all items of the stage are right.
    - ``gated``: True if all items of this stage and of the earlier stages are right.
    - ``lost``: True if all items of the earlier stages are right, and an item of this stage is not.
    """
    case = [*WHO, *ROUND, "case_id"]
    return (
        rows.group_by(*case, "cluster", "finding", "path", "stage", maintain_order=True)
        .agg(pl.col("correct").all().alias("right"))
        .sort("stage", maintain_order=True)
        .with_columns(pl.col("right").cast(pl.Int8).cum_min().over(case).cast(pl.Boolean).alias("gated"))
        .with_columns((pl.col("gated").shift(fill_value=True).over(case) & ~pl.col("gated")).alias("lost"))
        .with_columns((1.0 / pl.len().over([*WHO, "case_id", "stage"])).alias(WEIGHT))
    )


def stages(study: ScoredSample) -> pl.DataFrame:
    """Return the accuracy of each stage on each question path, a row for each model, protocol, path and stage.

    - ``accuracy``: the share of cases in which all answers of the stage are right.
    - ``gated``: the share of cases in which all answers of the stage and of all earlier stages are right.
    - ``lost``: the share of cases in which this stage is the first with an answer that is not right.

    ``docs/columns.md`` explains the further columns.
    """
    by = ["path", "stage"]
    rows = whole_cases(study)
    judged = case_stages(rows)
    groups = Groups(study.sample, judged, [*WHO, *by])
    whole = groups.sums(WEIGHT)
    numbers = {
        "accuracy": proportion(groups.sums(pl.col(WEIGHT) * pl.col("right")), whole),
        "gated": proportion(groups.sums(pl.col(WEIGHT) * pl.col("gated")), whole),
        "lost": proportion(groups.sums(pl.col(WEIGHT) * pl.col("lost")), whole),
    }
    counted = judged.group_by([*WHO, *by], maintain_order=True).agg(pl.col("case_id").n_unique().alias("cases"))
    kind = rows.group_by([*WHO, *by, "kind"]).agg(pl.col("correct").mean())
    product = kind.group_by([*WHO, *by]).agg(pl.col("correct").product().alias("product"))
    # The questions on a case's points are guessed together, because they share the number of true points.
    joint = pl.col("chance_joint")
    guess = rows.group_by([*WHO, *ROUND, "case_id", *by]).agg(
        pl.col("chance").filter(joint.is_null()).product() * joint.max().fill_null(1)
    )
    guessed = guess.group_by([*WHO, *by]).agg(pl.col("chance").mean())
    first = pl.col("protocol").str.split(" (").list.first()
    table = (
        beside(counted, numbers)
        .join(product, on=[*WHO, *by], how="left", maintain_order="left")
        .join(guessed, on=[*WHO, *by], how="left", maintain_order="left")
        .with_columns(first.replace_strict(READINGS, default="answered outside chexqa").alias("reading"))
        .select(
            *WHO,
            *by,
            "cases",
            "reading",
            *_spread("accuracy"),
            *_spread("gated"),
            *_spread("lost"),
            "product",
            "chance",
        )
    )
    return ordered(study, mask_incomplete(study, table, [*numbers, "product"]), path=PATHS, stage=[1, 2, 3, 4])


def _case_depths(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the ``depth`` of each conversation: the number of stages passed before the first failed one.

    Without a failed stage, the depth is the number of stages of the path.
    """
    # Stage 4 is not asked for cardiomegaly. If all other stages are passed, it counts as passed too.
    most = pl.col("path").replace_strict({path: len(numbers) for path, numbers in PATH_STAGES.items()})
    case = [*WHO, *ROUND, "case_id", "cluster", "finding", "path"]
    return (
        case_stages(rows)
        .group_by(case, maintain_order=True)
        .agg(pl.col("gated").sum().alias("passed"), pl.col("gated").all().alias("all"))
        .with_columns(pl.when("all").then(most).otherwise("passed").cast(pl.Float64).alias("depth"), most.alias("most"))
        .with_columns((1.0 / pl.len().over([*WHO, "case_id"])).alias(WEIGHT))
    )


def depth(study: ScoredSample) -> pl.DataFrame:
    """Return the mean depth (stages passed in a row) on each question path, and the depths of constant answers.

    Columns: ``model, protocol, path, cases, depth, maximum, depth_always_yes``, … and ``unfinished``.
    """
    rows = whole_cases(study)
    depths = _case_depths(rows)
    groups = Groups(study.sample, depths, [*WHO, "path"])
    part = groups.sums(pl.col(WEIGHT) * pl.col("depth") / pl.col("most"))
    maxima = groups.keys["path"].replace_strict({path: len(PATH_STAGES[path]) for path in PATHS}).alias("maximum")
    mean = proportion(part, groups.sums(WEIGHT), binary=False).times(maxima.to_numpy().astype(np.float64))
    counted = depths.group_by([*WHO, "path"], maintain_order=True).agg(pl.col("case_id").n_unique().alias("cases"))
    table = beside(counted, {"depth": mean}).with_columns(maxima)
    # Constant answers do not depend on the model, but are graded on the cases that each model was asked.
    asked = depths.select(*WHO, "path", "case_id").unique(maintain_order=True)
    items = rows.unique("item_id", keep="first", maintain_order=True).with_columns(
        pl.lit(0, pl.Int64).alias(name) if name in ROUND else pl.lit("").alias(name) for name in [*WHO, *ROUND]
    )
    for name in CONSTANTS:
        constant = _case_depths(_answered_constantly(items, name)).select("case_id", "path", "depth")
        own = asked.join(constant, on=["case_id", "path"]).group_by(*WHO, "path").agg(pl.col("depth").mean())
        table = table.join(own.rename({"depth": f"depth_{name}"}), on=[*WHO, "path"], how="left", maintain_order="left")
    return ordered(study, mask_incomplete(study, table, ["depth"]), path=PATHS)


def _answered_constantly(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the rows, graded as if the constant answer ``name`` had been given to every question."""
    right = pl.lit(False)
    for stage, passes in CONSTANTS[name].items():
        paths = [path for path in PATHS if passes(path)]
        right = right | ((pl.col("stage") == stage) & pl.col("path").is_in(paths))
    return rows.with_columns(right.fill_null(False).alias("correct"))


def decisions(study: ScoredSample) -> pl.DataFrame:
    """Score the answers to detection and contour evaluation as yes/no decisions, over the cases of all paths.

    Columns: ``model, protocol, kind, positives, negatives, sensitivity, specificity, balanced_accuracy, yes_rate,
    accuracy, always_yes, always_no`` (the accuracies of constant answers), ``unfinished``.

    For detection, a case is positive if it has a lesion; for contour evaluation, if its outline needs a major revision.
    A reply that is neither yes nor no counts as wrong.
    """
    negative = pl.col("path") == pl.col("kind").replace_strict(DECISIONS, default=None)
    rows = study.rows.filter(pl.col("kind").is_in(list(DECISIONS)) & pl.col("path").is_not_null()).with_columns(
        (~negative).alias("positive")
    )
    positive, weight, right = pl.col("positive"), pl.col(WEIGHT), pl.col("correct")
    said_yes = (positive & right) | (~positive & (pl.col("state") == "wrong"))
    groups = Groups(study.sample, rows, [*WHO, "kind"])
    whole = groups.sums(WEIGHT)
    positives, negatives = groups.sums(weight * positive), groups.sums(weight * ~positive)
    sensitivity = proportion(groups.sums(weight * (positive & right)), positives)
    specificity = proportion(groups.sums(weight * (~positive & right)), negatives)
    numbers = {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_accuracy": sensitivity.join(specificity).combine(_halves(groups.keys.height)),
        "yes_rate": proportion(groups.sums(weight * said_yes), whole),
        "accuracy": proportion(groups.sums(weight * right), whole),
    }
    counts = rows.group_by([*WHO, "kind"], maintain_order=True).agg(
        pl.col("item_id").filter(positive).n_unique().alias("positives"),
        pl.col("item_id").filter(~positive).n_unique().alias("negatives"),
    )
    every = pl.col("positives") + pl.col("negatives")
    table = beside(counts, numbers).with_columns(
        (pl.col("positives") / every).alias("always_yes"), (pl.col("negatives") / every).alias("always_no")
    )
    return ordered(study, mask_incomplete(study, table, list(numbers)), kind=list(study.benchmark.kinds))


def _halves(count: int) -> Floats:
    """Return weights for the means of pairs: score ``i`` is paired with score ``count + i``, for ``i`` below
    ``count``.
    """
    return np.hstack([np.eye(count), np.eye(count)]) / 2
