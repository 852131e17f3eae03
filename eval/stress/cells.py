"""Cells of stress, and the balanced design that gives each item one cell.

A cell is one form of a kind of stress: a degradation with its severity (``noise-3``), a wording with its letter
(``wording-b``), or ``history``. A stressed item has an id such as ``c1/detection@noise-3``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.stress.degradations import DEGRADATIONS, SEVERITIES
from chexqa.eval.stress.wordings import HISTORY, WORDING, letters, stressed_question
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, sha256

ALL = "all"
KINDS = (*DEGRADATIONS, WORDING, HISTORY)


def named(text: str | None) -> tuple[str, ...]:
    """Return the kinds of stress that a text such as ``noise,wording`` names, in the order of :data:`KINDS`.

    ``all`` means all kinds. If ``text`` is None, the result is empty. Raise ``InputError`` for an unknown name.
    """
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in (*KINDS, ALL):
            raise InputError(f"--stress {name}: there is no stress of this name{suggest(name, (*KINDS, ALL))}.")
    if not names:
        raise InputError(f"--stress: no stress is named; give {ALL}, or some of {', '.join(KINDS)}.")
    return tuple(name for name in KINDS if name in names or ALL in names)


def check(benchmark: Benchmark, kinds: Sequence[str], protocol: str, blind: bool) -> None:
    """Raise ``InputError`` if a run with the given kinds of stress cannot be asked under the given protocol."""
    if not kinds:
        return
    if protocol != "independent":
        raise InputError(
            f"--stress asks each question in a separate conversation, but under the protocol {protocol} a question "
            "follows others; give --protocol independent."
        )
    if blind and any(kind in DEGRADATIONS for kind in kinds):
        raise InputError(
            "--blind sends no pictures, so --stress has no picture to degrade; give only 'wording' and 'history' to "
            "--stress."
        )
    language = benchmark.about["question_bank"]["language"]
    if not letters(language) and {WORDING, HISTORY} & {*kinds}:
        raise InputError(
            f"--stress: 'wording' and 'history' are not available in the language '{language}'; name degradations only."
        )


def cells(kinds: Sequence[str], language: str) -> list[str]:
    """Return the cells of the given kinds of stress; the kinds alternate, as in ``noise-1, blur-1, noise-2, blur-2``.

    ``language`` is the code of the benchmark's language, such as ``en``; the cells of ``wording`` depend on it.
    """
    of_kind = [_cells_of(kind, language) for kind in kinds]
    return [cell for row in zip_longest(*of_kind) for cell in row if cell is not None]


def _cells_of(kind: str, language: str) -> list[str]:
    if kind in DEGRADATIONS:
        return [f"{kind}-{severity}" for severity in SEVERITIES]
    return [f"{kind}-{letter}" for letter in letters(language)] if kind == WORDING else [kind]


def kind_of(cell: str) -> str:
    """Return the kind of stress of a cell, such as ``noise`` for ``noise-3``."""
    return cell.partition("-")[0]


def severity_of(cell: str) -> int | None:
    """Return the severity of a cell of stress, such as 3 for ``noise-3``; None for a wording or a history."""
    end = cell.partition("-")[2]
    return int(end) if end.isdigit() else None


def stressed(
    items: Iterable[Item],
    kinds: Sequence[str],
    bank: Record,
    has_lungs: Mapping[str, bool],
    refused: Collection[tuple[str, str]] = (),
) -> list[Item]:
    """Return at most one stressed item for each item; items that ask for a place get none.

    - ``has_lungs``: True for a case with known lungs, keyed by case id.
    - ``refused``: pairs of a kind of question and a cell of stress that this kind must not get.

    The pictures are still the originals; :mod:`chexqa.eval.stress.stressed_pictures` degrades them while a run asks.
    """
    whole = cells(kinds, bank["language"])
    # A collimation needs the lungs.
    without = [cell for cell in whole if kind_of(cell) != "collimation"]
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        if item.form.is_place:  # a place is not one of a few answers, so it does not flip
            continue
        by_kind.setdefault(item.kind, []).append(item)
    found: list[Item] = []
    # The items of a kind of question, in the order of a hash, get the cells in rotation.
    for kind, rows in by_kind.items():
        start = int(sha256(kind.encode())[:8], 16)
        for place, item in enumerate(sorted(rows, key=lambda one: sha256(one.item_id.encode()))):
            usable = [
                cell for cell in (whole if has_lungs.get(item.case_id) else without) if (kind, cell) not in refused
            ]
            if usable:
                cell = usable[(start + place) % len(usable)]
                question = stressed_question(item, cell, bank)
                found.append(replace(item, item_id=f"{item.item_id}@{cell}", question=question))
    return found
