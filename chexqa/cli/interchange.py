"""The command groups ``import`` and ``export``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from chexqa.cli.main import Entry, LazyGroup
from chexqa.files.errors import InputError
from chexqa.files.say import argument, say
from chexqa.files.terminal import messages, plural, progress
from chexqa.interchange.folders import KeyChoice

if TYPE_CHECKING:
    from chexqa.contract.benchmark import Benchmark
    from chexqa.interchange.dataset_about import DatasetAbout

_PATH = click.Path(path_type=Path)
FORMATS = ("chexqa", "chexpercept", "croissant", "huggingface", "inspect", "lmms-eval", "vlmevalkit")
COMMANDS: dict[str, Entry] = {
    "chexpercept": Entry("chexqa.cli.interchange:chexpercept", "Make a benchmark from CheXpercept's own release."),
    "chexpercept-results": Entry(
        "chexqa.eval.cli.import_results:chexpercept_results", "Make a run from CheXpercept's own results."
    ),
    "inspect": Entry("chexqa.eval.cli.import_results:inspect_log", "Make a run from a log of the harness Inspect."),
}


class ImportGroup(LazyGroup):
    """The commands of ``chexqa import``."""

    table: ClassVar[dict[str, Entry]] = COMMANDS


@click.group("import", cls=ImportGroup, epilog="Example: chexqa import chexpercept release -o bench")
def import_() -> None:
    """Import benchmarks and results that others made."""


@click.command(epilog="Example: chexqa import chexpercept chexpercept-release -o bench")
@click.argument("release", metavar="DIR", type=_PATH)
@click.option(
    "--access", type=click.Choice(["open", "credentialed"]), default="credentialed", show_default=True,
    help="Who may see the pictures. 'eval' does not send credentialed pictures to remote endpoints, as PhysioNet's "
    "terms demand.",
)  # fmt: skip
@click.option("-o", "--out", "output", required=True, metavar="BENCH", type=_PATH, help="The new benchmark's folder.")
def chexpercept(release: Path, access: str, output: Path) -> None:
    """Make a benchmark from CheXpercept's own release: DIR contains chexpercept.json and chexpercept/<key>/….

    Questions, options, answers and pictures are kept unchanged.
    """
    from chexqa.interchange.release import import_release, read_release

    entries = read_release(release)
    with progress("reading cases", len(entries)) as advance:
        about = import_release(release, entries, output, access, advance)
    counts = about["counts"]
    if counts["skipped"]:
        messages().print(f"note: {plural(counts['skipped'], 'case')} left out; see {output / 'skipped.jsonl'}.",
                         soft_wrap=True)  # fmt: skip
    say(f"{plural(counts['cases'], 'case')}, {plural(counts['items'], 'item')}: {output}")
    say(f"Next: chexqa eval {argument(output)} --models … --protocol oracle_passed -o RUN")


@click.command(epilog="Example: chexqa export bench --format huggingface --split-key -o dataset")
@click.argument("bench", type=_PATH)
@click.option(
    "--format", "fmt", default="chexqa", show_default=True, type=click.Choice(FORMATS),
    help="chexqa: the benchmark's folder without the key; needs --no-key. chexpercept: CheXpercept's own layout. "
    "croissant: Croissant metadata of the benchmark's folder. huggingface: a Hugging Face dataset with a card and "
    "Croissant metadata. inspect: a dataset and a task of Inspect. lmms-eval: a task of lmms-eval. vlmevalkit: a "
    "folder with a launcher of VLMEvalKit, or its own table (.tsv), which holds single-choice items only.",
)  # fmt: skip
@click.option("--no-key", is_flag=True, help="Leave the right answers (the key) out.")
@click.option("--split-key", is_flag=True, help="Write the right answers (the key) to separate files.")
@click.option("--about", "about_file", metavar="FILE", type=_PATH,
              help="YAML file with the licence, authors, sources and other facts for the dataset card (README.md) and "
              "the Croissant metadata.")  # fmt: skip
@click.option("-o", "--out", "output", required=True, type=_PATH,
              help="The new folder. For --format vlmevalkit: a new folder or a .tsv file. For --format croissant: give "
                   "BENCH/croissant.json.")  # fmt: skip
def export(bench: Path, fmt: str, no_key: bool, split_key: bool, about_file: Path | None, output: Path) -> None:
    """Write a benchmark in the format of another project, or without its key.

    With --no-key alone, the new folder is BENCH without its key: others run 'chexqa eval' on it, and you grade their
    answers with BENCH.
    """
    from chexqa.contract import benchmark as benchmarks
    from chexqa.interchange import dataset_about

    _check_export(fmt, no_key, split_key, about_file is not None, output)
    benchmark = benchmarks.load(bench)
    about = dataset_about.load(about_file, benchmark)
    key: KeyChoice = "none" if no_key else "beside" if split_key else "inside"
    with progress(f"writing {fmt}", len(benchmark.items)) as advance:
        done = _write_export(benchmark, fmt, output, key, about, advance)
    if about.missing and fmt in ("huggingface", "croissant"):
        messages().print(
            f"note: the metadata lack {', '.join(about.missing)}; add these fields to the file for --about.",
            soft_wrap=True,
        )
    altered = sum(benchmark.about.get("interventions", {}).get("counts", {}).values())
    if altered and fmt not in ("chexqa", "croissant"):
        messages().print(f"note: {plural(altered, 'altered item')} left out; 'chexqa eval --condition' asks them.",
                         soft_wrap=True)  # fmt: skip
    credentialed = benchmark.about["access"]["credentialed"]
    if credentialed:
        words = "which you may give only to people who signed the data use agreement"
        held = plural(credentialed, "case")
        messages().print(f"note: the benchmark has {held} from data sets with credentialed access, {words}.",
                         soft_wrap=True)  # fmt: skip
    say(f"{done}: {output}")
    if fmt == "chexqa":
        say(f"The folder has no licence and no citation; to add them: {_described(output)}")


def _described(folder: Path) -> str:
    """Return the command that writes Croissant metadata with a licence and a citation into a benchmark's folder."""
    place = argument(folder / "croissant.json")
    return f"chexqa export {argument(folder)} --format croissant --about about.yaml -o {place}"


def _check_export(fmt: str, no_key: bool, split_key: bool, has_about: bool, output: Path) -> None:
    """Raise ``InputError`` for options that a format does not take."""
    if no_key and split_key:
        raise InputError(
            "--no-key leaves the answers out, but --split-key writes them to separate files; give only one of the two."
        )
    if fmt == "chexqa" and not no_key:
        raise InputError("--format chexqa writes only folders without a key; add --no-key, or give another --format.")
    if fmt == "chexpercept" and (no_key or split_key):
        raise InputError(
            "--format chexpercept writes the answers into the file of questions; remove --no-key and --split-key."
        )
    if has_about and fmt == "chexqa":
        raise InputError(
            "this export writes no card and no Croissant metadata, so it takes no --about; leave it out, and write the "
            "metadata afterwards with: "
            f"{_described(output)}"
        )
    if has_about and fmt not in ("huggingface", "croissant"):
        raise InputError(
            f"--about is for a card and Croissant metadata, which --format {fmt} does not write; remove --about."
        )
    if fmt == "croissant" and (no_key or split_key):
        raise InputError("--format croissant describes the files as they are; remove --no-key and --split-key.")


def _write_export(
    benchmark: Benchmark, fmt: str, output: Path, key: KeyChoice, about: DatasetAbout, advance: Callable[[], None]
) -> str:
    """Write the benchmark in the format ``fmt``, and return in words how much was written."""
    if fmt == "chexqa":
        from chexqa.eval.leaderboard.withheld import export_without_key

        return plural(export_without_key(benchmark, output, advance), "item")
    if fmt == "chexpercept":
        from chexqa.interchange.release_export import export_release

        return plural(export_release(benchmark, output, advance), "case")
    if fmt == "huggingface":
        from chexqa.interchange.huggingface import export_dataset

        return plural(export_dataset(benchmark, output, key, advance, about), "item")
    if fmt == "croissant":
        from chexqa.interchange.croissant import export_metadata

        export_metadata(benchmark, output, about)
        return "metadata"
    if fmt == "inspect":
        from chexqa.eval.harnesses.inspect_folder import export_samples

        return plural(export_samples(benchmark, output, key, advance), "item")
    if fmt == "lmms-eval":
        from chexqa.eval.harnesses.lmms_eval_folder import export_task

        return plural(export_task(benchmark, output, key, advance), "item")
    if output.suffix.lower() != ".tsv":
        from chexqa.eval.harnesses.vlmevalkit_folder import export_folder

        return plural(export_folder(benchmark, output, key, advance), "item")
    from chexqa.interchange.vlmevalkit import export_table

    return plural(export_table(benchmark, output, key, advance), "item")
