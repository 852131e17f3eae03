"""The commands of ``chexqa review`` on imported verdicts: ``validity``, ``carry``, ``adjudicate`` and ``apply``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chexqa.cli.review.returned import in_words, plain_table, read_stores
from chexqa.files.errors import InputError
from chexqa.files.opening import real
from chexqa.files.say import argument, say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural, progress

if TYPE_CHECKING:
    from chexqa.review.resolve.new_version import Applied
    from chexqa.review.resolve.validity import Validity

# With at least this many patients, 93 to 98.5 % of the 95 % intervals contain the true share.
FEW = 20
# Number of verdicts not carried over that are printed.
_SHOWN = 20
_PATHS = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa review validity bench verdicts.jsonl")
@click.argument("bench", metavar="BENCH", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("--cross", is_flag=True, help="Also show results for each finding and reviewer within each kind.")
@click.option("-o", "--out", type=_PATHS, help="Also write all results to this table (.csv or .xlsx).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for machines.")
def validity(bench: Path, stores: tuple[Path, ...], cross: bool, out: Path | None, as_json: bool) -> None:
    """Show how well readers' blind answers agree with the key of BENCH, and how the proposal changes their answers.

    Three results are shown. The first is the agreement with the key: the share of right answers, and kappa between
    readers and key. Both have 95 % intervals over patients. The second is how often readers changed an answer after
    they saw the proposal. The third is how often readers accepted a proposal that is wrong on purpose.
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
        say("No reader answered without seeing the proposal, so agreement with the key cannot be measured.")
    for who, changed in found.changed.items():
        if changed.value is not None:
            answers = plural(found.seen[who], "blind answer")
            say(
                f"{who or 'Everybody'}: changed {_percent(changed.value)} of {answers} after seeing the "
                f"proposal{_interval(changed.low, changed.high)}; {found.moved[who]:,} of the changed answers now "
                "equal the proposal."
            )
    for who, accepted in found.accepted.items():
        if accepted.value is not None:
            say(
                f"{who or 'Everybody'}: wrongly accepted {_percent(accepted.value)} of "
                f"{plural(found.planted[who], 'proposal')} made wrong on purpose"
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
    say(
        "Below each value: its 95 % interval, over patients. Kappa compares reader and key; grid questions have "
        "no kappa."
    )
    if any(group.patients < FEW for group in found.groups):
        say(f"Intervals from fewer than {FEW} patients are too narrow; report the counts instead.")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" (95 %: {100 * low:.0f} to {100 * high:.0f} %)"


@click.command(epilog="Example: chexqa review carry bench bench-2 verdicts.jsonl -o verdicts-2.jsonl")
@click.argument("old", metavar="OLD", type=_PATHS)
@click.argument("new", metavar="NEW", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("-o", "--out", required=True, type=_PATHS, help="The new file of verdicts.")
@click.option(
    "--rest",
    type=_PATHS,
    help="Write to this file the ids of the items (or, for masks, the cases) that must be judged; 'review export "
    "--cases' reads it.",
)
@click.option(
    "--image-root",
    type=_PATHS,
    help="Folder to which the paths in the manifests are relative  [default: each manifest's own folder].",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print, as JSON for machines, the verdicts that could not be carried over."
)
def carry(
    old: Path, new: Path, stores: tuple[Path, ...], out: Path, rest: Path | None, image_root: Path | None, as_json: bool
) -> None:
    """Carry verdicts on OLD over to NEW for every item that is unchanged, and list the other items.

    OLD and NEW are two benchmarks, or two manifests for verdicts on masks. An item is unchanged if its question,
    options, pictures and key are the same, and if the masks behind the key are the same. A verdict on a mask is carried
    over if the mask, the lungs and the radiograph are the same.
    """
    from chexqa.files.jsonio import write_bytes
    from chexqa.review.collect.verdicts import write_store
    from chexqa.review.resolve.carry import carry as take_along

    for path in (out, rest):
        if path is not None and path.exists():
            raise InputError(f"{path}: exists already; name a new file.")
    found = take_along(old, new, read_stores(stores), image_root)
    if not found.verdicts:
        raise InputError(
            f"{new}: no verdict on {old} can be carried over to this version, so nothing is written; review "
            f"this version from the start."
        )
    write_store(out, found.verdicts)
    if rest is not None:
        write_bytes(rest, "".join(f"{name}\n" for name in found.items or found.cases).encode())
    if as_json:
        left = [{"row": one.verdict.row, "reviewer": one.verdict.reviewer, "why": one.why, "case_id": one.case_id,
                 "item_id": one.item_id} for one in found.not_carried]  # fmt: skip
        say_json(
            json.dumps({"carried": len(found.verdicts), "left": left, "to_judge": found.items or found.cases}, indent=2)
        )
        return
    say(f"{out}: {plural(len(found.verdicts), 'verdict')} carried over, {len(found.not_carried):,} not carried over")
    reasons = Counter((one.verdict.row, one.why) for one in found.not_carried)
    for (row, why), count in list(reasons.items())[:_SHOWN]:
        say(f"not carried over: {row} ({plural(count, 'verdict')}): {why}")
    if len(reasons) > _SHOWN:
        say(f"and {plural(len(reasons) - _SHOWN, 'more row')}; --json lists all")
    if found.cases:
        items = f"{plural(len(found.items), 'item')} of " if found.items else ""
        say(f"{items}{plural(len(found.cases), 'case')} to judge: chexqa review export {new} --cases {rest or 'FILE'}")
    else:
        say("Nothing is left to judge.")


@click.command(epilog="Example: chexqa review apply bench verdicts.jsonl -o bench-2")
@click.argument("source", metavar="BENCH|CASES", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("-o", "--out", required=True, type=_PATHS, help="The new benchmark's folder, or the new manifest's file.")
@click.option("--new-version", help="The new version's name; by default the next number.")
@click.option(
    "--benchmark",
    type=_PATHS,
    help="The benchmark that the reviewed masks were exported from; needed only if they were not exported from CASES.",
)
@click.option("--mask-dir", type=_PATHS, help="Folder with redrawn masks of CASES, as AUTHOR/CASE.png.")
@click.option(
    "--image-root",
    type=_PATHS,
    help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder.",
)
@click.option("--readers-to-remove", type=click.IntRange(1, 26), default=2, show_default=True,
              help="Number of readers who must reject an item before it is removed. An item rejected by fewer "
              "readers is contested.")  # fmt: skip
def apply(
    source: Path, stores: tuple[Path, ...], out: Path, new_version: str | None, benchmark: Path | None,
    mask_dir: Path | None, image_root: Path | None, readers_to_remove: int,
) -> None:  # fmt: skip
    """Apply reviewers' verdicts to a benchmark or to a manifest.

    Verdicts on items: write the next version of the benchmark BENCH. Verdicts on masks: write a copy of the manifest
    CASES with these verdicts.
    """
    from chexqa.contract import benchmark as benchmarks

    verdicts = read_stores(stores)
    if not (source / benchmarks.ABOUT).is_file():
        _apply_to_manifest(source, stores, benchmark, out, image_root, mask_dir)
        return
    if mask_dir is not None:
        raise InputError(
            f"--mask-dir {mask_dir}: redrawn masks can be put only into a manifest, but {source} is a benchmark; give "
            "the manifest of its cases instead."
        )
    from chexqa.generators.interventions.altered_items import carry
    from chexqa.review.resolve.decide import UNREVIEWED
    from chexqa.review.resolve.new_version import apply_verdicts, write_version

    applied = apply_verdicts(benchmarks.load(source), verdicts, new_version, readers_to_remove)
    about = write_version(applied, out, carry)
    _print_applied(applied)
    open_ = sum(decision.status == UNREVIEWED for decision in applied.decisions.values())
    if open_:
        say(f"{open_:,} of {plural(len(applied.decisions), 'item')} have no verdict; they stay as they are.")
    judged = [decision.votes for decision in applied.decisions.values() if decision.votes]
    if not any(vote.seen for votes in judged for vote in votes):
        blind = plural(len(judged), "item")
        say(f"The review is unfinished: {blind} with blind answers, and no verdict on their proposals.")
    counts = about["counts"]
    say(f"{out}: version {about['version']}, {plural(counts['items'], 'item')} of {plural(counts['cases'], 'case')}")
    say(f"{out / 'README.md'} is a short card: no audit of this version was made. 'chexqa audit' writes the full card.")
    say(f"Next: chexqa validate {argument(out)}, then chexqa audit {argument(out)}")


def _apply_to_manifest(
    source: Path, stores: Sequence[Path], benchmark: Path | None, out: Path, image_root: Path | None,
    mask_dir: Path | None,
) -> None:  # fmt: skip
    from chexqa.contract import benchmark as benchmarks
    from chexqa.review.collect.contours import load_contours
    from chexqa.review.resolve.apply_masks import apply_to_manifest

    folders = {store if store.is_dir() else store.parent for store in stores}
    contours = [one for folder in sorted(folders) for one in load_contours(folder).values()]
    loaded = benchmarks.load(benchmark) if benchmark else None
    reviewed = apply_to_manifest(source, read_stores(stores), loaded, out, contours, image_root, mask_dir)
    for case_id in reviewed.changed:
        say(
            f"{case_id}: mask, lungs or radiograph changed after the review, so the verdicts on this case do not count",
            err=True,
        )
    for new in reviewed.drawn:
        say(
            f"{new['case_id']}: redrawn by {new['reviewer']}: {new['edited_px']:,} px changed "
            f"({new['edited_share']:.1%} of the old area), outline moved by at most {new['hausdorff_px']:.1f} px"
        )
    said = ", ".join(f"{count:,} {state or 'not reviewed'}" for state, count in reviewed.states.most_common())
    say(f"{out}: {said}")
    folder = source if source.is_dir() else source.parent
    base = image_root or folder
    root = "" if real(out).parent == real(base) else f" --image-root {argument(base)}"
    if reviewed.unsigned:
        say(f"{plural(len(reviewed.unsigned), 'redrawn mask')} must be signed (approved) by a second reader.")
        say(f"Next: chexqa review export {argument(out)} --what masks --only redrawn{root} --reviewers NAME -o SIGNING")
        return
    if reviewed.states[None]:
        say(
            "With 'generate --reviewed', cases with a lesion are used only if their mask is approved; without "
            "--reviewed, all cases are used."
        )
        say(f"Next: chexqa generate {argument(out)}{root} -o BENCH")
        return
    say(f"Next: chexqa generate {argument(out)} --reviewed{root} -o BENCH")


def _print_applied(applied: Applied) -> None:
    """Print the number of items of each kind by status."""
    from chexqa.review.resolve.changelog import LEFT
    from chexqa.review.resolve.decide import STATUSES

    counts = Counter((item.kind, applied.decisions[item.item_id].status) for item in applied.bench.items)
    shown = [status for status in STATUSES if any(counts[kind, status] for kind in applied.bench.kinds)]
    left = Counter(change["kind"] for change in applied.changes if change["status"] == LEFT)
    stay = Counter(item.kind for item in applied.contents.items)
    titles = [title.replace(" ", "\n") for title in (*shown, *([LEFT] if left else []), "stay")]
    table = plain_table("Outcome of the items", ["kind"], titles)
    table.padding = (0, 0, 0, 0)
    for place, column in enumerate(table.columns):
        column.no_wrap = place > 0  # in 80 columns, long kinds are wrapped and no title is cut off
    for kind in applied.bench.kinds:
        if any(counts[kind, status] for status in shown):
            said = [*(counts[kind, status] for status in shown), *([left[kind]] if left else []), stay[kind]]
            table.add_row(kind.replace("_", " "), *(f"{count:,}" for count in said))
    console().print(table)


@click.command(epilog="Example: chexqa review adjudicate bench verdicts.jsonl -o conflicts --adjudicator dora")
@click.argument("bench", metavar="BENCH|CASES", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("-o", "--out", required=True, type=_PATHS, help="The new folder for the sheet.")
@click.option(
    "--adjudicator",
    default="adjudicator",
    show_default=True,
    help="Name of the adjudicator; the sheet's file gets this name.",
)
@click.option("--blind-names", is_flag=True, help="Show the reviewers' verdicts without their names.")
@click.option(
    "--blind",
    is_flag=True,
    help="Show the key among the readers' answers, as if a reader had given it. No names are shown, so nobody can tell "
    "which answer is the key.",
)
@click.option(
    "--image-root",
    type=_PATHS,
    help="For masks: the folder that the manifest's paths are relative to  [default: the manifest's folder].",
)
@click.option("--page", is_flag=True,
              help="Also write the sheet as a review page; the adjudicator opens it in a browser, without a "
              "server.")  # fmt: skip
@click.option("--page-only", is_flag=True, help="Write a review page instead of the sheet.")
def adjudicate(
    bench: Path, stores: tuple[Path, ...], out: Path, adjudicator: str, blind_names: bool, blind: bool,
    image_root: Path | None, page: bool, page_only: bool,
) -> None:  # fmt: skip
    """Write a sheet of the items or masks that reviewers disagree on, with all verdicts on them.

    For items, give BENCH. For masks, give the manifest CASES, or the BENCH whose masks were reviewed.
    """
    from chexqa.cli.review.deal import list_pages, page_writer
    from chexqa.review.followup.adjudication_sheet import adjudicate as write_items
    from chexqa.review.followup.mask_adjudication_sheet import adjudicate_masks

    verdicts, writer = read_stores(stores), page_writer(page or page_only)
    if verdicts and all(verdict.is_on_mask for verdict in verdicts):
        if blind:
            raise InputError("--blind: only items have a key to hide; for masks give --blind-names.")
        made = adjudicate_masks(
            bench, verdicts, out, adjudicator, blind_names, progress, image_root, writer, page_only
        )  # fmt: skip
        what = plural(made.rows, "mask")
    else:
        made = write_items(bench, verdicts, out, adjudicator, blind_names, progress, blind, writer, page_only)
        what = plural(made.rows, "item")
    say(f"{out if page_only else made.sheet}: {what} to decide")
    list_pages(out, made.pages)
    store = stores[0] if stores[0].suffix == ".jsonl" else stores[0] / "verdicts.jsonl"
    say(f"Next, with the returned file: chexqa review import FILE --batch {argument(out)} -o {argument(store)}")
