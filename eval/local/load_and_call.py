"""Loading and calling of a user's Python model; an exception of the model is the error of one call and not of the
run.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from chexqa.eval.local import callable_address as targets
from chexqa.eval.local.callable_address import ANSWER, BATCH, LOAD, Target, Traits
from chexqa.eval.local.conversation import Conversation, opened
from chexqa.eval.local.replies import CallError, ModelReply, PromptTooLongError, reply_of
from chexqa.files.errors import InputError, sentence


class Answered(NamedTuple):
    """A reply, and the duration of its call in seconds."""

    reply: ModelReply
    seconds: float


Outcome = Answered | CallError


class Served:
    """A callable, with the decoding settings for its calls.

    If the callable is a class, an object of this class is made when the callable is loaded.
    """

    def __init__(self, target: Target, traits: Traits, decoding: dict[str, Any]) -> None:
        """Store the callable's address and its decoding settings; nothing is loaded yet."""
        self.target, self.traits, self._decoding = target, traits, decoding
        takes = traits.takes
        self._each = {name: value for name, value in decoding.items() if takes is None or name in takes}
        self._call: Callable[..., Any] | None = None

    async def load(self, device: str | None) -> None:
        """Make the object if the callable is a class, and call its method ``load``; raise ``InputError`` if this fails.

        If ``load`` takes an argument, it gets the device: ``cpu``, ``cuda``, or ``auto`` for several GPUs.
        """
        try:
            found = targets.resolve(self.target)
            at_load = {"decoding": self._decoding} if self.traits.decoding_at_load else {}
            made: Any = found(**self.target.arguments, **at_load) if inspect.isclass(found) else found
            load = getattr(made, LOAD, None)
            if callable(load):
                done = load(device) if inspect.signature(load).parameters else load()
                if inspect.isawaitable(done):
                    await done
        except InputError:
            raise
        except BaseException as error:
            _raise_if_stopped(error)
            words = sentence(error, self.traits.source)
            raise InputError(f"{self.target.who}: cannot be loaded: {words}.") from None
        self._call = getattr(made, BATCH if self.traits.batches else ANSWER, made)

    def run_load(self, device: str | None) -> None:
        """Load the callable. This method must run in a thread that has no running event loop."""
        self._runner.run(self.load(device))

    def run(self, conversations: Sequence[Conversation]) -> list[Outcome]:
        """Return a reply or an error for each conversation; no exception is raised.

        Call this only in a thread without a running event loop.
        """
        if self.traits.is_async:
            return self._runner.run(self.answers(conversations))
        if self.traits.batches:
            return self._batch(conversations)
        return [self._one(conversation) for conversation in conversations]

    async def answers(self, conversations: Sequence[Conversation]) -> list[Outcome]:
        """Return the replies or errors of an async callable, one for each conversation; no exception is raised."""
        if self.traits.batches:
            calls, counts = [self._batch_async(conversations)], [len(conversations)]
        else:
            calls, counts = [self._one_async(one) for one in conversations], [1] * len(conversations)
        # Each call has a task of its own, so a callable that cancels its task ends only its own call.
        done = await asyncio.gather(*calls, return_exceptions=True)
        groups = zip(done, counts, strict=True)
        each = ([self._failed(one)] * count if isinstance(one, BaseException) else one for one, count in groups)
        return [outcome for group in each for outcome in group]

    @cached_property
    def _runner(self) -> asyncio.Runner:
        """Return the runner of the calling thread's event loop.

        All calls use the same event loop, because the client of an async callable is bound to one.
        """
        return asyncio.Runner()

    async def _one_async(self, conversation: Conversation) -> list[Outcome]:
        began = time.perf_counter()
        try:
            returned = await self._called(self._given(conversation))
            return [self._answered(returned, time.perf_counter() - began)]
        except BaseException as error:
            _raise_if_stopped(error)
            return [self._failed(error)]

    async def _batch_async(self, conversations: Sequence[Conversation]) -> list[Outcome]:
        began = time.perf_counter()
        try:
            returned = await self._called([self._given(one) for one in conversations])
        except BaseException as error:
            _raise_if_stopped(error)
            return [self._failed(error)] * len(conversations)
        return self._outcomes(returned, len(conversations), began)

    def _one(self, conversation: Conversation) -> Outcome:
        began = time.perf_counter()
        try:
            returned = self._called(self._given(conversation))
            return self._answered(returned, time.perf_counter() - began)
        except BaseException as error:
            return self._failed(error)

    def _batch(self, conversations: Sequence[Conversation]) -> list[Outcome]:
        began = time.perf_counter()
        try:
            returned = self._called([self._given(one) for one in conversations])
        except BaseException as error:
            return [self._failed(error)] * len(conversations)
        return self._outcomes(returned, len(conversations), began)

    def _outcomes(self, returned: object, count: int, began: float) -> list[Outcome]:
        """Return a reply or an error for each conversation of a batch.

        An exception in the returned list is the error of its conversation.
        """
        seconds = (time.perf_counter() - began) / count
        rows = list(returned) if isinstance(returned, list | tuple) else None
        if rows is None or len(rows) != count:
            came = type(returned).__name__ if rows is None else f"a list of {len(rows)}"
            words = f"{self.target.who} returned {came} for {count} conversations; return a list with a reply for each"
            return [CallError(words)] * count
        outcomes: list[Outcome] = []
        for row in rows:
            try:
                outcomes.append(self._failed(row) if isinstance(row, BaseException) else self._answered(row, seconds))
            except CallError as wrong:
                outcomes.append(wrong)
        return outcomes

    def _called(self, given: Any) -> Any:
        assert self._call is not None, "load comes first"
        return self._call(given, **self._each)

    def _given(self, conversation: Conversation) -> Conversation:
        return opened(conversation) if self.traits.pictures == "pil" else conversation

    def _answered(self, returned: object, seconds: float) -> Answered:
        reply = reply_of(returned, self.target.who)
        return Answered(reply if reply.model else replace(reply, model=self.traits.version), round(seconds, 4))

    def _failed(self, error: BaseException) -> CallError:
        """Return the call's error for an exception that the callable raised."""
        if isinstance(error, CallError):
            return error
        return CallError(sentence(error, self.traits.source), overflow=isinstance(error, PromptTooLongError))


def _raise_if_stopped(error: BaseException) -> None:
    """Raise ``error`` again if it is the cancellation of the running task, and not an exception of the callable."""
    if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
        raise error
