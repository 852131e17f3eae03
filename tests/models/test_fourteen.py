"""The fourteen registered models: ids and prices as in litellm's own table, and the example of --help for each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from handmade import Handmade

from chexqa.eval.cli.eval import evaluate
from chexqa.eval.models import client, registry
from chexqa.eval.models.registry import Price

pytestmark = pytest.mark.xdist_group("fourteen")

Cli = Callable[..., tuple[int, str, str]]
ASKED = {name: model for name, model in registry.load().items() if model.domain != "baseline"}
FOURTEEN = {name: model for name, model in ASKED.items() if model.group is None}
PROPRIETARY = [name for name, model in FOURTEEN.items() if model.access == "proprietary"]
OPEN = [name for name in FOURTEEN if name not in PROPRIETARY]
OPENAIS = {"choices": [{"message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]}
GEMINIS = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Answer: 1"}]}, "finishReason": "STOP"}]}


def test_they_are_fourteen() -> None:
    assert (len(FOURTEEN), len(PROPRIETARY)) == (14, 4)


@pytest.mark.parametrize("name", [name for name, model in ASKED.items() if model.access == "proprietary"])
def test_litellm_knows_the_id_and_its_table_has_the_same_price_and_window(name: str) -> None:
    """The table is the one that litellm brings along; nothing is looked up elsewhere."""
    model, litellm = ASKED[name], client.load_litellm()
    known = litellm.model_cost[litellm.get_model_info(model.litellm)["key"]]
    assert known["litellm_provider"] == model.litellm.partition("/")[0]
    listed = client.price(replace(model, price=None))
    assert listed is not None
    assert model.price is not None
    assert astuple(listed) == pytest.approx(astuple(model.price))
    assert known["max_input_tokens"] == model.context_tokens


@pytest.mark.parametrize("name", OPEN)
def test_a_server_of_ones_own_costs_nothing_unless_a_price_is_given(name: str) -> None:
    paid = Price(1, 2)
    assert client.price(FOURTEEN[name]) == Price(0, 0)
    assert client.price(replace(FOURTEEN[name], price=paid)) == paid


@pytest.mark.parametrize(
    ("address", "price"),
    [("http://127.0.0.1:9/v1", Price(0, 0)), ("http://10.0.0.7/v1", Price(0, 0)), ("https://models.example/v1", None)],
)
def test_what_a_server_elsewhere_asks_for_another_model_is_unknown(address: str, price: Price | None) -> None:
    assert client.price(registry.adhoc("mine", address)) == price


@contextmanager
def server() -> Iterator[str]:
    """A server that answers in OpenAI's and in Gemini's way, and counts no tokens; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            counts = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
            gemini = {"promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020}
            # Providers say what they count; servers of one's own may not.
            usage = {"usage": counts} if body.get("model", "").startswith("gpt") else {}
            reply = OPENAIS | usage if "messages" in body else GEMINIS | {"usageMetadata": gemini}
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Tests print nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Handmade(tmp_path_factory.mktemp("bench"))
    made.case("a", "effusion", "lesion_free")
    return made.write()


def example() -> list[str]:
    """The example of ``--help`` that asks all models, as its words."""
    (line,) = [line for line in (evaluate.help or "").splitlines() if "--models all" in line]
    return line.split()[1:]


@pytest.mark.parametrize("names", [*([name] for name in FOURTEEN), list(FOURTEEN)], ids=lambda names: names[0])
def test_the_example_of_help_asks_whatever_lacks_nothing_and_keeps_its_budget(
    bench: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    for model in FOURTEEN.values():
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)
    words = example()
    assert {"--skip-unavailable", "--budget-usd"} <= set(words)
    with server() as address:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        monkeypatch.setenv("GEMINI_API_BASE", f"{address}/v1beta")
        for model in (FOURTEEN[name] for name in names):
            if model.endpoint_variable:
                monkeypatch.setenv(model.endpoint_variable, f"{address}/v1")
            elif model.key_variable:
                monkeypatch.setenv(model.key_variable, "sk-not-a-real-key")
        code, out, err = cli(*({"bench": bench, "run": tmp_path / "run"}.get(word, word) for word in words))
    # A key opens every model of its provider.
    asked = [name for name, model in FOURTEEN.items() if f"\n{name}: 1 answered" in f"\n{out}"]
    keys = {FOURTEEN[name].key_variable for name in names} - {"HOSTED_VLLM_API_KEY"}
    expected = [name for name, model in FOURTEEN.items() if name in names or model.key_variable in keys]
    assert (code, asked) == (0, expected), err
    assert "unknown" not in out + err
    for name in asked:
        turn = json.loads((tmp_path / "run" / "turns" / f"{name}.jsonl").read_text().splitlines()[0])
        assert turn["cost_usd"] == (FOURTEEN[name].price.cost_usd(1000, 20) if FOURTEEN[name].price else 0)
