"""Design of a reader study: training cases, repeated items, information for readers, and cases with known keys.

A reader who saw a case's key in a proposal, an adjudication or a review of masks is not asked about the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chexqa.contract.items import Item
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_json, read_jsonl
from chexqa.files.seeds import stream
from chexqa.review import columns
from chexqa.review.assignment import Work, spread

RULE = (
    "answer yes if you would mention the finding in a report, however faint it is, and otherwise no. Do not "
    "leave a question empty because you are unsure."
)
ABSENT = "lesion_free"
_SHOWS_KEY = ("items", "adjudication", "masks", "training")
_STORE, _LINES = "verdicts.jsonl", ".jsonl"


@dataclass(frozen=True)
class StudyWish:
    """Options of a reader study.

    - ``training``: the number of cases for training, which are not cases of the study.
    - ``repeat``: the share of items that are asked again.
    - ``rule``: what readers do when they are uncertain.
    - ``earlier``: the files or folders of earlier reviews, as in :func:`keys_seen`.
    - ``leave_out``: True to leave out a case if a reader saw its key; False to raise ``InputError``.
    """

    training: int = 5
    repeat: float = 0.1
    rule: str = RULE
    earlier: tuple[Path, ...] = ()
    leave_out: bool = False


@dataclass(frozen=True)
class Design:
    """Training and repeated items of a reader study, and the numbers of its cases.

    - ``training``: the ids of the training cases.
    - ``repeats``: the ids of the items that are asked again, keyed by reader.
    - ``cases``: the number of the study's cases, without the training cases.
    - ``present``: the number of these cases that show the finding asked about.
    """

    rule: str
    training: tuple[str, ...]
    repeats: Mapping[str, frozenset[str]] = field(default_factory=dict)
    present: int = 0
    cases: int = 0
    repeat: float = 0.0

    def to_record(self) -> Record:
        """Return the JSON form for the batch file."""
        return {"present": self.present, "cases": self.cases, "rule": self.rule, "training": list(self.training),
                "repeat": self.repeat}  # fmt: skip

    def told(self) -> tuple[str, ...]:
        """Return the information on the study for the first tab."""
        return (
            f"How common the findings are: {self.present:,} of the {self.cases:,} cases of this study show the "
            f"finding that is asked about; the other cases are normal or show other findings.",
            f"When you are uncertain: {self.rule}",
        )


def check_study(wish: StudyWish) -> None:
    """Raise ``InputError`` for options that cannot be fulfilled."""
    if wish.training < 0:
        raise InputError(f"--training {wish.training}: give a number of cases, at least 0.")
    if not 0 <= wish.repeat <= 1:
        raise InputError(f"--repeat {wish.repeat:g}: give a share of the items from 0 (none) to 1.")
    if not wish.rule.strip():
        raise InputError("--rule: is empty; say what readers do when they are uncertain.")


def keys_seen(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return, for each reader (name in small letters), the ids of the cases whose key the reader saw earlier.

    ``paths`` are batch files, files of verdicts, or folders of earlier reviews. If a sheet in a batch file shows the
    key, the sheet's reader is taken to have seen the key of every row. Raise ``InputError`` for a path without one of
    these files.
    """
    found: dict[str, set[str]] = {}
    for path in paths:
        files = [path]
        if path.is_dir():
            files = [path / name for name in (columns.BATCH_FILE, _STORE) if (path / name).exists()]
        if not files or not all(file.exists() for file in files):
            raise InputError(
                f"{path}: contains neither {columns.BATCH_FILE} nor {_STORE}; name the folder of an earlier review."
            )
        for file in files:
            for reviewer, row in _rows(file):
                found.setdefault(reviewer.casefold(), set()).add(case_of(row))
    return found


def case_of(row_id: str) -> str:
    """Return the case of a row, from the row's id."""
    return row_id[2:] if row_id.startswith("m-") else row_id[2:].rpartition("/")[0]


def _rows(file: Path) -> Iterable[tuple[str, str]]:
    """Yield the reader and the id of each row that shows a key."""
    if file.suffix == _LINES:
        for _, record in read_jsonl(file, "verdict"):
            if record["kind"] in _SHOWS_KEY:
                yield record["reviewer"], record["row"]
        return
    for sheet in read_json(file, "review")["sheets"]:
        if sheet["kind"] in _SHOWS_KEY:
            for row in sheet["rows"]:
                yield sheet["reviewer"], row


def without_seen(works: Sequence[Work], readers: Sequence[str], wish: StudyWish) -> list[Work]:
    """Return the cases whose key no reader of the study saw in an earlier review.

    Cases whose key a reader saw are left out if ``wish.leave_out`` is True; if it is False, they raise ``InputError``.
    """
    seen = keys_seen(wish.earlier)
    known = {work.case_id for work in works}
    own = {reader: seen.get(reader.casefold(), set()) & known for reader in readers}
    if wish.leave_out:
        lost = set().union(*own.values())
        return [work for work in works if work.case_id not in lost]
    for reader, cases in own.items():
        if cases:
            raise InputError(
                f"--readers: {reader} saw the key of {len(cases):,} of these {len(known):,} cases in an earlier "
                "review; leave this reader out, or leave out the cases with --leave-out-seen."
            )
    return list(works)


def design_study(
    wish: StudyWish, everything: Sequence[Work], chosen: Sequence[Work], dealt: Mapping[str, Sequence[Item]], seed: int
) -> Design:
    """Return the design of a study on the cases ``chosen`` out of ``everything``.

    ``dealt`` has each reader's items. Training cases are of patients who are not in the study.
    """
    own = {work.case_id for work in chosen}
    others = [work for work in everything if work.case_id not in own]
    patients = {work.patient for work in chosen}
    free = [work for work in others if work.patient not in patients]
    if len(free) < wish.training:
        raise InputError(
            f"--training {wish.training}: only {len(free)} cases are of patients outside the sample; give a smaller "
            "--sample or a smaller --training."
        )
    # At random, evenly over findings and paths.
    training = tuple(work.case_id for work in spread(free, seed, "training")[: wish.training])
    repeats = {reader: _drawn(items, wish.repeat, seed, reader) for reader, items in dealt.items()}
    present = sum(work.stratum[1] != ABSENT for work in chosen)
    return Design(wish.rule, training, repeats, present, len(chosen), wish.repeat)


def _drawn(items: Iterable[Item], share: float, seed: int, reader: str) -> frozenset[str]:
    kinds: dict[str, list[str]] = {}
    for item in items:
        kinds.setdefault(item.kind, []).append(item.item_id)
    drawn: set[str] = set()
    for kind, ids in kinds.items() if share else ():
        # At least one item of each kind of question.
        count = max(1, round(share * len(ids)))
        drawn |= {str(one) for one in stream(seed, "repeat", reader, kind).choice(sorted(ids), count, replace=False)}
    return frozenset(drawn)
