"""The Inspect task ``chexqa/benchmark``: a benchmark's conversations, asked turn by turn as in a run of chexqa.

A sample is one conversation in one order of the options; Inspect's epochs are the repeats. The solver makes each prompt
from the earlier replies, as the protocol says, and keeps the turns in the sample's store, from which ``chexqa import
inspect`` makes a run. A radiograph is read when it is sent, so a large benchmark needs little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, clusters
from chexqa.contract.read_run import Turn
from chexqa.eval.design import subset
from chexqa.eval.harnesses import inspect_scorers
from chexqa.eval.harnesses.inspect_messages import chat, data_url, reply_of
from chexqa.eval.harnesses.turns import ABOUT, FRAME, STORE, Asked, turn_of_reply
from chexqa.eval.models import data_policy
from chexqa.eval.places import coordinate_systems
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.conditions import Condition
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Conversation, PriorReply
from chexqa.eval.runs import run_folder
from chexqa.eval.runs.conversations import talks
from chexqa.eval.runs.run_folder import RunIdentity
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, sha256
from chexqa.files.terminal import plural

# Providers of Inspect that compute replies in this process, so that no picture leaves it.
_IN_PROCESS = ("mockllm", "none", "hf", "transformer_lens", "nnterp")
_CACHED_PICTURES = 64


@dataclass(frozen=True)
class Plan:
    """Settings of a task: a run's settings, the conversations keyed by sample id, and the coordinate system of
    answers.
    """

    run: RunIdentity
    frame: coordinate_systems.Frame
    conversations: dict[str, Conversation]


@task(name="benchmark")
def benchmark(
    folder: str,
    protocol: str = "end_to_end",
    limit: int | None = None,
    limit_per_path: int | None = None,
    blind: bool = False,
    overlay_only: bool = False,
    rotate: int = 1,
    prompt: str | None = None,
    shots: int = 0,
    confidence: bool = False,
    frame: str | None = None,
    seed: int = 0,
    allow_remote_credentialed: bool = False,
) -> Task:
    """Ask the questions of the benchmark in ``folder``; the other arguments are the options of ``chexqa eval``.

    If the key is withheld, nothing is scored; import the log with ``chexqa import inspect``, and ``chexqa grade``
    scores it with the key.
    """
    bench = benchmarks.load(Path(folder))
    _check_credentialed(bench, allow_remote_credentialed)
    modifiers = Modifiers(blind, overlay_only, rotate)
    condition = Condition(prompt, None, shots, confidence)
    run = RunIdentity(bench, protocols.named(protocol), seed, modifiers, limit, limit_per_path, condition)
    if protocols.needs_key(run.protocol):
        bench.key(f"the protocol {protocol}")
    items = subset.chosen(bench, limit, limit_per_path)
    option_order.check(items, modifiers)
    run.prompter.check(items)
    plan = Plan(run, coordinate_systems.named(frame, "-T frame"), {})
    samples = [_sample(plan, talk.rotation, talk.items) for talk in talks(_conversations(run, items), modifiers)]
    about = run_folder.about(run, ())
    about["benchmark"]["path"] = bench.folder.name  # a log must not tell where its folder lay
    return Task(
        dataset=MemoryDataset(samples, name=bench.name),
        solver=_solver(plan),
        scorer=inspect_scorers.of_items(bench, items) if bench.answers is not None else None,
        name="benchmark",
        version=bench.hash[:12],
        metadata={ABOUT: about, FRAME: plan.frame.name},
    )


def _conversations(run: RunIdentity, items: Sequence[Item]) -> list[Conversation]:
    return protocols.conversations(run.benchmark, run.protocol, items)


def _check_credentialed(bench: Benchmark, allow_remote: bool) -> None:
    """Raise ``InputError`` if pictures with credentialed access would leave this machine and private networks."""
    cases = bench.about["access"]["credentialed"]
    if not cases or allow_remote:
        return
    api = get_model().api
    provider = str(get_model()).partition("/")[0]
    address = getattr(api, "base_url", None)
    if provider not in _IN_PROCESS and not (address and data_policy.is_local(str(address))):
        raise InputError(
            f"{bench.folder}: the terms of its credentialed data ({plural(cases, 'case')}) forbid sending pictures "
            f"to third parties; serve the model yourself and give its address with --model-base-url, or, if your "
            "agreement covers the provider, add -T allow_remote_credentialed=true."
        )


def _sample(plan: Plan, rotation: int, items: Conversation) -> Sample:
    """Return the sample of a conversation; also add the conversation's items, as shown, to the plan."""
    bench, first = plan.run.benchmark, items[0]
    name = first.item_id if len(items) == 1 else f"{first.case_id}/{first.task}"
    if plan.run.modifiers.rotations > 1:
        name = f"{name}#{rotation}"
    shown = tuple(option_order.shown(item, plan.run.modifiers, rotation) for item in items)
    plan.conversations[name] = shown
    about = {
        "case_id": first.case_id, "cluster": _cluster(bench, first), "finding": first.finding, "rotation": rotation,
        "kinds": [item.kind for item in items], "item_ids": [item.item_id for item in items],
    }  # fmt: skip
    target = [f"{item.kind}: {_key_words(bench, item)}" for item in items] if bench.answers is not None else ""
    return Sample(input=first.question, target=target, id=name, metadata=about)


def _cluster(bench: Benchmark, item: Item) -> str:
    """Return the cluster's name: a hash, which hides the patient's id; without the key, the case's id."""
    if bench.cases is None:
        return item.case_id
    known = clusters([item], bench.cases)
    return sha256(known[item.case_id].encode())[:12]


def _key_words(bench: Benchmark, item: Item) -> str:
    answer = bench.key("scoring")[0][item.item_id]
    return ", ".join(map(str, answer.answer)) or "none"


def _solver(plan: Plan) -> Solver:
    """Return the solver ``chexqa/ask``. It takes no arguments, because Inspect would write them into its log."""
    run = plan.run
    prompter = run.prompter
    address = lru_cache(maxsize=_CACHED_PICTURES)(lambda image: data_url(run.benchmark.image_bytes(image)))

    @solver(name="ask")
    def ask() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            model = get_model()
            shown, rotation = plan.conversations[str(state.sample_id)], state.metadata["rotation"]
            turns: list[Turn] = []
            state.store.set(STORE, [])
            for place in range(len(shown)):
                said = [PriorReply(turn.raw, turn.parsed) for turn in turns]
                messages = prompter.messages(shown, said, rotation, plan.frame)
                state.messages = chat(messages, address)
                started = datetime.now(UTC).isoformat(timespec="milliseconds")
                asked = Asked(str(model), decoding_of(model), state.epoch - 1, rotation, started)
                state.output = await model.generate(state.messages)
                turns.append(turn_of_reply(run, shown[place], messages, asked, reply_of(state.output), plan.frame))
                # The list grows turn by turn, so an error in a later turn loses no earlier one.
                state.store.set(STORE, [turn.to_record() for turn in turns])
                if not state.output.empty:
                    state.messages.append(state.output.message)
            return state

        return solve

    return ask()


def decoding_of(model: Model) -> Record:
    """Return the settings of generation that the user gave; settings that were not given are left out."""
    made: Record = model.config.model_dump(exclude_none=True, mode="json")
    return made
