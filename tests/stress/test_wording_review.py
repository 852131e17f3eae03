"""Review of wordings: the sheet, its way back, and wordings that are then not asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from handmade import Handmade
from review_sheets import fill

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.eval.stress.unequal_wordings import Wording, unequal
from chexqa.eval.stress.wording_sheet import pairs

Cli = Callable[..., tuple[int, str, str]]
OWN = question_banks.load("en")["kinds"]


@pytest.fixture
def bench(handmade: Handmade) -> Path:
    """Eight cases, each with one question in the words of the bank."""
    for number in range(8):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(2,))
    asked = OWN["detection"]["question"].format(finding="pulmonary edema")
    handmade.items = [replace(item, question=asked) for item in handmade.items]
    return handmade.write()


def said(verdicts: dict[str, dict[str, str]]) -> Callable[[str], dict[str, str]]:
    return lambda row: verdicts.get(row, {})


def cells_of(run: Path) -> set[str]:
    (log,) = (run / "turns").glob("*.jsonl")
    return {json.loads(line).get("stress") for line in log.read_text().splitlines()} - {None}


def test_a_wording_found_unequal_is_not_asked_and_is_named(cli: Cli, bench: Path, tmp_path: Path) -> None:
    ask = ("eval", bench, "--models", "baseline/first", "--protocol", "independent", "--stress", "wording", "-o")
    assert cli(*ask, tmp_path / "before")[0] == 0
    assert cells_of(tmp_path / "before") == {"wording-b", "wording-c"}
    sheet = tmp_path / "wordings.xlsx"
    assert cli("review", "wordings", bench, "-o", sheet, "--reviewer", "anna")[0] == 0
    fill(sheet, said({"w-detection-b-1": {"verdict": "Reject", "comment": "asks for the past"},
                      "w-detection-c-1": {"verdict": "a"}}))  # fmt: skip
    code, out, err = cli("review", "wordings", bench, "--returned", sheet)
    assert code == 0, err
    assert "not asked any more: wording b of detection (anna: asks for the past)" in " ".join(out.split())
    assert "reviewers found that these wordings differ in meaning: detection b" in " ".join(
        cli("validate", bench)[1].split()
    )
    assert cli(*ask, tmp_path / "after")[0] == 0
    assert cells_of(tmp_path / "after") == {"wording-c"}
    assert json.loads((tmp_path / "after" / "run.json").read_text())["unequal_wordings"] == ["detection b"]
    code, _, err = cli(*ask, tmp_path / "before")
    assert code == 2, "a run is not mixed with one that asks other wordings"
    assert "the wordings found unequal was not given and is now detection b" in " ".join(err.split())
    fill(sheet, said({"w-detection-b-1": {"verdict": "accept", "comment": ""}}))
    assert "No wording was found to differ in meaning." in cli("review", "wordings", bench, "--returned", sheet)[1]


def test_a_verdict_on_words_that_changed_since_does_not_count(cli: Cli, bench: Path, tmp_path: Path) -> None:
    row = {"kind": "detection", "wording": "b", "rule": 1, "texts": "0" * 64, "reviewer": "anna", "verdict": "fix",
           "comment": None}  # fmt: skip
    (bench / "wording_review.json").write_text(json.dumps({"schema_version": 1, "rows": [row]}))
    assert unequal(benchmark.load(bench)) == {}


def test_questions_of_two_rules_are_rows_of_their_own(bench: Path) -> None:
    loaded = benchmark.load(bench)
    text, rules = OWN["distribution"]["question"], question_banks.load("en")["rules"]
    made = []
    for number, (finding, rule, share) in enumerate(
        [
            ("the opacity", "component", "a fifth"),
            ("the mass", "component", "a fifth"),
            ("the mass", "union", "a quarter"),
        ]
    ):
        words = {name: rules[rule][name].format(outline=finding) for name in ("area", "otherwise")}
        question = text.format(least_share=share, **words)
        made.append(replace(loaded.items[number], kind="distribution", question=question))
    found = pairs(replace(loaded, items=tuple(made)))
    assert [str(one.wording) for one in found] == [
        "distribution b",
        "distribution b",
        "distribution c",
        "distribution c",
    ]
    assert ["a quarter" in one.other for one in found] == [False, True, False, True]
    assert found[0].wording == Wording("distribution", "b")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdict": "perhaps"}, "'perhaps' under 'verdict' is none of accept"),
        ({"verdict": "accept", "in other words": "Is there edema?"}, "a locked cell was changed"),
        (
            {"verdict": "accept", "id": "w-severity-b-1"},
            "is not from the sheet that 'chexqa review wordings' wrote for",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_said_and_left_out(
    cli: Cli, bench: Path, tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    sheet = tmp_path / "wordings.xlsx"
    cli("review", "wordings", bench, "-o", sheet, "--reviewer", "anna")
    book = openpyxl.load_workbook(sheet)
    tab = book["wordings 1"]
    titles = {tab.cell(1, column).value: column for column in range(1, tab.max_column + 1)}
    for title, text in change.items():
        tab.cell(2, titles[title]).value = text
    tab.cell(3, titles["verdict"]).value = "accept"
    book.save(sheet)
    code, out, _ = cli("review", "wordings", bench, "--returned", sheet)
    assert code == 0
    assert problem in " ".join(out.split())
    rows = json.loads((bench / "wording_review.json").read_text())["rows"]
    assert [(row["wording"], row["verdict"]) for row in rows] == [("c", "accept")]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "give -o FILE to write a sheet, or --returned FILE to read it"),
        (("-o", "w.xlsx"), "give --reviewer NAME"),
        (("-o", "w.csv", "--reviewer", "anna"), "name a file that ends in .xlsx"),
        (("-o", "w.xlsx", "--reviewer", "a/b"), "cannot be a reviewer's name"),
        (("--returned", "gone.xlsx"), "gone.xlsx: no such file"),
    ],
)
def test_what_cannot_be_written_or_read_is_refused(
    cli: Cli, bench: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("review", "wordings", bench, *options)
    assert code == 2
    assert error in " ".join(err.split())
    assert [*tmp_path.glob("w.*")] == []
