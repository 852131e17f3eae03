"""Study of several map makers: where their maps point, and how well their scores recognize findings.

The page ``maps.html`` has a section for each table; the tables are also CSV files beside it.
"""

from __future__ import annotations

import html
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from chexqa.eval.heatmaps import conclusions, recognition, tuned
from chexqa.eval.heatmaps.grading import Graded
from chexqa.eval.heatmaps.map_files import ORIGIN, ORIGIN_SCHEMA
from chexqa.eval.heatmaps.targets import Truth
from chexqa.eval.scoring.csv_and_parquet import csv_bytes, tidy
from chexqa.files.atomic import write_all
from chexqa.files.jsonio import is_file, read_json
from chexqa.files.terminal import PHANTOM_NOTICE, plural

PAGE = "maps.html"
_STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "chexqa", "font.sans-serif": ["DejaVu Sans"],
                          "axes.spines.top": False, "axes.spines.right": False}  # fmt: skip
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = "osD^vPX"
_CSS = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:90rem;margin:2rem auto;padding:0 1rem;color:#14202b;"
    "background:#fff}p{max-width:75ch}table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .6rem;"
    "text-align:right;border-bottom:1px solid #d5dbe1;white-space:nowrap}thead th{white-space:normal;"
    "vertical-align:bottom}.text{text-align:left}th:first-child,td:first-child{position:sticky;left:0;background:#fff}"
    ".scroll{overflow-x:auto}.notice{background:#fff3cd;padding:.4rem .8rem}svg{max-width:100%;height:auto}"
    "@page{size:A4 landscape;margin:11mm}@media print{.scroll{overflow:visible}table{font-size:6pt}"
    "th,td{padding:1px 2px}svg{max-height:85mm}tr,svg{break-inside:avoid}h2{break-after:avoid}}"
    "@media(forced-colors:active){.notice{border:1px solid}svg{forced-color-adjust:none;background:#fff}}"
)


# Meanings of the files of a graded folder, and of their columns. A column that ends in _low or _high is an end of the
# 95 % interval. A column that ends in _least or _greatest is the smallest or largest value of any model.
TABLES = {
    "heatmaps.csv": "scores of localization maps and marks against masks, for each model and finding, and their mean",
    "heatmaps.parquet": "a row for each model and present finding of a radiograph",
    "recognition.csv": "how well each model's scores tell present from absent findings",
    "sweep.csv": "overlap at each threshold of the map from 0.1 to 0.9",
    "lesion_size.csv": "localization of small, medium and large lesions (thirds within each finding)",
    "domains.csv": "localization and recognition of models by the data that they were trained on",
    "correlations.csv": "correlation of recognition, lesion size and number of areas with localization",
}
COLUMNS = {
    "model": "name of the folder of maps, or the name given by --name",
    "finding": "the finding; 'mean of findings' is the unweighted mean",
    "targets": "number of graded pairs of a radiograph and a present finding",
    "missing": "number of targets without a map",
    "state": "graded, constant, not_finite, nothing_marked (a reader without marks) or missing",
    "cell": "number of the grid cell that holds the map's maximum; empty for a map that points nowhere",
    "domain": "what the model was trained on: cxr, biomedical or general",
    "lesion_share": "area of the lesion as a share of the picture",
    "components": "number of separate areas of the lesion",
    "pointing": "pointing game: share of maps whose maximum lies in the mask",
    "pointing_15px": "share of maps whose maximum lies in the mask or within 15 pixels (of 1024) of it",
    "grid_hit": "share of maps whose maximum lies in a cell of the 8 x 8 grid that is a hit",
    "grid_hit_attainable": "share of maps with a hit among the targets for which at least one cell is a hit",
    "iou_otsu": "intersection over union of the mask and the map above Otsu's threshold",
    "dice_otsu": "Dice of the mask and the map above Otsu's threshold",
    "iou_given": "intersection over union at the thresholds given by --thresholds",
    "dice_given": "Dice at the thresholds given by --thresholds",
    "iou_tuned": "intersection over union at the threshold that is best on other patients",
    "dice_tuned": "Dice at the threshold that is best on other patients",
    "auc": "probability that a pixel of the lesion has a larger value than a pixel outside (a tie counts as half)",
    "cnr": "contrast-to-noise ratio: difference of the means inside and outside the mask, divided by the root of the "
    "sum of both variances",
    "present_cases": "number of cases with the finding and a score",
    "absent_cases": "number of cases without the finding and with a score",
    "recognition_auc": "area under the ROC curve of the scores: present against absent findings",
    "f1": "F1 at the threshold of the score that is best on other patients",
    "accuracy": "share of cases judged right at the threshold of column f1",
    "balanced_accuracy": "mean of sensitivity and specificity at the threshold of column f1",
    "threshold": "threshold on the values of the map, which are scaled to 0 to 1",
    "iou": "mean intersection over union at the threshold",
    "dice": "mean Dice at the threshold",
    "chosen": "for how many of five parts of the patients this threshold was chosen (on the other four parts)",
    "size": "third of lesion size within the finding: small, medium or large; or small minus large",
    "models": "number of models",
    "scope": "what the points are: findings, models, or cases within findings (also for lesions of the same size)",
    "first": "first correlated quantity: recognition, lesion size or number of areas",
    "second": "second correlated quantity",
    "points": "number of points",
    "correlation": "Pearson's correlation",
    "least_without_one": "smallest correlation if any one point is left out; there are too few points for an interval",
    "greatest_without_one": "largest correlation if any one point is left out",
}
_ENDS = {"_low": "lower end of the 95 % interval: ", "_high": "upper end of the 95 % interval: ",
         "_least": "smallest value of the models: ", "_greatest": "largest value of the models: "}  # fmt: skip


def meaning(column: str) -> str:
    """Return the meaning of a column of a map study's tables.

    >>> meaning("pointing_low")
    'lower end of the 95 % interval: pointing game: share of maps whose maximum lies in the mask'
    """
    for end, words in _ENDS.items():
        if column.endswith(end) and column not in COLUMNS:
            return words + COLUMNS[column.removesuffix(end)]
    return COLUMNS[column]


class Study(NamedTuple):
    """Tables of a study, which :data:`TABLES` explains; ``scores`` has a row for each case and model with a score."""

    scores: pl.DataFrame
    recognition: pl.DataFrame
    sweep: pl.DataFrame
    lesion_size: pl.DataFrame
    domains: pl.DataFrame
    correlations: pl.DataFrame


def prepared(graded: Mapping[str, Graded], folders: Mapping[str, Path]) -> tuple[dict[str, Graded], pl.DataFrame]:
    """Return the models' grades with three columns added, and the table of the sweep over thresholds.

    - ``domain``: what the model was trained on, read from ``maker.json`` in its folder; null without this file.
    - ``iou_tuned``, ``dice_tuned``: IoU and Dice at the threshold that is best on other patients.

    :func:`chexqa.eval.heatmaps.tuned.with_tuned` describes the sweep.
    """
    made, sweeps = {}, []
    for name, one in graded.items():
        path = folders[name] / ORIGIN if name in folders else None
        domain = read_json(path, ORIGIN_SCHEMA)["domain"] if path is not None and is_file(path) else None
        rows, sweep = tuned.with_tuned(one.rows.with_columns(domain=pl.lit(domain, pl.String)))
        made[name] = one._replace(rows=rows)
        sweeps.append(sweep)
    return made, pl.concat(sweeps)


def study(
    graded: Mapping[str, Graded], folders: Mapping[str, Path], truth: Truth, table: pl.DataFrame, sweep: pl.DataFrame
) -> Study:
    """Return the tables of a study.

    - ``graded``: the grades of each model, keyed by the model's name.
    - ``folders``: each model's folder with maps and scores, keyed by the model's name.
    - ``table``: the mean of each metric, with a row for each model and finding, from ``summary.summarise``.
    - ``sweep``: the table ``sweep`` of the study, which :func:`prepared` returns.
    """
    found = [recognition.read_scores(name, folder, truth) for name, folder in folders.items()]
    scores = pl.concat([pl.DataFrame(schema=recognition.COLUMNS), *(one for one in found if one is not None)])
    known = recognition.summarise(scores)
    rows = conclusions.with_thirds(pl.concat([one.rows for one in graded.values()]))
    complete = rows.filter((pl.col("state") != "missing").all().over("model"))
    domain = {name: one.rows["domain"][0] for name, one in graded.items()}
    return Study(
        scores,
        known,
        sweep,
        conclusions.sizes(complete),
        conclusions.domains(table, known, domain),
        conclusions.correlations(complete, table, scores, known),
    )


def write(folder: Path, made: Study, table: pl.DataFrame, truth: Truth) -> list[Path]:
    """Write the tables of a study, its plots and its page into ``folder``; return the paths."""
    notice = PHANTOM_NOTICE if truth.is_phantom else None
    tables = {name: frame for name, frame in made._asdict().items() if name != "scores"}
    means = table.filter(pl.col("finding") == recognition.MACRO).select(_MEANS)
    files = {f"{name}.csv": csv_bytes(tidy(frame), notice) for name, frame in tables.items()}
    plots = {
        "lesion_size": _sizes(made.lesion_size),
        "domains": _domains(table, made),
        "correlations": _pairs(table, made),
    }
    drawn = {name: _svg(figure) for name, figure in plots.items() if figure is not None}
    files |= {f"{name}.svg": svg for name, svg in drawn.items()}
    files[PAGE] = _page(tables, means, drawn, notice, truth.label).encode()
    write_all(folder, files.items())
    return [folder / name for name in files]


def _sizes(table: pl.DataFrame) -> Figure | None:
    figure, axes = _axes()
    for place, (model,) in enumerate(table.select("model").unique(maintain_order=True).iter_rows()):
        own = table.filter((pl.col("model") == model) & pl.col("size").is_in(conclusions.THIRDS))
        heights = own["pointing"].to_list()
        if None not in heights and heights:
            axes.plot(range(len(heights)), heights, label=_plain(model), clip_on=False, **_look(place))
    axes.set_xticks(range(3), ["small lesions", "medium", "large"])
    axes.set_ylabel("pointing game, mean of findings")
    return _finished(figure, axes)


def _domains(table: pl.DataFrame, made: Study) -> Figure | None:
    figure, axes = _axes()
    if not made.domains.height:
        return None
    for place, row in enumerate(made.domains.to_dicts()):
        ends = [row["pointing"], row["pointing_least"], row["pointing_greatest"]]
        if None not in ends:
            axes.plot([place, place], ends[1:], color=_COLOURS[place], linewidth=2, clip_on=False)
            axes.plot(
                [place],
                ends[:1],
                _MARKS[place],
                color=_COLOURS[place],
                clip_on=False,
                label=f"{plural(row['models'], 'model')}, {row['domain']}",
            )
    axes.set_xticks(range(made.domains.height), made.domains["domain"].to_list())
    axes.set_ylabel("pointing game: mean, least and greatest model")
    return _finished(figure, axes)


def _pairs(table: pl.DataFrame, made: Study) -> Figure | None:
    figure, axes = _axes()
    both = made.recognition.select("model", "finding", "recognition_auc").join(
        table.select("model", "finding", "pointing"), on=["model", "finding"], how="inner", maintain_order="left"
    )
    points = both.filter(pl.col("finding") != recognition.MACRO).drop_nulls()
    for place, ((model,), own) in enumerate(points.group_by("model", maintain_order=True)):
        axes.scatter(
            own["recognition_auc"], own["pointing"], label=_plain(str(model)), s=22, clip_on=False, **_look(place)
        )
    axes.set_xlabel("recognition: area under the ROC curve")
    axes.set_ylabel("pointing game; each mark is a finding")
    return _finished(figure, axes)


def _look(place: int) -> dict[str, str]:
    """Return colour and marker of a model by its place; the first 49 models differ in one of them."""
    return {"color": _COLOURS[place % 7], "marker": _MARKS[(place + place // 7) % 7]}


def _axes() -> tuple[Figure, Any]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.5, 3.8), layout="constrained")
        return figure, figure.subplots()


def _finished(figure: Figure, axes: Any) -> Figure | None:
    if not axes.get_legend_handles_labels()[0]:
        return None
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _plain(name: str) -> str:
    """Return a model's name in a form that is safe in a legend.

    Without this, matplotlib would read some names as formulas, and hide names that begin with an underscore.
    """
    return name.replace("$", r"\$").lstrip("_") or "model"


def _svg(figure: Figure) -> bytes:
    out = io.BytesIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return out.getvalue()


# The columns of the page's first table.
_MEANS = ["model", "targets", *(f"{name}{end}" for name in ("pointing", "pointing_15px", "grid_hit", "iou_otsu", "auc")
                                for end in ("", "_low", "_high")), "cnr"]  # fmt: skip
_PARTS = (
    (
        "heatmaps",
        "Where do the maps point?",
        "Each number is the unweighted mean over findings.",
    ),
    (
        "lesion_size",
        "Are small lesions localized worse?",
        "The thirds of lesion size are taken within each finding, and a value is the mean over findings, so that "
        "findings with large and with small lesions are not mixed. A finding with fewer than three lesions has no "
        "thirds; intervals need ten patients.",
    ),
    (
        "domains",
        "Do models trained on radiographs localize better?",
        "The mean, the smallest and the largest value of the models of each domain. This describes these models; they "
        "are too few to show that the domain is the reason.",
    ),
    (
        "correlations",
        "Do models that recognize a finding better also localize it better?",
        "Over findings and over models there are few points, so the range with one point left out replaces an "
        "interval. Within findings, the correlation is over patients, also for lesions of the same size.",
    ),
    ("recognition", "Recognition", "Thresholds of F1 and of both accuracies are chosen on other patients."),
)  # fmt: skip


def _page(
    tables: Mapping[str, pl.DataFrame], means: pl.DataFrame, drawn: Mapping[str, bytes], notice: str | None, label: str
) -> str:
    told = f'<p class="notice">{html.escape(notice)}</p>' if notice else ""
    parts = []
    for name, title, text in _PARTS:
        svg = drawn[name].decode() if name in drawn else ""
        plot = svg[svg.index("<svg") :] if svg else ""
        table = _table(means if name == "heatmaps" else tables[name], f"{name}.csv")
        parts.append(f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{plot}{table}</section>')
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>Localization maps</title>"
        f"<style>{_CSS}</style></head><body><h1>Localization maps</h1><p>{html.escape(label)}</p>{told}"
    )
    return f"{head}{''.join(parts)}</body></html>\n"


def _table(frame: pl.DataFrame, file: str) -> str:
    """Return a table without the rows and columns that have no number, and a sentence on these rows.

    ``file`` has all rows and columns.
    """
    numbers = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    shown = frame.filter(pl.any_horizontal(pl.col(numbers).is_not_null()))
    left_out = frame.height - shown.height
    if not shown.height:
        return f"<p>No row of {file} has a number.</p>"
    note = f"<p>{file} has {plural(left_out, 'more row')}, without a number.</p>" if left_out else ""
    shown = shown.drop(name for name in numbers if shown[name].null_count() == shown.height)
    style = {name: ' class="text"' if kind == pl.String else "" for name, kind in shown.schema.items()}
    heads = "".join(f'<th scope="col"{style[name]} title="{html.escape(meaning(name))}">'
                    f"{html.escape(name.replace('_', ' '))}</th>" for name in shown.columns)  # fmt: skip
    rows = "".join(
        f"<tr>{''.join(f'<td{style[name]}>{_cell(value)}</td>' for name, value in row.items())}</tr>"
        for row in shown.iter_rows(named=True)
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>{note}'


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else html.escape(str(value))
