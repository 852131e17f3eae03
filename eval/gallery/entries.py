"""Entries of the gallery: the items that were asked, altered ones too, with every model's answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import ORIGINAL, Answer, CaseKey, Item, asking_order
from chexqa.contract.read_run import Turn
from chexqa.eval.grounding.answer_pairs import left_out
from chexqa.eval.place_results.frame_proofs import marker_form, proved
from chexqa.eval.scoring.frequent import mean_by_kind
from chexqa.eval.scoring.grade import STATES, Graded, protocol_name
from chexqa.generators.interventions import altered_items
from chexqa.generators.interventions.alter_case import ASKED_AGAIN

RAW_CHARACTERS = 20_000
_WHO, _TEXTS = ("model", "protocol"), ("reply", "reasoning")
# States of an answer to a target picture, for which no answer is right: the answer differs from the answer to the
# original, both are the same, or the original has no answer.
CHANGED, KEPT, UNPAIRED = "changed", "kept", "no original"
# State of a place that is neither right nor wrong, because test markers do not prove the model's coordinate system.
UNPROVED = "frame not proved"
ALL_STATES = (*STATES, CHANGED, KEPT, UNPAIRED, UNPROVED)
Row = tuple[str, str]  # model and protocol


class Said(NamedTuple):
    """The answer of a row (a model and protocol): its state, its option numbers, and the beginning of the reply.

    - ``omitted``: the number of characters at the end of the reply that were left out.
    - ``reasoning``: the beginning of the reasoning that a server sent apart from the reply, and the number of
      characters at the end of the reasoning that were left out.
    - ``confidence``: the stated confidence, from 0 to 1.
    """

    state: str
    parsed: tuple[int, ...] | None
    reply: str | None
    omitted: int = 0
    reasoning: tuple[str, int] | None = None
    confidence: float | None = None

    def to_record(self) -> list[Any]:
        """Return the JSON form: ``[state, parsed, reply, omitted]``, with the state as its index in :data:`ALL_STATES`.

        An answer with a reasoning has the reasoning as a fifth element.
        """
        parsed = None if self.parsed is None else list(self.parsed)
        apart = [list(self.reasoning)] if self.reasoning else []
        return [ALL_STATES.index(self.state), parsed, self.reply, self.omitted, *apart]


@dataclass(frozen=True)
class Entry:
    """Item of the gallery with its key and answers.

    - ``said``: the answer of each model and protocol; None for those that were not asked this item.
    - ``key``: the right options; None if the lesion is filled in, because the right answer is then unknown.
    - ``answer``: the item's line of ``answers.jsonl``; None for an altered item.
    - ``frequent``: a guesser's mean score on the items of this kind and finding; None for an altered item. The guesser
      gives each item the answer that is most often right for other patients.
    - ``not_audited``: the altered pictures that the question is not asked about, each with the reason.
    """

    item: Item
    key: tuple[int, ...] | None
    answer: Answer | None
    said: list[Said | None]
    frequent: float | None = None
    not_audited: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the key's flags, then the texts in ``not_audited``."""
        return (*(self.answer.flags if self.answer else ()), *self.not_audited)

    @property
    def share(self) -> float | None:
        """Return the share of right answers to the item; None if no answer can be judged."""
        asked = [one.state for one in self.said if one is not None and one.state != UNPROVED]
        return asked.count("correct") / len(asked) if asked else None


@dataclass(frozen=True)
class Entries:
    """All entries of the gallery.

    - ``rows``: the models and protocols, in the order of the answers in each entry (``Entry.said``).
    - ``cases``: what the key says about each case, keyed by case id.
    - ``by_case``: the entries of each case, keyed by case id.
    """

    benchmark: Benchmark
    rows: list[Row]
    cases: dict[str, CaseKey]
    by_case: dict[str, list[Entry]]

    def flat(self) -> list[Entry]:
        """Return the entries of all cases, one after the other."""
        return [entry for entries in self.by_case.values() for entry in entries]


def collect(graded: Graded) -> Entries:
    """Return an entry for each item that at least one run asks, with the first answer of every model and protocol.

    Answers to unaltered items come without the text of the reply; :class:`Replies` adds it.
    """
    benchmark = graded.benchmark
    answers, cases = benchmark.key("the report's gallery")
    rows: list[Row] = graded.grades.select("model", "protocol").unique(maintain_order=True).rows()
    said = _said(graded, rows)
    asked = asked_items(benchmark, graded.grades)
    frequent = mean_by_kind(asked, dict(graded.grades.select("item_id", "prior").unique().iter_rows()))
    left = _not_audited(graded)
    of_case: dict[str, list[Entry]] = {}
    for item in sorted(asked, key=lambda item: (item.case_id, asking_order(item))):
        answer = answers[item.item_id]
        why = left.get((item.case_id, item.kind), ())
        usual = frequent[item.kind, item.finding]
        entry = Entry(item, answer.answer, answer, said[item.item_id], usual, tuple(why))
        of_case.setdefault(item.case_id, []).append(entry)
    for entry in _altered(graded, rows, said):
        if entry.item.case_id in of_case:
            of_case[entry.item.case_id].append(entry)
    return Entries(benchmark, rows, cases, of_case)


def asked_items(benchmark: Benchmark, grades: pl.DataFrame) -> list[Item]:
    """Return the items that at least one run asks, in the order of the benchmark."""
    asked = set(grades["item_id"].unique())
    return [item for item in benchmark.items if item.item_id in asked]


def _said(graded: Graded, rows: list[Row]) -> dict[str, list[Said | None]]:
    grades, unproved = graded.grades, _unproved(graded, rows)
    column = {row: number for number, row in enumerate(rows)}
    found: dict[str, list[Said | None]] = {}
    known: dict[Said, Said] = {}  # thousands of answers are equal, and are kept once
    for item_id, model, protocol, state, parsed, confidence in _first(grades, "state", "parsed", "confidence"):
        said = found.setdefault(item_id, [None] * len(rows))
        if parsed is not None and SOMEWHERE in parsed and (model, protocol) in unproved.get(item_id, ()):
            state = UNPROVED
        one = Said(state, None if parsed is None else tuple(parsed), None, confidence=confidence)
        said[column[model, protocol]] = known.setdefault(one, one)
    return found


def _unproved(graded: Graded, rows: list[Row]) -> dict[str, set[Row]]:
    """Return the rows whose coordinate system is not proved, keyed by item id; only for items on present findings."""
    benchmark = graded.benchmark
    needed = {name: form for name, kind in benchmark.kinds.items() if (form := marker_form(kind)) is not None}
    asked = {item.item_id: needed[item.kind] for item in benchmark.items if item.kind in needed}
    if not asked:
        return {}
    answers, shown = benchmark.key("the report's gallery")[0], proved(graded)
    lacking = {form: {row for row in rows if (*row, form) not in shown} for form in {*asked.values()}}
    return {item_id: lacking[form] for item_id, form in asked.items() if answers[item_id].answer == (SOMEWHERE,)}


def _first(grades: pl.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield item, model, protocol and ``columns`` of each row's first answer to each item."""
    who = ["item_id", *_WHO]
    yield from grades.select(*who, *columns).unique(who, keep="first", maintain_order=True).iter_rows()


class Replies:
    """Reader of the replies to unaltered items, for a few cases at a time."""

    def __init__(self, grades: pl.DataFrame, rows: list[Row]) -> None:
        self._grades, self._rows = grades.select("case_id", "item_id", *_WHO, *_TEXTS), rows

    def added(self, entries: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
        """Return the given entries, keyed by case, with the beginnings of their replies and reasonings."""
        own = self._grades.filter(pl.col("case_id").is_in(list(entries)))
        texts = {(item_id, (model, protocol)): both for item_id, model, protocol, *both in _first(own, *_TEXTS)}
        return {
            case_id: [entry if is_altered(entry) else self._with_replies(entry, texts) for entry in of_case]
            for case_id, of_case in entries.items()
        }

    def _with_replies(self, entry: Entry, texts: dict[tuple[str, Row], list[str | None]]) -> Entry:
        said = [
            one and begun(one.state, one.parsed, *texts[entry.item.item_id, row])._replace(confidence=one.confidence)
            for row, one in zip(self._rows, entry.said, strict=True)
        ]
        return replace(entry, said=said)


def begun(state: str, parsed: tuple[int, ...] | None, reply: str | None, reasoning: str | None) -> Said:
    """Return an answer with the beginnings of its reply and of its reasoning."""
    begun = None if reply is None else reply[:RAW_CHARACTERS]
    apart = (reasoning[:RAW_CHARACTERS], max(0, len(reasoning) - RAW_CHARACTERS)) if reasoning else None
    return Said(state, parsed, begun, len(reply or "") - len(begun or ""), apart)


def _not_audited(graded: Graded) -> dict[tuple[str, str], list[str]]:
    """Return the reasons why questions are not asked under the asked conditions, keyed by case and kind of question.

    The result is empty if no run was asked altered items.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for row in left_out(graded):
        for kind in ASKED_AGAIN[row.condition]:
            found.setdefault((row.case_id, kind), []).append(row.flag)
    return found


def _altered(graded: Graded, rows: list[Row], said: dict[str, list[Said | None]]) -> Iterator[Entry]:
    """Yield an entry for each altered item that was asked, in the order of the benchmark's file."""
    if not any(run.altered for run in graded.runs):
        return
    column = {row: number for number, row in enumerate(rows)}
    turns: dict[str, dict[int, Turn]] = {}
    for run in graded.runs:
        protocol = protocol_name(run)
        for turn in run.altered:
            if not turn.repeat and not turn.rotation and (turn.model, protocol) in column:
                turns.setdefault(turn.item_id, {}).setdefault(column[turn.model, protocol], turn)
    known = altered_items.load(graded.benchmark)
    keys = known.keys or {}
    for item_id, item in known.items.items():
        if item_id not in turns or item_id not in keys:
            continue
        key, of_original = keys[item_id].answer, said.get(item_id.partition("@")[0], [])
        answered: list[Said | None] = [None] * len(rows)
        for number, turn in turns[item_id].items():
            original = of_original[number] if of_original else None
            one = begun(turn.state, turn.parsed, turn.raw, turn.reasoning)
            answered[number] = one._replace(state=_state(item, key, turn, original))
        yield Entry(item, key, None, answered)


def _state(item: Item, key: tuple[int, ...] | None, turn: Turn, original: Said | None) -> str:
    if turn.state != "answered" or turn.parsed is None:
        return turn.state if turn.state in STATES else "unparsed"
    if key is not None:
        return "correct" if item.form.is_right(key, turn.parsed) else "wrong"
    if original is None or original.parsed is None:
        return UNPAIRED
    return KEPT if original.parsed == turn.parsed else CHANGED


def is_altered(entry: Entry) -> bool:
    """Return True for an item with an altered picture, and for a stressed item."""
    return entry.item.condition != ORIGINAL
