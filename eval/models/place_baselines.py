"""Replies of the baselines to localization questions (point, box or outline), in pixels of the item's picture.

- ``oracle``: gives the key.
- ``chance``: answers "nowhere" half of the time, and otherwise draws a place from the lungs.
- ``centre``: gives the middle of the picture. So does ``first``, as there are no options to choose from.
- ``average-map``: gives the place that is most often inside other patients' masks of the finding.
- ``blind-prior``: always answers "nowhere".

Questions about a printed marker, which test a model's coordinates, are answered right by every baseline.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Item
from chexqa.eval.places import markers
from chexqa.eval.places.average import AverageMaps, place_on
from chexqa.eval.places.coordinate_systems import Shape, Size
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.places.target import Target, target_of
from chexqa.imaging.masks import from_rle, pixels

if TYPE_CHECKING:
    from chexqa.contract.benchmark import Benchmark

NAMES = ("centre", "average-map")
Shapes = tuple[Shape, ...]


class PlaceBaselines:
    """Responder that gives the baselines' replies to the localization questions of one benchmark."""

    def __init__(self, benchmark: Benchmark) -> None:
        """Store the benchmark; its key is read when a baseline first needs it."""
        self.benchmark = benchmark
        self._averages = AverageMaps(benchmark)
        # Questions on one case follow each other, so only the last case is kept.
        self._target = lru_cache(maxsize=1)(self._target_of)
        self._inside = lru_cache(maxsize=1)(self._inside_of)

    def reply(self, rule: str, item: Item, random: np.random.Generator) -> str:
        """Return the reply (a text) of the baseline ``rule`` to an item that asks for a place."""
        knows = rule == "oracle" or item.kind in markers.KINDS
        shapes = self._oracle(item) if knows else self._shapes(rule, item, random)
        if not shapes:
            return self._line("nowhere")
        parts: list[object] = [_written(item.form.name, shape) for shape in shapes]
        several = item.form.name == "boxes" or (item.form.name == "outline" and len(parts) > 1)
        return self._line(json.dumps(parts if several else parts[0]))

    def _line(self, answer: str) -> str:
        return str(self.benchmark.conversation_texts["answer"].format(answer=answer))

    def _shapes(self, rule: str, item: Item, random: np.random.Generator) -> Shapes:
        size = picture_size(self.benchmark, item)
        if rule == "blind-prior" or (rule == "chance" and item.form.name != "width" and random.random() < 0.5):
            return ()
        if rule == "average-map":
            average = self._averages.of(item.finding, item.case_id)
            return _middle(item.form.name, size) if average is None else place_on(average, item.form.name, size)
        return self._drawn(item, size, random) if rule == "chance" else _middle(item.form.name, size)

    def _oracle(self, item: Item) -> Shapes:
        answer, target = self.benchmark.key("a baseline")[0][item.item_id], self._target(item.case_id)
        return () if target is None or answer.answer != (SOMEWHERE,) else _place_of(item.form.name, target)

    def _target_of(self, case_id: str) -> Target | None:
        measures = self.benchmark.key("a baseline")[1][case_id].measures
        return target_of(measures, f"the key of case '{case_id}'")

    def _inside_of(self, case_id: str) -> npt.NDArray[np.intp] | None:
        """Return the pixels (row, column) of a case's lungs, ``(N, 2)``; None if it has no lung masks."""
        masks = self.benchmark.key("a baseline")[1][case_id].measures.get("masks", {})
        sides = [from_rle(masks[name], "the key") for name in ("right_lung", "left_lung") if name in masks]
        return pixels(np.logical_or.reduce(sides)) if sides else None

    def _drawn(self, item: Item, size: Size, random: np.random.Generator) -> Shapes:
        """Return a random place in the lungs, or in the whole picture if the case has no lung masks."""
        inside = self._inside(item.case_id)
        if inside is not None:
            rows, columns = inside[random.integers(len(inside), size=2)].T
        else:
            columns, rows = (random.integers(side, size=2) for side in size)
        first, second = ((float(x) + 0.5, float(y) + 0.5) for x, y in zip(columns, rows, strict=True))
        return _spanned(item.form.name, first, second)


def _place_of(form: str, target: Target) -> Shapes:
    """Return the place in the key, in the form that the item asks for."""
    if form == "point":
        return (target.inner_point,)
    if form == "outline":
        return target.outlines
    if form == "width":
        assert target.heart is not None
        middle = target.size[1] / 2
        return ((target.heart[0], middle, target.heart[1], middle),)
    return target.boxes if form == "boxes" else (target.box,)


def _middle(form: str, size: Size) -> Shapes:
    """Return the middle of the picture: its central point, or a box of half its width and height."""
    width, height = size
    if form == "point":
        return ((width / 2, height / 2),)
    return _spanned(form, (width / 4, height / 4), (3 * width / 4, 3 * height / 4))


def _spanned(form: str, one: tuple[float, float], other: tuple[float, float]) -> Shapes:
    """Return the place from two points: the first point, or the box between them, as the item asks."""
    x0, x1 = sorted((one[0], other[0]))
    y0, y1 = sorted((one[1], other[1]))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
    shapes: dict[str, Shape] = {
        "point": one, "outline": (x0, y0, x1, y0, x1, y1, x0, y1), "width": (x0, one[1], x1, one[1]),
    }  # fmt: skip
    return (shapes.get(form, (x0, y0, x1, y1)),)


def _written(form: str, shape: Shape) -> object:
    """Return a shape as in a reply: a flat list for a point or box; otherwise pairs ``[x, y]``."""
    numbers = [round(number, 1) for number in shape]
    return numbers if form in ("point", "box", "boxes") else [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
