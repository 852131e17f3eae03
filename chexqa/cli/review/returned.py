"""The commands of ``chexqa review`` for returned sheets: import, status, agreement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chexqa.files.errors import EXIT_INPUT, EXIT_OK, InputError
from chexqa.files.say import argument, say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural, progress

if TYPE_CHECKING:
    from rich.table import Table

    from chexqa.review.collect.import_sheets import Imported
    from chexqa.review.collect.status import SheetStatus
    from chexqa.review.collect.verdicts import Verdict
    from chexqa.review.resolve.coefficients import Estimate
    from chexqa.review.resolve.compare import Agreement, SheetPlace

_PATHS = click.Path(path_type=Path)


@click.command("import", epilog="Example: chexqa review import returned --batch sheets -o verdicts.jsonl")
@click.argument("paths", metavar="DIR|FILES", nargs=-1, required=True, type=_PATHS)
@click.option(
    "--batch",
    type=_PATHS,
    help="The file review.json of this review, or its folder; needed if it is not beside the sheets.",
)
@click.option(
    "-o",
    "--out",
    type=_PATHS,
    help="The file that gets the verdicts; by default verdicts.jsonl beside review.json.",
)
@click.option("--benchmark", type=_PATHS, help="Folder of the benchmark, if it is not where review.json says.")
@click.option("--all-or-none", is_flag=True, help="Import nothing if a row has a problem.")
@click.option("--skip-bad", is_flag=True, help="Exit with code 0 even if rows with problems were left out.")
@click.option("--replace", is_flag=True, help="Overwrite rows imported earlier that differ from the returned files.")
@click.option(
    "--run", "run_folder", type=_PATHS, help="The folder of a reader study's run; by default 'run' beside review.json."
)
@click.option(
    "--image-root",
    type=_PATHS,
    help="For redrawn masks: the folder that the manifest's paths are relative to  [default: the manifest's folder].",
)
def import_sheets(
    paths: tuple[Path, ...], batch: Path | None, out: Path | None, benchmark: Path | None, all_or_none: bool,
    skip_bad: bool, replace: bool, run_folder: Path | None, image_root: Path | None,
) -> int:  # fmt: skip
    """Import filled sheets (.xlsx, .ods, .csv, .tsv) and saved pages (.json); a row with a problem is left out."""
    from chexqa.review.collect.import_sheets import ImportOptions
    from chexqa.review.collect.import_sheets import import_sheets as run_import

    where = batch or find_batch(paths)
    options = ImportOptions(paths, where, out, benchmark, all_or_none, replace, image_root=image_root)
    done = run_import(options)
    for line in done.problems:
        say(f"problem: {line}", err=True)
    if done.bad:
        _give_back(done, benchmark, image_root)
    if not done.written:
        say(
            f"{plural(done.faults, 'problem')}, so no sheet was imported. "
            + (
                "Correct the rows with problems, or import the other rows without --all-or-none."
                if all_or_none
                else "Correct them."
            ),
            err=True,
        )
        return EXIT_INPUT
    for line in done.withdrawn:
        say(f"withdrawn: {line}")
    if done.problems and not done.read:
        say(f"{plural(done.faults, 'problem')}, and no row could be read.", err=True)
        return EXIT_OK if skip_bad else EXIT_INPUT
    for line in done.no_reason:
        say(f"no reason: {line}", err=True)
    skipped = f"; {plural(done.faults, 'problem')} skipped" if done.problems else ""
    changes = f"{done.new:,} new, {done.changed:,} changed, {done.read - done.new - done.changed:,} known before"
    say(f"{done.store}: {plural(done.read, 'row')} read ({changes}){skipped}")
    if done.redrawn:
        _print_redrawn(done)
    if done.batch.about["blind_answers"]:
        _about_readers(done)
        _write_run(done, run_folder or done.batch.path.parent / "run")
    elif any(sheet.kind == "adjudication" for sheet in done.batch.sheets.values()):
        reviewed = argument(done.batch.about["benchmark"]["path"])
        say(f"Next: chexqa review apply {reviewed} {argument(done.store)} -o NEW")
    elif (waiting := _second_parts(done)) is not None:
        say(waiting)
    else:
        elsewhere = "" if done.store.parent == done.batch.path.parent else f" --verdicts {argument(done.store)}"
        say(f"Next: chexqa review status {argument(done.batch.path.parent)}{elsewhere}")
    return EXIT_INPUT if done.problems and not skip_bad else EXIT_OK


def _give_back(done: Imported, given: Path | None, image_root: Path | None) -> None:
    """Write the rows that could not be read into sheets for their reviewers, and print where they are."""
    from chexqa.review.followup.problem_sheets import write_problem_sheets

    try:
        sheets = write_problem_sheets(done.batch, done.loaded, done.bad, image_root, given, progress)
    except InputError as error:
        say(f"the sheets with rows to correct could not be written: {error}", err=True)
        return
    for sheet in sheets:
        rows = plural(sheet.rows, "row")
        say(f"{sheet.path}: {rows} for {sheet.reviewer} to correct; send this reviewer the whole folder of the sheet")


def _second_parts(done: Imported) -> str | None:
    """Return advice on the next step for reviewers who answered the blind sheet and have no second part yet."""
    from chexqa.review.followup.second_part import ready_parts

    ready = ready_parts(done.batch, list(done.verdicts.values()))
    if not ready:
        return None
    elsewhere = "" if done.store.parent == done.batch.path.parent else f" --verdicts {argument(done.store)}"
    how = page_options(done.batch.path.parent)
    return f"Next, for {', '.join(ready)}: chexqa review open {argument(done.batch.path.parent)}{elsewhere}{how}"


def _print_redrawn(done: Imported) -> None:
    """Print how far each redrawn mask is from the previous mask."""
    from chexqa.review.collect.contours import CONTOURS

    for one in done.redrawn:
        far = f"{one['hausdorff_px']:g} px" + (f" ({one['hausdorff_mm']:g} mm)" if one["hausdorff_mm"] else "")
        share = f"{one['edited_px']:,} px changed ({100 * one['edited_share']:.1f} % of the mask)"
        say(
            f"{one['case_id']}: redrawn by {one['reviewer']}, {share}; the new outline is at most {far} "
            "from the old one"
        )
    say(
        f"{done.store.parent / CONTOURS}: {plural(len(done.redrawn), 'redrawn mask')}; a second reader must "
        f"sign (approve) each mask"
    )


def _about_readers(done: Imported) -> None:
    """Store the answers that readers gave on the first tab; print unanswered questions, and readers who saw the key."""
    from chexqa.review.study.about_readers import FILE, keep_about, not_said
    from chexqa.review.study.reader_run import saw_the_key

    said = keep_about(done.store.parent, done.about)
    if done.about:
        say(f"{done.store.parent / FILE}: experience, display and conditions of {plural(len(said), 'reader')}")
    asked = done.batch.about.get("study") is not None
    for who, questions in not_said(said, done.batch.name, done.batch.about["reviewers"]).items() if asked else ():
        say(f"{who} did not answer these questions on the first tab: {'; '.join(questions)}")
    for who, items in saw_the_key(done.verdicts.values()).items():
        say(
            f"{who}: left out of the study, because this reader has seen the key of {plural(items, 'item')} before",
            err=True,
        )


def _write_run(done: Imported, folder: Path) -> None:
    from chexqa.review.study.reader_run import write_run

    assert done.loaded is not None, "a reader study is one on a benchmark"
    if all(verdict.kind == "training" for verdict in done.verdicts.values()) and done.verdicts:
        say("These are answers to training cases alone, so there is no run to grade yet.")
        return
    counts = write_run(done.loaded, done.batch, done.verdicts.values(), folder).items()
    say(f"{folder}: items judged by each reader: {', '.join(f'{who} {n:,} of {all_:,}' for who, (n, all_) in counts)}")
    say(f"Next: chexqa grade {argument(folder)}")


def page_options(folder: Path) -> str:
    """Return the option that makes ``review open`` write pages as the export did; empty for an export without pages."""
    from chexqa.review.columns import PAGES

    if not (folder / PAGES).is_dir():
        return ""
    return " --page" if any(folder.glob("*/*.xlsx")) else " --page-only"


def find_batch(paths: Sequence[Path]) -> Path:
    """Return the folder with the batch file ``review.json``: the first of ``paths``, its parent or its grandparent."""
    from chexqa.review.columns import BATCH_FILE

    for folder in (paths[0], *paths[0].absolute().parents[:2]):
        if (folder / BATCH_FILE).is_file():
            return folder
    raise InputError(
        f"{paths[0]}: neither this folder nor the two folders above it contain {BATCH_FILE}; give the file's path "
        f"as --batch."
    )


def read_stores(paths: Iterable[Path]) -> list[Verdict]:
    """Return all verdicts (reviewers' judgements) in the given files; of a folder, ``verdicts.jsonl`` is read."""
    from chexqa.review.collect.verdicts import read_store

    found: dict[tuple[str, str, str], tuple[Verdict, Path]] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; 'chexqa review import' makes a file of verdicts.")
        for key, verdict in read_store(path).items():
            before, other = found.setdefault(key, (verdict, path))
            if before.said != verdict.said:
                where = f"{path}: '{verdict.row}' of sheet '{verdict.sheet}'"
                raise InputError(f"{where} differs from the same row in {other}; give only the newer of the two files.")
    return [verdict for verdict, _ in found.values()]


@click.command(epilog="Example: chexqa review status sheets")
@click.argument("batches", metavar="BATCH…", nargs=-1, required=True, type=_PATHS)
@click.option(
    "--verdicts", type=_PATHS, help="The imported verdicts; by default verdicts.jsonl beside each review.json."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
def status(batches: tuple[Path, ...], verdicts: Path | None, as_json: bool) -> None:
    """Show each reviewer's progress. BATCH is a batch's file review.json, or the folder that contains it."""
    from chexqa.review.collect.status import status as sheet_status
    from chexqa.review.collect.verdicts import STORE, load_batch, read_store
    from chexqa.review.followup.second_part import waiting_parts

    sheets: list[SheetStatus] = []
    waits: dict[str, str] = {}
    for path in batches:
        batch = load_batch(path)
        store = verdicts or batch.path.parent / STORE
        said = read_store(verdicts or store.parent).values() if verdicts or store.exists() else []
        sheets += sheet_status(batch, said)
        for name, part in waiting_parts(batch, said).items():
            elsewhere = "" if verdicts is None else f" --verdicts {argument(verdicts)}"
            how = page_options(batch.path.parent)
            command = f"chexqa review open {argument(path)}{elsewhere}{how}"
            ready = f"all blind rows are answered; write the second part with '{command}'"
            open_rows = f"{part.reviewer} has not answered {part.missing:,} of {plural(part.rows, 'blind row')}"
            waits[name] = open_rows if part.missing else ready
    if as_json:
        say_json(json.dumps([sheet.to_record() for sheet in sheets], indent=2))
        return
    _print_status(sheets, waits)


def _print_status(sheets: Sequence[SheetStatus], waits: Mapping[str, str]) -> None:
    """Print the progress; ``waits`` says, for each sheet that is not written yet, what it waits for."""
    from chexqa.review.collect.status import WORDS

    words = [word for word in WORDS if any(word in sheet.said for sheet in sheets)]
    extra = [name for name in ("comments", "minutes") if any(getattr(sheet, name) for sheet in sheets)]
    table = plain_table("Review so far", ["sheet"], ["done", *words, *extra])
    for sheet in sheets:
        said = [f"{sheet.said.get(word, 0):,}" for word in words]
        more = [f"{getattr(sheet, name) or 0:,.0f}" for name in extra]
        table.add_row(sheet.sheet, f"{sheet.done:,} of {sheet.rows:,}", *said, *more)
    console().print(table)
    for sheet in sheets:
        if sheet.sheet in waits:
            say(f"{sheet.sheet}: {waits[sheet.sheet]}")
        elif sheet.newest is None:
            say(f"{sheet.sheet}: nothing imported yet")


def plain_table(title: str, left: Iterable[str], right: Iterable[str]) -> Table:
    """Return an empty table without lines between its columns, so that wide tables fit a terminal.

    ``left`` names the first columns, aligned on the left; ``right`` names the columns of numbers that follow.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right")
    return table


@click.command(epilog="Example: chexqa review agreement bench verdicts.jsonl")
@click.argument("source", metavar="BENCH|CASES", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("--cross", is_flag=True, help="Also show agreement for each finding within each kind of question.")
@click.option("--pairs", is_flag=True, help="Also show Cohen's kappa of each pair of reviewers.")
@click.option("-o", "--out", type=_PATHS, help="Also write all agreement coefficients to this table (.csv or .xlsx).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for machines.")
def agreement(
    source: Path, stores: tuple[Path, ...], cross: bool, pairs: bool, out: Path | None, as_json: bool
) -> None:
    """Show how far reviewers agree on BENCH, or on the masks of CASES, with 95 % intervals over patients."""
    from chexqa.review.resolve.compare import compare, to_record, write_table

    verdicts = read_stores(stores)
    places, phantom = _places(source, verdicts)
    groups = compare(verdicts, places)
    if out is not None and groups:
        write_table(out, groups, PHANTOM_NOTICE if phantom else None)
    if as_json:
        say_json(json.dumps([to_record(group) for group in groups], indent=2))
        return
    if not groups:
        say("No case was judged by two reviewers, so there is no agreement to measure.")
        return
    for what in ("verdict", "answer"):
        shown = [group for group in groups if group.what == what and (cross or not (group.kind and group.finding))]
        _print_agreement(what, shown, pairs)
    if phantom:
        say(PHANTOM_NOTICE)


def _places(source: Path, verdicts: Sequence[Verdict]) -> tuple[dict[str, SheetPlace], bool]:
    """Return the subject of each row, keyed by row id, and True if the radiographs are phantoms.

    Raises ``InputError`` for verdicts on another benchmark or manifest.
    """
    from chexqa.contract import benchmark
    from chexqa.review.collect.verdicts import by_item
    from chexqa.review.resolve.compare import places_of, places_of_masks
    from chexqa.review.resolve.mask_hashes import ManifestMasks, check_same

    on_masks = [verdict for verdict in verdicts if verdict.is_on_mask]
    if (source / benchmark.ABOUT).is_file():
        bench = benchmark.load(source)
        by_item((verdict for verdict in verdicts if not verdict.is_on_mask), bench)
        check_same(on_masks, bench)
        return places_of(bench), bench.is_phantom
    if len(on_masks) < len(verdicts):
        raise InputError(f"{source}: the verdicts are on items, not on masks; give the benchmark of these items.")
    masks = ManifestMasks(source)
    check_same(on_masks, masks)
    cases = masks.cases
    return places_of_masks(cases), any(case.source == "phantom" for case in cases)


_TITLES = {
    "verdict": "Verdicts (reviewers saw the proposal, which raises agreement)",
    "answer": "Answers given without the proposal (if several options can be right, each option counts as one answer)",
}


def _print_agreement(what: str, groups: Sequence[Agreement], pairs: bool) -> None:
    if not groups:
        return
    weighted = any("weighted" in group.estimates for group in groups)
    heads = ["units", "people", "percent", "Fleiss", "alpha", "AC1", *(["weighted"] if weighted else [])]
    table = plain_table(_TITLES[what], ["of"], heads)
    for group in groups:
        found = [group.estimates[name] for name in ("percent", "fleiss", "alpha", "ac1")]
        close = group.estimates.get("weighted")
        table.add_row(
            _name(group), f"{group.units:,}", f"{group.patients:,}", in_words(found[0], 100),
            in_words(found[1], mark="*" if group.remark else ""), *(in_words(estimate) for estimate in found[2:]),
            *(["" if close is None else in_words(close)] if weighted else []),
        )  # fmt: skip
    console().print(table)
    say("Below each value: its 95 % interval, over patients.")
    if weighted:
        say("'Weighted': Fleiss's kappa with quadratic weights, for answers that have an order.")
    worst = min((group for group in groups if group.remark), key=lambda group: -group.units, default=None)
    if worst is not None:
        say(f"* A value with a star needs care. Example, {_name(worst)}: {worst.remark}")
    if pairs:
        _print_pairs(
            [group for group in groups if group.finding is None and (group.kind is None) == (what == "verdict")]
        )


def _name(group: Agreement) -> str:
    parts = [part for part in (group.kind, group.finding) if part]
    return ", ".join(parts).replace("_", " ") or "everything"


def _print_pairs(groups: Sequence[Agreement]) -> None:
    weighted = any(pair.weighted is not None for group in groups for pair in group.pairs)
    heads = ["units", "percent", "Cohen", *(["weighted"] if weighted else [])]
    table = plain_table("Pairs of reviewers", ["of", "reviewers"], heads)
    for group in groups:
        for pair in group.pairs:
            said = [in_words(pair.same, 100), in_words(pair.cohen)]
            if weighted:
                said.append("" if pair.weighted is None else in_words(pair.weighted))
            table.add_row(_name(group), " and ".join(pair.reviewers), f"{pair.units:,}", *said)
    console().print(table)


def in_words(estimate: Estimate, times: int = 1, mark: str = "") -> str:
    """Return an estimate as text: the value, the text ``mark`` after it, and its interval on a second line.

    The value and the interval are multiplied by ``times``. An undefined value becomes a dash.
    """
    if estimate.value is None:
        return f"–{mark}"
    digits = 0 if times == 100 else 2
    text = f"{times * estimate.value:.{digits}f}{mark}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text}\n{times * estimate.low:.{digits}f}, {times * estimate.high:.{digits}f}"
