"""Every command that a page gives is run, as a reader would who has what the page takes for granted."""

from __future__ import annotations

import itertools
import json
import runpy
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import page_folders as given
import polars as pl
import pytest
from pages import DOCS, PAGES, blocks, command_lines
from quick_report import hurry
from small_server import recorder
from source_files import STRUCTURES

from chexqa.cli.main import run
from chexqa.eval.models import registry
from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.tables.all_tables import all_tables
from chexqa.frames import load_benchmark

Args = list[str]
Step = str | Callable[[Path], None]
PORT = "http://127.0.0.1:8000"
REPLY = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
}  # fmt: skip
# Commands that no test can run, each with the reason.
_INSPECT = "other-harnesses.md: import inspect logs/benchmark.eval --benchmark bench -o run-inspect"
_ELSEWHERE = "asks a provider; the options' own tests run it on a server of theirs"
NOT_RUN: dict[str, str] = dict.fromkeys(
    (
        "batches.md: estimate bench --models gpt-5.4 --batch",
        "batches.md: eval bench --models gpt-5.4 --batch batches --batch-submit -o run",
        "batches.md: eval bench --models lingshu-32b --batch batches -o run",
    ),
    _ELSEWHERE,
) | dict.fromkeys(
    (
        "heatmaps-and-interchange.md: heatmaps make bench --maker biomedclip --weights biomedclip -o biomedclip-maps",
        "heatmaps-and-interchange.md: heatmaps make cases.jsonl --maker clip-gradcam --weights clip-vit-b16 --domain "
        "general -o gradcam-maps",
    ),
    "needs torch and weights that do not come with chexqa; tests/with_torch runs every family on tiny weights",
)

NOT_RUN[_INSPECT] = "needs Inspect, which tests/with_harnesses installs and runs"


class Scene(NamedTuple):
    """What a reader does with a part of a page, in a new folder.

    A text is the beginning of a command of the page: this one and those after it in its block are run, up to one that
    another step names. A function makes what the page takes for granted, or does what it asks of the reader.
    """

    page: str
    steps: tuple[Step, ...]


def page_named(name: str) -> Path:
    return next(page for page in PAGES if page.name == name)


def examples(name: str, **names: Any) -> Callable[[Path], None]:
    """A step: run a page's Python, with ``names`` that it takes for granted, and write its files under their titles."""

    def step(made: Path) -> None:
        for block in blocks(page_named(name)):
            if block.language == "python" and block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                exec(compile(block.text, name, "exec"), dict(names))
            elif block.language == "yaml":
                assert block.title, "a YAML example needs a title, the file it is"
                Path(block.title).write_text(block.text, encoding="utf-8")

    return step


def key_map(made: Path) -> None:
    """The csv that the page on open data shows."""
    (text,) = (block.text for block in blocks(DOCS / "open-data-route.md") if block.text.startswith("image,key"))
    Path("map.csv").write_text(text, encoding="utf-8")


def made_there(*names: str) -> Callable[[Path], None]:
    """A step: these files are there."""

    def step(made: Path) -> None:
        assert [name for name in names if not Path(name).exists()] == []

    return step


def ratio_counts_in_no_headline(made: Path) -> None:
    """The plugin's items are graded and stand in the tables by kind, and every other table is as without them."""
    assert len(Path("cardiothoracic.py").read_text(encoding="utf-8").splitlines()) < 80
    graded = grade_folders([Path("run")])
    own = pl.col("kind") == "cardiothoracic_ratio"
    with_ratio, without = all_tables(graded), all_tables(replace(graded, grades=graded.grades.filter(~own)))
    assert with_ratio["kinds"].filter(own)["accuracy"].to_list()[1] == 1.0
    for name in ("levels", "depth", "stages", "decisions", "grid", "drops", "model_pairs", "consistency"):
        if name in with_ratio:
            assert with_ratio[name].equals(without[name]), name
    assert with_ratio["kinds"].filter(~own).equals(without["kinds"])
    with Path("bench/items.jsonl").open(encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines]
    given.call("show", "bench", next(item["case_id"] for item in items if item["kind"] == "cardiothoracic_ratio"))


def replies(made: Path) -> None:
    """The table that the page's lookup reads; it answers no question of this benchmark."""
    Path("replies.json").write_text('{"picture question": "Answer: 1"}', encoding="utf-8")


def projection(made: Path) -> None:
    """The weights of the page's adapter, which is short enough."""
    assert len(Path("their_model.py").read_text(encoding="utf-8").splitlines()) < 60
    Path("weights").mkdir()
    np.save("weights/projection.npy", np.array([0.5, -1.0, 2.0]))


def ten_lines(made: Path) -> None:
    """The page's script runs as it stands, and its run is a whole one."""
    Path("phantoms").symlink_to(made / "phantoms")
    examples("python.md")(made)
    runpy.run_path("ten_lines.py")
    graded = grade_folders([Path("python-run")])
    assert set(graded.grades["model"]) == {"answer", "baseline/chance"}
    assert Path("python-report/index.html").is_file()


def another_question(made: Path) -> None:
    """The page's bank asks about every finding in other words than chexqa's own."""
    asked = [item.question for item in load_benchmark("bench").items if item.kind == "detection"]
    assert {question[:10] for question in asked} == {"Do you see"}


SCENES = {
    "README: first commands": Scene("README.md", (
        "synth phantoms", "eval bench --model-id", examples("README.md"), "eval bench --models tuned",
        made_there("report/index.html", "all-run", "look"),
    )),
    "README: own radiographs": Scene("README.md", (
        given.images_and_masks, "ingest masks", made_there("sheets/ben"),
    )),
    "MIMIC-ILS": Scene("credentialed-data.md", (given.mimic, "ingest mimic-ils")),
    "CheXlocalize": Scene("credentialed-data.md", (given.chexlocalize, "ingest chexlocalize")),
    "a recipe": Scene("extending.md", (
        given.chestx_det_cases, examples("extending.md"), "validate nodules.yaml", "validate own.jsonl",
    )),
    "a question": Scene("extending.md", (
        given.cases, examples("extending.md"), "validate plain.yaml", another_question,
    )),
    "a kind of question": Scene("extending.md", (
        given.cases, examples("extending.md"), "generate cases.jsonl --plugin", ratio_counts_in_no_headline,
    )),
    "a map maker": Scene("extending.md", (
        given.cases, examples("extending.md"), "heatmaps make cases.jsonl --plugin brightness.py",
        projection, "heatmaps make cases.jsonl --plugin their_model.py",
    )),
    "a model": Scene("extending.md", (given.bench, examples("extending.md"), "validate my-models.yaml")),
    "map makers": Scene("heatmaps-and-interchange.md", ("heatmaps makers",)),
    "heat maps": Scene("heatmaps-and-interchange.md", (
        given.bench, given.maps, given.chexlocalize_maps,
        "heatmaps grade gradcam_maps --benchmark",
        given.grid_run, "report run-independent", given.predictions, "grade predictions.jsonl", "export bench",
    )),
    "where": Scene("heatmaps-and-interchange.md", (
        given.cases, "generate cases.jsonl --recipe places", given.maps, given.chexlocalize_maps,
        "heatmaps grade gradcam_maps --benchmark", given.grid_run, "report run-independent",
    )),
    "Inspect": Scene("other-harnesses.md", (given.bench, "export bench", made_there("inspect-folder/task.py"))),
    "lmms-eval": Scene("other-harnesses.md", (
        given.bench, "export bench --format lmms-eval", made_there("lmms-task/chexqa.yaml"),
    )),
    "VLMEvalKit": Scene("other-harnesses.md", (
        given.bench, "export bench --format vlmevalkit", made_there("vlmevalkit-bench/run_chexqa.py", "bench.tsv"),
        given.model_predictions, "grade some_model.predictions.jsonl",
    )),
    "Hugging Face": Scene("other-harnesses.md", (
        given.bench, examples("other-harnesses.md"), "export bench --format huggingface",
        made_there("dataset/croissant.json", "bench/croissant.json"),
    )),
    "records": Scene("other-harnesses.md", (given.a_run, "run export run", made_there("records/data", "hub-results"))),
    "lungs of a model": Scene("layouts.md", (
        given.cases_without_lungs, "anatomy cases.jsonl --onnx", made_there("with-lungs.jsonl", "sheets/anna"),
    )),
    "a run leaves": Scene("heatmaps-and-interchange.md", (
        given.a_run, "run export run", made_there("predictions.jsonl", "results"),
    )),
    "other formats": Scene("heatmaps-and-interchange.md", (
        given.release, "import chexpercept chexpercept-release", given.release_results, "import chexpercept-results",
    )),
    "others' benchmarks": Scene("heatmaps-and-interchange.md", (
        given.release, given.others_benchmarks, "audit theirs.tsv",
    )),
    "completion": Scene("quickstart.md", ("completion bash",)),
    "models": Scene("models.md", (
        given.bench, "models", "models check --models", "models serve", "models check --model-id",
        "eval bench --models gpt-5.4 --max-tokens",
        given.two_runs, "run status", "run repair", made_there("look", "changes.csv"),
    )),
    "models of one's own": Scene("own-models.md", (
        given.bench, examples("own-models.md"), replies, "eval bench --python",
    )),
    "leaderboard": Scene("leaderboard.md", (
        given.bench, "export bench --no-key", made_there("bench-public/items.jsonl"),
        examples("other-harnesses.md"), "export bench-public --format croissant", "export bench --format huggingface",
        "eval bench-public --models baseline/chance", "eval bench-public --models baseline/first",
        "leaderboard add board their-run", "leaderboard add board answers.jsonl",
        "leaderboard remove board",
        made_there("board/index.html", "board/leaderboard.csv"),
    )),
    "in Python": Scene("python.md", (ten_lines,)),
    "open data": Scene("open-data-route.md", (
        given.chestx_det, examples("open-data-route.md", model=lambda picture: STRUCTURES),
        "ingest chestx-det ChestX-Det --anatomy lungs", "validate cases.jsonl", "eval bench",
    )),
    "CheXmask": Scene("open-data-route.md", (
        given.chestx_det, given.chexmask, key_map, "ingest chestx-det ChestX-Det --anatomy ChestX-Ray8.csv",
    )),
    "places": Scene("places.md", (
        given.cases, "generate cases.jsonl --recipe places", "show bench p000004", made_there("case.png"),
    )),
    "power": Scene("deciding.md", (given.bench, "power bench")),
    "until decided": Scene("deciding.md", (given.bench, "eval bench --until-decided", made_there("run-decided"))),
    "readers like these": Scene("readers.md", (given.a_study_beside_models, "grade run-models run-readers")),
    "a reviewed sample": Scene("readers.md", (
        given.a_run, "review export bench -o review", given.blind_sheets_fill, "review import review",
        "grade run --reviewed",
    )),
    "a second reader": Scene("readers.md", (given.second_masks, "second-reader bench")),
    "protocols": Scene("protocols.md", (given.bench, "eval bench", "eval bench --models gpt-5.4 --prompt",
                                         "eval bench --models beyond-diagnosis")),
    "quickstart": Scene("quickstart.md", (
        "synth", "generate", "validate", "audit", "review export", "eval", "grade", "report",
        "eval bench --model-id", "grade my-run", "report my-run",
        made_there("case.png", "report/index.html", "my-report/index.html"),
    )),
    "quickstart: radiologist": Scene("quickstart-radiologist.md", ("synth", made_there("try/pages/me/review.html"))),
    "quickstart: coordinator": Scene("quickstart-coordinator.md", (
        "synth", "review export bench -o sheets", given.reviewers_fill, "review import returned", "review open sheets",
        "review agreement", made_there("bench-2/review_changes.jsonl"),
    )),
    "quickstart: contributor": Scene("quickstart-contributor.md", ("synth", made_there("case.png"))),
    "report": Scene("report.md", (given.a_run, "grade run", made_there("report/index.html"))),
    "a plan": Scene("report.md", (given.a_run, "plan bench", made_there("plan.json", "report/index.html"))),
    "review": Scene("reviewing.md", (
        given.bench, "review export bench -o sheets", given.reviewers_fill, "review import returned --batch sheets",
        "review agreement", "review validity", "review adjudicate", given.adjudicator_fills, "review import conflicts",
        made_there("bench-2/review_changes.jsonl"),
    )),
    "a mask is mended": Scene("reviewing.md", (
        given.a_mask_is_redrawn, "review apply cases.jsonl verdicts.jsonl --mask-dir",
        made_there("corrected.jsonl", "signing"),
    )),
    "verdicts are carried": Scene("reviewing.md", (
        given.a_benchmark_is_mended, "review carry", made_there("verdicts-corrected.jsonl", "sheets-again"),
    )),
    "review of masks": Scene("reviewing.md", (given.masks_are_judged, "review apply cases.jsonl")),
    "reader study": Scene("reviewing.md", (
        given.an_earlier_review, "review study bench -o study", given.readers_fill,
        "review import returned --batch study",
    )),
    "confidence": Scene("limits-of-perception.md", (given.bench, "eval bench --models gpt-5.4 --confidence")),
    "abstention": Scene("limits-of-perception.md", (given.bench, "eval bench --models gpt-5.4 --may-abstain")),
    "stress": Scene("limits-of-perception.md", (
        given.many_cases, "generate cases.jsonl --with-layers",
    )),
    "wordings": Scene("limits-of-perception.md", (
        given.bench, "review wordings bench -o", given.wordings_fill, "review wordings bench --returned",
        made_there("bench/wording_review.json"),
    )),
    "just-noticeable errors": Scene("limits-of-perception.md", (given.many_cases, "generate cases.jsonl")),
    "grounding": Scene("grounding.md", (given.many_cases, "generate cases.jsonl")),
    "fresh seeds": Scene("fresh-seeds.md", (given.a_run_and_its_cases, "freshen bench")),
    "validity": Scene("validity.md", (given.bench, "audit bench")),
    "upgrade": Scene("upgrade.md", (given.a_run, "grade run --reread")),
}  # fmt: skip

# Scenes that need more than the few phantoms of the others.
OF_A_DOZEN = {"protocols", "readers like these", "a reviewed sample", "reader study"}


def named(scene: Scene, step: str) -> list[str]:
    """The commands that a text step runs, as the page has them."""
    others = tuple(text for text in scene.steps if isinstance(text, str) and text != step)
    for block in blocks(page_named(scene.page)):
        lines = command_lines(block)
        first = next((number for number, line in enumerate(lines) if f"{line} ".startswith(f"{step} ")), None)
        if first is not None:
            rest = itertools.takewhile(lambda line: not line.startswith(others), lines[first + 1 :])
            return [lines[first], *rest]
    raise AssertionError(f"{scene.page} has no command that begins with 'chexqa {step}'")


def fitted(line: str, server: str) -> Args:
    """A command's arguments, but for a few small phantoms, a sample that there is, and the address of the server."""
    args = [arg.replace(PORT, server) for arg in shlex.split(line, comments=True)]
    if args[0] == "synth":
        args = [*("8" if arg == "42" else arg for arg in args), "--size", "256"]
    if "--sample" in args:
        # A key is corrected from 50 items on, which all of the few cases have; a study leaves cases for training.
        args[args.index("--sample") + 1] = "10" if "--blind-answers" in args else "4"
    return args


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dozen small phantoms and their benchmark; in ``few`` the first six, with a benchmark of their own."""
    folder = tmp_path_factory.mktemp("made")
    given.call("synth", str(folder / "phantoms"), "--cases", "12", "--size", "256")
    shutil.copytree(folder / "phantoms", folder / "few" / "phantoms")
    given.keep(folder / "few" / "phantoms" / "cases.jsonl", 6)
    for home in (folder, folder / "few"):
        given.call("generate", str(home / "phantoms"), "-o", str(home / "bench"))
    return folder


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in registry.load().values():
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def server(no_keys: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server to which also goes what is meant for OpenAI, for whose models there is a key."""
    with recorder(REPLY) as (url, _):
        monkeypatch.setenv("OPENAI_API_KEY", "a key of no worth")
        for name in (
            "OPENAI_API_BASE",
            "OPENAI_BASE_URL",
            "LINGSHU_TUNED_URL",
            "CHEXQA_QWEN3_6_27B_URL",
            "CHEXQA_LINGSHU_32B_URL",
        ):
            monkeypatch.setenv(name, f"{url}/v1")
        yield url


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_a_page_can_be_followed(
    name: str, made: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word, but for sizes and the server's address; the plots of a report are drawn in one scene."""
    if name != "quickstart":
        hurry(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for step in SCENES[name].steps:
        if isinstance(step, str):
            for line in named(SCENES[name], step):
                assert run(fitted(line, server)) == 0, f"{SCENES[name].page}: chexqa {line}"
        else:
            step(made if name in OF_A_DOZEN else made / "few")


def test_the_readmes_first_commands_need_no_key(no_keys: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.chdir(tmp_path)
    first = named(SCENES["README: first commands"], "synth phantoms")
    assert [line.split()[0] for line in first] == ["synth", "generate", "eval", "report"]
    for line in first:
        assert run(fitted(line, "")) == 0, line


def test_every_command_of_every_page_is_run() -> None:
    """A new one goes into a scene above or, if no test can run it, among those that are not run, with the reason."""
    ran = {(scene.page, line) for scene in SCENES.values() for step in scene.steps if isinstance(step, str)
           for line in named(scene, step)}  # fmt: skip
    every = {(page.name, line) for page in PAGES for block in blocks(page) for line in command_lines(block)}
    assert {f"{page}: {line}" for page, line in every - ran} == set(NOT_RUN)
