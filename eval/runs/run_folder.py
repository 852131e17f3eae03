"""The folder of a run: its file ``run.json`` records the run's settings when the run starts.

A later command for the same folder is refused if its settings are different.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark, check_images
from chexqa.contract.items import ORIGINAL, Item, asked_conditions
from chexqa.contract.read_run import ERROR
from chexqa.eval.design import subset
from chexqa.eval.design.pair_decision import StoppingRule
from chexqa.eval.models import adapters, registry
from chexqa.eval.models.client import Client
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import conditions
from chexqa.eval.prompts.conditions import Condition, Prompter
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Protocol
from chexqa.eval.runs.turn_log import LOCK, log_path
from chexqa.eval.stress.unequal_wordings import unequal
from chexqa.eval.stress.wordings import WORDING
from chexqa.files.errors import InputError, unwritable
from chexqa.files.jsonio import Record, dump, is_file, write_json
from chexqa.files.locks import locked
from chexqa.generators.interventions import altered_items
from chexqa.generators.interventions.altered_items import Interventions


@dataclass(frozen=True)
class RunIdentity:
    """Settings that can change a model's answers; ``run.json`` records them, and they never change during a run."""

    benchmark: Benchmark
    protocol: Protocol
    seed: int = 0
    modifiers: Modifiers = field(default_factory=Modifiers)
    limit: int | None = None
    limit_per_path: int | None = None
    condition: Condition = field(default_factory=Condition)
    until: StoppingRule | None = None
    interventions: tuple[str, ...] = (ORIGINAL,)
    stress: tuple[str, ...] = ()

    @property
    def prompter(self) -> Prompter:
        """Return the maker of messages; raise ``InputError`` if the wording or the examples are missing."""
        return Prompter(self.benchmark, self.protocol, self.modifiers, self.condition, self.seed)


def about(plan: RunIdentity, models: Iterable[Model]) -> Record:
    """Return the content of ``run.json``."""
    condition = plan.condition.record(plan.benchmark)
    return {
        **read_run.origin(plan.benchmark),
        "protocol": plan.protocol,
        "blind": plan.modifiers.blind,
        "overlay_only": plan.modifiers.overlay_only,
        "rotations": plan.modifiers.rotations,
        "repeats": plan.modifiers.repeats,
        "limit": plan.limit,
        "limit_per_path": plan.limit_per_path,
        **({"limit_prefers": list(prefers)} if (prefers := _preferred(plan)) else {}),
        "seed": plan.seed,
        **({"condition": condition} if condition else {}),
        **({"until_decided": plan.until.to_record()} if plan.until else {}),
        **({} if plan.interventions == (ORIGINAL,) else {"interventions": list(plan.interventions)}),
        **({"stress": list(plan.stress)} if plan.stress else {}),
        **({"unequal_wordings": left} if (left := _left_out(plan)) else {}),
        "models": {
            model.name: {
                "litellm": model.litellm,
                **({"domain": model.domain} if model.domain else {}),
                "api_base": registry.endpoint(model),
                "decoding": model.decoding,
                "quirks": adapters.settings(model),
            }
            for model in models
        },
    }


def _preferred(plan: RunIdentity) -> tuple[str, ...]:
    """Return the conditions whose cases a new trial takes first; empty for a run that is no trial."""
    if (plan.limit, plan.limit_per_path) == (None, None):
        return ()
    return tuple(name for name in plan.interventions if name != ORIGINAL)


def chosen_items(plan: RunIdentity, folder: Path) -> tuple[Item, ...]:
    """Return the items of all cases; if the run is a trial (``--limit``), return the items of the trial's cases."""
    # A run keeps the cases that it began with, whatever conditions are asked later.
    begun = is_file(folder / read_run.ABOUT)
    prefer = read_run.read_about(folder).get("limit_prefers", ()) if begun else _preferred(plan)
    return subset.chosen(plan.benchmark, plan.limit, plan.limit_per_path, prefer)


def _left_out(plan: RunIdentity) -> list[str]:
    """Return the wordings that are not asked because a review of the benchmark found them unequal in meaning."""
    return sorted(map(str, unequal(plan.benchmark))) if WORDING in plan.stress else []


def open_or_create(folder: Path, plan: RunIdentity, models: tuple[Model, ...], client: Client) -> None:
    """Write ``run.json`` for a new run, or add new models and interventions to that of an existing run.

    Raise ``InputError`` if the existing run has other settings, or if the folder is not empty and not a run.
    """
    path = folder / read_run.ABOUT
    if folder.exists() and not path.exists() and not _is_blank(folder):
        raise InputError(f"{folder}: already exists but is not a run (it has no {read_run.ABOUT}); name a new folder.")
    wanted = about(plan, models)
    if not path.exists():
        # Check the pictures before anything is paid for: a damaged picture would end the run midway.
        altered = altered_items.load(plan.benchmark) if plan.interventions != (ORIGINAL,) else Interventions()
        check_images(plan.benchmark, set().union(*(item.image_paths for item in altered.items.values())))
        _check_new(folder, wanted, models, client)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with locked(folder / LOCK):
        if not path.exists():
            write_json(path, wanted, "run")
            return
        present = read_run.read_about(folder)
        _compare(folder, present, wanted)
        new = tuple(model for model in models if model.name not in present["models"])
        joined = present | {"models": present["models"] | {one.name: wanted["models"][one.name] for one in new}}
        pictures = {*asked_conditions(present), *plan.interventions}
        if pictures != {ORIGINAL}:
            joined["interventions"] = [name for name in altered_items.CONDITIONS if name in pictures]
        if joined != present:
            _check_new(folder, joined, new, client)
            write_json(path, joined, "run")


def _is_blank(folder: Path) -> bool:
    """Return True if a folder is empty, or contains only the lock of a process that is starting a run in it."""
    return folder.is_dir() and all(entry.name == LOCK for entry in folder.iterdir())


def _check_new(folder: Path, joined: Record, new: Iterable[Model], client: Client) -> None:
    """Raise ``InputError`` if a new model's log would have the path of another log, or its id has no known provider."""
    files = {name: log_path(folder, name).name.lower() for name in joined["models"]}
    for model in new:
        log = log_path(folder, model.name).name
        twin = next((name for name, file in files.items() if file == log.lower() and name != model.name), None)
        if twin is not None:
            raise InputError(
                f"models '{model.name}' and '{twin}': their logs would have the same file name ({log}); rename one "
                "of the models."
            )
        if re.search(r"\.\d+-of-\d+$", model.name):
            raise InputError(
                f"model '{model.name}': its log would have the same name as the log of a shard; rename the model."
            )
        client.check(model)


_WORDS = {
    "protocol": "the protocol", "overlay_only": "--overlay-only", "blind": "--blind", "rotations": "--rotate",
    "repeats": "--repeats", "limit": "--limit", "limit_per_path": "--limit-per-path", "seed": "the seed",
}  # fmt: skip


def _compare(folder: Path, present: Record, wanted: Record) -> None:
    """Raise ``InputError`` if the earlier run and this command differ in a setting that can change answers."""
    # The benchmark's folder and chexqa's version may differ.
    pairs = [
        ("the benchmark", present["benchmark"]["hash"][:12], wanted["benchmark"]["hash"][:12]),
        ("the question bank", present["question_bank"]["hash"][:12], wanted["question_bank"]["hash"][:12]),
        *((words, _said(present[field]), _said(wanted[field])) for field, words in _WORDS.items()),
        *_conditions(present, wanted),
        ("--until-decided", _rule(present), _rule(wanted)),
        *(
            (
                words,
                ", ".join(present.get(name, ())) or "not given",
                ", ".join(wanted.get(name, ())) or "not given",
            )
            for name, words in (("stress", "--stress"), ("unequal_wordings", "the wordings found unequal"))
        ),
    ]
    for name in wanted["models"].keys() & present["models"].keys():
        old, new = present["models"][name], wanted["models"][name]
        pairs.append((f"the litellm id of '{name}'", old["litellm"], new["litellm"]))
        pairs.append((f"the decoding of '{name}'", dump(old["decoding"]), dump(new["decoding"])))
        quirk = old.get("quirks", {})
        pairs += [
            (f"{key} of '{name}'", dump({key: quirk.get(key)}), dump({key: new["quirks"].get(key)}))
            for key in {**quirk, "frame": None}
        ]
    changed = [f"{what} was {old} and is now {new}" for what, old, new in pairs if old != new]
    if changed:
        remedy = (
            "Repeat the command that made the earlier run, or name a new folder."
            if _has_replies(folder)
            else "The earlier run has no answer yet, so its folder can be removed; or name a new folder."
        )
        raise InputError(
            f"{folder}: contains a run with other settings: {'; '.join(changed)}. Runs are not mixed. {remedy}"
        )


def _has_replies(folder: Path) -> bool:
    """Return True if a run has replies, or requests that wait for a batch's results."""
    turns = folder / read_run.TURNS
    return any(turns.glob("*.waiting.json")) or any(
        log.aside or any(turn.state != ERROR for turn in log.turns)
        for log in map(read_run.read_log, sorted(turns.glob("*.jsonl")))
    )


def _conditions(present: Record, wanted: Record) -> Iterator[tuple[str, str, str]]:
    """Yield the settings of the prompt: name, earlier value and new value, all in words."""
    old, new = (conditions.of_run(about) for about in (present, wanted))
    yield "the wording", old.wording or "the bank's own", new.wording or "the bank's own"
    yield "--shots", str(old.shots), str(new.shots)
    yield "--confidence", _said(old.confidence), _said(new.confidence)
    yield "--may-abstain", _said(old.may_abstain), _said(new.may_abstain)
    if old.wording == new.wording and "condition" in present and "condition" in wanted:
        texts = [about["condition"]["wording"][:12] for about in (present, wanted)]
        yield f"the text of {new.wording or 'the examples'}", *texts


def _rule(about: Record) -> str:
    record = about.get("until_decided")
    return StoppingRule.from_record(record).words if record else "not given"


def _said(value: object) -> str:
    """Return the value of a setting in words."""
    return "not given" if value is None or value is False else "given" if value is True else str(value)
