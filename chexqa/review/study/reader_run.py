"""Answers of a reader study, written as a run, so that readers and their majority are graded like models.

The protocol is ``end_to_end``: a reader answers a case's stages in order, tab by tab, and gets no corrections. Readers
are graded on the cases that they were assigned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Item
from chexqa.contract.read_run import Turn, bounded
from chexqa.eval.places.common import common_place
from chexqa.eval.places.coordinate_systems import Shape
from chexqa.eval.places.pictures import picture_size
from chexqa.files.atomic import new_folder
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, sha256, write_json, write_jsonl
from chexqa.review.collect.verdicts import Batch, Verdict, check_answers
from chexqa.review.columns import item_row_id

PROTOCOL = "end_to_end"
MAJORITY = "readers/majority"
ANSWERED, EMPTY = "answered", "empty"


def model_name(reviewer: str) -> str:
    """Return the model name under which a reader appears in a run."""
    return f"reader/{reviewer}"


def saw_the_key(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return the number of items that a reader answered after seeing the proposal, keyed by reader."""
    rows = list(verdicts)
    shown = {(row.reviewer, row.row): row for row in rows if row.kind in ("items", "adjudication") and row.is_judged}
    seen = Counter(
        row.reviewer for row in rows
        if row.kind == "readers" and (row.reviewer, row.row) in shown
        and shown[row.reviewer, row.row].imported <= row.imported
    )  # fmt: skip
    return dict(sorted(seen.items()))


def turns_of(bench: Benchmark, verdicts: Iterable[Verdict]) -> dict[str, list[Turn]]:
    """Return the turns of each reader and, if there are several readers, of their majority, keyed by model name.

    - A row with neither an answer nor a reason counts as not asked.
    - A row with only a reason counts as an empty reply.
    - A reader who answered an item after seeing its key is left out altogether.
    """
    said: dict[str, dict[str, Verdict]] = {}
    every = list(verdicts)
    knew = saw_the_key(every)
    for verdict in every:
        if verdict.kind == "readers" and verdict.is_judged and verdict.reviewer not in knew:
            said.setdefault(verdict.reviewer, {})[verdict.row] = verdict
    logs: dict[str, list[Turn]] = {}
    for reviewer, rows in sorted(said.items()):
        items = [(item, rows[item_row_id(item.item_id)]) for item in bench.items if item_row_id(item.item_id) in rows]
        for item, row in items:
            check_answers(row, item)
        logs[model_name(reviewer)] = [
            _turn(model_name(reviewer), item, row.answer, row.place, row.seconds, row.imported) for item, row in items
        ]
    if len(said) >= 2:
        logs[MAJORITY] = list(_majority_turns(bench, said))
    return logs


def _majority_turns(bench: Benchmark, said: Mapping[str, Mapping[str, Verdict]]) -> Iterable[Turn]:
    """Yield the majority's turn on each item that at least two readers judged."""
    for item in bench.items:
        row = item_row_id(item.item_id)
        rows = [answers[row] for answers in said.values() if row in answers]
        if len(rows) >= 2:
            newest = max(verdict.imported for verdict in rows)
            answer, place = majority(item, [verdict.answer for verdict in rows]), None
            # The place that most readers have in common; without one there is no answer.
            if item.form.is_place and answer is not None:
                given = [verdict.place for verdict in rows if verdict.place]
                place = common_place(item.form.name, given, picture_size(bench, item)) if SOMEWHERE in answer else ()
                answer = None if place is None else answer
            yield _turn(MAJORITY, item, answer, place, None, newest)


def majority(item: Item, answers: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Return the readers' majority answer to an item, as option numbers; ``None`` if there is no majority.

    ``answers`` has one answer for each reader. Readers who cannot tell (``None``) do not count.
    """
    given = [answer for answer in answers if answer is not None]
    if not given:
        return None
    # An item with several right options has "none of these" as its last option.
    return _majority_options(given, len(item.options)) if item.form.takes_several else _most_frequent(given)


def _most_frequent(answers: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the most frequent answer; ``None`` if two answers are equally frequent."""
    (first, votes), *others = Counter(answers).most_common()
    return None if others and others[0][1] == votes else first


def _majority_options(answers: Sequence[tuple[int, ...]], none_of_these: int) -> tuple[int, ...] | None:
    """Return the options that more than half of the readers chose; ``None`` if exactly half chose one of them.

    ``none_of_these`` is the number of the option "none of these". It is returned if no other option has a majority; how
    many readers chose it makes no difference.

    >>> _majority_options([(1, 2), (2, 3), (2,)], 4), _majority_options([(1,), (2,), (3,)], 4)
    ((2,), (4,))
    >>> _majority_options([(1, 2), (2,)], 4) is None  # half of the readers chose option 1
    True
    """
    votes = Counter(number for answer in answers for number in answer if number != none_of_these)
    if any(2 * count == len(answers) for count in votes.values()):
        return None
    return tuple(sorted(number for number, count in votes.items() if 2 * count > len(answers))) or (none_of_these,)


def _turn(
    model: str, item: Item, answer: tuple[int, ...] | None, place: tuple[Shape, ...] | None, seconds: float | None,
    day: str,
) -> Turn:  # fmt: skip
    words = None if answer is None else ", ".join(item.options[number - 1].text or str(number) for number in answer)
    if place:
        words = ", ".join(str(list(shape)) for shape in place)
    return Turn(
        model=model, protocol=PROTOCOL, case_id=item.case_id, item_id=item.item_id, repeat=0, rotation=0, blind=False,
        attempts=1, state=EMPTY if answer is None else ANSWERED, parsed=answer, raw=words, finish_reason=None,
        usage=None, cost_usd=None, latency_s=seconds, provider_model=None,
        request_hash=sha256(f"{model}\n{item.item_id}".encode()),
        image_hashes=tuple(image_digest(picture.image) for picture in item.turn_images), started=day, error=None,
        parser_version=read_run.NO_PARSER, place=place,
    )  # fmt: skip


def write_run(bench: Benchmark, batch: Batch, verdicts: Iterable[Verdict], out: Path) -> dict[str, tuple[int, int]]:
    """Write the complete run folder; return the numbers of judged and of all items, for each reader and the majority.

    The run of an earlier import is replaced. Raise ``InputError`` for any other existing folder.
    """
    logs = turns_of(bench, verdicts)
    if not logs:
        raise InputError(f"{batch.path}: no reader has answered a question yet, so there is no run to write.")
    _check_place(out, bench, logs)
    cases = cases_of(bench, batch)
    with new_folder(out, replace=True) as folder:
        (folder / read_run.TURNS).mkdir()
        write_json(folder / read_run.ABOUT, _about(bench, cases, logs), "run")
        for name, turns in logs.items():
            file = re.sub(r"[^\w.\-]", "_", name.replace("/", "--")) + ".jsonl"
            write_jsonl(folder / read_run.TURNS / file, (bounded(turn).to_record() for turn in turns), "turn")
    return {
        name: (len(turns), sum(item.case_id in cases[name] for item in bench.items)) for name, turns in logs.items()
    }


def _check_place(out: Path, bench: Benchmark, logs: Iterable[str]) -> None:
    """Raise ``InputError`` if ``out`` exists and is not the run of these readers on this benchmark."""
    if not out.exists():
        if not out.absolute().parent.is_dir():
            raise InputError(f"{out}: the folder {out.absolute().parent} does not exist; make it first.")
        return
    about = read_run.read_about(out)
    if about["benchmark"]["hash"] != bench.hash or not set(about["models"]) <= {*logs}:
        raise InputError(
            f"{out}: is a run of other readers, of models or of another benchmark; name another folder with --run."
        )


def cases_of(bench: Benchmark, batch: Batch) -> dict[str, list[str]]:
    """Return the ids of each reader's cases, keyed by the reader's name in the run.

    The majority of the readers is added as one more reader, :data:`MAJORITY`; its cases are those that at least two
    readers have.
    """
    case_of = {item_row_id(item.item_id): item.case_id for item in bench.items}
    dealt = {
        model_name(sheet.reviewer): {case_of[row] for row in sheet.rows}
        for sheet in batch.sheets.values()
        if sheet.kind == "readers"
    }
    times = Counter(case_id for cases in dealt.values() for case_id in cases)
    dealt[MAJORITY] = {case_id for case_id, count in times.items() if count >= 2}
    return {name: sorted(cases) for name, cases in dealt.items()}


def _about(bench: Benchmark, cases: Mapping[str, Sequence[str]], names: Iterable[str]) -> Record:
    every = sorted(set().union(*cases.values()))
    return {
        **read_run.origin(bench),
        "protocol": PROTOCOL,
        "blind": False,
        "overlay_only": False,
        "rotations": 1,
        "repeats": 1,
        "limit": None,
        "limit_per_path": None,
        "seed": 0,
        "cases": every,
        "models": {
            name: {"litellm": name, "api_base": None, "decoding": {}}
            | ({"cases": list(cases[name])} if list(cases[name]) != every else {})
            for name in names
        },
    }
