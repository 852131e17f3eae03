"""Loaded benchmarks and runs, with their items, cases and turns as polars frames."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run
from chexqa.files.errors import InputError
from chexqa.files.jsonio import dump
from chexqa.files.opening import Given
from chexqa.files.terminal import plural
from chexqa.files.text import few, shown

_INTS, _TEXTS = pl.List(pl.Int64), pl.List(pl.String)
_ITEM: dict[str, Any] = {
    "item_id": pl.String, "case_id": pl.String, "seq": pl.Int64, "kind": pl.String, "level": pl.String,
    "stage": pl.Int64, "finding": pl.String, "question": pl.String, "multi": pl.Boolean, "options": _TEXTS,
    "images": _TEXTS,
}  # fmt: skip
_KEY: dict[str, Any] = {
    "answer": _INTS, "chance": pl.Float64, "prior": pl.Float64, "path": pl.String, "flags": _TEXTS,
    "evidence": pl.String,
}  # fmt: skip
_CASE: dict[str, Any] = {
    "case_id": pl.String, "source_case_id": pl.String, "patient_id": pl.String, "study_id": pl.String,
    "path": pl.String, "sex": pl.String, "age": pl.Float64, "view": pl.String, "access": pl.String,
    "measures": pl.String,
}  # fmt: skip
TURN: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "case_id": pl.String, "item_id": pl.String, "repeat": pl.Int64,
    "rotation": pl.Int64, "blind": pl.Boolean, "overlay_only": pl.Boolean, "attempts": pl.Int64, "state": pl.String,
    "parsed": _INTS, "order": _INTS, "raw": pl.String, "finish_reason": pl.String, "input_tokens": pl.Int64,
    "output_tokens": pl.Int64, "cost_usd": pl.Float64, "latency_s": pl.Float64, "provider_model": pl.String,
    "request_hash": pl.String, "image_hashes": _TEXTS, "started": pl.String, "error": pl.String,
    "reasoning": pl.String, "confidence": pl.Float64, "answer_logprob": pl.Float64, "failed_input_tokens": pl.Int64,
    "failed_output_tokens": pl.Int64, "uncounted_attempts": pl.Int64,
}  # fmt: skip


class LoadedBenchmark(Benchmark):
    """A benchmark whose items and cases can also be read as polars frames."""

    def __repr__(self) -> str:
        """Return the folder and the numbers of items and cases, in one line."""
        cases = len({item.case_id for item in self.items})
        key = "without a key" if self.answers is None else "with its key"
        counts = f"{plural(len(self.items), 'item')}, {plural(cases, 'case')}"
        return f"<{type(self).__name__} {shown(str(self.folder))}: {counts}, {key}>"

    def items_frame(self) -> pl.DataFrame:
        """Return a row for each item, in the benchmark's order.

        Columns: ``item_id, case_id, seq, kind, level, stage, finding, question, multi, options, images``. If the
        benchmark has its key, there are also ``answer, chance, prior, path, flags`` and ``evidence`` (JSON). For an
        option that is a picture, ``options`` has the picture's path. ``images`` are the pictures that the item needs
        when it is asked without the other items of its case.
        """
        rows = [
            (
                item.item_id, item.case_id, item.seq, item.kind, item.level, item.stage, item.finding, item.question,
                item.multi, [option.text or option.image or "" for option in item.options],
                [picture.image for picture in item.alone_images],
            )
            for item in self.items
        ]  # fmt: skip
        frame = pl.DataFrame(rows, schema=_ITEM, orient="row")
        if self.answers is None:
            return frame
        keys = [self.answers[item.item_id] for item in self.items]
        known = [
            (list(key.answer), key.chance, key.prior, key.path, list(key.flags), dump(key.evidence)) for key in keys
        ]
        return pl.concat([frame, pl.DataFrame(known, schema=_KEY, orient="row")], how="horizontal")

    def cases_frame(self) -> pl.DataFrame:
        """Return a row for each case, with ``measures`` as JSON; raise ``InputError`` if the key is withheld."""
        _, cases = self.key("a frame of cases")
        rows = [tuple({**vars(case), "measures": dump(case.measures)}.values()) for case in cases.values()]
        return pl.DataFrame(rows, schema=_CASE, orient="row")


class LoadedRun(Run):
    """A run whose turns (one question and a model's reply each) can also be read as a polars frame."""

    def __repr__(self) -> str:
        """Return the folder, the number of turns and the first models, in one line."""
        turns = plural(len(self.turns) + len(self.altered), "turn")
        return f"<{type(self).__name__} {shown(str(self.folder))}: {turns} of {few(self.models)}>"

    def frame(self) -> pl.DataFrame:
        """Return a row for each question on original pictures, with the columns of ``docs/columns.md``.

        ``parsed`` has the option numbers that the model chose. If a question first failed and was answered later, the
        row has the later answer.
        """
        rows = []
        for turn in self.turns:
            failed = {f"failed_{name}": count for name, count in (turn.failed_usage or {}).items()}
            values = {**turn.to_record(), **(turn.usage or {}), **failed}
            values["uncounted_attempts"] = failed.get("failed_uncounted_attempts")
            rows.append(tuple(values.get(name) for name in TURN))
        return pl.DataFrame(rows, schema=TURN, orient="row")


def as_path(given: Given, meaning: str) -> Path:
    """Return ``given`` as a path; raise ``InputError`` if it is not a path.

    In the error, ``meaning`` says what the path is for, such as "a benchmark or a run".
    """
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{meaning} is given as {type(given).__name__}; give a path.")
    return Path(given)


def load(path: Given) -> LoadedBenchmark | LoadedRun:
    """Read a benchmark folder or a run folder; raise ``InputError`` for any other path.

    The result is also a :class:`chexqa.contract.benchmark.Benchmark` or a :class:`chexqa.contract.read_run.Run`, so it
    can be given to every function that takes one of these. Code that is type-checked should call
    :func:`load_benchmark` or :func:`load_run`: each returns only one type.
    """
    folder = as_path(path, "a benchmark or a run")
    if (folder / benchmark.ABOUT).is_file():
        found = benchmark.load(folder)
        return LoadedBenchmark(**{field.name: getattr(found, field.name) for field in fields(found)})
    if (folder / read_run.ABOUT).is_file():
        run = read_run.load(folder)
        read_run.say(run.aside)
        return LoadedRun(**{field.name: getattr(run, field.name) for field in fields(run)})
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; name the folder of a benchmark or of a run.")
    raise InputError(
        f"{folder}: contains neither {benchmark.ABOUT} (a benchmark) nor {read_run.ABOUT} (a run); name another folder."
    )


def load_benchmark(path: Given) -> LoadedBenchmark:
    """Read a benchmark folder; raise ``InputError`` for any other path."""
    folder = as_path(path, "a benchmark")
    found = load(folder)
    if not isinstance(found, LoadedBenchmark):
        raise InputError(f"{folder}: is a run, not a benchmark; name the benchmark.")
    return found


def load_run(path: Given) -> LoadedRun:
    """Read a run folder; raise ``InputError`` for any other path."""
    folder = as_path(path, "a run")
    found = load(folder)
    if not isinstance(found, LoadedRun):
        raise InputError(f"{folder}: is a benchmark, not a run; name the run.")
    return found
