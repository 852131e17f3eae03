"""Early end of a run: a stopping rule is tested after every patient, until it decides between two models.

Conversations are asked in the order in which the rule counts patients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Turn
from chexqa.eval.design.pair_decision import Decision, PairTally, StoppingRule
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.runs.conversations import PlannedConversation
from chexqa.eval.runs.model_progress import AGAIN, ModelProgress
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_json
from chexqa.version import __version__

# A model waits while its next patient is AHEAD * (number of concurrent conversations) places ahead of the last counted
# one.
AHEAD = 2
WAITS = "an earlier patient has an unfinished turn, so the later patients cannot be counted"


class Job(Protocol):
    """Interface of the workers that ask one model; it has only what the stopping rule uses."""

    progress: ModelProgress

    def stop(self, why: str, then: str = AGAIN) -> None:
        """Ask no more questions, but let the turns in flight finish."""

    def is_due(self) -> bool:
        """Return True if a conversation is in flight, or the next one may begin."""


class DecisionStop:
    """Early stop of a run that compares two models, by a stopping rule.

    Conversations begin in the order in which the rule counts patients. The faster model waits for the other one, and
    both models stop when the rule decides.
    """

    # The state is stored only in the logs: if a run is killed, the next command counts the same patients again.
    def __init__(self, rule: StoppingRule, benchmark: Benchmark, seed: int, modifiers: Modifiers, concurrency: int
                 ) -> None:  # fmt: skip
        """Start without answers; raise ``InputError`` if the benchmark has no items for the rule's score."""
        self.tally = PairTally(rule, benchmark, seed, modifiers.repeats * modifiers.rotations)
        self.jobs: list[Job] = []
        self._window = AHEAD * concurrency
        self._moved = asyncio.Event()

    def ordered(self, talks: Iterable[PlannedConversation]) -> list[PlannedConversation]:
        """Return the conversations in the order in which the rule counts their patients."""
        return sorted(talks, key=lambda talk: self.tally.place(talk.items[0].item_id))

    def admits(self, talk: PlannedConversation) -> bool:
        """Return True if this conversation may begin now."""
        ahead = self.tally.place(talk.items[0].item_id) - self.tally.counted
        return self.tally.is_complete or ahead < self._window

    async def wait(self) -> None:
        """Wait until one of the models has answered another question or ended a conversation."""
        # If neither model is in a conversation or may begin one, no further patient can be counted.
        if not any(job.is_due() for job in self.jobs):
            self._stop(WAITS)
            return
        await self._moved.wait()

    def take(self, turns: Iterable[Turn]) -> None:
        """Count answered questions, and stop both models if the rule decides."""
        self.tally.take(turns)
        if self.tally.decided:
            self.conclude()
        self.move()

    def move(self) -> None:
        """Wake every task that waits in :meth:`wait`."""
        self._moved.set()
        self._moved = asyncio.Event()

    def conclude(self) -> None:
        """Stop both models if the rule has decided."""
        if self.tally.decided:
            self._stop(f"decided after {self.tally.counted:,} of {self.tally.of:,} patients")

    def _stop(self, why: str) -> None:
        for job in self.jobs:
            job.stop(why)
        self.move()

    def write(self, folder: Path) -> None:
        """Write ``decision.json`` if the rule has decided or every patient is counted."""
        if not self.tally.decided and not self.tally.is_complete:
            return
        decision = self.tally.decision()
        for job in self.jobs:
            job.progress.decision = decision
        write_json(folder / read_run.DECISION, record(decision), "decision")


def record(decision: Decision) -> dict[str, object]:
    """Return the content of ``decision.json``."""
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "rule": decision.rule.to_record(),
        "patients": decision.patients,
        "of": decision.of,
        "cases": list(decision.cases),
        "difference": decision.difference,
        "low": decision.low,
        "high": decision.high,
        "decided": decision.decided,
    }


def check(rule: StoppingRule, names: Iterable[str], partial: bool) -> None:
    """Raise ``InputError`` unless the run asks exactly the two models of the rule, on the whole benchmark."""
    asked = set(names)
    if asked != set(rule.models):
        raise InputError(
            f"--until-decided {','.join(rule.models)}: the run asks {', '.join(sorted(asked))}; "
            f"name exactly the models {' and '.join(rule.models)} in --models, or leave --models out."
        )
    if partial:
        raise InputError(
            "--until-decided chooses the cases itself; leave out --limit, --limit-per-path, --shard and --batch."
        )
