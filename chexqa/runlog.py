"""Reading a run folder: what was run (``run.json``) and what was said (``turns/<model>[.<i>-of-<n>].jsonl``).

A log is append-only and its writer may be killed in the middle of a line, so a last line that was cut is left out;
anything else that is not a turn is an error. The writer is ``chexqa.eval.log``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.benchmark import Benchmark
from chexqa.errors import InputError
from chexqa.fastcheck import fits
from chexqa.records import Record, bounded_lines, check, many_objects, parse_json, read_json
from chexqa.version import __version__

ABOUT, TURNS = "run.json", "turns"
ERROR = "error"


@dataclass(frozen=True, slots=True)
class Turn:
    """One question put to a model and what came back; the fields are the schema ``turn``'s.

    ``state`` is ``answered``, ``unparsed``, ``truncated``, ``refused``, ``empty``, ``overflow`` or ``error``;
    ``parsed`` holds sorted option numbers of the item itself where it is ``answered``, else None. ``order`` lists these
    numbers as the model saw them, first to last; None: as they are.
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
    overlay_only: bool = False
    order: tuple[int, ...] | None = None

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What a turn answers: ``(model, item_id, repeat, rotation)``."""
        return self.model, self.item_id, self.repeat, self.rotation

    @classmethod
    def from_record(cls, record: Record) -> Turn:
        """From a checked record, which has all fields."""
        values = list(_in_order(record))
        for place in _TUPLE_PLACES:
            if values[place] is not None:
                values[place] = tuple(values[place])
        return cls(*values)

    def to_record(self) -> Record:
        """The JSON form."""
        record = {name: getattr(self, name) for name in _TURN_FIELDS}
        for name in _TUPLES:
            if record[name] is not None:
                record[name] = list(record[name])
        return record


_TURN_FIELDS = tuple(field.name for field in fields(Turn))
_TUPLES = ("parsed", "image_hashes", "order")
_TUPLE_PLACES = tuple(_TURN_FIELDS.index(name) for name in _TUPLES)
_in_order = itemgetter(*_TURN_FIELDS)
_decode = json.JSONDecoder().decode


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


def origin(bench: Benchmark) -> Record:
    """What every ``run.json`` says of the tool that wrote it and of the benchmark that was answered."""
    bank = bench.about["question_bank"]
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "benchmark": {
            "name": bench.name,
            "version": bench.about["version"],
            "hash": bench.hash,
            "path": str(bench.folder.resolve()),
        },
        "question_bank": {"name": bank["name"], "hash": bank["hash"]},
    }


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
            # An answer in one shard's log is not undone by an error in another's.
            if turn.state != ERROR or turn.key not in turns or turns[turn.key].state == ERROR:
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
    valid = fits("turn")
    try:
        with many_objects(), path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file, path), start=1):
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
        return _decode(line.decode())
    except (ValueError, RecursionError):
        return None


def _refuse(line: bytes, where: str) -> None:
    """Raise the ``InputError`` that says what is wrong with a whole line."""
    check(parse_json(line.decode("utf-8", errors="replace"), where), "turn", where)
    raise InputError(f"{where}: not a turn.")
