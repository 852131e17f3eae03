"""Answers that the server of review pages stores: one file for each part, in the format in which a page saves its rows.

Every change has a unique id. Therefore no change is lost or counted twice if two tabs are open, if the browser sends a
change again, or if the server is killed. After every change the file is replaced before the browser gets its reply.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, parse_json, read_text, write_json
from chexqa.files.limits import MAX_JSON_BYTES
from chexqa.review import columns
from chexqa.review.collect.read_page import WHAT, read_page
from chexqa.review.page.write_page import PAGE

ANSWERS = "answers"
_DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)
_FILL_IN = {columns.VERDICT, columns.CORRECTED, columns.ANSWER, columns.REASON, columns.COMMENT}


def page_data(home: Path) -> dict[str, Any]:
    """Return the data that a written page contains for its script; raise ``InputError`` if the page is damaged."""
    found = _DATA.search(read_text(home / PAGE, MAX_JSON_BYTES, home))
    if found is None:
        raise InputError(f"{home / PAGE}: is not a review page; write it with 'chexqa review export --page'.")
    data: dict[str, Any] = parse_json(found[1], f"{home / PAGE}:")
    return data


class PartAnswers:
    """Answers to one part of a review.

    - ``rows``: the answered rows as a page saves them, keyed by row id.
    - ``locked``: True once the reader has closed the part.
    - ``saved``: the time at which the file was written, in ISO 8601.
    """

    def __init__(self, folder: Path, data: Mapping[str, Any]) -> None:
        """Read the part's answers from the folder of the batch; ``data`` is the result of :func:`page_data`."""
        self.page = str(data["page"])
        self.file = folder / ANSWERS / f"{self.page}.json"
        self._data = data
        self._shown = {row["id"]: row for row in data["rows"]}
        self.rows: dict[str, Record] = {}
        self.locked = False
        self.about: Mapping[str, str] = {}  # a study reader's answers on experience and conditions, keyed by question
        self.saved: str | None = None
        if self.file.exists():
            saved = read_page(self.file, None).about
            if saved["batch"] != data["batch"] or saved["page"] != self.page:
                raise InputError(f"{self.file}: belongs to another review; move the file elsewhere.")
            self.rows = {row["cells"].get(columns.ID, ""): row for row in saved["rows"]}
            self.locked, self.saved, self.about = saved["locked"], saved["saved"], saved.get("about", {})

    @property
    def kind(self) -> str:
        """The kind of sheet that this part of the page shows."""
        return str(self._data["kind"])

    @property
    def is_blind(self) -> bool:
        """True if the part shows no proposals; its reader must close it before the next part opens."""
        return bool(self._data["blind"])

    @property
    def is_repeat(self) -> bool:
        """True if the part asks items of a reader study a second time."""
        return self.kind == "repeat"

    @property
    def closed(self) -> datetime.datetime | None:
        """The time at which the reader closed the part; None if the part is open, or if the time is unreadable."""
        try:
            at = datetime.datetime.fromisoformat(self.saved) if self.locked and self.saved else None
        except ValueError:
            return None
        return at.replace(tzinfo=at.tzinfo or datetime.UTC) if at else None

    @property
    def judged(self) -> int:
        """The number of rows that have a verdict or an answer."""
        return sum(self._is_judged(row["changes"][-1]["cells"]) for row in self.rows.values() if row["changes"])

    @property
    def size(self) -> int:
        """The number of rows in the part."""
        return len(self._shown)

    @property
    def newest(self) -> str | None:
        """The time of the last change in ISO 8601; None if nothing has changed."""
        return max((row["changes"][-1]["at"] for row in self.rows.values() if row["changes"]), default=None)

    def _is_judged(self, cells: Mapping[str, str]) -> bool:
        if self._data["blind"]:
            return any(text for title, text in cells.items() if title != columns.COMMENT)
        return bool(cells.get(columns.VERDICT))

    def take(self, sent: Sequence[Any]) -> None:
        """Add the changes that a page sent to this part's answers, and write the file with the answers.

        Does nothing if the reader has closed the part. Raises ``InputError`` and adds nothing if a change cannot come
        from the page.
        """
        if self.locked:
            return
        rows = dict(self.rows)
        for one in sent:
            row = self._merged(one)
            rows[row["cells"][columns.ID]] = row
        self._keep(rows, False)

    def close(self, about: Mapping[str, str] | None = None) -> None:
        """Close the part, so that its answers can no longer change.

        ``about`` has a study reader's answers about experience and conditions, keyed by question. Raises ``InputError``
        and leaves the part open if ``about`` has other answers than the page can send.
        """
        if not self.locked:
            self._keep(self.rows, True, about or {})

    def _merged(self, sent: Any) -> Record:
        shown = self._shown.get(sent.get("id")) if isinstance(sent, dict) else None
        if shown is None or not isinstance(sent.get("changes"), list):
            raise InputError("an answer is for a row that this page does not have; reload the page")
        before = self.rows.get(shown["id"], {"changes": [], "seconds": None, "contour": None})
        changes: dict[str, Any] = {change["id"]: change for change in before["changes"]}
        for change in sent["changes"]:
            if not isinstance(change, dict) or not isinstance(change.get("cells"), dict):
                raise InputError(f"the answer to row '{shown['id']}' has no cells; reload the page")
            if any(title not in _FILL_IN and columns.option_number(title) is None for title in change["cells"]):
                raise InputError(f"the answer to row '{shown['id']}' fills in a locked cell; reload the page")
            old = changes.get(str(change.get("id")))
            if old is None or str(old["at"]) < str(change.get("at")):
                changes[str(change.get("id"))] = change
        ordered = sorted(changes.values(), key=lambda change: (str(change.get("at")), str(change.get("id"))))
        cells = ordered[-1]["cells"] if ordered else {}
        outline, drawn = before["contour"], before.get("contour_at", "")
        if str(sent.get("contour_at", "")) >= drawn:  # a tab that still has an older outline changes nothing
            outline, drawn = sent.get("contour"), str(sent.get("contour_at", ""))
        seconds = [value for value in (before["seconds"], sent.get("seconds")) if isinstance(value, int | float)]
        return {
            "tab": shown["tab"], "row": shown["row"], "cells": {**shown["cells"], **cells}, "changes": ordered,
            "seconds": max(seconds, default=None),
            "contour": outline if cells.get(columns.VERDICT) == columns.FIX else None,
            **({"contour_at": drawn} if drawn else {}),
        }  # fmt: skip

    def _keep(self, rows: Mapping[str, Record], locked: bool, about: Mapping[str, str] | None = None) -> None:
        data = self._data
        record = {
            "what": WHAT, "schema_version": 1, "page": self.page, "batch": data["batch"], "sheet": data["sheet"],
            "reviewer": data["reviewer"], "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "locked": locked, "rows": list(rows.values()), **({"about": about} if about else {}),
        }  # fmt: skip
        check(record, "page_answers", "the answers sent:")
        self.file.parent.mkdir(exist_ok=True)
        write_json(self.file, record, "page_answers")
        self.rows, self.locked, self.saved, self.about = dict(rows), locked, record["saved"], about or {}

    def to_page(self) -> str:
        """Return the answers as JSON; a page requests them when it opens."""
        names = ("changes", "seconds", "contour", "contour_at")
        rows = [
            {"id": row_id, **{name: row[name] for name in names if name in row}} for row_id, row in self.rows.items()
        ]
        return json.dumps({"rows": rows, "locked": self.locked})
