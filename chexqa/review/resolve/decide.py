"""Decision on an item, from the votes of its reviewers and adjudicators.

A vote is the verdict on the proposal: "accept", "reject" or "fix". A reviewer who has only given a blind answer votes
"accept" if the answer is right by the key, and otherwise "fix". A blind answer to a question without a right answer (a
grid on which no cell is a hit) is no vote. Votes "unsure" do not count. If an adjudicator has voted, only adjudicators'
votes count. The first line that fits gives the decision:

- Nobody has voted: not reviewed.
- Different votes, or only "unsure": contested.
- Only "accept": accepted.
- Only "reject": rejected.
- Only "fix", all from blind answers: contested.
- Only "fix", and the question is of stages 1 to 3 or nobody gave a corrected answer: sent back to mask review.
- Only "fix", with different corrected answers: contested.
- Only "fix", with one corrected answer: corrected if at least two persons give it, otherwise contested. If an
  adjudicator voted, reviewers who gave the same answer are counted among these persons.

A decision becomes contested after all in two cases:

- It is "accepted", no adjudicator has voted, and two reviewers first gave a blind answer that differs from the key.
- It is "rejected" or "sent back" by fewer than two persons (the number can be set), unless one of them is an
  adjudicator who has not reviewed the item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chexqa.contract.items import CONTESTED, Answer, Item, is_right
from chexqa.files.jsonio import Record
from chexqa.review.collect.parse_rows import takes_correction
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT, FIX, REJECT, STUDY, UNSURE

ACCEPTED, CORRECTED, REJECTED, SENT_BACK = "accepted", "corrected", "rejected", "sent back"
UNREVIEWED = "not reviewed"
STATUSES = (ACCEPTED, CORRECTED, REJECTED, SENT_BACK, CONTESTED, UNREVIEWED)
READERS_TO_OVERRULE = 2
READERS_TO_REMOVE = 2


@dataclass(frozen=True)
class Vote:
    """One reviewer's vote on an item.

    - ``verdict``, ``answer``, ``reason``: the verdict that counts, its corrected answer and its reason.
    - ``blind_answer``: the answer given before the reviewer saw the proposal.
    - ``seen``: True if the verdict is on the proposal; False if it follows from the blind answer.
    - ``rules``: True for an adjudicator.
    """

    reviewer: str
    verdict: str
    answer: tuple[int, ...] | None
    reason: str | None
    blind_answer: tuple[int, ...] | None
    seen: bool
    rules: bool = False

    def to_record(self, name: str) -> Record:
        """Return the vote as JSON, as a benchmark's key stores it, with ``name`` in place of the reviewer's name."""
        answer, blind = (None if value is None else list(value) for value in (self.answer, self.blind_answer))
        return {
            "reviewer": name, "verdict": self.verdict, "answer": answer, "reason": self.reason, "blind_answer": blind,
        }  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """Status of an item and the reason for it; ``answer`` is the new answer of a corrected item."""

    status: str
    why: str
    votes: tuple[Vote, ...] = ()
    answer: tuple[int, ...] | None = None


def votes_on(item: Item, key: Answer, verdicts: Iterable[Verdict]) -> tuple[Vote, ...]:
    """Return the votes on an item, one for each reviewer, adjudicators last."""
    latest: dict[tuple[bool, str], dict[str, Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.imported, verdict.batch)):
        # Answers of a reader study and verdicts on proposals that are wrong on purpose are no votes.
        if verdict.is_judged and verdict.counts and verdict.kind not in STUDY:
            rules = verdict.kind == "adjudication"
            latest.setdefault((rules, verdict.reviewer), {})[verdict.kind] = verdict
    votes = []
    for (rules, reviewer), said in sorted(latest.items()):
        blind, shown = said.get("blind"), said.get("adjudication" if rules else "items")
        blind_answer = blind.answer if blind else None
        if shown is not None and shown.verdict is not None:
            votes.append(Vote(reviewer, shown.verdict, shown.answer, shown.reason, blind_answer, True, rules))
        elif blind is not None and item.form.has_right_answer(key.answer):
            word = UNSURE if blind.answer is None else ACCEPT if is_right(item, key, blind.answer) else FIX
            votes.append(Vote(reviewer, word, blind.answer, blind.reason, blind_answer, False))
    return tuple(votes)


def against_key(item: Item, key: Answer, answers: Iterable[tuple[int, ...]]) -> bool:
    """Return True if at least two of the answers are wrong by the key.

    If several options can be right, at least two answers must be wrong about the same option. If no answer can be
    right, the result is False.
    """
    if not item.form.has_right_answer(key.answer):
        return False
    if item.form.takes_several:
        wrong = Counter(number for answer in answers for number in {*answer} ^ {*key.answer})
        return any(count >= 2 for count in wrong.values())
    return sum(not is_right(item, key, answer) for answer in answers) >= 2


def decide(
    item: Item, key: Answer, verdicts: Iterable[Verdict], readers_to_remove: int = READERS_TO_REMOVE
) -> Decision:
    """Return the decision on one item.

    ``readers_to_remove`` is the number of readers who must object before an item is rejected or sent back.
    """
    decision = _decided(item, key, verdicts)
    blind = [vote.blind_answer for vote in decision.votes if vote.blind_answer is not None and not vote.rules]
    ruled = any(vote.rules and vote.verdict != UNSURE for vote in decision.votes)
    if decision.status == ACCEPTED and not ruled and against_key(item, key, blind):
        return replace(decision, status=CONTESTED, why="two readers gave a blind answer that differs from the key")
    if decision.status in (REJECTED, SENT_BACK) and not _enough(decision, readers_to_remove):
        few = len(_objecting(decision))
        one, several = ("rejects", "reject") if decision.status == REJECTED else ("doubts", "doubt")
        what = "it" if decision.status == REJECTED else "its mask or label"
        who = f"one reader {one}" if few == 1 else f"{few} readers {several}"
        why = f"only {who} {what}, and {readers_to_remove} are needed{_because(decision.votes)}"
        return replace(decision, status=CONTESTED, why=why)
    return decision


def _objecting(decision: Decision) -> set[str]:
    return {vote.reviewer for vote in decision.votes if vote.verdict in (FIX, REJECT)}


def _enough(decision: Decision, readers_to_remove: int) -> bool:
    """Return True if enough readers object, or an adjudicator who is not one of the readers."""
    readers = {vote.reviewer for vote in decision.votes if not vote.rules}
    third = any(vote.rules and vote.verdict != UNSURE and vote.reviewer not in readers for vote in decision.votes)
    return third or len(_objecting(decision)) >= readers_to_remove


def _decided(item: Item, key: Answer, verdicts: Iterable[Verdict]) -> Decision:
    """Return the decision by the votes alone, before the rules that need several readers."""
    votes = votes_on(item, key, verdicts)
    if not votes:
        return Decision(UNREVIEWED, "nobody has judged it")
    rulings = [vote for vote in votes if vote.rules]
    counted = [vote for vote in rulings or votes if vote.verdict != UNSURE]
    if not counted:
        return Decision(CONTESTED, "the adjudicator is unsure" if rulings else "all reviewers are unsure", votes)
    if len({vote.verdict for vote in counted}) > 1:
        return Decision(CONTESTED, f"{_role(counted)} disagree: {_counts(counted)}", votes)
    word = counted[0].verdict
    if word == FIX and not any(vote.seen for vote in counted):
        return Decision(CONTESTED, "a blind answer differs from the key, and nobody has judged the proposal yet", votes)
    if word == FIX:
        return _fixed(item, counted, votes)
    if word == ACCEPT:
        return Decision(ACCEPTED, "by adjudication" if rulings else "nobody objects", votes)
    return Decision(REJECTED, _reasons(counted) or "no reason given", votes)


def _fixed(item: Item, counted: Sequence[Vote], votes: tuple[Vote, ...]) -> Decision:
    """Return the decision for an item on which all counted votes are "fix"."""
    if not takes_correction(item) or all(vote.answer is None for vote in counted):
        return Decision(SENT_BACK, f"its mask or label is doubted{_because(counted)}", votes)
    answers = {vote.answer for vote in counted}
    if len(answers) > 1:
        return Decision(CONTESTED, f"{_role(counted)} give different corrected answers", votes)
    answer = answers.pop()
    readers = {vote.reviewer for vote in votes if vote.verdict == FIX and vote.answer == answer}
    if len(readers) < READERS_TO_OVERRULE:
        who, advice = ("the adjudicator", "; ask a second adjudicator") if counted[0].rules else ("one reader", "")
        return Decision(CONTESTED, f"only {who} gives this corrected answer, and two are needed{advice}", votes)
    return Decision(
        CORRECTED, f"{len(readers)} readers give the same corrected answer{_because(counted)}", votes, answer
    )


def _role(counted: Sequence[Vote]) -> str:
    return "adjudicators" if counted[0].rules else "reviewers"


def _counts(votes: Iterable[Vote]) -> str:
    """Return the numbers of votes as text, such as "1 accept (blind answer), 1 reject"."""
    found = Counter((vote.verdict, vote.seen) for vote in votes)
    return ", ".join(
        f"{found[word, seen]} {word}{'' if seen else ' (blind answer)'}"
        for word in (ACCEPT, FIX, REJECT) for seen in (True, False) if found[word, seen]
    )  # fmt: skip


def _because(votes: Iterable[Vote]) -> str:
    reasons = _reasons(votes)
    return f" ({reasons})" if reasons else ""


def _reasons(votes: Iterable[Vote]) -> str:
    return ", ".join(sorted({vote.reason for vote in votes if vote.reason}))
