"""Scores of guessing a place without the picture, as references for the models' scores.

There are two guesses: a point drawn uniformly from the lungs, and the place where the finding usually lies in other
patients (its average map).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Item
from chexqa.eval.places import markers
from chexqa.eval.places.average import AverageMaps, place_on
from chexqa.eval.places.score import score
from chexqa.eval.places.target import target_of
from chexqa.eval.scoring.sample import ScoredSample

COLUMNS: dict[str, Any] = {"item_id": pl.String, "uniform": pl.Float64, "average_map": pl.Float64}


def place_references(study: ScoredSample) -> pl.DataFrame:
    """Return, for each item with a present finding, the probability that a guessed place is right.

    - ``uniform``: the probability for a random point in the lungs; null for answer forms other than points.
    - ``average_map``: 1 if the best place on the average map is right, 0 if it is wrong. The map is the average of the
      lesion masks of all other patients with the finding; without such a patient, the value is null.
    """
    answers, cases = study.benchmark.key("the comparison with guessed places")
    averages = AverageMaps(study.benchmark)
    asked: dict[str, list[Item]] = {}
    for item in study.benchmark.items:
        if item.form.is_place and item.kind not in markers.KINDS and SOMEWHERE in answers[item.item_id].answer:
            asked.setdefault(item.case_id, []).append(item)
    rows = []
    for case_id, items in asked.items():
        target = target_of(cases[case_id].measures, f"the key of case '{case_id}'")
        average = averages.of(items[0].finding, case_id)
        for item in items:
            form = item.form.name
            uniform = 2 * answers[item.item_id].chance if form == "point" else None
            guess = None
            if target is not None and average is not None and (form != "width" or target.chest is not None):
                guess = float(score(form, place_on(average, form, target.size), target).right)
            rows.append((item.item_id, uniform, guess))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")
