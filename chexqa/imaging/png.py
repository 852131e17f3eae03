"""PNG writer: fast, deterministic, without metadata, and able to give all files of a set the same length.

The library libdeflate compresses the pixels. It is two to four times as fast as OpenCV's encoder, and its output
depends only on its input. The output of faster encoders also depends on the processor and on memory addresses.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt
from deflate import zlib_compress

MAGIC = b"\x89PNG\r\n\x1a\n"
_LEVEL, _SMALL = 1, 6
_GREY, _RGB, _PALETTE = 0, 2, 3  # colour types of the header
_FEW = 16  # colours that four bits can tell apart
_UP = 2  # filter "Up": a row is stored as its difference from the row above
_END = b"IEND"
_CHUNK = 12  # bytes of a chunk besides its content
_LENGTHS = 65536


def encode(array: npt.NDArray[np.uint8]) -> bytes:
    """Return a grey ``(H, W)`` or RGB ``(H, W, 3)`` array as PNG without metadata; the same array gives the same bytes.

    Source of the format: W3C, Portable Network Graphics (PNG) Specification, third edition.
    """
    height, width = array.shape[:2]
    rows = array.reshape(height, -1)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[0, 1:] = rows[0]  # the row above the first counts as zero
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if array.ndim == 2 else _RGB, 0, 0, 0)
    packed = bytes(zlib_compress(filtered, _LEVEL))
    return MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(_END, b"")


def encode_drawing(indices: npt.NDArray[np.uint8], palette: Sequence[tuple[int, int, int]]) -> bytes:
    """Return a drawing ``(H, W)`` as PNG that is transparent where the index is 0; equal drawings give equal bytes.

    ``indices`` are indices of ``palette``. The file has only the colours that are used, at four bits a pixel if there
    are at most 16.
    """
    height, width = indices.shape
    is_used = np.zeros(256, bool)
    is_used[indices[indices > 0]] = True
    is_used[0] = True  # the transparent colour
    numbers = np.cumsum(is_used, dtype=np.uint8) - np.uint8(1)
    rows, bits = cv2.LUT(indices, numbers), 8
    if is_used.sum() <= _FEW:
        even = cv2.copyMakeBorder(rows, 0, 0, 0, width % 2, cv2.BORDER_CONSTANT)
        pairs = even.view("<u2")  # a byte has the left pixel in its upper half
        rows, bits = (pairs << 4 | pairs >> 8).astype(np.uint8), 4
    unfiltered = np.zeros((height, rows.shape[1] + 1), np.uint8)
    unfiltered[:, 1:] = rows
    colours = bytes(part for number, colour in enumerate(palette) if is_used[number] for part in colour)
    header = struct.pack(">IIBBBBB", width, height, bits, _PALETTE, 0, 0, 0)
    packed = bytes(zlib_compress(unfiltered, _SMALL))
    chunks = ((b"IHDR", header), (b"PLTE", colours), (b"tRNS", b"\0"), (b"IDAT", packed), (_END, b""))
    return MAGIC + b"".join(chunk(name, data) for name, data in chunks)


def chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file: its length, ``name`` (four letters), its content and a checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def of_one_length(pngs: Sequence[bytes]) -> list[bytes]:
    """Return the PNG files, padded to the same length (a multiple of 64 KiB) with zeros that image decoders ignore.

    Without padding, the length of a file would be a hint at the answer, because a more detailed outline makes the file
    longer.
    """
    longest = max(len(png) for png in pngs) + _CHUNK
    length = -(-longest // _LENGTHS) * _LENGTHS
    return [_padded(png, length) for png in pngs]


def _padded(png: bytes, length: int) -> bytes:
    # Upper and lower case in the chunk's name mark it as optional, private and safe to copy.
    return png[:-_CHUNK] + chunk(b"paDd", bytes(length - len(png) - _CHUNK)) + png[-_CHUNK:]
