"""The command group ``leaderboard``: scores of many runs on one static page."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

import click

from chexqa.eval.cli.grade import BENCHMARK, MODELS, PROTOCOL, REREAD, RUNS, read
from chexqa.files.errors import InputError
from chexqa.files.opening import real
from chexqa.files.say import say
from chexqa.files.terminal import PHANTOM_NOTICE, plural

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@click.group(epilog="Example: chexqa leaderboard add board run --by 'our lab'")
def leaderboard() -> None:
    """Make a leaderboard: a folder with a static page that shows the scores of many runs."""


@leaderboard.command(epilog="Example: chexqa leaderboard add board answers.jsonl --benchmark bench --by 'their lab'")
@click.argument("board", metavar="BOARD", type=click.Path(path_type=Path))
@RUNS
@BENCHMARK
@MODELS
@REREAD
@PROTOCOL
@click.option("--by", metavar="NAME", help="The person or group that sent the runs; shown on the page.")
@click.option("--date", "added", metavar="YYYY-MM-DD", help="Date of the entries  [default: today, UTC].")
@click.option("--title", metavar="TEXT", help="Title of the page.")
def add(
    board: Path,
    runs: tuple[Path, ...],
    benchmark_folder: Path | None,
    models_file: Path | None,
    reread: bool,
    protocol: str | None,
    by: str | None,
    added: str | None,
    title: str | None,
) -> None:
    """Grade complete runs, and add their models to the leaderboard in the folder BOARD, which is made if needed.

    A RUN is a run's folder, or a file of predictions (.jsonl, needs --benchmark). The benchmark must have its key; the
    leaderboard itself contains only scores. Open BOARD/index.html in a browser; no server is needed. The entries are
    also in BOARD/leaderboard.json and BOARD/leaderboard.csv.
    """
    from chexqa.eval.leaderboard import board as boards

    when = _date(added)
    graded = read(runs, benchmark_folder, False, models_file, reread, protocol=protocol)
    entries, notes = boards.add(board, graded, when, by, title)
    for note in notes:
        say(f"note: {note}", err=True)
    notice = f" ({PHANTOM_NOTICE})" if graded.benchmark.is_phantom else ""
    named = [f"{entry['model']} ({entry['protocol']}, id {boards.id_of(entry)})" for entry in entries]
    say(f"added {plural(len(entries), 'entry', 'entries')}{notice}: {', '.join(named)}")
    say(f"Open: {real(board / boards.PAGE)}")


@leaderboard.command(epilog="Example: chexqa leaderboard remove board gpt-5.4 --date 2026-01-31")
@click.argument("board", metavar="BOARD", type=click.Path(path_type=Path))
@click.argument("model", metavar="MODEL")
@click.option("--protocol", metavar="NAME", help="Protocol of the entry, as the leaderboard names it.")
@click.option("--date", "added", metavar="YYYY-MM-DD", help="Date of the entry.")
@click.option("--id", "entry_id", metavar="ID", help="Id of the entry: printed by 'leaderboard add', and in "
              "BOARD/leaderboard.csv.")  # fmt: skip
def remove(board: Path, model: str, protocol: str | None, added: str | None, entry_id: str | None) -> None:
    """Remove an entry of MODEL that was added to the folder BOARD by mistake, and write the page again."""
    from chexqa.eval.leaderboard import board as boards

    entry = boards.remove(board, model, protocol, added if added is None else _date(added), entry_id)
    say(f"removed {entry['model']} ({entry['protocol']}), added on {entry['added']}")
    say(f"Open: {real(board / boards.PAGE)}")


def _date(given: str | None) -> str:
    if given is None:
        return datetime.now(UTC).date().isoformat()
    try:
        if not _DATE.fullmatch(given):
            raise ValueError
        return date.fromisoformat(given).isoformat()
    except ValueError:
        raise InputError(f"--date {given}: is not a date; give it as YYYY-MM-DD, such as 2026-01-31.") from None
