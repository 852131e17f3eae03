"""Tables of several models, runs or rounds by hand: every column of those that one plain run leaves empty.

Four patients answer one detection question each, of which two options make chance 1/2: a share of right answers s is
2 s - 1 when corrected. Every number is a share of the patients or a difference of two; ``plain_intervals`` has the
intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from grades import run, said
from handmade import Handmade
from plain_intervals import Number, share, weighted
from plain_intervals import mean as average
from scipy import stats

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.scoring import grade, intervals
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.protocol_pairs import rankings

MEDICAL, GENERAL = "lingshu-32b", "gpt-5.4"
WHO = {"model": "m", "protocol": "end_to_end", "unfinished": 0}


@pytest.fixture
def bench(handmade: Handmade) -> Benchmark:
    """Four patients, of whom the first two are keyed no and the others yes."""
    for name in "abcd":
        handmade.case(name, "edema", "lesion_free", detection=(2,) if name in "ab" else (1,))
    return benchmark.load(handmade.write())


def answers(bench: Benchmark, replies: str, **fields: Any) -> list[Turn]:
    """One turn for each patient: ``+`` is right, ``-`` is wrong and ``r`` a refusal."""
    meant: dict[str, Any] = {"-": (), "r": "refused"}
    mistakes = {item.item_id: meant[one] for item, one in zip(bench.items, replies, strict=True) if one in meant}
    return [replace(turn, **fields) for turn in said(bench, mistakes)]


def tables(bench: Benchmark, *runs: Run) -> dict[str, pl.DataFrame]:
    return all_tables(grade.grade_runs(bench, runs))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four patients be enough for an interval."""
    monkeypatch.setattr(intervals, "LEAST_CLUSTERS", 2)


ASKED = (1, 1, 1, 1)


def mean(name: str, *parts: float) -> dict[str, float]:
    """The share of the patients' parts, each from 0 to 1."""
    return share(parts, ASKED, least_effect=0).columns(name)


def both_classes(right: Sequence[int]) -> Number:
    """The corrected share: the mean of the patients keyed no and those keyed yes."""
    return average(*(share([one * own for one, own in zip(right, asked, strict=True)], asked, 1 / 2)
                     for asked in ((1, 1, 0, 0), (0, 0, 1, 1))))  # fmt: skip


def corrected(name: str, *right: int) -> dict[str, float]:
    return both_classes(right).columns(name)


def difference(first: Sequence[int], second: Sequence[int]) -> dict[str, float]:
    """The difference of two corrected shares."""
    return weighted([1, -1], [both_classes(first), both_classes(second)]).columns("difference")


def alike(row: dict[str, float], margin: float = 0.05) -> float:
    """p of the two one-sided t tests of four patients, with the standard errors of the interval."""
    steps = [row["difference"] - row["difference_low"], row["difference_high"] - row["difference"]]
    room = [margin + row["difference"], margin - row["difference"]]
    return max(float(stats.t.sf(inside * stats.t.isf(0.025, 3) / step, 3))
               for inside, step in zip(room, steps, strict=True))  # fmt: skip


def check(table: pl.DataFrame, rows: Sequence[dict[str, Any]], off: float = 1e-6) -> None:
    """Assert that a table has these rows in this order, and no column besides."""
    assert [set(row) for row in rows] == [set(table.columns)] * table.height
    for wanted, found in zip(rows, table.to_dicts(), strict=True):
        assert found == pytest.approx(wanted, abs=off)


def test_two_models(bench: Benchmark) -> None:
    """One is right for a, b and c, the other for a: they differ for two patients, in the same direction."""
    turns = [*answers(bench, "+++-", model=MEDICAL), *answers(bench, "+---", model=GENERAL)]
    found = tables(bench, run(turns, (MEDICAL, GENERAL)))
    # Both differences have their sign in 2 of the 4 ways to choose signs. Four tests make Holm's family.
    apart = difference((1, 1, 1, 0), (1, 0, 0, 0))
    tested = {
        **apart,
        "p": 2 / 4,
        "p_holm": 1.0,
        "family": "confirmatory",
        "differ": False,
        "margin": 0.05,
        "p_alike": alike(apart),
        "p_alike_holm": 1.0,
        "verdict": "not settled",
    }
    scores = [{"protocol": "end_to_end", "score": score} for score in ("coarse", "mean of levels")]
    check(found["pairs"], [{**one, "model_a": MEDICAL, "model_b": GENERAL, **tested} for one in scores], off=0.01)
    # Of two models the labels can be exchanged in one other way, with a difference as large.
    contrast = {"medical": 1, "general": 1, "p_labels": 1.0, **tested}
    check(found["contrast"], [{**one, **contrast} for one in scores], off=0.01)
    places = [(1, MEDICAL, (1, 1, 1, 0)), (2, GENERAL, (1, 0, 0, 0))]
    check(found["groups"], [{**one, "place": place, "model": model, **corrected("value", *right), "letters": "a"}
                           for one in scores for place, model, right in places])  # fmt: skip
    # Six patients have p below 5 % if all differ in one direction, and eight below a fourth of it: so many are seen in
    # 80 % of studies with 7.906 and 10.233 expected. The upper end lies at the largest possible difference.
    error = (apart["difference"] - apart["difference_low"]) / float(stats.t.isf(0.025, 3))
    of_one = math.sqrt(weighted([1, -1], [both_classes((1, 1, 1, 0)), both_classes((1, 0, 0, 0))]).of_one())
    sizes = {"patients": 4, "basis": "observed pairs of models", "standard_error": error,
             "detectable": of_one * 7.906, "detectable_in_family": of_one * 10.233}  # fmt: skip
    check(found["detectable"], [{**one, **sizes} for one in scores], off=0.001)


def test_a_blind_run(bench: Benchmark) -> None:
    """Right for a, b and c with the radiograph, and for a and b without it, where nothing is left of the score."""
    seen, unseen = run(answers(bench, "+++-")), run(answers(bench, "++--", blind=True))
    unseen.about["blind"] = True
    row = {**WHO, "without": "blind", **corrected("with_image", 1, 1, 1, 0), **corrected("without_image", 1, 1, 0, 0),
           **difference((1, 1, 1, 0), (1, 1, 0, 0)), "retained": 0 / 0.5,
           "retained_low": None, "retained_high": None}  # fmt: skip
    found = tables(bench, seen, unseen)
    check(found["without_radiograph"], [{**row, "score": "coarse"}])
    # One patient differs: either sign is as far from zero.
    pair = {"model": "m", "protocol_a": "end_to_end", "protocol_b": "end_to_end (blind)", "value_a": 0.5,
            "value_b": 0.0, **difference((1, 1, 1, 0), (1, 1, 0, 0)), "p": 1.0, "margin": 0.05}  # fmt: skip
    check(found["protocols"], [{**pair, "score": score, "p_alike": alike(pair)}
                              for score in ("coarse", "mean of levels")])  # fmt: skip


def test_rankings_of_four_models_under_two_protocols(bench: Benchmark) -> None:
    """Right for 4, 3, 1 and 0 patients, then for 3, 4, 0 and 1: of six pairs of models two change their order."""
    names = ("a", "b", "c", "d")
    first = [turn for name, replies in zip(names, ("++++", "+++-", "+---", "----"), strict=True)
             for turn in answers(bench, replies, model=name)]  # fmt: skip
    second = [turn for name, replies in zip(names, ("+++-", "++++", "----", "+---"), strict=True)
              for turn in answers(bench, replies, model=name, protocol="independent")]  # fmt: skip
    row = {"protocol_a": "end_to_end", "protocol_b": "independent", "models": 4, "tau": (4 - 2) / 6,
           "tau_least": (2 - 1) / 3, "tau_most": (2 - 1) / 3}  # fmt: skip
    found = tables(bench, run(first, names), run(second, names, "independent"))["rankings"]
    check(found, [{**row, "score_a": score, "score_b": score} for score in ("coarse", "mean of levels")])


def test_models_with_equal_scores_have_the_same_rank(bench: Benchmark) -> None:
    names = ("a", "b", "c")
    turns = [turn for name, replies in zip(names, ("+---", "++-+", "+++-"), strict=True)
             for turn in answers(bench, replies, model=name)]  # fmt: skip
    groups = tables(bench, run(turns, names))["groups"].filter(score="coarse")
    assert groups.select("place", "model").rows() == [(1, "b"), (1, "c"), (3, "a")]


def test_scores_that_differ_by_rounding_alone_are_ties() -> None:
    """The first score has one value up to rounding, so nothing can be said of its ranking; the second one has three."""
    values = {"coarse": (0.1 + 0.2, 0.3, 0.3), "fine": (0.3, 0.2, 0.1), "semantic": (0.5, 0.4, 0.1 + 0.3)}
    rows = [("independent", score, model, value)
            for score, row in values.items() for model, value in zip("abc", row, strict=True)]  # fmt: skip
    groups = pl.DataFrame(rows, schema=["protocol", "score", "model", "value"], orient="row")
    taus = {(row["score_a"], row["score_b"]): row["tau"] for row in rankings(groups).to_dicts()}
    assert taus["coarse", "fine"] is None
    assert taus["fine", "semantic"] == pytest.approx(2 / 6**0.5)


def test_two_orders_of_options(bench: Benchmark) -> None:
    """Right for a, b and c in the first order and for a in the other: 1/2 and -1/2, which are 1 apart."""
    both = run([*answers(bench, "+++-"), *answers(bench, "+---", rotation=1, order=(2, 1))])
    both.about["rotations"] = 2
    rows = [{**WHO, "score": "coarse", "rotation": order, **corrected("value", *right), "spread": 1.0}
            for order, right in enumerate([(1, 1, 1, 0), (1, 0, 0, 0)])]  # fmt: skip
    check(tables(bench, both)["rotations"], rows)


def test_two_repeats(bench: Benchmark) -> None:
    """a and d: the same answer twice; b: wrong, then refused, so not right twice; c: right, then wrong."""
    both = run([*answers(bench, "+-+-"), *answers(bench, "+r--", repeat=1)])
    both.about["repeats"] = 2
    row = {**WHO, "kind": "detection", "items": 4, "repeats": 2, **mean("same_answer", 1, 0, 0, 1),
           **mean("same_verdict", 1, 1, 0, 1)}  # fmt: skip
    check(tables(bench, both)["agreement"], [row])


def test_a_point_that_is_to_move_both_ways(handmade: Handmade) -> None:
    """Of four conversations, the last names the first point in both questions."""
    cases = [handmade.case(name, "edema", "revision_required", revision_contraction=(2,)) for name in "abcd"]
    made = benchmark.load(handmade.write())
    both_ways = run(said(made, {f"{cases[3]}/revision_contraction": (1,)}))
    row = {**WHO, "rule": "in and out", "asked": 4, "contradictions": 1, **share((0, 0, 0, 1), ASKED).columns("share")}
    check(tables(made, both_ways)["contradictions"].filter(pl.col("rule") == "in and out"), [row])


def test_contested_items_are_counted_apart(handmade: Handmade) -> None:
    """Reviewers disagree on c and d, of which c is right: 1 of 2 there, and 1 of 2 in the other table."""
    for name in "abcd":
        handmade.case(name, "edema", "lesion_free", detection=(2,))
    handmade.answers[2:] = [replace(answer, flags=(CONTESTED,)) for answer in handmade.answers[2:]]
    made = benchmark.load(handmade.write())
    found = tables(made, run(answers(made, "+-+-")))
    check(found["contested"], [{**WHO, "items": 2, "accuracy": 1 / 2, "chance": 1 / 2}])
    assert found["kinds"].select("items", "right").rows() == [(2, 1)]


def test_groups_of_patients(handmade: Handmade) -> None:
    """30 women, of whom 24 answers are right, and 30 men, of whom 15 are: 0.8 and 0.5, corrected 0.6 and about 0."""
    right: Callable[[str, int], bool] = lambda sex, number: number < {"F": 24, "M": 15}[sex]  # noqa: E731
    replies = ""
    for sex, number in itertools.product("FM", range(30)):
        handmade.case(f"{sex}{number}", "edema", "lesion_free", detection=(1 + number % 2,))
        handmade.cases[-1] = replace(handmade.cases[-1], sex=sex)
        replies += "+" if right(sex, number) else "-"
    made = benchmark.load(handmade.write())
    groups = {"F": (24, 0.6, 0.3), "M": (15, 0.0, -0.3)}
    keyed = [[int(number % 2 == odd) for number in range(30)] for odd in (0, 1)]
    shares = {sex: [share([*asked[:many], *[0] * (30 - many)], asked, 1 / 2) for asked in keyed]
              for sex, (many, _, _) in groups.items()}  # fmt: skip
    ends = {sex: average(*two).columns("value") for sex, two in shares.items()}
    both = {**WHO, "dimension": "sex", "score": "coarse", "patients": 30, "items": 30}
    rows = [{**both, "group": sex, **ends[sex], **gap_by_t(gap)} for sex, (_, _, gap) in groups.items()]
    found = tables(made, run(answers(made, replies)))["subgroups"]
    check(found, rows, off=0.01)
    assert found["value"].to_list() + found["gap"].to_list() == pytest.approx([0.6, 0.0, 0.3, -0.3], abs=0.01)


def gap_by_t(value: float) -> dict[str, float]:
    """A t interval of 60 patients: the root of s (1 - s) / 30 of both groups."""
    distance = 2.001 * (0.8 * 0.2 / 30 + 0.5 * 0.5 / 30) ** 0.5
    return {"gap": value, "gap_low": value - distance, "gap_high": value + distance}


def test_published_figures_stand_beside_real_radiographs_alone(handmade: Handmade) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    made = benchmark.load(handmade.write("real"))
    found = tables(made, run(answers(made, "+")))["published"]
    assert set(found.columns) == {"task", "name", "value", "measure", "source", "sample", "note"}
    assert set(found["note"]) == {"published, on another sample"}
    assert found["value"].is_between(0, 1).all()
    assert texts(found, ("task", "name", "measure", "source", "sample"))


def texts(table: pl.DataFrame, names: Iterable[str]) -> bool:
    """Whether every cell of these columns says something."""
    return all(table[name].str.len_chars().fill_null(0).min() for name in names)
