"""Measurement of fresh seeds: their cost, how often they expose a memoriser, and how often they accuse honest models.

    python benchmarks/fresh_seeds/run.py [CASES] [SEEDS] [RUNS] [FIRST]

- CASES: the number of phantoms in the benchmark (default: 42).
- SEEDS: the number of fresh seeds made of the benchmark (default: 20). With 0, results 1 and 2 are left out.
- RUNS: the number of simulated runs of honest models (default: 1,000). With 0, result 3 is left out.
- FIRST: the random seed (a number) from which the first fresh seed is made (default: 1). The next fresh seeds are made
  from FIRST + 1, FIRST + 2 and so on.

The defaults take about a quarter of an hour. The script prints three results:

1. The processor time of a fresh seed, divided by that of the benchmark.
2. For two memorisers, the number of fresh seeds on which accuracy falls according to the test. A memoriser is a
   simulated model that knows the benchmark's key by heart:

   - The first memoriser recognises an item by a hash of the item's pictures, question and options.
   - The second memoriser recognises an item by its radiograph, finding and kind of question.
3. The share of honest runs in which accuracy falls according to the test, although the model memorised nothing.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.scoring.significance import exchange_labels
from chexqa.eval.tables import fresh_seeds
from chexqa.eval.tables.fresh_seeds import FALLS, MEAN_OF_KINDS, ModelPair, compute_drops, model_drops
from chexqa.files.seeds import stream
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import Original, drawn_pictures, make_fresh_job, make_job
from chexqa.phantoms import write_cases

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import fresh_pair

PAIRS = [ModelPair("m", "m", "independent")]


def processor_time(work: Callable[[], object]) -> float:
    """Return the seconds of processor time that ``work`` takes."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def knows_radiographs(bench: Benchmark, seed: int) -> fresh_pair.Reply:
    """Return a model that knows the keys of ``bench`` by radiograph, finding and kind, and otherwise guesses."""
    assert bench.answers is not None
    known = {about(item): bench.answers[item.item_id].answer for item in bench.items}
    random = stream(seed, "memoriser")

    def reply(item: Item) -> tuple[int, ...]:
        said = known.get(about(item), ())
        fits = said and max(said) <= len(item.options)
        return said if fits else item.form.guess(len(item.options), random)

    return reply


def about(item: Item) -> tuple[str, str, str]:
    """Return an item's radiograph (the item's id if the item shows no radiograph), its finding and its kind."""
    shown = [one.image for one in item.alone_images if one.role == "radiograph"]
    return shown[0] if shown else item.item_id, item.finding, item.kind


def memorisers(cases: int, seeds: int, first: int, folder: Path) -> None:
    """Print what it costs to make a fresh seed, and how many fresh seeds expose each of two memorisers.

    A memoriser is a simulated model that knows the first benchmark's key by heart.

    - ``cases``: the number of phantoms.
    - ``seeds``: the number of fresh seeds.
    - ``first``: the random seed (a number) from which the first fresh seed is made; the next fresh seeds are made from
      ``first + 1``, ``first + 2`` and so on.
    """
    manifest = write_cases(folder / "cases", cases, seed=1, size=512, workers=2)
    bank, loaded = question_banks.load("en"), [recipe.load(name) for name in recipe.DEFAULT]
    plain = processor_time(
        lambda: generate_benchmark.generate(manifest, folder / "bench", make_job(loaded, bank, seed=0))
    )
    bench = benchmark.load(folder / "bench")
    original = Original.of(bench)
    ratios, by_picture, fallen = [], [], {"by their hash": 0, "by their radiograph": 0}
    for seed in range(first, first + seeds):
        job, out = make_fresh_job(bench, original, loaded, bank, seed), folder / f"fresh{seed}"
        spent = processor_time(lambda: generate_benchmark.generate(manifest, out, job, original=original))  # noqa: B023
        fresh = benchmark.load(out)
        assert not drawn_pictures(fresh.items) & original.drawn, "no drawn picture is shared"
        pictures = [one.about["counts"]["images"] for one in (bench, fresh)]
        ratios.append(spent / plain)
        by_picture.append(spent / plain * pictures[0] / pictures[1])
        for how, model in (("by their hash", fresh_pair.memoriser), ("by their radiograph", knows_radiographs)):
            graded = [fresh_pair.graded(one, fresh_pair.run_of(one, model(bench, seed))) for one in (bench, fresh)]
            (row,) = model_drops(graded[0], graded[1]).to_dicts()
            fallen[how] += row["verdict"] == FALLS
            print(f"seed {seed}: a model that recognises items {how} gets the verdict '{row['verdict']}'; "
                  f"its accuracy drops by {100 * row['drop']:.1f} points", flush=True)  # fmt: skip
    print(f"{len(original.paths)} cases with a finding; generating the benchmark took {plain:.1f} s of processor time")
    print(f"processor time of a fresh seed, divided by that of the benchmark: {statistics.median(ratios):.2f} in all, "
          f"{statistics.median(by_picture):.2f} per picture (medians of {seeds} fresh seeds)")  # fmt: skip
    for how, count in fallen.items():
        print(f"a model that recognises items {how} gets the verdict '{FALLS}' in {count} of {seeds} fresh seeds")


def print_false_alarms(original: Benchmark, fresh: Benchmark, runs: int, name: str) -> None:
    """Simulate runs of honest models; print the number of runs in which the test wrongly finds that accuracy falls.

    - ``fresh``: the fresh seed of the benchmark ``original``.
    - ``runs``: the number of simulated runs.
    - ``name``: the beginning of the printed line.
    """
    frames = [fresh_pair.graded(bench, fresh_pair.run_of(bench, lambda _: (1,))).grades for bench in (original, fresh)]
    count = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        answered = fresh_pair.honest(frames[0], random, random)
        table, _ = compute_drops((original, fresh), (answered(frames[0]), answered(frames[1])), PAIRS)
        count += table.filter(table["kind"] == MEAN_OF_KINDS)["verdict"][0] == FALLS
    share = 100 * count / runs
    print(f"{name}: {count} of {runs} runs of models that memorised nothing get the verdict '{FALLS}' "
          f"({share:.1f} %; target: at most 2 %)", flush=True)  # fmt: skip


def main(cases: int = 42, seeds: int = 20, runs: int = 1000, first: int = 1) -> None:
    if seeds:
        with tempfile.TemporaryDirectory() as folder:
            memorisers(cases, seeds, first, Path(folder))
    fresh_seeds.exchange_labels = partial(exchange_labels, draws=20_000)
    for patients in (60, 400) if runs else ():
        one = fresh_pair.benchmark(patients, 1)
        print_false_alarms(one, fresh_pair.benchmark(patients, 2, one), runs, f"{patients} patients")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
