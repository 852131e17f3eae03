"""Display of each model's progress: a live row on a terminal, a live line in a notebook, or a line every 30 s; then a
summary.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from chexqa.eval.runs import budget
from chexqa.eval.runs.conversations import Watch
from chexqa.eval.runs.model_progress import NOT_ASKED, ModelProgress
from chexqa.files.jsonio import Record
from chexqa.files.terminal import Name, console
from chexqa.files.text import shown as shown_text

PLAIN_EVERY_S = 30.0
NOTEBOOK_EVERY_S = 1.0
WINDOW_S = 60.0
QUIET_STATES = (NOT_ASKED, "answered")


@contextmanager
def shown(err: Console) -> Iterator[Watch]:
    """Show each model's progress on the console ``err`` during a run; yield the function to call after each turn."""
    display = RunDisplay()
    if err.is_terminal:
        with Live(get_renderable=display.table, console=err, refresh_per_second=4):
            yield display.watch
        return
    output = _notebook_output()
    over = threading.Event()
    tick, every_s = (partial(_print_lines, display, err), PLAIN_EVERY_S) if output is None else (
        partial(_update, display, output), NOTEBOOK_EVERY_S)  # fmt: skip
    ticker = threading.Thread(target=contextvars.copy_context().run, args=(_repeat, tick, every_s, over), daemon=True)
    ticker.start()
    try:
        yield display.watch
    finally:
        over.set()
        ticker.join()
        if output is not None:
            tick()


def _repeat(tick: Callable[[], None], every_s: float, over: threading.Event) -> None:
    while not over.wait(every_s):
        tick()


def _print_lines(display: RunDisplay, err: Console) -> None:
    for line in display.lines():
        err.print(line, soft_wrap=True)


def _update(display: RunDisplay, output: Any) -> None:
    """Show the present lines in a notebook, in place of the earlier ones."""
    output.update({"text/plain": shown_text("\n".join(display.lines(with_done=True)))}, raw=True)


def _notebook_output() -> Any | None:
    """Return a new output area of the notebook's cell that runs now; None outside notebooks."""
    ipython = sys.modules.get("IPython")  # a notebook's kernel has imported it
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)


class RunDisplay:
    """Progress and rate of each model of a run; it can be read from a thread other than the run's."""

    def __init__(self) -> None:
        """Create an empty display."""
        self._models: dict[str, ModelProgress] = {}
        self._paces: dict[str, Pace] = {}

    def watch(self, progress: ModelProgress) -> None:
        """Record a model's progress."""
        if progress.model not in self._models:
            self._paces[progress.model] = Pace(progress.asked)
            self._models[progress.model] = progress

    def table(self) -> Table:
        """Return a table with a row for each model, in the order of their first turns."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), caption_justify="left")
        table.add_column("model", overflow="fold", max_width=28)
        for head in ("turns", "", "rate", "cost", "at once", "left"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("trouble", overflow="fold", style="yellow")
        for name, progress in list(self._models.items()):
            pace = self._paces[name].now(progress.asked)
            done = progress.total - progress.counts[NOT_ASKED]
            places = _places(progress) if progress.counts[NOT_ASKED] and not progress.stopped else ""
            table.add_row(
                Name(name), f"{done:,}/{progress.total:,}", f"{_percent(done, progress.total)} %", _rate(pace),
                progress.spent.usd.cell(f"${progress.spent.usd.known:,.2f}"), places, _left(progress, pace),
                Text(trouble(progress)),
            )  # fmt: skip
        table.caption = Text(self._remark(), style="dim")
        return table

    def lines(self, with_done: bool = False) -> Iterator[str]:
        """Yield a line of text with each model's progress and pace; include finished models only with ``with_done``."""
        for name, progress in list(self._models.items()):
            done = progress.total - progress.counts[NOT_ASKED]
            is_done = not progress.counts[NOT_ASKED] or progress.stopped is not None
            if is_done and not with_done:
                continue
            pace = self._paces[name].now(progress.asked)
            parts = [
                f"{done:,} of {progress.total:,} turns",
                "" if is_done else _rate(pace),
                progress.spent.cost_said(),
            ]
            parts += [] if is_done else [f"{_places(progress)} at once", f"{_left(progress, pace)} left"]
            parts += [trouble(progress)]
            yield f"{name}: {', '.join(part for part in parts if part)}"

    def _remark(self) -> str:
        in_flight = sum(progress.limiter.in_flight for progress in self._models.values())
        if any(progress.stopped for progress in self._models.values()) and in_flight:
            return f"stopping after the turns in flight ({in_flight}); Ctrl-C stops at once"
        return "Ctrl-C stops after the turns in flight; a second Ctrl-C stops at once."


def print_summary(progress: ModelProgress) -> None:
    """Print a model's states, cost, errors and remarks at the end of a command."""
    out = console()
    counts = Counter({state.replace("_", " "): count for state, count in progress.counts.items()})
    if progress.pending:
        counts["not asked"] -= progress.pending
        counts["waiting for results"] = progress.pending
    states = ", ".join(f"{count:,} {state}" for state, count in counts.most_common() if count > 0)
    out.print(f"{progress.model}: {states} ({progress.spent.cost_said()})", soft_wrap=True)
    if progress.stopped is not None:
        out.print(f"  stopped: {progress.stopped}", soft_wrap=True)
    if progress.error is not None:
        out.print(f"  last error: {progress.error}", soft_wrap=True)
    if progress.unfinished and progress.limiter.failures:
        out.print(f"  failed attempts: {', '.join(_failures(progress))}", soft_wrap=True)
    for said in filter(None, (progress.answerers.remark(), budget.remark(progress.spent.uncounted))):
        out.print(f"  {said}", style="yellow", soft_wrap=True)


def record(progress: ModelProgress) -> Record:
    """Return a model's states, cost, errors and remarks as JSON."""
    return {
        "model": progress.model,
        "turns": progress.total,
        "states": {state: count for state, count in progress.counts.items() if count},
        "unfinished": progress.unfinished,
        "asked_now": progress.asked,
        "set_aside": progress.set_aside,
        **progress.spent.to_record(),
        "failed_attempts": dict(progress.limiter.failures),
        "stopped": progress.stopped,
        "last_error": progress.error,
        "note": progress.answerers.remark(),
    }


class Pace:
    """Rate of a model over the last minute, in turns (answered questions) per second."""

    def __init__(self, asked: int) -> None:
        """Start measuring now, with ``asked`` turns asked so far."""
        self._marks = deque([(time.monotonic(), asked)])

    def now(self, asked: int) -> float:
        """Return the rate in turns per second; ``asked`` is the number of turns asked so far."""
        now = time.monotonic()
        self._marks.append((now, asked))
        while len(self._marks) > 2 and self._marks[1][0] < now - WINDOW_S:
            self._marks.popleft()
        began, before = self._marks[0]
        return (asked - before) / (now - began) if now > began else 0.0


def trouble(progress: ModelProgress) -> str:
    """Return the text that says what hinders a model: the stop or pause, failed attempts, unanswered questions.

    Failed attempts are counted by kind of failure, and unanswered questions by state.
    """
    pause = progress.limiter.pause
    parts = [progress.stopped or (f"waits {pause.seconds:,.0f} s ({pause.why})" if pause else "")]
    parts += _failures(progress)
    parts += [
        f"{count:,} {state}" for state, count in progress.counts.most_common() if state not in QUIET_STATES and count
    ]
    return ", ".join(part for part in parts if part)


def _failures(progress: ModelProgress) -> list[str]:
    return [f"{count:,} x {kind}" for kind, count in progress.limiter.failures.most_common()]


def _percent(done: int, total: int) -> int:
    """Return the share done in percent, rounded down: 100 means that nothing is left."""
    return 100 * done // total if total else 100


def _rate(pace: float) -> str:
    if pace == 0:
        return "–"
    return f"{pace:.1f}/s" if pace >= 1 else f"{60 * pace:.1f}/min"


def _places(progress: ModelProgress) -> str:
    limiter = progress.limiter
    return (
        f"{limiter.in_flight} of {limiter.limit}"
        if limiter.limit == limiter.most
        else f"{limiter.in_flight} of {limiter.limit} ({limiter.most})"
    )


def _left(progress: ModelProgress, pace: float) -> str:
    """Return the time left at this pace as hours:minutes:seconds."""
    open_turns = progress.counts[NOT_ASKED]
    if progress.stopped or not open_turns:
        return ""
    if pace == 0:
        return "–"
    minutes, seconds = divmod(round(open_turns / pace), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02}:{seconds:02}"
