"""LiteLLM's proxy between chexqa and a server that checks every request: keys, limits, fallbacks, kills.

The proxy is a process of an environment of its own (``make test-servers``). Whatever it passes on is checked by
:class:`fake_server.FakeServer`: pictures, turns and their order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_server import FakeServer, Reply, Request
from handmade import Handmade, six_cases
from processes import STARTS_WITHIN_S, free_ports, serving

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark

PROGRAM = Path(os.environ["CHEXQA_TEST_SERVERS"]) / "bin" / "litellm"
KEY = "sk-of-the-proxy"
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
Cli = Callable[..., tuple[int, str, str]]


class Proxy(NamedTuple):
    """A proxy's address, and the server behind it, whose ``behaviour`` a test sets."""

    url: str
    server: FakeServer
    bench: Benchmark


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    home = tmp_path_factory.mktemp("proxy")
    (home / "bench").mkdir()
    bench = benchmark.load(six_cases(Handmade(home / "bench")))
    (port,) = free_ports(1)
    with FakeServer(bench, "end_to_end", answer) as server:
        names = ("good", "broken", "anthropic/claude-x")
        about = [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"openai/{name.rpartition('/')[2]}", "api_base": server.url, "api_key": "sk-behind",
                },
            }
            for name in names
        ]  # fmt: skip
        (home / "config.yaml").write_text(
            json.dumps(
                {
                    "model_list": about,
                    "litellm_settings": {"num_retries": 0, "fallbacks": [{"broken": ["good"]}]},
                    "router_settings": {"num_retries": 0, "disable_cooldowns": True},
                    "general_settings": {"master_key": KEY},
                }
            )
        )
        command = [PROGRAM, "--config", home / "config.yaml", "--host", "127.0.0.1", "--port", port]
        with serving(command, f"http://127.0.0.1:{port}/health/liveliness", home / "log", OFFLINE):
            yield Proxy(f"http://127.0.0.1:{port}/v1", server, bench)
        assert server.problems == []


def answer(request: Request) -> Reply:
    return Reply("Answer: A1" if request.item.kind == "grid_cell" else "Answer: 1")


@pytest.fixture
def asked(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Request]]:
    """The requests that reach the server in a test, which begins with the right key and a server that answers."""
    monkeypatch.setenv("CHEXQA_API_KEY", KEY)
    proxy.server.behaviour = answer
    proxy.server.requests.clear()
    yield proxy.server.requests
    proxy.server.behaviour = answer


def command(proxy: Proxy, run: Path, name: str = "good") -> list[str]:
    return ["eval", str(proxy.bench.folder), "--model-id", name, "--api-base", proxy.url, "-o", str(run)]


@pytest.mark.parametrize("name", ["good", "anthropic/claude-x", "litellm_proxy/good", "hosted_vllm/good"])
def test_pictures_and_turns_arrive_whole(
    proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli, name: str
) -> None:
    code, out, err = cli(*command(proxy, tmp_path / "run", name))
    assert code == 0, out + err
    assert Counter(one.item.item_id for one in asked) == Counter(item.item_id for item in proxy.bench.items)
    assert {one.headers["authorization"] for one in asked} == {"Bearer sk-behind"}
    assert "another model" not in out


def test_a_key_that_is_missing_or_wrong_is_told(
    proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHEXQA_API_KEY")
    code, out, _ = cli(*command(proxy, tmp_path / "run"))
    assert (code, "set CHEXQA_API_KEY to the server's key" in out) == (3, True)
    monkeypatch.setenv("CHEXQA_API_KEY", "sk-wrong")
    assert "the server does not accept the key in CHEXQA_API_KEY" in cli(*command(proxy, tmp_path / "run"))[1]
    assert not asked
    monkeypatch.setenv("CHEXQA_API_KEY", KEY)
    assert cli(*command(proxy, tmp_path / "run"))[0] == 0


def test_a_limit_is_waited_for_as_the_server_behind_says(
    proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli
) -> None:
    times: list[float] = []

    def behave(request: Request) -> Reply:
        times.append(time.monotonic())
        if len(times) == 1:
            return Reply(status=429, headers={"Retry-After": "3"}, body=b'{"error": {"message": "slow down"}}')
        return answer(request)

    proxy.server.behaviour = behave
    assert cli(*command(proxy, tmp_path / "run"), "--limit", "1", "--concurrency", "1")[0] == 0
    assert times[1] - times[0] >= 3
    assert len(asked) == 1 + len(read_run.load(tmp_path / "run").turns)


def test_another_model_that_answers_is_told(proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli) -> None:
    broken = Reply(status=500, body=b'{"error": {"message": "boom"}}')
    proxy.server.behaviour = lambda request: broken if request.body["model"] == "broken" else answer(request)
    code, out, err = cli(*command(proxy, tmp_path / "run", "broken"))
    assert code == 0, out + err
    said = f"A proxy gave {len(proxy.bench.items)} answers from another model than the one asked: good ("
    assert said in out
    assert said in " ".join(cli("run", "status", tmp_path / "run")[1].split())
    assert {(turn.provider_model, turn.fell_back) for turn in read_run.load(tmp_path / "run").turns} == {("good", True)}


def test_a_reply_that_was_cut_off_is_truncated(proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli) -> None:
    proxy.server.behaviour = lambda request: Reply("Let me think", finish_reason="length")
    assert cli(*command(proxy, tmp_path / "run"), "--limit", "2")[0] == 0
    assert {turn.state for turn in read_run.load(tmp_path / "run").turns} == {"truncated"}


def test_a_prompt_that_is_too_long_is_an_overflow(proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli) -> None:
    body = b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"x"}}'
    proxy.server.behaviour = lambda one: Reply(status=400, body=body) if one.number == 3 else answer(one)
    assert cli(*command(proxy, tmp_path / "run"), "--concurrency", "1")[0] == 0
    assert Counter(turn.state for turn in read_run.load(tmp_path / "run").turns)["overflow"] == 1


def test_a_killed_run_goes_on_and_asks_nothing_twice(
    proxy: Proxy, asked: list[Request], tmp_path: Path, cli: Cli
) -> None:
    proxy.server.behaviour = lambda request: Reply(answer(request).text, delay_s=0.1)
    program = "import sys; from chexqa.cli.main import run; sys.exit(run(sys.argv[1:]))"
    words = [sys.executable, "-c", program, *command(proxy, tmp_path / "run"), "--concurrency", "2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + STARTS_WITHIN_S
        while len(asked) < 8 and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    time.sleep(0.5)
    kept = {turn.item_id for turn in read_run.load(tmp_path / "run").turns}
    before = len(asked)
    assert kept
    assert cli(*command(proxy, tmp_path / "run"))[0] == 0
    assert not kept & {one.item.item_id for one in asked[before:]}
    assert len(asked) <= len(proxy.bench.items) + 2
