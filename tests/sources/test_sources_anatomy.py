"""Lungs and hearts for every source of ``chexqa ingest``: folders, CXAS, CheXmask."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from source_files import (
    BOX,
    HEART,
    LEFT,
    NO_NEGATIVES,
    RAMP,
    RIGHT,
    RUNS,
    SIDE,
    STRUCTURES,
    Cli,
    check_anatomy,
    ingest_det,
    load_all,
    peak,
    runs,
    save,
    write_chexmask,
)

from chexqa.contract import cases
from chexqa.files.errors import InputError
from chexqa.imaging import masks
from chexqa.sources import anatomy as anatomy_source
from chexqa.sources.case_records import Outcome, Places


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_lungs_and_heart_come_from_a_chexmask_csv(det: Path, cli: Cli, delimiter: str) -> None:
    table = write_chexmask(det / "m.csv", "image_id", {"9": RUNS, "1.png": RUNS}, delimiter)
    code, _, err = ingest_det(cli, det, "--anatomy", table)
    assert (code, err) == (0, "note: 1 radiograph without anatomy masks, the first is 2.\n")
    effusion, _, absent, *_ = load_all(det)
    check_anatomy(effusion)
    assert absent.source_anatomy == {}


def test_a_key_map_names_the_pictures_of_the_csv(det: Path, cli: Cli) -> None:
    table = write_chexmask(det / "m.csv", "Image Index", {"00000001_000.png": RUNS, "1.png": RUNS})
    (det / "map.csv").write_text("image;key\n2.png;00000001_000.png\n")
    code, _, err = ingest_det(cli, det, "--anatomy", table, "--key-map", det / "map.csv")
    assert (code, "1 radiograph without anatomy masks, the first is 1" in err) == (0, True)
    loaded = load_all(det)
    assert loaded[0].source_anatomy == {}
    check_anatomy(loaded[-1])


def test_a_column_that_nobody_knows_can_be_named(det: Path, cli: Cli) -> None:
    table = write_chexmask(det / "m.csv", "file", {"1.png": RUNS})
    code, _, err = ingest_det(cli, det, "--anatomy", table)
    assert (code, "--anatomy-key-column: one of file, Dice" in err) == (2, True)
    assert ingest_det(cli, det, "--anatomy", table, "--anatomy-key-column", "file")[0] == 0
    check_anatomy(load_all(det)[0])


@pytest.mark.parametrize("names", [("right_lung", "left_lung", "heart"), ("right lung", "left lung", "heart")])
def test_a_folder_may_be_named_as_cxas_names_it_and_hold_more(det: Path, cli: Cli, names: tuple[str, ...]) -> None:
    for name, mask in zip(names, STRUCTURES.values(), strict=True):
        save(det / "cxas" / "1" / f"{name}.png", mask)
    save(det / "cxas" / "1" / "vertebrae T1.png", HEART)
    save(det / "cxas" / "1" / "lung.jpg", HEART)
    code, _, err = ingest_det(cli, det, "--anatomy", det / "cxas")
    assert (code, err) == (0, "note: 1 radiograph without anatomy masks, the first is 2.\n")
    check_anatomy(load_all(det)[0])


def test_masks_of_a_models_size_are_brought_to_the_picture(det: Path, cli: Cli) -> None:
    for name, mask in STRUCTURES.items():
        save(det / "model" / "1" / f"{name}.png", mask[::2, ::2])
    half = {column: runs(STRUCTURES[column.lower().replace(" ", "_")][::2, ::2]) for column in list(RUNS)[:3]}
    table = write_chexmask(det / "m.csv", "Image Index", {"1.png": {**half, "Height": 512, "Width": 512.0}})
    for anatomy in (det / "model", table):
        assert ingest_det(cli, det, "--anatomy", anatomy)[0] == 0
        check_anatomy(load_all(det)[0])
        (det / "cases.jsonl").unlink()


def test_masks_of_other_proportions_are_named_when_the_case_is_read(det: Path, cli: Cli) -> None:
    save(det / "model" / "1" / "left_lung.png", LEFT[:, 10:])
    table = write_chexmask(det / "m.csv", "Image Index", {"1.png": {**RUNS, "Height": 2048, "Width": 512}})
    for anatomy, words in (
        (det / "model", "left_lung.png: the mask is 1014 x 1024 px and its image 1024 x 1024 px; give a mask of the"),
        (table, "run lengths are for 512 x 2048 px and its image 1024 x 1024 px; give a mask of the image's prop"),
    ):
        assert ingest_det(cli, det, "--anatomy", anatomy)[0] == 0
        with pytest.raises(InputError) as error:
            cases.load_case(cases.read_manifest(det)[0])
        assert words in str(error.value)
        (det / "cases.jsonl").unlink()


BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    (
        {"Heart": "5 10 20"},
        "m.csv, 1.png, Heart: the run lengths are cut off: they must be pairs, but 3 numbers are given",
    ),
    ({"Heart": "5 ten"}, "Heart: run lengths must be pairs of whole numbers"),
    ({"Heart": "5 99999999999999999999"}, "Heart: run lengths must be pairs of whole numbers"),
    ({"Heart": "1048570 20"}, "Heart: the run lengths overlap or do not fit 1024 x 1024 px"),
    ({"Heart": "0 5"}, "do not fit"),
    ({"Heart": "20 5 10 5"}, "overlap or do not fit"),
    ({"Heart": "20 0"}, "do not fit"),
    ({"Height": 100}, "Right Lung: the run lengths overlap or do not fit 1024 x 100 px"),
    ({"Height": "high"}, "1.png: Height 'high' and Width '1024' are not a picture's size"),
    ({"Height": 10**9}, "are not a picture's size"),
    ({"Height": "nan"}, "are not a picture's size"),
]


@pytest.mark.parametrize(("cells", "words"), BAD_ROWS, ids=[words[:30] for _, words in BAD_ROWS])
def test_a_damaged_row_is_named_and_its_radiograph_goes_without(
    det: Path, cli: Cli, cells: dict[str, Any], words: str
) -> None:
    table = write_chexmask(det / "m.csv", "Image Index", {"1.png": {**RUNS, **cells}, "2.png": RUNS})
    code, out, err = ingest_det(cli, det, "--anatomy", table)
    assert (code, "wrote 9 cases" in out) == (0, True)
    assert words in err
    assert "1 radiograph without anatomy masks, the first is 1" in err
    loaded = load_all(det)
    assert loaded[0].source_anatomy == {}
    check_anatomy(loaded[-1])


def test_a_short_row_and_a_key_given_twice_are_named(det: Path, cli: Cli) -> None:
    table = write_chexmask(det / "m.csv", "Image Index", {"1.png": RUNS, "1": RUNS, "2.png": RUNS})
    with table.open("a") as file:
        file.write("3.png,0.9\n")
    code, _, err = ingest_det(cli, det, "--anatomy", table)
    assert code == 0
    assert "line 3: '1' appears twice in the table; the first row is used" in err
    assert "line 5: has 2 cells under 8 columns" in err


def test_one_lung_or_an_empty_cell_is_counted(det: Path, cli: Cli) -> None:
    table = write_chexmask(det / "m.csv", "Image Index", {"1.png": {**RUNS, "Left Lung": "", "Heart": ""}})
    err = ingest_det(cli, det, "--anatomy", table)[2]
    assert "1 radiograph with a mask of one lung only, the first is 1" in err
    assert set(cases.read_manifest(det)[0].anatomy) == {"right_lung"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--anatomy", "nowhere"], "nowhere: no such folder"),
        (["--anatomy", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--anatomy", "labels.csv"], "the column 'Right Lung' is missing; the first line has a, b"),
        (["--anatomy", "pipes.csv"], "the column 'Right Lung' is missing; the first line has Image Index|Dice"),
        (["--anatomy", "utf16.csv"], "utf16.csv: is UTF-16 text, not a CSV file in UTF-8"),
        (["--anatomy", "latin.csv"], "latin.csv: not UTF-8 text"),
        (["--anatomy", "m.csv", "--anatomy-key-column", "x"], "there is no column 'x'; the first line has Image I"),
        (["--anatomy", "m.csv", "--key-map", "labels.csv"], "the column 'image' is missing"),
        (
            ["--anatomy", "m.csv", "--key-map", "twice.csv"],
            "line 3: the column 'key' has 'c' for the image 'a.png', but 'b' in an earlier line",
        ),
        (["--anatomy", "test_data", "--anatomy-key-column", "x"], "--anatomy-key-column is for a csv"),
        (["--key-map", "twice.csv"], "need --anatomy; give --anatomy too"),
    ],
)
def test_anatomy_that_cannot_be_read_is_refused_before_anything_is_written(
    det: Path, cli: Cli, options: list[str], words: str
) -> None:
    (det / "labels.csv").write_text("a,b\n1,2\n")
    (det / "twice.csv").write_text("image,key\na,b\na.png,c\n")
    write_chexmask(det / "pipes.csv", "Image Index", {"1.png": RUNS}, "|")
    text = write_chexmask(det / "m.csv", "Image Index", {"1.png": RUNS}).read_text()
    (det / "utf16.csv").write_text(text, encoding="utf-16")
    (det / "latin.csv").write_text(text.replace("1.png", "ä.png"), encoding="latin-1")
    files = {path.name for path in det.iterdir()} | {"nowhere", "nowhere.csv"}
    code, out, err = ingest_det(cli, det, *[det / option if option in files else option for option in options])
    assert (code, out) == (2, "")
    assert words in err
    assert not (det / "cases.jsonl").exists()


def test_anatomy_goes_before_the_lungs_of_folders_and_tables(tmp_path: Path, cli: Cli) -> None:
    for name in ("p1.png", "p2.png"):
        save(tmp_path / "images" / name, RAMP)
        save(tmp_path / "masks" / name[:2] / "edema.png", HEART)
        save(tmp_path / "masks" / name[:2] / "right_lung.png", RIGHT[::-1].copy())
    table = write_chexmask(tmp_path / "m.csv", "dicom_id", {"p1": RUNS})
    at = ("--images", tmp_path / "images", "--masks", tmp_path / "masks")
    assert cli("ingest", "masks", *at, "--anatomy", table, "-o", tmp_path / "a.jsonl")[0] == 0
    (tmp_path / "t.csv").write_text(
        "image,mask,finding,right_lung\n"
        "images/p1.png,masks/p1/edema.png,edema,masks/p1/right_lung.png\n"
        "images/p2.png,masks/p2/edema.png,edema,masks/p2/right_lung.png\n"
    )
    listed = ("--table", tmp_path / "t.csv")
    assert cli("ingest", "masks", *listed, "--anatomy", table, "-o", tmp_path / "b.jsonl")[0] == 0
    for manifest in ("a.jsonl", "b.jsonl"):
        one, two = load_all(tmp_path / manifest)
        check_anatomy(one)
        assert np.array_equal(two.source_anatomy["right_lung"], RIGHT[::-1])


def test_chexlocalize_finds_its_radiographs_by_their_path(tmp_path: Path, cli: Cli) -> None:
    save(tmp_path / "CheXpert/val/patient1/study2/view1_frontal.jpg", RAMP)
    truth = {
        "patient1_study2_view1_frontal": {"img_size": [SIDE, SIDE], "Edema": [BOX], "Pneumothorax": [[[1, 2]] * 3]}
    }
    (tmp_path / "gt_annotations_val.json").write_text(json.dumps(truth))
    key = "CheXpert-v1.0/valid/patient1/study2/view1_frontal.jpg"
    table = write_chexmask(tmp_path / "m.csv", "Path", {key: RUNS})
    code, _, err = cli("ingest", "chexlocalize", tmp_path, "--anatomy", table, "-o", tmp_path)
    assert (code, err) == (0, NO_NEGATIVES)
    edema, pneumothorax = cases.read_manifest(tmp_path)
    check_anatomy(cases.load_case(edema))
    assert pneumothorax.anatomy == edema.anatomy


def test_a_damaged_outline_of_chexlocalize_leaves_the_others_and_is_not_taken_as_absent(
    tmp_path: Path, cli: Cli
) -> None:
    save(tmp_path / "CheXpert/val/patient1/study2/view1_frontal.jpg", RAMP)
    key = "patient1_study2_view1_frontal"
    bad = {"size": [SIDE, SIDE], "counts": "11"}
    truth = {key: {"Edema": masks.to_rle(RIGHT), "Atelectasis": bad}}
    (tmp_path / "gt_segmentations_val.json").write_text(json.dumps(truth))
    (tmp_path / "labels.csv").write_text(
        "Path,Atelectasis,Pneumonia\nCheXpert-v1.0/valid/patient1/study2/view1_frontal.jpg,0,0\n"
    )
    code, out, err = cli("ingest", "chexlocalize", tmp_path, "--labels", tmp_path / "labels.csv", "-o", tmp_path)
    assert (code, "wrote 2 cases (1 present, 1 absent)" in out) == (0, True)
    assert f"left out: {tmp_path}/gt_segmentations_val.json, {key}, Atelectasis: the mask's run lengths add up" in err
    assert [(case.finding, case.negative_kind) for case in cases.read_manifest(tmp_path)] == [
        ("edema", None), ("pneumonia", "other"),
    ]  # fmt: skip


@pytest.mark.long
def test_a_large_csv_is_never_in_memory(tmp_path: Path) -> None:
    lengths = " ".join(f"{row * 64 + 5} 20" for row in range(60))
    cells = {"Left Lung": lengths, "Right Lung": lengths, "Heart": lengths, "Height": 64, "Width": 64}
    table = write_chexmask(tmp_path / "m.csv", "Path", {f"{number}.png": cells for number in range(12_000)})
    places = Places(tmp_path / "cases.jsonl", [])

    def read() -> None:
        assert anatomy_source.Anatomy(anatomy_source.Options(table), places, Outcome()).of("11999")

    # What else a busy process does at the time is counted too, but nothing near the table's size.
    assert peak(read) < table.stat().st_size / 2 > 8_000_000


def test_real_chexmask_rows_are_what_their_landmarks_enclose(real_data: Path, tmp_path: Path) -> None:
    table = real_data / "chexmask" / "ChestX-Ray8_sample.csv"
    options = anatomy_source.Options(table)
    found = anatomy_source.Anatomy(options, Places(tmp_path / "m.jsonl", []), Outcome())
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    parts = {"right_lung": slice(0, 44), "left_lung": slice(44, 94), "heart": slice(94, None)}
    for row in rows:
        points = np.array(row["Landmarks"].split(","), float).astype(np.int32).reshape(-1, 1, 2)
        structures = found.of(row["Image Index"].removesuffix(".png"))
        assert structures is not None
        for name, part in parts.items():
            drawn = cv2.drawContours(np.zeros((SIDE, SIDE), np.uint8), [points[part]], -1, 1, -1)
            assert np.array_equal(masks.from_rle(structures[name], name), drawn.astype(bool))
    assert len(rows) == 20
