"""Simulated models with known use of the picture and of memory, and the numbers that tables must show for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, condition_of
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.grounding.grounding_tables import DROPS, grounding_rows
from chexqa.eval.grounding.net_grounding import NOT_SHOWN, USES
from chexqa.eval.scoring.grade import Graded, grade
from chexqa.eval.scoring.intervals import Sample
from chexqa.files.seeds import stream
from chexqa.generators.interventions import altered_items
from chexqa.version import __version__

PROTOCOL, ABSENT = "independent", (2,)
# Probabilities of answering yes: to the original picture, and under the conditions target and irrelevant.
Rates = tuple[float, float, float]


@dataclass(frozen=True)
class Planted:
    """A simulated model, described by the probabilities of three ways to answer a question.

    - ``memory``: probability that it knows the key by heart, for a question with picture and wording of the released
      benchmark.
    - ``looks``: probability that it otherwise answers from the picture.
    - ``yes``: in all other cases it guesses; this is the probability that it then says yes to detection.
    - ``verdict``: the right verdict on its use of the lesion.
    - ``falls``: True if it must fall on a fresh seed.
    """

    name: str
    looks: float
    memory: float
    yes: float
    verdict: str
    falls: bool = False

    def says_yes(self, condition: str) -> float:
        """Return the probability of yes to a present case under a condition."""
        guess = (1 - self.looks) * self.yes
        seen = guess if condition == "target" else self.looks + guess
        return self.memory + (1 - self.memory) * seen if condition == "original" else seen

    @property
    def rates(self) -> Rates:
        """Return the probabilities of yes: to the original, under target and under irrelevant."""
        return self.says_yes("original"), self.says_yes("target"), self.says_yes("irrelevant")

    @property
    def net_grounding(self) -> float:
        """Return the expected net grounding."""
        before, *others = self.rates
        target, irrelevant = (before * (1 - after) + (1 - before) * after for after in others)
        return target - irrelevant

    @property
    def cgr(self) -> float:
        """Return the expected CGR: a right yes becomes a no under target."""
        return 1 - self.says_yes("target")

    @property
    def stability(self) -> float:
        """Return the expected IS: a right yes stays under irrelevant."""
        return self.says_yes("irrelevant")

    @property
    def absent_yes(self) -> float:
        """Return the probability of yes to an absent case of the release, such as a twin without the lesion."""
        return (1 - self.memory) * (1 - self.looks) * self.yes

    def key_following(self, chances: Sequence[float]) -> float:
        """Return the expected share of right answers that become the new key, from the chance of each question."""
        chance = np.array(chances)
        right = self.memory + (1 - self.memory) * (self.looks + (1 - self.looks) * chance)
        return float(self.looks + (1 - self.looks) * np.sum(right * chance) / np.sum(right))

    def drop(self, chances: Sequence[float]) -> float:
        """Return the expected drop on a fresh seed, from the chance of a guess in each kind."""
        return float(np.mean([self.memory * (1 - self.looks) * (1 - chance) for chance in chances]))


SIX = (
    Planted("text alone", 0, 0, 1, NOT_SHOWN),
    Planted("coin of 90 %", 0, 0, 0.9, NOT_SHOWN),
    Planted("looks", 0.85, 0, 0.5, USES),
    Planted("looks at times", 0.45, 0, 0.7, USES),
    Planted("memory", 0, 0.9, 0.95, NOT_SHOWN, falls=True),
    Planted("looks and memory", 0.6, 0.6, 0.5, USES, falls=True),
)


def guess(item: Item, yes: float, random: np.random.Generator) -> tuple[int, ...]:
    """Return a guess at an item; yes is said to detection with the given probability."""
    if item.kind == "detection":
        return (1,) if random.random() < yes else ABSENT
    return item.form.guess(len(item.options), random)


def run_of(bench: Benchmark, models: Sequence[Planted], seed: int, released: bool) -> Run:
    """Return a run of the models on all items and altered items; ``released`` is False for a fresh seed."""
    altered = altered_items.load(bench)
    keys = {name: answer.answer for name, answer in (bench.answers or {}).items()}
    new = {name: key.answer or ABSENT for name, key in (altered.keys or {}).items()}
    turns: list[Turn] = []
    for model in models:
        random = stream(seed, model.name, str(released))
        for item_id, item in ({**bench.item, **altered.items}).items():
            if item.kind not in KINDS:
                continue
            knows = released and item_id in keys and random.random() < model.memory
            sees = knows or random.random() < model.looks
            key = keys[item_id] if item_id in keys else new[item_id]
            said = key if sees else guess(item, model.yes, random)
            turns.append(turn_of(model.name, item, item_id, said or (1,)))
    return run_with(bench, [model.name for model in models], turns)


def run_with(bench: Benchmark, models: Sequence[str], turns: Sequence[Turn]) -> Run:
    """Return a run with these turns, those of altered pictures apart."""
    about: dict[str, Any] = {
        "schema_version": 1, "tool_version": __version__, "question_bank": bench.about.get("question_bank"), "seed": 0,
        "protocol": PROTOCOL, "blind": False, "overlay_only": False, "limit": None, "limit_per_path": None,
        "cases": None, "rotations": 1, "repeats": 1,
        "models": {name: {"litellm": name, "api_base": None, "decoding": {}} for name in models},
        "benchmark": {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench.folder)},
    }  # fmt: skip
    own, rest = (
        tuple(turn for turn in turns if (condition_of(turn.item_id) == "original") == is_own)
        for is_own in (True, False)
    )
    return replace(Run(Path("run"), about, own), altered=rest)


def turn_of(model: str, item: Item, item_id: str, said: tuple[int, ...]) -> Turn:
    """Return an answered turn."""
    kept = said[:1] if item.kind == "grid_cell" else said
    return Turn(model, PROTOCOL, item.case_id, item_id, 0, 0, False, 1, "answered", tuple(sorted(kept)), "", "stop",
                None, None, None, None, "0" * 64, (), "2026-01-01T00:00:00Z", None)  # fmt: skip


def graded(bench: Benchmark, run: Run) -> Graded:
    """Return the grades of a run."""
    return Graded(bench, (run,), grade(bench, (run,)))


def chances_of_new_keys(bench: Benchmark, condition: str) -> list[float]:
    """Return the probability that a guess meets the new key, for each question that is asked under a condition."""
    items = [item for name, item in altered_items.load(bench).items.items() if condition_of(name) == condition]
    return [item.form.chance(len(item.options)) for item in items]


def chances_by_kind(bench: Benchmark, kinds: Sequence[str]) -> list[float]:
    """Return the mean probability that a guess of the simulated models is right, for each kind."""
    answers = bench.answers or {}
    of_kind: Mapping[str, list[float]] = {kind: [] for kind in kinds}
    for item in bench.items:
        if item.kind in of_kind and answers[item.item_id].scored:
            of_kind[item.kind].append(item.form.chance(len(item.options), len(answers[item.item_id].answer)))
    return [float(np.mean(values)) for values in of_kind.values()]


def expected(
    model: Planted, partial: Sequence[float], mirror: Sequence[float], kinds: Sequence[float]
) -> dict[str, float]:
    """Return the planted numbers, keyed by their column in the table ``grounding``."""
    return {
        "net_grounding": model.net_grounding, "cgr": model.cgr, "is": model.stability,
        "key_following": model.key_following(partial), "mirror": model.key_following(mirror),
        "fresh_drop": model.drop(kinds), "true_removal": 1 - model.absent_yes,
    }  # fmt: skip


def table_of(
    models: Mapping[str, Rates], patients: int, seed: int, findings: Sequence[str] = ("effusion", "edema")
) -> pl.DataFrame:
    """Return the table ``grounding`` of models that say yes to present cases with these probabilities.

    Each patient has one case. Case i has the finding ``findings[i % len(findings)]``. No run, log or picture is made.
    """
    random = np.random.default_rng(seed)
    numbers = np.tile(np.arange(patients), len(models))
    said = {
        condition: (random.random((len(models), patients)) < np.array(list(models.values()))[:, [place]]).ravel()
        for place, condition in enumerate(("original", "target", "irrelevant"))
    }
    frame = pl.DataFrame({"model": np.repeat([*models], patients), "cluster": numbers, **said})
    of_case = [findings[number % len(findings)] for number in numbers]
    own = frame.select(
        "model", "cluster", pl.Series("finding", of_case), _answer("original").alias("first"),
        pl.format("c{}/detection", "cluster").alias("item_id"), pl.col("original").alias("right"),
        pl.lit([1]).alias("answer"), pl.lit("detection").alias("kind"), pl.lit(PROTOCOL).alias("protocol"),
        pl.lit(0).alias("repeat"), pl.lit(0).alias("rotation"), pl.lit("PA").alias("view"), pl.lit("F").alias("sex"),
    )  # fmt: skip
    pairs = pl.concat([
        own.with_columns(
            pl.lit(name).alias("condition"), frame.select(_answer(name)).to_series().alias("second"),
            pl.lit(None, pl.List(pl.Int64)).alias("new_key"),
        )
        for name in ("target", "irrelevant")
    ])  # fmt: skip
    asked = own.rename({"right": "correct"})
    return grounding_rows(Sample("patient", patients), pairs, own, asked, pl.DataFrame(schema=DROPS))


def _answer(name: str) -> pl.Expr:
    return pl.concat_list(pl.when(pl.col(name)).then(1).otherwise(2).cast(pl.Int64))
