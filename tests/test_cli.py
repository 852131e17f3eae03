"""The command line as a whole: help, unknown commands, exit codes, what is printed where."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from chexqa import cli as command_line
from chexqa.cli import COMMANDS, Entry
from chexqa.errors import InputError, UnfinishedError
from chexqa.version import __version__

Cli = Callable[..., tuple[int, str, str]]


def test_help_names_every_command_in_the_order_of_work(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    at = [re.search(rf"^  {name}\s", out, re.MULTILINE) for name in COMMANDS]
    assert all(at)
    assert [match.start() for match in at if match] == sorted(match.start() for match in at if match)
    assert "Exit codes: 0 done, 2 the input is wrong" in " ".join(out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_own(cli: Cli, name: str) -> None:
    code, out, err = cli(name, "--help")
    assert (code, err) == (0, "")
    assert f"chexqa {name}" in out


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version") == (0, f"chexqa, version {__version__}\n", "")


def test_nothing_at_all_shows_the_help(cli: Cli) -> None:
    code, out, err = cli()
    assert code in (0, 2)
    assert "generate" in out + err


@pytest.mark.parametrize(("typed", "meant"), [("generat", "generate"), ("evall", "eval"), ("Demo", "demo")])
def test_an_unknown_command_names_the_nearest_one(cli: Cli, typed: str, meant: str) -> None:
    code, out, err = cli(typed, "x")
    assert (code, out) == (2, "")
    assert f"there is no command '{typed}' (did you mean '{meant}'?)" in " ".join(err.split())


def test_a_command_like_no_other_lists_them_all(cli: Cli) -> None:
    code, _, err = cli("zzzzzz")
    assert code == 2
    assert all(name in err for name in COMMANDS)


@pytest.mark.parametrize("args", [["generate"], ["--nonsense"], ["synth", "x", "--cases", "many"], ["validate", "--x"]])
def test_wrong_arguments_are_the_users_and_no_traceback(cli: Cli, args: list[str]) -> None:
    code, _, err = cli(*args)
    assert code == 2
    assert "Traceback" not in err
    assert "Error" in err


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make a command 'fail' that raises this."""

    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "fail", Entry("tests:fail", "Fail."))
    monkeypatch.setattr(command_line.LazyGroup, "get_command", lambda self, ctx, name: fail)


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (InputError("no such thing."), 2, "error: no such thing.\n"),
        (UnfinishedError("three items left."), 3, "stopped: three items left.\n"),
        (KeyboardInterrupt(), 3, "the same command goes on where it stopped"),
        (ZeroDivisionError("boom"), 1, "internal error: ZeroDivisionError: boom"),
    ],
)
def test_every_way_to_end_has_its_exit_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: int, text: str
) -> None:
    raising(monkeypatch, error)
    code, out, err = cli("fail")
    assert (code, out) == (expected, "")
    assert text in err
    assert "Traceback" not in err


def test_a_closed_pipe_is_no_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, BrokenPipeError())
    assert cli("fail") == (0, "", "")


def test_debug_shows_where_a_bug_is(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    raising(monkeypatch, ZeroDivisionError("boom"))
    code, _, err = cli("--debug", "fail")
    assert code == 1
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("ZeroDivisionError: boom\n")
    assert ", line " in err


def test_a_secret_of_the_environment_is_in_no_message_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-nobody-may-see-this")
    for error in (ValueError, InputError, UnfinishedError):
        raising(monkeypatch, error("sent sk-nobody-may-see-this to the server"))
        for debug in ([], ["--debug"]):
            _, out, err = cli(*debug, "fail")
            assert "sk-nobody" not in out + err
            assert "sent [secret] to the server" in err


def test_debug_does_not_turn_the_users_mistakes_into_tracebacks(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("--debug", "validate", tmp_path / "nothing")
    assert code == 2
    assert err == f"error: {tmp_path / 'nothing'}: no such file or folder.\n"
