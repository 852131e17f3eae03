"""The command ``chexqa eval``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from chexqa import benchmark
from chexqa.errors import InputError, UnfinishedError
from chexqa.eval import protocols, registry, runner
from chexqa.eval.registry import Model
from chexqa.eval.runner import NOT_ASKED, Order, Standing, Watch
from chexqa.runlog import ERROR
from chexqa.terminal import console, messages, plural

PLAIN_EVERY_S = 30.0


@click.command("eval")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--models", "names", metavar="A,B|all", help="Registered models ('chexqa models' lists them).")
@click.option("--model-id", metavar="ID", help="Any other model: a litellm id, or a name that --api-base serves.")
@click.option("--api-base", metavar="URL", help="The OpenAI-compatible server of --model-id.")
@click.option("--protocol", default="end_to_end", show_default=True, metavar="|".join(protocols.PROTOCOLS),
              help="What a model sees of its earlier answers.")  # fmt: skip
@click.option("-o", "--output", "folder", required=True, type=click.Path(path_type=Path), metavar="RUN",
              help="The run's folder; the same command resumes it, other models join it.")  # fmt: skip
@click.option("--models-file", type=click.Path(path_type=Path), metavar="FILE", help="A models.yaml of your own.")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 1024),
              help="Conversations in flight for each model.")  # fmt: skip
@click.option("--skip-unavailable", is_flag=True, help="Run the models that lack nothing here, leave out the others.")
@click.option("--allow-remote-credentialed", is_flag=True,
              help="Send pictures of credentialed cases to providers all the same.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="For baseline/chance.")
def evaluate(
    bench: Path,
    names: str | None,
    model_id: str | None,
    api_base: str | None,
    protocol: str,
    folder: Path,
    models_file: Path | None,
    concurrency: int,
    skip_unavailable: bool,
    allow_remote_credentialed: bool,
    seed: int,
) -> None:
    """Ask models the questions of the benchmark BENCH.

    Every reply is on the disk before the next question is asked; after an interruption the same command goes on
    without asking an answered question again.
    """
    chosen = _choose(names, model_id, api_base, models_file)
    asked = protocols.named(protocol)
    loaded = benchmark.load(bench)
    available = _available(chosen, skip_unavailable)
    order = Order(loaded, tuple(available), asked, folder, seed, concurrency, allow_remote_credentialed)
    with _display(messages()) as watch:
        standings = runner.run(order, watch)
    _conclude(standings, folder)


def _choose(names: str | None, model_id: str | None, api_base: str | None, models_file: Path | None) -> list[Model]:
    """The models asked for; an unregistered one comes last."""
    if api_base is not None and model_id is None:
        raise InputError("--api-base goes with --model-id: say which model the server is to be asked for.")
    if names is None and model_id is None:
        raise InputError("no model is named; give --models A,B or --models all ('chexqa models' lists them).")
    registered = registry.load(models_file)
    chosen = registry.choose(names, registered) if names is not None else []
    if model_id is not None:
        other = registry.adhoc(model_id, api_base)
        if other.name in registered:
            raise InputError(f"--model-id {model_id}: a registered model has that name; use --models {model_id}.")
        chosen.append(other)
    return chosen


def _available(chosen: list[Model], skip: bool) -> list[Model]:
    """The models that lack nothing; ``InputError`` that says what each lacks where the others may not be left out."""
    lacks = {model.name: lack for model in chosen if (lack := registry.lacking(model)) is not None}
    if not lacks:
        return chosen
    listed = "".join(f"\n  {name}: {lack}" for name, lack in lacks.items())
    available = [model for model in chosen if model.name not in lacks]
    if not skip or not available:
        hint = ", or add --skip-unavailable to run the others" if available and not skip else ""
        raise InputError(f"{plural(len(lacks), 'model')} cannot be asked yet; set what is named{hint}:{listed}\n")
    messages().print(f"Left out, {plural(len(lacks), 'model')}:{listed}", markup=False)
    return available


@contextmanager
def _display(err: Console) -> Iterator[Watch]:
    """A live row for each model on a terminal, else a line now and then; yields the function to call at each turn."""
    if not err.is_terminal:
        yield _PlainDisplay(err).watch
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[remark]}", style="red"))  # fmt: skip
    rows: dict[str, TaskID] = {}
    with Progress(*columns, console=err) as bars:

        def watch(standing: Standing) -> None:
            done = len(standing.states) - standing.counts[NOT_ASKED]
            if standing.model not in rows:
                rows[standing.model] = bars.add_task(standing.model, total=len(standing.states), remark="")
            errors = standing.counts[ERROR]
            bars.update(rows[standing.model], completed=done, remark=plural(errors, "error") if errors else "")

        yield watch


class _PlainDisplay:
    """Progress as lines: each model's start, then one line about it at most every half minute."""

    def __init__(self, err: Console) -> None:
        """Lines go to ``err``."""
        self._err = err
        self._last: dict[str, float] = {}

    def watch(self, standing: Standing) -> None:
        """Print a line if it is time."""
        now = time.monotonic()
        if now - self._last.get(standing.model, -PLAIN_EVERY_S) < PLAIN_EVERY_S:
            return
        self._last[standing.model] = now
        total, counts = len(standing.states), standing.counts
        line = f"{standing.model}: {total - counts[NOT_ASKED]:,} of {plural(total, 'item')} asked"
        errors = f", {plural(counts[ERROR], 'error')}" if counts[ERROR] else ""
        self._err.print(line + errors, markup=False, soft_wrap=True)


def _conclude(standings: list[Standing], folder: Path) -> None:
    """A line for each model, then what to do next; ``UnfinishedError`` where items are left."""
    out = console()
    for standing in standings:
        states = ", ".join(
            f"{count:,} {state.replace('_', ' ')}" for state, count in standing.counts.most_common() if count
        )
        cost = "unknown cost" if standing.cost_usd is None else f"${standing.cost_usd:,.2f}"
        out.print(f"{standing.model}: {states} ({cost})", markup=False, soft_wrap=True)
        if standing.error is not None:
            out.print(f"  last error: {standing.error}", markup=False, soft_wrap=True)
    left = sum(standing.unfinished for standing in standings)
    if left:
        raise UnfinishedError(
            f"{plural(left, 'item')} unfinished; run the same command again to go on (nothing answered is asked twice)."
        )
    out.print(f"Next: chexqa grade {folder}", markup=False, soft_wrap=True)
