"""Inputs of the speed measurements: benchmarks with noise pictures of 0.6 MB, and the log of a complete run."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import cv2
import numpy as np

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, CaseKey, Item, Option, Picture
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import read_log
from chexqa.eval.models.registry import Model
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.turn_log import log_path
from chexqa.files.jsonio import dump, sha256

SIDE = 775  # noise does not compress: 775 x 775 px make a PNG of 0.6 MB
POOL = 320  # more pictures than the client's cache holds, so that no conversation finds its pictures there
LATER = ("contour_evaluation", "distribution", "severity", "comparison")


def make_pool(folder: Path, count: int = POOL) -> list[str]:
    """Write ``count`` different pictures into a benchmark's folder; return their paths relative to the folder."""
    random = np.random.default_rng(7)
    images = []
    for _ in range(count):
        noise = random.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
        data = cv2.imencode(".png", noise, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1].tobytes()
        images.append(benchmark.image_path(sha256(data)))
        path = folder / images[-1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    os.sync()  # otherwise the first logs would wait until the disk has written these files
    return images


def make_benchmark(folder: Path, images: list[str], conversations: int, pictures: int, turns: int) -> Benchmark:
    """Write a benchmark of ``conversations`` conversations with ``turns`` turns each, and load it.

    The first turn has ``pictures`` pictures.
    """
    items, answers, cases = [], [], []
    for number in range(conversations):
        case_id = "c" + hashlib.sha256(str(number).encode()).hexdigest()[:12]
        shown = tuple(
            Picture("radiograph", images[(number * pictures + place) % len(images)]) for place in range(pictures)
        )
        cases.append(CaseKey(case_id, str(number), str(number), None, "revision_free", "F", 60, "PA", "open", {}))
        for kind in ("detection", *LATER[: turns - 1]):
            about = KINDS[kind]
            options = tuple(Option(n, text) for n, text in enumerate(("Yes", "No"), start=1))
            item = Item(
                f"{case_id}/{kind}", case_id, about.seq, kind, about.level, about.stage, "effusion",
                f"Here would stand the question about {kind}, which is about as long as the questions are.",
                options, about.multi, shown if kind == "detection" else (), shown,
            )  # fmt: skip
            items.append(item)
            answers.append(Answer(item.item_id, (1,), 0.5, 0.5, "revision_free", {}))
    origin = benchmark.Origin("measured", "1", 0, ({"name": "measured"},), question_banks.load("en"), "phantom")
    benchmark.write_files(folder, origin, benchmark.Contents(tuple(items), tuple(answers), tuple(cases)))
    return benchmark.load(folder)


def make_log(loaded: Benchmark, run: Path, models: tuple[Model, ...]) -> int:
    """Ask the first model, and copy its log for the other models; return the number of turns in all logs."""
    first = runner.run(RunConfig(loaded, models[:1], "end_to_end", run, concurrency=64))[0]
    assert not first.unfinished
    turns = read_log(log_path(run, models[0].name)).turns
    for model in models[1:]:
        lines = [dump({**turn.to_record(), "model": model.name}) for turn in turns]
        log_path(run, model.name).write_text("\n".join(lines) + "\n")
    return len(turns) * len(models)


def remove(folder: Path) -> None:
    """Remove a folder, if it exists."""
    shutil.rmtree(folder, ignore_errors=True)
