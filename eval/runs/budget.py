"""Budget of a run in dollars and tokens, counted turn by turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chexqa.contract.read_run import ERROR, OVERFLOW, Turn
from chexqa.files.jsonio import Record
from chexqa.files.terminal import plural

# States that a request without a reply can end in.
UNANSWERED = ("refused", OVERFLOW, ERROR)
# Advice on how to continue after a stop.
RAISE = "raise the budget in the same command, or leave it out, to continue"
LEAVE_OUT = "leave out {} in the same command, or limit the run by --max-minutes instead, to continue"


@dataclass(frozen=True)
class Budget:
    """Limits of one command in dollars, tokens and minutes; None means no limit.

    Turns that are already in the logs count towards the limits on dollars and tokens.
    """

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None


def tokens(turn: Turn) -> int | None:
    """Return the number of input and output tokens of a turn, including its failed attempts.

    Return None if the server did not report the tokens of the reply.
    """
    failed = turn.failed_usage["input_tokens"] + turn.failed_usage["output_tokens"] if turn.failed_usage else 0
    if has_no_reply(turn):
        return failed
    if turn.usage is None or turn.usage["input_tokens"] is None or turn.usage["output_tokens"] is None:
        return None
    return turn.usage["input_tokens"] + turn.usage["output_tokens"] + failed


def cost(turn: Turn) -> float | None:
    """Return the cost of a turn in dollars; return None if the cost is unknown."""
    return 0.0 if turn.cost_usd is None and has_no_reply(turn) and not tokens(turn) else turn.cost_usd


def uncounted(turn: Turn) -> int:
    """Return how many failed attempts of a turn are missing from its cost and tokens, although they may be billed."""
    return turn.failed_usage["uncounted_attempts"] if turn.failed_usage else 0


def remark(attempts: int) -> str | None:
    """Return a sentence that says how many attempts are missing from the cost and tokens; None for 0 attempts."""
    if not attempts:
        return None
    return (
        f"Cost and tokens leave out {plural(attempts, 'attempt')} without a complete reply, which the provider may "
        "bill without saying how much."
    )


def has_no_reply(turn: Turn) -> bool:
    """Return True if nothing came back for a turn: it has no answer, no latency, no text and no token counts."""
    return turn.state in UNANSWERED and (turn.latency_s, turn.raw, turn.usage) == (None, None, None)


@dataclass
class Sum:
    """Sum of the dollars or the tokens of turns.

    - ``known``: the sum over the turns whose amount is known.
    - ``without``: the number of the other turns.
    """

    known: float = 0
    without: int = 0

    @property
    def whole(self) -> float | None:
        """Return the sum; None if the amount of a turn is unknown."""
        return None if self.without else self.known

    @property
    def is_partial(self) -> bool:
        """Return True if a part of the sum is known, but not the whole."""
        return bool(self.without and self.known)

    def add(self, amount: float | None) -> None:
        """Add the amount of a turn; None if it is unknown."""
        self.without += amount is None
        self.known += amount or 0

    def cell(self, shown: str) -> str:
        """Return a cell's text: the known sum as given in ``shown``, with "≥" if other amounts are unknown."""
        return f"≥ {shown}" if self.is_partial else "unknown" if self.without else shown


@dataclass
class Spent:
    """Dollars and tokens that turns took, as far as they are known.

    - ``uncounted``: the number of attempts that may be billed, but are not in the dollars and tokens.
    """

    usd: Sum = field(default_factory=Sum)
    tokens: Sum = field(default_factory=Sum)
    uncounted: int = 0

    def add(self, turn: Turn) -> None:
        """Add a turn."""
        self.usd.add(cost(turn))
        self.tokens.add(tokens(turn))
        self.uncounted += uncounted(turn)

    def cost_said(self) -> str:
        """Return the cost in words."""
        return _said(self.usd, f"${self.usd.known:,.2f}", "of unknown cost") or "unknown cost"

    def tokens_said(self) -> str:
        """Return the number of tokens in words."""
        return _said(self.tokens, f"{self.tokens.known:,}", "without token counts") or "unknown"

    def to_record(self) -> Record:
        """Return the JSON form. An unknown sum is null; a further field then has the part that is known."""
        return {
            "cost_usd": self.usd.whole,
            "known_cost_usd": self.usd.known,
            "turns_without_cost": self.usd.without,
            "tokens": self.tokens.whole,
            "known_tokens": self.tokens.known,
            "turns_without_tokens": self.tokens.without,
            "uncounted_attempts": self.uncounted,
        }


def _said(total: Sum, shown: str, lack: str) -> str | None:
    """Return a sum in words; None if no part of it is known. ``lack`` tells the turns whose amount is unknown."""
    if total.is_partial:
        return f"at least {shown}, not counting {plural(total.without, 'turn')} {lack}"
    return None if total.without else shown


def spent(turns: Iterable[Turn]) -> Spent:
    """Return the total cost and tokens of the turns."""
    found = Spent()
    for turn in turns:
        found.add(turn)
    return found


class Stop(NamedTuple):
    """Reason (a clause) why a budget lets no further turn be asked, and what the user can do to continue."""

    why: str
    then: str


class _Counter:
    """Counter of the amount spent in one unit (dollars or tokens), with the likely cost of the turns in flight.

    An attempt of unknown cost counts as much as the model's average turn.
    """

    def __init__(self, limit: float, option: str, what: str, form: str) -> None:
        """Start with nothing spent; ``option`` has set the limit, ``what`` names the amount of a reply."""
        self._limit, self._option, self._what, self._form = limit, option, what, form
        self._spent = 0.0
        self._unknown: str | None = None
        self._asked: Counter[str] = Counter()
        self._paid: defaultdict[str, float] = defaultdict(float)
        self._uncounted: Counter[str] = Counter()

    def pay(self, model: str, amount: float | None, attempts: int) -> None:
        """Count a turn: its amount (None if unknown), and the number of its failed attempts whose amount is unknown."""
        if amount is None:
            self._unknown = model
            return
        self._spent += amount
        self._uncounted[model] += attempts
        self._asked[model] += 1
        self._paid[model] += amount

    def stop(self, in_flight: Counter[str]) -> Stop | None:
        """Return why the turns ``in_flight`` must not be asked; None if they may.

        There are three reasons: the amount of an earlier turn is unknown, the limit is reached, or these turns are
        likely to exceed it.
        """
        if self._unknown is not None:
            why = f"{self._what} of a reply from '{self._unknown}' is unknown, so {self._option} cannot be enforced"
            part = self._form.format(self._spent)
            return Stop(f"{why}; the known part so far is {part}", LEAVE_OUT.format(self._option))
        likely = in_flight + self._uncounted
        known = [model for model in likely if self._asked[model]]
        expected = self._spent + sum(likely[model] * self._paid[model] / self._asked[model] for model in known)
        if self._spent < self._limit and expected <= self._limit:
            return None
        return Stop(f"the rest of {self._option} {self._limit:g} does not suffice for another turn", RAISE)


class BudgetTracker:
    """Tracker of the money and tokens spent, compared with a budget.

    Callers do not pass turns of baselines, which cost nothing.
    """

    def __init__(self, budget: Budget) -> None:
        """Start with nothing spent."""
        # For each limit, its counter and the rule for a turn's amount.
        self._counters: list[tuple[_Counter, Callable[[Turn], float | None]]] = []
        if budget.usd is not None:
            self._counters.append((_Counter(budget.usd, "--budget-usd", "the cost", "${:,.2f}"), cost))
        if budget.tokens is not None:
            counter = _Counter(budget.tokens, "--budget-tokens", "the number of tokens", "{:,.0f} tokens")
            self._counters.append((counter, tokens))
        self._in_flight: Counter[str] = Counter()

    def earlier(self, turns: Iterable[Turn]) -> None:
        """Count turns that were already in the log."""
        for turn in turns:
            self._pay(turn)

    def reserve(self, model: str) -> Stop | None:
        """Reserve budget for one turn; return None, or the reason why no further turn may be asked."""
        wanted = self._in_flight + Counter({model: 1})
        for counter, _ in self._counters:
            if stop := counter.stop(wanted):
                return stop
        self._in_flight = wanted
        return None

    def release(self, model: str, turn: Turn | None) -> None:
        """End the reservation of a turn and count its cost; ``turn`` is None if the turn was not asked."""
        self._in_flight[model] -= 1
        if turn is not None:
            self._pay(turn)

    def _pay(self, turn: Turn) -> None:
        for counter, amount in self._counters:
            counter.pay(turn.model, amount(turn), uncounted(turn))
