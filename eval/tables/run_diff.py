"""Differences between two runs, item by item, with paired tests.

A kind with one item per patient, asked once, is tested by McNemar's exact test. All tests are exploratory: p-values are
not corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.kinds import LEVELS, kind_order
from chexqa.contract.read_run import Run
from chexqa.eval.scoring import predictions, rereading
from chexqa.eval.scoring.csv_and_parquet import tidy
from chexqa.eval.scoring.grade import MARGIN, UNFINISHED, Graded, find_benchmark, grade, label, protocol_name
from chexqa.eval.scoring.sample import CHANCE, ScoredSample, scored_sample
from chexqa.eval.scoring.significance import intervals_agreeing_with_p, mcnemar
from chexqa.eval.tables import model_pairs
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.files.errors import InputError
from chexqa.files.opening import Given, optional_path

# The names of the two runs in the compared frames.
FIRST, SECOND, PROTOCOL = "a", "b", "compared"
CHANGES = ("gained", "lost", "right both times", "wrong both times", "partly")


@dataclass(frozen=True)
class Side:
    """One of the two compared runs.

    - ``run``: the folder of the run, as the user gave it.
    - ``protocol``: the protocol's name in tables, such as ``end_to_end (blind)``.
    - ``items``: the number of items that the compared model was asked in this run.
    """

    run: str
    protocol: str
    items: int


@dataclass(frozen=True)
class Compared:
    """Comparison of one model of run a with one model of run b, on the items that both runs asked.

    - ``items``: ``item_id, case_id, patient_id, kind, level, finding, state_a, state_b, parsed_a, parsed_b, score_a,
      score_b, change``; scores are means over repeats and rotations.
    - ``scores``: ``score, items, patients, value_a, value_b, difference`` (b minus a, with ``_low`` and ``_high``),
      ``gained, lost, p, test, margin, p_alike, verdict``.
    - ``left_out``: the number of items that are not compared, keyed by reason.
    - ``sides``: the two runs.
    - ``chance``: the accuracy of guessing on the compared items, keyed by kind.
    - ``note``: a sentence if several versions of the parser read the replies; otherwise None.
    """

    benchmark: Benchmark
    first: str
    second: str
    items: pl.DataFrame
    scores: pl.DataFrame
    left_out: dict[str, int]
    sides: tuple[Side, Side]
    chance: dict[str, float]
    note: str | None = None


def compare_runs(
    first: Given, second: Given, shared: bool = False, models: tuple[str, str] | None = None,
    benchmark_folders: Sequence[Given | None] = (None, None), reread: bool = False, margin: float = MARGIN,
    other_wording: bool = False,
) -> list[Compared]:  # fmt: skip
    """Return a comparison of the two runs for each pair of models: the pair ``models``, or every matching pair.

    - ``first``, ``second``: loaded runs, folders of runs, or files of predictions (``.jsonl``).
    - ``shared``: True to allow runs of two benchmarks; items are compared if question, options, pictures and key are
      equal. False: raise ``InputError`` if the benchmarks differ.
    - ``models``: a model of the first run and a model of the second; None: the pairs of :func:`matching_models`.
    - ``benchmark_folders``: the folder of each run's benchmark. None: the folder that the run records, or, for a file
      of predictions, the benchmark of the other run.
    - ``reread``: True to read the stored replies again with the current parser.
    - ``margin``: scores (fractions) that differ by less are called alike.
    - ``other_wording``: True to compare items also if only the words of question and options differ, as in two
      languages; it includes ``shared``.
    """
    folders = [optional_path(folder) for folder in benchmark_folders]
    first, second = Path(first), Path(second)
    runs = load_pair((first, second), folders)
    abouts = [run.about["benchmark"] for run in runs]
    if abouts[0]["hash"] != abouts[1]["hash"] and not (shared or other_wording):
        raise InputError(
            f"{second}: this run is of benchmark {label(abouts[1])}, but {first} is of {label(abouts[0])}; to compare "
            "the items that are in both benchmarks, add --shared."
        )
    one = find_benchmark(runs[0], folders[0])
    other = one if abouts[0]["hash"] == abouts[1]["hash"] else find_benchmark(runs[1], folders[1])
    same, unlike = _same_items(one, other, other_wording)
    if not same:
        raise InputError(f"{second}: has no item in common with {first}; give runs that asked the same items.")
    chosen = [models] if models else matching_models(runs)
    if reread:
        runs = rereading.reread(one, runs[:1])[0][0], rereading.reread(other, runs[1:])[0][0]
    frames, note = (grade(one, runs[:1]), grade(other, runs[1:])), rereading.mixed(runs)
    found = [_compare(one, runs, frames, names, same, unlike, margin) for names in chosen]
    return [replace(one, note=note) for one in sorted(found, key=lambda one: -one.items.height)]


def load_pair(paths: tuple[Path, Path], benchmark_folders: Sequence[Path | None]) -> tuple[Run, Run]:
    """Load two runs; each path is a run's folder or a file of predictions (``.jsonl``).

    ``benchmark_folders`` has the benchmark's folder for each path, used for files of predictions only. None stands
    for the benchmark of the other path.
    """
    # If both paths are the same folder, the run is loaded once, and its log lines that are not turns are reported once.
    found: dict[Path, Run | None] = {}
    for path in dict.fromkeys(paths):
        found[path] = None if path.is_file() and path.suffix == ".jsonl" else read_run.load(path)
    for run in filter(None, found.values()):
        read_run.say(run.aside)
    first, second = (found[path] for path in paths)
    return (
        first or _predicted(paths[0], benchmark_folders[0], second),
        second or _predicted(paths[1], benchmark_folders[1] or benchmark_folders[0], first),
    )


def _predicted(path: Path, folder: Path | None, other: Run | None) -> Run:
    """Return a file of predictions as a run of the benchmark in ``folder``, or of the other run's benchmark."""
    if folder is not None:
        bench = benchmarks.load(folder)
    elif other is not None:
        bench = find_benchmark(other)
    else:
        raise InputError(
            f"{path}: to compare predictions, chexqa needs the benchmark with its key; give the benchmark's folder "
            "with --benchmark DIR."
        )
    found = predictions.read_predictions(path, bench)
    if len(found) > 1:
        names = ", ".join(map(protocol_name, found))
        raise InputError(
            f"{path}: contains predictions of several protocols ({names}); make one file for each protocol."
        )
    return found[0]


def matching_models(runs: tuple[Run, Run]) -> list[tuple[str, str]]:
    """Return the pairs of models with equal names, or the only model of each run if no names are equal.

    Raise ``InputError`` if no names are equal and a run has several models.
    """
    common = [name for name in runs[0].models if name in runs[1].models]
    if common:
        return [(name, name) for name in common]
    if len(runs[0].models) == len(runs[1].models) == 1:
        return [(runs[0].models[0], runs[1].models[0])]
    raise InputError(
        f"{runs[1].folder}: has no model in common with {runs[0].folder} ({', '.join(runs[0].models)}); name one "
        "model of each run with --models A,B."
    )


def _same_items(one: Benchmark, other: Benchmark, other_wording: bool) -> tuple[set[str], dict[str, int]]:
    """Return the ids of the items with the same question, options, pictures and key in both benchmarks.

    With ``other_wording``, the words of question and options may differ, but not the number of options. Raise
    ``InputError`` if the recipes or seeds differ, because options then have other meanings in the same places.
    The second value is the number of other items, keyed by the reason and their kinds.
    """
    if one is other:
        return set(one.item), {}
    differ = [field for field in ("recipes", "seed") if other_wording and one.about[field] != other.about[field]]
    if differ:
        raise InputError(
            f"{other.folder}: was not made with the {' and '.join(differ)} of {one.folder}, so it may have "
            "different options, or the same in another order; compare benchmarks with the same recipes and seed."
        )
    keys = one.key("comparing")[0], other.key("comparing")[0]
    same, reasons = set[str](), dict[str, list[str]]()
    for item_id, item in (other.item | one.item).items():
        twin = other.item.get(item_id) if item_id in one.item else None
        if twin is None:
            why = "in one benchmark only"
        elif _pictures(item) != _pictures(twin):
            why = "the pictures differ"
        elif len(item.options) != len(twin.options) or (item != twin and not other_wording):
            why = "the question or its options differ"
        elif keys[0][item_id].answer != keys[1][item_id].answer:
            why = "the key differs"
        else:
            same.add(item_id)
            continue
        reasons.setdefault(why, []).append(item.kind)
    return same, {f"{why} ({_named(kinds)})": len(kinds) for why, kinds in reasons.items()}


def _pictures(item: Item) -> tuple[object, ...]:
    """Return all pictures of an item and its options, and the colours and sides of its options."""
    return item.turn_images, item.alone_images, [(one.n, one.image, one.color, one.side) for one in item.options]


def _named(kinds: Sequence[str]) -> str:
    return ", ".join(kind.replace("_", " ") for kind in kind_order(kinds) if kind in kinds)


def _compare(
    benchmark: Benchmark,
    runs: tuple[Run, Run],
    frames: tuple[pl.DataFrame, pl.DataFrame],
    names: tuple[str, str],
    same: set[str],
    unlike: dict[str, int],
    margin: float,
) -> Compared:
    """Return the comparison of one model of each run, over the items that both answered."""
    sides = []
    for run, frame, name, side in zip(runs, frames, names, (FIRST, SECOND), strict=True):
        rows = frame.filter(pl.col("model") == name)
        if not rows.height:
            known = ", ".join(frame["model"].unique(maintain_order=True))
            raise InputError(f"{run.folder}: has no model '{name}'; name one of its models: {known}.")
        sides.append(rows.with_columns(pl.lit(side).alias("model"), pl.lit(PROTOCOL).alias("protocol")))
    asked = [set(side["item_id"]) for side in sides]
    open_ones = [set(side.filter(pl.col("state").is_in(UNFINISHED))["item_id"]) for side in sides]
    both = (asked[0] & asked[1] & same) - open_ones[0] - open_ones[1]
    left_out = {
        **unlike,
        "not asked of both": len(((asked[0] | asked[1]) & same) - (asked[0] & asked[1])),
        "unfinished in one or both": len((open_ones[0] | open_ones[1]) & asked[0] & asked[1] & same),
    }
    kept = [side.filter(pl.col("item_id").is_in(list(both))) for side in sides]
    if not both:
        raise InputError(f"'{names[0]}' and '{names[1]}' have no finished item in common; give other runs.")
    items = _items(*kept)
    study = scored_sample(Graded(benchmark, (), pl.concat(kept), margin=margin))
    asked_once = kept[0].unique("item_id", maintain_order=True)
    return Compared(
        benchmark,
        *names,
        items,
        _scores(study, items),
        {why: n for why, n in left_out.items() if n},
        (Side(str(runs[0].folder), protocol_name(runs[0]), len(asked[0])),
         Side(str(runs[1].folder), protocol_name(runs[1]), len(asked[1]))),
        dict(asked_once.group_by("kind", maintain_order=True).agg(pl.col("chance").mean()).iter_rows()),
    )  # fmt: skip


def _items(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each item, with the answers of both runs.

    An item that was asked several times has its first answer and its mean score.
    """
    about = ["item_id", "case_id", "patient_id", "kind", "level", "finding"]

    def side(frame: pl.DataFrame, mark: str) -> pl.DataFrame:
        return frame.group_by(about, maintain_order=True).agg(
            pl.col("state").first().alias(f"state_{mark}"),
            pl.col("parsed").first().alias(f"parsed_{mark}"),
            pl.col("correct").mean().alias(f"score_{mark}"),
        )

    joined = side(first, FIRST).join(side(second, SECOND).select("item_id", "state_b", "parsed_b", "score_b"),
                                     on="item_id", how="left", maintain_order="left")  # fmt: skip
    before, after = pl.col("score_a"), pl.col("score_b")
    change = (
        pl.when((before == 0) & (after == 1)).then(pl.lit("gained"))
        .when((before == 1) & (after == 0)).then(pl.lit("lost"))
        .when((before == 1) & (after == 1)).then(pl.lit("right both times"))
        .when((before == 0) & (after == 0)).then(pl.lit("wrong both times"))
        .otherwise(pl.lit("partly"))
    )  # fmt: skip
    return joined.select(*about, "state_a", "state_b", "parsed_a", "parsed_b", "score_a", "score_b",
                         change.alias("change"))  # fmt: skip


def _kind_rows(study: ScoredSample) -> pl.DataFrame:
    """Return rows as ``score_rows`` does, but with one score for each kind of question: its accuracy."""
    rows = study.rows.with_columns(
        pl.lit(0.0).alias(CHANCE), score=pl.col("kind"), part=pl.col("kind"), stratum=pl.lit("")
    )
    return rows.select(model_pairs.SCORE_COLUMNS)


def _scores(study: ScoredSample, items: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each level, the mean of levels, the grid and each kind: both values, difference, test."""
    parts = []
    for rows in (model_pairs.score_rows(study), _kind_rows(study)):
        if rows.height:
            # The second run comes first, so that a positive difference is a gain from the first run to the second.
            matrix = model_pairs.make_matrix(study.sample, rows, [SECOND, FIRST], PROTOCOL, main=False)
            counts = rows.group_by("score").agg(
                pl.col("item_id").n_unique().alias("items"), pl.col("cluster").n_unique().alias("patients")
            )
            of_levels = rows.filter(pl.col("score").is_in(LEVELS))
            mean = of_levels.select(
                pl.lit(OVERALL).alias("score"), pl.col("item_id").n_unique().alias("items"),
                pl.col("cluster").n_unique().alias("patients"),
            )  # fmt: skip
            tested = model_pairs.tests(matrix, {}, study.graded.margin).with_columns(
                pl.Series("value_b", matrix.values.value[0::2]), pl.Series("value_a", matrix.values.value[1::2])
            )
            parts.append(tested.join(pl.concat([counts, mean]), on="score", how="left", maintain_order="left"))
    table = pl.concat(parts).unique("score", keep="first", maintain_order=True)
    changes = items.group_by("kind").agg(
        (pl.col("change") == "gained").sum().alias("gained"), (pl.col("change") == "lost").sum().alias("lost"),
        _is_single().alias("single"),
    )  # fmt: skip
    joined = table.join(changes, left_on="score", right_on="kind", how="left", maintain_order="left")
    exact = [
        mcnemar(gained, lost) if single else None
        for gained, lost, single in joined.select("gained", "lost", "single").iter_rows()
    ]
    first = [*LEVELS, OVERALL, model_pairs.GRID_SCORE]
    order = [*first, *(name for name in kind_order(joined["score"].drop_nulls()) if name not in first)]
    ranked = (
        joined.with_columns(
            pl.coalesce(pl.Series("p", exact, pl.Float64), "p").alias("p"),
            pl.when(pl.col("single")).then(pl.lit("McNemar")).otherwise(pl.lit("sign flips")).alias("test"),
        )
        .with_columns(*intervals_agreeing_with_p(), model_pairs.verdict("p", "p_alike").alias("verdict"))
        .sort(pl.col("score").replace_strict({name: at for at, name in enumerate(order)}, default=len(order)))
    )
    return tidy(ranked.select("score", "items", "patients", "value_a", "value_b", "difference", "difference_low",
                              "difference_high", "gained", "lost", "p", "test", "margin", "p_alike",
                              "verdict"))  # fmt: skip


def _is_single() -> pl.Expr:
    """Return an expression that is True if each patient has one item, asked once in each run (the case for McNemar's
    test).
    """
    known = pl.col("patient_id").null_count() == 0
    whole = (pl.col("change") != "partly").all()
    return known & whole & (pl.col("patient_id").n_unique() == pl.len())
