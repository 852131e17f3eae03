"""Results as records of Every Eval Ever and of the Hugging Face hub: the numbers are those of the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml
from handmade import Handmade
from logs import log

from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.grid import MACRO

Cli = Callable[..., tuple[int, str, str]]


def test_aggregate_and_items_agree_with_the_tables(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    run = log(tmp_path / "run", tiny_benchmark)
    code, said, _ = cli("run", "export", run, "--format", "every-eval-ever", "--organization", "A lab",
                        "-o", tmp_path / "records")  # fmt: skip
    assert code == 0
    record = json.loads(Path(said.strip()).read_text())
    assert record["source_metadata"]["source_organization_name"] == "A lab"
    tables = all_tables(grade_folders([run]))
    scores = {one["evaluation_result_id"].partition("#")[2]: one["score_details"]["score"]
              for one in record["evaluation_results"]}  # fmt: skip
    for row in tables["kinds"].iter_rows(named=True):
        assert scores[row["kind"]] == row["accuracy"]
    (grid,) = tables["grid"].filter(pl.col("finding") == MACRO).iter_rows(named=True)
    assert scores["grid"] == grid["hit_rate"]
    assert scores["level_coarse"] == tables["levels"].row(0, named=True)["corrected"]
    detail = record["detailed_evaluation_results"]
    path = tmp_path / "records" / detail["file_path"]
    assert detail["checksum"] == hashlib.sha256(path.read_bytes()).hexdigest()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    grades = grade_folders([run]).grades
    assert {row["sample_id"]: row["evaluation"]["is_correct"] for row in rows} == dict(
        grades.select("item_id", "correct").iter_rows())  # fmt: skip
    known = {one["evaluation_result_id"] for one in record["evaluation_results"]}
    assert {row["evaluation_result_id"] for row in rows} <= known
    assert all(row["input"]["reference"] == [] for row in rows)
    longest = max(rows, key=lambda row: len(row["messages"]))
    assert [one["role"] for one in longest["messages"]][:4] == ["system", "user", "assistant", "user"]
    assert longest["messages"][longest["answer_attribution"][0]["turn_idx"]]["content"] == "Answer: 1"
    assert "patient" not in json.dumps([row["metadata"] for row in rows])


@pytest.mark.long
def test_the_same_run_gives_the_same_files_and_the_key_only_on_demand(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    run = log(tmp_path / "run", tiny_benchmark, protocol="independent")
    command = ("run", "export", run, "--format", "every-eval-ever", "-o")
    for name in ("a", "b"):
        assert cli(*command, tmp_path / name)[0] == 0
    files = [{path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.json*")}
             for name in ("a", "b")]  # fmt: skip
    assert files[0] == files[1]
    assert cli(*command, tmp_path / "c", "--with-key")[0] == 0
    (path,) = (tmp_path / "c").rglob("*.jsonl")
    assert all(row["input"]["reference"] for row in map(json.loads, path.read_text().splitlines()))


def test_headlines_for_the_hub_are_those_of_the_tables(handmade: Handmade, tmp_path: Path, cli: Cli) -> None:
    for number in range(12):
        handmade.case(f"a{number}", "effusion", "revision_free", grid=(1,) if number % 2 else (2,))
    for name in "bc":
        handmade.case(name, "edema", "revision_free", grid=(2,))
    handmade.case("d", "edema", "lesion_free", detection=(2,))
    run = log(tmp_path / "run", handmade.write())
    code, said, _ = cli(
        "run", "export", run, "--format", "huggingface", "--dataset", "group/set", "-o", tmp_path / "hub"
    )
    assert code == 0
    rows = yaml.safe_load(Path(said.strip()).read_text())
    assert Path(said.strip()).parts[-2:] == (".eval_results", "set.yaml")
    found = {row["dataset"]["task_id"]: row["value"] for row in rows}
    tables = all_tables(grade_folders([run]))
    expected = {row["level"].replace(" ", "_"): row["corrected"] for row in tables["levels"].iter_rows(named=True)}
    (grid,) = tables["grid"].filter(pl.col("finding") == MACRO).iter_rows(named=True)
    expected["grid"] = grid["hit_rate"]
    assert expected["grid"] == 0.25  # the mean of 6 of 12 and 0 of 2
    assert {name: found[name] for name in expected if expected[name] is not None} == {
        name: round(value, 6) for name, value in expected.items() if value is not None}  # fmt: skip
    interval = f"95 % interval {grid['hit_rate_low']:.3f} to {grid['hit_rate_high']:.3f}"
    assert next(row["notes"] for row in rows if row["dataset"]["task_id"] == "grid").endswith(interval)


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--format", "huggingface"), "add --dataset"), (("--format", "huggingface", "--dataset", "a"), "OWNER/NAME"),
     (("--format", "predictions", "--with-key"), "works only with --format every-eval-ever")],
)  # fmt: skip
def test_wrong_options_are_refused(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, options: tuple[str, ...], words: str
) -> None:
    run = log(tmp_path / "run", tiny_benchmark)
    code, _, err = cli("run", "export", run, *options, "-o", tmp_path / "out")
    assert (code, words in err, (tmp_path / "out").exists()) == (2, True, False)


def test_an_unfinished_model_has_no_headline_on_the_hub(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    run = log(tmp_path / "run", tiny_benchmark, skip=1)
    code, _, err = cli("run", "export", run, "--format", "huggingface", "--dataset", "a/b", "-o", tmp_path / "hub")
    assert (code, "continue the run" in err) == (2, True)
    assert not (tmp_path / "hub").exists()
