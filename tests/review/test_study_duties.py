"""What a reader study owes its readers of a paper: training apart, repeated items, nobody who saw the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from review_sheets import answer_cells, as_reviewer, converted, fill, fill_all, rows_in, sheets_of, write_small
from sklearn.metrics import cohen_kappa_score

from chexqa.contract import benchmark
from chexqa.contract.items import Answer, Item
from chexqa.eval.scoring.grade import grade_folders
from chexqa.review import columns
from chexqa.review.resolve.coefficients import pooled_kappa, resamples

Cli = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.xdist_group("sheets")]


def knows(item: Item, key: Answer) -> dict[str, str]:
    return answer_cells(item, key.answer[:1] if item.kind == "grid_cell" else key.answer, columns.ANSWER)


def errs(item: Item, key: Answer) -> dict[str, str]:
    return answer_cells(item, (3 - key.answer[0],), columns.ANSWER) if item.kind == "detection" else knows(item, key)


def tell(path: Path, said: dict[str, str]) -> None:
    """Answer the questions of the first tab."""
    book = openpyxl.load_workbook(path)
    first = book[columns.FIRST_TAB]
    for row in first.iter_rows(max_col=1):
        if row[0].value in said:
            first.cell(row[0].row, 3).value = said[row[0].value]
    book.save(path)


@pytest.mark.long
def test_a_study_trains_repeats_tells_and_asks_and_counts_the_study_alone(
    tmp_path: Path, cli: Cli, soffice: str
) -> None:
    bench = benchmark.load(write_small(tmp_path / "bench"))
    study = tmp_path / "study"
    code, out, err = cli("review", "study", bench.folder, "-o", study, "--readers", "anna,ben", "--sample", 3,
                         "--training", 1, "--repeat", 0.5, "--rule", "call what you see.")  # fmt: skip
    assert (code, err) == (0, "")
    assert "NAME-training, the parts of NAME-reader; give the folder NAME-again some weeks later." in out
    about = json.loads((study / "review.json").read_text())
    sheets = {(sheet["kind"], sheet["reviewer"]): sheet for sheet in about["sheets"]}
    cases = {row[2:].rpartition("/")[0] for row in sheets["readers", "anna"]["rows"]}
    trained = {row[2:].rpartition("/")[0] for row in sheets["training", "anna"]["rows"]}
    assert (len(cases), len(trained), cases & trained) == (3, 1, set())
    assert set(sheets["repeat", "anna"]["rows"]) < set(sheets["readers", "anna"]["rows"])

    # The first tab tells how common findings are, and the rule; it is answered in LibreOffice's own file.
    sheet = sheets_of(study, "anna-reader")[0]
    told = " ".join(str(row[0].value) for row in openpyxl.load_workbook(sheet)[columns.FIRST_TAB].iter_rows(max_col=1))
    present = sum(key.path != "lesion_free" for case_id, key in (bench.cases or {}).items() if case_id in cases)
    assert f"{present} of the 3 cases of this study show the finding" in told
    assert "When you are uncertain: call what you see." in told
    fill_all(study, "anna-reader", as_reviewer(bench, knows))
    tell(sheet, dict.fromkeys(columns.ABOUT_QUESTIONS, "twelve years"))
    (again,) = converted([sheet], "xlsx", tmp_path / "again", tmp_path / "profile")
    again.replace(sheet)
    fill_all(study, "ben-reader", as_reviewer(bench, knows))
    for who, review in (("anna", knows), ("ben", errs)):
        fill_all(study, f"{who}-again", as_reviewer(bench, review))
        fill(study / f"{who}-training" / f"{who}-training.xlsx", as_reviewer(bench, errs))
    code, out, err = cli("review", "import", study)
    assert (code, err) == (0, "")
    assert "ben did not answer these questions on the first tab: years of reading chest radiographs;" in out
    code, out, _ = cli("review", "readers", bench.folder, study, "--json")
    assert code == 0
    everybody, anna, ben = json.loads(out)
    assert anna["said"] == dict.fromkeys(columns.ABOUT_QUESTIONS, "twelve years")
    assert (anna["right"]["value"], anna["same"]["value"], anna["kappa"]["value"]) == (1.0, 1.0, 1.0)
    detections = [row for row in sheets["repeat", "ben"]["rows"] if row.endswith("/detection")]
    assert ben["repeated"] == len(sheets["repeat", "ben"]["rows"])
    assert ben["same"]["value"] == pytest.approx(1 - len(detections) / ben["repeated"])
    assert ben["right"]["value"] == 1.0, "neither the repetition nor the training counts"
    assert everybody["answers"] == 2 * len(sheets["readers", "anna"]["rows"])
    code, out, _ = cli("review", "readers", bench.folder, study)
    assert "Readers of the study" in out
    # The run has the study's answers alone.
    graded = grade_folders([study / "run"]).grades
    assert set(graded["case_id"]) == cases
    assert graded.filter(graded["model"] == "reader/ben").height == len(sheets["readers", "ben"]["rows"])


@pytest.mark.long
def test_training_says_what_the_key_says_once_it_is_answered(tmp_path: Path, cli: Cli, soffice: str) -> None:
    bench = benchmark.load(write_small(tmp_path / "bench"))
    assert cli("review", "study", bench.folder, "-o", tmp_path / "s", "--readers", "anna", "--sample", 1,
               "--training", 3, "--repeat", 0)[0] == 0  # fmt: skip
    folders = {path.name for path in (tmp_path / "s").iterdir()}
    assert {name.partition("-part-")[0] for name in folders} == {"review.json", "anna-reader", "anna-training"}
    sheet = tmp_path / "s" / "anna-training" / "anna-training.xlsx"
    rows = [row[columns.ID] for row in rows_in(sheet)]
    said = as_reviewer(bench, errs)
    fill(sheet, lambda row: {} if row == rows[-1] else said(row))
    # LibreOffice works the hidden formulas out when it saves the sheet.
    (made,) = converted([sheet], "xlsx", tmp_path / "out", tmp_path / "profile")
    found = {row[columns.ID]: row[columns.FEEDBACK] for row in rows_in(made)}
    assert set(found) == set(rows)
    assert found.pop(rows[-1]) == ""
    for row, text in found.items():
        item = bench.item[row[2:]]
        if item.kind == "detection":
            assert text.startswith("The key says otherwise. The key: ")
        elif item.form.takes_several:
            assert text.startswith("The key: ")
        else:
            assert text.startswith("Right. The key: ")


def test_a_reader_who_saw_the_key_is_refused_or_the_cases_are_left_out(tmp_path: Path, cli: Cli) -> None:
    bench = benchmark.load(write_small(tmp_path / "bench"))
    one = bench.items[0].case_id
    (tmp_path / "cases.txt").write_text(f"{one}\n")
    assert cli("review", "export", bench.folder, "-o", tmp_path / "before", "--reviewers", "Anna",
               "--cases", tmp_path / "cases.txt")[0] == 0  # fmt: skip
    deal = ("review", "study", bench.folder, "-o", tmp_path / "s", "--readers", "anna,ben", "--training", 0,
            "--earlier", tmp_path / "before")  # fmt: skip
    code, _, err = cli(*deal)
    assert (code, not (tmp_path / "s").exists()) == (2, True)
    assert "anna saw the key of 1 of these 5 cases" in err
    assert cli(*deal, "--leave-out-seen")[0] == 0
    rows = json.loads((tmp_path / "s" / "review.json").read_text())["sheets"][0]["rows"]
    assert rows
    assert not [row for row in rows if row.startswith(f"i-{one}/")]


def test_pooled_kappa_is_cohens_within_one_scale_and_its_definition_over_several() -> None:
    rng = np.random.default_rng(5)
    sizes = {"a": 2, "b": 4}
    units = [(str(rng.choice(["a", "b"])), int(rng.integers(12))) for _ in range(90)]
    pairs = [(int(first), int(first if rng.random() < 0.6 else rng.integers(sizes[kind])))
             for kind, _ in units for first in [rng.integers(sizes[kind])]]  # fmt: skip
    scales = [(kind, sizes[kind]) for kind, _ in units]
    people = np.array([person for _, person in units])
    weights = resamples(12)
    only = [place for place, (kind, _) in enumerate(units) if kind == "b"]
    alone = pooled_kappa([pairs[at] for at in only], [scales[at] for at in only], people[only], weights)
    first, second = zip(*(pairs[at] for at in only), strict=True)
    assert alone.value == pytest.approx(cohen_kappa_score(first, second))
    observed = np.mean([one == other for one, other in pairs])
    expected = 0.0
    for kind, size in sizes.items():
        own = [pair for pair, (name, _) in zip(pairs, units, strict=True) if name == kind]
        expected += sum(
            np.mean([a == c for a, _ in own]) * np.mean([b == c for _, b in own]) for c in range(size)
        ) * len(own)
    expected /= len(pairs)
    both = pooled_kappa(pairs, scales, people, weights)
    assert both.value == pytest.approx((observed - expected) / (1 - expected))
    assert both.low is not None
    assert both.low < both.value < (both.high or 0)
