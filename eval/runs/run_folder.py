"""Entering a run folder: what is run is written down once, and a run that differs is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chexqa.contract import runlog
from chexqa.contract.benchmark import Benchmark, check_images
from chexqa.eval.models import adapters, registry
from chexqa.eval.models.client import Client
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Protocol
from chexqa.eval.runs.turn_log import LOCK, log_path
from chexqa.files.errors import InputError, unwritable
from chexqa.files.jsonio import Record, dump, write_json
from chexqa.files.locks import locked


@dataclass(frozen=True)
class Plan:
    """What shapes the answers of a run, whoever is asked: all of it is in ``run.json`` and stays as it is."""

    benchmark: Benchmark
    protocol: Protocol
    seed: int = 0
    modifiers: Modifiers = field(default_factory=Modifiers)
    limit: int | None = None
    limit_per_path: int | None = None


def about(plan: Plan, models: Iterable[Model]) -> Record:
    """The content of ``run.json``."""
    return {
        **runlog.origin(plan.benchmark),
        "protocol": plan.protocol,
        "blind": plan.modifiers.blind,
        "overlay_only": plan.modifiers.overlay_only,
        "rotations": plan.modifiers.rotations,
        "repeats": plan.modifiers.repeats,
        "limit": plan.limit,
        "limit_per_path": plan.limit_per_path,
        "seed": plan.seed,
        "models": {
            model.name: {
                "litellm": model.litellm,
                "api_base": registry.endpoint(model),
                "decoding": model.decoding,
                "quirks": adapters.settings(model),
            }
            for model in models
        },
    }


def enter(folder: Path, plan: Plan, models: tuple[Model, ...], client: Client) -> None:
    """Write ``run.json``, or add new models to the one of a matching run; ``InputError`` where the run is another."""
    path = folder / runlog.ABOUT
    if folder.exists() and not path.exists() and not _is_blank(folder):
        raise InputError(f"{folder}: exists and is no run (it holds no {runlog.ABOUT}); name a new folder.")
    wanted = about(plan, models)
    if not path.exists():
        # Before anything is asked and paid for: a picture found damaged midway would end the run there.
        check_images(plan.benchmark)
        _check_new(folder, wanted, models, client)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with locked(folder / LOCK):
        if not path.exists():
            write_json(path, wanted, "run")
            return
        present = runlog.read_about(folder)
        _compare(folder, present, wanted)
        new = tuple(model for model in models if model.name not in present["models"])
        if new:
            joined = present | {"models": present["models"] | {one.name: wanted["models"][one.name] for one in new}}
            _check_new(folder, joined, new, client)
            write_json(path, joined, "run")


def _is_blank(folder: Path) -> bool:
    """Whether a folder is empty, or holds no more than the lock of a run that another process is beginning."""
    return folder.is_dir() and all(entry.name == LOCK for entry in folder.iterdir())


def _check_new(folder: Path, joined: Record, new: Iterable[Model], client: Client) -> None:
    """Refuse models whose logs would share a file, or whose id litellm cannot place."""
    files = Counter(log_path(folder, name).name.lower() for name in joined["models"])
    for model in new:
        if files[log_path(folder, model.name).name.lower()] > 1:
            raise InputError(f"model '{model.name}': another model's log has the same file name; rename one of them.")
        if re.search(r"\.\d+-of-\d+$", model.name):
            raise InputError(f"model '{model.name}': its log would be named like a shard's; rename it.")
        client.check(model)


_WORDS = {
    "protocol": "the protocol", "overlay_only": "--overlay-only", "blind": "--blind", "rotations": "--rotate",
    "repeats": "--repeats", "limit": "--limit", "limit_per_path": "--limit-per-path", "seed": "the seed",
}  # fmt: skip


def _compare(folder: Path, present: Record, wanted: Record) -> None:
    """Refuse to mix: everything that shapes the answers must be the same; a moved benchmark or a newer tool may be."""
    pairs = [
        ("the benchmark", present["benchmark"]["hash"][:12], wanted["benchmark"]["hash"][:12]),
        ("the question bank", present["question_bank"]["hash"][:12], wanted["question_bank"]["hash"][:12]),
        *((words, _said(present[field]), _said(wanted[field])) for field, words in _WORDS.items()),
    ]
    for name in wanted["models"].keys() & present["models"].keys():
        old, new = present["models"][name], wanted["models"][name]
        pairs.append((f"the litellm id of '{name}'", old["litellm"], new["litellm"]))
        pairs.append((f"the decoding of '{name}'", dump(old["decoding"]), dump(new["decoding"])))
        quirk = old.get("quirks", {})
        pairs += [(f"{key} of '{name}'", dump({key: quirk[key]}), dump({key: new["quirks"][key]})) for key in quirk]
    changed = [f"{what} was {old} and is now {new}" for what, old, new in pairs if old != new]
    if changed:
        raise InputError(
            f"{folder}: holds another run, and runs are not mixed: {'; '.join(changed)}. Repeat the command it was "
            "made with, or name a new folder."
        )


def _said(value: object) -> str:
    """A setting as people say it."""
    return "not given" if value is None or value is False else "given" if value is True else str(value)
