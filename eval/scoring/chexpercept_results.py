"""Reader of CheXpercept's results (``all_results.json``) as a run.

The run belongs to the benchmark that chexqa imported from the release of CheXpercept.

The flags ``correct`` in the file decide which answers are right, so the grades follow the published rule.
``differences.csv`` lists the replies that chexqa's parser reads differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.items import Item
from chexqa.contract.read_run import Turn, bounded
from chexqa.eval.prompts import answer_parser, protocols
from chexqa.eval.prompts.protocols import Protocol
from chexqa.eval.runs import run_folder
from chexqa.eval.runs.turn_log import log_path
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.files.errors import InputError, WrongParts, suggest
from chexqa.files.jsonio import Record, check, parse_json, read_text, write_bytes, write_json, write_jsonl
from chexqa.files.opening import real
from chexqa.interchange.folders import new_folder
from chexqa.interchange.layout import ATTRIBUTES, REVISIONS
from chexqa.interchange.release_export import key_of

DIFFERENCES = "differences.csv"
# Oracle settings of the release's evaluation; each is part of the name of its results folder.
ORACLES: dict[str, Protocol] = {"implicit": "oracle_passed", "explicit": "oracle_stated", "none": "end_to_end"}
# Entry and field of the reply, for each kind that is the only one of its stage.
SINGLE = {"detection": ("detection_qa", "response"), "contour_evaluation": ("contour_evaluation_qa", "responses")}
_MADE_ELSEWHERE: Record = {"litellm": "made elsewhere", "api_base": None, "decoding": {}}
_THOUGHT = re.compile(r"<think>.*?</think>|<unused\d+>", re.DOTALL)
_SAID = re.compile(r"answers?\s*(?:is|are)\s*[:\-]?\s*(\d[\d,\s]*)", re.IGNORECASE)


class Imported(NamedTuple):
    """Result of an import.

    - ``turns``: the number of imported answers.
    - ``not_asked``: the number of items that the file does not answer.
    - ``differences``: the number of replies that CheXpercept's rule and chexqa's parser read differently.
    - ``empty_detections``: the number of empty replies to detection.
    """

    model: str
    protocol: Protocol
    turns: int
    not_asked: int
    differences: int
    empty_detections: int


@dataclass(frozen=True)
class _Reply:
    """Entry of a results file for one item: graded reply, the model's own words (``raw``), flag and truth."""

    graded: str | None
    raw: str | None
    correct: bool
    truth: Any


def import_results(
    path: Path, benchmark_folder: Path, out: Path, model: str | None = None, protocol: str | None = None
) -> Imported:
    """Write the results file ``path`` as the run folder ``out``; return the counts.

    A model or protocol that is not given is taken from the names of the file's folders. Raise ``InputError`` if these
    do not name it, or if cases of the file are missing from the benchmark or have other right answers there.
    """
    benchmark = benchmarks.load(benchmark_folder)
    answers, cases = benchmark.key("importing results")
    results = parse_json(read_text(path), str(path))
    if not isinstance(results, dict) or not results:
        raise InputError(f"{path}: is no JSON object of results, keyed by case; give CheXpercept's all_results.json.")
    name, asked_by = _model(path, model), _protocol(path, protocol)
    items: dict[str, list[Item]] = {}
    for item in benchmark.items:
        if item.stage is not None:
            items.setdefault(item.case_id, []).append(item)
    by_key = {key_of(benchmark, cases[case_id], rows[0].finding): cases[case_id] for case_id, rows in items.items()}
    started = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    turns: list[Turn] = []
    differences: list[tuple[Any, ...]] = []
    wrong = WrongParts(path, "cases")
    for key_id, result in results.items():
        with wrong.collected():
            where = f"{path}, {key_id}"
            check(result, "chexpercept_result", where)
            if key_id not in by_key:
                raise InputError(
                    f"{where}: {benchmark.folder} has no case '{key_id}'{suggest(key_id, by_key)}; give the benchmark "
                    "that was imported from the CheXpercept release that these results answer."
                )
            for item, reply in _replies(result, sorted(items[by_key[key_id].case_id], key=lambda item: item.seq)):
                right = answers[item.item_id].answer
                _check_truth(reply, item, right, where)
                state, parsed = _graded(item, reply, right)
                turn = _turn(name, asked_by, item, reply, state, parsed, started)
                turns.append(turn)
                ours = answer_parser.parse(item, turn.raw or "")
                if ours != parsed:
                    differences.append(
                        (key_id, item.item_id, item.kind, _words(parsed), _words(ours), reply.correct, turn.raw)
                    )
    wrong.conclude()
    _write(out, benchmark, name, asked_by, turns, differences)
    asked = sum(len(rows) for rows in items.values())
    empty = sum(not _entry(result, "detection_qa") for result in results.values())
    return Imported(name, asked_by, len(turns), asked - len(turns), len(differences), empty)


def _model(path: Path, given: str | None) -> str:
    """Return the given model's name, or read it from the path ``<provider>_<model>/oracle_<setting>/``."""
    if given is not None:
        return given
    folders = real(path).parents
    if not folders[0].name.startswith("oracle_") or "_" not in folders[1].name:
        raise InputError(
            f"{path}: its folders are not named <provider>_<model>/oracle_<setting>, so the model's name cannot be "
            "read from them; give it with --model."
        )
    return folders[1].name.partition("_")[2]


def _protocol(path: Path, given: str | None) -> Protocol:
    if given is not None:
        return protocols.named(given)
    setting = real(path).parent.name.removeprefix("oracle_")
    if setting not in ORACLES:
        raise InputError(
            f"{path}: its folder is not named oracle_<setting>, so the protocol is unknown; give it with --protocol: "
            f"{', '.join(f'{name} (the protocol of oracle_{setting})' for setting, name in ORACLES.items())}."
        )
    return ORACLES[setting]


def _replies(result: Record, items: list[Item]) -> Iterator[tuple[Item, _Reply]]:
    """Yield the items that were asked, in order, with their replies."""
    asked = [(item, found) for item in items if (found := _found(result, item.kind)) is not None]
    history = result.get("chat_history") or []
    whole = len(history) == len(asked)
    for (item, (graded, correct, truth)), place in zip(asked, range(len(asked)), strict=True):
        raw = _own_words(history[place]) if whole else graded
        yield item, _Reply(graded, raw, correct, truth)


def _found(result: Record, kind: str) -> tuple[str | None, bool, Any] | None:
    """Return the reply, the flag ``correct`` and the right answer to an item of a kind; None if it was not asked."""
    if kind in SINGLE:
        stage = _entry(result, SINGLE[kind][0])
        reply = stage.get("response", stage.get("responses"))
        if kind == "detection" and not stage:  # an empty reply counts as wrong, as in the release's own evaluation
            return "", False, None
        return (reply, stage["correct"], stage.get("ground_truth")) if "correct" in stage else None
    step, name = (
        ("contour_revision_qa", REVISIONS[kind]) if kind in REVISIONS else ("attribute_extraction_qa", ATTRIBUTES[kind])
    )
    stages = result.get(step) or {}
    flag = (stages.get(name) or {}).get("correct")
    if flag is None:
        return None
    return (stages.get("responses") or {}).get(name), flag, (stages.get("ground_truth") or {}).get(name)


def _entry(result: Record, step: str) -> Record:
    entry: Record = result.get(step) or {}
    return entry


def _own_words(turn: list[Any]) -> str | None:
    """Return the model's original reply."""
    # If an oracle replaced the reply, the history has the oracle's text first and the original reply after it.
    words = turn[3] if len(turn) > 3 else turn[2] if len(turn) > 2 else None
    return words if isinstance(words, str) else None


def _check_truth(reply: _Reply, item: Item, right: tuple[int, ...], where: str) -> None:
    if reply.truth is None:
        return
    truth = reply.truth if isinstance(reply.truth, list) else [reply.truth]
    if tuple(sorted(truth)) != right:
        raise InputError(
            f"{where}: the right answer to the {item.kind} question is {reply.truth} in this file, but {_words(right)} "
            "in the benchmark; import the CheXpercept release that these results are about, and give that benchmark."
        )


def _graded(item: Item, reply: _Reply, right: tuple[int, ...]) -> tuple[str, tuple[int, ...] | None]:
    """Return the state and the option numbers of a reply, as the file grades it."""
    if reply.correct:
        return "answered", right
    if not (reply.graded or "").strip():
        return "empty", None
    numbers = _published_numbers(reply.graded or "")
    read = tuple(sorted(set(numbers))) if item.multi else tuple(numbers[:1])
    fits = bool(read) and set(read) <= {option.n for option in item.options} and read != right
    return ("answered", read) if fits else ("unparsed", None)


def _published_numbers(text: str) -> list[int]:
    """Return the numbers of a reply by CheXpercept's published rule."""
    # The rule takes the numbers after "answer is"; without these words, a line of numbers; without one, all numbers.
    plain = _THOUGHT.sub("", text.strip())
    said = _SAID.search(plain)
    lines = [line.strip() for line in plain.split("\n")]
    bare = [line for line in lines if re.fullmatch(r"[\d,\s]*\d[\d,\s]*", line)]
    chosen = said[1] if said else bare[-1] if bare else plain
    return [int(number) for number in re.findall(r"\d{1,9}", chosen)]


def _turn(
    model: str, protocol: Protocol, item: Item, reply: _Reply, state: str, parsed: tuple[int, ...] | None, started: str
) -> Turn:
    shown = protocols.pictures(protocol, item)
    return Turn(
        model=model, protocol=protocol, case_id=item.case_id, item_id=item.item_id, repeat=0, rotation=0, blind=False,
        attempts=1, state=state, parsed=parsed, raw=reply.graded if reply.raw is None else reply.raw,
        finish_reason=None, usage=None, cost_usd=None, latency_s=None, provider_model=None, request_hash="0" * 64,
        image_hashes=tuple(image_digest(picture.image) for picture in shown), started=started, error=None,
        parser_version=read_run.NO_PARSER,
    )  # fmt: skip


def _words(numbers: tuple[int, ...] | None) -> str | None:
    return None if numbers is None else ", ".join(map(str, numbers))


def _write(
    out: Path, benchmark: Benchmark, model: str, protocol: Protocol, turns: list[Turn],
    differences: list[tuple[Any, ...]],
) -> None:  # fmt: skip
    about = run_folder.about(run_folder.RunIdentity(benchmark, protocol), ()) | {"models": {model: _MADE_ELSEWHERE}}
    columns = ["key_id", "item_id", "kind", "graded_as", "chexqa_reads", "correct", "reply"]
    schema = {name: pl.Boolean if name == "correct" else pl.String for name in columns}
    with new_folder(out) as temporary:
        write_json(temporary / read_run.ABOUT, about, "run")
        log = log_path(temporary, model)
        log.parent.mkdir()
        write_jsonl(log, (bounded(turn).to_record() for turn in turns), "turn")
        frame = pl.DataFrame(differences, schema=schema, orient="row")
        write_bytes(temporary / DIFFERENCES, csv_bytes(frame, None))
