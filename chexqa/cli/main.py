"""The command line: a table of commands, each imported only when it is run.

``chexqa --help`` needs neither cv2 nor litellm: the one-line help stands beside the command's address.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from io import StringIO
from typing import ClassVar, NamedTuple

import click
from click.shell_completion import CompletionItem

from chexqa.files.errors import (
    EXIT_BUG,
    EXIT_INPUT,
    EXIT_OK,
    EXIT_UNFINISHED,
    InputError,
    UnfinishedError,
    is_disk_full,
    suggest,
    unwritable,
)
from chexqa.files.redact import hider
from chexqa.files.say import guard, say
from chexqa.version import __version__


class Entry(NamedTuple):
    """Where a command is (``module:function``) and what it does, in one line."""

    address: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("chexqa.cli.commands:demo", "Run the whole chain on drawn phantoms with the offline baselines."),
    "synth": Entry("chexqa.cli.commands:synth", "Draw phantom cases: radiographs, anatomy and lesion masks."),
    "ingest": Entry("chexqa.cli.ingest:ingest", "Write a case manifest from a data set in its own layout."),
    "generate": Entry("chexqa.cli.generate:generate", "Turn cases into a benchmark."),
    "validate": Entry("chexqa.cli.commands:validate", "Check a benchmark, run, report, cases or another file."),
    "audit": Entry("chexqa.cli.audit:audit", "Look for shortcuts in a benchmark, and write its card."),
    "review": Entry("chexqa.cli.review:review", "Deal work to reviewers in spreadsheets, and take it back."),
    "show": Entry("chexqa.cli.commands:show", "Draw a contact sheet of a case: pictures, questions, key, anatomy."),
    "models": Entry("chexqa.eval.cli.models:models", "Show the models one can ask and what each one lacks here."),
    "estimate": Entry("chexqa.eval.cli.estimate:command", "Say what a run would ask and cost, before it does."),
    "eval": Entry("chexqa.eval.cli.eval:evaluate", "Ask models the questions of a benchmark."),
    "run": Entry("chexqa.eval.cli.run:run", "Show how far a run is: done, states, cost, time left."),
    "grade": Entry("chexqa.eval.cli.grade:grade", "Grade runs and print accuracy level by level."),
    "heatmaps": Entry("chexqa.eval.cli.heatmaps:heatmaps", "Grade localization maps against masks."),
    "compare": Entry("chexqa.eval.cli.compare:compare", "Say what changed between two runs, item by item."),
    "report": Entry("chexqa.eval.cli.grade:report", "Write the report of runs: a page, plots, a gallery, tables."),
    "import": Entry("chexqa.cli.interchange:import_", "Take in benchmarks and results that others made."),
    "export": Entry("chexqa.cli.interchange:export", "Write a benchmark in other people's formats."),
    "completion": Entry("chexqa.cli.commands:completion", "Print what lets bash, zsh or fish complete commands."),
}


class SuggestingGroup(click.Group):
    """A group that names the nearest command where it is given an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown command names the nearest one."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command '{args[0]}'{suggest(args[0], known)}.")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group whose commands are imported when they are called, not when they are listed."""

    table: ClassVar[dict[str, Entry]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, which is the order of work."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name].address.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is not a click command"
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, from the table, importing none, and the group's own options."""
        fitting = [
            CompletionItem(name, help=one.help) for name, one in self.table.items() if name.startswith(incomplete)
        ]
        return fitting + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: chexqa demo")
@click.version_option(__version__, prog_name="chexqa")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
@click.pass_context
def app(ctx: click.Context, debug: bool) -> None:
    """Benchmark what vision-language models see on chest radiographs.

    Start with 'chexqa demo'. Then: synth or ingest, generate, eval, grade, report.
    Exit codes: 0 done, 2 the input is wrong, 3 stopped early and resumable, 1 a bug.
    """
    ctx.obj = debug


def run(args: list[str]) -> int:
    """Run one command line in this process and return its exit code; never raises, and shows no secret."""
    try:
        result = app.main(args=args, prog_name="chexqa", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)
        _say(shown.getvalue().rstrip())
        return EXIT_INPUT
    except InputError as error:
        _say(f"error: {error}")
        return EXIT_INPUT
    except UnfinishedError as error:
        _say(f"stopped: {error}")
        return EXIT_UNFINISHED
    except (KeyboardInterrupt, click.Abort):
        say("stopped: interrupted; the same command goes on where it stopped.", err=True)
        return EXIT_UNFINISHED
    except BrokenPipeError:
        return EXIT_OK
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            _say(f"stopped: {unwritable(error.filename or 'the output', error)}")
            return EXIT_UNFINISHED
        odd = next((one for one in args if not _is_text(one)), None)
        if odd is not None and isinstance(error, UnicodeError):
            _say(f"error: the argument {odd!r} is not UTF-8; name it otherwise.")
            return EXIT_INPUT
        if "--debug" in args:
            _say("".join(traceback.format_exception(error)).rstrip())
        else:
            _say(f"internal error: {type(error).__name__}: {error}; 'chexqa --debug …' shows where. Please report it.")
        return EXIT_BUG
    return result if isinstance(result, int) else EXIT_OK


def _is_text(argument: str) -> bool:
    """Whether an argument of the command line came as UTF-8; bytes that were not stand in it as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _say(text: str) -> None:
    """Print to standard error, without the secrets that whoever raised an error may have put into it."""
    say(hider()(text) or "", err=True)


def main() -> None:
    """The console script."""
    guard()
    sys.exit(run(sys.argv[1:]))
