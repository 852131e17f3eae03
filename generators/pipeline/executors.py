"""Execution of tasks by this process, worker processes or a Dask cluster, with the same results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from chexqa.files.errors import InputError, UnfinishedError
from chexqa.files.workers import pool, single_sums

# Tasks in flight for each worker: enough that a worker never waits, few enough that little is lost if it dies.
_AHEAD = 2
SCHEDULER_S = 10  # how long a Dask scheduler may take to answer

Task = tuple[str, tuple[Any, ...]]
R = TypeVar("R")


@dataclass(frozen=True)
class WorkerDied:
    """Error for a task whose worker died twice."""

    reason: str = "the worker process died twice while working on it"


@dataclass(frozen=True)
class WorkerConfig:
    """Number of workers on this machine (1: only this process), or the address of a Dask scheduler.

    The workers of a cluster must see the manifest's files and the output folder under the same paths.
    """

    workers: int = 1
    dask: str | None = None

    @property
    def alone(self) -> bool:
        """Return True if this process does the work itself."""
        return self.workers == 1 and self.dask is None

    @contextmanager
    def gathered(self) -> Iterator[TaskRunner]:
        """Yield a task runner that keeps its workers between several calls."""
        with ExitStack() as stack:
            if self.alone:
                stack.enter_context(single_sums())
            yield TaskRunner(self, stack)

    def executor(self, workers: int) -> AbstractContextManager[Executor]:
        """Return an executor with this number of worker processes, or the executor of the Dask cluster."""
        return pool(workers) if self.dask is None else _dask_executor(self.dask)


class TaskRunner:
    """Runner of tasks on workers; ``stack`` closes the workers' executors at the end."""

    def __init__(self, workers: WorkerConfig, stack: ExitStack) -> None:
        self._config, self._stack = workers, stack
        self._kept: Executor | None = None

    def run(self, function: Callable[..., R], tasks: Iterable[Task]) -> Iterator[tuple[str, R | WorkerDied]]:
        """Yield ``(key, function(*arguments))`` for every ``(key, arguments)``, in the order of completion.

        Errors of the function are raised here. If a task kills its worker twice, its result is :class:`WorkerDied`.
        """
        if self._config.alone:
            for key, arguments in tasks:
                yield key, function(*arguments)
            return
        try:
            yield from self._run_with_others(function, iter(tasks))
        except _left():
            raise UnfinishedError(
                f"--dask {self._config.dask}: the scheduler no longer answers. Finished work is kept. Run the "
                "same command again with this or another scheduler to continue."
            ) from None

    def _run_with_others(
        self, function: Callable[..., R], waiting: Iterator[Task]
    ) -> Iterator[tuple[str, R | WorkerDied]]:
        while True:
            lost: list[Task] = []
            yield from self._run_until_broken(function, waiting, lost)
            if not lost:
                return
            for task in lost:
                yield self._alone(function, task)

    def _run_until_broken(
        self, function: Callable[..., R], waiting: Iterator[Task], lost: list[Task]
    ) -> Iterator[tuple[str, R | WorkerDied]]:
        """Yield results until all tasks are done or a worker dies.

        If a worker dies, ``lost`` gets the unfinished tasks.
        """
        executor = self._open()
        flying: dict[Future[R], Task] = {}
        while True:
            for task in itertools.islice(waiting, max(0, _AHEAD * self._width(executor) - len(flying))):
                try:
                    flying[executor.submit(function, *task[1])] = task
                except BrokenProcessPool:  # a worker died while no result was awaited
                    lost.append(task)
                    break
            if not flying and not lost:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                task = flying.pop(future)
                try:
                    result = future.result()
                except _died():
                    lost.append(task)
                    continue
                yield task[0], result
            if lost:
                # A broken pool returns no more results; a cluster and its tasks in flight continue.
                if isinstance(executor, ProcessPoolExecutor):
                    lost += flying.values()
                    self._kept = None
                    return
                for task in lost:
                    yield self._alone(function, task)
                lost.clear()

    def _open(self) -> Executor:
        """Return the existing executor, or open one."""
        if self._kept is None:
            self._kept = self._stack.enter_context(self._config.executor(self._config.workers))
        return self._kept

    def _alone(self, function: Callable[..., R], task: Task) -> tuple[str, R | WorkerDied]:
        with self._config.executor(1) as executor:
            try:
                return task[0], executor.submit(function, *task[1]).result()
            except _died():
                return task[0], WorkerDied()

    def _width(self, executor: Executor) -> int:
        """Return the number of tasks that the executor can run at once."""
        if self._config.dask is None:
            return self._config.workers
        client: Any = getattr(executor, "_client")  # noqa: B009 - distributed gives its executor no public client
        try:
            threads: int = sum(client.nthreads().values())
        except OSError as error:
            raise CancelledError(str(error)) from None
        return max(1, threads)


def _died() -> tuple[type[BaseException], ...]:
    """Return the errors that a future raises if its worker died."""
    try:
        from distributed import KilledWorker
    except ImportError:
        return (BrokenProcessPool,)
    return (BrokenProcessPool, KilledWorker)


def _left() -> tuple[type[BaseException], ...]:
    """Return the errors that a future or the client raises if the cluster's scheduler is gone."""
    try:
        from distributed.comm.core import CommClosedError
    except ImportError:
        return ()
    return (CancelledError, CommClosedError)


def _dask_executor(address: str) -> AbstractContextManager[Executor]:
    """Return a ``concurrent.futures`` executor of the cluster; raise ``InputError`` if it cannot be reached."""
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address
        from distributed.comm.registry import get_backend
    except ImportError:
        raise InputError("--dask needs a package that is not installed; run: pip install 'chexqa[dask]'.") from None
    try:
        # The client would detect a wrong address too, but only after retries, and it would print warnings at the end.
        scheme, place = parse_address(address)
        get_backend(scheme)
        if not place:
            raise ValueError("no address is given")
        client = Client(address, timeout=SCHEDULER_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        reason = f"--dask {address}: no scheduler answers there ({error}); start one with 'dask scheduler'."
        raise InputError(reason) from None
    return _Cluster(client)


class _Cluster:
    """Executor of a cluster for a ``with`` block; at its end the client is closed, and the cluster keeps running."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Executor:
        executor: Executor = self._client.get_executor(pure=False, retries=0)
        return executor

    def __exit__(self, *_: object) -> None:
        self._client.close()
