"""Measures of a picture's file, and of the grey levels of its background (away from the coloured drawing)."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.audit.outlines import Image, Mask, Measures
from chexqa.imaging.png import MAGIC

MODULI = (2, 3, 4, 5, 8, 10, 16)  # divisors of a length or an id; a residue could give an answer away
_NAMELESS = 4  # number of first bytes that stand for the format of a file that is neither PNG nor JPEG
_BLOCKS = 64  # number of blocks along the longer side, in which the neighbourhood of a drawing is measured
_NEAR = 3  # blocks round a coloured one that are not background: a disc's rim and letter are grey
_EMPTY = bytes(1)
_TAILS = (0.05, 0.95)
_LONG_HEX = re.compile(r"(?:^|[^0-9A-Za-z])[a-z]?([0-9a-f]{8,64})$", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,64}$")


class File(NamedTuple):
    """A picture's file: its length in bytes, its parts, and checksums of the parts that do not contain pixels."""

    length: float
    parts: str
    texts: str

    @classmethod
    def of(cls, data: bytes) -> File:
        """Return the measures of a file of any format; only PNG and JPEG files are divided into parts."""
        parts = _png(data) if data.startswith(MAGIC) else _jpeg(data) if data.startswith(b"\xff\xd8") else _other(data)
        names, texts = zip(*parts, strict=True)
        # A long file has its pixels in several parts of the same name.
        joined = [name for place, name in enumerate(names) if not place or name != names[place - 1]]
        return cls(float(len(data)), " ".join(joined), " ".join(text for text in texts if text))


def _png(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield a PNG's chunks as name and checksum.

    The header's name includes bit depth, colour type and interlacing. A chunk of pixels, or of zeros only, has no
    checksum.
    """
    place = len(MAGIC)
    while place + 8 <= len(data):
        length, name = struct.unpack(">I4s", data[place : place + 8])
        held = data[place + 8 : place + 8 + length]
        word = name.decode("latin-1")
        if name == b"IHDR" and len(held) == 13:
            word = f"IHDR({held[8]},{held[9]},{held[12]})"
        tells = name not in (b"IHDR", b"IDAT", b"IEND") and held.strip(_EMPTY)
        yield word, f"{word} {data[place + 8 + length : place + 12 + length].hex()}" if tells else ""
        place += 12 + length
    if place < len(data):
        yield "more", ""


def _jpeg(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield a JPEG's segments before its pixels as marker and checksum.

    Only comments and segments of applications (without APP0) have a checksum.
    """
    place = 2
    yield "SOI", ""
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        tells = 0xE1 <= marker <= 0xEF or marker == 0xFE
        yield f"{marker:02X}", f"{marker:02X} {checksum(data[place + 4 : place + 2 + length])}" if tells else ""
        if marker == 0xDA:
            return
        place += 2 + max(2, length)


def _other(data: bytes) -> Iterator[tuple[str, str]]:
    yield data[:_NAMELESS].hex(), ""


def checksum(data: bytes) -> str:
    """Return a short checksum of some bytes, to compare the non-pixel content of picture files."""
    return f"{zlib.crc32(data):08x}"


class Background(NamedTuple):
    """Background of a picture: the pixels that are not near its coloured drawing.

    - ``grey``: the grey levels ``(H, W)`` of the whole picture.
    - ``is_background``: True for each pixel of the background, ``(H, W)``.
    """

    grey: Image
    is_background: Mask

    @classmethod
    def of(cls, image: Image) -> Background:
        """Return the background of a picture ``(H, W, 3)``."""
        red, green, blue = cv2.split(image)
        colored = cv2.max(cv2.absdiff(red, green), cv2.absdiff(green, blue)) > 2
        height, width = green.shape
        block = max(1, max(height, width) // _BLOCKS)
        near = np.add.reduceat(np.add.reduceat(colored, np.arange(0, height, block), 0), np.arange(0, width, block), 1)
        grown = cv2.dilate((near > 0).astype(np.uint8), np.ones((2 * _NEAR + 1,) * 2, np.uint8))
        covered = np.repeat(np.repeat(grown, block, 0), block, 1)[:height, :width]
        return cls(np.asarray(green), np.asarray(covered == 0))

    def measures(self) -> Measures:
        """Return the mean, spread and tails of the background's grey levels, and the share of odd levels (1, 3, …).

        The result is {} if the picture has no background.
        """
        counts = np.bincount(self.grey[self.is_background], minlength=256)
        if not counts.any():
            return {}
        levels, share = np.arange(256), counts / counts.sum()
        mean = float(share @ levels)
        low, high = (float(np.searchsorted(share.cumsum(), tail)) for tail in _TAILS)
        return {
            "mean grey": mean,
            "spread of grey": float(np.sqrt(share @ (levels - mean) ** 2)),
            "dark tail": low,
            "bright tail": high,
            "odd levels": float(share[1::2].sum()),
        }

    def against(self, radiograph: npt.NDArray[np.uint8]) -> Measures:
        """Return the background's mean difference in grey from the radiograph, and the share of pixels that differ.

        The result is {} if the sizes differ, or if the picture has no background.
        """
        if radiograph.shape != self.grey.shape or not self.is_background.any():
            return {}
        apart = (self.grey.astype(np.int16) - radiograph)[self.is_background]
        return {
            "difference in grey": float(apart.mean()),
            "share of pixels that differ": float(np.count_nonzero(apart)) / apart.size,
        }


def residues(name: str, number: int) -> dict[str, float]:
    """Return the remainders of a whole number after division by each number in :data:`MODULI`, keyed by name.

    >>> residues("length", 7)["length mod 4"]
    3.0
    """
    return {f"{name} mod {modulus}": float(number % modulus) for modulus in MODULI}


def number_in(name: str) -> int | None:
    """Return the number at the end of an id; None if the id has no number at its end.

    If the id ends in a word of eight or more hexadecimal digits, such as a case's id, this is a hexadecimal number. In
    all other ids, the digits at the end are a decimal number.

    >>> number_in("c00000000000f"), number_in("case 12"), number_in("x")
    (15, 12, None)
    """
    long = _LONG_HEX.search(name)
    if long:
        return int(long[1], 16)
    short = _DIGITS.search(name)
    return int(short[0]) if short else None
