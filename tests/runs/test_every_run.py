"""Every run that ``chexqa eval`` can make, alone and beside others, can be graded, compared and reported."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from handmade import Handmade
from rest_long import rest_long
from small_server import recorder

from chexqa.cli.main import run
from chexqa.contract import read_run
from chexqa.contract.items import Item, Picture
from chexqa.eval.cli.eval import evaluate
from chexqa.eval.gallery import files as gallery
from chexqa.eval.gallery.entries import asked_items
from chexqa.eval.report import build, display, write
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.tables.all_tables import Group
from chexqa.eval.tables.asked_items import remark
from chexqa.eval.tables.run_diff import compare_runs
from chexqa.files.terminal import PlainConsole

pytestmark = pytest.mark.xdist_group("every_run")

Frames = dict[str, pl.DataFrame]
NAMES = ("baseline/first", "baseline/oracle")
OTHERS = ("baseline/blind-prior", "baseline/chance")
# Every option of the command by its name there, as it is tried; one that writes no run, or names what others do, says
# so. A new option needs a line here.
OPTIONS: dict[str, str] = {
    "bench": "the benchmark",
    "folder": "where the run goes",
    "names": "given to every run but that of --model-id",
    "dry": "writes no run",
    "api_base": "goes with --model-id",
    "model_id": "--attempts 1",
    "provider_protocol": "goes with --model-id",
    "callables": "tests/local asks callables",
    "devices": "goes with --python",
    "models_file": "--models-file FILE",
    "skip_unavailable": "--skip-unavailable",
    "protocol": "--protocol oracle_stated",
    "blind": "--blind",
    "overlay_only": "--overlay-only",
    "rotations": "--rotate 3",
    "repeats": "--repeats 2",
    "limit": "--limit 2",
    "limit_per_path": "--limit-per-path 1",
    "shard": "--shard 1/2",
    "prompt": "--prompt reason",
    "system": "--system FILE",
    "batch": "writes files; tried in tests/batches",
    "batch_submit": "goes with --batch",
    "batch_poll": "--batch-poll 5",
    "shots": "needs items of more patients; tried in tests/prompts/test_conditions.py",
    "confidence": "--confidence",
    "interventions": "needs altered pictures; tried in tests/grounding/test_grounding.py",
    "may_abstain": "--may-abstain",
    "logprobs": "--logprobs",
    "stress": "needs layers; tried in tests/stress",
    "max_tokens": "--max-tokens 9",
    "temperature": "--temperature 0.5",
    "settings": "--set top_p=0.9",
    "concurrency": "--concurrency 1",
    "timeout": "--timeout 60",
    "attempts": "--attempts 1",
    "give_up_after": "--give-up-after 1",
    "budget_usd": "--budget-usd 5",
    "budget_tokens": "--budget-tokens 1000000",
    "max_minutes": "--max-minutes 0.0001",
    "allow_remote_credentialed": "--allow-remote-credentialed",
    "seed": "--seed 3",
    "frame": "--frame thousand",
    "until": "stops a run early; tried in tests/runs/test_until_decided.py",
    "on": "goes with --until-decided",
    "alpha": "goes with --until-decided",
    "target": "goes with --until-decided",
    "as_json": "--json",
}
# Options that make another run.json or another log than the plain command.
SHAPING = ("protocol", "blind", "overlay_only", "rotations", "repeats", "limit", "limit_per_path", "shard",
           "max_minutes", "model_id")  # fmt: skip
UNFINISHED = ("shard", "max_minutes")


class Controlled(Handmade):
    """A benchmark whose drawings have control pictures."""

    def picture(self, role: str, *key: object) -> Picture:
        made = super().picture(role, *key)
        return made if role == "radiograph" else replace(made, control=super().picture(f"{role} control", *key).image)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six cases: every path, two findings, cardiomegaly, grid items of which one cannot be hit."""
    made = Controlled(tmp_path_factory.mktemp("every") / "bench")
    made.case("a", "effusion", "lesion_free", detection=(2,))
    made.case("b", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3), grid=(10, 11))
    made.case("c", "effusion", "revision_required", revision_expansion=(1, 3), distribution=(2,), grid=())
    made.case("d", "cardiomegaly", "revision_required", revision_expansion=(2,), revision_contraction=(1, 4))
    made.case("e", "edema", "revision_free", contour_evaluation=(2,), comparison=(4,))
    made.case("f", "edema", "lesion_free", detection=(2,))
    return made.write()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with recorder({"choices": [{"message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": 1, "completion_tokens": 1}}) as (url, _):  # fmt: skip
        yield url


@pytest.fixture(scope="module")
def made(bench: Path, server: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that makes a run with an option of :data:`OPTIONS` (None: none) of some models, once."""
    home = tmp_path_factory.mktemp("runs")
    (home / "models.yaml").write_text("models: [{name: mine, like: qwen3.6-27b}]\n")

    def make(option: str | None, names: tuple[str, ...] = NAMES) -> Path:
        folder = home / f"{option}-{names[0].partition('/')[2]}"
        if not folder.exists():
            who = f"--model-id m --api-base {server}" if option == "model_id" else f"--models {','.join(names)}"
            given = OPTIONS[option].replace("FILE", str(home / "models.yaml")) if option else ""
            code = run(["eval", str(bench), *f"{who} {given} -o {folder}".split()])
            assert code == (3 if option == "max_minutes" else 0)  # a shard is done when its own cases are
        return folder

    return make


def look(*folders: Path, partial: bool = False) -> tuple[Graded, Frames, dict[str, bytes]]:
    """Grade runs and make all of the terminal's output and all of a report's files, but for the plots' pictures.

    Return the grades, the tables and the report's files.
    """
    graded = grade.grade_folders(folders, allow_partial=partial)
    group = Group(1, 1, graded)
    frames = dict(group.tables)
    with (folders[0] / "shown.txt").open("w") as file:
        display.show(graded, frames, PlainConsole(file=file, width=300))
    files = dict(build.files(group))
    said, notice = remark(graded), write.file_notice(graded)
    assert (said is not None) == ('id="remark"' in files["index.html"].decode())
    for form in write.FORMS.values():
        for name, frame in frames.items():
            form(name, frame, notice)
    write.to_json(write.summary(graded, frames))
    items = asked_items(graded.benchmark, graded.grades)
    assert len(index_of(files)["items"]) == len(items) == graded.grades["item_id"].n_unique()
    return graded, frames, files


def alone(item: Item) -> set[str]:
    """The pictures that an item shows when it is asked alone, those of its options included."""
    return {picture.image for picture in item.alone_images}


def index_of(files: dict[str, bytes]) -> dict[str, Any]:
    """The gallery's index."""
    found = re.fullmatch(r"gallery\.index\((.*)\);\n", files["gallery/index.js"].decode(), re.DOTALL)
    assert found
    record: dict[str, Any] = json.loads(found[1])
    return record


def printed(folder: Path) -> str:
    return (folder / "shown.txt").read_text()


def test_every_option_of_the_command_is_here() -> None:
    assert {param.name for param in evaluate.params} == set(OPTIONS)
    assert set(SHAPING) < set(OPTIONS)


@pytest.mark.parametrize(
    "option", rest_long([name for name, given in OPTIONS.items() if given[0] == "-" and name not in SHAPING], keep=6)
)
def test_other_options_make_the_plain_run(made: Callable[..., Path], option: str) -> None:
    plain, other = read_run.load(made(None)), read_run.load(made(option, NAMES[:1]))
    about = {name: value for name, value in plain.about.items() if name not in ("models", "seed")}
    assert {name: other.about[name] for name in about} == about
    said = {turn.key: turn.parsed for turn in plain.turns if turn.model == NAMES[0]}
    assert {turn.key: turn.parsed for turn in other.turns} == said


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "options",
    rest_long(
        [("protocol", "blind", "overlay_only"), ("shard", "max_minutes"), ("rotations", "repeats", "model_id")], keep=1
    ),
)
def test_runs_of_all_items_stand_beside_a_plain_one(made: Callable[..., Path], options: tuple[str, ...]) -> None:
    plain = made(None)
    same = options[0] == "protocol"  # the same models, since the protocol tells the runs apart
    runs = {
        option: made(option, NAMES if same else (name,)) for option, name in zip(options, (*OTHERS, ""), strict=False)
    }
    graded, frames, _ = look(*runs.values(), plain, partial=True)
    said = remark(graded) or ""
    assert said.startswith("Models finished different items (") if "shard" in options else not said
    assert ("not_asked" in graded.grades["state"]) == ("shard" in options)
    assert (frames["without_radiograph"].height > 0) == same
    for option, folder in runs.items():
        if option != "max_minutes":  # of which nothing is answered
            (one,) = compare_runs(plain, folder, models=(NAMES[0], read_run.load(folder).models[0]))
            assert one.items.height
            assert "not asked of both" not in one.left_out


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("options", rest_long([("limit_per_path", "limit"), ("limit", None), (None, "limit")], keep=1))
def test_runs_of_some_items_stand_beside_others(made: Callable[..., Path], options: tuple[str | None, ...]) -> None:
    folders = [made(option, names) for option, names in zip(options, (NAMES, OTHERS), strict=True)]
    graded, frames, _ = look(*folders)
    said = remark(graded)
    assert said is not None
    assert said.startswith("Models were asked different items (")
    assert said in printed(folders[0]).replace("\n", " ")
    (one,) = compare_runs(*folders, models=(NAMES[0], OTHERS[0]))
    assert "not asked of both" in one.left_out
    # Models of other items are in no test together.
    assert set(frames["pairs"].select("model_a", "model_b").rows()) in ({NAMES}, {OTHERS})


@pytest.mark.long
@pytest.mark.usefixtures("quick")
def test_protocols_with_other_items_are_told_apart(made: Callable[..., Path]) -> None:
    graded, frames, _ = look(made("limit"), made("protocol", NAMES), made("blind", NAMES))
    said = remark(graded)
    assert said is not None
    assert "baseline/first (oracle_stated)" in said
    # Each protocol's models were asked the same; two cases are too few for a score within a finding.
    scored = frames["levels"].drop_nulls("corrected")["protocol"].unique()
    assert set(frames["pairs"]["protocol"]) == set(scored)
    assert len(scored) >= 2
    assert not frames["without_radiograph"].height  # which are not what was seen


@pytest.mark.usefixtures("quick")
def test_what_a_trial_was_not_asked_is_not_shown_as_asked(made: Callable[..., Path], bench: Path) -> None:
    folder = made("limit")
    graded, frames, files = look(folder)
    asked, whole = graded.grades["item_id"].n_unique(), len(graded.benchmark.items)
    assert asked < whole
    said = f"Only a part of the benchmark was asked: {asked} of {whole} items, from 2 cases."
    assert remark(graded) == said
    assert said in printed(folder)
    assert write.summary(graded, frames)["notice"].endswith(said)
    assert said in write.FORMS["md"]("kinds", frames["kinds"], write.file_notice(graded)).decode()
    assert "Only 2 cases were asked, as a trial." in files["index.html"].decode()
    index = index_of(files)
    assert not any("-" in states for _, _, _, states, *_ in index["items"])
    pictures = [name for name in files if name.startswith(("gallery/pictures-", "gallery/first"))]
    assert sum(len(re.findall(r'"\d+":"', files[name].decode())) for name in pictures) == len(
        {image for item in asked_items(graded.benchmark, graded.grades) for image in alone(item)}
    )


def test_the_gallery_claims_nothing_of_items_that_a_trial_was_not_asked(made: Callable[..., Path]) -> None:
    trial, whole = made("limit"), made(None, OTHERS)
    graded = grade.grade_folders([trial, whole])
    index = index_of(dict(gallery.files(graded)))
    asked = set(grade.grade_folders([trial]).grades["item_id"])
    assert [row["model"] for row in index["rows"]] == [*NAMES, *OTHERS]
    outside = [states for _, _, _, states, *_ in index["items"] if states.startswith("--")]
    assert len(outside) == len(graded.benchmark.items) - len(asked)
    assert not any("-" in states[2:] for _, _, _, states, *_ in index["items"])


@pytest.mark.usefixtures("quick")
def test_references_are_those_of_the_items_asked(handmade: Handmade, tmp_path: Path) -> None:
    """Of two models with cases of their own, chance is each one's own and stands in no common row."""
    handmade.case("a", "effusion", "lesion_free", detection=(2,), grid=(1,))
    handmade.case("b", "effusion", "lesion_free", detection=(2,), grid=(1, 2, 3, 4))
    handmade.case("c", "effusion", "revision_free", detection=(1,), contour_evaluation=(2,), grid=(1, 2))
    bench_folder = handmade.write()
    for number, limit in enumerate(("1", "3")):
        assert run(["eval", str(bench_folder), "--models", NAMES[number], "--limit", limit,
                    "-o", str(tmp_path / limit)]) == 0  # fmt: skip
    graded, frames, _ = look(tmp_path / "1", tmp_path / "3")
    chance = dict(frames["grid"].filter(pl.col("finding") == "effusion").select("model", "chance").rows())
    assert chance[NAMES[1]] == pytest.approx(7 / 3 / 64)
    assert chance[NAMES[0]] != chance[NAMES[1]]
    rows = write.FORMS["md"]("grid", frames["grid"], None).decode().splitlines()
    assert next(row for row in rows if row.startswith("| chance ")) == "| chance | – | – |"
    lines = [row.split() for row in printed(tmp_path / "1").splitlines() if row.startswith("chance")]
    assert ["chance", "–"] in lines  # the grid's
    for model in NAMES:
        own = frames["depth"].filter(pl.col("model") == model)
        right = graded.grades.filter((pl.col("model") == model) & pl.col("path").is_not_null())
        assert set(own["path"]) == set(right["path"])


@pytest.mark.usefixtures("quick")
def test_runs_with_hardly_a_turn(made: Callable[..., Path], tmp_path: Path) -> None:
    """One model that was asked nothing and one that was asked one question."""
    folder = tmp_path / "run"
    shutil.copytree(made(None), folder)
    for number, path in enumerate(sorted((folder / "turns").glob("*.jsonl"))):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:number]))
    graded, *_ = look(folder, made("limit", OTHERS), partial=True)
    states = graded.grades.filter(pl.col("model").is_in(NAMES))["state"].to_list()
    assert states.count("not_asked") == len(states) - 1


def only_grid(made: Handmade) -> None:
    made.case("a", "effusion", None, grid=(10, 11))
    made.case("b", "edema", None, grid=())


def one_item(made: Handmade) -> None:
    made.case("a", "effusion", "lesion_free", detection=(2,))


def one_not_compared(made: Handmade) -> None:
    made.case("a", "cardiomegaly", "revision_required")
    made.case("b", "edema", "lesion_free", detection=(2,))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("fill", rest_long([only_grid, one_item, one_not_compared], keep=1))
def test_small_benchmarks(handmade: Handmade, tmp_path: Path, fill: Callable[[Handmade], None]) -> None:
    fill(handmade)
    folder = str(handmade.write())
    for name, models, more in (("whole", NAMES, []), ("trial", OTHERS, ["--limit", "1"])):
        assert run(["eval", folder, "--models", ",".join(models), *more, "-o", str(tmp_path / name)]) == 0
    look(tmp_path / "trial", tmp_path / "whole")
    assert compare_runs(tmp_path / "whole", tmp_path / "trial", models=(NAMES[0], OTHERS[0]))


@pytest.mark.usefixtures("quick")
def test_the_command_reports_a_trial(made: Callable[..., Path], cli: Callable[..., tuple[int, str, str]]) -> None:
    folder = made("limit_per_path")
    code, _, err = cli("report", folder, "-o", folder / "report")
    assert (code, err) == (0, "")
    assert cli("validate", folder / "report")[0] == 0
