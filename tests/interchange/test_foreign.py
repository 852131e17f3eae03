"""Other people's benchmarks in the audit: files that our exports write, and files written by hand as documented."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import handmade as made
import numpy as np
import polars as pl
import pytest
import release_files
from PIL import Image

from chexqa.contract import benchmark
from chexqa.files.errors import InputError
from chexqa.interchange import foreign
from chexqa.interchange.huggingface import export_dataset
from chexqa.interchange.vlmevalkit import export_table

Cli = Callable[..., tuple[int, str, str]]


def picture(seed: int, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (64, 64), np.uint8)).save(data, kind)
    return data.getvalue()


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("key", ["inside", "beside"])
def test_a_table_that_we_export_reads_back_with_its_answers_and_pictures(
    key: Any, handmade: Any, tmp_path: Path
) -> None:
    bench = benchmark.load(made.six_cases(handmade))
    export_table(bench, tmp_path / "bench.tsv", key)
    answers, _ = bench.key("this test")
    with foreign.opened(tmp_path / "bench.tsv") as read:
        single = [item for item in bench.items if not item.multi and item.kind != "grid_cell"]
        assert [item.item_id for item in read.items] == [item.item_id for item in single]
        assert {item.kind for item in read.items} == {item.kind for item in single}
        found, _ = read.key("this test")
        for item in single:
            again = read.item[item.item_id]
            assert found[item.item_id].answer == answers[item.item_id].answer
            assert [one.image for one in again.alone_images] == [one.image for one in item.alone_images]
            assert [one.image for one in again.options] == [one.image for one in item.options]
            assert read.image_bytes(again.alone_images[0].image) == bench.image_bytes(item.alone_images[0].image)


@pytest.mark.parametrize("key", ["inside", "beside"])
def test_a_dataset_that_we_export_reads_back_with_every_item(key: Any, handmade: Any, tmp_path: Path) -> None:
    bench = benchmark.load(made.six_cases(handmade))
    export_dataset(bench, tmp_path / "dataset", key)
    answers, _ = bench.key("this test")
    with foreign.opened(tmp_path / "dataset") as read:
        assert read.is_phantom
        found, _ = read.key("this test")
        assert [(item.item_id, item.kind, item.case_id) for item in read.items] == [
            (item.item_id, item.kind, item.case_id) for item in bench.items
        ]
        assert all(found[item_id].answer == answer.answer for item_id, answer in answers.items())


def test_a_table_by_hand_is_audited_and_its_leak_named(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for index in range(40):
        right = int(rng.integers(4))
        texts = [f"the {word}" for word in rng.permutation(["heart", "lung", "rib", "spine"])]
        texts[right] += " and what lies behind it"
        rows.append({
            "index": index, "image": coded(picture(index, "JPEG")), "question": "What is marked?",
            **dict(zip("ABCD", texts, strict=True)), "answer": "ABCD"[right], "category": "Marked structure",
        })  # fmt: skip
    rows.append({**rows[0], "index": 40, "image": "0"})  # the pictures of an earlier row
    code, out, err = cli("audit", table(tmp_path / "marked.tsv", rows), "-o", tmp_path / "card", "--json")
    assert (code, err) == (2, "")
    leaks = {(row["kind"], row["predictor"]) for row in json.loads(out)["results"] if row["leak"]}
    assert leaks == {("marked_structure", "length of the option")}
    card = (tmp_path / "card" / "README.md").read_text(encoding="utf-8")
    assert "41 items on 41 cases (40 radiographs, 40 pictures), read from a VLMEvalKit table" in card


@pytest.mark.parametrize(
    "answer", [pytest.param("B", id="a letter"), pytest.param(1, id="from 0"), pytest.param("no", id="a text")]
)
def test_a_dataset_of_anybodys_is_read_by_the_usual_columns(answer: Any, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "image": {"bytes": picture(n), "path": None}, "question": "Fluid?", "choices": ["yes", "no"],
         "answer": answer, "subject_id": "p1"}
        for n in range(3)
    ]  # fmt: skip
    (tmp_path / "set" / "data").mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(tmp_path / "set" / "data" / "train-0.parquet")
    with foreign.opened(tmp_path / "set") as read:
        found, cases = read.key("this test")
        assert [row.answer for row in found.values()] == [(2,)] * 3
        assert {case.patient_id for case in cases.values()} == {"p1"}
        assert {item.kind for item in read.items} == {"question"}


def test_a_release_of_chexpercept_is_audited_as_it_lies(tmp_path: Path, cli: Cli) -> None:
    release = release_files.write_release(tmp_path / "release")
    before = sorted(release.rglob("*"))
    assert cli("audit", release, "-o", tmp_path / "card")[0] == 0
    assert "read from CheXpercept's release" in (tmp_path / "card" / "README.md").read_text(encoding="utf-8")
    assert sorted(release.rglob("*")) == before


def test_the_card_of_anothers_benchmark_needs_a_folder(tmp_path: Path, cli: Cli) -> None:
    path = table(tmp_path / "a.tsv", [{"index": 1, "question": "?"}])
    code, _, err = cli("audit", path)
    assert code == 2
    assert "name another folder for the card with -o" in err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer": ""}, "row 1: has no answer"),
        ({"answer": "maybe"}, "'maybe' is not the letter"),
        ({"answer": "D"}, "names none of the question's 2 options"),
        ({"image": "%%"}, "neither base64"),
        ({"image": ""}, "has no picture"),
        ({"image": "", "image_path": "../other.png"}, "other.png"),
        ({"B": ""}, "only questions with at least two options"),
        ({"question": ""}, "has no question; a row"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(change: dict[str, str], words: str, tmp_path: Path) -> None:
    row = {"index": 1, "image": coded(picture(0)), "question": "Fluid?", "A": "yes", "B": "no", "answer": "A"}
    path = table(tmp_path / "a.tsv", [row | change])
    with pytest.raises(InputError, match=words), foreign.opened(path):
        pass
