"""Random damage to the structure of binary files for the fuzzer: pictures, spreadsheets, arrays and pickles."""

from __future__ import annotations

import io
import random
import re
import struct
import warnings
import zipfile
import zlib

SIZES = (0, 1, 2, 7, 8, 9, 255, 256, 8001, 30000, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)

# --- PNG --------------------------------------------------------------------------------------------------------------


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    place, found = 8, []
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += length + 12
    return found


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def bomb(kilobytes: int) -> bytes:
    """Return zlib data that unpack to many megabytes of zeros."""
    return zlib.compress(b"\0" * (kilobytes * 1024), 9)


def png_change(data: bytes, rng: random.Random) -> bytes:
    parts = chunks(data)
    if not parts:
        raise ValueError("no chunks")
    here = rng.randrange(len(parts))
    header = bytearray(parts[0][1])
    match rng.randrange(9):
        case 0:  # width or height
            at = rng.choice((0, 4))
            header[at : at + 4] = struct.pack(">I", rng.choice(SIZES))
            parts[0] = (parts[0][0], bytes(header))
        case 1:  # depth, colour, compression, filter, interlace
            header[rng.randrange(8, 13)] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 255))
            parts[0] = (parts[0][0], bytes(header))
        case 2:
            parts.pop(here)
        case 3:
            parts.insert(rng.randrange(len(parts) + 1), parts[here])
        case 4:
            rng.shuffle(parts)
        case 5:  # a bomb that fits its header
            side = rng.choice((4000, 7999, 8001, 20000))
            header[:8] = struct.pack(">II", side, side)
            header[8:10] = bytes((8, 0))
            parts = [(b"IHDR", bytes(header)), (b"IDAT", bomb(min(side * (side + 1) // 1024, 65_000))), (b"IEND", b"")]
        case 6:  # more chunks
            text = b"Comment\0\0" + bomb(rng.choice((1, 2000, 60_000)))
            extra = [(b"zTXt", text), (b"iTXt", b"a\0\1\0\0\0" + text[9:]), (b"iCCP", text),
                     (b"tEXt", b"k\0" + b"\x1b[2J" * 9),
                     (b"PLTE", rng.randbytes(rng.choice((0, 3, 300, 768, 771)))), (b"tRNS", b"\0" * 300),
                     (b"acTL", struct.pack(">II", rng.choice(SIZES), 0)),
                     (b"eXIf", b"II*\0\xff\xff\xff\xff" + b"\0" * 40),
                     (b"gAMA", b"\0" * 4), (b"pHYs", b"\xff" * 9), (b"XXXX", b""), (b"sBIT", b"\x20"),
                     (b"IEND", b"")]  # fmt: skip
            parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(extra))
        case 7:  # the compressed pixels
            place = next((n for n, (name, _) in enumerate(parts) if name == b"IDAT"), here)
            raw = zlib.decompressobj().decompress(parts[place][1], 2**22)
            raw = rng.choice((raw[: len(raw) // 2], raw * 3, bytes([9]) + raw[1:], b"", bytes(len(raw)), raw[::-1]))
            parts[place] = (b"IDAT", zlib.compress(raw, rng.choice((0, 9))))
        case _:
            name, body = parts[here]
            parts[here] = (rng.choice((name, name.lower(), b"\0\0\0\0", b"IDAT")), body[: rng.randrange(len(body) + 1)])
    return data[:8] + b"".join(chunk(name, body) for name, body in parts)


# --- JPEG -------------------------------------------------------------------------------------------------------------


def jpeg_change(data: bytes, rng: random.Random) -> bytes:
    """Return a JPEG with changed segments before the scan, or with a repeated scan."""
    places = [match.start() for match in re.finditer(rb"\xff[\xc0-\xfe]", data)]
    frame = data.find(b"\xff\xc0")
    match rng.randrange(6):
        case 0 if frame > 0:
            at = frame + rng.choice((5, 7))
            return data[:at] + struct.pack(">H", rng.choice(SIZES) & 0xFFFF) + data[at + 2 :]
        case 1 if frame > 0:
            at = frame + rng.choice((1, 4, 9, 10, 11, 12))
            return data[:at] + bytes([rng.choice((0, 1, 2, 3, 4, 8, 12, 0xC2, 0xC9, 0xFF))]) + data[at + 1 :]
        case 2:
            turn = (
                b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"
                + bytes([rng.randrange(12)])
                + b"\0\0\0"
                + b"\0" * 4
            )
            extra = rng.choice((b"\xff\xe1" + struct.pack(">H", len(turn) + 2) + turn,
                                b"\xff\xfe\xff\xff" + b"c" * 65533,
                                b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\2"))  # fmt: skip
            return data[:2] + extra + data[2:]
        case 3 if len(places) > 2:
            start, end = sorted(rng.sample(places, 2))
            return data[:start] + data[start:end] * rng.choice((0, 2, 200)) + data[end:]
        case 4:
            scan = data.rfind(b"\xff\xda")
            return data[:-2] + data[scan:-2] * 300 + data[-2:]
        case _:
            at = rng.choice(places or [0]) + 2
            return data[:at] + struct.pack(">H", rng.choice((0, 1, 2, 65535))) + data[at + 2 :]


# --- zip files, spreadsheets, arrays ----------------------------------------------------------------------------------


def parts_of(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


METHODS = (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def zipped(parts: list[tuple[str, bytes]], method: int) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore", UserWarning)  # of names given twice
        for name, body in parts:
            archive.writestr(zipfile.ZipInfo(name), body, method)
    return out.getvalue()


def zip_change(data: bytes, rng: random.Random) -> bytes:
    """Return a zip file in which a member is renamed, dropped, duplicated or given a wrong size."""
    parts = parts_of(data)
    here = rng.randrange(len(parts))
    name, body = parts[here]
    match rng.randrange(6):
        case 0:
            parts.pop(here)
        case 1:
            parts.append(parts[here])
        case 2:
            parts[here] = (
                rng.choice((name.upper(), "../" + name, "/" + name, name + "x", name.replace("/", "\\"))),
                body,
            )
        case 3:
            parts.append(
                (rng.choice(("xl/vbaProject.bin", "big", "data/0", name + ".npy", "a/" * 300)), b"\0" * 3_000_000)
            )
        case 4:
            parts += [(f"x{n}", b"") for n in range(3000)]
        case _:
            out = bytearray(zipped(parts, rng.choice(METHODS)))
            places = [match.start() for match in re.finditer(rb"PK\x01\x02", bytes(out))]
            at = rng.choice(places) + rng.choice((8, 10, 20, 24, 28, 42))
            out[at : at + 4] = struct.pack("<I", rng.choice(SIZES))
            return bytes(out)
    return zipped(parts, rng.choice(METHODS))


ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>'
)
RELATION = '<Relationship Id="rX" Target="file:///etc/passwd" TargetMode="External" Type="http://x/externalLink"/>'


def xlsx_change(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.25:
        return zip_change(data, rng)
    parts = parts_of(data)
    texts = [n for n, (name, _) in enumerate(parts) if name.endswith((".xml", ".rels"))]
    sheets = [n for n in texts if "sheet" in parts[n][0]] or texts
    here = rng.choice(texts if rng.random() < 0.4 else sheets)
    name, body = parts[here]
    parts[here] = (name, xml_change(body.decode(), rng))
    return zipped(parts, rng.choice(METHODS))


def xml_change(text: str, rng: random.Random) -> bytes:
    """Return the XML of one part of a spreadsheet, with its cells, references, merges, entities or encoding changed."""
    match rng.randrange(12):
        case 0:
            head, _, rest = text.partition("?>")
            doctype = f"{head}?>{ENTITIES}{rest}"
            return doctype.encode(rng.choice(("utf-8", "utf-16", "utf-16-le")))
        case 1:
            text = text.replace("</sheetData>", '</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>')
        case 2:
            text = text.replace("</Relationships>", RELATION + "</Relationships>")
        case 3:
            number, cell = rng.choice((0, 1, 1048576, 99999999, -1)), rng.choice(("A1", "XFD1", "ZZZZ9", "1", ""))
            text = text.replace("</sheetData>", f'<row r="{number}"><c r="{cell}"/></row></sheetData>')
        case 4:
            value = rng.choice(("1e308", "NaN", "-1", "99999999999", "", "x", "1e400", "45000.5", "#REF!"))
            kind = rng.choice(("n", "s", "b", "e", "d", "str", "inlineStr", "zz"))
            text = replace_one(r"<c [^>]*?(/>|>.*?</c>)", f'<c r="B2" t="{kind}"><v>{value}</v></c>', text, rng)
        case 5:
            text = replace_one(
                r"<t[^>]*>[^<]*</t>",
                f"<t>{rng.choice(('x' * 40_000, '_x001B_[31m', '=1+1', '&#x1b;', '&#0;'))}</t>",
                text,
                rng,
            )
        case 6:
            text = replace_one(
                r'="[^"]*"', f'="{rng.choice(("", "-1", "99999999999", "x", "NaN", "1e308", "A1:"))}"', text, rng
            )
        case 7:
            text = replace_one(r"<(\w+)[^<>]*/>", "", text, rng)
        case 8:
            text = text.replace("<row", '<row s="999999"', 1).replace("<c ", '<c s="999999" ', 3)
        case 9:
            text = text.replace("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>')
        case 10:
            rows = re.findall(r"<row .*?</row>", text, re.S)[:1]
            text = text.replace("</sheetData>", "".join(rows) * 3000 + "</sheetData>")
        case _:
            text = "<a>" * 3000 + text
    return text.encode()


def replace_one(pattern: str, new: str, text: str, rng: random.Random) -> str:
    found = list(re.finditer(pattern, text, re.S))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + new + text[one.end() :]


SHAPES = ("(2**40, 1)", "(24, 24, 1)", "(576,)", "()", "(-1, 24)", "(0, 24)", "(1e3, 24)", "(True, 576)", "('a',)",
          "(24, 24.0)",
          "(576, 1)", "(9223372036854775808, 1)", "[24, 24]", "(" * 90 + ")" * 90,
          "(4294967296, 4294967296)")  # fmt: skip
DTYPES = ("'|O'", "'<f8'", "'|V0'", "'|S0'", "'<c16'", "'<M8[s]'", "'>f4'", "[('a', '<f4')]", "'|S2304'", "'<U576'",
          "'zz'", "'<f2'",
          "('<f4', (2**31,))", "{'names': []}", "'|b1'", "'<m8'", "None", "1", "'<f4,<f4'", "'|i1'",
          "[('a', '|O')]")  # fmt: skip


def npy_change(data: bytes, rng: random.Random) -> bytes:
    version, (length,) = data[6], struct.unpack("<H", data[8:10])
    header, body = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    match rng.randrange(8):
        case 0:
            header = re.sub(r"'shape': \([^)]*\)", lambda _: "'shape': " + rng.choice(SHAPES), header)
        case 1:
            header = re.sub(r"'descr': '[^']*'", lambda _: "'descr': " + rng.choice(DTYPES), header)
        case 2:
            header = header.replace("False", rng.choice(("True", "None", "1", "'x'", "__import__('os')")))
        case 3:
            header = rng.choice(
                ("{}", "{" * 500, "[]", "1", "'" * 7, "{'descr': 1}", "(" * 8000, "-" * 9000 + "1", "\0", "{'a':" * 200)
            )
        case 4:
            version = rng.choice((0, 2, 3, 4, 255))
        case 5:
            header = header.replace("}", ", 'shape': (1, 1)}")
        case 6:
            values = rng.choice((float("nan"), float("inf"), -float("inf"), 3e38, 0.0, -1.0))
            body = struct.pack("<f", values) * (len(body) // 4)
        case _:
            body = body * rng.choice((0, 2, 100))
    size = struct.pack("<H" if version < 2 else "<I", len(header))
    return data[:6] + bytes((version, data[7])) + size + header.encode("latin-1") + body


def npz_change(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return zip_change(data, rng)
    return zipped([(name, npy_change(body, rng)) for name, body in parts_of(data)], rng.choice(METHODS))


# --- pickles ----------------------------------------------------------------------------------------------------------

OPERATIONS = (
    b"cos\nsystem\n", b"X\x04\0\0\0evil\x85R", b"(lp0\n", b"]\x94", b"}\x94", b"h\xff", b"j\xff\xff\xff\x7f", b"q\xff",
    b"r\xff\xff\xff\x7f", b"2" * 500, b"2\x86" * 60, b"0" * 5, b"(" * 3000, b"\x95" + b"\xff" * 8,
    b"\x8e" + b"\xff" * 8,
    b"B\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"I9999999999999999999999\n", b"L" + b"9" * 6000 + b"L\n", b"Fnan\n",
    b"F1e400\n", b"S'x'\n", b"P1\n", b"Q", b"R", b"b", b"u", b"s", b"a", b"e", b"t", b"1", b"\x80\xff", b"\x93", b".",
    b"J\xff\xff\xff\xff", b"M\0\0", b"G\x7f\xef" + b"\xff" * 6, b"V\\ud800\n", b"\x96" + b"\xff" * 8,
    b"i__builtin__\neval\n",
)  # fmt: skip


def pickle_change(data: bytes, rng: random.Random) -> bytes:
    if data.startswith(b"PK") and rng.random() < 0.4:
        return zip_change(data, rng)
    if data.startswith(b"PK"):
        parts = parts_of(data)
        programs = [(name, operate(body, rng) if name.endswith("pkl") else body) for name, body in parts]
        return zipped(programs, zipfile.ZIP_STORED)  # torch.save does not compress
    return operate(data, rng)


def operate(data: bytes, rng: random.Random) -> bytes:
    """Return a pickle with an operation inserted, or with one of its numbers or names changed."""
    place = rng.randrange(min(len(data), 600) + 1)
    numbers = [match.start() for match in re.finditer(rb"[KMJ]", data[:600])]
    match rng.randrange(4):
        case 0:
            return data[:place] + rng.choice(OPERATIONS) + data[place:]
        case 1 if numbers:
            at = rng.choice(numbers)
            return (
                data[:at]
                + rng.choice((b"K\0", b"J\xff\xff\xff\x7f", b"M\xff\xff", b"\x8a\x09" + b"\xff" * 9, b"N"))
                + data[at + 2 :]
            )
        case 2:
            return re.sub(
                rb"(Float|Double|Half|Byte|Long)Storage",
                lambda _: rng.choice((b"HalfStorage", b"BoolStorage", b"Storage", b"DoubleStorage")),
                data,
                count=1,
            )
        case _:
            end = min(len(data), place + rng.choice((1, 2, 8)))
            return data[:place] + rng.randbytes(end - place) + data[end:]
