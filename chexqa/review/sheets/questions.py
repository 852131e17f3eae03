"""Items of a benchmark as rows of a sheet: pictures, question, proposed answer and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import Case, Manifest
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import MARKER, Item, asking_order, clusters
from chexqa.eval.places.pictures import picture_size
from chexqa.files.errors import InputError
from chexqa.imaging.overlays import Image
from chexqa.imaging.read import THUMB_SIDE, decode_png, open_thumb
from chexqa.review import columns
from chexqa.review.assignment import ROUNDS, Work, round_of, shuffled
from chexqa.review.binding import proposal_seen, question_seen
from chexqa.review.cell_words import place_words, typed_words
from chexqa.review.columns import SheetKind
from chexqa.review.planted import planted
from chexqa.review.sheets.evidence_text import evidence_words, flags, proposed_words
from chexqa.review.sheets.panels import (
    GRID,
    LEGEND,
    PLACES,
    SHORT_LEGEND,
    GivenAnswers,
    has_panel,
    item_panel,
    place_panel,
    ruled_picture,
)
from chexqa.review.sheets.pictures import put_whole
from chexqa.review.sheets.sheet import SheetRow, Tab, fill_tabs

_LABELS = {"radiograph": "radiograph", "contour": "outline", "points": "outline and points", "grid": "grid"}
_APPROVED = "approved outline"
# Prefix of the names of drawn panels; an item's id follows.
_PANEL = "panel:"
# Prefixes of panels with the key's place and without it, for items that ask for a place.
_PLACE, _NO_PLACE = f"{_PANEL}place:", f"{_PANEL}no place:"
# Prefix of radiographs with rulers, for readers who type coordinates.
_RULED = f"{_PANEL}ruled:"
_KEPT = 24


class Pic(NamedTuple):
    """Picture with the words above it; ``image`` is its name in the benchmark or mask folder."""

    label: str
    image: str


@dataclass(frozen=True)
class Entry:
    """Row with its pictures: ``small`` are those in the sheet, ``full`` those in the viewer.

    ``seen``: the hash that binds a verdict to the row's content (:mod:`chexqa.review.binding`).
    """

    row: SheetRow
    small: tuple[Pic, ...]
    full: tuple[Pic, ...]
    question: str
    options: tuple[str, ...]
    seen: str


def made_from(bench: Benchmark, manifest: Manifest) -> dict[str, Case]:
    """Return the manifest's line for each case of a benchmark, keyed by the benchmark's case id.

    Raises ``InputError`` if the manifest lacks a case.
    """
    _, keys = bench.key("the source of its cases")
    lines = {case.case_id: case for case in manifest}
    missing = next((key.source_case_id for key in keys.values() if key.source_case_id not in lines), None)
    if missing is not None:
        raise InputError(
            f"{manifest[0].manifest}: has no case '{missing}', which {bench.folder} contains; give --manifest "
            "with the manifest that this benchmark was made from."
        )
    return {case_id: lines[key.source_case_id] for case_id, key in keys.items()}


@dataclass(frozen=True)
class Questions:
    """The items of a benchmark under review, with their key.

    - ``wrong``: wrong answers to propose (:mod:`chexqa.review.planted`), keyed by item id.
    - ``sources``: the manifest's lines, keyed by case id (:func:`made_from`); may be empty.
    - ``told``: places that models and readers answered, drawn beside the proposals; keyed by item id.
    - ``dropped``: the ids of items that are not asked, although their cases are.
    """

    bench: Benchmark
    wrong: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sources: Mapping[str, Case] = field(default_factory=dict)
    told: Mapping[str, GivenAnswers] = field(default_factory=dict)
    dropped: Set[str] = frozenset()
    # False if rows without a proposal are answered by options alone, as in an adjudication.
    takes_places: ClassVar[bool] = True

    @cached_property
    def _cases(self) -> dict[str, list[Item]]:
        """The items asked of each case in the order of asking, grid items last, keyed by case id."""
        cases: dict[str, list[Item]] = {}
        for item in sorted((item for item in self.bench.items if item.finding != MARKER), key=asking_order):
            if item.item_id not in self.dropped:
                cases.setdefault(item.case_id, []).append(item)
        return cases

    @cached_property
    def items(self) -> dict[str, Item]:
        """The items, keyed by row id."""
        return {columns.item_row_id(item.item_id): item for item in self.bench.items}

    @cached_property
    def works(self) -> list[Work]:
        """The cases to be assigned."""
        answers, keys = self.bench.key("'chexqa review export'")
        people = clusters(self.bench.items, keys)
        works = []
        for case_id, items in self._cases.items():
            key = keys[case_id]
            flagged = any(flags(item, answers[item.item_id], self.bench.kinds) for item in items)
            works.append(
                Work(
                    case_id, people[case_id], (items[0].finding, str(key.path)), flagged, len(items), key.source_case_id
                )
            )
        return works

    def narrowed(self, named: Sequence[tuple[str, ...]]) -> tuple[Questions, list[tuple[str, ...]]]:
        """Restrict the questions to named items and cases; return the questions, and the cases to review.

        An entry of ``named`` has the id of one item, or the ids of one case. A case that is named itself keeps all its
        items. A case of which only items are named keeps only these items. The cases that are named themselves are
        returned first, then the cases of named items.

        Example: with ``[("c1/detection",), ("c2",)]``, the case c1 keeps only ``c1/detection``, c2 keeps all items, and
        the returned cases are ``[("c2",), ("c1",)]``.
        """
        _, keys = self.bench.key("'chexqa review export'")
        items = {item.item_id: case_id for case_id, own in self._cases.items() for item in own}
        asked = {ids[0]: items[ids[0]] for ids in named if ids[0] in items}
        cases = [ids for ids in named if ids[0] not in items]
        whole = {one for ids in cases for one in ids}
        parts = {case_id for case_id in asked.values() if whole.isdisjoint((case_id, keys[case_id].source_case_id))}
        dropped = {item_id for item_id, case_id in items.items() if case_id in parts and item_id not in asked}
        return replace(self, dropped=self.dropped | dropped), [*cases, *((case_id,) for case_id in asked.values())]

    def items_of(self, cases: Iterable[str]) -> list[Item]:
        """Return the items of the cases in the order of asking."""
        return [item for case_id in cases for item in self._cases[case_id]]

    @property
    def is_credentialed(self) -> bool:
        """True if the terms of any case forbid passing its data on."""
        _, keys = self.bench.key("'chexqa review export'")
        return any(key.access == "credentialed" for key in keys.values())

    def source(self, case_id: str) -> Case | None:
        """Return the manifest's line of a case, if the manifest is given."""
        return self.sources.get(case_id)

    def tabs(self, cases: Sequence[str], kind: SheetKind) -> tuple[list[Tab], dict[str, Entry]]:
        """Return the work tabs of the cases, in the given order, and their rows keyed by row id.

        A tab of a blind sheet has the questions of one round (:func:`chexqa.review.assignment.round_of`).
        """
        entries: dict[str, Entry] = {}
        tabs: list[Tab] = []
        for name in ("part",) if kind == "items" else ROUNDS:
            groups = []
            for case_id in cases:
                items = [item for item in self._cases[case_id] if name in ("part", round_of(item))]
                group = [self.entry(item, kind) for item in items]
                entries |= {entry.row.row_id: entry for entry in group}
                groups.append([entry.row for entry in group])
            tabs += fill_tabs(groups, name)
        return tabs, entries

    def rounds(self, tabs: Iterable[Tab], *seed: str) -> list[list[Tab]]:
        """Return the tabs of each round, in the order of work; ``seed`` shuffles the rows of a round."""
        rows: dict[str, list[SheetRow]] = {}
        for row in (row for tab in tabs for row in tab.rows):
            rows.setdefault(round_of(self.items[row.row_id]), []).append(row)
        return [
            fill_tabs([[row] for row in shuffled(rows[name], *seed, name)], name) for name in ROUNDS if name in rows
        ]

    def asks_place(self, item: Item, kind: SheetKind) -> bool:
        """Return True if a reader types coordinates in the item's row of a sheet of this kind."""
        return self.takes_places and item.form.is_place and kind in columns.ASKING

    def _with_rulers(self, item: Item) -> tuple[tuple[Pic, ...], tuple[Pic, ...]]:
        """Return a row's pictures (sheet, viewer): the radiograph with rulers in pixels."""
        ruled = (Pic("", f"{_RULED}{item.item_id}"),)
        return ruled, ruled

    def entry(self, item: Item, kind: SheetKind) -> Entry:
        """Return one item's row; ``kind`` decides whether it shows proposal, evidence and flags."""
        typed_place = self.asks_place(item, kind)
        if typed_place:
            options: tuple[str, ...] = (place_words(item, picture_size(self.bench, item)),)
        elif not item.form.lists_options:
            options = ("one cell, A1 to H8",)
        else:
            options = tuple(f"{option.n}. {option.text or f'picture {option.n}'}" for option in item.options)
        cells = {
            columns.FINDING: item.finding.replace("_", " "),
            columns.QUESTION: item.question,
            columns.OPTIONS: "\n".join(options),
        }
        proposes, seen = kind in ("items", "adjudication"), question_seen(item)
        if proposes:
            answers, keys = self.bench.key("'chexqa review export'")
            answer = answers[item.item_id]
            proposed = self.wrong.get(item.item_id, answer.answer)
            seen = proposal_seen(item, proposed, keys[item.case_id])
            cells[columns.PROPOSED] = proposed_words(item, replace(answer, answer=proposed))
            # The evidence is the key's, and would give away which proposals are wrong on purpose.
            if not self.wrong:
                cells[columns.EVIDENCE] = evidence_words(item, answer, keys[item.case_id], self.bench.kinds)
            cells[columns.FLAGS] = "\n".join(flags(item, answer, self.bench.kinds))
        row = SheetRow(
            columns.item_row_id(item.item_id),
            cells,
            choices=() if item.form.takes_several or typed_place else columns.choices(item),
            options=len(item.options) if item.form.takes_several else 0,
            typed=typed_words(item) if item.form.lists_options and not typed_place else (),
            none_words=typed_words(item, only=len(item.options)) if item.form.takes_several else (),
            is_cell=not item.form.lists_options,
        )
        small, full = self._with_rulers(item) if typed_place else self._pictures(item, proposes)
        return Entry(row, small, full, item.question, options, seen)

    def planted(self, cases: Iterable[str], reviewer: str, seed: int, share: float) -> Questions:
        """Return these questions, with wrong proposals for a random ``share`` of the reviewer's items in ``cases``.

        The other proposals stay right.
        """
        answers, _ = self.bench.key("'chexqa review export'")
        items = [item for case_id in cases for item in self._cases[case_id]]
        flagged = [item.item_id for item in items if flags(item, answers[item.item_id], self.bench.kinds)]
        return replace(self, wrong=planted(items, answers, flagged, reviewer, seed, share))

    def _pictures(self, item: Item, proposes: bool) -> tuple[tuple[Pic, ...], tuple[Pic, ...]]:
        """Return two lists of pictures: for the sheet and for the viewer."""
        numbers = {option.image: str(option.n) for option in item.options if option.image}
        full = tuple(Pic(numbers.get(picture.image) or _LABELS.get(picture.role, picture.role), picture.image)
                     for picture in item.alone_images)  # fmt: skip
        if item.kind == "revision_result":
            return tuple(pic for pic in full if pic.image in numbers), full
        if item.kind in ("revision_expansion", "revision_contraction"):
            return full[-1:], full
        if proposes and item.form.is_place:
            return (Pic("", self._place(item)),), (*full, Pic(PLACES, self._place(item)))
        panel = self._panel(item) if proposes else None
        approved = self._approved.get(item.case_id) if proposes and item.stage == 4 else None
        more = [Pic(_APPROVED, approved)] if approved is not None else []
        if panel is not None:
            short, long = (SHORT_LEGEND, LEGEND) if item.stage == 4 else ("", GRID)
            return (Pic(short, panel),), (*full, *more, Pic(long, panel))
        if more:
            return tuple(more), (*full, *more)
        return (full[0]._replace(label=""),) if len(full) == 1 else full, full

    def shows_place(self, item: Item) -> bool:
        """Return True if the item's proposal is a place, not "nowhere"."""
        answers, _ = self.bench.key("'chexqa review export'")
        return SOMEWHERE in self.wrong.get(item.item_id, answers[item.item_id].answer)

    def _place(self, item: Item) -> str:
        """Return the name of the panel of an item that asks for a place."""
        return f"{_PLACE if self.shows_place(item) else _NO_PLACE}{item.item_id}"

    def _panel(self, item: Item) -> str | None:
        """Return the name of an item's panel; the stage 4 items of a case share one panel."""
        if not has_panel(self.bench, item):
            return None
        shown = next(other for other in self._cases[item.case_id] if other == item or other.stage == item.stage == 4)
        return f"{_PANEL}{shown.item_id}"

    @cached_property
    def _approved(self) -> dict[str, str]:
        """The name of the picture of each case's optimal mask, keyed by case id."""
        answers, keys = self.bench.key("'chexqa review export'")
        found = {}
        for item in self.bench.items:
            if item.kind == "contour_evaluation" and keys[item.case_id].path == "revision_free":
                found[item.case_id] = item.alone_images[-1].image
            elif item.kind == "revision_result":
                found[item.case_id] = str(item.options[answers[item.item_id].answer[0] - 1].image)
        return found

    @cached_property
    def _plain(self) -> dict[str, str]:
        """The name of each case's plain radiograph, keyed by case id."""
        return {
            item.case_id: picture.image
            for item in self.bench.items
            for picture in item.alone_images
            if picture.role == "radiograph"
        }

    @cached_property
    def _radiographs(self) -> dict[str, str]:
        """The name of the radiograph on which each picture was drawn, keyed by the picture's name."""
        return {
            picture.image: self._plain[item.case_id]
            for item in self.bench.items
            for picture in item.alone_images
            if item.case_id in self._plain and picture.image != self._plain[item.case_id]
        }

    @cached_property
    def _read(self) -> Callable[[str], Image]:
        """Function that reads a picture and caches the last few."""
        return lru_cache(_KEPT)(self._load)

    def _load(self, image: str) -> Image:
        for prefix in (_PLACE, _NO_PLACE):
            if image.startswith(prefix):
                item = self.bench.item[image.removeprefix(prefix)]
                return place_panel(self.bench, item, self.told.get(item.item_id, ()), prefix == _PLACE)
        if image.startswith(_RULED):
            item = self.bench.item[image.removeprefix(_RULED)]
            return ruled_picture(decode_png(self.bench.image_bytes(item.alone_images[0].image), f"{item.item_id}:"))
        if image.startswith(_PANEL):
            panel = item_panel(self.bench, self.bench.item[image.removeprefix(_PANEL)])
            assert panel is not None, "only items with a panel are shown with one"
            return panel.pixels
        return decode_png(self.bench.image_bytes(image), f"{self.bench.folder / image}:")

    def pixels(self, image: str) -> Image:
        """Return a picture at its full size."""
        return self._read(image)

    def small(self, image: str, room: tuple[int, int]) -> Image:
        """Return the stored thumbnail of a picture, or the full picture if the thumbnail is too small.

        ``room`` is the width and height to fill.
        """
        if image.startswith(_PANEL):
            return self._read(image)
        if max(room) > THUMB_SIDE:
            return self._read(image)
        return np.asarray(open_thumb(self.bench.thumb_bytes(image), f"a thumbnail of {image}"), np.uint8)

    def under(self, image: str) -> str | None:
        """Return the name of the radiograph on which the picture ``image`` was drawn.

        Return ``None`` if this is unknown, or if ``image`` is itself a radiograph.
        """
        if image.startswith(_PANEL):
            case_id = self.bench.item[image.rpartition(":")[2]].case_id
            return self._plain.get(case_id)
        return self._radiographs.get(image)

    def place(self, image: str, folder: Path) -> str:
        """Write a picture with its drawings as one JPEG into ``folder``; return the path relative to ``folder``."""
        return put_whole(self, image, folder)
