"""Stressed items in the gallery: a few examples of each way of stressing an item, such as ``noise-3``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, Picture, condition_of
from chexqa.contract.read_run import Turn
from chexqa.eval.gallery.entries import CHANGED, KEPT, UNPAIRED, Entries, Entry, Row, Said, begun
from chexqa.eval.gallery.pictures import of_card
from chexqa.eval.scoring.grade import STATES, Graded, protocol_name
from chexqa.eval.stress.cells import kind_of
from chexqa.eval.stress.degradations import DEGRADATIONS
from chexqa.eval.stress.stressed_pictures import StressedPictures
from chexqa.eval.stress.wordings import stressed_question
from chexqa.imaging.read import encode_thumb

# Examples of a cell: at least one for each row whose answer changed, and more up to this number.
EXAMPLES = 8
_Answers = Mapping[str, Mapping[int, Turn]]


@dataclass(frozen=True)
class Thumbs:
    """Source of thumbnails: of a benchmark's pictures and of its stressed items' degraded pictures.

    ``made`` maps the name of each degraded picture to the original picture, the stress cell and the case id.
    """

    benchmark: Benchmark
    made: Mapping[str, tuple[Picture, str, str]]

    def thumb_bytes(self, image: str) -> bytes:
        """Return the thumbnail of a picture as a JPEG."""
        if image not in self.made:
            return self.benchmark.thumb_bytes(image)
        return encode_thumb(self._stressed.spoilt(*self.made[image]))

    def some(self, images: Iterable[str]) -> Benchmark | Thumbs:
        """Return an object that supplies only the pictures ``images`` and has no data of other pictures."""
        made = {image: self.made[image] for image in images if image in self.made}
        cases = {case_id: (self.benchmark.cases or {})[case_id] for _, _, case_id in made.values()}
        own = replace(self.benchmark, items=(), answers=None, cases=cases)
        return Thumbs(own, made) if made else own

    @cached_property
    def _stressed(self) -> StressedPictures:
        return StressedPictures(self.benchmark)


def with_examples(entries: Entries, graded: Graded) -> tuple[Entries, Thumbs]:
    """Add examples of stressed items to the gallery's entries; return the new entries and a source of their thumbnails.

    The examples of a case come after its other items. An answer to a stressed item has the state ``changed`` or
    ``kept``, compared with the answer to the original item.
    """
    made: dict[str, tuple[Picture, str, str]] = {}
    by_case = {case_id: [*of_case] for case_id, of_case in entries.by_case.items()}
    answered = _answers(graded, entries.rows)
    originals = {entry.item.item_id: entry for entry in entries.flat()} if answered else {}
    bank = entries.benchmark.about["question_bank"]
    for item_id in _chosen(answered, originals, len(entries.rows)):
        cell, original = condition_of(item_id), originals[item_id.partition("@")[0]]
        item = replace(original.item, item_id=item_id, question=stressed_question(original.item, cell, bank))
        if kind_of(cell) in DEGRADATIONS:
            item = _spoilt(item, original, cell, made)
        said = [None if (turn := answered[item_id].get(row)) is None else _said(turn, original.said[row])
                for row in range(len(entries.rows))]  # fmt: skip
        by_case[item.case_id].append(Entry(item, original.key, None, said))
    return replace(entries, by_case=by_case), Thumbs(entries.benchmark, made)


def _answers(graded: Graded, rows: list[Row]) -> dict[str, dict[int, Turn]]:
    """Return the first answer of each row to each stressed item."""
    column = {row: number for number, row in enumerate(rows)}
    found: dict[str, dict[int, Turn]] = {}
    for run in graded.runs:
        protocol = protocol_name(run)
        for turn in run.altered:
            row = column.get((turn.model, protocol))
            if turn.stress is not None and not turn.repeat and not turn.rotation and row is not None:
                found.setdefault(turn.item_id, {}).setdefault(row, turn)
    return found


def _chosen(answered: _Answers, originals: Mapping[str, Entry], rows: int) -> list[str]:
    """Return the ids of the examples, cell by cell; the items on which the most rows changed their answer come
    first.
    """
    cells: dict[str, list[tuple[int, str, list[int]]]] = defaultdict(list)
    for item_id, turns in answered.items():
        original = originals.get(item_id.partition("@")[0])
        if original is not None:
            new = [row for row, turn in turns.items() if _state(turn, original.said[row]) == CHANGED]
            cells[condition_of(item_id)].append((-len(new), item_id, new))
    found = []
    for queue in cells.values():
        queue.sort()
        seen: set[int] = set()
        kept = []
        for _, item_id, new in queue:
            if len(seen) < rows and not seen.issuperset(new):
                kept.append(item_id)
                seen.update(new)
        more = (item_id for _, item_id, _ in queue if item_id not in kept)
        found += kept + [item_id for item_id, _ in zip(more, range(EXAMPLES - len(kept)), strict=False)]
    return found


def _spoilt(item: Item, original: Entry, cell: str, made: dict[str, tuple[Picture, str, str]]) -> Item:
    """Return the item with the degraded pictures that its question is about; their originals are added to ``made``."""
    about = of_card(original)
    new = {}
    for picture in (*item.turn_images, *item.alone_images):
        if picture.image in about:
            new[picture.image] = replace(picture, image=f"{picture.image}@{cell}")
            made[new[picture.image].image] = (picture, cell, item.case_id)
    options = tuple(
        option if option.image is None else replace(option, image=new[option.image].image) for option in item.options
    )
    return replace(item, options=options, turn_images=(), alone_images=tuple(new.values()))


def _said(turn: Turn, original: Said | None) -> Said:
    return begun(turn.state, turn.parsed, turn.raw, turn.reasoning)._replace(state=_state(turn, original))


def _state(turn: Turn, original: Said | None) -> str:
    if turn.state != "answered" or turn.parsed is None:
        return turn.state if turn.state in STATES else "unparsed"
    if original is None or original.parsed is None:
        return UNPAIRED
    return KEPT if sorted(original.parsed) == sorted(turn.parsed) else CHANGED
