"""Redrawn masks in a manifest: a redrawing replaces the mask, and counts once a second reader has signed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chexqa.files.jsonio import Record
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT

APPROVED, TO_FIX, DOUBTED = "approved", "fix", "unsure"


def by_case(contours: Iterable[Record]) -> dict[str, list[Record]]:
    """Return redrawn masks by case."""
    found: dict[str, list[Record]] = {}
    for contour in contours:
        found.setdefault(contour["case_id"], []).append(contour)
    return found


def with_redrawn(record: Record, state: str | None, contours: Iterable[Record]) -> Record:
    """Return a manifest's line with the redrawn mask of a case to be fixed, which then waits for a second reader.

    Several different redrawings of one mask replace nothing: the readers have to agree on one first.
    """
    drawn = list(contours)
    if state != TO_FIX or not drawn or any(one["mask"] != drawn[0]["mask"] for one in drawn):
        return record
    new = drawn[0]
    told: dict[str, Any] = {name: new[name] for name in ("edited_px", "edited_share", "hausdorff_px")}
    return {**record, "mask": new["mask"], "redrawn": {"by": new["reviewer"], **told, "signed_by": None}}


def is_own(record: Mapping[str, Any], verdict: Verdict) -> bool:
    """Return whether a verdict is the author's on a mask of his or her own, which does not count."""
    redrawn = record.get("redrawn")
    return redrawn is not None and redrawn["by"] == verdict.reviewer


def signed(record: Record, state: str | None, verdicts: Iterable[Verdict]) -> Record:
    """Return a line whose redrawn mask has been approved with the name of who signed it."""
    redrawn = record.get("redrawn")
    if redrawn is None or state != APPROVED:
        return record
    names = [verdict.reviewer for verdict in verdicts if verdict.verdict == ACCEPT]
    return {**record, "redrawn": {**redrawn, "signed_by": names[0]}} if names else record


def is_unsigned(record: Mapping[str, Any]) -> bool:
    """Return whether a line has a redrawn mask that nobody has signed."""
    redrawn = record.get("redrawn")
    return redrawn is not None and redrawn["signed_by"] is None
