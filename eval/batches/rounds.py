"""Rounds of a batch: results are read, and the next question of every conversation is written into a request file.

A conversation needs one round for each of its questions, because a question is made from the earlier replies. The state
is stored only in the run's log, the request files and the result files, so a kill at any point loses nothing. A
question without a reply is either in a request file that still waits for results, or goes into the next round. As soon
as one request of a file has a result, the file no longer waits, and its questions without a reply go into the next
round.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pybase64

from chexqa.contract.items import Item
from chexqa.contract.read_run import ERROR
from chexqa.eval.batches import results as results_module
from chexqa.eval.batches.line_formats import Form, form_of
from chexqa.eval.batches.request_files import Part, PartWriter, parts, request_id, split_id
from chexqa.eval.batches.results import Results
from chexqa.eval.models import adapters, registry
from chexqa.eval.models.client import Client, Reply, price, reply_of, with_failed
from chexqa.eval.models.failures import FailedUsage, SendError, judge
from chexqa.eval.models.rate_limit import RateLimiter, TransientError
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts.protocols import Message
from chexqa.eval.runs import run_folder, runner
from chexqa.eval.runs.budget import Budget, BudgetTracker
from chexqa.eval.runs.conversations import ConversationWorker, PlannedConversation, Watch
from chexqa.eval.runs.model_progress import AGAIN, ModelProgress
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.turn_log import Log, log_path, opened, waiting_path
from chexqa.files.errors import InputError, UnfinishedError, unwritable
from chexqa.files.jsonio import many_objects, write_json
from chexqa.files.opening import real
from chexqa.files.redact import hider

# Share of a live request's price that a batch costs, at every provider that sells batches.
PRICE_SHARE = 0.5
# Number of conversations that are advanced together, so that their turns share a flush to disk.
_TOGETHER = 64


Talk = tuple[str, str, int, int]
"""Name of a conversation: its model, the id of its first item, its repeat and its rotation."""


class WaitingError(Exception):
    """Error for a question that has no reply yet; its conversation continues in a later round."""


@dataclass
class Waiting:
    """The open requests of one model.

    - ``parts``: the request files in ``folder`` that have no results yet.
    - ``written``: the request files that :func:`step` has just written. ``requests``, ``bytes``: the number of their
      requests, and their size.
    - ``failed``: the conversations in which :func:`step` has just found a final error.
    """

    model: str
    folder: Path
    parts: list[Path]
    written: list[Path]
    requests: int
    bytes: int
    failed: frozenset[Talk] = frozenset()


def discounted(paid: Price | None) -> Price | None:
    """Return a model's price in a batch: half of its live price ``paid``; None if the live price is unknown."""
    if paid is None:
        return None
    cached = paid.cached_input_per_million_usd
    return Price(
        PRICE_SHARE * paid.input_per_million_usd,
        PRICE_SHARE * paid.output_per_million_usd,
        None if cached is None else PRICE_SHARE * cached,
    )


def model_folder(folder: Path, order: RunConfig, model: Model) -> Path:
    """Return a model's folder in the batch folder; it is named like the model's log."""
    return folder / log_path(order.folder, model.name, order.shard).stem


def step(
    order: RunConfig,
    folder: Path,
    ended: frozenset[Path] = frozenset(),
    failed: frozenset[Talk] = frozenset(),
    watch: Watch = lambda progress: None,
    sends: bool = False,
) -> tuple[list[ModelProgress], list[Waiting]]:
    """Read all results, continue every conversation, and write the questions without a reply as a new round.

    Return each model's progress and its open requests. ``folder`` is the batch folder. ``ended`` names the request
    files that will get no more results. ``failed`` names the conversations that are not asked again. ``sends`` is True
    if the caller will send the request files. Raise ``InputError`` before anything is written if a setting is wrong, or
    if a model's provider has no batch endpoint.
    """
    runner.check(order)
    _check(order)
    client = Client(order.benchmark, order.policy)
    run_folder.open_or_create(order.folder, order.plan, order.models, client)
    progress, waiting = [], []
    for model in order.models:
        with ExitStack() as stack:
            with many_objects():
                log = stack.enter_context(opened(order.folder, model.name, order.shard))
                place = model_folder(folder, order, model)
                worker = _BatchWorker(order, model, log, client, place, ended, failed, watch, sends)
            waiting.append(worker.advance())
            progress.append(worker.progress)
    return progress, waiting


def _check(order: RunConfig) -> None:
    if order.budget != Budget():
        raise InputError(
            "--batch writes all unanswered questions at once, so --budget-usd, --budget-tokens and --max-minutes "
            "cannot stop the run; leave them out. 'chexqa estimate --batch' shows the cost; if it is too high, ask "
            "fewer cases with --limit."
        )
    for model in order.models:
        form_of(model)


class _BatchWorker(ConversationWorker):
    """Conversations of one model that take their replies from results."""

    def __init__(
        self, order: RunConfig, model: Model, log: Log, client: Client, folder: Path, ended: frozenset[Path],
        failed: frozenset[Talk], watch: Watch, sends: bool,
    ) -> None:  # fmt: skip
        self._failed = {
            (turn.item_id, turn.repeat, turn.rotation): turn.attempts for turn in log.turns if turn.state == ERROR
        }
        super().__init__(
            order.plan, order.items, model, log, client, RateLimiter(1), BudgetTracker(order.budget), watch
        )
        self.failed_now: set[Talk] = set()
        self.open = deque(talk for talk in self.open if self._name(talk) not in failed)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / results_module.FOLDER).mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from None
        self.folder, self._attempts, self._sends = folder, order.policy.attempts, sends
        self._form: Form = form_of(model)
        self._paid, self._hide = discounted(price(model)), hider(registry.api_key(model))
        self._results = Results(folder / results_module.FOLDER, self._form)
        known = parts(folder)
        self._waits: list[Part] = [
            part for part in known if part.path not in ended and not part.ids & self._results.ids
        ]
        ids = (split_id(one) for part in self._waits for one in part.ids)
        self._pending = {found[0] for found in ids if found}
        source = order.benchmark
        self._writer = PartWriter(
            folder,
            max((part.round for part in known), default=0) + 1,
            lambda image: pybase64.b64encode(source.image_bytes(image)),
            lambda image: (source.image_size(image) + 2) // 3 * 4,
        )

    def advance(self) -> Waiting:
        """Continue every conversation, write the new round, and return the open requests."""
        self.watch(self.progress)
        with self._writer as writer:
            if self.open:
                asyncio.run(self._advance())
        self._note(sum(len(part.ids) for part in self._waits) + writer.requests, len(self._waits) + len(writer.parts))
        return Waiting(
            self.model.name,
            self.folder,
            [part.path for part in self._waits] + writer.parts,
            writer.parts,
            writer.requests,
            writer.bytes,
            frozenset(self.failed_now),
        )

    def _note(self, requests: int, files: int) -> None:
        """Write a note beside the log about the batches that wait for results; ``chexqa run status`` reads it.

        If no batch waits, remove the note.
        """
        path = waiting_path(self.log.path)
        self.progress.pending = requests
        if requests:
            self.progress.then = f"put the files of results into {self.folder / results_module.FOLDER}, then {AGAIN}"
        if not requests:
            path.unlink(missing_ok=True)
            return
        record = {
            "schema_version": 1,
            "model": self.model.name,
            "folder": str(real(self.folder)),
            "files": files,
            "requests": requests,
            "sent": self._sends,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(path, record, "waiting")

    async def _advance(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_TOGETHER, len(self.open))):
                    group.create_task(self.work())
        except* (InputError, UnfinishedError, OSError) as found:
            raise found.exceptions[0] from None
        finally:
            await self.client.close()

    def _name(self, talk: PlannedConversation) -> Talk:
        return self.model.name, talk.items[0].item_id, talk.repeat, talk.rotation

    async def _converse(self, talk: PlannedConversation) -> None:
        try:
            await super()._converse(talk)
        except WaitingError:
            return

    async def _reply(self, talk: PlannedConversation, item: Item, messages: Sequence[Message], mark: str) -> Reply:
        """Return the reply from the results; raise ``WaitingError`` if there is none.

        A question without a reply is first written into the new round if no waiting request file has it.
        """
        too_many = adapters.too_many_images(self.model, messages)
        if too_many:
            return Reply("overflow", 0, error=too_many)
        digest = _digest(self.model.name, item.item_id, talk.repeat, talk.rotation, mark)
        found = self._found(digest, self._failed.get((item.item_id, talk.repeat, talk.rotation), 0))
        if found is not None:
            if found.outcome == ERROR:
                self.failed_now.add(self._name(talk))
            return found
        if digest not in self._pending:
            self._pending.add(digest)
            number = self._writer.number
            self._writer.add(
                request_id(digest, number), self._form.request(self.model, messages, request_id(digest, number))
            )
        raise WaitingError

    def _found(self, digest: str, failed: int) -> Reply | None:
        """Return the reply, or the final failure, in the results of a request; None if there is no result yet.

        Failures up to round ``failed`` are already in the log. A transient failure becomes final when as many rounds
        failed as a live request would have attempts.
        """
        failures, lost = self._results.failures(digest, failed), FailedUsage()
        for body, number in self._results.replies(digest):
            try:
                return with_failed(self._read(body, number), lost, self._paid)
            except SendError as error:  # a body that is not a completion counts as a failure
                # A file with the same line again reports no further failure.
                if failures.setdefault(number, error) is error and number > failed:
                    lost.add(error)
        passing = 0
        for number, failure in sorted(failures.items()):
            if number <= failed:
                continue
            try:
                verdict = judge(failure, self._hide)
            except TransientError as error:
                passing += 1
                if passing >= self._attempts:
                    return with_failed(Reply("error", number, error=f"{error} (rounds: {passing})"), lost, self._paid)
                continue
            return with_failed(Reply(verdict.outcome, number, error=verdict.text), lost, self._paid)
        return None

    def _read(self, body: Any, number: int) -> Reply:
        return reply_of(self.model, self._form.response(self.model, body), self._paid, self._hide, number, None)


def _digest(*parts: object) -> str:
    """Return 40 hexadecimal digits that identify one question of a run."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:40]
