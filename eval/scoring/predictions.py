"""Predictions: answers made without chexqa from the items alone, read as a run and graded with the key.

A file has one JSON object per line: ``item_id``, and ``answer`` (option numbers) or ``text`` (a reply for the parser).
An item without a line counts as not asked. If a file answers no item of a task (perception or grid), that task is left
out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import runlog
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.runlog import Run, Turn
from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.grade import Graded
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_jsonl

PROTOCOL = "predictions"


def grade_predictions(
    paths: Sequence[Path],
    benchmark_folder: Path | None,
    allow_partial: bool = False,
    models_file: Path | None = None,
    folders: Sequence[Path] = (),
    reread: bool = False,
    on: Path | None = None,
) -> Graded:
    """Return the grades of files of predictions and of the runs in ``folders``, on one benchmark that has its key.

    Without ``benchmark_folder`` the benchmark is that of the runs. With ``reread`` the current parser reads the runs'
    stored replies again. ``on`` is as in :func:`chexqa.eval.scoring.grade.grade_runs`. Raises ``InputError`` with the
    number of a wrong line.
    """
    if not folders and benchmark_folder is None:
        raise InputError(f"{paths[0]}: predictions need the benchmark with its key; give it with --benchmark DIR.")
    runs: tuple[Run, ...] = ()
    if folders:
        benchmark, runs = grade.load_runs(folders, benchmark_folder)
    else:
        assert benchmark_folder is not None, "one of the two is given"
        benchmark = benchmarks.load(benchmark_folder)
    benchmark.key("grading")
    elsewhere = [read_predictions(path, benchmark) for path in paths]
    return grade.grade_runs(benchmark, [*runs, *elsewhere], allow_partial, models_file, reread, on)


def read_predictions(path: Path, benchmark: Benchmark) -> Run:
    """Read a file of predictions as a run of the protocol ``predictions``."""
    turns: dict[tuple[str, str], Turn] = {}
    for number, record in read_jsonl(path, "prediction"):
        where = f"{path}, line {number}"
        turn = _turn(record, benchmark, record.get("model", path.stem), where)
        if (turn.model, turn.item_id) in turns:
            raise InputError(f"{where}: '{turn.model}' answers item '{turn.item_id}' twice; keep one of the lines.")
        turns[turn.model, turn.item_id] = turn
    if not turns:
        raise InputError(f"{path}: holds no prediction; write one JSON object per line.")
    # A heat map or a reader's point answers only the grid task.
    tasks: dict[str, set[str]] = defaultdict(set)
    for turn in turns.values():
        tasks[turn.model].add(benchmark.item[turn.item_id].task)
    about: Record = {
        "benchmark": {"name": benchmark.name, "version": benchmark.about["version"], "hash": benchmark.hash,
                      "path": str(benchmark.folder)},
        "protocol": PROTOCOL, "blind": False, "overlay_only": False, "rotations": 1, "repeats": 1, "limit": None,
        "limit_per_path": None,
        "models": {model: {"litellm": "made elsewhere", "api_base": None, "decoding": {}, "tasks": sorted(own)}
                   for model, own in tasks.items()},
    }  # fmt: skip
    return Run(path, about, tuple(turns.values()))


def _turn(record: Record, benchmark: Benchmark, model: str, where: str) -> Turn:
    item = benchmark.item.get(record["item_id"])
    if item is None:
        raise InputError(
            f"{where}: there is no item '{record['item_id']}' in '{benchmark.name}'; take ids from its items.jsonl."
        )
    if ("answer" in record) == ("text" in record):
        raise InputError(f"{where}: give either 'answer' (option numbers) or 'text' (a reply), not both.")
    if "text" in record:
        (parsed, state), reader = answer_parser.read(item, record["text"]), answer_parser.VERSION
    else:
        (parsed, state), reader = _read_numbers(item, record, where), runlog.NO_PARSER
    return Turn(
        model=model, protocol=PROTOCOL, case_id=item.case_id, item_id=item.item_id, repeat=0, rotation=0, blind=False,
        attempts=1, state=state, parsed=parsed, raw=record.get("text"), finish_reason=None, usage=None, cost_usd=None,
        latency_s=None, provider_model=None, request_hash="0" * 64, image_hashes=(), started="", error=None,
        parser_version=reader,
    )  # fmt: skip


def _read_numbers(item: Item, record: Record, where: str) -> tuple[tuple[int, ...] | None, str]:
    numbers = record["answer"]
    if not numbers:
        return None, "empty"
    last = len(item.options)
    if max(numbers) > last:
        raise InputError(f"{where}: item '{item.item_id}' has no option {max(numbers)}; its options are 1 to {last}.")
    if len(set(numbers)) > 1 and not item.form.takes_several:
        what = "option" if item.form.lists_options else "cell"
        raise InputError(f"{where}: item '{item.item_id}' takes one {what}, but {len(set(numbers))} are given.")
    return tuple(sorted({int(number) for number in numbers})), "answered"
