"""Records with one field changed: what still validates is read by every command, or refused in one sentence."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import Handmade
from PIL import Image
from rest_long import rest_long

from chexqa.cli.contact_sheet import contact_sheet
from chexqa.contract import benchmark
from chexqa.eval.heatmaps import targets
from chexqa.files.errors import InputError
from chexqa.files.jsonio import dump
from chexqa.imaging import masks
from chexqa.imaging.anatomy import REGIONS
from chexqa.review.sheets import evidence_text
from chexqa.schemas import fits

Cli = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("quick")
Record = dict[str, Any]
ODD: list[Any] = [
    None, True, "", "x", "y" * 40_000, 0, -1, 2**63, 10**30, 1e308, -1e308, 0.5, [], {}, [None], [1], ["x"], [[1]],
    {"x": 1}, {"x": {"y": []}}, [{"x": 1}], "../x", "right",
]  # fmt: skip
SHARES = dict.fromkeys(REGIONS, 0.3)
EDITS = [{"over": True, "true": True, "depth": 54.4, "share": 0.06, "point_xy": [8, 6]}]
LUNGS = {"lung_share": {"right": 0.8, "left": 0.5}, "lung_area": {"right": 100, "left": 60},
         "components": [{"pixels": 9, "regions": SHARES, "lungs": {"right": 9, "left": 0}}]}  # fmt: skip
# What generation writes as evidence, by kind.
EVIDENCE: dict[str, Record] = {
    "detection": {"lesion_share": 0.1},
    "contour_evaluation": {"iou": 0.9, "edits": EDITS},
    "revision_expansion": {"points": [{"xy": [8, 6], "edit": 0, "inside": True, "distance": 29.2}]},
    "revision_result": {"errors": [[0], [], [0], [0]], "true_edits": [0], "edits": EDITS, "iou": [0.8, 1, 0.9, 0.9]},
    "distribution": {"involved": list(REGIONS[:3]), "union": SHARES, "components": LUNGS["components"]},
    "location": {"shown": list(REGIONS[:3]), "involved": list(REGIONS[:3]), "union": SHARES},
    "severity": {"side": "left", **LUNGS},
    "comparison": LUNGS,
    "grid_cell": {"coverage": [0.5] + [0.0] * 63, "plausible": [1, 2], "attainable": True},
}


@pytest.fixture
def bench(handmade: Handmade) -> Path:
    """Two cases with all ten kinds, whose key holds what generation writes."""
    lesion = np.zeros((64, 64), np.bool_)
    lesion[20:40, 8:20] = True
    measures = {
        "lesion_share": 0.06, "source_size": [64, 64], "working_size": [64, 64], "image_key": "k", "source": "phantom",
        "negative_kind": None, "license": None, "masks": {"lesion": masks.to_rle(lesion)},
    }  # fmt: skip
    handmade.case("a", "effusion", "revision_required", grid=(1,), measures=measures)
    handmade.case("b", "effusion", "lesion_free", detection=(2,), measures=measures)
    kinds = {item.item_id: item for item in handmade.items}
    handmade.answers = [
        replace(answer, evidence=EVIDENCE.get(kinds[answer.item_id].kind, {})) for answer in handmade.answers
    ]
    return handmade.write()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a record; of a list the first entries."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*at, key)
        yield from places(entry, (*at, key))


def changed(record: Record, random: random.Random) -> Record:
    """The record with one value swapped, taken away, added or doubled; ids stay, by which all is found."""
    made = copy.deepcopy(record)
    *way, last = random.choice([place for place in places(made) if place[0] not in ("item_id", "case_id")])
    inside = made
    for key in way:
        inside = inside[key]
    how = random.random()
    if how < 0.1:
        del inside[last]
    elif how < 0.2 and isinstance(inside, dict):
        inside["added"] = random.choice(ODD)
    elif how < 0.2 and isinstance(inside, list):
        inside.append(copy.deepcopy(inside[last]))
    else:
        inside[last] = random.choice(ODD)
    return made


def rewrite(folder: Path, name: str, records: list[Record]) -> None:
    """Write a file of a benchmark, and its hash."""
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    (folder / name).write_bytes(data)
    about = json.loads((folder / "benchmark.json").read_text())
    about["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / "benchmark.json").write_text(dump(about))


def loads(folder: Path) -> bool:
    try:
        benchmark.load(folder)
    except InputError:
        return False
    return True


def schema_of(name: str, record: Record) -> str:
    return "item" if name == "items.jsonl" else "answer" if "item_id" in record else "answer_case"


@pytest.mark.parametrize("name", ["answers.jsonl", "items.jsonl"])
@pytest.mark.parametrize("seed", rest_long(range(3), keep=1))
def test_what_a_changed_benchmark_says_is_read_or_refused(
    bench: Path, tmp_path: Path, cli: Cli, name: str, seed: int
) -> None:
    """Many fields of one file at once, each of which validates; the readers of the key, and the whole chain."""
    draw = random.Random(seed)
    records = [json.loads(line) for line in (bench / name).read_text().splitlines()]
    whole, kept = list(records), 0
    for _ in range(50):
        place = draw.randrange(len(whole))
        made = changed(whole[place], draw)
        if fits(schema_of(name, made))(made):
            rewrite(bench, name, [*records[:place], made, *records[place + 1 :]])
            if loads(bench):
                records[place], kept = made, kept + 1
    assert kept
    rewrite(bench, name, records)
    loaded = benchmark.load(bench)
    assert loaded.answers is not None
    assert loaded.cases is not None
    for item in loaded.items:
        evidence_text.evidence_words(item, loaded.answers[item.item_id], loaded.cases[item.case_id])
        evidence_text.flags(item, loaded.answers[item.item_id])
    for reader in (lambda: contact_sheet(loaded, loaded.items[0].case_id), lambda: seen(bench)):
        with suppress(InputError):
            reader()
    run = tmp_path / "run"
    for command in (
        ("eval", bench, "--models", "baseline/oracle,baseline/blind-prior", "-o", run),
        ("grade", run),
        ("export", "chexpercept", bench, "-o", tmp_path / "release"),
    ):
        code, _, err = cli(*command)
        assert code in (0, 2, 3), (command[0], err)


def seen(folder: Path) -> None:
    for target in targets.of_benchmark(folder).targets:
        target.read()


@pytest.mark.parametrize(
    ("kind", "key", "words"),
    [
        ("detection", {"answer": []}, "has 0 right options"),
        ("detection", {"answer": [1, 2]}, "has 2 right options"),
        ("grid_cell", {"evidence": {"coverage": [0.5]}}, "evidence of 1 cells and 64 options"),
        ("location", {"evidence": {"shown": []}}, "evidence of 0 regions"),
        ("detection", {"evidence": {"lesion_share": "much"}}, "field 'evidence.lesion_share'"),
        ("contour_evaluation", {"evidence": {"edits": [{"true": 1}]}}, "field 'evidence.edits.0'"),
        ("detection", {"evidence": {"lesion_share": 10**30}}, "is out of range: a number of 64 bits lies between"),
        ("detection", {"evidence": {"mine": {"deep": {}}}}, "field 'evidence.mine'"),
        ("detection", {"difficulty": {"depth": 1e308}}, "field 'difficulty.depth'"),
    ],
)
def test_a_key_that_does_not_go_with_its_item_is_named(bench: Path, kind: str, key: Record, words: str) -> None:
    records = [json.loads(line) for line in (bench / "answers.jsonl").read_text().splitlines()]
    rewrite(bench, "answers.jsonl", [r | key if r.get("item_id", "").endswith(f"/{kind}") else r for r in records])
    with pytest.raises(InputError, match=words):
        benchmark.load(bench)


def test_evidence_of_names_of_ones_own_is_taken(bench: Path) -> None:
    records = [json.loads(line) for line in (bench / "answers.jsonl").read_text().splitlines()]
    for record in records:
        record["measures" if "measures" in record else "evidence"] |= {"mine": 3, "words": ["a", None], "is": True}
    rewrite(bench, "answers.jsonl", records)
    assert len(benchmark.load(bench).items) == 11


def write_manifest(folder: Path) -> Record:
    """A valid case with a picture and outlines."""
    folder.mkdir(exist_ok=True)
    Image.radial_gradient("L").save(folder / "a.png")
    box = {"polygons": [[[20, 20], [120, 20], [120, 200]]]}
    runs = {"size": [256, 256], "counts": [100, 50, 256 * 256 - 150]}
    return {
        "case_id": "a", "image": "a.png", "finding": "effusion", "present": True, "mask": box, "patient_id": "p",
        "anatomy": {"right_lung": runs, "left_lung": box}, "study_id": None, "view": "PA", "sex": "F", "age": 60,
        "source": None, "license": None, "access": "open", "negative_kind": None, "review": None,
    }  # fmt: skip


def test_a_changed_manifest_becomes_a_benchmark_or_one_sentence(tmp_path: Path, cli: Cli) -> None:
    folder, draw, kept = tmp_path / "cases", random.Random(1), 0
    record = write_manifest(folder)
    for _ in range(120):
        made = changed(record, draw)
        if not fits("case")(made) or kept == 5:
            continue
        kept += 1
        (folder / "cases.jsonl").write_text(json.dumps(made) + "\n")
        shutil.rmtree(tmp_path / "bench", ignore_errors=True)
        code, _, err = cli("validate", folder / "cases.jsonl")
        assert code in (0, 2), (made, err)
        code, _, err = cli("generate", folder, "-o", tmp_path / "bench")
        assert code in (0, 2, 3), (made, err)
    assert kept == 5


MODELS = {"models": [{
    "name": "m", "litellm": "openai/m", "domain": "general", "access": "open", "api_base": "http://127.0.0.1:9/v1",
    "decoding": {"temperature": 0, "max_tokens": 64}, "max_images": 8, "context_tokens": 4096, "reply_tokens": 100,
    "price": {"input_per_million_usd": 1.5, "output_per_million_usd": 2, "cached_input_per_million_usd": None},
    "image_tokens": {"rule": "patches", "side": 28, "limit": 100, "factor": 1.5, "extra": 2}, "strip_tokens": ["<x>"],
    "thinking": "on", "thinking_switch": {"on": {"a": 1}, "off": {}}, "vllm": ["--x"], "repository": "a/b",
}]}  # fmt: skip


@pytest.mark.parametrize("command", [("models",), ("models", "serve", "m"), ("estimate", "BENCH", "--models", "m")])
def test_a_changed_models_file_is_used_or_refused(bench: Path, tmp_path: Path, cli: Cli, command: Any) -> None:
    draw, path = random.Random(2), tmp_path / "models.yaml"
    for _ in range(40):
        made = changed(MODELS, draw)
        if fits("models")(made):
            path.write_text(json.dumps(made))
            code, _, err = cli(*({"BENCH": bench}.get(word, word) for word in command), "--models-file", path)
            assert code in (0, 2), (made, err)
