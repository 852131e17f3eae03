"""The command ``chexqa review wordings``: writes a sheet of other wordings, and reads the returned sheet."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.files.errors import InputError
from chexqa.files.say import argument, say
from chexqa.files.terminal import plural

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa review wordings bench -o wordings.xlsx --reviewer anna")
@click.argument("bench", metavar="BENCH", type=_PATH)
@click.option("-o", "--out", type=_PATH, metavar="FILE", help="The new workbook for the reviewer.")
@click.option("--reviewer", metavar="NAME", help="Name of the reviewer; needed with -o.")
@click.option("--returned", multiple=True, type=_PATH, metavar="FILE|DIR",
              help="A filled workbook, or a folder of filled workbooks; may be repeated.")  # fmt: skip
def wordings(bench: Path, out: Path | None, reviewer: str | None, returned: tuple[Path, ...]) -> None:
    """Write a sheet of other wordings of BENCH's questions, or read the filled sheet.

    In the sheet, an expert says whether each wording asks the same as the question bank's wording. -o writes the
    sheet. --returned stores the sheet's verdicts in BENCH/wording_review.json. If any reviewer rejects or corrects a
    wording, 'eval --stress' no longer asks it, and 'validate' names it.
    """
    from chexqa.contract import benchmark
    from chexqa.eval.stress import unequal_wordings, wording_sheet

    if (out is None) == (not returned):
        raise InputError("review wordings: give -o FILE to write a sheet, or --returned FILE to read it.")
    loaded = benchmark.load(bench)
    if out is not None:
        if reviewer is None:
            raise InputError("review wordings -o: give --reviewer NAME, the reviewer who gets the sheet.")
        rows = wording_sheet.write_sheet(loaded, out, reviewer)
        say(f"{out}: {plural(rows, 'row')} for {reviewer}")
        say(f"Next, with the filled sheet: chexqa review wordings {argument(bench)} --returned {argument(out)}")
        return
    found, problems = wording_sheet.read_sheets(loaded, returned)
    for problem in problems:
        say(f"problem: {problem}")
    if not found:
        raise InputError(f"{returned[0]}: contains no verdict that could be read; fill in the column 'verdict'.")
    say(f"{unequal_wordings.store(loaded, found)}: {plural(len(found), 'verdict')} read")
    unequal = unequal_wordings.unequal(loaded)
    for wording, why in unequal.items():
        say(f"not asked any more: wording {wording.letter} of {wording.kind} ({why})")
    if not unequal:
        say("No wording was found to differ in meaning.")
