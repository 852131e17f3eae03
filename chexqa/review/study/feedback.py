"""Rows of a study's sheets: repeated rows, and training rows, which show the key once the reader has answered.

A training sheet contains the key, in hidden formulas. Its items are therefore never asked in the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, CaseKey, Item
from chexqa.review.cell_words import typed_words
from chexqa.review.columns import SheetKind, choices, item_row_id
from chexqa.review.sheets.evidence_text import evidence_words, proposed_words
from chexqa.review.sheets.questions import Entry
from chexqa.review.sheets.sheet import Feedback, Tab
from chexqa.review.study.design import Design


def study_rows(
    design: Design, reader: str, kind: SheetKind, bench: Benchmark, tabs: Sequence[Tab], entries: Mapping[str, Entry]
) -> tuple[list[Tab], dict[str, Entry]]:
    """Return the tabs and rows of one sheet of a study.

    - A sheet of repeats has only the items that are asked again.
    - A training sheet has feedback.
    - Other sheets are returned unchanged.
    """
    if kind == "training":
        return with_feedback(bench, tabs, entries)
    if kind != "repeat":
        return list(tabs), dict(entries)
    wanted = {item_row_id(item_id) for item_id in design.repeats[reader]}
    kept = [Tab(tab.name, [row for row in tab.rows if row.row_id in wanted]) for tab in tabs]
    return [tab for tab in kept if tab.rows], {row: one for row, one in entries.items() if row in wanted}


def with_feedback(
    bench: Benchmark, tabs: Sequence[Tab], entries: Mapping[str, Entry]
) -> tuple[list[Tab], dict[str, Entry]]:
    """Return the tabs and rows of a sheet, with the key and its evidence as feedback in every row."""
    answers, keys = bench.key("training with feedback")
    items = {item_row_id(item.item_id): item for item in bench.items}
    found = {}
    for row_id, entry in entries.items():
        item = items[row_id]
        said = _feedback(item, answers[item.item_id], keys[item.case_id], bench)
        found[row_id] = replace(entry, row=replace(entry.row, feedback=said))
    return [Tab(tab.name, [found[row.row_id].row for row in tab.rows]) for tab in tabs], found


def _feedback(item: Item, answer: Answer, case: CaseKey, bench: Benchmark) -> Feedback:
    evidence = evidence_words(item, answer, case, bench.kinds)
    text = f"The key: {'; '.join(proposed_words(item, answer).splitlines())}."
    return Feedback("\n".join(filter(None, (text, evidence))), _words_of_key(item, answer))


def _words_of_key(item: Item, answer: Answer) -> tuple[str, ...]:
    """Return the texts of the right answer; empty for several right options or a place."""
    if item.form.takes_several or item.form.is_place:
        return ()
    shown = choices(item)
    if not item.form.lists_options:
        names = [shown[number - 1] for number in answer.answer]
        return tuple(form for name in names for form in (name, name[::-1], f"{name[0]} {name[1]}"))
    return tuple(word for number in answer.answer for word in (shown[number - 1], *typed_words(item, only=number)))
