"""What is shown of a run while it goes on."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chexqa.contract.read_run import Turn
from chexqa.eval.cli import live_progress
from chexqa.eval.cli.live_progress import Pace, RunDisplay
from chexqa.eval.models.rate_limit import RateLimiter, TransientError
from chexqa.eval.runs.model_progress import NOT_ASKED, ModelProgress
from chexqa.files import terminal
from chexqa.files.terminal import PlainConsole

TURN = Turn(
    model="m[/]", protocol="end_to_end", case_id="c1", item_id="i0", repeat=0, rotation=0, blind=False, attempts=1,
    state="answered", parsed=(2,), raw="Answer: 2", finish_reason="stop",
    usage={"input_tokens": 3, "output_tokens": 1}, cost_usd=0.5, latency_s=0.1, provider_model="x",
    request_hash="0" * 64, image_hashes=(), started="2026-01-01", error=None,
)  # fmt: skip


def test_a_process_that_a_notebook_starts_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with live_progress.shown(terminal.messages()):
        pass
    assert capsys.readouterr().err == ""


def progress(items: int = 4) -> ModelProgress:
    return ModelProgress("m[/]", {(f"i{n}", 0, 0): NOT_ASKED for n in range(items)}, RateLimiter(8))


def shown(display: RunDisplay) -> str:
    console = PlainConsole(file=io.StringIO(), width=100)
    console.print(display.table())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_row_tells_turns_cost_places_and_trouble() -> None:
    async def fail(one: ModelProgress) -> None:
        for error in (TransientError("no", "429", 90.0), TransientError("no", "5xx")):
            one.limiter._opens_at = 0.0  # as after the pause
            try:
                async with one.limiter.acquire():
                    raise error
            except TransientError:
                pass

    display, one = RunDisplay(), progress()
    display.watch(one)
    asyncio.run(fail(one))
    one.take(TURN)
    one.take(replace(TURN, item_id="i1", state="refused", parsed=None))
    text = shown(display)
    for part in ("m[/]", "2/4", "50 %", "$1.00", "0 of 4 (8)", "1 x 429", "1 x 5xx", "1 refused", "Ctrl-C stops after"):
        assert part in text
    assert one.spent.tokens.whole == 8
    (line,) = display.lines()
    assert line.startswith("m[/]: 2 of 4 turns, ")
    one.limiter._opens_at, one.limiter._why = time.monotonic() + 41.9, "Retry-After"
    assert "waits 42 s (Retry-After)" in shown(display).replace("\n", " ").replace("  ", " ")


def test_the_known_part_of_a_cost_is_shown_and_what_never_came_costs_nothing() -> None:
    one = progress()
    one.take(replace(TURN, state="error", parsed=None, raw=None, latency_s=None, usage=None, cost_usd=None))
    assert (one.spent.usd.whole, one.spent.tokens.whole) == (0, 0)
    one.take(replace(TURN, cost_usd=None, usage=None))
    display = RunDisplay()
    display.watch(one)
    assert "unknown" in shown(display)
    assert "unknown cost" in next(display.lines())
    one.take(TURN)
    assert (one.spent.usd.whole, one.spent.tokens.whole) == (None, None)
    assert "≥ $0.50" in shown(display)
    assert ", at least $0.50, not counting 1 turn of unknown cost, " in next(display.lines())


def test_the_last_error_is_an_error_turn_s_if_there_is_one() -> None:
    one = progress()
    for item, state, error in (("i0", "overflow", "too long"), ("i1", "error", "boom"), ("i2", "empty", "no text")):
        one.take(replace(TURN, item_id=item, state=state, parsed=None, error=error))
        assert one.error == ("too long" if item == "i0" else "boom")


def test_the_pace_is_that_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(live_progress.time, "monotonic", lambda: now)
    pace = Pace(0)
    for now in range(1, 200):
        measured = pace.now(10 * min(int(now), 100))
        assert now > 100 or measured == pytest.approx(10)
    assert measured == 0


def test_without_a_terminal_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_progress, "PLAIN_EVERY_S", 0.01)
    err: Any = io.StringIO()
    with live_progress.shown(PlainConsole(file=err)) as watch:
        watch(progress())
        deadline = time.monotonic() + 20
        while "m[/]: 0 of 4 turns" not in err.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "m[/]: 0 of 4 turns" in err.getvalue()


def test_in_a_notebook_one_line_is_shown_and_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_lines: list[str] = []
    area = SimpleNamespace(update=lambda data, raw: shown_lines.append(data["text/plain"]))
    display = ModuleType("IPython.display")
    display.display = lambda data, raw, display_id: area  # type: ignore[attr-defined]
    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="a kernel"), display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(live_progress, "NOTEBOOK_EVERY_S", 0.01)
    with live_progress.shown(PlainConsole(file=io.StringIO())) as watch:
        one = progress(1)
        watch(one)
        while not shown_lines:
            time.sleep(0.01)
        one.take(TURN)
    assert shown_lines[0].startswith("m[/]: 0 of 1 turns")
    assert shown_lines[-1] == "m[/]: 1 of 1 turns, $0.50"


def test_a_long_start_says_what_is_loaded_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (True, False):
        file = io.StringIO()
        made = PlainConsole(file=file, width=60, force_terminal=is_terminal, color_system=None)
        monkeypatch.setattr(terminal, "messages", lambda made=made: made)
        with terminal.loading("bench"):
            pass
        assert ("loading bench …" in file.getvalue()) == is_terminal
