"""Runner of a benchmark's questions: many conversations at once, one turn at a time in each.

The same command resumes a stopped run. It asks only the turns that are missing or that ended in an error.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, Item, asked_conditions
from chexqa.contract.read_run import ERROR, read_about, read_log
from chexqa.eval.design import subset
from chexqa.eval.design.pair_decision import StoppingRule
from chexqa.eval.design.subset import Shard
from chexqa.eval.models import baselines, data_policy, registry
from chexqa.eval.models.client import Client
from chexqa.eval.models.rate_limit import OutagePolicy, RateLimiter, RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.conditions import Condition
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Protocol
from chexqa.eval.runs import run_folder, until_decided
from chexqa.eval.runs.budget import Budget, BudgetTracker
from chexqa.eval.runs.conversations import ConversationWorker, Watch
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.run_folder import RunIdentity
from chexqa.eval.runs.turn_log import Log, log_path, opened
from chexqa.eval.runs.until_decided import DecisionStop
from chexqa.eval.stress import stressed_pictures
from chexqa.eval.stress.stressed_pictures import StressedPictures
from chexqa.files.errors import InputError
from chexqa.files.jsonio import is_file, many_objects

INTERRUPTED = "interrupted"
# For each run of this process that is asking, the function that stops it.
_running: list[Callable[[], object]] = []


@dataclass(frozen=True)
class RunConfig:
    """Settings of a command that asks models; ``concurrency`` limits the simultaneous conversations with each model."""

    benchmark: Benchmark
    models: tuple[Model, ...]
    protocol: Protocol
    folder: Path
    seed: int = 0
    concurrency: int = 8
    allow_remote_credentialed: bool = False
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    patience: OutagePolicy = field(default_factory=OutagePolicy)
    modifiers: Modifiers = field(default_factory=Modifiers)
    budget: Budget = field(default_factory=Budget)
    limit: int | None = None
    limit_per_path: int | None = None
    shard: Shard | None = None
    condition: Condition = field(default_factory=Condition)
    until: StoppingRule | None = None
    interventions: tuple[str, ...] = (ORIGINAL,)
    stress: tuple[str, ...] = ()

    @property
    def plan(self) -> RunIdentity:
        """Return the settings that can change a model's answers, as recorded in ``run.json``."""
        return RunIdentity(
            self.benchmark, self.protocol, self.seed, self.modifiers, self.limit, self.limit_per_path, self.condition,
            self.until, self.interventions, self.stress,
        )  # fmt: skip

    @property
    def items(self) -> tuple[Item, ...]:
        """Return the items that this command asks: the original, altered and stressed items of its trial and shard."""
        whole = run_folder.chosen_items(self.plan, self.folder)
        items = subset.share(whole, self.shard)
        asked = subset.conditioned(self.benchmark, items, self.interventions)
        if not self.stress:
            return asked
        here = {item.case_id for item in items}
        spoilt = stressed_pictures.stressed_items(self.benchmark, whole, self.stress)
        return (*asked, *(one for one in spoilt if one.case_id in here))

    @property
    def stop(self) -> DecisionStop | None:
        """Return the object that stops the run when the stopping rule decides; None if the run has no stopping rule."""
        if self.until is None:
            return None
        return DecisionStop(self.until, self.benchmark, self.seed, self.modifiers, self.concurrency)


def run(order: RunConfig, watch: Watch = lambda progress: None) -> list[ModelProgress]:
    """Ask every question that is still open and return each model's progress.

    - ``watch``: called with a model's progress before its first question and after every turn.

    After Ctrl-C the turns in flight finish; a second Ctrl-C cancels them. The function returns normally in both cases.
    ``InputError`` is raised before anything is written or sent.
    """
    check(order)
    pictures = StressedPictures(order.benchmark)
    client = Client(pictures if order.stress else order.benchmark, order.policy)
    _check_priced(order, client)
    until = order.stop
    run_folder.open_or_create(order.folder, order.plan, order.models, client)
    tracker, items = BudgetTracker(order.budget), order.items
    with ExitStack() as stack:
        jobs = []
        with many_objects():
            # Logs are read one at a time: a job releases the turns of its log before the next log is read.
            for model in order.models:
                log = stack.enter_context(opened(order.folder, model.name, order.shard))
                limiter = _limiter(order, log)
                jobs.append(ConversationWorker(order.plan, items, model, log, client, limiter, tracker, watch, until,
                                               pictures))  # fmt: skip
        if until:
            until.jobs.extend(jobs)
            until.conclude()
        if any(job.open for job in jobs):
            with _kept_objects():
                asyncio.run(_ask_all(jobs, order, client))
        if until:
            until.write(order.folder)
        return [job.progress for job in jobs]


def interrupt() -> bool:
    """Stop every run that is asking, as Ctrl-C does; return False if there is none. Any thread may call this."""
    for stop in (now := list(_running)):
        stop()
    return bool(now)


def count_left_out(order: RunConfig, rows: Sequence[ModelProgress]) -> None:
    """Record in each model's progress the number of unanswered turns that this command does not ask.

    These turns belong to conditions of the run (such as ``target``) that the command leaves out.
    """
    held = asked_conditions(read_about(order.folder)) if rows else []
    others = [name for name in held if name not in order.interventions]
    if not others:
        return
    bench, modifiers = order.benchmark, order.modifiers
    cases = subset.share(run_folder.chosen_items(order.plan, order.folder), order.shard)
    wanted = {item.item_id for item in subset.conditioned(bench, cases, others)}
    for progress in rows:
        path = log_path(order.folder, progress.model, order.shard)
        turns = read_log(path).turns if is_file(path) else ()
        done = {turn.key for turn in turns if turn.item_id in wanted and turn.state != ERROR}
        progress.run_conditions = tuple(held)
        progress.left_out = len(wanted) * modifiers.rotations * modifiers.repeats - len(done)


@contextmanager
def _kept_objects() -> Iterator[None]:
    """Exclude all objects that exist now, mainly litellm and the benchmark, from garbage collection."""
    # Scanning these objects takes a quarter of a second, during which no reply is read and no question is sent.
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _limiter(order: RunConfig, log: Log) -> RateLimiter:
    """Return the rate limiter of a model."""
    # A model that has answered before is given up later.
    known = any(turn.state != ERROR for turn in log.turns)
    return RateLimiter(order.concurrency, order.patience, known, order.policy.retry_after_limit_s)


def check(order: RunConfig) -> None:
    """Check the settings that do not depend on the run's folder; raise ``InputError`` if one is wrong."""
    if order.limit is not None and order.limit_per_path is not None:
        raise InputError("--limit and --limit-per-path both choose a trial's cases; give only one of them.")
    subset.check_conditions(order.benchmark, order.interventions, order.protocol)
    if order.until is not None and order.interventions != (ORIGINAL,):
        raise InputError(
            "--until-decided uses only the original pictures, but --condition asks about others; leave out --condition."
        )
    if order.until is not None and order.stress:
        raise InputError(
            "--until-decided uses only the original questions, but --stress asks changed ones; leave out --stress."
        )
    if order.stress:
        stressed_pictures.check(order.benchmark, order.items, order.stress, order.protocol, order.modifiers.blind)
    if protocols.needs_key(order.protocol):
        order.benchmark.key(f"the protocol {order.protocol}")
    for model in order.models:
        if data_policy.is_baseline(model) and baselines.needs_key(model.litellm.removeprefix(registry.BASELINE)):
            order.benchmark.key(f"the model {model.name}")
    if order.until is not None:
        partial = (order.limit, order.limit_per_path, order.shard) != (None, None, None)
        until_decided.check(order.until, [model.name for model in order.models], partial)
    option_order.check(order.items, order.modifiers)
    order.plan.prompter.check(order.items)
    data_policy.check_endpoints(order.models)
    if not order.modifiers.blind:
        data_policy.check_credentialed(order.benchmark, order.models, order.allow_remote_credentialed)


def _check_priced(order: RunConfig, client: Client) -> None:
    """Raise ``InputError`` if the budget is in dollars and a model's price is unknown."""
    if order.budget.usd is None:
        return
    for model in order.models:
        if not client.is_priced(model):
            raise InputError(
                f"model '{model.name}': its price is unknown, so --budget-usd cannot be enforced; give its price in a "
                "models file (--models-file), or limit the run with --budget-tokens or --max-minutes."
            )


async def _ask_all(jobs: list[ConversationWorker], order: RunConfig, client: Client) -> None:
    """Run the workers of every model until all turns are asked or the run is stopped.

    Raise ``InputError``, before anything is asked, if a model is a Python object that cannot be loaded.
    """
    # Ctrl-C, SIGTERM or a lost terminal (SIGHUP) stops after the turns in flight; a second Ctrl-C stops immediately.
    try:
        await asyncio.gather(*(client.open(job.model, order.concurrency) for job in jobs if job.open))
        await _ask(jobs, order)
    finally:
        await client.close()


async def _ask(jobs: list[ConversationWorker], order: RunConfig) -> None:
    for job in jobs:
        job.watch(job.progress)
    loop = asyncio.get_running_loop()
    workers: list[asyncio.Task[None]] = []
    ended: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()

    def begin(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        workers.append(worker := loop.create_task(work()))
        worker.add_done_callback(ended.put_nowait)

    for job in jobs:
        for _ in range(min(order.concurrency, len(job.open))):
            begin(job.work)
        # While the endpoint seems down, each pause ends with an attempt at another question.
        job.limiter.on_pause = partial(begin, job.probe)

    def stop(why: str) -> None:
        for job in jobs:
            job.stop(why)
            job.watch(job.progress)

    interrupts = itertools.count()

    def interrupt() -> None:
        if next(interrupts):
            for worker in workers:
                worker.cancel()
        stop(INTERRUPTED)

    interrupted = partial(loop.call_soon_threadsafe, interrupt)
    _running.append(interrupted)
    for name in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError):  # only the main thread may handle signals
            loop.add_signal_handler(name, interrupt)
    # A shell and its terminal may both send SIGHUP, so a second one does not count; nohup has it ignored.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(signal.SIGHUP, stop, INTERRUPTED)
    if order.budget.minutes is not None:
        why = f"the time limit of --max-minutes {order.budget.minutes:g} is reached"
        loop.call_later(60 * order.budget.minutes, stop, why)
    try:
        for _ in workers:  # the list grows during the loop, by workers begun at a pause
            worker = await ended.get()
            with suppress(asyncio.CancelledError):
                await worker
        for job in jobs:
            await job.settle()
    finally:
        _running.remove(interrupted)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
