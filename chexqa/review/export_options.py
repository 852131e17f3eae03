"""Options of an export and their checks: reviewers, cases, and the number of reviewers for each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase
from typing import Literal

from chexqa.files.errors import InputError
from chexqa.review.assignment import Share, Work, among, probabilities, spread
from chexqa.review.columns import SheetKind, check_name
from chexqa.review.study.design import StudyWish, check_study

DEFAULT_OVERLAP = 0.2


@dataclass(frozen=True)
class Wish:
    """Options of an export, checked by :func:`check_wish`.

    - ``overlap``: the share of cases that several reviewers judge.
    - ``readers``: the number of reviewers for each of these cases.
    - ``planted``: the share of wrong proposals among those shown to each reviewer; they are made wrong on purpose.
    - ``both_parts``: True to write the sheets with proposals now; False to write them after the blind answers are in.
    - ``cases``: a file with the ids of the cases, or of single items, to export.
    - ``page_only``: True to write pages instead of sheets.
    - ``manifest``: the manifest that the benchmark was made from.
    - ``runs``: runs whose answers (points, boxes) are drawn beside the proposals; they do not change the batch's id.
    - ``study``: the options of a reader study.
    """

    reviewers: tuple[str, ...]
    overlap: float
    readers: int
    what: Literal["items", "masks"] = "items"
    only: Literal["flagged", "redrawn"] | None = None
    sample: int | None = None
    seed: int = 0
    blind_answers: bool = False
    csv: bool = False
    planted: float = 0.0
    both_parts: bool = True
    cases: Path | None = None
    page_only: bool = False
    manifest: Path | None = None
    study: StudyWish | None = None
    runs: tuple[Path, ...] = field(default=(), repr=False)


def reviewer_names(text: str) -> tuple[str, ...]:
    """Return the names in a text such as "anna,ben"; for a number, return ``reviewer-a``, ``reviewer-b`` and so on.

    Raises ``InputError`` if a name cannot be part of a file name or is given twice.
    """
    if text.strip().isdecimal():
        count = int(text)
        if not 1 <= count <= len(ascii_lowercase):
            raise InputError(f"--reviewers {text}: give a number from 1 to {len(ascii_lowercase)}, or names.")
        return tuple(f"reviewer-{letter}" for letter in ascii_lowercase[:count])
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        check_name(name, "--reviewers")
    if len({name.casefold() for name in names}) < len(names):
        raise InputError(f"--reviewers {text}: a name is given twice; give each reviewer once.")
    return names


def one_name(text: str, option: str) -> str:
    """Return ``text`` as the name of one person.

    Raise ``InputError`` for several names or a number; the error text begins with ``option``."""
    if "," in text or text.strip().isdecimal():
        raise InputError(f"{option} {text}: is not the name of one person; give one name.")
    return reviewer_names(text)[0]


def usual_overlap(
    names: Sequence[str], overlap: float | None, readers: int | None, blind_answers: bool
) -> tuple[float, int]:
    """Return the share of cases that several reviewers judge, and the number of reviewers for each of these cases.

    By default, a fifth of the cases is judged by two reviewers each. In a reader study every reader judges every case.
    With a single reviewer, no case is shared.
    """
    if overlap is None:
        overlap = 0.0 if len(names) < 2 else 1.0 if blind_answers else DEFAULT_OVERLAP
    return overlap, readers or (len(names) if blind_answers else 2)


def check_wish(wish: Wish) -> None:
    """Raise ``InputError`` if the options contradict each other or cannot be fulfilled."""
    if not 0 <= wish.overlap <= 1:
        raise InputError(f"--overlap {wish.overlap:g}: give a share between 0 and 1.")
    if wish.overlap and not 2 <= wish.readers <= len(wish.reviewers):
        raise InputError(
            f"--overlap-readers {wish.readers}: must be from 2 to the number of reviewers ({len(wish.reviewers)}); "
            "change this number, name more reviewers, or give --overlap 0."
        )
    if wish.sample is not None and wish.sample < 1:
        raise InputError(f"--sample {wish.sample}: give a number of cases, at least 1.")
    if (wish.only == "redrawn") != (wish.what == "masks") and wish.only:
        raise InputError(
            f"--only {wish.only}: cannot be used with --what {wish.what}; 'redrawn' is for masks and 'flagged' for "
            "questions."
        )
    if wish.what == "masks" and wish.blind_answers:
        raise InputError("--blind-answers: '--what masks' exports no questions; leave --blind-answers out.")
    if wish.study is not None:
        check_study(wish.study)
    names = {name.casefold() for name in wish.reviewers}
    double = next((name for name in wish.reviewers if f"{name}-2".casefold() in names), None)
    if double is not None:
        raise InputError(
            f"--reviewers: '{double}-2' is the name of {double}'s second folder, so no reviewer can have it; give the "
            f"reviewer '{double}-2' another name."
        )
    if not 0 <= wish.planted <= 0.5:
        raise InputError(f"--planted {wish.planted:g}: give the share of wrong proposals, from 0 (none) to 0.5.")
    if wish.csv and wish.page_only:
        raise InputError("--format csv: --page-only writes no sheets; leave out one of the two options.")
    if wish.csv and wish.what != "masks":
        raise InputError(
            "--format csv: only mask sheets can be csv files, because questions need drop-down lists; give --format "
            "xlsx."
        )


def chosen(
    works: Sequence[Work], wish: Wish, path: Path, cases: Sequence[tuple[str, ...]] | None
) -> list[Work]:  # fmt: skip
    """Return the cases that ``--cases``, ``--only`` and ``--sample`` select; a sample is random and stratified.

    ``cases`` is the result of :func:`read_cases` for ``--cases``; None if it is not given. Raises ``InputError``,
    whose message begins with ``path`` or an option, if too few cases fit.
    """
    named = works if cases is None else among(works, cases, f"--cases {wish.cases}")
    kept = [work for work in named if work.flagged or wish.only is None]
    if not kept:
        what = "a flagged item" if wish.only == "flagged" else "an unapproved redrawn mask"
        raise InputError(f"{path}: no case has {what}; leave out --only {wish.only}.")
    if wish.sample is not None:
        if wish.sample > len(kept):
            raise InputError(
                f"--sample {wish.sample}: there are only {len(kept)} cases to choose from; give at most that number."
            )
        kept = spread(kept, wish.seed, "sample")[: wish.sample]
    return kept


def drawn_blind(every: Sequence[Work], works: Sequence[Work], shares: Sequence[Share], wish: Wish) -> dict[str, float]:
    """Return the probability with which a case was drawn to be answered blind, keyed by case id.

    Cases that were not drawn at random have no entry: decoys (cases without the finding, added by
    :func:`chexqa.review.assignment.with_decoys`), and cases chosen by ``--cases`` or ``--only``. ``every`` has all
    cases, and ``works`` the cases of the review.
    """
    if wish.what != "items" or wish.only is not None or wish.cases is not None:
        return {}
    sampled = len(works) / len(every)
    if wish.blind_answers:
        return {work.case_id: sampled for work in works}
    shared = {case for share in shares for case in share.shared}
    known = probabilities(works, wish.overlap, wish.seed, sampled)
    return {case: chance for case, chance in known.items() if case in shared}


def kinds_of(wish: Wish, shared: bool) -> tuple[SheetKind, ...]:
    """Return the kinds of sheet (blind, items, masks, …) that a reviewer gets, in the order of work.

    ``shared`` is True if other reviewers judge some of the reviewer's cases.
    """
    if wish.what == "masks":
        return ("masks",)
    if not wish.blind_answers:
        return ("blind", "items") if shared else ("items",)
    before: tuple[SheetKind, ...] = ("training",) if wish.study and wish.study.training else ()
    after: tuple[SheetKind, ...] = ("repeat",) if wish.study and wish.study.repeat else ()
    return (*before, "readers", *after)
