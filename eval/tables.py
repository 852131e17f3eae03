"""Tables made of grades: levels, kinds, stages, depth, yes/no decisions, the grid and item states.

Every function takes the frame of ``chexqa.eval.grading`` and gives a frame with a row for each model, protocol and
group. Definitions: CheXpercept (arXiv 2606.21020) for stages and depth, Beyond Diagnosis (arXiv 2509.18015) for the
grid. Two rules hold everywhere and are decided here alone: a share of nothing is null (:func:`share`), and a model
with unfinished items has no accuracy at all (:func:`_hidden`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from chexqa.eval.grading import MISSES, STATES, UNFINISHED
from chexqa.items import GRID, KINDS, LEVELS, PATH_STAGES, PATHS

WHO = ["model", "protocol"]
# Cardiomegaly has no semantic items; where levels are compared it is left out of all of them.
NOT_COMPARED = "cardiomegaly"
MACRO = "mean of findings"
READINGS = {
    "end_to_end": "answered after an error",
    "oracle_passed": "given a correct history",
    "oracle_stated": "given a correct history",
    "independent": "asked alone",
}
CONSTANTS: dict[str, dict[int, Callable[[str], bool]]] = {
    "always_yes": {1: lambda path: path != "lesion_free", 2: lambda path: path == "revision_required"},
    "yes_then_no": {1: lambda path: path != "lesion_free", 2: lambda path: path == "revision_free"},
    "always_no": {1: lambda path: path == "lesion_free", 2: lambda path: path == "revision_free"},
}


def share(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """``part / whole``; null where the whole is nothing."""
    return pl.when(whole.abs() > 1e-12).then(part / whole)


def all_tables(grades: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Every table by name, in the order of reading."""
    return {
        "levels": levels(grades),
        "states": states(grades),
        "depth": depth(grades),
        "stages": stages(grades),
        "kinds": kinds(grades),
        "decisions": decisions(grades),
        "grid": grid(grades),
    }


def unfinished(grades: pl.DataFrame) -> pl.DataFrame:
    """How many items of each model and protocol are unfinished: ``model, protocol, items, unfinished``."""
    return grades.group_by(WHO, maintain_order=True).agg(
        pl.len().alias("items"), pl.col("state").is_in(UNFINISHED).sum().alias("unfinished")
    )


def _hidden(table: pl.DataFrame, grades: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The table with ``columns`` null for each model and protocol that has unfinished items, and their number."""
    counted = table.join(unfinished(grades).drop("items"), on=WHO, how="left", maintain_order="left")
    return counted.with_columns(pl.when(pl.col("unfinished") == 0).then(pl.col(column)) for column in columns)


def _ordered(table: pl.DataFrame, column: str, order: Sequence[str]) -> pl.DataFrame:
    """Rows of each model in the given order of ``column``, models and protocols in the order they came."""
    first = table.select(WHO).unique(maintain_order=True).with_row_index("_who")
    ranks = pl.DataFrame({column: list(order), "_rank": range(len(order))})
    joined = table.join(first, on=WHO, how="left").join(ranks, on=column, how="left")
    extra = ["stage"] if "stage" in table.columns else []
    return joined.sort("_who", "_rank", *extra, maintain_order=True).drop("_who", "_rank")


def _accuracies(grades: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Items, right ones, accuracy, chance, prior, and accuracy corrected for chance: sum(a - c) / sum(1 - c)."""
    right, chance = pl.col("correct").sum(), pl.col("chance").sum()
    return grades.group_by(*WHO, *by, maintain_order=True).agg(
        pl.len().alias("items"),
        right.alias("right"),
        pl.col("correct").mean().alias("accuracy"),
        pl.col("chance").mean(),
        pl.col("prior").mean(),
        share(right - chance, pl.len() - chance).alias("corrected"),
    )


def levels(grades: pl.DataFrame) -> pl.DataFrame:
    """The headline: per level, the mean over its kinds of accuracy corrected for chance, cardiomegaly left out.

    Columns: ``model, protocol, level, kinds, items, accuracy, chance, corrected, unfinished``; ``accuracy`` and
    ``chance`` are means over the same kinds.
    """
    compared = grades.filter(pl.col("level").is_not_null() & (pl.col("finding") != NOT_COMPARED))
    table = (
        _accuracies(compared, ["level", "kind"])
        .group_by(*WHO, "level", maintain_order=True)
        .agg(pl.len().alias("kinds"), pl.col("items").sum(), pl.col("accuracy", "chance", "corrected").mean())
    )
    return _ordered(_hidden(table, grades, ["accuracy", "corrected"]), "level", LEVELS)


def kinds(grades: pl.DataFrame) -> pl.DataFrame:
    """Per item kind: ``items, right, accuracy, chance, prior, corrected, unfinished``."""
    table = _accuracies(grades, ["kind"])
    return _ordered(_hidden(table, grades, ["right", "accuracy", "corrected"]), "kind", list(KINDS))


def states(grades: pl.DataFrame) -> pl.DataFrame:
    """Per model and protocol: ``items`` and the number that ended in each state."""
    counts = [(pl.col("state") == state).sum().alias(state) for state in STATES]
    return grades.group_by(WHO, maintain_order=True).agg(pl.len().alias("items"), *counts)


def case_stages(grades: pl.DataFrame) -> pl.DataFrame:
    """Per case and stage: ``right`` (all its items are), and ``gated`` (so are those of every stage before)."""
    case = [*WHO, "case_id"]
    return (
        grades.filter(pl.col("stage").is_not_null() & pl.col("path").is_not_null())
        .group_by(*case, "finding", "path", "stage", maintain_order=True)
        .agg(pl.col("correct").all().alias("right"))
        .sort("stage", maintain_order=True)
        .with_columns(pl.col("right").cast(pl.Int8).cum_min().over(case).cast(pl.Boolean).alias("gated"))
    )


def stages(grades: pl.DataFrame) -> pl.DataFrame:
    """Per path and stage: accuracy as asked, named by the protocol's ``reading``, and gated.

    Columns: ``model, protocol, path, stage, cases, reading, accuracy, gated, product, unfinished``; ``product`` is the
    product of the accuracies of the stage's kinds, beside the conjunction that ``accuracy`` is.
    """
    group = [*WHO, "path", "stage"]
    table = (
        case_stages(grades)
        .group_by(group, maintain_order=True)
        .agg(pl.len().alias("cases"), pl.col("right").mean().alias("accuracy"), pl.col("gated").mean())
    )
    asked = grades.filter(pl.col("stage").is_not_null() & pl.col("path").is_not_null())
    product = (
        asked.group_by(*group, "kind").agg(pl.col("correct").mean()).group_by(group).agg(pl.col("correct").product())
    )
    named = table.join(product.rename({"correct": "product"}), on=group, how="left").with_columns(
        pl.col("protocol").str.replace(" (blind)", "", literal=True).replace_strict(READINGS).alias("reading")
    )
    columns = [*group, "cases", "reading", "accuracy", "gated", "product"]
    return _ordered(_hidden(named.select(columns), grades, ["accuracy", "gated", "product"]), "path", PATHS)


def case_depths(grades: pl.DataFrame) -> pl.DataFrame:
    """Per case: ``depth``, the stages passed in a row; all of them count as the path's number of stages.

    So the last stage of cardiomegaly, which has no stage 4, counts for the missing one, and maxima are equal.
    """
    most = pl.col("path").replace_strict({path: len(numbers) for path, numbers in PATH_STAGES.items()})
    return (
        case_stages(grades)
        .group_by(*WHO, "case_id", "finding", "path", maintain_order=True)
        .agg(pl.col("gated").sum().alias("passed"), pl.col("gated").all().alias("all"))
        .select(*WHO, "case_id", "finding", "path", pl.when("all").then(most).otherwise("passed").alias("depth"))
    )


def depth(grades: pl.DataFrame) -> pl.DataFrame:
    """Per path: ``cases``, mean ``depth``, ``maximum``, and the depth of constant answers (``depth_always_yes``, …).

    A constant answerer says the same to every detection and contour evaluation and passes nothing that comes later.
    """
    table = (
        case_depths(grades)
        .group_by(*WHO, "path", maintain_order=True)
        .agg(pl.len().alias("cases"), pl.col("depth").mean())
        .with_columns(pl.col("path").replace_strict({path: len(PATH_STAGES[path]) for path in PATHS}).alias("maximum"))
    )
    for name in CONSTANTS:
        constant = case_depths(_answered_constantly(grades, name)).group_by(*WHO, "path").agg(pl.col("depth").mean())
        table = table.join(
            constant.rename({"depth": f"depth_{name}"}), on=[*WHO, "path"], how="left", maintain_order="left"
        )
    return _ordered(_hidden(table, grades, ["depth"]), "path", PATHS)


def _answered_constantly(grades: pl.DataFrame, name: str) -> pl.DataFrame:
    """The grades of one who gives the constant answers of this name."""
    right = pl.lit(False)
    for stage, passes in CONSTANTS[name].items():
        paths = [path for path in PATHS if passes(path)]
        right = right | ((pl.col("stage") == stage) & pl.col("path").is_in(paths))
    return grades.with_columns(right.fill_null(False).alias("correct"))


def decisions(grades: pl.DataFrame) -> pl.DataFrame:
    """Detection and contour evaluation as yes/no decisions.

    Columns: ``model, protocol, kind, positives, negatives, sensitivity, specificity, yes_rate, balanced_accuracy,
    unfinished``. A lesion is positive, and so is a contour that needs a major revision. What is neither yes nor no
    counts against both rates.
    """
    kind, path, right = pl.col("kind"), pl.col("path"), pl.col("correct")
    positive = pl.when(kind == "detection").then(path != "lesion_free").otherwise(path == "revision_required")
    rows = grades.filter(kind.is_in(["detection", "contour_evaluation"]) & path.is_not_null()).with_columns(
        positive.alias("positive")
    )
    yes = (pl.col("positive") & right) | (~pl.col("positive") & (pl.col("state") == "wrong"))
    positives, negatives = pl.col("positive").sum(), (~pl.col("positive")).sum()
    table = rows.group_by(*WHO, "kind", maintain_order=True).agg(
        positives.alias("positives"),
        negatives.alias("negatives"),
        share((pl.col("positive") & right).sum(), positives).alias("sensitivity"),
        share((~pl.col("positive") & right).sum(), negatives).alias("specificity"),
        yes.mean().alias("yes_rate"),
    )
    table = table.with_columns(((pl.col("sensitivity") + pl.col("specificity")) / 2).alias("balanced_accuracy"))
    rates = ["sensitivity", "specificity", "yes_rate", "balanced_accuracy"]
    return _ordered(_hidden(table, grades, rates), "kind", list(KINDS))


def grid(grades: pl.DataFrame) -> pl.DataFrame:
    """Per finding, and as their unweighted mean: hit rate of all items and of those that some cell can hit.

    Columns: ``model, protocol, finding, items, attainable, hit_rate, hit_rate_attainable, chance, ceiling``, the share
    of items in each kind of miss, ``no_answer`` (what is no cell), ``unfinished``.
    """
    rows = grades.filter(pl.col("kind") == GRID).with_columns((pl.col("answer").list.len() > 0).alias("can"))
    misses = [(pl.col("miss") == miss).fill_null(False).mean().alias(miss) for miss in MISSES]
    table = (
        rows.group_by(*WHO, "finding", maintain_order=True)
        .agg(
            pl.len().alias("items"),
            pl.col("can").sum().alias("attainable"),
            pl.col("correct").mean().alias("hit_rate"),
            share(pl.col("correct").sum(), pl.col("can").sum()).alias("hit_rate_attainable"),
            pl.col("chance").mean(),
            pl.col("can").mean().alias("ceiling"),
            *misses,
            pl.col("state").is_in(["correct", "wrong"]).not_().mean().alias("no_answer"),
        )
        .sort("finding", maintain_order=True)
    )
    rates = ["hit_rate", "hit_rate_attainable", "chance", "ceiling", *MISSES, "no_answer"]
    macro = table.group_by(WHO, maintain_order=True).agg(
        pl.lit(MACRO).alias("finding"), pl.col("items", "attainable").sum(), pl.col(rates).mean()
    )
    found = table["finding"].unique().sort().to_list()
    whole = pl.concat([table, macro.select(table.columns)])
    known = [rate for rate in rates if rate not in ("chance", "ceiling")]
    return _ordered(_hidden(whole, grades, known), "finding", [*found, MACRO])
