"""Croissant metadata, loaded by mlcroissant without an error or warning; every record is streamed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlcroissant
import pytest

from chexqa.contract import benchmark
from chexqa.interchange import huggingface

Cli = Callable[..., tuple[int, str, str]]
ABOUT = """
license: CC-BY-4.0
url: https://example.org/set
doi: 10.5281/zenodo.1
date_published: "2026-05-31"
creators: [{name: A. Author, orcid: 0000-0002-1825-0097}, {name: The group, group: true}]
citation: "@misc{set}"
sources: [{name: Radiographs, url: https://example.org/source, license: CC0-1.0}]
"""
# The fields that NeurIPS asks for.
RAI = {"rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation", "rai:dataUseCases",
       "rai:dataSocialImpact", "rai:hasSyntheticData", "prov:wasDerivedFrom", "prov:wasGeneratedBy"}  # fmt: skip


def loaded(path: Path) -> Any:
    found = mlcroissant.Dataset(path)
    issues = found.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    return found


@pytest.mark.parametrize(("options", "shard"), [((), 10**8), (("--split-key",), 4000), (("--no-key",), 10**8)])
def test_every_record_of_an_exported_dataset_is_streamed(
    tiny_benchmark: Path,
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    shard: int,
) -> None:
    monkeypatch.setattr(huggingface, "SHARD_BYTES", shard)
    (tmp_path / "about.yaml").write_text(ABOUT)
    out = tmp_path / "set"
    about = ("--about", tmp_path / "about.yaml", *options)
    code, _, err = cli("export", tiny_benchmark, "--format", "huggingface", *about, "-o", out)
    assert (code, err) == (0, "")
    assert (len(list((out / "data").iterdir())) > 1) == (shard < 10**8)
    found = loaded(out / "croissant.json")
    bench = benchmark.load(tiny_benchmark)
    rows = {row["items/item_id"].decode(): row for row in found.records("items")}
    assert rows.keys() == bench.item.keys()
    for item_id, row in rows.items():
        item = bench.item[item_id]
        assert row["items/question"].decode() == item.question
        assert len(row["items/images"]) == len(item.alone_images)
        assert row["items/images"][0].size == (64, 64)
    assert ("items/answer" in row) == (options == ())
    if options == ("--split-key",):
        key = {row["key/item_id"].decode(): tuple(row["key/answer"]) for row in found.records("key")}
        assert key == {item_id: answer.answer for item_id, answer in bench.key("")[0].items()}
    record = json.loads((out / "croissant.json").read_text())
    assert record.keys() >= {"version", "license", "url", "citeAs", "datePublished", "creator", *RAI}


def test_the_folder_of_a_benchmark_is_described_in_place(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "about.yaml").write_text(ABOUT)
    out = tiny_benchmark / "croissant.json"
    command = ("export", tiny_benchmark, "--format", "croissant", "--about", tmp_path / "about.yaml", "-o")
    assert cli(*command, out)[0] == 0
    bench = benchmark.load(tiny_benchmark)
    rows = list(loaded(out).records("items"))
    assert [row["items/item_id"].decode() for row in rows] == [item.item_id for item in bench.items]
    for row, item in zip(rows, bench.items, strict=True):
        assert [path.decode() for path in row["items/pictures"]] == [one.image for one in item.alone_images]
    code, _, err = cli(*command, tmp_path / "croissant.json")
    assert (code, "by relative paths" in err) == (2, True)
