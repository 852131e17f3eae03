"""A first evening with a server or proxy of one's own: names, addresses, keys, and what its refusals lead to.

The replies are those of LiteLLM's proxy, llama.cpp, text-generation-inference and vLLM, word for word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_server import FakeServer, Reply, Request

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.cli.params import select
from chexqa.eval.models import client, failures, rate_limit, registry
from chexqa.eval.models.failures import SendError, advice
from chexqa.eval.models.rate_limit import OutagePolicy, RetryPolicy
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
ADDRESS = "http://127.0.0.1:9/v1"
NO_DATABASE = b'{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}'
INVALID = b'{"error":{"message":"Incorrect API key provided","type":"invalid_request_error"}}'
TOO_LONG = Reply(
    status=400,
    body=b'{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context '
    b'size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}',
)
ANSWER = Reply("Answer: 1")


@pytest.fixture
def bench(tiny_benchmark: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    monkeypatch.delenv("CHEXQA_API_KEY", raising=False)
    return benchmark.load(tiny_benchmark)


def answers(request: Request) -> Reply:
    return Reply("Answer: A1" if request.item.kind == "grid_cell" else "Answer: 1")


@pytest.mark.parametrize("refusal", [Reply(status=401, body=INVALID), Reply(status=400, body=NO_DATABASE)])
def test_a_server_that_wants_a_key_is_left_alone_at_once_with_the_variable_to_set(
    bench: Benchmark, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, refusal: Reply
) -> None:
    def behave(request: Request) -> Reply:
        return answers(request) if request.headers.get("authorization") == "Bearer sk-right" else refusal

    with FakeServer(bench, "end_to_end", behave) as server:
        command = "eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run"
        code, out, err = cli(*command, "--concurrency", 2)
        assert (code, len(server.requests) <= 2) == (3, True)
        assert "(no key was sent: set CHEXQA_API_KEY to the server's key)" in out
        assert "correct the cause, then run the same command again" in err
        monkeypatch.setenv("CHEXQA_API_KEY", "sk-wrong")
        assert "(the server does not accept the key in CHEXQA_API_KEY)" in cli(*command)[1]
        monkeypatch.setenv("CHEXQA_API_KEY", "sk-right")
        assert cli(*command)[0] == 0
    assert "sk-right" not in "".join(path.read_text() for path in (tmp_path / "run").rglob("*.json*"))


ADVICE = {
    '{"error": {"message": "max_tokens is too large: 8192.", "param": "max_tokens"}}': "--set max_tokens=VALUE changes",
    '{"object": "error", "message": "no temperature", "param": "temperature"}': "--set temperature=null leaves it out",
    '{"message": "At most 4 image(s) may be provided in one request."}': "--protocol independent",
    '{"error": {"message": "no", "param": "top_p"}}': None,
    '{"error": {"message": "no", "param": ["temperature"]}}': None,
    "no": None,
}


def test_a_first_try_that_got_no_answer_may_be_removed(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    said = [Reply(status=400, body=b"no")]
    with FakeServer(bench, "end_to_end", lambda request: said[-1]) as server:
        command = ["eval", bench.folder, "--model-id", "m", "--api-base", server.url, "--limit", 1]
        for name, how in (("first", "no answer yet, so its folder can be removed"), ("second", "Repeat the command")):
            cli(*command, "-o", tmp_path / name)
            code, _, err = cli(*command, "-o", tmp_path / name, "--max-tokens", 9)
            assert code == 2
            assert how in err
            said.append(ANSWER)


@pytest.mark.parametrize("body", ADVICE)
def test_a_refused_argument_or_number_of_pictures_comes_with_the_option_that_mends_it(body: str) -> None:
    said = advice(SendError("HTTP 400", None, 400, body=body), registry.adhoc("m", ADDRESS))
    assert (ADVICE[body] or "") in said
    assert bool(said) == (ADVICE[body] is not None)


def test_a_models_file_without_a_providers_prefix_says_which_one_a_server_has(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(f"models: [{{name: a, litellm: m, domain: general, access: open, api_base: '{ADDRESS}'}}]")
    code, _, err = cli("eval", bench.folder, "--models", "a", "--models-file", file, "-o", tmp_path / "run")
    assert code == 2
    assert "write hosted_vllm/m if it is an OpenAI-compatible server" in err


@pytest.mark.parametrize("option", ["--model-id", "--models"])
@pytest.mark.parametrize("name", ["anthropic/claude-x", "gemini/flash-x", "vertex_ai/x", "litellm_proxy/x", "plain"])
def test_a_name_with_a_providers_prefix_goes_to_the_address_as_it_is_written(
    bench: Benchmark, tmp_path: Path, cli: Cli, name: str, option: str
) -> None:
    with FakeServer(bench, "end_to_end", answers) as server:
        address = f"{server.url}/chat/completions/"
        command = "eval", bench.folder, option, name, "--api-base", address, "--limit", 1
        code, out, err = cli(*command, "-o", tmp_path / "run")
        assert code == 0, out + err
        assert server.requests[0].body["model"] == name.removeprefix("litellm_proxy/")


@pytest.mark.parametrize(
    ("model_id", "litellm", "over_openai"),
    [
        ("openai/m", "openai/m", True), ("hosted_vllm/m", "hosted_vllm/m", True), ("azure/m", "azure/m", False),
        ("ollama/m", "ollama/m", False), ("litellm_proxy/m", "litellm_proxy/m", True),
        ("anthropic/m", "openai/anthropic/m", True), ("Org/M", "openai/Org/M", True),
    ],
)  # fmt: skip
def test_prefixes_of_servers_keep_their_meaning(model_id: str, litellm: str, over_openai: bool) -> None:
    model = registry.adhoc(model_id, ADDRESS)
    assert (model.litellm, client.openai_http.suits(model)) == (litellm, over_openai)


def test_the_providers_own_protocol_is_a_matter_of_an_option() -> None:
    (model,) = select(None, "anthropic/m", ADDRESS, None, provider_protocol=True)
    assert model.litellm == "anthropic/m"
    with pytest.raises(InputError, match="give --api-base, or leave out"):
        select(None, "anthropic/m", None, None, provider_protocol=True)


def test_both_options_take_every_name() -> None:
    for name in ("baseline/skill-95-60-70-50", "baseline/oracle", "gpt-5.4", "openrouter/some/model"):
        one, other = select(name), select(None, name)
        assert one == other
        assert one[0].name == name
    assert select("mine", None, ADDRESS) == select(None, "mine", ADDRESS)
    assert [model.name for model in select("baseline/first,mine", None, ADDRESS)] == ["baseline/first", "mine"]
    with pytest.raises(InputError, match="set CHEXQA_LINGSHU_32B_URL to the server's address"):
        select(None, "lingshu-32b", ADDRESS)
    with pytest.raises(InputError, match=r"--model-id openai/gpt-5\.4"):
        select("gpt-5.4", None, ADDRESS)


def test_an_address_without_its_last_part_is_told(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    missing = Reply(status=404, body=b'{"detail":"Not Found"}')
    with FakeServer(bench, "end_to_end", lambda request: missing) as server:
        root = server.url.removesuffix("/v1")
        _, out, _ = cli("eval", bench.folder, "--model-id", "m", "--api-base", root, "-o", tmp_path / "run")
        assert f"(requests went to {root}/chat/completions; the address of a server usually ends in /v1)" in out


WORDS = {
    "llama.cpp": (TOO_LONG.status, TOO_LONG.body),
    "text-generation-inference": (422, b'{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be '
                                       b'<= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",'
                                       b'"error_type":"validation"}'),
    "text-generation-inference, inputs": (422, b'{"error":"Input validation error: `inputs` must have less than 1024 '
                                               b'tokens. Given: 5000","error_type":"validation"}'),
    "LiteLLM": (400, b'{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: '
                     b'ContextWindowExceededError: OpenAIException - This model\'s maximum context length is 10 '
                     b'tokens\\nmodel=overflow. context_window_fallbacks=None.","type":null,"code":"400"}}'),
}  # fmt: skip


@pytest.mark.parametrize("server", WORDS)
def test_the_words_of_servers_for_a_prompt_that_is_too_long_are_known(server: str) -> None:
    status, body = WORDS[server]
    assert body is not None
    assert failures.judge(failures.of_status(status, {}, body), lambda text: text).outcome == "overflow"


def test_several_lines_of_an_error_are_one() -> None:
    body = json.dumps({"error": {"message": "line one\nline two\n\n  line three"}}).encode()
    assert failures.of_status(400, {}, body).text == "HTTP 400: line one line two line three"


def test_a_proxys_own_name_for_retry_after_counts() -> None:
    assert rate_limit.retry_after({"llm_provider-retry-after": "7"}) == 7


def test_a_model_that_calls_everything_too_long_stops_without_a_headline_and_goes_on_once_mended(
    bench: Benchmark, tmp_path: Path, cli: Cli, quick: None
) -> None:
    run = tmp_path / "run"
    reply = TOO_LONG
    with FakeServer(bench, "independent", lambda request: reply) as server:
        command = "eval", bench.folder, "--model-id", "m", "--api-base", server.url, "--protocol", "independent"
        code, out, err = cli(*command, "--concurrency", 1, "-o", run)
        assert (code, len(server.requests)) == (3, 10)
        assert "stopped: its endpoint refused each of its first questions" in out
        assert "last error: HTTP 400: the request exceeds the available context size" in out
        assert "correct the cause, then run the same command again" in err
        assert {turn.state for turn in read_run.load(run).turns} == {"error"}
        levels = json.loads(cli("grade", run, "--json")[1])["tables"]["levels"]
        assert {row["corrected"] for row in levels} == {None}
        reply = ANSWER
        assert cli(*command, "-o", run)[0] == 0
        assert len(server.requests) == 10 + len(bench.items)


def test_the_same_refusal_of_every_question_stops_too(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    with FakeServer(bench, "independent", lambda _: Reply(status=400, body=b'{"error":"no pictures"}')) as server:
        command = "eval", bench.folder, "--model-id", "m", "--api-base", server.url, "--protocol", "independent"
        code, out, _ = cli(*command, "--concurrency", 1, "-o", tmp_path / "run")
        assert (code, len(server.requests)) == (3, 10)
        assert "its endpoint refused each of its first questions" in out


@pytest.mark.parametrize("protocol", ["end_to_end", "independent"])
def test_an_overflow_before_the_first_answer_stays_one_and_nothing_is_asked_twice(
    bench: Benchmark, tmp_path: Path, cli: Cli, protocol: str
) -> None:
    run = tmp_path / "run"
    with FakeServer(bench, protocol, lambda one: TOO_LONG if one.number < 4 else answers(one)) as server:
        command = "eval", bench.folder, "--model-id", "m", "--api-base", server.url, "--protocol", protocol
        code, out, err = cli(*command, "--concurrency", 1, "-o", run)
        assert code == 0, out + err
        assert len(server.requests) == len(bench.items)
        assert [turn.state for turn in read_run.load(run).turns].count("overflow") == 4
        assert "last error: HTTP 400: the request exceeds the available context size" in out


def test_old_runs_in_which_nothing_was_answered_have_no_headline(
    bench: Benchmark, tmp_path: Path, cli: Cli, quick: None
) -> None:
    run = tmp_path / "run"
    cli("eval", bench.folder, "--models", "baseline/first", "-o", run)
    (log,) = (run / "turns").glob("*.jsonl")
    rows = [json.loads(line) | {"state": "overflow", "parsed": None, "raw": None} for line in log.open()]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = json.loads(cli("grade", run, "--json", "--allow-partial")[1])["tables"]
    assert {row["corrected"] for row in tables["levels"]} == {None}
    assert tables["states"][0]["overflow"] == len(bench.items)


def test_an_endpoint_that_is_given_up_keeps_its_words_in_the_log(bench: Benchmark, tmp_path: Path) -> None:
    with FakeServer(bench, "end_to_end", lambda _: Reply(status=500, body=b'{"error":"boom"}')) as server:
        order = RunConfig(
            bench, (registry.adhoc("m", server.url),), "end_to_end", tmp_path / "run", concurrency=1,
            policy=RetryPolicy(attempts=50, timeout_s=5, backoff_s=0),
            patience=OutagePolicy(failures=3, pause_s=0.02, unknown_give_up_s=0.1),
        )  # fmt: skip
        (progress,) = runner.run(order)
    assert progress.stopped is not None
    assert progress.stopped.startswith("the model was given up because ")
    assert progress.error is not None
    assert progress.error.startswith("HTTP 500: boom (attempts: ")
    turns = read_run.load(tmp_path / "run").turns
    assert progress.error in [turn.error for turn in turns]
    for turn in turns:
        assert turn.state == "error"
        assert turn.error is not None
        assert turn.error.startswith("HTTP 500: boom")
    assert progress.unfinished == len(bench.items)


def test_a_proxy_that_fell_back_to_another_model_is_told(
    bench: Benchmark, tmp_path: Path, cli: Cli, quick: None
) -> None:
    def behave(request: Request) -> Reply:
        return Reply("Answer: 1", headers={"x-litellm-attempted-fallbacks": str(request.number % 2)})

    run = tmp_path / "run"
    with FakeServer(bench, "end_to_end", behave) as server:
        _, out, _ = cli("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", run)
    said = f"A proxy gave {len(bench.items) // 2} answers from another model than the one asked: m ("
    assert said in out
    assert said in " ".join(cli("run", "status", run)[1].split())
    assert said in " ".join(cli("grade", run)[1].split())
    cli("report", run, "-o", tmp_path / "report")
    assert said in (tmp_path / "report" / "index.html").read_text()
