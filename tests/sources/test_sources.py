"""``chexqa ingest``: data sets in their own layouts become manifests whose cases load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from source_files import NO_NEGATIVES

from chexqa.contract import cases
from chexqa.imaging import masks
from chexqa.sources.tables import Table

Cli = Callable[..., tuple[int, str, str]]
H, W = 64, 80
RAMP = np.add.outer(np.arange(H), np.arange(W)).astype(np.uint8)
BOX = [[10.0, 20.0], [19.0, 20.0], [19.0, 29.0], [10.0, 29.0]]
LESION = masks.from_polygons([BOX], (H, W), "the box")
LUNG = masks.from_polygons([[[5, 5], [30, 5], [30, 50], [5, 50]]], (H, W), "the lung")
KEY, PLAIN = "patient1_study1_view1_frontal", "patient2_study1_view1_frontal"


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)).save(path)


def load_all(manifest: Path, root: Path | None = None) -> list[cases.LoadedCase]:
    return [cases.load_case(case) for case in cases.read_manifest(manifest, root)]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two pictures with masks in folders, one without."""
    data = tmp_path / "data"
    for name in ("p1.png", "p2.png", "bare.png"):
        save(data / "images" / name, RAMP)
    for stem, finding in (("p1", "effusion"), ("p1", "edema"), ("p2", "opacity")):
        save(data / "masks" / stem / f"{finding}.png", LESION)
        save(data / "masks" / stem / "right_lung.png", LUNG)
    return data


def ingest_folders(cli: Cli, data: Path, out: Path, *more: object) -> tuple[int, str, str]:
    return cli("ingest", "masks", "--images", data / "images", "--masks", data / "masks", "-o", out, *more)


def test_a_name_that_is_no_utf8_is_refused_and_nothing_written(cli: Cli, folders: Path, tmp_path: Path) -> None:
    """As Linux hands over the bytes of a command line in another encoding."""
    code, _, err = ingest_folders(cli, folders, tmp_path / "cases.jsonl", "--source", "Universit\udce4t")
    told = "rename the file, or correct the argument.\n"
    assert (code, err) == (2, f"error: the argument 'Universit\\udce4t' is not UTF-8 text; {told}")
    assert list(tmp_path.iterdir()) == [folders]


def test_each_finding_mask_of_a_folder_is_a_case(folders: Path, cli: Cli) -> None:
    code, out, err = ingest_folders(cli, folders, folders, "--access", "open", "--license", "CC0", "--source", "mine")
    assert (code, "wrote 3 cases (3 present, 0 absent) of 2 radiographs" in out) == (0, True)
    assert "--image-root" not in out
    assert "1 picture without a mask of a finding (left out), the first is bare.png" in err
    loaded = load_all(folders)
    assert [one.case.case_id for one in loaded] == ["p1/edema", "p1/effusion", "p2/opacity"]
    assert all(np.array_equal(one.source_mask, LESION) and one.right_lung is not None for one in loaded)
    assert {(c.access, c.license, c.source) for c in (one.case for one in loaded)} == {("open", "CC0", "mine")}


def test_pictures_stay_here_unless_said_otherwise(folders: Path, cli: Cli) -> None:
    assert ingest_folders(cli, folders, folders / "x.jsonl")[0] == 0
    assert {case.access for case in cases.read_manifest(folders / "x.jsonl")} == {"credentialed"}


def test_a_manifest_beside_its_data_says_which_image_root_to_give(folders: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "work").mkdir()
    out = ingest_folders(cli, folders, tmp_path / "work" / "cases.jsonl")[1]
    assert f"--image-root {folders}" in out
    assert len(load_all(tmp_path / "work", folders)) == 3
    assert cases.read_manifest(tmp_path / "work", folders)[0].image == folders / "images" / "p1.png"


def test_own_masks_may_lie_with_the_manifest_and_pictures_elsewhere(folders: Path, tmp_path: Path, cli: Cli) -> None:
    shutil.copytree(folders / "masks", tmp_path / "work" / "masks")
    manifest = tmp_path / "work" / "cases.jsonl"
    code, out, _ = cli(
        "ingest", "masks", "--images", folders / "images", "--masks", tmp_path / "work/masks", "-o", manifest
    )
    assert (code, f"--image-root {folders / 'images'}" in out) == (0, True)
    loaded = load_all(manifest, folders / "images")
    assert loaded[0].case.mask == tmp_path / "work" / "masks" / "p1" / "edema.png"
    assert loaded[0].case.image == folders / "images" / "p1.png"


def test_a_file_that_would_be_read_from_the_wrong_folder_is_refused(folders: Path, tmp_path: Path, cli: Cli) -> None:
    save(tmp_path / "work" / "images" / "p1.png", RAMP.T)
    code, _, err = ingest_folders(cli, folders, tmp_path / "work" / "cases.jsonl")
    assert code == 2
    assert "would list this file as 'images/p1.png', but the manifest's folder has another file of that name" in err
    assert not (tmp_path / "work" / "cases.jsonl").exists()


BEYOND_UTF_8 = (("images/p1.png", "images/\udcf6.png"), ("masks/p1", "masks/\udcf6"))


def spoil_folders() -> dict[str, tuple[Callable[[Path], None], str]]:
    return {
        "an unknown structure": (lambda d: save(d / "masks/p1/right_lungs.png", LUNG), "did you mean 'right_lung'?"),
        "a finding with a slip": (lambda d: save(d / "masks/p1/pneumona.png", LUNG), "did you mean 'pneumonia'?"),
        "a jpeg mask": (lambda d: save(d / "masks/p1/pneumonia.jpg", LUNG), "pneumonia.jpg: a mask must be a PNG"),
        "one stem twice": (
            lambda d: save(d / "images/p1.jpg", RAMP),
            "p1.png: differs from p1.jpg only in the suffix",
        ),
        "no images folder": (lambda d: shutil.rmtree(d / "images"), "images: no such folder"),
        "no case at all": (
            lambda d: [shutil.rmtree(p) for p in (d / "masks").iterdir()] and None,
            "no case to write; 3 pictures without a mask of a finding (left out), the first is bare.png; chexqa looks "
            "for masks named <masks>/<picture>/<finding>.png, such as masks/p1/effusion.png for images/p1.png.",
        ),
        "a link out": (
            lambda d: (d / "images/q.png").symlink_to("/etc/hosts"),
            "q.png: is outside the manifest's folder and the folders of the data through a link; put the file itself",
        ),
        "a name that is not UTF-8": (
            lambda d: [(d / name).rename(d / new) for name, new in BEYOND_UTF_8] and None,
            "\\udcf6.png: the name is not UTF-8, so no manifest can have it; rename the file or its folder",
        ),
    }


@pytest.mark.parametrize("name", spoil_folders())
def test_what_is_wrong_with_folders_is_named(folders: Path, cli: Cli, name: str) -> None:
    spoil, words = spoil_folders()[name]
    save(folders / "masks/q/edema.png", LESION)
    spoil(folders)
    code, out, err = ingest_folders(cli, folders, folders / "x.jsonl")
    assert (code, out) == (2, "")
    assert words in err
    assert not (folders / "x.jsonl").exists()


def test_mask_folders_without_a_picture_are_counted(folders: Path, cli: Cli) -> None:
    save(folders / "masks/q/edema.png", LESION)
    assert "1 mask folder without a picture (left out), the first is q" in ingest_folders(cli, folders, folders)[2]


def test_an_existing_manifest_is_not_overwritten(folders: Path, cli: Cli) -> None:
    (folders / "x.jsonl").write_text("precious")
    code, _, err = ingest_folders(cli, folders, folders / "x.jsonl")
    assert (code, "exists already" in err) == (2, True)
    assert (folders / "x.jsonl").read_text() == "precious"


def test_a_manifest_that_cannot_be_written_is_no_fault_of_the_layout(folders: Path, cli: Cli) -> None:
    code, _, err = ingest_folders(cli, folders, folders / f"{'x' * 300}.jsonl")
    assert (code, "looks for masks" in err) == (2, False)
    assert "cannot be written" in err


def test_without_folders_or_table_the_command_says_what_to_give(tmp_path: Path, cli: Cli) -> None:
    code, _, err = cli("ingest", "masks", "-o", tmp_path / "x.jsonl")
    assert (code, "give --images and --masks, or --table" in err) == (2, True)


TABLE = (
    "image,mask,finding,right_lung,sex,age,patient_id,access,present\n"
    "images/p1.png,masks/p1/effusion.png,effusion,masks/p1/right_lung.png,Male,57,anna,open,1\n"
    "\n"
    "images/p1.png,,pneumonia,,F,,,,0\n"
    "images/p2.png,,pneumonia,,unknown,,,,\n"
)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_each_row_of_a_table_is_a_case(folders: Path, cli: Cli, delimiter: str) -> None:
    (folders / "t.csv").write_text(TABLE.replace(",", delimiter), encoding="utf-8-sig")
    code, out, _ = cli("ingest", "masks", "--table", folders / "t.csv", "-o", folders)
    assert (code, "wrote 3 cases (1 present, 2 absent) of 2 radiographs" in out) == (0, True)
    one, two, three = (loaded.case for loaded in load_all(folders))
    assert (one.sex, one.age, one.patient_id, one.access, list(one.anatomy)) == (
        "M",
        57,
        "anna",
        "open",
        ["right_lung"],
    )
    assert (two.sex, two.age, two.access, two.negative_kind) == ("F", None, "credentialed", "other")
    assert (three.sex, three.negative_kind) == (None, "normal")


def test_a_tables_paths_may_start_at_folders(folders: Path, cli: Cli) -> None:
    (folders / "t.csv").write_text("image,mask,finding\np1.png,p1/effusion.png,effusion\n")
    at = ("--images", folders / "images", "--masks", folders / "masks")
    assert cli("ingest", "masks", "--table", folders / "t.csv", *at, "-o", folders)[0] == 0
    assert len(load_all(folders)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"image,finding\n", "the column 'mask' is missing; the first line has image, finding"),
        (b"", "the column 'image' is missing; the first line has nothing"),
        (b'{"images": [], "annotations": []}', "here; for COCO JSON use 'chexqa ingest coco'"),
        (
            b"image,mask,finding,reference\na.png,,edema,guessed\n",
            "line 2: field 'reference': \"guessed\" is not one of",
        ),
        (b"image,mask,finding,colour\na,b,edema,c\n", "the column 'colour' is unknown"),
        (b",image,mask,finding\n0,a,b,edema\n", "column 1 has no name; name the column, or remove it (in pandas"),
        (b"image,mask,finding\nimages/p1.png,,flu\n", "line 2: there is no finding 'flu'"),
        (b"image,mask,finding\n,x.png,edema\n", "line 2: the column 'image' is empty"),
        (b"image,mask,finding\na.png,x.png\n", "line 2: has 2 cells under 3 columns"),
        (b"image,mask,finding,present\na.png,,edema,1\n", "line 2: the finding is present but has no mask"),
        (b"image,mask,finding,present\na.png,,edema,perhaps\n", "'present' is 'perhaps'; write 1 or 0"),
        (b"image,mask,finding,age\na.png,,edema,old\n", "line 2: the age 'old'"),
        (b"image,mask,finding,sex\na.png,,edema,X\n", "line 2: the sex 'X'"),
        (
            b"image,mask,finding,access\n\na.png,,edema,secret\n",
            "t.csv, line 3: field 'access': \"secret\" is not one of",
        ),
        (b"image,mask,finding,mask\na,b,edema,\n", "t.csv: the first line has the column 'mask' twice"),
        (b"image,mask,finding\na.png,,edema\na.png,,edema\n", "line 3: this image and finding are already in line 2"),
        (b"image,mask,finding\n../up.png,,edema\n", "is outside the manifest's folder"),
        (b"image,mask,finding\n/etc/hosts,,edema\n", "is outside the manifest's folder"),
        ("image,mask,finding\nä.png,,edema\n".encode("latin-1"), "not UTF-8 text; save it as CSV in UTF-8"),
        ("image,mask,finding\n".encode("utf-16"), "is UTF-16 text, not a CSV file in UTF-8; in Excel, save it as"),
        (b"PK\x03\x04", "is an Excel workbook, not a CSV file in UTF-8"),
        (b"sep=;\nimage;mask;finding;age\na.png;;edema;41,5\n", "line 3: the age '41,5' is not a number of years"),
        (b'image,mask,finding\n"a.png,,edema\n', "not a CSV file"),
    ],
)
def test_what_is_wrong_with_a_table_is_named_with_its_line(folders: Path, cli: Cli, text: bytes, words: str) -> None:
    (folders / "t.csv").write_bytes(text)
    code, out, err = cli("ingest", "masks", "--table", folders / "t.csv", "-o", folders / "x.jsonl")
    assert (code, out) == (2, "")
    assert words in err
    assert not (folders / "x.jsonl").exists()


def test_findings_and_ages_are_read_in_other_usual_words(folders: Path, cli: Cli) -> None:
    rows = ("p1.png,,Pleural Effusion,063Y", "p2.png,,Edema,006M", "p2.png,,PNEUMONIA,unknown", "p1.png,,edema,41.5")
    (folders / "t.csv").write_text("image,mask,finding,age\n" + "\n".join(rows))
    at = ("--images", folders / "images", "--masks", folders / "masks")
    code, _, err = cli("ingest", "masks", "--table", folders / "t.csv", *at, "-o", folders)
    assert code == 0, err
    read = [(case.finding, case.age) for case in cases.read_manifest(folders)]
    assert read == [("effusion", 63), ("edema", 0.5), ("pneumonia", None), ("edema", 41.5)]


def test_label_maps_without_their_labels_are_recognized(folders: Path, tmp_path: Path, cli: Cli) -> None:
    save(tmp_path / "maps" / "p1.png", LESION)
    at = ("--images", folders / "images", "--masks", tmp_path / "maps")
    code, _, err = cli("ingest", "masks", *at, "-o", folders / "x.jsonl")
    assert (code, "1 file named like a label map; say with --label VALUE=NAME what its values are" in err) == (2, True)


def test_names_with_points_are_told_apart_and_of_a_stem_the_second_keeps_its_suffix(folders: Path, cli: Cli) -> None:
    names = ("1.2.840.4", "1.2.840.5", "r.png", "r.jpg")
    (folders / "t.csv").write_text("image,mask,finding\n" + "".join(f"{name},,edema\n" for name in names))
    assert cli("ingest", "masks", "--table", folders / "t.csv", "-o", folders)[0] == 0
    read = {case.case_id: case.image.name for case in cases.read_manifest(folders)}
    assert read == dict(zip(["1.2.840.4/edema", "1.2.840.5/edema", "r/edema", "r.jpg/edema"], names, strict=True))


def test_empty_names_of_columns_may_repeat(folders: Path) -> None:
    (folders / "t.csv").write_text("a,,\n1,2,3\n")
    assert [row.cells["a"] for row in Table(folders / "t.csv").rows()] == ["1"]


def test_a_picture_without_a_name_has_no_anatomy(folders: Path, cli: Cli) -> None:
    (folders / "t.csv").write_text("image,mask,finding\n.,,edema\n")
    at = ("--table", folders / "t.csv", "--images", folders / "images", "--anatomy", folders / "masks")
    code, _, err = cli("ingest", "masks", *at, "-o", folders)
    assert (code, "1 radiograph without anatomy masks, the first is one without a name" in err) == (0, True)


@pytest.mark.parametrize("option", ["--images", "--masks", "--anatomy", "--key-map", "--table", "-o"])
def test_a_path_longer_than_files_have_is_named(folders: Path, cli: Cli, option: str) -> None:
    at: dict[str, object] = {"--images": folders / "images", "--masks": folders / "masks", "-o": folders / "x.jsonl"}
    if option == "--key-map":
        at["--anatomy"] = folders / "masks"
    at[option] = folders / ("y" * 300)
    code, out, err = cli("ingest", "masks", *(word for pair in at.items() for word in pair))
    assert (code, out) == (2, "")
    assert "yyy: " in err


def outlines() -> dict[str, Any]:
    return {
        KEY: {"img_size": [H, W], "Pleural Effusion": [BOX], "Airspace Opacity": [BOX, [[1, 1], [2, 2]]], "Edema": []}
    }


def run_lengths() -> dict[str, Any]:
    empty = masks.to_rle(LESION & False)
    rle = masks.to_rle(LESION)
    return {KEY: {"Pleural Effusion": rle, "Airspace Opacity": rle, "Edema": empty, "Lung Lesion": empty}}


LABELS = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Lung Opacity,Edema,Pleural Effusion,Cardiomegaly,Support Devices\n"
    "CheXpert-v1.0/valid/patient1/study1/view1_frontal.jpg,Male,73,Frontal,AP,0.0,1.0,0.0,0.0,-1.0,0.0\n"
    "CheXpert-v1.0/valid/patient2/study1/view1_frontal.jpg,Female,70,Frontal,PA,1.0,0.0,0.0,,0.0,1.0\n"
    "CheXpert-v1.0/valid/patient9/study1/view1_frontal.jpg,Female,70,Frontal,PA,1.0,0.0,0.0,0.0,0.0,0.0\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """CheXlocalize's layout: two radiographs, one of them outlined."""
    root = tmp_path / "set"
    for key in (KEY, PLAIN):
        patient, study, view = key.split("_", 2)
        save(root / "CheXpert" / "val" / patient / study / f"{view}.jpg", RAMP)
    (root / "gt_annotations_val.json").write_text(json.dumps(outlines()))
    save(root / "anatomy" / KEY / "right_lung.png", LUNG)
    (root / "labels.csv").write_text(LABELS)
    return root


@pytest.mark.parametrize("truth", ["polygons", "run lengths"])
def test_each_outlined_finding_is_a_case(root: Path, cli: Cli, truth: str) -> None:
    if truth == "run lengths":
        (root / "gt_annotations_val.json").write_text("not read")
        (root / "gt_segmentations_val.json").write_text(json.dumps(run_lengths()))
    code, out, err = cli("ingest", "chexlocalize", root, "--anatomy", root / "anatomy", "-o", root)
    assert (code, err) == (0, f"note: 1 radiograph with a mask of one lung only, the first is {KEY}.\n" + NO_NEGATIVES)
    assert "wrote 2 cases (2 present, 0 absent) of 1 radiograph" in out
    effusion, opacity = load_all(root)
    assert (effusion.case.finding, opacity.case.finding) == ("effusion", "opacity")
    assert (effusion.case.patient_id, effusion.case.study_id) == ("patient1", "patient1_study1")
    assert (effusion.case.view, effusion.case.source, effusion.case.access) == (
        "frontal",
        "CheXlocalize",
        "credentialed",
    )
    assert np.array_equal(effusion.source_mask, LESION)
    assert effusion.right_lung is not None
    assert effusion.heart is None


def test_zeros_of_the_label_file_are_absent_cases(root: Path, cli: Cli) -> None:
    code, out, _ = cli("ingest", "chexlocalize", root, "--labels", root / "labels.csv", "-o", root)
    assert (code, "wrote 7 cases (2 present, 5 absent) of 2 radiographs" in out) == (0, True)
    read = {case.case_id: case for case in cases.read_manifest(root)}
    effusion = read[f"{KEY}/effusion"]
    assert (effusion.present, effusion.sex, effusion.age, effusion.view) == (True, "M", 73, "AP")
    negatives = {name: case.negative_kind for name, case in read.items() if not case.present}
    assert negatives == {
        f"{KEY}/edema": "other", f"{KEY}/support_devices": "other",
        f"{PLAIN}/opacity": "normal", f"{PLAIN}/edema": "normal", f"{PLAIN}/cardiomegaly": "normal",
    }  # fmt: skip


def test_labels_of_a_study_hold_for_its_radiographs(root: Path, cli: Cli) -> None:
    (root / "labels.csv").write_text("Study,Edema\nCheXpert-v1.0/test/patient2/study1,0\n")
    assert cli("ingest", "chexlocalize", root, "--labels", root / "labels.csv", "-o", root)[0] == 0
    assert f"{PLAIN}/edema" in [case.case_id for case in cases.read_manifest(root)]


def test_a_radiograph_that_is_not_there_is_left_out_and_named(root: Path, cli: Cli) -> None:
    truth = {"patient7_study1_view1_frontal": outlines()[KEY], **outlines()}
    (root / "gt_annotations_val.json").write_text(json.dumps(truth))
    code, out, err = cli("ingest", "chexlocalize", root, "-o", root)
    assert (code, "wrote 2 cases" in out) == (0, True)
    assert "1 radiograph not found and left out, the first is patient7_study1_view1_frontal" in err


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ([1], "is not a JSON object of findings keyed by radiograph"),
        ({"x": {}}, "the key 'x' is not of the form patientX_studyY_viewZ_side"),
        ({"../../etc_a_b": {}}, "is not of the form"),
        ({"a_b_": {}}, "is not of the form"),
        ({KEY: {"Edema": {"size": [H, W], "counts": "\ud800"}}}, "contains \\ud800, an unpaired surrogate"),
        ({KEY: {"Edemas": []}}, "'Edemas' is not one of CheXlocalize's findings (did you mean 'Edema'?)"),
        ({KEY: {"Edema": [BOX]}}, "the size must be [height, width] in pixels, not None"),
        ({KEY: {"img_size": [9999999, 9999999], "Edema": [BOX]}}, "more than 64,000,000 pixels"),
        ({KEY: {"img_size": [H, W], "Edema": [[1, 2, 3]]}}, "Edema: must be a list of polygons, each a list of [x, y]"),
        ({KEY: {"img_size": [H, W], "Edema": "abc"}}, "must be a list of polygons"),
        ({KEY: {"img_size": [H, W], "Edema": 5}}, "must be a list of polygons"),
        ({KEY: {"img_size": [W, 9], "Edema": [BOX]}}, "outside the image of 9 x 80 px"),
        ({KEY: {"Edema": {"size": [H, W]}}}, "'counts' must be a string"),
        ({KEY: {"Edema": {"size": [H, W], "counts": "11"}}}, "run lengths add up to 2 pixels"),
        ({KEY: {"Edema": {"size": "big", "counts": "11"}}}, "the size must be [height, width]"),
    ],
)
def test_what_is_wrong_with_the_outlines_is_named(root: Path, cli: Cli, truth: Any, words: str) -> None:
    (root / "gt_annotations_val.json").write_text(json.dumps(truth))
    code, _, err = cli("ingest", "chexlocalize", root, "-o", root / "x.jsonl")
    assert code == 2
    assert words in err
    assert "gt_annotations_val.json" in err
    assert not (root / "x.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Image,Edema\na,0\n", "line 2: neither 'Path' nor 'Study' is filled in"),
        ("Path,Edema\n/,0\n", "is not the path of a CheXpert radiograph"),
        ("Path,Edema\na/b/c.jpg,no\n", "line 2: 'Edema' is 'no'; labels are 1, 0, -1 or empty"),
        ("Path,Edema\na/b/c.jpg,7\n", "line 2: 'Edema' is '7'; labels are 1, 0, -1 or empty"),
        ("Path,Edema\na/b/c.jpg,nan\n", "line 2: 'Edema' is 'nan'; labels are 1, 0, -1 or empty"),
    ],
)
def test_what_is_wrong_with_the_labels_is_named(root: Path, cli: Cli, text: str, words: str) -> None:
    (root / "labels.csv").write_text(text)
    code, _, err = cli("ingest", "chexlocalize", root, "--labels", root / "labels.csv", "-o", root / "x.jsonl")
    assert (code, words in err) == (2, True)


@pytest.mark.parametrize("column", ["Path", "Study"])
def test_names_longer_than_files_have_are_not_there(root: Path, cli: Cli, column: str) -> None:
    (root / "labels.csv").write_text(f"{column},Edema\na/{'b' * 300}/c,0\n")
    truth = {f"a_b_{'c' * 300}": outlines()[KEY], **outlines()}
    (root / "gt_annotations_val.json").write_text(json.dumps(truth))
    code, out, err = cli("ingest", "chexlocalize", root, "--labels", root / "labels.csv", "-o", root)
    assert (code, "wrote 2 cases" in out) == (0, True)
    assert "1 radiograph not found and left out, the first is a_b_ccc" in err


def test_a_folder_without_outlines_is_named(tmp_path: Path, cli: Cli) -> None:
    code, _, err = cli("ingest", "chexlocalize", tmp_path, "-o", tmp_path)
    assert (code, "contains no gt_segmentations_*.json" in err) == (2, True)


def test_every_finding_of_the_data_set_is_a_case(root: Path, cli: Cli) -> None:
    names = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum", "Lung Lesion",
             "Lung Opacity", "Pleural Effusion", "Pneumothorax", "Support Devices")  # fmt: skip
    truth = {KEY: {"img_size": [H, W], **{name: [BOX] for name in names}}}
    (root / "gt_annotations_val.json").write_text(json.dumps(truth))
    assert cli("ingest", "chexlocalize", root, "-o", root)[0] == 0
    words = {"Lung Opacity": "opacity", "Pleural Effusion": "effusion"}
    found = {case.finding for case in cases.read_manifest(root)}
    assert found == {words.get(name, name.lower().replace(" ", "_")) for name in names}


def test_the_real_radiographs_load(real_data: Path, tmp_path: Path, cli: Cli) -> None:
    data = real_data / "radiographs"
    assert ingest_folders(cli, data, tmp_path / "three.jsonl", "--access", "open")[0] == 0
    loaded = {one.case.finding: one for one in load_all(tmp_path / "three.jsonl", data)}
    assert sorted(loaded) == ["cardiomegaly", "consolidation", "opacity"]
    assert loaded["consolidation"].working.shape == (875, 1024)
    assert loaded["consolidation"].heart is None
    assert all(one.right_lung is not None and one.left_lung is not None for one in loaded.values())


def test_the_real_chexlocalize_sample_loads(real_data: Path, tmp_path: Path, cli: Cli) -> None:
    sample = real_data / "chexlocalize_sample"
    out = tmp_path / "cxl.jsonl"
    assert cli("ingest", "chexlocalize", sample, "--anatomy", sample / "anatomy", "-o", out)[0] == 0
    loaded = load_all(out, sample)
    assert [one.case.finding for one in loaded] == ["enlarged_cardiomediastinum", "cardiomegaly", "opacity"]
    assert loaded[0].image.shape == (2320, 2828)
    assert [int(one.source_mask.sum()) for one in loaded if one.source_mask is not None] == [962252, 867107, 163040]
