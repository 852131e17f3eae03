"""The command group ``run``, which shows the progress of a run, exports its answers and repairs its logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import click
from rich import box
from rich.table import Table

from chexqa.cli.main import Entry, LazyGroup
from chexqa.contract.read_run import TURNS, read_about
from chexqa.eval.batches.results import FOLDER as RESULTS
from chexqa.eval.runs import budget
from chexqa.eval.runs import foreign_lines as repairing
from chexqa.eval.runs.status import Status, status
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, write_jsonl
from chexqa.files.say import say, say_json
from chexqa.files.terminal import Name, console, duration, plural, progress

STOPPED = "stopped"
# A reply may well take this long; a longer silence is reported.
SILENCE = timedelta(minutes=1)
COMMANDS: dict[str, Entry] = {
    "status": Entry("chexqa.eval.cli.run:show_status", "Show the progress of each model of a run."),
    "export": Entry("chexqa.eval.cli.run:export", "Write a run's answers in other formats."),
    "repair": Entry("chexqa.eval.cli.run:repair", "Move lines that are not turns out of a run's logs."),
}


FORMATS = ("predictions", "chexpercept", "every-eval-ever", "huggingface")


class RunGroup(LazyGroup):
    """The commands of ``chexqa run``."""

    table: ClassVar[dict[str, Entry]] = COMMANDS


@click.group(cls=RunGroup, epilog="Example: chexqa run status run")
def run() -> None:
    """Show the progress of a run, export its answers, and repair its logs."""


@click.command("status", epilog="Example: chexqa run status run")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the models as a JSON list.")
def show_status(folder: Path, as_json: bool) -> None:
    """Show each model's progress in RUN: turns done, cost, tokens, rate, time left, last reply and states.

    A run in progress is not disturbed. The rate is in replies a minute, from ten minutes before the last reply until
    now, so it falls while no reply arrives. A model is "in batches" if batches of its requests have no results yet. A
    model is "stopped" if no process asks it any more, or if the command that sent its batches has ended before all
    results arrived.
    """
    rows = status(folder)
    if as_json:
        say_json(json.dumps([row.to_record() for row in rows], indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("model", overflow="fold", min_width=min(16, max((len(row.model) for row in rows), default=0)))
    for name in ("done", "cost", "M tokens", "a minute", "left", "last reply"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("states", overflow="fold", min_width=14)
    now = datetime.now(UTC)
    for row in rows:
        states = ", ".join(f"{count:,} {state}" for state, count in row.states.items())
        cost = row.spent.usd.cell(f"${row.spent.usd.known:,.2f}")
        tokens = row.spent.tokens.cell(f"{row.spent.tokens.known / 1e6:,.2f}")
        rate = "" if row.rate_per_min is None or _left(row, now) == STOPPED else f"{row.rate_per_min:,.1f}"
        states += f", {plural(row.set_aside, 'line')} set aside" if row.set_aside else ""
        table.add_row(
            Name(row.model), _done(row), cost, tokens, rate, _left(row, now), _ago(row.last_reply, now), states
        )
    out, extra = console(), _extra(read_about(folder))
    out.print(table)
    for row in rows:
        if row.last_error is not None:
            words = " ".join(row.last_error.split())
            out.print(f"{row.model}: last error: {words}", style="yellow", soft_wrap=True)
        if row.decided is not None:
            out.print(f"{row.model}: {row.decided}; nothing is asked about the remaining patients.", soft_wrap=True)
        unknown = budget.remark(row.spent.uncounted)
        for said in filter(None, (row.note, *_partial(row), unknown, _activity(row, now, extra), *_waiting(row))):
            out.print(f"{row.model}: {said}", style="yellow", soft_wrap=True)


@click.command("export", epilog="Example: chexqa run export run --format chexpercept -o results")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "fmt", required=True, type=click.Choice(FORMATS),
              help="predictions: one JSON line for each answer; chexpercept: CheXpercept's all_results.json; "
                   "every-eval-ever: a record for each model and one for each item; huggingface: files for the folder "
                   ".eval_results of a model's repository.")  # fmt: skip
@click.option("--benchmark", "bench", metavar="DIR", type=click.Path(path_type=Path),
              help="The benchmark's folder, if it moved since the run.")  # fmt: skip
@click.option("-o", "--out", "output", required=True, metavar="OUT", type=click.Path(path_type=Path),
              help="Where to write: a file for predictions, a new folder for other formats.")  # fmt: skip
@click.option("--dataset", metavar="OWNER/NAME", help="With --format huggingface: the data set's name on the hub.")
@click.option("--organization", metavar="NAME",
              help="With --format every-eval-ever: name of the organization that publishes the "
                   "records.")  # fmt: skip
@click.option("--relationship", type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
              help="With --format every-eval-ever: how your organization (--organization) is related to the "
                   "makers of the models.")  # fmt: skip
@click.option("--with-key", is_flag=True,
              help="With --format every-eval-ever: include the right answers, which every reader of the records "
              "then sees.")  # fmt: skip
def export(
    folder: Path, fmt: str, bench: Path | None, output: Path, dataset: str | None, organization: str | None,
    relationship: str | None, with_key: bool,
) -> None:  # fmt: skip
    """Write the answers of RUN as a file of predictions, which 'grade' reads, or in another project's format.

    Unfinished questions are left out.
    """
    from chexqa.eval.scoring.grade import load_runs

    theirs = {"--organization": organization, "--relationship": relationship, "--with-key": with_key}
    for name, value in {"--dataset": dataset, **theirs}.items():
        needed = "every-eval-ever" if name in theirs else "huggingface"
        if value and fmt != needed:
            raise InputError(f"{name} works only with --format {needed}; leave it out or change the format.")
    if fmt == "huggingface" and dataset is None:
        raise InputError("--format huggingface needs the data set's name on the hub; add --dataset OWNER/NAME.")
    benchmark, (loaded,) = load_runs([folder], bench)
    if fmt == "predictions":
        from chexqa.eval.scoring.predictions import export_predictions

        rows = list(export_predictions(loaded))
        write_jsonl(output, rows, "prediction")
        say(f"{plural(len(rows), 'prediction')}: {output}")
    elif fmt == "every-eval-ever":
        from chexqa.eval.records.every_eval_ever import Publisher, export_records

        publisher = Publisher(organization or "not named", relationship or "other")
        with progress("writing records", len(loaded.turns)) as advance:
            for path in export_records(loaded, benchmark, output, publisher, with_key, advance):
                say(str(path))
    elif fmt == "huggingface":
        from chexqa.eval.records.huggingface_results import export_results as export_scores

        for path in export_scores(loaded, benchmark, output, dataset or ""):
            say(str(path))
    else:
        from chexqa.eval.scoring.results_export import export_results

        for path in export_results(loaded, benchmark, output):
            say(f"results: {path}")


@click.command("repair", epilog="Example: chexqa run repair run --dry-run")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--dry-run", "dry", is_flag=True, help="Only print what would be moved; move nothing.")
@click.option("--json", "as_json", is_flag=True,
              help="Print a JSON list of the logs whose lines were moved.")  # fmt: skip
def repair(folder: Path, dry: bool, as_json: bool) -> None:
    """Move damaged or foreign lines of RUN's logs into a file beside each log, turns/LOG.jsonl.set-aside.

    Nothing is lost, and all other lines stay in place. The question of a moved line counts as not asked: 'chexqa
    eval' asks it again. A log that is being written is left alone (exit code 2).
    """
    found = repairing.repair(folder, dry)
    if as_json:
        say_json(json.dumps([one.to_record() for one in found], indent=2))
        return
    if not found:
        say(f"{folder}: nothing to repair; every line of the run's logs is a turn.")
    out = console()
    for one in found:
        place = folder / TURNS / one.log
        word = "would move" if dry else "moved"
        text = f"{place}: {word} {plural(one.lines, 'line')} ({one.bytes:,} bytes) into {place}{repairing.SUFFIX}"
        out.print(text, soft_wrap=True)
        for line, why in one.first:
            out.print(f"  line {line}: {why}", soft_wrap=True)
        if one.lines > len(one.first):
            out.print(f"  and {plural(one.lines - len(one.first), 'more line')}", soft_wrap=True)


def _done(row: Status) -> str:
    return f"{row.done:,}" if row.total is None else f"{row.done:,}/{row.total:,}"


def _left(row: Status, now: datetime) -> str:
    """Return the time left; if no questions are being asked, return the reason in one or two words.

    Return a dash if the time left is unknown, as after a failed turn.
    """
    if row.is_done:
        return "done"
    if row.decided is not None:
        return "decided"
    if row.waiting:
        return STOPPED if _is_left(row) else "in batches"
    if row.asking == []:
        return "not begun" if row.last_turn is None else STOPPED
    if row.left_s is not None:
        return duration(row.left_s)
    return "not begun" if row.last_turn is None and not row.asking else "–"


def _extra(about: Record) -> str:
    """Return the options of a run's 'chexqa eval' command that name more questions than the original ones."""
    names = {"--condition": "interventions", "--stress": "stress"}
    return "".join(f" {option} {','.join(about[name])}" for option, name in names.items() if about.get(name))


def _activity(row: Status, now: datetime, extra: str) -> str | None:
    """Return a sentence if no process asks a model, or if its replies have stopped coming; otherwise None.

    ``extra`` has the result of :func:`_extra`.
    """
    if row.is_done or row.decided is not None or row.asking is None or row.total is None:
        return None
    if row.waiting:
        return None
    if not row.asking:
        command = f"'chexqa eval' command{f' (with{extra})' if extra else ''} again"
        return f"no process asks this model; to ask its open questions, run the run's {command}."
    began = min(one["since"] for one in row.asking)
    silent = now - max(datetime.fromisoformat(time) for time in (began, row.last_reply) if time is not None)
    if silent < SILENCE:
        return None
    who = f"process{'es' if row.asking[1:] else ''} {', '.join(one['process'] for one in row.asking)}"
    since = f"no reply for {duration(silent.total_seconds())}"
    return f"{who} ask{'' if row.asking[1:] else 's'} it, {since}."


def _is_left(row: Status) -> bool:
    """Return True if a model's batches were sent, but the command that fetches their results is no longer running."""
    return row.asking == [] and any(one.get("sent") for one in row.waiting)


def _waiting(row: Status) -> list[str]:
    """Return a sentence for each folder of batches that wait for results."""
    return [] if row.is_done else [_waits(row, one) for one in row.waiting]


def _waits(row: Status, one: Record) -> str:
    many = f"{plural(one['requests'], 'request')} in {plural(one['files'], 'file')} of {one['folder']}"
    wait = f"{'waits' if one['requests'] == 1 else 'wait'} for results"
    if not one.get("sent"):
        back = Path(one["folder"]) / RESULTS
        return f"{many} {wait}; put the files of results into {back} and run the same command again."
    if row.asking:
        return f"{many} {wait}; process {row.asking[0]['process']} fetches them."
    return f"{many} {wait}, but no process fetches them; run the same command with --batch-submit again."


def _partial(row: Status) -> Iterator[str]:
    """Yield a sentence for the cost and one for the tokens if only a part of it is known."""
    if row.spent.usd.is_partial:
        yield f"cost: {row.spent.cost_said()}."
    if row.spent.tokens.is_partial:
        yield f"tokens: {row.spent.tokens_said()}."


def _ago(time: str | None, now: datetime) -> str:
    """Return as text how long ago a time was; a dash if the time is unknown."""
    return "–" if time is None else f"{duration((now - datetime.fromisoformat(time)).total_seconds())} ago"
