"""Asking models the questions of a benchmark: many conversations at once, one turn at a time inside each.

Every turn is on the disk before the next one is asked. The same order resumes a run where it stopped: turns in the log
are never asked again, items that ended in an error or were never asked are.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from chexqa import runlog
from chexqa.benchmark import Benchmark, check_images, image_digest
from chexqa.errors import InputError
from chexqa.eval import access, baselines, parser, protocols, registry
from chexqa.eval.client import Client, Policy, Reply, close
from chexqa.eval.log import Log, locked, log_path, opened
from chexqa.eval.protocols import Conversation, Protocol, Said
from chexqa.eval.registry import Model
from chexqa.items import Item
from chexqa.records import Record, dump, write_json
from chexqa.runlog import ERROR, Turn
from chexqa.version import __version__

NOT_ASKED = "not_asked"
LOCK = "run.lock"


@dataclass(frozen=True)
class Order:
    """What is to be run. ``concurrency`` counts conversations in flight for each model."""

    benchmark: Benchmark
    models: tuple[Model, ...]
    protocol: Protocol
    folder: Path
    seed: int = 0
    concurrency: int = 8
    allow_remote_credentialed: bool = False
    policy: Policy = field(default_factory=Policy)


@dataclass
class Standing:
    """How far a model is: the last state of each item, the last error of this call, and whether it was stopped.

    ``counts`` holds the items per state, ``not_asked`` among them; ``cost_usd`` is None where the price of a reply is
    unknown.
    """

    model: str
    states: dict[str, str]
    cost_usd: float | None = 0.0
    error: str | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        """Count the states once; :meth:`take` keeps the count, which is read after every turn."""
        self.counts = Counter(self.states.values())

    @property
    def unfinished(self) -> int:
        """Items that another run of the same command would ask."""
        return self.counts[NOT_ASKED] + self.counts[ERROR]

    def take(self, turn: Turn) -> None:
        """Count a turn in."""
        self.counts[self.states[turn.item_id]] -= 1
        self.counts[turn.state] += 1
        self.states[turn.item_id] = turn.state
        if turn.state == ERROR:
            self.error = turn.error
        if turn.cost_usd is None and turn.raw is not None:
            self.cost_usd = None
        elif turn.cost_usd is not None and self.cost_usd is not None:
            self.cost_usd += turn.cost_usd


Watch = Callable[[Standing], None]


def run(order: Order, watch: Watch = lambda standing: None) -> list[Standing]:
    """Ask every question that is still open and return each model's standing.

    ``watch`` is called for each model before its first question and after every turn. Ctrl-C lets the turns in flight
    finish, a second one does not; both return normally. Raises ``InputError`` before anything is written or sent.
    """
    _check(order)
    client = Client(order.benchmark, order.policy)
    _enter(order, client)
    with ExitStack() as stack:
        logs = [stack.enter_context(opened(order.folder, model.name)) for model in order.models]
        jobs = [_Job(order, model, log, client, watch) for model, log in zip(order.models, logs, strict=True)]
        if any(job.standing.unfinished for job in jobs):
            asyncio.run(_ask_all(jobs))
        return [job.standing for job in jobs]


def _check(order: Order) -> None:
    """What can be refused by looking at the order alone."""
    if protocols.needs_key(order.protocol):
        order.benchmark.key(f"the protocol {order.protocol}")
    for model in order.models:
        if access.is_baseline(model) and model.litellm.removeprefix(access.BASELINE) in baselines.NEED_KEY:
            order.benchmark.key(f"the model {model.name}")
    access.check_endpoints(order.models)
    access.check_credentialed(order.benchmark, order.models, order.allow_remote_credentialed)


def _about(order: Order, models: Iterable[Model]) -> Record:
    """The content of ``run.json``."""
    about, bank = order.benchmark.about, order.benchmark.about["question_bank"]
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "benchmark": {
            "name": about["name"],
            "version": about["version"],
            "hash": order.benchmark.hash,
            "path": str(order.benchmark.folder.resolve()),
        },
        "question_bank": {"name": bank["name"], "hash": bank["hash"]},
        "protocol": order.protocol,
        "blind": False,
        "seed": order.seed,
        "models": {
            model.name: {
                "litellm": model.litellm,
                "api_base": registry.endpoint(model),
                "decoding": model.decoding,
            }
            for model in models
        },
    }


def _enter(order: Order, client: Client) -> None:
    """Write ``run.json``, or add new models to the one of a matching run; ``InputError`` where the run is another."""
    path = order.folder / runlog.ABOUT
    if order.folder.exists() and not path.exists() and not _is_blank(order.folder):
        raise InputError(f"{order.folder}: exists and is no run (it holds no {runlog.ABOUT}); name a new folder.")
    wanted = _about(order, order.models)
    if not path.exists():
        # Before anything is asked and paid for: a picture found damaged midway would end the run there.
        check_images(order.benchmark)
        _check_new(order, wanted, wanted["models"], client)
    try:
        order.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{order.folder}: cannot be made ({error.strerror}).") from None
    with locked(order.folder / LOCK):
        if not path.exists():
            write_json(path, wanted, "run")
            return
        present = runlog.read_about(order.folder)
        _compare(order.folder, present, wanted)
        new = {name: model for name, model in wanted["models"].items() if name not in present["models"]}
        if new:
            _check_new(order, present | {"models": present["models"] | new}, new, client)
            write_json(path, present | {"models": present["models"] | new}, "run")


def _is_blank(folder: Path) -> bool:
    """Whether a folder is empty, or holds no more than the lock of a run that another process is beginning."""
    return folder.is_dir() and all(entry.name == LOCK for entry in folder.iterdir())


def _check_new(order: Order, about: Record, new: Iterable[str], client: Client) -> None:
    """Refuse models whose logs would share a file, or whose id litellm cannot place."""
    files = Counter(log_path(order.folder, name).name.lower() for name in about["models"])
    for model in order.models:
        if model.name in new:
            if files[log_path(order.folder, model.name).name.lower()] > 1:
                raise InputError(
                    f"model '{model.name}': another model's log has the same file name; rename one of them."
                )
            client.check(model)


def _compare(folder: Path, present: Record, wanted: Record) -> None:
    """Refuse to mix: everything that shapes the answers must be the same; a moved benchmark or a newer tool may be."""
    pairs = [
        ("the benchmark", present["benchmark"]["hash"][:12], wanted["benchmark"]["hash"][:12]),
        ("the question bank", present["question_bank"]["hash"][:12], wanted["question_bank"]["hash"][:12]),
        ("the protocol", present["protocol"], wanted["protocol"]),
        ("blind", present["blind"], wanted["blind"]),
        ("the seed", present["seed"], wanted["seed"]),
    ]
    for name in wanted["models"].keys() & present["models"].keys():
        old, new = present["models"][name], wanted["models"][name]
        pairs.append((f"the litellm id of '{name}'", old["litellm"], new["litellm"]))
        pairs.append((f"the decoding of '{name}'", dump(old["decoding"]), dump(new["decoding"])))
    changed = [f"{what} was {old} and is now {new}" for what, old, new in pairs if old != new]
    if changed:
        raise InputError(
            f"{folder}: holds another run, and runs are not mixed: {'; '.join(changed)}. Repeat the command it was "
            "made with, or name a new folder."
        )


class _Job:
    """One model's part of a run."""

    def __init__(self, order: Order, model: Model, log: Log, client: Client, watch: Watch) -> None:
        """Take in what the log holds; ``InputError`` where it is another run's."""
        self.order, self.model, self.log, self.client, self.watch = order, model, log, client, watch
        self.desk = baselines.Desk(order.benchmark, order.seed)
        self.conversations = protocols.conversations(order.benchmark, order.protocol)
        self.turns = {turn.item_id: turn for turn in self._own(log.turns)}
        order_of_items = (item.item_id for conversation in self.conversations for item in conversation)
        self.standing = Standing(model.name, dict.fromkeys(order_of_items, NOT_ASKED))
        for turn in self.turns.values():
            self.standing.take(turn)
        self.standing.error = None
        self.open = deque(conversation for conversation in self.conversations if self._is_open(conversation))

    def _own(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        for turn in turns:
            if turn.model != self.model.name or turn.protocol != self.order.protocol:
                raise InputError(
                    f"{self.log.path}: holds a turn of model '{turn.model}' and protocol '{turn.protocol}'; it is "
                    "another run's log."
                )
            if turn.item_id not in self.order.benchmark.item:
                raise InputError(f"{self.log.path}: holds a turn of item '{turn.item_id}', which the benchmark lacks.")
            yield turn

    def _is_open(self, conversation: Conversation) -> bool:
        return any(self.standing.states[item.item_id] in (NOT_ASKED, ERROR) for item in conversation)

    def stop(self) -> None:
        """Let the turns in flight finish and ask nothing more."""
        self.standing.stopped = True
        self.open.clear()

    async def work(self) -> None:
        """Take conversations until none is left; several workers share a job."""
        while self.open:
            await self._converse(self.open.popleft())

    async def _converse(self, conversation: Conversation) -> None:
        """Ask the open turns of a conversation in order; an error ends it until the run is resumed."""
        said: list[Said] = []
        for item in conversation:
            turn = self.turns.get(item.item_id)
            if turn is None or turn.state == ERROR:
                if self.standing.stopped:
                    return
                turn = await self._turn(conversation, item, said)
                if turn.state == ERROR:
                    return
            said.append(Said(turn.raw, turn.parsed))

    async def _turn(self, conversation: Conversation, item: Item, said: list[Said]) -> Turn:
        """Ask one question, and return once its turn is in the log."""
        order = self.order
        messages = protocols.render(order.benchmark, order.protocol, conversation, said)
        baselines.asked.set(baselines.Asked(self.desk, item))
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        reply = await self.client.ask(self.model, messages)
        parsed, state = read(item, reply)
        turn = Turn(
            model=self.model.name,
            protocol=order.protocol,
            case_id=item.case_id,
            item_id=item.item_id,
            repeat=0,
            rotation=0,
            blind=False,
            attempts=reply.attempts,
            state=state,
            parsed=parsed,
            raw=reply.text,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            latency_s=reply.latency_s,
            provider_model=reply.provider_model,
            request_hash=protocols.request_hash(messages, self.model.litellm, self.model.decoding),
            image_hashes=tuple(image_digest(picture.image) for picture in protocols.pictures(order.protocol, item)),
            started=started,
            error=reply.error,
        )
        await self.log.append(turn)
        self.turns[item.item_id] = turn
        self.standing.take(turn)
        if reply.fatal:
            self.stop()
        self.watch(self.standing)
        return turn


def read(item: Item, reply: Reply) -> tuple[tuple[int, ...] | None, str]:
    """The option numbers in a reply and the state it leaves the item in (DESIGN section 8)."""
    if reply.outcome != "reply":
        return None, reply.outcome
    cut = reply.finish_reason == "length"
    if not (reply.text or "").strip():
        return None, "truncated" if cut else "empty"
    parsed = parser.parse(item, reply.text or "")
    if parsed is not None:
        return parsed, "answered"
    return None, "truncated" if cut else "unparsed"


async def _ask_all(jobs: list[_Job]) -> None:
    """Run every job's workers until all is asked; Ctrl-C stops after the turns in flight, a second one at once."""
    for job in jobs:
        job.watch(job.standing)
    workers = [
        asyncio.create_task(job.work()) for job in jobs for _ in range(min(job.order.concurrency, len(job.open)))
    ]

    def interrupt() -> None:
        if all(job.standing.stopped for job in jobs):
            for worker in workers:
                worker.cancel()
        for job in jobs:
            job.stop()

    with suppress(ValueError, RuntimeError):  # only the main thread may handle signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    try:
        for worker in asyncio.as_completed(workers):
            with suppress(asyncio.CancelledError):
                await worker
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await close()
