"""The command compare: what changed between two runs, and which runs it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from logs import log

import chexqa
from chexqa.contract import benchmark
from chexqa.eval.design.plan import write_plan
from chexqa.eval.scoring.significance import BEYOND, mcnemar
from chexqa.eval.tables import model_pairs
from chexqa.eval.tables.run_diff import compare_runs
from chexqa.files.errors import InputError
from chexqa.files.terminal import PHANTOM_NOTICE

Cli = Callable[..., tuple[int, str, str]]


def change(run: Path, **answers: list[int]) -> Path:
    """Give other answers to the items of these kinds."""
    path = run / "turns" / "m.jsonl"
    turns = [json.loads(line) for line in path.read_text().splitlines()]
    for turn in turns:
        turn["parsed"] = answers.get(turn["item_id"].split("/")[1], turn["parsed"])
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return run


@pytest.fixture
def runs(tiny_benchmark: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The first says 1 to everything; the second says no to detection and to contour evaluation."""
    first = log(tmp_path / "first", tiny_benchmark)
    return first, change(log(tmp_path / "second", tiny_benchmark), detection=[2], contour_evaluation=[2])


def test_gains_and_losses_by_hand(runs: tuple[Path, Path]) -> None:
    (one,) = compare_runs(*runs)
    scores = {row["score"]: row for row in one.scores.to_dicts()}
    # Two of the six cases have no lesion: these are gained, the other four are lost.
    detection = scores["detection"]
    assert (detection["gained"], detection["lost"], detection["items"]) == (2, 4, 6)
    assert detection["difference"] == pytest.approx(-2 / 6)
    assert (detection["test"], detection["p"]) == ("McNemar", pytest.approx(mcnemar(2, 4)))
    assert scores["distribution"]["difference"] == 0
    assert scores["distribution"]["p"] == 1
    assert scores["coarse"]["test"] == "sign flips"
    changed = one.items.filter(pl.col("change") == "gained")
    assert set(changed["kind"]) == {"detection", "contour_evaluation"}
    assert one.left_out == {}
    # Levels, their mean and the grid come first, then the kinds in the order in which they are asked.
    assert one.scores["score"].to_list()[:6] == ["coarse", "fine", "semantic", "mean of levels", "grid", "detection"]


def test_an_interval_agrees_with_mcnemars_p_alone(
    handmade: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        handmade.case(f"c{number}", "edema", "lesion_free", detection=(2,))
    bench = handmade.write()
    pair = log(tmp_path / "a", bench), change(log(tmp_path / "b", bench), detection=[2])

    def detection() -> dict[str, Any]:
        return compare_runs(*pair)[0].scores.row(by_predicate=pl.col("score") == "detection", named=True)

    wanted = detection()
    assert wanted["difference_low"] > BEYOND
    # Signs flipped at random can give p above 5 % where McNemar's p is below it.
    monkeypatch.setattr(model_pairs, "sign_flips", lambda parts, weights: [0.06] * weights.shape[0])
    assert detection() == wanted


def test_every_score_has_a_verdict(cli: Cli, runs: tuple[Path, Path]) -> None:
    (one,) = compare_runs(*runs)
    # Six patients give no interval, so no score is alike.
    assert [row["verdict"] for row in one.scores.to_dicts()] == [
        "different" if p < 0.05 else "not settled" for p in one.scores["p"]
    ]
    assert "not settled" in cli("compare", *runs)[1]


def test_the_mean_of_levels_counts_what_the_levels_count(runs: tuple[Path, Path]) -> None:
    (one,) = compare_runs(*runs)
    items = dict(one.scores.select("score", "items").iter_rows())
    assert items["grid"] > 0
    assert items["mean of levels"] == items["coarse"] + items["fine"] + items["semantic"]


def test_swapping_the_runs_turns_every_difference_round(runs: tuple[Path, Path]) -> None:
    (there,), (back,) = compare_runs(*runs), compare_runs(*reversed(runs))  # type: ignore[call-arg]
    assert there.scores["difference"].to_list() == pytest.approx([-value for value in back.scores["difference"]])
    assert there.scores["p"].to_list() == back.scores["p"].to_list()
    assert there.scores["gained"].to_list() == back.scores["lost"].to_list()


def test_a_patient_with_two_items_of_a_kind_is_tested_by_sign_flips(handmade: Any, tmp_path: Path) -> None:
    for name in "ab":
        handmade.case(name, "edema", "lesion_free", patient="one", detection=(2,))
    bench = handmade.write()
    pair = log(tmp_path / "a", bench), change(log(tmp_path / "b", bench), detection=[2])
    (one,) = compare_runs(*pair)
    row = one.scores.filter(pl.col("score") == "detection").to_dicts()[0]
    assert (row["test"], row["p"], row["patients"]) == ("sign flips", 1, 1)


def test_the_command_prints_and_writes_what_changed(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    code, out, _ = cli("compare", *runs, "--out", tmp_path / "changes.csv")
    assert code == 0
    assert PHANTOM_NOTICE in out
    assert "gained: " in out
    table = pl.read_csv(tmp_path / "changes.csv")
    assert set(table["change"]) >= {"gained", "lost"}
    assert table["notice"].unique().to_list() == [PHANTOM_NOTICE]
    record = json.loads(cli("compare", *runs, "--json")[1])
    assert {row["score"] for row in record["comparisons"][0]["scores"]} >= {"coarse", "detection"}


def test_different_benchmarks_are_refused_or_compared_on_shared_items(cli: Cli, handmade: Any, tmp_path: Path) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    handmade.case("b", "edema", "lesion_free", detection=(2,))
    first = log(tmp_path / "first", handmade.write())
    kept = handmade.folder.rename(tmp_path / "old")
    about = json.loads((first / "run.json").read_text())
    (first / "run.json").write_text(json.dumps(about | {"benchmark": about["benchmark"] | {"path": str(kept)}}))
    handmade.folder.mkdir()
    handmade.case("c", "edema", "lesion_free", detection=(2,))
    handmade.items[1] = replace(handmade.items[1], question="Another question?")
    for item in handmade.items:
        for picture in item.alone_images:
            (handmade.folder / picture.image).parent.mkdir(parents=True, exist_ok=True)
            if not (handmade.folder / picture.image).exists():
                (handmade.folder / picture.image).write_bytes((kept / picture.image).read_bytes())
    second = log(tmp_path / "second", handmade.write())
    code, _, err = cli("compare", first, second)
    assert code == 2
    assert "--shared" in err
    (one,) = compare_runs(first, second, shared=True)
    assert one.items.height == 1
    assert one.left_out == {"in one benchmark only (detection)": 1, "the question or its options differ (detection)": 1}
    (one,) = compare_runs(first, second, other_wording=True)
    assert (one.items.height, one.left_out) == (2, {"in one benchmark only (detection)": 1})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "the seed of"),
        ({"recipes": [{"name": "handmade", "hash": "0" * 64}]}, "the recipes of"),
    ],
)
def test_wordings_of_other_recipes_or_seeds_are_not_compared(
    changed: dict[str, Any], said: str, handmade: Any, tmp_path: Path
) -> None:
    """In their options, the same number can have another meaning."""
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    runs = [log(tmp_path / "first", handmade.write())]
    other = shutil.copytree(handmade.folder, tmp_path / "other")
    about = json.loads((other / "benchmark.json").read_text())
    (other / "benchmark.json").write_text(json.dumps(about | changed))
    runs.append(log(tmp_path / "second", other))
    with pytest.raises(InputError, match=f"was not made with {said}"):
        compare_runs(*runs, other_wording=True)


def test_unfinished_items_are_left_out_and_counted(tiny_benchmark: Path, tmp_path: Path) -> None:
    pair = log(tmp_path / "a", tiny_benchmark), log(tmp_path / "b", tiny_benchmark, skip=3)
    (one,) = compare_runs(*pair)
    assert one.left_out == {"unfinished in one or both": 3}
    assert one.items.height == len(benchmark.load(tiny_benchmark).items) - 3


def test_models_of_other_names_are_named_by_hand(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    first, second = log(tmp_path / "a", tiny_benchmark, model="x"), log(tmp_path / "b", tiny_benchmark, model="y")
    (one,) = compare_runs(first, second)
    assert (one.first, one.second) == ("x", "y")
    with pytest.raises(InputError, match="no model 'z'"):
        compare_runs(first, second, models=("x", "z"))
    code, _, err = cli("compare", first, second, "--models", "x")
    assert code == 2
    assert "as A,B" in err


def test_two_models_of_one_run_are_compared_without_naming_the_run_twice(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert cli("eval", tiny_benchmark, "--models", "baseline/chance,baseline/oracle", "-o", run)[0] == 0
    pair = ("--models", "baseline/chance,baseline/oracle")
    once, twice = (json.loads(cli("compare", *runs, *pair, "--json")[1]) for runs in ([run], [run, run]))
    assert once == twice
    (found,) = once["comparisons"]
    assert (found["model_a"], found["model_b"]) == ("baseline/chance", "baseline/oracle")
    note = " ".join(cli("compare", run, *pair)[1].split())
    assert "missing if fewer than 10 patients count" in note
    assert "moved there so that the interval agrees with p" in note
    for given in ((), (*pair, "--fresh")):
        code, _, err = cli("compare", run, *given)
        assert (code, "give a second run (RUN_B)" in err) == (2, True)


def test_models_of_different_items_stand_in_groups_with_references_of_their_own(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, quick: None
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert cli("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", whole)[0] == 0
    assert cli("eval", tiny_benchmark, "--models", "baseline/first", "--limit", 2, "-o", part)[0] == 0
    few = len((part / "turns" / "baseline--first.jsonl").read_text().splitlines())
    out = cli("grade", part, whole)[1]
    first, second = out.index("group 1 of 2: "), out.index("group 2 of 2: ")
    assert "baseline/oracle" in out[first:second]
    assert "baseline/first" not in out[first:second].split("\n", 1)[1]
    assert f"{few} items, asked of baseline/first" in out[second:]
    assert "Numbers of different groups cannot be compared" in " ".join(out.split())
    assert out.count("chance ") >= 2
    told = json.loads(cli("grade", part, whole, "--json", "-o", tmp_path / "tables")[1])
    (second,) = told["other_groups"]
    assert [row["model"] for row in told["tables"]["states"]] == ["baseline/oracle"]
    assert [row["model"] for row in second["tables"]["states"]] == ["baseline/first"]
    assert [one["group"]["number"] for one in (told, second)] == [1, 2]
    assert {row["items"] for row in second["tables"]["facts"] if row["kind"] == "all"} == {few}
    assert f"{few} of " in second["notice"]
    for folder, name in (("", "baseline/oracle"), ("items-2/", "baseline/first")):
        index = json.loads((tmp_path / "tables" / f"{folder}report.json").read_text())
        assert {row["model"] for row in index["tables"]["levels"]} == {name}
        table = pl.read_csv(tmp_path / "tables" / f"{folder}tables/levels.csv")
        assert table["model"].unique().to_list() == [name]
    for path in (part / "run.json", part / "turns" / "baseline--first.jsonl"):
        named = tmp_path / "named" / path.relative_to(part)
        named.parent.mkdir(parents=True, exist_ok=True)
        named.write_text(path.read_text().replace("baseline/first", "small"))
    out = cli("grade", whole, tmp_path / "named")[1]
    assert "asked of small" in out[out.index("group 1 of 2: ") : out.index("group 2 of 2: ")], (
        "baselines alone come last"
    )
    chained = chexqa.grade(part, whole)
    assert [set(group.tables["states"]["model"]) for group in chained.groups] == [
        {"baseline/oracle"},
        {"baseline/first"},
    ]
    assert set(chexqa.grade(part, whole, shared=True).tables["states"]["model"]) == {
        "baseline/oracle",
        "baseline/first",
    }
    one = cli("grade", part, whole, "--shared")[1]
    assert "group 1" not in one
    assert f"{few} of " in one
    code, said, _ = cli("report", part, whole, "-o", tmp_path / "report")
    assert code == 0
    assert "group 2 of 2" in said
    pages = [(tmp_path / "report" / name).read_text() for name in ("index.html", "items-2/index.html")]
    assert "Models that were asked other items are on a separate page: group 2 of 2" in pages[0]
    assert "baseline/first" in pages[1]
    # The report of the shared items is of the same runs, so it takes the place of the earlier one, and leaves no group.
    assert cli("report", part, whole, "--shared", "-o", tmp_path / "report")[0] == 0
    assert not (tmp_path / "report" / "items-2").exists()


def test_models_of_the_same_items_stand_in_one_group(cli: Cli, handmade: Any, tmp_path: Path, quick: None) -> None:
    for name in "abcd":
        handmade.case(name, "edema", "lesion_free", detection=(2,))
    bench = handmade.write()
    items = list(benchmark.load(bench).items)
    for name, kept in (("x", items[:2]), ("y", items[2:])):
        lines = [json.dumps({"item_id": item.item_id, "answer": [1], "model": name}) for item in kept]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    predicted = tmp_path / "x.jsonl", tmp_path / "y.jsonl"
    runs = []
    for limit, name in ((2, "baseline/first"), (2, "baseline/oracle")):
        runs.append(tmp_path / name.partition("/")[2])
        assert cli("eval", bench, "--models", name, "--limit", limit, "-o", runs[-1])[0] == 0
    assert "group 1" not in cli("grade", *runs)[1]
    # A file of predictions stands for all items of its task; what it lacks is not asked.
    assert cli("grade", *predicted, "--benchmark", bench, "--shared", "--allow-partial")[0] == 0


def test_a_comparison_names_runs_wordings_and_items(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    asked = ("eval", tiny_benchmark, "--models", "baseline/first")
    assert cli(*asked, "-o", whole)[0] == 0
    assert cli(*asked, "--prompt", "reason", "--limit", 2, "-o", part)[0] == 0
    code, out, _ = cli("compare", whole, part, "-o", tmp_path / "changes.csv")
    assert code == 0
    items = len(benchmark.load(tiny_benchmark).items)
    few = len((part / "turns" / "baseline--first.jsonl").read_text().splitlines())
    assert f"A: baseline/first in {whole}; end_to_end; {items} items asked" in out
    assert f"B: baseline/first in {part}; end_to_end (reason); {few} items asked" in out
    assert f"The runs asked different items; all numbers use only the {few} items that both runs asked." in out
    assert "Chance on these items (percent): detection 50.0" in " ".join(out.split())
    table = pl.read_csv(tmp_path / "changes.csv")
    assert set(table["run_a"]) == {str(whole)}
    assert set(table["protocol_b"]) == {"end_to_end (reason)"}
    told = json.loads(cli("compare", whole, part, "--json")[1])["comparisons"][0]
    assert (told["items_a"], told["items_b"], told["run_b"]) == (items, few, str(part))
    assert told["chance"]["detection"] == 0.5


def test_predictions_are_compared_like_the_run_they_came_from(
    runs: tuple[Path, Path], tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    """The second run's answers as a file give the second run's differences; two files need the benchmark."""
    files = []
    for run in runs:
        files.append(tmp_path / f"{run.name}.jsonl")
        turns = map(json.loads, (run / "turns" / "m.jsonl").read_text().splitlines())
        files[-1].write_text("".join(json.dumps({"model": "m", "item_id": turn["item_id"], "answer": turn["parsed"]})
                                     + "\n" for turn in turns))  # fmt: skip
    wanted = compare_runs(*runs)[0].scores
    assert compare_runs(runs[0], files[1])[0].scores.equals(wanted)
    assert compare_runs(*files, benchmark_folders=(tiny_benchmark, None))[0].scores.equals(wanted)
    code, _, err = cli("compare", *files)
    assert code == 2
    assert "--benchmark" in err


def test_a_plan_gives_the_margin_of_a_comparison(runs: tuple[Path, Path], tiny_benchmark: Path, tmp_path: Path,
                                                 cli: Cli) -> None:  # fmt: skip
    bench = benchmark.load(tiny_benchmark)
    write_plan(bench, tmp_path / "plan.json", ["m"], ["end_to_end"], "fine", 3.0)
    code, out, _ = cli("compare", *runs, "--plan", tmp_path / "plan.json", "--json")
    assert code == 0
    assert json.loads(out)["comparisons"][0]["scores"][0]["margin"] == pytest.approx(0.03)
    code, _, err = cli("compare", *runs, "--plan", tmp_path / "plan.json", "--margin", 5)
    assert code == 2
    assert "leave --margin out" in " ".join(err.split())
