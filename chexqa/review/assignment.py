"""Assignment of cases to reviewers, and the rounds in which blind questions are asked.

All cases of a patient go to the same reviewers. Each reviewer gets about the same number of cases with each finding
and question path. The order of cases is random, with findings, question paths and flags spread evenly.

Blind questions are asked in five rounds, because the picture of one question can reveal the answer to another:

1. whether the finding is present,
2. attributes and the grid, on the plain radiograph,
3. one outline,
4. the points on this outline,
5. the choice among four outlines.

Each round is a separate sheet or page, with its questions in random order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from chexqa.contract.items import Item
from chexqa.files.errors import InputError
from chexqa.files.jsonio import parse_json, read_text
from chexqa.files.seeds import stream

ROUNDS = ("presence", "attributes", "outline", "points", "outlines")
Row = TypeVar("Row")
# Paths in a stratum, of cases without the finding and of cases without a question on its presence.
_ABSENT, _NO_PATH = "lesion_free", "None"


@dataclass(frozen=True)
class Work:
    """Case to assign to reviewers.

    - ``stratum``: finding and question path.
    - ``size``: the number of the case's rows in a sheet.
    - ``source``: the case's id in the manifest that the benchmark was made from, if known.
    """

    case_id: str
    patient: str
    stratum: tuple[str, ...]
    flagged: bool
    size: int
    source: str = ""


@dataclass(frozen=True)
class Share:
    """Cases of one reviewer, in the order of work.

    - ``shared``: the cases that other reviewers also get.
    - ``decoys``: cases without the finding, mixed with the shared cases in the blind questions
      (:func:`with_decoys`).
    """

    reviewer: str
    cases: tuple[str, ...]
    shared: tuple[str, ...]
    decoys: tuple[str, ...] = ()

    @property
    def blind(self) -> tuple[str, ...]:
        """The cases of the blind questions: ``shared``, with ``decoys`` spread among them."""
        lists = (self.shared, self.decoys)
        placed = sorted(((rank + 0.5) / len(ids), case) for ids in lists for rank, case in enumerate(ids))
        return tuple(case for _, case in placed)


def round_of(item: Item) -> str:
    """Return the round in which reviewers see an item; items with drawn outlines or points come in later rounds."""
    if any(option.image for option in item.options):
        return "outlines"
    return {1: "presence", 2: "outline", 3: "points"}.get(item.stage or 0, "attributes")


def shuffled(rows: Sequence[Row], *seed: str) -> list[Row]:
    """Return the rows in an order that depends only on their number and ``seed``."""
    order = stream(0, "review rounds", *seed).permutation(len(rows))
    return [rows[index] for index in order]


def spread(works: Iterable[Work], seed: int, purpose: str) -> list[Work]:
    """Return the cases in a random order, in which strata and flags are spread evenly from the first to the last case.

    The same cases, ``seed`` and ``purpose`` give the same order.
    """
    groups: dict[tuple[object, ...], list[Work]] = {}
    for work in sorted(works, key=lambda work: work.case_id):
        groups.setdefault((work.stratum, work.flagged), []).append(work)
    placed: list[tuple[float, str, Work]] = []
    for name, group in sorted(groups.items()):
        rng = stream(seed, "review", purpose, *name)
        for rank, index in enumerate(rng.permutation(len(group))):
            work = group[index]
            placed.append(((rank + rng.random()) / len(group), work.case_id, work))
    return [work for _, _, work in sorted(placed, key=lambda entry: entry[:2])]


def read_cases(path: Path) -> list[tuple[str, ...]]:
    """Return the ids of the cases that a file lists, as a tuple of one or two ids for each line.

    A line is a case's id, or a JSON object with the field ``case_id`` (the id in the benchmark), the field
    ``source_case_id`` (the id in the manifest), or both. An example is the file ``mask_review.jsonl`` of a benchmark's
    new version.
    """
    found: list[tuple[str, ...]] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        text = line.strip()
        if text.startswith("{"):
            record = parse_json(text, f"{path}, line {number}")
            ids = tuple(str(record[name]) for name in ("case_id", "source_case_id") if record.get(name))
            if not ids:
                raise InputError(f"{path}, line {number}: has no 'case_id'; give a case id in every line.")
            found.append(ids)
        elif text:
            found.append((text,))
    if not found:
        raise InputError(f"{path}: names no case; give one case id per line.")
    return found


def among(works: Sequence[Work], wanted: Iterable[tuple[str, ...]], where: str) -> list[Work]:
    """Return the cases of ``works`` that ``wanted`` names.

    Each entry of ``wanted`` names one case, by its id in the benchmark, its id in the manifest, or both. Raises
    ``InputError``, whose message begins with ``where``, if an entry names no case of ``works``.
    """
    by_id = {work.source: work for work in works if work.source} | {work.case_id: work for work in works}
    named: set[str] = set()
    for ids in wanted:
        work = next((by_id[one] for one in ids if one in by_id), None)
        if work is None:
            raise InputError(f"{where}: case '{ids[0]}' is not among the cases to export; correct its id.")
        named.add(work.case_id)
    return [work for work in works if work.case_id in named]


def deal(works: Sequence[Work], reviewers: Sequence[str], overlap: float, readers: int, seed: int) -> list[Share]:
    """Assign every case to one reviewer, or to ``readers`` reviewers if the case is shared.

    All cases of a patient go to the same reviewers. The shared cases are those of a stratified random sample of
    patients. The sample is just large enough to contain the share ``overlap`` of all cases.
    """
    shared = _shared_patients(works, overlap, seed)
    patients: dict[str, list[Work]] = {}
    for work in spread(works, seed, "order"):
        patients.setdefault(work.patient, []).append(work)
    loads = _Loads(reviewers)
    # Shared patients come first: they are balanced among themselves, and the other patients compensate differences.
    for patient in sorted(patients, key=lambda patient: patient not in shared):
        loads.give(patient, patients[patient], readers if patient in shared else 1)
    return [
        Share(
            reviewer,
            tuple(work.case_id for patient, cases in patients.items() if patient in held for work in cases),
            tuple(work.case_id for patient, cases in patients.items() if patient in held & shared for work in cases),
        )
        for reviewer, held in zip(reviewers, loads.held, strict=True)
    ]


def with_decoys(shares: Iterable[Share], works: Sequence[Work], seed: int) -> list[Share]:
    """Add decoys to each reviewer's blind questions, and return the new shares.

    Decoys are cases without the finding; without them, "yes" would be the better guess. For each finding, decoys are
    added until the finding is present in about half of the blind cases, or until no further decoys exist. Decoys are
    taken first from the reviewer's own cases, then from other reviewers' cases.
    """
    by_id = {work.case_id: work for work in works}
    absent = [work for work in spread(works, seed, "decoys") if work.stratum[1] == _ABSENT]

    def chosen(share: Share) -> list[str]:
        wanted: Counter[str] = Counter()
        for case in share.shared:
            finding, path = by_id[case].stratum
            wanted[finding] += -1 if path == _ABSENT else int(path != _NO_PATH)
        own = set(share.cases)
        free = [work for work in absent if work.case_id not in share.shared]
        found = []
        for work in sorted(free, key=lambda work: work.case_id not in own):
            if wanted[work.stratum[0]] > 0:
                wanted[work.stratum[0]] -= 1
                found.append(work.case_id)
        return found

    return [replace(share, decoys=tuple(chosen(share))) if share.shared else share for share in shares]


def probabilities(works: Sequence[Work], overlap: float, seed: int, sampled: float = 1.0) -> dict[str, float]:
    """Return each case's probability of being shared (given to several reviewers), keyed by case id.

    Cases are drawn one by one in a random order until enough cases are shared. All cases of a drawn case's patient are
    shared. The probability is ``sampled * (1 - (1 - t) ** k)``:

    - ``sampled``: the probability that a case was chosen for ``works``.
    - ``t``: the number of drawn cases, divided by the number of all cases.
    - ``k``: the number of the patient's cases.
    """
    _, passed = _shared_order(works, overlap, seed)
    share, sizes = passed / len(works) if works else 0.0, Counter(work.patient for work in works)
    return {work.case_id: sampled * (1 - (1 - share) ** sizes[work.patient]) for work in works}


def _shared_patients(works: Sequence[Work], overlap: float, seed: int) -> set[str]:
    return _shared_order(works, overlap, seed)[0]


def _shared_order(works: Sequence[Work], overlap: float, seed: int) -> tuple[set[str], int]:
    """Return the shared patients, and how many cases of the random order had to come up to find them."""
    sizes = Counter(work.patient for work in works)
    wanted, count, passed = round(overlap * len(works)), 0, 0
    shared: set[str] = set()
    for work in spread(works, seed, "overlap"):
        if count >= wanted:
            break
        passed += 1
        if work.patient not in shared:
            shared.add(work.patient)
            count += sizes[work.patient]
    return shared, passed


class _Loads:
    """Record of the patients and cases that each reviewer has been given so far."""

    def __init__(self, reviewers: Sequence[str]) -> None:
        self.held: list[set[str]] = [set() for _ in reviewers]
        self._strata: list[Counter[tuple[str, ...]]] = [Counter() for _ in reviewers]
        self._rows = [0] * len(reviewers)
        self._pairs: Counter[frozenset[int]] = Counter()

    def give(self, patient: str, cases: list[Work], copies: int) -> None:
        """Give all cases of a patient to ``copies`` reviewers."""
        takers: list[int] = []
        for _ in range(copies):
            taker = min(set(range(len(self.held))) - set(takers), key=lambda who: self._reluctance(who, cases, takers))
            takers.append(taker)
        for taker in takers:
            self.held[taker].add(patient)
            self._strata[taker].update(case.stratum for case in cases)
            self._rows[taker] += sum(case.size for case in cases)
        self._pairs.update(frozenset((one, other)) for one in takers for other in takers if one < other)

    def _reluctance(self, who: int, cases: list[Work], takers: list[int]) -> tuple[int, int, int, int]:
        """Return a sort key for a reviewer; the reviewer with the smallest key gets the patient.

        The key has four numbers: the reviewer's cases in the patient's strata, how often the reviewer already shares a
        patient with the reviewers in ``takers``, the reviewer's rows, and the reviewer's index.
        """
        alike = sum(self._strata[who][case.stratum] for case in cases)
        paired = sum(self._pairs[frozenset((who, taker))] for taker in takers)
        return alike, paired, self._rows[who], who
