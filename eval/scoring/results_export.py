"""The export of runs as results of CheXpercept's own evaluation (``all_results.json``).

Each model has a folder ``chexqa_<model>/oracle_<setting>/``, which CheXpercept's analysis scripts and ``chexqa import
chexpercept-results`` read.

- ``correct``: chexqa's grade.
- ``response``: the option numbers that chexqa read.
- ``chat_history``: the model's own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark, conversations
from chexqa.contract.items import Answer, Item, is_right
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.chexpercept_results import ORACLES, SINGLE
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, write_bytes
from chexqa.interchange.folders import new_folder
from chexqa.interchange.layout import ATTRIBUTES, REVISIONS
from chexqa.interchange.release_export import key_of

RESULTS = "all_results.json"
_STEPS = {**dict.fromkeys(REVISIONS, "contour_revision_qa"), **dict.fromkeys(ATTRIBUTES, "attribute_extraction_qa")}


def export_results(run: Run, benchmark: Benchmark, out: Path) -> list[Path]:
    """Write each model's results in CheXpercept's format into the new folder ``out``; return the paths of the files.

    Raise ``InputError`` for a run with settings that CheXpercept does not have, such as repeats.
    """
    settings = {protocol: setting for setting, protocol in ORACLES.items()}
    name = grade.protocol_name(run)
    if name not in settings:
        known = ", ".join(settings)
        raise InputError(
            f"{run.folder}: this run has the protocol '{name}', but CheXpercept's results exist only for "
            f"{known}; export a run with one of these."
        )
    if run.about.get("repeats", 1) * run.about.get("rotations", 1) > 1:
        raise InputError(
            f"{run.folder}: this run asks its items several times, but CheXpercept's results have one answer per "
            "item; export a run without --repeats and --rotate."
        )
    answers, cases = benchmark.key("exporting results")
    turns: dict[str, dict[str, Turn]] = {}
    for turn in run.turns:
        turns.setdefault(turn.model, {})[turn.item_id] = turn
    written = []
    with new_folder(out) as temporary:
        for model, said in turns.items():
            results: dict[str, Record] = {}
            for items in conversations(benchmark.items):
                asked = [item for item in items if item.stage is not None and _has_reply(said.get(item.item_id))]
                if asked:
                    key = key_of(benchmark, cases[asked[0].case_id], asked[0].finding)
                    results[key] = _result(key, cases[asked[0].case_id].path, asked, said, answers)
                    check(results[key], "chexpercept_result", f"{out}, {key}")
            safe = re.sub(r"[^A-Za-z0-9.-]+", "-", model)
            place = Path(f"chexqa_{safe}") / f"oracle_{settings[name]}" / RESULTS
            (temporary / place).parent.mkdir(parents=True)
            text = json.dumps(results, ensure_ascii=False, allow_nan=False, indent=2)
            write_bytes(temporary / place, (text + "\n").encode())
            written.append(out / place)
    return written


def _has_reply(turn: Turn | None) -> bool:
    return turn is not None and turn.state not in (read_run.ERROR, read_run.OVERFLOW)


def _result(key: str, path: str | None, items: Iterable[Item], said: dict[str, Turn], answers: dict[str, Answer]
            ) -> Record:  # fmt: skip
    """Return the results of a case, in the order of its questions."""
    made: Record = {"key_id": key, "qa_path": path, "detection_qa": {}, "contour_evaluation_qa": {},
                    "contour_revision_qa": {}, "attribute_extraction_qa": {}, "chat_history": []}  # fmt: skip
    for item in items:
        turn, answer = said[item.item_id], answers[item.item_id]
        response = _response(turn)
        right = turn.state == "answered" and is_right(item, answer, turn.parsed or ())
        truth = list(answer.answer) if item.multi else answer.answer[0]
        made["chat_history"].append([item.question, [], turn.raw or response])
        if item.kind in SINGLE:
            step, field = SINGLE[item.kind]
            if response:  # as in CheXpercept, the entry of an empty reply is empty
                made[step] = {field: response, "ground_truth": truth, "correct": right}
        else:
            name = (REVISIONS | ATTRIBUTES)[item.kind]
            stage = made[_STEPS[item.kind]]
            stage.setdefault("responses", {})[name] = response
            stage.setdefault("ground_truth", {})[name] = truth
            stage[name] = {"correct": right}
            stage["correct"] = stage.get("correct", True) and right
    return made


def _response(turn: Turn) -> str:
    """Return the option numbers of a reply; or, if it could not be read, its text with ``#`` in place of digits."""
    if turn.state == "answered":
        return f"Answer: {', '.join(map(str, turn.parsed or ()))}"
    return re.sub(r"\d", "#", turn.raw or "")
