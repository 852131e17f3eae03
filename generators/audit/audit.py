"""The complete audit of a benchmark: how often guesses are right, and what the benchmark contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chexqa.contract.benchmark import Benchmark
from chexqa.files.jsonio import Record
from chexqa.generators.audit import classifier, priors, rule_scores
from chexqa.generators.audit.description import describe
from chexqa.generators.audit.rule_scores import LEVEL, Result, with_holm
from chexqa.generators.audit.shortcuts_tried import collect


@dataclass(frozen=True)
class Audit:
    """Results of an audit.

    ``results`` has every predictor's score for each kind; ``contents`` is the result of ``describe``.
    """

    bench: Benchmark
    results: tuple[Result, ...]
    contents: Record

    @property
    def leaks(self) -> list[Result]:
        """Return the results of artefacts that beat chance, smallest p first."""
        return sorted((row for row in self.results if row.leak), key=lambda row: row.p or 0.0)

    @property
    def tested(self) -> list[Result]:
        """Return the results of artefacts that could be tested."""
        # Holm's method corrects the p values of these together.
        return [row for row in self.results if row.holm is not None]

    def to_record(self) -> Record:
        """Return the JSON form."""
        return {
            "benchmark": self.bench.name,
            "version": self.bench.about["version"],
            "hash": self.bench.hash,
            "data": self.bench.about["data"],
            "level": LEVEL,
            "tested": len(self.tested),
            "leaks": len(self.leaks),
            "results": [row.to_record() for row in self.results],
            "contents": self.contents,
        }


def audit(bench: Benchmark, advance: Callable[[], None] = lambda: None) -> Audit:
    """Return the audit of a benchmark with its key; ``advance`` is called once for each case.

    Raise ``InputError`` if the key is withheld, or a picture is missing or changed.
    """
    contents = describe(bench)
    features = collect(bench, advance)
    scored = with_holm(rule_scores.score_all(features) + classifier.score_all(features))
    results = scored + priors.priors(bench) + priors.forced(bench, features)
    order = {kind: place for place, kind in enumerate(bench.kinds)}
    return Audit(bench, tuple(sorted(results, key=lambda row: order[row.kind])), contents)
