"""Choice of the cases that a run asks: all cases or a trial of a few, and a machine's shard of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, Item, asked_conditions, condition_of
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, sha256
from chexqa.generators.interventions import altered_items


@dataclass(frozen=True)
class Shard:
    """Shard number ``index`` (from 1) of the ``count`` shards of a run."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


def shard(text: str) -> Shard:
    """Return the shard that a text such as ``"2/5"`` names; raise ``InputError`` for any other text."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--shard {text}: this names no shard; write I/N with I from 1 to N, such as 2/5.")
    return Shard(int(match[1]), int(match[2]))


def chosen(
    benchmark: Benchmark, limit: int | None = None, limit_per_path: int | None = None, prefer: Sequence[str] = ()
) -> tuple[Item, ...]:
    """Return the items of the cases chosen for a trial, in the benchmark's order; without a limit, return all items.

    - ``limit``: how many cases are chosen.
    - ``limit_per_path``: how many cases of each path are chosen.
    - ``prefer``: conditions (such as ``target``); cases that have altered pictures for most of these are chosen first.

    Raise ``InputError`` if ``limit_per_path`` is given and the benchmark's key is withheld.
    """
    if limit is None and limit_per_path is None:
        return benchmark.items
    wanted = {*prefer} - {ORIGINAL}
    altered = altered_items.load(benchmark).items.values() if wanted else ()
    has = {(item.case_id, condition_of(item.item_id)) for item in altered}
    lacks = {item.case_id: sum((item.case_id, name) not in has for name in wanted) for item in benchmark.items}
    # The order of a hash mixes the cases, and makes a smaller trial a part of a larger one.
    cases = sorted(lacks, key=lambda case_id: (lacks[case_id], sha256(case_id.encode())))
    if limit_per_path is not None:
        _, keys = benchmark.key("--limit-per-path")
        paths = {case_id: keys[case_id].path for case_id in cases}
        cases = list(_few_of_each(cases, paths, limit_per_path))
    kept = set(cases[:limit])
    return tuple(item for item in benchmark.items if item.case_id in kept)


def of_run(benchmark: Benchmark, about: Record) -> tuple[Item, ...]:
    """Return the items of the cases in the trial that a ``run.json`` records."""
    return chosen(benchmark, about.get("limit"), about.get("limit_per_path"), about.get("limit_prefers", ()))


def _few_of_each(cases: Iterable[str], groups: Mapping[str, object], limit: int) -> Iterator[str]:
    """Yield the first ``limit`` cases of each group."""
    taken: Counter[object] = Counter()
    for case_id in cases:
        taken[groups[case_id]] += 1
        if taken[groups[case_id]] <= limit:
            yield case_id


def share(items: Iterable[Item], part: Shard | None) -> tuple[Item, ...]:
    """Return the items of a shard: every ``part.count``-th case, beginning with case ``part.index`` (from 1).

    Return all items if ``part`` is None.
    """
    rows = tuple(items)
    if part is None:
        return rows
    places = {case_id: place for place, case_id in enumerate(dict.fromkeys(item.case_id for item in rows))}
    return tuple(item for item in rows if places[item.case_id] % part.count == part.index - 1)


def conditioned(benchmark: Benchmark, items: tuple[Item, ...], conditions: Sequence[str]) -> tuple[Item, ...]:
    """Return the items under the given conditions: first the originals, then the altered items by condition."""
    if tuple(conditions) == (ORIGINAL,):
        return items
    own = items if ORIGINAL in conditions else ()
    return (*own, *altered_items.load(benchmark).of(items, conditions))


def turns_by_condition(benchmark: Benchmark, about: Record) -> Counter[str]:
    """Return how many turns a run asks of each model, keyed by condition; ``about`` is the run's ``run.json``.

    A condition is ``original``, a change of the picture such as ``mirror``, or a stress cell such as ``noise-3``.
    """
    asked = of_run(benchmark, about)
    items = list(conditioned(benchmark, asked, asked_conditions(about)))
    if stress := about.get("stress", ()):
        from chexqa.eval.stress import stressed_pictures  # loads cv2, which other runs do not need here

        items += stressed_pictures.stressed_items(benchmark, asked, stress)
    times = int(about.get("rotations", 1)) * int(about.get("repeats", 1))
    return Counter({name: n * times for name, n in Counter(condition_of(item.item_id) for item in items).items()})


def check_conditions(benchmark: Benchmark, conditions: Sequence[str], protocol: str) -> None:
    """Raise ``InputError`` for a condition that lacks altered pictures or that the protocol cannot ask."""
    altered = [name for name in conditions if name != ORIGINAL]
    about = benchmark.about.get("interventions")
    for name in altered:
        if about is None or not about["counts"][name]:
            raise InputError(
                f"--condition {name}: the benchmark '{benchmark.name}' has no pictures of this condition; generate the "
                "benchmark again with 'chexqa generate --interventions'."
            )
        if name in altered_items.ALONE and protocol != "independent":
            raise InputError(
                f"--condition {name}: questions about altered pictures are asked alone, so the original questions must "
                f"be asked alone too; replace the protocol {protocol} with --protocol independent."
            )
