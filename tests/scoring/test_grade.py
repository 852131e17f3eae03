"""Grades and tables: hand-computed runs, a second plain implementation, and what gets no number."""

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from grades import State, rows, run, said, study, turn
from handmade import Handmade
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import log

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.findings import FINDINGS
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import Run
from chexqa.eval.models import registry
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.eval.tables import asked_items, levels_and_stages
from chexqa.eval.tables import grid as grid_tables
from chexqa.eval.tables.all_tables import all_tables
from chexqa.files.errors import InputError

pytestmark = pytest.mark.xdist_group("grade")

Builder = Any
UNANSWERED = ("unparsed", "truncated", "refused", "empty", "overflow")


@pytest.fixture
def ten_items(handmade: Builder) -> tuple[Benchmark, str, str]:
    """A lesion-free case (one item) and a revision-required one (nine), with their ids."""
    free = handmade.case("free", "effusion", "lesion_free", detection=(2,))
    revise = handmade.case("revise", "edema", "revision_required", revision_contraction=(2,))
    return benchmark.load(handmade.write()), free, revise


def test_one_wrong_contraction_fails_its_stage_and_gates_the_next(ten_items: tuple[Benchmark, str, str]) -> None:
    bench, _, case = ten_items
    made = study(bench, [run(said(bench, {f"{case}/revision_contraction": ()}))])
    stage = rows(levels_and_stages.stages(made), "path", "stage")
    assert [stage["revision_required", n]["accuracy"] for n in (1, 2, 3, 4)] == [1, 1, 0, 1]
    assert [stage["revision_required", n]["gated"] for n in (1, 2, 3, 4)] == [1, 1, 0, 0]
    assert stage["revision_required", 3]["product"] == 0
    assert stage["revision_required", 4]["reading"] == "after the model's own answers"
    depth = rows(levels_and_stages.depth(made), "path")
    assert (depth["lesion_free"]["depth"], depth["revision_required"]["depth"]) == (1, 2)
    level = rows(levels_and_stages.levels(made), "level")
    # contraction: (0 - 1/16) / (1 - 1/16) = -1/15, beside two kinds at 1; no outline of the one case is keyed no
    assert level["fine"]["corrected"] == pytest.approx((2 - 1 / 15) / 3)
    assert (level["fine"]["accuracy"], level["coarse"]["accuracy"], level["semantic"]["corrected"]) == (0.75, 1, 1)


def test_chance_is_taken_off_pooled_over_items(handmade: Builder) -> None:
    for name in "abcd":
        handmade.case(name, "edema", "revision_free")
    chances = iter((0.5, 0.5, 0.25, 0.25))
    asked = [item.kind == "severity" for item in handmade.items]
    handmade.answers = [replace(answer, chance=next(chances)) if mine else answer
                        for answer, mine in zip(handmade.answers, asked, strict=True)]  # fmt: skip
    bench = benchmark.load(handmade.write())
    first = next(item.item_id for item in bench.items if bench.answers and bench.answers[item.item_id].chance == 0.5
                 and item.kind == "severity")  # fmt: skip
    made = study(bench, [run(said(bench, {first: ()}))])
    severity = rows(levels_and_stages.kinds(made), "kind")["severity"]
    assert severity["corrected"] == pytest.approx((3 - 1.5) / (4 - 1.5))


@pytest.mark.parametrize("always", [1, 2])
def test_a_constant_answer_to_yes_or_no_scores_nothing_whatever_is_frequent(handmade: Builder, always: int) -> None:
    """Nine of twelve edemas and one of four effusions are there; of consolidation there is no case without it."""
    for finding, present, count in (("edema", 9, 12), ("effusion", 1, 4), ("consolidation", 5, 5)):
        for number in range(count):
            handmade.case(f"{finding}{number}", finding, "lesion_free", detection=(1 if number < present else 2,))
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench, {item.item_id: (always,) for item in bench.items}))])
    kind = rows(levels_and_stages.kinds(made), "kind")["detection"]
    assert kind["corrected"] == 0
    assert kind["accuracy"] == (15 / 21 if always == 1 else 6 / 21)
    perfect = study(bench, [run(said(bench))])
    assert rows(levels_and_stages.kinds(perfect), "kind")["detection"]["corrected"] == 1


def test_the_most_frequent_answer_of_other_patients_is_no_better_than_chance_where_answers_are_random(
    handmade: Builder,
) -> None:
    """Four items a finding and answers drawn evenly: the most frequent answer among all items is right for half."""
    draw, kinds = random.Random(5), ("severity", "comparison", "distribution")
    for finding, number in itertools.product(FINDINGS, range(4)):
        keyed = {kind: (draw.randint(1, 4),) for kind in kinds}
        handmade.case(f"{finding}{number}", finding, "revision_free", **keyed)
    bench = benchmark.load(handmade.write())
    grades = grade.grade(bench, [run(said(bench))]).filter(pl.col("kind").is_in(kinds))
    most = pl.col("answer").value_counts().struct.field("count").max()
    in_sample = grades.group_by("kind", "finding").agg(most.alias("most"))["most"].sum() / grades.height
    assert in_sample > 0.45
    assert grades["prior"].mean() < 0.32


def test_none_is_one_answer_whatever_its_number(handmade: Builder) -> None:
    """Of three questions on four points, none is right in two; of the third it is the most frequent answer."""
    for name, right in (("a", (5,)), ("b", (5,)), ("c", (1,))):
        handmade.case(name, "edema", "revision_required", revision_expansion=right)
    place = next(n for n, item in enumerate(handmade.items) if item.kind == "revision_expansion")
    item = handmade.items[place]
    handmade.items[place] = replace(item, options=(*item.options[:2], replace(item.options[4], n=3)))
    handmade.answers[place] = replace(handmade.answers[place], answer=(3,))
    bench = benchmark.load(handmade.write())
    grades = grade.grade(bench, [run(said(bench))]).filter(kind="revision_expansion")
    # For the two with none the others say none once and a point once; for the third they say none.
    assert grades["prior"].to_list().count(0.5) == 2
    assert grades.filter(pl.col("answer").list.first() == 1)["prior"].to_list() == [0.0]


def test_refusing_everything_is_guessing_in_the_second_reading(handmade: Builder) -> None:
    for number in range(4):
        handmade.case(f"c{number}", "edema", "revision_free", contour_evaluation=(1 + number % 2,))
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench, {item.item_id: "refused" for item in bench.items}))])
    for row in levels_and_stages.levels(made).filter(pl.col("level").is_in(["fine", "semantic"])).to_dicts():
        assert row["answered"] == 0
        assert row["corrected"] < -0.2
        assert row["corrected_guessed"] == pytest.approx(0)


def test_cardiomegaly_counts_among_kinds_but_not_where_levels_are_compared(handmade: Builder) -> None:
    heart = handmade.case("h", "cardiomegaly", "lesion_free", detection=(2,))
    handmade.case("e", "edema", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    made = study(bench, [run(said(bench, {f"{heart}/detection": ()}))])
    assert rows(levels_and_stages.levels(made), "level")["coarse"]["accuracy"] == 1
    assert levels_and_stages.kinds(made)["accuracy"].to_list() == [0.5]


@pytest.mark.parametrize(("path", "maximum"), [("lesion_free", 1), ("revision_free", 3), ("revision_required", 4)])
def test_cardiomegaly_reaches_the_same_depth_as_a_lung_finding(handmade: Builder, path: str, maximum: int) -> None:
    case = handmade.case("h", "cardiomegaly", path)
    bench = benchmark.load(handmade.write())
    assert levels_and_stages.depth(study(bench, [run(said(bench))]))["depth"].to_list() == [maximum]
    missed = study(bench, [run(said(bench, {f"{case}/detection": ()}))])
    assert levels_and_stages.depth(missed)["depth"].to_list() == [0]


def test_yes_no_decisions_by_hand(handmade: Builder) -> None:
    free = [handmade.case(f"f{n}", "edema", "lesion_free", detection=(2,)) for n in range(4)]
    fits = [handmade.case(f"p{n}", "edema", "revision_free", contour_evaluation=(2,)) for n in range(2)]
    bench = benchmark.load(handmade.write())
    mistakes = {f"{free[0]}/detection": (), f"{free[1]}/detection": "refused", f"{fits[0]}/detection": ()}
    decisions = rows(levels_and_stages.decisions(study(bench, [run(said(bench, mistakes))])), "kind")
    lesion = decisions["detection"]
    assert (lesion["positives"], lesion["negatives"]) == (2, 4)
    assert (lesion["sensitivity"], lesion["specificity"], lesion["balanced_accuracy"]) == (0.5, 0.5, 0.5)
    assert lesion["yes_rate"] == pytest.approx(2 / 6)  # one true yes, one false; the refusal is neither
    assert decisions["contour_evaluation"]["sensitivity"] is None  # no contour needs a revision: a share of nothing
    assert decisions["contour_evaluation"]["specificity"] == 1
    assert decisions["contour_evaluation"]["balanced_accuracy"] is None


def test_constant_answers_have_their_depth_beside_the_models(ten_items: tuple[Benchmark, str, str]) -> None:
    bench, _, _ = ten_items
    depth = rows(levels_and_stages.depth(study(bench, [run(said(bench))])), "path")
    names = ("depth_always_yes", "depth_yes_then_no", "depth_always_no")
    assert [depth["lesion_free"][name] for name in names] == [0, 0, 1]
    assert [depth["revision_required"][name] for name in names] == [2, 1, 0]


@pytest.fixture
def grid_benchmark(handmade: Builder) -> Benchmark:
    """Four grid items: three of effusion (cells 10 and 11 hit, 12 partial, 1 to 12 plausible), one of a small edema."""
    shares = [0.0] * 64
    shares[9], shares[10], shares[11] = 0.9, 0.6, 0.2
    for name in "abcd":
        handmade.case(name, "edema" if name == "d" else "effusion", None, grid=() if name == "d" else (10, 11))
        evidence = {"coverage": shares, "plausible": None if name == "d" else list(range(1, 13))}
        handmade.answers[-1] = replace(handmade.answers[-1], evidence=evidence)
    return benchmark.load(handmade.write())


def test_the_grid_by_hand(grid_benchmark: Benchmark) -> None:
    ids = [item.item_id for item in grid_benchmark.items]
    mistakes: dict[str, tuple[int, ...] | State] = {ids[0]: (11,), ids[1]: (12,), ids[2]: "unparsed", ids[3]: (40,)}
    grid = rows(grid_tables.grid(study(grid_benchmark, [run(said(grid_benchmark, mistakes))])), "finding")
    effusion, edema, macro = grid["effusion"], grid["edema"], grid[grid_tables.MACRO]
    third = pytest.approx(1 / 3)
    assert (effusion["hit_rate"], effusion["hit_rate_attainable"]) == (third, third)
    assert (effusion["partial_hit"], effusion["no_answer"], effusion["ceiling"]) == (third, third, 1)
    assert effusion["chance"] == pytest.approx(2 / 64)
    assert (edema["hit_rate"], edema["hit_rate_attainable"], edema["ceiling"]) == (0, None, 0)
    assert edema["position_unknown"] == 1
    assert (macro["hit_rate"], macro["ceiling"]) == (pytest.approx(1 / 6), 0.5)
    assert macro["hit_rate_attainable"] == third  # the mean of findings in which something can be hit
    assert list(grid) == ["edema", "effusion", grid_tables.MACRO]


def test_coverage_is_relative_to_the_best_cell_and_a_hit_has_full_credit(grid_benchmark: Benchmark) -> None:
    """Cell 10 covers 0.9 and is the best; cell 11 covers 0.6 and is a hit too; cell 12 covers 0.2."""
    ids = [item.item_id for item in grid_benchmark.items]
    log = run(said(grid_benchmark, {ids[0]: (10,), ids[1]: (11,), ids[2]: (12,)}))
    found = rows(grade.grade(grid_benchmark, [log]), "item_id")
    assert [found[one]["coverage"] for one in ids[:3]] == pytest.approx([1, 0.6 / 0.9, 0.2 / 0.9])
    assert [found[one]["partial"] for one in ids[:3]] == [1, 1, 0]


def test_an_item_that_was_asked_twice_counts_once(ten_items: tuple[Benchmark, str, str]) -> None:
    """Right once and wrong once is half an item right, of one item asked."""
    bench, free, _ = ten_items
    log = run([*said(bench), *(replace(one, repeat=1) for one in said(bench, {f"{free}/detection": ()}))])
    log.about["repeats"] = 2
    kinds = rows(levels_and_stages.kinds(study(bench, [log])), "kind")
    assert (kinds["detection"]["items"], kinds["detection"]["right"]) == (2, 1.5)
    assert (kinds["location"]["items"], kinds["location"]["right"]) == (1, 1)


@pytest.mark.parametrize(
    ("cell", "miss"),
    [(12, "partial_hit"), (1, "position_error"), (9, "position_error"), (13, "anatomy_error"), (64, "anatomy_error")],
)
def test_a_miss_is_named_by_where_it_lies(grid_benchmark: Benchmark, cell: int, miss: str) -> None:
    first = grid_benchmark.items[0].item_id
    grades = grade.grade(grid_benchmark, [run(said(grid_benchmark, {first: (cell,)}))])
    assert rows(grades, "item_id")[first]["miss"] == miss


def test_a_benchmark_that_was_moved_is_asked_for_and_found_where_it_is_said(
    tiny_benchmark: Path, tmp_path: Path, cli: Any
) -> None:
    assert cli("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", tmp_path / "run")[0] == 0
    assert grade.grade_folders([tmp_path / "run"], None).benchmark.folder == tiny_benchmark
    (tmp_path / "else").mkdir()
    moved = tiny_benchmark.rename(tmp_path / "else" / "moved")
    with pytest.raises(InputError, match="is not there; give its folder with --benchmark DIR"):
        grade.grade_folders([tmp_path / "run"], None)
    assert grade.grade_folders([tmp_path / "run"], moved).benchmark.folder == moved


def test_a_run_records_the_domain_of_models_that_a_models_file_describes(
    tiny_benchmark: Path, tmp_path: Path, cli: Any
) -> None:
    path, run_folder = tmp_path / "models.yaml", tmp_path / "run"
    path.write_text("models:\n- {name: mine, litellm: baseline/first, domain: medical, access: open}\n")
    asked = ("--models-file", path, "--models", "mine,baseline/oracle", "-o", run_folder)
    assert cli("eval", tiny_benchmark, *asked)[0] == 0
    assert grade.grade_folders([run_folder]).domains["mine"] == "medical"
    path.write_text(path.read_text().replace("mine", "reader/mine"))
    assert "reader/mine" not in grade.grade_folders([run_folder], models_file=path).domains, "readers are no models"
    path.write_text(path.read_text().replace("reader/mine", "mine").replace("medical", "general"))
    assert grade.grade_folders([run_folder], models_file=path).domains["mine"] == "general", "the file counts first"
    about = json.loads((run_folder / "run.json").read_text())
    assert about["models"]["baseline/oracle"].pop("domain") == "baseline"
    del about["models"]["mine"]["domain"]
    (run_folder / "run.json").write_text(json.dumps(about))
    domains = grade.grade_folders([run_folder]).domains
    assert "mine" not in domains, "as in a run of an earlier version"
    assert domains["baseline/oracle"] == "baseline"
    assert registry.adhoc("owner/model", "http://127.0.0.1:8000/v1").domain is None


@pytest.mark.parametrize("state", UNANSWERED)
def test_an_item_without_answer_counts_as_not_correct(ten_items: tuple[Benchmark, str, str], state: str) -> None:
    bench, free, _ = ten_items
    made = study(bench, [run(said(bench, {f"{free}/detection": state}))])
    assert rows(levels_and_stages.kinds(made), "kind")["detection"]["accuracy"] == 0.5
    assert rows(asked_items.states(made), "model")["m"][state] == 1


# What a model with unfinished items has no number of, by table.
ACCURACIES = {
    "levels": ["accuracy", "corrected", "accuracy_low", "corrected_answered"],
    "drops": ["drop", "drop_low"],
    "depth": ["depth", "depth_high"],
    "stages": ["accuracy", "gated", "product"],
    "kinds": ["right", "accuracy", "corrected", "accuracy_low", "jaccard"],
    "decisions": ["sensitivity", "specificity", "yes_rate", "balanced_accuracy"],
    "grid": ["hit_rate", "hit_rate_attainable", "partial_hit", "no_answer"],
    "positions": ["chosen", "bias"],
    "swapped": ["accuracy", "mirrored"],
}


def unfinished_run(bench: Benchmark, unfinished: str) -> Run:
    """A run of two models: ``m`` lacks the last item, ``whole`` lacks nothing."""
    last = bench.items[-1].item_id
    turns = said(bench, {last: "error"} if unfinished == "error" else None)
    turns = [entry for entry in turns if unfinished == "error" or entry.item_id != last]
    return run([*turns, *(replace(entry, model="whole") for entry in said(bench))], ("m", "whole"))


@pytest.mark.parametrize("unfinished", ["error", "not_asked"])
def test_a_model_with_one_unfinished_item_has_no_number_anywhere(tiny_benchmark: Path, unfinished: str) -> None:
    bench = benchmark.load(tiny_benchmark)
    made = all_tables(grade.grade_runs(bench, [unfinished_run(bench, unfinished)]))
    for name, columns in ACCURACIES.items():
        partial = made[name].filter(pl.col("model") == "m")
        assert partial.height or name == "swapped"
        assert set(partial["unfinished"]) <= {1}
        assert all(partial[column].is_null().all() for column in columns), name
    for name in ("levels", "kinds", "grid"):
        assert made[name].filter(pl.col("model") == "whole")[ACCURACIES[name][0]].is_not_null().all()
    assert rows(made["states"], "model")["m"][unfinished] == 1
    assert set(made["groups"]["model"]) == {"whole"}
    assert made["pairs"].is_empty()


def test_partial_numbers_are_of_the_finished_items(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    kind = bench.items[-1].kind
    made = study(bench, [unfinished_run(bench, "error")], allow_partial=True)
    row = rows(levels_and_stages.kinds(made), "model", "kind")["m", kind]
    count = sum(item.kind == kind for item in bench.items)
    assert (row["items"], row["accuracy"], row["unfinished"]) == (count - 1 or count, 1, 1)
    assert rows(levels_and_stages.levels(made), "model", "level")["m", "coarse"]["accuracy"] == 1
    stage = levels_and_stages.stages(made).filter(pl.col("model") == "m")
    assert stage["cases"].sum() <= levels_and_stages.stages(made).filter(pl.col("model") == "whole")["cases"].sum()


def test_a_model_that_was_never_asked_has_all_its_items_not_asked(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    (row,) = asked_items.states(study(bench, [run([], ("idle",))])).to_dicts()
    assert (row["model"], row["items"], row["not_asked"]) == ("idle", len(bench.items), len(bench.items))


def test_a_model_that_never_replied_is_named_and_left_out_of_a_run_with_others(
    tiny_benchmark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log(tmp_path / "run", tiny_benchmark)
    about = json.loads((folder / "run.json").read_text())
    about["models"]["typo"] = about["models"]["m"]
    (folder / "run.json").write_text(json.dumps(about))
    failed = json.loads(next(folder.glob("turns/*.jsonl")).read_text().splitlines()[0])
    failed |= {"model": "typo", "state": "error", "parsed": None, "raw": None, "error": "HTTP 404: no such model"}
    (folder / "turns" / "typo.jsonl").write_text(json.dumps(failed) + "\n")
    graded = grade.grade_folders([folder])
    assert set(graded.grades["model"]) == {"m"}
    assert [run.models for run in graded.runs] == [("m",)]
    said = f"{folder}: left out 'typo', which has not replied (HTTP 404: no such model)"
    assert " ".join(capsys.readouterr().err.split()) == said


@pytest.fixture(scope="module")
def forty_cases(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Forty cases over the paths, some of cardiomegaly."""
    folder = tmp_path_factory.mktemp("forty") / "bench"
    folder.mkdir()
    made, rng = Handmade(folder), random.Random(20260621)
    for number in range(40):
        path = rng.choice(["lesion_free", "revision_free", "revision_required"])
        made.case(str(number), rng.choice(["edema", "effusion", "cardiomegaly"]), path)
    return benchmark.load(made.write())


Mistakes = set[tuple[int, str]]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), rate=st.sampled_from([0.0, 0.1, 0.25, 0.6, 1.0]), repeats=st.integers(1, 2))
def test_a_second_plain_implementation_agrees_on_stages_depth_and_gating(
    forty_cases: Benchmark, seed: int, rate: float, repeats: int
) -> None:
    rng = random.Random(seed)
    mistakes = {
        (repeat, item.item_id) for repeat in range(repeats) for item in forty_cases.items if rng.random() < rate
    }
    turns = []
    for repeat in range(repeats):
        wrongs = {item_id: rng.choice([(), "empty"]) for number, item_id in mistakes if number == repeat}
        turns += [replace(entry, repeat=repeat) for entry in said(forty_cases, wrongs)]
    log = run(turns)
    log.about["repeats"] = repeats
    made = study(forty_cases, [log])
    check_stages(made, *plainly(forty_cases, mistakes, repeats))


Pairs = dict[tuple[str, int], list[tuple[bool, bool]]]


def plainly(
    bench: Benchmark, mistakes: Mistakes, repeats: int
) -> tuple[Pairs, dict[str, list[int]], dict[tuple[str, int, str], list[bool]]]:
    """Per path and stage ``(right, gated)`` of every conversation, per path its depths, per kind what was right."""
    cases: dict[str, set[str]] = {}
    for item in bench.items:
        cases.setdefault(item.case_id, set()).add(item.kind)
    seen: Pairs = {}
    reached: dict[str, list[int]] = {}
    marginal: dict[tuple[str, int, str], list[bool]] = {}
    for repeat, (case_id, kinds) in itertools.product(range(repeats), cases.items()):
        assert bench.cases is not None
        path = str(bench.cases[case_id].path)
        going, passed, count = True, 0, 0
        for stage in (1, 2, 3, 4):
            here = [kind for kind, about in KINDS.items() if about.stage == stage and kind in kinds]
            if not here:
                continue
            marks = [(repeat, f"{case_id}/{kind}") not in mistakes for kind in here]
            for kind, mark in zip(here, marks, strict=True):
                marginal.setdefault((path, stage, kind), []).append(mark)
            going = going and all(marks)
            count, passed = count + 1, passed + going
            seen.setdefault((path, stage), []).append((all(marks), going))
        full = {"lesion_free": 1, "revision_free": 3, "revision_required": 4}[path]
        reached.setdefault(path, []).append(full if passed == count else passed)
    return seen, reached, marginal


def check_stages(
    made: ScoredSample, seen: Pairs, reached: dict[str, list[int]], marginal: dict[tuple[str, int, str], list[bool]]
) -> None:
    stages, depths = rows(levels_and_stages.stages(made), "path", "stage"), rows(levels_and_stages.depth(made), "path")
    assert stages.keys() == seen.keys()
    for place, pairs in seen.items():
        assert stages[place]["accuracy"] == pytest.approx(sum(right for right, _ in pairs) / len(pairs))
        assert stages[place]["gated"] == pytest.approx(sum(gated for _, gated in pairs) / len(pairs))
        product = 1.0
        for key, marks in marginal.items():
            if key[:2] == place:
                product *= sum(marks) / len(marks)
        assert stages[place]["product"] == pytest.approx(product)
        for name in ("accuracy", "gated"):
            ends = stages[place][f"{name}_low"], stages[place][f"{name}_high"]
            assert ends == (None, None) or ends[0] - 1e-6 <= stages[place][name] <= ends[1] + 1e-6
    for path, values in reached.items():
        assert depths[path]["depth"] == pytest.approx(sum(values) / len(values))


def test_protocols_stand_apart_and_name_their_reading(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    passed = [replace(entry, protocol="oracle_passed") for entry in said(bench)]
    made = study(bench, [run(said(bench)), run(passed, protocol="oracle_passed")])
    readings = {row["protocol"]: row["reading"] for row in levels_and_stages.stages(made).to_dicts()}
    assert readings == {"end_to_end": "after the model's own answers", "oracle_passed": "after right answers"}
    assert made.graded.grades.height == 2 * len(bench.items)


def test_an_answer_takes_the_place_of_an_error_in_another_run(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    item_id = bench.items[0].item_id
    failed = run([turn("m", item_id, "error")])
    for runs in ([failed, run(said(bench))], [run(said(bench)), failed]):
        assert asked_items.states(study(bench, runs))["error"].to_list() == [0]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({}, "both in this run and in .*; .* compare them with 'chexqa compare RUN_A RUN_B'"),
        ({"item_id": "c0/detection"}, "'c0/detection' is not an item of the benchmark"),
        ({"rotation": 1}, "does not ask for"),
        ({"repeat": 1}, "does not ask for"),
    ],
)
def test_what_would_be_graded_wrongly_is_refused(tiny_benchmark: Path, second: dict[str, Any], message: str) -> None:
    bench = benchmark.load(tiny_benchmark)
    turns = said(bench)
    with pytest.raises(InputError, match=message):
        grade.grade(bench, [run(turns), run([replace(turns[0], **second)])])
