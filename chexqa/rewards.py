"""Rewards of models' replies for reinforcement learning, in the form of the reward functions of the library TRL.

>>> import chexqa
>>> from chexqa.rewards import Rewards
>>> reward = Rewards("bench", allow_test=True)
>>> items = [item for item in chexqa.load("bench").items if item.kind == "detection"][:1]
>>> reward(completions=["The lungs are clear.\\nAnswer: 2"], item_id=[items[0].item_id]) in ([0.0], [1.0])
True

A benchmark cannot measure a model that was trained on it. A benchmark that carries a canary (a text that says "not for
training") therefore gives rewards only if ``allow_test`` is True. Make the items for training from other patients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.prompts import answer_parser
from chexqa.files.errors import InputError, suggest

Scoring = Literal["right", "credit", "corrected"]
SCORINGS: tuple[Scoring, ...] = get_args(Scoring)
# A completion as TRL gives it: a text, or messages whose last one is the model's.
Completion = str | Sequence[Mapping[str, Any]]


class Rewards:
    """Reward function of a benchmark: a right reply gets the highest reward, an unreadable reply gets ``unread``.

    TRL calls this object with ``completions`` and the columns of the data set, which must include ``item_id``. The
    result has a float for each reply, and None for a reply to an item that asks for a place: a place can be scored only
    within a run, whose test markers prove which coordinate system the model uses.
    """

    def __init__(
        self, bench: Benchmark | str | Path, scoring: Scoring = "right", unread: float = 0.0, allow_test: bool = False
    ) -> None:
        """Read the benchmark and its key; raise ``InputError`` for a benchmark that is not for training.

        ``scoring`` is one of these:

        - ``right``: 1 for a right reply, 0 for a wrong one.
        - ``credit``: partial credit from 0 to 1 if several options can be right, otherwise as ``right``.
        - ``corrected``: ``(right - chance) / (1 - chance)``, so that guessing earns 0 on average. An item with only one
          possible answer gives 0.
        """
        if scoring not in SCORINGS:
            raise InputError(
                f"scoring '{scoring}' is unknown{suggest(scoring, SCORINGS)}; give one of {', '.join(SCORINGS)}."
            )
        loaded = bench if isinstance(bench, Benchmark) else benchmarks.load(Path(bench))
        if not allow_test:
            _refuse(loaded)
        self._items, (self._answers, _) = loaded.item, loaded.key("a reward")
        self._scoring, self._unread = scoring, unread
        # TRL names a reward function by this attribute in its logs.
        self.__name__ = f"chexqa_{scoring}"

    @property
    def item_ids(self) -> tuple[str, ...]:
        """The ids of the items that have a reward."""
        return tuple(name for name, item in self._items.items() if not item.form.is_place)

    def __call__(self, completions: Sequence[Completion], item_id: Sequence[str], **columns: Any) -> list[float | None]:
        """Return a reward for each reply; ``item_id`` has, for each reply, the id of the item that it answers.

        The option numbers in a reply follow the item's own order of options. Raises ``InputError`` for an unknown item,
        and for lists of different lengths.
        """
        if len(completions) != len(item_id):
            raise InputError(
                f"'completions' has {len(completions)} replies, but 'item_id' has {len(item_id)} ids; give one id for "
                "each reply."
            )
        return [self.reward(text_of(one), name) for one, name in zip(completions, item_id, strict=True)]

    def reward(self, reply: str, item_id: str) -> float | None:
        """Return the reward of one reply to an item."""
        item = self._items.get(item_id)
        if item is None:
            raise InputError(f"there is no item '{item_id}' in the benchmark; take ids from its items.jsonl.")
        if item.form.is_place:
            return None
        answer = self._answers[item_id]
        parsed = answer_parser.read(item, reply).parsed
        if parsed is None:
            return self._unread
        if self._scoring == "credit":
            return item.form.credit(answer.answer, parsed)
        right = float(item.form.is_right(answer.answer, parsed))
        if self._scoring == "right":
            return right
        return (right - answer.chance) / (1 - answer.chance) if answer.scored and answer.chance < 1 else 0.0


def text_of(completion: Completion) -> str:
    """Return a completion's text: the completion itself, or the text parts of its last message.

    >>> text_of([{"role": "assistant", "content": [{"type": "text", "text": "Answer: 1"}]}])
    'Answer: 1'
    """
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _refuse(bench: Benchmark) -> None:
    """Raise ``InputError`` for a benchmark that carries a canary, as every benchmark of chexqa's does."""
    if bench.about["canary"]:
        raise InputError(
            f"{bench.folder}: is marked as a test set (canary '{bench.about['canary']}'), as every benchmark is, and "
            "test sets must not be used for training. Make a benchmark for training from other patients; it is marked "
            "as well, so load it with allow_test=True."
        )
