"""Workers of one model in a run: conversations are asked turn by turn, each turn logged before the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from chexqa.contract.benchmark import image_digest
from chexqa.contract.items import Item
from chexqa.contract.runlog import ERROR, Turn, bounded
from chexqa.eval.models import adapters, baselines, data_policy
from chexqa.eval.models.client import Client, Reply
from chexqa.eval.models.rate_limit import ClosedError, RateLimiter
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import answer_parser, option_order, protocols
from chexqa.eval.prompts.protocols import Conversation, Message, PriorReply
from chexqa.eval.runs.budget import BudgetTracker
from chexqa.eval.runs.model_progress import NOT_ASKED, ModelProgress, Place
from chexqa.eval.runs.run_folder import RunIdentity
from chexqa.eval.runs.turn_log import Log
from chexqa.files.errors import InputError

Watch = Callable[[ModelProgress], None]


class PlannedConversation(NamedTuple):
    """Conversation to hold: its repeat, its rotation and its items, with options in the benchmark's order."""

    repeat: int
    rotation: int
    items: Conversation


def talks(conversations: Iterable[Conversation], modifiers: option_order.Modifiers) -> list[PlannedConversation]:
    """Return every conversation in every repeat and rotation, one whole repeat after another."""
    rows = list(conversations)
    return [
        PlannedConversation(repeat, rotation, conversation)
        for repeat in range(modifiers.repeats)
        for rotation in range(modifiers.rotations)
        for conversation in rows
    ]


class ConversationWorker:
    """Open conversations of one model, shared by several workers."""

    def __init__(
        self, plan: RunIdentity, items: tuple[Item, ...], model: Model, log: Log, client: Client, limiter: RateLimiter,
        tracker: BudgetTracker, watch: Watch,
    ) -> None:  # fmt: skip
        """Take over the log's turns, emptying ``log.turns``; raise ``InputError`` if they are another run's."""
        self.plan, self.model, self.log, self.client = plan, model, log, client
        self.limiter, self.tracker, self.watch = limiter, None if data_policy.is_baseline(model) else tracker, watch
        self._held_now = 0
        self._prompter = plan.prompter
        self.responder = baselines.BaselineResponder(plan.benchmark, plan.seed)
        held = talks(protocols.conversations(plan.benchmark, plan.protocol, items), plan.modifiers)
        states = {(item.item_id, *talk[:2]): NOT_ASKED for talk in held for item in talk.items}
        self.progress = ModelProgress(model.name, states, limiter)
        self.progress.set_aside = log.aside
        earlier, log.turns = log.turns, []
        self._check_own(earlier)
        mine = [turn for turn in earlier if (turn.item_id, turn.repeat, turn.rotation) in states]
        self.progress.earlier(mine)
        if self.tracker:
            self.tracker.earlier(mine)
        self.open = deque(talk for talk in held if self._is_open(talk))
        wanted = {(item.item_id, *talk[:2]) for talk in self.open for item in talk.items}
        # Keep only the replies that open conversations continue from: a log may be long.
        self._said: dict[Place, PriorReply] = {
            place: PriorReply(turn.raw, turn.parsed)
            for turn in mine
            if turn.state != ERROR and (place := (turn.item_id, turn.repeat, turn.rotation)) in wanted
        }

    def _check_own(self, turns: Iterable[Turn]) -> None:
        name, protocol, known = self.model.name, self.plan.protocol, self.plan.benchmark.item
        for turn in turns:
            if turn.model != name or turn.protocol != protocol:
                raise InputError(
                    f"{self.log.path}: holds a turn of model '{turn.model}' and protocol '{turn.protocol}', so it is "
                    "the log of another run; restore this run's log."
                )
            if turn.item_id not in known:
                raise InputError(f"{self.log.path}: holds a turn of item '{turn.item_id}', which the benchmark lacks.")

    def _is_open(self, talk: PlannedConversation) -> bool:
        states = self.progress.states
        return any(states[item.item_id, talk.repeat, talk.rotation] in (NOT_ASKED, ERROR) for item in talk.items)

    def stop(self, why: str) -> None:
        """Let the turns in flight finish and ask no more; the progress keeps the first reason."""
        if self.open or self._held_now:
            self.progress.stopped = self.progress.stopped or why
        self.limiter.close(why)
        self.open.clear()

    async def work(self) -> None:
        """Take and hold conversations until all are done."""
        while self.open:
            self._held_now += 1
            try:
                await self._converse(self.open.popleft())
            finally:
                self._held_now -= 1

    async def _converse(self, talk: PlannedConversation) -> None:
        """Ask the open turns of a conversation in order; an error ends it until the run is resumed."""
        shown = tuple(option_order.shown(item, self.plan.modifiers, talk.rotation) for item in talk.items)
        said: list[PriorReply] = []
        for item in shown:
            before = self._said.pop((item.item_id, talk.repeat, talk.rotation), None)
            if before is None:
                turn = await self._paid_turn(talk, shown, item, said)
                if turn is None or turn.state == ERROR:
                    return
                before = PriorReply(turn.raw, turn.parsed)
            said.append(before)

    async def _paid_turn(
        self, talk: PlannedConversation, shown: Conversation, item: Item, said: list[PriorReply]
    ) -> Turn | None:
        """Ask one question within the budget; return None if the model is asked no more."""
        why = self.limiter.closed or (self.tracker.reserve(self.model.name) if self.tracker else None)
        if why:
            self.stop(why)
            return None
        turn = None
        try:
            turn = await self._turn(talk, shown, item, said)
        except ClosedError as closed:
            self.stop(str(closed))
        finally:
            if self.tracker:
                self.tracker.release(self.model.name, turn)
        return turn

    async def _reply(self, talk: PlannedConversation, item: Item, messages: Sequence[Message], mark: str) -> Reply:
        """Return the model's reply to the messages, whose request hash is ``mark``; a batch finds it in its results."""
        return await self.client.ask(self.model, messages, self.limiter)

    async def _turn(self, talk: PlannedConversation, shown: Conversation, item: Item, said: list[PriorReply]) -> Turn:
        """Ask one question and return its turn once it is in the log."""
        plan, blind = self.plan, self.plan.modifiers.blind
        messages = adapters.adapt(self.model, self._prompter.messages(shown, said, talk.rotation))
        baselines.asked.set(baselines.BaselineRequest(self.responder, item, talk.repeat, talk.rotation))
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        mark = protocols.request_hash(messages, self.model.litellm, self.model.decoding)
        reply = await self._reply(talk, item, messages, mark)
        parsed, state = _read(item, reply)
        introduced = () if blind else protocols.pictures(plan.protocol, item)
        turn = bounded(
            Turn(
                model=self.model.name,
                protocol=plan.protocol,
                case_id=item.case_id,
                item_id=item.item_id,
                repeat=talk.repeat,
                rotation=talk.rotation,
                blind=blind,
                attempts=reply.attempts,
                state=state,
                parsed=parsed,
                raw=reply.text,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                cost_usd=reply.cost_usd,
                latency_s=reply.latency_s,
                provider_model=reply.provider_model,
                request_hash=mark,
                image_hashes=tuple(image_digest(picture.image) for picture in introduced),
                started=started,
                error=reply.error,
                overlay_only=plan.modifiers.overlay_only,
                order=option_order.order(item),
                parser_version=answer_parser.VERSION,
                prompt=plan.condition.wording,
                condition=plan.condition.examples,
                reasoning=reply.reasoning,
                confidence=reply.confidence,
            )
        )
        await self.log.append(turn)
        self.progress.take(turn)
        if reply.fatal:
            self.stop("its endpoint rejects every request with this error")
        self.watch(self.progress)
        return turn


def _read(item: Item, reply: Reply) -> answer_parser.Reading:
    """Return the parser's reading of a reply; a refusal, an overflow or an error is a state without an answer."""
    if reply.outcome != "reply":
        return answer_parser.Reading(None, reply.outcome)
    return answer_parser.read(item, reply.text, reply.finish_reason)
