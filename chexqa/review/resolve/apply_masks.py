"""Writer of a manifest with the verdicts on its masks; ``generate --reviewed`` then uses only approved masks.

A verdict counts only if mask, lungs and radiograph are still the reviewed ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import write_manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_lines
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT, FIX, REJECT, UNSURE, benchmark_mark, mask_row_id
from chexqa.review.resolve.mask_hashes import ManifestMasks
from chexqa.review.resolve.redrawn import (
    APPROVED,
    DOUBTED,
    TO_FIX,
    at_source,
    by_case,
    is_own,
    is_unsigned,
    read_folder,
    replaced,
    signed,
    with_redrawn,
)

REJECTED = "rejected"
_STATES = {ACCEPT: APPROVED, REJECT: REJECTED, FIX: TO_FIX, UNSURE: DOUBTED}


class Reviewed(NamedTuple):
    """The written manifest: its path, and the number of cases with each verdict (``None``: no verdict).

    - ``unsigned``: ids of cases with a redrawn mask that a second reader must still approve.
    - ``changed``: ids of cases without a valid verdict, because mask, lungs or radiograph have changed.
    - ``drawn``: records of the redrawn masks from the folder ``mask_dir``.
    """

    path: Path
    states: Counter[str | None]
    unsigned: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    drawn: tuple[Record, ...] = ()


def apply_to_manifest(
    cases: Path, verdicts: Iterable[Verdict], bench: Benchmark | None, out: Path, contours: Iterable[Record] = (),
    image_root: Path | None = None, mask_dir: Path | None = None,
) -> Reviewed:  # fmt: skip
    """Write ``out``, a copy of the manifest ``cases`` in which each judged case has the field ``review``.

    - ``bench``: the benchmark that the masks were exported from, if any.
    - ``contours``: redrawn masks, used in cases with the verdict "fix".
    - ``mask_dir``: a folder with redrawn masks (:func:`chexqa.review.resolve.redrawn.read_folder`), used whatever the
      verdict.

    Raises ``InputError`` if a verdict is on an item, not on a mask, if its mask is unknown, if there is nothing to
    apply, or if ``out`` exists.
    """
    masks = ManifestMasks(cases, image_root)
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name a new file with -o.")
    new = read_folder(mask_dir, masks) if mask_dir is not None else {}
    names = _names(masks, bench)
    said: dict[str, list[Verdict]] = {}
    changed: dict[str, None] = {}
    for verdict in verdicts:
        case_id = _case_of(verdict, names, masks)
        if verdict.seen is None or verdict.seen == masks.seen(case_id):
            said.setdefault(case_id, []).append(verdict)
        else:
            changed[case_id] = None
    if not said and not changed and not new:
        raise InputError(f"{masks.path}: none of its masks has a verdict in the files given; import sheets first.")
    drawn, records = by_case(contours), []
    for _, record in read_lines(masks.path):
        case_id = record["case_id"]
        judged = [one for one in said.get(case_id, ()) if not is_own(record, one)]
        state = state_of(judged)
        line = _judged(record, state, judged, masks, case_id in changed)
        new_masks = [at_source(one, masks.cases[masks.places[case_id]]) for one in drawn.get(case_id, ())]
        line = signed(with_redrawn(line, state, new_masks), state, judged)
        records.append(replaced(record, new[case_id]) if case_id in new else line)
    write_manifest(out, records)
    unsigned = tuple(one["case_id"] for one in records if is_unsigned(one))
    states = Counter(record.get("review") for record in records)
    return Reviewed(out, states, unsigned, tuple(changed), tuple(new.values()))


def _judged(
    record: Record, state: str | None, verdicts: Sequence[Verdict], masks: ManifestMasks, changed: bool
) -> Record:
    """Return a manifest's line with the state that follows from its case's verdicts; an outdated state is removed."""
    if state is not None:
        is_bound = any(verdict.seen is not None for verdict in verdicts)
        return {**record, "review": state, **({"review_seen": masks.seen(record["case_id"])} if is_bound else {})}
    if changed and not is_unsigned(record):
        return {name: value for name, value in record.items() if name not in ("review", "review_seen")}
    return record


def _names(masks: ManifestMasks, bench: Benchmark | None) -> dict[tuple[str, str], str]:
    """Return the case ids of the manifest, keyed by the hash of the reviewed manifest or benchmark and by row id."""
    names = {(masks.hash, row): case_id for row, case_id in masks.by_row.items()}
    if bench is not None:
        _, keys = bench.key("applying a review of its masks")
        names |= {(bench.hash, mask_row_id(case_id)): key.source_case_id for case_id, key in keys.items()}
    return names


def _case_of(verdict: Verdict, names: Mapping[tuple[str, str], str], masks: ManifestMasks) -> str:
    if not verdict.is_on_mask:
        raise InputError(
            f"verdict on '{verdict.row}': is on an item, not on a mask; give the item's benchmark, not {masks.path}."
        )
    case_id = names.get((verdict.benchmark, verdict.row))
    if case_id is None and verdict.seen is not None:
        case_id = masks.by_row.get(verdict.row)
    if case_id is None:
        raise InputError(
            f"verdict on '{verdict.row}': was given on another manifest or benchmark "
            f"({benchmark_mark(verdict.benchmark)}) than {masks.path} ({benchmark_mark(masks.hash)}); give "
            "the manifest that was reviewed, unchanged. If a benchmark was reviewed, add --benchmark with its folder."
        )
    return case_id


def state_of(verdicts: Iterable[Verdict]) -> str | None:
    """Return the state of a mask after its review, such as approved; ``unsure`` if reviewers disagree.

    Each reviewer's newest verdict counts. An adjudicator decides. Without verdicts the state is ``None``.
    """
    newest: dict[tuple[bool, str], str] = {}
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.imported, verdict.batch)):
        if verdict.verdict is not None:
            newest[verdict.kind == "adjudication", verdict.reviewer] = verdict.verdict
    if not newest:
        return None
    rulings = {word for (rules, _), word in newest.items() if rules}
    words = (rulings or set(newest.values())) - {UNSURE} or {UNSURE}
    return _STATES[words.pop()] if len(words) == 1 else DOUBTED
