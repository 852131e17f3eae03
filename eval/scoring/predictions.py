"""Prediction files: another program's answers to a benchmark's items, read as runs; and the export of runs as files.

A file has one JSON object per line (schema ``prediction``), with an ``item_id`` and one of these fields:

- ``answer``: option numbers.
- ``text``: a reply for the parser.
- ``place``: coordinates in pixels of the item's picture.
- ``refused``: true.

The optional field ``benchmark`` has the hash of the benchmark on which the answer was made, or the hash's beginning; a
file that was made on another benchmark, or on another version, is refused.

An item without a line counts as not asked. A model without any line on a task (perception or grid) is not graded on
this task.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, condition_of, split_by_condition
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.places.coordinate_systems import PIXELS
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.prompts import answer_parser, parser_places
from chexqa.eval.prompts.parser_places import PlaceReading
from chexqa.eval.prompts.protocols import Protocol
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.grade import Graded
from chexqa.files.errors import InputError, WrongParts
from chexqa.files.jsonio import Record, check, dump, parse_json, text_lines
from chexqa.files.opening import Given, optional_path
from chexqa.generators.interventions import altered_items

PROTOCOL = "predictions"
# A field of the record that stands for run.json: True for predictions.
ELSEWHERE = "predictions"
# A field of the same record: True if every line of the file names the benchmark on which its answer was made.
STATES_BENCHMARK = "states_benchmark"
# Number of unknown items that a refusal lists, and of characters of a hash that it prints.
_NAMED, _HASH = 3, 16
_REPLIES = {"answer", "text", "place", "refused"}


def grade_predictions(
    paths: Sequence[Given],
    benchmark_folder: Given | None,
    allow_partial: bool = False,
    models_file: Given | None = None,
    folders: Sequence[Given] = (),
    reread: bool = False,
    on: Given | None = None,
    protocol: str | None = None,
) -> Graded:
    """Return the grades of the prediction files ``paths`` and of the runs ``folders``, on one benchmark.

    - ``benchmark_folder``: needed if there are no runs; otherwise the runs' benchmark is the default.
    - ``protocol``: the protocol of predictions that name none, such as ``"end_to_end (confidence)"``.
    - other arguments: as in :func:`chexqa.eval.scoring.grade.grade_folders`.

    Raise ``InputError`` with the line numbers of invalid lines.
    """
    if not folders and benchmark_folder is None:
        raise InputError(
            f"{paths[0]}: to grade predictions, chexqa needs the benchmark with its key; give the benchmark's folder "
            "with --benchmark DIR."
        )
    runs: tuple[Run, ...] = ()
    if folders:
        benchmark, runs = grade.load_runs(folders, benchmark_folder)
    else:
        assert benchmark_folder is not None, "one of the two is given"
        benchmark = benchmarks.load(Path(benchmark_folder))
    benchmark.key("grading")
    like = None if protocol is None else settings_of(protocol, runs)
    elsewhere = [run for path in paths for run in read_predictions(Path(path), benchmark, like)]
    every = [*runs, *elsewhere]
    return grade.grade_runs(benchmark, every, allow_partial, optional_path(models_file), reread, optional_path(on))


def read_predictions(path: Path, benchmark: Benchmark, like: Record | None = None) -> list[Run]:
    """Read a file of predictions as one run for each protocol; raise ``InputError`` that lists the first invalid lines.

    ``like`` has the protocol and the settings (fields of ``run.json``) for lines that name no protocol.
    """
    turns: dict[str, dict[tuple[str, str], Turn]] = {}
    asked: dict[str, Record] = {}
    lines: dict[tuple[str, str, str], int] = {}
    known = {**benchmark.item, **altered_items.load(benchmark).items}
    wrong, unknown, other, states_benchmark = WrongParts(path), dict[int, str](), dict[int, str](), True
    for number, line in text_lines(path):
        with wrong.collected():
            where = f"{path}, line {number}"
            record = parse_json(line, where)
            check(record, "prediction", where)
            made_on = record.get("benchmark")
            states_benchmark &= made_on is not None
            if made_on is not None and not benchmark.hash.startswith(made_on):
                other[number] = made_on
                continue
            if record["item_id"] not in known:
                unknown[number] = record["item_id"]
                continue
            about = _split(record["protocol"]) if "protocol" in record else like or _split(PROTOCOL)
            turn = _turn(record, benchmark, known[record["item_id"]], record.get("model", path.stem), about, where)
            asked[name := dump(about)] = about
            found = turns.setdefault(name, {})
            earlier = lines.setdefault((name, turn.model, turn.item_id), number)
            if earlier != number:
                raise InputError(
                    f"{where}: line {earlier} also has the answer of '{turn.model}' to item '{turn.item_id}'; remove "
                    "one of the two lines."
                )
            found[turn.model, turn.item_id] = turn
    _refuse_other(path, benchmark, other)
    _refuse_unknown(path, benchmark, unknown, wrong)
    wrong.conclude()
    if not turns:
        raise InputError(f"{path}: contains no prediction; write one JSON object per line.")
    return [
        _run(path, benchmark, {**asked[name], STATES_BENCHMARK: states_benchmark}, tuple(found.values()))
        for name, found in turns.items()
    ]


def _refuse_other(path: Path, benchmark: Benchmark, other: Mapping[int, str]) -> None:
    """Raise ``InputError`` if there are lines of another benchmark; ``other`` has its hash for each of them."""
    for number, made_on in other.items():
        raise InputError(
            f"{path}, line {number}: made on benchmark {made_on[:_HASH]}, but this is {_label(benchmark)}; ask the "
            "model on this version, or grade the file with the benchmark on which it was made."
        )


def _refuse_unknown(path: Path, benchmark: Benchmark, unknown: Mapping[int, str], wrong: WrongParts) -> None:
    """Refuse items that the benchmark lacks (``unknown``, keyed by line).

    Raise ``InputError`` that lists the first of them; if as many lines are wrong otherwise, add them to ``wrong``.
    """
    named = [f"line {number}: there is no item '{item_id}'" for number, item_id in unknown.items()]
    may_be = f"in {_label(benchmark)}; the file may be for another version of the benchmark"
    if len(named) == 1 or len(named) <= wrong.count:
        for one in named:
            wrong.add(InputError(f"{path}, {one} {may_be}, or the id is wrong."))
    elif named:
        more = [f"and {len(named) - _NAMED:,} more"] if len(named) > _NAMED else []
        listed = "\n".join(f"  {one}" for one in (*named[:_NAMED], *more))
        raise InputError(f"{path}: {len(named):,} lines name items that are not {may_be}:\n{listed}")


def _label(benchmark: Benchmark) -> str:
    return f"'{benchmark.name}' {benchmark.about['version']} ({benchmark.hash[:_HASH]})"


def settings_of(protocol: str, runs: Sequence[Run]) -> Record:
    """Return the fields of ``run.json`` that make up a protocol's name; raise ``InputError`` for an unknown name."""
    held = {grade.protocol_name(run): run.about for run in runs}
    if protocol in held:
        about = held[protocol]
        return {name: about[name] for name in ("protocol", *grade.WITHOUT, "condition") if name in about}
    about = _split(protocol)
    if about["protocol"] not in get_args(Protocol) or grade.protocol_name(Run(Path(), about, ())) != protocol:
        others = f", or one of the given runs ({', '.join(map(repr, sorted(held)))})" if held else ""
        raise InputError(
            f"--protocol {protocol}: there is no such protocol; give {', '.join(get_args(Protocol))}{others}."
        )
    return about


def _run(path: Path, benchmark: Benchmark, settings: Record, turns: tuple[Turn, ...]) -> Run:
    # A file that answers no item of a task (perception, grid) does not cover this task, and none of its items counts.
    # For example, a heat map or a reader's point answers only the grid task.
    tasks: dict[str, set[str]] = defaultdict(set)
    for turn in turns:
        tasks[turn.model] |= {benchmark.item[turn.item_id].task} if turn.item_id in benchmark.item else set()
    about: Record = {
        "benchmark": {"name": benchmark.name, "version": benchmark.about["version"], "hash": benchmark.hash,
                      "path": str(benchmark.folder)},
        **settings, "rotations": 1, "repeats": 1, "limit": None, "limit_per_path": None, ELSEWHERE: True,
        "models": {model: {"litellm": "made elsewhere", "api_base": None, "decoding": {}, "tasks": sorted(own)}
                   for model, own in tasks.items()},
    }  # fmt: skip
    own, altered = split_by_condition(turns)
    if altered:
        asked = {condition_of(turn.item_id) for turn in turns}
        about["interventions"] = [condition for condition in altered_items.CONDITIONS if condition in asked]
    return Run(path, about, own, altered=altered)


def _split(name: str) -> Record:
    """Return the fields of ``run.json`` for a protocol's name, such as ``"independent (blind)"``."""
    protocol, _, words = name.removesuffix(")").partition(" (")
    return {"protocol": protocol, **{field: words == meaning for field, meaning in grade.WITHOUT.items()}}


def export_predictions(run: Run) -> Iterator[Record]:
    """Yield a prediction for each finished turn of a run.

    Raise ``InputError`` for a run that asked its items several times or with another wording.
    """
    if run.about.get("repeats", 1) * run.about.get("rotations", 1) > 1:
        raise InputError(
            f"{run.folder}: this run asks each item several times, but a file of predictions has one answer per item; "
            "grade the run without exporting it."
        )
    name = grade.protocol_name(run)
    made_on = run.about["benchmark"]["hash"]
    for turn in (*run.turns, *run.altered):
        if turn.state == read_run.ERROR:
            continue
        record: Record = {"item_id": turn.item_id, "model": turn.model, "protocol": name, "benchmark": made_on}
        if turn.state == "refused":
            record["refused"] = True
        elif turn.place is not None:
            record["place"] = [list(shape) for shape in turn.place]
        elif turn.state == "unparsed":
            record["text"] = turn.raw
        else:
            record["answer"] = list(turn.parsed or ())  # empty: cut off, without text, or prompt too long
        if turn.confidence is not None:
            record["confidence"] = turn.confidence
        try:
            check(record, "prediction", str(run.folder))
        except InputError:
            raise InputError(
                f"{run.folder}: this run has the protocol '{name}', which a file of predictions cannot record; grade "
                "the run itself."
            ) from None
        yield record


def _turn(record: Record, benchmark: Benchmark, item: Item, model: str, about: Record, where: str) -> Turn:
    if len(_REPLIES & record.keys()) != 1:
        raise InputError(
            f"{where}: give one of 'answer' (option numbers), 'text' (a reply), 'place' (coordinates) and 'refused'; "
            "leave out the others."
        )
    parsed: tuple[int, ...] | None
    text, place = record.get("text"), None
    if "refused" in record:
        parsed, state, reader = None, "refused", read_run.NO_PARSER
    elif "place" in record or (item.form.is_place and "text" in record):
        text = _place_text(item, record["place"], where) if "place" in record else record["text"]
        ((parsed, state), place), reader = _read_place(item, text, benchmark), answer_parser.VERSION
        if "place" in record and parsed is None:
            raise InputError(
                f"{where}: 'place' does not fit item '{item.item_id}', because the item asks for {_asks(item)}; "
                "correct 'place'."
            )
    elif "text" in record:
        (parsed, state), reader = answer_parser.read(item, record["text"]), answer_parser.VERSION
    else:
        (parsed, state), reader = _read_numbers(item, record, where), read_run.NO_PARSER
    return Turn(
        model=model, protocol=about["protocol"], case_id=item.case_id, item_id=item.item_id, repeat=0, rotation=0,
        blind=about["blind"], overlay_only=about["overlay_only"], confidence=record.get("confidence"),
        attempts=1, state=state, parsed=parsed, raw=text, place=place, finish_reason=None, usage=None, cost_usd=None,
        latency_s=None, provider_model=None, request_hash="0" * 64, image_hashes=(), started="", error=None,
        parser_version=reader,
    )  # fmt: skip


def _place_text(item: Item, place: list[list[float]], where: str) -> str:
    """Return a reply that names the place."""
    # Only a reply can show which coordinate system was used, and only a reply can be read again.
    if not item.form.is_place:
        raise InputError(
            f"{where}: 'place' is given, but item '{item.item_id}' asks for no coordinates; give 'answer' or 'text'."
        )
    return f"Answer: {json.dumps(place[0] if len(place) == 1 else place)}" if place else "Answer: nowhere"


def _read_place(item: Item, text: str | None, benchmark: Benchmark) -> PlaceReading:
    """Return the reading of a reply whose coordinates are pixels of the item's picture."""
    return parser_places.read_turn(item, text, None, PIXELS, picture_size(benchmark, item))


def _asks(item: Item) -> str:
    return {
        "point": "a point [[x, y]]", "box": "a box [[x0, y0, x1, y1]]", "boxes": "boxes [[x0, y0, x1, y1], …]",
    }.get(item.form.name, f"{item.form.name}, as lists of numbers")  # fmt: skip


def _read_numbers(item: Item, record: Record, where: str) -> tuple[tuple[int, ...] | None, str]:
    given = record["answer"]
    numbers = [given] if isinstance(given, int) else given
    if not numbers:
        return None, "empty"
    last = len(item.options)
    if max(numbers) > last:
        raise InputError(f"{where}: item '{item.item_id}' has no option {max(numbers)}; its options are 1 to {last}.")
    if len(set(numbers)) > 1 and not item.form.takes_several:
        what = "option" if item.form.lists_options else "cell"
        raise InputError(f"{where}: item '{item.item_id}' takes one {what}, but {len(set(numbers))} are given.")
    return tuple(sorted({int(number) for number in numbers})), "answered"
