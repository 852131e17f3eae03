"""Names and errors of strangers are shown, never obeyed: by a terminal, Markdown, LaTeX, a spreadsheet or the page."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from handmade import Handmade
from hypothesis import given, settings
from hypothesis import strategies as st
from modules import FILES
from rich.table import Table
from rich.text import Text
from small_server import recorder

from chexqa.cli.main import run
from chexqa.contract.benchmark import load
from chexqa.eval.report import build, plot_style
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.eval.tables import numbers_markdown_latex as formats
from chexqa.eval.tables.all_tables import Group, all_tables
from chexqa.files import say as speech
from chexqa.files import text
from chexqa.files.terminal import PlainConsole, console, messages
from chexqa.generators.audit import card
from chexqa.review.resolve import changelog

Cli = Callable[..., tuple[int, str, str]]
# Colours, a link, a title, a bell, a backspace, a return, C1's CSI, an override, an invisible, and much markup.
EVIL = (
    "\x1b[31m\x1b]8;;http://evil.example\x07x\x1b]8;;\x1b\\\x1b]0;t\x07\x08\r\x9b2J\u202egnp\u2066\u200b\x7f[red]é中"
    "<img src=http://evil.example/x>|[a](http://evil.example)`$x$&amp;![i](http://evil.example/i)</td>\\"
)
SHOWN = "é中"  # letters that must stay
OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
MARKS = st.sampled_from(
    "\x00\x07\x08\r\x1b\x7f\x85\x9b\x9d\u061c\u200b\u200f\u202e\u2066\ufeff\ud800\U000e0041"
    "\n\t <>|[]()!`$&*_#~@:/\\{}^%=+-aé中.w"
)
STRANGE = st.text(st.one_of(MARKS, st.characters()), max_size=30)


def is_harmless(printed: str) -> bool:
    return OBEYED.search(printed) is None


PRINTERS = (
    "print", "input", "Console", "rich.print", "Text.from_markup", "Text.from_ansi", "logging.basicConfig",
    "logging.StreamHandler", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "click.echo",
    "click.secho", "click.echo_via_pager", "click.prompt", "click.confirm", "click.progressbar", "click.pause",
)  # fmt: skip


def odd_parts(path: Path) -> list[str]:
    """Where a module prints by itself; to name a console's type is no printing."""
    found = []
    nodes = list(ast.walk(ast.parse(path.read_text())))
    makes_console = any(isinstance(node, ast.Call) and name_of(node.func) == "Console" for node in nodes)
    for node in nodes:
        name = name_of(node)
        if name in PRINTERS and (name != "Console" or makes_console):
            found.append(f"line {getattr(node, 'lineno', 0)}: {name}")
        if isinstance(node, ast.keyword) and node.arg == "markup":
            found.append("markup")
    return found


def name_of(node: ast.AST) -> str:
    """``print`` or ``click.echo``, of what is so written."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_nothing_is_printed_but_by_the_two_modules_that_make_it_harmless() -> None:
    odd = {name: found for name, path in FILES.items() if (found := odd_parts(path))}
    # Two modules redirect a stream, so that prints of a user's Python function do not mix with the command's results.
    # The third prints one line if the user interrupts while the command line is imported.
    redirected = {"chexqa.eval.cli.eval": ["sys.stderr"], "chexqa.eval.local.worker": ["sys.stdout"],
                  "chexqa.__main__": ["sys.stderr"]}  # fmt: skip
    assert {name: [part.partition(": ")[2] for part in odd.pop(name, [])] for name in redirected} == redirected
    assert set(odd) == {"chexqa.files.say", "chexqa.files.terminal"}, odd


@settings(max_examples=50, deadline=None)
@given(STRANGE)
def test_text_is_shown_and_json_says_the_same(strange: str) -> None:
    assert is_harmless(text.shown(strange))
    assert [one for one in text.shown(strange) if one.isalpha()] == [one for one in strange if one.isalpha()]
    assert text.shown("a\tb\nc") == "a\tb\nc"
    for made in (json.dumps({strange: [strange]}, ensure_ascii=False), json.dumps([strange], indent=2)):
        printed = text.json_shown(made)
        assert is_harmless(printed)
        assert json.loads(printed) == json.loads(made)


@settings(max_examples=50, deadline=None)
@given(STRANGE)
def test_consoles_show_text_in_every_shape(strange: str) -> None:
    made = PlainConsole(file=io.StringIO(), width=60, force_terminal=True, color_system=None)
    table = Table(title=strange, caption=strange)
    table.add_column(strange)
    table.add_row(strange)
    table.add_row(Text(strange))
    for what in (strange, Text(strange), table, [strange]):
        made.print(what)
        made.print(what, soft_wrap=True, style="red")
    made.rule(Text(strange))
    assert isinstance(made.file, io.StringIO)
    assert is_harmless(made.file.getvalue())


@pytest.mark.parametrize("strange", [EVIL, "\ud83d \udcff", "[/]", "[link=http://evil.example]x[/link]", ":smile:"])
def test_lines_are_shown(capsys: pytest.CaptureFixture[str], strange: str) -> None:
    speech.say(strange)
    speech.say(strange, err=True, bold=True)
    speech.say_json(json.dumps(strange, ensure_ascii=False))
    console().print(strange, soft_wrap=True)
    messages().print(Text(strange), soft_wrap=True)
    out, err = capsys.readouterr()
    assert is_harmless(out + err)
    assert text.shown(strange) in out
    assert strange[:1] != ":" or ":smile:" in err


def test_what_libraries_warn_of_and_log_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "showwarning", None)
    monkeypatch.setattr(logging, "lastResort", None)
    monkeypatch.setattr(sys, "excepthook", None)
    speech.guard()
    warnings.showwarning(UserWarning(EVIL), UserWarning, "x", 1)
    assert logging.lastResort is not None
    logging.lastResort.handle(logging.LogRecord("x", logging.WARNING, "x", 1, EVIL, (), None))
    sys.excepthook(ValueError, ValueError(EVIL), None)
    assert not logging.getLogger("matplotlib").isEnabledFor(logging.WARNING), "a home folder that cannot be written"
    err = capsys.readouterr().err
    assert is_harmless(err)
    assert err.count(SHOWN) == 3


class Tags(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert [name for name, _ in attrs if name != "style"] == []

    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(page: str) -> Tags:
    library = pytest.importorskip("markdown", reason="the Markdown library is not installed")
    return Tags(library.markdown(page, extensions=["tables", "fenced_code"]))


TABLE = {"table", "thead", "tbody", "tr", "th", "td"}


@settings(max_examples=50, deadline=None)
@given(STRANGE)
def test_markdown_shows_a_name_as_it_is(strange: str) -> None:
    made = text.markdown(strange)
    page = rendered(f"**x {made}**\n\n| {made} | b |\n|---|---|\n| c | {made} |\n")
    assert page.tags <= TABLE | {"p", "strong"}
    assert page.tags >= TABLE
    assert "\n" not in made
    assert " ".join(page.text.split()).count(" ".join(text.shown(strange).split())) >= 1
    assert not re.search(r"https?://|www\.", made)


@settings(max_examples=50, deadline=None)
@given(STRANGE)
def test_latex_prints_a_name_as_it_is(strange: str) -> None:
    made = text.latex(strange)
    assert is_harmless(made)
    rest = re.sub(
        r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar)\{\}|\\[&%$#_{}]", "", made
    )
    assert not set(rest) & set("\\&%$#_{}~^<>|\n")


def test_no_row_of_latex_is_an_argument_of_the_row_above() -> None:
    frame = pl.DataFrame({"model": ["[a]", "*b", "c"], "protocol": ["p"] * 3, "rule": ["r"] * 3, "asked": [1] * 3})
    rows = formats.latex("contradictions", frame, None).splitlines()
    assert [row for row in rows if row.startswith(("{}[a]", "{}*b", "c &"))] == rows[9:12]


@pytest.fixture
def evil_bench(handmade: Handmade) -> Path:
    """A benchmark whose every free word is strange."""
    handmade.case(f"a{EVIL}", "effusion", "lesion_free", detection=(2,), grid=(1,), patient=EVIL, measures={EVIL: EVIL})
    handmade.case(f"b{EVIL}", "edema", "revision_required", distribution=(2,), grid=(5,))
    return handmade.write()


def evil_run(bench: Path, folder: Path) -> Path:
    """A run of a model with a strange name, whose replies and errors are strange."""
    code = run(["eval", str(bench), "--models", "baseline/first", "-o", str(folder)])
    assert code == 0
    about = json.loads((folder / "run.json").read_text())
    about["models"] = {EVIL: about["models"]["baseline/first"] | {"litellm": EVIL, "decoding": {EVIL: EVIL}}}
    about["benchmark"]["name"] = EVIL
    (folder / "run.json").write_text(json.dumps(about))
    (log,) = (folder / "turns").glob("*.jsonl")
    turns = [json.loads(line) for line in log.read_text().splitlines()]
    changed = [turn | {"model": EVIL, "raw": EVIL, "provider_model": EVIL, "error": EVIL} for turn in turns]
    log.write_text("".join(json.dumps(turn) + "\n" for turn in changed))
    return folder


def test_no_command_lets_a_stranger_s_text_act(
    cli: Cli, evil_bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evil_run(evil_bench, tmp_path / "run")
    broken = tmp_path / f"broken {EVIL.replace('/', '')}"
    shutil.copytree(evil_bench, broken)
    items = (broken / "items.jsonl").read_text().splitlines()
    (broken / "items.jsonl").write_text("\n".join([*items[1:], json.dumps({EVIL: EVIL}, ensure_ascii=False)]))
    answers = tmp_path / "said.jsonl"
    answers.write_text(json.dumps({"item_id": EVIL, "text": EVIL, "model": EVIL}, ensure_ascii=False) + "\n")
    models = tmp_path / "models.yaml"
    models.write_text(json.dumps({"models": [{"name": EVIL, "like": EVIL}]}))
    monkeypatch.chdir(tmp_path)
    for args, codes in (
        (["grade", one], {0}),
        (["grade", one, "--json"], {0}),
        (["compare", one, one], {0}),
        (["compare", one, one, "--json"], {0}),
        (["run", "status", one], {0}),
        (["run", "status", one, "--json"], {0}),
        (["grade", answers, "--benchmark", evil_bench], {2}),
        (["validate", evil_bench], {0}),
        (["validate", broken], {2}),
        (["validate", answers], {0, 2}),
        (["show", evil_bench, f"a{EVIL}", "-o", "sheet.png"], {0}),
        (["show", broken, "x"], {2}),
        (["models", "--models-file", models], {2}),
        (["eval", evil_bench, "--models", EVIL, "-o", tmp_path / "r"], {2}),
        (["review", "export", evil_bench, "-o", tmp_path / "s", "--reviewers", EVIL], {2}),
        (["review", "export", evil_bench, "-o", tmp_path / "s", "--reviewers", "anna"], {0}),
        (["review", "status", tmp_path / "s"], {0}),
        ([EVIL], {2}),
        (["grade", "--" + EVIL], {2}),
        (["grade", EVIL], {2}),
    ):
        code, out, err = cli(*args)
        assert is_harmless(out + err), args
        assert code in codes, (args, out, err)
        assert "internal error" not in err
        if "--json" in args:
            assert json.dumps(EVIL)[1:-1] in json.dumps(json.loads(out))


def test_a_server_s_error_is_shown(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    with recorder({"error": {"message": EVIL, "type": EVIL}}, 400, "\x1b[31mno") as (url, _):
        asked = ["eval", tiny_benchmark, "--model-id", "m", "--api-base", url, "--limit", "1", "--attempts", "1"]
        code, out, err = cli(*asked, "-o", tmp_path / "run")
    assert code == 3
    assert SHOWN in out
    assert is_harmless(out + err)


def test_a_report_shows_names(evil_bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graded = grade.grade_folders([evil_run(evil_bench, tmp_path / "run")])
    frames = all_tables(graded)
    for name in ("states", "levels", "kinds", "positions"):
        page = rendered(formats.markdown(name, frames[name], EVIL))
        assert page.tags <= TABLE | {"p", "strong"}
        assert "<img src=" in page.text
        assert is_harmless(csv_bytes(frames[name], EVIL).decode())
    monkeypatch.setattr(plot_style, "png_file", lambda figure: b"")  # which takes time, and holds no text
    files = dict(build.files(Group(1, 1, graded)))
    for name, data in files.items():
        if name.endswith((".html", ".svg", ".js")):
            assert is_harmless(data.decode().replace("\r\n", "\n")), name
    html = files["index.html"].decode()
    assert SHOWN in html
    assert "<img src=http" not in html


def test_cards_show_names(evil_bench: Path, tmp_path: Path) -> None:
    about = load(evil_bench).about | {"name": EVIL, "version": EVIL, "canary": EVIL}
    (tmp_path / "CHANGES.md").write_text(f"## Changes\n\n{EVIL}\n\n[a]: http://evil.example\n\n[a]\n")
    (changes,) = card._changes(tmp_path)
    cells = card._table([EVIL, EVIL], [[EVIL, 1]])
    for page in (changelog.card(about, ""), changes, cells):
        made = rendered(page)
        assert not made.tags & {"img", "a", "script"}
        assert SHOWN in made.text
        assert is_harmless(page)


def test_a_usage_error_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "x", f"--{EVIL}"]) == 2
    err = capsys.readouterr().err
    assert is_harmless(err)
    assert "Usage:" in err


def test_a_notebook_which_shows_colours_gets_plain_lines_without_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *stream: False)
    speech.say("a line", err=True)
    assert capsys.readouterr().err == "a line\n"
