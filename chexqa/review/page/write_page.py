"""Writer of review pages: a folder for each part of a sheet, with ``review.html`` and its pictures.

The page is opened from disk. Its content security policy allows it to load the pictures beside it and forbids all other
requests. Text written by other people reaches it as JSON and is shown as plain text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from chexqa.files.jsonio import read_text, write_bytes
from chexqa.files.limits import MAX_JSON_BYTES
from chexqa.review import columns
from chexqa.review.columns import PAGES as PAGES
from chexqa.review.page.rounds import BLIND, rounds
from chexqa.review.page.rows import RowMaker, reason_keys
from chexqa.review.sheets import instructions
from chexqa.review.sheets.cover_tab import notices
from chexqa.review.sheets.export import WORK, Content, Written
from chexqa.review.sheets.pictures import PICTURES
from chexqa.review.sheets.sheet import Book

PAGE = "review.html"
SCRIPTS = ("state.js", "source.js", "view.js", "contour.js", "page.js")
_FOLDER = "chexqa.review.page"
_POLICY = 'http-equiv="Content-Security-Policy" content="'
_LOCAL, _SERVED = '"server":null', '"server":"./"'


def page_names(name: str, count: int) -> list[str]:
    """Return the names of a sheet's parts, which are also the names of their folders and saved files."""
    return [name] if count == 1 else [f"{name}-part-{number}" for number in range(1, count + 1)]


def write_pages(folder: Path, name: str, content: Content, source_pixels: bool = False) -> list[Written]:
    """Write the pages of one sheet and return them; each part gets a folder below ``folder``.

    ``name``: the sheet's name. ``source_pixels``: also write the radiographs at their own size and depth.
    """
    book = content.book
    maker = RowMaker(content, folder / WORK if source_pixels else None)
    parts = rounds(book.kind, book.tabs, content.entries, maker.items, (book.marks[columns.BATCH], name))
    names = page_names(name, len(parts))
    made = []
    for number, (page, placed) in enumerate(zip(names, parts, strict=True), start=1):
        home, before = folder / PAGES / page, maker.source_bytes
        (home / PICTURES).mkdir(parents=True)
        maker.encode(placed)
        rows = [maker.row(one, home) for one in placed]
        data = page_data(page, name, book, (number, len(parts)), rows, maker.cases())
        write_bytes(home / PAGE, page_html(data, book).encode())
        made.append(Written(f"{PAGES}/{page}/{PAGE}", len(rows), maker.source_bytes - before))
    return made


def page_data(
    page: str, sheet: str, book: Book, part: tuple[int, int], rows: Sequence[Any], cases: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all data for the page's script; ``part`` is (number of this part from 1, number of parts)."""
    return {
        "server": None,  # address for the page's answers; the server fills it in
        "page": page,
        "sheet": sheet,
        "kind": book.kind,
        "batch": book.marks[columns.BATCH],
        "reviewer": book.marks[columns.REVIEWER],
        "blind": book.kind in BLIND,
        "part": part[0],
        "parts": part[1],
        "reasons": reason_keys(book.kind),
        "titles": {
            "id": columns.ID, "verdict": columns.VERDICT, "corrected": columns.CORRECTED, "answer": columns.ANSWER,
            "reason": columns.REASON, "comment": columns.COMMENT, "option": columns.option_title(0)[:-1],
        },
        "task": list(instructions.TASKS[book.kind][:1]),
        "verdicts": dict(instructions.MASK_VERDICTS if book.kind == "masks" else instructions.VERDICTS),
        "cases": dict(cases),
        "rows": list(rows),
    }  # fmt: skip


def page_html(data: Mapping[str, Any], book: Book) -> str:
    """Return the HTML of a page that is opened from disk; its security policy forbids it to send anything."""
    # Data is inserted as JSON without any "<", and the page uses it only as text, never as markup.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    script = "".join(_file(name) for name in SCRIPTS)
    style = _file("page.css")
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_file("page.html.j2")).render(
        title=columns.clean(f"{data['page']}: {book.about.benchmark}"),
        heading=instructions.TITLES[book.kind],
        notices=[columns.clean(notice) for notice in notices(book.about)],
        policy=policy(script, style),
        style=style,
        script=script,
        data=text,
        kind=book.kind,
        blind=data["blind"],
        reasons=data["reasons"],
    )


def served(home: Path) -> str:
    """Return a written page as the server sends it.

    A served page saves the reviewer's answers on the server. ``home``: the folder of the written page.
    """
    text = read_text(home / PAGE, MAX_JSON_BYTES, home)
    head, start, rest = text.partition(_POLICY)
    old, end, rest = rest.partition('"')
    # Script and style are unchanged, so the hashes in the written page hold.
    new = old.replace("connect-src 'none'", "connect-src 'self'").replace(" file:", " 'self'")
    return (head + start + new + end + rest).replace(_LOCAL, _SERVED, 1)


def policy(script: str, style: str) -> str:
    """Return the content security policy of a page on disk.

    The policy allows this script, this style and files beside the page, and forbids requests to a server.
    """
    return (
        f"default-src 'none'; connect-src 'none'; img-src file: blob:; script-src '{_hash(script)}' file:; "
        f"style-src '{_hash(style)}'; form-action 'none'; base-uri 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (resources.files(_FOLDER) / name).read_text(encoding="utf-8")
