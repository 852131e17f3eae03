"""How fast one model may be asked: fewer at once when its server says so, not at all while it is down.

Every attempt at a question takes a place at the model's gate. A 429 halves the places and answers win them back one by
one; Retry-After holds the gate shut, within bounds; failures in a row that say the endpoint is down shut it for growing
pauses, after each of which one attempt goes ahead to see. An endpoint that stays down is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

Failure = Literal["429", "5xx", "timeout", "connection", "malformed"]
DOWN = ("5xx", "timeout", "connection")


class PassingError(Exception):
    """A failure that may pass: worth another attempt, after ``retry_after`` seconds where the server said so."""

    def __init__(self, text: str, kind: Failure, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.retry_after = retry_after


class ClosedError(Exception):
    """The model is asked nothing more in this call."""


@dataclass(frozen=True)
class Patience:
    """With an endpoint that is down.

    It is held to be down after ``failures`` in a row. Pauses double from ``pause_s`` up to ``pause_limit_s``; after
    ``give_up_s`` seconds it is given up, or after ``unknown_give_up_s`` where it never answered: an address is sooner
    wrong than a server is down.
    """

    failures: int = 5
    pause_s: float = 5.0
    pause_limit_s: float = 300.0
    give_up_s: float = 1800.0
    unknown_give_up_s: float = 30.0


class Pause(NamedTuple):
    """Seconds until the gate opens again, and why it is shut."""

    seconds: float
    why: str


class Gate:
    """The places for attempts at one model; ``failures`` counts them by kind, ``closed`` says why all is over."""

    def __init__(
        self, most: int, patience: Patience | None = None, known: bool = False, retry_after_limit_s: float = 120.0
    ) -> None:
        """``most`` places at first and ever; ``known``: whether the model has answered before.

        A server's Retry-After is obeyed up to ``retry_after_limit_s``.
        """
        self.most = most
        self.in_flight = 0
        self.failures: Counter[str] = Counter()
        self.closed: str | None = None
        self._patience = patience or Patience()
        self._known = known
        self._retry_after_limit_s = retry_after_limit_s
        self._limit = float(most)
        self._cut_at = self._paused_at = self._opens_at = float("-inf")
        self._why = ""
        self._in_a_row = self._pauses = 0
        self._down_since: float | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closing = asyncio.Event()
        self._door = asyncio.Lock()

    @property
    def places(self) -> int:
        """How many attempts may be in flight now, pauses aside."""
        return 1 if self._down_since is not None else int(self._limit)

    @property
    def pause(self) -> Pause | None:
        """The pause in force, if any."""
        seconds = self._opens_at - time.monotonic()
        return Pause(seconds, self._why) if seconds > 0 and not self.closed else None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A place for one attempt, which ends well or with ``PassingError``; waits for it. Raises ``ClosedError``."""
        # One after the other, so that each is sent before the next is made ready: many made ready in one round of
        # the event loop would all be sent, answered and written down no sooner than the last of them.
        async with self._door:
            await asyncio.sleep(0)
        await self._enter()
        began = time.monotonic()
        try:
            yield
        except PassingError as error:
            self._failed(error, began)
            raise
        else:
            self._answered()
        finally:
            self.in_flight -= 1
            self._wake()

    async def sleep(self, seconds: float) -> None:
        """Wait outside the gate; ``ClosedError`` as soon as it is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        self._check_open()

    def close(self, why: str) -> None:
        """Let attempts in flight end and no other begin; the first reason stays."""
        self.closed = self.closed or why
        self._closing.set()
        self._wake()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(self.closed)

    async def _enter(self) -> None:
        self._check_open()
        while not self._free():
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()  # the place that may have come just now is another's
                raise
            self._check_open()
        self.in_flight += 1

    def _free(self) -> int:
        """How many attempts may begin now."""
        return max(0, self.places - self.in_flight) if time.monotonic() >= self._opens_at else 0

    def _wake(self) -> None:
        """Let as many go on as there are places for; all, when closed."""
        free = len(self._waiting) if self.closed else self._free()
        while self._waiting and free:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1

    def _answered(self) -> None:
        self._known = True
        self._is_up()
        self._limit = min(self.most, self._limit + 1 / self._limit)

    def _is_up(self) -> None:
        self._in_a_row = self._pauses = 0
        self._down_since = None

    def _failed(self, error: PassingError, began: float) -> None:
        """Draw conclusions; an attempt from before the last cut or pause says nothing that led not to it already."""
        self.failures[error.kind] += 1
        now = time.monotonic()
        if error.kind == "429":
            self._is_up()
            if began > self._cut_at:
                self._limit, self._cut_at = max(1.0, self._limit / 2), now
        elif error.kind in DOWN and began > self._paused_at:
            self._in_a_row += 1
            if self._down_since is not None or self._in_a_row >= self._patience.failures:
                self._is_down(now)
        if error.retry_after is not None:
            self._shut(now, min(error.retry_after, self._retry_after_limit_s), "Retry-After")

    def _is_down(self, now: float) -> None:
        """Pause, longer than the last time, or give up."""
        since = self._down_since = now if self._down_since is None else self._down_since
        left = (self._patience.give_up_s if self._known else self._patience.unknown_give_up_s) - (now - since)
        if left <= 0:
            self.close(f"given up: its endpoint failed for {now - since:,.0f} s")
            return
        seconds = min(self._patience.pause_s * 2**self._pauses, self._patience.pause_limit_s, left)
        self._pauses += 1
        self._paused_at = now
        self._shut(now, seconds, "endpoint down")

    def _shut(self, now: float, seconds: float, why: str) -> None:
        if now + seconds <= self._opens_at:
            return
        self._opens_at, self._why = now + seconds, why
        # A little later than the clock says, so that the gate is open by then.
        asyncio.get_running_loop().call_later(seconds + 0.001, self._wake)
