"""What becomes of an item, from what its reviewers said of it.

The rules, in one place:

- A reviewer's verdict counts once: the one on the proposal, else the answer given blind, which agrees with the key or
  does not. Blind answers alone dispute an item; they overrule nothing.
- "Unsure" takes no side. All others saying the same decide; where they do not, the item is contested until somebody
  adjudicates it.
- An attribute's answer is overruled when two readers (the adjudicator is one) give the same other answer.
- "Fix" anywhere else, or on an attribute because the contour is wrong, doubts the mask, which goes back to mask review.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chexqa.contract.items import CONTESTED, Answer, Item, is_right
from chexqa.files.jsonio import Record
from chexqa.review.collect.parse_rows import takes_correction
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT, FIX, REJECT, UNSURE

ACCEPTED, CORRECTED, REJECTED, SENT_BACK = "accepted", "corrected", "rejected", "sent back"
UNREVIEWED = "not reviewed"
STATUSES = (ACCEPTED, CORRECTED, REJECTED, SENT_BACK, CONTESTED, UNREVIEWED)
READERS_TO_OVERRULE = 2


@dataclass(frozen=True)
class Vote:
    """One reviewer on one item: the verdict that counts, and the answer given before the proposal was seen."""

    reviewer: str
    verdict: str
    answer: tuple[int, ...] | None
    reason: str | None
    blind_answer: tuple[int, ...] | None
    seen: bool
    rules: bool = False

    def to_record(self, name: str) -> Record:
        """The JSON form of a benchmark's key, with ``name`` in the reviewer's place."""
        answer, blind = (None if value is None else list(value) for value in (self.answer, self.blind_answer))
        return {
            "reviewer": name, "verdict": self.verdict, "answer": answer, "reason": self.reason, "blind_answer": blind,
        }  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """What becomes of an item and why; ``answer`` is the new one where it is corrected."""

    status: str
    why: str
    votes: tuple[Vote, ...] = ()
    answer: tuple[int, ...] | None = None


def votes_on(item: Item, key: Answer, verdicts: Iterable[Verdict]) -> tuple[Vote, ...]:
    """Each reviewer's vote, by name, those who adjudicate last; answers of a reader study are no votes."""
    latest: dict[tuple[bool, str], dict[str, Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.imported, verdict.batch)):
        if verdict.is_judged and verdict.kind != "readers":
            rules = verdict.kind == "adjudication"
            latest.setdefault((rules, verdict.reviewer), {})[verdict.kind] = verdict
    votes = []
    for (rules, reviewer), said in sorted(latest.items()):
        blind, shown = said.get("blind"), said.get("adjudication" if rules else "items")
        blind_answer = blind.answer if blind else None
        if shown is not None and shown.verdict is not None:
            votes.append(Vote(reviewer, shown.verdict, shown.answer, shown.reason, blind_answer, True, rules))
        elif blind is not None:
            word = UNSURE if blind.answer is None else ACCEPT if is_right(item, key, blind.answer) else FIX
            votes.append(Vote(reviewer, word, blind.answer, blind.reason, blind_answer, False))
    return tuple(votes)


def decide(item: Item, key: Answer, verdicts: Iterable[Verdict]) -> Decision:
    """Apply the rules to one item."""
    votes = votes_on(item, key, verdicts)
    if not votes:
        return Decision(UNREVIEWED, "nobody has judged it")
    rulings = [vote for vote in votes if vote.rules]
    counted = [vote for vote in rulings or votes if vote.verdict != UNSURE]
    if not counted:
        return Decision(CONTESTED, "the adjudicator is unsure" if rulings else "nobody is sure of it", votes)
    words = Counter(vote.verdict for vote in counted)
    if len(words) > 1:
        said = ", ".join(f"{words[word]} {word}" for word in (ACCEPT, FIX, REJECT) if words[word])
        return Decision(CONTESTED, f"{'adjudicators' if rulings else 'reviewers'} disagree: {said}", votes)
    word = counted[0].verdict
    if word == FIX and not any(vote.seen for vote in counted):
        return Decision(CONTESTED, "a blind answer differs, and nobody has judged the proposal yet", votes)
    if word == FIX:
        return _fixed(item, counted, votes)
    if word == ACCEPT:
        return Decision(ACCEPTED, "by adjudication" if rulings else "nobody objects", votes)
    return Decision(REJECTED, _reasons(counted) or "no reason given", votes)


def _fixed(item: Item, counted: Sequence[Vote], votes: tuple[Vote, ...]) -> Decision:
    """Everyone who decides says "fix"."""
    if not takes_correction(item) or all(vote.answer is None for vote in counted):
        return Decision(SENT_BACK, f"its mask or label is doubted{_because(counted)}", votes)
    answers = {vote.answer for vote in counted}
    if len(answers) > 1:
        return Decision(CONTESTED, "its correctors give different answers", votes)
    answer = answers.pop()
    readers = {vote.reviewer for vote in votes if vote.verdict == FIX and vote.answer == answer}
    if len(readers) < READERS_TO_OVERRULE:
        return Decision(CONTESTED, "one reader alone gives another answer, and it takes two", votes)
    return Decision(CORRECTED, f"{len(readers)} readers give the same other answer{_because(counted)}", votes, answer)


def _because(votes: Iterable[Vote]) -> str:
    reasons = _reasons(votes)
    return f" ({reasons})" if reasons else ""


def _reasons(votes: Iterable[Vote]) -> str:
    return ", ".join(sorted({vote.reason for vote in votes if vote.reason}))
