"""Random damage to files for the fuzzer: changed bytes, a changed structure, or a link or pipe in place of the file.

A change of bytes is a function of the bytes and a ``random.Random``; the same seed gives the same change.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import binary
import dicom_bytes
import yaml

Change = Callable[[bytes, random.Random], bytes]

# --- any file ---------------------------------------------------------------------------------------------------------


def flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if out else 0):
        out[rng.randrange(len(out))] = rng.choice((rng.randrange(256), 0, 255, 0x80, 0x0A, 0x22))
    return bytes(out)


def flip_early(data: bytes, rng: random.Random) -> bytes:
    """Flip bits near the start, where headers are."""
    head = min(len(data), 512)
    return flip(data[:head], rng) + data[head:]


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_out(data: bytes, rng: random.Random) -> bytes:
    start, end = span(data, rng)
    return data[:start] + data[end:]


def double(data: bytes, rng: random.Random) -> bytes:
    start, end = span(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def zeros(data: bytes, rng: random.Random) -> bytes:
    start, end = span(data, rng)
    return data[:start] + bytes([rng.choice((0, 255))]) * (end - start) + data[end:]


def append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0" * 4096, rng.randbytes(300), data, b"\n\n\n", b"\xff\xfe", b"{}", b"]"))


def splice(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return (
        data[:place]
        + rng.choice((*(text.encode("utf-8", "surrogatepass") for text in WORDS), b"\xff\xc0"))
        + data[place:]
    )


def nothing(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"", b"\n", b"\0", b"null", b"[]", b"{}", b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r")))


def span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 16, 256, 4096)))


ANY: tuple[Change, ...] = (flip, flip, flip_early, truncate, cut_out, double, zeros, append, splice, nothing)

# --- JSON, JSON Lines, YAML -------------------------------------------------------------------------------------------

WORDS = (
    "", " ", "\0", "\x1b[31mred\x1b[0m\x1b]0;title\x07", "\u202eabc", "\u200b", "\x9b2J", "a\nb", "\r", "=1+1",
    "=HYPERLINK(\"http://127.0.0.1\")", "<img src=x onerror=alert(1)>", "</script><script>", "[red]x[/red]", "[/]",
    "{0.__class__}", "%s%n", "../../etc/passwd", "/etc/passwd", "..", "C:\\x", "a" * 300, "é" * 200, "\ud800",
    "\U0001f9a0",
    "nan", "Infinity", "-1", "1e308", "NaN", "null", "None", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z", "| a | b |", "$x_1$ \\input{x}", "**b** `c`", "\x7f\x80",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "-1", "1", "2", "0.5", "1e308", "-1e308", "1e-320", "1e400", "NaN", "Infinity", "-Infinity",
    str(2**31), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63) - 1), str(2**64), str(10**30), str(10**400),
    "1.0", "1e2", "999999999", "65", "1000000007", "0.30000000000000004",
)  # fmt: skip
SHAPES = (
    "null", "true", "false", "[]", "{}", "[[]]", "[null]", '[""]', '{"": null}', '[1,1]', "[-1]", '["a", 1, null, {}]',
    '{"a": 1, "a": 2}', "[" * 40 + "]" * 40, "[" * 100 + "]" * 100, "[" * 20000 + "]" * 20000,
    '{"a":' * 70 + "1" + "}" * 70,
    "[" + "1," * 5000 + "1]", '"' + "x" * 200_000 + '"', "[1e308, 1e308]", "[NaN]", "\"\\ud800\"", "\"\\u0000\"",
    "[0, 0]", "[1e400, 1]",
)  # fmt: skip
HOLE = "@@hole@@"


def walk(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values in a JSON document, outer values first."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from walk(child, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def replaced(value: Any, path: tuple[Any, ...], raw: str) -> str:
    """Return the document as JSON, with the text ``raw`` in place of the value at a path."""
    if not path:
        return raw
    at(value, path[:-1])[path[-1]] = HOLE
    return json.dumps(value).replace(json.dumps(HOLE), raw, 1)


def mutate_json(text: str, rng: random.Random) -> str:
    value = json.loads(text)
    places = list(walk(value))
    # Deep places are drawn as often as shallow ones, and numbers most often, because they find most defects.
    path = rng.choice(places)
    if rng.random() < 0.3:
        numbers = [one for one in places if isinstance(at(value, one), (int, float))]
        path = rng.choice(numbers or places)
    return replaced(value, path, new_text(value, path, places, rng))


def new_text(value: Any, path: tuple[Any, ...], places: list[tuple[Any, ...]], rng: random.Random) -> str:
    """Return a changed value for the path ``path`` of a JSON document, as JSON text.

    ``value`` is the document, and ``places`` has the paths of its values.
    """
    old = at(value, path)
    draw = rng.random()
    if isinstance(old, dict) and draw < 0.5:
        return mutate_object(old, rng)
    if isinstance(old, list) and draw < 0.5:
        return mutate_list(old, rng)
    if draw < 0.2:
        return json.dumps(at(value, rng.choice(places)))
    if draw < 0.35:
        return retyped(old)
    if isinstance(old, (int, float)):
        return rng.choice(NUMBERS if rng.random() < 0.7 else SHAPES)
    if isinstance(old, str) and rng.random() < 0.7:
        word = rng.choice(WORDS)
        return json.dumps(rng.choice((word, old + word, word + old, old[:-1], old.upper(), old[::-1])))
    return rng.choice((*NUMBERS, *SHAPES, *(json.dumps(word) for word in WORDS)))


def retyped(old: Any) -> str:
    if isinstance(old, str):
        return json.dumps([old])
    return json.dumps(json.dumps(old)) if not isinstance(old, list) else json.dumps({"0": old})


def mutate_object(old: dict[str, Any], rng: random.Random) -> str:
    if not old:
        return '{"x": 1}'
    key, other = rng.choice(list(old)), rng.choice(list(old))
    rest = {name: child for name, child in old.items() if name != key}
    return rng.choice((
        json.dumps(rest),
        json.dumps({**rest, rng.choice((*WORDS, key.upper(), key + "s")): old[key]}),
        json.dumps({**old, key: old[other], other: old[key]}),
        json.dumps(old)[:-1] + ", " + json.dumps(key) + ": " + json.dumps(old[other]) + "}",
        json.dumps(old)[:-1] + ", " + json.dumps(rng.choice(WORDS)) + ": " + rng.choice(SHAPES) + "}",
    ))  # fmt: skip


def mutate_list(old: list[Any], rng: random.Random) -> str:
    if not old:
        return rng.choice(("[1]", '["x"]', "[null]"))
    items = list(old)
    match rng.randrange(4):
        case 0:
            items.pop(rng.randrange(len(items)))
        case 1:
            items.insert(rng.randrange(len(items) + 1), rng.choice(items))
        case 2:
            rng.shuffle(items)
        case _:
            items = items * rng.choice((2, 20)) if len(items) < 500 else []
    return json.dumps(items)


def json_change(data: bytes, rng: random.Random) -> bytes:
    return mutate_json(data.decode(), rng).encode()


def json_text(data: bytes, rng: random.Random) -> bytes:
    """Return JSON with a changed detail of the notation, such as a comma, a quote, a comment or the encoding."""
    text = data.decode()
    return rng.choice((
        text.replace(",", ",,", 1), text.replace('"', "'"), text + "// end", text.encode("utf-16").decode("latin-1"),
        text.replace(":", "=", 1), "\ufeff" + text, text.replace("1", "01"), text.replace("}", ",}", 1), text * 2,
        text.replace("0", "0x0", 1), text.replace("\\", "\\\\"), text.upper(), text.replace(" ", "\u00a0", 3),
    )).encode()  # fmt: skip


def lines_change(data: bytes, rng: random.Random) -> bytes:
    """Return JSON Lines with one line changed, or with another order, number or ending of lines."""
    lines = data.decode().splitlines()
    if not lines:
        return b"{}\n"
    here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
    draw = rng.randrange(12)
    if draw == 0:
        lines[here], lines[there] = lines[there], lines[here]
    elif draw == 1:
        lines.insert(there, lines[here])
    elif draw == 2:
        del lines[here]
    elif draw == 3:
        lines[here] += lines[there]
    elif draw == 4:
        lines[-1] = lines[-1][: rng.randrange(len(lines[-1]) + 1)]
        return "\n".join(lines).encode()
    elif draw == 5:
        lines[here] = rng.choice(("", "null", "[]", "{}", "\x00", "\u2028", " " * 100))
    else:
        lines[here] = mutate_json(lines[here], rng)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def every_line(data: bytes, rng: random.Random) -> bytes:
    """Return JSON Lines in which one field has the same new value wherever it occurs, so that lines still agree."""
    records = [json.loads(line) for line in data.splitlines() if line.strip()]
    path = rng.choice(list(walk(records[0]))) if records else ()
    raw = rng.choice((*NUMBERS, *SHAPES[:12], *(json.dumps(word) for word in WORDS)))
    out = []
    for record in records:
        try:
            out.append(replaced(record, path, raw) if path else json.dumps(record))
        except (KeyError, IndexError, TypeError):
            out.append(json.dumps(record))
    return ("\n".join(out) + "\n").encode()


def yaml_change(data: bytes, rng: random.Random) -> bytes:
    """Return the YAML document with a value changed."""
    try:
        changed = json.loads(mutate_json(json.dumps(yaml.safe_load(data)), rng))
        return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError, yaml.YAMLError, TypeError):
        return yaml_text(data, rng)


YAML_LINES = (
    "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b]\n"
    "d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e]",
    "x: !!python/object/apply:os.system [id]", "x: !!binary aGVsbG8=", "x: !!set {a, b}", "x: 2026-01-01",
    "? [a, b]\n: c",
    "<<: {a: 1}", "x: &x [*x]", "x: &x {y: *x}", "--- \nx: 1", "%YAML 9.9", "x: .inf", "x: .nan", "x: 0o17", "x: 1_000",
    "x: 190:20:30", "\tx: 1", "x: |\n  " + "y" * 5000, "x: !foo bar", "x: \"\\xZZ\"", "x: \"\\ud800\"", "1: 2",
    "null: 1",
    "x: 1e400", "x: 99999999999999999999999999999", "!!null : 1", "[a]: 1", "x: " + "[" * 300 + "]" * 300,
    "x: 9999-99-99",
)  # fmt: skip


def yaml_text(data: bytes, rng: random.Random) -> bytes:
    """Return YAML with a line duplicated, dropped, moved or given another value, or with a special construct added."""
    lines = data.decode().splitlines()
    here = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines.insert(here, lines[here])
        case 1:
            del lines[here]
        case 2:
            lines[here] = " " * rng.randrange(4) + lines[here].lstrip()
        case 3:
            lines.insert(rng.choice((0, len(lines))), rng.choice(YAML_LINES))
        case _:
            key, colon, _ = lines[here].partition(":")
            raw = rng.choice((*NUMBERS, *SHAPES, *YAML_LINES, "*a", "&a b", "!!str 1", "~", "off", "'", "2026-01-01"))
            lines[here] = f"{key}{colon} {raw.removeprefix('x: ')}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# --- CSV --------------------------------------------------------------------------------------------------------------


def csv_change(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8-sig")
    rows = [line.split(",") for line in text.splitlines()]
    row = rng.randrange(len(rows))
    column = rng.randrange(len(rows[row]))
    match rng.randrange(10):
        case 0:
            rows = [[*one, one[column % len(one)]] for one in rows]
        case 1:
            rows = [[cell for place, cell in enumerate(one) if place != column] for one in rows]
        case 2:
            rows.insert(row, rows[rng.randrange(len(rows))])
        case 3:
            return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")))
        case 4:
            return text.replace(",", rng.choice(";\t|\x01")).encode()
        case 5:
            return text.replace("\n", rng.choice(("\r", "\n\n", "\x00\n", "\x0c\n", "\u2028"))).encode()
        case 6:
            rows[row] = []
        case _:
            big = ("x" * 300_000, '"', '""', '"open', "\x00", "1," * 500, "\ufeff", "9" * 5000)
            rows[row][column] = rng.choice((*WORDS, *NUMBERS, *big))
    return "\n".join(",".join(one) for one in rows).encode("utf-8", "surrogatepass")


# --- something else in a file's place ---------------------------------------------------------------------------------

STANDS = ("fifo", "socket", "folder", "zero", "random", "null", "out", "loop", "dangling", "missing", "empty", "huge")


def stand_in(path: Path, what: str, outside: Path) -> None:
    """Replace the file ``path`` by a link, a pipe, a socket, a folder, an empty file or a huge file, or remove it.

    ``what`` is a name in ``STANDS``. If it is ``"out"``, the file becomes a link to ``outside``.
    """
    import os
    import socket

    path.unlink()
    targets = {"zero": "/dev/zero", "random": "/dev/urandom", "null": "/dev/null", "out": str(outside),
               "loop": path.name, "dangling": "nowhere"}  # fmt: skip
    if what in targets:
        path.symlink_to(targets[what])
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's address has room for 107 bytes
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name[:100])
        except OSError:
            path.mkdir(exist_ok=True)
        finally:
            os.chdir(here)
    elif what == "folder":
        path.mkdir()
    elif what == "empty":
        path.touch()
    elif what == "huge":
        with path.open("wb") as file:
            file.truncate(3 * 2**30)


# --- which change for which file --------------------------------------------------------------------------------------

OF: dict[str, tuple[Change, ...]] = {
    ".json": (json_change, json_change, json_change, json_text),
    ".jsonl": (lines_change, lines_change, lines_change, every_line),
    ".yaml": (yaml_change, yaml_text),
    ".csv": (csv_change,),
    ".xlsx": (binary.xlsx_change,),
    ".png": (binary.png_change,),
    ".jpg": (binary.jpeg_change,),
    ".npy": (binary.npy_change,),
    ".npz": (binary.npz_change,),
    ".pkl": (binary.pickle_change,),
    ".dcm": (dicom_bytes.dicom_change,),
}


def mutate(data: bytes, suffix: str, rng: random.Random) -> tuple[str, bytes]:
    """Return the names of one to three changes, and the file's bytes after them."""
    own = OF.get(suffix, ())
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(own) if own and rng.random() < 0.75 else rng.choice(ANY)
        try:
            data = change(data, rng)
        except Exception:  # an earlier change destroyed this structure
            change, data = flip, flip(data, rng)
        names.append(change.__name__)
    return "+".join(names), data
