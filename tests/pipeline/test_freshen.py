"""A fresh seed of a benchmark: the same radiographs and rules, no drawn picture in common, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chexqa
from chexqa import question_banks
from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.kinds import FRESH_KINDS
from chexqa.files.errors import InputError
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.case_paths import draw_again
from chexqa.generators.pipeline.job import drawn_pictures, make_job
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("freshen")
Cli = Callable[..., tuple[int, str, str]]
BANK = question_banks.load("en")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Phantoms of effusion, a benchmark of them with the grid task and controls, and a fresh seed of it by the command.

    The fresh seed is made from a manifest in which one case has another mask.
    """
    folder = tmp_path_factory.mktemp("freshen")
    write_cases(folder / "cases", 6, 3, 256, findings=("effusion",))
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], BANK, 1, controls=True)
    generate_benchmark.generate(folder / "cases", folder / "bench", job)
    records = [json.loads(line) for line in (folder / "cases" / "cases.jsonl").read_text().splitlines()]
    present = [record for record in records if record["present"]]
    present[0]["mask"] = present[0]["anatomy"]["right_lung"]
    changed = folder / "cases" / "changed.jsonl"
    changed.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert (
        run(["freshen", str(folder / "bench"), "--cases", str(changed), "--seed", "2", "-o", str(folder / "fresh")])
        == 0
    )
    return folder


@pytest.fixture(scope="module")
def pair(place: Path) -> tuple[Benchmark, Benchmark]:
    return benchmark.load(place / "bench"), benchmark.load(place / "fresh")


def test_the_cases_with_the_finding_are_asked_again_and_no_drawn_picture_is_shared(
    pair: tuple[Benchmark, Benchmark],
) -> None:
    old, new = pair
    assert new.about["fresh_of"] == {"name": old.name, "version": "1", "hash": old.hash, "seed": 1}
    cases = [{case.source_case_id: case for case in (bench.cases or {}).values() if case.path != "lesion_free"}
             for bench in pair]  # fmt: skip
    assert len(cases[0]) - 1 == len(cases[1]) == 3
    cases[0] = {name: case for name, case in cases[0].items() if name in cases[1]}
    assert Counter(case.path for case in cases[0].values()) == Counter(case.path for case in cases[1].values())
    assert {name: case.measures["masks"] for name, case in cases[0].items()} == {
        name: case.measures["masks"] for name, case in cases[1].items()
    }
    assert {item.kind for item in new.items} == FRESH_KINDS
    assert len(drawn_pictures(new.items)) > 5
    assert not drawn_pictures(old.items) & drawn_pictures(new.items)
    plain = [{picture.image for item in bench.items for picture in item.alone_images if picture.role == "radiograph"}
             for bench in pair]  # fmt: skip
    assert plain[1] < plain[0], "the plain radiographs are those of before"
    assert all(picture.control for item in new.items for picture in item.turn_images if picture.role != "radiograph")
    assert benchmark.check_images(new) == new.about["counts"]["images"]
    assert not {item.item_id for item in old.items} & {item.item_id for item in new.items}


def test_paths_are_exchanged_within_a_finding() -> None:
    before: dict[str, Any] = {
        f"{finding}{number}": (finding, "revision_required" if number % 3 else "revision_free")
        for finding in ("edema", "effusion")
        for number in range(60)
    }
    after = draw_again(before, 5)
    for finding in ("edema", "effusion"):
        names = [name for name, (other, _) in before.items() if other == finding]
        assert Counter(after[name] for name in names) == Counter(before[name][1] for name in names)
    kept = sum(after[name] == path for name, (_, path) in before.items())
    assert 40 < kept < 95, "about 5 of 9 keep their path by chance"
    assert draw_again(dict(reversed(before.items())), 5) == after != draw_again(before, 6)


def test_a_case_with_another_mask_is_left_out_with_the_reason(pair: tuple[Benchmark, Benchmark]) -> None:
    (row,) = [json.loads(line) for line in (pair[1].folder / "skipped.jsonl").read_text().splitlines()]
    assert row["source_case_id"] not in {case.source_case_id for case in (pair[1].cases or {}).values()}
    assert "masks differ from those in the benchmark" in row["reason"]
    assert pair[1].about["counts"]["cases"] == 3


def test_what_cannot_be_freshened_is_refused_in_one_sentence(cli: Cli, place: Path, tmp_path: Path) -> None:
    few = place / "cases" / "few.jsonl"
    lines = (place / "cases" / "cases.jsonl").read_text().splitlines(keepends=True)
    few.write_text("".join(line for line in lines if not json.loads(line)["present"]))
    grid = tmp_path / "grid"
    generate_benchmark.generate(place / "cases", grid, make_job([recipe.load("grid")], BANK, 1))
    other = tmp_path / "bank.yaml"
    text = (Path(question_banks.__file__).parent / "en.yaml").read_text()
    other.write_text(text.replace("name: en\n", "name: other\n"))
    cases, bench = ("--cases", place / "cases"), place / "bench"
    for arguments, words in (
        ((bench, *cases, "--seed", 1), "is the seed of"),
        ((bench, "--cases", few, "--seed", 2), "has 4 cases with a finding, and this manifest lacks 4"),
        ((bench, *cases, "--seed", 2, "--recipe", "strict"), "differs from the given recipe 'strict'"),
        ((bench, *cases, "--seed", 2, "--recipe", "grid"), "needs a recipe with questions on outlines"),
        ((bench, *cases, "--seed", 2, "--bank", other), "differs from the given bank 'other'"),
        ((grid, *cases, "--seed", 2), "asks no question on an outline"),
    ):
        code, _, err = cli("freshen", *arguments, "-o", tmp_path / "out")
        assert (code, err.count("\n")) == (2, 1)
        assert words in err
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "out.partial").exists()
    with pytest.raises(InputError, match="is the seed of"):
        chexqa.freshen(bench, place / "cases", tmp_path / "out", seed=1)


def test_kinds_that_a_fresh_seed_leaves_out_are_named(cli: Cli, place: Path, tmp_path: Path) -> None:
    given = ("freshen", place / "bench", "--cases", place / "cases", "--seed", 3)
    out = cli(*given, "-o", tmp_path / "out")[1]
    assert "Left out, as another seed draws nothing anew for them: severity, comparison, grid_cell\n" in out


@pytest.mark.long
def test_the_function_makes_what_the_command_makes(place: Path, pair: tuple[Benchmark, Benchmark]) -> None:
    made = chexqa.freshen(place / "bench", place / "cases" / "changed.jsonl", place / "again", seed=2)
    assert made.hash == pair[1].hash
