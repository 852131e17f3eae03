"""Pool of the hosts that call a user's Python model (callable); a host is a thread, a process or an event loop.

Requests wait in a queue and are asked in batches of similar length.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from chexqa.eval.local.conversation import Conversation, Form
from chexqa.eval.local.hosts import Host, LoopHost, ProcessHost, ThreadHost
from chexqa.eval.local.load_and_call import Outcome, Served
from chexqa.eval.local.replies import CallError, completion

# Seconds that a host waits for further conversations before it makes a call that is not full.
LINGER_S = 0.02


@dataclass(eq=False)
class Request:
    """A conversation that waits for its reply."""

    conversation: Conversation
    length: int
    outcome: asyncio.Future[Outcome]


class Pool:
    """Pool of the hosts that call one Python model; at most ``places`` conversations are asked at once.

    - With devices, the hosts are worker processes, one for each device.
    - Without devices, the host of an async callable is this process's event loop, in which several calls run at once.
    - Without devices, the host of any other callable is one thread of this process.

    A callable with ``answer_batch`` gets several waiting conversations in one call, up to its ``batch_size``.
    """

    def __init__(self, served: Served, places: int, timeout_s: float) -> None:
        """Prepare the hosts; nothing is started."""
        devices, traits = served.target.devices, served.traits
        self._places, self._timeout_s, self._form = places, timeout_s, traits.pictures
        self._waiting: deque[Request] = deque()
        self._in_calls = 0
        self._changed = asyncio.Condition()
        self._hosts: list[Host] = []
        if devices:
            self._hosts += [ProcessHost(served, device) for device in devices]
        elif traits.is_async:
            self._hosts += [LoopHost(served)] * (1 if traits.batches else places)
        else:
            self._hosts.append(ThreadHost(served))
        several = traits.batches or (traits.is_async and bool(devices))
        share = math.ceil(places / len(self._hosts)) if several else 1
        self._capacity = min(share, traits.batch_size or share)
        self._tasks: list[asyncio.Task[None]] = []
        self._loading: asyncio.Task[None] | None = None

    @property
    def pictures(self) -> Form:
        """Return the form of pictures that the callable takes: PIL images, paths or bytes."""
        return self._form

    async def load(self) -> None:
        """Start the hosts and load the callable in each host once; raise ``InputError`` if loading fails."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        await asyncio.gather(*(host.load() for host in dict.fromkeys(self._hosts)))
        self._tasks = [asyncio.create_task(self._work(host)) for host in self._hosts]

    async def ask(self, conversation: Conversation, length: int) -> Any:
        """Return the reply to a conversation as a chat completion; raise ``CallError`` if the call gives no reply.

        ``length`` is the conversation's approximate length; a batch has conversations of similar length.
        """
        if not self._tasks:
            await self.load()
        request = Request(conversation, length, asyncio.get_running_loop().create_future())
        async with self._changed:
            self._waiting.append(request)
            self._changed.notify()
        try:
            outcome = await request.outcome
        finally:
            if request in self._waiting:  # cancelled before its call
                self._waiting.remove(request)
        if isinstance(outcome, CallError):
            raise outcome
        return completion(*outcome)

    def close(self) -> None:
        """Stop all hosts; replies to running calls are lost."""
        for task in self._tasks:
            task.cancel()
        for host in self._hosts:
            host.close()

    async def _work(self, host: Host) -> None:
        """Take conversations from the queue and ask the host, one call after another."""
        while True:
            group = await self._group()
            self._in_calls += len(group)
            try:
                outcomes = await host.call([request.conversation for request in group], self._timeout_s)
            except CallError as error:
                outcomes = [error] * len(group)
            finally:
                self._in_calls -= len(group)
            for request, outcome in zip(group, outcomes, strict=True):
                if not request.outcome.done():
                    request.outcome.set_result(outcome)

    async def _group(self) -> list[Request]:
        """Wait for requests, and return those of the next call: the oldest one, and others of similar length."""
        async with self._changed:
            while True:
                while not self._waiting:
                    await self._changed.wait()
                if len(self._waiting) >= min(self._capacity, self._places - self._in_calls):
                    return self._taken()
                try:
                    async with asyncio.timeout(LINGER_S):
                        await self._changed.wait()
                except TimeoutError:
                    if self._waiting:  # otherwise another host took them
                        return self._taken()

    def _taken(self) -> list[Request]:
        oldest = self._waiting[0]
        if self._capacity == 1:
            return [self._waiting.popleft()]
        group = sorted(self._waiting, key=lambda one: abs(one.length - oldest.length))[: self._capacity]
        for request in group:
            self._waiting.remove(request)
        return group
