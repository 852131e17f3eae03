"""Inspect, with its mock model and stored replies: the same prompts, states and grades, and its log brought back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mock_inspect
import polars as pl
import pytest
from handmade import Handmade
from mock_inspect import Mock

import chexqa
from chexqa.contract import read_run
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables

Cli = Callable[..., tuple[int, str, str]]
# Fields that differ between two ways of asking the same prompts: who asked, when, with which settings, at which cost.
OWN = ("model", "started", "latency_s", "usage", "cost_usd", "request_hash", "finish_reason", "provider_model")


def same(turn: Turn) -> dict[str, Any]:
    """Return the fields of a turn that must not depend on who asked."""
    return {name: value for name, value in turn.to_record().items() if name not in OWN}


def ours(bench: Path, out: Path, **options: Any) -> Run:
    """The run of a Python model with the same replies."""
    return chexqa.evaluate(bench, mock_inspect.answer, out, name="stored", **options)


def imported(cli: Cli, log: str, bench: Path, out: Path) -> Run:
    code, _, err = cli("import", "inspect", log.removeprefix("file://"), "--benchmark", bench, "-o", out)
    assert (code, err) == (0, "")
    return read_run.load(out)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ({"protocol": "end_to_end"}, {"protocol": "end_to_end"}),
        ({"protocol": "oracle_passed"}, {"protocol": "oracle_passed"}),
        ({"protocol": "oracle_stated"}, {"protocol": "oracle_stated"}),
        ({"protocol": "independent", "rotate": 2}, {"protocol": "independent", "rotate": 2}),
        ({"blind": True, "prompt": "reason", "limit": 3}, {"blind": True, "prompt": "reason", "limit": 3}),
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_inspect_and_chexqa_ask_and_grade_alike(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, task: dict[str, Any], options: dict[str, Any]
) -> None:
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, Mock(), **task)
    assert log.status == "success"
    theirs = imported(cli, log.location, tiny_benchmark, tmp_path / "theirs")
    own = ours(tiny_benchmark, tmp_path / "own", **options)
    by_key = {turn.key[1:]: same(turn) for turn in own.turns}
    assert {turn.key[1:]: same(turn) for turn in theirs.turns} == by_key
    assert {turn.state for turn in theirs.turns} > {"answered"} or len(by_key) < 15
    bench = chexqa.load(tiny_benchmark)
    one, other = (
        grade.grade(bench, [run]).drop("model", "cost_usd", "latency_s", "output_tokens") for run in (theirs, own)
    )
    assert one.equals(other)


def test_scores_of_inspect_are_those_of_the_table_kinds(handmade: Handmade, tmp_path: Path, cli: Cli) -> None:
    for number in range(12):
        path = ("lesion_free", "revision_free", "revision_required")[number % 3]
        handmade.case(str(number), ("effusion", "edema")[number % 2], path, patient=f"p{number // 2}", grid=(3, 4),
                      detection=(2 if path == "lesion_free" else 1,),
                      contour_evaluation=(2 if path == "revision_free" else 1,))  # fmt: skip
    bench = handmade.write()
    log = mock_inspect.run(tmp_path / "logs", bench, Mock())
    run = imported(cli, log.location, bench, tmp_path / "run")
    table = all_tables(grade.grade_folders([run.folder]))["kinds"]
    expected = {row["kind"]: (row["accuracy"], row["corrected"]) for row in table.iter_rows(named=True)}
    assert log.results is not None
    found = {score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores}
    assert found.keys() == expected.keys()
    for kind, (accuracy, corrected) in expected.items():
        assert found[kind]["accuracy"] == pytest.approx(accuracy), kind
        if corrected is not None:
            assert found[kind]["corrected"] == pytest.approx(corrected), kind
    assert any(numbers["stderr"] > 0 for numbers in found.values())


def test_a_conversation_shows_several_pictures_and_its_cluster(tiny_benchmark: Path, tmp_path: Path) -> None:
    mock = Mock()
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, mock)
    assert max(mock.pictures) == 7  # radiograph, outline, points and four options
    assert log.samples is not None
    clusters = {sample.metadata["case_id"]: sample.metadata["cluster"] for sample in log.samples}
    assert len(set(clusters.values())) == len(clusters) == 6
    assert "patient" not in str(clusters)
    (scores,) = (sample.scores for sample in log.samples if len(sample.metadata["kinds"]) == 9)
    assert scores is not None
    assert {score.metadata["state"] for score in scores.values()} <= set(grade.STATES)


def test_epochs_are_repeats_and_an_error_leaves_earlier_turns(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, Mock(), epochs=2, protocol="independent", limit=2)
    run = imported(cli, log.location, tiny_benchmark, tmp_path / "run")
    assert {turn.repeat for turn in run.turns} == {0, 1}
    assert run.about["repeats"] == 2

    class Breaks(Mock):
        def __call__(self, prompt: list[Any], *rest: Any) -> Any:
            if sum(message.role == "user" for message in prompt) > 2:
                raise RuntimeError("the endpoint is gone")
            return super().__call__(prompt, *rest)

    log = mock_inspect.run(tmp_path / "broken", tiny_benchmark, Breaks())
    assert log.status == "error"
    code, _, err = cli("import", "inspect", log.location.removeprefix("file://"), "--benchmark", tiny_benchmark,
                       "-o", tmp_path / "part")  # fmt: skip
    assert code == 0
    assert "not asked" in err
    assert len(read_run.load(tmp_path / "part").turns) > 0


def test_a_wrong_log_is_refused_in_one_sentence(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    for data in (b"", b"{}", b"PK\x03\x04nothing", b'{"version": 2, "status": "success"}'):
        for ending in ("eval", "json"):
            path = tmp_path / f"wrong.{ending}"
            path.write_bytes(data)
            code, _, err = cli("import", "inspect", path, "--benchmark", tiny_benchmark, "-o", tmp_path / "run")
            assert (code, "is not a log of Inspect" in err, "Traceback" in err) == (2, True, False), (data, ending, err)
            assert not (tmp_path / "run").exists()
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, Mock(), limit=1)
    (tmp_path / "other").mkdir()
    other = Handmade(tmp_path / "other")
    other.case("x", "edema", "lesion_free", detection=(2,))
    code, _, err = cli("import", "inspect", log.location.removeprefix("file://"), "--benchmark", other.write(),
                       "-o", tmp_path / "run")  # fmt: skip
    assert (code, "was made with benchmark" in err) == (2, True)


def test_credentialed_pictures_go_to_no_provider(
    handmade: Handmade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai import eval as inspect_eval

    from chexqa.files.errors import InputError

    handmade.case("a", "edema", "lesion_free", access="credentialed", detection=(2,))
    bench = handmade.write("real")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    log = mock_inspect.run(tmp_path / "logs", bench, Mock())
    assert log.status == "success"
    with pytest.raises(InputError, match="credentialed"):
        inspect_eval("chexqa/benchmark", model="openai/gpt-4o", task_args={"folder": str(bench)},
                     log_dir=str(tmp_path / "logs"), display="none")  # fmt: skip


def test_an_exported_folder_asks_every_item_alone(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = cli("export", tiny_benchmark, "--format", "inspect", "-o", tmp_path / "folder")
    count = len(chexqa.load(tiny_benchmark).items)
    assert (code, f"{count} items" in out) == (0, True)
    mock = Mock()
    monkeypatch.chdir(tmp_path / "folder")
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, mock, task="task.py")
    assert (log.status, len(mock.pictures), min(mock.pictures)) == ("success", count, 1)
    assert log.samples is not None
    states = {sample.id: (sample.scores or {})["alone"].metadata["state"] for sample in log.samples}
    own = grade.grade_folders([ours(tiny_benchmark, tmp_path / "own", protocol="independent").folder]).grades
    assert states == dict(own.select("item_id", "state").iter_rows())

    assert cli("export", tiny_benchmark, "--format", "inspect", "--no-key", "-o", tmp_path / "bare")[0] == 0
    assert not any(word in (tmp_path / "bare" / "samples.jsonl").read_text() for word in ('"answer"', '"chance"'))
    monkeypatch.chdir(tmp_path / "bare")
    log = mock_inspect.run(tmp_path / "logs", tiny_benchmark, Mock(), task="task.py")
    assert log.status == "success"
    code, _, err = cli("import", "inspect", log.location.removeprefix("file://"), "--benchmark", tiny_benchmark,
                       "-o", tmp_path / "run")  # fmt: skip
    assert (code, "not of chexqa/benchmark" in err) == (2, True)


@pytest.mark.long
def test_a_thousand_stored_replies_give_the_same_states(handmade: Handmade, tmp_path: Path, cli: Cli) -> None:
    for number in range(110):
        handmade.case(str(number), "effusion", "revision_required", patient=f"p{number // 2}", grid=(3, 4),
                      location=(1, 3), revision_expansion=(1 + number % 4,), severity=(1 + number % 4,))  # fmt: skip
    bench = handmade.write()
    log = mock_inspect.run(tmp_path / "logs", bench, Mock(), protocol="oracle_stated")
    theirs = imported(cli, log.location, bench, tmp_path / "theirs")
    own = ours(bench, tmp_path / "own", protocol="oracle_stated")
    assert len(theirs.turns) == 1100
    assert {turn.key[1:]: same(turn) for turn in theirs.turns} == {turn.key[1:]: same(turn) for turn in own.turns}
    states = grade.grade_folders([theirs.folder]).grades["state"]
    assert states.equals(grade.grade_folders([own.folder]).grades["state"])
    assert states.value_counts().filter(pl.col("count") > 20).height >= 3
