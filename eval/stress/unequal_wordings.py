"""Reviewers' verdicts on whether another wording of a question asks the same as the question bank's wording.

The verdicts are stored in ``wording_review.json`` in the benchmark's folder, a row for each question, wording and
reviewer. The file does not change the benchmark's hash. A row is ignored if a wording has changed since the review.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chexqa import question_banks
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.stress.wordings import wordings
from chexqa.files.jsonio import Record, read_json, sha256, write_json
from chexqa.review.columns import FIX, REJECT

FILE = "wording_review.json"
# Verdicts after which a wording is not asked: reviewers reject it, or want it changed.
UNEQUAL = (FIX, REJECT)


class Wording(NamedTuple):
    """Another wording of a kind of question, identified by its letter."""

    kind: str
    letter: str

    @property
    def cell(self) -> str:
        """Return the name of the stress cell with this wording, such as ``wording-b``."""
        return f"wording-{self.letter}"

    def __str__(self) -> str:
        return f"{self.kind} {self.letter}"


def texts(language: str, wording: Wording) -> tuple[str, str] | None:
    """Return a question's text in the question bank and in another wording, both with their placeholders.

    Return None if one of the texts is missing.
    """
    own = question_banks.load(language)["kinds"].get(wording.kind, {}).get("question")
    other = wordings(language).get(wording.letter, {"kinds": {}})["kinds"].get(wording.kind)
    return None if own is None or other is None else (str(own), str(other))


def texts_hash(language: str, wording: Wording) -> str:
    """Return a hash of both texts of a question (:func:`texts`), by which a changed text is noticed."""
    return sha256("\n".join(texts(language, wording) or ()).encode())


def reviewed(benchmark: Benchmark) -> list[Record]:
    """Return the rows of the review in the benchmark's folder; empty if there was no review.

    Raise ``InputError`` if the file is damaged.
    """
    path = benchmark.folder / FILE
    rows = read_json(path, "wording_review", benchmark.folder)["rows"] if path.exists() else []
    language = _language(benchmark)
    return [row for row in rows if row["texts"] == texts_hash(language, Wording(row["kind"], row["wording"]))]


def store(benchmark: Benchmark, rows: Iterable[Record]) -> Path:
    """Store rows of the review in the benchmark's folder, and return the file.

    A row replaces the same reviewer's earlier row on the same question and wording.
    """
    path = benchmark.folder / FILE
    held = {(row["kind"], row["wording"], row["rule"], row["reviewer"]): row for row in [*reviewed(benchmark), *rows]}
    write_json(path, {"schema_version": 1, "rows": [held[name] for name in sorted(held)]}, "wording_review")
    return path


def unequal(benchmark: Benchmark) -> dict[Wording, str]:
    """Return the wordings that reviewers rejected or want changed, each with these reviewers' names and reasons."""
    found: dict[Wording, str] = {}
    for row in reviewed(benchmark):
        if row["verdict"] in UNEQUAL:
            said = f"{row['reviewer']}: {row['comment'] or row['verdict']}"
            wording = Wording(row["kind"], row["wording"])
            found[wording] = f"{found[wording]}; {said}" if wording in found else said
    return found


def _language(benchmark: Benchmark) -> str:
    return str(benchmark.about["question_bank"]["language"])
