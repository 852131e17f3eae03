"""A benchmark folder: written, read back, and refused when it was changed."""

import json
from pathlib import Path

import pytest

from chexqa.contract import benchmark
from chexqa.files.errors import InputError


def test_a_benchmark_reads_back_what_was_written(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    assert bench.about["counts"]["kinds"]["grid_cell"] == 2
    assert bench.about["counts"]["paths"]["effusion"] == {"lesion_free": 1, "revision_free": 1, "revision_required": 1}
    assert bench.item[bench.items[0].item_id] is bench.items[0]
    assert benchmark.check_images(bench) == bench.about["counts"]["images"]


def test_a_grid_item_stands_in_a_conversation_of_its_own(tiny_benchmark: Path) -> None:
    groups = benchmark.conversations(benchmark.load(tiny_benchmark).items)
    kinds = [[item.kind for item in group] for group in groups]
    assert kinds.count(["grid_cell"]) == 2
    assert all("grid_cell" not in group for group in kinds if len(group) > 1)
    assert max(len(group) for group in kinds) == 9


@pytest.mark.parametrize("name", ["items.jsonl", "answers.jsonl"])
def test_a_changed_file_is_named(tiny_benchmark: Path, name: str) -> None:
    path = tiny_benchmark / name
    path.write_text(path.read_text().replace("effusion", "edema").replace("0.5", "0.6"))
    with pytest.raises(InputError, match=f"{name}: changed after"):
        benchmark.load(tiny_benchmark)


def test_the_counts_of_a_finding_name_every_path(tiny_benchmark: Path) -> None:
    about = json.loads((tiny_benchmark / "benchmark.json").read_text())
    del about["counts"]["paths"]["edema"]["revision_free"]
    (tiny_benchmark / "benchmark.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="field 'revision_free' is missing"):
        benchmark.load(tiny_benchmark)


@pytest.mark.parametrize("text", ["{n} {text} }", "{n} {text.__class__}", "{n:>1000000000} {text}"])
def test_words_that_cannot_be_filled_in_are_refused(tiny_benchmark: Path, text: str) -> None:
    about = json.loads((tiny_benchmark / "benchmark.json").read_text())
    about["question_bank"]["conversation"]["option"] = text
    (tiny_benchmark / "benchmark.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"benchmark\.json, field 'question_bank\.conversation\.option'"):
        benchmark.load(tiny_benchmark)


def test_a_changed_picture_is_named_when_it_is_used(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    image = bench.items[0].alone_images[0].image
    (tiny_benchmark / image).write_bytes(b"other")
    with pytest.raises(InputError, match=Path(image).name):
        benchmark.check_images(bench)


def test_a_thumbnail_is_made_of_the_checked_picture_where_there_is_none(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    image = bench.items[0].alone_images[0].image
    data = bench.thumb_bytes(image)
    assert data.startswith(b"\xff\xd8"), "a JPEG"
    assert not (tiny_benchmark / benchmark.thumb_path(image)).exists(), "nothing is written beside the benchmark"
    (tiny_benchmark / image).write_bytes(b"other")
    with pytest.raises(InputError, match="the picture was changed"):
        bench.thumb_bytes(image)
    kept = tiny_benchmark / benchmark.thumb_path(image)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(data)
    assert bench.thumb_bytes(image) == data


def test_a_withheld_key_is_told_to_who_needs_it(tiny_benchmark: Path) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    (tiny_benchmark / "skipped.jsonl").unlink()
    bench = benchmark.load(tiny_benchmark)
    assert bench.answers is None
    with pytest.raises(InputError, match=r"oracle_passed needs the key"):
        bench.key("oracle_passed")
