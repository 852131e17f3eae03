"""The command ``chexqa review validity``: readers against the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chexqa.cli.review_import import in_words, plain_table, read_stores
from chexqa.files.say import say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural

if TYPE_CHECKING:
    from chexqa.review.resolve.validity import Validity

# From this many patients on, 93 to 98.5 % of intervals of a share hold it.
FEW = 20
_PATHS = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa review validity bench verdicts.jsonl")
@click.argument("bench", metavar="BENCH", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("--cross", is_flag=True, help="Also show each kind by finding, and each kind by reviewer.")
@click.option("-o", "--out", type=_PATHS, help="Also write every figure into this table (.csv or .xlsx).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for machines.")
def validity(bench: Path, stores: tuple[Path, ...], cross: bool, out: Path | None, as_json: bool) -> None:
    """Show how far readers' blind answers agree with the key of BENCH, and what seeing the proposal changes.

    The share of answers that are right by the key and kappa between readers and key, with 95 % intervals over patients;
    how often readers changed an answer after seeing the proposal; how often they accepted one that is wrong on purpose.
    """
    from chexqa.contract import benchmark
    from chexqa.review.resolve.validity import to_record, write_table
    from chexqa.review.resolve.validity import validity as measure

    loaded = benchmark.load(bench)
    found = measure(loaded, read_stores(stores))
    if out is not None:
        write_table(out, found, PHANTOM_NOTICE if loaded.is_phantom else None)
    if as_json:
        say_json(json.dumps(to_record(found), indent=2))
        return
    _print(found, cross)
    if loaded.is_phantom:
        say(PHANTOM_NOTICE)


def _print(found: Validity, cross: bool) -> None:
    if found.groups:
        _print_groups(found, cross)
    else:
        say("Nobody answered without seeing the proposal, so nothing says how far readers agree with the key.")
    for who, changed in found.changed.items():
        if changed.value is not None:
            answers = plural(found.seen[who], "blind answer")
            say(
                f"{who or 'Everybody'}: {_percent(changed.value)} of {answers} changed after the proposal was seen"
                f"{_interval(changed.low, changed.high)}, {found.moved[who]:,} of them to it."
            )
    for who, accepted in found.accepted.items():
        if accepted.value is not None:
            say(
                f"{who or 'Everybody'}: {_percent(accepted.value)} of "
                f"{plural(found.planted[who], 'proposal')} that are wrong on purpose accepted"
                f"{_interval(accepted.low, accepted.high)}."
            )


def _print_groups(found: Validity, cross: bool) -> None:
    table = plain_table(
        "Readers against the key (answers given without the proposal)",
        ["of"],
        ["answers", "people", "right, %", "kappa", "weighted"],
    )
    for group in found.groups:
        if sum(name is not None for name in (group.kind, group.finding, group.reviewer)) > 1 and not cross:
            continue
        parts = [part.replace("_", " ") for part in (group.kind, group.finding) if part]
        name = ", ".join([*parts, *([group.reviewer] if group.reviewer else [])]) or "everything"
        figures = ["" if one is None else in_words(one) for one in (group.kappa, group.weighted)]
        table.add_row(name, f"{group.answers:,}", f"{group.patients:,}", in_words(group.share, 100), *figures)
    console().print(table)
    say("Below each value: its 95 % interval, over patients. Kappa: of reader and key; for the grid there is none.")
    if any(group.patients < FEW for group in found.groups):
        say(f"Intervals over fewer than {FEW} people are too narrow; report the counts.")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" (95 %: {100 * low:.0f} to {100 * high:.0f} %)"
