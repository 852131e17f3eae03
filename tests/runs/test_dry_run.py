"""What would be sent, as files: for the fourteen registered models without a key, and to the byte what is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_server import FakeServer, Reply, Request

from chexqa import schemas
from chexqa.cli.validate import validate
from chexqa.contract import benchmark, read_run
from chexqa.eval.models import registry

Cli = Callable[..., tuple[int, str, str]]


def test_all_registered_models_have_a_dry_run_without_any_key(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [model for model in registry.load().values() if model.domain != "baseline"]
    for model in known:
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)
    code, out, err = cli("eval", tiny_benchmark, "--models", "all,beyond-diagnosis", "--dry-run", tmp_path / "dry")
    assert code == 0, err
    assert "nothing was sent" in out
    assert len(known) == 17
    assert "85 dry_run files, checked by schema" in cli("validate", tmp_path / "dry")[1]
    for model in known:
        files = sorted((tmp_path / "dry" / model.name).glob("*.json"))
        # lesion-free, revision-free, revision-required, the same of cardiomegaly, grid
        assert len(files) == 5
        for file in files:
            record = json.loads(file.read_text())
            schemas.validator("dry_run").validate(record)
            assert (record["model"], record["decoding"]) == (model.name, model.decoding)
            text = file.with_suffix(".md").read_text()
            for message in record["requests"][-1]["messages"]:
                for part in message["parts"]:
                    if isinstance(part, dict):
                        assert text.count(f"![{part['image']}]") == 1
            for link in [line for line in text.splitlines() if line.startswith("![")]:
                assert (file.parent / link.partition("](")[2].rstrip(")")).is_file()


def test_a_first_question_is_sent_as_the_dry_run_has_it(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    bench = benchmark.load(tiny_benchmark)
    sent: dict[str, list[str]] = {}

    def behave(request: Request) -> Reply:
        parts = [part for message in request.body["messages"] for part in message["content"]
                 if isinstance(message["content"], list)]  # fmt: skip
        sent.setdefault(request.item.item_id, [part["text"] for part in parts if part["type"] == "text"])
        return Reply("(the model's reply)")

    with FakeServer(bench, "end_to_end", behave) as server:
        command = ("eval", tiny_benchmark, "--model-id", "m", "--api-base", server.url)
        assert cli(*command, "--dry-run", tmp_path / "dry")[0] == 0
        assert server.requests == []
        assert cli(*command, "-o", tmp_path / "run")[0] == 0
    said = {turn.item_id: turn for turn in read_run.load(tmp_path / "run").turns}
    files = len(list((tmp_path / "dry" / "m").glob("*.json")))
    assert validate(tmp_path / "dry" / "m").summary == f"{files} dry_run files, checked by schema"
    for file in (tmp_path / "dry" / "m").glob("*.json"):
        for request in json.loads(file.read_text())["requests"]:
            assert said[request["item_id"]].request_hash == request["request_hash"]
            texts = [part for message in request["messages"] if message["role"] == "user" for part in message["parts"]
                     if isinstance(part, str)]  # fmt: skip
            assert texts == sent[request["item_id"]]


def test_rotations_are_written_apart_and_a_full_folder_is_left_alone(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    command = ("eval", tiny_benchmark, "--models", "baseline/first", "--rotate", 2, "--repeats", 3)
    code, out, _ = cli(*command, "--dry-run", tmp_path / "dry")
    assert code == 0
    assert "48 conversations with 180 turns for each model" in out
    assert len(list((tmp_path / "dry" / "baseline--first").glob("*-rotation-1.md"))) == 5
    code, _, err = cli(*command, "--dry-run", tmp_path / "dry")
    assert (code, "exists and is not empty" in err) == (2, True)
    code, _, err = cli(*command)
    assert (code, "the run has no folder; give one as -o RUN" in err) == (2, True)


def test_a_dry_run_below_a_file_is_refused(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = cli("eval", tiny_benchmark, "--models", "baseline/first", "--dry-run", tmp_path / "file" / "dry")
    assert (code, "cannot be written (Not a directory)" in err) == (2, True), err
