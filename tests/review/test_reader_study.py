"""A reader study of a part of the cases, graded beside models on the same cases."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from review_sheets import answer_cells, as_reviewer, fill_all, write_small

from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.contract.items import Answer, Item
from chexqa.eval.report.display_readers import reader_differences
from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.tables.all_tables import all_tables
from chexqa.review import columns

Cli = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.xdist_group("reader_study")]


def knows(item: Item, key: Answer) -> dict[str, str]:
    return answer_cells(item, key.answer[:1] if item.kind == "grid_cell" else key.answer, columns.ANSWER)


def errs(item: Item, key: Answer) -> dict[str, str]:
    wrong = (3 - key.answer[0],)
    return answer_cells(item, wrong, columns.ANSWER) if item.kind in ("detection", "severity") else knows(item, key)


DEAL = ("--reviewers", "anna,ben", "--blind-answers", "--sample", "3")


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a benchmark, a study of three of its five cases by two readers, and a run of two baselines.

    Tests put other folders beside them and change none.
    """
    home = tmp_path_factory.mktemp("studied")
    bench = benchmark.load(write_small(home / "bench"))
    study = home / "study"
    assert run(["review", "export", str(bench.folder), "-o", str(study), *DEAL]) == 0
    fill_all(study, "anna-reader", as_reviewer(bench, knows))
    fill_all(study, "ben-reader", as_reviewer(bench, errs))
    assert run(["review", "import", str(study)]) == 0
    models = "baseline/oracle,baseline/chance"
    asked = ["eval", str(bench.folder), "--models", models, "--protocol", "end_to_end", "-o", str(home / "run")]
    assert run(asked) == 0
    return home


def headline(study: dict[str, pl.DataFrame]) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in study["levels"].filter(pl.col("level") == "coarse").to_dicts()}


def test_a_sampled_study_has_numbers_and_the_run_says_on_which_cases(studied: Path) -> None:
    """Cases that were never dealt are not asked of readers; they used to empty every row of the table."""
    about = json.loads((studied / "study" / "run" / "run.json").read_text())
    graded = grade_folders([studied / "study" / "run"])
    assert sorted(graded.grades["case_id"].unique()) == about["cases"]
    assert len(about["cases"]) == 3
    assert "not_asked" not in graded.grades["state"].to_list()
    rows = headline(all_tables(graded))
    assert (rows["reader/anna"]["accuracy"], rows["reader/ben"]["accuracy"]) == (1.0, 0.0)


def test_a_study_puts_every_row_on_its_cases_and_readers_are_compared_with_models(studied: Path, cli: Cli) -> None:
    graded = grade_folders([studied / "study" / "run", studied / "run"])
    sets = graded.grades.group_by("model").agg(pl.col("item_id").sort())
    assert sets["item_id"].n_unique() == 1
    made = all_tables(graded)
    assert {row["model"] for row in made["groups"].to_dicts() if row["letters"]} == {
        "reader/anna", "reader/ben", "readers/majority"
    }, "baselines are compared, but in no family"  # fmt: skip
    pairs = {(row["model_a"], row["model_b"]): row for row in reader_differences(made["pairs"])
             if row["score"] == "semantic"}  # fmt: skip
    # Of the four kinds one is wrong, which guesses one in four right: 1 - (-1/3), over the four kinds.
    assert pairs["reader/ben", "baseline/oracle"]["difference"] == pytest.approx(-4 / 3 / 4)
    turned = grade_folders([studied / "run", studied / "study" / "run"])
    again = {(row["model_a"], row["model_b"]): row for row in reader_differences(all_tables(turned)["pairs"])
             if row["score"] == "semantic"}  # fmt: skip
    assert again.keys() == pairs.keys()
    for key, row in again.items():
        for name in ("difference", "difference_low", "difference_high"):
            assert row[name] == (None if pairs[key][name] is None else pytest.approx(pairs[key][name])), (key, name)
    code, out, _ = cli("grade", studied / "study" / "run", studied / "run")
    assert code == 0
    assert "Every row uses only the 3 cases of" in out
    assert "Readers minus models" in out


def test_a_model_alone_is_put_on_the_cases_of_a_study_by_on(studied: Path, cli: Cli) -> None:
    study = studied / "study" / "run"
    alone = grade_folders([studied / "run"], on=study)
    beside = grade_folders([study, studied / "run"])
    models = alone.grades["model"].unique().to_list()
    assert headline(all_tables(alone))["baseline/chance"] == headline(all_tables(beside))["baseline/chance"]
    assert alone.grades.equals(beside.grades.filter(pl.col("model").is_in(models)))
    assert grade_folders([studied / "run"]).grades.height > alone.grades.height
    other = studied / "other"
    shutil.copytree(study, other)
    about = json.loads((other / "run.json").read_text())
    about["benchmark"]["hash"] = "0" * 64
    (other / "run.json").write_text(json.dumps(about))
    code, _, err = cli("grade", studied / "run", "--on", other)
    assert (code, "name a run of the same benchmark" in err) == (2, True)


def test_a_reader_who_has_not_finished_has_no_numbers_and_the_others_keep_theirs(studied: Path, cli: Cli) -> None:
    bench = benchmark.load(studied / "bench")
    done = {row: cells for row, cells in _rows(bench, studied).items() if row.endswith("detection")}
    study = studied / "again"
    code, out, _ = cli("review", "export", bench.folder, "-o", study, *DEAL)
    assert code == 0
    told = "With 3 cases of 3 patients, the 95 % interval of a reader's share of right answers will be about ± 37"
    assert f"{told} percentage points." in out
    fill_all(study, "anna-reader", as_reviewer(bench, knows))
    fill_all(study, "ben-reader", lambda row: done.get(row, {}))
    code, out, _ = cli("review", "import", study)
    assert code == 0
    asked = len(_rows(bench, studied))
    assert f"reader/anna {asked} of {asked}, reader/ben {len(done)} of {asked}, readers/majority {len(done)} of" in out
    rows = headline(all_tables(grade_folders([study / "run"])))
    assert rows["reader/anna"]["accuracy"] == 1.0
    assert rows["reader/ben"]["accuracy"] is None
    out = " ".join(cli("grade", study / "run")[1].split())
    assert "'chexqa review import' takes the answers to the rows that are still open" in out
    assert "'chexqa eval' command asks them" not in out


def _rows(bench: benchmark.Benchmark, folder: Path) -> dict[str, dict[str, str]]:
    review = as_reviewer(bench, errs)
    rows = json.loads((folder / "study" / "review.json").read_text())["sheets"][0]["rows"]
    return {row: review(row) for row in rows}
