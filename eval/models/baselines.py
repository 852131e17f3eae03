"""Models that are computed, not asked: they bound what a score can mean, and exercise the whole chain offline.

``oracle`` gives the key, ``chance`` draws evenly over the legal answers, ``first`` names the first option and
``blind-prior`` the most frequent answer of the item's kind. ``skill-C-F-S-G`` is a simulated reader: it knows the key
in so many percent of coarse, fine, semantic and grid items and else draws as ``chance`` does, so that its scores
corrected for chance are known beforehand. They answer in the text form the bank asks for and are read by the parser
like any model. Which item is asked reaches them out of band, through :data:`asked`, never through the
messages (``chexqa.eval.models.client`` registers them with litellm as the provider ``baseline``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.contract.kinds import LEVELS
from chexqa.eval.prompts.protocols import answer_line
from chexqa.files.errors import InputError, suggest
from chexqa.files.seeds import stream

_NEED_KEY = ("oracle", "blind-prior")
_SKILL = re.compile(r"skill" + r"-(\d{1,3}(?:\.\d+)?)" * 4)
NONE = (0,)
"""Stands for the last option of a multi-select item, "none", whose number differs from item to item."""


class Asked(NamedTuple):
    """The item being asked in this task, as it is shown, in which repeat and rotation, and who knows the answers."""

    desk: Desk
    item: Item
    repeat: int = 0
    rotation: int = 0


asked: ContextVar[Asked] = ContextVar("asked")


def reply(name: str) -> str:
    """What the baseline ``name`` (without ``baseline/``) says to the item in :data:`asked`."""
    desk, item, repeat, rotation = asked.get()
    return desk.reply(name, item, repeat, rotation)


def needs_key(name: str) -> bool:
    """Whether a baseline (without ``baseline/``) looks at the key."""
    return name in _NEED_KEY or _SKILL.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Refuse a baseline nobody knows."""
    if name not in _RULES and not _SKILL.fullmatch(name):
        raise InputError(f"there is no model 'baseline/{name}'{suggest(name, _RULES)}.")


class Desk:
    """The baselines of one benchmark."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        """``seed`` decides what ``chance`` draws."""
        self.benchmark = benchmark
        self.seed = seed

    def reply(self, name: str, item: Item, repeat: int = 0, rotation: int = 0) -> str:
        """The reply of the baseline ``name`` to ``item``, in the form the question asks for."""
        question = Asked(self, item, repeat, rotation)
        skill = _SKILL.fullmatch(name)
        chosen = (
            _RULES[name](question)
            if skill is None
            else _skilled(question, name, [float(part) for part in skill.groups()])
        )
        return answer_line(self.benchmark.conversation_texts, item, chosen)

    def key_of(self, item: Item) -> Answer:
        """The item's key."""
        return self.benchmark.key("a baseline that looks at it")[0][item.item_id]

    @cached_property
    def frequent(self) -> dict[str, list[tuple[int, ...]]]:
        """The answers of each kind, the most frequent first (ties: smaller numbers first); a grid's cell by cell."""
        counts: dict[str, Counter[tuple[int, ...]]] = {}
        for item in self.benchmark.items:
            answer = self.key_of(item).answer
            none = item.form.takes_several and answer == (len(item.options),)
            given = [NONE] if none else item.form.right_answers(answer)
            counts.setdefault(item.kind, Counter()).update(given)
        return {
            kind: sorted(counter, key=lambda answer, counter=counter: (-counter[answer], answer))  # type: ignore[misc]
            for kind, counter in counts.items()
        }


# Each rule answers in the item's own numbers, whatever the order they are shown in.


def _oracle(question: Asked) -> Sequence[int]:
    """The key; on a grid the best covered hit cell, or where no cell can be hit the most covered one."""
    item = question.item
    answer = question.desk.key_of(item)
    if item.form.lists_options:
        return answer.answer
    coverage: Sequence[float] = answer.evidence.get("coverage") or [0.0] * len(item.options)
    cells = answer.answer or range(1, len(item.options) + 1)
    return (max(cells, key=lambda cell: (coverage[cell - 1], -cell)),)


def _skilled(question: Asked, name: str, percent: Sequence[float]) -> Sequence[int]:
    """The key in so many percent of the items of a level (the grid's last), else a guess."""
    desk, item, repeat, rotation = question
    random = stream(desk.seed, name, item.item_id, repeat, rotation)
    known = percent[3 if item.level is None else LEVELS.index(item.level)]
    if 100 * random.random() < known:
        return _oracle(question)
    return item.form.guess(len(item.options), random)


def _chance(question: Asked) -> Sequence[int]:
    """One of the legal answers, each as likely: an option, or a subset of the options before "none"."""
    desk, item, repeat, rotation = question
    random = stream(desk.seed, "baseline/chance", item.item_id, repeat, rotation)
    return item.form.guess(len(item.options), random)


def _first(question: Asked) -> Sequence[int]:
    """The option shown first; on a grid A1."""
    return (question.item.options[0].n,)


def _blind_prior(question: Asked) -> Sequence[int]:
    """The most frequent answer of the kind that this item has options for."""
    item = question.item
    last = len(item.options)
    for answer in question.desk.frequent[item.kind]:
        if answer == NONE:
            return (last,)
        if answer[-1] < last or (answer[-1] == last and not item.form.takes_several):
            return answer
    return (1,)


_RULES: dict[str, Callable[[Asked], Sequence[int]]] = {
    "oracle": _oracle,
    "chance": _chance,
    "first": _first,
    "blind-prior": _blind_prior,
}
