"""Writer of review pages: a folder for each sheet or part of a sheet, with ``review.html`` and its pictures.

The page is opened from disk. Its content security policy lets it load the pictures and scripts beside it and forbids
all other requests. Texts that other people wrote are put into the page as JSON and shown as plain text.
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
from chexqa.review.page.rows import Placed, RowMaker, reason_keys
from chexqa.review.sheets import instructions
from chexqa.review.sheets.cover_tab import notices
from chexqa.review.sheets.export import WORK, Content, Written
from chexqa.review.sheets.pictures import PICTURES
from chexqa.review.sheets.sheet import Book

PAGE = "review.html"
SCRIPTS = ("state.js", "source.js", "view.js", "contour.js", "place.js", "page.js")
_FOLDER = "chexqa.review.page"
_POLICY = 'http-equiv="Content-Security-Policy" content="'
_LOCAL, _SERVED = '"server":null', '"server":"./"'


def write_page(folder: Path, name: str, content: Content, source_pixels: bool = False) -> Written:
    """Write the page of one sheet, or of one part of a sheet, into a new folder below ``folder``, and return the page.

    ``name`` is the name of the sheet or part. If ``source_pixels`` is True, the radiographs are also written in their
    original size and bit depth.
    """
    book, home = content.book, folder / PAGES / name
    maker = RowMaker(content, folder / WORK if source_pixels else None)
    placed = [
        Placed(content.entries[row.row_id], tab.name, number)
        for tab in book.tabs
        for number, row in enumerate(tab.rows, start=2)  # the first row has the titles
    ]
    (home / PICTURES).mkdir(parents=True)
    maker.encode(placed)
    rows = [maker.row(one, home) for one in placed]
    data = page_data(name, book, content.part, rows, maker.cases())
    write_bytes(home / PAGE, page_html(data, book).encode())
    return Written(f"{PAGES}/{name}/{PAGE}", len(rows), maker.source_bytes)


def page_data(
    page: str, book: Book, part: tuple[int, int], rows: Sequence[Any], cases: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all data for the page's script; ``part`` has the part's number, from 1, and the number of parts."""
    return {
        "server": None,  # address for the page's answers; the server fills it in
        "page": page,
        "sheet": page.removesuffix(f"-part-{part[0]}") if part[1] > 1 else page,
        "kind": book.kind,
        "masks": book.looks == "masks",
        "batch": book.marks[columns.BATCH],
        "reviewer": book.marks[columns.REVIEWER],
        "blind": book.kind in columns.ASKING,
        "part": part[0],
        "parts": part[1],
        "reasons": reason_keys(book.looks),
        # Asked once of each reader of a study, when the first part is closed.
        "questions": list(columns.ABOUT_QUESTIONS) if book.kind == "readers" and part[0] == 1 else [],
        "titles": {
            "id": columns.ID, "verdict": columns.VERDICT, "corrected": columns.CORRECTED, "answer": columns.ANSWER,
            "reason": columns.REASON, "comment": columns.COMMENT, "option": columns.option_title(0)[:-1],
        },
        "task": [*instructions.TASKS[book.about.kind][:1], *book.about.told],
        "verdicts": dict(instructions.MASK_VERDICTS if book.looks == "masks" else instructions.VERDICTS),
        "cases": dict(cases),
        "rows": list(rows),
    }  # fmt: skip


def page_html(data: Mapping[str, Any], book: Book) -> str:
    """Return the HTML of a page that is opened from disk; its security policy keeps it from sending anything."""
    # Data is inserted as JSON without any "<", and the page uses it only as text, never as markup.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    script = "".join(_file(name) for name in SCRIPTS)
    style = _file("page.css")
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_file("page.html.j2")).render(
        title=columns.clean(f"{data['page']}: {book.about.benchmark}"),
        heading=instructions.TITLES[book.about.kind],
        notices=[columns.clean(notice) for notice in notices(book.about)],
        told=[columns.clean(line) for line in book.about.told],
        policy=policy(script, style),
        style=style,
        script=script,
        data=text,
        masks=data["masks"],
        blind=data["blind"],
        places=any("places" in row for row in data["rows"]),
        reasons=data["reasons"],
    )


def served(home: Path) -> str:
    """Return the HTML that the server sends for the page written to the folder ``home``.

    Unlike the page on disk, the page from the server stores the reviewer's answers on the server.
    """
    text = read_text(home / PAGE, MAX_JSON_BYTES, home)
    head, start, rest = text.partition(_POLICY)
    old, end, rest = rest.partition('"')
    # Script and style are unchanged, so the hashes in the written page are still right.
    new = old.replace("connect-src 'none'", "connect-src 'self'").replace(" file:", " 'self'")
    return (head + start + new + end + rest).replace(_LOCAL, _SERVED, 1)


def policy(script: str, style: str) -> str:
    """Return the content security policy of a page on disk.

    It allows this script, this style and the files beside the page, and forbids requests to a server.
    """
    return (
        f"default-src 'none'; connect-src 'none'; img-src file: blob:; script-src '{_hash(script)}' file:; "
        f"style-src '{_hash(style)}'; form-action 'none'; base-uri 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (resources.files(_FOLDER) / name).read_text(encoding="utf-8")
