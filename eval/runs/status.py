"""Status of a run, read from its folder; a running command is not disturbed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chexqa.contract import benchmark, read_run
from chexqa.contract.items import ORIGINAL, asked_conditions
from chexqa.contract.read_run import ERROR, TURNS, Run, Turn
from chexqa.eval.design import subset
from chexqa.eval.runs import budget
from chexqa.eval.runs.budget import Spent
from chexqa.eval.runs.model_progress import Answerers
from chexqa.eval.runs.turn_log import Writer, log_path, writers
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_file, read_json

WINDOW = timedelta(minutes=10)
"""Time before the last reply that the rate covers. A model without a reply for this long counts as not active."""


@dataclass(frozen=True)
class Status:
    """Status of one model in a run; None means unknown.

    - ``total``: number of turns of the run; None if the benchmark is missing.
    - ``spent``: the cost and the tokens of all turns.
    - ``done``: number of turns in a final state.
    - ``states``: number of turns, keyed by the state of the newest attempt.
    - ``set_aside``: number of lines of the logs that are not turns.
    - ``rate_per_min``: replies per minute; None if the last turn failed, or if there are no recent replies.
    - ``left_s``: the expected time until the model is finished, in seconds; None for a finished model.
    - ``last_turn``, ``last_reply``: times of the last turn and of the last reply.
    - ``last_error``: the text of the newest error of a question that is still unanswered. If there is none and the last
      turn got no reply (such as a refused request), the text of that turn.
    - ``note``: a sentence if the server reports that another model answered.
    - ``decided``: a sentence if a stopping rule ended the run.
    - ``asking``: the processes that ask the model now, with their ids and starting times; None if unknown.
    - ``waiting``: the notes on the model's batches that wait for results (schema ``waiting``).
    """

    model: str
    total: int | None
    done: int
    states: dict[str, int]
    spent: Spent
    rate_per_min: float | None
    left_s: float | None
    last_turn: str | None
    set_aside: int = 0
    last_reply: str | None = None
    last_error: str | None = None
    note: str | None = None
    asking: list[Record] | None = None
    waiting: tuple[Record, ...] = ()
    decided: str | None = None

    @property
    def is_done(self) -> bool:
        """Return True if every turn is in a final state."""
        return self.total is not None and self.done >= self.total

    def to_record(self) -> Record:
        """Return the JSON form."""
        record = asdict(self)
        del record["spent"]
        return record | self.spent.to_record()


def status(folder: Path, now: datetime | None = None) -> list[Status]:
    """Return the status of every model, in the order in which the models joined the run.

    ``now`` replaces the current time in tests. Raise ``InputError`` if the folder is not a run, or if a log has a model
    that ``run.json`` lacks.
    """
    about = read_run.read_about(folder)
    lines: dict[str, dict[Path, list[Turn]]] = {name: {} for name in about["models"]}
    logs = {path: read_run.read_log(path) for path in sorted((folder / TURNS).glob("*.jsonl"))}
    for path, log in logs.items():
        for turn in log.turns:
            if turn.model not in lines:
                raise InputError(
                    f"{path}: has a turn of model '{turn.model}', which is not in {read_run.ABOUT}; "
                    f"restore {read_run.ABOUT}."
                )
            lines[turn.model].setdefault(path, []).append(turn)
    aside = [log.aside for log in logs.values() if log.aside]
    read_run.say(aside)
    end = read_run.read_decision(folder)
    total, time = _total(Run(folder, about, ())), now or datetime.now(UTC)
    active = writers(folder, lines)
    notes = {path: read_json(path, "waiting", folder) for path in sorted((folder / TURNS).glob("*.waiting.json"))}
    found = []
    for name, parts in lines.items():
        row = replace(
            _of_model(name, list(parts.values()), total, time),
            set_aside=sum(one.count for one in aside if _is_of(one.path, name)),
            asking=None if active is None else [_asking(one) for one in active[name]],
            waiting=tuple(note for path, note in notes.items() if _is_of(path, name)),
        )
        if end is not None and end["decided"]:
            row = replace(row, left_s=None, decided=f"decided after {end['patients']:,} of {end['of']:,} patients")
        found.append(row)
    return found


def _asking(writer: Writer) -> Record:
    return {"process": writer.process, "since": writer.since.isoformat(timespec="seconds")}


def _is_of(path: Path, model: str) -> bool:
    """Return True if a log (also of a shard), or the note beside it, belongs to the model."""
    stem = log_path(Path(), model).stem
    return re.fullmatch(rf"{re.escape(stem)}(\.\d+-of-\d+)?\.(jsonl|waiting\.json)", path.name) is not None


def _total(run: Run) -> int | None:
    """Return a model's number of turns; None if the benchmark is not found."""
    # It is looked for in its recorded folder and beside the run.
    place, about = run.benchmark_folder, run.about
    if not is_file(place / benchmark.ABOUT):
        return None
    trial = about["limit"] is not None or about["limit_per_path"] is not None
    if trial or asked_conditions(about) != [ORIGINAL] or about.get("stress", ()):
        return subset.turns_by_condition(benchmark.load(place), about).total()
    items = int(read_json(place / benchmark.ABOUT, "benchmark", place)["counts"]["items"])
    return items * int(about["rotations"]) * int(about["repeats"])


def _of_model(name: str, parts: Sequence[Sequence[Turn]], total: int | None, now: datetime) -> Status:
    """Return the status of one model; ``parts`` has the turns of each of its logs, in the order of the log."""
    # The log with the latest reply comes last. Within a log the order counts, not the time: the time at which an error
    # ended is not recorded.
    turns = [turn for part in sorted(parts, key=lambda part: max(map(_end, part))) for turn in part]
    states: dict[object, str] = {}
    for turn in turns:
        if turn.state != ERROR or states.get(turn.key, ERROR) == ERROR:
            states[turn.key] = turn.state
    counts = Counter(states.values())
    done = len(states) - counts[ERROR]
    ends = sorted(_end(turn) for turn in turns)
    replies = sorted(_end(turn) for turn in turns if not _failed(turn))
    last = turns[-1] if turns else None
    errors = [turn for turn in turns if turn.state == ERROR == states[turn.key]]
    failed = errors[-1] if errors else last if last and _failed(last) else None
    is_finished = total is not None and done >= total
    rate = None if last is None or _failed(last) else _rate(replies, now, is_finished)
    return Status(
        name,
        total,
        done,
        dict(counts.most_common()),
        budget.spent(turns),
        None if rate is None else round(60 * rate, 2),
        round((total - done) / rate, 1) if rate and total is not None and total > done else None,
        ends[-1].isoformat(timespec="seconds") if ends else None,
        last_reply=replies[-1].isoformat(timespec="seconds") if replies else None,
        last_error=failed.error if failed else None,
        note=Answerers(turns).remark(),
    )


def _failed(turn: Turn) -> bool:
    """Return True if a turn has an error in place of a reply; an empty reply has an error that says what it lacks."""
    return turn.state == ERROR or (turn.error is not None and budget.has_no_reply(turn))


def _end(turn: Turn) -> datetime:
    """Return the time of the reply as recorded in the log; only the day if a person answered."""
    started = datetime.fromisoformat(turn.started)
    return started.replace(tzinfo=started.tzinfo or UTC) + timedelta(seconds=turn.latency_s or 0)


def _rate(ends: Sequence[datetime], now: datetime, is_finished: bool) -> float | None:
    """Return the recent rate in replies per second; None if there are no recent replies."""
    # From the replies in the ten minutes before the last reply. The time runs until now; for a finished model, until
    # its last reply. None for fewer than two replies, or if the last reply is more than ten minutes old.
    if not ends or now - ends[-1] > WINDOW:
        return None
    recent = [end for end in ends if ends[-1] - end <= WINDOW]
    seconds = ((recent[-1] if is_finished else max(now, recent[-1])) - recent[0]).total_seconds()
    return (len(recent) - 1) / seconds if seconds and len(recent) > 1 else None
