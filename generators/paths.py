"""Which case goes on which path: quotas, drawn by seed after deformation, never by the order of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chexqa.items import PATHS, Path
from chexqa.records import Record
from chexqa.seeds import stream


@dataclass(frozen=True)
class Candidate:
    """A case that could be drawn: present ones have a plan for their contour items, absent ones need none.

    ``image_key``: identity of the radiograph's pixels.
    """

    source_case_id: str
    finding: str
    present: bool
    image_key: str


@dataclass(frozen=True)
class Draw:
    """The paths drawn, by source case id; what could not be used, with the reason; quotas that were not met."""

    paths: dict[str, Path]
    unused: dict[str, str]
    shortfall: tuple[Record, ...]


def split(pool: int, required: int, free: int) -> tuple[int, int]:
    """Numbers of revision-required and revision-free cases from a pool of cases with the finding.

    A pool that does not meet both quotas is split in their proportion, revision-required rounded up.
    """
    if pool >= required + free:
        return required, free
    if required + free == 0:
        return 0, 0
    first = min(required, -(-pool * required // (required + free)))
    return first, min(free, pool - first)


def draw_paths(candidates: Iterable[Candidate], recipe: dict[str, Any], seed: int) -> Draw:
    """Draw a path for as many cases as the quotas of a perception recipe take, finding by finding."""
    rows = sorted(candidates, key=lambda row: row.source_case_id)
    paths: dict[str, Path] = {}
    unused: dict[str, str] = {}
    shortfall: list[Record] = []
    for finding in recipe["findings"]:
        pool = [row for row in rows if row.finding == finding]
        order = stream(seed, "paths", finding).permutation(len(pool))
        seen: set[str] = set()
        present: list[str] = []
        absent: list[str] = []
        # Present cases first: where a radiograph stands on both sides, its mask is the better witness.
        for row in sorted((pool[index] for index in order), key=lambda row: not row.present):
            if row.image_key in seen:
                unused[row.source_case_id] = "the same radiograph is on another path of this finding"
                continue
            seen.add(row.image_key)
            (present if row.present else absent).append(row.source_case_id)
        quotas = recipe["quotas"]
        required, free = split(len(present), quotas["revision_required"], quotas["revision_free"])
        taken: dict[Path, list[str]] = {
            "lesion_free": absent[: quotas["lesion_free"]],
            "revision_free": present[required : required + free],
            "revision_required": present[:required],
        }
        for path in PATHS:
            paths.update(dict.fromkeys(taken[path], path))
            if len(taken[path]) < quotas[path]:
                shortfall.append({"finding": finding, "path": path, "quota": quotas[path], "made": len(taken[path])})
    return Draw(paths, unused, tuple(shortfall))
