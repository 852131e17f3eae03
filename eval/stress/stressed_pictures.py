"""Degraded pictures of stressed items, made while a run asks the items.

Only the radiograph is degraded, not the outline, points or letters drawn on it. The pictures are not
written to files. A picture's name is a hash of its bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract.benchmark import Benchmark, image_path
from chexqa.contract.items import ORIGINAL, Item, Picture
from chexqa.eval.stress import cells
from chexqa.eval.stress.cells import kind_of, severity_of
from chexqa.eval.stress.degradations import DEGRADATIONS, Mask
from chexqa.eval.stress.unequal_wordings import unequal
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256
from chexqa.files.seeds import stream
from chexqa.imaging import png
from chexqa.imaging.masks import from_rle

_KEPT_BYTES = 256 * 2**20
Image = npt.NDArray[np.uint8]


def laid_on(spoilt: Image, drawn: Image, layer: Mask) -> Image:
    """Return the degraded grey picture ``(H, W)`` as RGB, with the pixels in ``layer`` taken from ``drawn``."""
    made = cv2.cvtColor(spoilt, cv2.COLOR_GRAY2RGB)
    made[layer] = drawn[layer]
    return np.asarray(made, np.uint8)


class StressedPictures:
    """Source of pictures: those of a benchmark, and those of stressed items, made when they are requested."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._origin: dict[str, tuple[Picture, str, str]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """Return the benchmark's folder."""
        return self.benchmark.folder

    def image_bytes(self, image: str) -> bytes:
        """Return a picture's PNG file."""
        with self._lock:
            if image in self._made:
                return self._made[image]
            origin = self._origin.get(image)
        return self.benchmark.image_bytes(image) if origin is None else self.make(*origin)[1]

    def shown(self, item: Item) -> Item:
        """Return the item with degraded pictures; an item without a degradation is returned unchanged."""
        cell = item.condition
        if cell == ORIGINAL or kind_of(cell) not in DEGRADATIONS:
            return item
        new = {}
        for picture in dict.fromkeys((*item.turn_images, *item.alone_images)):
            new[picture.image] = self.make(picture, cell, item.case_id)[0]
        options = tuple(
            option if option.image is None else replace(option, image=new[option.image]) for option in item.options
        )
        turn, alone = (
            tuple(replace(picture, image=new[picture.image]) for picture in pictures)
            for pictures in (item.turn_images, item.alone_images)
        )
        return replace(item, options=options, turn_images=turn, alone_images=alone)

    def make(self, picture: Picture, cell: str, case_id: str) -> tuple[str, bytes]:
        """Return the name and the PNG file of a picture degraded as ``cell`` says, such as ``noise-3``."""
        image = self.spoilt(picture, cell, case_id)
        data = png.encode(image)
        if picture.layer is not None:
            (data,) = png.of_one_length([data])
        name = image_path(sha256(data))
        with self._lock:
            self._origin[name] = (picture, cell, case_id)
            if name not in self._made:
                self._made[name] = data
                self._bytes += len(data)
            while self._bytes > _KEPT_BYTES and len(self._made) > 1:
                self._bytes -= len(self._made.popitem(last=False)[1])
        return name, data

    def spoilt(self, picture: Picture, cell: str, case_id: str) -> Image:
        """Return a picture with the degradation of a stress cell: grey ``(H, W)``, or RGB if it has a drawing."""
        base, severity = picture.base or picture.image, severity_of(cell)
        assert severity is not None, "a degradation has a severity"
        grey = _decoded(self.benchmark.image_bytes(base), cv2.IMREAD_GRAYSCALE)
        rng, lungs = stream(0, base, "stress", cell), self._lungs(case_id, grey)
        changed = DEGRADATIONS[kind_of(cell)](grey, severity, rng, lungs)
        if picture.layer is None:
            return changed
        drawn = _decoded(self.benchmark.image_bytes(picture.image), cv2.IMREAD_COLOR)
        layer = _decoded(self.benchmark.image_bytes(picture.layer), cv2.IMREAD_GRAYSCALE) > 0
        return laid_on(changed, np.asarray(cv2.cvtColor(drawn, cv2.COLOR_BGR2RGB), np.uint8), layer)

    @cached_property
    def _cases(self) -> dict[str, dict[str, object]]:
        keys = self.benchmark.cases
        return {} if keys is None else {name: case.measures.get("masks") or {} for name, case in keys.items()}

    def has_lungs(self, case_id: str) -> bool:
        """Return True if the key has the mask of at least one lung of the case."""
        masks = self._cases.get(case_id, {})
        return any(f"{side}_lung" in masks for side in ("right", "left"))

    def _lungs(self, case_id: str, grey: Image) -> Mask | None:
        masks = self._cases.get(case_id, {})
        runs = [masks[name] for name in ("right_lung", "left_lung") if name in masks]
        if not runs:
            return None
        found = np.zeros(grey.shape, bool)
        for one in runs:
            mask = from_rle(one, f"the masks of case '{case_id}'")  # type: ignore[arg-type]
            if mask.shape == grey.shape:
                found |= mask
        return found


def stressed_items(benchmark: Benchmark, items: Sequence[Item], kinds: Sequence[str]) -> list[Item]:
    """Return the stressed items (:func:`chexqa.eval.stress.cells.stressed`), still with the original pictures.

    Wordings that, according to a reviewer, change a question's meaning are left out.
    """
    pictures = StressedPictures(benchmark)
    lungs = {case_id: pictures.has_lungs(case_id) for case_id in {item.case_id for item in items}}
    refused = {(one.kind, one.cell) for one in unequal(benchmark)}
    return cells.stressed(items, kinds, benchmark.about["question_bank"], lungs, refused)


def check(benchmark: Benchmark, items: tuple[Item, ...], kinds: Sequence[str], protocol: str, blind: bool) -> None:
    """Raise ``InputError`` if items cannot be asked under the given kinds of stress and protocol."""
    cells.check(benchmark, kinds, protocol, blind)
    if any(kind in DEGRADATIONS for kind in kinds):
        _check_layers(items)


def _check_layers(items: tuple[Item, ...]) -> None:
    """Raise ``InputError`` if a drawing has no layer."""
    for item in items:
        for picture in (*item.turn_images, *item.alone_images):
            # Without a layer, the drawing cannot be added to a degraded radiograph.
            if picture.role != "radiograph" and picture.layer is None:
                raise InputError(
                    f"item '{item.item_id}': --stress degrades the radiograph but not the drawing on it, and this "
                    "benchmark does not store drawings separately; generate the benchmark again with 'chexqa generate "
                    "--with-layers', or give --stress wording,history."
                )


def _decoded(data: bytes, how: int) -> Image:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    assert image is not None, "a benchmark's picture was checked by its hash"
    return np.asarray(image, np.uint8)
