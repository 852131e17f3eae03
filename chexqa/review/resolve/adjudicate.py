"""Adjudication sheet: each contested item beside all reviewers' verdicts, for the adjudicator to decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.contract.items import CONTESTED, Item
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_json
from chexqa.files.seeds import digest
from chexqa.review import columns
from chexqa.review.assignment import Share
from chexqa.review.collect.verdicts import Verdict, by_item
from chexqa.review.columns import SheetKind
from chexqa.review.resolve.decide import Vote, decide
from chexqa.review.sheets.export import Maker, Wish, bench_source, new_folder
from chexqa.review.sheets.questions import Entry, Questions
from chexqa.review.sheets.sheet import Tab, fill_tabs
from chexqa.review.sheets.wish import reviewer_names

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True)
class Disputed(Questions):
    """The contested items of a benchmark; ``said``: all verdicts in words, by item id."""

    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def tabs(self, cases: Sequence[str], kind: SheetKind) -> tuple[list[Tab], dict[str, Entry]]:
        """Return the work tabs of the contested items of these cases, and their rows' entries by row id."""
        wanted = set(cases)
        groups: dict[str, list[Entry]] = {}
        for item in self.bench.items:
            if item.item_id in self.said and item.case_id in wanted:
                groups.setdefault(item.case_id, []).append(self._disputed(item, kind))
        rows = [[entry.row for entry in group] for group in groups.values()]
        return fill_tabs(rows, "part"), {entry.row.row_id: entry for group in groups.values() for entry in group}

    def _disputed(self, item: Item, kind: SheetKind) -> Entry:
        entry = self.entry(item, kind)
        votes = {columns.vote_title(number): text for number, text in enumerate(self.said[item.item_id], start=1)}
        return changed(entry, row=changed(entry.row, cells={**entry.row.cells, **votes}))


def adjudicate(
    folder: Path, verdicts: Iterable[Verdict], out: Path, adjudicator: str, blind_names: bool, progress: Progress
) -> tuple[Path, int]:
    """Write the sheet of a benchmark's contested items into the new folder ``out``; return its path and the item count.

    ``blind_names`` leaves out the reviewers' names, and sorts verdicts so that their order does not reveal them.
    """
    (name,) = reviewer_names(adjudicator) if "," not in adjudicator and not adjudicator.isdecimal() else ("",)
    if not name:
        raise InputError(f"--adjudicator {adjudicator}: give one name.")
    bench = benchmark.load(folder)
    said = disputes(bench, verdicts, blind_names)
    if not said:
        raise InputError(f"{folder}: no item is contested, so there is nothing to adjudicate.")
    cases = tuple(dict.fromkeys(item.case_id for item in bench.items if item.item_id in said))
    batch = "r-" + digest(bench.hash, "adjudication", name, sorted(said.items())).hex()[:12]
    wish = Wish((name,), 0.0, 1)
    votes = max(len(texts) for texts in said.values())
    with new_folder(out) as temporary, progress("writing the sheet", len(said)) as step:
        maker = Maker(bench_source(bench), Disputed(bench, said=said), wish, batch, temporary, votes)
        sheet = maker.sheet(Share(name, cases, ()), "adjudication", step)
        write_json(temporary / columns.BATCH_FILE, maker.batch_record([sheet]), "review")
    return out / sheet["file"], len(said)


def disputes(bench: benchmark.Benchmark, verdicts: Iterable[Verdict], blind_names: bool) -> dict[str, tuple[str, ...]]:
    """Return all verdicts, in words, on each item that is contested at present, by item id."""
    answers, _ = bench.key("adjudication")
    texts: dict[str, dict[str, str]] = {}
    judged = by_item(verdicts, bench)
    for rows in judged.values():
        for row in rows:
            if row.comment:
                texts.setdefault(row.row, {})[row.reviewer] = row.comment
    found = {}
    for item in bench.items:
        decision = decide(item, answers[item.item_id], judged.get(item.item_id, ()))
        if decision.status == CONTESTED:
            comments = texts.get(columns.item_row_id(item.item_id), {})
            said = [in_words(item, vote, comments.get(vote.reviewer), blind_names) for vote in decision.votes]
            found[item.item_id] = tuple(sorted(said) if blind_names else said)
    return found


def in_words(item: Item, vote: Vote, comment: str | None, blind_name: bool) -> str:
    """Return one vote as a cell shows it: reviewer, verdict, other answer, reason, blind answer, comment."""
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
    """Return options in words: the grid's by their cells, others with their numbers."""
    options = [item.options[number - 1] for number in numbers]
    if not item.form.lists_options:
        return ", ".join(str(option.text) for option in options)
    return "; ".join(f"{option.n}. {option.text or f'picture {option.n}'}" for option in options)
