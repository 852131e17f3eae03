"""Progress of a review: for each sheet of a batch, the number of judged rows by verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from chexqa.review.collect.verdicts import Batch, Verdict
from chexqa.review.columns import VERDICTS

ANSWERED, CANNOT_TELL = "answered", "cannot tell"
WORDS = (*VERDICTS, ANSWERED, CANNOT_TELL)


@dataclass(frozen=True)
class SheetStatus:
    """Progress of one reviewer's sheet.

    ``said`` has the number of finished rows for each verdict, keyed by its word; a row that asks for an answer counts
    as "answered" or "cannot tell". ``minutes`` is the time spent on the rows, if it is known. ``newest`` is the time of
    the last import, if there was one.
    """

    sheet: str
    reviewer: str
    kind: str
    rows: int
    done: int
    said: dict[str, int]
    comments: int
    minutes: float | None
    newest: str | None

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def status(batch: Batch, verdicts: Iterable[Verdict]) -> list[SheetStatus]:
    """Return the progress of each sheet of a batch, in the batch's order, from the verdicts in the store."""
    said: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.batch == batch.name:
            said.setdefault(verdict.sheet, []).append(verdict)
    found = []
    for dealt in batch.sheets.values():
        rows = [verdict for verdict in said.get(dealt.name, []) if verdict.row in dealt.rows]
        judged = [verdict for verdict in rows if verdict.is_judged]
        words = Counter(_word(verdict) for verdict in judged)
        seconds = [verdict.seconds for verdict in rows if verdict.seconds is not None]
        found.append(
            SheetStatus(
                dealt.name, dealt.reviewer, dealt.kind, len(dealt.rows), len(judged),
                {word: words[word] for word in WORDS if words[word]},
                sum(verdict.comment is not None for verdict in rows), round(sum(seconds) / 60, 1) if seconds else None,
                max((verdict.imported for verdict in rows), default=None),
            )
        )  # fmt: skip
    return found


def _word(verdict: Verdict) -> str:
    if verdict.asks_answer:
        return CANNOT_TELL if verdict.answer is None else ANSWERED
    return str(verdict.verdict)
