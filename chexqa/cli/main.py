"""Command line: a table of all commands; a command's module is imported only when the command is run.

``chexqa --help`` shows the one-line help texts of the table, so it imports neither cv2 nor litellm.
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
    """Location of a command's function (``module:function``), and the command's one-line help."""

    address: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("chexqa.cli.commands:demo", "Run all steps, with phantoms as cases and baselines as models."),
    "synth": Entry("chexqa.cli.commands:synth", "Draw phantom cases: radiographs, anatomy and lesion masks."),
    "ingest": Entry("chexqa.cli.ingest:ingest", "Write a case manifest from a data set in its own layout."),
    "anatomy": Entry("chexqa.cli.commands:anatomy", "Add missing lung and heart masks with a model of your own."),
    "generate": Entry("chexqa.cli.generate:generate", "Turn cases into a benchmark."),
    "freshen": Entry("chexqa.cli.generate:freshen", "Make new questions on the same cases, to find memorised answers."),
    "validate": Entry("chexqa.cli.commands:validate", "Check a benchmark, a run, a report, cases or another file."),
    "audit": Entry("chexqa.cli.audit:audit", "Look for shortcuts in a benchmark, and write its card."),
    "second-reader": Entry("chexqa.cli.audit:second_reader", "Score another reader's masks on a benchmark."),
    "review": Entry("chexqa.cli.review.group:review", "Assign work to reviewers in spreadsheets; import results."),
    "show": Entry("chexqa.cli.commands:show", "Draw a contact sheet of a case: pictures, questions, key, anatomy."),
    "models": Entry("chexqa.eval.cli.models:models", "Show the models that can be asked, and what each needs."),
    "estimate": Entry("chexqa.eval.cli.estimate:command", "Estimate what a run would ask and cost."),
    "power": Entry("chexqa.eval.cli.estimate:power", "Show which differences a study of a given size can detect."),
    "plan": Entry("chexqa.eval.cli.estimate:plan", "Write a study's plan of analysis before its run."),
    "eval": Entry("chexqa.eval.cli.eval:evaluate", "Ask models the questions of a benchmark."),
    "run": Entry("chexqa.eval.cli.run:run", "Show the progress of a run: states, cost, time left."),
    "grade": Entry("chexqa.eval.cli.grade:grade", "Grade runs, and print the accuracy at each level."),
    "heatmaps": Entry("chexqa.eval.cli.heatmaps:heatmaps", "Make localization maps, and grade them against masks."),
    "compare": Entry("chexqa.eval.cli.compare:compare", "Show what changed between two runs, item by item."),
    "report": Entry("chexqa.eval.cli.grade:report", "Write the report of runs: a page, plots, a gallery, tables."),
    "leaderboard": Entry("chexqa.cli.leaderboard:leaderboard", "Show the scores of many runs on a static page."),
    "import": Entry("chexqa.cli.interchange:import_", "Import benchmarks and results that others made."),
    "export": Entry("chexqa.cli.interchange:export", "Write a benchmark in other people's formats."),
    "completion": Entry("chexqa.cli.commands:completion", "Print a script for tab completion in bash, zsh or fish."),
}


class SuggestingGroup(click.Group):
    """Command group that suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and the remaining arguments, as click does.

        For an unknown command, raise an error that suggests the nearest command.
        """
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command '{args[0]}'{suggest(args[0], known)}.")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_repeated(click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest


def _refuse_repeated(ctx: click.Context, args: list[str]) -> None:
    """Raise a usage error if an option that takes one value is given twice; click would silently use the last value."""
    try:
        given = ctx.command.make_parser(ctx).parse_args(list(args))[2]
    except click.UsageError:
        return  # the command itself says so, with its own usage
    for option in given:
        repeatable = not isinstance(option, click.Option) or option.multiple or option.is_flag or option.count
        if not repeatable and given.count(option) > 1:
            ctx.fail(f"{option.opts[-1]} is given {given.count(option)} times but takes one value; give it only once.")


class LazyGroup(SuggestingGroup):
    """Command group that imports a command when it is called, not when it is listed."""

    table: ClassVar[dict[str, Entry]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the table, which is the order in which users need them."""
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
        """Return the commands and options that begin with ``incomplete``, without importing any command."""
        fitting = [
            CompletionItem(name, help=one.help) for name, one in self.table.items() if name.startswith(incomplete)
        ]
        return fitting + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their help from the table, without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog="Example: chexqa demo")
@click.version_option(__version__, prog_name="chexqa")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
@click.pass_context
def app(ctx: click.Context, debug: bool) -> None:
    """Benchmark what vision-language models see on chest radiographs.

    Start with 'chexqa demo'. Then: synth or ingest, generate, eval, grade, report.
    Exit codes: 0 done, 2 the input is wrong, 3 stopped early (run the same command again to continue), 1 a bug.
    """
    ctx.obj = debug


def run(args: list[str]) -> int:
    """Run one command line in this process and return its exit code; no error is raised, and no secret is printed."""
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
        _say(f"{error.word}: {error}")
        return EXIT_UNFINISHED
    except (KeyboardInterrupt, click.Abort):
        say("stopped: interrupted; run the same command again to continue.", err=True)
        return EXIT_UNFINISHED
    except BrokenPipeError:
        return EXIT_OK
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            _say(f"stopped: {unwritable(error.filename or 'the output', error)}")
            return EXIT_UNFINISHED
        odd = next((one for one in args if not _is_text(one)), None)
        if odd is not None and isinstance(error, UnicodeError):
            _say(f"error: the argument {odd!r} is not UTF-8 text; rename the file, or correct the argument.")
            return EXIT_INPUT
        if "--debug" in args:
            _say("".join(traceback.format_exception(error)).rstrip())
        else:
            _say(
                f"internal error: {type(error).__name__}: {error}. This is a bug in chexqa; please report it with the "
                "output of 'chexqa --debug …'."
            )
        return EXIT_BUG
    return result if isinstance(result, int) else EXIT_OK


def _is_text(argument: str) -> bool:
    """Return True if an argument was valid UTF-8; Python turns all other bytes into lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def _say(text: str) -> None:
    """Print to standard error, with secrets removed."""
    say(hider()(text) or "", err=True)


def main() -> None:
    """Run the command line of this process, and end the process with the exit code."""
    guard()
    sys.exit(run(sys.argv[1:]))
