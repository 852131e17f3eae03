"""The folder for VLMEvalKit, loaded by base classes that follow its documentation: the grades are chexqa's own."""

from __future__ import annotations

import ast
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from chexqa.contract import benchmark
from chexqa.contract.items import Picture
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.protocols import PriorReply
from chexqa.eval.scoring.predictions import grade_predictions

Cli = Callable[..., tuple[int, str, str]]
Messages = list[dict[str, Any]]


def listed(cell: Any) -> list[str]:
    """A cell that holds a list as text, or one text: as VLMEvalKit reads them."""
    if isinstance(cell, list):
        return cell
    return [str(one) for one in ast.literal_eval(cell)] if cell.startswith("[") else [cell]


class ImageBase:
    """A table without the column ``image`` is read by the paths of its pictures; a prompt is pictures, then text."""

    def __init__(self, dataset: str) -> None:
        self.dataset_name = dataset
        data = self.load_data(dataset)  # type: ignore[attr-defined]
        assert "image" not in data
        data["index"] = [int(one) for one in data["index"]]
        assert data["index"].is_unique
        rows = [listed(one) for one in data["image_path"]]
        data["image_path"] = [row[0] if len(row) == 1 else row for row in rows]
        self.data = data
        self.post_build(dataset)  # type: ignore[attr-defined]

    def build_prompt(self, number: int) -> Messages:
        row = self.data.iloc[number]
        pictures = [{"type": "image", "value": path} for path in listed(row["image_path"])]
        return [*pictures, {"type": "text", "value": row["question"]}]


class ImageMT(ImageBase):
    """A question is a list of turns, with a mark where each picture stands."""

    TYPE = "MT"

    def build_prompt(self, number: int) -> Messages:
        row = self.data.iloc[number]
        questions, answers, pictures = listed(row["question"]), listed(row["answer"]), iter(listed(row["image_path"]))
        assert len(questions) == len(answers)
        turns = []
        for question in questions:
            first, *rest = question.split("<ImageHere>")
            parts = [{"type": "text", "value": first}]
            for text in rest:
                parts += [{"type": "image", "value": next(pictures)}, {"type": "text", "value": text}]
            turns.append({"role": "user", "content": [part for part in parts if part["value"]]})
        assert next(pictures, None) is None
        return turns


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Modules under VLMEvalKit's names, as the launcher imports them."""
    made = {name: ModuleType(name) for name in (
        "vlmeval", "vlmeval.dataset", "vlmeval.dataset.image_base", "vlmeval.dataset.image_mt")}  # fmt: skip
    made["vlmeval.dataset.image_base"].ImageBaseDataset = ImageBase  # type: ignore[attr-defined]
    made["vlmeval.dataset.image_mt"].ImageMTDataset = ImageMT  # type: ignore[attr-defined]
    made["vlmeval.dataset"].DATASET_CLASSES = []  # type: ignore[attr-defined]
    made["vlmeval"].dataset = made["vlmeval.dataset"]  # type: ignore[attr-defined]
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return made["vlmeval.dataset"]


def datasets(folder: Path, harness: ModuleType) -> list[Any]:
    """The two datasets that the launcher registers; VLMEvalKit finds a class by the names in ``DATASET_URL``."""
    runpy.run_path(str(folder / "run_chexqa.py"), run_name="registered")
    assert os.environ["PRED_FORMAT"] == "json"
    made = [one(next(iter(one.DATASET_URL))) for one in harness.DATASET_CLASSES]
    return sorted(made, key=lambda one: one.TYPE == "MT")


@pytest.mark.parametrize("place", ["run.py", "vlmeval/run.py"], ids=["checkout", "package"])
def test_the_launcher_starts_the_harness_s_own_program_with_the_options_given(
    place: str, tiny_benchmark: Path, tmp_path: Path, cli: Cli, harness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("export", tiny_benchmark, "--format", "vlmevalkit", "-o", tmp_path / "out")[0] == 0
    (tmp_path / "vlmeval").mkdir()
    (tmp_path / place).write_text("import sys, vlmeval\nvlmeval.started = sys.argv[1:]\n")
    module = sys.modules["vlmeval"]
    module.__file__ = str(tmp_path / "vlmeval" / "__init__.py")
    monkeypatch.setattr(sys, "argv", ["run_chexqa.py", "--model", "some_model"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(tmp_path / "out" / "run_chexqa.py"), run_name="__main__")
    (name,) = harness.DATASET_CLASSES[-1].DATASET_URL
    assert module.started == ["--data", name, "--model", "some_model"]  # type: ignore[attr-defined]


def results(folder: Path, dataset: Any, replies: list[Any], form: str = "json") -> Path:
    """The file that VLMEvalKit writes of a model's replies."""
    frame = dataset.data.copy()
    frame["prediction"] = replies
    path = folder / f"some_model_{dataset.dataset_name}.{form}"
    if form == "json":
        path.write_text(json.dumps(frame.to_dict("records")))
    else:
        frame.to_csv(path, sep="\t", index=False)
    return path


def grades_of(path: Path, bench: Path) -> pl.DataFrame:
    """Return chexqa's grades of the predictions that lie beside a file of results."""
    return grade_predictions([path.with_suffix(".predictions.jsonl")], bench).grades


def say(text: str) -> str:
    return "Answer: A1" if "column letter" in text else "Answer: 1"


def test_every_kind_is_asked_alone_and_graded_as_in_a_run(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, harness: ModuleType
) -> None:
    out = tmp_path / "out"
    assert cli("export", tiny_benchmark, "--format", "vlmevalkit", "-o", out)[0] == 0
    bench = benchmark.load(tiny_benchmark)
    dataset, _ = datasets(out, harness)
    assert set(dataset.data["category"]) == {item.kind for item in bench.items}
    assert len(set(dataset.data["category"])) == 10
    replies = []
    for number, item in enumerate(bench.items):
        *pictures, text = dataset.build_prompt(number)
        assert [Path(one["value"]).read_bytes() for one in pictures] == [
            bench.image_bytes(picture.image) for picture in item.alone_images]  # fmt: skip
        assert item.question in text["value"]
        replies.append(say(text["value"]))
    replies[0] = "Failed to obtain answer via API."
    for form in ("json", "tsv"):
        path = results(tmp_path, dataset, replies, form)
        table = {row["kind"]: row for row in dataset.evaluate(str(path)).to_dict("records")}
        assert (table["all kinds"]["items"], table["all kinds"]["failed"]) == (len(bench.items), 1)
        graded = grades_of(path, tiny_benchmark)
        assert set(graded["model"]) == {"some_model"}
        assert set(graded["protocol"]) == {"independent"}
        for kind, right in graded.group_by("kind").agg(pl.col("correct").sum()).iter_rows():
            assert table[kind]["accuracy"] * table[kind]["items"] == pytest.approx(right), kind


def test_a_case_is_a_conversation_as_end_to_end_asks_it(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, harness: ModuleType
) -> None:
    out = tmp_path / "out"
    assert cli("export", tiny_benchmark, "--format", "vlmevalkit", "-o", out)[0] == 0
    bench = benchmark.load(tiny_benchmark)
    _, dataset = datasets(out, harness)
    replies = []
    for number, conversation in enumerate(protocols.conversations(bench, "end_to_end")):
        turns = dataset.build_prompt(number)
        said = [PriorReply("Answer: 1", (1,))] * (len(conversation) - 1)
        system, *messages = protocols.render(bench, "end_to_end", conversation, said)
        own = [message.parts for message in messages if message.role == "user"]
        assert len(turns) == len(own)
        for place, (turn, parts) in enumerate(zip(turns, own, strict=True)):
            texts = [part["value"].strip("\n") for part in turn["content"] if part["type"] == "text"]
            if place == 0:
                texts[0] = texts[0].removeprefix(f"{system.parts[0]}\n\n")
            assert texts == [part for part in parts if isinstance(part, str)]
            pictures = [part["value"] for part in turn["content"] if part["type"] == "image"]
            assert [Path(path).read_bytes() for path in pictures] == [
                bench.image_bytes(part.image) for part in parts if isinstance(part, Picture)]  # fmt: skip
        replies.append([say(turn["content"][-1]["value"]) for turn in turns])
    path = results(tmp_path, dataset, replies)
    table = {row["kind"]: row for row in dataset.evaluate(str(path)).to_dict("records")}
    graded = grades_of(path, tiny_benchmark)
    assert set(graded["protocol"]) == {"end_to_end"}
    assert table["all kinds"]["accuracy"] == pytest.approx(graded["correct"].mean())


def test_without_the_key_replies_are_kept_and_nothing_is_graded(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, harness: ModuleType
) -> None:
    out = tmp_path / "out"
    assert cli("export", tiny_benchmark, "--format", "vlmevalkit", "--no-key", "-o", out)[0] == 0
    assert '"chance"' not in "".join(path.read_text() for path in out.glob("*.tsv"))
    dataset, _ = datasets(out, harness)
    path = results(tmp_path, dataset, ["Answer: 1"] * len(dataset.data))
    assert "accuracy" not in dataset.evaluate(str(path)).columns
    assert grades_of(path, tiny_benchmark).height == len(dataset.data)
    code, _, err = cli("export", tiny_benchmark, "--format", "vlmevalkit", "--split-key", "-o", tmp_path / "x")
    assert (code, "so --split-key cannot be used" in err) == (2, True)
