"""The option ``chexqa eval --batch``, which writes a run's requests into files for a batch endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chexqa.eval.batches import results, rounds, submit
from chexqa.eval.batches.rounds import Waiting
from chexqa.eval.cli import live_progress
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.runner import RunConfig
from chexqa.files.terminal import messages, plural
from chexqa.files.text import few


def ask(order: RunConfig, folder: Path, send: bool, poll_s: float) -> list[ModelProgress]:
    """Continue a run whose requests are written into files in ``folder``; return each model's progress.

    With ``send``, the request files are also sent, and their results are fetched every ``poll_s`` seconds. Without
    ``send``, the names of the files that have no results yet are printed.
    """
    with live_progress.shown(messages()) as watch:
        if send:
            return submit.run(order, folder, poll_s, watch)
        progress, waiting = rounds.step(order, folder, watch=watch)
    _say(waiting)
    return progress


def _say(waiting: Sequence[Waiting]) -> None:
    """Print the request files written now, and the earlier request files whose results are missing."""
    out = messages()
    for one in waiting:
        if one.written:
            out.print(
                f"{one.model}: wrote {plural(one.requests, 'request')} ({one.bytes / 1e6:,.1f} MB) into "
                f"{plural(len(one.written), 'file')}: {_names(one.written)}",
                soft_wrap=True,
            )
        earlier = [path for path in one.parts if path not in one.written]
        if earlier:
            out.print(
                f"{one.model}: {plural(len(earlier), 'file')} still without results: {_names(earlier)} (if "
                "a file will never get results, delete it)",
                soft_wrap=True,
            )
        if one.parts:
            out.print(f"  Put the files of results into {one.folder / results.FOLDER}.", soft_wrap=True)


def _names(paths: Sequence[Path]) -> str:
    return few([str(path) for path in paths])
