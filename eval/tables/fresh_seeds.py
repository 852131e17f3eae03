"""Drops of accuracy from a benchmark to a fresh seed of it; a drop shows that a model has memorised answers.

A fresh seed (``chexqa freshen``) asks about the same radiographs by the same rules, with other outlines, points,
options and orders. Only the kinds of question that are drawn anew are compared (``Kind.drawn_anew``).

:func:`compare_fresh` compares two runs. :func:`model_drops` gives one row for each model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED, PATH_STAGES
from chexqa.contract.items import Path as QuestionPath
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import Run
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.csv_and_parquet import tidy
from chexqa.eval.scoring.grade import UNFINISHED, Graded, find_benchmark, grade, grade_folders, label, protocol_name
from chexqa.eval.scoring.intervals import Groups, Sample, proportion
from chexqa.eval.scoring.sample import RIGHT, WEIGHT, with_clusters
from chexqa.eval.scoring.significance import exchange_labels
from chexqa.eval.tables.model_pairs import NO_RIVALS
from chexqa.eval.tables.run_diff import load_pair, matching_models
from chexqa.files.errors import InputError
from chexqa.stats import holm

FALLS, STAYS, UNDECIDED = FRESH_VERDICTS = ("falls", "does not fall", "undecided")
MEAN_OF_KINDS = "mean of kinds"
# A drop below the margin is no fall; the margin is set before grading. LEVEL is the largest probability that any of
# several models that have memorised nothing gets the verdict "falls".
FRESH_MARGIN, LEVEL = 0.1, 0.01
BEFORE, AFTER = "before", "after"
_KINDS = [name for name, kind in KINDS.items() if kind.drawn_anew]
SCHEMA: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "kind": pl.String, "items": pl.Int64, "items_fresh": pl.Int64,
    "patients": pl.Int64, "accuracy": pl.Float64, "accuracy_fresh": pl.Float64, "drop": pl.Float64,
    "drop_low": pl.Float64, "drop_high": pl.Float64, "p": pl.Float64, "p_holm": pl.Float64, "margin": pl.Float64,
    "verdict": pl.String,
}  # fmt: skip
# Columns of a table with a row for each model.
MODEL_DROPS = {name: SCHEMA[name] for name in ("model", "protocol", "drop", "drop_low", "drop_high", "verdict")}


class ModelPair(NamedTuple):
    """Pair of models whose accuracies are compared; usually the same model, asked in two runs.

    - ``on_benchmark``: the name of the model in the run on a benchmark.
    - ``on_fresh_seed``: the name of the model in the run on a fresh seed of this benchmark.
    - ``protocol``: the protocol of both runs.
    """

    on_benchmark: str
    on_fresh_seed: str
    protocol: str


class Drops(NamedTuple):
    """Drops of accuracy on a fresh seed.

    - ``table``: for each pair of models, a row for each kind of question and a row for the mean over the kinds; the
      columns are :data:`SCHEMA`.
    - ``left_out``: the number of items that are not compared, keyed by reason.
    """

    table: pl.DataFrame
    left_out: dict[str, int]


@dataclass(frozen=True)
class FreshComparison:
    """Comparison of a run with a run on a fresh seed.

    - ``drops``, ``left_out``: as in :class:`Drops`.
    - ``note``: a sentence if several versions of the parser read the replies; otherwise None.
    """

    benchmark: Benchmark
    fresh: Benchmark
    runs: tuple[Run, Run]
    drops: pl.DataFrame
    left_out: dict[str, int]
    note: str | None = None


def compare_fresh(
    first: Path, second: Path, models: tuple[str, str] | None = None,
    benchmark_folders: Sequence[Path | None] = (None, None), reread: bool = False, margin: float = FRESH_MARGIN,
) -> FreshComparison:  # fmt: skip
    """Compare a run with a run on a fresh seed of its benchmark; the arguments are those of ``compare_runs``.

    Raise ``InputError`` if the second benchmark is not a fresh seed of the first, or if the runs asked in different
    ways.
    """
    runs = load_pair((first, second), benchmark_folders)
    abouts = [run.about["benchmark"] for run in runs]
    if abouts[0]["hash"] == abouts[1]["hash"]:
        raise InputError(
            f"{second}: this run is of the same benchmark as {first}; give a run on a fresh seed of it ('chexqa "
            "freshen')."
        )
    one, other = (find_benchmark(run, folder) for run, folder in zip(runs, benchmark_folders, strict=True))
    if other.about.get("fresh_of", {}).get("hash") != one.hash:
        raise InputError(
            f"{second}: this run is of {label(abouts[1])}, which is not a fresh seed of {label(abouts[0])} (the "
            f"benchmark of {first}); make a fresh seed with 'chexqa freshen {one.folder}', and give a run of it."
        )
    protocols = [protocol_name(run) for run in runs]
    if protocols[0] != protocols[1]:
        raise InputError(
            f"{second}: has the protocol '{protocols[1]}', but {first} has '{protocols[0]}'; give two runs with the "
            "same protocol."
        )
    pairs = [models] if models else matching_models(runs)
    if reread:
        runs = rereading.reread(one, runs[:1])[0][0], rereading.reread(other, runs[1:])[0][0]
    frames = grade(one, runs[:1]), grade(other, runs[1:])
    for run, names, frame in zip(runs, zip(*pairs, strict=True), frames, strict=True):
        unknown = sorted(set(names) - set(frame["model"]))
        if unknown:
            known = ", ".join(frame["model"].unique(maintain_order=True))
            raise InputError(f"{run.folder}: has no model '{unknown[0]}'; name one of its models: {known}.")
    named = [ModelPair(*pair, protocols[0]) for pair in pairs]
    drops, left_out = compute_drops((one, other), frames, named, margin)
    return FreshComparison(one, other, runs, drops, left_out, rereading.mixed(runs))


def model_drops(graded: Graded, fresh: Graded, margin: float = FRESH_MARGIN) -> pl.DataFrame:
    """Return how far each model's accuracy falls from a benchmark to a fresh seed of it, as the mean over kinds.

    Only models that answered both under one protocol are compared. Columns: :data:`MODEL_DROPS`. The table is empty if
    no model can be compared, or if the benchmark of ``fresh`` is no fresh seed of the other one.
    """
    who = ["model", "protocol"]
    shared = graded.grades.select(who).unique(maintain_order=True).join(fresh.grades.select(who).unique(), on=who,
                                                                        how="semi", maintain_order="left")  # fmt: skip
    is_fresh = fresh.benchmark.about.get("fresh_of", {}).get("hash") == graded.benchmark.hash
    pairs = [ModelPair(model, model, protocol) for model, protocol in shared.iter_rows()] if is_fresh else []
    table, _ = compute_drops((graded.benchmark, fresh.benchmark), (graded.grades, fresh.grades), pairs, margin)
    return table.filter(pl.col("kind") == MEAN_OF_KINDS).select(list(MODEL_DROPS))


def drops_to(folders: Sequence[Path], graded: Graded, reread: bool = False) -> pl.DataFrame:
    """Return how far each model's accuracy falls from the graded runs to the runs on a fresh seed in ``folders``.

    The table is that of :func:`model_drops`. Raise ``InputError`` if the runs in ``folders`` are not on a fresh seed of
    the graded benchmark, or if none of their models was graded under the same protocol.
    """
    for folder in folders:
        if folder.is_file():
            raise InputError(f"--fresh {folder}: this is a file; give the folder of a run on a fresh seed.")
    fresh = grade_folders(folders, reread=reread)
    if fresh.benchmark.about.get("fresh_of", {}).get("hash") != graded.benchmark.hash:
        raise InputError(
            f"--fresh {folders[0]}: its benchmark '{fresh.benchmark.name}' ({fresh.benchmark.hash[:8]}) is no fresh "
            f"seed of '{graded.benchmark.name}'; make a fresh seed with 'chexqa freshen {graded.benchmark.folder}', "
            "and give a run on it."
        )
    drops = model_drops(graded, fresh)
    if not drops.height:
        asked = [
            ", ".join(
                f"{model} ({how})"
                for model, how in rows.grades.select("model", "protocol").unique().sort("model").rows()
            )
            for rows in (fresh, graded)
        ]
        raise InputError(
            f"--fresh {folders[0]}: has answers of {asked[0]}, but the graded runs have answers of {asked[1]}; ask the "
            "same models about the fresh seed, with the same protocol."
        )
    return drops


def compute_drops(
    benchmarks: tuple[Benchmark, Benchmark], grades: tuple[pl.DataFrame, pl.DataFrame], pairs: Sequence[ModelPair],
    margin: float = FRESH_MARGIN,
) -> Drops:  # fmt: skip
    """Return how far each model's accuracy drops from a benchmark to its fresh seed.

    - ``benchmarks``: the benchmark and its fresh seed.
    - ``grades``: the grades on the benchmark and those on the fresh seed.
    - ``pairs``: for each comparison, the model on the benchmark and the model on the fresh seed.
    - ``margin``: accuracy "does not fall" if the interval of its drop ends below this number.

    Raise ``InputError`` if the two models of a pair have no finished item on a common case.
    """
    known = [_known(bench, frame) for bench, frame in zip(benchmarks, grades, strict=True)]
    same = _same_questions(*benchmarks)
    left_out: Counter[str] = Counter()
    parts = []
    for first, second, protocol in pairs:
        sides = [
            frame.filter((pl.col("model") == model) & (pl.col("protocol") == protocol)).with_columns(
                pl.lit(name).alias("side")
            )
            for frame, model, name in zip(known, (first, second), (BEFORE, AFTER), strict=True)
        ]
        rows, why = _comparable(pl.concat(sides), same)
        left_out.update(why)
        drops = _drops(rows, margin)
        if drops is None:
            raise InputError(
                f"'{first}' and '{second}' have no finished item on a common case, so there is nothing "
                "to compare; give other runs."
            )
        parts.append(drops.with_columns(model=pl.lit(first), protocol=pl.lit(protocol)))
    table = pl.concat([pl.DataFrame(schema=_TESTED), *(part.select(list(_TESTED)) for part in parts)])
    # Holm's method corrects the p-values of all models and kinds together. Baselines and readers have no corrected p
    # and no verdict.
    counted = {why: count for why, count in left_out.items() if count}
    return Drops(tidy(_with_verdicts(table).select(list(SCHEMA))), counted)


_TESTED = {name: kind for name, kind in SCHEMA.items() if name not in ("p_holm", "verdict")}


def _known(bench: Benchmark, grades: pl.DataFrame) -> pl.DataFrame:
    """Return the grades of the kinds that are drawn anew, with each case's id in the data source (``case``)."""
    sources = {name: case.source_case_id for name, case in bench.key("comparing")[1].items()}
    rows = grades.filter(pl.col("kind").is_in(_KINDS))
    return rows.with_columns(pl.col("case_id").replace_strict(sources, return_dtype=pl.String).alias("case"))


def _same_questions(one: Benchmark, other: Benchmark) -> set[tuple[str, str]]:
    """Return the case (source id) and kind of the questions whose words, options and pictures are equal on both
    sides.
    """
    shown = []
    for bench in (one, other):
        cases = bench.key("comparing")[1]
        shown.append(
            {(cases[item.case_id].source_case_id, item.kind): (item.question, item.options, item.alone_images)
             for item in bench.items if item.kind in _KINDS}
        )  # fmt: skip
    return {place for place, question in shown[0].items() if shown[1].get(place) == question}


def _comparable(rows: pl.DataFrame, same: set[tuple[str, str]]) -> tuple[pl.DataFrame, Counter[str]]:
    """Return the rows that are compared, and the number of items left out, keyed by reason.

    A row is left out for a reason of its own (:func:`_why_not`), or because its question has no counterpart: the other
    side lacks the case, or should ask the case this kind of question but has no row that can be compared.
    """
    about = rows.select("side", "case", "kind", "path", "item_id", "state", "flags", "scored").to_dicts()
    paths = {(row["side"], row["case"]): row["path"] for row in about}
    open_ones = {row["item_id"] for row in about if row["state"] in UNFINISHED}
    why = [_why_not(row, same, open_ones) for row in about]
    held = {(row["side"], row["case"], row["kind"]) for row, reason in zip(about, why, strict=True) if reason is None}
    for number, row in enumerate(about):
        other = AFTER if row["side"] == BEFORE else BEFORE
        path = paths.get((other, row["case"]))
        has_partner = (other, row["case"], row["kind"]) in held
        if why[number] is None and (path is None or (_asks(path, row["kind"]) and not has_partner)):
            why[number] = "not in both"
    left_out = dict.fromkeys((row["item_id"], reason) for row, reason in zip(about, why, strict=True) if reason)
    keep = pl.Series([reason is None for reason in why], dtype=pl.Boolean)
    return rows.filter(keep), Counter(reason for _, reason in left_out)


def _why_not(row: dict[str, Any], same: set[tuple[str, str]], open_ones: set[str]) -> str | None:
    """Return the reason why a row is not compared, whatever the other side has; None if no reason applies."""
    if row["item_id"] in open_ones:
        return "unfinished"
    if CONTESTED in row["flags"]:
        return "contested"
    if not row["scored"]:
        return "with one possible answer"
    return "the same question in both benchmarks" if (row["case"], row["kind"]) in same else None


def _asks(path: QuestionPath, kind: str) -> bool:
    """Return True if a case on this question path is asked questions of the kind."""
    return KINDS[kind].stage in PATH_STAGES[path]


def _drops(rows: pl.DataFrame, margin: float) -> pl.DataFrame | None:
    """Return the drop of one model for each kind, and the mean drop, with intervals and uncorrected p-values.

    Return None if no kind has answers on both sides.
    """
    sides = rows.group_by("kind").agg(pl.col("side").n_unique())
    both = set(sides.filter(pl.col("side") == 2)["kind"])
    kinds = [kind for kind in _KINDS if kind in both]
    if not kinds:
        return None
    clustered, unit = with_clusters(rows.filter(pl.col("kind").is_in(kinds)))
    weighed = clustered.with_columns((1.0 / pl.len().over("side", "item_id")).alias(WEIGHT)).with_columns(
        (pl.col(WEIGHT) * pl.col("correct")).alias(RIGHT)
    )
    groups = Groups(Sample(unit, clustered["cluster"].n_unique()), weighed, ["kind", "side"])
    right, whole = groups.sums(RIGHT), groups.sums(WEIGHT)
    place = {key: number for number, key in enumerate(groups.keys.iter_rows())}
    ends = [[place[kind, side] for kind in kinds] for side in (BEFORE, AFTER)]
    accuracy, size = proportion(right, whole), len(kinds)
    contrast = np.zeros((size, len(place)))
    contrast[range(size), ends[0]], contrast[range(size), ends[1]] = 1, -1
    drops = accuracy.combine(np.vstack([contrast, contrast.mean(axis=0)]))
    shares = [np.append(accuracy.value[side], accuracy.value[side].mean()) for side in ends]
    right_by, whole_by = (table.by_cluster.toarray().T for table in (right, whole))
    before, after = ends
    p = exchange_labels(right_by[:, before], whole_by[:, before], right_by[:, after], whole_by[:, after])
    return _counts(weighed, kinds).with_columns(
        pl.Series("accuracy", shares[0]), pl.Series("accuracy_fresh", shares[1]), *drops.columns("drop").values(),
        pl.Series("p", p), pl.lit(margin).alias("margin"),
    )  # fmt: skip


def _counts(rows: pl.DataFrame, kinds: list[str]) -> pl.DataFrame:
    """Return the number of items of both sides and of patients, for each kind and for all kinds together."""
    numbers = [
        pl.col("item_id").filter(pl.col("side") == BEFORE).n_unique().cast(pl.Int64).alias("items"),
        pl.col("item_id").filter(pl.col("side") == AFTER).n_unique().cast(pl.Int64).alias("items_fresh"),
        pl.col("cluster").n_unique().cast(pl.Int64).alias("patients"),
    ]
    by_kind = pl.DataFrame({"kind": kinds}).join(rows.group_by("kind").agg(numbers), on="kind", maintain_order="left")
    return pl.concat([by_kind, rows.select(pl.lit(MEAN_OF_KINDS).alias("kind"), *numbers)])


def _with_verdicts(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with the columns ``p_holm`` and ``verdict`` added."""
    whole = [kind == MEAN_OF_KINDS for kind in table["kind"]]
    rival = [not model.startswith(NO_RIVALS) for model in table["model"]]
    inside = np.array(rival, bool) & ~np.array(whole, bool)
    adjusted = np.full(table.height, np.nan)
    adjusted[inside] = holm(table["p"].to_numpy()[inside])
    verdicts: list[str | None] = [
        _verdict(high, margin, p) if tested else None
        for tested, high, margin, p in zip(inside, table["drop_high"], table["margin"], adjusted, strict=True)
    ]
    who = list(table.select("model", "protocol").iter_rows())
    of_model: dict[tuple[str, str], set[str | None]] = {}
    for name, verdict in zip(who, verdicts, strict=True):
        of_model.setdefault(name, set()).add(verdict)
    for number, name in enumerate(who):
        if whole[number] and rival[number]:
            verdicts[number] = next(one for one in (FALLS, UNDECIDED, STAYS) if one in of_model[name])
    return table.with_columns(pl.Series("p_holm", adjusted, pl.Float64).fill_nan(None),
                              pl.Series("verdict", verdicts, pl.String))  # fmt: skip


def _verdict(high: float | None, margin: float, p_holm: float) -> str:
    """Return the verdict on a kind, from the upper end of the drop's interval and the corrected p."""
    if high is not None and high < margin:
        return STAYS
    return FALLS if p_holm < LEVEL else UNDECIDED
