"""Worker processes: fresh interpreters that use one core each and end together with their parent process."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from typing import Self, TypeVar

from threadpoolctl import threadpool_limits

_SECONDS, _THREADS = 1.0, 2
_KEPT_BYTES = 30 * 2**20
T = TypeVar("T")
R = TypeVar("R")


def pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of ``workers`` processes, started by ``spawn``: a fork would copy the locks of cv2's threads."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


class Background:
    """Worker processes that compute results while this process does other work; used as a context manager.

    ``workers`` is the number of processes, including this process. The others start when they get their first task.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._queues: list[deque[int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for waiting in self._queues:
            waiting.clear()
        if self._pool is not None:
            self._pool.shutdown()

    def start(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Return an iterator of ``function(task)`` in the order of the tasks; a result must depend only on its task.

        With several workers, the tasks begin at once. With one worker, this process computes all results in two
        threads, which begin when the first result is requested.
        """
        # While this process waits for a result, it computes other results itself, also those of workers that died.
        if self._workers == 1:
            return _by_threads(function, tasks)
        self._pool = self._pool or pool(self._workers - 1)
        waiting = deque(range(len(tasks)))
        self._queues.append(waiting)
        results: dict[int, Future[R]] = {number: Future() for number in waiting}
        for _ in range(self._workers - 1):
            threading.Thread(target=_feed, args=(self._pool, function, tasks, waiting, dict(results))).start()
        return _shared(function, tasks, waiting, results)


def _feed(
    workers: ProcessPoolExecutor,
    function: Callable[[T], R],
    tasks: Sequence[T],
    waiting: deque[int],
    results: dict[int, Future[R]],
) -> None:
    """Give the first waiting task to a worker again and again, in a thread for each worker.

    The executor's own queue would do, but Python 3.11 loses results if a worker dies after a task was cancelled.
    """

    def by_worker(task: T) -> R:
        try:
            return workers.submit(function, task).result()
        except BrokenProcessPool:
            return function(task)

    while (number := _taken(waiting.popleft)) is not None:
        _settle(results.pop(number), by_worker, tasks[number])


def _shared(
    function: Callable[[T], R], tasks: Sequence[T], waiting: deque[int], results: dict[int, Future[R]]
) -> Iterator[R]:
    for number in range(len(tasks)):
        while not results[number].done() and (other := _taken(waiting.popleft)) is not None:
            _settle(results[other], function, tasks[other])
        yield results.pop(number).result()


def _taken(take: Callable[[], int]) -> int | None:
    try:
        return take()
    except IndexError:
        return None


def _settle(result: Future[R], function: Callable[[T], R], task: T) -> None:
    try:
        result.set_result(function(task))
    except Exception as error:
        result.set_exception(error)


def _by_threads(function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    with single_pictures(), ThreadPoolExecutor(_THREADS) as threads:
        yield from threads.map(function, tasks)


def single_sums() -> AbstractContextManager[object]:
    """Limit numpy's matrix products to one thread during a block.

    The matrices of a generation are small: a second thread would occupy a core without saving time. The number of
    threads can also change the last bits of a sum.
    """
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


@contextmanager
def single_pictures() -> Iterator[None]:
    """Limit OpenCV to one thread per call during a block in which several threads work on one picture each.

    Within such a block, OpenCV's own threads would cost more time than they save.
    """
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


@contextmanager
def same_everywhere() -> Iterator[None]:
    """Make OpenCV compute the same results on every processor during a block or a decorated function.

    Intel's library IPP is turned off for the calling thread. IPP rounds differently on different processors and saves
    no time here.
    """
    import cv2

    before = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(before)


def _begin(parent: int) -> None:
    import cv2  # this import also imports numpy, whose threads can be limited only afterwards

    # One worker uses one core: more threads would only compete.
    cv2.setNumThreads(1)
    single_sums()
    # The C library returns freed memory to the system beyond twice the largest block that was freed before. One large
    # block, which is never written, makes it keep the memory of pictures: getting this memory again takes long.
    bytearray(_KEPT_BYTES)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker process when its parent process ends; otherwise it would work until its queue is empty."""
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
