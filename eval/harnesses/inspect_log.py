"""Logs of the Inspect task ``chexqa/benchmark`` as runs that ``chexqa grade`` reads.

Every turn is kept as the solver stored it; no reply is read again. If a sample ended with an error, its earlier turns
are kept, and its other items count as not asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Turn
from chexqa.eval.design import subset
from chexqa.eval.harnesses.turns import ABOUT, FRAME, STORE
from chexqa.eval.runs.turn_log import log_path
from chexqa.files.errors import InputError, WrongParts
from chexqa.files.jsonio import Record, check, dump, write_json, write_jsonl
from chexqa.files.limits import MAX_TABLE_BYTES
from chexqa.files.opening import open_binary, real
from chexqa.interchange.folders import new_folder

_TASK = "benchmark"
_UNREAD = {"messages", "events", "attachments"}


class ImportedLog(NamedTuple):
    """Result of an import: the model, the protocol, and the numbers of turns written and of items without a turn."""

    model: str
    protocol: str
    turns: int
    not_asked: int


def import_log(path: Path, benchmark_folder: Path, out: Path, model: str | None = None) -> ImportedLog:
    """Write the log ``path`` (``.eval`` or ``.json``) as the run folder ``out``; return the counts.

    ``model`` is the model's name in the run; by default it is Inspect's name. Raise ``InputError`` if Inspect is not
    installed, if the log is not of the task ``chexqa/benchmark``, or if it was made with another benchmark.
    """
    with open_binary(path, MAX_TABLE_BYTES):
        pass
    bench = benchmarks.load(benchmark_folder)
    header = _read(path, header_only=True)
    metadata = header.eval.metadata or {}
    if ABOUT not in metadata:
        raise InputError(
            f"{path}: this log is of the task '{header.eval.task}', not of chexqa/benchmark; make a log with 'inspect "
            "eval chexqa/benchmark -T folder=BENCH'."
        )
    about: Record = metadata[ABOUT]
    held = (about.get("benchmark") or {}).get("hash")
    if held != bench.hash:
        raise InputError(
            f"{path}: this log was made with benchmark {str(held)[:8]}, but {benchmark_folder} is benchmark "
            f"{bench.hash[:8]}; give the right folder with --benchmark."
        )
    name = model or header.eval.model
    turns = _turns(path, bench, name, about)
    record = _about(about, bench, header, name, turns)
    check(record, "run", f"{path}, field eval.metadata.{ABOUT}")
    with new_folder(out) as temporary:
        write_json(temporary / read_run.ABOUT, record, "run")
        log = log_path(temporary, name)
        log.parent.mkdir()
        write_jsonl(log, (turn.to_record() for turn in turns), "turn")
    items = subset.chosen(bench, record["limit"], record["limit_per_path"])
    asked = len(items) * record["repeats"] * record["rotations"]
    return ImportedLog(name, record["protocol"], len(turns), asked - len(turns))


def _read(path: Path, **options: Any) -> Any:
    try:
        from inspect_ai import __version__
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise InputError(
            "reading a log of Inspect needs Inspect, which is not installed; pip install 'chexqa[inspect]'."
        ) from None
    try:
        return read_eval_log(str(real(path)), **options)
    except Exception as error:
        words = str(error).partition("\n")[0][:200]
        raise InputError(
            f"{path}: is not a log of Inspect, or was written by a newer Inspect than the installed {__version__} "
            f"({type(error).__name__}: {words}); name another file, or update Inspect."
        ) from None


def _turns(path: Path, bench: Benchmark, name: str, about: Record) -> list[Turn]:
    """Return all samples' turns under the model's name; raise ``InputError`` that lists the first wrong samples."""
    turns: list[Turn] = []
    seen = set()
    wrong = WrongParts(path, "samples")
    for sample in _read(path, exclude_fields=_UNREAD).samples or ():
        with wrong.collected():
            where = f"{path}, sample '{sample.id}', epoch {sample.epoch}"
            records = sample.store.get(STORE, [])
            if not isinstance(records, list):
                raise InputError(
                    f"{where}: '{STORE}' in the sample's store is not a list of turns; import the log as Inspect wrote "
                    "it."
                )
            for record in records:
                turn = _turn(record, bench, name, about, where)
                if turn.key in seen:
                    raise InputError(
                        f"{where}: item '{turn.item_id}' was already answered in this log; import the log as Inspect "
                        "wrote it."
                    )
                seen.add(turn.key)
                turns.append(turn)
    wrong.conclude()
    return turns


def _turn(record: Any, bench: Benchmark, name: str, about: Record, where: str) -> Turn:
    check(record, "turn", where)
    turn = read_run.turn_of(dump(record | {"model": name}).encode())
    if turn is None or turn.item_id not in bench.item or turn.protocol != about["protocol"]:
        raise InputError(
            f"{where}: has a turn of item '{record['item_id']}' that does not fit the benchmark or the protocol; "
            "import the log as Inspect wrote it."
        )
    return turn


def _about(about: Record, bench: Benchmark, header: Any, name: str, turns: list[Turn]) -> Record:
    """Return ``run.json``: the task's settings, the benchmark's folder, the model, and Inspect's epochs as repeats."""
    decoding = header.eval.model_generate_config.model_dump(exclude_none=True, mode="json")
    frame = (header.eval.metadata or {}).get(FRAME)
    quirks: Record = {} if frame in (None, "pixels") else {"quirks": {"frame": frame}}
    asked: Record = {
        "litellm": header.eval.model, "api_base": header.eval.model_base_url, "decoding": decoding, **quirks,
    }  # fmt: skip
    epochs = header.eval.config.epochs or 1
    return {
        **about,
        "benchmark": {**about["benchmark"], "path": str(real(bench.folder))},
        "repeats": max([epochs, *(turn.repeat + 1 for turn in turns)]),
        "models": {name: asked},
    }
