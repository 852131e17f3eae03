"""Worker processes: fresh interpreters that use one core each and end when the process that started them does."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import threadpool_limits

_SECONDS = 1.0


def pool(workers: int) -> ProcessPoolExecutor:
    """``workers`` processes; with ``spawn``, since a fork would copy the locks of threads that cv2 has started."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def single_sums() -> AbstractContextManager[object]:
    """For a block, numpy's products of matrices are computed by one thread.

    Those of a generation are small: a second thread keeps a core busy and saves no time, and how many there are may
    change a sum's last bits.
    """
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


@contextmanager
def same_everywhere() -> Iterator[None]:
    """For a block or function, let OpenCV compute the same on every processor, in the thread that asks for it.

    It leaves Intel's IPP out, which rounds otherwise from one kind of processor to the next and saves no time here.
    """
    import cv2

    before = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(before)


def _begin(parent: int) -> None:
    import cv2  # which imports numpy, whose threads are only then there to be limited

    # One worker, one core: threads of one's own would only get in each other's way.
    cv2.setNumThreads(1)
    single_sums()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Nobody wants the work of a worker whose parent was killed: it would go on until its queue is empty."""
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
