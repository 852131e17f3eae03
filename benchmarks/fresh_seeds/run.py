"""Fresh seeds: whether a memoriser is found, how often an honest model is accused, and what a fresh seed costs.

``python benchmarks/fresh_seeds/run.py [CASES] [SEEDS] [RUNS] [FIRST]`` draws phantoms, makes a benchmark of them and
SEEDS fresh seeds of it, the first of which is FIRST (1), and prints

- the processor time of a fresh seed divided by that of the plain generation, as a whole and for each picture;
- the number of fresh seeds in which two memorisers fall: one knows the answer to everything that it was shown, by its
  hash; the other knows the answer to each question about a radiograph, whatever is drawn on the radiograph;
- the share of RUNS honest simulated runs that fall, with pairs of 60 and 400 patients whose skills differ. These runs
  are tested with 20,000 exchanges of labels instead of 100,000.

With 42 cases, 20 seeds and 1,000 runs it takes about a quarter of an hour. SEEDS or RUNS of 0 leave out their part.
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
from chexqa.eval.tables.fresh_seeds import FALLS, MEAN_OF_KINDS, drop_table, model_drops
from chexqa.files.seeds import stream
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import Original, drawn_pictures, make_fresh_job, make_job
from chexqa.phantoms import write_cases

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import fresh_pair

PAIRS = [("m", "m", "independent")]


def processor_time(work: Callable[[], object]) -> float:
    """Return the seconds of processor time that ``work`` takes."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def knows_radiographs(bench: Benchmark, seed: int) -> fresh_pair.Reply:
    """Return a model that knows the key of each kind of question on each radiograph of ``bench``; it guesses others."""
    assert bench.answers is not None
    known = {about(item): bench.answers[item.item_id].answer for item in bench.items}
    random = stream(seed, "memoriser")

    def reply(item: Item) -> tuple[int, ...]:
        said = known.get(about(item), ())
        fits = said and max(said) <= len(item.options)
        return said if fits else item.form.guess(len(item.options), random)

    return reply


def about(item: Item) -> tuple[str, str, str]:
    """Return what the second memoriser knows an item by: its radiograph, finding and kind."""
    shown = [one.image for one in item.alone_images if one.role == "radiograph"]
    return shown[0] if shown else item.item_id, item.finding, item.kind


def memorisers(cases: int, seeds: int, first: int, folder: Path) -> None:
    """Print the cost of fresh seeds and how many of them show the two memorisers."""
    manifest = write_cases(folder / "cases", cases, seed=1, size=512, workers=2)
    bank, loaded = question_banks.load("en"), [recipe.load(name) for name in recipe.DEFAULT]
    plain = processor_time(
        lambda: generate_benchmark.generate(manifest, folder / "bench", make_job(loaded, bank, seed=0))
    )
    bench = benchmark.load(folder / "bench")
    original = Original.of(bench)
    ratios, by_picture, fallen = [], [], {"by its hash": 0, "by its radiograph": 0}
    for seed in range(first, first + seeds):
        job, out = make_fresh_job(bench, original, loaded, bank, seed), folder / f"fresh{seed}"
        spent = processor_time(lambda: generate_benchmark.generate(manifest, out, job, original=original))  # noqa: B023
        fresh = benchmark.load(out)
        assert not drawn_pictures(fresh.items) & original.drawn, "no drawn picture is shared"
        pictures = [one.about["counts"]["images"] for one in (bench, fresh)]
        ratios.append(spent / plain)
        by_picture.append(spent / plain * pictures[0] / pictures[1])
        for name, model in (("by its hash", fresh_pair.memoriser), ("by its radiograph", knows_radiographs)):
            graded = [fresh_pair.graded(one, fresh_pair.run_of(one, model(bench, seed))) for one in (bench, fresh)]
            (row,) = model_drops(graded[0], graded[1]).to_dicts()
            fallen[name] += row["verdict"] == FALLS
            print(f"seed {seed}: known {name}: {row['verdict']}, drop {100 * row['drop']:.1f} points", flush=True)
    print(f"{len(original.paths)} cases with a finding; plain generation {plain:.1f} s of processor time")
    print(f"fresh seed divided by plain generation: {statistics.median(ratios):.2f} as a whole, "
          f"{statistics.median(by_picture):.2f} for each picture (medians of {seeds})")  # fmt: skip
    for name, count in fallen.items():
        print(f"a model that knows what it was shown {name} falls in {count} of {seeds} fresh seeds")


def accused(one: Benchmark, fresh: Benchmark, runs: int, name: str) -> None:
    """Print the share of honest simulated runs in which the model is said to fall."""
    frames = [fresh_pair.graded(bench, fresh_pair.run_of(bench, lambda _: (1,))).grades for bench in (one, fresh)]
    count = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        answered = fresh_pair.honest(frames[0], random, random)
        table, _ = drop_table((one, fresh), (answered(frames[0]), answered(frames[1])), PAIRS)
        count += table.filter(table["kind"] == MEAN_OF_KINDS)["verdict"][0] == FALLS
    print(f"{name}: {count} of {runs} honest runs fall ({100 * count / runs:.1f} %; target: at most 2 %)", flush=True)


def main(cases: int = 42, seeds: int = 20, runs: int = 1000, first: int = 1) -> None:
    if seeds:
        with tempfile.TemporaryDirectory() as folder:
            memorisers(cases, seeds, first, Path(folder))
    fresh_seeds.exchange_labels = partial(exchange_labels, draws=20_000)
    for patients in (60, 400) if runs else ():
        one = fresh_pair.benchmark(patients, 1)
        accused(one, fresh_pair.benchmark(patients, 2, one), runs, f"{patients} patients")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
