"""Readers compared with the key: agreement of their blind answers, and the effect of seeing the key as a proposal.

- The share of blind answers that are right by the key, with kappa between readers and key.
- How often a reader changed a blind answer after seeing the proposal.
- How often a proposal that is wrong on purpose was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.kinds import kind_order
from chexqa.eval.places.run_scores import scores_of
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.review.collect.verdicts import Verdict, by_item
from chexqa.review.columns import ACCEPT, item_row_id
from chexqa.review.resolve import coefficients
from chexqa.review.resolve.coefficients import Estimate, Floats, Ratings
from chexqa.review.resolve.compare import TABLES, SheetPlace, Unit, places_of, save_frame, scales_of, units_of

KEY = "key"


@dataclass(frozen=True)
class AgainstKey:
    """Agreement of a group's blind answers with the key.

    - ``kind``: the kind of question in the group; None if it has all kinds.
    - ``finding``: the finding in the group; None if it has all findings.
    - ``reviewer``: the reviewer who gave the group's answers; None if it has the answers of all reviewers.
    - ``answers``, ``patients``: the numbers of answers and of patients in the group.
    - ``share``: the share of answers that are right by the key.
    - ``kappa``: Cohen's kappa between reader and key; ``None`` for pooled kinds and for the grid.
    - ``weighted``: kappa with quadratic weights, for ordered kinds; otherwise ``None``.
    """

    kind: str | None
    finding: str | None
    reviewer: str | None
    answers: int
    patients: int
    share: Estimate
    kappa: Estimate | None
    weighted: Estimate | None


@dataclass(frozen=True)
class Validity:
    """Validity of a review. All fields but ``groups`` are keyed by reviewer; the key ``None`` means all reviewers.

    - ``groups``: the agreement of blind answers with the key, for each group of answers.
    - ``seen``: the number of questions answered blind for which the reviewer later judged the proposal.
    - ``changed``: the share of the questions in ``seen`` for which the reviewer changed the blind answer.
    - ``moved``: the number of questions in ``seen`` for which the reviewer changed the blind answer to the proposal.
    - ``planted``: the number of judged proposals that are wrong on purpose.
    - ``accepted``: the share of the proposals in ``planted`` that the reviewer accepted.
    """

    groups: tuple[AgainstKey, ...]
    seen: Mapping[str | None, int]
    changed: Mapping[str | None, Estimate]
    moved: Mapping[str | None, int]
    planted: Mapping[str | None, int]
    accepted: Mapping[str | None, Estimate]


def validity(bench: Benchmark, verdicts: Iterable[Verdict]) -> Validity:
    """Return the numbers of a benchmark's review.

    Raise ``InputError`` for a verdict on an item that the benchmark lacks.
    """
    said = [verdict for verdict in verdicts if verdict.kind != "masks"]
    by_item(said, bench)
    places = places_of(bench)
    people = {name: at for at, name in enumerate(sorted({place.patient for place in places.values()}))}
    weights = coefficients.resamples(len(people))
    newest = {
        (verdict.kind, verdict.reviewer, verdict.row): verdict
        for verdict in sorted(said, key=lambda verdict: (verdict.imported, verdict.batch))
        if verdict.is_counted_answer and _has_right_answer(places[verdict.row])
    }
    blind = list(newest.values())
    right = _right_of(bench, blind)
    scales = scales_of(place.item for place in places.values() if place.item is not None)
    groups = []
    for by_kind, by_finding, by_reader in ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 0, 1)):
        found: dict[tuple[str | None, str | None, str | None], list[Verdict]] = {}
        for verdict in blind:
            place = places[verdict.row]
            name = (place.kind if by_kind else None, place.finding if by_finding else None,
                    verdict.reviewer if by_reader else None)  # fmt: skip
            found.setdefault(name, []).append(verdict)
        order = [None, *kind_order(kind for kind, _, _ in found if kind is not None)]
        for name, rows in sorted(found.items(), key=lambda entry: (order.index(entry[0][0]), str(entry[0][1:]))):
            groups.append(_measured(name, rows, right, places, scales, people, weights))
    return Validity(tuple(groups), *_changes(blind, said, right, places, people, weights),
                    *_planted(said, places, people, weights))  # fmt: skip


def _has_right_answer(place: SheetPlace) -> bool:
    return place.item is not None and place.item.form.has_right_answer(place.key)


def _right_of(bench: Benchmark, rows: Iterable[Verdict]) -> dict[tuple[str, ...], bool]:
    """Return True for each right answer, keyed by :attr:`Verdict.key`; a typed place is scored like a model's."""
    names = {item_row_id(item.item_id): item for item in bench.items}
    answers, _ = bench.key("readers against the key")
    said = list(rows)
    scores = scores_of(bench, ((names[row.row].item_id, row.place) for row in said if row.place))
    found: dict[tuple[str, ...], bool] = {}
    for row in said:
        item = names[row.row]
        key = answers[item.item_id].answer
        is_right = item.form.is_right(key, row.answer or ())
        if is_right and item.form.is_place and SOMEWHERE in key:
            score = scores.get((item.item_id, row.place or ()))
            is_right = score is not None and score.right
        found[row.key] = is_right
    return found


def _measured(
    name: tuple[str | None, str | None, str | None], rows: Sequence[Verdict], is_right: Mapping[tuple[str, ...], bool],
    places: Mapping[str, SheetPlace], scales: Mapping[str, Mapping[str, int]], people: Mapping[str, int],
    weights: Floats,
) -> AgainstKey:  # fmt: skip
    patients = np.array([people[places[row.row].patient] for row in rows])
    right = np.array([is_right[row.key] for row in rows])
    share = coefficients.share_estimate(right, patients, weights)
    kappa = weighted = None
    if name[0] is not None:
        units = [unit for row in rows for unit in _units(places[row.row], row, scales)]
        if units:
            codes = np.array([[unit.codes[row_name] for row_name in ("reader", KEY)] for unit in units])
            clusters = np.array([people[unit.place.patient] for unit in units])
            ordered = all(unit.ordered for unit in units)
            pair = coefficients.pair_estimate(Ratings(codes, units[0].categories, clusters, ordered), 0, 1, weights)
            kappa, weighted = pair.cohen, pair.weighted
    return AgainstKey(*name, len(rows), len(np.unique(patients)), share, kappa, weighted)


def _units(place: SheetPlace, row: Verdict, scales: Mapping[str, Mapping[str, int]]) -> list[Unit]:
    """Return the units of one answer, rated by the reader and by the key; empty for the grid."""
    item = place.item
    if item is None or not item.form.lists_options:
        return []
    return units_of(place, {"reader": row.answer or (), KEY: place.key}, scales)


def _changes(
    blind: Iterable[Verdict], said: Iterable[Verdict], is_right: Mapping[tuple[str, ...], bool],
    places: Mapping[str, SheetPlace], people: Mapping[str, int], weights: Floats,
) -> tuple[dict[str | None, int], dict[str | None, Estimate], dict[str | None, int]]:  # fmt: skip
    """Return the ``seen``, ``changed`` and ``moved`` of :class:`Validity`."""
    later = {(row.reviewer, row.row): row for row in said if row.kind == "items" and row.counts}
    found: list[tuple[str, int, bool, bool]] = []
    for row in blind:
        place = places[row.row]
        after = None if row.kind != "blind" else _final(later.get((row.reviewer, row.row)), place)
        if after is None or place.item is None or row.answer is None:
            continue
        accepted = later[row.reviewer, row.row].verdict == ACCEPT
        same = is_right[row.key] if accepted else after == row.answer
        found.append((row.reviewer, people[place.patient], not same, not same and accepted))
    seen: dict[str | None, int] = {}
    changed: dict[str | None, Estimate] = {}
    moved: dict[str | None, int] = {}
    for who in (None, *sorted({row[0] for row in found})):
        rows = [row for row in found if who in (None, row[0])]
        if rows:
            seen[who], moved[who] = len(rows), sum(row[3] for row in rows)
            changed[who] = _share([row[2] for row in rows], [row[1] for row in rows], weights)
    return seen, changed, moved


def _final(verdict: Verdict | None, place: SheetPlace) -> tuple[int, ...] | None:
    """Return a reviewer's answer after seeing the proposal; ``None`` if it is not known."""
    if verdict is None:
        return None
    return place.key if verdict.verdict == ACCEPT else verdict.answer


def _planted(
    said: Iterable[Verdict], places: Mapping[str, SheetPlace], people: Mapping[str, int], weights: Floats
) -> tuple[dict[str | None, int], dict[str | None, Estimate]]:
    rows = [row for row in said if not row.counts and row.verdict is not None]
    count: dict[str | None, int] = {}
    accepted: dict[str | None, Estimate] = {}
    for who in (None, *sorted({row.reviewer for row in rows})):
        own = [row for row in rows if who in (None, row.reviewer)]
        if own:
            count[who] = len(own)
            accepted[who] = _share(
                [row.verdict == ACCEPT for row in own], [people[places[row.row].patient] for row in own], weights
            )
    return count, accepted


def _share(right: Sequence[bool], patients: Sequence[int], weights: Floats) -> Estimate:
    return coefficients.share_estimate(np.array(right), np.array(patients), weights)


def to_record(found: Validity) -> dict[str, Any]:
    """Return the numbers as a JSON record."""

    def plain(one: Estimate | None) -> dict[str, float | None] | None:
        return None if one is None else {"value": one.value, "low": one.low, "high": one.high}

    names = [name for name in found.seen.keys() | found.planted.keys() if name is not None]
    return {
        "against_key": [
            {"kind": group.kind, "finding": group.finding, "reviewer": group.reviewer, "answers": group.answers,
             "patients": group.patients, "share": plain(group.share), "kappa": plain(group.kappa),
             "weighted": plain(group.weighted)}
            for group in found.groups
        ],
        "after_proposal": [
            {"reviewer": name, "answers": found.seen[name], "changed": plain(found.changed[name]),
             "to_proposal": found.moved[name]}
            for name in (None, *sorted(names)) if name in found.seen
        ],
        "wrong_on_purpose": [
            {"reviewer": name, "proposals": found.planted[name], "accepted": plain(found.accepted[name])}
            for name in (None, *sorted(names)) if name in found.planted
        ],
    }  # fmt: skip


def write_table(path: Path, found: Validity, notice: str | None) -> None:
    """Write a table with a row for each statistic, as csv or xlsx; ``notice`` becomes a column.

    Columns: ``figure, kind, finding, reviewer, answers, patients, value, low, high``. Raises ``InputError`` for another
    suffix.
    """
    import pandas as pd

    if path.suffix.lower() not in TABLES:
        raise InputError(f"{path}: the name of a table must end in {' or '.join(TABLES)}; correct the name.")
    rows: list[Record] = []
    for group in found.groups:
        about = {"kind": group.kind or "all", "finding": group.finding or "all", "reviewer": group.reviewer or "all",
                 "answers": group.answers, "patients": group.patients}  # fmt: skip
        figures = {"right by the key": group.share, "kappa": group.kappa, "weighted kappa": group.weighted}
        rows += [{"figure": name} | about | vars(one) for name, one in figures.items() if one is not None]
    for name, counts, shares in (
        ("changed after seeing the proposal", found.seen, found.changed),
        ("accepted though wrong on purpose", found.planted, found.accepted),
    ):
        rows += [
            {"figure": name, "kind": "all", "finding": "all", "reviewer": who or "all", "answers": counts[who],
             "patients": None} | vars(one)
            for who, one in shares.items()
        ]  # fmt: skip
    save_frame(path, pd.DataFrame(rows), "validity", notice)
