"""Annotations as other tools leave them: names that differ from the pictures', and shapes that cannot be right."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa.contract import cases
from chexqa.imaging import masks

Cli = Callable[..., tuple[int, str, str]]
TALL, WIDE = 120, 160
FLUID = np.zeros((TALL, WIDE), bool)
FLUID[70:110, 15:60] = True
SQUARE = [[15, 70, 59, 70, 59, 109, 15, 109]]
BOX = [15, 70, 45, 40]


def png(path: Path, mask: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask.astype(np.uint8) * 255).save(path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.fromarray(np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8)).save(folder / "a.png")
    return folder


def coco(path: Path, names: list[str], **more: Any) -> Path:
    """A COCO file with one effusion on each picture."""
    shape = {"segmentation": SQUARE, "bbox": BOX, "category_id": 1, **more}
    data = {
        "images": [{"id": n, "file_name": name, "width": WIDE, "height": TALL} for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": "effusion"}],
        "annotations": [{"id": n, "image_id": n, **shape} for n in range(len(names))],
    }
    path.write_text(json.dumps(data))
    return path


def loaded(out: Path) -> list[cases.LoadedCase]:
    return [cases.load_case(case) for case in cases.read_manifest(out)]


@pytest.mark.parametrize(
    "name",
    [
        "../../data/upload/3/0a1b2c3d-a.png",
        "a_png.rf.0123456789abcdef0123456789abcdef.jpg",
        "C:\\export\\a.png",
        "/data/local-files/?d=set%2Fa.png",
        "/data/upload/3/0a1b2c3d-%61.png",
    ],
)
def test_pictures_are_found_by_the_names_that_tools_give_them(
    images: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    png(tmp_path / "lungs/a/right_lung.png", FLUID)
    command = ("ingest", "coco", coco(tmp_path / "c.json", [name]), "--images", images)
    code, _, err = cli(*command, "--anatomy", tmp_path / "lungs", "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    (made,) = loaded(tmp_path / "m.jsonl")
    assert np.array_equal(made.source_mask, FLUID)
    assert np.array_equal(made.source_anatomy["right_lung"], FLUID)


def test_two_names_of_one_picture_make_no_case(images: Path, tmp_path: Path, cli: Cli) -> None:
    file = coco(tmp_path / "c.json", ["train/a.png", "val/a.png"])
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert "fits this name, and also another name in the annotations" in " ".join(err.split())
    assert "train/a.png: the picture a.png in" in " ".join(err.split())


def test_a_picture_is_taken_from_the_folder_that_its_name_has(images: Path, tmp_path: Path, cli: Cli) -> None:
    for folder in ("train/x", "val/x"):
        (images / folder).mkdir(parents=True)
        shutil.copy(images / "a.png", images / folder / "a.png")
    (images / "a.png").unlink()
    code, _, err = cli(
        "ingest", "coco", coco(tmp_path / "c.json", ["/data/val/x/a.png", "a.png"]), "--images", images,
        "-o", tmp_path / "m.jsonl",
    )  # fmt: skip
    assert code == 0, err
    assert [case.image.relative_to(images).as_posix() for case in cases.read_manifest(tmp_path / "m.jsonl")] == [
        "val/x/a.png"
    ]
    assert "a.png: 2 pictures in" in err


@pytest.mark.parametrize("form", ["folders", "flat", "coco"])
def test_accents_may_be_written_in_two_ways(images: Path, tmp_path: Path, cli: Cli, form: str) -> None:
    whole, apart = (unicodedata.normalize(way, "Müller") for way in ("NFC", "NFD"))
    (images / "a.png").rename(images / f"{whole}.png")
    png(tmp_path / f"masks/{apart}/effusion.png", FLUID)
    png(tmp_path / f"flat/{apart}_effusion.png", FLUID)
    png(tmp_path / f"lungs/{apart}/right_lung.png", FLUID)
    command = {
        "folders": ("masks", "--masks", tmp_path / "masks"),
        "flat": ("masks", "--flat", "--masks", tmp_path / "flat"),
        "coco": ("coco", coco(tmp_path / "c.json", [f"{apart}.png"])),
    }[form]
    out = ("--anatomy", tmp_path / "lungs", "-o", tmp_path / "m.jsonl")
    code, _, err = cli("ingest", *command, "--images", images, *out)
    assert code == 0, err
    (made,) = loaded(tmp_path / "m.jsonl")
    assert np.array_equal(made.source_mask, FLUID)
    assert "right_lung" in made.source_anatomy


def along_rows(mask: np.ndarray) -> dict[str, Any]:
    """Run lengths along the rows: an error that tools of one's own make."""
    return {"size": [TALL, WIDE], "counts": masks.to_rle(np.ascontiguousarray(mask.T))["counts"]}


SHARES = [[x / (TALL if place % 2 else WIDE) for place, x in enumerate(SQUARE[0])]]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"segmentation": along_rows(FLUID)}, "annotation 0: its run lengths lie in the box"),
        ({"segmentation": SHARES}, "annotation 0: its outline has no coordinate above 1"),
        ({"segmentation": [], "bbox": [0.1, 0.2, 0.3, 0.4]}, "annotation 0: its box has no coordinate above 1"),
    ],
)
def test_a_shape_that_cannot_be_right_is_refused(
    images: Path, tmp_path: Path, cli: Cli, shape: dict[str, Any], words: str
) -> None:
    file = coco(tmp_path / "c.json", ["a.png"], **shape)
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert words in " ".join(err.split())


WRONG = {
    "coco": "",
    "boxes": "image_id,class_name,x_min,y_min,x_max,y_max\na,Edema,9,9,5,5\na,Edema,5,5,9,9\na,Edema,x,5,9,9\n",
    "siim": "ImageId,EncodedPixels\na,1 2 3\na,-1\na,9999999 9\n",
    "masks": "image,mask,finding\nimages/a.png,,efusion\nimages/a.png,,effusion\nimages/a.png,,edma\n",
}


@pytest.mark.parametrize("source", WRONG)
def test_all_wrong_annotations_are_named(images: Path, tmp_path: Path, cli: Cli, source: str) -> None:
    """The second of three is right."""
    file = tmp_path / "t.csv"
    file.write_text(WRONG[source])
    if source == "coco":
        data = json.loads(coco(file, ["a.png"] * 3).read_text())
        for one in (data["annotations"][0], data["annotations"][2]):
            one["segmentation"] = SHARES
        file.write_text(json.dumps(data))
    given = (file, "--images", images) if source != "masks" else ("--table", file)
    code, _, err = cli("ingest", source, *given, "-o", tmp_path / "m.jsonl")
    parts = ("annotation 0", "annotation 2") if source == "coco" else ("line 2", "line 4")
    assert code == 2
    assert f"2 {'annotations' if source == 'coco' else 'lines'} are wrong" in err
    assert all(f"  {part}: " in err for part in parts), err
    assert not (tmp_path / "m.jsonl").exists()


@pytest.mark.parametrize("box", [BOX, [value / 2 for value in BOX]])
def test_run_lengths_of_another_size_agree_with_a_bbox_of_either_size(
    images: Path, tmp_path: Path, cli: Cli, box: list[float]
) -> None:
    file = coco(tmp_path / "c.json", ["a.png"], segmentation=masks.to_rle(FLUID[::2, ::2].copy()), bbox=box)
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path / "m.jsonl")
    assert (code, "the first is a.png (80 x 60 to 160 x 120 px)" in " ".join(err.split())) == (0, True), err


def test_an_inverted_mask_is_refused(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(tmp_path / "masks/a/effusion.png", ~FLUID)
    code, _, err = cli("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    code, _, err = cli("validate", tmp_path / "m.jsonl")
    assert code == 2
    assert "effusion.png: the mask covers 91% of the picture and its four corners, so it looks inverted" in err


def test_the_indices_of_a_colour_palette_are_labels(images: Path, tmp_path: Path, cli: Cli) -> None:
    labels = Image.fromarray(FLUID.astype(np.uint8) * 3 + np.eye(TALL, WIDE, dtype=np.uint8)).convert("P")
    labels.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 0, 128])
    (tmp_path / "maps").mkdir()
    labels.save(tmp_path / "maps/a.png")
    one = Image.fromarray(FLUID.astype(np.uint8) * 3).convert("P")
    one.putpalette(labels.getpalette() or [])
    (tmp_path / "masks/a").mkdir(parents=True)
    one.save(tmp_path / "masks/a/effusion.png")
    for folder, more in (("maps", ("--label", "3=effusion", "--label", "4=effusion")), ("masks", ())):
        out = tmp_path / f"{folder}.jsonl"
        code, _, err = cli("ingest", "masks", "--images", images, "--masks", tmp_path / folder, *more, "-o", out)
        assert code == 0, err
        assert np.array_equal(loaded(out)[0].source_mask, FLUID)


POINTS = [[15, 70], [59, 70], [59, 109], [15, 109]]
FOREIGN = {
    "labelme": (
        "a.json",
        {"version": "5.5.0", "shapes": [{"label": "effusion", "points": POINTS}], "imagePath": "a.png"},
    ),
    "Label Studio": ("a.json", [{"id": 1, "annotations": [{"result": []}], "data": {"image": "/data/upload/1/a.png"}}]),
    "GeoJSON": ("a.geojson", {"type": "FeatureCollection", "features": []}),
    "Supervisely": ("a.png.json", {"size": {"height": TALL, "width": WIDE}, "objects": []}),
    "VIA": ("via.json", {"a.png123": {"filename": "a.png", "size": 123, "regions": []}}),
    "Datumaro": ("default.json", {"info": {}, "categories": {}, "items": []}),
    "panoptic": ("p.json", {"images": [], "categories": [], "annotations": [{"image_id": 1, "segments_info": []}]}),
    "CVAT": ("annotations.xml", '<?xml version="1.0"?>\n<annotations><version>1.1</version></annotations>'),
    "PASCAL VOC": ("a.xml", "<annotation><filename>a.png</filename></annotation>"),
    "YOLO": ("a.txt", "0 0.1 0.2 0.3 0.2 0.3 0.4\n"),
}


@pytest.mark.parametrize("tool", FOREIGN)
def test_the_file_of_a_tool_is_named_with_the_way_to_one_that_is_read(
    images: Path, tmp_path: Path, cli: Cli, tool: str
) -> None:
    name, content = FOREIGN[tool]
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    for command in ("coco",) if tool == "panoptic" else ("coco", "boxes"):
        if command == "boxes" and file.suffix == ".geojson":
            continue
        code, _, err = cli("ingest", command, file, "--images", images, "-o", tmp_path / "m.jsonl")
        said = " ".join(err.split())
        assert code == 2
        assert f"{name}: is " in said
        assert tool in said
        assert "export" in said or "convert" in said


def test_files_that_are_not_read_are_named(images: Path, tmp_path: Path, cli: Cli) -> None:
    (images / "a.png").rename(images / "a.tif")
    (images / "IM0001").write_bytes(bytes(128) + b"DICM")
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks/a.geojson").write_text("{}")
    for more in ((), ("--label", "1=effusion")):
        command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", *more)
        code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
        assert code == 2
        assert "2 files not read: a picture is a .png, .jpg, .jpeg, .dcm or .dicom file" in " ".join(err.split())
    (images / "a.tif").rename(images / "a.png")
    png(tmp_path / "masks/a/effusion.png", FLUID)
    code, _, err = cli("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "-o", tmp_path / "m.jsonl")
    assert code == 0
    assert "1 file not read: masks are PNG, TIFF or NIfTI files, and 'ingest coco' reads COCO JSON" in " ".join(
        err.split()
    )


def test_a_table_may_have_windows_paths(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(tmp_path / "masks/a/effusion.png", FLUID)
    (tmp_path / "t.csv").write_text("image;mask;finding\r\nimages\\a.png;masks\\a\\effusion.png;effusion\r\n")
    code, _, err = cli("ingest", "masks", "--table", tmp_path / "t.csv", "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    (made,) = loaded(tmp_path / "m.jsonl")
    assert (made.case.case_id, np.array_equal(made.source_mask, FLUID)) == ("images/a/effusion", True)


def resized(file: Path, size: dict[str, int] | None) -> Path:
    """Shrink the shapes of a COCO file to half of their size, and state the size ``size`` of its first picture."""
    data = json.loads(file.read_text())
    for name in ("width", "height"):
        del data["images"][0][name]
    data["images"][0] |= size or {}
    for one in data["annotations"]:
        one["segmentation"] = [[value / 2 for value in part] for part in one["segmentation"]]
        one["bbox"] = [value / 2 for value in one["bbox"]]
    file.write_text(json.dumps(data))
    return file


HALF = {"width": WIDE // 2, "height": TALL // 2}


@pytest.mark.parametrize(
    ("size", "more", "shape"),
    [(HALF, (), {}), (HALF, (), {"segmentation": []}), (None, ("--drawn-on", f"{WIDE // 2}x{TALL // 2}"), {})],
)
def test_shapes_drawn_on_a_smaller_picture_are_scaled(
    images: Path, tmp_path: Path, cli: Cli, size: dict[str, int] | None, more: tuple[str, ...], shape: dict[str, Any]
) -> None:
    (images / "inner").mkdir()
    (images / "a.png").rename(images / "inner/a.png")
    file = resized(coco(tmp_path / "c.json", ["a.png"], **shape), size)
    code, _, err = cli("ingest", "coco", file, "--images", images, *more, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert "1 picture of another size than the annotations were drawn on" in err
    assert "the first is a.png (80 x 60 to 160 x 120 px)" in " ".join(err.split())
    assert np.array_equal(loaded(tmp_path / "m.jsonl")[0].source_mask, FLUID)


def test_shapes_that_all_lie_in_the_upper_left_quarter_are_named(images: Path, tmp_path: Path, cli: Cli) -> None:
    """The file states the size of the pictures, but its polygons are those of copies of half the size."""
    names = [f"{number}.png" for number in range(20)]
    for name in names:
        shutil.copy(images / "a.png", images / name)
    file = coco(tmp_path / "c.json", names, segmentation=[[value / 2 for value in SQUARE[0]]])
    command = ("ingest", "coco", file, "--images", images, "-o")
    code, _, err = cli(*command, tmp_path / "m.jsonl")
    assert (code, "20 pictures have shapes, all of them in the upper left quarter" in err) == (0, True), err
    data = json.loads(file.read_text())
    data["annotations"].append(data["annotations"][0] | {"id": 20, "segmentation": SQUARE})
    file.write_text(json.dumps(data))
    code, _, err = cli(*command, tmp_path / "n.jsonl")
    assert (code, "quarter" in err) == (0, False), err


def test_copies_that_roboflow_made_of_a_picture_are_left_out(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Some of them may be flipped, so that a finding of the left lung would be one of the right lung."""
    names = [f"{name}_png.rf.{mark * 32}.jpg" for name, mark in (("a", "0"), ("a", "1"), ("b", "2"))]
    for name in names:
        shutil.copy(images / "a.png", images / name)
    command = ("ingest", "coco", coco(tmp_path / "c.json", names), "--images", images, "-o", tmp_path / "m.jsonl")
    code, _, err = cli(*command)
    said = " ".join(err.split())
    assert (code, f"{names[0]}: is one of 2 pictures that Roboflow exported as a.png" in said) == (0, True), err
    assert "1 picture exported by Roboflow: check that README.roboflow.txt names no augmentation" in said
    assert [case.image.name for case in cases.read_manifest(tmp_path / "m.jsonl")] == names[2:]


def test_shapes_for_an_unknown_size_are_refused(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Half of the size of a radiograph, they would lie in its upper left quarter."""
    command = ("--images", images, "-o", tmp_path / "m.jsonl")
    code, _, err = cli("ingest", "coco", resized(coco(tmp_path / "c.json", ["a.png"]), None), *command)
    assert code == 2
    assert "1 picture without width and height in the file, so it is not known for which" in " ".join(err.split())
    file = resized(coco(tmp_path / "c.json", ["a.png"], segmentation=[[4 * value for value in SQUARE[0]]]), None)
    code, _, err = cli("ingest", "coco", file, "--drawn-on", "pictures", *command)
    assert code == 2
    assert "the shape reaches x = 118, y = 218, but a.png has only 160 x 120 px" in " ".join(err.split())
    assert "write WIDTHxHEIGHT in pixels" in cli("ingest", "coco", file, "--drawn-on", "1024", *command)[2]


def test_boxes_for_larger_pictures_are_refused(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Data sets are often copied at a smaller size, and their boxes are not."""
    head = "image_id,class_name,x_min,y_min,x_max,y_max\n"
    (tmp_path / "t.csv").write_text(f"{head}a,Pleural effusion,5,5,60,60\na,Consolidation,100,30,200,90\n")
    code, _, err = cli("ingest", "boxes", tmp_path / "t.csv", "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert "line 3: the shape reaches x = 200, y = 90, but a has only 160 x 120 px" in " ".join(err.split())
    assert not (tmp_path / "m.jsonl").exists()
    (tmp_path / "t.csv").write_text(
        f"{head.strip()},width,height\na,Pleural effusion,30,140,120,220,{2 * WIDE},{2 * TALL}\n"
    )
    code, _, err = cli("ingest", "boxes", tmp_path / "t.csv", "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert cases.read_manifest(tmp_path / "m.jsonl")[0].mask == {"box": BOX}


def test_sizes_are_those_of_the_turned_picture(images: Path, tmp_path: Path, cli: Cli) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    with Image.open(images / "a.png") as upright:
        upright.transpose(Image.Transpose.ROTATE_90).save(images / "a.jpg", exif=exif)
    (images / "a.png").unlink()
    file = coco(tmp_path / "c.json", ["a.jpg"])
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert loaded(tmp_path / "m.jsonl")[0].image.shape == (TALL, WIDE)


def test_boxes_in_fractions_are_those_of_a_picture_in_a_folder(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Without its size, the finding was lost, and the picture counted as one without findings."""
    (images / "inner").mkdir()
    (images / "a.png").rename(images / "inner/a.png")
    found = {"labels": ["pleural effusion"], "boxes": [[0.1, 0.5, 0.4, 0.9]]}
    (tmp_path / "g.json").write_text(json.dumps([{"ImageID": "a.png", "findings": [found]}]))
    command = ("ingest", "boxes", tmp_path / "g.json", "--images", images, "--absent-unmasked")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    (made,) = cases.read_manifest(tmp_path / "m.jsonl")
    assert made.mask == {"box": [16.0, 60.0, 48.0, 48.0]}


def test_a_heart_in_a_label_map_is_no_part_of_the_lungs(images: Path, tmp_path: Path, cli: Cli) -> None:
    values = np.zeros((TALL, WIDE), np.uint8)
    values[20:100, 20:60], values[20:100, 100:140] = 1, 2
    values[50:100, 60:100] = 3
    values[80:100, 20:60] = 4
    (tmp_path / "maps").mkdir()
    Image.fromarray(values).save(tmp_path / "maps/a.png")
    (tmp_path / "maps/._a.png").write_bytes(b"an archive of macOS holds such files")
    names = ("right_lung", "left_lung", "cardiomegaly", "effusion")
    labels = [part for value, name in enumerate(names, start=1) for part in ("--label", f"{value}={name}")]
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "maps", *labels)
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    for made in loaded(tmp_path / "m.jsonl"):
        assert np.array_equal(made.source_anatomy["right_lung"], np.isin(values, (1, 4)))
        assert np.array_equal(made.source_anatomy["left_lung"], values == 2)


def test_files_that_macos_adds_are_passed_over(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(tmp_path / "masks/a/effusion.png", FLUID)
    png(tmp_path / "flat/a_effusion.png", FLUID)
    for path in (images / "._a.png", tmp_path / "masks/a/._effusion.jpg", tmp_path / "masks/a/._effusion.png"):
        path.write_bytes(b"a resource fork")
    for form in (("--masks", tmp_path / "masks"), ("--masks", tmp_path / "flat", "--flat")):
        out = tmp_path / f"{len(form)}.jsonl"
        code, _, err = cli("ingest", "masks", "--images", images, *form, "--absent-unmasked", "-o", out)
        assert code == 0, err
        assert [case.case_id for case in cases.read_manifest(out)] == ["a/effusion"]


def test_hidden_folders_and_the_pictures_own_are_no_masks_of_a_missing_picture(
    images: Path, tmp_path: Path, cli: Cli
) -> None:
    """Jupyter makes a hidden folder, and a data set may keep the pictures beside the folders of masks."""
    png(images.parent / "a/effusion.png", FLUID)
    (images.parent / ".ipynb_checkpoints").mkdir()
    command = ("ingest", "masks", "--images", images, "--masks", images.parent, "--absent-unmasked")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert [case.case_id for case in cases.read_manifest(tmp_path / "m.jsonl")] == ["a/effusion"]


def test_labels_without_a_meaning_are_told_apart_from_no_labels(images: Path, tmp_path: Path, cli: Cli) -> None:
    Image.fromarray(np.add.outer(np.arange(TALL), np.arange(WIDE)[::-1]).astype(np.uint8)).save(images / "b.png")
    file = coco(tmp_path / "c.json", ["a.png", "b.png"])
    data = json.loads(file.read_text())
    data["categories"].append({"id": 2, "name": "Pleuraerguss"})
    data["annotations"][1]["category_id"] = 2
    file.write_text(json.dumps(data))
    command = ("ingest", "coco", file, "--images", images, "--absent-unmasked", "-o", tmp_path / "m.jsonl")
    code, _, err = cli(*command)
    assert code == 0
    assert "1 picture with annotations that are not used and without a known finding: counted as" in " ".join(
        err.split()
    )


@pytest.mark.parametrize(
    ("mask", "more"),
    [
        ("masks/aa/effusion.png", ()),
        ("masks/aa_effusion.png", ("--flat",)),
        ("masks/aa.png", ("--label", "255=effusion")),
    ],
)
def test_no_picture_counts_as_free_of_findings_while_a_mask_has_no_picture(
    images: Path, tmp_path: Path, cli: Cli, mask: str, more: tuple[str, ...]
) -> None:
    """Otherwise a name that differs in one letter would turn a lesion into a case without it."""
    png(tmp_path / mask, FLUID)
    png(tmp_path / mask.replace("aa", "a"), FLUID)
    Image.fromarray(np.add.outer(np.arange(TALL), np.arange(WIDE)[::-1]).astype(np.uint8)).save(images / "Ä.png")
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", *more, "-o", tmp_path / "m.jsonl")
    code, _, err = cli(*command, "--absent-unmasked")
    assert code == 2
    assert "without a matching picture: --absent-unmasked could count" in " ".join(err.split())
    code, _, err = cli(*command)
    assert code == 0, err
    assert [case.case_id for case in cases.read_manifest(tmp_path / "m.jsonl")] == ["a/effusion"]


def test_masks_with_numbers_are_to_be_joined(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(tmp_path / "masks/a/effusion_1.png", FLUID)
    code, _, err = cli("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert "effusion_1.png: has a number in its name, but a picture has only one mask of each structure" in err
    assert "join its masks into one file with the name 'effusion.png'" in err


RIGHT, LEFT = np.zeros((TALL, WIDE), bool), np.zeros((TALL, WIDE), bool)
RIGHT[20:110, 10:70], LEFT[20:110, 90:150] = True, True
LUNGS = {"right_lung": RIGHT, "left_lung": LEFT}


def check_all(cli: Cli, out: Path, *command: object, count: int = 1) -> str:
    """Ingest masks; assert that every case has the effusion and both lungs, and return what the command says."""
    code, _, err = cli("ingest", "masks", *command, "-o", out)
    assert code == 0, err
    made = loaded(out)
    assert len(made) == count
    for one in made:
        assert np.array_equal(one.source_mask, FLUID)
        assert {name: np.array_equal(mask, LUNGS[name]) for name, mask in one.source_anatomy.items()} == {
            "right_lung": True, "left_lung": True
        }  # fmt: skip
    return " ".join(err.split())


def label_map() -> np.ndarray:
    values = RIGHT * 1 + LEFT * 2
    values[FLUID] = 4
    return values.astype(np.uint8)


def test_pictures_and_masks_in_subfolders_are_found(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Masks lie at the path of their picture, in a folder of its name alone, or in one folder for each structure."""
    for name in ("p1/x.png", "p2/y.png", "p2/z.png"):
        (images / name).parent.mkdir(exist_ok=True)
        shutil.copy(images / "a.png", images / name)
    masks_of = {**LUNGS, "effusion": FLUID, "aorta": FLUID}
    for name, mask in masks_of.items():
        for path in (f"p1/x/{name}.png", f"y/{name}.png", f"{name}/z.png"):
            png(tmp_path / "masks" / path, mask)
    command = ("--images", images, "--masks", tmp_path / "masks")
    said = check_all(cli, tmp_path / "m.jsonl", *command, count=3)
    assert [case.case_id for case in cases.read_manifest(tmp_path / "m.jsonl")] == [
        "p1/x/effusion", "p2/y/effusion", "p2/z/effusion"
    ]  # fmt: skip
    assert "2 annotations not used: give --label 'aorta=NAME' to use them" in said
    assert "1 mask folder without a picture (left out), the first is aorta" in said
    code, _, err = cli("ingest", "masks", *command, "--absent-unmasked", "-o", tmp_path / "n.jsonl")
    assert (code, "aorta.png: 'aorta' is neither a finding nor a structure" in err) == (2, True)
    assert "move a finding's only mask, move its picture, too" in " ".join(err.split())


def test_masks_below_the_pictures_are_no_pictures(images: Path, tmp_path: Path, cli: Cli) -> None:
    for name, mask in {**LUNGS, "effusion": FLUID}.items():
        png(images / "masks/a" / f"{name}.png", mask)
    Image.fromarray(FLUID).save(images / "masks/a/effusion.tif")
    (images / "masks/a/effusion.png").unlink()
    assert "not read" not in check_all(cli, tmp_path / "m.jsonl", "--images", images, "--masks", images / "masks")
    shutil.move(images / "masks/a", images / "a")
    (images / "masks").rmdir()
    check_all(cli, tmp_path / "n.jsonl", "--images", images, "--masks", images)


def test_a_folder_of_nnunet_says_how_it_is_read(images: Path, tmp_path: Path, cli: Cli) -> None:
    (images / "a.png").rename(images / "a_0000.png")
    (tmp_path / "labelsTr").mkdir()
    Image.fromarray(label_map()).save(tmp_path / "labelsTr/a.png")
    labels = {"background": 0, "right lung": 1, "left lung": 2, "Pleural effusion": 4}
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels, "numTraining": 1, "channel_names": {}}))
    command = ("--images", images, "--masks", tmp_path / "labelsTr")
    code, _, err = cli("ingest", "masks", *command, "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert "1 file named like a label map; say with --label VALUE=NAME what its values are (1, 2, 4), or give" in err
    check_all(cli, tmp_path / "m.jsonl", *command, "--label-file", tmp_path / "dataset.json")
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": {str(n): name for name, n in labels.items()}}))
    check_all(cli, tmp_path / "n.jsonl", *command, "--label-file", tmp_path / "dataset.json")
    code, _, err = cli(
        "ingest", "masks", "--images", images, "--masks", tmp_path / "dataset.json", "-o", tmp_path / "o"
    )
    assert (code, "is a file, but a folder is needed here" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("name", ["mask_a.png", "a_mask.png", "a.png"])
def test_colours_are_labels(images: Path, tmp_path: Path, cli: Cli, name: str) -> None:
    colours = np.array([[0, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9], [255, 0, 0]], np.uint8)[label_map()]
    (tmp_path / "maps").mkdir()
    Image.fromarray(colours).save(tmp_path / "maps" / name)
    command = ("--images", images, "--masks", tmp_path / "maps")
    given = ("#00FF00=right_lung", "0,0,255=left_lung", "#ff0000=effusion")
    check_all(cli, tmp_path / "m.jsonl", *command, *(part for one in given for part in ("--label", one)))
    (tmp_path / "colours.csv").write_text("label;name\n0 255 0;Right Lung\n#0000ff;left lung\n255,0,0;effusion\n")
    check_all(cli, tmp_path / "n.jsonl", *command, "--label-file", tmp_path / "colours.csv")
    code, _, err = cli("ingest", "masks", *command, "--flat", "-o", tmp_path / "o.jsonl")
    assert (code, "1 mask not used, and no other: its name is not that of <picture>_<finding>.png" in err) == (2, True)
    Image.fromarray(colours).resize((2 * WIDE, 2 * TALL), Image.Resampling.BICUBIC).rotate(
        3, Image.Resampling.BICUBIC
    ).save(tmp_path / "maps" / name)
    code, _, err = cli("ingest", "masks", *command, "--label", "#ff0000=effusion", "-o", tmp_path / "o.jsonl")
    assert (code, "colours, so its edges are smoothed; save it without smoothing" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("kind", ["L", "P", "RGB"])
@pytest.mark.parametrize("size", [(2 * WIDE, 2 * TALL), (5 * WIDE, 5 * TALL), (3 * WIDE // 4, 3 * TALL // 4)])
def test_a_label_map_that_was_resized_with_smoothing_is_refused(
    images: Path, tmp_path: Path, cli: Cli, kind: str, size: tuple[int, int]
) -> None:
    """Without this, the rim of the effusion (4) would be a part of the left lung (2)."""
    (tmp_path / "maps").mkdir()
    command = ("--images", images, "--masks", tmp_path / "maps", "--label", "1=right_lung", "--label", "2=left_lung")
    for name, expected in (("NEAREST", 0), ("BILINEAR", 2)):
        values = Image.fromarray(label_map()).resize(size, Image.Resampling[name])
        if kind == "P":
            values = Image.fromarray(np.asarray(values), mode="P")
            values.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0])
        (values.convert(kind) if kind == "RGB" else values).save(tmp_path / "maps/a.png")
        code, _, err = cli("ingest", "masks", *command, "--label", "4=effusion", "-o", tmp_path / "m.jsonl")
        assert (code, "Each rim would count" in " ".join(err.split())) == (expected, expected == 2), err
        (tmp_path / "m.jsonl").unlink(missing_ok=True)


def test_masks_and_stacks_of_masks_in_tiff_are_read(images: Path, tmp_path: Path, cli: Cli) -> None:
    pages = [Image.fromarray(mask.astype(np.uint8) * 255) for mask in (RIGHT, LEFT, FLUID)]
    (tmp_path / "masks/a").mkdir(parents=True)
    for name, page in zip((*LUNGS, "effusion"), pages, strict=True):
        page.save(tmp_path / "masks/a" / f"{name}.tif", compression="tiff_lzw")
    check_all(cli, tmp_path / "m.jsonl", "--images", images, "--masks", tmp_path / "masks")
    assert cases.read_manifest(tmp_path / "m.jsonl")[0].mask == tmp_path / "masks/a/effusion.tif"
    (tmp_path / "stacks").mkdir()
    pages[0].save(tmp_path / "stacks/a.tiff", save_all=True, append_images=pages[1:])
    labels = ("--label", "1=right_lung", "--label", "2=left_lung", "--label", "3=effusion")
    check_all(cli, tmp_path / "n.jsonl", "--images", images, "--masks", tmp_path / "stacks", *labels)
    shutil.copy(tmp_path / "stacks/a.tiff", tmp_path / "masks/a/effusion.tif")
    assert cli("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "-o", tmp_path / "o.jsonl")[0] == 0
    code, _, err = cli("validate", tmp_path / "o.jsonl")
    assert (code, "effusion.tif: has 3 pages, but a mask has one" in " ".join(err.split())) == (2, True)


def dicom_seg(path: Path, picture: str, kind: str, shown: tuple[bool, bool, bool] = (True, True, True)) -> None:
    """Write a DICOM SEG with both lungs and the effusion, as highdicom writes the elements that are read.

    Segments that are not ``shown`` are empty.
    """
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.66.4", "1.2.3"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
    masks_of = np.stack([RIGHT, LEFT, FLUID]) & np.array(shown)[:, None, None]
    masks_of = np.concatenate([masks_of, np.zeros((1, TALL, WIDE), bool)])
    data.Rows, data.Columns, data.NumberOfFrames, data.SegmentationType = TALL, WIDE, 4, kind
    data.SegmentSequence, data.PerFrameFunctionalGroupsSequence = [], []
    for number, name in enumerate(("Right Lung", "Lung, left", "Segment 3", "Edema"), start=1):
        segment, code, frame, own = Dataset(), Dataset(), Dataset(), Dataset()
        segment.SegmentNumber, segment.SegmentLabel = number, name
        code.CodeMeaning = "Pleural effusion" if number == 3 else "Lung"
        segment.SegmentedPropertyTypeCodeSequence = [code]
        own.ReferencedSegmentNumber = number
        frame.SegmentIdentificationSequence = [own]
        data.SegmentSequence.append(segment)
        data.PerFrameFunctionalGroupsSequence.append(frame)
    series, image = Dataset(), Dataset()
    image.ReferencedSOPInstanceUID = picture
    series.ReferencedInstanceSequence = [image]
    data.ReferencedSeriesSequence = [series]
    data.BitsAllocated = 1 if kind == "BINARY" else 8
    data.MaximumFractionalValue = 200
    bits = np.packbits(masks_of.ravel(), bitorder="little") if kind == "BINARY" else masks_of.astype(np.uint8) * 100
    data.PixelData = bits.tobytes()
    if kind == "LABELMAP":
        data.NumberOfFrames, data.PixelData = 1, np.where(FLUID, 3, label_map()).astype(np.uint8).tobytes()
    data.save_as(path, enforce_file_format=True)


@pytest.mark.parametrize("kind", ["BINARY", "FRACTIONAL", "LABELMAP"])
def test_segments_of_a_dicom_seg_are_read_by_their_names(images: Path, tmp_path: Path, cli: Cli, kind: str) -> None:
    """A file has the name of its picture, or refers to a picture whose file is named by its UID."""
    (images / "1.2.3.4.png").write_bytes((images / "a.png").read_bytes())
    (tmp_path / "segs").mkdir()
    dicom_seg(tmp_path / "segs/a.dcm", "9.9", kind)
    dicom_seg(tmp_path / "segs/export7.dcm", "1.2.3.4", kind)
    command = ("--images", images, "--masks", tmp_path / "segs")
    code, _, err = cli("ingest", "masks", *command, "-o", tmp_path / "m.jsonl")
    assert (code, "give --flat if they are DICOM SEG" in " ".join(err.split())) == (2, True)
    check_all(cli, tmp_path / "m.jsonl", *command, "--flat", "--label", "Lung, left=left_lung", count=2)
    import pydicom

    data = pydicom.dcmread(tmp_path / "segs/a.dcm")
    if kind == "LABELMAP":
        data.NumberOfFrames, data.PixelData = 2, data.PixelData * 2
    else:
        data.PerFrameFunctionalGroupsSequence[1] = data.PerFrameFunctionalGroupsSequence[0]
    data.save_as(tmp_path / "segs/a.dcm")
    code, _, err = cli("ingest", "masks", *command, "--flat", "-o", tmp_path / "n.jsonl")
    assert (code, "a.dcm: has several frames of segment 1" in " ".join(err.split())) == (2, True)


def test_a_dicom_seg_belongs_to_the_picture_that_it_refers_to(images: Path, tmp_path: Path, cli: Cli) -> None:
    """Archives give the files of every series the same names."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    grey = np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8)
    for uid in ("1.2.7", "1.2.8"):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.1", uid
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        path = images / f"series-{uid[-1]}/1-1.dcm"
        path.parent.mkdir()
        data = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
        data.SOPInstanceUID, data.Rows, data.Columns, data.SamplesPerPixel = uid, TALL, WIDE, 1
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
        data.PhotometricInterpretation, data.PixelData = "MONOCHROME2", grey.tobytes()
        data.save_as(path, enforce_file_format=True)
    (tmp_path / "segs/series-9").mkdir(parents=True)
    command = ("--images", images, "--masks", tmp_path / "segs", "--flat", "--label", "Lung, left=left_lung")
    dicom_seg(tmp_path / "segs/series-9/1-1.dcm", "1.2.8", "BINARY")
    check_all(cli, tmp_path / "m.jsonl", *command)
    assert cases.read_manifest(tmp_path / "m.jsonl")[0].case_id == "series-8/1-1/effusion"
    dicom_seg(tmp_path / "segs/lungs.dcm", "1.2.8", "BINARY", (True, True, False))
    dicom_seg(tmp_path / "segs/series-9/1-1.dcm", "1.2.8", "BINARY", (False, False, True))
    assert "also has" not in check_all(cli, tmp_path / "two.jsonl", *command), "each has other structures"
    dicom_seg(tmp_path / "segs/series-9/2.dcm", "1.2.8", "BINARY", (False, True, False))
    assert "2.dcm: series-8/1-1.dcm also has the mask" in check_all(cli, tmp_path / "three.jsonl", *command)
    for name in ("lungs.dcm", "series-9/2.dcm"):
        (tmp_path / "segs" / name).unlink()
    (tmp_path / "segs/series-7").mkdir(parents=True)
    (tmp_path / "segs/series-9/1-1.dcm").unlink()
    dicom_seg(tmp_path / "segs/series-7/1-1.dcm", "1.2.6", "BINARY")
    code, _, err = cli("ingest", "masks", *command, "-o", tmp_path / "n.jsonl")
    assert (code, "1 mask not used, and no other" in " ".join(err.split())) == (2, True)
