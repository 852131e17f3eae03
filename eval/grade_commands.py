"""The commands ``grade`` and ``report``: read runs, grade them, print or write the tables."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.eval import display, grading
from chexqa.eval import report as reports
from chexqa.terminal import PHANTOM_NOTICE, console, plural

RUNS = click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
BENCHMARK = click.option(
    "--benchmark", "benchmark_folder", metavar="DIR", type=click.Path(path_type=Path),
    help="The benchmark's folder, where it is no longer where the run found it.",
)  # fmt: skip


@click.command()
@RUNS
@BENCHMARK
@click.option("--json", "as_json", is_flag=True, help="Print the tables as one JSON object.")
def grade(runs: tuple[Path, ...], benchmark_folder: Path | None, as_json: bool) -> None:
    """Grade runs of one benchmark and print accuracy level by level, beside the grid hit rate.

    Several runs (protocols) of the same benchmark stand under one another.
    """
    graded = grading.grade_folders(runs, benchmark_folder)
    if as_json:
        click.echo(reports.to_json(reports.summary(graded)), nl=False)
    else:
        display.show(graded, console())


@click.command()
@RUNS
@BENCHMARK
@click.option("-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Where to write.")
def report(runs: tuple[Path, ...], benchmark_folder: Path | None, output: Path) -> None:
    """Grade runs and write every table as CSV and JSON into a folder.

    An earlier report in the folder is replaced; other files stay.
    """
    graded = grading.grade_folders(runs, benchmark_folder)
    files = reports.write(graded, output)
    notice = f" ({PHANTOM_NOTICE})" if graded.benchmark.is_phantom else ""
    click.echo(f"wrote {plural(len(files), 'file')} to {output}{notice}")
