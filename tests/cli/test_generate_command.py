"""``chexqa generate`` and ``validate`` on what users really give them: one sentence, exit code 2, nothing left."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from chexqa.contract import benchmark
from chexqa.contract.benchmark import record_hash
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.generators.pipeline import recipe
from chexqa.imaging.masks import to_rle
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("generate_command")

Cli = Callable[..., tuple[int, str, str]]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven small phantoms, one of each finding; not to be changed."""
    folder = tmp_path_factory.mktemp("command") / "cases"
    write_cases(folder, 7, 3, 256)
    return folder


@pytest.fixture
def cases(phantoms: Path, tmp_path: Path) -> Path:
    """A copy of the first two phantoms to break."""
    shutil.copytree(phantoms, tmp_path / "cases")
    change_lines(tmp_path / "cases", lambda records: records.__delitem__(slice(2, None)))
    return tmp_path / "cases"


@pytest.fixture(scope="module")
def benchmark_of_one(phantoms: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of the grid task, which is quick to make; not to be changed."""
    from chexqa.cli.main import run

    out = tmp_path_factory.mktemp("bench") / "bench"
    assert run(["generate", str(phantoms), "-o", str(out), "--recipe", "grid"]) == 0
    return out


def change_lines(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    records = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    change(records)
    (folder / "cases.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def refused(cli: Cli, tmp_path: Path, cases: Path, *more: object) -> str:
    """Generate, which must fail for the user's input, in one sentence, leaving nothing; returns the sentence."""
    before = sorted(tmp_path.iterdir())
    code, out, err = cli("generate", cases, "-o", tmp_path / "bench", *more)
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.rstrip().endswith(".")
    assert sorted(tmp_path.iterdir()) == before, "something was left behind"
    return err


def test_a_benchmark_is_made_and_told_of(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    code, text, err = cli("generate", phantoms / "cases.jsonl", "-o", out, "--recipe", "grid", "--seed", "4")
    assert code == 0
    assert PHANTOM_NOTICE in text
    assert "items: grid_cell" in text
    assert f"Benchmark: {out}" in text
    assert f"Next: chexqa eval {out}" in text
    assert "left out" in err
    code, text, _ = cli("validate", out)
    assert code == 0
    assert "all hashes right" in text
    code, _, err = cli("generate", phantoms, "-o", out, "--recipe", "grid", "--seed", "4")
    assert code == 2
    assert "exists already; name another output folder" in err


@pytest.mark.long
def test_where_cases_are_too_few_the_table_says_how_many_were_wanted(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    wanted = {"lesion_free": 0, "revision_free": 1, "revision_required": 20}
    few = {**recipe.load("chexpercept").to_record(), "name": "few", "quotas": wanted}
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(few), encoding="utf-8")
    code, text, _ = cli("generate", phantoms, "-o", tmp_path / "bench", "--recipe", tmp_path / "few.yaml")
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == few["findings"], "a finding without any case is told of too"
    made = json.loads((tmp_path / "bench" / "benchmark.json").read_text())["counts"]["paths"]
    assert 0 < len(made) < len(rows)
    assert " cases, but fewer were found" in " ".join(text.split())
    for finding, free, approved, altered in rows:
        assert free == "0", "none was wanted"
        counts = made.get(finding, {})
        assert approved == ("1" if counts.get("revision_free") else "0 of 1")
        assert altered == f"{counts.get('revision_required', 0)} of 20"


def test_items_in_which_no_cell_is_a_hit_are_counted(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    asked = recipe.load("grid").to_record() | {"name": "mine"}
    for share in (1e-6, 1.0):
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(asked | {"hit_share": share}), encoding="utf-8")
        out = tmp_path / str(share)
        code, text, err = cli("generate", phantoms, "-o", out, "--recipe", tmp_path / "mine.yaml")
        assert code == 0, err
        answers, _ = benchmark.load(out).key("this test")
        without = sum(not answer.answer for answer in answers.values())
        assert (without > 0) == (share == 1.0)
        said = f"In {without} of {len(answers)} grid_cell items no cell is a hit, so every answer to these items is"
        assert text.count("no cell is a hit") == text.count(said) == (1 if without else 0)


def test_json_is_benchmark_json_and_nothing_else(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    code, text, _ = cli("generate", phantoms, "-o", tmp_path / "bench", "--recipe", "grid", "--json")
    assert code == 0
    assert json.loads(text) == json.loads((tmp_path / "bench" / "benchmark.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--recipe", "chexpercep"], "there is no recipe 'chexpercep' (did you mean 'chexpercept'?)"),
        (["--recipe", "nothing.yaml"], "nothing.yaml: no such file."),
        (["--bank", "enn"], "there is no question bank 'enn' (did you mean 'en'?)"),
        (["--recipe", "grid", "--recipe", "grid"], "both for the grid task"),
        (["--image-root", "/no/such/folder"], "/no/such/folder: the image root is not a folder"),
    ],
)
def test_a_name_nobody_knows_names_the_nearest(
    cli: Cli, cases: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert said in refused(cli, tmp_path, cases, *arguments)


def test_a_manifest_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    assert "make a manifest with 'chexqa ingest'" in refused(cli, tmp_path, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "contains no cases.jsonl" in refused(cli, tmp_path, tmp_path / "empty")
    (tmp_path / "empty" / "cases.jsonl").touch()
    assert "contains no case" in refused(cli, tmp_path, tmp_path / "empty")


def test_what_is_asked_next_asks_about_the_altered_pictures(cli: Cli, cases: Path, tmp_path: Path) -> None:
    out = tmp_path / "anna's bench"
    code, text, err = cli("generate", cases, "-o", out, "--recipe", "chexpercept", "--interventions")
    assert code == 0, err
    command = shlex.split(text.splitlines()[-1].removeprefix("Next: "))
    assert command[:3] == ["chexqa", "eval", str(out)]
    assert command[-4:] == ["--condition", "original,target,irrelevant", "-o", "RUN"]
    assert "can be audited with target and irrelevant pictures, and a verdict needs 10." in text


BROKEN_LINES: dict[str, tuple[Change, str]] = {
    "a finding nobody knows": (lambda line: line.update(finding="efusion"), "no finding 'efusion' (did you mean"),
    "an unknown field": (lambda line: line.update(colour="red"), 'unknown field "colour"'),
    "a missing field": (lambda line: line.pop("present"), "'present' is missing"),
    "a case id given twice": (lambda line: line.update(case_id="p000001"), "'p000001' is given twice, first in line 1"),
    "a path that leaves the folder": (lambda line: line.update(image="../x.png"), "leaves the manifest's folder"),
    "an absolute path": (lambda line: line.update(image="/etc/hostname"), "leaves the manifest's folder"),
    "a present finding without mask": (lambda line: line.update(present=True, mask=None), "has no 'mask'"),
}


PLUGIN = """
from dataclasses import dataclass
from pathlib import Path
from chexqa.contract.declared import DeclaredEvidence, measured
from chexqa.contract.kinds import Kind
from chexqa.generators.pipeline.builders.plugins import question

@dataclass(frozen=True, kw_only=True)
class Count(DeclaredEvidence):
    words = "{number} pixels"
    number: int = measured("pixels", 0, 10)

KIND = Kind(name="count", seq=1, level=None, stage=None, form_name="single", evidence=Count, about="?", heading="n")

@question(KIND, bank=Path(__file__).with_name("count.yaml"))
def build(case, kind):
    %s
"""


def ask(
    answer: str, number: int = 3, turn: str = "[case.radiograph]", words: str = "'one', 'more'", difficulty: str = "{}"
) -> str:
    """Return the line of a builder that adds an item."""
    return (
        f"case.builder.ask(kind, case.builder.words(kind, {words}), {answer}, turn={turn}, alone=[case.radiograph], "
        f"evidence=Count(number={number}), difficulty={difficulty})"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("case.mask('patch')", "ValueError: there is no mask 'patch' (known: lesion, right_lung, left_lung, heart)"),
        ("case.builder.words(kind, 'one', 'two')", "count.yaml, field 'en.two': there is no such text; add it"),
        ("raise SystemExit(5)", "(SystemExit: 5)"),
        ("raise ValueError('two\\nlines')", "(ValueError: two lines)"),
        (ask("(9,)"), "option number that the item does not have (answer (9,), 2 options)"),
        (ask("(1,)", number=11), "evidence with number 11, which is outside the bounds"),
        (ask("(1,)", difficulty="{'margin': 'a'}"), "key: field 'difficulty.margin': "),
        (ask("(1,)", turn="['x.png']"), "'turn' has 'x.png'; it takes pictures, such as case.radiograph"),
        (ask("(1,)", words="'one', 'one'"), "two options have the text 'one'"),
        (f"{ask('(1,)')}; {ask('(2,)')}", "the case has a question of this kind already"),
    ],
)
def test_a_plugin_whose_code_fails_is_named_with_the_place_and_the_case(
    cli: Cli, cases: Path, tmp_path: Path, body: str, said: str
) -> None:
    code, err = generate_with(cli, cases, tmp_path, body)[::2]
    assert code == 2
    for part in (f"{tmp_path / 'count.py'}, line ", "function 'build'", "the kind 'count' failed on the case 'p", said):
        assert part in err
    assert "bug" not in err
    assert not (tmp_path / "bench").exists()


def test_items_are_made_anew_after_a_plugin_was_corrected(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    once = f"Path({str(tmp_path / 'asked')!r}).touch(exist_ok=False)"  # fails on the second case
    broken = f"{once}; {ask('(1,)')}"
    assert generate_with(cli, phantoms, tmp_path, broken)[0] == 2
    assert (tmp_path / "bench.partial" / "built.jsonl").read_bytes(), "the first case has the answer 1"
    right = ask("(2,)", difficulty="{'margin': __import__('numpy').float64(0.5)}")
    assert generate_with(cli, phantoms, tmp_path, right)[0] == 0
    made = benchmark.load(tmp_path / "bench")
    answers, _ = made.key("the test")
    keys = [answers[item.item_id] for item in made.items if item.kind == "count"]
    assert {(key.answer, key.difficulty["margin"]) for key in keys} == {((2,), 0.5)}


def test_a_plugin_that_asks_of_no_case_is_told_of(cli: Cli, cases: Path, tmp_path: Path) -> None:
    code, out, _ = generate_with(cli, cases, tmp_path, "assert case.mask('lesion') is None or case.present")
    assert code == 0
    assert "The plugin's kind 'count' was asked of no case." in out


def generate_with(cli: Cli, cases: Path, tmp_path: Path, body: str) -> tuple[int, str, str]:
    """Run 'generate' with a plugin whose builder is the line ``body``."""
    (tmp_path / "count.py").write_text(PLUGIN % body)
    (tmp_path / "count.yaml").write_text("en: {question: 'How many?', one: one, more: more}\n")
    return cli("generate", cases, "--recipe", "grid", "--plugin", tmp_path / "count.py", "-o", tmp_path / "bench")


@pytest.mark.parametrize("what", BROKEN_LINES)
def test_a_broken_line_is_named_by_its_number(cli: Cli, cases: Path, tmp_path: Path, what: str) -> None:
    change, said = BROKEN_LINES[what]
    change_lines(cases, lambda records: change(records[1]))
    error = refused(cli, tmp_path, cases)
    assert "cases.jsonl, line 2: " in error
    assert said in error


def test_a_line_that_is_no_json(cli: Cli, cases: Path, tmp_path: Path) -> None:
    text = (cases / "cases.jsonl").read_text()
    (cases / "cases.jsonl").write_text(text[: len(text) - 30])
    assert "cases.jsonl, line 2: not valid JSON" in refused(cli, tmp_path, cases)


def test_a_link_out_of_the_folder_is_refused(cli: Cli, cases: Path, tmp_path: Path) -> None:
    picture = cases / json.loads((cases / "cases.jsonl").read_text().splitlines()[1])["image"]
    (tmp_path / "secret.png").write_bytes(picture.read_bytes())
    picture.unlink()
    picture.symlink_to(tmp_path / "secret.png")
    assert "leaves the manifest's folder through a link" in refused(cli, tmp_path, cases)


PICTURES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no such file"),
    "empty": (b"", "the file is empty"),
    "text": (b"this is not a picture at all", "not a PNG or JPEG"),
    "truncated": (b"cut", "truncated or damaged"),
}


@pytest.mark.parametrize("what", PICTURES)
def test_one_bad_picture_is_left_out_and_told_of(cli: Cli, phantoms: Path, tmp_path: Path, what: str) -> None:
    shutil.copytree(phantoms, tmp_path / "cases")
    records = [json.loads(line) for line in (tmp_path / "cases" / "cases.jsonl").read_text().splitlines()]
    bad = next(record for record in records if record["present"] and record["finding"] != "pneumonia")
    picture = tmp_path / "cases" / bad["image"]
    data, said = PICTURES[what]
    if data is None:
        picture.unlink()
    else:
        picture.write_bytes(picture.read_bytes()[:2000] if data == b"cut" else data)
    code, _, err = cli("generate", tmp_path / "cases", "-o", tmp_path / "bench", "--recipe", "grid")
    assert code == 0, "skipped cases are no failure"
    assert f"{bad['case_id']}, {bad['finding']}: cases.jsonl, line " in " ".join(err.split())
    rows = [json.loads(line) for line in (tmp_path / "bench" / "skipped.jsonl").read_text().splitlines()]
    assert said in next(row["reason"] for row in rows if row["source_case_id"] == bad["case_id"])
    code, out, err = cli("validate", tmp_path / "cases")
    assert code == 2
    assert "manifest: 7 cases" in out
    assert said in err
    assert "1 problem; 'generate' would leave these cases out." in err


RECIPES: dict[str, tuple[Change, str]] = {
    "no task": (lambda made: made.pop("task"), "'task' is missing"),
    "an unknown finding": (lambda made: made["findings"].append("edemaa"), "'edemaa' (did you mean 'edema'?)"),
    "an unknown field": (lambda made: made.update(qotas={}), "unknown field"),
    "a negative quota": (lambda made: made["quotas"].update(lesion_free=-1), "quotas.lesion_free"),
    "nothing may be taken away": (lambda made: made["deformation"].update(min_share=0.3, max_share=0.4), "max_share"),
    "no weights": (lambda made: made["deformation"].update(edit_count_weights=[0, 0, 0]), "edit_count_weights"),
    "a range the wrong way round": (lambda made: made["deformation"].update(iou=[0.9, 0.5]), "deformation.iou"),
    "depths the wrong way round": (lambda made: made["deformation"].update(max_depth=0.001), "max_depth"),
    "edits deeper than wide": (lambda made: made["deformation"].update(reach_to_depth=[1, 2]), "reach_to_depth"),
    "too few points": (lambda made: made["points"].update(max=3, min=2), "points.max"),
    "more points than the most": (lambda made: made["points"].update(max=4, min=5), "points.max"),
    "too many places": (lambda made: made["attributes"].update(location_options=30), "location_options"),
    "any region is involved": (lambda made: made["attributes"].update(involved_share=0), "attributes.involved_share"),
    "any lung counts": (lambda made: made["attributes"].update(lung_share=0), "attributes.lung_share"),
    "a cut at nothing": (lambda made: made["attributes"].update(severity_cuts=[0, 0.5]), "attributes.severity_cuts"),
    "cuts the wrong way round": (lambda made: made["attributes"].update(severity_cuts=[0.6, 0.3]), "severity_cuts"),
}


@pytest.mark.parametrize("what", RECIPES)
def test_a_recipe_that_cannot_work_is_refused_by_field(cli: Cli, cases: Path, tmp_path: Path, what: str) -> None:
    change, said = RECIPES[what]
    made = recipe.load("chexpercept").to_record()
    change(made)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(made))
    error = refused(cli, tmp_path, cases, "--recipe", path)
    assert f"{path}" in error
    assert said in error


def test_whole_numbers_with_a_point_are_counted_with(tmp_path: Path) -> None:
    made = recipe.load("chexpercept").to_record()
    made["quotas"]["lesion_free"] = made["deformation"]["tries"] = 24.0
    made["points"]["max"] = made["attributes"]["location_options"] = 8.0
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(made))
    read = recipe.load(str(tmp_path / "mine.yaml"))
    assert isinstance(read, recipe.PerceptionRecipe)
    counts = [read.quotas.lesion_free, read.deformation.tries, read.points.max, read.points.min]
    counts.append(read.attributes.location_options)
    assert [count for count in counts if type(count) is int] == [24, 24, 8, 3, 8]
    assert read.deformation.reach_to_depth == (1.8, 5.0)


@pytest.mark.parametrize("name", recipe.names())
def test_a_recipe_comes_back_from_its_record_as_it_was(name: str, tmp_path: Path) -> None:
    read = recipe.load(name)
    shuffled = dict(reversed(read.to_record().items()))
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(shuffled, sort_keys=False))
    again = recipe.load(str(tmp_path / "mine.yaml"))
    assert again == read
    assert record_hash(again.to_record()) == record_hash(read.to_record()), "whatever the order of the file"


def test_the_grid_recipe_of_before_is_read(tmp_path: Path) -> None:
    grid = recipe.load("grid").to_record()
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**grid, "columns": 8, "rows": 8}))
    assert recipe.load(str(tmp_path / "mine.yaml")) == recipe.load("grid")


def test_a_grid_recipe_that_places_what_it_does_not_ask_about(cli: Cli, cases: Path, tmp_path: Path) -> None:
    made = recipe.load("grid").to_record()
    made["plausible_anatomy"]["edmea"] = ["heart"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(made))
    assert "'edmea' (did you mean 'edema'?)" in refused(cli, tmp_path, cases, "--recipe", tmp_path / "mine.yaml")


def test_quotas_of_zero_give_nothing_and_say_so(cli: Cli, cases: Path, tmp_path: Path) -> None:
    made = recipe.load("chexpercept").to_record()
    made["quotas"] = {"lesion_free": 0, "revision_free": 0, "revision_required": 0}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(made))
    assert "quotas are all zero" in refused(cli, tmp_path, cases, "--recipe", tmp_path / "mine.yaml")


def test_a_yaml_key_given_twice_is_an_error(cli: Cli, cases: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: a\nname: b\n")
    assert "'name' is given twice" in refused(cli, tmp_path, cases, "--recipe", tmp_path / "mine.yaml")


def test_an_output_whose_parent_is_a_file(cli: Cli, cases: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = cli("generate", cases, "-o", tmp_path / "file" / "bench")
    assert code == 2
    assert "cannot be written" in err


def test_a_worker_count_of_none_is_refused(cli: Cli, cases: Path, tmp_path: Path) -> None:
    assert cli("generate", cases, "-o", tmp_path / "bench", "--workers", "0")[0] == 2


@pytest.mark.parametrize("name", ["items.jsonl", "answers.jsonl", "skipped.jsonl"])
def test_validate_names_the_file_that_was_changed(cli: Cli, benchmark_of_one: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(benchmark_of_one, tmp_path / "bench")
    path = tmp_path / "bench" / name
    path.write_text(path.read_text() + "\n")
    code, _, err = cli("validate", tmp_path / "bench")
    assert code == 2
    assert f"{name}: changed after the benchmark was written" in err


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "cases.jsonl, line 1: no1.png: no such file; if"),
        (2, "cases.jsonl: 2 of 2 cases name a missing file: no1.png (line 1), no2.png (line 2); if"),
        (
            12,
            "cases.jsonl: 12 of 12 cases name a missing file: no1.png (line 1), no2.png (line 2), no3.png (line 3) "
            "and 9 more; if",
        ),
    ],
)
def test_validate_says_once_that_files_are_missing(cli: Cli, tmp_path: Path, count: int, named: str) -> None:
    lines = [
        {"case_id": f"c{number}", "image": f"no{number}.png", "finding": "effusion", "present": False}
        for number in range(1, count + 1)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, err = cli("validate", str(tmp_path / "cases.jsonl"))
    assert code == 2
    assert f"problem: {named} the data lies elsewhere" in err
    assert err.count("--image-root") == 1
    assert "1 problem; 'generate' would leave these cases out" in err


def test_validate_finds_files_under_the_image_root(cli: Cli, phantoms: Path, tmp_path: Path) -> None:
    shutil.copyfile(phantoms / "cases.jsonl", tmp_path / "cases.jsonl")
    assert "7 of 7 cases name a missing file" in cli("validate", str(tmp_path))[2]
    assert cli("validate", str(tmp_path), "--image-root", str(phantoms))[0] == 0


def test_validate_names_a_picture_that_was_changed_or_lost(cli: Cli, benchmark_of_one: Path, tmp_path: Path) -> None:
    shutil.copytree(benchmark_of_one, tmp_path / "bench")
    picture = next((tmp_path / "bench").glob("images/*/*.png"))
    picture.write_bytes(picture.read_bytes() + b"x")
    code, _, err = cli("validate", tmp_path / "bench")
    assert (code, f"{picture.name}: the picture was changed" in err) == (2, True)
    picture.unlink()
    code, _, err = cli("validate", tmp_path / "bench")
    assert (code, f"{picture.name}: no such file; restore it" in err) == (2, True)


def test_validate_knows_every_kind_of_file(cli: Cli, benchmark_of_one: Path, phantoms: Path) -> None:
    root = Path(recipe.__file__).parents[2]
    expected = {
        benchmark_of_one: "with its key",
        benchmark_of_one / "benchmark.json": "all hashes right",
        benchmark_of_one / "items.jsonl": "item lines",
        benchmark_of_one / "answers.jsonl": "a benchmark's key",
        benchmark_of_one / "skipped.jsonl": "skipped lines",
        phantoms: "manifest: 7 cases",
        phantoms / "cases.jsonl": "manifest: 7 cases",
        root / "generators" / "recipes" / "grid.yaml": "recipe file",
        root / "generators" / "recipes" / "chexpercept.yaml": "recipe file",
        root / "question_banks" / "en.yaml": "bank file",
        root / "eval" / "models" / "models.yaml": "models file",
        root / "eval" / "tables" / "published.yaml": "published file",
    }
    for path, said in expected.items():
        code, out, err = cli("validate", path)
        assert (code, err) == (0, ""), path
        assert said in out, path


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.jsonl", '{"a": 1}\n', "fit none of chexqa's formats"),
        ("x.jsonl", "", "is empty"),
        ("x.jsonl", "[1]\n", "fit none of chexqa's formats"),
        ("x.yaml", "a: 1\n", "not a chexqa YAML file"),
        ("x.yaml", "task: [", "not valid YAML"),
        ("x.txt", "hello", "not a chexqa file"),
        ("x.json", '{"a": 1}', "not a chexqa JSON file"),
        ("x.json", "[1]", "not a chexqa JSON file"),
        ("x.json", '{"batch": 1}', "x.json: the field 'schema_version' is missing"),
        ("x.jsonl", '{"item_id": "c/detection", "anser": [1]}\n', 'x.jsonl, line 1: unknown field "anser"'),
        ("benchmark.json", "{}", "field 'schema_version' is missing"),
        ("run.json", "{", "not valid JSON"),
    ],
)
def test_validate_says_what_a_stray_file_is_not(cli: Cli, tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    code, out, err = cli("validate", tmp_path / name)
    assert (code, out) == (2, "")
    assert said in err


def test_validate_knows_predictions_from_a_key_and_lists_wrong_lines(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text('{"item_id": "c/detection", "answer": [1]}\n{"item_id": "c/location", "text": "2", "model": "m"}\n')
    code, out, err = cli("validate", path)
    assert (code, err) == (0, "")
    assert "prediction lines: 2, all fit their schema" in out
    path.write_text(
        '{"item_id": "c/detection", "answer": "x"}\n{\n{"item_id": "a/grid", "answer": [1]}\n{"item_id": 1}\n'
    )
    code, out, err = cli("validate", path)
    assert (code, out) == (2, "")
    first, *lines = err.splitlines()
    assert first == f"error: {path}: 3 lines are wrong; correct them:"
    assert [line.partition(":")[0] for line in lines] == ["  line 1", "  line 2", "  line 4"]


def test_validate_of_nothing_and_of_a_folder_of_nothing(cli: Cli, tmp_path: Path) -> None:
    assert "no such file or folder" in cli("validate", tmp_path / "nothing")[2]
    code, _, err = cli("validate", tmp_path)
    assert code == 2
    assert "contains no benchmark.json" in err


def test_a_benchmark_without_its_key_is_valid_and_says_so(cli: Cli, benchmark_of_one: Path, tmp_path: Path) -> None:
    shutil.copytree(benchmark_of_one, tmp_path / "bench")
    (tmp_path / "bench" / "answers.jsonl").unlink()
    (tmp_path / "bench" / "skipped.jsonl").unlink()
    code, out, _ = cli("validate", tmp_path / "bench")
    assert (code, "without its key" in out) == (0, True)


def test_validate_checks_each_line_of_a_key_and_of_items(cli: Cli, benchmark_of_one: Path, tmp_path: Path) -> None:
    for name, old in (("answers.jsonl", '"chance"'), ("items.jsonl", '"multi"')):
        lines = (benchmark_of_one / name).read_text().splitlines()
        (tmp_path / name).write_text("\n".join([*lines[:-1], lines[-1].replace(old, '"guess"')]))
        code, _, err = cli("validate", tmp_path / name)
        assert code == 2
        assert f"{name}, line {len(lines)}: " in err


def test_brackets_in_a_folder_s_name_are_no_markup(cli: Cli, cases: Path, tmp_path: Path) -> None:
    change_lines(cases, lambda records: records.append({**records[0], "case_id": "lost", "image": "images/no.png"}))
    code, _, err = cli("generate", cases, "-o", tmp_path / "out[v1]", "--recipe", "grid")
    assert code == 0
    assert "out[v1]/skipped.jsonl" in err.replace("\n", "")


def test_items_on_lungs_that_look_wrong_are_flagged_and_swapped_lungs_are_left_out_with_the_reason(
    tmp_path: Path, cli: Cli
) -> None:
    shape = 200, 300
    picture = np.random.default_rng(0).integers(60, 180, shape).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), picture)

    def box(left: int, right: int, top: int, bottom: int) -> dict[str, Any]:
        mask = np.zeros(shape, bool)
        mask[top:bottom, left:right] = True
        return to_rle(mask)

    lungs = {"right_lung": box(40, 130, 10, 190), "left_lung": box(245, 300, 100, 190)}
    case = {"image": "a.png", "finding": "effusion", "present": True, "mask": box(50, 120, 110, 185)}
    swapped = {"right_lung": lungs["left_lung"], "left_lung": lungs["right_lung"]}
    lines = [{**case, "case_id": "odd", "anatomy": lungs}, {**case, "case_id": "swapped", "anatomy": swapped}]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("generate", tmp_path, "-o", tmp_path / "bench", "--recipe", "chexpercept")[0] == 0
    answers, cases = benchmark.load(tmp_path / "bench").key("a test")
    (odd,) = cases.values()
    assert odd.measures["lung_doubts"] == [
        "the left lung has 31% of the area of the right one", "the left lung is cut off by the picture's edge"
    ]  # fmt: skip
    flagged = {item.partition("/")[2] for item, answer in answers.items() if "doubtful_lungs" in answer.flags}
    assert {"severity", "location"} <= flagged
    assert not {"detection", "contour_evaluation"} & flagged
    (left_out,) = map(json.loads, (tmp_path / "bench" / "skipped.jsonl").read_text().splitlines())
    assert "exchange the two masks" in left_out["reason"]
