"""Offline baselines: simulated models with known scores, which need no network.

- ``oracle``: gives the key (the right answer).
- ``chance``: draws from the possible answers of the item.
- ``first``: names the first option.
- ``blind-prior``: names the most frequent answer to the item's kind of question.
- ``skill-C-F-S-G``: gives the key in C, F, S and G percent of the coarse, fine, semantic and grid items, and a guess in
  the other items. Its scores corrected for chance are therefore known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from chexqa.chances import TRUE_POINTS, best_number, draw_points
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, Answer, Item, Option
from chexqa.contract.kinds import KINDS, LEVELS
from chexqa.eval.models.place_baselines import NAMES, PlaceBaselines
from chexqa.eval.prompts.protocols import answer_line
from chexqa.files.errors import InputError, suggest
from chexqa.files.seeds import stream
from chexqa.generators.interventions import altered_items
from chexqa.generators.interventions.altered_items import Interventions

if TYPE_CHECKING:
    import numpy as np

MEANINGS: dict[str, str] = {
    "oracle": "baseline that answers from the key; it must reach the highest possible score",
    "chance": "baseline that draws among the answers that are possible as the item was drawn; for a place: nowhere "
    "half of the time, otherwise a place in the lungs",
    "first": "baseline that names the first option; for a place: the middle of the picture",
    "centre": "baseline that names the middle of the picture as the place",
    "average-map": "baseline that names the place that is most often inside other patients' masks of the finding",
    "blind-prior": "baseline that gives each kind of question its most frequent key, without a look (for a place: "
    "always nowhere); the row 'most frequent answer' is another one: it takes each finding apart, and the "
    "answers of other patients alone",
    "skill": "simulated model that knows the key in so many percent of the coarse, fine, semantic and grid items, and "
    "guesses in the others",
}
"""Meanings of the baselines for users, by name without ``baseline/``; ``skill`` stands for all names that begin so."""
_NEED_KEY = ("oracle", "blind-prior", "average-map")
_SKILL = re.compile(r"skill" + r"-(\d{1,3}(?:\.\d+)?)" * 4)
NONE = (0,)
"""Placeholder for the option "none" of a multi-select item: the last option, whose number differs between items."""


class BaselineRequest(NamedTuple):
    """Request to a baseline: the item as shown, and the numbers of its repeat and rotation (order of the options)."""

    responder: BaselineResponder
    item: Item
    repeat: int = 0
    rotation: int = 0


# A baseline takes the item from here, not from the messages.
asked: ContextVar[BaselineRequest] = ContextVar("asked")


def reply(name: str) -> str:
    """Return the reply of the baseline ``name`` (without ``baseline/``) to the item in :data:`asked`."""
    responder, item, repeat, rotation = asked.get()
    return responder.reply(name, item, repeat, rotation)


def needs_key(name: str) -> bool:
    """Return True if a baseline needs the benchmark's key; the name is given without ``baseline/``."""
    return name in _NEED_KEY or _SKILL.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise ``InputError`` for an unknown baseline."""
    if name not in _RULES and not _SKILL.fullmatch(name):
        known = [*(f"baseline/{rule}" for rule in _RULES), "baseline/skill-95-60-70-50"]
        raise InputError(f"there is no model 'baseline/{name}'{suggest(f'baseline/{name}', known)}.")


class BaselineResponder:
    """Responder that gives every baseline's replies to the items of one benchmark."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        """Store the benchmark and the seed of the random baselines."""
        self.benchmark = benchmark
        self.seed = seed

    def reply(self, name: str, item: Item, repeat: int = 0, rotation: int = 0) -> str:
        """Return the reply (a text) of the baseline ``name`` to ``item``; ``name`` is without ``baseline/``."""
        question = BaselineRequest(self, item, repeat, rotation)
        skill = _SKILL.fullmatch(name)
        if item.form.is_place:
            random = stream(self.seed, name, item.item_id, repeat, rotation)
            knows = skill is not None and 100 * random.random() < float(skill[4])
            return self.places.reply("oracle" if knows else "chance" if skill else name, item, random)
        chosen = (
            _RULES[name](question)
            if skill is None
            else _skilled(question, name, [float(part) for part in skill.groups()])
        )
        return answer_line(self.benchmark.conversation_texts, item, chosen)

    @cached_property
    def places(self) -> PlaceBaselines:
        """Return the responder to localization questions (point, box or outline)."""
        return PlaceBaselines(self.benchmark)

    def key_of(self, item: Item) -> Answer:
        """Return the key of the item; an altered item has its own key."""
        answers = self.benchmark.key("a baseline that needs the key")[0]
        if item.condition == ORIGINAL:
            return answers[item.item_id]
        if item.condition not in altered_items.ALTERED:  # stress changes no key
            return answers[item.item_id.partition("@")[0]]
        base, key = answers[item.item_id.partition("@")[0]], (self.altered.keys or {}).get(item.item_id)
        # If the lesion was filled in, only this is known: the right answer to the original picture is now wrong. Every
        # other option then counts as right.
        other = tuple(option.n for option in item.options if option.n not in base.answer)
        return replace(base, answer=other if key is None or key.answer is None else key.answer)

    @cached_property
    def altered(self) -> Interventions:
        """Return the benchmark's altered items."""
        return altered_items.load(self.benchmark)

    @cached_property
    def true_points(self) -> tuple[float, ...]:
        """Return the recipe's weights for one, two and three true points in a case; a true point marks an error."""
        told = (recipe.get("true_points") for recipe in self.benchmark.about["recipes"])
        return tuple(next(filter(None, told), TRUE_POINTS))

    def frequent_answers(self, kind: str) -> list[tuple[int, ...]]:
        """Return the right answers to a kind of question, the most frequent first.

        Example for the grid: if the right cells are 3 and 4 in one item, and 4 and 5 in another, the result is
        ``[(4,), (3,), (5,)]``.
        """
        return self._frequent[kind]

    @cached_property
    def _frequent(self) -> dict[str, list[tuple[int, ...]]]:
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


# Each rule answers with the item's option numbers, regardless of the order shown.


def _oracle(question: BaselineRequest) -> Sequence[int]:
    """Return the key; for a grid question, the key's cell with the largest coverage."""
    # If a grid item's key is empty, the cell with the largest coverage of all cells is taken.
    item = question.item
    answer = question.responder.key_of(item)
    if item.form.lists_options:
        return answer.answer
    coverage: Sequence[float] = answer.evidence.get("coverage") or [0.0] * len(item.options)
    cells = answer.answer or range(1, len(item.options) + 1)
    return (max(cells, key=lambda cell: (coverage[cell - 1], -cell)),)


def _skilled(question: BaselineRequest, name: str, percent: Sequence[float]) -> Sequence[int]:
    """Return the key with the probability of the item's level (``percent`` is C, F, S, G), otherwise a guess."""
    responder, item, repeat, rotation = question
    random = stream(responder.seed, name, item.item_id, repeat, rotation)
    known = percent[3 if item.level is None else LEVELS.index(item.level)]
    if 100 * random.random() < known:
        return _oracle(question)
    return _most_probable(question, random)


def _chance(question: BaselineRequest) -> Sequence[int]:
    """Return a random answer among the answers that are possible given how the item was made."""
    responder, item, repeat, rotation = question
    random = stream(responder.seed, "baseline/chance", item.item_id, repeat, rotation)
    last, points = len(item.options), _points(item)
    if points is not None:
        # Both questions on a case's points use the same draw of true points.
        random = stream(responder.seed, "baseline/chance", item.case_id, "points", repeat, rotation)
        true = draw_points(len(points), random, responder.true_points)
        return [option.n for place, option in enumerate(points) if place in true and _is_asked(item, option)] or [last]
    return item.form.guess(last, random)


def _most_probable(question: BaselineRequest, random: np.random.Generator) -> Sequence[int]:
    """Return the best guess of somebody who knows how items are made; of several, one at random."""
    responder, item, _, _ = question
    last, points = len(item.options), _points(item)
    if points is not None:
        own = [option.n for option in points if _is_asked(item, option)]
        count = best_number(len(own), len(points) - len(own), responder.true_points)
        return sorted(int(n) for n in random.permutation(own)[:count]) or [last]
    return item.form.guess(last, random)


def _points(item: Item) -> list[Option] | None:
    """Return the options that are coloured points, sorted by number; None if the item does not give their sides."""
    points = sorted((option for option in item.options if option.side in _SIDES), key=lambda option: option.n)
    return points if points and KINDS[item.kind].points else None


def _is_asked(item: Item, option: Option) -> bool:
    return option.side == KINDS[item.kind].points


_SIDES = ("inside", "outside")


def _first(question: BaselineRequest) -> Sequence[int]:
    """Return the first option shown; for a grid question, the cell A1."""
    return (question.item.options[0].n,)


def _blind_prior(question: BaselineRequest) -> Sequence[int]:
    """Return the most frequent answer to this kind of question among the answers that the item offers."""
    item = question.item
    last = len(item.options)
    for answer in question.responder.frequent_answers(item.kind):
        if answer == NONE:
            return (last,)
        if answer[-1] < last or (answer[-1] == last and not item.form.takes_several):
            return answer
    return (1,)


_RULES: dict[str, Callable[[BaselineRequest], Sequence[int]]] = {
    "oracle": _oracle,
    "chance": _chance,
    "first": _first,
    "blind-prior": _blind_prior,
    **dict.fromkeys(NAMES, _first),  # where no place is asked for
}
