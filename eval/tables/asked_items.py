"""Facts about the items that were asked: how their questions ended, what they cost, and which are contested.

If models were asked different items, a remark says that their scores cannot be compared. A property of the items, such
as chance, is then shown only if it has the same value for all models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED, PERCEPTION
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.design.weights import MEAN
from chexqa.eval.models.registry import BASELINE, READERS
from chexqa.eval.runs import budget
from chexqa.eval.runs.model_progress import Answerers
from chexqa.eval.scoring.grade import STATES, UNFINISHED, Graded, protocol_name
from chexqa.eval.scoring.sample import WHO, ScoredSample, mask_incomplete
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_yaml
from chexqa.files.terminal import plural

Value = TypeVar("Value")
_NAMED = 3
ALL = "all"
UNSTABLE = "unstable"


def shared(values: Iterable[Value | None]) -> Value | None:
    """Return the common value if all ``values`` are equal, up to rounding; otherwise None."""
    found = list(values)
    alike = {round(value, 9) if isinstance(value, float) else value for value in found}
    return found[0] if len(alike) == 1 else None


def item_sets(rows: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return the number of items and the sum of the items' hashes, keyed by the values of the columns ``by``.

    Equal numbers and sums mean equal items.
    """
    items = pl.col("item_id").unique()
    table = rows.group_by(by, maintain_order=True).agg(items.len().alias("_count"), items.hash().sum().alias("_hash"))
    return {tuple(key): (count, mark) for *key, count, mark in table.iter_rows()}


def remark(graded: Graded) -> str | None:
    """Return a sentence if only some items were asked, or if the items asked or finished differ between models.

    The result is None otherwise. Models are compared within each task (perception, grid).
    """
    rows = graded.grades.select("model", "protocol", "item_id", "case_id", "state", _TASK)
    counts = graded.benchmark.about["counts"]
    did = "were asked"
    if graded.allow_partial and _asked_the_same(rows):
        finished = rows.filter(~pl.col("state").is_in(UNFINISHED))
        rows, did = (rows, did) if _asked_the_same(finished) else (finished, "finished")
    if _asked_the_same(rows):
        items, cases = rows["item_id"].n_unique(), rows["case_id"].n_unique()
        if items == len(graded.benchmark.items):
            return None
        if graded.only_items_of is not None:
            return (
                f"Every row uses only the {plural(cases, 'case')} of {graded.only_items_of} ({items:,} of "
                f"{counts['items']:,} items)."
            )
        return (
            f"Only a part of the benchmark was asked: {items:,} of {counts['items']:,} items, from "
            f"{plural(cases, 'case')}."
        )
    several = rows["protocol"].n_unique() > 1
    sets: dict[tuple[int, int], list[str]] = {}
    for (model, protocol), mark in item_sets(rows, ["model", "protocol"]).items():
        sets.setdefault(mark, []).append(f"{model} ({protocol})" if several else model)
    told = [f"{plural(count, 'item')} for {_some(names)}" for (count, _), names in sets.items()]
    return (
        f"Models {did} different items ({'; '.join(told[:_NAMED])}{'; …' if told[_NAMED:] else ''}), so their "
        "numbers cannot be compared. Chance and other values of the items are shown only if they are equal for all "
        "models."
    )


def _asked_the_same(rows: pl.DataFrame) -> bool:
    """Return True if all models have rows of the same items in each task that they share."""
    by_task = item_sets(rows, ["model", "protocol", "task"])
    return all(
        len({mark for (_, _, one), mark in by_task.items() if one == task}) <= 1 for task in {key[2] for key in by_task}
    )


_TASK = pl.when(pl.col("stage").is_null()).then("kind").otherwise(pl.lit(PERCEPTION)).alias("task")


def by_items(graded: Graded) -> list[Graded]:
    """Return the grades divided into groups of models that were asked the same items.

    Models of a group share a task (perception, grid), and were asked the same items in each task that they share. A
    model under two protocols counts as two models. The group with the most items comes first; groups that have
    only baselines come last.
    """
    asked: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    rows = graded.grades.select(*WHO, "item_id", _TASK)
    for (model, protocol, task), mark in item_sets(rows, [*WHO, "task"]).items():
        asked.setdefault((model, protocol), {})[task] = mark
    groups: list[tuple[dict[str, tuple[int, int]], list[tuple[str, str]]]] = []
    for who, tasks in sorted(asked.items(), key=lambda one: -sum(count for count, _ in one[1].values())):
        for known, members in groups:
            common = known.keys() & tasks.keys()
            if common and all(known[task] == tasks[task] for task in common):
                known |= tasks
                members.append(who)
                break
        else:
            groups.append((dict(tasks), [who]))
    if len(groups) == 1:
        return [graded]
    groups.sort(key=lambda group: all(model.startswith(BASELINE) for model, _ in group[1]))
    return [_of(graded, pl.DataFrame(members, schema=WHO, orient="row")) for _, members in groups]


def _of(graded: Graded, members: pl.DataFrame) -> Graded:
    """Return the grades of the models in ``members``, with the runs that asked these models."""
    kept = graded.grades.join(members, on=WHO, how="semi", maintain_order="left")
    names = set(members["model"])
    return replace(graded, grades=kept, runs=tuple(run for run in graded.runs if names & set(run.models)))


def in_reading_order(states: pl.DataFrame) -> list[str]:
    """Return the protocols in the order of the rows; a protocol that has only baselines comes last."""
    names = states["protocol"].unique(maintain_order=True).to_list()
    of_models = set(states.filter(~pl.col("model").str.starts_with(BASELINE))["protocol"])
    return sorted(names, key=lambda name: name not in of_models)


def on_shared(graded: Graded) -> Graded:
    """Return the grades of the items that every model was asked under every protocol.

    Raise ``InputError`` if there is no such item.
    """
    asked = graded.grades.select(*WHO, "item_id").unique().group_by("item_id").len("_asked")
    kept = asked.filter(pl.col("_asked") == graded.grades.select(WHO).n_unique())
    if not kept.height:
        raise InputError("--shared: no item was asked of every model; leave out --shared to see the models in groups.")
    return replace(graded, grades=graded.grades.join(kept, on="item_id", how="semi", maintain_order="left"))


def simulated(graded: Graded) -> str | None:
    """Return a sentence that names the models and readers whose answers came from an offline baseline of chexqa.

    The result is None if the answers of all models and readers are their own.
    """
    asked = set(graded.grades["model"])
    found = [name for run in graded.runs for name in run.about["models"] if name in asked and simulator(run, name)]
    if not found:
        return None
    names = list(dict.fromkeys(found))
    readers = [name for name in names if name.startswith(READERS)]
    sides = {"models": [name for name in names if name not in readers], "readers": readers}
    kinds = [kind for kind, own in sides.items() if own]
    whom = ", and for ".join(_some(sides[kind]) for kind in kinds)
    return f"Simulated {' and '.join(kinds)}: offline baselines of chexqa answered for {whom}."


def simulator(run: Run, model: str) -> str | None:
    """Return the offline baseline that answered in place of a model; None if the model itself answered."""
    answered = str(run.about["models"][model].get("litellm", ""))
    # A run records the baseline as the model's litellm id.
    return answered if answered.startswith(BASELINE) and not model.startswith(BASELINE) else None


def stand_ins(graded: Graded) -> list[str]:
    """Return a sentence for each model whose server says that another model, or more than one model, answered."""
    told = []
    for run in graded.runs:
        answerers = {name: Answerers() for name in run.models}
        for turn in run.turns:
            answerers[turn.model].add(turn)
        told += [f"{name}: {said}" for name, one in answerers.items() if (said := one.remark()) is not None]
    return told


_DECIDED: dict[str, Any] = {
    "protocol": pl.String, "score": pl.String, "model_a": pl.String, "model_b": pl.String, "patients": pl.Int64,
    "of": pl.Int64, "difference": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64,
    "alpha": pl.Float64, "target": pl.String, "decided": pl.Boolean,
}  # fmt: skip


def decided(graded: Graded) -> pl.DataFrame:
    """Return a row for each run that had a stopping rule and has ended: the result of the rule.

    A stopping rule compares two models; the row has the difference between their scores, with an interval.
    """
    rows = []
    for run in graded.runs:
        if (end := run.decision) is not None:
            rule = end["rule"]
            rows.append((protocol_name(run), "mean of levels" if rule["on"] == MEAN else rule["on"], *rule["models"],
                         end["patients"], end["of"], end["difference"], end["low"], end["high"], rule["alpha"],
                         rule["target"], end["decided"]))  # fmt: skip
    return pl.DataFrame(rows, schema=_DECIDED, orient="row")


def is_stopped(graded: Graded) -> pl.Expr:
    """Return an expression that is True in rows of a model and protocol whose run was ended by a stopping rule."""
    stopped = [(model, protocol_name(run)) for run in graded.runs if run.stopped_on is not None for model in run.models]
    each = [(pl.col("model") == model) & (pl.col("protocol") == protocol) for model, protocol in stopped]
    return pl.any_horizontal(pl.lit(False), *each)


def endings(graded: Graded) -> list[str]:
    """Return a sentence for each run that had a stopping rule and has ended: its number of patients and its result."""
    told = []
    for row in decided(graded).to_dicts():
        low, high = (f"{100 * row[name]:.1f}" for name in ("difference_low", "difference_high"))
        which = "stopped with a decision" if row["decided"] else "asked all patients without a decision"
        not_ranked = " The two models are not ranked, and their other scores are not tested." if row["decided"] else ""
        told.append(
            f"The run of {row['model_a']} and {row['model_b']} {which}, after {row['patients']:,} of "
            f"{plural(row['of'], 'patient')} (tested after every patient, alpha {row['alpha']:g}, target: "
            f"{row['target']}). {row['score'].capitalize()}, first minus second: {100 * (row['difference'] or 0):+.1f} "
            f"points [{low}, {high}].{not_ranked}"
        )
    return told


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_OF_ITEM = ("item_id", "case_id", "kind", "level", "stage", "finding", "chance", "prior", "flags")


def dataset_summary(study: ScoredSample) -> pl.DataFrame:
    """Return a row of facts for each kind of question, and a row for all kinds together.

    - ``kind, level, stage, items, cases, patients, findings``
    - ``chance, prior``: mean accuracy of guessing, and of always giving the most frequent answer.
    - ``unstable``: the number of items whose key changes with a little noise in the masks.
    - ``clusters``: the unit of intervals, such as patients.
    """
    asked = study.graded.grades.select(_OF_ITEM).unique("item_id", keep="first", maintain_order=True)
    items = asked.join(
        study.rows.select("item_id", "cluster").unique(), on="item_id", how="left", maintain_order="left"
    )
    counts = [
        pl.len().alias("items"),
        pl.col("case_id").n_unique().alias("cases"),
        pl.col("cluster").drop_nulls().n_unique().alias("patients"),
        pl.col("finding").n_unique().alias("findings"),
        pl.col("chance").mean(),
        pl.col("prior").mean(),
        pl.col("flags").list.contains(UNSTABLE).sum().alias("unstable"),
    ]
    by_kind = items.group_by("kind", "level", "stage", maintain_order=True).agg(counts)
    whole = items.select(pl.lit(ALL).alias("kind"), pl.lit(None, pl.String).alias("level"),
                         pl.lit(None, pl.Int64).alias("stage"), *counts)  # fmt: skip
    order = {kind: place for place, kind in enumerate(study.benchmark.kinds)}
    table = pl.concat([by_kind, whole]).sort(pl.col("kind").replace_strict(order, default=len(order)))
    return table.with_columns(pl.lit(study.sample.unit).alias("clusters"))


def published(benchmark: Benchmark) -> list[Record]:
    """Return the scores published for the grid task; an empty list if the radiographs are phantoms."""
    if benchmark.about["data"] != "real":
        return []
    path = Path(str(resources.files("chexqa.eval.tables").joinpath("published.yaml")))
    rows: list[Record] = read_yaml(path, "published")["rows"]
    return rows


def published_table(benchmark: Benchmark) -> pl.DataFrame:
    """Return the scores published for the grid task as a table; it has no rows if the radiographs are phantoms.

    The column ``note`` says that the score is published and was measured on a sample other than this benchmark.
    """
    names = ["task", "name", "value", "measure", "source", "sample"]
    schema = {name: pl.Float64 if name == "value" else pl.String for name in names}
    frame = pl.DataFrame(published(benchmark), schema=schema)
    return frame.with_columns(pl.lit("published, on another sample").alias("note"))


def states(study: ScoredSample) -> pl.DataFrame:
    """Return the number of questions (``items``), and how many of them ended in each state."""
    counts = [(pl.col("state") == state).sum().alias(state) for state in STATES]
    rows = study.graded.grades.select(*WHO, "state")
    return rows.group_by(WHO, maintain_order=True).agg(pl.len().alias("items"), *counts)


def costs(study: ScoredSample) -> pl.DataFrame:
    """Return cost, tokens and latency of each model and protocol.

    - ``asked``: the number of finished turns, without turns on altered and stressed items.
    - ``cost_usd``, ``cost_per_1000_usd``: the cost of the turns in ``asked``, and of 1000 of them.
    - ``output_tokens``: the mean number of output tokens of the turns in ``asked``.
    - ``latency_s``: the median latency of the turns in ``asked``.
    - ``asked_altered``: the number of finished turns on altered and stressed items.
    - ``cost_altered_usd``: the cost of the turns in ``asked_altered``.
    - ``known_usd``: the sum of the known costs of all these turns.
    - ``without_cost``: the number of these turns whose cost is unknown.
    - ``uncounted_attempts``: the number of attempts of the runs that may be billed, but are in no cost.

    A cost is null if the cost of one of its turns is unknown. A mean or median is null if a turn with a reply lacks the
    value; turns without a reply (refused, or too long) that lack the value are left out.
    """
    rows = study.graded.grades.select(*WHO, "state", "cost_usd", "output_tokens", "latency_s", "reply")
    asked = rows.filter(~pl.col("state").is_in(UNFINISHED))
    nothing = pl.all_horizontal(pl.col("output_tokens", "latency_s", "reply").is_null())
    is_unanswered = pl.col("state").is_in(budget.UNANSWERED) & nothing

    def whole(column: str, value: pl.Expr) -> pl.Expr:
        return pl.when((pl.col(column).is_not_null() | is_unanswered).all()).then(value)

    table = asked.group_by(WHO, maintain_order=True).agg(
        pl.len().alias("asked"),
        pl.when(pl.col("cost_usd").null_count() == 0).then(pl.col("cost_usd").sum()).alias("cost_usd"),
        pl.col("cost_usd").sum().alias("known_usd"),
        pl.col("cost_usd").null_count().alias("without_cost"),
        whole("output_tokens", pl.col("output_tokens").mean()).alias("output_tokens"),
        whole("latency_s", pl.col("latency_s").median()).alias("latency_s"),
    )
    thousand = (1000 * pl.col("cost_usd") / pl.col("asked")).alias("cost_per_1000_usd")
    further = _altered_turns(study.graded.runs)
    found = [further.get(who, []) for who in table.select(WHO).iter_rows()]
    dollars = [budget.spent(turns).usd for turns in found]
    uncounted: Counter[tuple[str, str]] = Counter()
    for run in study.graded.runs:
        for turn in (*run.turns, *run.altered, *run.replaced):
            uncounted[turn.model, protocol_name(run)] += budget.uncounted(turn)
    return table.with_columns(
        thousand,
        pl.Series("asked_altered", [len(turns) for turns in found], pl.Int64),
        pl.Series("cost_altered_usd", [one.whole for one in dollars], pl.Float64),
        pl.col("known_usd") + pl.Series([one.known for one in dollars], dtype=pl.Float64),
        pl.col("without_cost") + pl.Series([one.without for one in dollars], dtype=pl.Int64),
        pl.Series("uncounted_attempts", [uncounted[who] for who in table.select(WHO).iter_rows()], pl.Int64),
    ).select(
        *WHO, "asked", "cost_usd", "cost_per_1000_usd", "output_tokens", "latency_s", "asked_altered",
        "cost_altered_usd", "known_usd", "without_cost", "uncounted_attempts",
    )  # fmt: skip


def _altered_turns(runs: Iterable[Run]) -> dict[tuple[str, str], list[Turn]]:
    """Return the turns on altered and stressed items with an outcome, by model and protocol."""
    found: dict[tuple[str, str], list[Turn]] = {}
    for run in runs:
        protocol = protocol_name(run)
        for turn in run.altered:
            if turn.state not in UNFINISHED:
                found.setdefault((turn.model, protocol), []).append(turn)
    return found


def contested(study: ScoredSample) -> pl.DataFrame:
    """Return the accuracy on contested items: ``model, protocol, items, accuracy, chance``."""
    rows = study.graded.grades.filter(pl.col("flags").list.contains(CONTESTED))
    table = rows.group_by(WHO, maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"), pl.col("correct").mean().alias("accuracy"), pl.col("chance").mean()
    )
    return mask_incomplete(study, table, ["accuracy"])
