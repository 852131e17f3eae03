"""Summary of graded maps: means with intervals, as a table, as files and on the terminal."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.eval.heatmaps.grading import Graded, Thresholds, predictions
from chexqa.eval.heatmaps.metrics import METRICS
from chexqa.eval.heatmaps.targets import Truth
from chexqa.eval.scoring import intervals
from chexqa.eval.scoring.csv_and_parquet import csv_bytes, tidy
from chexqa.eval.scoring.sample import mean_by, with_clusters
from chexqa.files.atomic import write_all
from chexqa.files.jsonio import Record, check, dump, json_bytes
from chexqa.files.opening import sha256_of
from chexqa.files.terminal import PHANTOM_NOTICE, Name, plural
from chexqa.version import __version__

MACRO = "mean of findings"
ROWS, TABLE, INDEX, PREDICTIONS = "heatmaps.parquet", "heatmaps.csv", "heatmaps.json", "predictions.jsonl"
# The metrics that fit on a terminal; the files hold all of them.
HEADS = {
    "pointing": "point",
    "pointing_15px": "15 px",
    "grid_hit": "grid\ncell",
    "iou_otsu": "IoU\nOtsu",
    "dice_otsu": "Dice\nOtsu",
    "iou_given": "IoU\ngiven",
    "auc": "pixel\nAUC",
    "cnr": "CNR",
}
_UNBOUNDED = "cnr"


def summarise(rows: pl.DataFrame, allow_partial: bool = False) -> pl.DataFrame:
    """Return a table with the mean of each metric: for each model, a row for each finding and one for their mean.

    Columns: ``targets``, ``missing``, and each metric with its interval (``_low``, ``_high``); null if undefined for
    every radiograph. A model with missing maps has values only with ``allow_partial``. ``rows`` has the columns of
    ``chexqa.eval.heatmaps.grading``.
    """
    kept, unit = with_clusters(rows)
    sample = intervals.Sample(unit, int(kept[intervals.CLUSTER].n_unique()))
    groups = intervals.Groups(sample, kept, ["model", "finding"])
    counts = pl.len().alias("targets"), (pl.col("state") == "missing").sum().alias("missing")
    by_finding = groups.keys.join(rows.group_by("model", "finding").agg(counts), on=["model", "finding"], how="left",
                                  maintain_order="left")  # fmt: skip
    models = by_finding.group_by("model", maintain_order=True)
    macro = models.agg(pl.lit(MACRO).alias("finding"), pl.col("targets", "missing").sum())
    for metric in METRICS:
        part, whole = groups.sums(metric), groups.sums(pl.col(metric).is_not_null())
        estimates = (
            intervals.mean(part, whole) if metric == _UNBOUNDED else intervals.proportion(part, whole, binary=False)
        )
        means = mean_by(groups.keys, estimates, ["model"])[1]
        by_finding = by_finding.with_columns(**estimates.columns(metric))
        macro = macro.with_columns(**means.columns(metric))
    table = pl.concat([by_finding, macro.select(by_finding.columns)])
    order = {model: place for place, model in enumerate(rows["model"].unique(maintain_order=True))}
    ranked = table.with_columns(
        pl.col("model").replace_strict(order).alias("_model"), (pl.col("finding") == MACRO).alias("_last")
    ).sort("_model", "_last", "finding")
    return tidy(_without_unfinished(ranked.drop("_model", "_last"), allow_partial))


def _without_unfinished(table: pl.DataFrame, allow_partial: bool) -> pl.DataFrame:
    """Return the table with the metrics set to null for models with missing maps.

    A mean over the existing maps could flatter such a model.
    """
    if allow_partial:
        return table
    finished = pl.col("missing").sum().over("model") == 0
    return table.with_columns(
        pl.when(finished).then(pl.col(name)) for name in table.columns if name.startswith(METRICS)
    )


def write(
    folder: Path, truth: Truth, graded: Mapping[str, Graded], table: pl.DataFrame, thresholds: Thresholds | None
) -> list[Path]:
    """Write the results of graded maps into ``folder`` and return the paths of the files.

    - ``heatmaps.parquet``: the rows of ``graded``.
    - ``heatmaps.csv``: the means in ``table``.
    - ``heatmaps.json``: these means, and the masks, maps and thresholds behind them.
    - ``predictions.jsonl``: the maps' answers to grid items, for ``chexqa report``; only for a benchmark with grid
      items.
    """
    notice = PHANTOM_NOTICE if truth.is_phantom else None
    index: Record = {
        "schema_version": 1,
        "tool_version": __version__,
        "notice": notice,
        "masks": truth.label,
        "targets": len(truth.targets),
        "thresholds": None if thresholds is None else _about(thresholds),
        "models": [
            {"name": name, "states": _states(one.rows), "unused_files": list(one.unused)}
            for name, one in graded.items()
        ],
        "table": table.to_dicts(),
    }
    check(index, "heatmaps", str(folder / INDEX))
    rows = pl.concat([one.rows for one in graded.values()])
    answers = predictions(rows, truth.benchmark)
    buffer = io.BytesIO()
    rows.write_parquet(buffer)
    files = {ROWS: buffer.getvalue(), TABLE: csv_bytes(table, notice), INDEX: json_bytes(index)}
    if answers:
        for number, answer in enumerate(answers, start=1):
            check(answer, "prediction", f"{folder / PREDICTIONS}, line {number}")
        files[PREDICTIONS] = "".join(dump(answer) + "\n" for answer in answers).encode()
    write_all(folder, files.items())
    if not answers:
        # Answers of an earlier grading are removed, because they would be taken for answers of these maps.
        (folder / PREDICTIONS).unlink(missing_ok=True)
    return [folder / name for name in files]


def _about(thresholds: Thresholds) -> Record:
    return {
        "file": thresholds.path.name,
        "hash": sha256_of(thresholds.path),
        "by_finding": dict(thresholds.by_finding),
    }


def _states(rows: pl.DataFrame) -> dict[str, int]:
    return dict(sorted(rows["state"].value_counts().iter_rows()))


def show(table: pl.DataFrame, truth: Truth, graded: Mapping[str, Graded], out: Console) -> None:
    """Print the mean over findings, the values of each finding, and notes on maps that were not graded."""
    what = plural(len(truth.targets), "finding of a radiograph", "findings of radiographs")
    out.print(Text(f"Maps against the masks of {truth.label}: {what}", style="bold"))
    shown = [metric for metric in HEADS if table[metric].is_not_null().any()]
    means = table.filter(pl.col("finding") == MACRO)
    out.print()
    out.print(_means(means, shown))
    if truth.is_phantom:
        out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
    if shown and table["finding"].n_unique() > 2:
        out.print()
        out.print(_findings(table.filter(pl.col("finding") != MACRO), shown))
        if truth.is_phantom:
            out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
    for name, one in graded.items():
        for line in _remarks(name, one):
            out.print(Text(line, style="red"))


def _empty(title: str, shown: list[str], note: str | None) -> Table:
    made = Table(
        title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, 1, 0, 0), collapse_padding=True, caption=Text(note, style="dim") if note else None,
        caption_justify="left",
    )  # fmt: skip
    made.add_column("model", overflow="fold", max_width=24, vertical="bottom")
    for metric in shown:
        made.add_column(HEADS[metric], justify="right", no_wrap=True, vertical="bottom")
    return made


def _means(means: pl.DataFrame, shown: list[str]) -> Table:
    has_intervals = any(means[f"{metric}_low"].is_not_null().any() for metric in shown)
    note = ("95 % intervals below the numbers. " if has_intervals else "") + (
        "point: the map's maximum is in the mask (15 px: or within 15 px of it, in a picture of 1024 px). grid cell: "
        "the maximum lies in a hit cell of the 8 x 8 grid. "
        + ("given: at the given thresholds. " if "iou_given" in shown else "")
        + "CNR is not a percentage."
    )
    made = _empty("Mean of findings (percent)", shown, note)
    for row in means.to_dicts():
        made.add_row(Name(row["model"]), *(_cell(metric, row[metric]) for metric in shown))
        ends = [[_cell(metric, row[f"{metric}_{end}"]) for metric in shown] for end in ("low", "high")]
        if any(row[f"{metric}_low"] is not None for metric in shown):
            made.add_row(Text("  from"), *ends[0], style="dim")
            made.add_row(Text("  to"), *ends[1], style="dim")
    return made


def _findings(table: pl.DataFrame, shown: list[str]) -> Table:
    made = _empty("Each finding (percent)", shown, None)
    for (finding,), part in table.sort("finding", maintain_order=True).group_by("finding", maintain_order=True):
        made.add_section()
        made.add_row(Text(f"{str(finding).replace('_', ' ')} (n = {part['targets'][0]:,})", style="bold"))
        for row in part.to_dicts():
            made.add_row(Text(f"  {row['model']}"), *(_cell(metric, row[metric]) for metric in shown))
    return made


def _cell(metric: str, value: float | None) -> Text:
    if value is None:
        return Text("–")
    return Text(f"{value:.2f}" if metric == _UNBOUNDED else f"{100 * value:.1f}")


def _remarks(name: str, one: Graded) -> list[str]:
    states = _states(one.rows)
    lines = []
    if states.get("missing"):
        lines.append(
            f"{name}: {states['missing']:,} of {plural(one.rows.height, 'map')} missing, so the model has no numbers; "
            "with --allow-partial it gets numbers from the maps that exist."
        )
    for state, words in (("not_finite", "with NaN or infinity"), ("constant", "with the same value everywhere")):
        if states.get(state):
            lines.append(f"{name}: {plural(states[state], 'map')} {words}, graded as if pointing at random.")
    if one.unused:
        listed = ", ".join(one.unused[:3]) + (", …" if len(one.unused) > 3 else "")
        lines.append(
            f"{name}: left out {plural(len(one.unused), 'file')} whose name fits no present finding: {listed}."
        )
    return lines
