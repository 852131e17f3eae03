"""The task folder of lmms-eval, loaded as its documentation says: the grades are those of chexqa's own run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from logs import log

from chexqa.contract import benchmark
from chexqa.eval.scoring.grade import grade_folders

Cli = Callable[..., tuple[int, str, str]]


def task_of(folder: Path) -> dict[str, Any]:
    """The task with its functions, which ``!function module.name`` names in files beside it."""

    def function(_: Any, node: yaml.ScalarNode) -> Any:
        module, _, name = node.value.partition(".")
        spec = importlib.util.spec_from_file_location(f"task_{module}", folder / f"{module}.py")
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return getattr(made, name)

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", function)
    task: dict[str, Any] = yaml.load((folder / "chexqa.yaml").read_text(), Loader=Loader)
    return task


def docs_of(task: dict[str, Any], cache: Path) -> list[dict[str, Any]]:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed (extra 'hf')")
    loaded = datasets.load_dataset(task["dataset_path"], cache_dir=str(cache), **task["dataset_kwargs"])
    return list(loaded[task["test_split"]])


def test_every_kind_is_asked_and_graded_as_in_a_run(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "task"
    assert cli("export", tiny_benchmark, "--format", "lmms-eval", "-o", out)[0] == 0
    monkeypatch.chdir(out)
    task = task_of(out)
    docs = docs_of(task, tmp_path / "cache")
    bench = benchmark.load(tiny_benchmark)
    assert [doc["item_id"] for doc in docs] == [item.item_id for item in bench.items]
    values: dict[str, list[Any]] = {}
    for doc in docs:
        item = bench.item[doc["item_id"]]
        text, pictures = task["doc_to_text"](doc, {"post_prompt": "\n"}), task["doc_to_visual"](doc)
        assert item.question in text
        assert text.startswith("You are reading frontal chest radiographs")
        assert text.endswith("\n")
        assert [picture.mode for picture in pictures] == ["RGB"] * len(item.alone_images)
        assert all(f"Picture {number}:" in text for number in range(1, len(pictures) + 1))
        assert task["doc_to_target"](doc) == ", ".join(map(str, bench.key("")[0][item.item_id].answer))
        for name, value in task["process_results"](doc, ["Answer: 1"]).items():
            values.setdefault(name, []).append(value)
    grades = grade_folders([log(tmp_path / "run", tiny_benchmark, protocol="independent")]).grades
    own = dict(grades.select("item_id", "correct").iter_rows())
    cells = {item.item_id for item in bench.items if item.form.name == "cell"}  # the log names a cell by its number
    assert {one["item_id"]: bool(one["right"]) for one in values["corrected"] if one["item_id"] not in cells} == {
        name: right for name, right in own.items() if name not in cells}  # fmt: skip
    metrics = {one["metric"]: one["aggregation"] for one in task["metric_list"]}
    assert metrics.keys() == values.keys()
    assert metrics["corrected"](values["corrected"]) < 1
    assert metrics["corrected"]([{"right": 0.5, "chance": 0.5}]) == 0


def test_without_the_key_nothing_is_graded(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "task"
    assert cli("export", tiny_benchmark, "--format", "lmms-eval", "--no-key", "-o", out)[0] == 0
    monkeypatch.chdir(out)
    task = task_of(out)
    doc = docs_of(task, tmp_path / "cache")[0]
    assert task["doc_to_target"](doc) == ""
    with pytest.raises(ValueError, match="--no-key"):
        task["process_results"](doc, ["Answer: 1"])
    code, _, err = cli("export", tiny_benchmark, "--format", "lmms-eval", "--split-key", "-o", tmp_path / "x")
    assert (code, "leave --split-key out" in err) == (2, True)
