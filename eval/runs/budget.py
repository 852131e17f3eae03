"""Budget of a run in dollars and tokens, counted turn by turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chexqa.contract.read_run import Turn


@dataclass(frozen=True)
class Budget:
    """Limits of one command in dollars, tokens and minutes; None means no limit.

    Turns that are already in the logs count towards the limits on dollars and tokens.
    """

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None


def tokens(turn: Turn) -> int | None:
    """Return the input and output tokens of a turn together; None if the server did not report them."""
    if _without_reply(turn):
        return 0
    if turn.usage is None or turn.usage["input_tokens"] is None or turn.usage["output_tokens"] is None:
        return None
    return turn.usage["input_tokens"] + turn.usage["output_tokens"]


def cost(turn: Turn) -> float | None:
    """Return the cost of a turn in dollars; return None if the cost is unknown."""
    return 0.0 if _without_reply(turn) else turn.cost_usd


def _without_reply(turn: Turn) -> bool:
    """Return True if a turn has no reply; a turn of a batch has a reply although it has no latency."""
    return turn.latency_s is None and turn.raw is None and turn.usage is None


class _Counter:
    """Counter of the amount spent in one unit (dollars or tokens), with the likely cost of the turns in flight."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.spent = 0.0
        self._asked: Counter[str] = Counter()
        self._paid: defaultdict[str, float] = defaultdict(float)

    def pay(self, model: str, amount: float) -> None:
        self.spent += amount
        self._asked[model] += 1
        self._paid[model] += amount

    def expected(self, in_flight: Counter[str]) -> float:
        """Return the total spending expected if each turn in flight costs its model's average."""
        known = [model for model in in_flight if self._asked[model]]
        return self.spent + sum(in_flight[model] * self._paid[model] / self._asked[model] for model in known)

    def is_used_up(self, in_flight: Counter[str]) -> bool:
        """Return True if the spending has reached the limit, or the turns in flight are likely to exceed it."""
        return self.spent >= self.limit or self.expected(in_flight) > self.limit


class BudgetTracker:
    """Tracker of the money and tokens spent, compared with a budget.

    Callers do not pass turns of baselines, which cost nothing.
    """

    def __init__(self, budget: Budget) -> None:
        """Start with nothing spent."""
        self._usd = None if budget.usd is None else _Counter(budget.usd)
        self._tokens = None if budget.tokens is None else _Counter(budget.tokens)
        self._in_flight: Counter[str] = Counter()
        self._unknown: str | None = None

    def earlier(self, turns: Iterable[Turn]) -> None:
        """Count turns that were already in the log."""
        for turn in turns:
            self._pay(turn)

    def reserve(self, model: str) -> str | None:
        """Reserve budget for one turn; return None, or the reason (a clause) why no further turn may be asked."""
        if self._unknown:
            return self._unknown
        wanted = self._in_flight + Counter({model: 1})
        if self._usd and self._usd.is_used_up(wanted):
            return f"the rest of --budget-usd {self._usd.limit:g} does not pay for another turn"
        if self._tokens and self._tokens.is_used_up(wanted):
            return f"the rest of --budget-tokens {self._tokens.limit:g} does not suffice for another turn"
        self._in_flight = wanted
        return None

    def release(self, model: str, turn: Turn | None) -> None:
        """End the reservation of a turn and count its cost; ``turn`` is None if the turn was not asked."""
        self._in_flight[model] -= 1
        if turn is not None:
            self._pay(turn)

    def _pay(self, turn: Turn) -> None:
        for account, amount, option, what in (
            (self._usd, cost(turn), "--budget-usd", "the cost"),
            (self._tokens, tokens(turn), "--budget-tokens", "the number of tokens"),
        ):
            if account is None:
                continue
            if amount is None:
                self._unknown = f"{what} of a reply from '{turn.model}' is unknown, so {option} cannot be enforced"
            else:
                account.pay(turn.model, amount)
