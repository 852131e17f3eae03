"""Second part of a review: the sheet with proposed answers, written once a reviewer's blind answers are imported.

An answer is blind only if the reviewer cannot have seen the proposal before. The two parts are therefore in two
folders.
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
    """Reviewer whose second part (the sheet with proposals) is not written yet, because blind rows are unanswered.

    - ``missing``: the number of blind rows without an answer.
    - ``rows``: the number of all blind rows.
    """

    reviewer: str
    missing: int
    rows: int


class Opened(NamedTuple):
    """Result of :func:`open_second_parts`: the new sheets with their numbers of rows, the reviewers who have not
    finished their blind rows, and the new pages.
    """

    sheets: tuple[tuple[Path, int], ...]
    waiting: tuple[Waiting, ...]
    pages: tuple[Written, ...] = ()


def second_parts(batch: Batch) -> dict[str, tuple[Dealt, Dealt]]:
    """Return the blind sheet and the sheet with proposals of each reviewer who has both, keyed by reviewer."""
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
    """Return the reviewers whose second part is not written yet, keyed by the name of the second part's sheet.

    ``Waiting.missing`` is 0 if the reviewer has answered all blind rows, so that the second part can be written.
    """
    parts = second_parts(batch)
    missing = _missing(batch, verdicts)
    return {parts[name][1].name: Waiting(name, count, len(parts[name][0].rows)) for name, count in missing.items()}


def _missing(batch: Batch, verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return the number of unanswered blind rows, keyed by reviewer, for second parts that are not written yet."""
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
    """Write the folder with proposals for each reviewer who has answered all blind rows; existing folders stay
    unchanged.

    - ``beside`` and ``progress``: as in :func:`chexqa.review.sheets.export.export`.
    - ``page_only``: True to write no sheets, only pages.
    - ``manifest``: the manifest that the benchmark was made from, if it is not at the path in the batch file.
    - ``image_root``: the folder that the manifest's paths are relative to.
    - ``incomplete``: True to write the folder even if blind rows are unanswered, as when the reviewer closes the blind
      part early on a review page.

    Raises ``InputError`` if the batch has no blind sheets.
    """
    parts = second_parts(batch)
    if not parts:
        raise InputError(
            f"{batch.path}: no reviewer of this review gets a sheet with proposals after a blind sheet, so there is "
            "nothing to write."
        )
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
                own = replace(material, wrong=wrong, dropped=loaded.item.keys() - _items(batch, shown))
                maker.write(path.name, "items", reviewer, _cases(batch, shown), own, step)
            written.append((path, len(shown.rows)))
            pages += [page._replace(file=f"{path.parent.name}/{page.file}") for page in maker.pages]
    return Opened(tuple(written), tuple(waiting), tuple(pages))


def _path(batch: Batch, dealt: Dealt) -> Path:
    """Return the path of a sheet of the batch."""
    file = next(sheet["file"] for sheet in batch.about["sheets"] if Path(sheet["file"]).stem == dealt.name)
    return batch.path.parent / str(file)


def _items(batch: Batch, dealt: Dealt) -> list[str]:
    """Return the ids of a sheet's items in the order of its rows."""
    rows = next(sheet["rows"] for sheet in batch.about["sheets"] if Path(sheet["file"]).stem == dealt.name)
    return [row.removeprefix("i-") for row in rows]


def _cases(batch: Batch, dealt: Dealt) -> tuple[str, ...]:
    """Return the ids of a sheet's cases in the order of its rows."""
    return tuple(dict.fromkeys(item_id.rpartition("/")[0] for item_id in _items(batch, dealt)))


def _wish(batch: Batch) -> Wish:
    about = batch.about
    return Wish(
        tuple(about["reviewers"]), about["overlap"], about["overlap_readers"], only=about["only"],
        sample=about["sample"], seed=about["seed"],
    )  # fmt: skip
