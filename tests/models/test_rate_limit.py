"""The limiter before a model's endpoint: places, pauses, giving up."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexqa.eval.models.rate_limit import ClosedError, Failure, OutagePolicy, RateLimiter, TransientError

QUICK = OutagePolicy(failures=3, pause_s=0.02, pause_limit_s=0.05, give_up_s=0.3, unknown_give_up_s=0.1)


def play(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


async def fail(limiter: RateLimiter, kind: Failure, retry_after: float | None = None) -> None:
    with pytest.raises(TransientError):
        async with limiter.acquire():
            raise TransientError("no", kind, retry_after)


async def answer(limiter: RateLimiter) -> None:
    async with limiter.acquire():
        await asyncio.sleep(0)


def test_a_burst_of_429_from_attempts_in_flight_together_halves_once() -> None:
    async def work() -> None:
        limiter = RateLimiter(16, OutagePolicy(failures=99))
        started, go = [], asyncio.Event()

        async def attempt() -> None:
            with suppress(TransientError):
                async with limiter.acquire():
                    started.append(1)
                    await go.wait()
                    raise TransientError("slow down", "429")

        tasks = [asyncio.create_task(attempt()) for _ in range(16)]
        while len(started) < 16:
            await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*tasks)
        assert limiter.limit == 8
        await fail(limiter, "429")
        assert limiter.limit == 4
        for _ in range(5):
            await fail(limiter, "429")
        assert limiter.limit == 1

    play(work())


def test_answers_win_a_place_back_for_every_place_s_worth_of_them() -> None:
    async def work() -> None:
        limiter = RateLimiter(8)
        await fail(limiter, "429")
        counts = []
        for _ in range(40):
            await answer(limiter)
            counts.append(limiter.limit)
        assert counts[:5] == [4, 4, 4, 4, 5]
        assert counts == sorted(counts)
        assert counts[-1] == 8

    play(work())


@given(st.lists(st.sampled_from(["answer", "429", "malformed"]), max_size=60), st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_never_are_more_attempts_in_flight_than_places_and_never_fewer_places_than_one(
    kinds: list[Any], most: int
) -> None:
    async def work() -> None:
        limiter = RateLimiter(most, OutagePolicy(failures=99))
        highest = 0

        async def attempt(kind: Any) -> None:
            nonlocal highest
            try:
                async with limiter.acquire():
                    highest = max(highest, limiter.in_flight)
                    assert 1 <= limiter.limit <= most
                    await asyncio.sleep(0)
                    if kind != "answer":
                        raise TransientError("no", kind)
            except TransientError:
                pass

        await asyncio.gather(*(attempt(kind) for kind in kinds))
        assert highest <= most
        assert limiter.in_flight == 0
        assert limiter.failures.total() == sum(kind != "answer" for kind in kinds)

    play(work())


def test_retry_after_shuts_the_gate_for_all_within_bounds_and_is_shown() -> None:
    async def work() -> None:
        limiter = RateLimiter(4, retry_after_limit_s=0.1)
        await fail(limiter, "429", 3600)
        pause = limiter.pause
        assert pause is not None
        assert pause.why == "Retry-After"
        assert 0.05 < pause.seconds <= 0.1
        began = time.monotonic()
        await answer(limiter)
        assert time.monotonic() - began > 0.05
        assert limiter.pause is None

    play(work())


def test_failures_in_a_row_pause_the_model_and_one_attempt_at_a_time_sees_whether_it_is_back() -> None:
    async def work() -> None:
        limiter = RateLimiter(4, QUICK)
        for kind in ("5xx", "connection"):
            await fail(limiter, kind)
        assert limiter.pause is None
        await fail(limiter, "timeout")
        assert limiter.pause is not None
        assert limiter.pause.why == "model down"
        assert limiter.limit == 1
        tasks = [asyncio.create_task(answer(limiter)) for _ in range(4)]
        await asyncio.gather(*tasks)
        assert limiter.limit == 4

    play(work())


def test_only_an_answer_between_failures_shows_that_the_endpoint_is_up() -> None:
    async def work() -> None:
        limiter = RateLimiter(4, QUICK)
        for _ in range(4):
            await fail(limiter, "5xx")
            await fail(limiter, "429")
            await fail(limiter, "malformed")
            await answer(limiter)
        assert limiter.pause is None
        for kind in ("429", "5xx", "429"):
            await fail(limiter, kind)
        assert limiter.pause is not None
        assert limiter.pause.why == "model down", "not only 429"

    play(work())


def test_an_endpoint_that_never_answered_is_given_up_no_later_than_one_that_did() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, replace(QUICK, give_up_s=0.0, unknown_give_up_s=30.0))
        for _ in range(3):
            await fail(limiter, "connection")
        assert limiter.given_up

    play(work())


@pytest.mark.parametrize(("known", "seconds"), [(False, 0.1), (True, 0.3)])
def test_an_endpoint_that_stays_down_is_given_up_sooner_where_it_never_answered(known: bool, seconds: float) -> None:
    async def work() -> None:
        limiter = RateLimiter(1, QUICK, known=known)
        began = time.monotonic()
        while not limiter.closed:
            await fail(limiter, "connection")
        with pytest.raises(ClosedError, match="given up because every attempt failed"):
            await answer(limiter)
        assert time.monotonic() - began > 0.9 * seconds
        assert limiter.failures["connection"] < 20

    play(work())


def test_closing_wakes_whoever_waits_and_lets_attempts_in_flight_end() -> None:
    async def work() -> None:
        limiter = RateLimiter(1)
        go = asyncio.Event()
        ended = []

        async def attempt() -> None:
            async with limiter.acquire():
                await go.wait()
                ended.append("attempt")

        async def wait() -> None:
            with pytest.raises(ClosedError, match="over"):
                await limiter.sleep(3600)
            ended.append("wait")

        tasks = [asyncio.create_task(work) for work in (attempt(), attempt(), wait())]
        await asyncio.sleep(0.01)
        limiter.close("over")
        limiter.close("later reasons are not the reason")
        with pytest.raises(ClosedError, match="over"):
            await tasks[1]
        await tasks[2]
        go.set()
        await tasks[0]
        assert ended == ["wait", "attempt"]

    play(work())


def test_a_cancelled_waiter_does_not_take_a_place_with_it() -> None:
    async def work() -> None:
        limiter = RateLimiter(1)
        go = asyncio.Event()

        async def attempt() -> None:
            async with limiter.acquire():
                await go.wait()

        first, second, third = (asyncio.create_task(attempt()) for _ in range(3))
        while len(limiter._waiting) < 2:
            await asyncio.sleep(0)
        go.set()
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert not third.cancelled()
        assert limiter.in_flight == 0

    play(work())


def test_attempts_begun_together_go_in_one_a_round_of_the_event_loop() -> None:
    async def work() -> None:
        limiter = RateLimiter(8)
        rounds = 0
        entered: list[int] = []

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        async def attempt() -> None:
            async with limiter.acquire():
                entered.append(rounds)
                await asyncio.sleep(0.01)

        counter = asyncio.create_task(count())
        await asyncio.gather(*(attempt() for _ in range(8)))
        counter.cancel()
        assert len(entered) == 8
        assert all(later > earlier for earlier, later in itertools.pairwise(entered))

    play(work())
