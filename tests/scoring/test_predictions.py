"""Answers made elsewhere: graded like a run's, and refused with the line that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from logs import log
from prediction_files import right, write

from chexqa.contract import benchmark
from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.scoring.predictions import grade_predictions
from chexqa.eval.tables.all_tables import all_tables
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]


def test_numbers_and_texts_are_graded_alike(tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    texts = [
        {"item_id": row["item_id"], "model": "texts", "text": f"Answer: {', '.join(map(str, row['answer']))}"}  # type: ignore[call-overload]
        for row in rows
        if "grid" not in str(row["item_id"])
    ]
    grades = grade_predictions([write(tmp_path / "mine.jsonl", rows + texts)], tiny_benchmark).grades
    by_model = grades.partition_by("model", as_dict=True)
    assert set(by_model) == {("mine",), ("texts",)}
    perception = {key: frame.filter(frame["kind"] != "grid_cell") for key, frame in by_model.items()}
    assert perception["mine",]["correct"].all()
    assert perception["mine",]["state"].to_list() == perception["texts",]["state"].to_list()
    assert grades["protocol"].unique().to_list() == ["predictions"]


def test_the_command_grades_a_file_of_predictions(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", right(tiny_benchmark))
    code, out, _ = cli("grade", path, "--benchmark", tiny_benchmark, "--table", "stages")
    assert code == 0
    assert "answered outside chexqa" in " ".join(out.split())
    code, _, err = cli("grade", path)
    assert code == 2
    assert "--benchmark DIR" in err


def test_items_without_a_line_are_not_asked(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", right(tiny_benchmark)[:-2])
    out = cli("grade", path, "--benchmark", tiny_benchmark)[1]
    assert "2 not asked" in out
    assert "PARTIAL" in cli("grade", path, "--benchmark", tiny_benchmark, "--allow-partial")[1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"item_id": "nowhere/detection", "answer": [1]}, "line 1: there is no item 'nowhere/detection'"),
        ({"answer": [3]}, "line 1: item '.*' has no option 3; its options are 1 to 2"),
        ({"answer": [1, 2]}, "line 1: item '.*' takes one option, but 2 are given"),
        ({"answer": [1], "text": "1"}, "line 1: give one of"),
        ({}, "line 1: give one of"),
        ({"answer": "1"}, "line 1: field 'answer'"),
        ({"answer": True}, "line 1: field 'answer'"),
        ({"answer": [1], "refused": True}, "line 1: give one of"),
        ({"answer": [1], "confidence": 2}, "line 1: field 'confidence'"),
        ({"answer": [1], "protocol": "by hand"}, "'protocol': .* is not one of .*, \"independent \\(blind\\)\""),
        ({"answer": [1], "sure": 1}, "unknown field"),
    ],
)
def test_a_wrong_line_is_named(tiny_benchmark: Path, tmp_path: Path, row: dict[str, object], message: str) -> None:
    item_id = benchmark.load(tiny_benchmark).items[0].item_id
    with pytest.raises(InputError, match=message):
        grade_predictions([write(tmp_path / "p.jsonl", [{"item_id": item_id, **row}])], tiny_benchmark)


def test_ten_wrong_lines_are_listed_at_once(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    path = write(tmp_path / "p.jsonl", [rows[0], rows[0], *({**row, "answer": [99]} for row in rows[1:14])])
    path.write_text(path.read_text() + "{\n")
    code, _, err = cli("grade", path, "--benchmark", tiny_benchmark)
    assert code == 2
    first, *lines = err.splitlines()
    assert first == f"error: {path}: 15 lines are wrong; correct them:"
    assert [re.match(r"  line (\d+): .+", line)[1] for line in lines[:-1]] == [*map(str, range(2, 12))]  # type: ignore[index]
    assert lines[-1] == "  and 5 more"
    path.write_text("\n" + json.dumps(rows[0]) + "\n{\n" + json.dumps({"item_id": "x", "answer": 1}))
    _, *lines = cli("validate", path, "--benchmark", tiny_benchmark)[2].splitlines()
    assert [line[:24] for line in lines] == ["  line 3: not valid JSON", "  line 4: there is no it"]


def test_two_answers_to_an_item_are_refused(tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    with pytest.raises(InputError, match=r"line 2: line 1 also has the answer of 'p' to item"):
        grade_predictions([write(tmp_path / "p.jsonl", [rows[0], rows[0]])], tiny_benchmark)


def test_no_answer_and_an_unreadable_text_are_states(tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    rows[0] = {"item_id": rows[0]["item_id"], "answer": []}
    rows[1] = {"item_id": rows[1]["item_id"], "text": "I cannot tell."}
    rows[2] = {"item_id": rows[2]["item_id"], "text": ""}
    grades = grade_predictions([write(tmp_path / "p.jsonl", rows)], tiny_benchmark).grades
    assert grades["state"].to_list()[:3] == ["empty", "unparsed", "empty"]


def test_a_withheld_key_is_asked_for(tiny_benchmark: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", right(tiny_benchmark))
    (tiny_benchmark / "answers.jsonl").unlink()
    with pytest.raises(InputError, match="grading needs the key"):
        grade_predictions([path], tiny_benchmark)


def test_a_number_alone_a_refusal_and_a_confidence_are_taken(tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    rows[0] |= {"answer": rows[0]["answer"][0], "confidence": 0.25}  # type: ignore[index]
    rows[1] = {"item_id": rows[1]["item_id"], "refused": True}
    grades = grade_predictions([write(tmp_path / "p.jsonl", rows)], tiny_benchmark).grades
    assert grades["state"].to_list()[:2] == ["correct", "refused"]
    assert grades["confidence"].to_list()[:2] == [0.25, None]


def test_predictions_of_a_protocol_are_compared_with_its_runs(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run", tiny_benchmark)
    told = write(tmp_path / "told.jsonl", [{**row, "protocol": "end_to_end"} for row in right(tiny_benchmark)])
    blind = write(tmp_path / "m.jsonl", [{**row, "protocol": "end_to_end (blind)"} for row in right(tiny_benchmark)])
    tables = all_tables(grade_predictions([told, blind], None, folders=[run]))
    pairs = tables["pairs"].filter(tables["pairs"]["score"] != "grid")
    assert pairs.select("model_a", "model_b", "family").unique().rows() == [("m", "told", "confirmatory")]
    assert set(tables["without_radiograph"]["without"]) == {"blind"}
    bare = write(tmp_path / "bare.jsonl", right(tiny_benchmark)[:-1])
    out = cli("grade", run, bare, "--protocol", "end_to_end", "--allow-partial")[1]
    assert "protocol predictions" not in out
    assert "bare: 1 of" in out
    assert "add lines for them" in " ".join(out.split())


def test_predictions_take_the_protocol_of_a_run_as_tables_print_it(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    run = log(tmp_path / "run", tiny_benchmark)
    about = json.loads((run / "run.json").read_text())
    condition = {"prompt": "plain", "wording": "0" * 64, "system": None, "shots": 0, "confidence": True}
    (run / "run.json").write_text(json.dumps(about | {"condition": condition}))
    bare = write(tmp_path / "bare.jsonl", right(tiny_benchmark))
    name = "end_to_end (plain, confidence)"
    tables = all_tables(grade_predictions([bare], None, folders=[run], protocol=name))
    assert tables["states"].select("protocol", "model").unique().sort("model").rows() == [(name, "bare"), (name, "m")]
    code, _, err = cli("grade", run, bare, "--protocol", "end_to_end (confidence)")
    assert code == 2
    assert "give end_to_end, oracle" in err
    assert f"or one of the given runs ('{name}')" in err
    code, _, err = cli("grade", run, "--protocol", name)
    assert (code, "is for files of predictions, but only runs are given" in err) == (2, True)


def test_a_run_as_predictions_is_graded_like_the_run(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run", tiny_benchmark, protocol="oracle_passed")
    path = run / "turns" / "m.jsonl"
    lines = path.read_text().splitlines()
    for number, (state, raw) in enumerate([("refused", "No."), ("unparsed", "Both."), ("empty", "")]):
        lines[number] = json.dumps(json.loads(lines[number]) | {"state": state, "parsed": None, "raw": raw})
    path.write_text("\n".join(lines) + "\n")
    code, _, err = cli("run", "export", run, "--format", "predictions", "-o", tmp_path / "p.jsonl")
    assert code == 0, err
    same = [graded.select("protocol", "model", "item_id", "state", "correct", "parsed", "coverage") for graded in (
        grade_folders([run]).grades, grade_predictions([tmp_path / "p.jsonl"], tiny_benchmark).grades)]  # fmt: skip
    assert same[0].equals(same[1])
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | {"repeats": 2}))
    code, _, err = cli("run", "export", run, "--format", "predictions", "-o", tmp_path / "q.jsonl")
    assert (code, "asks each item several times" in err, (tmp_path / "q.jsonl").exists()) == (2, True, False)
