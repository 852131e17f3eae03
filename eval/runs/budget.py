"""What a run may cost: dollars and tokens, counted turn by turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chexqa.contract.runlog import Turn


@dataclass(frozen=True)
class Budget:
    """Bounds on one command; None is none. Dollars and tokens count what the logs it writes to already hold."""

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None


def tokens(turn: Turn) -> int | None:
    """Tokens in and out; None where the server did not say."""
    if turn.latency_s is None:
        return 0  # no reply came
    if turn.usage is None or turn.usage["input_tokens"] is None or turn.usage["output_tokens"] is None:
        return None
    return turn.usage["input_tokens"] + turn.usage["output_tokens"]


def cost(turn: Turn) -> float | None:
    """Dollars; None where nobody knows."""
    return 0.0 if turn.latency_s is None else turn.cost_usd


class _Account:
    """Spending in one unit, with what the turns in flight are likely to add."""

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
        """What the spending comes to when these turns cost what their model's did on average."""
        known = [model for model in in_flight if self._asked[model]]
        return self.spent + sum(in_flight[model] * self._paid[model] / self._asked[model] for model in known)

    def is_used_up(self, in_flight: Counter[str]) -> bool:
        """Whether the turns in flight may pass the limit, or the spending has reached it."""
        return self.spent >= self.limit or self.expected(in_flight) > self.limit


class Purse:
    """Keeps the accounts of a budget; baselines cost nothing and are left out by whoever pays in."""

    def __init__(self, budget: Budget) -> None:
        """Nothing is spent yet."""
        self._usd = None if budget.usd is None else _Account(budget.usd)
        self._tokens = None if budget.tokens is None else _Account(budget.tokens)
        self._in_flight: Counter[str] = Counter()
        self._unknown: str | None = None

    def earlier(self, turns: Iterable[Turn]) -> None:
        """Count turns that the log held already."""
        for turn in turns:
            self._pay(turn)

    def begin(self, model: str) -> str | None:
        """Reserve a turn; or say, in a clause, why none may be asked any more."""
        if self._unknown:
            return self._unknown
        wanted = self._in_flight + Counter({model: 1})
        if self._usd and self._usd.is_used_up(wanted):
            return f"--budget-usd {self._usd.limit:g} has no room for another turn; raise it to go on"
        if self._tokens and self._tokens.is_used_up(wanted):
            return f"--budget-tokens {self._tokens.limit:g} has no room for another turn; raise it to go on"
        self._in_flight = wanted
        return None

    def end(self, model: str, turn: Turn | None) -> None:
        """Release a reserved turn, and pay for it where it was asked."""
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
                self._unknown = f"{what} of a reply of '{turn.model}' is unknown, so that {option} cannot be kept"
            else:
                account.pay(turn.model, amount)
