"""One run of sixteen turns computed by hand: every column of every table that has rows.

Four patients answer five cases. p1 has ``a`` and ``d`` (without the finding), p2 ``b`` (with it, and a grid item), p3
``c`` (without it), p4 ``e`` (with it). The replies:

====================  ====================  ===================================================
item                  right                 reply
====================  ====================  ===================================================
a, c, d detection     No                    No; Yes (wrong); refused
b, e detection        Yes                   right twice
b, e contour          No                    right twice
b, e distribution     a                     right twice
b location            a and c               a alone: wrong, 1 of the union of 2 is shared
e location            a                     a and b: wrong, 1 of the union of 2 is shared
b, e severity         a                     right; b (wrong)
b, e comparison       a                     right twice
b grid                cells 10 and 11       cell 12 (wrong)
====================  ====================  ===================================================
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from grades import run, said
from handmade import Handmade
from plain_intervals import SPREAD, Number, mean, share, weighted

from chexqa.contract import benchmark
from chexqa.eval.scoring import grade, intervals
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.numbers_markdown_latex import note, papers, partly_corrected

WHO = {"model": "m", "protocol": "end_to_end", "unfinished": 0}
pytestmark = pytest.mark.xdist_group("by_hand")
EMPTY = {"plan", "pairs", "contrast", "decided", "protocols", "rankings", "subgroups", "without_radiograph",
         "rotations", "agreement", "contradictions", "contested", "published", "random_readers", "powered",
         "second_reader", "confidence", "confidence_bins", "confidence_curve", "abstention", "differences"}  # fmt: skip


# By patient p1 to p4: items asked, right ones, and answered ones.
DETECTIONS, FOUND, ANSWERED = (2, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1)
P2_AND_P4, BOTH, P4, P2, NEITHER = (0, 1, 0, 1), (0, 1, 0, 1), (0, 0, 0, 1), (0, 1, 0, 0), (0, 0, 0, 0)
ABSENT = (2, 0, 1, 0)  # detection items without the finding; one of p1's two is right
KINDS = {
    # kind: items, patients, right, chance by item (1/2 of two options, 1/4 of four, 1/8 of the sets of three)
    "detection": (5, 4, 3, 1 / 2, DETECTIONS, FOUND),
    "contour_evaluation": (2, 2, 2, 1 / 2, P2_AND_P4, BOTH),
    "distribution": (2, 2, 2, 1 / 4, P2_AND_P4, BOTH),
    "location": (2, 2, 0, 1 / 8, P2_AND_P4, NEITHER),
    "severity": (2, 2, 1, 1 / 4, P2_AND_P4, P2),
    "comparison": (2, 2, 2, 1 / 4, P2_AND_P4, BOTH),
}
SEMANTIC = ("distribution", "location", "severity", "comparison")


# How often the most frequent answer of other patients is right. Detection of effusion: yes for a (wrong), either for b
# and e, since the patient's own item would make them equal; of edema: no twice. Location: the other one's answer.
FREQUENT = {"detection": (0 + 1 / 2 + 1 / 2 + 1 + 1) / 5, "location": 0.0}
FREQUENT_CORRECTED = {
    "coarse": ((2 * (0 - 1 / 2)) + 0) / 2, "fine": None, "semantic": (1 + (0 - 1 / 8) / (1 - 1 / 8) + 1 + 1) / 4,
}  # fmt: skip
P1 = (1, 0, 0, 0)


def numbers_of(kind: str, is_corrected: bool, of_answered: bool = False) -> Number | None:
    _, _, _, chance, asked, right = KINDS[kind]
    if is_corrected and kind == "detection":
        # Only effusion is keyed yes and no: sensitivity of b and e, specificity of a.
        return mean(share(BOTH, P2_AND_P4, chance), share(P1, P1, chance))
    if is_corrected and kind == "contour_evaluation":
        return None  # no outline is keyed yes
    answered = ANSWERED if of_answered and kind == "detection" else asked
    return share(right, answered, chance if is_corrected else 0.0)


def level_numbers(is_corrected: bool, of_answered: bool = False) -> dict[str, Number]:
    levels = {"coarse": ("detection",), "fine": ("contour_evaluation",), "semantic": SEMANTIC}
    numbers = {name: [numbers_of(kind, is_corrected, of_answered) for kind in kinds] for name, kinds in levels.items()}
    found = {name: mean(*(one for one in ones if one)) for name, ones in numbers.items() if any(ones)}
    return {**found, "mean of levels": mean(*found.values())}


def columns_of(number: Number | None, name: str) -> dict[str, float | None]:
    return number.columns(name) if number else dict.fromkeys(f"{name}{end}" for end in SPREAD)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """All tables of the run; no test changes one."""
    handmade = Handmade(tmp_path_factory.mktemp("by_hand"))
    handmade.case("a", "effusion", "lesion_free", patient="p1", detection=(2,))
    b = handmade.case("b", "effusion", "revision_free", patient="p2", contour_evaluation=(2,), location=(1, 3),
                      grid=(10, 11))  # fmt: skip
    c = handmade.case("c", "edema", "lesion_free", patient="p3", detection=(2,))
    d = handmade.case("d", "edema", "lesion_free", patient="p1", detection=(2,))
    e = handmade.case("e", "effusion", "revision_free", patient="p4", contour_evaluation=(2,))
    bench = benchmark.load(handmade.write())
    turns = said(bench, {f"{c}/detection": (), f"{d}/detection": "refused", f"{b}/location": (1,),
                         f"{e}/location": (1, 2), f"{e}/severity": (2,), f"{b}/grid_cell": (12,)})  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "LEAST_CLUSTERS", 2)  # four patients have no intervals otherwise
        return all_tables(grade.grade_runs(bench, [run(turns)]))


def check(table: pl.DataFrame, rows: list[dict[str, Any]], **shared: Any) -> None:
    """Assert that a table has these rows in this order, and no column that the rows leave out."""
    expected = [{**WHO, **shared, **row} for row in rows]
    kept = [name for name in WHO if name in table.columns]
    for row in expected:
        for name in WHO.keys() - set(kept) - shared.keys():
            row.pop(name)
    assert [set(row) for row in expected] == [set(table.columns)] * table.height
    for wanted, found in zip(expected, table.to_dicts(), strict=True):
        assert found == pytest.approx(wanted, abs=1e-6, nan_ok=False)


def test_the_tables_without_rows_are_those_of_several_models_or_runs(tables: dict[str, pl.DataFrame]) -> None:
    assert {name for name, table in tables.items() if not table.height} == EMPTY


def test_levels(tables: dict[str, pl.DataFrame]) -> None:
    facts = {  # kinds, those with a corrected score, items, patients, chance, share of items with an answer
        "coarse": (1, 1, 5, 4, 1 / 2, 4 / 5),
        "fine": (1, 0, 2, 2, 1 / 2, 1),
        "semantic": (4, 4, 8, 2, (1 / 4 + 1 / 8 + 1 / 4 + 1 / 4) / 4, 1),
        "mean of levels": (6, 5, 15, 4, (1 / 2 + 1 / 2 + 7 / 32) / 3, (4 / 5 + 1 + 1) / 3),
    }
    spreads = {"corrected": (True, False), "accuracy": (False, False), "accuracy_answered": (False, True),
               "corrected_answered": (True, True), "corrected_guessed": (True, False)}  # fmt: skip
    found = {name: level_numbers(*which) for name, which in spreads.items()}
    frequent = {"coarse": FREQUENT["detection"], "fine": 1.0, "semantic": (1 + 0 + 1 + 1) / 4}
    frequent["mean of levels"] = sum(frequent.values()) / 3
    known = [value for value in FREQUENT_CORRECTED.values() if value is not None]
    frequent_corrected = {**FREQUENT_CORRECTED, "mean of levels": sum(known) / 2}
    rows = [
        {
            "level": level, "kinds": kinds, "kinds_corrected": corrected, "items": items, "patients": patients,
            "chance": chance, "answered": answered,
            "prior": frequent[level], "prior_corrected": frequent_corrected[level],
            **{column: value for name in spreads
               for column, value in columns_of(found[name].get(level), name).items()},
        }
        for level, (kinds, corrected, items, patients, chance, answered) in facts.items()
    ]  # fmt: skip
    check(tables["levels"], rows)
    # The same by plain arithmetic: 3 of 5 right; 2 of 2 and 1 of 1; 3 of the 4 answered; two thirds of a mean.
    coarse, whole = tables["levels"].to_dicts()[0], tables["levels"].to_dicts()[3]
    assert (coarse["accuracy"], coarse["corrected"], coarse["accuracy_answered"]) == pytest.approx((0.6, 1.0, 0.75))
    assert (coarse["accuracy_low"], coarse["accuracy_high"]) == pytest.approx((0.1267, 0.9394), abs=1e-4)
    assert whole["accuracy"] == pytest.approx((3 / 5 + 1 + (1 + 0 + 1 / 2 + 1) / 4) / 3)


def test_a_mean_without_a_level_says_so_below_the_corrected_scores_alone(tables: dict[str, pl.DataFrame]) -> None:
    said = "fine 0 of 1. The corrected mean of levels leaves out fine; the mean of accuracy does not."
    assert [said in " ".join(notes) for *_, notes in papers("levels", tables["levels"])] == [True, True, False]
    assert said in note(tables["levels"])[-1]
    assert partly_corrected(tables["levels"].filter(pl.col("level") != "fine")) == []


def test_groups_and_drops(tables: dict[str, pl.DataFrame]) -> None:
    found = level_numbers(is_corrected=True)
    rows = [{"score": name, "place": 1, "letters": "a", **number.columns("value")} for name, number in found.items()]
    grid = {"score": "grid", "place": 1, "letters": "a", "value": 0.0, "value_low": None, "value_high": None}
    check(tables["groups"], [*rows, grid])
    pairs = [("coarse", "fine"), ("fine", "semantic"), ("coarse", "semantic")]
    drops = {pair: weighted([1, -1], [found[name] for name in pair]) for pair in pairs if "fine" not in pair}
    check(tables["drops"], [{"upper": a, "lower": b, **columns_of(drops.get((a, b)), "drop")} for a, b in pairs])
    # No fine item counts, so only the step from coarse to semantic has a number.
    lost = [row["drop"] for row in tables["drops"].to_dicts()]
    assert lost == [None, None, pytest.approx(found["coarse"].value - found["semantic"].value)]


def test_states_and_costs(tables: dict[str, pl.DataFrame]) -> None:
    none = dict.fromkeys(("unparsed", "truncated", "empty", "overflow", "error", "not_asked"), 0)
    check(tables["states"], [{"items": 16, "correct": 10, "wrong": 5, "refused": 1, **none}])
    unknown = dict.fromkeys(("cost_usd", "cost_per_1000_usd", "output_tokens", "latency_s"))
    check(tables["costs"], [{"asked": 16, **unknown, "asked_altered": 0, "cost_altered_usd": 0.0, "known_usd": 0.0,
                            "without_cost": 16, "uncounted_attempts": 0}])  # fmt: skip


def test_depth_and_stages(tables: dict[str, pl.DataFrame]) -> None:
    # Without the finding the only stage is passed by 1 of 3 cases; with it both pass detection and contour and fail
    # the attributes, so that the depth is 2 and does not vary.
    first = share((1, 0, 0, 0), ABSENT)
    shallow = share((1, 0, 0, 0), ABSENT, least_effect=0)
    steady = {
        name: 3 * value
        for name, value in share((0, 2 / 3, 0, 2 / 3), P2_AND_P4, least_effect=0).columns("depth").items()
    }
    check(tables["depth"], [
        {"path": "lesion_free", "cases": 3, "maximum": 1, **shallow.columns("depth"), "depth_always_yes": 0.0,
         "depth_yes_then_no": 0.0, "depth_always_no": 1.0},
        {"path": "revision_free", "cases": 2, "maximum": 3, **steady, "depth_always_yes": 1.0,
         "depth_yes_then_no": 2.0, "depth_always_no": 0.0},
    ])  # fmt: skip
    right, wrong = share(BOTH, P2_AND_P4), share(NEITHER, P2_AND_P4)
    lost = {"lesion_free": share((1, 0, 1, 0), ABSENT)}
    # Stage 4 asks four kinds: chance is the product of theirs, the product of accuracies 1 x 0 x 1/2 x 1.
    stages = [("lesion_free", 1, 3, first, 1 / 3, 1 / 2), ("revision_free", 1, 2, right, 1, 1 / 2),
              ("revision_free", 2, 2, right, 1, 1 / 2),
              ("revision_free", 4, 2, wrong, 0, 1 / 4 * 1 / 8 * 1 / 4 * 1 / 4)]  # fmt: skip
    check(tables["stages"], [
        {"path": path, "stage": stage, "cases": cases, "reading": "after the model's own answers",
         **number.columns("accuracy"), **number.columns("gated"),
         **lost.get(path, wrong if number is right else right).columns("lost"), "product": product, "chance": chance}
        for path, stage, cases, number, product, chance in stages
    ])  # fmt: skip


def test_kinds(tables: dict[str, pl.DataFrame]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "kind": kind, "items": items, "patients": patients, "right": right, "chance": chance,
            "prior": FREQUENT.get(kind, 1.0), "answered": 4 / 5 if kind == "detection" else 1,
            **columns_of(numbers_of(kind, False), "accuracy"), **columns_of(numbers_of(kind, True), "corrected"),
            **columns_of(numbers_of(kind, False, of_answered=True), "accuracy_answered"),
            # b: one of two right options is chosen and nothing else; e: the right one and a wrong one.
            "jaccard": (1 / 2 + 1 / 2) / 2 if kind == "location" else None,
            "point_sensitivity": None, "false_marks": None,
        }
        for kind, (items, patients, right, chance, _, _) in KINDS.items()
    ]  # fmt: skip
    one = {"accuracy": 0.0, "corrected": (0 - 2 / 64) / (1 - 2 / 64), "accuracy_answered": 0.0}
    ends = {f"{name}{end}": None for name in one for end in SPREAD[1:]}  # one patient: no interval
    rows.append({"kind": "grid_cell", "items": 1, "patients": 1, "right": 0, "chance": 2 / 64, "prior": 0.0,
                 "answered": 1, "jaccard": None, "point_sensitivity": None, "false_marks": None,
                 **one, **ends})  # fmt: skip
    check(tables["kinds"], rows)


def test_decisions(tables: dict[str, pl.DataFrame]) -> None:
    found, sure = share(BOTH, P2_AND_P4), share((1, 0, 0, 0), ABSENT)
    yes = share((0, 1, 1, 1), DETECTIONS)  # "Yes" to three of five: b, e and, wrongly, c
    detection = {
        "kind": "detection", "positives": 2, "negatives": 3, "always_yes": 2 / 5, "always_no": 3 / 5,
        **found.columns("sensitivity"), **sure.columns("specificity"), **yes.columns("yes_rate"),
        **mean(found, sure).columns("balanced_accuracy"), **share(FOUND, DETECTIONS).columns("accuracy"),
    }  # fmt: skip
    nothing = {f"{name}{end}": None for name in ("sensitivity", "balanced_accuracy") for end in SPREAD}
    contour = {
        "kind": "contour_evaluation", "positives": 0, "negatives": 2, "always_yes": 0.0, "always_no": 1.0, **nothing,
        **found.columns("specificity"), **share(NEITHER, P2_AND_P4).columns("yes_rate"),
        **found.columns("accuracy"),
    }  # fmt: skip
    check(tables["decisions"], [detection, contour])


def test_grid(tables: dict[str, pl.DataFrame]) -> None:
    spreads = {f"{name}{end}": None for name in ("hit_rate", "hit_rate_attainable", "coverage") for end in SPREAD}
    row = {
        **spreads, "hit_rate": 0.0, "hit_rate_attainable": 0.0, "items": 1, "patients": 1, "attainable": 1,
        "chance": 2 / 64, "ceiling": 1.0, "most_frequent": 0.0, "partial_hit": 0.0, "position_error": 0.0,
        "anatomy_error": 0.0, "position_unknown": 1.0, "no_answer": 0.0,
    }  # fmt: skip
    check(tables["grid"], [{"finding": name, **row} for name in ("effusion", "mean of findings")])
    cells = [(10, "B", 2, 0, 1), (11, "C", 2, 0, 1), (12, "D", 2, 1, 0)]  # cell 9 is the first of row 2
    names = ("cell", "column", "row", "chosen", "correct")
    check(tables["cells"], [{"finding": "effusion", **dict(zip(names, cell, strict=True))} for cell in cells])
    swapped = {f"{name}{end}": None for name in ("accuracy", "mirrored", "gain") for end in SPREAD}
    # Mirrored, cell D2 is E2, which is no key either.
    check(tables["swapped"], [{**swapped, "kind": "grid_cell", "items": 1, "accuracy": 0.0, "mirrored": 0.0,
                              "gain": 0.0}])  # fmt: skip


def test_positions(tables: dict[str, pl.DataFrame]) -> None:
    """The table of positions counts answered items with one right option: each position's choices and keys."""

    def at(kind: str, place: int, count: int, chosen: Number, keyed: Number | float, bias: Number) -> dict[str, Any]:
        return {"kind": kind, "position": place, "answers": count, **chosen.columns("chosen"),
                "key_share": keyed, **bias.columns("bias")}  # fmt: skip

    def difference(one: Number, other: Number) -> Number:
        return weighted([1, -1], [one, other])

    both, none, each = share(BOTH, P2_AND_P4), share(NEITHER, P2_AND_P4), share(P2, P2_AND_P4)
    yes, is_yes = share((0, 1, 1, 1), ANSWERED), share((0, 1, 0, 1), ANSWERED)
    no, is_no = share((1, 0, 0, 0), ANSWERED), share((1, 0, 1, 0), ANSWERED)
    check(tables["positions"], [
        at("detection", 1, 4, yes, 2 / 4, difference(yes, is_yes)),
        at("detection", 2, 4, no, 2 / 4, difference(no, is_no)),
        at("contour_evaluation", 1, 2, none, 0.0, difference(none, none)),
        at("contour_evaluation", 2, 2, both, 1.0, difference(both, both)),
        at("distribution", 1, 2, both, 1.0, difference(both, both)),
        at("severity", 1, 2, each, 1.0, difference(each, both)),
        at("severity", 2, 2, share(P4, P2_AND_P4), 0.0, difference(share(P4, P2_AND_P4), none)),
        at("comparison", 1, 2, both, 1.0, difference(both, both)),
    ])  # fmt: skip


def test_detectable_differences(tables: dict[str, pl.DataFrame]) -> None:
    """Without another model: one of two is right on 30 % of the items, with correlation 0.2, and 1.96 + 0.84 errors."""
    factor = 1.959963984540054 + 0.8416212335729143

    # Each item counts 1 / (items x (1 - chance)), over the two strata of detection and the four kinds of attributes.
    detection = {"p1": [1 / (1 * 1 / 2) / 2], "p2": [1 / (2 * 1 / 2) / 2], "p4": [1 / (2 * 1 / 2) / 2]}
    semantic = {p: [1 / (2 * (1 - KINDS[kind][3])) / 4 for kind in SEMANTIC] for p in ("p2", "p4")}
    both = {p: [weight / 2 for weight in detection[p] + semantic.get(p, [])] for p in detection}
    weights = {"coarse": detection, "semantic": semantic, "mean of levels": both, "grid": {"p2": [1.0]}}
    errors = {name: math.sqrt(0.3 * sum(0.8 * sum(one**2 for one in own) + 0.2 * sum(own) ** 2
                                        for own in parts.values())) for name, parts in weights.items()}  # fmt: skip
    rows = [{"score": name, "patients": len(weights[name]), "standard_error": error,
             "basis": "assumed: one of two models right on 30 % of the items, correlation 0.2 within a patient",
             "detectable": factor * error, "detectable_in_family": None}
            for name, error in errors.items()]  # fmt: skip
    check(tables["detectable"], rows)


def test_facts(tables: dict[str, pl.DataFrame]) -> None:
    levels = {"detection": ("coarse", 1), "contour_evaluation": ("fine", 2), **dict.fromkeys(SEMANTIC, ("semantic", 4))}
    rows = [{"kind": kind, "level": levels[kind][0], "stage": levels[kind][1], "items": items, "cases": items,
             "patients": patients, "findings": 2 if kind == "detection" else 1, "chance": chance,
             "prior": FREQUENT.get(kind, 1.0)}
            for kind, (items, patients, _, chance, _, _) in KINDS.items()]  # fmt: skip
    rows.append({"kind": "grid_cell", "level": None, "stage": None, "items": 1, "cases": 1, "patients": 1,
                 "findings": 1, "chance": 2 / 64, "prior": 0.0})  # fmt: skip
    pooled = (5 / 2 + 2 / 2 + 2 / 4 + 2 / 8 + 2 / 4 + 2 / 4 + 2 / 64) / 16
    frequent = (5 * FREQUENT["detection"] + 2 * 1 + 2 * 1 + 2 * 0 + 2 * 1 + 2 * 1 + 0) / 16
    rows.append({"kind": "all", "level": None, "stage": None, "items": 16, "cases": 5, "patients": 4, "findings": 2,
                 "chance": pooled, "prior": frequent})  # fmt: skip
    check(tables["facts"], rows, unstable=0, clusters="patients")
