"""The commands of ``chexqa review`` for reader studies: study, readers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chexqa.cli.review.returned import in_words, plain_table, read_stores
from chexqa.files.say import argument, say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural, progress

if TYPE_CHECKING:
    from chexqa.review.study.about_readers import ReaderFigures, Said

_PATHS = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa review study bench -o study --readers anna,ben --sample 60 --earlier sheets")
@click.argument("bench", metavar="BENCH", type=_PATHS)
@click.option("-o", "--out", required=True, type=_PATHS, help="The new folder for the sheets.")
@click.option("--readers", required=True, help="Names of the readers, separated by commas, or their number.")
@click.option("--sample", type=int, help="Sample this many cases, stratified by finding and path.")
@click.option("--cases", type=_PATHS, help="A file with the ids of the cases to choose from, one per line.")
@click.option("--training", type=int, default=5, show_default=True,
              help="Number of additional cases on which readers practise: the right answer is shown after each. They "
              "count in no statistic.")  # fmt: skip
@click.option("--repeat", type=float, default=0.1, show_default=True,
              help="Share of the items that each reader answers twice; 0 for none.")  # fmt: skip
@click.option("--rule", help="What readers are told to do when they are uncertain.")
@click.option("--earlier", type=_PATHS, multiple=True,
              help="An earlier review (its folder, review.json or verdicts), to find readers who already saw a "
              "key. May be repeated.")  # fmt: skip
@click.option("--leave-out-seen", is_flag=True,
              help="Leave out cases whose key a reader has already seen. Without this option, they are an "
              "error.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for drawing cases and repeated items.")
@click.option("--page", is_flag=True,
              help="Also write a review page for each sheet; readers open it in a browser, without a "
              "server.")  # fmt: skip
@click.option("--page-only", is_flag=True, help="Write review pages instead of sheets.")
def study(
    bench: Path, out: Path, readers: str, sample: int | None, cases: Path | None, training: int, repeat: float,
    rule: str | None, earlier: tuple[Path, ...], leave_out_seen: bool, seed: int, page: bool, page_only: bool,
) -> None:  # fmt: skip
    """Assign the items of BENCH to readers. Every reader answers every case without seeing proposals.

    Each reader gets training with feedback, the study in parts, and some items to answer again weeks later. The first
    tab of the study's first workbook says how common the findings are and what to do when uncertain, and asks for the
    reader's experience, display and reading conditions.
    """
    from chexqa.cli.review.deal import list_pages, page_writer
    from chexqa.review.export_options import reviewer_names
    from chexqa.review.sheets.export import Wish, export
    from chexqa.review.study.design import RULE, StudyWish
    from chexqa.stats import wilson

    names = reviewer_names(readers)
    design = StudyWish(training, repeat, RULE if rule is None else rule, earlier, leave_out_seen)
    wish = Wish(
        names, 1.0 if len(names) > 1 else 0.0, len(names), sample=sample, seed=seed, blind_answers=True, cases=cases,
        page_only=page_only, study=design,
    )  # fmt: skip
    done = export(bench, out, wish, None, progress, page_writer(page or page_only))
    for file, rows in () if page_only else done.sheets:
        say(f"{out / file}: {plural(rows, 'row')}")
    list_pages(out, done.pages)
    low, high = wilson(0.5, done.patients)
    say(
        f"With {plural(done.cases, 'case')} of {plural(done.patients, 'patient')}, the 95 % interval of a reader's "
        f"share of right answers will be about ± {50 * (high - low):.0f} percentage points."
    )
    order = [*["NAME-training"] * (training > 0), "the parts of NAME-reader"]
    later = "; give the folder NAME-again some weeks later" if repeat else ""
    say(f"Give each reader one folder after the other: {', '.join(order)}{later}.")
    if not earlier:
        say(
            "note: it was not checked whether a reader has already seen the key of a case; to check this, name the "
            "earlier reviews with --earlier."
        )
    say(f"Next, with the folder of the returned files: chexqa review import RETURNED --batch {argument(out)}")


@click.command(epilog="Example: chexqa review readers bench study/verdicts.jsonl")
@click.argument("bench", metavar="BENCH", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for machines.")
def readers(bench: Path, stores: tuple[Path, ...], as_json: bool) -> None:
    """Show the figures of each reader of a study, and the reader's experience, display and reading conditions.

    The figures are the share of answers that are right by the key, and the agreement between repeated answers.

    Each value has a 95 % interval over patients. Training items are not counted.
    """
    from chexqa.contract import benchmark
    from chexqa.review.study.about_readers import figures, read_about

    loaded = benchmark.load(bench)
    said: Said = {}
    for store in stores:
        said |= read_about(store if store.is_dir() else store.parent)
    found = figures(loaded, read_stores(stores), said)
    if as_json:
        say_json(json.dumps([one.to_record() for one in found], indent=2))
        return
    if not found:
        say("These verdicts contain no answers of a reader study; set up a study with 'chexqa review study'.")
        return
    _print(found)
    if loaded.is_phantom:
        say(PHANTOM_NOTICE)


def _print(found: Sequence[ReaderFigures]) -> None:
    heads = ["answers", "people", "right, %", "asked twice", "same, %", "kappa", "training"]
    table = plain_table("Readers of the study", ["reader"], heads)
    for one in found:
        key, own = one.key, one.himself
        table.add_row(
            one.reviewer or "everybody", f"{key.answers if key else 0:,}", f"{key.patients if key else 0:,}",
            in_words(key.share, 100) if key else "", f"{own.items if own else 0:,}",
            in_words(own.same, 100) if own else "", in_words(own.kappa) if own else "", f"{one.trained:,}",
        )  # fmt: skip
    console().print(table)
    say("Below each value: its 95 % interval, over patients.")
    say(
        "'same' and 'kappa' compare a reader's two answers to each repeated item; kappa is pooled over kinds of "
        "question."
    )
    for one in found:
        for question, text in one.said.items():
            say(f"{one.reviewer}, {question}: {text}")
