"""Items as one conversation shows them: options in another order, pictures without the radiograph.

A shown item keeps its options' own numbers and has them in another order; what a model sees and says is an option's
place in it, counted from 1. So an item as the benchmark has it is shown with places and numbers the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chexqa.contract.items import Item, Picture
from chexqa.files.errors import InputError

# Turns of a model in one run; a row for each is in memory when they are graded.
MAX_TURNS = 10_000_000
RADIOGRAPH, OPTION = "radiograph", "option"


@dataclass(frozen=True)
class Modifiers:
    """How a run departs from asking each item once, as it is; all of it is in ``run.json``.

    ``blind``: the words without the pictures. ``overlay_only``: the control pictures, and no radiograph. ``rotations``:
    in so many orders of options. ``repeats``: so many times in each order.
    """

    blind: bool = False
    overlay_only: bool = False
    rotations: int = 1
    repeats: int = 1


def check(items: Sequence[Item], modifiers: Modifiers) -> None:
    """Refuse what cannot be shown: modifiers that exclude each other, drawings without a control picture."""
    check_amount(len(items), modifiers.repeats, modifiers.rotations, "--repeats and --rotate ask")
    if modifiers.blind and modifiers.overlay_only:
        raise InputError("--blind sends no pictures and --overlay-only some; give one of the two.")
    if not modifiers.overlay_only:
        return
    for item in items:
        for picture in item.turn_images + item.alone_images:
            if picture.role != RADIOGRAPH and picture.control is None:
                raise InputError(
                    f"item '{item.item_id}': --overlay-only needs the control pictures, which this benchmark was made "
                    "without; make it with 'chexqa generate --with-controls'."
                )


def check_amount(items: int, repeats: int, rotations: int, who: str) -> None:
    """Refuse more turns than memory holds; ``who`` begins the sentence."""
    turns = items * repeats * rotations
    if turns > MAX_TURNS:
        raise InputError(
            f"{who} {items:,} questions {repeats:,} times in {rotations:,} orders, {turns:,} turns of each model; "
            f"{MAX_TURNS:,} are the most."
        )


def shown(item: Item, modifiers: Modifiers, rotation: int) -> Item:
    """The item as a run with these modifiers shows it; rotation 0 leaves the options' order as it is."""
    turned = _turned(item, rotation)
    return _without_radiograph(turned) if modifiers.overlay_only else turned


def _turned(item: Item, rotation: int) -> Item:
    """Options moved on in a circle; "none" stays last, and option pictures stand in the order of their options."""
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
    """Each drawing by its control picture, and no radiograph."""
    control = {one.image: one.control for one in item.turn_images + item.alone_images if one.control is not None}

    def drawings(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(replace(one, image=control[one.image]) for one in pictures if one.role != RADIOGRAPH)

    options = tuple(replace(one, image=control[one.image]) if one.image else one for one in item.options)
    return replace(
        item, options=options, turn_images=drawings(item.turn_images), alone_images=drawings(item.alone_images)
    )


def order(item: Item) -> tuple[int, ...] | None:
    """The item's own option numbers as they are shown, first to last; None where that is 1, 2, 3, …"""
    numbers = tuple(option.n for option in item.options)
    return None if numbers == tuple(range(1, len(numbers) + 1)) else numbers


def in_order(item: Item, numbers: tuple[int, ...] | None) -> Item:
    """The item with its options in the order that a turn recorded (:func:`order`), to read its reply by.

    ``ValueError`` where these are not the item's own numbers, each once.
    """
    if numbers is None:
        return item
    options = {option.n: option for option in item.options}
    if sorted(numbers) != sorted(options):
        raise ValueError(f"the order {', '.join(map(str, numbers))} is none of the item's {len(options)} options")
    return replace(item, options=tuple(options[number] for number in numbers))


def place(item: Item, number: int) -> int:
    """The number under which the option with the item's own ``number`` is shown."""
    return next(place for place, option in enumerate(item.options, start=1) if option.n == number)
