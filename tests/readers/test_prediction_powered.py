"""Levels corrected by a reviewed sample: bias and coverage, a second way to the number, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from blind_review import review
from grades import run, said

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.readers import reviewed
from chexqa.eval.readers.prediction_powered import Answers, corrected, powered
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.sample import scored_sample
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_json, write_jsonl

Cli = Callable[..., tuple[int, str, str]]
KINDS, PATIENTS, REVIEWED = 5, 400, 30


def simulated(random: np.random.Generator, accuracy: float, false: float) -> Answers:
    """Five questions each of 400 patients, all those of 30 patients reviewed, with false keys."""
    patient, kind = np.repeat(np.arange(PATIENTS), KINDS), np.tile(np.arange(KINDS), PATIENTS)
    skill = random.beta(4 * accuracy, 4 * (1 - accuracy), PATIENTS)
    right = (random.random(len(patient)) < skill[patient]).astype(float)
    lucky = (right == 0) & (random.random(len(patient)) < 0.5)
    keyed = np.where(random.random(len(patient)) < false, lucky, right)
    seen = np.isin(patient, random.permutation(PATIENTS)[:REVIEWED])
    return Answers(kind, patient, keyed, np.where(seen, right, np.nan), np.full(len(patient), REVIEWED / PATIENTS))


@pytest.mark.parametrize("accuracy", [0.6, 0.75, 0.9])
def test_eight_percent_of_false_keys_bias_levels_by_less_than_a_point_with_150_of_2000_items_reviewed(
    accuracy: float,
) -> None:
    random, weights = np.random.default_rng(0), np.full(KINDS, 1 / KINDS)
    made = [simulated(random, accuracy, 0.08) for _ in range(500)]
    found = [corrected(one, weights) for one in made]
    assert abs(np.mean([one.value for one in found]) - accuracy) < 0.01
    assert np.mean([one.keyed.mean() for one in made]) - accuracy < -0.02
    held = np.mean([one.low <= accuracy <= one.high for one in found])
    assert 0.925 <= held <= 0.985
    # Reviewed items alone know less.
    alone = np.std([np.nanmean(one.reviewed) for one in made])
    assert np.std([one.value for one in found]) < alone


def test_the_number_is_that_of_the_formula_and_drawn_items_weigh_by_their_probability() -> None:
    random = np.random.default_rng(5)
    one = simulated(random, 0.7, 0.1)
    chance = np.where(one.patient % 2 == 0, 0.05, 0.1)
    one = one._replace(probability=chance)
    found = corrected(one, np.full(KINDS, 1 / KINDS))
    total = 0.0
    for kind in range(KINDS):
        here, seen = one.kind == kind, (one.kind == kind) & ~np.isnan(one.reviewed)
        gap = one.reviewed[seen] - found.factor * one.keyed[seen]
        weights = 1 / chance[seen]
        total += found.factor * one.keyed[here].mean() + (weights * gap).sum() / weights.sum()
    assert found.value == pytest.approx(total / KINDS)
    assert 0 < found.factor <= 1


def test_perfect_keys_leave_accuracies_where_they_are() -> None:
    one = simulated(np.random.default_rng(6), 0.7, 0.0)
    found = corrected(one, np.full(KINDS, 1 / KINDS))
    assert found.factor == pytest.approx(1, abs=0.15)
    assert found.value == pytest.approx(one.keyed.mean(), abs=0.01)
    assert found.low < found.value < found.high
    lacking = one._replace(reviewed=np.where(one.kind == 2, np.nan, one.reviewed))
    assert np.isnan(corrected(lacking, np.full(KINDS, 1 / KINDS)).value)


@pytest.fixture
def bench(handmade: Any) -> Benchmark:
    """Eighty patients with one question each."""
    for number in range(80):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(1 + number % 2,))
    return benchmark.load(handmade.write())


def test_a_review_s_blind_answers_correct_the_accuracy(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    folder = review(bench, tmp_path / "review", 6)
    turns = [replace(turn, model="m") for turn in said(bench)]
    graded = replace(grade.grade_runs(bench, [run(turns)]), reviewed=reviewed.load(folder, bench))
    coarse, whole = powered(scored_sample(graded)).to_dicts()
    assert (coarse["level"], coarse["items"], coarse["reviewed"], coarse["against_key"]) == ("coarse", 80, 60, 6)
    assert (coarse["keyed"], coarse["unsettled"]) == (1.0, 0)
    assert coarse["powered"] == pytest.approx(0.9, abs=0.03)
    assert coarse["powered_low"] < 0.9 < coarse["powered_high"]
    assert whole["powered"] == coarse["powered"]
    place = tmp_path / "run"
    (place / "turns").mkdir(parents=True)
    about = {**read_run.origin(bench), "protocol": "end_to_end", "blind": False, "overlay_only": False, "rotations": 1,
             "repeats": 1, "limit": None, "limit_per_path": None, "seed": 0,
             "models": {"m": {"litellm": "m", "api_base": None, "decoding": {}}}}  # fmt: skip
    write_json(place / "run.json", about, "run")
    write_jsonl(place / "turns" / "m.jsonl", (turn.to_record() for turn in turns), "turn")
    code, out, _ = cli("grade", place, "--reviewed", folder, "--out", tmp_path / "out")
    assert code == 0
    assert "By the key, and by the reviewers" in out
    assert pl.read_csv(tmp_path / "out" / "tables" / "powered.csv")["against_key"].to_list() == [6, 6]


def test_what_was_chosen_or_is_unsettled_corrects_nothing(bench: Benchmark, tmp_path: Path, handmade: Any) -> None:
    with pytest.raises(InputError, match="record the probability with which each case was drawn"):
        reviewed.load(review(bench, tmp_path / "chosen", 6, drawn=False), bench)
    with pytest.raises(InputError, match="12 of 60 items have no settled answer"):
        reviewed.load(review(bench, tmp_path / "open", 12, readers=("anna", "ben")), bench)
    few = reviewed.load(review(bench, tmp_path / "some", 5, readers=("anna", "ben")), bench)
    assert int((~few["settled"]).sum()) == 5
    small = review(bench, tmp_path / "small", 0)
    lines = (small / "verdicts.jsonl").read_text().splitlines()[:20]
    (small / "verdicts.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="only 20 randomly drawn items"):
        reviewed.load(small, bench)
    about = json.loads((small / "review.json").read_text())
    about["benchmark"]["hash"] = "0" * 64
    (small / "review.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="give a review of this benchmark"):
        reviewed.load(small, bench)
