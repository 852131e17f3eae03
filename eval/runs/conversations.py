"""Workers that carry out the conversations of one model in a run.

A conversation is asked turn by turn, and each turn is logged before the next one is asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from chexqa.contract.benchmark import image_digest
from chexqa.contract.items import ORIGINAL, Item
from chexqa.contract.read_run import ERROR, OVERFLOW, Turn, bounded
from chexqa.eval.models import adapters, baselines, data_policy
from chexqa.eval.models.client import Client, CutOffError, Reply
from chexqa.eval.models.rate_limit import ClosedError, RateLimiter
from chexqa.eval.models.registry import Model
from chexqa.eval.places import coordinate_systems
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.prompts import answer_parser, option_order, parser_confidence, parser_places, protocols
from chexqa.eval.prompts.parser_confidence import StatedConfidence
from chexqa.eval.prompts.parser_places import PlaceReading
from chexqa.eval.prompts.protocols import Conversation, Message, PriorReply
from chexqa.eval.runs import foreign_lines
from chexqa.eval.runs.answer_tokens import answer_logprob
from chexqa.eval.runs.budget import BudgetTracker
from chexqa.eval.runs.model_progress import AGAIN, MEND, NOT_ASKED, ModelProgress, Place
from chexqa.eval.runs.run_folder import RunIdentity
from chexqa.eval.runs.turn_log import Log
from chexqa.eval.stress.cells import kind_of
from chexqa.eval.stress.stressed_pictures import StressedPictures
from chexqa.files.errors import InputError

if TYPE_CHECKING:
    from chexqa.eval.runs.until_decided import DecisionStop

Watch = Callable[[ModelProgress], None]
REJECTED_AT_FIRST = 10
"""Number of refused questions after which a model without any answer is given up."""


class PlannedConversation(NamedTuple):
    """Conversation to be asked: the numbers of its repeat and rotation (order of the options), and its items.

    The items still have their options in the benchmark's order.
    """

    repeat: int
    rotation: int
    items: Conversation


def talks(conversations: Iterable[Conversation], modifiers: option_order.Modifiers) -> list[PlannedConversation]:
    """Return the conversations for every repeat and rotation."""
    rows = list(conversations)
    return [
        PlannedConversation(repeat, rotation, conversation)
        for repeat in range(modifiers.repeats)
        for rotation in range(modifiers.rotations)
        for conversation in rows
    ]


class ConversationWorker:
    """Worker for the open conversations of one model; several concurrent tasks share it.

    An overflow is a question that the endpoint rejects as too long for the model. If the endpoint rejects every
    question in this way, the settings are wrong. So overflows before the model's first answer are held back. When
    the model answers any question, they are logged as overflows, which is a final state. If the model never answers,
    they are logged as errors, and the same command asks these questions again.
    """

    def __init__(
        self, plan: RunIdentity, items: tuple[Item, ...], model: Model, log: Log, client: Client, limiter: RateLimiter,
        tracker: BudgetTracker, watch: Watch, until: DecisionStop | None = None,
        pictures: StressedPictures | None = None,
    ) -> None:  # fmt: skip
        """Start from the turns already in ``log.turns``; raise ``InputError`` if these turns are from another run.

        ``until`` stops the run early, ``pictures`` makes the pictures of stressed items; None if not needed.
        """
        self.plan, self.model, self.log, self.client = plan, model, log, client
        self.limiter, self.tracker, self.watch = limiter, None if data_policy.is_baseline(model) else tracker, watch
        self.until, self.pictures = until, pictures
        self._held_now = self._rejected = 0
        self._refuses = "its endpoint refused" if model.python is None else "its code failed at"
        self._held_back: list[tuple[PlannedConversation, Turn]] = []
        self._prompter, self._frame = plan.prompter, coordinate_systems.named(model.frame, f"model '{model.name}'")
        self.responder = baselines.BaselineResponder(plan.benchmark, plan.seed)
        held = talks(protocols.conversations(plan.benchmark, plan.protocol, items), plan.modifiers)
        held = until.ordered(held) if until else held
        states = {(item.item_id, *talk[:2]): NOT_ASKED for talk in held for item in talk.items}
        self.progress = ModelProgress(model.name, states, limiter)
        self.progress.set_aside = log.aside
        earlier, log.turns = log.turns, []
        self._check_own(earlier)
        mine = [turn for turn in earlier if (turn.item_id, turn.repeat, turn.rotation) in states]
        self.progress.earlier(mine)
        if until:
            until.tally.take(mine)
        self._has_answered = any(turn.state not in (ERROR, OVERFLOW) for turn in mine)
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

    def _check_own(self, turns: Sequence[Turn]) -> None:
        name, protocol = self.model.name, self.plan.protocol
        for turn in turns:
            if turn.model != name or turn.protocol != protocol:
                raise InputError(
                    f"{self.log.path}: holds a turn of model '{turn.model}' and protocol '{turn.protocol}', so it is "
                    "the log of another run; restore this run's log."
                )
        foreign_lines.check(self.log.path.parent.parent, turns, self.plan.benchmark.item)

    def _is_open(self, talk: PlannedConversation) -> bool:
        states = self.progress.states
        return any(states[item.item_id, talk.repeat, talk.rotation] in (NOT_ASKED, ERROR) for item in talk.items)

    def stop(self, why: str, then: str = AGAIN) -> None:
        """Ask no more questions, but let the turns in flight finish.

        ``why`` is the reason, and ``then`` says what the user can do about it.
        """
        if (self.open or self._held_now) and not self.progress.stopped:
            self.progress.stopped, self.progress.then = why, then
        self.limiter.close(why)
        self.open.clear()

    async def work(self) -> None:
        """Take open conversations one after another and ask their questions until all are done.

        Return earlier if the number of conversations in progress, including those of :meth:`probe`, has reached the
        limit.
        """
        while await self._may_begin() and self._held_now < self.limiter.most:
            await self._next()

    async def probe(self) -> None:
        """Start one more of the waiting conversations, if allowed now, and ask its questions.

        This shows whether other questions succeed while all workers are busy with questions that always fail.
        """
        if self.open and (self.until is None or self.until.admits(self.open[0])):
            await self._next()
            await self.work()

    async def _next(self) -> None:
        self._held_now += 1
        try:
            await self._converse(self.open.popleft())
        finally:
            self._held_now -= 1
            if self.until:
                self.until.move()

    async def _may_begin(self) -> bool:
        """Wait until the next conversation may begin; return False if there is none."""
        while self.until and self.open and not self.until.admits(self.open[0]):
            await self.until.wait()
        return bool(self.open)

    def is_due(self) -> bool:
        """Return True if a conversation is in flight, or the next one may begin."""
        return bool(self._held_now or (self.open and (self.until is None or self.until.admits(self.open[0]))))

    async def _converse(self, talk: PlannedConversation) -> None:
        """Ask the open turns of a conversation in order; after an error, the rest is asked only when the run is
        resumed.
        """
        shown = tuple(option_order.shown(item, self.plan.modifiers, talk.rotation) for item in talk.items)
        if self.plan.stress and self.pictures is not None:
            shown = tuple([await asyncio.to_thread(self.pictures.shown, item) for item in shown])
        said: list[PriorReply] = []
        for item in shown:
            before = self._said.pop((item.item_id, talk.repeat, talk.rotation), None)
            if before is None:
                turn = await self._paid_turn(talk, shown, item, said)
                if turn is None or turn.state == ERROR:
                    return
                before = PriorReply(turn.raw, turn.parsed)
            said.append(before)

    def _reject(self) -> None:
        """Count a question that the endpoint or the model's code refused; stop if none has been answered so far."""
        self._rejected += 1
        if self._rejected >= REJECTED_AT_FIRST and not self._has_answered:
            self.stop(f"{self._refuses} each of its first questions", MEND)

    async def settle(self) -> None:
        """Log the overflows that were held back (see the class)."""
        # If the model has answered any question, its held-back overflows are final, and their conversations continue.
        # Otherwise its server may be the cause, so they are logged as errors.
        held, self._held_back = self._held_back, []
        for talk, turn in held:
            if self._has_answered:
                await self._log(turn)
                self._said[turn.item_id, *talk[:2]] = PriorReply(turn.raw, turn.parsed)
                if not self.limiter.closed:
                    self.open.appendleft(talk)
            else:
                self.progress.then = MEND
                await self._log(replace(turn, state=ERROR))

    async def _paid_turn(
        self, talk: PlannedConversation, shown: Conversation, item: Item, said: list[PriorReply]
    ) -> Turn | None:
        """Ask one question within the budget; return None if the model gets no more questions."""
        if self.limiter.closed:
            self.stop(self.limiter.closed, MEND if self.limiter.given_up else AGAIN)
            return None
        stop = self.tracker.reserve(self.model.name) if self.tracker else None
        if stop:
            self.stop(*stop)
            return None
        turn = None
        try:
            turn = await self._turn(talk, shown, item, said)
            if self.limiter.given_up:
                self.stop(str(self.limiter.closed), MEND)
        except ClosedError as closed:
            self.stop(str(closed), MEND if self.limiter.given_up else AGAIN)
        finally:
            if self.tracker:
                self.tracker.release(self.model.name, turn)
        return turn

    async def _reply(self, talk: PlannedConversation, item: Item, messages: Sequence[Message], mark: str) -> Reply:
        """Return the model's reply to the messages; ``mark`` is the hash of the request."""
        return await self.client.ask(self.model, messages, self.limiter)

    async def _turn(
        self, talk: PlannedConversation, shown: Conversation, item: Item, said: list[PriorReply]
    ) -> Turn | None:
        """Ask one question, log its turn and return it; None for an overflow that is held back (see the class)."""
        messages = adapters.adapt(self.model, self._prompter.messages(shown, said, talk.rotation, self._frame))
        baselines.asked.set(baselines.BaselineRequest(self.responder, item, talk.repeat, talk.rotation))
        asked = datetime.now(UTC)
        mark = protocols.request_hash(messages, self.model.litellm, self.model.decoding)
        try:
            reply = await self._reply(talk, item, messages, mark)
        except CutOffError as cut:
            await self._log(self._turn_of(talk, item, cut.reply, mark, asked))
            raise
        turn = self._turn_of(talk, item, reply, mark, asked)
        if turn.state == OVERFLOW and reply.rejected and not self._has_answered:
            self._said |= {(one.item_id, *talk[:2]): before for one, before in zip(shown, said, strict=False)}
            self._held_back.append((talk, turn))
            self._reject()
            return None
        await self._conclude(turn, reply)
        return turn

    def _turn_of(self, talk: PlannedConversation, item: Item, reply: Reply, mark: str, asked: datetime) -> Turn:
        """Return the turn for a reply; ``mark`` is the hash of the request, ``asked`` the time of the question."""
        plan = self.plan
        (parsed, state), place = self._reading(item, reply)
        return bounded(
            Turn(
                model=self.model.name,
                protocol=plan.protocol,
                case_id=item.case_id,
                item_id=item.item_id,
                repeat=talk.repeat,
                rotation=talk.rotation,
                blind=plan.modifiers.blind,
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
                image_hashes=_introduced(plan, item),
                started=_began(asked, reply),
                error=reply.error,
                overlay_only=plan.modifiers.overlay_only,
                order=option_order.order(item),
                parser_version=answer_parser.VERSION,
                fell_back=reply.fell_back or None,
                prompt=plan.condition.wording,
                condition=_condition(plan, item),
                stress=_stress(plan, item),
                reasoning=reply.reasoning,
                confidence=self._stated(reply).value,
                answer_logprob=answer_logprob(item, parsed, reply.tokens),
                failed_usage=reply.failed_usage,
                place=place,
            )
        )

    async def _conclude(self, turn: Turn, reply: Reply) -> None:
        """Log a turn, and stop if its reply shows that no question will be answered."""
        await self._log(turn)
        if reply.fatal:
            self.stop("no request can succeed after this error", MEND)
        elif turn.state == ERROR and reply.rejected:
            self.progress.then = MEND
            self._reject()
        elif turn.state != ERROR and not self._has_answered and turn.state != OVERFLOW:
            self._has_answered = True
            await self.settle()

    def _reading(self, item: Item, reply: Reply) -> PlaceReading:
        """Return the parser's reading of a reply; a refusal, an overflow or an error is a state without an answer."""
        if reply.outcome != "reply":
            return PlaceReading(answer_parser.Reading(None, reply.outcome))
        text = self._stated(reply).reply
        if item.form.is_place:
            size = picture_size(self.plan.benchmark, item)
            return parser_places.read_turn(item, text, reply.finish_reason, self._frame, size)
        return PlaceReading(answer_parser.read(item, text, reply.finish_reason))

    def _stated(self, reply: Reply) -> StatedConfidence:
        """Return the confidence that a reply states, if the run asks for it, and the reply's other text."""
        if self.plan.condition.confidence and reply.outcome == "reply":
            stated = parser_confidence.read(reply.text)
            return stated if reply.confidence is None else stated._replace(value=reply.confidence)
        return StatedConfidence(reply.confidence, "missing", reply.text or "")

    async def _log(self, turn: Turn) -> None:
        """Write a turn into the log and add it to the progress."""
        await self.log.append(turn)
        self.progress.take(turn)
        if self.until:
            self.until.take([turn])
        self.watch(self.progress)


def _introduced(plan: RunIdentity, item: Item) -> tuple[str, ...]:
    """Return the hashes of the pictures that a question adds to its conversation; () for a blind question."""
    pictures = () if plan.modifiers.blind else protocols.pictures(plan.protocol, item)
    return tuple(image_digest(picture.image) for picture in pictures)


def _condition(plan: RunIdentity, item: Item) -> str | None:
    """Return a turn's field ``condition``: the examples and the kind of altered picture; None if there are neither."""
    altered = None if item.condition == ORIGINAL or _stress(plan, item) else item.condition
    return ", ".join(filter(None, (plan.condition.examples, altered))) or None


def _stress(plan: RunIdentity, item: Item) -> str | None:
    """Return the kind and severity of an item's stress, such as ``noise-3``; None for an item without stress."""
    return item.condition if kind_of(item.condition) in plan.stress else None


def _began(asked: datetime, reply: Reply) -> str:
    """Return the time when the answered attempt began; if this is unknown, the time when the question was asked."""
    # The two times differ if the question waited for a free slot or for earlier attempts.
    answered = None if reply.latency_s is None else datetime.now(UTC) - timedelta(seconds=reply.latency_s)
    return (answered or asked).isoformat(timespec="milliseconds")
