"""Paths of cases, drawn after deformation to meet quotas; they depend on the seed, not on the order of a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from chexqa.contract.items import PATHS, Path
from chexqa.files.jsonio import Record
from chexqa.files.seeds import stream
from chexqa.generators.pipeline.recipe import PerceptionRecipe, Quotas


@dataclass(frozen=True)
class Candidate:
    """A case that can be drawn; present cases have a plan for their contour items, absent ones need none.

    ``image_key`` identifies the radiograph's pixels. ``flagged`` cases have an unstable item; they are drawn
    only if the others do not meet the quotas.
    """

    source_case_id: str
    finding: str
    present: bool
    image_key: str
    flagged: bool = False


@dataclass(frozen=True)
class Draw:
    """Drawn paths and unused cases with the reason, both by source case id, and quotas that were not met."""

    paths: dict[str, Path]
    unused: dict[str, str]
    shortfall: tuple[Record, ...]


def split(pool: int, required: int, free: int) -> tuple[int, int]:
    """Return the numbers of revision-required and revision-free cases from a pool of cases with the finding.

    A pool too small for both quotas is split in their proportion, with revision-required rounded up.
    """
    if pool >= required + free:
        return required, free
    if required + free == 0:
        return 0, 0
    first = min(required, -(-pool * required // (required + free)))
    return first, min(free, pool - first)


def lesion_free_share(pool: int, drawn: int, quotas: Quotas) -> int:
    """Return how many lesion-free cases to draw from ``pool``, beside ``drawn`` cases with the finding. The quotas'
    proportion limits it; otherwise "no" would nearly always be right for a rare finding.
    """
    present = quotas.revision_required + quotas.revision_free
    allowed = quotas.lesion_free if present == 0 else -(-drawn * quotas.lesion_free // present)
    return min(pool, allowed, quotas.lesion_free)


def draw_paths(
    candidates: Iterable[Candidate], recipe: PerceptionRecipe, seed: int, with_finding: Collection[tuple[str, str]] = ()
) -> Draw:
    """Draw a path for as many cases as the quotas of a perception recipe take, finding by finding.

    ``with_finding`` lists finding and ``image_key`` of radiographs with the finding whose case is not a candidate.
    """
    rows = sorted(candidates, key=lambda row: row.source_case_id)
    paths: dict[str, Path] = {}
    unused: dict[str, str] = {}
    shortfall: list[Record] = []
    quotas = recipe.quotas
    for finding in recipe.findings:
        rng = stream(seed, "paths", finding)
        pool = [row for row in rows if row.finding == finding]
        shuffled = [pool[index] for index in rng.permutation(len(pool))]
        present, absent = _without_duplicates(shuffled, with_finding, unused)
        required, free = split(len(present), quotas.revision_required, quotas.revision_free)
        # Doubtful cases last; then shuffle again, so neither path gets mainly doubtful cases.
        drawn = sorted(present, key=lambda row: row.flagged)[: required + free]
        drawn = [drawn[index] for index in rng.permutation(len(drawn))]
        free_of_lesion = lesion_free_share(len(absent), len(drawn), quotas)
        for row in absent[free_of_lesion : quotas.lesion_free]:
            unused[row.source_case_id] = f"too few cases with {finding} to balance another one without it"
        taken: dict[Path, list[Candidate]] = {
            "lesion_free": absent[:free_of_lesion],
            "revision_free": drawn[required:],
            "revision_required": drawn[:required],
        }
        for path in PATHS:
            paths.update({row.source_case_id: path for row in taken[path]})
            quota = quotas.of(path)
            if len(taken[path]) < quota:
                shortfall.append({"finding": finding, "path": path, "quota": quota, "made": len(taken[path])})
    return Draw(paths, unused, tuple(shortfall))


def _without_duplicates(
    pool: list[Candidate], with_finding: Collection[tuple[str, str]], unused: dict[str, str]
) -> tuple[list[Candidate], list[Candidate]]:
    """Return present and absent cases, each radiograph once; put the others into ``unused`` with the reason."""
    seen: set[str] = set()
    present: list[Candidate] = []
    absent: list[Candidate] = []
    # Present cases first: if a radiograph is on both sides, its mask is the better evidence.
    for row in sorted(pool, key=lambda row: not row.present):
        if row.image_key in seen:
            unused[row.source_case_id] = "the same radiograph is on another path of this finding"
            continue
        if not row.present and (row.finding, row.image_key) in with_finding:
            unused[row.source_case_id] = f"another case lists the same radiograph with {row.finding}"
            continue
        seen.add(row.image_key)
        (present if row.present else absent).append(row)
    return present, absent
