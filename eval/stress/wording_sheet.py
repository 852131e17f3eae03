"""A review sheet that asks reviewers whether another wording of a question means the same.

A row shows a question of the benchmark, for one of its cases, and another wording of this question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.benchmark import ABOUT, Benchmark
from chexqa.contract.items import Item
from chexqa.eval.stress.unequal_wordings import Wording, texts, texts_hash
from chexqa.eval.stress.wordings import filled_in, letters
from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record
from chexqa.files.opening import sha256_of
from chexqa.review import columns
from chexqa.review.cell_words import parse_word
from chexqa.review.collect.title_rows import FilledRow, Problem, fold, read_files, sheet_files
from chexqa.review.sheets.cover_tab import About
from chexqa.review.sheets.sheet import Book, SheetRow, fill_tabs, write_workbook

# Placeholders whose words differ from finding to finding or from side to side, not from rule to rule.
_OF_CASE = ("finding", "outline", "area", "note", "side")


class Pair(NamedTuple):
    """A question in two wordings: that of the bank (``question``) and another one (``other``).

    A question can have several versions, which state different thresholds, such as "a fifth" and "a quarter". ``rule``
    is the version's number, from 1.
    """

    wording: Wording
    rule: int
    question: str
    other: str

    @property
    def row_id(self) -> str:
        """Return the row's id in a sheet."""
        return f"w-{self.wording.kind}-{self.wording.letter}-{self.rule}"


def pairs(benchmark: Benchmark) -> list[Pair]:
    """Return a pair for each question of the benchmark and each other wording of this question.

    Questions that differ only in a threshold, such as "a fifth" and "a quarter", count as different questions.
    Questions that differ only in the finding or the side count as the same question. Raise ``InputError`` if no
    question has another wording.
    """
    language = str(benchmark.about["question_bank"]["language"])
    seen: dict[str, list[tuple[tuple[str, str], ...]]] = {}
    found = [pair for item in benchmark.items for pair in _of_item(item, language, seen)]
    if not found:
        raise InputError(
            f"{benchmark.folder}: none of its questions has another wording; chexqa has other wordings only for the "
            "questions of its own English banks."
        )
    return sorted(found, key=lambda pair: (pair.wording, pair.rule))


def _of_item(item: Item, language: str, seen: dict[str, list[tuple[tuple[str, str], ...]]]) -> Iterator[Pair]:
    """Yield the pairs of an item; if an earlier item had the same rule, yield none."""
    for letter in letters(language):
        both = texts(language, Wording(item.kind, letter))
        values = None if both is None else filled_in(both[0], item.question)
        if both is None or values is None:
            return
        rule = tuple(sorted((name, text) for name, text in values.items() if name not in _OF_CASE))
        rules = seen.setdefault(f"{item.kind} {letter}", [])
        if rule not in rules:
            rules.append(rule)
            yield Pair(Wording(item.kind, letter), len(rules), item.question, both[1].format(**values))


def write_sheet(benchmark: Benchmark, path: Path, reviewer: str) -> int:
    """Write the workbook of one reviewer; return the number of rows. Raise ``InputError`` if the file exists."""
    if path.exists():
        raise InputError(f"{path}: already exists and may have answers; name a new file.")
    if path.suffix.lower() != ".xlsx":
        raise InputError(f"{path}: a review sheet is a workbook; name a file that ends in .xlsx.")
    columns.check_name(reviewer, "--reviewer")
    rows = [
        SheetRow(one.row_id, {columns.QUESTION: one.question, columns.OTHER: one.other}) for one in pairs(benchmark)
    ]
    about = About("wordings", reviewer, benchmark.name, len(rows), False, False)
    marks = {columns.BENCHMARK: _mark(benchmark), columns.REVIEWER: reviewer}
    with new_file(path) as hidden:
        write_workbook(hidden, Book("wordings", fill_tabs([rows], "wordings"), marks, about), lambda row: None, None,
                       lambda: None)  # fmt: skip
    return len(rows)


def read_sheets(benchmark: Benchmark, paths: Sequence[Path]) -> tuple[list[Record], list[str]]:
    """Return the rows of returned sheets, ready to be stored, and a line for each unreadable row."""
    known = {one.row_id: one for one in pairs(benchmark)}
    returned = read_files(sheet_files(paths))
    problems = [*returned.problems, *(Problem(*one.row[:3], one.text) for one in returned.spoilt)]
    found: list[Record] = []
    for row in returned.rows:
        try:
            record = _read(benchmark, row, known)
        except InputError as error:
            problems.append(Problem(row.file, row.tab, row.number, str(error)))
            continue
        if record is not None:
            found.append(record)
    return found, fold(problems)


def _read(benchmark: Benchmark, row: FilledRow, known: dict[str, Pair]) -> Record | None:
    """Return the record of a row; None if the reviewer filled nothing in."""
    cells = {title: columns.plain(text) for title, text in row.cells.items()}
    if not any(map(columns.is_fill_in, cells)):
        return None
    pair, reviewer = known.get(cells.get(columns.ID, "")), cells.get(columns.REVIEWER, "")
    if cells.get(columns.BENCHMARK) != _mark(benchmark) or pair is None or not reviewer:
        raise InputError(
            f"the row '{cells.get(columns.ID, '')}' is not from the sheet that 'chexqa review wordings' wrote for "
            f"{benchmark.folder}; ask the reviewer for that sheet"
        )
    if columns.changed_titles(row.cells) != ():
        raise InputError("a locked cell was changed; copy the locked cells of this row from the exported sheet")
    said = cells.get(columns.VERDICT, "")
    verdict = parse_word(said, columns.VERDICTS)
    if verdict is None:
        raise InputError(
            f"'{said}' under '{columns.VERDICT}' is none of {', '.join(columns.VERDICTS)}"
            f"{suggest(said, columns.VERDICTS)}"
        )
    language = str(benchmark.about["question_bank"]["language"])
    return {
        "kind": pair.wording.kind, "wording": pair.wording.letter, "rule": pair.rule,
        "texts": texts_hash(language, pair.wording), "reviewer": reviewer, "verdict": verdict,
        "comment": cells.get(columns.COMMENT) or None,
    }  # fmt: skip


def _mark(benchmark: Benchmark) -> str:
    return columns.benchmark_mark(sha256_of(benchmark.folder / ABOUT))
