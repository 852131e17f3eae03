"""Data of the page: every table, column by column, with explanations of its columns, as one JSON object.

The scripts of the page draw all tables and plots from this object. Floats keep five significant digits. Names of models
are untrusted text; the scripts insert them as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import PATHS
from chexqa.contract.kinds import GRID_CELL, KINDS, LEVELS, kind_order
from chexqa.eval.confidence.confidence_tables import ALL
from chexqa.eval.design.weights import NOT_COMPARED
from chexqa.eval.grounding import net_grounding
from chexqa.eval.models.baselines import MEANINGS
from chexqa.eval.models.registry import BASELINE, READERS
from chexqa.eval.report.page.sections import OUTLINE, Frames
from chexqa.eval.scoring.associations import LEAST_CORRELATED
from chexqa.eval.scoring.grade import STATES
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.tables.asked_items import in_reading_order
from chexqa.eval.tables.glossary import P_VALUES, PLAIN, TABLES, meaning
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.eval.tables.model_pairs import GRID_SCORE
from chexqa.eval.tables.numbers_markdown_latex import WIDE, note, values_across, words
from chexqa.eval.thresholds.fit import LEAST_OBSERVATIONS
from chexqa.eval.thresholds.threshold_table import NOT_TOLD
from chexqa.generators.interventions.altered_items import FLAG

# Column that the rows of a report's tables share, and that the page's switch of protocols filters.
PROTOCOL = "protocol"
# Tables that only the page's plots show: a row of each says too little by itself.
NOT_SHOWN = ("cells", "confidence_bins", "confidence_curve", "groups")
# Meanings of the protocols' names, short enough for a switch.
PROTOCOLS = {
    "end_to_end": "Each case is one conversation; the model's earlier answers stay as they are.",
    "oracle_passed": "Each case is one conversation; a wrong stage's answers are replaced by the right ones before the "
    "next stage.",
    "oracle_stated": "Each case is one conversation; after a wrong stage the next question states the right answer.",
    "independent": "Each question is asked alone, without earlier questions and answers.",
}


def page_data(benchmark: Benchmark, frames: Frames, domains: Mapping[str, str]) -> dict[str, Any]:
    """Return the object that the page's scripts read.

    ``domains`` has ``general``, ``medical`` or ``baseline`` for each known model, keyed by the model's name.
    """
    models = frames["states"]["model"].unique(maintain_order=True).to_list()
    shown = {name: table for name, table in frames.items() if table.height}
    protocols = in_reading_order(frames["states"])
    ways = {name: PROTOCOLS[base] for name in protocols if (base := name.partition(" (")[0]) in PROTOCOLS}
    return {
        "protocols": protocols,
        "models": [{"name": name, "domain": domains.get(name), "role": role(name)} for name in models],
        "levels": list(LEVELS),
        "overall": OVERALL,
        "grid": GRID_SCORE,
        "macro": MACRO,
        "all_answers": ALL,
        "paths": list(PATHS),
        "states": list(STATES),
        "kinds": kind_order(set(frames["kinds"]["kind"])),
        "level_of": {name: kind.level or GRID_SCORE for name, kind in KINDS.items() if kind.level or name == GRID_CELL},
        "drawn_anew": [name for name, kind in KINDS.items() if kind.drawn_anew],
        "not_audited_flag": FLAG,
        "options": option_numbers(benchmark),
        "unit": frames["facts"]["clusters"][0],
        "least": LEAST_CLUSTERS,
        "least_responses": LEAST_OBSERVATIONS,
        "least_correlated": LEAST_CORRELATED,
        "not_compared": NOT_COMPARED,
        "verdicts": [net_grounding.USES, net_grounding.NOT_SHOWN, net_grounding.UNDECIDED],
        "least_not_shown": net_grounding.NOT_SHOWN_PATIENTS,
        "not_told": NOT_TOLD,
        "ways": ways,
        "sections": [
            {"anchor": section.anchor, "tables": [name for name in section.tables if name in shown]}
            for section in OUTLINE
        ],
        "wide": {
            name: [*columns, values_across(name, shown[name])] for name, (*columns, _) in WIDE.items() if name in shown
        },
        "tables": {name: _table(name, table) for name, table in shown.items()},
        "terms": {**terms(shown), **{words(name): text for name, text in ways.items()}, **_baselines(models)},
    }


def _baselines(models: Iterable[str]) -> dict[str, str]:
    """Return the meanings of the baselines among the models, keyed by the baseline's name."""
    own = {name: name.removeprefix(BASELINE) for name in models if name.startswith(BASELINE)}
    stems = {name: "skill" if rule.startswith("skill-") else rule for name, rule in own.items()}
    return {name: MEANINGS[stem] for name, stem in stems.items() if stem in MEANINGS}


def role(name: str) -> str:
    """Return ``baseline``, ``reader`` or ``model``, found from the model's name."""
    if name.startswith(BASELINE):
        return "baseline"
    return "reader" if name.startswith(READERS) else "model"


def terms(frames: Frames) -> dict[str, str]:
    """Return the meaning of every column of the tables; columns with ends of intervals are left out."""
    columns = sorted({name for table in frames.values() for name in _columns(table)})
    within = {column: [name for name, table in frames.items() if column in table.columns] for column in columns}
    return {words(column): meaning(column, *tables) for column, tables in within.items()}


def option_numbers(benchmark: Benchmark) -> dict[str, dict[str, int]]:
    """Return the option numbers, keyed by kind and by the option's text, for kinds whose options always have the same
    order.
    """
    found: dict[str, dict[str, int]] = {}
    mixed = set()
    for item in benchmark.items:
        numbers = {option.text: option.n for option in item.options if option.text is not None}
        if len(numbers) > len(STATES) or found.setdefault(item.kind, numbers) != numbers:
            mixed.add(item.kind)
    return {kind: numbers for kind, numbers in found.items() if kind not in mixed}


def _columns(frame: pl.DataFrame) -> list[str]:
    ends = {f"{name}{end}" for name in frame.columns for end in ("_low", "_high")}
    return [name for name in frame.columns if name not in ends]


def _table(name: str, frame: pl.DataFrame) -> dict[str, Any]:
    """Return a table: its caption, number of rows, columns to show, and the values of all columns."""
    return {
        "caption": f"{TABLES[name][0].upper()}{TABLES[name][1:]}",
        "rows": frame.height,
        "columns": [
            [column, words(column), meaning(column, name), _form(column, frame[column])] for column in _columns(frame)
        ],
        "values": {column: _values(frame[column]) for column in frame.columns},
        "note": " ".join(note(frame)),
    }


def _form(name: str, column: pl.Series) -> str | int:
    """Return the form of a column's values: ``text``, ``count``, ``p``, ``share`` (percent) or a number of decimals."""
    if column.dtype == pl.String or column.dtype == pl.Boolean:
        return "text"
    if column.dtype.is_integer():
        return "count"
    return "p" if name in P_VALUES else PLAIN.get(name, "share")


def _values(column: pl.Series) -> Any:
    """Return a column's values: a constant as ``{"same": value}``, texts as ``{"texts": […], "at": [numbers]}``."""
    values = column.to_list()
    if column.n_unique() == 1:
        return {"same": _rounded(values[0])}
    if column.dtype == pl.String:
        texts = list(dict.fromkeys(values))
        places = {text: place for place, text in enumerate(texts)}
        return {"texts": texts, "at": [places[value] for value in values]}
    return [_rounded(value) for value in values]


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
