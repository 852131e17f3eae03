"""Models that are computed, not asked: they bound what a score can mean, and exercise the whole chain offline.

``oracle`` gives the key, ``chance`` draws evenly over the legal answers, ``first`` names the first option and
``blind-prior`` the most frequent answer of the item's kind. They answer in the text form the bank asks for and are read
by the parser like any model. Which item is asked reaches them out of band, through :data:`asked`, never through the
messages (``chexqa.eval.client`` registers them with litellm as the provider ``baseline``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import NamedTuple

from chexqa.benchmark import Benchmark
from chexqa.errors import InputError, suggest
from chexqa.eval.protocols import answer_line
from chexqa.items import GRID, Answer, Item
from chexqa.seeds import stream

NEED_KEY = ("oracle", "blind-prior")
NONE = (0,)
"""Stands for the last option of a multi-select item, "none", whose number differs from item to item."""


class Asked(NamedTuple):
    """The item being asked in this task, and who knows the answers."""

    desk: Desk
    item: Item


asked: ContextVar[Asked] = ContextVar("asked")


def reply(name: str) -> str:
    """What the baseline ``name`` (without ``baseline/``) says to the item in :data:`asked`."""
    desk, item = asked.get()
    return desk.reply(name, item)


def check_name(name: str) -> None:
    """Refuse a baseline nobody knows."""
    if name not in _RULES:
        raise InputError(f"there is no model 'baseline/{name}'{suggest(name, _RULES)}.")


class Desk:
    """The baselines of one benchmark."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        """``seed`` decides what ``chance`` draws."""
        self.benchmark = benchmark
        self.seed = seed

    def reply(self, name: str, item: Item) -> str:
        """The reply of the baseline ``name`` to ``item``, in the form the question asks for."""
        return answer_line(self.benchmark.conversation_texts, item, _RULES[name](self, item))

    def key_of(self, item: Item) -> Answer:
        """The item's key."""
        return self.benchmark.key("a baseline that looks at it")[0][item.item_id]

    @cached_property
    def frequent(self) -> dict[str, list[tuple[int, ...]]]:
        """The answers of each kind, the most frequent first (ties: smaller numbers first); a grid's cell by cell."""
        counts: dict[str, Counter[tuple[int, ...]]] = {}
        for item in self.benchmark.items:
            answer = self.key_of(item).answer
            none = item.multi and answer == (len(item.options),)
            given = [(cell,) for cell in answer] if item.kind == GRID else [NONE if none else answer]
            counts.setdefault(item.kind, Counter()).update(given)
        return {
            kind: sorted(counter, key=lambda answer, counter=counter: (-counter[answer], answer))  # type: ignore[misc]
            for kind, counter in counts.items()
        }


def _oracle(desk: Desk, item: Item) -> Sequence[int]:
    """The key; on a grid the best covered hit cell, or where no cell can be hit the most covered one."""
    answer = desk.key_of(item)
    if item.kind != GRID:
        return answer.answer
    coverage: Sequence[float] = answer.evidence.get("coverage") or [0.0] * len(item.options)
    cells = answer.answer or range(1, len(item.options) + 1)
    return (max(cells, key=lambda cell: (coverage[cell - 1], -cell)),)


def _chance(desk: Desk, item: Item) -> Sequence[int]:
    """One of the legal answers, each as likely: an option, or a subset of the options before "none"."""
    random = stream(desk.seed, "baseline/chance", item.item_id)
    if not item.multi:
        return (int(random.integers(len(item.options))) + 1,)
    chosen = tuple(n for n in range(1, len(item.options)) if random.integers(2))
    return chosen or (len(item.options),)


def _first(desk: Desk, item: Item) -> Sequence[int]:
    """The first option; on a grid A1."""
    return (1,)


def _blind_prior(desk: Desk, item: Item) -> Sequence[int]:
    """The most frequent answer of the kind that this item has options for."""
    last = len(item.options)
    for answer in desk.frequent[item.kind]:
        if answer == NONE:
            return (last,)
        if answer[-1] < last or (answer[-1] == last and not item.multi):
            return answer
    return (1,)


_RULES: dict[str, Callable[[Desk, Item], Sequence[int]]] = {
    "oracle": _oracle,
    "chance": _chance,
    "first": _first,
    "blind-prior": _blind_prior,
}
