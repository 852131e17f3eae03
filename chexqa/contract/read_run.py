"""Reader of a run folder: its settings (``run.json``) and its turns (``turns/<model>[.<i>-of-<n>].jsonl``).

A line that is not a turn is skipped and reported. An incomplete last line is ignored: the writer of a log can be killed
in the middle of a line.
"""

from __future__ import annotations

import errno
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from chexqa import schemas
from chexqa.contract import reply_limits
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import split_by_condition
from chexqa.files import limits
from chexqa.files.errors import InputError, unreadable
from chexqa.files.jsonio import Record, check, dump, is_folder, many_objects, parse_json, read_json
from chexqa.files.opening import InFolder, open_binary, real
from chexqa.files.terminal import messages, plural
from chexqa.version import __version__

_ENDLESS = 2**28  # bytes from which a line counts as endless; the longest turn ever logged has less than half of it
ABOUT, TURNS, DECISION = "run.json", "turns", "decision.json"
ERROR, OVERFLOW = "error", "overflow"
# Value of ``parser_version`` for a reply that chexqa's parser did not read, and for a log without this field.
NO_PARSER, FIRST_PARSER = 0, 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One question to a model and its reply; the schema ``turn`` explains every field.

    - ``state``: ``answered``, ``unparsed``, ``truncated``, ``refused``, ``empty``, ``overflow`` or ``error``.
    - ``parsed``: the item's option numbers, sorted, if the state is ``answered``, otherwise None.
    - ``order``: all option numbers in the order shown to the model; None means the item's order.
    - ``place``: the shapes of an answered place, each ``x, y, x, y, …`` in pixels of the item's picture; empty for
      "nowhere".

    The fields after ``order`` are written only if they are not None.
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
    parser_version: int | None = None
    condition: str | None = None
    stress: str | None = None
    prompt: str | None = None
    reasoning: str | None = None
    confidence: float | None = None
    answer_logprob: float | None = None
    fell_back: bool | None = None
    failed_usage: dict[str, int] | None = None
    place: tuple[tuple[float, ...], ...] | None = None

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The identity of a turn: ``(model, item_id, repeat, rotation)``."""
        return self.model, self.item_id, self.repeat, self.rotation

    @property
    def read_by(self) -> int:
        """The version of the parser that read the reply; 0 if another tool read it or there was no text."""
        return FIRST_PARSER if self.parser_version is None else self.parser_version

    @classmethod
    def from_record(cls, record: Record) -> Turn:
        """Return the turn of a checked record; only optional fields can be missing."""
        values = [*_in_order(record), *map(record.get, _OPTIONAL)]
        for place in _SHARED_PLACES:
            if values[place] is not None:
                values[place] = sys.intern(values[place])
        values[_HASHES] = map(sys.intern, values[_HASHES])
        for place in _TUPLE_PLACES:
            if values[place] is not None:
                values[place] = tuple(values[place])
        if values[-1] is not None:
            values[-1] = tuple(map(tuple, values[-1]))
        return cls(*values)

    def to_record(self) -> Record:
        """Return the JSON form."""
        record = {name: getattr(self, name) for name in _REQUIRED}
        record |= {name: value for name in _OPTIONAL if (value := getattr(self, name)) is not None}
        for name in _TUPLES:
            if record[name] is not None:
                record[name] = list(record[name])
        return record


_TURN_FIELDS = tuple(field.name for field in fields(Turn))
_OPTIONAL = (
    "parser_version", "condition", "stress", "prompt", "reasoning", "confidence", "answer_logprob", "fell_back",
    "failed_usage", "place",
)  # fmt: skip
_REQUIRED = _TURN_FIELDS[: -len(_OPTIONAL)]
_TUPLES = ("parsed", "image_hashes", "order")
_TUPLE_PLACES = tuple(_TURN_FIELDS.index(name) for name in _TUPLES)
# Texts that many turns have, and that are kept once: a run of 14 models has each id and hash 14 times.
_SHARED = ("model", "protocol", "case_id", "item_id", "state", "finish_reason", "provider_model", "condition", "stress")
_SHARED_PLACES = tuple(_TURN_FIELDS.index(name) for name in _SHARED)
_HASHES = _TURN_FIELDS.index("image_hashes")
_in_order = itemgetter(*_REQUIRED)
_decode = json.JSONDecoder().decode


class Line(NamedTuple):
    """A log's line that is not a turn: its number from 1, the offset of its start, its size in bytes, and its bytes.

    For a line that is too long, ``data`` has only the beginning.
    """

    number: int
    start: int
    size: int
    data: bytes


@dataclass(frozen=True)
class LinesLeftOut:
    """Summary of the lines of a log that are left out because they are not valid turns.

    - ``count``: the number of lines left out.
    - ``first_number``: the number, from 1, of the first line left out.
    - ``reason``: the reason why the first line is not valid.
    - ``first_is_newer``: True if a newer chexqa wrote the first line: a turn with fields that are unknown here.
    """

    path: Path
    count: int
    first_number: int
    reason: str
    first_is_newer: bool

    def __str__(self) -> str:
        """Return the message for the user about these lines."""
        more = f" (and {plural(self.count - 1, 'more line')})" if self.count > 1 else ""
        return (
            f"{self.path}, line {self.first_number}: {self.reason}{more}. The line is left out, and the rest of the "
            f"log is used. 'chexqa run repair {self.path.parent.parent}' moves damaged lines out of the log."
        )


class Log(NamedTuple):
    """Content of a log file: its turns in the order of writing, and the length in bytes of its complete lines.

    ``aside`` summarizes the lines that are not turns, or is None.
    """

    turns: list[Turn]
    whole_bytes: int
    aside: LinesLeftOut | None


@dataclass(frozen=True)
class Run(InFolder):
    """Content of a run folder.

    - ``about``: the content of ``run.json``.
    - ``turns``, ``altered``: the turns on original and on altered pictures, one per (model, item, repeat, rotation).
    - ``replaced``: the errors that a later turn replaced.
    - ``aside``: summaries of lines that are not turns, one for each log with these lines.
    - ``decision``: the content of ``decision.json``; None if the run has no stopping rule or has not ended.
    """

    folder: Path
    about: Record = field(repr=False)
    turns: tuple[Turn, ...] = field(repr=False)
    aside: tuple[LinesLeftOut, ...] = field(default=(), repr=False)
    decision: Record | None = field(default=None, repr=False)
    altered: tuple[Turn, ...] = field(default=(), repr=False)
    replaced: tuple[Turn, ...] = field(default=(), repr=False)

    @property
    def stopped_on(self) -> frozenset[str] | None:
        """The ids of the cases to grade if a stopping rule ended the run; None if no rule ended it."""
        return frozenset(self.decision["cases"]) if self.decision and self.decision["decided"] else None

    @property
    def counted_turns(self) -> tuple[Turn, ...]:
        """The turns to grade.

        If a stopping rule ended the run, these are the turns on the cases in :attr:`stopped_on`; otherwise all turns.
        """
        cases = self.stopped_on
        return self.turns if cases is None else tuple(turn for turn in self.turns if turn.case_id in cases)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models asked, in the order they were added."""
        return tuple(self.about["models"])

    @property
    def benchmark_folder(self) -> Path:
        """The benchmark's folder, at the path in ``run.json`` or, if it moved, under the same name beside the run."""
        recorded = Path(self.about["benchmark"]["path"])
        beside = real(self.folder).parent / recorded.name
        return beside if is_folder(beside) and not is_folder(recorded) else recorded


def origin(bench: Benchmark) -> Record:
    """Return the fields of ``run.json`` that name the version of chexqa and the benchmark that was asked."""
    bank = bench.about["question_bank"]
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "benchmark": {
            "name": bench.name,
            "version": bench.about["version"],
            "hash": bench.hash,
            "path": str(real(bench.folder)),
        },
        "question_bank": {"name": bank["name"], "hash": bank["hash"]},
    }


def load(folder: Path) -> Run:
    """Read a run, finished or not; raise ``InputError`` if ``folder`` is no run or a log has turns of another run.

    Lines that are not turns are skipped and summarized in :attr:`Run.aside`; :func:`say` reports them.
    """
    about = read_about(folder)
    turns: dict[tuple[str, str, int, int], Turn] = {}
    logs = {path: read_log(path) for path in sorted((folder / TURNS).glob("*.jsonl"))}
    for path, log in logs.items():
        for turn in log.turns:
            if turn.model not in about["models"] or turn.protocol != about["protocol"]:
                raise InputError(
                    f"{path}: contains a turn of model '{turn.model}' and protocol '{turn.protocol}', which do not "
                    f"belong to this run ({ABOUT}); move the logs of other runs out of the folder."
                )
            # An error in one shard's log does not replace an answer in another's.
            if turn.state != ERROR or turn.key not in turns or turns[turn.key].state == ERROR:
                turns[turn.key] = turn
    own, altered = split_by_condition(turns.values())
    replaced = tuple(turn for log in logs.values() for turn in log.turns if turns[turn.key] is not turn)
    aside = tuple(log.aside for log in logs.values() if log.aside)
    return Run(folder, about, own, aside, read_decision(folder), altered, replaced)


def say(aside: Iterable[LinesLeftOut]) -> None:
    """Print one sentence to standard error for each log with lines that are not turns."""
    for one in aside:
        messages().print(str(one), soft_wrap=True)


def read_about(folder: Path) -> Record:
    """Read and check the run's ``run.json``."""
    if folder.is_file():
        raise InputError(f"{folder}: is a file; name the folder of a run made by 'chexqa eval'.")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a run made by 'chexqa eval'.")
    if not (folder / ABOUT).is_file():
        raise InputError(f"{folder}: contains no {ABOUT}, so it is not a run; name a run made by 'chexqa eval'.")
    about = read_json(folder / ABOUT, "run", folder)
    # Whole numbers may be written with a point (1.0); the code needs integers.
    counts = ("rotations", "repeats", "limit", "limit_per_path", "seed")
    return about | {name: int(about[name]) for name in counts if about[name] is not None}


def read_decision(folder: Path) -> Record | None:
    """Read a run's ``decision.json``; return None if the run has no stopping rule or has not ended."""
    return read_json(folder / DECISION, "decision", folder) if (folder / DECISION).is_file() else None


def read_log(path: Path) -> Log:
    """Read and check all turns of one log; an incomplete last line is left out."""
    turns: list[Turn] = []
    whole = odd = 0
    first = None
    try:
        with many_objects(), open_binary(path, inside=path.parent.parent) as file:
            for end, found in scan(file):
                whole = end
                if isinstance(found, Turn):
                    turns.append(found)
                else:
                    odd, first = odd + 1, first or found
    except OSError as error:
        raise unreadable(path, error) from None
    aside = LinesLeftOut(path, odd, first.number, why(first), _is_newer(first.data)) if first else None
    return Log(turns, whole, aside)


def scan(file: BinaryIO, fits: Callable[[Turn], bool] = lambda turn: True) -> Iterator[tuple[int, Turn | Line]]:
    """Yield ``(offset of the line's end, turn)`` for every non-blank line of a log.

    For a line that is not a turn, or a turn that does not pass ``fits``, a :class:`Line` is yielded instead of a turn.
    An incomplete last line is ignored.
    """
    most, start = limits.MAX_LINE_CHARACTERS, 0
    for number in itertools.count(1):
        if not (data := file.readline(most + 1)):
            return
        end, turn = start + len(data), turn_of(data)
        if turn is not None and fits(turn):
            yield end, turn
        elif len(data) <= most and not data.endswith(b"\n"):
            return
        else:
            rest = data
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(2**20)
                end += len(rest)
                if end - start > _ENDLESS:
                    raise OSError(errno.EFBIG, f"line {number} is too long; check that it is a log")
            if data.strip():
                yield end, Line(number, start, end - start, data[:most])
        start = end


def turn_of(line: bytes) -> Turn | None:
    """Return the turn in a line of a log, or None if the line is not a turn."""
    if len(line) > limits.MAX_LINE_CHARACTERS:
        return None
    record, valid = _record(line), schemas.fits("turn")
    # An impossible number that a server sent, such as a negative count, becomes None.
    if not valid(record) and not valid(record := reply_limits.true_numbers(record)):
        return None
    if b"\\" in line and (b"\\ud" in line or b"\\uD" in line):  # a lone surrogate, which could not be written again
        record = _decode(dump(record).encode(errors="replace").decode())
    return None if _odd(record) else Turn.from_record(reply_limits.whole_numbers(record))


def bounded(turn: Turn) -> Turn:
    """Return a copy of the turn in which every value from a server is within the limits of ``turn.schema.json``."""
    return replace(
        turn,
        raw=reply_limits.text(turn.raw),
        reasoning=reply_limits.text(turn.reasoning),
        finish_reason=reply_limits.short(turn.finish_reason),
        usage=reply_limits.counts(turn.usage),
        cost_usd=reply_limits.amount(turn.cost_usd, reply_limits.MAX_USD),
        latency_s=reply_limits.amount(turn.latency_s, reply_limits.MAX_SECONDS),
        provider_model=reply_limits.short(turn.provider_model),
        error=reply_limits.short(turn.error, reply_limits.MAX_ERROR_CHARACTERS),
    )


def _odd(record: Record) -> str:
    """Return the reason why a record that fits the schema is not a turn, or an empty text if it is a turn."""
    if not reply_limits.is_time(record["started"]):
        return f"field 'started': '{record['started']}' is not a time"
    if record["state"] == "answered" and not record["parsed"]:
        return "field 'parsed': has no option number, although the state is 'answered'"
    return ""


def _record(line: bytes) -> Any:
    """Return the line's JSON value, or None if it is not JSON."""
    try:
        return _decode(line.decode())
    except (ValueError, RecursionError):
        return None


def why(line: Line) -> str:
    """Return the reason why a line is not a turn, as a clause."""
    if line.size > limits.MAX_LINE_CHARACTERS:
        return f"is longer than {limits.MAX_LINE_CHARACTERS:,} characters"
    try:
        check(record := parse_json(line.data.decode("utf-8", errors="replace"), ""), "turn", "")
    except InputError as error:
        return str(error).removeprefix(": ").partition("; correct it there")[0].rstrip(".")
    return _odd(record)


def _is_newer(data: bytes) -> bool:
    """Return True if a line becomes a turn when the fields that this version does not know are removed."""
    record, known = _record(data), schemas.schema("turn")["properties"]
    if not isinstance(record, dict) or record.keys() <= known.keys():
        return False
    return schemas.fits("turn")({name: value for name, value in record.items() if name in known})
