"""Settings of one command, and the reasoning that servers send apart from a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_server import Behaviour, FakeServer, Reply, Request
from rest_long import rest_long
from small_server import recorder

from chexqa.contract import benchmark, read_run, reply_limits
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.gallery import files as gallery
from chexqa.eval.models import registry
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.scoring import grade
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
Serve = Callable[[Behaviour], FakeServer]


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def serve(bench: Benchmark) -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda behaviour: stack.enter_context(FakeServer(bench, "end_to_end", behaviour))


def test_settings_are_sent_and_recorded_and_a_run_with_others_is_refused(
    cli: Cli, serve: Serve, bench: Benchmark, tmp_path: Path
) -> None:
    server = serve(lambda request: Reply("Answer: 1"))
    command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run", "--limit", 1)
    given = ("--max-tokens", 77, "--temperature", 0.5, "--set", "top_p=0.9", "--set", "chat_template_kwargs.deep=true",
             "--set", "reasoning_effort=low")  # fmt: skip
    assert cli(*command, *given)[0] == 0
    decoding = {"temperature": 0.5, "max_tokens": 77, "top_p": 0.9, "chat_template_kwargs": {"deep": True},
                "reasoning_effort": "low"}  # fmt: skip
    body = server.requests[0].body
    assert {name: body[name] for name in decoding} == decoding
    assert json.loads((tmp_path / "run" / "run.json").read_text())["models"]["m"]["decoding"] == decoding
    code, _, err = cli(*command, "--max-tokens", 77)
    assert code == 2
    assert "the decoding of 'm' was" in err


def test_a_setting_takes_the_place_that_the_registry_has_for_it_and_null_takes_it_out() -> None:
    model = registry.Model("m", "openai/m", "general", "open", decoding={"temperature": 1, "max_completion_tokens": 9})
    made = registry.overridden(model, registry.overrides(["temperature=null", "a.b=[1]", "a.c=x=y"], max_tokens=5))
    assert made.decoding == {"max_completion_tokens": 5, "a": {"b": [1], "c": "x=y"}}
    again = registry.overridden(made, registry.overrides(["a.b=null"]))
    assert again.decoding == {"max_completion_tokens": 5, "a": {"c": "x=y"}}
    oracle = registry.load()["baseline/oracle"]
    assert registry.overridden(oracle, registry.overrides([], temperature=1)) is oracle


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (["top_p"], "write NAME=VALUE"),
        (["=1"], "write NAME=VALUE"),
        (["a..b=1"], "write NAME=VALUE"),
        (["a=1", "a=2"], "given twice"),
        (["a=1", "a.b=2"], "already has a value"),
        (["api_key=sk-secret"], "may contain an API key"),
        (["extra_body.token=sk-secret"], "may contain an API key"),
        (["stream=true"], "sets this argument itself"),
    ],
)
def test_a_setting_that_cannot_be_one_is_refused_without_its_value(pairs: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        registry.overrides(pairs)
    assert "sk-secret" not in str(caught.value)


APART: dict[str, dict[str, Any]] = {
    "reasoning_content": {"reasoning_content": "Option 2? Answer: 2"},
    "reasoning": {"reasoning": "Option 2? Answer: 2"},
    "parts": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Option 2? Answer: 2"}]},
            {"type": "text", "text": "Answer: 1"},
        ]
    },
}


@pytest.mark.parametrize("form", rest_long(APART, keep=1))
def test_reasoning_is_kept_apart_never_read_and_folded_in_the_gallery(
    serve: Serve, bench: Benchmark, tmp_path: Path, form: str
) -> None:
    server = serve(lambda request: Reply("Answer: 1", extra=APART[form]))
    model = registry.adhoc("m", server.url)
    runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "run", limit=1))
    run = read_run.load(tmp_path / "run")
    assert {(turn.reasoning, turn.raw, turn.parsed) for turn in run.turns} == {
        ("Option 2? Answer: 2", "Answer: 1", (1,))
    }
    # What a model thought is not said to it again.
    assert "Option 2?" not in json.dumps([request.body for request in server.requests])
    files = dict(gallery.files(grade.Graded(bench, (run,), grade.grade(bench, [run]))))
    (item,) = (
        item for case in gallery.unpacked(files["gallery/cases-000.js"]).values() for item in case["items"].values()
    )
    assert item["said"][0][4] == ["Option 2? Answer: 2", 0]


def test_reasoning_alone_is_no_answer_and_endless_reasoning_is_cut(
    serve: Serve, bench: Benchmark, tmp_path: Path
) -> None:
    def behave(request: Request) -> Reply:
        return Reply(None, "length", extra={"reasoning_content": "\ud83d Answer: 1 " * 200_000})

    runner.run(RunConfig(bench, (registry.adhoc("m", serve(behave).url),), "end_to_end", tmp_path / "run", limit=1))
    for turn in read_run.load(tmp_path / "run").turns:
        assert (turn.state, turn.parsed, turn.raw) == ("truncated", None, None)
        assert 999_000 < len(turn.reasoning or "") <= reply_limits.MAX_TEXT_CHARACTERS
        assert "characters were left out here" in (turn.reasoning or "")


def test_thinking_blocks_of_a_provider_that_litellm_asks_are_kept(bench: Benchmark, tmp_path: Path) -> None:
    content = [{"type": "thinking", "thinking": "Option 2?", "signature": "s"}, {"type": "text", "text": "Answer: 1"}]
    reply = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content,
             "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9}}  # fmt: skip
    with recorder(reply) as (url, _):
        model = registry.Model("m", "anthropic/claude-x", "general", "open", api_base=url, decoding={"max_tokens": 99})
        runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "run", limit=1))
    turns = read_run.load(tmp_path / "run").turns
    assert {(turn.reasoning, turn.raw) for turn in turns} == {("Option 2?", "Answer: 1")}
