"""The command line as a whole: help, unknown commands, exit codes, what is printed where."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import click.shell_completion
import pytest

from chexqa.cli import main as command_line
from chexqa.cli.main import COMMANDS, Entry, app
from chexqa.files.errors import EXIT_UNFINISHED, InputError, UnfinishedError
from chexqa.files.terminal import PlainConsole
from chexqa.phantoms import write_cases
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


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["ingest", "chexlocalise"], "there is no command 'chexlocalise' (did you mean 'chexlocalize'?)"),
        (["review", "exprot"], "there is no command 'exprot' (did you mean 'export'?)"),
        (["heatmaps", "grad"], "there is no command 'grad' (did you mean 'grade'?)"),
        (["models", "chekc"], "there is no command 'chekc' (did you mean 'check'?)"),
        (["import", "chexprecept"], "there is no command 'chexprecept' (did you mean 'chexpercept'?)"),
        (["run", "stats"], "there is no command 'stats' (did you mean 'status'?)"),
        (["synth", "x", "--case", "3"], "No such option"),
        (["generate", "x", "-o", "y", "--recipe", "strikt"], "there is no recipe 'strikt' (did you mean 'strict'?)"),
        (["models", "serve", "lingshu-32"], "there is no model 'lingshu-32' (did you mean 'lingshu-32b'?)"),
        (["models", "check", "--models", "gpt5.4"], "there is no model 'gpt5.4' (did you mean 'gpt-5.4'?)"),
    ],
)
def test_a_wrong_name_is_met_with_the_nearest_one(cli: Cli, args: list[str], hint: str) -> None:
    code, out, err = cli(*args)
    assert (code, out) == (2, "")
    assert hint in " ".join(err.split())


@pytest.mark.parametrize(
    ("args", "option"),
    [
        (["eval", "b", "--model-id", "openai/a", "--model-id", "openai/b"], "--model-id"),
        (["eval", "b", "-o", "one", "--out", "two"], "--out"),
        (["synth", "x", "--cases", "1", "--cases", "2"], "--cases"),
    ],
)
def test_a_second_value_is_refused_where_an_option_takes_one(cli: Cli, args: list[str], option: str) -> None:
    code, out, err = cli(*args)
    assert (code, out) == (2, "")
    assert f"{option} is given 2 times but takes one value; give it only once." in " ".join(err.split())


def test_options_that_may_be_repeated_and_flags_are_taken_as_often_as_given(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli(
        "generate", tmp_path, "-o", tmp_path / "b", "--recipe", "strict", "--recipe", "grid", "--json", "--json"
    )
    assert code == 2
    assert "cases.jsonl" in err
    assert "times" not in err


@pytest.mark.parametrize("wrong", ["edemma", "Pneumonia"])
def test_a_wrong_finding_is_met_with_the_nearest_one(cli: Cli, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "{name: r, task: grid, description: d, findings: [" + wrong + "], hit_share: 0.5, plausible_anatomy: {}}"
    )
    code, _, err = cli("generate", tmp_path, "-o", tmp_path / "out", "--recipe", tmp_path / "recipe.yaml")
    assert code == 2
    assert f"did you mean '{'edema' if wrong == 'edemma' else 'pneumonia'}'?" in " ".join(err.split())


def commands(
    command: click.Command = app, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


EVERY = dict(commands())


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_help_ends_with_an_example_that_parses(cli: Cli, path: tuple[str, ...]) -> None:
    code, out, _ = cli(*path, "--help")
    assert code == 0
    command = EVERY[path]
    lines = re.findall(r"^(?:Example:| +) *(chexqa .+)", f"{command.help}\n{command.epilog or ''}", re.MULTILINE)
    assert lines
    for line in lines:
        assert line.split(" ")[-1] in out
        words = shlex.split(line)[1:]
        named = max((one for one in EVERY if tuple(words[: len(one)]) == one), key=len)
        assert named[: len(path)] == path, "the example is one of this command"
        EVERY[named].make_context("chexqa", words[len(named) :])


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_option_says_what_it_does(path: tuple[str, ...]) -> None:
    options = [param for param in EVERY[path].params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


def completions(words: str, begun: str = "") -> list[str]:
    """What a shell would be told for the word ``begun`` after ``words``."""
    complete = click.shell_completion.ShellComplete(app, {}, "chexqa", "_CHEXQA_COMPLETE")
    return [item.value for item in complete.get_completions(shlex.split(words), begun)]


def test_commands_options_and_values_are_completed() -> None:
    assert completions("", "re") == ["review", "report"]
    assert completions("review", "a") == ["agreement", "adjudicate", "apply"]
    assert completions("ingest", "ch") == ["chestx-det", "chexlocalize"]
    assert completions("synth", "--wo") == ["--workers"]
    assert completions("eval bench --models", "gpt-5.") == ["gpt-5.4", "gpt-5.4-nano"]
    assert completions("eval bench --models", "gpt-5.4,gpt-5.") == ["gpt-5.4,gpt-5.4-nano"]
    assert completions("eval bench --models", "al") == ["all"]
    assert completions("models serve", "lin") == ["lingshu-32b"]
    assert completions("eval bench --protocol", "oracle") == ["oracle_passed", "oracle_stated"]
    assert completions("estimate bench --protocol", "in") == ["independent"]
    assert completions("generate cases -o bench --recipe", "str") == ["strict"]
    assert completions("export bench --format", "hu") == ["huggingface"]
    assert completions("completion", "") == ["bash", "zsh", "fish"]
    assert completions("nonsense", "x") == []


def test_models_of_a_file_of_one_s_own_are_completed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("models:\n  - {name: my-own, like: lingshu-32b}\n")
    assert completions(f"eval bench --models-file {path} --models", "my") == ["my-own"]
    path.write_text("models: [")
    assert completions(f"eval bench --models-file {path} --models", "lin") == ["lingshu-32b"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_a_shell_name_the_command(cli: Cli, shell: str) -> None:
    code, out, err = cli("completion", shell)
    assert (code, err) == (0, "")
    assert "_CHEXQA_COMPLETE" in out
    assert f"{shell}_complete" in out


def test_bash_takes_the_lines_and_completes_with_them(cli: Cli, tmp_path: Path) -> None:
    """In a real shell, with the command as it is installed."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("the program bash is not installed")
    (tmp_path / "chexqa").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from chexqa.cli.main import main; main()" "$@"\n'
    )
    (tmp_path / "chexqa").chmod(0o755)
    script = (
        f'PATH={shlex.quote(str(tmp_path))}:$PATH; eval "$(chexqa completion bash)"\n'
        "COMP_WORDS=(chexqa gen); COMP_CWORD=1; _chexqa_completion chexqa gen chexqa; echo ${COMPREPLY[@]}\n"
    )
    done = subprocess.run([bash, "--norc", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "generate"


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
        (KeyboardInterrupt(), 3, "run the same command again to continue"),
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


def test_ctrl_c_while_the_command_line_is_imported_ends_as_in_a_command() -> None:
    """Click is the first library that the command line imports."""
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from chexqa.__main__ import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = "stopped: interrupted; run the same command again to continue.\n"
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_UNFINISHED, "", said)


def test_a_closed_pipe_is_no_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, BrokenPipeError())
    assert cli("fail") == (0, "", "")
    with pytest.raises(BrokenPipeError):
        PlainConsole().on_broken_pipe()


def test_the_command_is_a_module_too() -> None:
    done = subprocess.run([sys.executable, "-m", "chexqa", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(__version__)


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


def test_patience_given_at_the_command_line_reaches_the_run(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chexqa.eval.design import subset
    from chexqa.eval.runs import runner

    orders: list[runner.RunConfig] = []
    monkeypatch.setattr(runner, "run", lambda order, watch: orders.append(order) or [])
    args = ("--timeout", "7", "--attempts", "2", "--give-up-after", "3", "--concurrency", "4", "--shard", "2/3")
    code, _, err = cli("eval", tiny_benchmark, "--models", "baseline/first", "-o", tmp_path / "run", *args)
    assert code == 0, err
    (order,) = orders
    assert (order.policy.timeout_s, order.policy.attempts, order.patience.give_up_s) == (7, 2, 180)
    assert (order.concurrency, order.shard) == (4, subset.Shard(2, 3))


def test_an_estimate_takes_the_reply_s_length_and_the_cache_from_the_command_line(
    cli: Cli, tiny_benchmark: Path
) -> None:
    def estimated(*args: str) -> dict[str, float]:
        code, out, err = cli(
            "estimate", tiny_benchmark, "--models", "gpt-5.4", "--protocol", "end_to_end", "--json", *args
        )
        assert code == 0, err
        (row,) = json.loads(out)
        return dict(row)

    plain, short, cached = estimated(), estimated("--reply-tokens", "1"), estimated("--cached")
    assert short["output_tokens"] < plain["output_tokens"] == cached["output_tokens"]
    assert plain["cached_tokens"] == 0 < cached["cached_tokens"]
    assert cached["cost_usd"] < plain["cost_usd"]


WORDING = "name: own\ntemplates: ['{finding}']\nnegatives: []\nfindings: {}\n"
ORIGIN = (
    '{"schema_version": 1, "tool_version": "1", "maker": "m", "family": "m", "domain": null, "weights": null, '
    f'"prompts": {{"name": "p", "hash": "{"0" * 64}"}}, "cases": "c"}}'
)


@pytest.mark.parametrize(
    ("name", "right", "change", "kind", "error"),
    [
        ("parts.yaml", "en:\n  question: 'Parts? {note}'\n", ("note", "nota"), "kind_texts", "{nota} is not a known"),
        ("words.yaml", WORDING, ("{finding}", "{find}"), "map_prompts", "{find} is not a known placeholder"),
        ("maps/maker.json", ORIGIN, ('"cases": "c"', '"cases": 3'), "map_folder", "field 'cases': 3 must be a text"),
    ],
)
def test_validate_knows_what_map_makers_and_plugins_read(
    name: str, right: str, change: tuple[str, str], kind: str, error: str, cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    given = file.parent if file.parent.name == "maps" else file
    file.write_text(right, encoding="utf-8")
    code, out, _ = cli("validate", given)
    assert (code, kind in out) == (0, True)
    file.write_text(right.replace(*change), encoding="utf-8")
    code, out, err = cli("validate", given, "--format", "github")
    assert (code, error in err, out.startswith("::error file=")) == (2, True, True)


def test_validate_tells_github_the_file_and_the_line(cli: Cli, tmp_path: Path) -> None:
    """A workflow command must be one line, in which colons and commas of a name and line feeds are escaped."""
    folder = tmp_path / "a,b"
    folder.mkdir()
    cases = folder / "cases.jsonl"
    cases.write_text('{"case_id": "x", "image": "x.png", "present": 100%}\n', encoding="utf-8")
    code, out, err = cli("validate", cases, "--format", "github")
    assert (code, "cases.jsonl" in err) == (2, True)
    assert out.startswith(f"::error file={tmp_path}/a%2Cb/cases.jsonl,line=1,title=chexqa validate::")
    assert (out.count("\n"), "100%25" in out or "%" not in out.partition("title")[2]) == (1, True)
    code, out, _ = cli("validate", tmp_path / "none", "--format", "github")
    assert (code, out.startswith(f"::error file={tmp_path}/none,title=")) == (2, True)


def test_validate_tells_github_of_ten_wrong_lines_and_counts_the_rest(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    file.write_text('{"item_id": 3}\n' * 12, encoding="utf-8")
    code, out, err = cli("validate", file, "--format", "github")
    lines = out.splitlines()
    assert (code, len(lines), "and 2 more" in err) == (2, 11, True)
    assert [f",line={number}," in line for number, line in enumerate(lines[:10], 1)] == [True] * 10
    assert lines[10].endswith(f"::{file}: 2 more lines are wrong.")


def test_validate_tells_github_of_every_case_that_cannot_be_used(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    write_cases(folder, 1, seed=1, size=256)
    next(folder.rglob("images/*")).write_bytes(b"")
    code, out, err = cli("validate", folder, "--format", "github")
    assert (code, "problem:" in err) == (2, False)
    assert out.startswith(f"::error file={folder}/cases.jsonl,line=1,title=chexqa validate::cases.jsonl, line 1: ")
