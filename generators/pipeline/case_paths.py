"""The question paths of cases, drawn at random until the quotas are filled.

The same cases and seed give the same paths, in any order of the manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chexqa.contract.items import PATHS, Path
from chexqa.files.jsonio import Record
from chexqa.files.seeds import stream
from chexqa.generators.pipeline.recipe import PerceptionRecipe, Quotas


@dataclass(frozen=True)
class Candidate:
    """A case that can get a question path.

    - ``image_key``: identifies the radiograph's pixels.
    - ``flagged``: True if a little noise in the masks would change a key; flagged cases are drawn last.
    - ``depth``: the depth of the case's edits, as a fraction of the picture's longer side; None without edits.
    - ``size``: the lesion's share of the picture.

    If the recipe lists depths of edits, cases are drawn evenly over ``depth`` and ``size``; otherwise neither is used.
    """

    source_case_id: str
    finding: str
    present: bool
    image_key: str
    flagged: bool = False
    depth: float | None = None
    size: float = 0.0


@dataclass(frozen=True)
class Draw:
    """Result of drawing question paths.

    - ``paths``: the question path of each drawn case, keyed by source id.
    - ``unused``: the reason why a case is not used, keyed by source id.
    - ``shortfall``: the quotas that were not met.
    """

    paths: dict[str, Path]
    unused: dict[str, str]
    shortfall: tuple[Record, ...]


def split(pool: int, required: int, free: int) -> tuple[int, int]:
    """Return how many revision-required and revision-free cases to draw from ``pool`` cases with the finding.

    A pool too small for both quotas is split in their proportion.
    """
    if pool >= required + free:
        return required, free
    if required + free == 0:
        return 0, 0
    first = min(required, -(-pool * required // (required + free)))
    return first, min(free, pool - first)


def take_turns(rows: list[Candidate], depths: Sequence[float]) -> list[Candidate]:
    """Return the cases in an order in which groups take turns: a case of each group, then the next case of each.

    The cases of a group have the same depth of edits and are in the same third (small, medium or large) by lesion size.
    ``depths`` has the recipe's depths of edits; if it is empty, the order is unchanged.
    """
    return rows if not depths else [row for _, _, row in sorted(_ranked(rows, depths), key=lambda one: one[0])]


def evenly_spaced(rows: list[Candidate], depths: Sequence[float]) -> list[Candidate]:
    """Return the cases in an order in which the cases of each group lie evenly spaced.

    Groups and ``depths`` are as in :func:`take_turns`.
    """
    return rows if not depths else [row for _, _, row in sorted(_ranked(rows, depths), key=lambda one: one[1])]


def _ranked(rows: list[Candidate], depths: Sequence[float]) -> list[tuple[int, float, Candidate]]:
    """Return three values for each case: the rank in its group of :func:`take_turns`, the rank as a share, the case."""
    order = sorted(range(len(rows)), key=lambda place: rows[place].size)
    third = {place: 3 * rank // max(len(rows), 1) for rank, place in enumerate(order)}
    cells = [
        (min(depths, key=lambda depth, row=row: abs(depth - (row.depth or 0.0))), third[place])  # type: ignore[misc]
        for place, row in enumerate(rows)
    ]
    counts, seen = Counter(cells), Counter[tuple[float, int]]()
    found = []
    for row, cell in zip(rows, cells, strict=True):
        found.append((seen[cell], (seen[cell] + 0.5) / counts[cell], row))
        seen[cell] += 1
    return found


def lesion_free_share(pool: int, drawn: int, quotas: Quotas) -> int:
    """Return the number of lesion-free cases to draw from ``pool`` cases beside ``drawn`` cases with the finding."""
    present = quotas.revision_required + quotas.revision_free
    allowed = quotas.lesion_free if present == 0 else -(-drawn * quotas.lesion_free // present)
    # In the proportion of the quotas at most: otherwise "no" would nearly always be right for a rare finding.
    return min(pool, allowed, quotas.lesion_free)


def draw_paths(
    candidates: Iterable[Candidate], recipe: PerceptionRecipe, seed: int, with_finding: Collection[tuple[str, str]] = ()
) -> Draw:
    """Assign question paths to cases at random, up to the recipe's quotas of each finding.

    ``with_finding`` has pairs ``(finding, image_key)`` of cases that have the finding but are no candidates. Their
    radiographs are never used as lesion-free for this finding.
    """
    rows = sorted(candidates, key=lambda row: row.source_case_id)
    paths: dict[str, Path] = {}
    unused: dict[str, str] = {}
    shortfall: list[Record] = []
    quotas = recipe.quotas
    with_lesion: dict[str, list[Candidate]] = {}
    without: dict[str, list[Candidate]] = {}
    for finding in recipe.findings:
        rng = stream(seed, "paths", finding)
        pool = [row for row in rows if row.finding == finding]
        shuffled = [pool[index] for index in rng.permutation(len(pool))]
        present, absent = _without_duplicates(shuffled, with_finding, unused)
        required, free = split(len(present), quotas.revision_required, quotas.revision_free)
        # Doubtful cases last; then shuffle again, so neither path gets mainly doubtful cases.
        present = take_turns(present, recipe.depths)
        drawn = sorted(present, key=lambda row: row.flagged)[: required + free]
        with_lesion[finding] = evenly_spaced([drawn[index] for index in rng.permutation(len(drawn))], recipe.depths)
        without[finding] = absent
    wanted = {name: lesion_free_share(len(rows), len(with_lesion[name]), quotas) for name, rows in without.items()}
    used = [row.image_key for drawn in with_lesion.values() for row in drawn]
    free_of_lesion = draw_lesion_free(without, wanted, used)
    for finding, drawn in with_lesion.items():
        chosen = free_of_lesion[finding]
        left = [row for row in without[finding] if row not in chosen]
        for row in left[: max(0, quotas.lesion_free - len(chosen))]:
            unused[row.source_case_id] = f"too few cases with {finding} to balance another case without it"
        required, _ = split(len(drawn), quotas.revision_required, quotas.revision_free)
        taken: dict[Path, list[Candidate]] = {
            "lesion_free": chosen,
            "revision_free": drawn[required:],
            "revision_required": drawn[:required],
        }
        for path in PATHS:
            paths.update({row.source_case_id: path for row in taken[path]})
            quota = quotas.of(path)
            if len(taken[path]) < quota:
                shortfall.append({"finding": finding, "path": path, "quota": quota, "made": len(taken[path])})
    return Draw(paths, unused, tuple(shortfall))


def draw_again(cases: Mapping[str, tuple[str, Path]], seed: int) -> dict[str, Path]:
    """Exchange the question paths of cases at random within each finding; return the new paths, keyed by source id.

    ``cases`` has each case's finding and former path, keyed by source id. A case may get its former path again.
    """
    paths: dict[str, Path] = {}
    for finding in sorted({finding for finding, _ in cases.values()}):
        names = sorted(name for name, (other, _) in cases.items() if other == finding)
        order = stream(seed, "fresh paths", finding).permutation(len(names))
        paths.update({name: cases[names[place]][1] for name, place in zip(names, order, strict=True)})
    return paths


def draw_lesion_free(
    pools: Mapping[str, Sequence[Candidate]], wanted: Mapping[str, int], used: Iterable[str] = ()
) -> dict[str, list[Candidate]]:
    """Draw the ``wanted`` number of lesion-free cases for each finding, on as many different radiographs as possible.

    - ``pools``: each finding's cases in the order of preference.
    - ``used``: the ``image_key`` of radiographs that a case with a finding uses already.
    """
    serves = Counter(used)
    rows = {name: {row.image_key: row for row in pool} for name, pool in pools.items()}
    holder: dict[str, str] = {}  # the finding that a radiograph is used for

    def place(finding: str, asked: set[str]) -> bool:
        """Give the finding one more radiograph; return True if a radiograph was found.

        The radiograph is unused, or is taken from another finding, which then gets a different one. ``asked`` collects
        the findings that have already searched for a radiograph; no finding searches twice.
        """
        asked.add(finding)
        free = next((key for key in rows[finding] if not serves[key] and key not in holder), None)
        if free is not None:
            holder[free] = finding
            return True
        for key in rows[finding]:
            other = holder.get(key, finding)
            if other not in asked and place(other, asked):
                holder[key] = finding
                return True
        return False

    turns = sorted((turn, place_in_order, name) for place_in_order, name in enumerate(pools)
                   for turn in range(wanted[name]))  # fmt: skip
    exhausted: list[str] = []
    for _, _, name in turns:
        if name in exhausted or not place(name, set()):
            exhausted.append(name)
    found = {name: [row for key, row in rows[name].items() if holder.get(key) == name] for name in pools}
    serves.update(holder.keys())
    for name in exhausted:
        left = [row for row in pools[name] if row not in found[name]]
        row = min(left, key=lambda row: serves[row.image_key])
        found[name].append(row)
        serves[row.image_key] += 1
    return found


def _without_duplicates(
    pool: list[Candidate], with_finding: Collection[tuple[str, str]], unused: dict[str, str]
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the cases with the finding and those without it, each radiograph once.

    Cases that are left out are added to ``unused`` with the reason.
    """
    seen: set[str] = set()
    present: list[Candidate] = []
    absent: list[Candidate] = []
    # Present cases first: if cases with and without the finding share a radiograph, the mask is the better evidence.
    for row in sorted(pool, key=lambda row: not row.present):
        if row.image_key in seen:
            unused[row.source_case_id] = "the same radiograph is used on another path of this finding"
            continue
        if not row.present and (row.finding, row.image_key) in with_finding:
            unused[row.source_case_id] = f"another case lists the same radiograph with {row.finding}"
            continue
        seen.add(row.image_key)
        (present if row.present else absent).append(row)
    return present, absent
