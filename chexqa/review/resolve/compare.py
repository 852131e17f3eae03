"""Agreement of reviewers on verdicts (given with the proposal in sight) and on answers (given without it).

Agreement is computed over units:

- For verdicts, each row of a sheet is a unit.
- For answers, each question is a unit. If several options can be right, each option is a unit.

An answer to a grid question counts as a hit or a miss. Answers to different kinds of question are never pooled.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import Case
from chexqa.contract.items import Item, clusters
from chexqa.contract.kinds import kind_order
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, write_bytes
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import VERDICTS, csv_cell, item_row_id, mask_row_id
from chexqa.review.resolve import coefficients
from chexqa.review.resolve.coefficients import MISSING, Estimate, Ratings
from chexqa.stats import cluster_id

if TYPE_CHECKING:
    import pandas as pd

What = Literal["verdict", "answer"]
MASK = "mask"
TABLES = (".csv", ".xlsx")


class SheetPlace(NamedTuple):
    """Subject of a row in a review sheet: an item, or the mask of a case.

    - ``kind``: the item's kind, or :data:`MASK`.
    - ``item``: the item; None for a mask.
    - ``key``: the item's right options; empty for a mask.
    """

    kind: str
    finding: str
    patient: str
    item: Item | None
    key: tuple[int, ...] = ()


class Unit(NamedTuple):
    """A row, question or option that reviewers rated.

    - ``categories``: the number of possible ratings.
    - ``codes``: each reviewer's rating as a number from 0.
    - ``ordered``: True if the ratings have an order.
    """

    place: SheetPlace
    categories: int
    codes: dict[str, int]
    ordered: bool = False


@dataclass(frozen=True)
class Pair:
    """Agreement of two reviewers on the units that both rated.

    - ``units``: the number of these units; ``same``: the share of equal ratings.
    - ``cohen``: Cohen's kappa; ``weighted``: weighted kappa, ``None`` if the ratings have no order.
    """

    reviewers: tuple[str, str]
    units: int
    same: Estimate
    cohen: Estimate
    weighted: Estimate | None = None


@dataclass(frozen=True)
class Agreement:
    """Agreement of reviewers on a group of units.

    - ``kind``: the kind of question of the group; ``None`` if the group has units of all kinds.
    - ``finding``: the finding of the group; ``None`` if the group has units of all findings.
    - ``remark``: an explanation if agreement is high but kappa is low.
    """

    what: What
    kind: str | None
    finding: str | None
    units: int
    patients: int
    estimates: Mapping[str, Estimate]
    pairs: tuple[Pair, ...]
    remark: str | None


def places_of(bench: Benchmark) -> dict[str, SheetPlace]:
    """Return what each row of the review sheets asks about, keyed by row id."""
    answers, keys = bench.key("agreement")
    people = clusters(bench.items, keys)
    places = {}
    for item in bench.items:
        patient = people[item.case_id]
        places[item_row_id(item.item_id)] = SheetPlace(
            item.kind, item.finding, patient, item, answers[item.item_id].answer
        )
        places[mask_row_id(item.case_id)] = SheetPlace(MASK, item.finding, patient, None)
    return places


def places_of_masks(cases: Iterable[Case]) -> dict[str, SheetPlace]:
    """Return the subject of each row of a mask sheet (finding and patient), keyed by row id."""
    return {
        mask_row_id(case.case_id): SheetPlace(
            MASK, case.finding, cluster_id(case.patient_id, case.study_id, str(case.image)), None
        )
        for case in cases
    }


def compare(verdicts: Iterable[Verdict], places: Mapping[str, SheetPlace]) -> list[Agreement]:
    """Return the reviewers' agreement on their verdicts and on their answers, for groups of sheet rows.

    - Groups of verdicts: all rows, the rows of each kind, of each finding, and of each kind and finding.
    - Groups of answers: the rows of each kind, and of each kind and finding.

    Groups in which no row was rated by two reviewers are left out. ``places`` has the subject of each row, keyed by
    row id.
    """
    rows = [verdict for verdict in verdicts if verdict.row in places and verdict.is_judged]
    people = sorted({place.patient for place in places.values()})
    number = {patient: index for index, patient in enumerate(people)}
    weights = coefficients.resamples(len(people))
    found = []
    whole, by_kind_alone, by_finding_alone, by_both = (False, False), (True, False), (False, True), (True, True)
    verdict_levels = [whole, by_kind_alone, by_finding_alone, by_both]
    if all(verdict.kind == "masks" for verdict in rows):
        verdict_levels = [whole, by_finding_alone]
    for what, units, levels in (
        ("verdict", _verdict_units(rows, places), verdict_levels),
        ("answer", _answer_units(rows, places), [by_kind_alone, by_both]),
    ):
        for by_kind, by_finding in levels:
            for (kind, finding), group in _grouped(units, by_kind, by_finding).items():
                found.append(_measure(what, kind, finding, group, number, weights))  # type: ignore[arg-type]
    return [group for group in found if group.units]


def _verdict_units(rows: Iterable[Verdict], places: Mapping[str, SheetPlace]) -> list[Unit]:
    said: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.kind in ("items", "masks") and row.verdict is not None and row.counts:
            said.setdefault(row.row, {})[row.reviewer] = VERDICTS.index(row.verdict)
    return [Unit(places[row_id], len(VERDICTS), codes) for row_id, codes in said.items()]


def _answer_units(rows: Iterable[Verdict], places: Mapping[str, SheetPlace]) -> list[Unit]:
    said: dict[str, dict[str, tuple[int, ...]]] = {}
    for row in rows:
        if row.is_counted_answer and row.answer is not None:
            said.setdefault(row.row, {})[row.reviewer] = row.answer
    scales = scales_of(place.item for place in places.values() if place.item is not None)
    return [unit for row_id, answers in said.items() for unit in units_of(places[row_id], answers, scales)]


def units_of(
    place: SheetPlace, answers: Mapping[str, tuple[int, ...]], scales: Mapping[str, Mapping[str, int]]
) -> list[Unit]:
    """Return the units of one item, with each reader's answer as a code.

    A unit is the item or, if several options can be right, one option. ``scales`` is the result of :func:`scales_of`.
    """
    item = place.item
    assert item is not None, "answers are given to items"
    if item.form.takes_several:
        return [
            Unit(place, 2, {who: int(option.n in answer) for who, answer in answers.items()})
            for option in item.options[:-1]  # the last one, "none", follows from the others
        ]
    if not item.form.lists_options:
        hits = {who: int(item.form.is_right(place.key, answer)) for who, answer in answers.items()}
        return [Unit(place, 2, hits)] if item.form.has_right_answer(place.key) else []
    scale = scales[place.kind]
    codes = {who: scale[_name(item, answer[0])] for who, answer in answers.items()}
    # Items of an ordered kind show the same options; if they do not, the codes have no order.
    return [Unit(place, len(scale), codes, item.is_ordered and len(scale) == len(item.options) > 2)]


def scales_of(items: Iterable[Item]) -> dict[str, dict[str, int]]:
    """Return the code (0, 1, …) of each option's text, keyed by kind of question; grid and multi-select have none."""
    scales: dict[str, dict[str, int]] = {}
    for item in items:
        if not item.form.takes_several and item.form.lists_options:
            scale = scales.setdefault(item.kind, {})
            for option in item.options:
                scale.setdefault(_name(item, option.n), len(scale))
    return scales


def _name(item: Item, number: int) -> str:
    """Return an option's words if all options of the item have words, otherwise its number."""
    texts = [option.text for option in item.options]
    return str(texts[number - 1]) if all(texts) else str(number)


def _grouped(units: Iterable[Unit], by_kind: bool, by_finding: bool) -> dict[tuple[str | None, str | None], list[Unit]]:
    """Return the units keyed by kind and finding, in the order of kinds; ``None`` means all."""
    groups: dict[tuple[str | None, str | None], list[Unit]] = {}
    for unit in units:
        name = unit.place.kind if by_kind else None, unit.place.finding if by_finding else None
        groups.setdefault(name, []).append(unit)
    order = [None, *kind_order(name for name, _ in groups if name not in (None, MASK)), MASK]
    return dict(sorted(groups.items(), key=lambda entry: (order.index(entry[0][0]), str(entry[0][1] or ""))))


def _measure(
    what: What, kind: str | None, finding: str | None, units: Sequence[Unit], number: Mapping[str, int],
    weights: coefficients.Floats,
) -> Agreement:  # fmt: skip
    reviewers = sorted({who for unit in units for who in unit.codes})
    codes = np.array([[unit.codes.get(who, MISSING) for who in reviewers] for unit in units])
    patients = np.array([number[unit.place.patient] for unit in units])
    ratings = Ratings(codes, units[0].categories, patients, all(unit.ordered for unit in units))
    twice = ratings.rated_twice
    estimates = coefficients.estimates(ratings, weights)
    pairs = []
    for first, second in combinations(range(len(reviewers)), 2):
        pair = coefficients.pair_estimate(ratings, first, second, weights)
        if pair.units:
            pairs.append(Pair((reviewers[first], reviewers[second]), *pair))
    return Agreement(
        what, kind, finding, int(twice.sum()), len(np.unique(patients[twice])), estimates, tuple(pairs),
        coefficients.paradox(ratings, estimates),
    )  # fmt: skip


def to_record(group: Agreement) -> dict[str, Any]:
    """Return the agreement of a group as a JSON record."""

    def plain(estimate: Estimate) -> dict[str, float | None]:
        return {"value": estimate.value, "low": estimate.low, "high": estimate.high}

    return {
        "what": group.what,
        "kind": group.kind,
        "finding": group.finding,
        "units": group.units,
        "patients": group.patients,
        **{name: plain(estimate) for name, estimate in group.estimates.items()},
        "pairs": [
            {"reviewers": list(pair.reviewers), "units": pair.units, "same": plain(pair.same),
             "cohen": plain(pair.cohen)} | ({"weighted": plain(pair.weighted)} if pair.weighted else {})
            for pair in group.pairs
        ],
        "remark": group.remark,
    }  # fmt: skip


def to_frame(groups: Iterable[Agreement]) -> pd.DataFrame:
    """Return a pandas frame with a row for each group, coefficient and set of reviewers (all, or a pair).

    Columns: ``what, kind, finding, reviewers, units, patients, coefficient, value, low, high``. ``all`` stands for
    pooled kinds, findings or reviewers. ``patients`` is empty for a pair.
    """
    import pandas as pd

    rows: list[Record] = []
    for group in groups:
        about = {"what": group.what, "kind": group.kind or "all", "finding": group.finding or "all"}
        whole = {"reviewers": "all", "units": group.units, "patients": group.patients}
        rows += [about | whole | {"coefficient": name} | vars(one) for name, one in group.estimates.items()]
        for pair in group.pairs:
            of_two = {"reviewers": " and ".join(pair.reviewers), "units": pair.units, "patients": None}
            found = {"percent": pair.same, "cohen": pair.cohen}
            found |= {} if pair.weighted is None else {"weighted": pair.weighted}
            rows += [about | of_two | {"coefficient": name} | vars(one) for name, one in found.items()]
    return pd.DataFrame(rows).astype({"patients": "Int64", "value": float, "low": float, "high": float})


def write_table(path: Path, groups: Sequence[Agreement], notice: str | None) -> None:
    """Write the frame of :func:`to_frame` as csv or xlsx; ``notice`` becomes a column.

    Raises ``InputError`` for another suffix.
    """
    if path.suffix.lower() not in TABLES:
        raise InputError(f"{path}: the name of a table must end in {' or '.join(TABLES)}; correct the name.")
    save_frame(path, to_frame(groups), "agreement", notice)


def save_frame(path: Path, frame: pd.DataFrame, name: str, notice: str | None) -> None:
    """Write a frame as csv, or as xlsx with the tab ``name``; the text ``notice`` becomes a column."""
    safe = frame.map(lambda cell: csv_cell(cell) if isinstance(cell, str) else cell)
    if notice:
        safe["notice"] = notice
    data = io.BytesIO()
    if path.suffix.lower() == ".csv":
        safe.to_csv(data, index=False, encoding="utf-8-sig")
    else:
        safe.to_excel(data, sheet_name=name, index=False, engine="xlsxwriter")
    write_bytes(path, data.getvalue())
