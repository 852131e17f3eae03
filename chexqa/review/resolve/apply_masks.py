"""Manifest with the verdicts on its masks, so that ``generate --reviewed`` uses only approved ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import MANIFEST, read_manifest, write_manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_lines
from chexqa.files.opening import sha256_of
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT, FIX, REJECT, UNSURE, benchmark_mark, mask_row_id
from chexqa.review.resolve.redrawn import APPROVED, DOUBTED, TO_FIX, by_case, is_own, is_unsigned, signed, with_redrawn

REJECTED = "rejected"
_STATES = {ACCEPT: APPROVED, REJECT: REJECTED, FIX: TO_FIX, UNSURE: DOUBTED}


class Reviewed(NamedTuple):
    """A written manifest: its path, how many cases are in each state (``None``: not reviewed), and the ids of cases
    whose redrawn mask waits for a second reader.
    """

    path: Path
    states: Counter[str | None]
    unsigned: tuple[str, ...] = ()


def apply_to_manifest(
    cases: Path, verdicts: Iterable[Verdict], bench: Benchmark | None, out: Path, contours: Iterable[Record] = ()
) -> Reviewed:
    """Write the manifest with ``review`` on each judged case; ``bench``: the benchmark its masks were exported from.

    ``contours``: redrawn masks, which replace those of cases to be fixed and wait for a second reader.
    Raises ``InputError`` for verdicts on anything but these masks, or if ``out`` exists already.
    """
    path = cases / MANIFEST if cases.is_dir() else cases
    read_manifest(path)
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name a new file with -o.")
    names = _names(path, bench)
    said: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        said.setdefault(_case_of(verdict, names, path), []).append(verdict)
    if not said:
        raise InputError(f"{path}: none of its masks has a verdict in the files given; import sheets first.")
    drawn, records = by_case(contours), []
    for _, record in read_lines(path):
        judged = [one for one in said.get(record["case_id"], ()) if not is_own(record, one)]
        state = state_of(judged)
        line = record if state is None else {**record, "review": state}
        records.append(signed(with_redrawn(line, state, drawn.get(record["case_id"], ())), state, judged))
    write_manifest(out, records)
    unsigned = tuple(one["case_id"] for one in records if is_unsigned(one))
    return Reviewed(out, Counter(record.get("review") for record in records), unsigned)


def _names(path: Path, bench: Benchmark | None) -> dict[tuple[str, str], str]:
    """Return case ids of the manifest by (hash of the manifest or benchmark under review, row id)."""
    manifest = sha256_of(path)
    names = {(manifest, mask_row_id(record["case_id"])): record["case_id"] for _, record in read_lines(path)}
    if bench is not None:
        _, keys = bench.key("applying a review of its masks")
        names |= {(bench.hash, mask_row_id(case_id)): key.source_case_id for case_id, key in keys.items()}
    return names


def _case_of(verdict: Verdict, names: Mapping[tuple[str, str], str], path: Path) -> str:
    if verdict.kind != "masks":
        raise InputError(f"verdict on '{verdict.row}': is about an item; give its benchmark instead of {path}.")
    case_id = names.get((verdict.benchmark, verdict.row))
    if case_id is None:
        raise InputError(
            f"verdict on '{verdict.row}': is for {benchmark_mark(verdict.benchmark)}, but {path} is another manifest "
            "or has changed; give the exported manifest, or --benchmark if a benchmark's masks were exported."
        )
    return case_id


def state_of(verdicts: Iterable[Verdict]) -> str | None:
    """Return the state that a mask's reviewers agree on, ``unsure`` if they do not, ``None`` without verdicts.

    Each reviewer counts once, with the newest verdict.
    """
    newest: dict[str, str] = {}
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.imported, verdict.batch)):
        if verdict.verdict is not None:
            newest[verdict.reviewer] = verdict.verdict
    if not newest:
        return None
    words = set(newest.values()) - {UNSURE} or {UNSURE}
    return _STATES[words.pop()] if len(words) == 1 else DOUBTED
