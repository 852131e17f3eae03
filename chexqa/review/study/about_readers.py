"""The readers of a study: what they say about experience, display and conditions, and numbers on their answers.

``readers.jsonl``, beside the verdicts, has what readers say about themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexqa.contract.benchmark import Benchmark
from chexqa.files.jsonio import Record, read_jsonl, write_jsonl
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ABOUT_QUESTIONS, check_name
from chexqa.review.resolve.coefficients import Estimate
from chexqa.review.resolve.validity import AgainstKey, validity
from chexqa.review.study.self_agreement import WithHimself, with_themselves

FILE = "readers.jsonl"
Said = dict[tuple[str, str], Record]


@dataclass(frozen=True)
class ReaderFigures:
    """Numbers of one reader, or of all readers together (``reviewer`` is ``None``).

    - ``key``: the agreement of answers with the key.
    - ``himself``: the agreement between the reader's first and second answers to repeated items.
    - ``trained``: the number of answered training items.
    - ``said``: the reader's answers about experience, display and conditions.
    """

    reviewer: str | None
    key: AgainstKey | None
    himself: WithHimself | None
    trained: int
    said: Mapping[str, str]

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form."""
        key, own = self.key, self.himself
        return {
            "reviewer": self.reviewer,
            "answers": key.answers if key else 0,
            "patients": key.patients if key else 0,
            "right": _plain(key.share if key else None),
            "repeated": own.items if own else 0,
            "same": _plain(own.same if own else None),
            "kappa": _plain(own.kappa if own else None),
            "training": self.trained,
            "said": dict(self.said),
        }


def _plain(one: Estimate | None) -> dict[str, float | None] | None:
    return None if one is None else vars(one)


def read_about(folder: Path) -> Said:
    """Return the records of ``readers.jsonl`` in a folder, keyed by batch and reader; may be empty.

    A record has a reader's answers to the questions on the workbook's first tab.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    return {
        (record["batch"], check_name(record["reviewer"], f"{path}, line {line}")): record
        for line, record in read_jsonl(path, "reader", folder)
    }


def keep_about(folder: Path, new: Sequence[Record]) -> Said:
    """Add the records ``new`` to ``readers.jsonl`` in ``folder``, and return all records of this file.

    A newer answer to a question replaces an older one.
    """
    known = read_about(folder)
    for record in new:
        key = record["batch"], record["reviewer"]
        before = known.get(key)
        if before is None or before["said"] != record["said"]:
            said = {**(before["said"] if before else {}), **record["said"]}
            known[key] = {**record, "said": said}
    if new:
        write_jsonl(folder / FILE, (known[key] for key in sorted(known)), "reader")
    return known


def not_said(statements: Said, batch: str, readers: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each reader, the unanswered questions about the reader, such as those on experience and display.

    Readers who answered all these questions are left out. ``statements`` is the result of :func:`read_about`.
    """
    left = {who: [one for one in ABOUT_QUESTIONS if one not in statements.get((batch, who), {}).get("said", {})]
            for who in readers}  # fmt: skip
    return {who: questions for who, questions in left.items() if questions}


def figures(bench: Benchmark, verdicts: Iterable[Verdict], statements: Said) -> list[ReaderFigures]:
    """Return the numbers of a study: of all readers together, then of each reader; empty without answers.

    ``statements`` is the result of :func:`read_about`.
    """
    rows = [verdict for verdict in verdicts if verdict.kind in ("readers", "repeat", "training")]
    against = {group.reviewer: group for group in validity(bench, rows).groups if not (group.kind or group.finding)}
    himself = {one.reviewer: one for one in with_themselves(bench, rows)}
    words = {reviewer: record["said"] for (_, reviewer), record in sorted(statements.items())}
    trained = [row.reviewer for row in rows if row.kind == "training" and row.answer is not None]
    people: list[str | None] = [None, *sorted({row.reviewer for row in rows})]
    return [
        ReaderFigures(
            who, against.get(who), himself.get(who), len(trained) if who is None else trained.count(who),
            words.get(who, {}) if who else {},
        )
        for who in (people if len(people) > 1 else ())
    ]  # fmt: skip
