"""From a manifest to a benchmark folder: the same bytes every time, nothing that gives an answer away, nothing lost."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rest_long import rest_long

from chexqa import question_banks
from chexqa.chances import of_points
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import PATH_STAGES
from chexqa.contract.kinds import KINDS
from chexqa.files.errors import InputError
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import GenerationJob, make_job
from chexqa.imaging.read import read_radiograph, thumb_of_png
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("pipeline")

Record = dict[str, Any]


def job(seed: int = 5, *names: str) -> GenerationJob:
    return make_job([recipe.load(name) for name in names or recipe.DEFAULT], question_banks.load("en"), seed)


def lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_manifest(path: Path, records: Iterable[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its place."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@dataclass(frozen=True)
class Made:
    """Phantoms and the benchmark made of them."""

    cases: Path
    bench: Path
    about: Record

    def load(self) -> Benchmark:
        return benchmark.load(self.bench)


FINDINGS = ("effusion", "cardiomegaly")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three phantoms of each of two findings, two of them present, and a line of a picture that is not there."""
    folder = tmp_path_factory.mktemp("pipeline")
    write_cases(folder / "cases", 6, 3, 256, findings=FINDINGS)
    records = lines(folder / "cases" / "cases.jsonl")
    records.sort(key=lambda record: (not record["present"], record["case_id"]))
    records.insert(1, records.pop())  # one without a finding among the first three
    records.insert(4, {**records[3], "case_id": "lost", "image": "images/lost.png"})
    write_manifest(folder / "cases" / "cases.jsonl", records)
    about = generate_benchmark.generate(folder / "cases", folder / "bench", job())
    return Made(folder / "cases", folder / "bench", about)


def few(made: Made, folder: Path, count: int = 3) -> Path:
    """A folder of cases with the first few of the phantoms only."""
    shutil.copytree(made.cases, folder)
    records = lines(folder / "cases.jsonl")
    write_manifest(folder / "cases.jsonl", records[:count])
    return folder


@pytest.fixture(scope="module")
def whole(made: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the benchmark of the first three cases, made in one go."""
    folder = tmp_path_factory.mktemp("whole")
    generate_benchmark.generate(few(made, folder / "cases"), folder / "bench", job())
    return content(folder / "bench")


def test_every_path_has_the_items_of_its_stages_in_order(made: Made) -> None:
    bench = made.load()
    _, cases = bench.key("this test")
    paths = Counter(case.path for case in cases.values())
    assert paths == {"lesion_free": 2, "revision_free": 2, "revision_required": 2}
    for group in benchmark.conversations(bench.items):
        kinds = [item.kind for item in group]
        if kinds == ["grid_cell"]:
            continue
        path = cases[group[0].case_id].path
        assert path is not None
        stages = [stage for stage in PATH_STAGES[path] if stage != 4 or group[0].finding != "cardiomegaly"]
        assert kinds == [kind for kind, about in KINDS.items() if about.stage in stages]
        assert [item.seq for item in group] == sorted(item.seq for item in group)


def test_counts_are_those_of_the_files(made: Made) -> None:
    bench = made.load()
    answers, cases = bench.key("this test")
    counts = made.about["counts"]
    assert counts["items"] == len(bench.items) == len(answers) == sum(counts["kinds"].values())
    assert counts["kinds"] == {kind: sum(item.kind == kind for item in bench.items) for kind in KINDS}
    assert counts["kinds"]["grid_cell"] == 4, "every present case"
    assert counts["cases"] == len(cases)
    assert counts["images"] == len(list(made.bench.glob("images/*/*.png"))) == benchmark.check_images(bench)
    one_each = {"lesion_free": 1, "revision_free": 1, "revision_required": 1}
    assert counts["paths"] == dict.fromkeys(sorted(FINDINGS), one_each)
    short = {(row["finding"], row["path"]): (row["quota"], row["made"]) for row in made.about["shortfall"]}
    assert len(short) == 21
    assert {key[0] for key, value in short.items() if value == (100, 1)} == set(FINDINGS)
    assert set(short.values()) == {(100, 1), (100, 0)}


def test_a_bad_case_is_listed_with_its_reason_and_stops_nothing(made: Made) -> None:
    skipped = lines(made.bench / "skipped.jsonl")
    assert [(row["source_case_id"], row["task"]) for row in skipped] == [("lost", None)]
    assert skipped[0]["reason"].startswith("cases.jsonl, line 5: lost.png: no such file; if the data lies")
    assert made.about["counts"]["skipped"] == 1


def test_pictures_stand_where_the_kinds_say(made: Made) -> None:
    roles = {
        "detection": (["radiograph"], ["radiograph"]),
        "contour_evaluation": (["contour"], ["radiograph", "contour"]),
        "revision_expansion": (["points"], ["radiograph", "points"]),
        "revision_contraction": ([], ["radiograph", "points"]),
        "revision_result": (["option"] * 4, ["radiograph", "contour", *["option"] * 4]),
        "grid_cell": (["grid"], ["grid"]),
    }
    for item in made.load().items:
        turn, alone = roles.get(item.kind, ([], ["radiograph"]))
        assert [picture.role for picture in item.turn_images] == turn
        assert [picture.role for picture in item.alone_images] == alone
        if item.kind == "revision_result":
            assert [option.image for option in item.options] == [picture.image for picture in item.turn_images]
            assert len({picture.image for picture in item.alone_images}) == 6


def test_answers_are_what_the_path_says(made: Made) -> None:
    bench = made.load()
    answers, _ = bench.key("this test")
    for item in bench.items:
        answer = answers[item.item_id]
        if item.kind == "detection":
            assert answer.answer == ((2,) if answer.path == "lesion_free" else (1,))
        if item.kind == "contour_evaluation":
            assert answer.answer == ((1,) if answer.path == "revision_required" else (2,))
        assert answer.answer or item.kind == "grid_cell"
        if item.multi:
            none = len(item.options)
            assert none not in answer.answer or len(answer.answer) == 1
            sides = [option.side for option in item.options if option.side]
            if sides:
                own = sides.count("outside" if item.kind == "revision_expansion" else "inside")
                assert answer.chance == of_points(own, len(sides) - own).best
                assert answer.scored == (own > 0)
            else:
                assert answer.chance == 2.0 ** -(none - 1)
        elif item.kind != "grid_cell":
            assert answer.chance == 1 / len(item.options)
            assert len(answer.answer) == 1
        else:
            assert answer.chance == len(answer.answer) / 64
            assert answer.evidence["attainable"] == bool(answer.answer)


def test_a_revision_asks_for_at_least_one_move(made: Made) -> None:
    bench = made.load()
    answers, cases = bench.key("this test")
    for case in cases.values():
        if case.path == "revision_required":
            both = [f"{case.case_id}/revision_{what}" for what in ("expansion", "contraction")]
            none = [len(bench.item[item_id].options) for item_id in both]
            named = [answers[item_id].answer for item_id in both]
            assert named != [(none[0],), (none[1],)]
            assert not set(named[0]) & set(named[1]) - {none[0]}


def test_the_picture_evaluated_is_the_optimal_or_the_suboptimal_one(made: Made) -> None:
    """On the revision-required path no result is the outline shown before, and just one differs least from optimal."""
    bench = made.load()
    answers, _ = bench.key("this test")
    for item in bench.items:
        if item.kind == "revision_result":
            answer = answers[item.item_id]
            ious = answer.evidence["iou"]
            assert ious[answer.answer[0] - 1] == 1
            assert sorted(ious)[-2] < 0.96
            shown = next(picture.image for picture in item.alone_images if picture.role == "contour")
            assert shown not in {option.image for option in item.options}


def test_the_grid_is_drawn_over_the_radiograph_and_the_rest_leaves_it_alone(made: Made) -> None:
    bench = made.load()
    item = next(item for item in bench.items if item.kind == "contour_evaluation")
    pictures = {picture.role: picture.image for picture in item.alone_images}
    radiograph = read_radiograph(made.bench / pictures["radiograph"])
    overlay = cv2.imread(str(made.bench / pictures["contour"]), cv2.IMREAD_COLOR)
    assert radiograph.shape == overlay.shape[:2]
    assert max(radiograph.shape) == 1024
    same = (overlay == radiograph[:, :, None]).all(axis=2)
    assert 0.95 < same.mean() < 1


def test_what_a_model_sees_names_no_source_patient_or_file(made: Made) -> None:
    text = (made.bench / "items.jsonl").read_text()
    for record in lines(made.cases / "cases.jsonl"):
        for value in (record["case_id"], record["patient_id"], Path(record["image"]).name):
            assert str(value) not in text
    assert not re.search(r'"(answer|path|present|evidence|chance|prior)"', text)
    assert "phantom" not in text
    fields = {key for record in lines(made.bench / "items.jsonl") for key in record}
    assert fields == {
        *("item_id", "case_id", "seq", "kind", "level", "stage", "finding", "question", "options", "multi"),
        *("turn_images", "alone_images"),
    }


def test_ids_and_the_order_of_the_file_tell_nothing(made: Made) -> None:
    bench = made.load()
    _, cases = bench.key("this test")
    seen = list(dict.fromkeys(item.case_id for item in bench.items))
    assert seen == sorted(seen), "in the order of ids"
    assert all(re.fullmatch(r"c[0-9a-f]{12}", case_id) for case_id in seen)
    assert all(item.item_id == f"{item.case_id}/{item.kind}" for item in bench.items)
    sources = [cases[case_id].source_case_id for case_id in seen]
    assert sources != sorted(sources)
    other = {pipeline_id(seed, "p000001") for seed in range(5)}
    assert len(other) == 5, "another seed gives other ids"


def pipeline_id(seed: int, source: str) -> str:
    from chexqa.generators.pipeline.build_pass import bench_case_id

    return bench_case_id(seed, source)


def test_pictures_have_no_metadata_and_their_hash_for_a_name(made: Made) -> None:
    for path in list(made.bench.glob("images/*/*.png"))[:30]:
        data = path.read_bytes()
        assert path.parent.name == path.name[:2]
        chunks, at = [], 8
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            chunks.append(data[at + 4 : at + 8])
            at += 12 + size
        # One chunk of nothing at most, which makes a case's pictures equally long files.
        assert set(chunks) - {b"paDd"} == {b"IHDR", b"IDAT", b"IEND"}
        assert chunks.count(b"paDd") <= 1


def test_every_picture_has_a_thumbnail_that_can_be_made_again(made: Made) -> None:
    """Made from the pixels before they became a PNG, and the same when made from the PNG."""
    bench = made.load()
    images = sorted(path.relative_to(made.bench).as_posix() for path in made.bench.glob("images/*/*.png"))
    thumbs = sorted(path.relative_to(made.bench).as_posix() for path in made.bench.glob("thumbs/*/*.jpg"))
    assert thumbs == sorted(benchmark.thumb_path(image) for image in images)
    for image in images:
        data = bench.thumb_bytes(image)
        assert data == thumb_of_png(bench.image_bytes(image))
        assert max(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED).shape) == 384


def test_the_key_has_what_was_measured(made: Made) -> None:
    answers, cases = made.load().key("this test")
    records = {record["case_id"]: record for record in lines(made.cases / "cases.jsonl")}
    for case in cases.values():
        source = records[case.source_case_id]
        assert (case.patient_id, case.sex, case.age, case.access) == (
            *(source[name] for name in ("patient_id", "sex", "age", "access")),
        )
        assert ("lesion_share" in case.measures) == source["present"]
        assert case.measures["negative_kind"] == (None if source["present"] else "normal")
    for answer in answers.values():
        kind = answer.item_id.split("/")[1]
        assert answer.evidence, kind
        assert 0 <= answer.prior <= 1
    groups: dict[tuple[str, str], list[float]] = {}
    for item in made.load().items:
        groups.setdefault((item.kind, item.finding), []).append(answers[item.item_id].prior)
    assert all(len(set(priors)) == 1 for priors in groups.values()), "one prior for each kind and finding"


def test_the_prior_is_the_accuracy_of_the_most_frequent_answer(made: Made) -> None:
    bench = made.load()
    answers, _ = bench.key("this test")
    for item in bench.items:
        alike = [other for other in bench.items if (other.kind, other.finding) == (item.kind, item.finding)]
        if item.kind == "grid_cell":
            cells = Counter(cell for other in alike for cell in answers[other.item_id].answer)
        else:
            cells = Counter(answers[other.item_id].answer for other in alike)
        assert answers[item.item_id].prior == max(cells.values(), default=0) / len(alike)


def test_the_same_arguments_give_the_same_bytes_in_another_place(
    made: Made, whole: dict[str, bytes], tmp_path: Path
) -> None:
    generate_benchmark.generate(few(made, tmp_path / "elsewhere" / "cases"), tmp_path / "deep" / "down" / "out", job())
    assert content(tmp_path / "deep" / "down" / "out") == whole
    assert {"benchmark.json", "items.jsonl", "answers.jsonl", "skipped.jsonl"} == {
        name for name in whole if not name.startswith(("images/", "thumbs/"))
    }
    text = b"".join(data for name, data in whole.items() if not name.endswith((".png", ".jpg")))
    assert str(tmp_path.parent).encode() not in text, "no place of this machine is written down"


@pytest.mark.long
def test_the_order_of_the_manifest_changes_nothing(made: Made, whole: dict[str, bytes], tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases")
    write_manifest(cases / "cases.jsonl", reversed(lines(cases / "cases.jsonl")))
    generate_benchmark.generate(cases, tmp_path / "out", job())
    assert content(tmp_path / "out") == whole


def test_another_seed_gives_other_ids_and_other_pictures(made: Made, tmp_path: Path) -> None:
    generate_benchmark.generate(few(made, tmp_path / "cases", 1), tmp_path / "other", job(6))
    ids = [
        {record["case_id"] for record in lines(folder / "items.jsonl")} for folder in (tmp_path / "other", made.bench)
    ]
    assert not ids[0] & ids[1]
    names = [{path.name for path in folder.glob("images/*/*")} for folder in (tmp_path / "other", made.bench)]
    assert len(names[0] - names[1]) >= 4, "the radiograph is the same, its outlines are not"


class StopError(Exception):
    """What interrupts a generation in these tests."""


def stop_after(steps: int) -> Callable[[str, int], Callable[[], None]]:
    """A progress function that stops the work after so many steps."""
    left = [steps]

    def start(label: str, total: int) -> Callable[[], None]:
        def advance() -> None:
            left[0] -= 1
            if left[0] < 0:
                raise StopError

        return advance

    return start


@pytest.mark.parametrize("steps", rest_long([4, 1], keep=1))
def test_an_interrupted_generation_goes_on_to_the_same_bytes(
    made: Made, whole: dict[str, bytes], tmp_path: Path, steps: int
) -> None:
    """Stopped in the first pass or in the second, with the last record cut off and a picture half written."""
    cases = few(made, tmp_path / "cases")
    with pytest.raises(StopError):
        generate_benchmark.generate(cases, tmp_path / "out", job(), progress=stop_after(steps))
    partial = tmp_path / "out.partial"
    assert not (tmp_path / "out").exists()
    name = "survey.jsonl" if steps == 1 else "built.jsonl"
    data = (partial / name).read_bytes()
    assert data.count(b"\n") == 2
    (partial / name).write_bytes(data[:-40])
    (partial / "images" / "zz").mkdir(parents=True)
    (partial / "images" / "zz" / ".half.png.1.tmp").write_bytes(b"\x89PNG")
    (partial / "thumbs" / "zz").mkdir(parents=True)
    (partial / "thumbs" / "zz" / ".half.jpg.1.tmp").write_bytes(b"\xff\xd8")
    generate_benchmark.generate(cases, tmp_path / "out", job())
    assert content(tmp_path / "out") == whole
    assert not partial.exists()


def test_a_killed_process_goes_on_to_the_same_bytes(made: Made, whole: dict[str, bytes], tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases")
    command = [sys.executable, "-c", "from chexqa.cli.main import main; main()", "generate", str(cases)]
    out, built = tmp_path / "out", tmp_path / "out.partial" / "built.jsonl"
    for _ in range(5):  # on a busy machine, all cases may be done before this process looks again
        for folder in (out, built.parent):
            shutil.rmtree(folder, ignore_errors=True)
        process = subprocess.Popen([*command, "-o", str(out), "--seed", "5"], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (built.exists() and built.stat().st_size) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        if process.wait() == -signal.SIGKILL and built.exists() and built.read_bytes().count(b"\n") < 3:
            break
    assert process.returncode == -signal.SIGKILL, "it was killed in the middle of its work"
    assert not out.exists()
    assert 1 <= built.read_bytes().count(b"\n") < 3
    generate_benchmark.generate(cases, out, job())
    assert content(out) == whole


def test_finished_cases_are_not_done_again(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = few(made, tmp_path / "cases", 2)
    with pytest.raises(StopError):
        generate_benchmark.generate(cases, tmp_path / "out", job(), progress=stop_after(1))
    surveyed: list[str] = []
    survey = generate_benchmark.survey

    def counted(case: Any, *rest: Any) -> Record:
        surveyed.append(case.case_id)
        return survey(case, *rest)

    monkeypatch.setattr(generate_benchmark, "survey", counted)
    generate_benchmark.generate(cases, tmp_path / "out", job())
    assert len(surveyed) == 0, "both had been surveyed"


@pytest.mark.parametrize("what", rest_long(["seed", "manifest", "recipes", "question bank"]))
def test_a_partial_folder_of_other_arguments_is_refused_by_name(made: Made, tmp_path: Path, what: str) -> None:
    cases = few(made, tmp_path / "cases", 2)
    with pytest.raises(StopError):
        generate_benchmark.generate(cases, tmp_path / "out", job(), progress=stop_after(0))
    before = content(tmp_path / "out.partial")
    other = job()
    if what == "seed":
        other = job(6)
    elif what == "recipes":
        other = job(5, "grid")
    elif what == "question bank":
        bank = question_banks.load("en")
        other = make_job(other.recipes, {**bank, "notes": {"heart_overlap": "."}}, 5)
    else:
        write_manifest(cases / "cases.jsonl", lines(cases / "cases.jsonl")[:1])
    with pytest.raises(InputError, match=f"interrupted generation with another {what}"):
        generate_benchmark.generate(cases, tmp_path / "out", other)
    assert content(tmp_path / "out.partial") == before


def test_a_second_process_on_the_same_folder_is_refused(made: Made, tmp_path: Path) -> None:
    from chexqa.generators.pipeline.checkpoint import open_checkpoint

    with (
        open_checkpoint(tmp_path / "out", {"seed": 1}),
        pytest.raises(InputError, match="another process is generating into it"),
        open_checkpoint(tmp_path / "out", {"seed": 1}),
    ):
        pass


def test_a_finished_folder_is_refused_and_left_as_it_is(made: Made) -> None:
    before = content(made.bench)
    with pytest.raises(InputError, match="exists already; name another output folder"):
        generate_benchmark.generate(made.cases, made.bench, job())
    assert content(made.bench) == before


def test_phantoms_and_real_radiographs_are_never_pooled(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 2)
    records = lines(cases / "cases.jsonl")
    write_manifest(cases / "cases.jsonl", [records[0], {**records[1], "source": "a hospital"}])
    with pytest.raises(InputError, match="must not mix the two"):
        generate_benchmark.generate(cases, tmp_path / "out", job())
    assert not list(tmp_path.glob("out*"))


def test_no_usable_case_is_an_error_that_leaves_nothing_behind(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 2)
    shutil.rmtree(cases / "images")
    with pytest.raises(
        InputError,
        match=r"no case gave an item: cases\.jsonl, line 1: .*no such file; .* give --image-root, .* \(2 of 2\)",
    ):
        generate_benchmark.generate(cases, tmp_path / "out", job())
    assert not list(tmp_path.glob("out*"))


def test_a_finding_without_a_recipe_says_so(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 2)
    records = [{**record, "finding": "support_devices"} for record in lines(cases / "cases.jsonl")]
    write_manifest(cases / "cases.jsonl", records)
    with pytest.raises(InputError, match="no recipe asks about support_devices"):
        generate_benchmark.generate(cases, tmp_path / "out", job())


def test_two_recipes_for_one_task_are_refused() -> None:
    with pytest.raises(InputError, match="both for the grid task"):
        job(1, "grid", "grid")


def test_a_lung_finding_without_lungs_gives_its_grid_item_alone(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 21)
    records = [
        {**record, "anatomy": {}}
        for record in lines(cases / "cases.jsonl")
        if record["present"] and record["finding"] == "effusion" and record["case_id"] != "lost"
    ]
    write_manifest(cases / "cases.jsonl", records)
    about = generate_benchmark.generate(cases, tmp_path / "out", job())
    skipped = {row["source_case_id"]: row for row in lines(tmp_path / "out" / "skipped.jsonl")}
    assert set(skipped) == {record["case_id"] for record in records}
    for record in records:
        row = skipped[record["case_id"]]
        assert "no lung masks are given" in row["reason"]
        assert row["task"] == "perception"
    kinds = {kind for kind, count in about["counts"]["kinds"].items() if count}
    assert kinds == {"grid_cell"}


def real_cases(folder: Path, root: Path) -> list[Record]:
    """Manifest lines of the real radiographs, their files copied to ``root``."""
    shutil.copytree(folder / "radiographs", root, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for path in root.rglob("*"):
        path.chmod(0o755)
    finding = {"nih_00000001_000": "cardiomegaly", "nih_00027426_000": "opacity", "covid_16747_3_1": "consolidation"}
    records = []
    for image in sorted((root / "images").iterdir()):
        masks = {path.stem: str(path.relative_to(root)) for path in (root / "masks" / image.stem).iterdir()}
        records.append(
            {
                "case_id": image.stem,
                "image": str(image.relative_to(root)),
                "finding": finding[image.stem],
                "present": True,
                "mask": masks[finding[image.stem]],
                "anatomy": {name: masks[name] for name in ("right_lung", "left_lung", "heart") if name in masks},
                **dict.fromkeys(("patient_id", "study_id", "view", "sex", "age", "source", "license")),
                "access": "open",
            }
        )
    return records


def test_real_radiographs_give_items_of_all_ten_kinds(real_data: Path, tmp_path: Path) -> None:
    """A pool of one fills revision-required first; the nodule's grid item has no cell that can be hit."""
    records = real_cases(real_data, tmp_path / "cases")
    write_manifest(tmp_path / "cases" / "cases.jsonl", records)
    about = generate_benchmark.generate(tmp_path / "cases", tmp_path / "bench", job(1))
    bench = benchmark.load(tmp_path / "bench")
    answers, cases = bench.key("this test")
    assert about["data"] == "real"
    assert {kind for kind, count in about["counts"]["kinds"].items() if count} == set(KINDS)
    by_source = {case.source_case_id: case for case in cases.values()}
    assert {case.path for case in by_source.values() if case.path} == {"revision_required"}
    nodule = answers[f"{by_source['nih_00027426_000'].case_id}/grid_cell"]
    assert nodule.answer == ()
    assert nodule.evidence["attainable"] is False
    assert nodule.chance == 0
    heart = answers[f"{by_source['nih_00000001_000'].case_id}/grid_cell"]
    assert heart.evidence["attainable"] is True
    consolidation = [item for item in bench.items if item.case_id == by_source["covid_16747_3_1"].case_id]
    assert {item.kind for item in consolidation} == set(KINDS)
    # Its lungs are both affected.
    assert answers[f"{consolidation[0].case_id}/comparison"].answer != (4,)


def test_pictures_keep_the_aspect_of_the_source(real_data: Path, tmp_path: Path) -> None:
    records = [record for record in real_cases(real_data, tmp_path / "cases") if record["case_id"].startswith("covid")]
    write_manifest(tmp_path / "cases" / "cases.jsonl", records)
    generate_benchmark.generate(tmp_path / "cases", tmp_path / "bench", job(1, "grid"))
    item = benchmark.load(tmp_path / "bench").items[0]
    assert read_radiograph(tmp_path / "bench" / item.turn_images[0].image).shape == (875, 1024)


def test_an_image_root_elsewhere_gives_the_same_benchmark(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 1)
    generate_benchmark.generate(cases, tmp_path / "one", job())
    (tmp_path / "manifests").mkdir()
    shutil.move(cases / "cases.jsonl", tmp_path / "manifests" / "cases.jsonl")
    generate_benchmark.generate(tmp_path / "manifests" / "cases.jsonl", tmp_path / "two", job(), image_root=cases)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_the_working_image_is_what_detection_shows(made: Made) -> None:
    """The radiograph is stored once and shown untouched."""
    bench = made.load()
    records = {record["case_id"]: record for record in lines(made.cases / "cases.jsonl")}
    answers, cases = bench.key("this test")
    assert answers
    item = next(item for item in bench.items if item.kind == "detection")
    shown = read_radiograph(made.bench / item.turn_images[0].image)
    source = read_radiograph(made.cases / records[cases[item.case_id].source_case_id]["image"])
    back = cv2.resize(shown, source.shape[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(back.astype(int) - source).mean() < 3


def test_reviewed_takes_approved_masks_and_all_absent_cases(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases")
    records = lines(cases / "cases.jsonl")
    present = [record for record in records if record["present"]]
    assert len(present) == 2
    present[0]["review"] = "approved"
    present[1]["review"] = "fix"
    write_manifest(cases / "cases.jsonl", records)
    reviewed = make_job([recipe.load("chexpercept")], question_banks.load("en"), 5, reviewed=True)
    about = generate_benchmark.generate(cases, tmp_path / "out", reviewed)
    skipped = {row["source_case_id"]: row["reason"] for row in lines(tmp_path / "out" / "skipped.jsonl")}
    assert skipped == {
        present[1]["case_id"]: "its mask is not approved (review: fix), and --reviewed takes approved masks only"
    }
    assert about["counts"]["cases"] == 2
    del present[0]["review"]
    present[1]["review"] = "approved"
    write_manifest(cases / "cases.jsonl", records)
    generate_benchmark.generate(cases, tmp_path / "other", reviewed)
    assert "has not been reviewed" in lines(tmp_path / "other" / "skipped.jsonl")[0]["reason"]


def test_controls_are_drawn_on_plain_grey_and_have_no_thumbnail(made: Made, tmp_path: Path) -> None:
    cases = few(made, tmp_path / "cases", 1)
    with_controls = make_job([recipe.load("chexpercept")], question_banks.load("en"), 5, controls=True)
    generate_benchmark.generate(cases, tmp_path / "out", with_controls)
    items = benchmark.load(tmp_path / "out").items
    pictures = {picture.image: picture for item in items for picture in item.alone_images}
    assert len(pictures) == 7
    for picture in pictures.values():
        assert (tmp_path / "out" / benchmark.thumb_path(picture.image)).exists()
        assert (picture.control is None) == (picture.role == "radiograph")
        if picture.control is not None:
            assert not (tmp_path / "out" / benchmark.thumb_path(picture.control)).exists()
            drawn = cv2.imread(str(tmp_path / "out" / picture.control))
            assert (drawn == 128).all(axis=2).mean() > 0.9


def changed(made: Made, folder: Path, **fields: Any) -> generate_benchmark.Record:
    """The benchmark's record of all cases with these fields changed, made by the published recipe."""
    shutil.copytree(made.cases, folder)
    records = [{**record, **fields} for record in lines(folder / "cases.jsonl") if record["case_id"] != "lost"]
    write_manifest(folder / "cases.jsonl", records)
    return {"manifest": folder, "count": len(records)}


def test_lateral_views_are_left_out_unless_they_are_allowed(made: Made, tmp_path: Path) -> None:
    cases = changed(made, tmp_path / "cases", view="LATERAL")["manifest"]
    with pytest.raises(InputError, match=r"the view is LATERAL.*--allow-lateral"):
        generate_benchmark.generate(cases, tmp_path / "bench", job())
    generate_benchmark.generate(cases, tmp_path / "bench", replace(job(), lateral=True))
    kinds = {item.kind for item in benchmark.load(tmp_path / "bench").items if item.finding == "effusion"}
    assert kinds <= {"detection", "grid_cell"}, "nothing that needs the lungs of a frontal view"


@pytest.mark.parametrize(("view", "asked"), rest_long([("PA", True), ("AP", False), (None, False)], names=2))
def test_the_strict_recipe_asks_about_the_heart_s_width_on_pa_views_only(
    made: Made, tmp_path: Path, view: str | None, asked: bool
) -> None:
    cases = changed(made, tmp_path / "cases", view=view)["manifest"]
    generate_benchmark.generate(cases, tmp_path / "bench", job(5, "strict"))
    items = benchmark.load(tmp_path / "bench").items
    assert any(item.finding == "cardiomegaly" for item in items) == asked


def test_letters_run_from_left_to_right_and_options_say_their_side(made: Made) -> None:
    bench = made.load()
    answers, _ = bench.key("this test")
    asked = [item for item in bench.items if item.kind == "revision_expansion"]
    assert asked
    for item in asked:
        points = answers[item.item_id].evidence["points"]
        lettered = sorted(zip(item.options, points, strict=False), key=lambda pair: pair[0].letter or "")
        assert [point["xy"] for _, point in lettered] == sorted(point["xy"] for point in points)
        for option, point in lettered:
            assert option.text == f"the {option.color} point ({option.letter})"
            assert option.side == ("inside" if point["inside"] else "outside")


def test_every_kind_of_item_says_how_hard_it_is(made: Made) -> None:
    bench = made.load()
    answers, cases = bench.key("this test")
    names: dict[str, set[tuple[str, ...]]] = {}
    for answer in answers.values():
        names.setdefault(answer.item_id.split("/")[1], set()).add(tuple(answer.difficulty))
    edits = ("depth", "share")
    assert names == {
        "detection": {(), ("lesion_share",)},
        "contour_evaluation": {(), edits},
        **{kind: {edits} for kind in ("revision_expansion", "revision_contraction", "revision_result")},
        **{kind: {("margin",)} for kind in ("distribution", "location", "severity", "comparison")},
        "grid_cell": {("hit_cells", "best_coverage", "margin")},
    }
    for case in cases.values():
        if case.path == "revision_required":
            answer = answers[f"{case.case_id}/revision_result"]
            true = [edit for edit in answer.evidence["edits"] if edit["true"]]
            assert answer.difficulty["depth"] == pytest.approx(min(edit["depth"] for edit in true) / 1024, abs=1e-4)
            assert answer.difficulty["share"] in [edit["share"] for edit in true]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("survey.jsonl", '{"x": 1}', "survey.jsonl: is damaged; remove the folder"),
        ("survey.jsonl", "[1]", "survey.jsonl: is damaged; remove the folder"),
        (
            "built.jsonl",
            '{"key": "p1", "value": {"items": [{}], "answers": [{}]}}',
            "built.jsonl: is damaged; remove the folder",
        ),
        (
            "survey.jsonl",
            '{"key": "p1", "value": {}, "check": "0123456789abcdef"}',
            "survey.jsonl: is damaged; remove the folder",
        ),
        ("job.json", "[1]", "job.json: does not describe a generation; remove the folder"),
    ],
)
def test_a_damaged_partial_folder_is_to_be_removed(made: Made, tmp_path: Path, name: str, text: str, said: str) -> None:
    cases = few(made, tmp_path / "cases", 2)
    with pytest.raises(StopError):
        generate_benchmark.generate(cases, tmp_path / "out", job(), progress=stop_after(0))
    (tmp_path / "out.partial" / name).write_text(text + "\n")
    with pytest.raises(InputError, match=said):
        generate_benchmark.generate(cases, tmp_path / "out", job())


def test_a_picture_that_vanishes_on_the_way_stops_the_work_until_it_is_back(
    made: Made, whole: dict[str, bytes], tmp_path: Path
) -> None:
    cases = few(made, tmp_path / "cases")
    lost = cases / lines(cases / "cases.jsonl")[1]["image"]

    def lose(label: str, total: int) -> Callable[[], None]:
        if label.startswith("building"):
            lost.rename(tmp_path / "away.png")
        return lambda: None

    with pytest.raises(
        InputError, match=r"cases\.jsonl, line 2: .*no such file.*the file could be read when the generation began"
    ):
        generate_benchmark.generate(cases, tmp_path / "out", job(), progress=lose)
    (tmp_path / "away.png").rename(lost)
    generate_benchmark.generate(cases, tmp_path / "out", job())
    assert content(tmp_path / "out") == whole


@pytest.mark.parametrize(
    "damaged", rest_long(["a mask too small", "a mask that was not approved", "a mask of another size"])
)
def test_a_copy_of_a_picture_with_the_finding_is_never_without_it(made: Made, tmp_path: Path, damaged: str) -> None:
    cases = few(made, tmp_path / "cases", 6)
    records = [record for record in lines(cases / "cases.jsonl") if record["present"] and record["case_id"] != "lost"]
    ill = records[0]
    shutil.copyfile(cases / ill["image"], cases / "images" / "copy.png")
    absent = {**ill, "case_id": "copy", "image": "images/copy.png", "present": False, "mask": None}
    if damaged == "a mask that was not approved":
        records = [{**record, "review": "approved"} for record in records[1:]]
        ill = {**ill, "review": "rejected"}
    else:
        size = [64, 64] if damaged == "a mask of another size" else [256, 256]
        speck = [[[10, 10], [12, 10], [12, 12]]]
        mask = {"polygons": speck} if size[0] == 256 else {"size": size, "counts": [0, 64 * 64]}
        ill, records = {**ill, "mask": mask}, records[1:]
    write_manifest(cases / "cases.jsonl", [ill, absent, *records])
    recipes = [recipe.load("chexpercept")]
    work = make_job(recipes, question_banks.load("en"), 5, reviewed=damaged.endswith("approved"))
    generate_benchmark.generate(cases, tmp_path / "out", work)
    reasons = {row["source_case_id"]: row["reason"] for row in lines(tmp_path / "out" / "skipped.jsonl")}
    assert reasons["copy"] == f"another case lists the same radiograph with {ill['finding']}"
