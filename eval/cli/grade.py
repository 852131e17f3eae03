"""The commands ``grade`` and ``report``: read runs, grade their answers, and print or write the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from chexqa.contract import read_run
from chexqa.contract.read_run import Run
from chexqa.eval.cli.params import MARGIN
from chexqa.eval.design import plan as planning
from chexqa.eval.readers import reviewed as reviewed_sample
from chexqa.eval.readers import second_reader
from chexqa.eval.report import display_all
from chexqa.eval.report import write as reports
from chexqa.eval.report.display_notes import unfinished_models
from chexqa.eval.scoring import grade as grading
from chexqa.eval.scoring import predictions
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables import asked_items, fresh_seeds
from chexqa.eval.tables.all_tables import SEVERAL, Group, groups
from chexqa.files.errors import InputError
from chexqa.files.opening import real
from chexqa.files.say import say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural

RUNS = click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
BENCHMARK = click.option(
    "--benchmark", "benchmark_folder", metavar="DIR", type=click.Path(path_type=Path),
    help="The benchmark's folder. Needed if only predictions are graded, or if the folder moved since the run.",
)  # fmt: skip
PARTIAL = click.option(
    "--allow-partial",
    is_flag=True,
    help="Also score models that have unfinished items; only their finished items count.",
)
MODELS = click.option(
    "--models-file", metavar="FILE", type=click.Path(path_type=Path),
    help="Your own models file (YAML); it says which of your models are medical.",
)  # fmt: skip
REREAD = click.option(
    "--reread", is_flag=True, help="Read the stored replies again with today's parser, and show which readings change."
)


ON = click.option(
    "--on", metavar="RUN", type=click.Path(path_type=Path),
    help="Score all models only on the cases of this run (default: the reader study, if one is among the runs).",
)  # fmt: skip


OVERWRITE = click.option(
    "--overwrite", is_flag=True, help="Overwrite the report in DIR, even if it is about other runs."
)
REVIEWED = click.option(
    "--reviewed", metavar="REVIEW", type=click.Path(path_type=Path),
    help="Folder of a review in which experts answered a random sample without seeing the key. Accuracies "
         "are then corrected for the share of wrong keys that these answers show.",
)  # fmt: skip
SECOND = click.option(
    "--second-masks", "second", metavar="DIR", type=click.Path(path_type=Path),
    help="Masks that another reader drew (a manifest, or files CASE.png). chexqa answers the items from these masks, "
    "and a row of the tables has the accuracy of these answers.",
)  # fmt: skip
FRESH = click.option(
    "--fresh", metavar="RUN", multiple=True, type=click.Path(path_type=Path),
    help="A run on a fresh seed of the graded runs' benchmark, made by 'chexqa freshen'; the tables then show how far "
         "each model's accuracy falls. May be repeated.",
)  # fmt: skip
PRIVATE = (
    "To publish: index.html, plots and tables. gallery holds pictures, the key and the manifest's ids; grades.parquet "
    "the key and ids of patients; report.json and reporting.* addresses of servers."
)
SHARED = click.option("--shared", is_flag=True, help="Score all models only on the items that every model was asked.")


PLAN = click.option(
    "--plan", metavar="FILE", type=click.Path(path_type=Path),
    help="The study's plan, written by 'chexqa plan'; the plan's margin is used, and a table shows which parts of the "
         "plan the runs followed.",
)  # fmt: skip
PROTOCOL = click.option(
    "--protocol", metavar="NAME",
    help="Protocol to assume for predictions that do not name their protocol. They are compared with the runs of this "
         "protocol. Write it as in the tables of 'chexqa grade', such as 'end_to_end' or 'end_to_end (confidence)'.",
)  # fmt: skip


class _Tables(click.Choice[str]):
    """Type of an option: names of tables, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the names as a tuple; raise click's error for a name that no table has."""
        return tuple(super(_Tables, self).convert(name.strip(), param, ctx) for name in value.split(","))


def graded_runs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments and options that :func:`read` needs."""
    for add in (PLAN, MARGIN, PROTOCOL, SHARED, FRESH, SECOND, REVIEWED, ON, REREAD, MODELS, PARTIAL, BENCHMARK, RUNS):
        command = add(command)
    return command


@click.command(epilog="Example: chexqa grade run-end_to_end run-independent --out grades")
@graded_runs
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder for grades.parquet (a row for each answer) and every table as CSV.")  # fmt: skip
@OVERWRITE
@click.option("--table", "named", metavar="A,B", multiple=True, type=_Tables([*display_all.NAMES, display_all.ALL]),
              help="Names of the tables to print, separated by commas; 'all' stands for every table that is laid out "
              "for a terminal. May be repeated. By default the main tables are printed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the tables as one JSON object.")
def grade(
    out: Path | None,
    overwrite: bool,
    named: tuple[tuple[str, ...], ...],
    as_json: bool,
    **choice: Any,
) -> None:
    """Grade runs of one benchmark and print accuracy level by level, beside the grid hit rate.

    --table prints any other table of a report: accuracy, states of answers, depth, stages, kinds, grid, costs and more.
    Protocols are shown one below the other; models that were asked different items are shown in groups. A RUN may be a
    .jsonl file of predictions made elsewhere (each line: item_id, and one of answer, text and refused); if all are such
    files, --benchmark is needed. The 95 % intervals are over patients. With --reread, --out also writes reread.csv,
    which lists the replies that are now read differently. Logs stay as they are.
    """
    if out is not None:
        reports.check_place(out)
    graded = read(**choice)
    made = groups(graded)
    # Files come first, so that they are complete even if nobody reads all of the output.
    files = None if out is None else reports.write(made, out, overwrite=overwrite)
    if as_json:
        say_json(reports.to_json(reports.group_summaries(made)))
    else:
        for group in made:
            if group.count > 1:
                console().rule(group.title, style="bold")
            display_all.show(group, console(), [*chain.from_iterable(named)])
        if len(made) > 1:
            console().print(SEVERAL, style="yellow", soft_wrap=True)
    if out is not None and files is not None:
        _say(made, files, out, err=as_json)


@click.command(epilog="Example: chexqa report run-end_to_end run-independent -o report")
@graded_runs
@click.option("-o", "--out", "output", required=True, metavar="DIR", type=click.Path(path_type=Path),
              help="Folder for the report.")  # fmt: skip
@OVERWRITE
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True,
              help="Number of processes. A report with fewer than 1,000 pictures uses only one.")  # fmt: skip
def report(
    output: Path,
    overwrite: bool,
    workers: int,
    **choice: Any,
) -> None:
    """Grade runs and write the report: a page with plots and a gallery of items, and every table.

    The page is DIR/index.html and opens from disk. Tables are CSV, Parquet, Markdown and LaTeX, plots SVG and PNG. An
    earlier report of the same runs in the folder is replaced; other files stay. Models that were asked different items
    have separate pages: the page in DIR is on the largest set of items, and the page in DIR/items-2 on the next. A set
    of items that only baselines answered comes last.
    """
    from chexqa.eval.report import build  # matplotlib loads slowly, and 'chexqa grade' does not need it

    reports.check_place(output)
    graded = read(**choice)
    made = groups(graded)
    _say(made, build.write_report(made, output, overwrite, workers), output)
    for group in made:
        for line in unfinished_models(group.graded, group.tables["states"]):
            say(line)
        place = real(output / group.folder / build.INDEX)
        say(f"Open: {place}" + (f" ({group.title})" if group.count > 1 else ""))
    if not graded.benchmark.is_phantom:
        say(PRIVATE)
    if len(made) > 1:
        say(SEVERAL)


def read(
    runs: tuple[Path, ...],
    benchmark_folder: Path | None,
    allow_partial: bool,
    models_file: Path | None,
    reread: bool = False,
    on: Path | None = None,
    shared: bool = False,
    margin: float | None = None,
    protocol: str | None = None,
    reviewed: Path | None = None,
    plan: Path | None = None,
    second: Path | None = None,
    fresh: tuple[Path, ...] = (),
) -> Graded:
    """Return the grades of run folders, files of predictions, or both.

    ``shared`` keeps only the items that every model was asked. ``margin`` is in points: models whose scores differ by
    less than the margin are called alike. ``fresh`` names runs on a fresh seed of the benchmark.
    """
    files = [path for path in runs if path.is_file() and path.suffix == ".jsonl"]
    folders = [path for path in runs if path not in files]
    if files:
        graded = predictions.grade_predictions(
            files, benchmark_folder, allow_partial, models_file, folders, reread, on, protocol
        )
    else:
        if protocol is not None:
            predictions.settings_of(protocol, [Run(path, read_run.read_about(path), ()) for path in runs])
            raise InputError(
                f"--protocol {protocol}: is for files of predictions, but only runs are given; leave it out, as each "
                "run has its own protocol (the tables' column 'protocol')."
            )
        graded = grading.grade_folders(runs, benchmark_folder, allow_partial, models_file, reread, on)
    if reviewed is not None:
        graded = replace(graded, reviewed=reviewed_sample.load(reviewed, graded.benchmark))
    if second is not None:
        graded = replace(graded, second_reader=second_reader.load(second, graded.benchmark))
    if fresh:
        graded = replace(graded, fresh=fresh_seeds.drops_to(fresh, graded, reread))
    planned = None if plan is None else planning.read_plan(plan)
    default = grading.MARGIN if planned is None else planned.margin
    graded = replace(graded, margin=default if margin is None else margin / 100, plan=planned)
    return asked_items.on_shared(graded) if shared else graded


def _say(made: list[Group], files: list[Path], folder: Path, err: bool = False) -> None:
    notice = f" ({PHANTOM_NOTICE})" if made[0].graded.benchmark.is_phantom else ""
    say(f"wrote {plural(len(files), 'file')} to {folder}{notice}", err=err)
