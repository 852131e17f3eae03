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
    """Return a pool of ``workers`` processes; it uses ``spawn``, as a fork would copy the locks of cv2's threads."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def single_sums() -> AbstractContextManager[object]:
    """Limit numpy's matrix products to one thread for a block.

    Those of a generation are small: a second thread would occupy a core without saving time, and the number of threads
    may change the last bits of a sum.
    """
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


@contextmanager
def same_everywhere() -> Iterator[None]:
    """Make OpenCV compute the same on every processor, for a block or function in the calling thread.

    This turns off Intel's IPP, which rounds differently between kinds of processors and saves no time here.
    """
    import cv2

    before = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        yield
    finally:
        cv2.ipp.setUseIPP(before)


def _begin(parent: int) -> None:
    import cv2  # imports numpy too; its threads can be limited only after that

    # One worker uses one core: more threads would only compete.
    cv2.setNumThreads(1)
    single_sums()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker after its parent was killed; otherwise it would work on until its queue is empty."""
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
