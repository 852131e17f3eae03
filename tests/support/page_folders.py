"""Files and folders that the commands on the pages of the documentation need, under the names that the pages use.

Each function makes its part in the working folder, mostly from drawn phantoms. ``made`` holds ``phantoms``, a folder of
cases, and ``bench``, a benchmark of these cases. The last functions do what a page asks of its reader between two
commands.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image
from prediction_files import right, write
from release_files import read_index, result, write_release
from release_results import right_replies, write_results
from review_sheets import answer_cells, as_reviewer, fill
from source_files import BOX, OTHER, RAMP, RUNS, STRUCTURES, entry, save, write_chexmask, write_det
from source_folders import pair, study
from tiny_onnx import convolution
from torch_files import pickled

from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.contract.items import Answer, Item
from chexqa.imaging import masks
from chexqa.review import columns
from chexqa.sources import mimic_ils

FEW = 4  # number of cases of a benchmark whose contents do not matter
PICTURES = ("36302", "36331")  # as the page on open data shows them
FRONTAL = "study1_view1_frontal"


def call(*args: str) -> None:
    """Run a command that a page of the documentation does not show, but whose result the page needs."""
    assert run(list(args)) == 0, args


def records(made: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of the phantoms, with paths that lead to their files."""
    for line in (made / "phantoms" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        record["image"] = made / "phantoms" / record["image"]
        record["mask"] = record["mask"] and made / "phantoms" / record["mask"]
        yield record


def copy_lungs(made: Path, case_id: str, name: str) -> None:
    """Copy the lungs and heart of a phantom to ``lungs/<name>``."""
    for structure in STRUCTURES:
        place = Path("lungs") / name / f"{structure}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / "phantoms" / "masks" / case_id / place.name, place)


def copy_picture(source: Path, place: Path) -> None:
    """Write the picture ``source`` to ``place``, in the format of the new name."""
    place.parent.mkdir(parents=True)
    with Image.open(source) as image:
        image.save(place)


def mask_of(record: dict[str, Any]) -> np.ndarray:
    with Image.open(record["mask"]) as image:
        return np.asarray(image) > 0


def cases(made: Path) -> None:
    """Make a folder of a few phantoms, with lesions and without."""
    shutil.copytree(made / "phantoms", ".", dirs_exist_ok=True)
    keep(Path("cases.jsonl"), FEW)


def many_cases(made: Path) -> None:
    """Make a folder of more phantoms, some of which can be audited by interventions."""
    call("synth", "drawn", "--cases", "28", "--size", "256")
    shutil.copytree("drawn", ".", dirs_exist_ok=True)


def keep(manifest: Path, count: int) -> None:
    """Keep the first cases of a manifest."""
    lines = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join(lines[:count]), encoding="utf-8")


def cases_without_lungs(made: Path) -> None:
    """Make the same folder without the anatomy, and a model that takes dark pixels for lung."""
    cases(made)
    kept = [
        {**json.loads(line), "anatomy": {}} for line in Path("cases.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    Path("lungs.onnx").write_bytes(convolution([-30], [10]))


def images_and_masks(made: Path) -> None:
    Path("images").mkdir()
    for record in itertools.islice(records(made), FEW):
        shutil.copy(record["image"], "images")
        shutil.copytree(made / "phantoms/masks" / record["case_id"], Path("masks") / record["case_id"])


def bench(made: Path) -> None:
    shutil.copytree(made / "bench", "bench")


def a_run(made: Path) -> None:
    bench(made)
    call("eval", "bench", "--models", "baseline/chance,baseline/oracle", "-o", "run")


def a_run_and_its_cases(made: Path) -> None:
    a_run(made)
    shutil.copytree(made / "phantoms", "phantoms")


def two_runs(made: Path) -> None:
    """Make two runs of one model, which answers differently in each."""
    for seed, name in enumerate(("run-before", "run-after")):
        call("eval", "bench", "--models", "baseline/chance", "--seed", str(seed), "-o", name)


def grid_run(made: Path) -> None:
    call("eval", "bench", "--models", "baseline/chance", "--protocol", "independent", "-o", "run-independent")


def mimic(made: Path) -> None:
    """Make folders in the layouts of MIMIC-CXR-JPG and MIMIC-ILS, with a study for each of a few present cases."""
    studies: dict[str, Any] = {}
    for record in records(made):
        name, finding = record["case_id"], record["finding"]
        if record["present"] and len(studies) < FEW:
            copy_picture(record["image"], Path("mimic-cxr-jpg/files/p10") / name / "s1/x.jpg")
            mask = Path("mimic-ils/lesion_mask") / name / f"{finding}_global.png"
            mask.parent.mkdir(parents=True)
            shutil.copy(record["mask"], mask)
            copy_lungs(made, name, name)
            absent = [] if finding == "pneumonia" else [pair("pneumonia", mask=None)]
            found = [pair(finding, mask=f"{name}/{mask.name}")]
            studies[name] = study(found, absent, dicom_id=name, image_path=f"p10/{name}/s1/x.jpg")
    Path("mimic-ils", mimic_ils.FILE).write_text(json.dumps({"train": studies}))


def chexlocalize(made: Path) -> None:
    """Make a data set in CheXlocalize's layout: outlined effusions, and a label file that gives the absent findings."""
    truth: dict[str, Any] = {}
    rows = ["Path,Sex,Age,Frontal/Lateral,AP/PA,Edema,Pleural Effusion"]
    for record in records(made):
        patient = f"patient{int(record['case_id'][1:])}"
        if record["finding"] == "effusion":
            key = f"{patient}_{FRONTAL}"
            copy_picture(record["image"], Path("CheXlocalize/CheXpert/test") / patient / "study1/view1_frontal.jpg")
            copy_lungs(made, record["case_id"], key)
            if record["mask"]:
                truth[key] = {"Pleural Effusion": masks.to_rle(mask_of(record))}
            rows.append(f"test/{patient}/study1/view1_frontal.jpg,Male,60,Frontal,PA,0,{int(record['present'])}")
    Path("CheXlocalize/gt_segmentations_test.json").write_text(json.dumps(truth))
    Path("test_labels.csv").write_text("\n".join(rows) + "\n")


def chestx_det(made: Path) -> None:
    """Make a data set in ChestX-Det's layout, with an abnormal radiograph and a normal one."""
    root = Path("ChestX-Det")
    for name in PICTURES:
        save(root / "test_data" / f"{name}.png", RAMP)
    findings = {"Effusion": [BOX], "Consolidation": [BOX], "Nodule": [OTHER], "Mass": [BOX, OTHER]}
    write_det(root, entry(f"{PICTURES[0]}.png", **findings), entry(f"{PICTURES[1]}.png"))


def chestx_det_cases(made: Path) -> None:
    """Make the cases that the page on open data makes, with radiographs that lack the findings of another recipe."""
    chestx_det(made)
    for name in PICTURES:
        for structure, mask in STRUCTURES.items():
            save(Path("lungs") / name / f"{structure}.png", mask)
    wanted = ("--anatomy", "lungs", "--findings", "nodule,mass,fracture")
    call("ingest", "chestx-det", "ChestX-Det", *wanted, "-o", "cases.jsonl")


def chexmask(made: Path) -> None:
    write_chexmask(Path("ChestX-Ray8.csv"), "Image Index", {"00006585_007.png": RUNS})


def maps(made: Path) -> None:
    """Make a model's maps of the benchmark's cases: the lesion plus noise."""
    Path("gradcam_maps").mkdir()
    for number, record in enumerate(records(made)):
        if record["mask"]:
            lesion = cv2.resize(mask_of(record).astype(np.float64), (32, 32))
            noise = np.random.default_rng(number).normal(0, 0.25, lesion.shape)
            np.save(f"gradcam_maps/{record['case_id']}_{record['finding']}.npy", lesion + noise)


def chexlocalize_maps(made: Path) -> None:
    """Make masks in CheXlocalize's layout, and maps as its code saves them."""
    lesion = np.zeros((64, 80), np.bool_)
    lesion[20:40, 10:30] = True
    truth = {f"patient{n}_{FRONTAL}": {"Edema": masks.to_rle(lesion)} for n in (1, 2)}
    Path("gt_segmentations_val.json").write_text(json.dumps(truth))
    Path("gradcam_maps_val").mkdir()
    for key in truth:
        blurred = cv2.GaussianBlur(lesion.astype(np.float32), (0, 0), 5)[None, None].astype("<f4")
        Path("gradcam_maps_val", f"{key}_Edema_map.pkl").write_bytes(pickled(blurred, prob=0.5, gt=1))


def predictions(made: Path) -> None:
    write(Path("predictions.jsonl"), right(Path("bench")))


def model_predictions(made: Path) -> None:
    """Make the file that chexqa's dataset class of VLMEvalKit writes."""
    write(Path("some_model.predictions.jsonl"), right(Path("bench")))


def others_benchmarks(made: Path) -> None:
    """Make a table and a dataset in foreign layouts, by exporting the benchmark of phantoms."""
    call("export", str(made / "bench"), "--format", "vlmevalkit", "-o", "theirs.tsv")
    call("export", str(made / "bench"), "--format", "huggingface", "-o", "dataset")


def release(made: Path) -> None:
    write_release(Path("chexpercept-release"))


def release_results(made: Path) -> None:
    entries = read_index(Path("chexpercept-release"))
    write_results(Path(), {key: result(key, one, right_replies(one)) for key, one in entries.items()})


def reviewers_fill(made: Path) -> None:
    """Fill the sheets of three reviewers who disagree, and put all sheets into one folder."""
    verdicts = {"anna": "accept", "ben": "reject", "carla": "unsure"}
    loaded = benchmark.load(Path("bench"))
    Path("returned").mkdir()
    for sheet in sorted(Path("sheets").glob("*/*.xlsx")):
        who = sheet.parent.name.split("-")[0]

        def says(item: Item, key: Answer, blind: bool = "blind" in sheet.name, said: str = verdicts[who]) -> Any:
            if blind:  # one reviewer agrees with the key, the others see the opposite
                other = item.kind == "detection" and said != "accept"
                return answer_cells(item, (3 - key.answer[0],) if other else key.answer or (1,), columns.ANSWER)
            return {columns.VERDICT: said if item.kind == "detection" else "accept"}

        fill(sheet, as_reviewer(loaded, says), Path("returned") / sheet.name)


def adjudicator_fills(made: Path) -> None:
    (sheet,) = Path("conflicts").glob("*/*.xlsx")
    fill(sheet, lambda row: {columns.VERDICT: "accept"})


def wordings_fill(made: Path) -> None:
    fill(Path("wordings.xlsx"), lambda row: {columns.VERDICT: "accept"})


def an_earlier_review(made: Path) -> None:
    """Make a benchmark that two other reviewers have been given before."""
    bench(made)
    call("review", "export", "bench", "-o", "sheets", "--reviewers", "dora,emil")


def readers_fill(made: Path) -> None:
    """Fill the sheets of a study's readers, who give the right answer wherever there is one."""
    loaded = benchmark.load(Path("bench"))
    answers = as_reviewer(loaded, lambda item, key: answer_cells(item, key.answer or (1,), columns.ANSWER))
    Path("returned").mkdir()
    for sheet in sorted(Path("study").glob("*/*.xlsx")):
        fill(sheet, answers, Path("returned") / sheet.name)


def masks_are_judged(made: Path) -> None:
    """Fill a reviewer's sheet of masks, with the best verdict for every mask."""
    cases(made)
    wish = ("--what", "masks", "--reviewers", "anna")
    call("review", "export", "cases.jsonl", "-o", "mask-sheets", *wish)
    (sheet,) = Path("mask-sheets").glob("anna/*.xlsx")
    fill(sheet, lambda row: {columns.VERDICT: "accept"})
    call("review", "import", "mask-sheets", "-o", "verdicts.jsonl")


def a_mask_is_redrawn(made: Path) -> None:
    """Redraw one of the judged masks a little larger, as a reviewer asked."""
    masks_are_judged(made)
    record = next(record for record in records(made) if record["present"])
    Path("redrawn/dora").mkdir(parents=True)
    larger = cv2.dilate(mask_of(record).astype(np.uint8), np.ones((9, 9), np.uint8))
    Image.fromarray(larger * np.uint8(255)).save(Path("redrawn/dora") / f"{record['case_id']}.png")
    asked = {"case_id": "c" + 12 * "0", "source_case_id": record["case_id"], "finding": record["finding"], "items": [],
             "why": "contour"}  # fmt: skip
    Path("mask_review.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")


def a_benchmark_is_mended(made: Path) -> None:
    """Make the reviewed benchmark again, with larger masks in some cases."""
    bench(made)
    wish = ("--reviewers", "anna,ben", "--overlap", "0")
    call("review", "export", "bench", "-o", "first", *wish, "--planted", "0")
    loaded = benchmark.load(Path("bench"))
    for sheet in Path("first").glob("*/*.xlsx"):
        fill(sheet, as_reviewer(loaded, lambda item, key: {columns.VERDICT: "accept"}))
    call("review", "import", "first", "-o", "verdicts.jsonl")
    shutil.copytree(made / "phantoms", "mended")
    for record in records(made):
        if record["present"]:
            larger = cv2.dilate(mask_of(record).astype(np.uint8), np.ones((9, 9), np.uint8))
            place = Path("mended") / record["mask"].relative_to(made / "phantoms")
            Image.fromarray(larger * np.uint8(255)).save(place)
    call("generate", "mended", "-o", "bench-corrected")


def a_study_beside_models(made: Path) -> None:
    """Make the run of a study's three readers, and a run of two models, in folders of their own."""
    a_run(made)
    Path("run").rename("run-models")
    wish = ("--readers", "anna,ben,carla", "--sample", "6", "--training", "0", "--repeat", "0")
    call("review", "study", "bench", "-o", "study", *wish)
    readers_fill(made)
    call("review", "import", "returned", "--batch", "study")
    Path("study/run").rename("run-readers")


def blind_sheets_fill(made: Path) -> None:
    """Fill the blind sheets of two reviewers with the key."""
    loaded = benchmark.load(Path("bench"))
    answers = as_reviewer(loaded, lambda item, key: answer_cells(item, key.answer or (1,), columns.ANSWER))
    for sheet in sorted(Path("review").glob("*/*.xlsx")):
        fill(sheet, answers)


def second_masks(made: Path) -> None:
    """Draw every lesion of the benchmark's cases a little larger, as a second reader may; make a run to grade."""
    a_run(made)
    Path("second").mkdir()
    for record in records(made):
        if record["present"]:
            larger = cv2.dilate(mask_of(record).astype(np.uint8), np.ones((5, 5), np.uint8))
            Image.fromarray(larger * np.uint8(255)).save(Path("second") / f"{record['case_id']}.png")
