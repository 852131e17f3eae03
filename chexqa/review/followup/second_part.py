"""Second part of a review: the sheet with proposed answers, written when a reviewer has returned the blind sheet.

An answer is blind only if its reader cannot have seen the proposal, so the two parts are in two folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from chexqa.contract.cases import read_manifest
from chexqa.files.errors import InputError
from chexqa.review.collect.verdicts import Batch, Dealt, Verdict, load_reviewed, recorded_manifest, recorded_runs
from chexqa.review.columns import PAGES
from chexqa.review.sheets.export import Beside, Maker, Progress, Wish, Written, bench_source, new_folder
from chexqa.review.sheets.questions import Questions, made_from
from chexqa.review.sheets.source import answers_in


class Waiting(NamedTuple):
    """Reviewer who must still answer blind rows before the second part is written, and the number of these rows."""

    reviewer: str
    missing: int
    rows: int


class Opened(NamedTuple):
    """Result of :func:`open_second_parts`: new sheets and their row counts, reviewers not finished, new pages."""

    sheets: tuple[tuple[Path, int], ...]
    waiting: tuple[Waiting, ...]
    pages: tuple[Written, ...] = ()


def second_parts(batch: Batch) -> dict[str, tuple[Dealt, Dealt]]:
    """Return a dictionary from reviewer to (blind sheet, sheet with proposals), for reviewers who have both."""
    sheets = batch.sheets
    return {
        reviewer: (sheets["blind", reviewer], sheets["items", reviewer])
        for kind, reviewer in sheets
        if kind == "blind" and ("items", reviewer) in sheets
    }


def ready_parts(batch: Batch, verdicts: Sequence[Verdict]) -> list[str]:
    """Return the reviewers whose blind sheet is completely answered and whose second part is not written yet."""
    return [reviewer for reviewer, count in _missing(batch, verdicts).items() if not count]


def waiting_parts(batch: Batch, verdicts: Iterable[Verdict]) -> dict[str, Waiting]:
    """Return, by sheet name, the reviewer (:class:`Waiting`) whose blind answers an unwritten sheet waits for.

    The number of missing rows is 0 if the reviewer has answered the whole blind sheet.
    """
    parts = second_parts(batch)
    missing = _missing(batch, verdicts)
    return {parts[name][1].name: Waiting(name, count, len(parts[name][0].rows)) for name, count in missing.items()}


def _missing(batch: Batch, verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return the number of unanswered blind rows of each reviewer whose second part is not written yet."""
    own = [verdict for verdict in verdicts if verdict.batch == batch.name]
    return {
        reviewer: unanswered(blind, own)
        for reviewer, (blind, shown) in second_parts(batch).items()
        if not (_path(batch, shown).exists() or (_path(batch, shown).parent / PAGES).is_dir())
    }


def unanswered(dealt: Dealt, verdicts: Iterable[Verdict]) -> int:
    """Return the number of rows in a sheet that have neither an answer nor a reason for giving none."""
    judged = {verdict.row for verdict in verdicts if verdict.sheet == dealt.name and verdict.is_judged}
    return len(dealt.rows - judged)


def open_second_parts(
    batch: Batch, verdicts: Sequence[Verdict], benchmark: Path | None, progress: Progress, beside: Beside | None = None,
    page_only: bool = False, manifest: Path | None = None, image_root: Path | None = None, incomplete: bool = False,
) -> Opened:  # fmt: skip
    """Write the second folder of each reviewer who has answered the whole blind sheet; existing folders stay unchanged.

    ``beside`` and ``progress``: as in :func:`chexqa.review.sheets.export.export`. ``page_only``: write no sheets.
    ``manifest``: the path of the manifest that the benchmark was made from, if it is not the path in the batch file;
    its paths may be relative to ``image_root``. ``incomplete``: do not wait for rows that are still open, such as those
    of a page that its reader has closed. Raises ``InputError`` if the batch has no blind sheets.
    """
    parts = second_parts(batch)
    if not parts:
        raise InputError(f"{batch.path}: no reviewer answers blind first, so every sheet exists already.")
    missing = _missing(batch, verdicts)
    waiting = [
        Waiting(name, count, len(parts[name][0].rows)) for name, count in missing.items() if count and not incomplete
    ]
    ready = [(name, parts[name][1]) for name, count in missing.items() if incomplete or not count]
    if not ready:
        return Opened((), tuple(waiting))
    loaded = load_reviewed(batch, benchmark)
    place = manifest or recorded_manifest(batch)
    sources = made_from(loaded, read_manifest(place, image_root)) if place else {}
    material = Questions(loaded, sources=sources, told=answers_in(loaded, recorded_runs(batch)))
    wish, written, pages = replace(_wish(batch), page_only=page_only), [], []
    with progress("writing sheets", sum(len(shown.rows) for _, shown in ready)) as step:
        for reviewer, shown in ready:
            path = _path(batch, shown)
            with new_folder(path.parent) as folder:
                maker = Maker(bench_source(loaded), material, wish, batch.name, folder, beside=beside)
                wrong = {row.removeprefix("i-"): answer for row, answer in shown.planted.items()}
                maker.write(path.name, "items", reviewer, _cases(batch, shown), replace(material, wrong=wrong), step)
            written.append((path, len(shown.rows)))
            pages += [page._replace(file=f"{path.parent.name}/{page.file}") for page in maker.pages]
    return Opened(tuple(written), tuple(waiting), tuple(pages))


def _path(batch: Batch, dealt: Dealt) -> Path:
    """Return the path of a sheet of the batch."""
    file = next(sheet["file"] for sheet in batch.about["sheets"] if Path(sheet["file"]).stem == dealt.name)
    return batch.path.parent / str(file)


def _cases(batch: Batch, dealt: Dealt) -> tuple[str, ...]:
    """Return the cases of a sheet in the order of its rows."""
    rows = next(sheet["rows"] for sheet in batch.about["sheets"] if Path(sheet["file"]).stem == dealt.name)
    return tuple(dict.fromkeys(row.removeprefix("i-").rpartition("/")[0] for row in rows))


def _wish(batch: Batch) -> Wish:
    about = batch.about
    return Wish(
        tuple(about["reviewers"]), about["overlap"], about["overlap_readers"], only=about["only"],
        sample=about["sample"], seed=about["seed"],
    )  # fmt: skip
