"""Every table of a report by name, made from one set of grades."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from chexqa.eval import contradictions, effects, facts, grid_tables, pairs, subgroups, tables
from chexqa.eval.glossary import TABLES
from chexqa.eval.grading import Graded
from chexqa.eval.study import Study, make_study
from chexqa.eval.writers import tidy


def all_tables(graded: Graded) -> dict[str, pl.DataFrame]:
    """Every table by name, in the order of reading. Tables without a row are there too, so that names are fixed."""
    return tables_of(make_study(graded))


def tables_of(study: Study) -> dict[str, pl.DataFrame]:
    """Every table of a study (see :func:`all_tables`)."""
    # Each waits for none of the others, and most of their time is spent in code that lets other threads run.
    with ThreadPoolExecutor(_THREADS) as pool:
        groups = pool.submit(subgroups.subgroups, study)
        compared = pool.submit(pairs.compare_models, study)
        rest = {name: pool.submit(make, study) for name, make in _SINGLE.items()}
        numbers = tables.level_numbers(study)
        made = {
            "levels": tables.levels(study, numbers),
            "drops": tables.drops(study, numbers),
            "subgroups": groups.result(),
            **compared.result()._asdict(),
            **{name: table.result() for name, table in rest.items()},
        }
    return {name: tidy(made[name]) for name in TABLES}


_THREADS = 2
_SINGLE: dict[str, Callable[[Study], pl.DataFrame]] = {
    "states": tables.states,
    "depth": tables.depth,
    "stages": tables.stages,
    "kinds": tables.kinds,
    "decisions": tables.decisions,
    "grid": grid_tables.grid,
    "cells": grid_tables.cells,
    "without_radiograph": effects.without_radiograph,
    "rotations": effects.rotations,
    "positions": effects.positions,
    "agreement": effects.agreement,
    "contradictions": contradictions.contradictions,
    "swapped": contradictions.mirrored,
    "contested": tables.contested,
    "costs": tables.costs,
    "facts": facts.facts,
    "published": lambda study: facts.published_table(study.benchmark),
}
