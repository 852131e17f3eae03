"""Reading a run folder: what was run (``run.json``) and what was said (``turns/*.jsonl``).

A log is append-only and its writer may be killed in the middle of a line, so a last line that was cut is left out;
anything else that is not a turn is an error. The writer is ``chexqa.eval.log``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from chexqa import schemas
from chexqa.errors import InputError
from chexqa.records import Record, check, parse_json, read_json

ABOUT, TURNS = "run.json", "turns"
ERROR = "error"
Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Turn:
    """One question put to a model and what came back; the fields are the schema ``turn``'s.

    ``state`` is ``answered``, ``unparsed``, ``truncated``, ``refused``, ``empty``, ``overflow`` or ``error``;
    ``parsed`` holds sorted option numbers where it is ``answered``, else None.
    """

    model: str
    protocol: str
    case_id: str
    item_id: str
    repeat: int
    rotation: int
    blind: bool
    attempts: int
    state: str
    parsed: tuple[int, ...] | None
    raw: str | None
    finish_reason: str | None
    usage: dict[str, int | None] | None
    cost_usd: float | None
    latency_s: float | None
    provider_model: str | None
    request_hash: str
    image_hashes: tuple[str, ...]
    started: str
    error: str | None

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What a turn answers: ``(model, item_id, repeat, rotation)``."""
        return self.model, self.item_id, self.repeat, self.rotation

    @classmethod
    def from_record(cls, record: Record) -> Turn:
        """From a checked record."""
        parsed = record["parsed"]
        images = tuple(record["image_hashes"])
        return cls(**{**record, "parsed": None if parsed is None else tuple(parsed), "image_hashes": images})

    def to_record(self) -> Record:
        """The JSON form."""
        record = {name: getattr(self, name) for name in _TURN_FIELDS}
        record["parsed"] = None if self.parsed is None else list(self.parsed)
        record["image_hashes"] = list(self.image_hashes)
        return record


_TURN_FIELDS = tuple(field.name for field in fields(Turn))


class Log(NamedTuple):
    """One log file: its turns in the order they were written, and how many of its bytes are whole lines."""

    turns: list[Turn]
    whole_bytes: int


@dataclass(frozen=True)
class Run:
    """A run: its folder, ``run.json``, and the last turn of each (model, item, repeat, rotation)."""

    folder: Path
    about: Record
    turns: tuple[Turn, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models asked, in the order they were added."""
        return tuple(self.about["models"])

    @property
    def benchmark_folder(self) -> Path:
        """Where the benchmark lies: the recorded place, or a folder of its name beside the run when both moved."""
        recorded = Path(self.about["benchmark"]["path"])
        beside = self.folder.resolve().parent / recorded.name
        return beside if beside.is_dir() and not recorded.is_dir() else recorded


def load(folder: Path) -> Run:
    """Read a run, finished or not; ``InputError`` where it is no run or a log holds what is not its own."""
    about = read_about(folder)
    turns: dict[tuple[str, str, int, int], Turn] = {}
    for path in sorted((folder / TURNS).glob("*.jsonl")):
        for turn in read_log(path).turns:
            if turn.model not in about["models"] or turn.protocol != about["protocol"]:
                raise InputError(
                    f"{path}: holds a turn of model '{turn.model}' and protocol '{turn.protocol}', which {ABOUT} does "
                    "not name; keep every run's logs in its own folder."
                )
            turns[turn.key] = turn
    return Run(folder, about, tuple(turns.values()))


def read_about(folder: Path) -> Record:
    """The run's ``run.json``, checked."""
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name the folder of a run made by 'chexqa eval'.")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a run made by 'chexqa eval'.")
    if not (folder / ABOUT).is_file():
        raise InputError(f"{folder}: holds no {ABOUT}, so it is no run; name a run made by 'chexqa eval'.")
    return read_json(folder / ABOUT, "run")


def read_log(path: Path) -> Log:
    """All turns of one log, each checked; a last line that was cut while being written is left out."""
    turns: list[Turn] = []
    whole = 0
    valid = turn_check()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                record = _record(line)
                if not valid(record):
                    if not line.endswith(b"\n"):
                        break
                    _refuse(line, f"{path}, line {number}")
                turns.append(Turn.from_record(record))
                whole += len(line)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    return Log(turns, whole)


def _record(line: bytes) -> Any:
    """The line's JSON value, or None for what is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _refuse(line: bytes, where: str) -> None:
    """Raise the ``InputError`` that says what is wrong with a whole line."""
    check(parse_json(line.decode("utf-8", errors="replace"), where), "turn", where)
    raise InputError(f"{where}: not a turn.")


@functools.cache
def turn_check() -> Check:
    """Whether a value fits the schema ``turn``: as jsonschema says, at a fraction of its cost."""
    return compile_check(schemas.schema("turn"))


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def compile_check(schema: Mapping[str, Any]) -> Check:
    """A yes-or-no function for the few keywords the turn schema uses; ``ValueError`` for any other keyword."""
    unknown = schema.keys() - _KEYWORDS.keys() - _SILENT
    if unknown:
        raise ValueError(f"the schema keyword {sorted(unknown)[0]} is not compiled")
    checks = [make(wanted) for keyword, make in _KEYWORDS.items() if (wanted := schema.get(keyword)) is not None]
    if "properties" in schema:
        checks.append(_object_check(schema))
    if len(checks) == 1:
        return checks[0]
    first, second, *rest = checks
    return lambda value: first(value) and second(value) and all(passes(value) for passes in rest)


def _type(wanted: str | list[str]) -> Check:
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    types = frozenset(kind for name in names for kind in _TYPES[name])
    if "integer" in names and "number" not in names:
        return lambda value: type(value) in types or (type(value) is float and value.is_integer())
    return lambda value: type(value) in types


def _enum(wanted: list[Any]) -> Check:
    return lambda value: value in wanted


def _pattern(wanted: str) -> Check:
    found = re.compile(wanted).search
    return lambda value: not isinstance(value, str) or found(value) is not None


def _min_length(least: int) -> Check:
    return lambda value: not isinstance(value, str) or len(value) >= least


def _minimum(least: float) -> Check:
    return lambda value: type(value) not in _TYPES["number"] or value >= least


def _items(wanted: Mapping[str, Any]) -> Check:
    each = compile_check(wanted)
    return lambda value: not isinstance(value, list) or all(each(entry) for entry in value)


_KEYWORDS: dict[str, Callable[[Any], Check]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minLength": _min_length,
    "minimum": _minimum,
    "items": _items,
}
_SILENT = {"$schema", "title", "description", "properties", "required", "additionalProperties"}


def _object_check(schema: Mapping[str, Any]) -> Check:
    """Required, known and fitting fields; unknown ones are refused, as every schema of the project does."""
    if schema.get("additionalProperties") is not False:
        raise ValueError("an object that allows unknown fields is not compiled")
    required = frozenset(schema.get("required", ()))
    known = {name: compile_check(field) for name, field in schema["properties"].items()}

    def fits(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        if not required <= value.keys():
            return False
        for name, entry in value.items():
            test = known.get(name)
            if test is None or not test(entry):
                return False
        return True

    return fits
