"""The commands ``chexqa generate`` (makes a benchmark) and ``chexqa freshen`` (makes new questions on its cases)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chexqa.contract.benchmark import SKIPPED
from chexqa.contract.items import PATHS
from chexqa.contract.kinds import FRESH_KINDS, KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, dump, read_jsonl
from chexqa.files.say import argument, say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, loading, messages, plural, progress

if TYPE_CHECKING:
    from chexqa.contract.benchmark import Benchmark
    from chexqa.generators.pipeline.job import GenerationJob, Original

Command = Callable[..., None]
# Option of 'chexqa eval' that asks what the verdict on grounding needs.
_GROUNDING = " --condition original,target,irrelevant"


def _recipes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return a shell's completions: the recipes whose names begin with ``incomplete`` or, if there are none, files."""
    from chexqa.generators.pipeline import recipe

    found = [CompletionItem(name) for name in recipe.names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def _shared_options(command: Command) -> Command:
    """Add the options that both commands have: the folders of input and output, and the number of worker processes."""
    for option in reversed((
        click.option("-o", "--out", type=click.Path(path_type=Path), required=True,
                     help="The benchmark folder to make."),
        click.option("--image-root", type=click.Path(path_type=Path),
                     help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder."),
        click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True,
                     help="Number of processes."),
        click.option("--dask", metavar="ADDRESS", help="Use the Dask cluster whose scheduler is at ADDRESS."),
        click.option("--json", "as_json", is_flag=True, help="Print benchmark.json instead of tables."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command(epilog="Example: chexqa generate phantoms -o bench --seed 7")
@click.argument("cases", type=click.Path(path_type=Path))
@click.option("--recipe", "recipes", multiple=True, shell_complete=_recipes,
              help="A recipe's name or YAML file. May be repeated for recipes of different tasks (perception, grid, "
              "places).")  # fmt: skip
@click.option("--bank", default="en", show_default=True, help="A question bank's name or YAML file.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every random choice.")
@click.option("--with-controls", is_flag=True, help="Also draw every overlay on plain grey, without the radiograph.")
@click.option("--with-layers", is_flag=True,
              help="Also store a mask of what is drawn over each radiograph; 'eval --stress' needs it.")  # fmt: skip
@click.option("--reviewed", is_flag=True, help="Use only lesion masks that reviewers approved.")
@click.option("--allow-lateral", is_flag=True, help="Also use lateral views; they get no questions on the lungs.")
@click.option("--interventions", is_flag=True,
              help="Also make altered radiographs: lesion filled in, other lung tissue filled in, or "
              "mirrored.")  # fmt: skip
@click.option("--fill", type=click.Choice(["inpaint", "mean", "blur"]),
              help="With --interventions: how a lesion's area is filled in  [default: inpaint].")  # fmt: skip
@click.option("--plugin", "plugins", multiple=True, metavar="NAME",
              help="A module, Python file or installed plugin that adds a kind of question. May be "
              "repeated.")  # fmt: skip
@_shared_options
def generate(
    cases: Path, out: Path, recipes: tuple[str, ...], bank: str, seed: int, with_controls: bool,
    with_layers: bool, reviewed: bool, allow_lateral: bool, interventions: bool, fill: str | None,
    plugins: tuple[str, ...], image_root: Path | None, workers: int, dask: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Turn CASES (a manifest, or a folder that contains cases.jsonl) into a benchmark.

    Without --recipe, the recipes are 'chexpercept' and 'grid'. A recipe's quotas are the largest numbers of cases that
    it takes for each finding and path; with fewer cases, the benchmark is smaller. Run the same command again to
    continue an interrupted generation; if a plugin's code was changed, its items are made anew.
    """
    from chexqa.generators.pipeline.job import named_job

    job = named_job(
        recipes, bank, seed, controls=with_controls, reviewed=reviewed, plugin_names=plugins, lateral=allow_lateral,
        interventions=interventions, fill=fill, layers=with_layers,
    )  # fmt: skip
    _make(cases, out, job, None, image_root, workers, dask, as_json,
          f"chexqa eval {argument(out)} --models baseline/chance,baseline/oracle --protocol end_to_end"
          f"{_GROUNDING if interventions else ''} -o RUN")  # fmt: skip


@click.command(epilog="Example: chexqa freshen bench --cases phantoms --seed 8 -o fresh")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--cases", type=click.Path(path_type=Path), required=True,
              help="The manifest that the benchmark was made from, or its folder.")  # fmt: skip
@click.option(
    "--seed", type=int, required=True, help="Seed of every random choice; must differ from the benchmark's seed."
)
@click.option("--recipe", "recipes", multiple=True, shell_complete=_recipes,
              help="YAML file of the benchmark's recipe; needed only if the recipe is your own.")  # fmt: skip
@click.option("--bank", help="YAML file of the benchmark's question bank; needed only if the bank is your own.")
@_shared_options
def freshen(
    bench: Path, cases: Path, seed: int, out: Path, recipes: tuple[str, ...], bank: str | None,
    image_root: Path | None, workers: int, dask: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a new benchmark from the radiographs of BENCH, with other outlines, points, options and orders.

    The new benchmark has the cases of BENCH that show a finding, and the same recipe and question bank. No picture with
    a drawing on it is in both benchmarks. 'chexqa compare RUN FRESH_RUN --fresh' shows whether a model has memorised
    BENCH.
    """
    from chexqa.contract import benchmark
    from chexqa.generators.pipeline.job import named_fresh_job

    older = benchmark.load(bench)
    job, original = named_fresh_job(older, recipes, bank, seed)
    left_out = [kind for kind, count in older.about["counts"]["kinds"].items() if count and kind not in FRESH_KINDS]
    if left_out and not as_json:
        say(f"Left out, as another seed draws nothing anew for them: {', '.join(left_out)}")
    _make(cases, out, job, original, image_root, workers, dask, as_json,
          f"chexqa eval {argument(out)} -o FRESH_RUN (with the options of RUN), "
          "then chexqa compare RUN FRESH_RUN --fresh")  # fmt: skip


def _make(
    cases: Path, out: Path, job: GenerationJob, original: Original | None, image_root: Path | None, workers: int,
    dask: str | None, as_json: bool, after: str,
) -> None:  # fmt: skip
    """Make a benchmark and print its contents; ``after`` is the command to run next."""
    if not cases.exists():
        raise InputError(f"{cases}: no such file or folder; make a manifest with 'chexqa ingest' or 'chexqa synth'.")
    with ExitStack() as stack:
        start = stack.enter_context(ExitStack())
        start.enter_context(loading(cases))
        from chexqa.generators.pipeline import generate_benchmark
        from chexqa.generators.pipeline.executors import WorkerConfig

        def bar(label: str, total: int) -> Callable[[], None]:
            start.close()  # the first bar takes the place of the line
            return stack.enter_context(progress(label, total))

        about = generate_benchmark.generate(
            cases,
            out,
            job,
            image_root=image_root,
            workers=WorkerConfig(workers, dask),
            progress=bar,
            original=original,
        )
    if as_json:
        say_json(dump(about))
        return
    _print(about, out)
    say(f"Next: {after}")


def _print(about: Record, out: Path) -> None:
    terminal = console()
    if about["data"] == "phantom":
        terminal.print(PHANTOM_NOTICE, style="yellow")
    few = about["shortfall"][0] if about["shortfall"] else None
    caption = few and f"'of {few['quota']}': the recipe asks for {few['quota']} cases, but fewer were found"
    table = Table(title="Cases", title_justify="left", caption=caption, caption_justify="left")
    table.add_column("finding")
    for path in PATHS:
        table.add_column(path.replace("_", "-"), justify="right")
    made = about["counts"]["paths"]
    wanted = {(row["finding"], row["path"]): row["quota"] for row in about["shortfall"]}
    for finding in sorted({*made, *(finding for finding, _ in wanted)}):
        counts = made.get(finding, dict.fromkeys(PATHS, 0))
        # The quota is shown if there were too few cases for it.
        told = [f" of {wanted[finding, path]}" if (finding, path) in wanted else "" for path in PATHS]
        table.add_row(finding, *(f"{counts[path]}{more}" for path, more in zip(PATHS, told, strict=True)))
    if made:
        terminal.print(table)
    kinds = [f"{kind} {count:,}" for kind, count in about["counts"]["kinds"].items() if count]
    terminal.print(f"{plural(about['counts']['items'], 'item')}: {', '.join(kinds)}")
    for kind in about.get("kinds", ()):
        if kind["name"] not in KINDS and not about["counts"]["kinds"].get(kind["name"]):
            terminal.print(f"The plugin's kind '{kind['name']}' was asked of no case.", style="yellow")
    from chexqa.contract import benchmark

    bench = benchmark.load(out)
    _print_without_hit(bench)
    _print_altered(bench)
    _print_skipped(about, out)
    say(f"Benchmark: {out}")


def _print_without_hit(made: Benchmark) -> None:
    """Print the number of items on the grid in which no cell is a hit, and how they count; print nothing for 0."""
    answers, _ = made.key("counting items without a hit")
    without = Counter(item.kind for item in made.items if not answers[item.item_id].answer)
    for kind, many in without.items():
        console().print(
            f"In {many:,} of {made.about['counts']['kinds'][kind]:,} {kind} items no cell is a hit, so every answer to "
            "these items is a miss. Reports show the share of the other items as the ceiling, the highest possible "
            "hit rate.",
            soft_wrap=True,
        )


def _print_altered(made: Benchmark) -> None:
    """Print the number of altered items, in how many cases the lesion could not be filled, with the reasons, and which
    verdicts on grounding so few patients cannot give.
    """
    if "interventions" not in made.about:
        return
    from chexqa.eval.grounding.net_grounding import few_audited

    found = made.about["interventions"]
    counts = ", ".join(f"{name} {many:,}" for name, many in found["counts"].items() if many)
    terminal = console()
    terminal.print(f"Altered items: {counts or 'none'}", soft_wrap=True)
    reasons: Counter[str] = Counter()
    for row in found["not_audited"]:
        reasons[row["reason"]] += row["cases"] if row["condition"] == "target" else 0
    for reason, many in reasons.most_common():
        if many:
            terminal.print(f"  in {plural(many, 'case')} the lesion was not filled in: {reason}", soft_wrap=True)
    if (few := few_audited(made, made.items)) is not None:
        terminal.print(few, style="yellow", soft_wrap=True)


def _print_skipped(about: Record, out: Path, most: int = 5) -> None:
    count = about["counts"]["skipped"]
    if not count:
        return
    err = messages()
    left_out = (f"{plural(count, 'case')} left out", "yellow")
    err.print(Text.assemble(left_out, f" of one task or of all tasks; {out / SKIPPED} lists all reasons:"))
    for number, row in read_jsonl(out / SKIPPED, "skipped", out):
        if number > most:
            err.print(f"  … and {count - most} more")
            break
        task = f" ({row['task']})" if row["task"] else ""
        said = f"{row['source_case_id']}, {row['finding']}{task}: {row['reason']}"
        err.print(Padding(Text(said), (0, 0, 0, 2), expand=False))
