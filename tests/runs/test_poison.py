"""Whatever a server sends makes a turn that every command reads; what a log holds beside turns is set aside."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import math
import re
import shutil
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from handmade import Handmade, six_cases
from hypothesis import example, given, settings
from hypothesis import strategies as st
from raw_server import http, raw_server
from rest_long import rest_long
from turns import TURN

from chexqa import schemas
from chexqa.contract import benchmark, read_run, reply_limits
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, Option
from chexqa.contract.read_run import Turn
from chexqa.eval.models import client, failures, health_check, openai_http, rate_limit, registry
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Price
from chexqa.eval.prompts import answer_parser, parser_clean_up
from chexqa.eval.runs import foreign_lines, runner, turn_log
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.status import status
from chexqa.eval.scoring import grade
from chexqa.files import limits, locks
from chexqa.files.errors import InputError
from chexqa.files.jsonio import dump

Cli = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.xdist_group("poison")]
ONE_OF_TWO = Item("c/d", "c", 1, "detection", "perception", 1, "effusion", "?", (Option(1, "Yes"), Option(2, "No")),
                  False, (), ())  # fmt: skip
WORDS = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["\ud800", "\0" * 9, "x" * 3_000_000, "Answer: 1"]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -1, 10**30, 10**400, 1e308, math.nan, math.inf, True])
JSON = st.recursive(
    st.none() | NUMBERS | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
)


def completion(content: object = "Answer: 1", **fields: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"model": "m", "choices": [choice], **fields}).encode()


def read_back(turn: Turn) -> Turn | None:
    """The turn after writing and reading, as the log does both."""
    return read_run.turn_of((dump(turn.to_record()) + "\n").encode())


# What the writer writes, the reader reads


@given(
    text=WORDS, usage=st.none() | st.fixed_dictionaries({"input_tokens": JSON, "output_tokens": NUMBERS}),
    cost=NUMBERS, latency=NUMBERS, word=WORDS,
)  # fmt: skip
@example(text="\u0001" * 1_100_000, usage=None, cost=0, latency=0, word='"' * 3_000)
@settings(max_examples=25, deadline=None)
def test_whatever_a_turn_is_given_can_be_written_and_read(
    text: str, usage: Any, cost: Any, latency: Any, word: str
) -> None:
    given_turn = replace(TURN, raw=text, usage=usage, cost_usd=cost, latency_s=latency, finish_reason=word, error=word,
                         provider_model=word)  # fmt: skip
    turn = read_run.bounded(given_turn)
    assert read_back(turn) == turn == read_run.bounded(turn)
    assert len(dump(turn.to_record()).encode()) < limits.MAX_LINE_CHARACTERS / 8


@pytest.fixture(scope="module")
def litellm() -> Any:
    return client.load_litellm()


@given(
    st.fixed_dictionaries(
        {"choices": st.lists(JSON | st.fixed_dictionaries({
            "message": st.fixed_dictionaries({"content": JSON, "refusal": JSON}), "finish_reason": JSON}), max_size=2)},
        optional={"model": JSON, "usage": JSON | st.fixed_dictionaries({
            "prompt_tokens": NUMBERS, "completion_tokens": NUMBERS, "prompt_tokens_details": JSON,
            "completion_tokens_details": st.fixed_dictionaries({"reasoning_tokens": NUMBERS})})},
    ) | JSON
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_whatever_a_server_answers_becomes_a_turn_or_a_failure(litellm: Any, answer: Any) -> None:
    async def call() -> Any:
        return openai_http.filled(litellm, litellm.ModelResponse(), answer)

    model = registry.adhoc("m", "http://127.0.0.1:1/v1")
    price, lost = Price(1, 1e6), failures.FailedUsage()
    try:
        found = asyncio.run(client._attempt(model, price, functools.partial(call), 9, 1, lambda text: text, lost))
    except client.TransientError:
        found = client.Reply("error", 1, error="failed")
    reply = client.with_failed(found, lost, price)
    parsed, state = answer_parser.read(ONE_OF_TWO, reply.text, reply.finish_reason)
    turn = replace(TURN, state=state, parsed=parsed, raw=reply.text, finish_reason=reply.finish_reason,
                   usage=reply.usage, cost_usd=reply.cost_usd, provider_model=reply.provider_model,
                   failed_usage=reply.failed_usage)  # fmt: skip
    turn = read_run.bounded(turn)
    assert read_back(turn) == turn


@pytest.mark.parametrize(("outcome", "cost"), [("reply", None), ("error", 2.0)])
def test_only_a_turn_without_a_reply_costs_as_much_as_its_failed_attempts(outcome: Any, cost: float | None) -> None:
    """An empty reply in a file of batch results has no latency, and perhaps no token counts."""
    lost = failures.FailedUsage({"input_tokens": 1_000_000, "output_tokens": 1_000_000, "cached_tokens": 0})
    assert client.with_failed(client.Reply(outcome, 2), lost, Price(1, 1)).cost_usd == cost


def test_a_turn_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    async def write(turn: Turn) -> None:
        with turn_log.opened(tmp_path, "m/x") as opened:
            await opened.append(turn)

    unread = "a turn was not written, because reading it back from the log would give another turn"
    for odd, said in (
        ({"started": "2026-02-30"}, unread),
        ({"raw": "x" * limits.MAX_LINE_CHARACTERS}, unread),
        ({"cost_usd": 1e308}, "a turn to be written: field 'cost_usd'"),
    ):
        with pytest.raises(InputError, match=said):
            asyncio.run(write(replace(TURN, **odd)))  # type: ignore[arg-type]
    assert turn_log.log_path(tmp_path, "m/x").read_bytes() == b""


def test_the_schema_s_bounds_are_those_that_replies_are_brought_within() -> None:
    fields = schemas.schema("turn")["properties"]
    assert {about["maximum"] for about in fields["usage"]["properties"].values()} == {reply_limits.MAX_TOKENS}
    assert (fields["cost_usd"]["maximum"], fields["latency_s"]["maximum"]) == (
        reply_limits.MAX_USD,
        reply_limits.MAX_SECONDS,
    )
    assert f"{reply_limits.MAX_TEXT_CHARACTERS:,}" in fields["raw"]["description"]


# Texts


def test_a_long_text_keeps_its_ends_and_says_what_is_left_out() -> None:
    text = "a" * 1_500_000 + "b" * 1_500_000
    short = reply_limits.text(text) or ""
    assert len(short) <= reply_limits.MAX_TEXT_CHARACTERS
    begin, left_out, end = re.fullmatch(r"(a+)\n\[… ([\d,]+) characters were left out here …\]\n(b+)", short).groups()  # type: ignore[union-attr]
    assert len(begin) + int(left_out.replace(",", "")) + len(end) == len(text)
    assert reply_limits.text(short) == short
    assert reply_limits.text("a" * reply_limits.MAX_TEXT_CHARACTERS) == "a" * reply_limits.MAX_TEXT_CHARACTERS


@pytest.mark.parametrize(
    "text",
    ["x" * 2_000_000 + "\nAnswer: 2", "<think>" + "Answer: 1\n" * 300_000 + "</think>Answer: 2",
     "Let me think.</think>" + "x " * 900_000 + "Answer: 2"],
)  # fmt: skip
def test_what_is_kept_of_a_long_reply_reads_as_the_reply(text: str) -> None:
    assert (
        answer_parser.parse(ONE_OF_TWO, text) == answer_parser.parse(ONE_OF_TWO, reply_limits.text(text) or "") == (2,)
    )


def test_reasoning_that_never_ends_is_no_answer_however_long_it_is() -> None:
    assert answer_parser.parse(ONE_OF_TWO, "<think>" + "Answer: 1\n" * 300_000) is None


@given(st.text(st.characters() | st.sampled_from("eé\u0301\u0316한ᄒ가\u3099か１２Ⅻ\ufdfa "), max_size=1500))
def test_a_reply_of_usual_length_is_composed_as_a_whole(text: str) -> None:
    import unicodedata

    pieces = [len(piece) for piece in re.findall(r"[^\x00-\x7f]+", text)]
    if max(pieces, default=0) < 500:
        assert parser_clean_up.composed(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("text", ["\ufdfa" * 3_000_000, "a" + "\u0301\u0316" * 400_000, "٣" * 3_000_000])
def test_a_hostile_text_holds_nobody_up(text: str) -> None:
    began = time.perf_counter()
    assert answer_parser.parse(ONE_OF_TWO, text) is None
    assert time.perf_counter() - began < 5  # a hang took minutes


# Over HTTP


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Six cases, which no test changes."""
    folder = tmp_path_factory.mktemp("bench")
    return benchmark.load(six_cases(Handmade(folder)))


def ask(*pieces: bytes, endless: bytes = b"", timeout_s: float = 20, price: Price | None = None) -> client.Reply:
    """A question put to a server that answers these bytes, and then ``endless`` for ever."""

    def answer() -> Any:
        yield from pieces
        for _ in count() if endless else ():
            yield endless

    async def work(url: str) -> client.Reply:
        asker = client.Client(health_check._Tiny(), RetryPolicy(attempts=1, timeout_s=timeout_s))
        model = replace(registry.adhoc("hosted_vllm/m", url), price=price)
        message = health_check.Message("user", ("The picture:", health_check.PICTURE, health_check.QUESTION))
        try:
            return await asker.ask(model, [message])
        finally:
            await client.close()

    with raw_server(answer) as url:
        return asyncio.run(work(url))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "x-gzip"])
def test_a_packed_reply_is_unpacked_though_not_asked_for(coding: str) -> None:
    packed = zlib.compress(completion()) if coding == "deflate" else gzip.compress(completion())
    assert ask(http(packed, Content_Encoding=coding)).text == "Answer: 1"


def bomb(status: str, wbits: int) -> bytes:
    """32 MB in a few KB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    data = b"".join(packer.compress(b" " * 2**20) for _ in range(32)) + packer.flush()
    return http(data, status, Content_Encoding="gzip" if wbits > 15 else "deflate")


@pytest.mark.parametrize("status", ["200 OK", "500 No"])
@pytest.mark.parametrize("wbits", [15, 31])
def test_a_bomb_is_unpacked_no_further_than_the_bound(monkeypatch: pytest.MonkeyPatch, status: str, wbits: int) -> None:
    monkeypatch.setattr(openai_http, "MAX_REPLY_BYTES", 2**20)
    data = bomb(status, wbits)
    ask(http(completion()))  # what is imported now is not counted
    tracemalloc.start()
    try:
        reply = ask(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reply.outcome == "error"
    assert "a reply of more than 1 MB; the reply was not read" in (reply.error or "")
    assert peak < 16 * 2**20


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a chunked body": (CHUNKED, b"1000\r\n" + b"a" * 4096 + b"\r\n", "a reply of more than 1 MB"),
    "the name of a chunk": (CHUNKED + b"5;", b"a" * 4096, "no complete reply within 1 s"),
    "a body until the connection ends": (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 4096, "a reply of more than 1 MB"),
    "an error": (b"HTTP/1.1 400 No\r\n\r\n", b" " * 4096, "HTTP 400: a reply of more than 1 MB"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 100, "the connection to .* was interrupted"),
    "a header": (b"HTTP/1.1 200 OK\r\nA: ", b"a" * 4096, "the connection to .* was interrupted"),
    "continuations": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "no complete reply within 1 s"),
}


@pytest.mark.parametrize("case", rest_long(ENDLESS))
def test_a_reply_without_end_ends(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr(openai_http, "MAX_REPLY_BYTES", 2**20)
    start, endless, expected = ENDLESS[case]
    reply = ask(start, endless=endless, timeout_s=1 if "within" in expected else 20)
    assert reply.outcome == "error"
    assert re.match(expected, reply.error or ""), reply.error


REFUSED = {
    "packed as nobody can": (http(b"x", Content_Encoding="br"), "a reply compressed as 'br', which was not requested"),
    "packed twice": (http(b"x", Content_Encoding="gzip, gzip"), "a reply compressed as 'gzip, gzip'"),
    "packed and is not": (
        http(b"x" * 99, Content_Encoding="gzip"),
        "a reply that is not compressed as its header says (gzip)",
    ),
    "a number without end": (http(b'{"choices": ' + b"9" * 5000), "malformed reply: not JSON"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_said(case: str) -> None:
    data, expected = REFUSED[case]
    assert (ask(data).error or "").startswith(expected)


YEARS = ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Fri, 31 Dec 99999 23:59:59 +9999999999", "9" * 400, "-1",
         "nan", "1e308", "Mon, 01 Jan 0001 00:00:00 -9999", "x" * 5000, "²"]  # fmt: skip


@pytest.mark.parametrize("value", YEARS)
def test_an_absurd_retry_after_is_bounded_or_none(value: str) -> None:
    seconds = rate_limit.retry_after({"retry-after": value})
    assert seconds is None or 0 <= seconds <= rate_limit.LONGEST_WAIT_S
    assert ask(http(b"{}", "429 Slow", Retry_After=value.encode("latin-1", "ignore").decode("latin-1"))).error


def test_counts_and_costs_that_cannot_be_are_unknown() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2**63}
    reply = ask(http(completion(usage=usage)), price=Price(1, 1))
    assert (reply.outcome, reply.usage, reply.cost_usd) == ("reply", None, None)
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 10**30}}
    counts = {"input_tokens": 5, "output_tokens": 6, "reasoning_tokens": None, "cached_tokens": None}
    assert ask(http(completion(usage=usage))).usage == counts


def test_no_part_of_a_key_is_left_where_a_long_page_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-verysecret-0123456789abcdef"
    monkeypatch.setenv("CHEXQA_API_KEY", key)
    page = b" " * (failures.WORDS_BYTES - 12) + key.encode() + b" " * 100
    assert key[:8] not in (ask(http(page, "500 No")).error or "")


@pytest.mark.long
def test_a_run_over_poisonous_replies_is_graded(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    poisons = [
        completion("x" * 3_000_000 + "\nAnswer: 1", model="m" * 3_000_000),
        completion("\ufdfa" * 100_000, usage={"prompt_tokens": 2**63, "completion_tokens": 2**63}),
        completion().replace(b"stop", b"s" * 3_000_000),
        completion().replace(b"Answer", b"\\ud83dAnswer"),
        completion(usage={"prompt_tokens": 1, "completion_tokens": {"a": [1]}, "prompt_tokens_details": [1]}),
    ]
    replies = count()
    with raw_server(lambda: [http(poisons[next(replies) % len(poisons)])]) as url:
        code, _, err = cli("eval", bench.folder, "--model-id", "m", "--api-base", url, "-o", tmp_path / "run")
    assert code == 0, err
    for command in (("grade",), ("run", "status"), ("validate",), ("run", "repair")):
        code, out, err = cli(*command, tmp_path / "run")
        assert (code, err) == (0, ""), (command, out, err)
    assert all(
        len(turn.raw or "") <= reply_limits.MAX_TEXT_CHARACTERS for turn in read_run.load(tmp_path / "run").turns
    )


# Lines of a log that are no turns


@pytest.fixture(scope="module")
def finished(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    runner.run(order(bench, folder))
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run of one baseline, of the test's own."""
    return shutil.copytree(finished, tmp_path / "run")


def order(bench: Benchmark, folder: Path) -> RunConfig:
    return RunConfig(bench, (registry.load()["baseline/first"],), "end_to_end", folder)


def spoil(run: Path, *odd: bytes) -> tuple[Path, list[bytes]]:
    """Put odd lines in the place of the log's second, fourth, … line; returns its path and the lines before."""
    path = turn_log.log_path(run, "baseline/first")
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = list(lines)
    for place, line in enumerate(odd):
        damaged[2 * place + 1] = line + b"\n"
    path.write_bytes(b"".join(damaged))
    return path, lines


def changed(line: bytes, **fields: object) -> bytes:
    return json.dumps(json.loads(line) | fields).encode()


ODD = {
    "not JSON": (b'{"model": ', "not valid JSON"),
    "no UTF-8": (b"\xff\xfe", "not valid JSON"),
    "another record": (b'{"model": "baseline/first"}', "the field 'protocol' is missing"),
    "a list": (b"[1]", "[1] must be an object"),
    "nested": (b"[" * 3000, "not valid JSON"),
    "an absurd option": ({"parsed": [10**30]}, "of 64 bits"),
    "a broken number": ({"repeat": 1.5}, "1.5 must be a whole number"),
    "a day that is none": ({"started": "2026-02-30T00:00:00"}, "'2026-02-30T00:00:00' is not a time"),
    "an answer of nothing": ({"state": "answered", "parsed": []}, "'parsed': has no option number"),
    "an answer without numbers": ({"state": "answered", "parsed": None}, "'parsed': has no option number"),
    "words for a time": ({"started": "yesterday"}, "must be a text of the form"),
    "repeats": ({"repeat": 10**9}, "must be at most"),
    "attempts": ({"attempts": 2**63}, "of 64 bits"),
    "a negative cost": ({"cost_usd": "1"}, "'cost_usd'"),
    "a longer line than any": (b"x" * 5000, "is longer than 4,000 characters"),
}


@pytest.mark.parametrize("case", ODD)
def test_a_line_that_is_no_turn_is_set_aside_with_its_number(
    run: Path, bench: Benchmark, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    given_line, reason = ODD[case]
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 4000)
    path, lines = spoil(run)
    line = changed(lines[1], **given_line) if isinstance(given_line, dict) else given_line
    spoil(run, line)
    loaded = read_run.load(run)
    (aside,) = loaded.aside
    assert len(loaded.turns) == len(lines) - 1
    assert (aside.path, aside.count, aside.first_number) == (path, 1, 2)
    assert reason in str(aside)
    assert len(str(aside)) < 1000


def test_every_command_uses_the_rest_and_says_so(run: Path, cli: Cli) -> None:
    path, lines = spoil(run, b"nonsense", b"{}")
    sentence = f"{path}, line 2: not valid JSON"
    for command, expected in {
        ("grade", run, "--allow-partial"): 0,
        ("compare", run, run): 0,
        ("run", "status", run): 0,
        ("validate", run): 2,
    }.items():
        code, out, err = cli(*command)
        assert code == expected, (command, out, err)
        assert err.count(sentence) == 1, command
        assert "(and 1 more line). The line is left out, and the rest of the log is used" in err
    assert status(run)[0].set_aside == 2
    assert status(run)[0].done == len(lines) - 2
    assert "2 lines set aside" in cli("validate", run)[1]
    states = grade.grade_folders([run]).grades["state"].value_counts().rows_by_key("state")
    assert states["not_asked"] == [(2,)]


def test_what_was_set_aside_is_asked_again_and_nothing_else(run: Path, bench: Benchmark, cli: Cli) -> None:
    path, lines = spoil(run, b"nonsense", b"x" * 9000)
    damaged = path.read_bytes()
    code, out, err = cli("eval", bench.folder, "--models", "baseline/first", "-o", run, "--json")
    (record,) = json.loads(out)["models"]
    assert (code, record["asked_now"], record["unfinished"], record["set_aside"]) == (0, 2, 0, 2)
    assert "line 2: not valid JSON" in err
    assert path.read_bytes().startswith(damaged)
    assert len(read_run.load(run).turns) == len(lines)


@pytest.mark.parametrize("huge", [1e308, 10**400])
def test_numbers_that_cannot_be_are_unknown_and_cost_no_paid_turn(
    run: Path, bench: Benchmark, cli: Cli, huge: float
) -> None:
    path, lines = spoil(run)
    usage = {"input_tokens": 2**63, "output_tokens": 7}
    spoil(run, changed(lines[1], usage=usage, cost_usd=huge, latency_s=huge, raw="\ud83d\nAnswer: 1"))
    (turn,) = [turn for turn in read_run.read_log(path).turns if turn.usage]
    assert (turn.usage, turn.cost_usd, turn.latency_s) == ({"input_tokens": None, "output_tokens": 7}, None, None)
    assert turn.raw == "?\nAnswer: 1"
    for command in ("grade", "validate"):
        assert cli(command, run)[::2] == (0, "")
    assert cli("run", "status", run)[0] == 0
    assert runner.run(order(bench, run))[0].asked == 0


def test_whole_numbers_with_a_point_are_counted_with(run: Path, cli: Cli) -> None:
    _, lines = spoil(run)
    grades = cli("grade", run, "--json")[1]
    usage = {"input_tokens": 3.0, "output_tokens": 4.0}
    spoil(run, *(changed(line, repeat=0.0, rotation=0.0, attempts=1.0, usage=usage,
                         parsed=json.loads(line)["parsed"] and [float(n) for n in json.loads(line)["parsed"]])
                 for line in lines[1:20:2]))  # fmt: skip
    about = run / "run.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"repeats": 1.0, "rotations": 1.0}))
    assert (
        len([turn for turn in read_run.load(run).turns if turn.usage == {"input_tokens": 3, "output_tokens": 4}]) == 10
    )
    code, out, err = cli("grade", run, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out).keys() == json.loads(grades).keys()
    assert all(type(turn.repeat) is int for turn in read_run.load(run).turns)


def test_a_turn_of_a_newer_version_is_not_asked_again(run: Path, bench: Benchmark, cli: Cli) -> None:
    path, lines = spoil(run)
    spoil(run, changed(lines[1], mood="good"))
    assert cli("grade", run, "--allow-partial")[0] == 0
    code, _, err = cli("eval", bench.folder, "--models", "baseline/first", "-o", run)
    assert code == 2
    assert f"{path}, line 2: a newer version of chexqa wrote this line" in err
    assert 'unknown field "mood"' in err
    assert cli("run", "repair", run)[0] == 0
    assert cli("eval", bench.folder, "--models", "baseline/first", "-o", run)[0] == 0


def test_blank_lines_are_nothing(run: Path) -> None:
    _, lines = spoil(run, b"", b" ")
    assert read_run.load(run).aside == ()
    assert len(read_run.load(run).turns) == len(lines) - 2


# Repairing


def test_a_repair_moves_the_lines_and_keeps_everything(run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 4000)
    path, lines = spoil(run, b"nonsense", b"x" * 9000)
    path.chmod(0o600)
    damaged = path.read_bytes()
    before = sorted(entry.name for entry in path.parent.iterdir())
    code, out, err = cli("run", "repair", run, "--dry-run")
    assert (code, err, path.read_bytes()) == (0, "", damaged)
    assert f"{path}: would move 2 lines (9,010 bytes) into {path}.set-aside" in out
    assert sorted(entry.name for entry in path.parent.iterdir()) == before
    code, out, err = cli("run", "repair", run, "--json")
    (record,) = json.loads(out)
    assert (code, record["lines"], [one["line"] for one in record["first"]]) == (0, 2, [2, 4])
    assert path.read_bytes() == b"".join(line for place, line in enumerate(lines) if place not in (1, 3))
    beside = path.with_name(f"{path.name}.set-aside")
    assert [one.stat().st_mode & 0o777 for one in (path, beside)] == [0o600, 0o600]
    assert beside.read_bytes() == b"nonsense\n" + b"x" * 9000 + b"\n"
    repaired = {entry.name: entry.read_bytes() for entry in path.parent.iterdir() if entry.suffix != ".lock"}
    assert "nothing to repair" in cli("run", "repair", run)[1]
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir() if entry.suffix != ".lock"} == repaired
    spoil(run, b"more")
    assert cli("run", "repair", run)[0] == 0
    assert beside.read_bytes().endswith(b"x\nmore\n")


def test_a_repair_that_was_stopped_midway_goes_on_without_doubling(
    run: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lines = spoil(run, b"nonsense")
    real = foreign_lines._to_disk

    def stop_at_the_log(file: Any, place: Path, like: Path) -> None:
        if place == path:
            raise OSError(28, "No space left on device")
        real(file, place, like)

    damaged = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(foreign_lines, "_to_disk", stop_at_the_log)
        code, _, err = cli("run", "repair", run)
    assert (code, path.read_bytes()) == (3, damaged)
    assert "No space left on device" in err
    assert not list(path.parent.glob(".*"))
    assert cli("run", "repair", run)[0] == 0
    assert path.with_name(f"{path.name}.set-aside").read_bytes() == b"nonsense\n"
    assert len(read_run.read_log(path).turns) == len(lines) - 1


def test_a_log_that_is_being_written_is_not_touched(run: Path, cli: Cli) -> None:
    path, _ = spoil(run, b"nonsense")
    damaged = path.read_bytes()
    with locks.locked(path.with_suffix(".lock")):
        code, _, err = cli("run", "repair", run)
    assert (code, path.read_bytes()) == (2, damaged)
    assert "another process writes this log (process " in err
    assert cli("run", "repair", run.parent)[0] == 2


# What a run and its turns may ask for


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"rotations": 10**9}, "'rotations': 1000000000 must be at most"),
     ({"repeats": 10**30}, "of 64 bits"), ({"repeats": 2.5}, "2.5 must be a whole number"),
     ({"rotations": 10_000, "repeats": 10_000}, "the limit is 10,000,000"),
     ({"limit": 2**70}, "of 64 bits"), ({"seed": 10**400}, "of 64 bits")],
)  # fmt: skip
def test_a_run_that_asks_for_more_than_memory_holds_is_refused(
    run: Path, cli: Cli, fields: dict[str, Any], sentence: str
) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    code, _, err = cli("grade", run)
    assert code == 2
    assert sentence in err


def test_a_run_that_says_its_benchmark_has_an_endless_name_is_refused(run: Path, cli: Cli) -> None:
    path = run / "run.json"
    about = json.loads(path.read_text())
    about["benchmark"]["path"] = "/" + "x" * 5000
    path.write_text(json.dumps(about))
    assert cli("grade", run)[0] == 2
    assert cli("run", "status", run)[0] == 0


@pytest.mark.parametrize("option", ["--repeats", "--rotate"])
def test_more_turns_than_a_run_may_have_are_not_begun(bench: Benchmark, tmp_path: Path, cli: Cli, option: str) -> None:
    for place, number in (("-o", 10**9), ("-o", 10**400), ("--dry-run", 10**9)):
        assert cli("eval", bench.folder, "--models", "baseline/first", place, tmp_path / "x", option, number)[0] == 2
    assert cli("estimate", bench.folder, "--models", "gpt-5.4", option, 10**400)[0] == 2
    many = ("--repeats", 10_000, "--rotate", 10_000)
    code, _, err = cli("eval", bench.folder, "--models", "baseline/first", "-o", tmp_path / "x", *many)
    assert (code, (tmp_path / "x").exists()) == (2, False)
    assert "the limit is 10,000,000" in err


MISFITS = [
    ({"parsed": [65]}, "field 'parsed': 65 is not an option of the item (they are 1 to 64)"),
    ({"order": [1, 1]}, "field 'order': [1, 1] is not an order of the item's 64 options"),
    ({"item_id": "c/x"}, "field 'item_id': 'c/x' is not an item of the benchmark"),
]


@pytest.mark.parametrize(("fields", "said"), MISFITS)
def test_a_turn_that_the_benchmark_cannot_have_is_named_with_its_line_and_moved(
    run: Path, cli: Cli, fields: dict[str, Any], said: str
) -> None:
    path, lines = spoil(run)
    place = next(place for place, line in enumerate(lines) if b"grid_cell" in line)
    lines[place] = changed(lines[place], state="answered", **fields) + b"\n"
    path.write_bytes(b"".join(lines))
    for command in ("grade", "validate"):
        code, out, err = cli(command, run)
        assert code == 2
        assert f"{path}, line {place + 1}: {said}; correct it there, or move the line out with 'chexqa run" in out + err
    assert f"line {place + 1}: {said}" in cli("run", "repair", run)[1]
    assert cli("validate", run)[0] == 0
    assert Path(f"{path}.set-aside").read_bytes() == lines[place]


@pytest.mark.parametrize(
    "field",
    ["price: {input_per_million_usd: 1.0e+308, output_per_million_usd: 1}", "reply_tokens: 1000000000000000000000000",
     "image_tokens: {rule: tiles, side: 1, tokens: 1, limit: 1000000000}"],
)  # fmt: skip
def test_absurd_numbers_of_a_models_file_are_refused(bench: Benchmark, tmp_path: Path, cli: Cli, field: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        f"models:\n- {{name: n, litellm: openai/n, domain: general, access: open}}\n- {{name: m, like: n, {field}}}\n"
    )
    code, _, err = cli("estimate", bench.folder, "--models", "m", "--models-file", path)
    assert code == 2
    assert "must be at most" in err or "of 64 bits" in err or "is not null" in err
