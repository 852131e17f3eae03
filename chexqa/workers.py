"""Worker processes: fresh interpreters that use one core each and end when the process that started them does."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor

_SECONDS = 1.0


def pool(workers: int) -> ProcessPoolExecutor:
    """``workers`` processes; with ``spawn``, since a fork would copy the locks of threads that cv2 has started."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    import cv2

    # One worker, one core: cv2's own threads would only get in each other's way.
    cv2.setNumThreads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Nobody wants the work of a worker whose parent was killed: it would go on until its queue is empty."""
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)
