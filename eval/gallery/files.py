"""Files of the gallery: its page, and scripts with data, which the page loads when it needs them.

A page opened from disk can load scripts, but cannot fetch other files. The data are therefore written as calls of the
functions of the object ``gallery`` in ``data.js``: an index for filters, the pictures of chosen items, and files of
neighbouring cases (pictures in one file, packed replies in another). Items that no run asked, as in a trial, are left
out. Replies are untrusted text: this module escapes them for the script, and the page never inserts them as markup.
"""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from chexqa.eval.gallery import drawings, pictures, stressed
from chexqa.eval.gallery.address import PAGE
from chexqa.eval.gallery.entries import Entries, collect
from chexqa.eval.gallery.index import index_record
from chexqa.eval.gallery.records import case_record
from chexqa.eval.place_results import gallery_drawings
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables.asked_items import simulated
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import shown

FOLDER = "gallery"
# Neighbouring cases share a file, so that there are at most this many files of each sort.
MOST_FILES, LEAST_CASES = 120, 8
SCRIPTS = ("data.js", "replies.js", "list.js", "item.js", "main.js")


def files(graded: Graded) -> dict[str, bytes]:
    """Return the gallery's page and scripts, keyed by their paths in the report's folder."""
    entries, thumbs = stressed.with_examples(collect(graded), graded)
    scripts = {PAGE: _page(graded)}
    for name, text in _scripts(graded, entries, thumbs).items():
        scripts[f"{FOLDER}/{name}.js"] = text.encode("ascii")
    return scripts


def _scripts(graded: Graded, entries: Entries, thumbs: stressed.Thumbs) -> dict[str, str]:
    numbers = pictures.numbered(entries)
    images = list(numbers)
    over = pictures.bases(entries)
    small = pictures.encoded(thumbs, images, over)
    places = gallery_drawings.drawings(graded, entries.rows)
    ids = list(entries.by_case)
    outlines = {case_id: drawings.outline(entries.cases[case_id]) for case_id in ids}
    of_file = max(LEAST_CASES, math.ceil(len(ids) / MOST_FILES))
    parts = [ids[start : start + of_file] for start in range(0, len(ids), of_file)]
    firsts = _first_pictures(entries, parts, numbers)
    chosen = pictures.chosen(entries)
    flat = entries.flat()
    # The page always loads the first file, so its pictures are in no other.
    cards = {image for place in chosen for image in pictures.of_card(flat[place])}
    first = {numbers[image] for image in cards | {over[image] for image in cards & set(over)}}
    near = dict.fromkeys(flat[place].item.case_id for place in chosen)
    made = {
        "index": f"gallery.index({script_json(index_record(entries, numbers, chosen, of_file, firsts))});\n",
        "first": _pictures({number: small[number] for number in sorted(first)}, {one: outlines[one] for one in near}),
    }
    for number, part in enumerate(parts):
        last = firsts[number + 1] if number + 1 < len(firsts) else len(small)
        own = {place: small[place] for place in range(firsts[number], last) if place not in first}
        made[f"pictures-{number:03d}"] = _pictures(own, {case_id: outlines[case_id] for case_id in part})
        record = {
            case_id: case_record(entries.cases[case_id], entries.by_case[case_id], numbers, places) for case_id in part
        }
        made[f"cases-{number:03d}"] = f'gallery.cases({number},"{_packed(record)}");\n'
    return made


def _first_pictures(entries: Entries, parts: Sequence[Sequence[str]], numbers: dict[str, int]) -> list[int]:
    """Return, for each file, the number of its first picture.

    A picture is in the file of the first case that shows it.
    """
    firsts, seen = [], 0
    for part in parts:
        firsts.append(seen)
        own = (
            numbers[image] for case_id in part for entry in entries.by_case[case_id] for image in pictures.shown(entry)
        )
        seen = max(seen, 1 + max(own, default=-1))
    return firsts


def _pictures(own: dict[int, str], outlines: dict[str, Any]) -> str:
    drawn = {case_id: one for case_id, one in outlines.items() if one is not None}
    return f"gallery.pictures({script_json(own)},{script_json(drawn)});\n"


def _packed(record: Any) -> str:
    """Return JSON as base64 of a zlib stream; packing helps, because replies and evidence are long and repetitive."""
    return b64encode(zlib.compress(_json(record).encode("ascii"), 6)).decode()


def unpacked(script: bytes) -> Any:
    """Return the record in a packed file of cases."""
    return json.loads(zlib.decompress(b64decode(script.decode().partition('"')[2].rpartition('"')[0])))


def script_json(value: Any) -> str:
    """Return JSON that is safe in a script element of a page: only ASCII, and no ``<``."""
    return _json(value).replace("<", "\\u003c")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _page(graded: Graded) -> bytes:
    """Return the page; all text is escaped, except style and scripts."""
    about = graded.benchmark.about
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    html = environment.from_string(_file("gallery.html.j2")).render(
        title=shown(f"Gallery of items: {about['name']} {about['version']}"),
        notices=list(filter(None, (PHANTOM_NOTICE if graded.benchmark.is_phantom else None, simulated(graded)))),
        css=_own(_file("gallery.css")),
        scripts=_own("\n".join(map(_file, SCRIPTS))),
    )
    return html.encode()


def _file(name: str) -> str:
    return (resources.files("chexqa.eval.gallery") / name).read_text("utf-8")


def _own(text: str) -> Markup:
    """Return the package's own style or script unescaped."""
    return Markup(text)  # nosec B704
