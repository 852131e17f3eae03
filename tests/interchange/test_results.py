"""Results of CheXpercept's own evaluation as a run: graded as their flags say, and what is read otherwise is listed."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from logs import log
from release_files import Entry, read_index, result, steps, write_release
from release_results import right_replies, write_results

from chexqa.contract import benchmark, read_run
from chexqa.eval.harnesses import inspect_log, turns
from chexqa.eval.scoring import grade
from chexqa.files.errors import InputError, suggest
from chexqa.interchange.release import case_id_of

Cli = Callable[..., tuple[int, str, str]]
KIND = {"evaluation": "contour_evaluation", "expansion": "revision_expansion", "contraction": "revision_contraction",
        "severity/measurement": "severity"}  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, cli: Cli) -> Path:
    write_release(tmp_path / "release")
    assert cli("import", "chexpercept", tmp_path / "release", "-o", tmp_path / "bench")[0] == 0
    return tmp_path / "bench"


def replies(made: Entry, draw: random.Random) -> dict[str, str]:
    """Replies of every sort the published rule grades in some way."""
    sorts = ["1", "2", "4", "1,2", "1, 3", "Answer is 2", "I cannot tell.", "the 3 zones", "9", "-1", "4\n\n", "2 or 3"]
    return {step: draw.choice(sorts) for step in steps(made)}


def flags(results: dict[str, Entry]) -> dict[str, bool]:
    """``correct`` by item id."""
    found = {}
    for key_id, done in results.items():
        parts: dict[str, Any] = {"detection": done["detection_qa"], "contour_evaluation": done["contour_evaluation_qa"]}
        for stage in (done["contour_revision_qa"], done["attribute_extraction_qa"]):
            parts |= {KIND.get(step, step): stage[step] for step in stage.get("responses", {})}
        found |= {f"{case_id_of(key_id)}/{kind}": part["correct"] for kind, part in parts.items() if part}
    return found


def graded(run: Path) -> pl.DataFrame:
    return grade.grade_folders([run]).grades


@pytest.mark.parametrize("seed", range(4))
def test_grades_are_the_flags_whatever_was_replied(bench: Path, tmp_path: Path, cli: Cli, seed: int) -> None:
    draw = random.Random(seed)
    entries = read_index(tmp_path / "release")
    results = {key_id: result(key_id, made, replies(made, draw)) for key_id, made in entries.items()}
    path = write_results(tmp_path, results)
    code, printed, _ = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert code == 0
    assert "gemini-3.1-pro, oracle_passed: 33 turns" in printed
    assert cli("validate", tmp_path / "run")[0] == 0
    grades = graded(tmp_path / "run")
    assert dict(grades.select("item_id", "correct").iter_rows()) == flags(results)
    assert set(grades["state"]) <= {"correct", "wrong", "unparsed", "empty"}


def test_what_our_parser_reads_otherwise_is_listed_with_both_readings(bench: Path, tmp_path: Path, cli: Cli) -> None:
    made = read_index(tmp_path / "release")["effusion_p1"]
    done = result("effusion_p1", made, {"detection": "2"})
    done["chat_history"] = [["q", [], "I see 2 lungs, so maybe.", "original"]]
    done["detection_qa"]["response"] = "I see 2 lungs, so maybe."
    done["chat_history"][0][3:] = ["I see 2 lungs, so maybe."]
    assert done["detection_qa"]["correct"]
    path = write_results(tmp_path, {"effusion_p1": done}, "none")
    code, printed, err = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert code == 0
    assert "end_to_end" in printed
    assert "for 1 reply, chexqa's parser reads an answer that differs" in err
    assert "32 items not asked" in err
    (row,) = csv.DictReader((tmp_path / "run" / "differences.csv").open())
    assert row == {
        "key_id": "effusion_p1", "item_id": f"{case_id_of('effusion_p1')}/detection", "kind": "detection",
        "graded_as": "2", "chexqa_reads": "", "correct": "true", "reply": "I see 2 lungs, so maybe.",
    }  # fmt: skip


def test_a_model_that_was_right_throughout_differs_in_nothing(bench: Path, tmp_path: Path, cli: Cli) -> None:
    entries = read_index(tmp_path / "release")
    path = write_results(tmp_path, {key: result(key, made, right_replies(made)) for key, made in entries.items()})
    code, _, err = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert (code, err) == (0, "")
    assert graded(tmp_path / "run")["correct"].all()
    run = read_run.load(tmp_path / "run")
    item = benchmark.load(bench).item[f"{case_id_of('effusion_p3')}/revision_result"]
    turn = next(turn for turn in run.turns if turn.item_id == item.item_id)
    assert turn.raw == "I looked.\nAnswer: 4"  # the model's own words, of the history
    assert turn.image_hashes == tuple(benchmark.image_digest(picture.image) for picture in item.turn_images)


def test_the_words_behind_a_replaced_answer_are_the_models_own(bench: Path, tmp_path: Path, cli: Cli) -> None:
    made = read_index(tmp_path / "release")["effusion_p2"]
    done = result("effusion_p2", made, right_replies(made) | {"detection": "2"})
    done["chat_history"][0] = ["q", [], "Answer: 1", "Nothing there.\nAnswer: 2"]  # what an oracle put right
    path = write_results(tmp_path, {"effusion_p2": done})
    assert cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")[0] == 0
    (turn,) = (turn for turn in read_run.load(tmp_path / "run").turns if turn.item_id.endswith("/detection"))
    assert (turn.raw, turn.parsed, turn.state) == ("Nothing there.\nAnswer: 2", (2,), "answered")


def test_model_and_protocol_may_be_given_where_the_folders_do_not_say(bench: Path, tmp_path: Path, cli: Cli) -> None:
    made = read_index(tmp_path / "release")["effusion_p1"]
    path = tmp_path / "all_results.json"
    path.write_text(json.dumps({"effusion_p1": result("effusion_p1", made, {"detection": "2"})}))
    command = ["import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run"]
    code, _, err = cli(*command)
    assert code == 2
    assert "give it with --model" in err
    code, _, err = cli(*command, "--model", "m")
    assert code == 2
    assert "oracle_passed (the protocol of oracle_implicit)" in err
    assert cli(*command, "--model", "m", "--protocol", "oracle_stated")[0] == 0
    about = read_run.read_about(tmp_path / "run")
    assert (about["protocol"], list(about["models"])) == ("oracle_stated", ["m"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"effusion_p99": {}}, "has no case 'effusion_p99' (did you mean 'effusion_p"),
        ({"effusion_p1": {"detection_qa": {"response": "1", "ground_truth": 1, "correct": True}}},
         "is 1 in this file, but 2 in the benchmark"),
        ({"effusion_p1": {"detection_qa": {"correct": "yes"}}}, "effusion_p1: field 'detection_qa.correct'"),
        ({"effusion_p1": {"contour_revision_qa": {"ground_truth": {"expansion": [1, "3"]}}}},
         "effusion_p1: field 'contour_revision_qa.ground_truth.expansion.1': \"3\" must be a whole number"),
        ({"effusion_p1": {"attribute_extraction_qa": {"ground_truth": {"location": {"1": 2}}}}},
         "effusion_p1: field 'attribute_extraction_qa.ground_truth.location'"),
        ({}, "is no JSON object of results, keyed by case"),
    ],
)  # fmt: skip
def test_results_of_something_else_are_refused(
    bench: Path, tmp_path: Path, cli: Cli, change: dict[str, Any], message: str
) -> None:
    path = write_results(tmp_path, change)
    code, _, err = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


def test_all_wrong_cases_are_listed_at_once(bench: Path, tmp_path: Path, cli: Cli) -> None:
    other = {"detection_qa": {"response": "1", "ground_truth": 1, "correct": True}}
    path = write_results(tmp_path, {"effusion_p1": other, "effusion_p99": {}, "effusion_p2": {"chat_history": 1}})
    code, _, err = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert code == 2
    first, *lines = err.splitlines()
    assert first == f"error: {path}: 3 cases are wrong; correct them:"
    assert [line.partition(": ")[0] for line in lines] == ["  effusion_p1", "  effusion_p99", "  effusion_p2"]


def test_all_wrong_samples_of_a_log_of_inspect_are_listed_at_once(
    tmp_path: Path, tiny_benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read by a stand-in for Inspect."""
    about = {"benchmark": {"hash": benchmark.load(tiny_benchmark).hash}, "protocol": "independent"}
    samples = [
        SimpleNamespace(id="a", epoch=1, store={turns.STORE: "no list"}),
        SimpleNamespace(id="b", epoch=2, store={turns.STORE: [{"item_id": 1}]}),
        SimpleNamespace(id="c", epoch=1, store={}),
    ]
    header = SimpleNamespace(metadata={turns.ABOUT: about}, task="chexqa/benchmark", model="m")
    monkeypatch.setattr(inspect_log, "_read", lambda *_, **__: SimpleNamespace(eval=header, samples=samples))
    (tmp_path / "log.eval").touch()
    with pytest.raises(InputError) as caught:
        inspect_log.import_log(tmp_path / "log.eval", tiny_benchmark, tmp_path / "run")
    first, *lines = str(caught.value).splitlines()
    assert first == f"{tmp_path / 'log.eval'}: 2 samples are wrong; correct them:"
    assert [line.partition(": ")[0] for line in lines] == ["  sample 'a', epoch 1", "  sample 'b', epoch 2"]


def test_an_empty_reply_to_detection_is_wrong_as_in_the_reference_and_said(
    bench: Path, tmp_path: Path, cli: Cli
) -> None:
    """The release's evaluation leaves the entry empty and counts the stage as wrong."""
    made = read_index(tmp_path / "release")["effusion_p2"]
    done = result("effusion_p2", made, right_replies(made))
    done["detection_qa"] = {}
    done["chat_history"][0][2] = ""
    path = write_results(tmp_path, {"effusion_p2": done})
    code, _, err = cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "run")
    assert (code, "empty answers to detection questions: 1; they count as wrong" in err) == (0, True)
    states = dict(graded(tmp_path / "run").select("item_id", "state").iter_rows())
    own = {
        item_id.partition("/")[2]: state for item_id, state in states.items() if case_id_of("effusion_p2") in item_id
    }
    assert own.pop("detection") == "empty"
    assert set(own.values()) == {"correct"}


def test_a_run_exported_as_results_comes_back_the_same(bench: Path, tmp_path: Path, cli: Cli) -> None:
    run = log(tmp_path / "run", bench, model="org/mine 1", protocol="oracle_passed")
    code, _, err = cli("run", "export", run, "--format", "chexpercept", "-o", tmp_path / "results")
    assert code == 0, err
    path = tmp_path / "results" / "chexqa_org-mine-1" / "oracle_implicit" / "all_results.json"
    assert cli("import", "chexpercept-results", path, "--benchmark", bench, "-o", tmp_path / "back")[0] == 0
    before, after = (graded(folder).select("item_id", "state", "correct", "parsed") for folder in
                     (run, tmp_path / "back"))  # fmt: skip
    assert before.filter(before["correct"]).equals(after.filter(after["correct"]))
    assert before.select("item_id", "correct").equals(after.select("item_id", "correct"))
    alone = log(tmp_path / "alone", bench, protocol="independent")
    code, _, err = cli("run", "export", alone, "--format", "chexpercept", "-o", tmp_path / "none")
    assert (code, "'independent', but CheXpercept's results exist only for" in err) == (2, True)
    assert not (tmp_path / "none").exists()


def test_results_of_a_benchmark_that_was_exported_come_back_to_it(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    assert cli("export", tiny_benchmark, "--format", "chexpercept", "-o", tmp_path / "release")[0] == 0
    entries = read_index(tmp_path / "release")
    path = write_results(tmp_path, {key: result(key, made, right_replies(made)) for key, made in entries.items()})
    code, _, err = cli("import", "chexpercept-results", path, "--benchmark", tiny_benchmark, "-o", tmp_path / "run")
    assert code == 0, err
    asked = graded(tmp_path / "run").filter(pl.col("kind") != "grid_cell")
    assert asked["correct"].all()
    for made in entries.values():
        for name in ("expansion", "contraction"):
            part = (made.get("contour_qa") or {}).get(f"contour_revision_qa_{name}")
            if part:
                none = part["answer_index"] == [len(part["answer_options"])]
                assert (part["answer"] == "None") == none, "what the reference's oracle text goes by"


def test_an_unknown_key_lists_five_of_many() -> None:
    assert suggest("x", map(str, range(2100))) == " (known: 0, 1, 10, 100, 1000 and 2,095 more)"
    assert suggest("x", ["b", "a"]) == " (known: a, b)"
    assert suggest("x", ["b", "a", "long"], ["b"]) == " (known: b)"
    assert suggest("lon", ["b", "a", "long"], ["b"]) == " (did you mean 'long'?)"
