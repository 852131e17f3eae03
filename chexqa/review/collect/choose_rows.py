"""Choice of one copy of each returned row, and of the rows that reviewers must correct.

A row may be returned several times. Rows that could not be read go back to reviewers in a correction sheet, which
states each row's problem. A corrected row replaces the row of the exported sheet and of earlier correction sheets.
Copies that remain must not contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chexqa.review import columns
from chexqa.review.collect.parse_rows import BadRowError, Meaning, Reading
from chexqa.review.collect.title_rows import FilledRow, Problem, Returned
from chexqa.review.collect.verdicts import Dealt

RowKey = tuple[str, str]


class BadRow(NamedTuple):
    """A row that could not be read and is given to its reviewer again, in a new sheet.

    - ``dealt``: the sheet that the reviewer returned.
    - ``text``: the problem in one clause.
    - ``entries``: the reviewer's entries to be repeated in the new sheet, keyed by column title.
    - ``cells``: all texts of the returned row, keyed by column title.
    """

    dealt: Dealt
    row_id: str
    text: str
    entries: Mapping[str, str]
    cells: Mapping[str, str]


class Understood(NamedTuple):
    """Result of :func:`understand`: the rows that were read, all problems, and the rows that reviewers must correct."""

    rows: list[tuple[FilledRow, Meaning]]
    problems: list[Problem]
    bad: list[BadRow]


class _Read(NamedTuple):
    """One returned row: its sheet and id (``owner``, if they could be read), and either its meaning or its problem.

    ``again`` is True if the reviewer must fill in the row again from the start, because the entries may belong to
    another row or contradict another copy of the row.
    """

    row: FilledRow
    owner: tuple[Dealt, str] | None
    meaning: Meaning | None
    text: str = ""
    again: bool = False

    @property
    def key(self) -> RowKey | None:
        return None if self.owner is None else (self.owner[0].name, self.owner[1])

    @property
    def number(self) -> int:
        return columns.problem_number(self.row.titles)

    @property
    def is_uncorrected(self) -> bool:
        """True if the row is in a correction sheet and still has the problem that this sheet states."""
        stated = columns.plain(self.row.cells.get(columns.problem_title(self.number), ""))
        return self.meaning is None and columns.plain(self.text) in stated


def understand(reading: Reading, returned: Returned) -> Understood:
    """Read all returned rows; return each filled row once, all problems, and the rows that reviewers must correct.

    - If a row was returned in several sheets, the newest sheet is used.
    - A correction sheet in which the reviewer did not correct the row is used only if no other sheet has the row.
    - A row goes back to its reviewer only if its sheet and id could be read.
    """
    read = [_Read(spoilt.row, reading.owner(spoilt.row), None, spoilt.text) for spoilt in returned.spoilt]
    read += [one for row in returned.rows if (one := _read(reading, row)) is not None]
    newest: dict[RowKey | None, int] = {}
    for one in sorted(read, key=lambda one: one.number):
        if one.key not in newest or not one.is_uncorrected:
            newest[one.key] = one.number
    read = [one for one in read if one.key is None or one.number == newest[one.key]]
    good, disputed = _once([one for one in read if one.meaning is not None])
    faults = [one for one in read if one.meaning is None]
    problems = [*returned.problems, *(Problem(*one.row[:3], one.text) for one in [*faults, *disputed])]
    return Understood(list(good.values()), problems, _given_back([*faults, *disputed], good))


def _read(reading: Reading, row: FilledRow) -> _Read | None:
    """Read one row; return ``None`` if the reviewer filled in nothing."""
    try:
        meaning = reading.read(row)
    except BadRowError as error:
        filled = any(map(columns.is_fill_in, row.cells))
        return _Read(row, reading.owner(row) if filled else None, None, str(error), error.doubtful)
    return None if meaning is None else _Read(row, (meaning.dealt, meaning.row_id), meaning)


def _once(read: Sequence[_Read]) -> tuple[dict[RowKey, tuple[FilledRow, Meaning]], list[_Read]]:
    """Return the rows whose copies all agree, keyed by sheet and id, and the copies that contradict an earlier copy."""
    first: dict[RowKey, tuple[FilledRow, Meaning]] = {}
    disputed: list[_Read] = []
    for one in read:
        assert one.key is not None, "a row with a meaning has a key"
        assert one.meaning is not None, "and it is given"
        row, meaning = first.setdefault(one.key, (one.row, one.meaning))
        if meaning != one.meaning:
            disputed.append(one._replace(text=_twice(row, meaning), again=True))
    lost = {one.key for one in disputed}
    return {key: found for key, found in first.items() if key not in lost}, disputed


def _twice(earlier: FilledRow, meaning: Meaning) -> str:
    place = f"tab '{earlier.tab}', " if earlier.tab else ""
    return (
        f"'{meaning.row_id}' appears twice with different verdicts, first in {earlier.file}, {place}row "
        f"{earlier.number}; keep the row that counts"
    )


def _given_back(faults: Sequence[_Read], good: Mapping[RowKey, object]) -> list[BadRow]:
    found: dict[RowKey, BadRow] = {}
    for one in faults:
        if one.key is None or one.owner is None or one.key in good:
            continue
        entries = {title: text for title, text in one.row.cells.items() if columns.is_fill_in(title)}
        if columns.OPTIMAL in entries:
            entries = {columns.VERDICT: entries[columns.OPTIMAL]} | entries
            del entries[columns.OPTIMAL]
        text = one.text
        if one.again:
            said = "; ".join(f"{title}: {columns.plain(value)[:200]}" for title, value in entries.items())
            text, entries = f"{text.partition('; ')[0]}; fill in the row again (the entries were {said})", {}
        before = found.get(one.key)
        if before is not None:
            text = f"{before.text}; {text}"
        found[one.key] = BadRow(*one.owner, text, entries, one.row.cells)
    return list(found.values())
