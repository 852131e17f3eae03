"""Tables beyond the headline: pairs of models, subgroups, what is answered without looking, contradictions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import numpy as np
import polars as pl
import pytest
from grades import rows, run, said, study
from scipy.stats import t

from chexqa import stats
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.design import subset
from chexqa.eval.scoring.csv_and_parquet import tidy
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.eval.tables import (
    asked_items,
    grid,
    levels_and_stages,
    model_pairs,
    numbers_markdown_latex,
    protocol_pairs,
    robustness_and_contradictions,
    subgroups,
)
from chexqa.eval.tables.all_tables import tables_of

Builder = Any


@pytest.fixture
def sixteen(handmade: Builder) -> Benchmark:
    """Sixteen patients of one case each, half of edema and half of effusion; half of each are keyed yes."""
    for number in range(16):
        handmade.case(
            f"n{number}", "edema" if number % 2 else "effusion", "lesion_free", detection=(1 + number // 2 % 2,)
        )
    return benchmark.load(handmade.write())


def named(model: str, turns: Iterable[Turn]) -> list[Turn]:
    return [replace(turn, model=model) for turn in turns]


def of_models(bench: Benchmark, **mistakes: Iterable[int]) -> Run:
    """Models that are wrong on the items of these numbers."""
    turns = []
    for model, places in mistakes.items():
        wrong = {bench.items[place].item_id: () for place in places}
        turns += named(model, said(bench, wrong))  # type: ignore[arg-type]
    return run(turns, tuple(mistakes))


def test_every_pair_is_tested_once_and_the_family_is_corrected_together(sixteen: Benchmark) -> None:
    made = study(sixteen, [of_models(sixteen, good=[], fair=[0], poor=range(14))])
    found = model_pairs.compare_models(made)
    coarse = rows(found.pairs.filter(pl.col("score") == "coarse"), "model_a", "model_b")
    assert list(coarse) == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    best = coarse["good", "poor"]
    assert best["difference"] == pytest.approx(2 * 14 / 16)  # corrected for chance: twice the difference of accuracy
    assert best["p"] == pytest.approx(2 / 2**14, abs=2e-4)  # 14 patients, all in favour of one
    assert set(found.pairs["family"]) == {"confirmatory"}
    # One level alone: its mean of levels is the level itself, so the family has twice the three pairs.
    again = stats.holm(found.pairs["p"].to_numpy())
    assert found.pairs["p_holm"].to_list() == pytest.approx(again.tolist())
    letters = {row["model"]: row["letters"] for row in found.groups.filter(pl.col("score") == "coarse").to_dicts()}
    assert letters == {"good": "a", "fair": "a", "poor": "b"}


def test_medical_and_general_models_are_one_contrast(sixteen: Benchmark) -> None:
    made = study(
        sixteen, [of_models(sixteen, **{"lingshu-32b": [], "medgemma-27b": [0, 1], "gpt-5.4": range(8), "mine": []})]
    )
    contrast = rows(model_pairs.compare_models(made).contrast, "score")["coarse"]
    assert (contrast["medical"], contrast["general"]) == (2, 1)
    assert contrast["difference"] == pytest.approx(2 * ((16 + 14) / 2 - 8) / 16)


def test_labels_of_models_are_exchanged_in_every_way(sixteen: Benchmark) -> None:
    """Two medical models above three general ones: of the ten ways to name two of five medical, one is as extreme."""
    better = {"lingshu-32b": [], "medgemma-27b": [0]}
    worse = {"gpt-5.4": range(8), "gpt-5.4-nano": range(7), "gemma4-31b": range(9)}
    contrast = rows(
        model_pairs.compare_models(study(sixteen, [of_models(sixteen, **better, **worse)])).contrast, "score"
    )
    assert contrast["coarse"]["p_labels"] == pytest.approx(1 / 10)


def test_a_pair_is_alike_different_or_not_settled(handmade: Builder) -> None:
    """Of 240 patients one model is wrong for 120, two for none, and one for five."""
    for number in range(240):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(1 + number % 2,))
    bench = benchmark.load(handmade.write())
    scored = study(bench, [of_models(bench, good=[], same=[], fair=range(5), poor=range(120))])
    made = replace(scored, graded=replace(scored.graded, margin=0.07))
    found = model_pairs.compare_models(made).pairs
    coarse = rows(found.filter(pl.col("score") == "coarse"), "model_a", "model_b")
    verdicts = {pair: row["verdict"] for pair, row in coarse.items()}
    assert verdicts["good", "same"] == "alike"
    assert verdicts["good", "poor"] == verdicts["fair", "poor"] == "different"
    assert verdicts["good", "fair"] == "not settled"
    for row in found.to_dicts():
        assert (row["difference_low"] > 0 or row["difference_high"] < 0) == (row["p"] < 0.05)
    wider = model_pairs.compare_models(replace(made, graded=replace(made.graded, margin=0.3))).pairs
    row = rows(wider.filter(pl.col("score") == "coarse"), "model_a", "model_b")["good", "fair"]
    assert (row["margin"], row["verdict"]) == (0.3, "alike")


def test_protocols_are_paired_on_the_same_items_alone(sixteen: Benchmark) -> None:
    whole = of_models(sixteen, a=[0, 2], b=[1])
    alone = run([replace(turn, protocol="independent", parsed=(1,)) for turn in whole.turns], ("a", "b"), "independent")
    found = rows(protocol_pairs.protocols(study(sixteen, [alone, whole])), "model", "score")
    assert {(row["protocol_a"], row["protocol_b"]) for row in found.values()} == {("end_to_end", "independent")}
    always_yes = found["b", "coarse"]
    assert (always_yes["value_a"], always_yes["value_b"]) == (pytest.approx(1 - 2 / 16), pytest.approx(0))
    assert always_yes["difference"] == pytest.approx(1 - 2 / 16)
    assert always_yes["p"] < 0.05  # the eight patients keyed no differ, and one that is keyed yes
    kept = {item.item_id for item in subset.chosen(sixteen, 3)}
    trial = run([turn for turn in alone.turns if turn.item_id in kept], ("a", "b"), "independent")
    trial.about["limit"] = 3
    assert not protocol_pairs.protocols(study(sixteen, [trial, whole])).height


def test_baselines_and_readers_cost_the_models_nothing(sixteen: Benchmark) -> None:
    models = {"a": [], "b": range(9)}
    others = {"baseline/chance": range(8), "reader/anna": [0], "reader/ben": [1]}
    alone = model_pairs.compare_models(study(sixteen, [of_models(sixteen, **models)]))
    beside = model_pairs.compare_models(study(sixteen, [of_models(sixteen, **models, **others)]))
    one, two = (
        rows(found.pairs.filter(pl.col("score") == "coarse"), "model_a", "model_b") for found in (alone, beside)
    )
    assert one["a", "b"]["p_holm"] == pytest.approx(two["a", "b"]["p_holm"], abs=0.005)
    assert {pair: row["family"] for pair, row in two.items() if "b" in pair} == {
        ("a", "b"): "confirmatory", ("b", "baseline/chance"): "exploratory", ("b", "reader/anna"): "readers",
        ("b", "reader/ben"): "readers",
    }  # fmt: skip
    letters = {row["model"]: row["letters"] for row in beside.groups.filter(pl.col("score") == "coarse").to_dicts()}
    assert letters["baseline/chance"] is None
    assert {"a"} <= set(letters["a"]) & set(letters["reader/anna"]), "neither is told from the other"
    errors = [rows(found.detectable, "score")["coarse"]["standard_error"] for found in (alone, beside)]
    assert errors[0] == errors[1]


def test_other_protocols_are_exploratory_and_trials_are_not_compared_with_whole_runs(sixteen: Benchmark) -> None:
    whole = of_models(sixteen, a=[], b=[1])
    alone = run([replace(turn, protocol="independent") for turn in whole.turns], ("a", "b"), "independent")
    kept = {item.item_id for item in subset.chosen(sixteen, 3)}
    trial = run([turn for turn in named("c", said(sixteen)) if turn.item_id in kept], ("c",))
    trial.about["limit"] = 3
    found = model_pairs.compare_models(study(sixteen, [alone, whole, trial]))
    families = {key: set(part["family"]) for (key,), part in found.pairs.group_by("protocol")}
    assert families == {"end_to_end": {"confirmatory"}, "independent": {"exploratory"}}
    assert "c" not in set(found.groups["model"])


def test_the_detectable_difference_of_one_model_is_from_an_assumption(sixteen: Benchmark) -> None:
    found = model_pairs.compare_models(study(sixteen, [of_models(sixteen, only=[])]))
    row = rows(found.detectable, "score")["coarse"]
    assert row["basis"].startswith("assumed")
    # Each of 16 patients moves the corrected score by 1/8, if only one of two models is right, in 30 % of the answers.
    assert row["standard_error"] == pytest.approx(np.sqrt(16 * (1 / 8) ** 2 * 0.3))


def test_too_few_patients_for_an_interval_tell_no_detectable_difference(handmade: Builder) -> None:
    for number in range(9):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(1 + number % 2,))
    bench = benchmark.load(handmade.write())
    found = model_pairs.compare_models(study(bench, [of_models(bench, a=[], b=[0])]))
    row = rows(found.detectable, "score")["coarse"]
    assert (row["patients"], row["standard_error"], row["detectable"], row["detectable_in_family"]) == (9, *3 * [None])


def test_a_refused_request_has_no_cost_and_no_time_and_what_is_unknown_stays_so(sixteen: Benchmark) -> None:
    priced = [
        replace(turn, cost_usd=0.5, latency_s=2.0, raw="Answer: 1") for turn in of_models(sixteen, a=[], b=[]).turns
    ]
    priced[0] = replace(priced[0], state="refused", parsed=None, raw=None, cost_usd=None, latency_s=None)
    priced[-1] = replace(priced[-1], raw=None, cost_usd=None, latency_s=None)  # an imported answer without its text
    costs = rows(asked_items.costs(study(sixteen, [run(priced, ("a", "b"))])), "model")
    names = ("cost_usd", "known_usd", "without_cost", "latency_s")
    assert [costs["a"][name] for name in names] == [0.5 * 15, 0.5 * 15, 0, 2]
    assert [costs["b"][name] for name in names] == [None, 0.5 * 15, 1, None]


def test_equal_models_do_not_make_every_difference_detectable(sixteen: Benchmark) -> None:
    """The standard error is that of the interval, for which two more of the 16 patients differ."""
    found = model_pairs.compare_models(study(sixteen, [of_models(sixteen, a=[], b=[])]))
    row, pair = rows(found.detectable, "score")["coarse"], rows(found.pairs, "score")["coarse"]
    assert (row["standard_error"], pair["difference"]) == pytest.approx((np.sqrt(2 / 8**2) * 16 / 18, 0))
    assert row["standard_error"] == pytest.approx(pair["difference_high"] / t.isf(0.025, 15))


def test_drops_are_differences_of_levels(tiny_benchmark: Any) -> None:
    bench = benchmark.load(tiny_benchmark)
    made = study(bench, [run(said(bench, {f"{bench.items[2].case_id}/contour_evaluation": ()}))])
    level = rows(levels_and_stages.levels(made), "level")
    for row in levels_and_stages.drops(made).to_dicts():
        assert row["drop"] == pytest.approx(level[row["upper"]]["corrected"] - level[row["lower"]]["corrected"])
    assert level[levels_and_stages.OVERALL]["corrected"] == pytest.approx(
        np.mean([level[name]["corrected"] for name in ("coarse", "fine", "semantic")])
    )


def with_groups(handmade: Builder, count: int) -> ScoredSample:
    """``count`` men and ``count`` women; men have more edema, of which nothing is right, and everything else is."""
    for number, sex in itertools.product(range(count), "FM"):
        edema = number < (20 if sex == "F" else 30)
        handmade.case(f"{sex}{number}", "edema" if edema else "effusion", "lesion_free", detection=(1 + number % 2,))
        handmade.cases[-1] = replace(handmade.cases[-1], sex=sex, age=(30, 30, 50, 50, None)[number % 5])
    bench = benchmark.load(handmade.write())
    wrong = {item.item_id: () for item in bench.items if item.finding == "edema"}
    return study(bench, [run(said(bench, wrong))])  # type: ignore[arg-type]


def test_gaps_are_adjusted_for_finding(handmade: Builder) -> None:
    found = rows(subgroups.subgroups(with_groups(handmade, 40)), "dimension", "group")
    women, men = found["sex", "F"], found["sex", "M"]
    assert women["value"] == men["value"] == pytest.approx(0)  # findings weigh the same, however often a sex has one
    assert (women["gap"], men["gap"]) == (0, 0)
    assert found["finding", "edema"]["value"] == -1
    assert found["age", "under 40"]["patients"] == 32  # of every fifth the age is not known


def test_gaps_of_two_groups_are_each_other_s_mirror_where_one_of_them_is_all_right(handmade: Builder) -> None:
    for number, sex in itertools.product(range(40), "FM"):
        handmade.case(f"{sex}{number}", "edema", "lesion_free", detection=(2,))
        handmade.cases[-1] = replace(handmade.cases[-1], sex=sex)
    handmade.case("F40", "effusion", "lesion_free", detection=(2,))  # which no man has
    handmade.cases[-1] = replace(handmade.cases[-1], sex="F")
    bench = benchmark.load(handmade.write())
    assert bench.cases is not None
    missed = {f"F{number}" for number in range(8)}
    wrong = {item.item_id: () for item in bench.items if bench.cases[item.case_id].source_case_id in missed}
    found = rows(subgroups.subgroups(study(bench, [run(said(bench, wrong))])), "dimension", "group")  # type: ignore[arg-type]
    women, men = found["sex", "F"], found["sex", "M"]
    assert (women["gap"], men["gap"]) == pytest.approx((-0.2, 0.2))
    assert (women["gap_low"], women["gap_high"]) == pytest.approx((-men["gap_high"], -men["gap_low"]))
    low, _ = stats.wilson(np.array(1.0), np.array(40.0))
    assert men["gap"] - men["gap_low"] > 1 - low


@pytest.mark.parametrize(("shared", "ends"), [(9, (None, None)), (10, (ANY, 1))])
def test_a_gap_has_an_interval_within_100_points_if_each_side_has_ten_patients_of_a_finding(
    handmade: Builder, shared: int, ends: tuple[object, object]
) -> None:
    for number, sex in itertools.product(range(40), "FM"):
        finding = "edema" if sex == "F" or number < shared else "effusion"
        handmade.case(f"{sex}{number}", finding, "lesion_free", detection=(2,))
        handmade.cases[-1] = replace(handmade.cases[-1], sex=sex)
    bench = benchmark.load(handmade.write())
    assert bench.cases is not None
    wrong = {item.item_id: () for item in bench.items if bench.cases[item.case_id].source_case_id.startswith("M")}
    women = rows(subgroups.subgroups(study(bench, [run(said(bench, wrong))])), "dimension", "group")["sex", "F"]  # type: ignore[arg-type]
    assert (women["gap"], women["gap_low"], women["gap_high"]) == (1, *ends)
    assert women["gap_low"] is None or 0.5 < women["gap_low"] < 1


def test_the_interval_of_a_gap_has_the_variance_of_the_jackknife(handmade: Builder) -> None:
    """Thirty women and thirty men with one of six findings; some findings have one or two patients of a sex."""
    random = np.random.default_rng(2)
    names = ("edema", "effusion", "cardiomegaly", "consolidation", "pneumonia", "atelectasis")
    people = [
        (names[min(int(random.exponential(2)), 5)], sex, random.random() < 0.6) for sex in "FM" for _ in range(30)
    ]
    for number, (finding, sex, _) in enumerate(people):
        handmade.case(f"n{number}", finding, "lesion_free", detection=(2,))
        handmade.cases[-1] = replace(handmade.cases[-1], sex=sex)
    bench = benchmark.load(handmade.write())
    wrong = {item.item_id: () for item, (_, _, right) in zip(bench.items, people, strict=True) if not right}
    women = rows(subgroups.subgroups(study(bench, [run(said(bench, wrong))])), "dimension", "group")["sex", "F"]  # type: ignore[arg-type]

    def gap(kept: list[tuple[str, str, bool]]) -> float:
        parts = []
        for name in names:
            sides = [[right for finding, sex, right in kept if (finding, sex) == (name, side)] for side in "FM"]
            if all(sides):
                weight = 1 / sum(1 / len(side) for side in sides)
                parts.append((weight, weight * (np.mean(sides[0]) - np.mean(sides[1]))))
        return float(np.sum(parts, axis=0)[1] / np.sum(parts, axis=0)[0])

    assert women["gap"] == pytest.approx(gap(people))
    shared = {name for name in names if {sex for finding, sex, _ in people if finding == name} == {"F", "M"}}
    inside = [place for place, (finding, _, _) in enumerate(people) if finding in shared]
    apart = np.array([gap(people) - gap(people[:place] + people[place + 1 :]) for place in inside])
    count, heavy = len(inside), 1 / min(sum(people[place][1] == sex for place in inside) for sex in "FM")
    parts = apart * np.sqrt((count - 1) / count)
    weights = np.array([1 / sum(people[other][1] == people[place][1] for other in inside) for place in inside])
    squares = (parts / weights) ** 2
    added = 2 * heavy**2 * (squares.sum() + 1) / (squares.sum() ** 2 / (squares**2).sum() + 1)
    half = t.isf(0.025, count - 1) * np.sqrt((parts**2).sum() + added) * count / (count + 2)
    assert (women["gap_low"], women["gap_high"]) == pytest.approx((women["gap"] - half, women["gap"] + half))


def test_groups_of_fewer_than_thirty_patients_are_not_shown(handmade: Builder) -> None:
    found = subgroups.subgroups(with_groups(handmade, 29))
    assert "sex" not in set(found["dimension"])
    assert set(found["group"]) == {"edema"}


def test_lesion_sizes_are_thirds_within_each_finding(handmade: Builder) -> None:
    for finding, number in itertools.product(("edema", "effusion"), range(60)):
        size = (number + 1) / 100 * (1 if finding == "edema" else 0.1)
        handmade.case(f"{finding}{number}", finding, "revision_free", contour_evaluation=(2,),
                      measures={"lesion_share": size})  # fmt: skip
    bench = benchmark.load(handmade.write())
    small = {f"edema{n}" for n in range(20)} | {f"effusion{n}" for n in range(20)}
    assert bench.cases is not None
    wrong = {item.item_id: () for item in bench.items if bench.cases[item.case_id].source_case_id in small}
    found = rows(subgroups.subgroups(study(bench, [run(said(bench, wrong))])), "dimension", "group", "score")  # type: ignore[arg-type]
    # Three kinds guess one in four right, location one in eight.
    assert found["lesion size", "smallest third", "semantic"]["value"] == pytest.approx(-(3 / 3 + 1 / 7) / 4)
    assert found["lesion size", "largest third", "semantic"]["value"] == 1
    assert found["lesion size", "smallest third", "coarse"]["gap"] == -1
    assert found["lesion size", "middle third", "coarse"]["items"] == 40


def rounds(bench: Benchmark, repeats: int, rotations: int, turns: list[Turn]) -> Run:
    made = run(turns)
    made.about.update(repeats=repeats, rotations=rotations)
    return made


def test_an_item_asked_repeatedly_counts_once_with_its_mean(sixteen: Benchmark) -> None:
    first = sixteen.items[0].item_id
    turns = [replace(turn, repeat=repeat) for repeat in (0, 1, 2) for turn in
             said(sixteen, {first: ()} if repeat else {})]  # fmt: skip
    made = study(sixteen, [rounds(sixteen, 3, 1, turns)])
    (row,) = levels_and_stages.kinds(made).to_dicts()
    assert (row["items"], row["accuracy"]) == (16, pytest.approx((15 + 1 / 3) / 16))
    (agreement,) = robustness_and_contradictions.agreement(made).to_dicts()
    assert (agreement["repeats"], agreement["same_answer"]) == (3, pytest.approx((15 + 1 / 3) / 16))


def test_tables_have_no_digits_that_computing_added(handmade: Builder) -> None:
    for number in range(12):
        handmade.case(f"c{number}", "edema", "revision_free", contour_evaluation=(2,), grid=(number + 1,))
    bench = benchmark.load(handmade.write())
    turns = [replace(turn, repeat=repeat) for repeat in range(3)
             for turn in said(bench, {item.item_id: () for item in bench.items[repeat::2]})]  # fmt: skip
    raw = study(bench, [rounds(bench, 3, 1, turns)])
    noisy = {0.1 + 0.2, 1 - 4e-16, 1e-17, -1e-17, 1234567.8900000001, 0.00013000000000000002}
    assert tidy(pl.DataFrame({"x": [*sorted(noisy), None]}))["x"].to_list() == [
        0.0, 0.0, 0.00013, 0.3, 1.0, 1234567.89, None,
    ]  # fmt: skip
    numbers = [value for frame in tables_of(raw).values() for name, kind in frame.schema.items() if kind == pl.Float64
               for value in frame[name].drop_nulls()]  # fmt: skip
    assert len(numbers) > 100
    assert [value for value in numbers if float(f"{value:.12g}") != value] == []


def test_rotations_show_a_model_that_always_takes_the_first_place(handmade: Builder) -> None:
    for number in range(8):
        handmade.case(f"c{number}", "edema", "revision_free", contour_evaluation=(2,), comparison=(1 + number % 4,))
    bench = benchmark.load(handmade.write())
    order = {0: None, 1: (2, 3, 4, 1)}
    turns = []
    for rotation, turn in itertools.product(order, said(bench)):
        if turn.item_id.endswith("comparison"):
            shown = order[rotation] or (1, 2, 3, 4)
            turn = replace(turn, parsed=(shown[0],), order=order[rotation])
        turns.append(replace(turn, rotation=rotation))
    made = study(bench, [rounds(bench, 1, 2, turns)])
    places = rows(robustness_and_contradictions.positions(made), "kind", "position")
    assert [places["comparison", place]["chosen"] for place in (1, 2, 3, 4)] == [1, 0, 0, 0]
    assert [places["comparison", place]["key_share"] for place in (1, 2, 3, 4)] == [0.25] * 4
    assert places["comparison", 1]["bias"] == 0.75
    values = rows(robustness_and_contradictions.rotations(made), "score", "rotation")
    assert {score for score, _ in values} == {"semantic"}, "no yes/no question here is keyed both ways"
    assert values["semantic", 0]["spread"] == 0


def test_what_is_answered_blind_stands_beside_what_is_seen(sixteen: Benchmark) -> None:
    seen = of_models(sixteen, m=[0])
    blind = of_models(sixteen, m=range(6))
    blind.about["blind"] = True
    found = rows(robustness_and_contradictions.without_radiograph(study(sixteen, [seen, blind])), "score")["coarse"]
    assert (found["with_image"], found["without_image"]) == (pytest.approx(14 / 16), pytest.approx(4 / 16))
    assert found["difference"] == pytest.approx(10 / 16)
    assert found["retained"] == pytest.approx(4 / 14)
    assert found["difference_low"] < 10 / 16 < found["difference_high"]
    assert found["retained_low"] < 0 < found["without_image"] < found["retained_high"] < 1


SHOWN = ("right_lower_medial", "left_lower_medial", "right_upper_lateral")
COMPARISON = ("about the same on both sides", "larger in the left lung", "larger in the right lung",
              "only one lung is affected")  # fmt: skip


@pytest.fixture
def sided(handmade: Builder) -> Benchmark:
    """One case of a lesion in the right lower zone, with the places and sides its options name."""
    handmade.case("a", "edema", "revision_required", location=(1,), comparison=(4,), distribution=(1,), grid=(1,),
                  revision_expansion=(1,), revision_contraction=(2,))  # fmt: skip
    for place, item in enumerate(handmade.items):
        if item.kind == "location":
            evidence = {"shown": list(SHOWN), "involved": ["right_lower_medial"]}
            handmade.answers[place] = replace(handmade.answers[place], evidence=evidence)
        if item.kind == "comparison":
            options = tuple(replace(o, text=text) for o, text in zip(item.options, COMPARISON, strict=True))
            handmade.items[place] = replace(item, options=options)
    return benchmark.load(handmade.write())


def judged(bench: Benchmark, **answers: tuple[int, ...]) -> dict[str, int]:
    case = bench.items[0].case_id
    made = study(bench, [run(said(bench, {f"{case}/{kind}": value for kind, value in answers.items()}))])
    return {row["rule"]: row["contradictions"] for row in robustness_and_contradictions.contradictions(made).to_dicts()}


def test_the_key_contradicts_itself_nowhere(sided: Benchmark) -> None:
    assert judged(sided) == dict.fromkeys(robustness_and_contradictions.RULES, 0)


@pytest.mark.parametrize(
    ("answers", "rule"),
    [
        ({"location": (1, 2), "distribution": (2,)}, "one lung, two sides"),
        ({"distribution": (4,)}, "one lung, many zones"),
        ({"location": (1, 3)}, "more zones than counted"),
        ({"revision_contraction": (1, 2)}, "in and out"),
    ],
)
def test_answers_that_cannot_all_be_true_are_counted(
    sided: Benchmark, answers: dict[str, tuple[int, ...]], rule: str
) -> None:
    assert [name for name, count in judged(sided, **answers).items() if count] == [rule]


def test_points_named_are_counted_among_the_true_and_among_the_others(handmade: Builder) -> None:
    for name, right in (("a", (1, 3)), ("b", (5,))):
        handmade.case(name, "effusion", "revision_required", revision_expansion=right, revision_contraction=(5,))
    bench = benchmark.load(handmade.write())
    first, second = (item.item_id for item in bench.items if item.kind == "revision_expansion")
    made = study(bench, [run(said(bench, {first: (1, 2), second: (2, 4)}))])
    found = rows(levels_and_stages.kinds(made), "kind")["revision_expansion"]
    assert found["point_sensitivity"] == pytest.approx(1 / 2)
    assert found["false_marks"] == pytest.approx((1 + 2) / (2 + 4))
    assert rows(levels_and_stages.kinds(made), "kind")["detection"]["false_marks"] is None


def test_an_item_with_one_possible_answer_counts_in_accuracy_only(handmade: Builder) -> None:
    for name in "ab":
        handmade.case(name, "effusion", "revision_required", revision_expansion=(1,))
    for place, answer in enumerate(handmade.answers):
        if handmade.items[place].kind == "revision_expansion":
            sure = handmade.items[place].case_id == handmade.items[0].case_id
            changed = {"chance": 1.0, "scored": False} if sure else {"chance": 0.25}
            handmade.answers[place] = replace(answer, **changed)
    bench = benchmark.load(handmade.write())
    asked = [item.item_id for item in bench.items if item.kind == "revision_expansion"]
    for wrong, accuracy, corrected in ((asked[0], 1 / 2, 1.0), (asked[1], 1 / 2, -1 / 3)):
        made = study(bench, [run(said(bench, {wrong: (2,)}))])
        found = rows(levels_and_stages.kinds(made), "kind")["revision_expansion"]
        assert (found["accuracy"], found["corrected"]) == (pytest.approx(accuracy), pytest.approx(corrected))


def test_a_stage_s_chance_takes_the_points_of_a_case_together(handmade: Builder) -> None:
    handmade.case("a", "effusion", "revision_required")
    for place, answer in enumerate(handmade.answers):
        if handmade.items[place].kind in ("revision_expansion", "revision_contraction"):
            handmade.answers[place] = replace(answer, chance=0.24, chance_joint=0.04)
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench))])
    assert rows(levels_and_stages.stages(made), "stage")[3]["chance"] == pytest.approx(0.04 / 4)


def test_none_of_the_points_twice_is_no_contradiction(sided: Benchmark) -> None:
    assert judged(sided, revision_expansion=(5,), revision_contraction=(5,))["in and out"] == 0


def test_a_model_that_swaps_sides_is_right_once_they_are_swapped_back(sided: Benchmark) -> None:
    case = sided.items[0].case_id
    mistakes = {f"{case}/location": (2,), f"{case}/grid_cell": (8,)}  # left instead of right; H1 instead of A1
    found = rows(robustness_and_contradictions.mirrored(study(sided, [run(said(sided, mistakes))])), "kind")
    assert set(found) == {"location", "grid_cell"}  # "only one lung" stays what it is
    assert all((row["accuracy"], row["mirrored"], row["gain"]) == (0, 1, 1) for row in found.values())


def test_the_most_frequent_cell_is_found_without_the_patients_own_items(handmade: Builder) -> None:
    for name, patient, cells in (("a", "p", (1,)), ("b", "p", (1,)), ("c", "q", (2,)), ("d", "r", (2, 1))):
        handmade.case(name, "edema", None, patient=patient, grid=cells)
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench))])
    # For p's items the others say 2, which misses both; for q's they say 1, a miss; for r's 1, a hit.
    assert rows(grid.grid(made), "finding")["edema"]["most_frequent"] == 1 / 4


def test_a_mean_is_of_every_patient_once(handmade: Builder) -> None:
    """Two patients have edema, two effusion, one of them both; one has a detection without the finding alone."""
    for name, patient, finding in (
        ("a", "p", "edema"),
        ("b", "q", "edema"),
        ("c", "q", "effusion"),
        ("d", "r", "effusion"),
    ):
        handmade.case(name, finding, "revision_free", patient=patient, grid=(1,))
    handmade.case("e", "effusion", "lesion_free", patient="s", detection=(2,))
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench))])
    pointed = rows(grid.grid(made), "finding")
    assert {name: row["patients"] for name, row in pointed.items()} == {"edema": 2, "effusion": 2, grid.MACRO: 3}
    levels = rows(levels_and_stages.levels(made), "level")
    assert (levels["coarse"]["patients"], levels[levels_and_stages.OVERALL]["patients"]) == (4, 4)


def test_cells_count_answers_and_right_cells(handmade: Builder) -> None:
    handmade.case("a", "edema", None, grid=(1, 2))
    handmade.case("b", "edema", None, grid=(2,))
    bench = benchmark.load(handmade.write())
    found = rows(grid.cells(study(bench, [run(said(bench))])), "cell")
    assert {cell: (row["column"], row["row"], row["chosen"], row["correct"]) for cell, row in found.items()} == {
        1: ("A", 1, 1, 1), 2: ("B", 1, 1, 2),
    }  # fmt: skip


def test_facts_are_of_the_items_and_name_what_is_drawn(tiny_benchmark: Any) -> None:
    bench = benchmark.load(tiny_benchmark)
    found = rows(asked_items.dataset_summary(study(bench, [run(said(bench))])), "kind")
    assert found["all"]["items"] == len(bench.items)
    assert found["detection"]["patients"] == 6
    assert found["all"]["clusters"] == "patients"


def test_intervals_are_the_same_in_every_report_of_a_benchmark(sixteen: Benchmark) -> None:
    studies = [study(sixteen, [of_models(sixteen, m=[0, 5])]) for _ in range(2)]
    one, two = (levels_and_stages.levels(made) for made in studies)
    assert one.equals(two)
    assert one["corrected_low"][0] < one["corrected"][0] < one["corrected_high"][0]


def test_pointing_goes_with_recognition_over_the_cases_with_the_finding(handmade: Builder) -> None:
    """Of 64 patients the first 40 are recognized; of these 30 are pointed at, and of the others 6."""
    for number in range(64):
        measures = {"lesion_share": 0.05 + number % 5 / 50}
        handmade.case(f"n{number}", "edema", "revision_free", grid=(5,), measures=measures)
    handmade.case("none", "edema", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    found, hit = np.arange(64) < 40, np.isin(np.arange(64), [*range(30), *range(50, 56)])
    present = [item.case_id for item in bench.items if item.kind == "grid_cell"]
    mistakes = {f"{case}/{kind}": () for case, one, other in zip(present, found, hit, strict=True)
                for kind, right in (("detection", one), ("grid_cell", other)) if not right}  # fmt: skip
    table = rows(grid.pointing(study(bench, [run(said(bench, mistakes))])), "how")
    phi = np.corrcoef(found, hit)[0, 1]
    whole = table["all findings"]
    assert (whole["cases"], whole["patients"]) == (64, 64)
    assert whole["correlation"] == pytest.approx(phi)
    assert table["within findings"]["correlation"] == pytest.approx(phi), "there is one finding"
    assert whole["correlation_low"] < phi < whole["correlation_high"]


@pytest.mark.parametrize(
    ("protocols", "reason"),
    [
        (["end_to_end", "independent (confidence)"], "they differ in more than one thing."),
        (["end_to_end", "independent"], "no model finished the same questions under two of them"),
        (["end_to_end"], None),
    ],
)
def test_protocols_that_are_not_compared_have_a_reason(protocols: list[str], reason: str | None) -> None:
    frames = {"states": pl.DataFrame({"protocol": protocols}), "protocols": pl.DataFrame()}
    said = list(protocol_pairs.uncompared(frames))
    assert (said == []) if reason is None else (reason in said[0])


def test_levels_keep_their_order_where_the_first_model_lacks_one() -> None:
    """So it is with --allow-partial."""
    whole = ["coarse", "fine", "semantic", "mean of levels"]
    asked = {"a": [whole[0], whole[3]], "b": whole[1:], "c": whole}
    rows = [{"model": who, "protocol": "p", "level": level} for who, levels in asked.items() for level in levels]
    assert numbers_markdown_latex.values_across("levels", pl.DataFrame(rows)) == whole
