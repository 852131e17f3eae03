"""Layout of tables on the terminal, and notes: replies parsed again, unfinished models, tables without rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, pairwise

import polars as pl
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from chexqa.contract.items import ORIGINAL
from chexqa.contract.read_run import ERROR, Run
from chexqa.eval.design import subset
from chexqa.eval.models.registry import BASELINE, READERS
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.grade import UNFINISHED, Graded, protocol_name
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.predictions import ELSEWHERE
from chexqa.eval.scoring.sample import with_clusters
from chexqa.eval.tables.numbers_markdown_latex import NO_NUMBER
from chexqa.eval.tables.subgroups import LEAST_PATIENTS
from chexqa.files.terminal import Name, plural

# Share of all answers that a tenth of the patients may have before a note says that intervals may be too narrow.
MOST_OF_TENTH = 0.5
_STAGES = "questions of the stages 1 to 4 (chexqa generate --recipe chexpercept)"
_GRID = "questions of the grid (chexqa generate --recipe grid)"
_PLACES = "questions about places (chexqa generate --recipe places)"
_TWO = "two models that finished the same questions under one protocol"
_SURE = "answers with a confidence (chexqa eval --confidence, --logprobs or --repeats K)"
_CONDITIONS = "--condition original,target,irrelevant"
_ALTERED = f"a run on altered pictures (chexqa generate --interventions, then chexqa eval {_CONDITIONS})"
_STRESS = "a run with changed questions (chexqa eval --stress all)"
# Runs or items without which a table has no rows. All other tables have rows in every study.
NEEDS: dict[str, str] = {
    "drops": "finished questions of two levels of one model",
    "powered": "a review of a random sample (--reviewed REVIEW)",
    "depth": _STAGES,
    "stages": _STAGES,
    "decisions": _STAGES,
    "second_reader": "another reader's masks (--second-masks DIR)",
    "grid": _GRID,
    "cells": _GRID,
    "pointing": "cases with the finding that are asked for detection and for the grid (chexqa generate, without "
    "--recipe)",
    "thresholds": "questions on outlines with one error (chexqa generate --recipe jnd)",
    "places": _PLACES,
    "place_frames": _PLACES,
    "where": "cases that are asked for a cell of the grid and for a point or one box (chexqa generate --recipe grid "
    "--recipe places)",
    "groups": "a model that finished its questions",
    "pairs": f"{_TWO} and are no baselines",
    "differences": _TWO,
    "detectable": _TWO,
    "protocols": "a model under two protocols that differ in one thing (chexqa eval --protocol)",
    "rankings": "three models that finished the same questions, with two scores or under two protocols",
    "readers": "a reader study beside a model (chexqa review study)",
    "random_readers": "a reader study with three readers or more beside a model (chexqa review study)",
    "decided": "a run that stopped by its rule (chexqa eval --until-decided A,B)",
    "contrast": "finished medical and general models ('domain' in a models file, --models-file FILE)",
    "subgroups": f"groups of at least {LEAST_PATIENTS} patients, such as two findings, sexes or ages",
    "without_radiograph": "a run without the radiographs beside one with them (chexqa eval --blind or --overlay-only)",
    "rotations": "a run with several orders of options (chexqa eval --rotate N)",
    "positions": "answered questions with one right option",
    "confidence": _SURE,
    "confidence_bins": _SURE,
    "confidence_curve": _SURE,
    "abstention": "a run that allows models to abstain (chexqa eval --may-abstain)",
    "agreement": "a run with repeated questions (chexqa eval --repeats K)",
    "contradictions": _STAGES,
    "swapped": _STAGES,
    "grounding": f"{_ALTERED}, or a run on a fresh seed (--fresh RUN)",
    "grounding_findings": _ALTERED,
    "not_audited": _ALTERED,
    "stress": _STRESS,
    "stress_curve": _STRESS,
    "contested": "items on which reviewers disagreed (chexqa review apply)",
    "plan": "a plan of the study (chexqa plan, then --plan FILE)",
    "published": "a benchmark of real radiographs, not of phantoms",
}


def plain_table(title: str, first: str, heads: Sequence[str], note: str = "") -> Table:
    """Return an empty table with a column for names and a column for each heading.

    With five or more headings, the columns stand closer.
    """
    gap = 1 if len(heads) < 5 else 0
    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, gap, 0, 0), collapse_padding=True, caption=Text(note, style="dim") if note else None,
        caption_justify="left", min_width=len(title),
    )  # fmt: skip
    lines = max((head.count("\n") for head in heads), default=0)
    table.add_column("\n" * lines + first, overflow="fold", max_width=30)
    for head in heads:
        table.add_column("\n" * (lines - head.count("\n")) + head, justify="right", no_wrap=True, min_width=6)
    return table


def print_table(table: Table, out: Console) -> None:
    """Print an empty line, a table, and the table's note (its caption).

    A table that is too wide for the console is printed in parts, one below the other.
    """
    # The note is printed apart from the table, so that it has the width of the console even below a narrow table.
    for part in _parts(table, out):
        note, part.caption = part.caption, None
        out.print()
        out.print(part)
        if note:
            out.print(note)


def _parts(table: Table, out: Console) -> list[Table]:
    """Return the table in parts that fit the console, each with some of its columns; only the last one has the
    caption.
    """
    name, *widths = [
        max(Measurement.get(out, out.options, cell).maximum for cell in (column.header, *column.cells))
        for column in table.columns
    ]
    gap = table.padding[1] + 1  # padding, and the blank between two columns
    name = min(name, table.columns[0].max_width or name)
    needed = [max(width, one.min_width or 0) + gap for width, one in zip(widths, table.columns[1:], strict=True)]
    room, count = out.width - name, len(needed)
    # The fewest parts that fit, if possible with about the same number of columns each.
    ends = [0]
    for place in range(1, count):
        if sum(needed[ends[-1] : place + 1]) > room:
            ends.append(place)
    size = -(-count // len(ends))
    even = [*range(0, count, size), count]
    fits = all(sum(needed[start:end]) <= room for start, end in pairwise(even))
    ends = even if fits else [*ends, count]
    if len(ends) == 2:
        return [table]
    parts = []
    for start, end in pairwise(ends):
        part = copy(table)
        shown = [table.columns[0], *table.columns[start + 1 : end + 1]]
        part.columns = [replace(column, _index=index) for index, column in enumerate(shown)]
        # A column that is too wide beside whole names is not cut; the names take several lines.
        part.columns[0].min_width = max(1, min(name, out.width - sum(needed[start:end])))
        part.caption = table.caption if end == count else None
        if start and isinstance(table.title, Text):
            part.title = Text(f"{table.title.plain}, continued", style=table.title.style)
        parts.append(part)
    return parts


def show_reread(changed: pl.DataFrame, turns: int, out: Console) -> None:
    """Print how many replies the current parser reads differently, for each model and kind."""
    said = f"{changed.height:,} {'is' if changed.height == 1 else 'are'} read differently by today's parser."
    out.print(Text(f"Of {plural(turns, 'stored reply', 'stored replies')}, {said}"))
    if not changed.height:
        return
    table = plain_table("Read again", "model", ["kind", *rereading.CHANGES])
    found = rereading.counts(changed).pivot("change", index=["model", "kind"], values="turns")
    for row in found.sort("model", "kind").to_dicts():
        numbers = [f"{row[name]:,}" if row.get(name) else NO_NUMBER for name in rereading.CHANGES]
        table.add_row(Name(row["model"]), row["kind"], *numbers)
    out.print(table)


def few_patients(grades: pl.DataFrame) -> str | None:
    """Return a warning that a protocol has answers on too few patients; None if it has enough.

    - If the number of patients is below ``LEAST_CLUSTERS``, the warning says that no intervals are shown.
    - If more than half of the answers belong to a tenth of the patients, the warning says that intervals of differences
      may be too narrow.
    """
    found, unit = with_clusters(grades)
    answers = found["cluster"].value_counts()["count"].sort(descending=True).to_list()
    count, tenth = len(answers), -(-len(answers) // 10)
    if count >= LEAST_CLUSTERS:
        part = sum(answers[:tenth]) / len(grades)
        if part <= MOST_OF_TENTH:
            return None
        return (
            f"{tenth:,} of {count:,} {unit} {'has' if tenth == 1 else 'have'} {100 * part:.0f} % of the answers: "
            "intervals of differences may be too narrow."
        )
    return (
        f"No intervals are shown: they need {LEAST_CLUSTERS} {unit}, and there {'is' if count == 1 else 'are'} "
        f"only {count}."
    )


def unfinished(states: pl.DataFrame, elsewhere: set[str], allow_partial: bool) -> Iterable[str]:
    """Yield a line for each model that has no scores, or only partial scores.

    ``elsewhere`` names the models whose answers were made without chexqa (in files of predictions).
    """
    consequence = "its numbers are PARTIAL: only the finished items count" if allow_partial else "it has no accuracy"
    for row in states.to_dicts():
        mend = "the same 'chexqa eval' command asks them again"
        if row["model"] in elsewhere:
            mend = "add lines for them to its file"
        elif row["model"].startswith(READERS):
            mend = "'chexqa review import' takes the answers to the rows that are still open"
        count = row["error"] + row["not_asked"]
        if row["items"] == count + row["overflow"] > count:
            refused = f"{row['overflow']:,} of {plural(row['items'], 'question')}"
            yield f"{row['model']}: never replied, so it has no accuracy; its server refused {refused} as too long."
        elif count:
            hint = "" if allow_partial else " (--allow-partial shows the finished part)"
            open_ones = f"({row['error']:,} in error, {row['not_asked']:,} not asked)"
            whole = plural(row["items"], "item")
            yield f"{row['model']}: {count:,} of {whole} unfinished {open_ones}, so {consequence}; {mend}{hint}."


def asked() -> pl.Expr:
    """Return an expression that counts, for each row of ``states``, the questions that are finished."""
    return (pl.col("items") - pl.sum_horizontal(UNFINISHED)).alias("asked")


def is_silent() -> pl.Expr:
    """Return an expression that is True in rows of ``states`` of a model without any readable answer."""
    return (asked() > 0) & (pl.sum_horizontal(ANSWERED) == 0)


def unfinished_models(graded: Graded, states: pl.DataFrame) -> Iterable[str]:
    """Yield a line for each model and protocol without a readable answer, or with items that have no final answer yet.

    If there are several protocols, each line begins with its protocol.
    """
    protocols = states["protocol"].unique(maintain_order=True).to_list()
    for protocol in protocols:
        start = f"Protocol {protocol}: " if len(protocols) > 1 else ""
        part = states.filter(pl.col("protocol") == protocol)
        runs = [run for run in graded.runs if protocol_name(run) == protocol]
        elsewhere = {name for run in runs if run.about.get(ELSEWHERE) for name in run.models}
        altered = (_altered_open(graded, run, part["model"].to_list()) for run in runs)
        replied = part.filter(is_silent() & (pl.col("overflow") < asked()))  # the others have a line that says why
        silent = (f"{model}: no readable answer to {count:,} of {items:,} questions." for model, count, items in
                  replied.select("model", asked(), "items").iter_rows())  # fmt: skip
        for line in chain(silent, unfinished(part, elsewhere, graded.allow_partial), *altered):
            yield start + line


def _altered_open(graded: Graded, run: Run, models: Collection[str]) -> Iterator[str]:
    """Yield a line for each of the models that have answers to a part of the questions of --condition or --stress."""
    done = Counter(turn.model for turn in run.altered if turn.state != ERROR)
    if not done or run.decision is not None or run.about.get(ELSEWHERE):
        return
    turns = subset.turns_by_condition(graded.benchmark, run.about)
    whole = turns.total() - turns[ORIGINAL]
    for model, count in done.items():
        if count < whole and model in models:
            yield (
                f"{model}: {whole - count:,} of {plural(whole, 'altered question')} (--condition, --stress) "
                "unfinished, so its numbers on grounding and stress are PARTIAL: only the finished ones count; the "
                f"same 'chexqa eval' command asks the others ({run.folder})."
            )


def models_first(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the rows of baselines after those of models and readers."""
    if "model" not in table.columns:
        return table
    return table.sort(pl.col("model").str.starts_with(BASELINE), maintain_order=True)


def without_rows(name: str) -> str:
    """Return a sentence that says why a table has no rows, and what fills it."""
    need = NEEDS.get(name)
    return f"Table '{name}': these runs have no rows for it" + (f"; it needs {need}." if need else ".")
