"""Readers against the key: two who answer against it are seen, and so is one who accepts without looking."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from review_sheets import another_answer, answer_cells, as_reviewer, fill, fill_all, rows_in, write_small
from sklearn.metrics import cohen_kappa_score

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.review import columns
from chexqa.review.collect.verdicts import Verdict, read_store, write_store
from chexqa.review.columns import item_row_id
from chexqa.review.resolve.coefficients import Ratings, estimates, pair_estimate, resamples
from chexqa.review.resolve.compare import compare, places_of
from chexqa.review.resolve.new_version import apply_verdicts
from chexqa.review.resolve.validity import validity
from chexqa.review.study.self_agreement import with_themselves

pytestmark = pytest.mark.xdist_group("validity")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return benchmark.load(write_small(tmp_path_factory.mktemp("small") / "bench"))


def said(bench: Benchmark, item: Item, reviewer: str, kind: Any, **given: Any) -> Verdict:
    fields: dict[str, Any] = {"verdict": None, "answer": None, "planted": None, **given}
    return Verdict("r-000000000001", bench.hash, f"{reviewer}-{kind}", kind, reviewer, item_row_id(item.item_id),
                   fields["verdict"], fields["answer"], None, None, None, "2026-03-01",
                   {"file": "a.xlsx", "tab": "part 1", "row": 2}, None, fields["planted"])  # fmt: skip


def right(key: Answer, item: Item) -> tuple[int, ...]:
    return key.answer[:1] if item.kind == "grid_cell" else key.answer


def test_two_readers_who_answer_against_the_key_and_then_accept_it_are_seen_and_change_the_benchmark(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    """The whole round by commands: blind answers that are all wrong, then everything accepted."""
    sheets = tmp_path / "sheets"
    assert cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna,ben", "--overlap", "1")[0] == 0
    rng = random.Random(1)
    wrong = {item.item_id: another_answer(item, (bench.answers or {})[item.item_id], rng) for item in bench.items}
    for name in ("anna", "ben"):
        blind = as_reviewer(bench, lambda item, key: answer_cells(item, wrong[item.item_id], columns.ANSWER))
        fill_all(sheets, f"{name}-1-blind", blind)
    assert cli("review", "import", sheets)[0] == 0
    assert cli("review", "open", sheets)[0] == 0
    for name in ("anna", "ben"):
        fill(sheets / f"{name}-2" / f"{name}-2.xlsx", lambda row: {columns.VERDICT: "accept"})
    assert cli("review", "import", sheets)[0] == 0
    code, out, err = cli("review", "validity", bench.folder, sheets, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["against_key"][0]["share"]["value"] == 0.0
    assert found["against_key"][0]["answers"] == 2 * len(bench.items)
    (everybody, anna, ben) = found["after_proposal"]
    assert everybody["changed"]["value"] == 1.0
    assert everybody["to_proposal"] == everybody["answers"] == anna["answers"] + ben["answers"]
    planted = sum(len(sheet.get("planted", {})) for sheet in json.loads((sheets / "review.json").read_text())["sheets"])
    assert found["wrong_on_purpose"][0] == {
        "reviewer": None, "proposals": planted,
        "accepted": {"value": 1.0, "low": pytest.approx(0.342, abs=0.2), "high": 1.0},
    }  # fmt: skip
    code, out, _ = cli("review", "validity", bench.folder, sheets)
    assert "0 %" not in out.splitlines()[0]
    assert "blind answers after seeing the proposal" in out
    assert "made wrong on purpose" in out
    table = tmp_path / "validity.csv"
    assert cli("review", "validity", bench.folder, sheets, "-o", table)[0] == 0
    assert "right by the key,detection,all,all" in table.read_text("utf-8-sig")

    assert cli("review", "apply", bench.folder, sheets, "-o", tmp_path / "next")[0] == 0
    answers = benchmark.load(tmp_path / "next").answers or {}
    assert {"contested" in answer.flags for answer in answers.values()} == {True}


def test_without_the_two_blind_answers_the_same_round_accepts_everything(bench: Benchmark) -> None:
    verdicts = [said(bench, item, who, "items", verdict="accept") for item in bench.items for who in ("anna", "ben")]
    applied = apply_verdicts(bench, verdicts)
    assert {decision.status for decision in applied.decisions.values()} == {"accepted"}


def test_share_and_kappa_of_blind_answers_are_those_of_a_second_implementation(bench: Benchmark) -> None:
    rng = random.Random(5)
    answers = bench.answers or {}
    rows, expected = [], []
    for item in bench.items:
        key = answers[item.item_id]
        for who in ("anna", "ben", "cem"):
            answer = right(key, item) if rng.random() < 0.6 else another_answer(item, key, rng)
            rows.append(said(bench, item, who, "blind", answer=answer))
            expected.append((item.kind, answer, key.answer, item.form.is_right(key.answer, answer)))
    found = validity(bench, rows)
    groups = {(group.kind, group.finding, group.reviewer): group for group in found.groups}
    assert groups[None, None, None].share.value == pytest.approx(np.mean([row[3] for row in expected]))
    for kind in ("detection", "distribution", "revision_result"):
        told = [(answer[0], key[0]) for name, answer, key, _ in expected if name == kind]
        group = groups[kind, None, None]
        kappa = cohen_kappa_score(*zip(*told, strict=True))
        assert group.kappa is not None
        assert group.kappa.value == (None if np.isnan(kappa) else pytest.approx(kappa)), kind
    zones = [(answer[0], key[0]) for name, answer, key, _ in expected if name == "distribution"]
    weighted = groups["distribution", None, None].weighted
    close = cohen_kappa_score(*zip(*zones, strict=True), weights="quadratic", labels=[1, 2, 3, 4])
    assert weighted is not None
    assert weighted.value == pytest.approx(close)
    assert groups["revision_result", None, None].weighted is None
    assert groups["grid_cell", None, None].kappa is None
    assert groups["detection", "effusion", None].answers == 9
    assert sum(groups[None, None, who].answers for who in ("anna", "ben", "cem")) == len(rows)


def test_what_a_reader_changed_and_what_was_wrong_on_purpose(bench: Benchmark) -> None:
    detections = [item for item in bench.items if item.kind == "detection"]
    answers = bench.answers or {}
    rows = []
    for place, item in enumerate(detections):
        key = answers[item.item_id].answer
        wrong = (3 - key[0],)
        # One keeps a wrong answer, one moves to the proposal, the others were right before.
        rows.append(said(bench, item, "anna", "blind", answer=wrong if place < 2 else key))
        verdict = {"verdict": "fix", "answer": wrong} if place == 0 else {"verdict": "accept"}
        rows.append(said(bench, item, "anna", "items", **verdict))
        rows.append(said(bench, item, "ben", "items", verdict="accept" if place else "fix", planted=wrong))
    found = validity(bench, rows)
    assert (found.seen["anna"], found.changed["anna"].value, found.moved["anna"]) == (5, 0.2, 1)
    assert (found.planted["ben"], found.accepted["ben"].value) == (5, 0.8)
    assert "anna" not in found.planted


def test_a_grid_without_a_hit_is_left_out(bench: Benchmark) -> None:
    hit, none = (item for item in bench.items if item.kind == "grid_cell")
    answers = bench.answers or {}
    changed = replace(bench, answers=answers | {none.item_id: replace(answers[none.item_id], answer=())})
    rows = [said(changed, hit, "anna", "blind", answer=answers[hit.item_id].answer[:1])]
    rows += [said(changed, none, "anna", "blind", answer=(1,)), said(changed, none, "anna", "items", verdict="accept")]
    found = validity(changed, rows)
    assert (found.groups[0].answers, found.groups[0].share.value) == (1, 1.0)
    assert found.seen == {}


def test_two_cells_of_one_lesion_agree(bench: Benchmark) -> None:
    """Cells as codes would call 10 and 11, both hits, a disagreement."""
    item = next(item for item in bench.items if item.kind == "grid_cell" and (bench.answers or {})[item.item_id].answer
                == (10, 11))  # fmt: skip
    rows = [said(bench, item, who, "blind", answer=(cell,)) for who, cell in (("anna", 10), ("ben", 11), ("cem", 1))]
    (group,) = (
        group for group in compare(rows[:2], places_of(bench)) if group.kind == "grid_cell" and not group.finding
    )
    assert group.estimates["percent"].value == 1.0
    (group,) = (group for group in compare(rows, places_of(bench)) if group.kind == "grid_cell" and not group.finding)
    assert group.estimates["percent"].value == pytest.approx(1 / 3)


def test_questions_of_an_ordered_kind_that_show_other_options_have_no_order(bench: Benchmark) -> None:
    items = [item for item in bench.items if item.kind == "distribution"]
    rows = [said(bench, item, who, "blind", answer=(1 + place % 2,)) for place, item in enumerate(items)
            for who in ("anna", "ben")]  # fmt: skip
    places = places_of(bench)
    shorter = {row.row: places[row.row]._replace(item=replace(items[0], options=items[0].options[:-1]))
               for row in rows[:1]}  # fmt: skip
    for changed, ordered in (({}, True), (shorter, False)):
        (group,) = (group for group in compare(rows, places | changed) if not group.finding)
        assert ("weighted" in group.estimates) is ordered


def test_what_a_reader_repeats_by_chance_is_counted_within_each_kind(bench: Benchmark) -> None:
    rng = random.Random(2)
    rows, told = [], {name: list[list[int]]() for name in ("detection", "distribution", "grid_cell")}
    for item in bench.items:
        key = (bench.answers or {})[item.item_id].answer
        if item.kind in told and key:
            is_cell = item.kind == "grid_cell"
            answers = [rng.choice((1, key[0]) if is_cell else range(1, len(item.options) + 1)) for _ in range(2)]
            told[item.kind].append([int(answer in key) if is_cell else answer for answer in answers])
            rows += [said(bench, item, "anna", kind, answer=(answer,))
                     for kind, answer in zip(("readers", "repeat"), answers, strict=True)]  # fmt: skip
    counts = {kind: len(pairs) for kind, pairs in told.items()}
    both = [pair for pairs in told.values() for pair in pairs]
    observed = np.mean([first == again for first, again in both])
    expected = sum(
        sum(pair[0] == number for pair in pairs) * sum(pair[1] == number for pair in pairs) / counts[kind]
        for kind, pairs in told.items() for number in range(5)
    ) / len(both)  # fmt: skip
    everybody, anna = with_themselves(bench, rows)
    assert (everybody.items, anna.items, anna.reviewer) == (len(both), len(both), "anna")
    assert (anna.same.value, anna.kappa.value) == pytest.approx((observed, (observed - expected) / (1 - expected)))


@pytest.mark.parametrize("seed", range(4))
def test_weighted_kappas_are_those_of_a_second_implementation(seed: int) -> None:
    """Cohen's with scikit-learn; Fleiss's with weights from sums over pairs of ratings, as its definition says."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (30, 3))
    weights, one = resamples(30), Ratings(codes, 4, np.arange(30), ordered=True)
    pair = pair_estimate(one, 0, 2, weights)
    assert pair.weighted is not None
    assert pair.weighted.value == pytest.approx(cohen_kappa_score(codes[:, 0], codes[:, 2], weights="quadratic"))
    near = np.array([[1 - ((a - b) / 3) ** 2 for b in range(4)] for a in range(4)])
    observed = np.mean([near[row[a], row[b]] for row in codes for a in range(3) for b in range(3) if a != b])
    shares = np.bincount(codes.ravel(), minlength=4) / codes.size
    expected = sum(near[a, b] * shares[a] * shares[b] for a in range(4) for b in range(4))
    found = estimates(one, weights)["weighted"]
    assert found.value == pytest.approx((observed - expected) / (1 - expected))
    assert "weighted" not in estimates(Ratings(codes, 4, np.arange(30)), weights)


def test_a_third_person_adjudicates_anonymous_answers_with_the_key_unmarked_among_them(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    item = next(item for item in bench.items if item.kind == "distribution")
    key = (bench.answers or {})[item.item_id].answer
    wrong = (key[0] % 4 + 1,)
    store = tmp_path / "verdicts.jsonl"
    write_store(store, [said(bench, item, "anna", "items", verdict="fix", answer=wrong),
                        said(bench, item, "ben", "items", verdict="accept")])  # fmt: skip
    command = ("review", "adjudicate", bench.folder, store, "--blind", "--adjudicator")
    code, _, err = cli(*command, "Anna", "-o", tmp_path / "never")
    assert (code, "name a third person" in err) == (2, True)
    for number, (cells, verdict, answer) in enumerate((
        (answer_cells(item, key, columns.CORRECTED), "accept", key),
        (answer_cells(item, wrong, columns.CORRECTED), "fix", wrong),
        ({columns.VERDICT: "reject"}, "reject", None),
    )):  # fmt: skip
        out = tmp_path / f"sheet-{number}"
        assert cli(*command, "dora", "-o", out)[0] == 0
        (row,) = rows_in(out / "dora" / "dora.xlsx")
        shown = sorted(row[columns.vote_title(place)] for place in (1, 2, 3))
        assert shown == sorted(f"{number}. {item.options[number - 1].text}" for number in (*key, *key, *wrong))
        assert not row.get(columns.PROPOSED)
        assert not row.get(columns.EVIDENCE)
        fill(out / "dora" / "dora.xlsx", lambda row, cells=cells: cells)
        verdicts = out / "ruling.jsonl"
        assert cli("review", "import", out, "-o", verdicts)[0] == 0
        (ruling,) = read_store(verdicts).values()
        assert (ruling.kind, ruling.verdict, ruling.answer) == ("adjudication", verdict, answer)
    fill(out / "dora" / "dora.xlsx", lambda row: {columns.VERDICT: "accept"})
    code, _, err = cli("review", "import", out, "-o", tmp_path / "none.jsonl")
    assert (code, "this sheet shows no proposal" in err) == (2, True)
