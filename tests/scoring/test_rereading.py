"""The parser's version in a log, and stored replies read again: what changed is said, and no log is touched."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logs import log
from turns import TURN

from chexqa.contract import benchmark, read_run
from chexqa.eval.models import registry
from chexqa.eval.prompts import answer_parser
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.report import build
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.scoring import grade, rereading
from chexqa.eval.tables.run_diff import compare_runs

Cli = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("quick")


def rewrite(run: Path, **changes: dict[str, Any]) -> Path:
    """Change turns of items of these kinds (``every``: of all items)."""
    path = run / "turns" / "m.jsonl"
    turns = [json.loads(line) for line in path.read_text().splitlines()]
    for turn in turns:
        turn |= changes.get("every", {}) | changes.get(turn["item_id"].split("/")[1], {})
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return run


def states(graded: grade.Graded) -> dict[str, set[tuple[str, tuple[int, ...] | None]]]:
    """How the items of each kind ended, with what was read."""
    found: dict[str, set[tuple[str, tuple[int, ...] | None]]] = {}
    for run in graded.runs:
        for turn in run.turns:
            found.setdefault(turn.item_id.split("/")[1], set()).add((turn.state, turn.parsed))
    return found


def test_the_new_fields_are_written_where_they_say_something_and_an_old_line_loads() -> None:
    old = TURN.to_record()
    assert not set(old) & {"parser_version", "condition", "stress", "prompt", "reasoning", "confidence"}
    assert read_run.Turn.from_record(old) == TURN
    assert TURN.read_by == read_run.FIRST_PARSER
    full = replace(
        TURN, parser_version=7, condition="a", stress="noise", prompt="b", reasoning="because", confidence=0.25
    )
    assert read_run.Turn.from_record(json.loads(json.dumps(full.to_record()))) == full


def test_a_run_writes_the_parser_s_version_into_every_turn(tiny_benchmark: Path, tmp_path: Path) -> None:
    loaded = benchmark.load(tiny_benchmark)
    runner.run(RunConfig(loaded, (registry.load()["baseline/chance"],), "end_to_end", tmp_path / "run"))
    turns = read_run.load(tmp_path / "run").turns
    assert {turn.parser_version for turn in turns} == {answer_parser.VERSION}
    graded = grade.grade_folders([tmp_path / "run"], reread=True)
    assert graded.changed is not None
    assert graded.changed.height == 0


def test_states_follow_today_s_parser_and_what_it_does_not_decide_stays(tiny_benchmark: Path, tmp_path: Path) -> None:
    run = rewrite(
        log(tmp_path / "run", tiny_benchmark, raw="Answer: 2"),
        detection={"raw": "I see 2 zones."},
        distribution={"state": "unparsed", "parsed": None, "raw": "I see 2 zones."},
        location={"state": "answered", "raw": "Because of", "finish_reason": "length"},
        severity={"state": "refused", "parsed": None, "raw": "Answer: 2"},
        comparison={"parser_version": read_run.NO_PARSER},
        contour_evaluation={"raw": " "},
        grid_cell={"state": "unparsed", "parsed": None, "raw": "Answer: B1"},
    )
    before = (run / "turns" / "m.jsonl").read_bytes()
    graded = grade.grade_folders([run], reread=True)
    assert states(graded) == {
        "detection": {("unparsed", None)},
        "contour_evaluation": {("empty", None)},
        "revision_expansion": {("answered", (2,))},
        "revision_contraction": {("answered", (2,))},
        "revision_result": {("answered", (2,))},
        "distribution": {("unparsed", None)},
        "location": {("truncated", None)},
        "severity": {("refused", None)},
        "comparison": {("answered", (1,))},
        "grid_cell": {("answered", (2,))},
    }
    assert (run / "turns" / "m.jsonl").read_bytes() == before
    assert graded.changed is not None
    assert dict(graded.changed.group_by("kind").agg("change").rows())["grid_cell"] == ["newly read"] * 2


def test_a_reply_is_read_in_the_order_its_options_were_shown_in(tiny_benchmark: Path, tmp_path: Path) -> None:
    loaded = benchmark.load(tiny_benchmark)
    order = RunConfig(
        loaded, (registry.load()["baseline/oracle"],), "end_to_end", tmp_path / "run", modifiers=Modifiers(rotations=3)
    )
    runner.run(order)
    graded = grade.grade_folders([tmp_path / "run"], reread=True)
    assert any(turn.order for run in graded.runs for turn in run.turns)
    assert graded.changed is not None
    assert graded.changed.height == 0


def test_an_order_the_item_cannot_have_is_named(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = rewrite(log(tmp_path / "run", tiny_benchmark), detection={"order": [2, 3]})
    code, _, err = cli("grade", run, "--reread")
    assert code == 2
    assert "/detection': the order 2, 3 is not an order of the item's 2 options" in err


def test_an_answer_that_its_reply_does_not_give_is_named_and_not_taken(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    sorry = "I'm sorry, but I can't help with medical images."
    run = rewrite(
        log(tmp_path / "run", tiny_benchmark),
        every={"parser_version": answer_parser.VERSION},
        detection={"raw": sorry},
        comparison={"raw": sorry, "parser_version": answer_parser.VERSION - 1},  # that version may have read it so
        location={"raw": None, "state": "refused", "parsed": None},
        grid_cell={"raw": "Answer: A1"},
    )
    lines = (run / "turns" / "m.jsonl").read_text().splitlines()
    wrong = [number for number, line in enumerate(lines, 1) if json.loads(line)["item_id"].endswith("/detection")]
    said = (
        f"m.jsonl, line {wrong[0]}: the turn says answered [1], but the parser that it names (version "
        f"{answer_parser.VERSION}) reads unparsed in its reply"
    )
    code, _, err = cli("validate", run)
    assert code == 2
    assert said in " ".join(err.split())
    assert err.count("so the line was changed by hand") == len(wrong) > 1
    code, _, err = cli("leaderboard", "add", tmp_path / "board", run)
    assert code == 2
    assert said in " ".join(err.split())
    assert f"{len(wrong) - 1} more lines of the run" in " ".join(err.split())
    assert not (tmp_path / "board").exists()
    assert cli("leaderboard", "add", tmp_path / "board", run, "--reread")[0] == 0


def test_grade_says_what_changed_and_lists_it(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = rewrite(
        log(tmp_path / "run", tiny_benchmark), detection={"raw": "Answer: 2"}, grid_cell={"raw": "Answer: A1"}
    )
    code, out, _ = cli("grade", run, "--reread", "-o", tmp_path / "grades")
    assert code == 0
    assert "replies, " in out
    assert "read differently by today's parser" in out
    assert "reread.csv" in json.loads((tmp_path / "grades" / "report.json").read_text())["files"]
    listed = list(csv.DictReader((tmp_path / "grades" / "reread.csv").read_text().splitlines()))
    said = [row for row in listed if row["kind"] == "detection"]
    assert {(row["parsed_before"], row["parsed_after"], row["change"]) for row in said} == {
        ("1", "2", "read otherwise")
    }
    assert "grid_cell" not in {row["kind"] for row in listed}
    assert cli("grade", run, "-o", tmp_path / "grades")[0] == 0  # without: the list of before is gone
    assert not (tmp_path / "grades" / "reread.csv").exists()


@pytest.mark.long
def test_json_and_the_page_tell_the_same(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = rewrite(
        log(tmp_path / "run", tiny_benchmark), detection={"raw": "Answer: 2"}, grid_cell={"raw": "Answer: A1"}
    )
    about = json.loads(cli("grade", run, "--reread", "--json")[1])["parser"]
    assert about["version"] == answer_parser.VERSION
    assert (
        about["reread"]["changed"]
        == len(about["reread"]["items"])
        == sum(row["turns"] for row in about["reread"]["counts"])
    )
    assert json.loads(cli("grade", run, "--json")[1])["parser"]["reread"] is None
    reread = grade.grade_folders([run], reread=True)
    said = f"read again with today's parser; {about['reread']['changed']} of them are read differently now"
    assert said in build._reading(reread)
    assert build._reading(grade.grade_folders([run])) == ""


def test_versions_that_are_mixed_are_said_and_read_again_they_are_not(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    run = rewrite(
        log(tmp_path / "run", tiny_benchmark),
        detection={"parser_version": answer_parser.VERSION + 1},
        comparison={"parser_version": read_run.NO_PARSER},
    )
    sentence = "Different versions of the parser read these replies"
    assert sentence in cli("grade", run)[1]
    assert sentence not in cli("grade", run, "--reread")[1]
    other = log(tmp_path / "other", tiny_benchmark)
    assert rereading.mixed(grade.grade_folders([other]).runs) is None
    [note] = {compared.note for compared in compare_runs(other, run)}
    assert note
    assert note.startswith(sentence)
    assert {compared.note for compared in compare_runs(other, run, reread=True)} == {None}


@pytest.mark.long
def test_the_report_s_page_says_that_versions_are_mixed(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = rewrite(log(tmp_path / "run", tiny_benchmark), detection={"parser_version": answer_parser.VERSION + 1})
    assert cli("report", run, "-o", tmp_path / "report")[0] == 0
    assert "Different versions of the parser" in (tmp_path / "report" / "index.html").read_text()
