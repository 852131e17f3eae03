"""Examples before a question: items of the same kind, with their pictures and right answers, from other patients.

An example never comes from the asked item's patient, study or radiograph. The random choice depends only on the run's
seed and the item. Examples are spread evenly over the possible answers, and examples with the item's finding are used
first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED, Answer, Item, clusters, radiographs
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message
from chexqa.files.errors import InputError
from chexqa.files.seeds import stream
from chexqa.files.terminal import plural


class Example(NamedTuple):
    """Item that can be used as an example: its right answer as shown, and the cluster and radiograph of its case."""

    item: Item
    answer: tuple[int, ...]
    cluster: str
    radiograph: str


class Examples:
    """Source of examples from one benchmark; ``count`` examples are shown before each question."""

    def __init__(self, benchmark: Benchmark, count: int, seed: int) -> None:
        """Sort the benchmark's items by kind and answer; raise ``InputError`` if the key is withheld."""
        answers, cases = benchmark.key("--shots")
        self.count, self.seed = count, seed
        self._cluster, self._radiograph = clusters(benchmark.items, cases), radiographs(benchmark.items, cases)
        self._pools: defaultdict[str, defaultdict[tuple[int, ...], list[Example]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._sizes: Counter[str] = Counter()
        self._own: Counter[tuple[str, str]] = Counter()
        for item in benchmark.items:
            shown = _shown_answer(item, answers[item.item_id])
            if shown is None or CONTESTED in answers[item.item_id].flags:
                continue
            one = Example(item, shown, self._cluster[item.case_id], self._radiograph[item.case_id])
            self._pools[item.kind][shown].append(one)
            self._sizes[item.kind] += 1
            for place in {one.cluster, one.radiograph}:
                self._own[item.kind, place] += 1

    def check(self, items: Sequence[Item]) -> None:
        """Raise ``InputError`` for an item that asks for a place, or that has too few examples from other patients."""
        for item in items:
            if item.form.is_place:
                raise InputError(
                    f"item '{item.item_id}' asks for coordinates, but the right answer of an example cannot be shown "
                    f"in each model's coordinate system; leave out --shots {self.count}, or ask a benchmark without "
                    "these questions."
                )
            here = {self._cluster[item.case_id], self._radiograph[item.case_id]}
            # An item with the same patient and radiograph is subtracted twice, so a draw checks if too few are left.
            if self._sizes[item.kind] - sum(self._own[item.kind, place] for place in here) < self.count:
                self.drawn(item)

    def drawn(self, item: Item) -> list[Example]:
        """Return the examples that are shown before an item, in random order; raise ``InputError`` if there are too
        few.

        Each next example has the answer that is rarest among the examples drawn so far; ties are broken at random. An
        answer is skipped when all its examples are used.
        """
        random = stream(self.seed, "--shots", item.item_id)
        pools = self._pools[item.kind]
        order = [list(pools)[place] for place in random.permutation(len(pools))]
        left = {answer: self._candidates(item, pools[answer], random) for answer in order}
        counts = dict.fromkeys(order, 0)
        found: list[Example] = []
        while len(found) < self.count and counts:
            answer = min(counts, key=counts.__getitem__)
            example = next(left[answer], None)
            if example is None:
                del counts[answer]
                continue
            counts[answer] += 1
            found.append(example)
        if len(found) < self.count:
            raise InputError(
                f"item '{item.item_id}': the benchmark has {plural(len(found), 'item')} of the kind '{item.kind}' from "
                f"other patients, but --shots {self.count} needs {self.count}; give a smaller number with --shots."
            )
        return [found[place] for place in random.permutation(len(found))]

    def _candidates(self, item: Item, pool: Sequence[Example], random: np.random.Generator) -> Iterator[Example]:
        """Yield the examples that ``item`` can have, in random order; examples with the item's finding come first."""
        cluster, radiograph = self._cluster[item.case_id], self._radiograph[item.case_id]
        pictures = item.image_paths
        order = random.permutation(len(pool))
        for same in (True, False):
            for place in order:
                one = pool[place]
                if (one.item.finding == item.finding) is not same:
                    continue
                if one.cluster != cluster and one.radiograph != radiograph and not pictures & one.item.image_paths:
                    yield one

    def messages(
        self, item: Item, texts: Mapping[str, Any], modifiers: Modifiers, rotation: int
    ) -> tuple[Message, ...]:
        """Return the examples as questions with all their pictures, each followed by its right answer."""
        made: list[Message] = []
        for number, example in enumerate(self.drawn(item), start=1):
            shown = option_order.shown(example.item, modifiers, rotation)
            first = [texts["example"].format(n=number)]
            made.append(
                protocols.question(texts, shown, shown.alone_images, 0, first, modifiers.blind, series=f"E{number}.")
            )
            made.append(Message("assistant", (protocols.answer_line(texts, shown, example.answer),)))
        return tuple(made)


def _shown_answer(item: Item, answer: Answer) -> tuple[int, ...] | None:
    """Return the answer that an example shows: its key; if several cells are right, the most covered one.

    Return None if no option is right.
    """
    right = item.form.right_answers(answer.answer)
    if len(right) < 2:
        return right[0] if right and right[0] else None
    coverage = answer.evidence.get("coverage")
    return max(right, key=lambda cell: (coverage[cell[0] - 1] if coverage else 0.0, -cell[0]))
