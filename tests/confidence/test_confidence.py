"""Confidences: measures against other implementations and simulated readers, and runs with each estimate."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_server import FakeServer, Reply, Request, completion
from grades import run, said, study
from handmade import Handmade
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from chexqa.contract import benchmark, read_run
from chexqa.contract.items import is_right
from chexqa.eval.confidence import calibration, selective
from chexqa.eval.confidence.answers import OTHER
from chexqa.eval.confidence.confidence_tables import ALL, confidences
from chexqa.eval.models import openai_http
from chexqa.eval.models.client import load_litellm
from chexqa.eval.runs.answer_tokens import answer_logprob
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


def test_the_threshold_for_handing_over_is_the_lowest_that_other_patients_allow() -> None:
    rng = np.random.default_rng(4)
    said, right, patient = rng.integers(0, 11, 40) / 10, (rng.random(40) < 0.78).astype(float), np.arange(40)
    kept = np.zeros(40, bool)
    for one in range(40):
        others = patient % selective.FOLDS != one % selective.FOLDS
        allowed = [cut for cut in said[others] if 1 - right[others & (said >= cut)].mean() <= selective.ERRORS]
        kept[one] = bool(allowed) and said[one] >= min(allowed)
    found = selective.handed_over(said, right, np.ones(40), patient)
    assert found == (pytest.approx(1 - kept.mean()), pytest.approx(1 - right[kept].mean()))
    assert 0 < kept.sum() < 40


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
    out = cli("grade", run, "--table", "confidence")[1]
    parts = out.count("model, estimate, level")
    assert parts == out.count("stated, all answers") > 1, "every part of the printed table names its rows"


def test_grids_without_a_hit_count_in_no_table_of_confidences(handmade: Handmade) -> None:
    for number in range(10):
        handmade.case(f"n{number}", "edema", "revision_free", grid=(12,) if number % 2 else ())
    bench = benchmark.load(handmade.write())
    # Two repeats, so that the tables have the estimate "repeats", too.
    asked = run(replace(turn, repeat=repeat, confidence=1.0) for turn in said(bench) for repeat in range(2))
    asked.about["repeats"] = 2
    tables = confidences(study(bench, [asked]))
    for level in (ALL, OTHER):
        rows = tables["confidence"].filter(level=level)
        assert rows["estimate"].to_list() == ["stated", "repeats"]
        for column in ("overconfidence", "ece", "handed_over", "errors_kept"):
            assert rows[column].to_list() == [0, 0], (level, column)
    assert rows["answers"].to_list() == [10, 5]
    assert set(tables["confidence_bins"]["share_right"]) == {1.0}
    assert set(tables["confidence_curve"]["share_wrong"]) == {0.0}


def in_tokens(text: str) -> list[tuple[str, float]]:
    """The words of a text with the spaces before them; the first has a log-probability of -0.01, the next -0.02, …"""
    return [(token, -(place + 1) / 100) for place, token in enumerate(re.findall(r"\s*\S+", text))]


@pytest.mark.parametrize(
    ("reply", "parsed", "told"),
    [
        ("Answer: 2", (2,), [2]),
        ("Option 1 looks odd.\n**Answer:** 2.\nConfidence: 1 %", (2,), [6]),
        ("The answer is no, because the 1st rib is whole", (2,), [4]),
        ("1", (1,), [1]),
        ("Answer: 2", (1,), []),
        ("I cannot tell", (2,), []),
    ],
)
def test_the_probability_is_that_of_the_tokens_with_the_answer(
    reply: str, parsed: tuple[int, ...], told: list[int], tiny_benchmark: Path
) -> None:
    item = next(item for item in benchmark.load(tiny_benchmark).items if item.kind == "detection")
    found = answer_logprob(item, parsed, in_tokens(reply))
    assert found == (pytest.approx(-sum(told) / 100) if told else None)
    assert answer_logprob(item, parsed, None) is None


def test_several_numbers_and_words_after_them_in_one_answer(tiny_benchmark: Path) -> None:
    item = next(item for item in benchmark.load(tiny_benchmark).items if item.kind == "revision_expansion")
    assert answer_logprob(item, (1, 3), in_tokens("Answer: 1, 3 (not 2)")) == pytest.approx(-0.05)


def test_a_server_gives_probabilities_of_tokens_and_the_tables_have_them(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    def answered(request: Request) -> Reply:
        assert request.body["logprobs"] is True
        made = completion(request.body, Reply("Answer: 1"))
        # Every third reply comes without probabilities, as proxies do.
        if request.number % 3:
            parts = [("Answer", -0.5), (":", -0.5), (" 1", -0.25)]
            made["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": value} for text, value in parts]}
        return Reply(body=json.dumps(made).encode())

    bench, run = benchmark.load(tiny_benchmark), tmp_path / "run"
    with FakeServer(bench, "end_to_end", answered) as server:
        code, _, err = cli("eval", tiny_benchmark, "--model-id", "m", "--api-base", server.url, "--logprobs", "-o", run)
    assert (code, server.problems) == (0, []), err
    turns = [turn for turn in read_run.load(run).turns if turn.state == "answered"]
    told = [turn.answer_logprob for turn in turns]
    assert set(told) == {-0.25, None}
    table = all_tables(grade.grade_folders([run], tiny_benchmark))["confidence"]
    row = table.filter(level=ALL, estimate="logprob").row(0, named=True)
    assert table["estimate"].unique().to_list() == ["logprob"]
    assert row["stated"] == pytest.approx(1 - told.count(None) / len(told))
    assert row["mean_confidence"] == pytest.approx(np.exp(-0.25))
    assert row["answers"] == len(turns)


@pytest.mark.parametrize(
    ("logprobs", "told"),
    [
        ({"content": [{"token": "2", "logprob": -0.5, "top_logprobs": []}]}, (("2", -0.5),)),
        ({"content": [{"token": "2", "logprob": -1e9, "top_logprobs": []}]}, (("2", -9999.0),)),
        ({"content": [{"token": "2", "logprob": 0.5, "top_logprobs": []}]}, None),
        ({"content": [{"token": "2", "logprob": float("nan"), "top_logprobs": []}]}, None),
        ({"content": []}, None),
        (None, None),
    ],
)
def test_tokens_are_read_from_replies_of_every_provider_and_impossible_ones_are_not(logprobs: Any, told: Any) -> None:
    made = completion({"model": "m"}, Reply("2"))
    made["choices"][0]["logprobs"] = logprobs
    assert openai_http.tokens(load_litellm().ModelResponse(**made).choices[0]) == told
    litellm = load_litellm()
    assert openai_http.tokens(openai_http.filled(litellm, litellm.ModelResponse(), made).choices[0]) == told


@pytest.mark.parametrize("content", ["no list", [1], [{"token": 2, "logprob": -1}], [{"token": "2"}]])
def test_a_malformed_list_of_tokens_loses_no_reply(content: Any) -> None:
    made = completion({"model": "m"}, Reply("2"))
    made["choices"][0]["logprobs"] = {"content": content}
    litellm = load_litellm()
    response = openai_http.filled(litellm, litellm.ModelResponse(), made)
    assert (response.choices[0].message.content, openai_http.tokens(response.choices[0])) == ("2", None)


def test_the_agreement_of_repeats_is_that_of_the_most_frequent_answer(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "from itertools import cycle\n"
        "TEXTS = cycle(['Answer: 1', 'Answer: 2', 'Hm.', 'Answer: 1', 'Answer: 1', 'Answer: 2', 'Answer: 2'])\n"
        "def answer(messages):\n"
        "    return next(TEXTS)\n"
    )
    run = tmp_path / "run"
    code, _, err = cli("eval", tiny_benchmark, "--python", f"{model}:answer", "--repeats", 4, "--protocol",
                       "independent", "-o", run)  # fmt: skip
    assert code == 0, err
    bench, votes = benchmark.load(tiny_benchmark), defaultdict(list)
    for turn in sorted(read_run.load(run).turns, key=lambda turn: turn.repeat):
        votes[turn.item_id].append(turn.parsed)
    assert bench.answers is not None
    shares, right = [], []
    for item in bench.items:
        counts = Counter(filter(None, votes[item.item_id]))
        if counts:
            # The first of equally frequent answers: a counter keeps their order.
            answer, times = counts.most_common(1)[0]
            shares.append(times / 4)
            right.append(is_right(item, bench.answers[item.item_id], answer))
    assert len(set(shares)) > 1
    row = all_tables(grade.grade_folders([run], tiny_benchmark))["confidence"].filter(level=ALL, estimate="repeats")
    assert row["answers"].to_list() == [len(shares)]
    assert row["mean_confidence"][0] == pytest.approx(np.mean(shares))
    assert row["overconfidence"][0] == pytest.approx(np.mean(shares) - np.mean(right))


def test_without_the_option_no_question_asks_and_no_table_has_rows(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    assert cli("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", tmp_path / "run")[0] == 0
    tables = all_tables(grade.grade_folders([tmp_path / "run"], tiny_benchmark))
    assert [tables[name].height for name in ("confidence", "confidence_bins", "confidence_curve")] == [0, 0, 0]
