"""Rate limit of one model: waits between attempts, fewer simultaneous attempts after a 429, pauses during an outage.

- HTTP status 429: the number of simultaneous attempts is halved; it grows again with each answer. If 429 goes on, the
  last rule of this list holds.
- Retry-After header: no attempt begins before the given time, up to a bound.
- Several failures in a row: after each pause, one attempt is made. It asks a question that has not been asked yet, if
  there is one. If the endpoint stays down, no more questions are asked.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import tenacity

Failure = Literal["429", "5xx", "timeout", "connection", "malformed"]
DOWN = ("5xx", "timeout", "connection")
LIMITED = "429"
LONGEST_WAIT_S = 86_400.0
T = TypeVar("T")


class TransientError(Exception):
    """Failure after which another attempt may succeed.

    - ``kind``: the kind of failure.
    - ``retry_after``: the seconds that the server asked the client to wait; None if it did not ask.
    """

    def __init__(self, text: str, kind: Failure, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.retry_after = retry_after


class ClosedError(Exception):
    """Error raised for a question to a model that this command has stopped asking; the text says why it stopped."""


@dataclass(frozen=True)
class RetryPolicy:
    """Settings for retries.

    - ``attempts``: the largest number of attempts at a question.
    - ``timeout_s``: the time limit of an attempt.
    - ``backoff_s``, ``backoff_limit_s``: the first and the longest wait between attempts; waits double.
    - ``retry_after_limit_s``: the longest wait that a server may ask for.
    """

    attempts: int = 6
    timeout_s: float = 600.0
    backoff_s: float = 1.0
    backoff_limit_s: float = 60.0
    retry_after_limit_s: float = 120.0

    def wait_s(self, attempt: int, error: BaseException | None) -> float:
        """Return the seconds to wait after attempt number ``attempt`` failed with ``error``."""
        if isinstance(error, TransientError) and error.retry_after is not None:
            return min(error.retry_after, self.retry_after_limit_s)
        longest = min(self.backoff_s * 2 ** (attempt - 1), self.backoff_limit_s)
        return float(longest) * random.uniform(0.5, 1.0)  # random, so that retries spread out


@dataclass(frozen=True)
class OutagePolicy:
    """Settings for an endpoint that is down, or that answers only 429.

    - ``failures``: the number of failures in a row after which the endpoint counts as down.
    - ``pause_s``, ``pause_limit_s``: the first and the longest pause between attempts; pauses double.
    - ``give_up_s``: the seconds after which the endpoint is given up.
    - ``unknown_give_up_s``: the same for an endpoint that has never answered, not even 429 (probably a wrong address).
    """

    failures: int = 5
    pause_s: float = 5.0
    pause_limit_s: float = 300.0
    give_up_s: float = 1800.0
    unknown_give_up_s: float = 30.0


class Pause(NamedTuple):
    """Seconds until the limiter opens again, and the reason why it is closed."""

    seconds: float
    why: str


class RateLimiter:
    """Limiter that gives out slots for simultaneous attempts at one model.

    - ``failures``: the number of failures by kind.
    - ``closed``: the reason why no more attempts begin, or None.
    - ``given_up``: True if the endpoint stayed down.
    - ``on_pause``: called at the beginning of each pause of an endpoint that seems down.
    """

    def __init__(
        self, most: int, patience: OutagePolicy | None = None, known: bool = False, retry_after_limit_s: float = 120.0
    ) -> None:
        """Start with ``most`` slots, the largest number; ``known`` is True if the model has answered before."""
        self.most = most
        self.in_flight = 0
        self.failures: Counter[str] = Counter()
        self.closed: str | None = None
        self.given_up = False
        self.on_pause: Callable[[], object] = lambda: None
        self._patience = patience or OutagePolicy()
        self._known = known
        self._retry_after_limit_s = retry_after_limit_s
        self._limit = float(most)
        self._cut_at = self._paused_at = self._opens_at = float("-inf")
        self._why = ""
        self._in_a_row = self._pauses = 0
        self._down_since: float | None = None
        self._is_limited = False  # whether each failure in the row is a 429
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closing = asyncio.Event()
        self._door = asyncio.Lock()

    @property
    def limit(self) -> int:
        """Return the present number of slots; 1 while the endpoint is down."""
        return 1 if self._down_since is not None else int(self._limit)

    @property
    def pause(self) -> Pause | None:
        """Return the current pause, or None."""
        seconds = self._opens_at - time.monotonic()
        return Pause(seconds, self._why) if seconds > 0 and not self.closed else None

    @asynccontextmanager
    async def acquire(self, first: bool = False) -> AsyncIterator[None]:
        """Wait for a free slot and keep it during an attempt; raise ``ClosedError`` if the limiter is closed first.

        ``first`` is True for the first attempt at a question. While the endpoint seems down, it goes before the others.
        """
        # Attempts begin one at a time, so each request is sent before the next one is prepared. Requests prepared in
        # one round of the event loop would all be sent only after the last of them is ready.
        async with self._door:
            await asyncio.sleep(0)
        await self._enter(first)
        began = time.monotonic()
        try:
            yield
        except TransientError as error:
            self._failed(error, began)
            raise
        else:
            self._answered()
        finally:
            self.in_flight -= 1
            self._wake()

    async def sleep(self, seconds: float) -> None:
        """Wait without taking a slot; raise ``ClosedError`` as soon as the limiter is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        self._check_open()

    def close(self, why: str) -> None:
        """Start no more attempts, but let attempts in flight end; ``why`` is the reason."""
        self.closed = self.closed or why
        self._closing.set()
        self._wake()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(self.closed)

    async def _enter(self, first: bool) -> None:
        self._check_open()
        while not self._free():
            turn = asyncio.get_running_loop().create_future()
            if first and self._down_since is not None:
                self._waiting.appendleft(turn)
            else:
                self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()  # pass on the slot that this attempt may just have got
                raise
            self._check_open()
        self.in_flight += 1

    def _free(self) -> int:
        """Return how many attempts may begin now."""
        return max(0, self.limit - self.in_flight) if time.monotonic() >= self._opens_at else 0

    def _wake(self) -> None:
        """Resume waiting attempts: as many as there are free slots, or all if the limiter is closed."""
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

    def _failed(self, error: TransientError, began: float) -> None:
        """Count a failure, and adapt the number of slots and the pauses."""
        # The last cut or pause already accounts for attempts that began before it.
        self.failures[error.kind] += 1
        now, is_limited = time.monotonic(), error.kind == LIMITED
        if is_limited:
            self._known = True
        if began > self._paused_at and (began > self._cut_at if is_limited else error.kind in DOWN):
            self._is_limited = is_limited and (self._is_limited or not self._in_a_row)
            self._in_a_row += 1
            if is_limited:
                self._limit, self._cut_at = max(1.0, self._limit / 2), now
            if self._down_since is not None or self._in_a_row >= self._patience.failures:
                self._is_down(now)
        if error.retry_after is not None:
            self._shut(now, min(error.retry_after, self._retry_after_limit_s), "Retry-After")

    def _is_down(self, now: float) -> None:
        """Begin the next pause, or give the endpoint up."""
        since = self._down_since = now if self._down_since is None else self._down_since
        patience = self._patience
        longest = patience.give_up_s if self._known else min(patience.give_up_s, patience.unknown_give_up_s)
        left = longest - (now - since)
        if left <= 0:
            self.given_up = not self.closed
            what = "its server answered only HTTP 429" if self._is_limited else "every attempt failed"
            self.close(f"the model was given up because {what} for {now - since:,.0f} s")
            return
        seconds = min(patience.pause_s * 2**self._pauses, patience.pause_limit_s, left)
        self._pauses += 1
        self._paused_at = now
        self._shut(now, seconds, "only 429" if self._is_limited else "model down")
        if not self._is_limited:  # a limit of requests holds for all questions
            self.on_pause()

    def _shut(self, now: float, seconds: float, why: str) -> None:
        if now + seconds <= self._opens_at:
            return
        self._opens_at, self._why = now + seconds, why
        # Slightly later, so the limiter is certainly open by then.
        asyncio.get_running_loop().call_later(seconds + 0.001, self._wake)


async def retried(attempt: Callable[[], Awaitable[T]], policy: RetryPolicy, limiter: RateLimiter) -> T:
    """Return the result of the first attempt that succeeds.

    Raise the last ``TransientError`` after ``policy.attempts`` attempts, and ``ClosedError`` if the limiter is closed
    during a wait.
    """
    # Most questions need one attempt, and tenacity's own time is a fifth of a fast question's. So tenacity starts only
    # after a failure, which counts as its first attempt.
    try:
        return await attempt()
    except TransientError as error:
        first: TransientError | None = error
    async for further in tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(policy.attempts),
        sleep=limiter.sleep,
        wait=lambda state: policy.wait_s(state.attempt_number, state.outcome.exception() if state.outcome else None),
        retry=tenacity.retry_if_exception_type(TransientError),
        reraise=True,
    ):
        with further:
            if first is not None:
                failure, first = first, None
                raise failure
            return await attempt()
    raise AssertionError("tenacity neither returned nor raised")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the header Retry-After asks to wait, at most one day; None without a readable header."""
    # LiteLLM's proxy sends this header under another name.
    value = str(headers.get("retry-after") or headers.get("llm_provider-retry-after") or "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError, OverflowError):  # not a date, or a date in a year that no clock has
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if math.isfinite(seconds) else None
