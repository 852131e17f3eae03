"""Exports: a Hugging Face dataset, loaded by the package itself, and a VLMEvalKit table, by its documented format."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
import yaml
from PIL import Image

from chexqa.contract import benchmark

Cli = Callable[..., tuple[int, str, str]]


def python_with_datasets() -> str:
    """A Python that has the package ``datasets``: this one, or the one that ``CHEXQA_DATASETS_PYTHON`` names."""
    for python in (os.environ.get("CHEXQA_DATASETS_PYTHON"), sys.executable):
        if python and shutil.which(python):
            found = subprocess.run([python, "-c", "import datasets"], capture_output=True, check=False)
            if found.returncode == 0:
                return python
    pytest.skip("the package datasets is not installed (pip install chexqa[hf], or set CHEXQA_DATASETS_PYTHON)")


LOAD = """
import datasets, io, json, sys
datasets.disable_progress_bars()
rows = []
for row in datasets.load_dataset(sys.argv[1], split="test", cache_dir=sys.argv[2]):
    row["images"] = [[picture.size, picture.mode, picture.tobytes()[:8].hex()] for picture in row["images"]]
    rows.append(row)
key = None
if sys.argv[3] == "key":
    key = list(datasets.load_dataset(sys.argv[1], "key", split="test", cache_dir=sys.argv[2]))
print(json.dumps([rows, key]))
"""


def load_by_package(folder: Path, cache: Path, key: str = "") -> tuple[list[dict[str, Any]], Any]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(cache)}
    done = subprocess.run([python_with_datasets(), "-c", LOAD, str(folder), str(cache), key], capture_output=True,
                          text=True, check=False, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows, keys = json.loads(done.stdout.splitlines()[-1])
    return rows, keys


@pytest.mark.long
def test_the_package_datasets_loads_an_export_and_decodes_its_pictures(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    out = tmp_path / "dataset"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "-o", out)[0] == 0
    rows, _ = load_by_package(out, tmp_path / "cache")
    bench = benchmark.load(tiny_benchmark)
    answers = bench.key("this test")[0]
    assert [row["item_id"] for row in rows] == [item.item_id for item in bench.items]
    for row, item in zip(rows, bench.items, strict=True):
        assert (row["question"], row["kind"], row["multi"]) == (item.question, item.kind, item.multi)
        assert tuple(row["answer"]) == answers[item.item_id].answer
        assert [option["text"] for option in row["options"]] == [option.text for option in item.options]
        assert row["roles"] == [picture.role for picture in item.alone_images]
        for (size, mode, pixels), picture in zip(row["images"], item.alone_images, strict=True):
            with Image.open(io.BytesIO(bench.image_bytes(picture.image))) as image:
                assert (tuple(size), mode, pixels) == (image.size, image.mode, image.tobytes()[:8].hex())
        for option, own in zip(row["options"], item.options, strict=True):
            shown = None if option["picture"] is None else item.alone_images[option["picture"] - 1].image
            assert shown == own.image


@pytest.mark.long
def test_the_key_is_a_configuration_of_its_own_where_it_is_split_off(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    out = tmp_path / "dataset"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "--split-key", "-o", out)[0] == 0
    rows, key = load_by_package(out, tmp_path / "cache", "key")
    answers = benchmark.load(tiny_benchmark).key("this test")[0]
    assert {row["item_id"]: tuple(row["answer"]) for row in key} == {n: one.answer for n, one in answers.items()}
    assert not {"answer", "path", "chance", "prior", "flags"} & set(rows[0])


def card(folder: Path) -> tuple[dict[str, Any], str]:
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_says_what_it_is_and_what_it_is_made_of(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "dataset"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "-o", out)[0] == 0
    front, text = card(out)
    about = benchmark.load(tiny_benchmark).about
    assert front["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "data/test-*.parquet"}]}
    ]
    assert {"name": "images", "list": "image"} in front["dataset_info"][0]["features"]
    assert about["canary"] in text
    assert "drawn phantoms: a software test, without clinical meaning" in text
    assert "| answer |" in text


def test_without_its_key_an_export_says_nothing_of_the_answers(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    (tiny_benchmark / "skipped.jsonl").unlink()
    for fmt, out in (("huggingface", tmp_path / "dataset"), ("vlmevalkit", tmp_path / "t.tsv")):
        code, _, err = cli("export", tiny_benchmark, "--format", fmt, "-o", out)
        assert code == 2
        assert "an export with answers needs the key" in err
        assert cli("export", tiny_benchmark, "--format", fmt, "--no-key", "-o", out)[0] == 0
    frame = pl.read_parquet(tmp_path / "dataset" / "data" / "*.parquet")
    assert not {"answer", "path", "chance", "prior", "flags"} & set(frame.columns)
    assert "The answers are withheld." in card(tmp_path / "dataset")[1]
    assert "answer" not in pd.read_csv(tmp_path / "t.tsv", sep="\t").columns


def test_large_datasets_are_written_in_files_of_bounded_size(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexqa.interchange.huggingface.SHARD_BYTES", 20_000)
    out = tmp_path / "dataset"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "-o", out)[0] == 0
    files = sorted((out / "data").iterdir())
    assert len(files) > 3
    assert files[-1].name == f"test-{len(files) - 1:05d}-of-{len(files):05d}.parquet"
    ids = [n for file in files for n in pl.read_parquet(file, columns=["item_id"])["item_id"]]
    assert ids == [item.item_id for item in benchmark.load(tiny_benchmark).items]


def as_vlmevalkit_loads(path: Path) -> list[dict[str, Any]]:
    """The table as VLMEvalKit's loader of image data sets reads it, by its documentation."""
    frame = pd.read_csv(path, sep="\t")
    assert all(str(int(index)) == str(index) for index in frame["index"])
    assert frame["index"].is_unique
    images = {str(index): str(image) for index, image in zip(frame["index"], frame["image"], strict=True)}
    rows = []
    for row in frame.to_dict("records"):
        image = images[str(row["index"])]
        if len(image) <= 64:  # the index of another row with the same pictures
            image = images[image]
            assert len(image) > 64
        several = image.startswith("[") and image.endswith("]")
        row["image"] = ast.literal_eval(image) if several else [image]
        names = str(row["image_path"])
        row["image_path"] = ast.literal_eval(names) if names.startswith("[") else [names]
        row["options"] = {name: row[name] for name in "ABCDEFGH" if name in row and isinstance(row[name], str)}
        rows.append(row)
    return rows


def test_a_vlmevalkit_table_holds_the_single_choice_items_as_its_documentation_wants_them(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    out = tmp_path / "ours.tsv"
    code, printed, _ = cli("export", tiny_benchmark, "--format", "vlmevalkit", "-o", out)
    bench = benchmark.load(tiny_benchmark)
    answers = bench.key("this test")[0]
    items = {item.item_id: item for item in bench.items if not item.multi and item.kind != "grid_cell"}
    assert (code, printed) == (0, f"{len(items)} items: {out}\n")
    rows = as_vlmevalkit_loads(out)
    assert [row["item_id"] for row in rows] == list(items)
    for row in rows:
        item = items[row["item_id"]]
        images = [picture.image for picture in item.alone_images]
        assert [base64.b64decode(image) for image in row["image"]] == [bench.image_bytes(image) for image in images]
        assert row["image_path"] == [Path(image).name for image in images]
        assert (row["question"], row["category"], row["l2-category"]) == (item.question, item.kind, item.level)
        assert "ABCDEFGH".index(row["answer"]) + 1 == answers[item.item_id].answer[0]
        assert len(row["options"]) == len(item.options)
        if item.kind == "revision_result":
            assert row["options"]["B"] == "the outline in Picture 4"
            assert row["hint"].startswith("Picture 1: the chest radiograph. Picture 2: ")
    first = [row for row in csv_rows(out) if len(row["image"]) > 64]
    assert len(first) < len(rows)  # pictures are in the table once


def csv_rows(path: Path) -> list[dict[str, str]]:
    return pd.read_csv(path, sep="\t", dtype=str).to_dict("records")  # type: ignore[return-value]


def test_a_vlmevalkit_key_is_a_table_beside(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "ours.tsv"
    assert cli("export", tiny_benchmark, "--format", "vlmevalkit", "--split-key", "-o", out)[0] == 0
    assert "answer" not in pd.read_csv(out, sep="\t").columns
    key = csv_rows(tmp_path / "ours.key.tsv")
    assert [row["index"] for row in key] == [row["index"] for row in csv_rows(out)]
    assert {row["answer"] for row in key} <= set("ABCD")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "huggingface", "--no-key", "--split-key"], "give only one of the two"),
        (["--format", "chexpercept", "--no-key"], "writes the answers into the file of questions"),
        (["--format", "lmms"], "'lmms' is not one of"),
    ],
)
def test_what_cannot_be_exported_is_said(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, arguments: list[str], message: str
) -> None:
    code, _, err = cli("export", tiny_benchmark, *arguments, "-o", tmp_path / "out")
    assert code == 2
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("fmt", "name"), [("chexpercept", "x"), ("huggingface", "x"), ("vlmevalkit", "x.tsv")])
def test_an_export_below_a_file_is_refused(tiny_benchmark: Path, tmp_path: Path, cli: Cli, fmt: str, name: str) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = cli("export", tiny_benchmark, "--format", fmt, "-o", tmp_path / "file" / name)
    assert (code, str(tmp_path / "file") in err) == (2, True), err


@pytest.mark.parametrize(("fmt", "name"), [("chexpercept", "x"), ("huggingface", "x"), ("vlmevalkit", "x.tsv")])
def test_nothing_is_overwritten(tiny_benchmark: Path, tmp_path: Path, cli: Cli, fmt: str, name: str) -> None:
    (tmp_path / name).write_text("mine")
    code, _, err = cli("export", tiny_benchmark, "--format", fmt, "-o", tmp_path / name)
    assert code == 2
    assert "exists already" in err
    assert (tmp_path / name).read_text() == "mine"
