"""Valid input files for the fuzzer: one small file of every kind, made by chexqa from made-up sources.

For each try, the fuzzer copies the folders that the tried command reads.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
from PIL import Image

from chexqa.contract import benchmark
from chexqa.contract.items import Item
from chexqa.files.jsonio import read_yaml
from chexqa.generators.pipeline import checkpoint
from chexqa.imaging import masks
from chexqa.review import columns

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

import release_files  # noqa: E402
import tiny_onnx  # noqa: E402
from corpus_maps import heat_maps  # noqa: E402
from returned import fill_csv, save_page  # noqa: E402

# Runs a command line (or a function) in the corpus in a separate process; raises an error if it fails.
Run = Callable[..., None]
SIDE = 96
KEYS = ("patient1_study1_view1_frontal", "patient2_study1_view1_frontal")
RAMP = np.add.outer(np.arange(SIDE), np.arange(SIDE)).astype(np.uint8)
BOX = [[20, 30], [40, 30], [40, 50], [20, 50]]
CASES = 4


def drawn(folder: Path, run: Run, server: str) -> None:
    """Make those folders of the corpus that contain files made from phantoms."""
    run("synth", "phantoms", "--cases", CASES, "--size", 256)
    run("generate", "phantoms", "-o", "bench")
    run("eval", "bench", "--models", "baseline/oracle,baseline/chance", "-o", "run")
    run(interrupted, folder)
    heat_maps(folder, run, KEYS[0])


def made_up(folder: Path, run: Run, server: str) -> None:
    """Make the folders of the corpus with files of invented data sets and releases.

    ``server`` is the address of a server that answers every question.
    """
    sources(folder, run)
    release(folder, run)
    yaml_files(folder / "yaml")
    runs(folder, run, server)
    reviews(folder, run)


# These two halves of the corpus are independent and can be made in parallel.
HALVES = (drawn, made_up)


# --- sources ----------------------------------------------------------------------------------------------------------


def save(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)).save(path)
    return path


def box(left: int, right: int) -> np.ndarray:
    mask = np.zeros((SIDE, SIDE), np.bool_)
    mask[10:70, left:right] = True
    return mask


STRUCTURES = {"right_lung": box(8, 40), "left_lung": box(56, 88), "heart": box(40, 56)}
LESION = box(15, 30)


def sources(folder: Path, run: Run) -> None:
    """Make data sets in the layouts of known data sets, and two manifests.

    Masks of lungs and hearts are made twice: as pictures in a folder, and as run lengths in a csv.
    """
    plain_masks(folder / "masks")
    chexlocalize(folder / "chexlocalize")
    chestx_det(folder / "det")
    mimic_ils(folder / "ils")
    anatomy(folder / "anatomy")
    annotated(folder / "annotated")
    run("ingest", "masks", "--images", "masks/images", "--masks", "masks/masks", "--access", "open", "-o",
        "masks/cases.jsonl")  # fmt: skip
    shutil.copytree(folder / "chexlocalize", folder / "outlined")
    run("ingest", "chexlocalize", "outlined", "--labels", "outlined/labels.csv", "--access", "open", "-o",
        "outlined/cases.jsonl")  # fmt: skip


def plain_masks(folder: Path) -> None:
    """Make pictures of every readable format with masks in folders, and a table of the pictures and masks."""
    for name in ("p1.png", "p2.jpg"):
        save(folder / "images" / name, RAMP)
    deep = folder / "images" / "p3.png"
    Image.fromarray(RAMP.astype(np.uint16) * 200).save(deep)
    palette = Image.fromarray(RAMP).convert("P")
    palette.save(folder / "images" / "p4.png")
    for number, syntax in enumerate(("", "RLELossless", "JPEG2000Lossless"), start=5):
        write_dicom(folder / "images" / f"p{number}.dcm", syntax)
    rows = []
    for number, picture in enumerate(sorted((folder / "images").iterdir()), start=1):
        stem = folder / "masks" / picture.stem
        save(stem / "effusion.png", LESION)
        for name, mask in STRUCTURES.items():
            save(stem / f"{name}.png", mask)
        rows.append([picture.name, f"{picture.stem}/effusion.png", "effusion", f"{picture.stem}/right_lung.png",
                     f"{picture.stem}/left_lung.png", f"n{number}", "F", str(40 + number), "PA"])  # fmt: skip
    titles = ["image", "mask", "finding", "right_lung", "left_lung", "patient_id", "sex", "age", "view"]
    write_csv(folder / "table.csv", [titles, *rows])
    write_csv(folder / "keys.csv", [["image", "key"], *([row[0], f"{number}.png"] for number, row in enumerate(rows))])


def annotated(folder: Path) -> None:
    """Make radiographs with annotations in several formats, and an ONNX model that segments lungs."""
    save(folder / "images" / "p1.png", RAMP)
    save(folder / "images" / "p2.png", RAMP)
    save(folder / "images" / "p1_effusion.png", LESION)
    write_nifti(folder / "nifti" / "p1.nii.gz", LESION.astype(np.uint8) * 3)
    (folder / "lungs.onnx").write_bytes(tiny_onnx.convolution([-30], [10]))
    save(folder / "maps" / "p1.png", STRUCTURES["right_lung"].astype(np.uint8) + 2 * LESION)
    outline = {"image_id": 1, "category_id": 1, "iscrowd": 0, "area": 900}
    shapes = [
        {"id": 1, "segmentation": [[15, 10, 30, 10, 30, 70, 15, 70]], "bbox": [15, 10, 15, 60]},
        {"id": 2, "segmentation": {"size": [SIDE, SIDE], "counts": [SIDE, 20, SIDE * (SIDE - 1) - 20]}},
        {"id": 3, "segmentation": [], "bbox": [15, 10, 15, 60]},
    ]
    coco = {
        "images": [{"id": 1, "file_name": "p1.png", "width": SIDE, "height": SIDE}],
        "categories": [{"id": 1, "name": "Effusion"}],
        "annotations": [{**outline, **shape} for shape in shapes],
    }
    (folder / "coco.json").write_text(json.dumps(coco))
    report = {"ImageID": "p1.png", "findings": [{"labels": ["effusion"], "boxes": [[0.1, 0.2, 0.3, 0.4]]}]}
    (folder / "padchest.json").write_text(json.dumps([report]))
    titles = ["image_id", "class_name", "x_min", "y_min", "x_max", "y_max"]
    write_csv(folder / "vindr.csv", [titles, ["p1", "Pleural effusion", "15", "10", "30", "70"],
                                     ["p2", "No finding", "", "", "", ""]])  # fmt: skip
    (folder / "nih.csv").write_text("Image Index,Finding Label,Bbox [x,y,w,h],,,\np1.png,Effusion,15,10,15,60,,,\n")
    write_csv(folder / "siim.csv", [["ImageId", "EncodedPixels"], ["p1", "2000 300 724 300"], ["p2", "-1"]])
    write_csv(folder / "none.csv", [["image", "finding"], ["p2.png", "effusion"]])


def write_nifti(path: Path, values: np.ndarray) -> None:
    """Write a label map as a NIfTI file in ITK's orientation."""
    import nibabel

    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values.T[:, :, None], np.diag([-1.0, -1.0, 1.0, 1.0])), path)


def write_csv(path: Path, rows: list[list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_dicom(path: Path, syntax: str) -> None:
    """Write a radiograph of 12 bits, compressed by the transfer syntax if one is named."""
    from pydicom import uid
    from pydicom.dataset import Dataset, FileMetaDataset

    data = Dataset()
    data.PatientName, data.PatientID = "Doe^Jane", "MRN-4711"
    data.SOPClassUID, data.SOPInstanceUID = uid.DigitalXRayImageStorageForPresentation, "1.2.3.4"
    data.Rows, data.Columns, data.SamplesPerPixel = SIDE, SIDE, 1
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.PixelRepresentation, data.PhotometricInterpretation = 0, "MONOCHROME2"
    data.WindowCenter, data.WindowWidth, data.RescaleSlope, data.RescaleIntercept = 2000, 4000, 1, 0
    data.PixelSpacing = [0.2, 0.2]
    data.PixelData = (RAMP.astype(np.uint16) * 20).tobytes()
    data["PixelData"].VR = "OW"
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPInstanceUID = uid.UID("1.2.3.4")
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID
    if syntax:
        data.compress(getattr(uid, syntax), generate_instance_uid=False)
    data.save_as(path, enforce_file_format=True)


def chexlocalize(folder: Path) -> None:
    """Make a data set in CheXlocalize's layout, with run lengths in one split and polygons in the other."""
    for split, key in zip(("val", "test"), KEYS, strict=True):
        patient, study, view = key.split("_", 2)
        save(folder / "CheXpert" / split / patient / study / f"{view}.jpg", RAMP)
    lengths = {"Pleural Effusion": masks.to_rle(LESION), "Edema": masks.to_rle(box(60, 70))}
    polygons = {"Cardiomegaly": [BOX], "Atelectasis": [BOX], "img_size": [SIDE, SIDE]}
    (folder / "gt_segmentations_val.json").write_text(json.dumps({KEYS[0]: lengths}))
    (folder / "gt_annotations_test.json").write_text(json.dumps({KEYS[1]: polygons}))
    rows = [[f"CheXpert/val/{key.replace('_', '/', 2)}.jpg", "Female", 60, "PA", 0, 1, 0] for key in KEYS]
    write_csv(folder / "labels.csv", [["Path", "Sex", "Age", "AP/PA", "Pneumonia", "Edema", "Lung Opacity"], *rows])
    (folder / "hb_salient_pt.json").write_text(json.dumps({KEYS[0]: {"Pleural Effusion": [[20, 30]], "Edema": []}}))
    outlined = {KEYS[0]: {"Pleural Effusion": masks.to_rle(LESION)}}
    (folder / "hb_annotations.json").write_text(json.dumps(outlined))


def chestx_det(folder: Path) -> None:
    """Make a data set in ChestX-Det's layout, with one abnormal radiograph and one normal one."""
    for name in ("1.png", "2.png"):
        save(folder / "test_data" / name, RAMP)
    ill = {"file_name": "1.png", "syms": ["Effusion", "Pleural Thickening"], "boxes": [[0, 0, 1, 1]] * 2,
           "polygons": [BOX, BOX]}  # fmt: skip
    normal = {"file_name": "2.png", "syms": [], "boxes": [], "polygons": []}
    (folder / "ChestX_Det_test.json").write_text(json.dumps([ill, normal]))


def mimic_ils(folder: Path) -> None:
    """Make a data set in MIMIC-ILS's layout; each of its two studies has a present and an absent finding."""
    studies = {}
    for number in (1, 2):
        picture, mask = f"p10/p{number}/s{number}/d{number}.jpg", f"s{number}/effusion.png"
        save(folder / "files" / picture, RAMP)
        save(folder / "lesion_mask" / mask, LESION)
        pairs = {
            "positive_pairs": [{"type": "global", "target": "effusion", "seg_mask_path": mask}],
            "negative_pairs": [{"type": "global", "target": "edema", "seg_mask_path": None}],
        }
        studies[f"s{number}"] = {"subject_id": f"p{number}", "dicom_id": f"d{number}", "image_path": picture,
                                 "instruction_answer_pairs": pairs}  # fmt: skip
    (folder / "mimic_ils_instruction_answer.json").write_text(json.dumps({"train": studies}))


def anatomy(folder: Path) -> None:
    """Make lungs and hearts of the made-up radiographs: masks in folders, and run lengths in CheXmask's csv."""
    names = ["p1", "p2", *KEYS, "1", "2", "d1", "d2"]
    for name in names:
        for structure, mask in STRUCTURES.items():
            save(folder / "masks" / name / f"{structure}.png", mask)
    runs = {name: run_lengths(mask) for name, mask in STRUCTURES.items()}
    rows = [[f"{name}.png", 0.9, "1,2", runs["left_lung"], runs["right_lung"], runs["heart"], SIDE, SIDE]
            for name in names]  # fmt: skip
    titles = ["image_id", "Dice RCA (Mean)", "Landmarks", "Left Lung", "Right Lung", "Heart", "Height", "Width"]
    write_csv(folder / "chexmask.csv", [titles, *rows])


def run_lengths(mask: np.ndarray) -> str:
    """Return a mask as run lengths in CheXmask's format: "start length" of each run, row by row, counted from 1."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.ravel().astype(np.int8), [0]))))
    return " ".join(f"{start + 1} {end - start}" for start, end in edges.reshape(-1, 2).tolist())


# --- benchmarks, runs, reports ----------------------------------------------------------------------------------------


def interrupted(folder: Path) -> None:
    """Make the files that a generation leaves when it is stopped early."""
    from chexqa.cli.main import run

    def stop(*given: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    checkpoint.Checkpoint.finish = stop  # type: ignore[method-assign]
    (folder / "stopped").mkdir()
    shutil.copy(folder / "phantoms" / "cases.jsonl", folder / "stopped")
    run(["generate", "stopped", "--image-root", f"{folder}/phantoms", "-o", "stopped/bench", "--recipe", "chexpercept"])


def release(folder: Path, run: Run) -> None:
    """Make a release in CheXpercept's layout, results of models on it, and the benchmark imported from the release."""
    release_files.write_release(folder / "release")
    run("import", "chexpercept", "release", "--access", "open", "-o", "small")
    run("export", "small", "--format", "huggingface", "-o", "dataset")
    run("export", "small", "--format", "vlmevalkit", "-o", "dataset/small.tsv")
    results = {}
    for key, made in release_files.read_index(folder / "release").items():
        results[key] = release_files.result(key, made, dict.fromkeys(release_files.steps(made), "1, 2"))
    path = folder / "results" / "gemini_gemini-3.1-pro" / "oracle_implicit" / "all_results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(results))


def yaml_files(folder: Path) -> None:
    """Make a user's recipe, question bank and models file."""
    folder.mkdir()
    shutil.copy(ROOT / "generators" / "recipes" / "chexpercept.yaml", folder / "recipe.yaml")
    shutil.copy(ROOT / "generators" / "recipes" / "grid.yaml", folder / "grid.yaml")
    shutil.copy(ROOT / "question_banks" / "en.yaml", folder / "bank.yaml")
    models = ["models:", "  - {name: own, like: qwen3.6-27b, thinking: off}"]
    own = read_yaml(ROOT / "eval" / "models" / "models.yaml", "models")["models"][0]
    models.append(f"  - {json.dumps({**own, 'name': 'other'})}")
    (folder / "models.yaml").write_text("\n".join(models) + "\n")


def runs(folder: Path, run: Run, server: str) -> None:
    """Make three runs, a report, a leaderboard, a plan and a file of predictions.

    One run asks baselines, one run asks a model at the address ``server``, and one run is a dry run.
    """
    run("eval", "small", "--models", "baseline/oracle,baseline/chance", "--protocol", "independent", "-o", "run-small")
    run("eval", "small", "--model-id", "m", "--api-base", server, "--rotate", 2, "--limit", 3, "-o", "run-served")
    run("eval", "small", "--model-id", "own-model", "--api-base", server, "--dry-run", "dry", "--limit", 1)
    run("report", "run-small", "-o", "report")
    run("leaderboard", "add", "board", "run-small", "--by", "us")
    (folder / "planned").mkdir()
    run("plan", "small", "--models", "baseline/oracle,baseline/chance", "-o", "planned/plan.json")
    items = benchmark.load(folder / "small").items
    lines: list[dict[str, Any]] = [{"item_id": item.item_id, "model": "half", "answer": [1]} for item in items[::2]]
    lines += [{"item_id": item.item_id, "model": "told", "text": "Answer: 2"} for item in items]
    (folder / "told").mkdir()
    (folder / "told" / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


# --- reviews ----------------------------------------------------------------------------------------------------------


def reviews(folder: Path, run: Run) -> None:
    """Export review sheets and a reader study, fill them in as reviewers do, import them, and save a review page.

    The sheets are about items, and about masks (once as xlsx and once as csv).
    """
    deal = ("--reviewers", "anna,ben", "--overlap", 1)
    run("review", "export", "small", "-o", "sheets", *deal, "--both-parts")
    run("review", "export", "masks", "--what", "masks", "-o", "mask-sheets", *deal)
    run("review", "export", "masks", "--what", "masks", "-o", "csv-sheets", *deal, "--format", "csv")
    run("review", "export", "small", "-o", "study", "--reviewers", "anna,ben", "--blind-answers")
    items = {columns.item_row_id(item.item_id): item for item in benchmark.load(folder / "small").items}
    for sheet in sorted(folder.glob("*/*/*.xlsx")):
        fill(sheet, items)
    for sheet in sorted(folder.glob("csv-sheets/*/*.csv")):
        fill_csv(sheet)
    for name in ("sheets", "mask-sheets", "csv-sheets", "study"):
        shutil.copytree(folder / name, folder / f"{name}-done")
        bench = ("--benchmark", "small") if name in ("sheets", "study") else ()
        run("review", "import", f"{name}-done", *bench)
    run("review", "adjudicate", "small", "sheets-done/verdicts.jsonl", "-o", "decided")
    run("review", "export", "small", "-o", "pages", *deal, "--page", "--both-parts")
    save_page(folder / "pages", "anna-2")


def fill(path: Path, items: dict[str, Item]) -> None:
    """Write a verdict or an answer into every row of a review sheet.

    If the sheet's file name begins with ``anna``, the values differ from those in the other reviewers' sheets.
    """
    book = openpyxl.load_workbook(path)
    ours = path.name.startswith("anna")
    for tab in book.worksheets:
        titles = {str(cell.value): cell.column for cell in tab[1] if cell.value}
        for row in range(2, tab.max_row + 1) if columns.ID in titles else ():
            item = items.get(str(tab.cell(row, titles[columns.ID]).value))
            for title, text in said(titles, item, ours).items():
                tab.cell(row, titles[title]).value = text
    book.save(path)


def said(titles: dict[str, int], item: Item | None, ours: bool) -> dict[str, str]:
    """Return the texts that one of two reviewers writes into a row, keyed by column title.

    ``ours`` is True for the first reviewer, who accepts what the second one rejects.
    """
    if columns.VERDICT in titles:
        return {columns.VERDICT: "accept" if ours else "reject", columns.REASON: "other", columns.COMMENT: "looked at"}
    if item is None:
        return {}
    if item.multi:
        return {columns.option_title(1 if ours else 2): "yes"}
    return {columns.ANSWER: columns.choices(item)[0 if ours else 1]}
