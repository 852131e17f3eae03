"""All tables of a report, keyed by name, computed from the grades of one or more runs.

Models that were asked different items are put into different groups (:func:`groups`), each with its own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from chexqa.eval.confidence import abstention, confidence_tables
from chexqa.eval.design import plan
from chexqa.eval.grounding import answer_pairs, grounding_tables
from chexqa.eval.place_results import frame_proofs, one_cell, place_rows, place_table
from chexqa.eval.prompts import conditions
from chexqa.eval.readers.prediction_powered import powered
from chexqa.eval.readers.random_readers import random_readers
from chexqa.eval.readers.second_reader import second_reader
from chexqa.eval.scoring.csv_and_parquet import tidy
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.sample import ScoredSample, scored_sample
from chexqa.eval.side_by_side.answers_by_key import answers_by_key
from chexqa.eval.side_by_side.differences import differences
from chexqa.eval.side_by_side.finding_kinds import finding_kinds
from chexqa.eval.tables import (
    asked_items,
    grid,
    levels_and_stages,
    model_pairs,
    protocol_pairs,
    robustness_and_contradictions,
    subgroups,
)
from chexqa.eval.tables.glossary import TABLES
from chexqa.eval.thresholds import stress_tables, threshold_table
from chexqa.files.errors import Named
from chexqa.files.terminal import plural
from chexqa.files.text import few

SEVERAL = (
    "The models were asked different items, so they are shown in groups, each with its own chance and ceiling. Numbers "
    "of different groups cannot be compared. --shared scores all models only on the items that every model was asked."
)


def all_tables(graded: Graded) -> dict[str, pl.DataFrame]:
    """Return the report's tables, keyed by name, in reading order; a table can be without rows.

    There are tables of places only if the benchmark asks for places, and tables on grounding only if a run asked
    altered items or a fresh seed.
    """
    return tables_of(scored_sample(graded))


@dataclass(frozen=True, eq=False)
class Group:
    """Models (each under one protocol) that were asked the same items.

    Group 1 was asked the most items; groups that have only baselines come last.
    """

    number: int
    count: int
    graded: Graded

    def __repr__(self) -> str:
        """Return the title."""
        return f"<{type(self).__name__}: {self.title}>"

    @cached_property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Return the tables of :func:`all_tables` for the models of this group only."""
        return all_tables(self.graded)

    @property
    def title(self) -> str:
        """Return a title of the group: its number, the number of its items, and its models."""
        names = self.graded.grades["model"].unique(maintain_order=True).to_list()
        items = plural(self.graded.grades["item_id"].n_unique(), "item")
        return f"group {self.number} of {self.count}: {items}, asked of {few(names)}"

    @property
    def folder(self) -> str:
        """Return the name of the group's folder inside the report's folder; empty for group 1."""
        return "" if self.number == 1 else f"items-{self.number}"


def groups(graded: Graded) -> list[Group]:
    """Return the models in groups; the models of a group were asked the same items."""
    parts = asked_items.by_items(graded)
    return [Group(number, len(parts), part) for number, part in enumerate(parts, start=1)]


def tables_of(study: ScoredSample) -> dict[str, pl.DataFrame]:
    """Return all tables of a scored sample (see :func:`all_tables`)."""
    # The tables do not depend on each other, and most of their time is spent in code that lets other threads run.
    with ThreadPoolExecutor(_THREADS) as pool:
        groups = pool.submit(subgroups.subgroups, study)
        compared = pool.submit(model_pairs.compare_models, study)
        levels = pool.submit(_levels, study)
        rest = {name: pool.submit(make, study) for name, make in _SINGLE.items()}
        confident = pool.submit(confidence_tables.confidences, study)
        made = {
            **levels.result(),
            "subgroups": groups.result(),
            **compared.result()._asdict(),
            "rankings": protocol_pairs.rankings(compared.result().groups),
            **{name: table.result() for name, table in rest.items()},
            **confident.result(),
        }
        if place_rows.place_kinds(study):
            made |= {"places": place_table.places(study), "place_frames": frame_proofs.frame_proofs(study.graded)}
        if one_cell.kinds_of_one_cell(study):
            made["where"] = one_cell.where(study)
        if answer_pairs.has_altered(study.graded) or study.graded.fresh is not None:
            made |= {
                "grounding": grounding_tables.grounding(study),
                "grounding_findings": grounding_tables.grounding_findings(study),
                "not_audited": grounding_tables.not_audited(study),
            }
        if stress_tables.has_stress(study.graded):
            made |= {"stress": stress_tables.stress(study), "stress_curve": stress_tables.stress_curve(study)}
    return Named("table", {name: tidy(_with_conditions(study.graded, made[name])) for name in TABLES if name in made})


def _levels(study: ScoredSample) -> dict[str, pl.DataFrame]:
    numbers = levels_and_stages.level_numbers(study)
    return {
        "levels": levels_and_stages.levels(study, numbers),
        "drops": levels_and_stages.drops(study, numbers),
    }


# Columns that tell how a run asked; the name of its protocol says the same.
CONDITIONS = ("prompt", "system", "shots")


def _with_conditions(graded: Graded, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table; if a run has another wording or a further option, add the columns of :data:`CONDITIONS` after
    ``protocol``.
    """
    held = {protocol_name(run): conditions.of_run(run.about) for run in graded.runs}
    if "protocol" not in table.columns or not any(one.words for one in held.values()):
        return table
    place = table.columns.index("protocol") + 1
    added: tuple[tuple[dict[str, Any], Any], ...] = (
        ({name: one.prompt or "bank" for name, one in held.items()}, pl.String),
        ({name: one.system_mark or "bank" for name, one in held.items()}, pl.String),
        ({name: one.shots for name, one in held.items()}, pl.Int64),
    )
    for number, (name, (values, kind)) in enumerate(zip(CONDITIONS, added, strict=True)):
        column = table["protocol"].replace_strict(values, default=None, return_dtype=kind).alias(name)
        table = table.insert_column(place + number, column)
    return table


_THREADS = 2
_SINGLE: dict[str, Callable[[ScoredSample], pl.DataFrame]] = {
    "decided": lambda study: asked_items.decided(study.graded),
    "random_readers": random_readers,
    "powered": powered,
    "second_reader": lambda study: second_reader(study.graded.second_reader),
    "states": asked_items.states,
    "depth": levels_and_stages.depth,
    "stages": levels_and_stages.stages,
    "kinds": levels_and_stages.kinds,
    "finding_kinds": finding_kinds,
    "answers_by_key": answers_by_key,
    "differences": differences,
    "decisions": levels_and_stages.decisions,
    "grid": grid.grid,
    "cells": grid.cells,
    "pointing": grid.pointing,
    "thresholds": threshold_table.thresholds,
    "protocols": protocol_pairs.protocols,
    "without_radiograph": robustness_and_contradictions.without_radiograph,
    "rotations": robustness_and_contradictions.rotations,
    "positions": robustness_and_contradictions.positions,
    "abstention": abstention.abstention,
    "agreement": robustness_and_contradictions.agreement,
    "contradictions": robustness_and_contradictions.contradictions,
    "swapped": robustness_and_contradictions.mirrored,
    "contested": asked_items.contested,
    "costs": asked_items.costs,
    "plan": lambda study: plan.kept(study.graded),
    "facts": asked_items.dataset_summary,
    "published": lambda study: asked_items.published_table(study.benchmark),
}
