"""Reading of a returned row: the exported row it belongs to, a check of its locked cells, and the reviewer's entries.

Nothing is guessed. A row that is unclear or contradicts itself raises a :class:`BadRowError` that says what to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.kinds import KINDS
from chexqa.eval.places.coordinate_systems import Shape
from chexqa.eval.places.pictures import picture_size
from chexqa.files.errors import suggest
from chexqa.review import columns
from chexqa.review.cell_words import no_place, parse_answer, parse_mark, parse_place, parse_word
from chexqa.review.collect.title_rows import FilledRow
from chexqa.review.collect.verdicts import Batch, Dealt
from chexqa.review.columns import (
    ACCEPT,
    ANSWER,
    CHECKSUM,
    COMMENT,
    CORRECTED,
    FIX,
    ID,
    KEY_ID,
    NO,
    OPTIMAL,
    REASON,
    VERDICT,
    VERDICTS,
    WRONG_ANSWER,
    WRONG_CONTOUR,
    WRONG_LUNG,
    YES,
    clean,
    item_row_id,
    option_number,
    option_title,
    plain,
)

# With these reasons the mask goes back to review, so no corrected answer is needed.
MASK_IS_WRONG = (WRONG_CONTOUR, WRONG_LUNG)


def takes_correction(item: Item) -> bool:
    """Return True if a reviewer may correct the key of an item.

    Otherwise a wrong key is corrected through the mask: the mask is redrawn, and the item is made again from it.
    """
    kind = KINDS.get(item.kind, item.declared)
    return kind is not None and kind.stage in (4, None)


class BadRowError(Exception):
    """Error for a row that cannot be imported; the message is one clause that names the mistake and the remedy.

    ``doubtful`` is True if the entries may belong to another row, so that the reviewer must fill in the row again.
    """

    def __init__(self, text: str, doubtful: bool = False) -> None:
        super().__init__(text)
        self.doubtful = doubtful


@dataclass(frozen=True)
class Meaning:
    """Content of a row that could be read: its sheet, its id, and the reviewer's entries (None if there is no entry).

    ``place`` is the place that the reviewer typed, as shapes in pixels of the item's picture; empty for "nowhere".
    """

    dealt: Dealt
    row_id: str
    verdict: str | None
    answer: tuple[int, ...] | None
    reason: str | None
    comment: str | None
    place: tuple[Shape, ...] | None = None


class Reading:
    """Parser for the rows of one batch; ``loaded`` is the reviewed benchmark, ``None`` in a review of a manifest."""

    def __init__(self, batch: Batch, loaded: Benchmark | None) -> None:
        self.batch, self._loaded = batch, loaded
        self._items = {item_row_id(item.item_id): item for item in loaded.items} if loaded else {}
        self._answers = (loaded.answers if loaded else None) or {}

    def read(self, row: FilledRow) -> Meaning | None:
        """Return the row's meaning, or ``None`` if nothing is filled in.

        Raises :class:`BadRowError` if the row cannot be imported.
        """
        cells = row.cells
        filled = {title for title in cells if columns.is_fill_in(title)}
        lost = self._lost_title(row)
        if lost is not None:
            raise BadRowError(
                f"the tab has no column titled '{lost}'; restore the title as in the exported sheet", True
            )
        if not filled:
            return None
        dealt, row_id = self._identify(cells)
        on_mask = columns.is_mask_row(row_id)
        reason = self._word(cells, REASON, columns.MASK_REASONS if on_mask else columns.ITEM_REASONS)
        comment = _comment(cells.get(COMMENT, ""))
        if on_mask:
            return Meaning(dealt, row_id, self._mask_verdict(cells), None, reason, comment)
        item = self._items[row_id]
        if dealt.kind in columns.ASKING and item.form.is_place:
            answer, place = self._place(item, cells)
            return Meaning(dealt, row_id, None, answer, reason, comment, place)
        if dealt.kind in columns.ASKING:
            return Meaning(dealt, row_id, None, _answer(item, cells, ANSWER), reason, comment)
        verdict = self._word(cells, VERDICT, VERDICTS)
        answer = _answer(item, cells, CORRECTED, several_cells=True)
        if dealt.key_unmarked:
            verdict = self._ruling(item, verdict, answer)
        else:
            self._check_pair(dealt, item, verdict, answer, reason)
        return Meaning(dealt, row_id, verdict, answer, reason, comment)

    def emptied(self, row: FilledRow) -> tuple[Dealt, str] | None:
        """Return the sheet and id of a row in which nothing is filled in; ``None`` for any other row.

        The result is also ``None`` if the row does not belong to the batch.
        """
        if any(map(columns.is_fill_in, row.cells)) or self._lost_title(row) is not None:
            return None
        try:
            return self._identify(row.cells)
        except BadRowError:
            return None

    def owner(self, row: FilledRow) -> tuple[Dealt, str] | None:
        """Return the sheet and id of a row with a problem, or ``None`` if they cannot be read."""
        marks = {title: plain(row.cells.get(title, "")) for title in columns.MARKS}
        if marks[columns.BENCHMARK] not in ("", self.batch.mark) or marks[columns.BATCH] not in ("", self.batch.name):
            return None
        row_id = marks[ID] or columns.mask_row_id(plain(row.cells.get(KEY_ID, "")))
        named = self.batch.sheets.get((marks[columns.SHEET].casefold(), marks[columns.REVIEWER]))
        found = [named] if named else [one for one in self.batch.sheets.values() if row_id in one.rows]
        return (found[0], row_id) if len(found) == 1 and row_id in found[0].rows else None

    def _lost_title(self, row: FilledRow) -> str | None:
        """Return the title of a column to fill in that the tab lacks, or ``None`` if all are there.

        Without this check, entries below a lost title would be taken for a column that the reviewer added.
        """
        marks = {title: plain(row.cells.get(title, "")) for title in columns.MARKS}
        dealt = self.batch.sheets.get((marks[columns.SHEET].casefold(), marks[columns.REVIEWER]))
        if dealt is None:
            return None
        item = self._items.get(marks[ID])
        options = len(item.options) if item is not None and item.form.takes_several else 0
        kind = "masks" if columns.is_mask_row(marks[ID]) else dealt.kind
        needed = [column.title for column in columns.columns(kind, options) if column.fill_in]
        if dealt.kind == "masks" and OPTIMAL in row.titles:  # the csv of a mask sheet
            needed.remove(VERDICT)
        return next((title for title in needed if title not in row.titles), None)

    def _identify(self, cells: Mapping[str, str]) -> tuple[Dealt, str]:
        """Return a row's sheet and id.

        Raises :class:`BadRowError` if the row belongs to another batch, or if its locked cells were changed.
        """
        if ID not in cells and KEY_ID in cells:
            return self._published(plain(cells[KEY_ID]))
        if ID not in cells:
            raise BadRowError("the row is filled in, but its id is missing; restore the id, or empty the row")
        marks = {title: plain(cells.get(title, "")) for title in columns.MARKS}
        if marks[columns.BENCHMARK] not in ("", self.batch.mark):
            raise BadRowError(
                f"the row belongs to benchmark {marks[columns.BENCHMARK]}, but this review is of "
                f"{self.batch.label}; import the sheet with the review.json of its own export"
            )
        if marks[columns.BATCH] not in ("", self.batch.name):
            raise BadRowError(
                f"the row belongs to batch {marks[columns.BATCH]}, but {self.batch.path} is batch "
                f"{self.batch.name}; import the sheet with the review.json of its own export"
            )
        dealt = self.batch.sheets.get((marks[columns.SHEET].casefold(), marks[columns.REVIEWER]))
        if dealt is None or marks[ID] not in dealt.rows:
            raise BadRowError(
                f"'{marks[ID]}' was not given to '{marks[columns.REVIEWER]}' in sheet '{marks[columns.SHEET]}'; copy "
                "the row's locked cells from the exported sheet"
            )
        changed = columns.changed_titles(cells)
        if changed is None or changed:
            raise BadRowError(self._changed(dealt, cells, changed or ()), True)
        return dealt, marks[ID]

    def _published(self, key: str) -> tuple[Dealt, str]:
        """Return the sheet and id of a row in CheXpercept's format of mask sheets.

        The row is found only by its ``key_id``. Raises :class:`BadRowError` unless exactly one sheet has the key.
        """
        row_id = columns.mask_row_id(key)
        sheets = [dealt for dealt in self.batch.sheets.values() if row_id in dealt.rows]
        if len(sheets) != 1:
            found = "no sheet" if not sheets else "several sheets"
            raise BadRowError(
                f"'{key}' is in {found} of this batch, so the row cannot be assigned; restore the row's last columns "
                "as in the exported sheet"
            )
        return sheets[0], row_id

    def _changed(self, dealt: Dealt, cells: Mapping[str, str], titles: tuple[str, ...]) -> str:
        if not titles and not plain(cells.get(CHECKSUM, "")):
            return "its checksum is missing; restore the last columns as in the exported sheet"
        under = f" under {', '.join(repr(title) for title in titles)}" if titles else ""
        return (
            f"its locked cells{under} differ from the exported ones (cells were changed, or only some columns "
            f"were sorted); copy your verdicts into the row with the id {plain(cells[ID])} in a new copy of "
            f"sheet '{dealt.name}'"
        )

    def _place(self, item: Item, cells: Mapping[str, str]) -> tuple[tuple[int, ...] | None, tuple[Shape, ...] | None]:
        """Return the answer and the typed place of a row that asks for a place; both are None for an empty cell."""
        _check_marks({number for name in cells if (number := option_number(name))}, ANSWER)
        text = cells.get(ANSWER, "")
        if not plain(text):
            return None, None
        assert self._loaded is not None, "items belong to a benchmark"
        size = picture_size(self._loaded, item)
        found = parse_place(item, text, size)
        if found.parsed is None:
            raise BadRowError(f"'{_short(plain(text))}' under '{ANSWER}' {no_place(found, item, size)}")
        return found.parsed, found.shapes

    def _mask_verdict(self, cells: Mapping[str, str]) -> str | None:
        verdict = self._word(cells, VERDICT, VERDICTS)
        optimal = self._word(cells, OPTIMAL, tuple(columns.OPTIMAL_WORDS))
        if optimal is None:
            return verdict
        meant = columns.OPTIMAL_WORDS[optimal]
        if verdict not in (None, meant):
            raise BadRowError(
                f"'{OPTIMAL}' is '{optimal}' and the verdict is '{verdict}', which contradict "
                f"each other; keep one of them"
            )
        return meant

    def _word(self, cells: Mapping[str, str], title: str, known: tuple[str, ...]) -> str | None:
        """Return the word in ``known`` that the cell under ``title`` means, or ``None`` if the cell is empty.

        Raises :class:`BadRowError` if the cell has another text.
        """
        text = plain(cells.get(title, ""))
        if not text:
            return None
        word = parse_word(text, known)
        if word is None:
            hint = suggest(text.casefold(), known)
            raise BadRowError(f"'{_short(text)}' under '{title}' is not in the cell's drop-down list{hint}")
        return word

    def _ruling(self, item: Item, verdict: str | None, answer: tuple[int, ...] | None) -> str | None:
        """Return the verdict in a row of an adjudication sheet that does not mark which answer is the key.

        If the adjudicator gave an answer, the verdict is "accept" if the answer is right by the key, otherwise "fix".
        """
        if answer is None:
            if verdict in (ACCEPT, FIX):
                raise BadRowError(
                    f"the verdict is '{verdict}', but this sheet shows no proposal; give the right answer under "
                    f"'{CORRECTED}'"
                )
            return verdict
        if verdict not in (None, ACCEPT, FIX):
            raise BadRowError(f"the row has both the verdict '{verdict}' and an answer; keep only one of them")
        key = self._answers.get(item.item_id)
        return ACCEPT if key is not None and item.form.is_right(key.answer, answer) else FIX

    def _check_pair(
        self, dealt: Dealt, item: Item, verdict: str | None, answer: tuple[int, ...] | None, reason: str | None
    ) -> None:
        """Raise :class:`BadRowError` if verdict and corrected answer contradict each other."""
        if verdict is None and answer is not None:
            raise BadRowError(
                f"the row has a corrected answer but no verdict; give the verdict '{FIX}', or empty the answer"
            )
        key = self._answers.get(item.item_id)
        proposed = dealt.planted.get(item_row_id(item.item_id), key.answer if key else ())
        # The grid's key is a set of cells: any one of them agrees with it, but only the whole set equals it.
        equal = key is not None and answer is not None and answer == tuple(proposed)
        agrees = equal or key is None or answer is None or item.form.is_right(proposed, answer)
        if verdict == ACCEPT and (not agrees or reason == WRONG_ANSWER):
            told = f"reason is '{reason}'" if agrees else "corrected answer differs from the proposal"
            cell = REASON if agrees else "answer"
            raise BadRowError(f"the verdict is '{ACCEPT}', but the {told}; give '{FIX}', or empty the {cell}")
        if verdict == FIX and equal:
            raise BadRowError(
                f"the verdict is '{FIX}', but the corrected answer equals the proposal; give the "
                f"verdict '{ACCEPT}', or another answer"
            )
        if verdict == FIX and answer is None and takes_correction(item) and reason not in MASK_IS_WRONG:
            raise BadRowError(
                f"the verdict is '{FIX}', but there is no corrected answer; give the answer, or the reason "
                f"'{WRONG_CONTOUR}', or the verdict 'reject' or 'unsure'"
            )


def _answer(item: Item, cells: Mapping[str, str], title: str, several_cells: bool = False) -> tuple[int, ...] | None:
    """Return the option numbers in a row's column ``title`` or its option columns; ``None`` if all are empty.

    Raises :class:`BadRowError` if the entries are no answer to the row's question, or contradict each other.
    """
    options = {number: text for name, text in cells.items() if (number := option_number(name))}
    text = plain(cells.get(title, ""))
    if not item.form.takes_several:
        _check_marks(options, title)
        return _typed(item, cells.get(title, ""), title, several_cells) if text else None
    typed = _typed(item, cells.get(title, ""), title, several_cells) if text else None
    marked = _several(item, options)
    if typed is not None and marked is not None and typed != marked:
        raise BadRowError(
            f"'{_short(text)}' under '{title}' and the marks from '{option_title(min(options))}' on are "
            f"different answers; keep one of them"
        )
    return typed if marked is None else marked


def _check_marks(options: Collection[int], title: str) -> None:
    """Raise :class:`BadRowError` if options are marked although the question has one right answer."""
    if options:
        raise BadRowError(
            f"the row has marks under '{option_title(min(options))}', but its question has one right "
            f"answer; write the answer under '{title}' and empty the marks"
        )


def _typed(item: Item, text: str, title: str, several_cells: bool) -> tuple[int, ...]:
    """Return the answer that a cell's text means; raise :class:`BadRowError` if the text is no answer."""
    answer = parse_answer(item, text, several_cells)
    if answer is None:
        if not item.form.lists_options:
            hint = " (known: A1 to H8)"
        elif item.form.takes_several:
            hint = (
                f"; give the numbers of all right options, such as 1, 3, or only the number of 'none' "
                f"({len(item.options)})"
            )
        else:
            hint = suggest(plain(text), columns.choices(item))
        raise BadRowError(f"'{_short(plain(text))}' under '{title}' is not an answer to its question{hint}")
    return answer


def _several(item: Item, options: Mapping[int, str]) -> tuple[int, ...] | None:
    marked = []
    last = len(item.options)
    for number, text in sorted(options.items()):
        yes = parse_mark(text)
        if yes is None:
            raise BadRowError(f"'{_short(plain(text))}' under '{option_title(number)}' is neither '{YES}' nor '{NO}'")
        if yes and number > last:
            raise BadRowError(
                f"the row has '{YES}' under '{option_title(number)}', but its question has only {last} options"
            )
        if yes:
            marked.append(number)
    if not options:
        return None
    if not marked:
        raise BadRowError(
            f"no option is marked '{YES}'; if no other option is right, write '{YES}' under '{option_title(last)}'"
        )
    if last in marked and len(marked) > 1:
        raise BadRowError(
            f"'{option_title(last)}' means that no other option is right, but other options are also marked '{YES}'; "
            f"remove the wrong marks"
        )
    return tuple(marked)


def _comment(text: str) -> str | None:
    """Return a comment without unprintable characters and without the apostrophe that protects a csv cell."""
    text = clean(text).strip()
    if text.startswith("'") and columns.is_dangerous(text[1:]):
        text = text[1:]
    return text or None


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
