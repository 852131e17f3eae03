"""Answer forms (one option, several options, a cell of the grid, a place): how each is checked, scored and guessed.

Except for places, an answer and the right answer are sorted tuples of option numbers, which begin at 1. A question
bank's ``conversation`` has the text that asks for an answer, under the form's ``name``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np

FormName = Literal["single", "multi", "cell", "point", "box", "boxes", "outline", "width"]
SOMEWHERE, NOWHERE = 1, 2


class Form(ABC):
    """Form in which a question is answered; a subclass for each form scores answers.

    - ``takes_several``: True if an answer can name several options; the last option then means "none of these".
    - ``lists_options``: True if the question lists the options; False for a grid.
    - ``is_place``: True if an answer gives a place by coordinates, or says that the finding is nowhere.
    """

    name: FormName
    takes_several = False
    lists_options = True
    is_place = False

    @abstractmethod
    def chance(self, options: int, right: int = 1) -> float:
        """Return the probability that an answer drawn at random from the legal answers is right.

        ``options`` is the number of options, "none" among them; ``right`` is the number of options in the key.
        """

    def is_right(self, key: Sequence[int], said: Collection[int]) -> bool:
        """Return True if the answer ``said`` names exactly the options of the key."""
        return sorted(set(said)) == list(key)

    def credit(self, key: Sequence[int], said: Collection[int]) -> float:
        """Return the partial credit of an answer, from 0 (wrong) to 1 (right)."""
        return float(self.is_right(key, said))

    def wrong_key(self, key: Sequence[int]) -> str | None:
        """Return the error in a key as the end of a sentence that begins "The item has"; None for a valid key."""
        return None if len(key) == 1 else f"{len(key)} right options, which its kind cannot have"

    def has_right_answer(self, key: Sequence[int]) -> bool:
        """Return True if an answer can be right; it is False only for a grid on which no cell is a hit."""
        return bool(key)

    def right_answers(self, key: Sequence[int]) -> list[tuple[int, ...]]:
        """Return every answer that counts as right with this key."""
        return [tuple(key)]

    def guess(self, options: int, random: np.random.Generator) -> tuple[int, ...]:
        """Draw one of the legal answers with equal probability."""
        return (int(random.integers(options)) + 1,)


class Single(Form):
    """Form with one right option."""

    name = "single"

    def chance(self, options: int, right: int = 1) -> float:
        """Return one divided by the number of options."""
        return 1 / options


class Multi(Form):
    """Form in which any number of options can be right; the last option means "none of these".

    >>> FORMS["multi"].chance(options=4)
    0.125
    >>> FORMS["multi"].credit(key=(1, 2), said=(2, 3)) == 1 / 3
    True
    """

    name = "multi"
    takes_several = True

    def chance(self, options: int, right: int = 1) -> float:
        """Return one divided by the number of possible answers; ``right`` makes no difference."""
        # An answer is any set of the options before the last. The empty set is the last option, "none".
        return float(2.0 ** -(options - 1))

    def credit(self, key: Sequence[int], said: Collection[int]) -> float:
        """Return the Jaccard index of the options in key and answer: ``common / all``."""
        wanted, chosen = set(key), set(said)
        return len(wanted & chosen) / len(wanted | chosen) if chosen else float(self.is_right(key, said))

    def wrong_key(self, key: Sequence[int]) -> str | None:
        """Return an error text if a key names no option, otherwise None."""
        return None if key else "0 right options, which its kind cannot have"

    def guess(self, options: int, random: np.random.Generator) -> tuple[int, ...]:
        """Draw a subset of the options except the last, "none"; the empty subset becomes "none"."""
        return tuple(n for n in range(1, options) if random.integers(2)) or (options,)


class Cell(Form):
    """Form whose answer is one cell of the grid. The key lists all cells that are hits, and is empty if no cell is."""

    name = "cell"
    lists_options = False

    def chance(self, options: int, right: int = 1) -> float:
        """Return the share of cells that are hits."""
        return right / options

    def is_right(self, key: Sequence[int], said: Collection[int]) -> bool:
        """Return True if the answer ``said`` names exactly one cell, and the named cell is a hit."""
        return len(said) == 1 and next(iter(said)) in key

    def wrong_key(self, key: Sequence[int]) -> str | None:
        """Return None (no fault), since a key may have any number of cells."""
        return None

    def right_answers(self, key: Sequence[int]) -> list[tuple[int, ...]]:
        """Return one answer for each cell in ``key``; each of these answers is right."""
        return [(cell,) for cell in key]


class Place(Form):
    """Form whose answer is a place in coordinates, or "nowhere"; its options are :data:`SOMEWHERE`, :data:`NOWHERE`.

    The coordinates are stored with the reply (``Turn.place``), and ``chexqa.eval.places.score`` judges them.
    """

    is_place = True

    def __init__(self, name: FormName) -> None:
        """Set the form's name: ``point``, ``box``, ``boxes``, ``outline`` or ``width``."""
        self.name = name

    def chance(self, options: int, right: int = 1) -> float:
        """Return the probability that a random choice between "somewhere" and "nowhere" is right.

        Coordinates do not count.
        """
        return 1 / options

    def right_answers(self, key: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the answer "nowhere" if it is the key; otherwise an empty list, as too many places would be right."""
        return [(NOWHERE,)] if NOWHERE in key else []


PLACES = (Place("point"), Place("box"), Place("boxes"), Place("outline"), Place("width"))
FORMS: dict[str, Form] = {form.name: form for form in (Single(), Multi(), Cell(), *PLACES)}
