"""Compressed pictures inside DICOM files, checked before they are decoded.

A compressed stream has its own header, and a decoder uses as much memory and time as that header demands. This module
joins the stream's fragments, removes the boxes of JP2 around it, and reads the headers of JPEG, JPEG-LS and JPEG 2000,
so that they can be compared with the DICOM header. It unpacks run lengths only up to the picture's size. Sources: DICOM
PS3.5, annexes A.4 and G; ISO 10918-1, 14495-1 and 15444-1.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Bounds on the structure around the pixels: fragments, tiles and tile parts, precincts, scans, and the coefficients in
# a block. A radiograph is one tile of blocks of 64 x 64 or 32 x 32.
MAX_FRAGMENTS = 65_536
MAX_TILES, MAX_TILE_PARTS = 4_096, 16_384
MAX_PRECINCTS = 250_000
MAX_SCANS = 8
LEAST_BLOCK = 256

RLE = "1.2.840.10008.1.2.5"
_JPEG = "1.2.840.10008.1.2.4."
# Markers of the frame headers that each transfer syntax allows.
_FRAMES = {
    f"{_JPEG}50": (0xC0, 0xC1),
    f"{_JPEG}51": (0xC0, 0xC1),
    f"{_JPEG}57": (0xC3,),
    f"{_JPEG}70": (0xC3,),
    f"{_JPEG}80": (0xF7,),
    f"{_JPEG}81": (0xF7,),
}
_ITEM, _END = b"\xfe\xff\x00\xe0", b"\xfe\xff\xdd\xe0"
_SIZ, _COD, _COC, _SOT, _SOD, _EOC = 0xFF51, 0xFF52, 0xFF53, 0xFF90, 0xFF93, 0xFFD9


class Coded(NamedTuple):
    """Size of a picture: rows, columns and samples per pixel."""

    rows: int
    columns: int
    samples: int


def frame(data: bytes) -> bytes:
    """Return the compressed data of encapsulated pixel data with one frame: all fragments after the offset table."""
    place, fragments = 0, list[bytes]()
    while place + 8 <= len(data) and data[place : place + 4] != _END:
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        if data[place : place + 4] != _ITEM or len(fragments) > MAX_FRAGMENTS:
            raise ValueError("wrong or too many fragments")
        fragments.append(data[place + 8 : place + 8 + length])
        place += 8 + length
    return b"".join(fragments[1:])


def coded(stream: bytes, syntax: str) -> tuple[bytes, Coded]:
    """Return the compressed stream without boxes of JP2, and the picture's size as the stream's header states it.

    Raises ``ValueError`` for a stream that does not have the coding of the transfer syntax ``syntax``.
    """
    if syntax in _FRAMES:
        return stream, _jpeg(stream, _FRAMES[syntax])
    bare = _unboxed(stream)
    return bare, _jpeg2000(bare)


def _jpeg(stream: bytes, frames: tuple[int, ...]) -> Coded:
    if not stream.startswith(b"\xff\xd8") or stream.count(b"\xff\xda") > MAX_SCANS:
        raise ValueError("no JPEG stream, or a stream with too many scans")
    place = 2
    while place + 10 <= len(stream) and stream[place] == 0xFF:
        marker, length = stream[place + 1], int.from_bytes(stream[place + 2 : place + 4], "big")
        if marker == 0xFF:  # a fill byte
            place += 1
        elif marker in frames:
            rows, columns, samples = struct.unpack(">2HB", stream[place + 5 : place + 10])
            return Coded(rows, columns, samples)
        else:
            place += 2 + length
    raise ValueError("no frame header of the transfer syntax")


def _unboxed(stream: bytes) -> bytes:
    """Return the codestream of a JP2 file, which some programs store in DICOM files; a bare codestream is unchanged."""
    place = 0
    while not stream.startswith(b"\xff\x4f", place):
        length, kind = struct.unpack(">L4s", stream[place : place + 8])
        header = 8
        if length == 1:
            header, length = 16, int.from_bytes(stream[place + 8 : place + 16], "big")
        if kind == b"jp2c":
            return stream[place + header : place + length if length else None]
        if length < header:
            raise ValueError("a box without an end")
        place += length
    return stream[place:] if place else stream


def _jpeg2000(stream: bytes) -> Coded:
    segments = _segments(stream)
    marker, size = next(segments, (0, b""))
    if marker != _SIZ:
        raise ValueError("no size in the code stream")
    right, low, left, top, wide, high, tiles_left, tiles_top, samples = struct.unpack(">8LH", size[2:36])
    if not wide or not high or samples not in (1, 3) or size[36:] != size[36:39] * samples or size[37:39] != b"\1\1":
        raise ValueError("tiles or components that no radiograph has")
    tiles = math.ceil((right - tiles_left) / wide) * math.ceil((low - tiles_top) / high)
    if tiles > MAX_TILES:
        raise ValueError("very many tiles")
    area = (min(wide, right), min(high, low))
    for marker, about in segments:
        if marker == _COD:
            _check_coding(about[5:], bool(about[0] & 1), area, tiles * samples)
        elif marker == _COC:
            _check_coding(about[2:], bool(about[1] & 1), area, tiles * samples)
    return Coded(low - top, right - left, samples)


def _segments(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield ``(marker, content)`` of each segment in the main and tile-part headers of a JPEG 2000 stream."""
    place, end, parts = 2, len(stream), 0
    while place + 4 <= len(stream):
        marker, length = struct.unpack(">2H", stream[place : place + 4])
        if marker == _EOC:
            return
        if marker == _SOD:
            place = end
            continue
        if marker == _SOT:
            reach, parts = int.from_bytes(stream[place + 6 : place + 10], "big"), parts + 1
            end = place + reach if reach else len(stream)
            if 0 < reach < 14 or parts > MAX_TILE_PARTS:
                raise ValueError("wrong or too many parts of tiles")
        if not 0xFF00 < marker < _SOD or length < 2:
            raise ValueError("a code stream with something else in it")
        yield marker, stream[place + 4 : place + 2 + length]
        place += 2 + length


def _check_coding(about: bytes, cut: bool, area: tuple[int, int], tiles: int) -> None:
    """Raise ``ValueError`` if code blocks or precincts are so small that their number would exhaust the memory."""
    levels, *block = about[:3]
    if levels > 32 or 1 << sum(block) + 4 < LEAST_BLOCK:
        raise ValueError("very small blocks")
    sides = about[5 : 6 + levels] if cut else b"\xff" * (levels + 1)
    across = [
        math.ceil(area[0] / 2 ** (levels - level + (side & 15)))
        * math.ceil(area[1] / 2 ** (levels - level + (side >> 4)))
        for level, side in enumerate(sides)
    ]
    if sum(across) * tiles > MAX_PRECINCTS:
        raise ValueError("very many precincts")


def unpacked(stream: bytes, pixels: int, samples: int, width: int) -> bytes:
    """Unpack an RLE frame; return its samples of ``width`` bytes, little endian, one colour after the other.

    Each segment gives one byte for each of the ``pixels`` pixels; further bytes are ignored. Raises ``ValueError`` if a
    segment has too few bytes, or if the number of segments is not ``samples * width``.
    """
    count, *starts = struct.unpack("<16L", stream[:64])
    if count != samples * width:
        raise ValueError("not as many segments as a pixel has bytes")
    ends = [*starts[1:count], len(stream)]
    planes = np.empty((count, pixels), np.uint8)
    for plane, start, end in zip(planes, starts, ends, strict=False):
        plane[:] = np.frombuffer(_run_lengths(stream[start:end], pixels), np.uint8)
    # The first segment of a sample holds its highest bytes.
    return planes.reshape(samples, width, pixels)[:, ::-1].transpose(0, 2, 1).tobytes()


def _run_lengths(segment: bytes, wanted: int) -> bytes:
    result, place, length = bytearray(), 0, 0
    while length < wanted:
        if place + 1 >= len(segment):
            raise ValueError("run lengths that end early")
        head = segment[place]
        if head < 128:
            piece = segment[place + 1 : place + 2 + head]
            place += 2 + head
        else:
            piece = segment[place + 1 : place + 2] * (257 - head) if head > 128 else b""
            place += 2 if head > 128 else 1
        result += piece
        length += len(piece)
    return bytes(result[:wanted])
