"""Import of filled sheets: each filled row is either read into the store of verdicts or listed as a problem.

Importing the same files again changes nothing. A row that differs from the verdict stored for it is a problem, unless
``replace`` is True.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.files.atomic import made_folder
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.review import columns
from chexqa.review.collect.choose_rows import BadRow, understand
from chexqa.review.collect.contours import ContourOptions, keep_contours, load_contours, read_contours
from chexqa.review.collect.parse_rows import Meaning, Reading
from chexqa.review.collect.read_page import ENDING, keep_history, load_history
from chexqa.review.collect.title_rows import FilledRow, Problem, fold, read_files, sheet_files
from chexqa.review.collect.verdicts import (
    STORE,
    Batch,
    Verdict,
    VerdictKey,
    load_batch,
    load_reviewed,
    read_store,
    write_store,
)


class ImportOptions(NamedTuple):
    """Options of an import.

    - ``paths``: the returned files, or folders with them.
    - ``batch``: the batch file or its folder.
    - ``store``: the file that gets the verdicts; None for ``verdicts.jsonl`` beside the batch file.
    - ``benchmark``: the folder of the benchmark, or the manifest; None for the path in the batch file.
    - ``all_or_none``: True to import nothing if a row has a problem; False to leave out only the rows with problems.
    - ``replace``: True if a row may replace the verdict stored for it.
    - ``day``: the time of the import, as it is recorded; empty for the current time (UTC).
    - ``image_root``: the folder that a manifest's paths are relative to; needed for redrawn masks.
    """

    paths: Sequence[Path]
    batch: Path
    store: Path | None = None
    benchmark: Path | None = None
    all_or_none: bool = False
    replace: bool = False
    day: str = ""
    image_root: Path | None = None


class Imported(NamedTuple):
    """Result of an import.

    - ``store``: the file of verdicts, and ``verdicts``: all verdicts in it.
    - ``read``, ``new``, ``changed``: the numbers of rows read, of new verdicts, and of changed verdicts.
    - ``problems``: the problems as lines of text; rows with the same problem share a line.
    - ``faults``: the number of problems.
    - ``written``: True if the verdicts were stored.
    - ``redrawn``: the redrawn masks, as records of ``contours.jsonl``.
    - ``withdrawn``: a line for each row that had entries before and is empty now.
    - ``bad``: the rows that reviewers must correct.
    - ``no_reason``: a line for each file with new or changed rows whose verdict needs a reason and has none.
    - ``about``: what the readers of a study said of themselves, as records of ``readers.jsonl``.
    """

    batch: Batch
    loaded: Benchmark | None
    store: Path
    verdicts: dict[VerdictKey, Verdict]
    read: int
    new: int
    changed: int
    problems: list[str]
    faults: int
    written: bool
    redrawn: tuple[Record, ...] = ()
    withdrawn: tuple[str, ...] = ()
    bad: tuple[BadRow, ...] = ()
    no_reason: tuple[str, ...] = ()
    about: tuple[Record, ...] = ()


def import_sheets(order: ImportOptions) -> Imported:
    """Import sheets into the store and return the result.

    Rows with problems are left out. If ``all_or_none`` is True, a single problem stops the import.
    """
    batch = load_batch(order.batch)
    loaded = load_reviewed(batch, order.benchmark) if batch.about["what"] == "items" else None
    store = order.store or batch.path.parent / STORE
    before = read_store(order.store or store.parent) if store.exists() else {}
    _check_store(store, before, batch)
    returned = read_files(sheet_files(order.paths))
    reading = Reading(batch, loaded)
    meanings, problems, bad = understand(reading, returned)
    pace = _pace(meanings, returned.seconds)
    # Time to the second, since the later of two adjudications on one day counts.
    day = order.day or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    pages = {page.file: str(page.about["page"]) for page in returned.pages}
    verdicts = {
        verdict.key: verdict
        for row, meaning in meanings
        for verdict in [_verdict(batch, row, meaning, pace.get((row.file, row.tab)), day, pages)]
    }
    withdrawn = _emptied(batch, before, reading, returned.rows, verdicts, day)
    after, new, overruled = dict(before), 0, 0
    taken: list[Verdict] = []
    for key, verdict in {**verdicts, **withdrawn}.items():
        old = before.get(key)
        if old is None:
            new += 1
        elif old.said == verdict.said:
            continue
        elif order.replace:
            overruled += 1
        else:
            problems.append(_overruling(old, verdict))
            continue
        after[key] = verdict if old is None else verdict.after(old)
        taken.append(verdict)
    known, history = load_contours(store.parent), load_history(store)
    drawing = ContourOptions(order.benchmark, order.image_root, known, order.replace)
    imported = [after[key] for key in verdicts if key in after]
    gone = [_withdrawal(before[key], verdict) for key, verdict in withdrawn.items() if order.replace]
    of_rows = len(problems)
    drawn = read_contours(batch, returned.pages, imported, drawing, problems)
    # A verdict with a faulty outline does not go into the store.
    written = not (problems and order.all_or_none) and len(problems) == of_rows
    if written:
        with made_folder(store.parent):
            if new or overruled or not store.exists():
                write_store(store, after.values())
            keep_history(store, history, returned.pages)
            keep_contours(store.parent, known, drawn, returned.pages)
    shown = after if written else before
    counts = len(verdicts), new, overruled
    return Imported(
        batch, loaded, store, shown, *counts, fold(problems), len(problems), written, tuple(drawn), tuple(fold(gone)),
        tuple(bad), tuple(without_reason(taken)), tuple(_about(batch, meanings, returned.about, day)),
    )  # fmt: skip


def without_reason(verdicts: Iterable[Verdict]) -> list[str]:
    """Return a line for each file with rows whose verdict needs a reason and has none."""
    return fold(
        # A page's rows are stored under the sheet with the same rows, whose file need not exist.
        Problem(Path(one.source["file"]).stem, one.source["tab"], one.source["row"],
                f"the verdict is '{one.verdict}', but there is no reason; give one, and import the returned file "
                "again with --replace")
        for one in verdicts if one.lacks_reason
    )  # fmt: skip


def _about(
    batch: Batch, meanings: Iterable[tuple[FilledRow, Meaning]], about: Mapping[str, Mapping[str, str]], day: str
) -> list[Record]:
    """Return a record for each study reader, with the answers on the workbook's first tab.

    The name of the reader is taken from the rows of the same file.
    """
    readers = {row.file: meaning.dealt.reviewer for row, meaning in meanings if meaning.dealt.kind == "readers"}
    return [
        {"batch": batch.name, "reviewer": readers[file], "said": dict(said), "imported": day}
        for file, said in about.items()
        if file in readers
    ]


def _check_store(store: Path, before: Mapping[VerdictKey, Verdict], batch: Batch) -> None:
    """Raise ``InputError`` if the store has verdicts on another benchmark or another version of it."""
    other = next((verdict for verdict in before.values() if verdict.benchmark != batch.hash), None)
    if other is not None:
        raise InputError(
            f"{store}: already has verdicts of the batch {other.batch}, which was made from another benchmark, "
            f"manifest or version than {batch.label}; name another file with -o."
        )


def _emptied(
    batch: Batch, before: Mapping[VerdictKey, Verdict], reading: Reading, rows: Iterable[FilledRow],
    verdicts: Mapping[VerdictKey, Verdict], day: str,
) -> dict[VerdictKey, Verdict]:  # fmt: skip
    """Return an empty verdict for each row that had entries before and is empty now, keyed by batch, sheet and row.

    Two kinds of file withdraw nothing: a file in which no row of the sheet is filled in, which is a fresh copy, and a
    correction sheet, whose empty rows are not corrected yet.
    """
    used = {(verdict.source["file"], verdict.sheet) for verdict in verdicts.values()}
    found = {}
    for row in rows:
        place = reading.emptied(row)
        if place is None or columns.problem_number(row.titles):
            continue
        dealt, row_id = place
        key = batch.name, dealt.name, row_id
        if key in verdicts or key not in before or before[key].is_empty:
            continue
        if (Path(row.file).name, dealt.name) in used:
            found[key] = _verdict(batch, row, Meaning(dealt, row_id, None, None, None, None), None, day, {})
    return found


def _withdrawal(old: Verdict, new: Verdict) -> Problem:
    return Problem(
        new.source["file"],
        new.source["tab"],
        new.source["row"],
        f"'{new.row}' is empty now, so its earlier entry {_words(old)} is removed",
    )


def _overruling(old: Verdict, new: Verdict) -> Problem:
    if new.is_empty:
        text = (
            f"'{new.row}' is empty now, but was {_words(old)} in an earlier import; give --replace to remove "
            f"the earlier entry"
        )
        return Problem(new.source["file"], new.source["tab"], new.source["row"], f"{text}, or fill in the row again")
    text = (
        f"'{new.row}' is now {_words(new)}, but was {_words(old)} in an earlier import; give --replace if the "
        f"new entry counts, or enter the earlier one again"
    )
    return Problem(new.source["file"], new.source["tab"], new.source["row"], text)


def _words(verdict: Verdict) -> str:
    said = [verdict.verdict or ("an answer" if verdict.asks_answer else "no verdict")]
    if verdict.answer is not None:
        said.append("option " + ", ".join(map(str, verdict.answer)))
    said += [text for text in (verdict.reason, f"“{verdict.comment}”" if verdict.comment else None) if text]
    return f"({'; '.join(said)})"


def _pace(
    meanings: Iterable[tuple[FilledRow, Meaning]], seconds: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], float]:
    """Return the seconds per answered row, keyed by file and tab, for the tabs for which the reader gave times."""
    rows = Counter((row.file, row.tab) for row, meaning in meanings if meaning.dealt.kind == "readers")
    return {place: round(seconds[place] / count, 1) for place, count in rows.items() if place in seconds}


def _verdict(
    batch: Batch, row: FilledRow, meaning: Meaning, seconds: float | None, day: str, pages: Mapping[str, str]
) -> Verdict:
    """Return the verdict of a row; ``pages`` has the names of pages, keyed by the file that the page saved."""
    dealt, file = meaning.dealt, Path(row.file).name
    # A row of a page is stored under the sheet with the same rows, so that the same entries give the same verdict.
    if Path(file).suffix.lower() == ENDING:
        file = f"{pages.get(file, dealt.name)}.xlsx"
    source = {"file": file, "tab": row.tab, "row": row.number}
    return Verdict(
        batch.name, batch.hash, dealt.name, dealt.kind, dealt.reviewer, meaning.row_id, meaning.verdict, meaning.answer,
        meaning.reason, meaning.comment, seconds, day, source, dealt.seen.get(meaning.row_id),
        dealt.planted.get(meaning.row_id), place=meaning.place,
    )  # fmt: skip
