"""Worker processes: fresh interpreters that use one core each and end together with their parent process."""

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
    """Return a pool of ``workers`` processes, started by ``spawn``: a fork would copy the locks of cv2's threads."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def single_sums() -> AbstractContextManager[object]:
    """Limit numpy's matrix products to one thread during a block.

    The matrices of a generation are small: a second thread would occupy a core without saving time. The number of
    threads can also change the last bits of a sum.
    """
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


@contextmanager
def single_pictures() -> Iterator[None]:
    """Limit OpenCV to one thread per call during a block in which several threads each process a picture of their own.

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
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker process when its parent process ends; otherwise it would work until its queue is empty."""
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
