"""Small tasks for worker processes; each worker imports this module alone, which takes no time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from chexqa.files.errors import InputError
from chexqa.generators.pipeline.executors import Task, WorkerConfig


def square(value: int) -> dict[str, Any]:
    return {"square": value * value}


def die_at_three(value: int) -> dict[str, Any]:
    if value == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(value)


def die_elsewhere(value: int) -> dict[str, Any]:
    """Kill a worker process; another process gets the result."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(value)


def die_once(value: int, mark: str) -> dict[str, Any]:
    if value == 3 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(value)


def refuse(value: int) -> dict[str, Any]:
    raise InputError(f"{value} is not wanted")


def note_and_wait(value: int, folder: str) -> dict[str, Any]:
    Path(folder, str(os.getpid())).touch()
    time.sleep(120)
    return square(value)


def who(value: int) -> dict[str, Any]:
    return {"worker": os.getpid()}


def threads(value: int) -> dict[str, Any]:
    """Return the largest number of threads that a library for matrix products may use in this process."""
    return {"threads": max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")}


def tasks(count: int, *more: Any) -> list[Task]:
    return [(str(value), (value, *more)) for value in range(count)]


def done_by(workers: WorkerConfig, function: Callable[..., dict[str, Any]], todo: list[Task]) -> dict[str, Any]:
    with workers.gathered() as runner:
        return dict(runner.run(function, todo))
