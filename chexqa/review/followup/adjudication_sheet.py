"""Adjudication sheet: contested items with all reviewers' verdicts, on which the adjudicator decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import ClassVar, NamedTuple

from chexqa.contract import benchmark
from chexqa.contract.items import CONTESTED, Answer, Item
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_json
from chexqa.files.seeds import digest, stream
from chexqa.review import columns
from chexqa.review.assignment import Share
from chexqa.review.collect.verdicts import Verdict, by_item
from chexqa.review.columns import ACCEPT, FIX, REJECT, SheetKind
from chexqa.review.export_options import one_name
from chexqa.review.resolve.decide import Vote, decide
from chexqa.review.sheets.evidence_text import NO_CELL
from chexqa.review.sheets.export import Beside, Maker, Wish, Written, bench_source, new_folder
from chexqa.review.sheets.questions import Entry, Questions
from chexqa.review.sheets.sheet import Tab, fill_tabs

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


class Adjudicated(NamedTuple):
    """Written sheet of disputed items or masks: its path, its number of rows, and its review pages, if any."""

    sheet: Path
    rows: int
    pages: tuple[Written, ...] = ()


@dataclass(frozen=True)
class Disputed(Questions):
    """The contested items of a benchmark; ``said`` has the reviewers' verdicts as texts, keyed by item id.

    If ``blind`` is True, the sheet shows neither the proposed answer nor its evidence, and ``said`` has answers instead
    of verdicts.
    """

    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blind: bool = False
    takes_places: ClassVar[bool] = False

    def tabs(self, cases: Sequence[str], kind: SheetKind) -> tuple[list[Tab], dict[str, Entry]]:
        """Return the work tabs with the contested items of the cases, and their rows keyed by row id."""
        wanted = set(cases)
        groups: dict[str, list[Entry]] = {}
        for item in self.bench.items:
            if item.item_id in self.said and item.case_id in wanted:
                groups.setdefault(item.case_id, []).append(self._disputed(item, kind))
        rows = [[entry.row for entry in group] for group in groups.values()]
        return fill_tabs(rows, "part"), {entry.row.row_id: entry for group in groups.values() for entry in group}

    def _disputed(self, item: Item, kind: SheetKind) -> Entry:
        entry = self.entry(item, "blind" if self.blind else kind)
        votes = {columns.vote_title(number): text for number, text in enumerate(self.said[item.item_id], start=1)}
        return changed(entry, row=changed(entry.row, cells={**entry.row.cells, **votes}))


def adjudicate(
    folder: Path, verdicts: Iterable[Verdict], out: Path, adjudicator: str, blind_names: bool, progress: Progress,
    blind: bool = False, beside: Beside | None = None, page_only: bool = False,
) -> Adjudicated:  # fmt: skip
    """Write the sheet of a benchmark's contested items into the new folder ``out``, and return what was written.

    - ``beside``: a function that also writes the rows as a review page (HTML).
    - ``page_only``: True to write only the review page, without the workbook.
    - ``blind_names``: True to leave out the reviewers' names and to sort the verdicts, so that their order does not
      reveal the reviewers.
    - ``blind``: True to hide proposal and evidence, and to show anonymous answers in random order. The key is one of
      these answers and is not marked.

    Raises ``InputError`` if no item is contested, or if the adjudicator was one of a contested item's reviewers.
    """
    name = one_name(adjudicator, "--adjudicator")
    bench = benchmark.load(folder)
    rows = list(verdicts)
    said = answers_given(bench, rows, name) if blind else disputes(bench, rows, blind_names)
    if not said:
        raise InputError(f"{folder}: no item is contested, so there is nothing to adjudicate.")
    readers = {row.reviewer.casefold() for row in rows if row.row[2:] in said and row.kind != "adjudication"}
    if name.casefold() in readers:
        raise InputError(
            f"--adjudicator {name}: has judged one of these items; name a third person, who has judged none of them."
        )
    cases = tuple(dict.fromkeys(item.case_id for item in bench.items if item.item_id in said))
    batch = "r-" + digest(bench.hash, "adjudication", name, sorted(said.items())).hex()[:12]
    wish = Wish((name,), 0.0, 1, page_only=page_only)
    votes = max(len(texts) for texts in said.values())
    with new_folder(out) as temporary, progress("writing the sheet", len(said)) as step:
        material = Disputed(bench, said=said, blind=blind)
        maker = Maker(bench_source(bench), material, wish, batch, temporary, votes, beside)
        sheet = maker.sheet(Share(name, cases, ()), "adjudication", step)
        if blind:
            sheet = {**sheet, "key_unmarked": True}
        write_json(temporary / columns.BATCH_FILE, maker.batch_record([sheet]), "review")
    return Adjudicated(out / sheet["file"], len(said), tuple(maker.pages))


def disputes(bench: benchmark.Benchmark, verdicts: Iterable[Verdict], blind_names: bool) -> dict[str, tuple[str, ...]]:
    """Return the verdicts on each contested item as texts, keyed by item id."""
    answers, _ = bench.key("adjudication")
    texts: dict[str, dict[str, str]] = {}
    judged = by_item(verdicts, bench)
    for rows in judged.values():
        for row in rows:
            if row.comment and row.counts:
                texts.setdefault(row.row, {})[row.reviewer] = row.comment
    found = {}
    for item in bench.items:
        decision = decide(item, answers[item.item_id], judged.get(item.item_id, ()))
        if decision.status == CONTESTED:
            comments = texts.get(columns.item_row_id(item.item_id), {})
            said = [in_words(item, vote, comments.get(vote.reviewer), blind_names) for vote in decision.votes]
            found[item.item_id] = tuple(sorted(said) if blind_names else said)
    return found


def answers_given(bench: benchmark.Benchmark, verdicts: Iterable[Verdict], name: str) -> dict[str, tuple[str, ...]]:
    """Return the key and the readers' answers to each contested item, as texts keyed by item id.

    The texts show neither which of them is the key nor which reader saw a proposal. A reader who accepted the proposal
    has the key as text. A reader without an answer has words such as "cannot tell", with the reader's reason. The order
    is random and depends on ``name``, the adjudicator's name.
    """
    answers, _ = bench.key("adjudication")
    judged = by_item(verdicts, bench)
    found = {}
    for item in bench.items:
        key = answers[item.item_id]
        decision = decide(item, key, judged.get(item.item_id, ()))
        if decision.status == CONTESTED:
            texts = [_of_key(item, key), *(_answer_of(item, key, vote) for vote in decision.votes)]
            order = stream(0, "adjudication", name, item.item_id).permutation(len(texts))
            found[item.item_id] = tuple(texts[place] for place in order)
    return found


def _answer_of(item: Item, key: Answer, vote: Vote) -> str:
    """Return a vote as the text of an answer that names neither the reader nor the proposal."""
    if vote.verdict == ACCEPT and vote.seen:
        return _of_key(item, key)
    if vote.answer is not None:
        return _options(item, vote.answer)
    word = {REJECT: "the question cannot be asked", FIX: "another answer"}.get(vote.verdict, "cannot tell")
    return f"{word} ({vote.reason})" if vote.reason else word


def _of_key(item: Item, key: Answer) -> str:
    """Return the key as a reader would give it; for the grid this is one cell in the middle of the hits."""
    middle = len(key.answer) // 2
    shown = key.answer if item.form.lists_options else key.answer[middle : middle + 1]
    return _options(item, shown) or NO_CELL


def in_words(item: Item, vote: Vote, comment: str | None, blind_name: bool) -> str:
    """Return one reviewer's vote as text for a cell: name, verdict, answer, reason, blind answer and comment.

    The name is left out if ``blind_name`` is True.
    """
    lines = [vote.verdict if vote.seen else "answered without the proposal"]
    if vote.answer is not None:
        lines.append(f"answer: {_options(item, vote.answer)}")
    if vote.reason:
        lines.append(f"reason: {vote.reason}")
    if vote.seen and vote.blind_answer is not None:
        lines.append(f"before seeing the proposal: {_options(item, vote.blind_answer)}")
    if comment:
        lines.append(f"“{comment}”")
    return "\n".join(lines if blind_name else [f"{vote.reviewer}:", *lines])


def _options(item: Item, numbers: Iterable[int]) -> str:
    """Return options as text: the names of grid cells, or the numbers and texts of other options."""
    options = [item.options[number - 1] for number in numbers]
    if not item.form.lists_options:
        return ", ".join(str(option.text) for option in options)
    return "; ".join(f"{option.n}. {option.text or f'picture {option.n}'}" for option in options)
