"""The commands grade and report: tables on the terminal and as files, and what they refuse."""

import csv
import html
import io
import json
import multiprocessing
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest
from logs import log
from pages import DOCS
from rest_long import rest_long
from rich.console import Console
from rich.table import Table

import chexqa
from chexqa.cli.main import app
from chexqa.cli.validate import validate
from chexqa.contract.benchmark import thumb_path
from chexqa.eval.gallery import files as gallery
from chexqa.eval.report import display_all, display_notes, plot_style, plots, scatter_plots, write
from chexqa.eval.report.display_notes import plain_table, print_table
from chexqa.eval.scoring import grade, intervals
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.eval.tables import numbers_markdown_latex as formats
from chexqa.eval.tables.all_tables import all_tables, groups
from chexqa.eval.tables.glossary import GRADES, TABLES, meaning
from chexqa.files.errors import InputError, UnfinishedError
from chexqa.files.terminal import PHANTOM_NOTICE, Name
from chexqa.files.workers import Background

Cli = Callable[..., tuple[int, str, str]]
FORMS = ("csv", "parquet", "md", "tex")

# Tables of a benchmark that asks for no places and has no altered pictures.
NO_PLACES = [
    name
    for name in TABLES
    if name
    not in (
        "places",
        "place_frames",
        "where",
        "grounding",
        "grounding_findings",
        "not_audited",
        "stress",
        "stress_curve",
    )
]


@pytest.fixture
def phantom_run(tiny_benchmark: Path, tmp_path: Path) -> Path:
    return log(tmp_path / "run", tiny_benchmark)


@pytest.fixture
def real_run(handmade: Any, tmp_path: Path) -> Path:
    handmade.case("a", "effusion", "revision_required", grid=(1, 2))
    return log(tmp_path / "real-run", handmade.write("real"))


@pytest.mark.parametrize("width", [80, 120])
def test_levels_stand_beside_the_grid_within_the_terminal_s_width(
    cli: Cli, phantom_run: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = cli("grade", phantom_run, "--table", "headline", "--table", "accuracy")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= width
    head = next(line for line in out.splitlines() if line.startswith("model"))
    assert head.split() == ["model", "coarse", "fine", "semantic", "mean", "grid"]
    headline, accuracy = [line.split() for line in out.splitlines() if line.startswith("m ")][:2]
    assert (headline[1], accuracy[1]) == ("0.0", "60.0")
    assert (
        len(re.findall(r"^No intervals are shown: they need 10 patients, and there are only 6\.$", out, re.MULTILINE))
        == 1
    )


@pytest.mark.parametrize(("of_one", "said"), [(9, None), (11, "4 of 40 patients have 55 % of the answers")])
def test_a_tenth_of_the_patients_with_most_of_the_answers_is_named(of_one: int, said: str | None) -> None:
    patients = [f"p{number}" for number in range(40) for _ in range(of_one if number < 4 else 1)]
    grades = pl.DataFrame({"patient_id": patients, "study_id": None, "picture": patients})
    found = display_notes.few_patients(grades)
    assert found is None if said is None else found is not None and found.startswith(said)


def test_a_model_s_name_is_broken_between_its_words_alone() -> None:
    out = Console(width=20, record=True, file=io.StringIO())
    for name in ("baseline/blind-prior", "  answered", "first\n  and gemini-3.1", "[red]", "wordwithoutanend"):
        table = Table(box=None, padding=0, show_header=False)
        table.add_column(width=11, overflow="fold")
        table.add_row(Name(name))
        out.print(table)
    assert [line.rstrip() for line in out.export_text().splitlines()] == [
        "baseline/", "blind-prior", "  answered", "first", "  and", "gemini-3.1", "[red]", "wordwithout", "anend",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 200])
def test_a_name_stays_whole_and_a_wide_table_is_printed_in_parts(width: int) -> None:
    out = Console(width=width, file=io.StringIO(), record=True)
    table = plain_table("Kinds", "model", [f"kind-\n{number}" for number in range(10)], "the note")
    for name in ("qwen3-vl-235b-thinking", "gpt-5.4"):
        table.add_row(Name(name), *(f"{number}.0\n71-100" for number in range(10)))
    print_table(table, out)
    lines = out.export_text().splitlines()
    assert max(map(len, lines)) <= width
    shown = [line for line in lines if line.startswith("qwen3-vl-235b-thinking ")]
    assert [cell for line in shown for cell in line.split()[1:]] == [f"{number}.0" for number in range(10)]
    assert len(shown) == (2 if width == 80 else 1)
    assert " ".join(lines).count("the note") == 1


def test_a_wide_column_of_a_table_is_whole_and_leaves_the_others_together() -> None:
    table, text = plain_table("Limits", "model", ["a", "b", "c", "d", "reads", "e"]), "y" * 48
    table.add_row("model " * 5, *"1234", text, "5")
    out = Console(file=io.StringIO(), width=70, color_system=None)
    print_table(table, out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert text in shown
    assert len(re.findall("^model  +(?:a|reads|e)", shown, re.MULTILINE)) == 3, "a to d, reads, and e"
    assert max(map(len, shown.splitlines())) <= 70


def test_the_headline_comes_first_and_names_the_other_tables(cli: Cli, phantom_run: Path) -> None:
    out = cli("grade", phantom_run)[1]
    assert "Headline" in out
    assert "Depth:" not in out
    more = " ".join(out[out.index("More tables") :].split())
    names = [name for line in re.findall(r": ([a-z_, ]+)\.", more) for name in line.split(", ")]
    assert names[:3] == ["accuracy", "drops", "states"]
    assert {"costs", "facts", "answers_by_key"} < set(names)
    (group,) = groups(grade.grade_folders([phantom_run]))
    for name in names:
        terminal = Console(width=80, file=io.StringIO(), record=True)
        display_all.show(group, terminal, (name,))
        shown = terminal.export_text()
        assert "Headline" not in shown
        assert len(shown.splitlines()) > 6, name
    code, shown, _ = cli("grade", phantom_run, "--table", names[0])
    assert (code, "Headline" in shown, "Accuracy" in shown) == (0, False, True)
    code, _, err = cli("grade", phantom_run, "--table", "nothing")
    assert code == 2
    assert "'nothing' is not one of 'headline'" in " ".join(err.split())


def test_every_table_of_the_page_on_reports_can_be_printed(cli: Cli, phantom_run: Path) -> None:
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    named = {name for inside in re.findall(r"\*\* \((`[^)]*`)\)", text) for name in re.findall(r"`(\w+)`", inside)}
    assert {"levels", "states", "costs", "published"} < named
    code, out, _ = cli("grade", phantom_run, "--table", ",".join(sorted(named)))
    assert code == 0
    assert "Cost in dollars, tokens of a reply, and seconds to a reply" in out
    assert "Table 'published': these runs have no rows for it; it needs a benchmark of real radiographs" in out


def test_models_that_finished_different_items_are_said_to(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    runs = [log(tmp_path / "a", tiny_benchmark, "a"), log(tmp_path / "b", tiny_benchmark, "b", skip=1)]
    whole, partial = (" ".join(cli("grade", *runs, *more)[1].split()) for more in ((), ("--allow-partial",)))
    assert re.search(r"Models finished different items \((\d+) items for a; \d+ items for b\), so their", partial)
    assert "different items" not in whole


def test_a_table_without_rows_says_what_fills_it(phantom_run: Path) -> None:
    (group,) = groups(grade.grade_folders([phantom_run]))
    terminal = Console(width=80, file=io.StringIO(), record=True)
    display_all.show(group, terminal, display_all.NAMES)
    lines = [line for line in terminal.export_text().splitlines() if "have no rows" in line]
    assert len(lines) > 10
    assert [line for line in lines if "; it needs " not in line] == []
    assert set(display_notes.NEEDS) <= {*display_all.NAMES}
    commands = (app.get_command(click.Context(app), name) for name in ("generate", "eval", "grade"))
    known = {option for command in commands if command for one in command.params for option in one.opts}
    assert set(re.findall(r"--[a-z-]+", " ".join(display_notes.NEEDS.values()))) <= known


@pytest.mark.long
def test_every_table_and_file_of_phantoms_says_so(cli: Cli, phantom_run: Path, tmp_path: Path) -> None:
    out = cli("grade", phantom_run)[1]
    assert out.count(PHANTOM_NOTICE.capitalize()) == 1
    code, said, _ = cli("report", phantom_run, "-o", tmp_path / "report")
    assert code == 0
    assert PHANTOM_NOTICE in said
    written = [path for path in (tmp_path / "report").rglob("*") if path.is_file()]
    names = {path.relative_to(tmp_path / "report").as_posix() for path in written}
    assert validate(tmp_path / "report").summary == "1 report file, checked by schema"
    assert names >= {
        "report.json",
        "grades.parquet",
        *(f"tables/{name}.{form}" for name in NO_PLACES for form in FORMS),
    }
    for path in written:
        if path.suffix == ".parquet":
            assert pl.read_parquet_metadata(path)["notice"] == PHANTOM_NOTICE
        elif path.suffix in (".csv", ".md", ".tex", ".json") and path.stem not in EMPTY:
            assert PHANTOM_NOTICE in path.read_text(), path.name
    assert json.loads(cli("grade", "--json", phantom_run)[1])["notice"] == PHANTOM_NOTICE


def test_ids_and_addresses_lie_only_in_the_files_that_the_report_names(
    cli: Cli, real_run: Path, tmp_path: Path, quick: None
) -> None:
    run = json.loads((real_run / "run.json").read_text())
    for model in run["models"].values():
        model["api_base"] = "http://10.1.2.3:8000/v1"
    (real_run / "run.json").write_text(json.dumps(run))
    code, said, _ = cli("report", real_run, "-o", tmp_path / "report")
    assert (code, "To publish: index.html, plots and tables. " in said) == (0, True)
    private = set()
    for path in (tmp_path / "report").rglob("*"):
        if path.suffix == ".parquet":
            text = pl.read_parquet(path).write_json()
        elif path.is_file() and path.suffix != ".png":
            text = path.read_text()
        else:
            continue
        if any(word in text for word in ("patient-a", "10.1.2.3", str(tmp_path))):
            private.add(path.name)
    assert private == {"grades.parquet", "report.json", "reporting.md", "reporting.csv"}


# Tables that one finished model and plain runs leave without a row: a CSV of none has no cell to say it in.
EMPTY = {
    "confidence",
    "confidence_bins",
    "confidence_curve",
    "abstention",
    "plan",
    "pairs",
    "differences",
    "contrast",
    "protocols",
    "rankings",
    "contested",
    "without_radiograph",
    "rotations",
    "agreement",
    "published",
    "subgroups",
    "decided",
    "random_readers",
    "powered",
    "second_reader",
}


def test_grade_writes_grades_and_tables_where_told(cli: Cli, phantom_run: Path, tmp_path: Path) -> None:
    code, out, _ = cli("grade", phantom_run, "--out", tmp_path / "grades")
    assert code == 0
    assert "wrote" in out
    grades = pl.read_parquet(tmp_path / "grades" / "grades.parquet")
    assert grades.columns == list(grade.COLUMNS)
    assert json.loads(grades["evidence"][0]) == {}
    levels = pl.read_csv(tmp_path / "grades" / "tables" / "levels.csv")
    assert levels["level"].to_list() == ["coarse", "fine", "semantic", "mean of levels"]
    assert json.loads((tmp_path / "grades" / "report.json").read_text())["statistics"]["clusters"] == "patients"


def test_every_column_of_every_table_is_explained(phantom_run: Path) -> None:
    frames = all_tables(grade.grade_folders([phantom_run]))
    assert list(frames) == NO_PLACES
    for frame in frames.values():
        for column in frame.columns:
            assert meaning(column)


def test_every_column_of_the_rows_is_explained() -> None:
    assert list(GRADES) == list(grade.COLUMNS)


def test_paper_forms_print_intervals_and_escape_names(
    tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "LEAST_CLUSTERS", 4)
    run = log(tmp_path / "run", tiny_benchmark, model="a_b|c$&\\x")
    frames = all_tables(grade.grade_folders([run]))
    text = formats.latex("levels", frames["levels"], PHANTOM_NOTICE)
    for shown in ("0.0 & ", "60.0 ["):  # corrected, where findings lack a class or a second patient; and accuracy
        assert r"a\_b\textbar{}c\$\&\textbackslash{}x & " + shown in text
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 3  # accuracy, and twice corrected
    assert "a\\_b\\|c&#36;&amp;\\\\x" in formats.markdown("levels", frames["levels"], None)
    assert "chance & 50.0" in text


def test_published_rows_stand_beside_real_radiographs(cli: Cli, real_run: Path) -> None:
    out = cli("grade", real_run, "--table", "grid")[1]
    assert PHANTOM_NOTICE not in out
    assert "† Published: hit rate" in " ".join(out.split())
    shown = {
        line.split(" †")[0]: line.split()[-1]
        for line in out.splitlines()
        if " † " in line and line.rstrip()[-1].isdigit()
    }
    assert shown == {
        "GPT-5": "49.7",
        "GPT-4": "39.1",
        "MedGemma": "17.7",
        "CNN (Grad-CAM)": "59.9",
        "radiologists": "80.1",
    }
    rows = json.loads(cli("grade", "--json", real_run)[1])["published"]
    assert sorted(row["value"] for row in rows) == [0.177, 0.391, 0.497, 0.599, 0.801]
    assert {row["sample"] for row in rows} == {"CheXlocalize"}


def test_published_rows_never_stand_beside_phantoms(cli: Cli, phantom_run: Path) -> None:
    assert "published" not in cli("grade", phantom_run, "--table", "all")[1].lower()
    assert json.loads(cli("grade", "--json", phantom_run)[1])["published"] == []


def test_an_unfinished_model_shows_a_dash_and_the_count(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    code, out, _ = cli("grade", log(tmp_path / "run", tiny_benchmark, skip=2))
    assert code == 0
    assert next(line for line in out.splitlines() if line.startswith("m ")).split() == ["m", "–", "–", "–", "–", "–"]
    assert "m: 2 of" in out
    assert "2 not asked" in out


def test_a_report_of_an_unfinished_run_says_so(cli: Cli, tiny_benchmark: Path, tmp_path: Path, quick: None) -> None:
    out = cli("report", log(tmp_path / "run", tiny_benchmark, skip=2), "-o", tmp_path / "report")[1]
    (line,) = [line for line in out.splitlines() if line.startswith("m: 2 of ")]
    assert "(0 in error, 2 not asked), so it has no accuracy" in line
    assert (
        f'<p class="notice">{html.escape(line, quote=False).replace(chr(39), "&#39;")}</p>'
        in (tmp_path / "report" / "index.html").read_text()
    )


def test_the_answered_share_stands_beside_the_headline(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that refuses every question answers nothing, and its omissions as guesses score 0.

    One of its questions was too long, which is no answer either.
    """
    monkeypatch.setenv("COLUMNS", "120")
    path = log(tmp_path / "run", tiny_benchmark) / "turns" / "m.jsonl"
    refused = path.read_text().replace('"state": "answered", "parsed": [1]', '"state": "refused", "parsed": null')
    path.write_text(refused.replace('"refused"', '"overflow"', 1))
    out = cli("grade", tmp_path / "run", "--table", "all")[1]
    headline = out[out.index("Headline") : out.index("Accuracy (percent)")]
    found = {line.split()[0]: line.split()[1:] for line in headline.splitlines() if line.startswith(("  a", "  g"))}
    assert found["answered"] == ["0.0"] * 5
    assert re.search(r"m: no readable answer to (\d+) of \1 questions\.", out)
    assert found["guessed"][1:] == ["0.0"] * 3 + ["–"]
    other = log(tmp_path / "other", tiny_benchmark, model="n")
    whole = cli("grade", other)[1]
    assert "  answered" not in whole, "all were answered"
    assert "no readable answer" not in whole
    lines = cli("grade", tmp_path / "run", other, "--table", "headline")[1].splitlines()
    lettered = {line[0] for line in lines if re.match(r"[mn] .*\d [ab]\b", line)}
    assert lettered == {"n"}
    levels = all_tables(grade.grade_folders([tmp_path / "run"]))["levels"]
    assert formats.markdown("levels", levels, None).count("| answered |") == 3


def test_names_of_models_are_text_and_never_markup(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    out = cli("grade", log(tmp_path / "run", tiny_benchmark, model="[red]x[/red]"))[1]
    assert "[red]x[/red]" in out


def test_protocols_of_one_benchmark_stand_under_one_another(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    first = log(tmp_path / "one", tiny_benchmark)
    second = log(tmp_path / "two", tiny_benchmark, protocol="oracle_passed")
    out = cli("grade", first, second, "--table", "all")[1]
    assert out.index("protocol end_to_end") < out.index("protocol oracle_passed")
    assert "after right answers" in " ".join(out.split())


def test_models_stand_before_baselines_whatever_the_order_of_their_runs(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    runs = [
        log(tmp_path / "one", tiny_benchmark, model="baseline/first"),
        log(tmp_path / "two", tiny_benchmark, model="baseline/first", protocol="independent"),
        log(tmp_path / "three", tiny_benchmark, protocol="independent"),
    ]
    out = cli("grade", *runs, "--table", "states")[1]
    assert out.index("protocol independent") < out.index("protocol end_to_end")
    rows = [line.split()[0] for line in out.splitlines() if line.startswith(("m ", "baseline/first "))]
    assert rows == ["m", "baseline/first", "baseline/first"]


def test_hostile_text_is_data_in_a_spreadsheet(tiny_benchmark: Path, tmp_path: Path, quick: None) -> None:
    texts = ["=1+1", "+1", "-1", "@cmd", "\t=1", "  =1", "＝1"]
    runs = [
        log(tmp_path / f"run-{number}", tiny_benchmark, model=text, raw=text + "\x00\x1b[31m")
        for number, text in enumerate(texts)
    ]
    write.write(groups(grade.grade_folders(runs)), tmp_path / "report")
    for name in ("levels", "kinds", "states", "grid"):
        with (tmp_path / "report" / "tables" / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["model"] for row in rows} == {f"'{text}" for text in texts}, name
        assert not {sign for row in rows for sign in "".join(row.values())} & {"\x00", "\x1b"}


def test_numbers_in_files_are_numbers(phantom_run: Path) -> None:
    graded = grade.grade_folders([phantom_run])
    levels = all_tables(graded)["levels"]
    table = list(csv.DictReader(io.StringIO(csv_bytes(levels, None).decode())))
    assert [row["level"] for row in table] == ["coarse", "fine", "semantic", "mean of levels"]
    assert float(table[0]["accuracy"]) == 0.6  # option 1 is yes: right in three of five cases without cardiomegaly
    assert "notice" not in table[0]


def test_a_report_replaces_its_own_files_and_no_others(phantom_run: Path, tmp_path: Path) -> None:
    graded, folder = grade.grade_folders([phantom_run]), tmp_path / "report"
    write.write(groups(graded), folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "tables" / "levels.csv").write_text("old")
    write.write(groups(graded), folder, forms=("md",))
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "tables" / "levels.csv").exists()
    assert (folder / "tables" / "levels.md").exists()
    other = tmp_path / "other"
    (other / "tables").mkdir(parents=True)
    (other / "tables" / "grid.csv").write_text("mine")
    with pytest.raises(InputError, match=r"grid\.csv: this file was not written by 'chexqa report'"):
        write.write(groups(graded), other)
    assert [path.name for path in other.rglob("*")] == ["tables", "grid.csv"]


@pytest.mark.parametrize("command", rest_long(["grade", "report"], keep=1))
def test_a_report_of_other_runs_is_replaced_only_when_asked(
    cli: Cli, phantom_run: Path, tiny_benchmark: Path, tmp_path: Path, quick: None, command: str
) -> None:
    folder, other = tmp_path / "report", log(tmp_path / "other", tiny_benchmark, model="n")
    assert cli(command, phantom_run, "-o", folder)[0] == 0
    index = json.loads((folder / "report.json").read_text())
    del index["runs"][0]["limit"]  # as an earlier version would do for a setting that it does not know
    (folder / "report.json").write_text(json.dumps(index))
    assert cli(command, phantom_run, "-o", folder)[0] == 0, "the same run may be graded again, as after more turns"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = cli(command, other, "-o", folder)
    assert code == 2
    assert f"contains a report of other runs ({phantom_run.name}); name another folder, or" in " ".join(err.split())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert cli(command, other, "-o", folder, "--overwrite")[0] == 0
    assert [run["name"] for run in json.loads((folder / "report.json").read_text())["runs"]] == ["other"]
    if command == "report":
        with pytest.raises(InputError, match="contains a report of other runs"):
            chexqa.report(phantom_run, folder)
        assert chexqa.report(phantom_run, folder, overwrite=True) == folder / "index.html"


def test_a_full_disk_leaves_the_earlier_report_whole(
    phantom_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded, folder = grade.grade_folders([phantom_run]), tmp_path / "report"
    write.write(groups(graded), folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}

    whole = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if "grid" in path.name:
            raise OSError(28, "No space left on device")
        return whole(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UnfinishedError, match="No space left"):
        write.write(groups(graded), folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")} == before


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_worker_makes_the_same_gallery_and_may_be_killed(
    phantom_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(gallery, "MANY_PICTURES", 1)
    monkeypatch.setattr(gallery, "LEAST_CASES", 1)
    graded = grade.grade_folders([phantom_run])
    with Background(2) as background:
        made = gallery.files(graded, background)
        while is_killed and not (workers := multiprocessing.active_children()):
            time.sleep(0.01)
        if is_killed:
            workers[0].kill()
        assert dict(made) == dict(gallery.files(graded))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_picture_leaves_no_part_of_a_report(
    phantom_run: Path, tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(gallery, "MANY_PICTURES", 1)
    graded, folder = grade.grade_folders([phantom_run]), tmp_path / "all" / "report"
    for picture in (tiny_benchmark / "images").rglob("*.png"):
        thumb = tiny_benchmark / thumb_path(str(picture.relative_to(tiny_benchmark)))
        thumb.parent.mkdir(parents=True, exist_ok=True)
        thumb.write_bytes(b"\xff\xd8 no picture \xff\xd9")
    with Background(workers) as background, pytest.raises(InputError, match="is not a complete JPEG"):
        write.write(groups(graded), folder, page=lambda group, _: gallery.files(group.graded, background))
    assert not folder.parent.exists()


def test_a_report_over_a_file_is_refused(cli: Cli, phantom_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, out, err = cli("report", phantom_run, "-o", tmp_path / "file")
    assert (code, out, "is a file" in err) == (2, "", True), err


@pytest.mark.parametrize("command", ["report", "grade"])
def test_a_report_below_a_file_is_refused(cli: Cli, phantom_run: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("x")
    code, out, err = cli(command, phantom_run, "-o", tmp_path / "file" / "report")
    assert (code, out, "file: is a file" in err) == (2, "", True), err


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [(0.0, 1.0, ["0", "25", "50", "75", "100"]), (-0.25, 0.3, ["-25", "0", "25"]), (0.52, 0.75, ["60", "70"])],
)
def test_the_ticks_of_a_percent_axis_are_round_numbers_inside_it(low: float, high: float, labels: list[str]) -> None:
    (axes,) = plot_style.figure(4, 2)[1]
    plot_style.percent_axis(axes, "accuracy, %", low, high)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == labels


@pytest.mark.long
def test_dollars_in_a_model_s_name_are_no_formula_in_a_plot(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot_style, "png_file", lambda figure: b"")  # which takes time, and is made of the same figure
    names = [r"a$\frac{b$ <i>x", "$a$", r"a\$b$c"]
    runs = [log(tmp_path / f"run-{number}", tiny_benchmark, model=name) for number, name in enumerate(names)]
    code, _, err = cli("report", *runs, "-o", tmp_path / "report")
    assert code == 0, err
    for plot in ("levels", "depth", "kinds", "grid", "states"):
        drawn = html.unescape((tmp_path / "report" / "plots" / f"{plot}.svg").read_text())
        assert [name for name in names if name not in drawn] == [], plot
    for name in names:  # the plot of cells names a model only if it stands alone
        assert name in html.unescape(plot_style.svg_file(plots.cells(np.eye(8), np.eye(8), name)).decode())
    costs = scatter_plots.cost([(name, 1.0, 0.5) for name in names])
    assert costs is not None
    drawn = html.unescape(plot_style.svg_file(costs).decode())
    assert [name for name in names if name not in drawn] == []


def test_a_withheld_key_is_said_plainly(cli: Cli, phantom_run: Path, tiny_benchmark: Path) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    code, _, err = cli("grade", phantom_run)
    assert code == 2
    assert "grading needs the key" in err


def test_a_benchmark_that_moved_is_named_by_hand_and_checked(
    cli: Cli, phantom_run: Path, tiny_benchmark: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere" / "bench"
    moved.parent.mkdir()
    tiny_benchmark.rename(moved)
    code, _, err = cli("grade", phantom_run)
    assert code == 2
    assert "--benchmark DIR" in err
    assert cli("grade", phantom_run, "--benchmark", moved)[0] == 0
    about = moved / "benchmark.json"
    about.write_text(about.read_text().replace('"seed": 0', '"seed": 1'))
    code, _, err = cli("grade", phantom_run, "--benchmark", moved)
    assert code == 2
    assert "was run on" in err


def test_runs_of_different_benchmarks_are_refused(cli: Cli, phantom_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-run"
    other.mkdir()
    about = json.loads((phantom_run / "run.json").read_text())
    about["benchmark"] |= {"name": "another", "hash": "f" * 64}
    (other / "run.json").write_text(json.dumps(about))
    code, _, err = cli("grade", phantom_run, other)
    assert code == 2
    assert "'another'" in err
    assert "grade them separately" in err


def test_a_level_without_items_has_no_highest_score(cli: Cli, handmade: Any, tmp_path: Path) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    code, out, _ = cli("grade", log(tmp_path / "run", handmade.write()), "--table", "headline")
    assert code == 0
    (row,) = [line.split() for line in out.splitlines() if line.startswith("highest possible")]
    assert row[2:] == ["100.0", "–", "–", "100.0", "–"]  # the mean is that of the levels with items


def test_a_folder_that_is_no_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("grade", tmp_path)
    assert code == 2
    assert "run.json" in err


def test_what_needs_no_model_is_called_by_one_name_a_number(
    cli: Cli, phantom_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell of other patients is no answer of the item's kind and finding: each has a row of its own."""
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = cli("grade", phantom_run, "--table", "all")
    assert code == 0
    headline = out[out.index("Headline") : out.index("Accuracy")].splitlines()
    (answer,) = [line.split() for line in headline if line.startswith("most frequent answer  ")]
    (cell,) = [line.split() for line in headline if line.startswith("other patients' cell  ")]
    assert (answer[-1], cell[-5:-1]) == ("–", ["–"] * 4)
    assert "most frequent cell" not in out
    note = "Other patients' cell: hit rate of always choosing the cell that is a hit most often in other patients."
    assert " ".join(out.split()).count(note) == 2
