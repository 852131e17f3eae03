"""Hosts of a user's Python model (callable): they run it in the event loop, in a thread, or in a worker process.

A host loads one callable and makes one call of it at a time. A call passes one conversation or several (a batch).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from chexqa.eval.local.conversation import Conversation
from chexqa.eval.local.load_and_call import Outcome, Served
from chexqa.eval.local.replies import CallError
from chexqa.eval.local.worker import serve
from chexqa.files.errors import InputError

T = TypeVar("T")


class Host(Protocol):
    """Interface of a host, which loads a user's Python model (callable) and makes one call of it at a time."""

    async def load(self) -> None:
        """Load the callable; raise ``InputError`` if that fails."""

    async def call(self, conversations: Sequence[Conversation], timeout_s: float) -> list[Outcome]:
        """Return a reply or an error for each conversation; raise ``CallError`` if the whole call failed."""

    def close(self) -> None:
        """End the thread or process that the host started."""


class LoopHost:
    """Host of an async callable in the running event loop; several hosts may share the event loop."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def load(self) -> None:
        """Load the callable in the event loop."""
        await self._served.load(None)

    async def call(self, conversations: Sequence[Conversation], timeout_s: float) -> list[Outcome]:
        """Await the callable and return a reply or an error for each conversation; after the time limit, cancel the
        call.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._served.answers(conversations)
        except TimeoutError:
            raise CallError(f"no reply within {timeout_s:g} s", "timeout") from None

    def close(self) -> None:
        """Do nothing: the event loop ends with the run."""


class _Thread:
    """Thread that makes calls for an event loop.

    When the process ends, the thread ends too, even in the middle of a call.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, function: Callable[..., T], *given: Any) -> T:
        """Run the function in the thread; return its result or raise its exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put((loop, future, function, given))
        return await future

    def close(self) -> None:
        self._waiting.put(None)

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None:
            loop, future, function, given = task
            try:
                done, error = function(*given), None
            except BaseException as raised:  # a thread that ends here would leave its caller waiting
                done, error = None, raised
            with suppress(RuntimeError):  # the loop has ended, so nothing waits for the result
                loop.call_soon_threadsafe(_settle, future, done, error)


def _settle(future: asyncio.Future[Any], done: Any, error: BaseException | None) -> None:
    if future.done():  # cancelled or out of time
        return
    if error is None:
        future.set_result(done)
    else:
        future.set_exception(error)


class ThreadHost:
    """Host of a callable in one thread of this process.

    A thread cannot be stopped, so a call that exceeds its time limit ends the run.
    """

    def __init__(self, served: Served) -> None:
        self._served, self._thread = served, _Thread(served.target.who)
        self._stuck: str | None = None

    async def load(self) -> None:
        """Load the callable in the thread."""
        await self._thread.run(self._served.run_load, None)

    async def call(self, conversations: Sequence[Conversation], timeout_s: float) -> list[Outcome]:
        """Make the call in the thread and return a reply or an error for each conversation."""
        if self._stuck:
            raise CallError(self._stuck, fatal=True)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._thread.run(self._served.run, conversations)
        except TimeoutError:
            self._stuck = (
                f"no reply within {timeout_s:g} s, and a call in this process cannot be stopped; raise --timeout, or "
                "name --devices, so that the model runs in a separate process"
            )
            raise CallError(self._stuck, fatal=True) from None

    def close(self) -> None:
        """Let the thread end after its present call."""
        self._thread.close()


class ProcessHost:
    """Host of a callable in a worker process.

    If the process died, or was stopped at the time limit of a call, it is started again.
    """

    def __init__(self, served: Served, device: str) -> None:
        self._served, self._device = served, device
        self._thread = _Thread(f"{served.target.who} on {device}")
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    async def load(self) -> None:
        """Start the process and load the callable there."""
        await self._thread.run(self._start)

    async def call(self, conversations: Sequence[Conversation], timeout_s: float) -> list[Outcome]:
        """Send the conversations to the process, and return a reply or an error for each of them."""
        return await self._thread.run(self._call, conversations, timeout_s)

    def close(self) -> None:
        """Stop the process, even in the middle of a call."""
        self._stop()
        self._thread.close()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=serve, args=(far, self._device), daemon=True)
        try:
            self._process.start()
            far.close()
            self._pipe.send(self._served)
            why = self._received(None)
        except CallError as error:
            why = f"{self._served.target.who}: {error.text} while the model was loaded."
        except (OSError, AttributeError, TypeError, ImportError) as error:
            why = (
                f"{self._served.target.who}: this object cannot be sent to a worker process ({error}); define it in a "
                "file or module, not in a session or inside another function."
            )
        if why is not None:
            self._stop()
            raise InputError(str(why))

    def _call(self, conversations: Sequence[Conversation], timeout_s: float) -> list[Outcome]:
        if self._process is None:
            try:
                self._start()
            except InputError as error:
                raise CallError(str(error).rstrip("."), "connection") from None
        assert self._pipe is not None
        try:
            self._pipe.send(conversations)
        except OSError:
            raise self._died() from None
        outcomes: list[Outcome] = self._received(timeout_s)
        return outcomes

    def _received(self, timeout_s: float | None) -> Any:
        """Return the next message from the process.

        If the process dies or takes too long, stop the process and raise ``CallError``.
        """
        assert self._pipe is not None
        assert self._process is not None
        ready = wait([self._pipe, self._process.sentinel], timeout_s)
        if not ready:
            self._stop()
            raise CallError(f"no reply within {timeout_s:g} s; its process was stopped", "timeout")
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self) -> CallError:
        process = self._process
        assert process is not None
        process.join(5)
        code = process.exitcode
        self._stop()
        how = f"signal {-code} ({_signal(-code)})" if code is not None and code < 0 else f"exit code {code}"
        return CallError(f"its process on device {self._device} died, {how}", "connection")

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(5)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return "unknown"
    return f"{name}, perhaps out of memory" if name == "SIGKILL" else name
