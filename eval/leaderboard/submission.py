"""Check of a file of predictions against a benchmark: ids, options, and missing items. The key is not needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run
from chexqa.eval.scoring.predictions import STATES_BENCHMARK, read_predictions
from chexqa.files.terminal import plural


@dataclass(frozen=True)
class Submission:
    """Result of a check: a line on the file's content, a sentence for each model with missing items, and remarks."""

    summary: str
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def check_predictions(path: Path, benchmark: Benchmark) -> Submission:
    """Return how many items each model of the file answers, and which models lack items.

    Raise ``InputError`` for an invalid line; the message names the line.
    """
    runs = read_predictions(path, benchmark)
    found, problems = [], []
    for run in runs:
        for model in run.models:
            answered, wanted = _counts(run, model, benchmark)
            name = f"'{model}' ({run.about['protocol']})"
            found.append(f"{name} {len(wanted & answered):,} of {plural(len(wanted), 'item')}")
            missing = sorted(wanted - answered)
            if missing:
                count = plural(len(missing), "item")
                problems.append(f"{path}: {name} has no line for {count}, such as '{missing[0]}'.")
    remarks = [f"{unstated(run)}; give each line \"benchmark\": \"{benchmark.hash[:16]}\"" for run in runs[:1]
               if not run.about[STATES_BENCHMARK]]  # fmt: skip
    return Submission(f"predictions for '{benchmark.name}': {'; '.join(found)}", tuple(problems), tuple(remarks))


def unstated(run: Run) -> str:
    """Return a remark on a file of predictions whose lines do not all name their benchmark."""
    return f"{run.folder}: does not say on which version of the benchmark its answers were made"


def _counts(run: Run, model: str, benchmark: Benchmark) -> tuple[set[str], set[str]]:
    """Return the items that a model answered, and all items of the tasks in which it answered anything."""
    answered = {turn.item_id for turn in run.turns if turn.model == model}
    tasks = run.about["models"][model]["tasks"]
    return answered, {item.item_id for item in benchmark.items if item.task in tasks}
