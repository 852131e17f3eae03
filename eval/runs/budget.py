"""Budget of a run in dollars and tokens, counted turn by turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from chexqa.contract.read_run import ERROR, OVERFLOW, Turn
from chexqa.files.terminal import plural

# States that a request without a reply can end in.
UNANSWERED = ("refused", OVERFLOW, ERROR)


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


class _Counter:
    """Counter of the amount spent in one unit (dollars or tokens), with the likely cost of the turns in flight.

    An attempt of unknown cost counts as much as the model's average turn.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.spent = 0.0
        self._asked: Counter[str] = Counter()
        self._paid: defaultdict[str, float] = defaultdict(float)
        self._uncounted: Counter[str] = Counter()

    def pay(self, model: str, amount: float, attempts: int) -> None:
        """Count a turn: the amount that it cost, and how many of its failed attempts have an unknown cost."""
        self.spent += amount
        self._uncounted[model] += attempts
        self._asked[model] += 1
        self._paid[model] += amount

    def expected(self, in_flight: Counter[str]) -> float:
        """Return the total spending expected if each turn in flight costs its model's average."""
        likely = in_flight + self._uncounted
        known = [model for model in likely if self._asked[model]]
        return self.spent + sum(likely[model] * self._paid[model] / self._asked[model] for model in known)

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
                account.pay(turn.model, amount, uncounted(turn))
