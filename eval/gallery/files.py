"""Files of the gallery: its page, and scripts with data, which the page loads when it needs them.

- ``index.js`` has the index for filters.
- ``first.js`` has the pictures of the items shown first.
- ``pictures-000.js`` has the other pictures of the first few cases, and ``cases-000.js`` their items and replies. The
  next cases have ``pictures-001.js`` and ``cases-001.js``, and so on.

Replies are untrusted text: they are escaped for the script, and the page never inserts them as markup.
"""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from chexqa.eval.gallery import drawings, pictures, pixels, stressed
from chexqa.eval.gallery.address import PAGE
from chexqa.eval.gallery.entries import Entries, Replies, collect
from chexqa.eval.gallery.index import index_record
from chexqa.eval.gallery.records import case_record, named_regions
from chexqa.eval.place_results import gallery_drawings
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables.asked_items import simulated
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import shown
from chexqa.files.workers import Background

FOLDER = "gallery"
# Neighbouring cases share a file, so that there are at most this many files of each sort.
MOST_FILES, LEAST_CASES = 120, 8
# Worker processes need a second to start; in this time one process encodes about so many pictures.
MANY_PICTURES = 1000
SCRIPTS = ("data.js", "replies.js", "list.js", "item.js", "main.js")


def files(graded: Graded, background: Background | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield the gallery's page and every script, each as its path in the report's folder and its content.

    If there are many pictures, the worker processes of ``background`` start when this function is called.
    """
    layout = _Layout(graded)
    helpers = background if background and len(layout.numbers) >= MANY_PICTURES else Background(1)
    return _made(layout, helpers.start(pixels.do, layout.tasks()))


class _Layout:
    """Entries of the gallery, and which case and which picture lies in which file."""

    def __init__(self, graded: Graded) -> None:
        self.graded = graded
        self.entries, self._thumbs = stressed.with_examples(collect(graded), graded)
        self.numbers = pictures.numbered(self.entries)
        ids = list(self.entries.by_case)
        self.of_file = max(LEAST_CASES, math.ceil(len(ids) / MOST_FILES))
        self.parts = [ids[start : start + self.of_file] for start in range(0, len(ids), self.of_file)]
        self.first_pictures = _first_pictures(self.entries, self.parts, self.numbers)
        self.chosen = pictures.chosen(self.entries)
        flat, over = self.entries.flat(), pictures.bases(self.entries)
        self._below = {self.numbers[image]: (self.numbers[under], under) for image, under in over.items()}
        # The page always loads the first file, so its pictures are in no other.
        cards = {self.numbers[image] for place in self.chosen for image in pictures.of_card(flat[place])}
        self.first = cards | {self._below[number][0] for number in cards & set(self._below)}
        self.near = {flat[place].item.case_id for place in self.chosen}

    def tasks(self) -> list[pixels.Task]:
        """Return, for each file of cases, the task that makes its pictures and outlines."""
        images = list(self.numbers)
        ends = [*self.first_pictures[1:], len(images)]
        return [
            self._task(part, {number: images[number] for number in range(start, end)})
            for part, start, end in zip(self.parts, self.first_pictures, ends, strict=True)
        ]

    def _task(self, part: list[str], images: dict[int, str]) -> pixels.Task:
        of_part = [entry for case_id in part for entry in self.entries.by_case[case_id]]
        below = {number: self._below[number] for number in images if number in self._below}
        regions = {
            entry.item.item_id: (entry.item.case_id, names) for entry in of_part if (names := named_regions(entry))
        }
        cases = {case_id: drawings.masks_only(self.entries.cases[case_id]) for case_id in part}
        return pixels.Task(self._thumbs.some(images.values()), images, below, cases, regions)


def _made(layout: _Layout, work: Iterator[pixels.Done]) -> Iterator[tuple[str, bytes]]:
    entries, numbers = layout.entries, layout.numbers
    index = index_record(entries, numbers, layout.chosen, layout.of_file, layout.first_pictures)
    yield PAGE, _page(layout.graded)
    yield _script("index", f"gallery.index({script_json(index)});\n")
    places = gallery_drawings.drawings(layout.graded, entries.rows)
    replies = Replies(layout.graded.grades, entries.rows)
    first: dict[int, str] = {}
    near: dict[str, Any] = {}
    for number, (part, done) in enumerate(zip(layout.parts, work, strict=True)):
        first |= {place: text for place, text in done.pictures.items() if place in layout.first}
        near |= {case_id: outline for case_id, outline in done.outlines.items() if case_id in layout.near}
        own = {place: text for place, text in done.pictures.items() if place not in layout.first}
        yield _script(f"pictures-{number:03d}", _pictures(own, done.outlines))
        record = {
            case_id: case_record(entries.cases[case_id], of_case, numbers, places, done.regions)
            for case_id, of_case in replies.added({case_id: entries.by_case[case_id] for case_id in part}).items()
        }
        yield _script(f"cases-{number:03d}", f'gallery.cases({number},"{_packed(record)}");\n')
    yield _script("first", _pictures(first, near))


def _script(name: str, text: str) -> tuple[str, bytes]:
    return f"{FOLDER}/{name}.js", text.encode("ascii")


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
    return f"gallery.pictures({script_json(own)},{script_json(outlines)});\n"


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
