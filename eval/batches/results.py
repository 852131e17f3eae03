"""Results of batches, read from files that a provider returns; lines may be missing or repeated, or report an error.

Every ``*.jsonl`` file in a model's folder ``results`` is read. Only the position of each line is kept in
memory; a line is read again when its reply is needed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.eval.batches.line_formats import Answered, Form
from chexqa.eval.batches.request_files import split_id
from chexqa.eval.models.failures import SendError
from chexqa.files import limits
from chexqa.files.opening import open_binary
from chexqa.files.terminal import messages, plural

FOLDER = "results"
# Largest file of results in bytes; 50,000 replies of 4,000 characters each take less than a tenth of it.
MAX_RESULTS_BYTES = 2**32


class Place(NamedTuple):
    """Position of one line in the result files.

    ``start`` and ``size`` are in bytes. ``round`` is the round of the request that the line answers. ``good`` is True
    if the line has a reply.
    """

    path: Path
    start: int
    size: int
    round: int
    good: bool


class Results:
    """All results in a model's folder.

    ``ids`` has the request ids of all result lines. ``passed_over`` is the number of lines that are not results; these
    lines are ignored.
    """

    def __init__(self, folder: Path, form: Form) -> None:
        """Read every file once, sorted by name; report lines that are not results."""
        self.folder, self.form = folder, form
        self.ids: set[str] = set()
        self.passed_over = 0
        self._places: defaultdict[str, list[Place]] = defaultdict(list)
        for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
            self._read(path)

    def _read(self, path: Path) -> None:
        start, others = 0, 0
        with open_binary(path, MAX_RESULTS_BYTES, self.folder) as file:
            while line := file.readline(limits.MAX_LINE_CHARACTERS + 1):
                said = self._answered(line)
                found = split_id(said.custom_id) if said else None
                if said and found:
                    self.ids.add(said.custom_id)
                    place = Place(path, start, len(line), found[1], said.error is None)
                    self._places[found[0]].append(place)
                else:
                    others += bool(line.strip())
                start += len(line)
        if others:
            self.passed_over += others
            messages().print(
                f"{path}: ignored {plural(others, 'line')} that are not results of this run; questions without a "
                "result are asked again.",
                soft_wrap=True,
            )

    def _answered(self, line: bytes) -> Answered | None:
        try:
            return self.form.answered(json.loads(line))
        except (ValueError, RecursionError):  # a line cut off by a broken download
            return None

    def replies(self, digest: str) -> Iterator[tuple[Any, int]]:
        """Yield the body and the round of each reply to the request with this digest, in the order of files and
        lines.
        """
        for place in self._places.get(digest, ()):
            if place.good:
                yield self._at(place).body, place.round

    def failures(self, digest: str, after: int) -> dict[int, SendError]:
        """Return the errors of the request with this digest, keyed by the rounds in which it got no reply.

        Only rounds later than ``after`` are included.
        """
        first = {place.round: place for place in reversed(self._places.get(digest, ())) if place.round > after}
        said = {number: self._at(first[number]).error for number in sorted(first)}
        return {number: error for number, error in said.items() if error is not None}

    def _at(self, place: Place) -> Answered:
        with open_binary(place.path, MAX_RESULTS_BYTES, self.folder) as file:
            file.seek(place.start)
            said = self._answered(file.read(place.size))
        assert said is not None, f"{place.path} changed while it was read"
        return said
