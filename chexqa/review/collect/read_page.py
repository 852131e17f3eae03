"""Reading of the files that review pages save, and storage of the history of changes that these files contain.

A saved row has the same cells as a row of a review sheet, such as the id, and is read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from chexqa.files import limits
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, parse_json, read_jsonl, read_text, write_jsonl
from chexqa.files.opening import open_binary
from chexqa.review import columns
from chexqa.review.collect.read_xlsx import SheetCells

ENDING = ".json"
WHAT = "chexqa review page"
HISTORY = "page_history.jsonl"
_BEGINNING = 80  # number of bytes at the start of a saved page that hold its mark


class SavedPage(NamedTuple):
    """A file that a review page saved: its path and its record (schema ``page_answers``)."""

    file: str
    about: Record


def is_saved_page(path: Path, folder: Path) -> bool:
    """Return True if a file was saved by a page; a review's folder also contains other JSON files."""
    try:
        with open_binary(path, inside=folder) as file:
            return WHAT.encode() in file.read(_BEGINNING)
    except InputError:
        return False


def read_page(path: Path, folder: Path | None) -> SavedPage:
    """Read a file that a page saved; raise ``InputError`` for any other file."""
    record = parse_json(read_text(path, limits.MAX_JSON_BYTES, folder), f"{path}:")
    if not isinstance(record, dict) or record.get("what") != WHAT:
        raise InputError(
            f"{path}: was not saved by a review page; ask the reviewer for the file that the button 'Save' of the page "
            "wrote."
        )
    check(record, "page_answers", str(path))
    name = columns.check_name(record["reviewer"], str(path))
    for row in record["rows"]:
        dealt = row["cells"].get(columns.REVIEWER, name)
        if dealt != name:
            raise InputError(
                f"{path}: was saved by '{name}', but has rows of the reviewer '{columns.plain(dealt)}'; ask '{name}' "
                "for the file as the review page saved it, unchanged."
            )
    return SavedPage(path.name, record)


def as_sheets(saved: SavedPage) -> list[SheetCells]:
    """Return a page's saved rows in the form of a sheet's tabs."""
    tabs: dict[str, list[Record]] = {}
    for row in saved.about["rows"]:
        tabs.setdefault(row["tab"], []).append(row)
    sheets = []
    for name, rows in tabs.items():
        titles = list(dict.fromkeys([*_FILL_IN, *(title for row in rows for title in row["cells"])]))
        lines = [(row["row"], tuple(row["cells"].get(title, "") for title in titles)) for row in rows]
        sheets.append(SheetCells(name, [(1, tuple(titles)), *sorted(lines)]))
    return sheets


_FILL_IN = (
    columns.VERDICT, columns.CORRECTED, columns.ANSWER, columns.REASON, columns.COMMENT,
    *(columns.option_title(number) for number in range(1, 65)),
)  # fmt: skip


HistoryKey = tuple[str, str, str]


def load_history(store: Path) -> dict[HistoryKey, Record]:
    """Read the history of changes beside the store; return its records keyed by batch, sheet and row."""
    path = store.with_name(HISTORY)
    known: dict[HistoryKey, Record] = {}
    if path.exists():
        for line, record in read_jsonl(path, "page_history"):
            columns.check_name(record["reviewer"], f"{path}, line {line}")
            known[record["batch"], record["sheet"], record["row"]] = record
    return known


def keep_history(store: Path, before: Mapping[HistoryKey, Record], pages: Iterable[SavedPage]) -> None:
    """Add the changes found in saved pages to the history, a file beside the verdicts in ``store``; each change is kept
    once.

    ``before`` has the records that the history already contains.
    """
    known = dict(before)
    for page in pages:
        about = page.about
        for row in about["rows"]:
            key = about["batch"], about["sheet"], row["cells"].get(columns.ID, "")
            if not key[2]:
                continue
            old = known.get(key, {"changes": [], "seconds": None, "locked": False})
            changes = {change["id"]: change for change in (*old["changes"], *row["changes"])}
            known[key] = {
                "batch": key[0], "sheet": key[1], "reviewer": about["reviewer"], "row": key[2],
                "seconds": row["seconds"] if row["seconds"] is not None else old["seconds"],
                "changes": sorted(changes.values(), key=lambda change: (change["at"], change["id"])),
                "file": page.file, "locked": about["locked"] or old["locked"],
            }  # fmt: skip
    if known:
        write_jsonl(store.with_name(HISTORY), (known[key] for key in sorted(known)), "page_history")
