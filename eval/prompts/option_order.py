"""Items as a model sees them: with reordered options, without pictures, or with drawings on grey and no radiograph.

The options of a shown item keep their numbers, but their order may differ. A model sees and names the position of an
option in this order, counted from 1. In the benchmark's own order, positions and numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chexqa.contract.items import Item, Picture
from chexqa.files.errors import InputError

# Largest number of turns of a model in one run; grading holds a row for each turn in memory.
MAX_TURNS = 10_000_000
RADIOGRAPH, OPTION = "radiograph", "option"


@dataclass(frozen=True)
class Modifiers:
    """Variations of a run, as ``run.json`` records them; without variations, each item is asked once and unchanged.

    ``blind`` sends the text without pictures. ``overlay_only`` sends pictures that show the drawings without the
    radiograph. ``rotations`` is the number of orders of the options in which each item is asked. ``repeats`` is the
    number of times that each item is asked in each order.
    """

    blind: bool = False
    overlay_only: bool = False
    rotations: int = 1
    repeats: int = 1


def check(items: Sequence[Item], modifiers: Modifiers) -> None:
    """Raise ``InputError`` if modifiers exclude each other, or if a picture for ``overlay_only`` is missing."""
    check_amount(len(items), modifiers.repeats, modifiers.rotations, "--repeats and --rotate ask")
    if modifiers.blind and modifiers.overlay_only:
        raise InputError("--blind sends no pictures, but --overlay-only sends some; give only one of them.")
    if not modifiers.overlay_only:
        return
    for item in items:
        for picture in item.turn_images + item.alone_images:
            if picture.role != RADIOGRAPH and picture.control is None:
                raise InputError(
                    f"item '{item.item_id}': --overlay-only needs control pictures, but this benchmark has none; "
                    "generate the benchmark again with 'chexqa generate --with-controls'."
                )


def check_amount(items: int, repeats: int, rotations: int, beginning: str) -> None:
    """Raise ``InputError`` if each model would be asked more than :data:`MAX_TURNS` turns.

    The message begins with ``beginning``, such as "--repeats and --rotate ask".
    """
    turns = items * repeats * rotations
    if turns > MAX_TURNS:
        raise InputError(
            f"{beginning} {items:,} questions {repeats:,} times in {rotations:,} orders, which is {turns:,} turns for "
            f"each model; the limit is {MAX_TURNS:,}, so ask fewer questions, or with fewer repeats or orders."
        )


def shown(item: Item, modifiers: Modifiers, rotation: int) -> Item:
    """Return the item as a run with these modifiers shows it; rotation 0 keeps the options' order."""
    turned = _turned(item, rotation)
    return _without_radiograph(turned) if modifiers.overlay_only else turned


def _turned(item: Item, rotation: int) -> Item:
    """Return the item with its options rotated; "none" stays last, and a picture option keeps its picture."""
    moving = len(item.options) - item.form.takes_several
    shift = 0 if item.is_ordered else rotation % moving
    if not shift:
        return item
    options = item.options[shift:moving] + item.options[:shift] + item.options[moving:]
    places = {option.image: place for place, option in enumerate(options) if option.image}

    def in_order(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        moved = iter(sorted((one for one in pictures if one.role == OPTION), key=lambda one: places[one.image]))
        return tuple(next(moved) if one.role == OPTION else one for one in pictures)

    return replace(
        item, options=options, turn_images=in_order(item.turn_images), alone_images=in_order(item.alone_images)
    )


def _without_radiograph(item: Item) -> Item:
    """Return the item with each drawing replaced by its control picture, and without the radiograph."""
    control = {one.image: one.control for one in item.turn_images + item.alone_images if one.control is not None}

    def drawings(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(replace(one, image=control[one.image]) for one in pictures if one.role != RADIOGRAPH)

    options = tuple(replace(one, image=control[one.image]) if one.image else one for one in item.options)
    return replace(
        item, options=options, turn_images=drawings(item.turn_images), alone_images=drawings(item.alone_images)
    )


def order(item: Item) -> tuple[int, ...] | None:
    """Return the item's option numbers in the order shown; None if this order is 1, 2, 3, …"""
    numbers = tuple(option.n for option in item.options)
    return None if numbers == tuple(range(1, len(numbers) + 1)) else numbers


def in_order(item: Item, numbers: tuple[int, ...] | None) -> Item:
    """Return the item with its options in the order ``numbers``, which a turn recorded (:func:`order`).

    The item is then ready for reading the turn's reply. If ``numbers`` is None, the item is returned unchanged. Raises
    ``ValueError`` if ``numbers`` is given and does not have each of the item's option numbers exactly once.
    """
    if numbers is None:
        return item
    options = {option.n: option for option in item.options}
    if sorted(numbers) != sorted(options):
        raise ValueError(
            f"the order {', '.join(map(str, numbers))} is not an order of the item's {len(options)} options"
        )
    return replace(item, options=tuple(options[number] for number in numbers))


def place(item: Item, number: int) -> int:
    """Return the position (from 1) at which the option with this ``number`` is shown."""
    return next(place for place, option in enumerate(item.options, start=1) if option.n == number)
