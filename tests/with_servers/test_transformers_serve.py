"""``transformers serve`` with a tiny model that a test trains: alone, behind LiteLLM's proxy, and against other ways.

The server is a process of the environment that runs the tests (``make test-servers``), the proxy of another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tiny_model
from processes import STARTS_WITHIN_S, free_ports, serving

from chexqa.cli.demo import CASES
from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Turn

SERVE = Path(sys.executable).parent / "transformers"
PROXY = Path(os.environ["CHEXQA_TEST_SERVERS"]) / "bin" / "litellm"
KEY = "sk-of-the-proxy"
MOST_TOKENS = ("--max-tokens", "12")
# How many of the demo's cases are asked in all ways; more of them take longer.
ASKED = os.environ.get("CHEXQA_WAYS_CASES", "16")
Cli = Callable[..., tuple[int, str, str]]

CALLABLE = """
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor


class Model:
    def load(self, device):
        torch.set_num_threads(1)
        self.processor = AutoProcessor.from_pretrained("WEIGHTS", local_files_only=True)
        self.model = AutoModelForImageTextToText.from_pretrained("WEIGHTS", local_files_only=True)

    def answer(self, messages, *, max_tokens):
        inputs = self.processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        made = self.model.generate(**inputs, max_new_tokens=max_tokens, do_sample=False)
        return self.processor.decode(made[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
"""


class Served(NamedTuple):
    """The demo's benchmark, the weights that were taught it, and the two servers that have them."""

    bench: Benchmark
    weights: Path
    serve: str
    proxy: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from chexqa.cli.main import run

    home = tmp_path_factory.mktemp("served")
    words = ("synth", home / "cases", "--cases", CASES, "--seed", 1, "--findings", "all")
    assert run([str(word) for word in words]) == 0
    assert run(["generate", str(home / "cases"), "-o", str(home / "bench"), "--seed", "1"]) == 0
    bench = benchmark.load(home / "bench")
    tiny_model.save(home / "tiny", tiny_model.benchmark_samples(bench), 90, 35)
    own = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "hub"), "OMP_NUM_THREADS": "1"}
    port, other = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    serve = [SERVE, "serve", home / "tiny", "--host", "127.0.0.1", "--port", port, "--device", "cpu"]
    about = {"model": f"openai/{home / 'tiny'}", "api_base": f"{url}/v1", "api_key": "none"}
    models = [{"model_name": "chained", "litellm_params": about}]
    chained = {"model_list": models, "general_settings": {"master_key": KEY}}
    (home / "config.yaml").write_text(json.dumps(chained))
    proxy = [PROXY, "--config", home / "config.yaml", "--host", "127.0.0.1", "--port", other]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    with (
        serving(serve, f"{url}/health", home / "serve.log", own),
        serving(proxy, f"http://127.0.0.1:{other}/health/liveliness", home / "proxy.log", quiet),
    ):
        yield Served(bench, home / "tiny", f"{url}/v1", f"http://127.0.0.1:{other}/v1")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEXQA_API_KEY", KEY)


def to_serve(served: Served) -> list[object]:
    return ["--model-id", f"openai/{served.weights}", "--api-base", served.serve, "--temperature", 0]


def to_proxy(served: Served) -> list[object]:
    return ["--model-id", "chained", "--api-base", served.proxy, "--temperature", 0]


def turns(run: Path) -> dict[str, Turn]:
    return {turn.item_id: turn for turn in read_run.load(run).turns}


def answer_part(served: Served, part: Path, results: Path) -> None:
    """Send the requests of a batch file to the server one by one, as a program for batches does."""
    lines = []
    for line in part.read_text().splitlines():
        request = json.loads(line)
        asked = urllib.request.Request(
            f"{served.serve.removesuffix('/v1')}{request['url']}",
            json.dumps(request["body"]).encode(),
            {"Content-Type": "application/json"},
            method=request["method"],
        )
        with urllib.request.urlopen(asked, timeout=STARTS_WITHIN_S) as reply:
            body: Any = json.load(reply)
        lines.append({"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}, "error": None})
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))


def by_batches(served: Served, folder: Path, run: Path, cli: Cli) -> None:
    """Ask in rounds until nothing is left."""
    words = (
        "eval",
        served.bench.folder,
        *to_serve(served),
        *MOST_TOKENS,
        "--limit",
        ASKED,
        "--batch",
        folder,
        "-o",
        run,
    )
    done: set[Path] = set()
    for _ in range(20):
        code, out, err = cli(*words)
        assert code in (0, 3), out + err
        if code == 0:
            return
        fresh = sorted(set(folder.glob("*/round-*.jsonl")) - done)
        assert fresh, out
        for part in fresh:
            answer_part(served, part, part.parent / "results" / part.name)
        done.update(fresh)
    pytest.fail("the rounds did not come to an end")


def test_five_ways_to_the_same_weights_say_the_same(served: Served, tmp_path: Path, cli: Cli) -> None:
    code = tmp_path / "my_model.py"
    code.write_text(CALLABLE.replace("WEIGHTS", str(served.weights)))
    ways = {
        "callable": ["--python", f"{code}:Model"],
        "in_process": ["--model-id", f"transformers/{served.weights}"],
        "serve": to_serve(served),
        "proxy": to_proxy(served),
    }
    for name, words in ways.items():
        given = (*words, *MOST_TOKENS, "--limit", ASKED, "-o", tmp_path / name)
        exit_code, out, err = cli("eval", served.bench.folder, *given)
        assert exit_code == 0, f"{name}: {out}{err}"
    by_batches(served, tmp_path / "batches", tmp_path / "batch", cli)
    raw = {name: {key: turn.raw for key, turn in turns(tmp_path / name).items()} for name in (*ways, "batch")}
    assert len(raw["callable"]) > 2 * min(int(ASKED), 40)
    for name, texts in raw.items():
        assert texts == raw["callable"], name
    said = turns(tmp_path / "serve").values()
    assert sum(turn.state == "answered" for turn in said) >= 0.8 * len(said)
    assert Counter(turn.raw for turn in said).most_common(1)[0][1] <= 0.6 * len(said)


@pytest.mark.parametrize("way", [to_serve, to_proxy])
def test_a_reply_that_is_cut_off_is_truncated(
    served: Served, tmp_path: Path, cli: Cli, way: Callable[[Served], list[object]]
) -> None:
    words = ("--limit", 2, "--max-tokens", 1, "-o", tmp_path / "run")
    code, out, err = cli("eval", served.bench.folder, *way(served), *words)
    assert code == 0, out + err
    assert {(turn.state, turn.finish_reason) for turn in turns(tmp_path / "run").values()} == {("truncated", "length")}


@pytest.mark.parametrize("way", [to_serve, to_proxy])
def test_a_killed_run_goes_on_and_keeps_what_was_said(
    served: Served, tmp_path: Path, cli: Cli, way: Callable[[Served], list[object]]
) -> None:
    run = tmp_path / "run"
    words = ["eval", served.bench.folder, *way(served), *MOST_TOKENS, "--limit", 8, "--concurrency", 2, "-o", run]
    program = "import sys; from chexqa.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + STARTS_WITHIN_S
        while logged(run) < 4 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    kept = turns(run)
    assert kept
    code, out, err = cli(*words)
    assert code == 0, out + err
    after = read_run.load(run).turns
    assert Counter(turn.key for turn in after).most_common(1)[0][1] == 1
    assert {turn.item_id: turn for turn in after if turn.item_id in kept} == kept


def logged(run: Path) -> int:
    """The number of lines in a run's logs."""
    return sum(path.read_bytes().count(b"\n") for path in (run / "turns").glob("*.jsonl"))
