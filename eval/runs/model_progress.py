"""Progress of one model in a run, from which displays, summaries and exit codes are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chexqa.contract.read_run import ERROR, Turn
from chexqa.eval.design.pair_decision import Decision
from chexqa.eval.models.rate_limit import RateLimiter
from chexqa.eval.runs.budget import Spent
from chexqa.files.errors import PendingError, UnfinishedError
from chexqa.files.terminal import plural

NOT_ASKED = "not_asked"
_SHOWN_NAMES = 4
# Advice on how to continue after a stop.
AGAIN = "run the same command again to continue"
MEND = "correct the cause, then run the same command again to continue"
Place = tuple[str, int, int]
"""An item in one conversation: item id, repeat, rotation."""


class Answerers:
    """Counts of the model names that a server reports in its replies while one model is asked.

    A server or proxy can let another model answer.
    """

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        """Count the model names in the given turns."""
        self._names: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Add one to the count of the model name in the turn's reply; a turn without a name changes no count."""
        if turn.raw is not None and turn.provider_model is not None:
            (self._others if turn.fell_back else self._names)[turn.provider_model] += 1

    def remark(self) -> str | None:
        """Return a sentence if the server says that another model, or more than one model, answered; otherwise None."""
        if self._others:
            answers = plural(self._others.total(), "answer")
            return f"A proxy gave {answers} from another model than the one asked: {_named(self._others)}."
        if len(self._names) > 1:
            return f"According to its server, several models answered: {_named(self._names)}."
        return None


def _named(names: Counter[str]) -> str:
    """Return names with their counts, the most frequent first."""
    more = len(names) - _SHOWN_NAMES
    told = ", ".join(f"{name} ({count:,})" for name, count in names.most_common(_SHOWN_NAMES))
    return told + (f" and {more:,} more" if more > 0 else "")


@dataclass
class ModelProgress:
    """Progress of one model in a run.

    - ``states``: the last state of each turn, keyed by item id, repeat and rotation.
    - ``spent``: the cost and the tokens of all turns in the log.
    - ``asked``: the number of turns asked by this command.
    - ``error``: the text of the last error. If there was none: the text of the last turn that says why it got no answer
      (such as an overflow or a refusal).
    - ``has_error``: True if a turn of this command ended in an error.
    - ``stopped``: the reason why asking has stopped; None if it has not.
    - ``then``: what the user can do to continue.
    - ``answerers``: the names of the models that answered, as the server reports them.
    - ``set_aside``: the number of lines in the logs that are not turns.
    - ``pending``: the number of requests in batches without a result so far.
    - ``decision``: the result of the stopping rule; None if no rule has been applied.
    - ``run_conditions``: all conditions of the run (such as ``target``), if this command leaves out some of them;
      otherwise empty.
    - ``left_out``: the number of turns that are unanswered because this command leaves out their conditions.
    """

    model: str
    states: dict[Place, str]
    limiter: RateLimiter
    spent: Spent = field(default_factory=Spent)
    asked: int = 0
    error: str | None = None
    has_error: bool = False
    stopped: str | None = None
    then: str = AGAIN
    answerers: Answerers = field(default_factory=Answerers)
    set_aside: int = 0
    pending: int = 0
    decision: Decision | None = None
    run_conditions: tuple[str, ...] = ()
    left_out: int = 0
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        """Count the states."""
        # Later, :meth:`take` only updates the counts, which are read after every turn.
        self.counts = Counter(self.states.values())

    @property
    def total(self) -> int:
        """Return the number of turns in the model's part of the run."""
        return len(self.states)

    @property
    def unfinished(self) -> int:
        """Return the number of turns that the same command would ask if it were run again."""
        return 0 if self.decision and self.decision.decided else self.counts[NOT_ASKED] + self.counts[ERROR]

    def earlier(self, turns: Iterable[Turn]) -> None:
        """Count turns that were already in the log; a failed one among them leaves ``error`` unchanged."""
        for turn in turns:
            self._count(turn)

    def take(self, turn: Turn) -> None:
        """Add a turn that this command asked."""
        self._count(turn)
        self.asked += 1
        if turn.error and (turn.state == ERROR or not self.has_error):
            self.error = turn.error
        self.has_error |= turn.state == ERROR

    def _count(self, turn: Turn) -> None:
        place = turn.item_id, turn.repeat, turn.rotation
        if place in self.states and (turn.state != ERROR or self.states[place] in (NOT_ASKED, ERROR)):
            self.counts[self.states[place]] -= 1
            self.counts[turn.state] += 1
            self.states[place] = turn.state
        self.answerers.add(turn)
        self.spent.add(turn)


def unfinished(rows: Sequence[ModelProgress], in_python: bool = False) -> UnfinishedError | None:
    """Return the error that says how many questions are left, why, and what to do; None if no question is left.

    ``in_python`` words the message for a caller of the function instead of a user of the command.
    """
    open_ = [progress for progress in rows if progress.unfinished]
    if not open_:
        return _left_out(rows, in_python)
    errors, stops = {progress.error for progress in open_ if in_python}, {progress.stopped for progress in open_}
    whys = [*sorted(filter(None, errors)), *sorted(filter(None, stops))]
    why = f" ({'; '.join(whys)})" if whys else ""
    steps = {progress.then for progress in open_}
    then = steps.pop() if len(steps) == 1 else MEND
    left, pending = sum(progress.unfinished for progress in open_), sum(progress.pending for progress in open_)
    made, count = (PendingError, f"{plural(pending, 'request')} without a result") if pending and not why else (
        UnfinishedError, f"{plural(left, 'turn')} unfinished{why}")  # fmt: skip
    text = f"{count}; {then} (no answered question is asked again)."
    return made(text.replace(AGAIN, "call the function again to ask the remaining questions") if in_python else text)


def _left_out(rows: Sequence[ModelProgress], in_python: bool) -> UnfinishedError | None:
    """Return the error about questions left open in conditions that this command left out; None if there are none."""
    left = sum(progress.left_out for progress in rows)
    if not left:
        return None
    names = rows[0].run_conditions
    option = f"condition={list(names)}" if in_python else f"--condition {','.join(names)}"
    return UnfinishedError(
        f"{plural(left, 'turn')} of the run's other conditions unfinished; add {option} to continue (no answered "
        "question is asked again)."
    )
