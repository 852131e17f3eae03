"""A benchmark and a fresh seed of it in memory, without pictures on disk, and models that answer them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import PATH_STAGES, Answer, CaseKey, Item, Option, Picture
from chexqa.contract.kinds import FRESH_KINDS, KINDS
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.scoring.grade import Graded, grade
from chexqa.files.seeds import stream

_SIZES = {"contour_evaluation": 2, "detection": 2, "revision_expansion": 5, "revision_contraction": 5}
Reply = Callable[[Item], tuple[int, ...]]


def name_of(*parts: object) -> str:
    """Return the hash of these parts, which stands for a picture of them."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def benchmark(cases: int, seed: int, fresh_of: Benchmark | None = None) -> Benchmark:
    """Return a benchmark of present cases, each of a patient of its own; keys and drawn pictures are random.

    ``fresh_of`` is the benchmark that this one is a fresh seed of.
    """
    items, answers, keys = [], {}, {}
    random = stream(seed, "fresh pair")
    altered = set(random.permutation(cases)[: cases // 2].tolist())
    for number in range(cases):
        case_id = "c" + name_of(seed, number)[:12]
        path = "revision_required" if number in altered else "revision_free"
        kinds = [kind for kind in KINDS.values() if kind.stage in PATH_STAGES[path] and kind.stage is not None]
        for kind in kinds:
            if fresh_of is not None and kind.name not in FRESH_KINDS:
                continue
            one = _item(case_id, kind.name, seed, number)
            legal = one.form.guess(len(one.options), random)
            right = {"detection": (1,), "contour_evaluation": (1 if number in altered else 2,)}.get(kind.name, legal)
            items.append(one)
            chance = one.form.chance(len(one.options), len(right))
            answers[one.item_id] = Answer(one.item_id, tuple(right), chance, chance, path, {})  # type: ignore[arg-type]
        keys[case_id] = CaseKey(case_id, f"source-{number}", f"patient-{number}", None, path, None, None, None, "open",
                                {"image_key": name_of("radiograph", number)})  # type: ignore[arg-type]  # fmt: skip
    about: dict[str, Any] = {"name": "pair", "version": "1", "seed": seed, "data": "phantom", "counts": {"items": 1}}
    if fresh_of is not None:
        about["fresh_of"] = {"name": "pair", "version": "1", "hash": fresh_of.hash, "seed": fresh_of.about["seed"]}
    return Benchmark(Path(f"bench-{seed}"), about, name_of("bench", seed), tuple(items), answers, keys)


def _item(case_id: str, kind: str, seed: int, number: int) -> Item:
    about = KINDS[kind]
    radiograph = Picture("radiograph", name_of("radiograph", number))
    pictures = [radiograph]
    if about.stage in (2, 3):
        pictures.append(Picture("contour", name_of(kind, seed, number)))
    regions = [f"region {place}" for place in stream(seed, kind, number).permutation(20)]
    texts = regions[:4] if kind == "location" else [f"option {place}" for place in range(_SIZES.get(kind, 4))]
    options = tuple(Option(place, text) for place, text in enumerate(texts, start=1))
    return Item(f"{case_id}/{kind}", case_id, about.seq, kind, about.level, about.stage, "effusion", f"The {kind}?",
                options, about.multi, (), tuple(pictures))  # fmt: skip


def run_of(bench: Benchmark, reply: Reply, model: str = "m", protocol: str = "independent") -> Run:
    """Return the run of a model that answers each item by ``reply``."""
    turns = [
        Turn(model, protocol, item.case_id, item.item_id, 0, 0, False, 1, "answered", reply(item), "", "stop", None,
             None, None, None, "0" * 64, (), "2026-01-01T00:00:00Z", None)
        for item in bench.items
    ]  # fmt: skip
    known = {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench.folder)}
    about = {"protocol": protocol, "blind": False, "models": {model: {}}, "benchmark": known}
    return Run(bench.folder, about, tuple(turns))


def graded(bench: Benchmark, *runs: Run) -> Graded:
    """Return the grades of runs."""
    return Graded(bench, runs, grade(bench, runs))


def memoriser(bench: Benchmark, seed: int) -> Reply:
    """Return a model that knows the key of everything shown in ``bench``, by its hash, and guesses anything new."""
    assert bench.answers is not None
    known = {shown(item): bench.answers[item.item_id].answer for item in bench.items}
    random = stream(seed, "memoriser")
    return lambda item: known.get(shown(item)) or item.form.guess(len(item.options), random)


def shown(item: Item) -> str:
    """Return the hash of all that a model is shown of an item."""
    return name_of(item.question, [(one.text, one.image) for one in item.options],
                   [picture.image for picture in item.alone_images])  # fmt: skip


def honest(grades: pl.DataFrame, skills: np.random.Generator, draws: np.random.Generator, spread: float = 1.0
           ) -> Callable[[pl.DataFrame], pl.DataFrame]:  # fmt: skip
    """Return a function that gives grades the answers of a model with a fixed skill for each patient and kind.

    ``spread`` is the standard deviation of patients' skills on the logit scale. Answers to a benchmark and to its fresh
    seed are drawn in the same way, so nothing is memorised.
    """
    patients = {name: skills.normal(0, spread) for name in sorted(set(grades["patient_id"]))}
    kinds = {name: skills.normal(0.5, 1) for name in KINDS}

    def answered(frame: pl.DataFrame) -> pl.DataFrame:
        logit = np.array([patients[who] + kinds[kind] for who, kind in frame.select("patient_id", "kind").iter_rows()])
        right = draws.random(frame.height) < 1 / (1 + np.exp(-logit - draws.normal(0, 1, frame.height)))
        state = pl.when(pl.Series(right)).then(pl.lit("correct")).otherwise(pl.lit("wrong"))
        return frame.with_columns(state.alias("state"), pl.Series("correct", right))

    return answered


def with_flags(bench: Benchmark, flags: dict[str, tuple[str, ...]]) -> Benchmark:
    """Return the benchmark with these flags on the keys of items."""
    assert bench.answers is not None
    marked = {name: replace(bench.answers[name], flags=flag) for name, flag in flags.items()}
    return replace(bench, answers={**bench.answers, **marked})
