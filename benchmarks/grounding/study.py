"""Study of six simulated models whose use of pictures and of memory is known: does the report recover it?

    python benchmarks/grounding/study.py [CASES] [REPEATS] [OUT]

The models answer a benchmark of phantoms with altered pictures, and a fresh seed of it. The script prints

- the numbers of the report's part "Does it look?" beside the true values;
- for REPEATS simulated studies: how often all verdicts are right, and how many intervals contain the true values;
- for models that pick a side at random: how often they also answer right on the mirrored picture of an item that
  they answered right.

The defaults, 400 cases and 100 repeats, take about ten minutes. OUT is a folder for benchmarks and report; benchmarks
in it are used again. With CASES = 0, the script makes no benchmark and prints only the second point, for simulated
studies of 250 and of 400 cases.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import chexqa
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.kinds import KINDS
from chexqa.eval.grounding import answer_pairs, followed_keys
from chexqa.eval.grounding.grounding_tables import grounding
from chexqa.eval.report import build
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.scoring.significance import exchange_labels
from chexqa.eval.tables import fresh_seeds
from chexqa.eval.tables.all_tables import groups
from chexqa.eval.tables.fresh_seeds import FALLS, STAYS, UNDECIDED, model_drops
from chexqa.generators.interventions import altered_items
from chexqa.phantoms import write_cases

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import planted_looks
from planted_looks import SIX

ANEW = [name for name, kind in KINDS.items() if kind.drawn_anew]
FINDINGS = ("consolidation", "opacity", "pneumonia", "effusion", "atelectasis")
_ENDS = ("", "_low", "_high")


def two_benchmarks(cases: int, folder: Path) -> tuple[Benchmark, Benchmark]:
    """Return a benchmark of phantoms with altered pictures, and a fresh seed of it."""
    if (folder / "fresh").exists():
        return benchmark.load(folder / "bench"), benchmark.load(folder / "fresh")
    write_cases(folder / "cases", cases, seed=1, size=256, findings=FINDINGS, workers=2, twins=True)
    made = chexqa.generate(folder / "cases", folder / "bench", recipes="chexpercept", seed=1, interventions=True,
                           workers=2)  # fmt: skip
    fresh = chexqa.freshen(made, folder / "cases", folder / "fresh", seed=2, workers=2)
    return benchmark.load(made.folder), benchmark.load(fresh.folder)


def studied(bench: Benchmark, fresh: Benchmark, seed: int) -> Graded:
    """Return the six models' grades on ``bench``, and the drops of their accuracy from ``bench`` to ``fresh``."""
    before = planted_looks.graded(bench, planted_looks.run_of(bench, SIX, seed, released=True))
    after = planted_looks.graded(fresh, planted_looks.run_of(fresh, SIX, seed, released=False))
    return replace(before, fresh=model_drops(before, after))


def shown(row: dict[str, float | None], name: str) -> str:
    """Return the number ``name`` of a row with its interval, as text in percent."""
    value, low, high = (row[f"{name}{end}"] for end in _ENDS)
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return "–" if value is None else f"{100 * value:.1f}{ends}"


def without_pictures(patients: int, repeats: int) -> None:
    """Draw the answers of six models at random, without making pictures; print how often all six verdicts are right.

    ``repeats`` is the number of simulated studies.
    """
    right, wrong, held, of = 0, 0, Counter[str](), Counter[str]()
    for seed in range(1, repeats + 1):
        rows = planted_looks.table_of({model.name: model.rates for model in SIX}, patients, seed).to_dicts()
        pairs = [(row, next(model for model in SIX if model.name == row["model"])) for row in rows]
        right += all(row["looks"] == model.verdict for row, model in pairs)
        wrong += any(row["looks"] not in (model.verdict, UNDECIDED) for row, model in pairs)
        for row, model in pairs:
            for name, value in (("net_grounding", model.net_grounding), ("cgr", model.cgr), ("is", model.stability)):
                of[name] += 1
                held[name] += row[f"{name}_low"] - 1e-9 <= value <= row[f"{name}_high"] + 1e-9
    print(f"{patients} cases: all six verdicts are right in {right} of {repeats} studies, and at least one is wrong in "
          f"{wrong}; in the remaining studies, no verdict is wrong, but at least one is undecided")  # fmt: skip
    for name, count in of.items():
        print(f"intervals of {name} that contain the true value: {100 * held[name] / count:.1f} % of {count}")


def main(cases: int = 400, repeats: int = 100, out: str = "") -> None:
    if not cases:
        for patients in (250, 400):
            without_pictures(patients, repeats)
        return
    with tempfile.TemporaryDirectory() as folder:
        bench, fresh = two_benchmarks(cases, Path(out or folder))
        first = studied(bench, fresh, 0)
        chances = [planted_looks.chances_of_new_keys(bench, name) for name in ("partial", "mirror")]
        kinds = planted_looks.chances_by_kind(bench, ANEW)
        planted = {model.name: planted_looks.expected(model, *chances, kinds) for model in SIX}
        table = grounding(scored_sample(first))
        print(
            f"{table['audited'][0]} cases with the finding have answers to all three pictures (original, lesion filled "
            f"in, other lung tissue filled in): {100 * table['audited_share'][0]:.0f} % of the cases with an answer "
            "to the original picture"
        )
        for row in table.to_dicts():
            print(f"{row['model']}: {row['looks']}; on the fresh seed: {row['fresh_verdict']}; published class: "
                  f"{row['published_class']}")  # fmt: skip
            for name, value in planted[row["model"]].items():
                print(f"    {name}: true value {100 * value:.1f}, found {shown(row, name)}")
        if out:
            build.write_report(groups(first), Path(out) / "report", overwrite=True)
        if repeats:
            again(bench, fresh, planted, repeats)
        blind_to_side(bench, 400)


def again(bench: Benchmark, fresh: Benchmark, planted: dict[str, dict[str, float]], repeats: int) -> None:
    """Repeat the study; print how often the verdicts on each model are right and intervals contain the true value."""
    fresh_seeds.exchange_labels = partial(exchange_labels, draws=20_000)
    looks: dict[str, Counter[str]] = {model.name: Counter() for model in SIX}
    memory: dict[str, Counter[str]] = {model.name: Counter() for model in SIX}
    held, of = Counter[str](), Counter[str]()
    right = wrong = 0
    for seed in range(1, repeats + 1):
        table = {row["model"]: row for row in grounding(scored_sample(studied(bench, fresh, seed))).to_dicts()}
        every, none = True, True
        for model in SIX:
            row = table[model.name]
            looks[model.name][row["looks"]] += 1
            memory[model.name][row["fresh_verdict"]] += 1
            found, due = (row["looks"], row["fresh_verdict"]), (model.verdict, FALLS if model.falls else STAYS)
            every &= found == due
            none &= all(one in (other, UNDECIDED) for one, other in zip(found, due, strict=True))
            for name, value in planted[model.name].items():
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                if low is not None and high is not None:
                    of[name] += 1
                    held[name] += low - 1e-9 <= value <= high + 1e-9
        right += every
        wrong += not none
    print(f"all twelve verdicts are right in {right} of {repeats} studies, and at least one is wrong in {wrong}; in "
          "the remaining studies, no verdict is wrong, but some are undecided")  # fmt: skip
    for model in SIX:
        for counts in (looks[model.name], memory[model.name]):
            print(f"{model.name}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}")
    for name, count in of.items():
        print(f"intervals of {name} that contain the true value: {100 * held[name] / count:.1f} % of {count}")


def blind_to_side(bench: Benchmark, models: int) -> None:
    """Simulate models that pick left or right at random in comparison items.

    Print how often an item answered right is also answered right on the mirrored picture.
    """
    mirrored = [name for name in altered_items.load(bench).items if name.endswith("/comparison@mirror")]
    random = np.random.default_rng(0)
    names = [f"blind {number}" for number in range(models)]
    turns = []
    for model, item_id in product(names, (*(name.partition("@")[0] for name in mirrored), *mirrored)):
        item = bench.item[item_id.partition("@")[0]]
        sides = [one.n for one in item.options if one.text is not None and one.text.startswith("larger on the")]
        turns.append(planted_looks.turn_of(model, item, item_id, (sides[int(random.integers(2))],)))
    study = scored_sample(planted_looks.graded(bench, planted_looks.run_with(bench, names, turns)))
    pairs = answer_pairs.answer_pairs(study).filter("right")
    _, found = followed_keys.side_followed(study.sample, pairs)
    print(f"models that pick a side at random: {pairs.height:,} correct answers, of which "
          f"{100 * float(np.nanmean(found.value)):.1f} % are also correct on the mirrored picture (50 % expected)"
          )  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
