"""Random damage to DICOM files for the fuzzer: elements, transfer syntaxes, and headers of compressed pictures."""

from __future__ import annotations

import random
import re
import struct

from binary import SIZES

# --- DICOM ------------------------------------------------------------------------------------------------------------

LONG = (b"OB", b"OW", b"SQ", b"UN", b"UT", b"OF", b"OD", b"UC", b"UR", b"OL")
SYNTAXES = (b"1.2.840.10008.1.2", b"1.2.840.10008.1.2.1", b"1.2.840.10008.1.2.1.99", b"1.2.840.10008.1.2.2",
            b"1.2.840.10008.1.2.5",
            b"1.2.840.10008.1.2.4.90", b"1.2.840.10008.1.2.4.50", b"1.2.840.10008.1.2.4.70", b"1.2.840.10008.1.2.4.80",
            b"1.2.3")  # fmt: skip
NUMBERS = {b"US": (0, 1, 2, 8, 16, 32, 255, 8001, 65535)}
STRINGS = (b"", b"0", b"-1", b"1e308", b"1e-308", b"NaN", b"inf", b"2147483648", b"999999999999999", b"1\\2\\3", b"\\",
           b"x", b"\x1b[31m",
           b"MONOCHROME1", b"RGB", b"PALETTE COLOR", b"YBR_FULL", b"1.5", b"9" * 70)  # fmt: skip


def elements(data: bytes) -> list[tuple[int, int, int]]:
    """Return three byte offsets for each element of a DICOM file: its start, its value's start, and its end.

    The file is in explicit little endian.
    """
    place, found = 132, []
    while place + 8 <= len(data):
        if data[place + 4 : place + 6] in LONG:
            (length,) = struct.unpack("<I", data[place + 8 : place + 12])
            value = place + 12
        else:
            (length,) = struct.unpack("<H", data[place + 6 : place + 8])
            value = place + 8
        end = len(data) if length == 0xFFFFFFFF else min(len(data), value + length)
        found.append((place, value, end))
        place = end
    return found


def element(tag: tuple[int, int], kind: bytes, value: bytes) -> bytes:
    value += b"\0" * (len(value) % 2)
    size = b"\0\0" + struct.pack("<I", len(value)) if kind in LONG else struct.pack("<H", len(value) & 0xFFFF)
    return struct.pack("<HH", *tag) + kind + size + value


def dicom_change(data: bytes, rng: random.Random) -> bytes:
    found = elements(data)
    start, value, end = rng.choice(found)
    kind = data[start + 4 : start + 6]
    pixels = found[-1]
    match rng.randrange(8):
        case 0:  # a value
            new = struct.pack("<H", rng.choice(NUMBERS[b"US"])) if kind == b"US" else rng.choice(STRINGS)
            name = struct.unpack("<HH", data[start : start + 4])
            return data[:start] + element((name[0], name[1]), kind, new) + data[end:] if value < pixels[0] else data
        case 1:  # a length
            size = struct.pack("<I", rng.choice(SIZES))
            return (
                data[: value - 4] + size + data[value:] if kind in LONG else data[: value - 2] + size[:2] + data[value:]
            )
        case 2:  # the transfer syntax
            first, _, last = next(one for one in found if data[one[0] : one[0] + 4] == b"\x02\0\x10\0")
            return data[:first] + element((2, 0x10), b"UI", rng.choice(SYNTAXES)) + data[last:]
        case 3:  # sizes and depths of the picture
            tag = rng.choice((0x10, 0x11, 0x100, 0x101, 0x102, 0x103, 0x02, 0x06))
            mark = struct.pack("<HH", 0x28, tag) + b"US\2\0"
            new = struct.pack("<H", rng.choice(NUMBERS[b"US"]))
            return re.sub(re.escape(mark) + b"..", lambda _: mark + new, data, count=1, flags=re.S)
        case 4:  # frames, windows, tables
            extra = rng.choice((
                element((0x28, 8), b"IS", rng.choice((b"2", b"0", b"100000", b"-1", b"x"))),
                element((0x28, rng.choice((0x1050, 0x1051, 0x1052, 0x1053))), b"DS", rng.choice(STRINGS)),
                element((0x28, 0x1056), b"LO", rng.choice((b"SIGMOID", b"LINEAR_EXACT", b"X"))),
                element((0x28, 0x3010), b"SQ", rng.choice((b"", b"\xfe\xff\0\xe0\xff\xff\xff\xff", rng.randbytes(40)))),
                element((0x28, 0x3000), b"SQ", b"\xfe\xff\0\xe0\0\0\0\0" * 50),
            ))  # fmt: skip
            return data[: pixels[0]] + extra + data[pixels[0] :]
        case 5:  # the header of the compressed pixels: JPEG 2000 plain and boxed, RLE
            marks = [data.find(mark, pixels[0]) for mark in (b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP", b"\1\0\0\0")]
            place = next((mark for mark in marks if mark > 0), value) + rng.randrange(64)
            return data[:place] + struct.pack(rng.choice("<>") + "I", rng.choice(SIZES)) + data[place + 4 :]
        case 6:
            return data[:start] + data[start:end] * rng.choice((0, 2, 30)) + data[end:]
        case _:
            place = rng.randrange(pixels[1], len(data)) if pixels[1] < len(data) else 0
            return data[:place] + rng.randbytes(8) + data[place + 8 :]
