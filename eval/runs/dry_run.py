"""Dry run: the conversations that a model would see, written as JSON and Markdown; nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark, image_path
from chexqa.eval.models import adapters
from chexqa.eval.models.client import Client
from chexqa.eval.models.registry import Model
from chexqa.eval.places import coordinate_systems
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.conditions import Prompter
from chexqa.eval.prompts.protocols import PriorReply
from chexqa.eval.runs.conversations import PlannedConversation, talks
from chexqa.eval.runs.runner import RunConfig, check
from chexqa.eval.runs.turn_log import log_path
from chexqa.files.atomic import new_folder
from chexqa.files.errors import InputError, unwritable
from chexqa.files.jsonio import Record, write_bytes, write_json
from chexqa.files.text import markdown

REPLY = "(the model's reply)"


class Written(NamedTuple):
    """Counts that a dry run reports.

    - ``files``: the files that the dry run wrote.
    - ``conversations``, ``turns``: the conversations and turns that a real run would have with each model.
    """

    files: int
    conversations: int
    turns: int


def write(order: RunConfig, folder: Path) -> Written:
    """Write one conversation for each combination of model, order of options and sequence of question kinds.

    Nothing is sent, and no API key is needed. The replies are placeholders, which count as wrong answers.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder}: already exists and is not empty; name a new folder for the dry run.")
    check(order)
    if order.stress:
        raise InputError(
            "--stress makes its pictures only when a model is asked, so --dry-run cannot show them; leave out one of "
            "the two."
        )
    client, prompter = Client(order.benchmark, order.policy), order.plan.prompter
    for model in order.models:
        client.check(model)
    conversations = protocols.conversations(order.benchmark, order.protocol, order.items)
    held = talks(conversations, order.modifiers)
    first: dict[tuple[object, ...], PlannedConversation] = {}
    for talk in held:
        first.setdefault((talk.rotation, *((item.kind, item.condition) for item in talk.items)), talk)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with new_folder(folder) as hidden:
        for model in order.models:
            place = hidden / log_path(hidden, model.name).stem
            place.mkdir()
            for talk in first.values():
                _write_talk(order, model, talk, place, prompter)
    files = 2 * len(first) * len(order.models)
    return Written(files, len(held), sum(len(talk.items) for talk in held))


def _write_talk(order: RunConfig, model: Model, talk: PlannedConversation, place: Path, prompter: Prompter) -> None:
    """Write one conversation as JSON and as Markdown."""
    record = _record(order, model, talk, prompter)
    name = talk.items[0].item_id.replace("/", "-") + (f"-rotation-{talk.rotation}" if talk.rotation else "")
    write_json(place / f"{name}.json", record, "dry_run")
    write_bytes(place / f"{name}.md", "\n".join(_markdown(record, order.benchmark, place)).encode())


def _record(order: RunConfig, model: Model, talk: PlannedConversation, prompter: Prompter) -> Record:
    shown = tuple(option_order.shown(item, order.modifiers, talk.rotation) for item in talk.items)
    requests = []
    for index, item in enumerate(shown):
        said = [PriorReply(REPLY, None)] * index
        frame = coordinate_systems.named(model.frame, f"model '{model.name}'")
        messages = adapters.adapt(model, prompter.messages(shown, said, talk.rotation, frame))
        requests.append(
            {
                "item_id": item.item_id,
                "request_hash": protocols.request_hash(messages, model.litellm, model.decoding),
                "messages": protocols.plain(messages),
            }
        )
    return {
        "schema_version": 1,
        "model": model.name,
        "litellm": model.litellm,
        "decoding": model.decoding,
        "protocol": order.protocol,
        "rotation": talk.rotation,
        "requests": requests,
    }


def _markdown(record: Record, benchmark: Benchmark, place: Path) -> Iterator[str]:
    """Yield the conversation as Markdown; messages that the previous request already had are left out."""
    first, *_ = record["requests"]
    yield f"# {markdown(first['item_id'])} to {markdown(record['model'])}, protocol {markdown(record['protocol'])}\n"
    before: list[Record] = []
    for request in record["requests"]:
        messages = request["messages"]
        same = next((n for n, (old, new) in enumerate(zip(before, messages, strict=False)) if old != new), len(before))
        repeated = f" (after {same} messages as before)" if same else ""
        yield f"## {markdown(request['item_id'])}{repeated}\n"
        for message in messages[same:]:
            yield f"**{message['role']}**\n"
            for part in message["parts"]:
                yield _quoted(part) if isinstance(part, str) else _picture(part["image"], benchmark, place)
        before = messages


def _quoted(text: str) -> str:
    """Return text as a Markdown code block."""
    return "".join(f"    {line}\n" for line in text.split("\n"))


def _picture(digest: str, benchmark: Benchmark, place: Path) -> str:
    path = Path(os.path.relpath(benchmark.folder / image_path(digest), place)).as_posix()
    return f"![{digest}]({path.replace(' ', '%20')})\n"
