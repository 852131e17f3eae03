"""Estimates: what pictures count by each rule, and totals against the run that really takes place."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fake_server import FakeServer, Reply
from hypothesis import given
from hypothesis import strategies as st

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.models import registry
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message
from chexqa.eval.runs import runner
from chexqa.eval.runs.cost_estimate import Work, estimate, image_tokens, png_size, text_tokens, work
from chexqa.eval.runs.runner import RunConfig
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
PATCHES = {"rule": "patches", "side": 32, "limit": 1536}
TILES = {"rule": "tiles", "side": 448, "tokens": 256, "limit": 12}
PLAIN = Model(
    "plain", "openai/plain", "general", "open", image_tokens={"rule": "fixed", "tokens": 100}, reply_tokens=50
)


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        ({"rule": "fixed", "tokens": 256}, (3000, 10), 256),
        (PATCHES, (1024, 1024), 1024),
        (PATCHES, (1, 33), 2),
        (PATCHES, (1800, 2400), 1452),
        ({**PATCHES, "factor": 2.46}, (1024, 1024), 2520),
        ({"rule": "patches", "side": 28, "extra": 2}, (1024, 820), 37 * 30 + 2),
        (TILES, (448, 448), 256),
        (TILES, (1024, 1024), 10 * 256),
        (TILES, (1024, 512), 3 * 256),
        (TILES, (4000, 300), 13 * 256),
        (None, (1024, 1024), 0),
    ],
    ids=str,
)
def test_a_picture_counts_what_its_rule_says(rule: dict[str, Any] | None, size: tuple[int, int], tokens: int) -> None:
    assert image_tokens(rule, size) == tokens


@given(width=st.integers(1, 6000), height=st.integers(1, 6000))
def test_scaled_patches_stay_within_their_limit_and_tiles_within_theirs(width: int, height: int) -> None:
    assert 1 <= image_tokens(PATCHES, (width, height)) <= 1536
    assert image_tokens(TILES, (width, height)) <= 13 * 256


def test_the_size_is_read_from_the_head_of_a_png(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    cv2.imwrite(str(path), np.zeros((70, 300), np.uint8))
    assert png_size(path) == (300, 70)
    path.write_bytes(b"no picture")
    with pytest.raises(InputError, match="not a PNG file"):
        png_size(path)


def test_text_counts_a_token_for_four_characters_and_four_for_a_message() -> None:
    assert text_tokens((Message("system", ("12345678",)), Message("user", ("1",)))) == 3 + 8


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_calls_and_pictures_are_those_of_the_run(bench: Benchmark, tmp_path: Path, protocol: str) -> None:
    sent: list[int] = []
    named = protocols.named(protocol)
    with FakeServer(bench, protocol, lambda request: Reply("I cannot tell.")) as server:
        model = registry.adhoc("Org/Model", server.url)
        runner.run(RunConfig(bench, (model,), named, tmp_path / "run"))
        for request in server.requests:
            parts = [part for message in request.body["messages"] for part in message["content"]]
            sent.append(sum(isinstance(part, dict) and part["type"] == "image_url" for part in parts))
    load = work(bench, named, Modifiers())
    assert load.calls == len(sent) == len(read_run.load(tmp_path / "run").turns)
    assert load.images == sum(sent)
    assert sorted(len(request.sizes) for request in load.requests) == sorted(sent)
    assert load.conversations == len(protocols.conversations(bench, named))


def test_repeats_and_rotations_multiply_and_blind_leaves_the_pictures_out(bench: Benchmark) -> None:
    one = work(bench, "end_to_end", Modifiers())
    six = work(bench, "end_to_end", Modifiers(rotations=2, repeats=3))
    assert (six.calls, six.images, six.picture_bytes) == (6 * one.calls, 6 * one.images, 6 * one.picture_bytes)
    assert estimate(six, PLAIN, None, None, False).input_tokens == 6 * (known(one) or 0)
    blind = work(bench, "end_to_end", Modifiers(blind=True))
    assert (blind.calls, blind.images, blind.picture_bytes) == (one.calls, 0, 0)
    assert [request.text_tokens for request in blind.requests] == pytest.approx(
        [request.text_tokens for request in one.requests], abs=2
    )


def test_an_upload_is_counted_as_base64_and_a_baseline_uploads_and_lacks_nothing(cli: Cli, bench: Benchmark) -> None:
    load = work(bench, "independent", Modifiers())
    pictures = [image for item in bench.items for image in (part.image for part in item.alone_images)]
    assert load.upload_bytes == sum(len(base64.b64encode(bench.image_bytes(image))) for image in pictures)
    asked = ("--models", "baseline/first", "--protocol", "independent")
    _, out, _ = cli("estimate", bench.folder, *asked)
    assert "image_tokens" not in out
    (told,) = json.loads(cli("estimate", bench.folder, *asked, "--json")[1])
    assert (told["input_tokens"], told["output_tokens"], told["cost_usd"]) == (0, 0, 0)
    assert told["upload_bytes"] == load.upload_bytes


def known(load: Work) -> int | None:
    return estimate(load, PLAIN, None, None, False).input_tokens


def test_stress_abstention_and_confidence_are_counted(cli: Cli, bench: Benchmark, tmp_path: Path) -> None:
    """Calls and pictures are those of the run; each line that asks for more adds its tokens to every question."""
    asked = ("--models", "baseline/first", "--protocol", "independent", "--stress", "history", "--repeats", "2")
    assert cli("eval", bench.folder, *asked, "-o", tmp_path / "run")[0] == 0
    run = read_run.load(tmp_path / "run")
    turns = (*run.turns, *run.altered)
    tokens = []
    for more in ((), ("--may-abstain",), ("--may-abstain", "--confidence")):
        # Stress is asked under one protocol, which need not be named.
        (told,) = json.loads(cli("estimate", bench.folder, "--models", "gpt-5.4", *asked[4:], *more, "--json")[1])
        assert told["protocol"] == "independent"
        assert told["calls"] == len(turns)
        assert told["images"] == sum(len(turn.image_hashes) for turn in turns)
        tokens.append(told["input_tokens"] - told["image_tokens"])
    assert tokens[0] < tokens[1] < tokens[2]
    code, _, err = cli("estimate", bench.folder, "--models", "gpt-5.4", "--stress", "noise")
    assert code == 2
    assert "generate --with-layers" in " ".join(err.split())


def test_dollars_are_tokens_times_price_and_an_unknown_one_stays_unknown(bench: Benchmark) -> None:
    load = work(bench, "end_to_end", Modifiers())
    row = estimate(load, PLAIN, Price(2.0, 10.0), None, False)
    assert row.image_tokens == 100 * load.images
    assert row.input_tokens == row.image_tokens + sum(request.text_tokens for request in load.requests)
    assert row.output_tokens == 50 * load.calls
    assert row.cost_usd == pytest.approx((row.input_tokens * 2 + row.output_tokens * 10) / 1e6)
    assert estimate(load, PLAIN, None, None, False).cost_usd is None
    unruled = estimate(load, replace(PLAIN, image_tokens=None), Price(2.0, 10.0), None, False)
    assert (unruled.input_tokens, unruled.cost_usd) == (None, None)
    assert estimate(load, replace(PLAIN, reply_tokens=None), Price(2.0, 10.0), None, False).cost_usd is None
    assert estimate(load, PLAIN, Price(2.0, 10.0), 7, False).output_tokens == 7 * load.calls
    assert estimate(load, replace(PLAIN, image_tokens=None), Price(0, 0), None, False).cost_usd == 0


def test_only_earlier_turns_of_a_conversation_can_be_cached(bench: Benchmark) -> None:
    price = Price(2.0, 10.0, 0.2)
    alone = work(bench, "independent", Modifiers())
    assert estimate(alone, PLAIN, price, None, True).cached_tokens == 0
    load = work(bench, "end_to_end", Modifiers())
    plain, cached = (estimate(load, PLAIN, price, None, flag) for flag in (False, True))
    assert plain.cached_tokens == 0
    assert 0 < (cached.cached_tokens or 0) < (cached.input_tokens or 0)
    assert (cached.cost_usd or 0) < (plain.cost_usd or 0)


def test_what_a_model_cannot_take_is_counted(bench: Benchmark) -> None:
    load = work(bench, "end_to_end", Modifiers())
    most = sum(len(request.sizes) == 7 for request in load.requests)
    small = replace(PLAIN, max_images=6, context_tokens=1000, decoding={"max_tokens": 400})
    row = estimate(load, small, None, None, False)
    assert row.too_many_images == most > 0
    longest = [request.text_tokens + 100 * len(request.sizes) for request in load.requests]
    assert row.too_long == sum(tokens > 600 for tokens in longest) > 0


def test_the_command_shows_every_protocol_and_model(cli: Cli, bench: Benchmark) -> None:
    code, out, _ = cli("estimate", bench.folder, "--models", "gpt-5.4,lingshu-32b,baseline/chance")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines if line[1:2] == ["lingshu-32b"]] == list(protocols.PROTOCOLS), "one table"
    assert [line[-1] for line in lines if line[1:2] == ["lingshu-32b"]] == ["0.00"] * 4
    assert all(f"({protocol})" in out for protocol in protocols.PROTOCOLS), "each protocol has its total"
    assert out.count("Time: ") == 1
    assert "cost is unknown" not in out
    records = json.loads(cli("estimate", bench.folder, "--models", "all", "--protocol", "independent", "--json")[1])
    assert len(records) == 14
    assert {record["calls"] for record in records} == {len(bench.items)}
    assert {record["model"] for record in records if record["cost_usd"]} == {
        "gemini-3.1-pro", "gemini-3.1-flash", "gpt-5.4", "gpt-5.4-nano"}  # fmt: skip
    assert {record["cost_usd"] for record in records if not record["cost_usd"]} == {0}


def test_a_narrow_terminal_cuts_no_number_off(cli: Cli, bench: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    asked = ("--models", "gpt-5.4", "--protocol", "end_to_end")
    (told,) = json.loads(cli("estimate", bench.folder, *asked, "--json")[1])
    lines = [line.split() for line in cli("estimate", bench.folder, *asked)[1].splitlines()]
    shown = [cell for line in lines if line[:2] == ["end_to_end", "gpt-5.4"] for cell in line[2:]]
    assert (int(shown[0]), float(shown[-1])) == (told["calls"], round(told["cost_usd"], 2))


def test_an_unknown_price_is_said_to_be(cli: Cli, bench: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        "models:\n  - {name: elsewhere, litellm: openai/m, domain: general, access: open, api_base: "
        "'https://m.example/v1'}\n"
    )
    given = ("--models", "gpt-5.4,elsewhere", "--models-file", tmp_path / "models.yaml")
    code, out, _ = cli("estimate", bench.folder, *given)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert {line[-1] for line in lines if line[1:2] == ["elsewhere"]} == {"unknown"}
    assert out.count("elsewhere: its cost") == 1
    assert ", without 1 model of unknown cost." in out
    assert (
        "elsewhere: its cost is unknown, because its registry entry lacks price, image_tokens and reply_tokens;" in out
    )


def test_a_model_of_no_file_is_estimated_and_what_it_lacks_is_said(cli: Cli, bench: Benchmark) -> None:
    given = "estimate", bench.folder, "--protocol", "independent", "--model-id", "gpt-4.1"
    code, out, _ = cli(*given)
    assert code == 0
    assert "Together" not in out
    assert (
        "gpt-4.1: its cost is unknown, because its registry entry lacks image_tokens and reply_tokens; add these fields"
        in out
    )
    (record,) = json.loads(cli(*given, "--json")[1])
    assert (record["cost_usd"], record["lacking"]) == (None, ["image_tokens", "reply_tokens"])
    blind = json.loads(cli(*given, "--blind", "--reply-tokens", 10, "--json")[1])[0]
    assert (blind["cost_usd"] > 0, blind["lacking"]) == (True, [])
    own = json.loads(cli("estimate", bench.folder, "--models", "m", "--api-base", "http://127.0.0.1:9/v1", "--json")[1])
    assert {(one["cost_usd"], *one["lacking"]) for one in own} == {(0.0, "image_tokens", "reply_tokens")}
    out = cli("estimate", bench.folder, "--models", "m", "--api-base", "http://127.0.0.1:9/v1")[1]
    assert (
        "m: its tokens are unknown, because its registry entry lacks image_tokens and reply_tokens; add these fields"
        in out
    )


def test_the_time_is_that_of_the_replies_asked_so_many_at_once(cli: Cli, bench: Benchmark) -> None:
    conversations = protocols.conversations(bench, "end_to_end")
    load = work(bench, "end_to_end", Modifiers(repeats=3))
    assert load.seconds(2, 1) == 2 * 3 * len(bench.items)
    assert load.seconds(2, 4) == pytest.approx(2 * 3 * len(bench.items) / 4)
    # One conversation after another is asked in turns however many are asked at once.
    assert load.seconds(2, 10_000) == 2 * max(map(len, conversations))
    given = ("estimate", bench.folder, "--models", "gpt-5.4", "--protocol", "independent")
    alone = len(bench.items) / 8
    assert f"Time: {alone:.0f} s if a reply takes 1 s, with 8 conversations at once" in cli(*given)[1]
    asked = (*given, "--seconds", 30, "--concurrency", 2)
    assert (
        f"Time: {15 * len(bench.items) / 60:.0f} min for each model, at 30 s a reply and 2 conversations"
        in cli(*asked)[1]
    )
    assert json.loads(cli(*asked, "--json")[1])[0]["time_s"] == 15 * len(bench.items)
    assert json.loads(cli(*given, "--json")[1])[0]["time_s"] is None


def test_a_batch_costs_half(cli: Cli, bench: Benchmark) -> None:
    given = ("estimate", bench.folder, "--models", "gpt-5.4,gemini-3.1-pro", "--protocol", "end_to_end", "--json")
    live, batch = (json.loads(cli(*given, *more)[1]) for more in ((), ("--batch",)))
    assert [one["cost_usd"] for one in batch] == pytest.approx([one["cost_usd"] / 2 for one in live])
    assert all(one["cost_usd"] > 0 for one in batch)


def test_without_the_key_the_oracle_protocols_are_left_out_and_said_to_be(cli: Cli, bench: Benchmark) -> None:
    (bench.folder / "answers.jsonl").unlink()
    code, out, err = cli("estimate", bench.folder, "--models", "gpt-5.4")
    assert code == 0
    assert "oracle_" not in out
    assert "left out" in err
    code, _, err = cli("estimate", bench.folder, "--models", "gpt-5.4", "--protocol", "oracle_passed")
    assert code == 2
    assert "needs the key" in err
