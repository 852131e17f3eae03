"""Stated confidences: measures against other implementations and simulated readers, and a run that asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from chexqa.contract import read_run
from chexqa.eval.confidence import calibration, selective
from chexqa.eval.confidence.confidence_tables import ALL
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables

Cli = Callable[..., tuple[int, str, str]]
PERCENT = st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=40, max_size=120)


def answers(people: int, each: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences of 30 to 95 %, answers right with ``confidence - shift``, and the patient of each."""
    rng = np.random.default_rng(seed)
    said = rng.integers(6, 20, people * each) / 20
    return said, rng.random(said.size) < said - shift, np.repeat(np.arange(people), each)


@settings(deadline=None, max_examples=40)
@given(PERCENT)
def test_measures_equal_those_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    said, right = np.array([row[0] / 100 for row in rows]), np.array([row[1] for row in rows])
    weight = np.ones(said.size)
    held = calibration.calibration(calibration.bins(said, right.astype(float), weight))
    # With one confidence in each bin, the three parts add up to the Brier score.
    binned = calibration.bin_of(said) / 10
    parts = calibration.calibration(calibration.bins(binned, right.astype(float), weight))
    assert parts.reliability - parts.resolution + parts.uncertainty == pytest.approx(brier_score_loss(right, binned))
    assert 0 <= held.error <= 1
    if min(right.sum(), (~right).sum()) >= selective.LEAST:
        found = selective.auroc(said, right, np.arange(said.size))
        assert found.value == pytest.approx(roc_auc_score(right, said))


def test_too_few_right_or_wrong_answers_have_no_area() -> None:
    said = np.linspace(0, 1, 100)
    assert np.isnan(selective.auroc(said, np.arange(100) >= 86, np.arange(100)).value)
    assert not np.isnan(selective.auroc(said, np.arange(100) >= 85, np.arange(100)).value)


def test_the_interval_of_the_area_holds_the_truth_over_patients() -> None:
    # Patients of four answers, each answer counted twice: copies must not make the interval narrower.
    held, truth = 0, float(np.mean([selective.auroc(*answers(4000, 1, seed)).value for seed in range(5)]))
    for seed in range(200):
        said, right, patient = (np.concatenate([part, part]) for part in answers(60, 4, seed))
        area = selective.auroc(said, right, patient)
        held += area.low <= truth <= area.high
    assert 0.92 <= held / 200 <= 0.985


@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_simulated_readers_of_known_calibration_are_recovered(shift: float) -> None:
    said, right, _ = answers(2000, 1, 7, shift)
    weight = np.ones(said.size)
    error = calibration.calibration(calibration.bins(said, right.astype(float), weight)).error
    by_chance = calibration.chance_error(said, weight)
    assert 0.005 < by_chance < 0.04
    assert error == pytest.approx(shift or by_chance, abs=0.02)


def test_risk_falls_with_coverage_where_confidence_tells_and_its_area_is_that_of_a_fine_sum() -> None:
    said, right, _ = answers(500, 4, 3)
    curve = selective.risk_coverage(said, right.astype(float), np.ones(said.size))
    assert curve.coverage[-1] == pytest.approx(1)
    assert curve.risk[-1] == pytest.approx(1 - right.mean())
    # The same area by answers in random order within a confidence.
    rng, sums = np.random.default_rng(0), []
    for _ in range(200):
        order = np.lexsort((rng.random(said.size), -said))
        sums.append(np.mean(np.cumsum(~right[order]) / np.arange(1, said.size + 1)))
    assert selective.area(curve) == pytest.approx(np.mean(sums), abs=0.002)
    useless = selective.risk_coverage(np.full(said.size, 0.5), right.astype(float), np.ones(said.size))
    assert selective.area(useless) == pytest.approx(1 - right.mean())


def test_what_is_kept_has_few_errors_on_patients_that_did_not_choose_the_threshold() -> None:
    said, right, patient = answers(500, 4, 5)
    weight = np.ones(said.size)
    handed = selective.handed_over(said, right.astype(float), weight, patient)
    assert handed.errors < 0.24
    # The lowest confidence from which on at most one in five is wrong: answers of 65 to 95 % are right in 80 %.
    assert handed.share == pytest.approx(np.mean(said < 0.65), abs=0.05)
    silent = np.where(patient % 2 == 0, np.nan, said)
    assert selective.handed_over(silent, right.astype(float), weight, patient).share > 0.5
    assert selective.handed_over(said, np.zeros(said.size), weight, patient) == (
        1.0,
        pytest.approx(np.nan, nan_ok=True),
    )


def test_a_run_asks_for_confidences_and_its_tables_have_them(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    texts = ["Answer: 1\nConfidence: 80 %", "Answer: 1\nConfidence: 0.9", "Answer: 1"]
    model = tmp_path / "model.py"
    model.write_text(
        "from itertools import cycle\n"
        f"TEXTS = cycle({texts!r})\n"
        "def answer(messages):\n"
        "    last = messages[-1]['content']\n"
        "    text = last if isinstance(last, str) else last[-1]['text']\n"
        "    assert text.rstrip().endswith('wherever a single line was asked for.'), text\n"
        "    return next(TEXTS)\n"
    )
    run = tmp_path / "run"
    code, _, err = cli("eval", tiny_benchmark, "--python", f"{model}:answer", "--confidence", "-o", run)
    assert code == 0, err
    about = json.loads((run / "run.json").read_text())
    assert about["condition"]["confidence"] is True
    turns = read_run.load(run).turns
    assert {turn.confidence for turn in turns} == {0.8, None}
    assert {turn.state for turn in turns} <= {"answered", "unparsed"}
    code, _, err = cli("eval", tiny_benchmark, "--python", f"{model}:answer", "-o", run)
    assert code == 2
    assert "--confidence was given and is now not given" in err
    tables = all_tables(grade.grade_folders([run], tiny_benchmark))
    whole = tables["confidence"].filter(level=ALL).row(0, named=True)
    assert whole["protocol"].endswith("(confidence)")
    assert 0.2 < whole["stated"] < 0.5
    assert whole["no_unit"] > 0
    assert whole["mean_confidence"] == pytest.approx(0.8)
    assert whole["overconfidence"] == pytest.approx(0.8 - tables["confidence_bins"].filter(level=ALL)["share_right"][0])
    assert set(tables["confidence_curve"]["least_confidence"]) == {0.8}


def test_without_the_option_no_question_asks_and_no_table_has_rows(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    assert cli("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", tmp_path / "run")[0] == 0
    tables = all_tables(grade.grade_folders([tmp_path / "run"], tiny_benchmark))
    assert [tables[name].height for name in ("confidence", "confidence_bins", "confidence_curve")] == [0, 0, 0]
