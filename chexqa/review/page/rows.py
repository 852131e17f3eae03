"""Rows of a page, as JSON for the page's script: the content of each row and its choices.

A row contains only what its sheet shows. On a sheet without proposals, it has no proposed answer, evidence, flags or
layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract.cases import load_case
from chexqa.contract.items import Item
from chexqa.eval.places.drawn_places import hex_of, legend_text
from chexqa.eval.places.pictures import picture_size
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.masks import to_rle
from chexqa.review import columns
from chexqa.review.binding import shown_mask
from chexqa.review.cell_words import place_words
from chexqa.review.columns import SheetKind
from chexqa.review.page import layers
from chexqa.review.page.layers import Layer
from chexqa.review.page.source_pixels import put_source
from chexqa.review.sheets.export import Content
from chexqa.review.sheets.masks_sheet import Subject
from chexqa.review.sheets.panels import place_strokes
from chexqa.review.sheets.questions import Entry, Pic, Questions
from chexqa.review.sheets.sheet import marked_cells

Record = dict[str, Any]

# Letters that choose a reason; a reason that is not listed gets the first free letter.
_LETTERS = {
    "wrong answer": "w", "wrong contour": "l", "unclear question": "q", "poor picture": "p", "borderline": "n",
    "cannot tell": "t", "other": "x", "too large": "l", "too small": "s", "part missing": "d", "wrong place": "w",
    "finding absent": "n", "finding present": "y",
}  # fmt: skip
# Letters that the page itself uses: verdicts, columns of the grid, layers, comment, inversion, jump to flags.
_TAKEN = set("afruabcdefghozkijev")


def reason_keys(kind: SheetKind) -> list[Record]:
    """Return the reasons of a kind of sheet, each with the key on the keyboard that chooses it."""
    free = [letter for letter in "wlqpntxsdym" if letter not in _LETTERS.values()]
    return [{"key": _LETTERS.get(word) or free.pop(0), "word": word} for word in columns.reasons(kind)]


@dataclass
class ShownCase:
    """Drawings over a case's radiograph.

    - ``layers``: the lines that the page draws.
    - ``size``: ``[height, width]`` of the picture under the lines.
    - ``mask``: the mask that the reader can edit; None if there is none.
    """

    layers: list[Layer] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    mask: Record | None = None


class Placed(NamedTuple):
    """Row of a page with its position in the sheet: the tab and the row's number, from 1."""

    entry: Entry
    tab: str
    row: int


class RowMaker:
    """Maker of the rows of one page.

    ``work`` is a folder in which source pixels are stored for further pages; it is ``None`` for a page without source
    pixels. ``source_bytes`` is the number of bytes of source pixels written so far.
    """

    def __init__(self, content: Content, work: Path | None) -> None:
        self._book, self._material, self._full = content.book, content.material, content.full
        self._work = work
        self.source_bytes = 0
        self._cases: dict[str, ShownCase] = {}
        self._items: dict[str, Item] = {}
        self._subjects: dict[str, Subject] = {}
        if isinstance(self._material, Questions):
            self._items = self._material.items
        else:
            self._subjects = {columns.mask_row_id(one.case_id): one for one in self._material.subjects}

    def encode(self, placed: Iterable[Placed]) -> None:
        """Encode the pictures of rows, several at the same time."""
        self._full.encode_all(pic.image for one in placed for pic in self._pictures(one))

    def row(self, placed: Placed, folder: Path) -> Record:
        """Return one row as JSON data; its pictures are written into ``folder``."""
        row, entry = placed.entry.row, placed.entry
        cells = marked_cells(self._book, row)
        item, shown = self._items.get(row.row_id), self._shown(placed)
        drawn = {layer.kind for layer in shown.layers}
        asked = self._asked(item)
        return {
            "id": row.row_id, "tab": placed.tab, "row": placed.row, "cells": cells,
            "question": entry.question, "finding": cells.get(columns.FINDING, ""),
            "options": [] if asked else list(entry.options), "choices": list(row.choices), "several": row.options,
            "grid": item is not None and not item.form.lists_options,
            "proposed": cells.get(columns.PROPOSED), "evidence": cells.get(columns.EVIDENCE),
            "flags": cells.get(columns.FLAGS), "state": cells.get(columns.STATE),
            "feedback": None if row.feedback is None else row.feedback._asdict(),
            "votes": [text for title, text in cells.items() if title.startswith("reviewer ")],
            "pictures": [self._picture(pic, row.row_id, folder) for pic in self._pictures(placed)],
            "case": self._case_of(row.row_id) if shown.size else None,
            # Stages 2 and 3 ask about a drawn outline, which the key's outline would cover.
            "start": [layers.OUTLINE] if layers.OUTLINE in drawn and not _asks_outline(item) else [],
            **({"place": asked} if asked else {}),
            **self._places(placed, item),
        }  # fmt: skip

    def _asked(self, item: Item | None) -> Record | None:
        """Return what a row says of a place to be given: the answer form, and width and height of the radiograph."""
        material = self._material
        if item is None or not isinstance(material, Questions) or not material.asks_place(item, self._book.kind):
            return None
        size = picture_size(material.bench, item)
        return {"form": item.form.name, "size": list(size), "words": place_words(item, size)}

    def _places(self, placed: Placed, item: Item | None) -> Record:
        """Return the places that a row shows: strokes over the radiograph, and a legend with colour, letter and name.

        The result is empty for a row without a proposed place.
        """
        material = self._material
        proposes = columns.PROPOSED in placed.entry.row.cells
        if item is None or not item.form.is_place or not proposes or not isinstance(material, Questions):
            return {}
        told = material.told.get(item.item_id, ())
        drawn = place_strokes(material.bench, item, told, material.shows_place(item))
        legend = [[hex_of(who.rgb), who.letter, legend_text(who, turn)] for who, turn in told]
        return {"start": [layers.PLACES], "places": [stroke.to_record() for stroke in drawn], "legend": legend}

    def cases(self) -> dict[str, Record]:
        """Return what is drawn over the radiograph of each case that has a row so far, keyed by case id."""
        return {
            case_id: {
                "layers": [layer.to_record() for layer in shown.layers],
                "size": shown.size,
                "mask": shown.mask,
            }
            for case_id, shown in self._cases.items()
        }

    def _case_of(self, row_id: str) -> str:
        return self._items[row_id].case_id if row_id in self._items else self._subjects[row_id].case_id

    def _picture(self, pic: Pic, row_id: str, folder: Path) -> Record:
        """Write a picture's files and source pixels into ``folder``, and return the picture as the page shows it."""
        src, over = self._full.put(pic.image, folder)
        record = {"label": pic.label, "src": src, **({"over": over} if over else {})}
        if self._work is not None and (over or self._is_radiograph(pic.image, row_id)):
            name, added = put_source(self._material, self._case_of(row_id), folder, self._work)
            self.source_bytes += added
            record["source"] = name
        return record

    def _is_radiograph(self, image: str, row_id: str) -> bool:
        if row_id in self._items:
            return any(one.image == image and one.role == "radiograph" for one in self._items[row_id].alone_images)
        return self._material.under(image) is None

    def _pictures(self, placed: Placed) -> list[Pic]:
        """Return the pictures of a row; pictures whose content the layers show are left out."""
        row_id, full = placed.entry.row.row_id, placed.entry.full
        item, drawn = self._items.get(row_id), self._shown(placed).layers
        if item is not None and self._asked(item):
            # The page tells pixels by itself, so its radiograph has no rulers.
            return [Pic("", item.alone_images[0].image)]
        if not drawn:
            return list(full)
        if item is None:
            return list(full)[:1]
        own = {picture.image for picture in item.alone_images} | {option.image for option in item.options}
        return [pic for pic in full if pic.image in own]

    def _shown(self, placed: Placed) -> ShownCase:
        """Return the drawings of a row's case; they are empty if the row shows no proposal."""
        row_id = placed.entry.row.row_id
        if row_id in self._items and columns.PROPOSED not in placed.entry.row.cells:
            return ShownCase()
        case_id = self._case_of(row_id)
        if case_id not in self._cases:
            if isinstance(self._material, Questions):
                _, keys = self._material.bench.key("a review page")
                self._cases[case_id] = _of_stored(keys[case_id].measures.get("masks") or {}, f"the key of {case_id}")
            else:
                self._cases[case_id] = _of_subject(self._subjects[row_id])
        return self._cases[case_id]


def _asks_outline(item: Item | None) -> bool:
    return item is not None and item.stage in (2, 3)


def _of_stored(stored: Mapping[str, Any], where: str) -> ShownCase:
    size = next((list(rle["size"]) for rle in stored.values() if rle is not None), [])
    return ShownCase(layers.stored_layers(stored, where), size)


def _of_subject(subject: Subject) -> ShownCase:
    """Return the layers of a mask under review, and the mask itself.

    The mask has the size of the radiograph's file or, if the manifest is not known, of the benchmark's picture.
    """
    shown = subject.load()
    case = ShownCase([] if shown.lesion is None else [layers.outline(shown.lesion)], list(shown.image.shape))
    if shown.right_lung is not None and shown.left_lung is not None:
        case.layers += layers.lungs_and_regions(Lungs(shown.right_lung, shown.left_lung), shown.lesion)
    mask = shown.lesion
    if subject.case is not None:
        loaded = load_case(subject.case)
        if shown_mask(loaded).seen != shown.seen:
            raise InputError(
                f"{subject.case.manifest}, line {subject.case.line}: mask, lungs or radiograph differ from "
                "those under review; give --manifest with the manifest that the benchmark was made from."
            )
        mask = loaded.source_mask
    case.mask = None if mask is None else to_rle(mask)
    return case
