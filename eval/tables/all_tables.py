"""Every table of a report by name, made from one set of grades."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from chexqa.eval.scoring.frames import tidy
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.sample import ScoredSample, scored_sample
from chexqa.eval.tables import consistency, dataset, grid, levels_and_stages, model_pairs, robustness, subgroups
from chexqa.eval.tables.glossary import TABLES


def all_tables(graded: Graded) -> dict[str, pl.DataFrame]:
    """Return every table by name, in reading order. Tables without rows are included, so that the names are fixed."""
    return tables_of(scored_sample(graded))


def tables_of(study: ScoredSample) -> dict[str, pl.DataFrame]:
    """Return all tables of a scored sample (see :func:`all_tables`)."""
    # The tables do not depend on each other, and most of their time is spent in code that lets other threads run.
    with ThreadPoolExecutor(_THREADS) as pool:
        groups = pool.submit(subgroups.subgroups, study)
        compared = pool.submit(model_pairs.compare_models, study)
        rest = {name: pool.submit(make, study) for name, make in _SINGLE.items()}
        numbers = levels_and_stages.level_numbers(study)
        made = {
            "levels": levels_and_stages.levels(study, numbers),
            "drops": levels_and_stages.drops(study, numbers),
            "subgroups": groups.result(),
            **compared.result()._asdict(),
            **{name: table.result() for name, table in rest.items()},
        }
    return {name: tidy(made[name]) for name in TABLES}


_THREADS = 2
_SINGLE: dict[str, Callable[[ScoredSample], pl.DataFrame]] = {
    "states": levels_and_stages.states,
    "depth": levels_and_stages.depth,
    "stages": levels_and_stages.stages,
    "kinds": levels_and_stages.kinds,
    "decisions": levels_and_stages.decisions,
    "grid": grid.grid,
    "cells": grid.cells,
    "without_radiograph": robustness.without_radiograph,
    "rotations": robustness.rotations,
    "positions": robustness.positions,
    "agreement": robustness.agreement,
    "contradictions": consistency.contradictions,
    "swapped": consistency.mirrored,
    "contested": levels_and_stages.contested,
    "costs": levels_and_stages.costs,
    "facts": dataset.dataset_summary,
    "published": lambda study: dataset.published_table(study.benchmark),
}
