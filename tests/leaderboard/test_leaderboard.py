"""A leaderboard from runs and answers sent in, with a withheld key: files, refusals, hostile names, the page."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import playwright_api, serious, tab_in
from handmade import Handmade, six_cases
from logs import log
from prediction_files import right, write

from chexqa.cli import main
from chexqa.cli.validate import validate
from chexqa.contract import benchmark

Cli = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.xdist_group("leaderboard")
NAME = "<img src=x onerror=alert(1)> \u202eevil"


def test_a_benchmark_without_its_key_has_the_hash_and_tells_nothing(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    out = tmp_path / "public"
    assert cli("export", tiny_benchmark, "--no-key", "-o", out)[0] == 0
    whole, public = benchmark.load(tiny_benchmark), benchmark.load(out)
    assert (public.hash, public.items, public.answers) == (whole.hash, whole.items, None)
    assert validate(out).problems == ()
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {name for name in names if not name.startswith("images/")} == {"benchmark.json", "items.jsonl"}
    assert not any(b'"chance"' in (out / name).read_bytes() for name in names)
    for given, said in (([], "add --no-key"), (["--no-key", "--split-key"], "give only one of the two")):
        code, _, err = cli("export", tiny_benchmark, *given, "-o", tmp_path / "other")
        assert (code, said in " ".join(err.split())) == (2, True), err
    assert not (tmp_path / "other").exists()


def test_answers_are_checked_without_the_key(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    rows = right(tiny_benchmark)
    cli("export", tiny_benchmark, "--no-key", "-o", tmp_path / "public")
    whole = write(tmp_path / "whole.jsonl", rows)
    code, out, _ = cli("validate", whole, "--benchmark", tmp_path / "public")
    assert code == 0
    assert f"{len(rows)} of {len(rows)} items" in out
    code, _, err = cli("validate", write(tmp_path / "part.jsonl", rows[:-2]), "--benchmark", tmp_path / "public")
    assert code == 2
    assert "has no line for 2 items, such as" in " ".join(err.split())
    for change, said in (
        ({"item_id": "nothing"}, "line 1: there is no item 'nothing'"),
        ({"answer": [99]}, "line 1: item"),
        ({"item_id": rows[1]["item_id"], "answer": rows[1]["answer"]}, "line 2: line 1 also has"),
    ):
        bad = write(tmp_path / "bad.jsonl", [rows[0] | change, *rows[1:]])
        code, _, err = cli("validate", bad, "--benchmark", tmp_path / "public")
        assert (code, said in " ".join(err.split())) == (2, True), err


def test_answers_of_another_version_are_refused_and_answers_of_no_version_are_noted(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    made_on, rows = benchmark.load(tiny_benchmark).hash, right(tiny_benchmark)
    note = "does not say on which version of the benchmark its answers were made"
    bare = write(tmp_path / "bare.jsonl", rows)
    named = write(tmp_path / "named.jsonl", [row | {"benchmark": made_on[:8]} for row in rows])
    for answers, said in ((bare, True), (named, False)):
        code, _, err = cli("validate", answers, "--benchmark", tiny_benchmark)
        assert (code, note in err, made_on[:16] in err) == (0, said, said)
        code, _, err = cli("leaderboard", "add", tmp_path / "board", answers, "--benchmark", tiny_benchmark)
        assert (code, note in " ".join(err.split())) == (0, said)
    older = write(tmp_path / "older.jsonl", [row | {"benchmark": "0123456789abcdef" * 4} for row in rows])
    code, _, err = cli("leaderboard", "add", tmp_path / "board", older, "--benchmark", tiny_benchmark)
    assert code == 2
    assert f"line 1: made on benchmark 0123456789abcdef, but this is 'handmade' 1 ({made_on[:16]})" in " ".join(
        err.split()
    )
    lost = write(tmp_path / "lost.jsonl", [row | {"item_id": f"x{n}"} for n, row in enumerate(rows)])
    code, _, err = cli("validate", lost, "--benchmark", tiny_benchmark)
    assert code == 2
    first, *others = err.strip().splitlines()
    assert "the file may be for another version of the benchmark" in first
    assert [one.strip() for one in others] == [
        *(f"line {n}: there is no item 'x{n - 1}'" for n in (1, 2, 3)), f"and {len(rows) - 3} more"
    ]  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the fixture ``board`` copies, of a benchmark that equals the fixture ``tiny_benchmark``."""
    home, bench = tmp_path_factory.mktemp("board"), six_cases(Handmade(tmp_path_factory.mktemp("bench")))
    assert main.run(["export", str(bench), "--no-key", "-o", str(home / "public")]) == 0
    run = log(home / "run", home / "public", model=NAME)
    record = (run / "run.json").read_text()
    (run / "run.json").write_text(record.replace("openai/m", "baseline/first"))
    answers = write(home / "best.jsonl", right(bench))
    for given, day, by in ((run, "2026-01-31", "=1+1"), (answers, "2026-02-01", "<b>b</b>")):
        add = ["leaderboard", "add", str(home / "board"), str(given), "--benchmark", str(bench)]
        assert main.run([*add, "--date", day, "--by", by]) == 0
    return home


@pytest.fixture
def board(template: Path, tmp_path: Path) -> Path:
    """A leaderboard with a hostile model that is a baseline's and answers 1 to all, and a file of right answers."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "board"


def test_runs_and_answers_stand_on_one_board_and_tell_no_item(board: Path, tiny_benchmark: Path) -> None:
    entries = json.loads((board / "leaderboard.json").read_text())["entries"]
    assert [(entry["model"], entry["source"], entry["added"]) for entry in entries] == [
        (NAME, "run", "2026-01-31"), ("best", "predictions", "2026-02-01"),
    ]  # fmt: skip
    assert entries[1]["scores"]["mean"]["value"] == 1
    assert entries[0]["scores"]["coarse"]["accuracy"] == 0.6
    assert validate(board).summary == "1 leaderboard file, checked by schema"
    with (board / "leaderboard.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["mean"] for row in rows][1] == "1.0"
    assert rows[0]["by"] == "'=1+1"
    assert [row["simulated"] for row in rows] == ["baseline/first", ""]
    told = "".join(path.read_text() for path in board.glob("*.*"))
    assert not any(item.item_id in told for item in benchmark.load(tiny_benchmark).items)


def test_every_model_of_a_run_keeps_its_sender(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", right(tiny_benchmark))
    write(tmp_path / "b.jsonl", right(tiny_benchmark))
    add = ("leaderboard", "add", tmp_path / "board", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert cli(*add, "--benchmark", tiny_benchmark, "--by", "a lab")[0] == 0
    entries = json.loads((tmp_path / "board" / "leaderboard.json").read_text())["entries"]
    assert [(entry["model"], entry["by"]) for entry in entries] == [("a", "a lab"), ("b", "a lab")]
    assert (tmp_path / "board" / "index.html").read_text().count('data-rank="1"') == 2


def test_what_cannot_be_compared_is_refused_and_changes_nothing(
    cli: Cli, board: Path, tiny_benchmark: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in board.glob("*.*")}
    part = write(tmp_path / "part.jsonl", right(tiny_benchmark)[:-2])
    add = ("leaderboard", "add", board)
    for args, said in (
        (
            (tmp_path / "best.jsonl", "--benchmark", tiny_benchmark),
            "added on 2026-02-01; the leaderboard was not changed",
        ),
        ((part, "--benchmark", tiny_benchmark), "takes complete runs only"),
        ((tmp_path / "best.jsonl", "--benchmark", tmp_path / "public"), "grading needs the key"),
        ((tmp_path / "run", "--benchmark", tiny_benchmark, "--date", "2026-2-30"), "is not a date"),
    ):
        code, _, err = cli(*add, *args)
        assert (code, said in " ".join(err.split())) == (2, True), err
    assert {path.name: path.read_bytes() for path in board.glob("*.*")} == before
    for place, said in ((part, "is a file"), (part / "board", "cannot be written")):
        code, _, err = cli("leaderboard", "add", place, tmp_path / "run", "--benchmark", tiny_benchmark)
        assert (code, said in " ".join(err.split())) == (2, True), err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    code, _, err = cli("leaderboard", "add", tmp_path / "mine", tmp_path / "run", "--benchmark", tiny_benchmark)
    assert (code, "is not from a leaderboard" in " ".join(err.split())) == (2, True), err
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"


def test_an_entry_added_by_mistake_is_removed_and_others_stay(cli: Cli, board: Path) -> None:
    before = {path.name: path.read_bytes() for path in board.glob("*.*")}
    for args, said in (
        ((board, "bets"), "has no entry of bets; its models are"),
        ((board, "best", "--date", "2026-01-31"), "has no entry of best, 2026-01-31"),
        ((board, "best", "--date", "yesterday"), "is not a date"),
        ((board / "none", "best"), "is not a leaderboard"),
    ):
        code, _, err = cli("leaderboard", "remove", *args)
        assert (code, said in " ".join(err.split())) == (2, True), err
    assert {path.name: path.read_bytes() for path in board.glob("*.*")} == before
    assert not (board / "none").exists()
    code, out, err = cli("leaderboard", "remove", board, NAME)
    assert code == 0, err
    assert "added on 2026-01-31" in out
    (entry,) = json.loads((board / "leaderboard.json").read_text())["entries"]
    assert entry["model"] == "best"
    assert "evil" not in "".join(path.read_text() for path in board.glob("*.*"))
    code, _, err = cli("leaderboard", "remove", board, "best")
    assert (code, "is the leaderboard's only one; remove the whole folder" in " ".join(err.split())) == (2, True), err


def test_one_of_several_entries_is_removed_by_its_id(cli: Cli, board: Path, tiny_benchmark: Path) -> None:
    rows = right(tiny_benchmark)
    add = ("leaderboard", "add", board, "--benchmark", tiny_benchmark, "--date", "2026-02-01")
    for number in (1, 2):
        again = write(board.parent / "best.jsonl", [*rows[:-number], *(row | {"answer": []} for row in rows[-number:])])
        code, out, err = cli(*add, again)
        assert (code, "exactly these answers" in err) == (0, False)
    last = out.partition("(predictions, id ")[2][:8]
    code, _, err = cli("leaderboard", "remove", board, "best", "--date", "2026-02-01")
    assert code == 2
    said = " ".join(err.split())
    assert "has 3 entries of best, 2026-02-01" in said
    assert f"{last}: predictions of 2026-02-01); choose one with --id." in said
    assert cli("leaderboard", "remove", board, "best", "--id", last)[0] == 0
    entries = json.loads((board / "leaderboard.json").read_text())["entries"]
    assert len([entry for entry in entries if entry["model"] == "best"]) == 2
    with (board / "leaderboard.csv").open(newline="") as file:
        assert last not in {row["id"] for row in csv.DictReader(file)}


def test_answers_of_another_name_are_noted(cli: Cli, board: Path, tiny_benchmark: Path, tmp_path: Path) -> None:
    copy = write(tmp_path / "copy.jsonl", right(tiny_benchmark))
    code, _, err = cli("leaderboard", "add", board, copy, "--benchmark", tiny_benchmark)
    assert code == 0
    said = "'copy' (predictions): exactly these answers are also those of 'best' (predictions), added on 2026-02-01"
    assert said in " ".join(err.split())


def test_the_page_ranks_sorts_and_keeps_names_as_text(board: Path, chromium: str) -> None:
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with tab_in(browser.new_context(viewport={"width": 400, "height": 800})) as tab:
            page = tab.page
            page.goto((board / "index.html").as_uri())
            names = page.locator("[data-row] th")
            hostile = "<img src=x onerror=alert(1)> \ufffdevil simulated: answers of baseline/first"
            assert names.all_inner_texts() == ["best", hostile]
            assert page.locator("[data-row] td:first-child").all_inner_texts() == ["1", "2"]
            page.get_by_role("button", name="grid").click()
            assert page.locator("th[aria-sort]").inner_text().startswith("grid")
            assert names.all_inner_texts()[0] == "best"
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            for cell in page.locator("[data-row] td.number").all():
                box = cell.bounding_box()
                assert box is None or box["x"] + box["width"] <= 400, "every score is in the window"
            assert serious(page) == []
            assert page.locator("th [data-sort]").first.inner_text() == "mean", "the order's score comes first"
            page.emulate_media(forced_colors="active")
            value, bar = page.evaluate("""() => [".bar .value", ".bar"].map((name) =>
              getComputedStyle(document.querySelector(name)).backgroundColor)""")
            assert value != bar, "forced colours keep the bars"
            page.emulate_media(forced_colors="none")
            page.set_viewport_size({"width": 1280, "height": 800})
            assert page.locator(".scroll").evaluate("node => node.scrollWidth - node.clientWidth") == 0
            assert page.get_by_text("predictions, not checked").count() == 1
            assert page.locator("td small", has_text="no interval").count() > 0
            below = page.locator("[data-value^='-'] .bar").first
            ends = below.evaluate("""bar => ["value", "zero"].map((name) => {
              const box = bar.querySelector("." + name).getBoundingClientRect(); return [box.left, box.right]; })""")
            assert ends[0][1] - ends[0][0] > 1, "a negative score has a bar"
            assert abs(ends[0][1] - ends[1][0]) < 1, "which ends at 0"
            page.emulate_media(media="print")
            page.set_viewport_size({"width": 1032, "height": 720})
            assert page.locator("table").first.evaluate("node => node.getBoundingClientRect().right") <= 1032
            assert tab.complaints == []
            assert len(tab.requests) == 1
        browser.close()
