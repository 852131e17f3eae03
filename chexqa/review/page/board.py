"""The coordinator's page: each reviewer's progress, without names, and agreement once all blind parts are closed."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from chexqa.contract import benchmark
from chexqa.files.errors import InputError
from chexqa.files.seeds import stream
from chexqa.review.collect.import_sheets import ImportOptions, import_sheets
from chexqa.review.collect.verdicts import Batch, load_reviewed
from chexqa.review.columns import IN_ROUNDS
from chexqa.review.page.answers import ANSWERS, PartAnswers
from chexqa.review.resolve.compare import compare, places_of


class Line(NamedTuple):
    """Line of the coordinator's board: a reviewer's progress in one part of the work.

    ``reader`` is the reviewer's pseudonym.
    """

    reader: str
    part: str
    done: int
    rows: int
    state: str
    newest: str


class Agreed(NamedTuple):
    """Agreement of blind answers to one kind of question.

    - ``units``: the number of questions (or of single options) that two or more reviewers answered.
    - ``percent``, ``alpha``: the share of equal answers, and Krippendorff's alpha, as text.
    """

    kind: str
    units: int
    percent: str
    alpha: str


def pseudonyms(batch: Batch) -> dict[str, str]:
    """Return the pseudonyms ``reader 1``, ``reader 2``, …, keyed by reviewer.

    They are assigned in a random order, which is always the same for a batch.
    """
    names = sorted({dealt.reviewer for dealt in batch.sheets.values()})
    order = stream(0, "pseudonyms", batch.name).permutation(len(names))
    return {names[place]: f"reader {number}" for number, place in enumerate(order, start=1)}


def lines(batch: Batch, parts: Mapping[str, Sequence[PartAnswers]], shown: Collection[str]) -> list[Line]:
    """Return the lines of the coordinator's board: the progress of each reviewer in each part.

    ``parts`` has each reviewer's parts in the order of work. ``shown`` has the names of the pages that reviewers can
    already open.
    """
    names, found = pseudonyms(batch), []
    for reviewer, own in sorted(parts.items(), key=lambda one: names[one[0]]):
        for number, part in enumerate(own, start=1):
            state = "closed" if part.locked else "done" if part.judged == part.size else "open"
            state = state if part.page in shown else "later"
            newest = (part.newest or "").replace("T", " ")[:16]
            found.append(Line(names[reviewer], f"{number} of {len(own)}", part.judged, part.size, state, newest))
    return found


def blind_are_in(parts: Mapping[str, Sequence[PartAnswers]]) -> bool:
    """Return True if every blind part of every reviewer is closed."""
    return all(part.locked for own in parts.values() for part in own if part.kind in IN_ROUNDS)


def agreement(batch: Batch, folder: Path) -> list[Agreed]:
    """Return the agreement of blind answers for each kind of question; empty if there is nothing to compare."""
    if batch.about["what"] != "items":
        return []
    loaded: benchmark.Benchmark = load_reviewed(batch, None)
    with tempfile.TemporaryDirectory() as place:
        options = ImportOptions([folder / ANSWERS], batch.path, Path(place) / "verdicts.jsonl")
        said = [verdict for verdict in import_sheets(options).verdicts.values() if verdict.kind in IN_ROUNDS]
    groups = compare(said, places_of(loaded)) if said else []
    return [
        Agreed(
            (group.kind or "all kinds").replace("_", " "),
            group.units,
            *(_value(group.estimates[name].value) for name in ("percent", "alpha")),
        )
        for group in groups
        if group.what == "answer" and group.finding is None
    ]


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def board_html(
    batch: Batch, folder: Path, parts: Mapping[str, Sequence[PartAnswers]], shown: Collection[str]
) -> str:  # fmt: skip
    """Return the coordinator's page as HTML without scripts; ``parts`` and ``shown`` as for :func:`lines`."""
    are_in, agreed, wrong = blind_are_in(parts), [], ""
    if are_in and any(part.rows for own in parts.values() for part in own):
        try:
            agreed = agreement(batch, folder)
        except InputError as error:
            wrong = str(error)
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    text = (resources.files("chexqa.review.page") / "board.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        title=batch.about["benchmark"]["name"], lines=lines(batch, parts, shown), are_in=are_in, agreed=agreed,
        wrong=wrong, folder=str(folder),
    )  # fmt: skip
