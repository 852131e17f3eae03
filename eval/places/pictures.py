"""Size of the picture in which the coordinates of an item are given."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.places.coordinate_systems import Size
from chexqa.files.errors import InputError
from chexqa.files.opening import open_binary

_HEADER = struct.Struct(">16xII")  # a PNG's width and height follow its first 16 bytes


def picture_size(benchmark: Benchmark, item: Item) -> Size:
    """Return the width and height in pixels of the first picture of an item.

    Raise ``InputError`` if the picture is missing or is not a PNG.
    """
    return _size(benchmark.folder, item.alone_images[0].image)


@lru_cache(maxsize=100_000)
def _size(folder: Path, image: str) -> Size:
    path = folder / image
    try:
        with open_binary(path, inside=folder) as file:
            width, height = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, struct.error):
        raise InputError(f"{path}: cannot be read as a PNG; restore the benchmark's pictures.") from None
    return width, height
