"""Interventions in a benchmark: made by seed, checked by hash, and without a trace where they were not asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chexqa
from chexqa import question_banks
from chexqa.cli.validate import validate
from chexqa.contract import benchmark
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256
from chexqa.generators.interventions import altered_items, card_lines
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import GenerationJob, make_job
from chexqa.phantoms import write_cases
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import item_row_id
from chexqa.review.resolve.new_version import apply_verdicts, write_version

pytestmark = pytest.mark.xdist_group("interventions")


@pytest.fixture(scope="module")
def job() -> GenerationJob:
    return make_job([recipe.load("chexpercept")], question_banks.load("en"), 5, fill="inpaint")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, job: GenerationJob) -> Path:
    folder = tmp_path_factory.mktemp("interventions")
    write_cases(folder / "phantoms", 6, 4, size=384, findings=("opacity", "cardiomegaly"))
    generate_benchmark.generate(folder / "phantoms", folder / "bench", job)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_pictures_come_in_pairs_and_what_is_missing_has_a_reason(made: Path) -> None:
    loaded = benchmark.load(made / "bench")
    found = altered_items.load(loaded)
    assert found.keys is not None
    assert found.not_audited is not None
    by = {
        name: {one.partition("@")[0] for one in found.items if one.endswith(f"@{name}")}
        for name in altered_items.ALTERED
    }
    assert by["target"]
    assert by["target"] == by["irrelevant"]
    answers, cases = loaded.key("the test")
    present = {
        item.item_id for item in loaded.items if item.kind == "detection" and answers[item.item_id].answer == (1,)
    }
    left = {f"{row.case_id}/detection" for row in found.not_audited if row.condition == "target"}
    assert by["target"] | left == present
    assert not by["target"] & left
    hearts = {row.reason for row in found.not_audited if row.finding == "cardiomegaly" and row.condition == "target"}
    assert len(hearts) == 1
    assert all(key.answer is None for item_id, key in found.keys.items() if item_id.endswith("@target"))
    assert "not audited" in "\n".join(card_lines.lines(loaded.about))
    assert len(cases) == loaded.about["counts"]["cases"]


@pytest.mark.long
def test_a_benchmark_without_them_is_the_same_in_all_else(made: Path, job: GenerationJob) -> None:
    generate_benchmark.generate(made / "phantoms", made / "plain", replace(job, fill=None))
    for name in (benchmark.ITEMS, benchmark.ANSWERS, benchmark.SKIPPED):
        assert (made / "plain" / name).read_bytes() == (made / "bench" / name).read_bytes()
    plain, whole = (json.loads((made / name / benchmark.ABOUT).read_text()) for name in ("plain", "bench"))
    del whole["interventions"]
    assert plain == whole
    extra = [
        path
        for path in made.glob("bench/images/*/*")
        if not (made / "plain" / path.relative_to(made / "bench")).exists()
    ]
    assert len(extra) == len({row["image"] for row in lines(made / "bench" / altered_items.ITEMS)})
    assert altered_items.load(benchmark.load(made / "plain")).items == {}


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_in_python_too(made: Path) -> None:
    chexqa.generate(made / "phantoms", made / "again", recipes="chexpercept", seed=5, interventions=True)
    assert (made / "again" / benchmark.ABOUT).read_bytes() == (made / "bench" / benchmark.ABOUT).read_bytes()
    for given, said in (({"fill": "mean"}, "only with"), ({"interventions": True, "fill": "men"}, "'mean'")):
        with pytest.raises(InputError, match=said):
            chexqa.generate(made / "phantoms", made / "never", **given)


def test_validate_checks_the_altered_pictures(made: Path) -> None:
    report = validate(made / "bench")
    assert "altered item" in report.summary
    image = made / "bench" / lines(made / "bench" / altered_items.ITEMS)[0]["image"]
    before = image.read_bytes()
    image.write_bytes(before[:-1] + b"x")
    with pytest.raises(InputError, match="the picture was changed"):
        validate(made / "bench")
    image.write_bytes(before)


def changed(folder: Path, name: str, old: str, new: str) -> None:
    """Change a file of interventions and the hash that ``benchmark.json`` has of it."""
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    about = json.loads((folder / benchmark.ABOUT).read_text())
    about["interventions"]["files"][name] = sha256((folder / name).read_bytes())
    (folder / benchmark.ABOUT).write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (altered_items.ITEMS, "/detection@target", "/detection@mirror", "must be an item's id followed by '@target'"),
        (altered_items.KEY, '"answer":null', '"answer":[2]', r"but must have none \(the lesion is filled in\)"),
        (altered_items.KEY, "/detection@irrelevant", "/no_kind@irrelevant", "not an altered item"),
    ],
)
def test_what_contradicts_itself_is_named(made: Path, tmp_path: Path, name: str, old: str, new: str, said: str) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    for file in made.glob("bench/*.json*"):
        (folder / file.name).write_bytes(file.read_bytes())
    changed(folder, name, old, new)
    with pytest.raises(InputError, match=said):
        altered_items.load(benchmark.load(folder))


def test_a_withheld_key_leaves_the_questions(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    for file in made.glob("bench/*.json*"):
        if file.name not in (benchmark.ANSWERS, altered_items.KEY):
            (folder / file.name).write_bytes(file.read_bytes())
    found = altered_items.load(benchmark.load(folder))
    assert found.items
    assert found.keys is None


def test_conditions_are_named_once_and_in_order() -> None:
    assert altered_items.named(["mirror,target", "original"]) == ("original", "target", "mirror")
    assert altered_items.named([]) == ("original",)
    with pytest.raises(InputError, match="did you mean 'target'"):
        altered_items.named(["targt"])


def test_a_reviewed_version_keeps_the_altered_items_of_what_stays(made: Path, tmp_path: Path) -> None:
    bench = benchmark.load(made / "bench")
    before = altered_items.load(bench)
    ids = [item_id.partition("@")[0] for item_id in before.items]
    rejected = next(one for one in ids if not one.endswith("/detection"))
    said = [
        Verdict("r", bench.hash, f"{who}-items", "items", who, item_row_id(item.item_id),
                "reject" if item.item_id == rejected else "accept", None,
                "other" if item.item_id == rejected else None, None, None, "2026-03-01", {})
        for item in bench.items for who in ("anna", "ben")
    ]  # fmt: skip
    applied = apply_verdicts(bench, said)
    with pytest.raises(InputError, match="has altered items"):
        write_version(applied, tmp_path / "refused")
    write_version(applied, tmp_path / "next", altered_items.carry)
    assert not (tmp_path / "refused").exists()
    after = benchmark.load(tmp_path / "next")
    assert rejected not in after.item
    kept = {name for name in before.items if name.partition("@")[0] in after.item}
    assert set(altered_items.load(after).items) == kept < set(before.items)
    assert "altered item" in validate(tmp_path / "next").summary
