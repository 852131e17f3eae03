"""Writing PNG files: fast, the same bytes for the same picture, no metadata, lengths that tell nothing.

With OpenCV's encoder half of a generation's time was spent in it. libdeflate is two to four times as fast, compresses
better, and its bytes depend on its input alone: neither on the processor nor on where in memory things lie, on which
those of faster encoders do.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from deflate import zlib_compress

MAGIC = b"\x89PNG\r\n\x1a\n"
_LEVEL = 1
_GREY, _RGB = 0, 2  # colour types of the header
_UP = 2  # the filter: what is kept of a row is its difference from the row above
_END = b"IEND"
_CHUNK = 12  # bytes of a chunk beside what it holds
_LENGTHS = 65536


def encode(array: npt.NDArray[np.uint8]) -> bytes:
    """A grey ``(H, W)`` or RGB ``(H, W, 3)`` array as PNG without metadata; same array, same bytes.

    Source of the format: W3C, Portable Network Graphics (PNG) Specification, third edition.
    """
    height, width = array.shape[:2]
    rows = array.reshape(height, -1)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[0, 1:] = rows[0]  # above the first row all is nought
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if array.ndim == 2 else _RGB, 0, 0, 0)
    packed = bytes(zlib_compress(filtered, _LEVEL))
    return MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(_END, b"")


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file: the length of what it holds, its name of four letters, what it holds, a checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def of_one_length(pngs: Sequence[bytes]) -> list[bytes]:
    """PNG files brought to the same length by an ignored chunk of zeros before their end: a whole number of 64 KiB.

    A longer outline compresses a little worse; in coarse steps, and the same for all of a set, that tells nothing.
    """
    longest = max(len(png) for png in pngs) + _CHUNK
    length = -(-longest // _LENGTHS) * _LENGTHS
    return [_padded(png, length) for png in pngs]


def _padded(png: bytes, length: int) -> bytes:
    # By the case of its letters: not critical, private, safe to copy.
    return png[:-_CHUNK] + chunk(b"paDd", bytes(length - len(png) - _CHUNK)) + png[-_CHUNK:]
