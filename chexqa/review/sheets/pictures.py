"""Pictures in a reviewer's folder: each radiograph once as JPEG, and each drawing over it as a separate layer.

A layer is a PNG that is transparent where the picture equals the radiograph. The viewer is an HTML file beside a
workbook; it shows the pictures with zoom, brightness and contrast, and needs no server.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple, Protocol

import cv2
import numpy as np
from jinja2 import Environment, StrictUndefined

from chexqa.files.jsonio import sha256, write_bytes
from chexqa.imaging.overlays import Image
from chexqa.review.columns import anchor, clean

PICTURES = "pictures"
QUALITY = 85
# A picture that differs from its radiograph in a larger share of pixels is stored whole, not as a layer.
_MOST_CHANGED = 0.08


class Material(Protocol):
    """Source of pictures, each of which has a name."""

    def pixels(self, image: str) -> Image:
        """Return a picture at its full size, grey ``(H, W)`` or RGB."""

    def small(self, image: str, room: tuple[int, int]) -> Image:
        """Return a picture that fills ``room`` (width, height), or the full picture if that is smaller."""

    def under(self, image: str) -> str | None:
        """Return the name of the radiograph under a picture.

        Return ``None`` if the picture has no radiograph under it or is a radiograph itself.
        """


class Placed(NamedTuple):
    """Files of one picture, relative to the page: the picture, and the layer over it ("" if there is none)."""

    src: str
    over: str = ""


class FullPictures:
    """Files of full-size pictures; each is encoded once, in ``work``, and copied to each folder that shows it."""

    def __init__(self, material: Material, work: Path) -> None:
        self._material = material
        self._work = work
        self._placed: dict[str, Placed] = {}
        self._lock = threading.Lock()

    def encode_all(self, images: Iterable[str]) -> None:
        """Encode pictures in several threads."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.encode, dict.fromkeys(images)))

    def encode(self, image: str) -> None:
        """Encode a picture and the radiograph under it; several threads can do this at the same time."""
        base = self._material.under(image)
        if base is not None and base not in self._placed:
            self.encode(base)
        if image in self._placed:
            return
        pixels = self._material.pixels(image)
        layer = None if base is None else _layer(self._material.pixels(base), pixels)
        if layer is None:
            placed = Placed(self._write(_jpeg(pixels), "jpg"))
        else:
            assert base is not None, "a layer has a radiograph under it"
            placed = Placed(self._placed[base].src, self._write(_png(layer), "png"))
        with self._lock:
            self._placed[image] = placed

    def _write(self, data: bytes, ending: str) -> str:
        name = f"{PICTURES}/{sha256(data)}.{ending}"
        if not (self._work / name).exists():
            write_bytes(self._work / name, data)
        return name

    def put(self, image: str, home: Path) -> Placed:
        """Copy an encoded picture's files into a reviewer's folder, and return their names there."""
        placed = self._placed[image]
        for name in filter(None, placed):
            if not (home / name).exists():
                write_bytes(home / name, (self._work / name).read_bytes())
        return placed


def put_whole(material: Material, image: str, home: Path) -> str:
    """Write a picture with its drawings as one JPEG into ``home``; return the path relative to ``home``."""
    name = f"{PICTURES}/{sha256(image.encode())}.jpg"
    if not (home / name).exists():
        write_bytes(home / name, _jpeg(material.pixels(image)))
    return name


def _layer(base: Image, pixels: Image) -> Image | None:
    """Return as RGBA the layer that turns the radiograph ``base`` into the picture; None if there is no such layer."""
    if base.ndim != 2 or pixels.ndim != 3 or pixels.shape[:2] != base.shape:
        return None
    changed = (pixels != base[..., None]).any(axis=2)
    if changed.mean() > _MOST_CHANGED:
        return None
    return np.where(changed[..., None], np.dstack([pixels, np.full(base.shape, 255, np.uint8)]), 0).astype(np.uint8)


def _jpeg(pixels: Image) -> bytes:
    ordered = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if pixels.ndim == 3 else pixels
    # Colours are stored at full resolution; at half resolution, thin lines lose their colour.
    options = [
        cv2.IMWRITE_JPEG_QUALITY, QUALITY, cv2.IMWRITE_JPEG_OPTIMIZE, 1,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    ]  # fmt: skip
    return _encoded(".jpg", np.asarray(ordered, np.uint8), options)


def _png(layer: Image) -> bytes:
    return _encoded(".png", np.asarray(cv2.cvtColor(layer, cv2.COLOR_RGBA2BGRA), np.uint8), [])


def _encoded(ending: str, pixels: Image, options: list[int]) -> bytes:
    done, buffer = cv2.imencode(ending, pixels, options)
    assert done, "a uint8 array of one to four channels can always be encoded"
    return buffer.tobytes()


@dataclass(frozen=True)
class Plate:
    """A picture in the viewer: its caption, its file, and the file of the layer over it."""

    label: str
    src: str
    over: str = ""


@dataclass(frozen=True)
class Page:
    """Page of the HTML viewer: the question and pictures of one row of the workbook."""

    id: str
    tab: str
    no: int
    question: str
    options: tuple[str, ...]
    plates: tuple[Plate, ...]


def write_viewer(path: Path, title: str, notices: Sequence[str], pages: Sequence[Page]) -> None:
    """Write the viewer of one workbook; it shows ``notices`` at the top."""
    # Data goes in as JSON without any "<", and the page uses it as text only, never as markup.
    records = [
        {**vars(page), "anchor": anchor(page.id), "plates": [vars(plate) for plate in page.plates]} for page in pages
    ]
    data = json.dumps(records, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    source = (resources.files("chexqa.review.sheets") / "viewer.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    html = environment.from_string(source).render(title=clean(title), notices=[clean(n) for n in notices], data=data)
    write_bytes(path, html.encode())
