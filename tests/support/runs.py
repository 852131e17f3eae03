"""Runs in separate processes, which tests may kill or deprive of disk space.

Tests of such runs carry ``xdist_group("forked")``: their processes are forked from a server that loads litellm.
"""

from __future__ import annotations

import functools
import multiprocessing
import resource
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from chexqa.contract import benchmark
from chexqa.eval.design.pair_decision import StoppingRule
from chexqa.eval.models import registry
from chexqa.eval.models.rate_limit import OutagePolicy, RetryPolicy
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.files.errors import UnfinishedError

QUICK = RetryPolicy(attempts=12, timeout_s=2, backoff_s=0.01, backoff_limit_s=0.05, retry_after_limit_s=0.05)
PATIENT = OutagePolicy(pause_s=0.05, pause_limit_s=0.2)


def order(bench: Path, url: str, folder: Path, concurrency: int, names: tuple[str, ...] = ("m",)) -> RunConfig:
    """Return the settings of a run that asks models of these names at a server."""
    models = tuple(registry.adhoc(name, url) for name in names)
    loaded = benchmark.load(bench)
    return RunConfig(loaded, models, "end_to_end", folder, concurrency=concurrency, policy=QUICK, patience=PATIENT)


def child(bench: Path, url: str, folder: Path, concurrency: int, file_bytes: int | None = None) -> BaseProcess:
    """Start a run in a process in which no file may grow beyond ``file_bytes`` bytes.

    The exit code 3 means that the run stopped and can be resumed.
    """
    process = _context().Process(target=_run, args=(bench, url, folder, concurrency, file_bytes), daemon=True)
    process.start()
    return process


def pair_child(bench: Path, url: str, folder: Path, rule: StoppingRule) -> BaseProcess:
    """Start a run until decided of the models a and b, which its rule names, in a separate process."""
    process = _context().Process(target=_pair, args=(bench, url, folder, rule), daemon=True)
    process.start()
    return process


def _pair(bench: Path, url: str, folder: Path, rule: StoppingRule) -> None:
    made = replace(order(bench, url, folder, 2, rule.models), until=rule)
    raise SystemExit(3 if any(progress.unfinished for progress in runner.run(made)) else 0)


def batch_child(bench: Path, url: str, folder: Path, files: Path) -> BaseProcess:
    """Start a run by batches in a separate process."""
    process = _context().Process(target=_batches, args=(bench, url, folder, files), daemon=True)
    process.start()
    return process


def _batches(bench: Path, url: str, folder: Path, files: Path) -> None:
    from chexqa.eval.batches import submit

    try:
        progress_of_models = submit.run(order(bench, url, folder, 1), files, poll_s=0.02)
    except UnfinishedError as error:
        print(error)
        raise SystemExit(3) from None
    raise SystemExit(3 if any(progress.unfinished for progress in progress_of_models) else 0)


@functools.cache
def _context() -> ForkServerContext:
    """Return the context of processes forked from a server that has already imported litellm, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm", "chexqa.eval.runs.runner", "chexqa.eval.models.openai_http", "runs"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        forkserver.ensure_running()
    return context


def _run(bench: Path, url: str, folder: Path, concurrency: int, file_bytes: int | None) -> None:
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    try:
        progress_of_models = runner.run(order(bench, url, folder, concurrency))
    except UnfinishedError as error:
        print(error)
        raise SystemExit(3) from None
    raise SystemExit(3 if any(progress.unfinished for progress in progress_of_models) else 0)
