"""Masks that fit two pictures, none, or another one than their file's name says; labels that mean two things."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chexqa.contract import cases

Cli = Callable[..., tuple[int, str, str]]
TALL, WIDE = 60, 80
ONE, TWO = np.zeros((TALL, WIDE), bool), np.zeros((TALL, WIDE), bool)
ONE[35:55, 8:30], TWO[10:20, 50:70] = True, True


def png(path: Path, mask: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask.astype(np.uint8) * 255 if mask.dtype == bool else mask).save(path)
    return path


def radiographs(root: Path, *names: str) -> Path:
    for name in names:
        png(root / name, np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8))
    return root


def made(out: Path) -> dict[str, np.ndarray | None]:
    return {case.case_id: cases.load_case(case).source_mask for case in cases.read_manifest(out)}


@pytest.mark.parametrize("layout", ["flat", "map", "structure", "folder"])
def test_masks_of_another_folder_are_not_those_of_a_picture(tmp_path: Path, cli: Cli, layout: str) -> None:
    """Pictures of two patients have the same name, and one of them has no file."""
    images = radiographs(tmp_path / "images", "p2/1.png")
    name = {"flat": "{}/1_effusion.png", "map": "{}/1.png", "structure": "{}/effusion/1.png",
            "folder": "{}/1/effusion.png"}[layout]  # fmt: skip
    for patient, mask in (("p1", ONE), ("p2", TWO)):
        png(tmp_path / "masks" / name.format(patient), mask)
    more = {"flat": ["--flat"], "map": ["--label", "255=effusion"]}.get(layout, [])
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", *more)
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    found = made(tmp_path / "m.jsonl")
    assert {key: np.array_equal(mask, TWO) for key, mask in found.items()} == {"p2/1/effusion": True}
    assert name.format("p1") in err.replace("\n", "")


@pytest.mark.parametrize("layout", ["flat", "map", "folder"])
def test_pictures_that_share_a_mask_s_name_do_not_count_as_free_of_it(tmp_path: Path, cli: Cli, layout: str) -> None:
    images = radiographs(tmp_path / "images", "p1/1.png", "p2/1.png", "a.png")
    name = {"flat": "{}_effusion.png", "map": "{}.png", "folder": "{}/effusion.png"}[layout]
    for picture in ("1", "a"):
        png(tmp_path / "masks" / name.format(picture), ONE)
    more = {"flat": ["--flat"], "map": ["--label", "255=effusion"]}.get(layout, [])
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", *more)
    for more, expected in ((["--absent-unmasked"], 2), ([], 0)):
        code, _, err = cli(*command, *more, "-o", tmp_path / "m.jsonl")
        assert code == expected, err
        assert "have this name (p1/1.png, p2/1.png); put the masks into a folder with the" in " ".join(err.split())
    assert [*made(tmp_path / "m.jsonl")] == ["a/effusion"]


@pytest.mark.parametrize(
    "masks", [("a_effusion.png", "mask_a_effusion.png"), ("a/effusion.png", "effusion/a.png"), ("a.png", "a_mask.png")]
)
def test_a_second_mask_could_be_that_of_a_picture_that_counts_as_free_of_it(
    tmp_path: Path, cli: Cli, masks: tuple[str, str]
) -> None:
    images = radiographs(tmp_path / "images", "a.png", "b.png")
    for name, mask in zip(masks, (ONE, TWO), strict=True):
        png(tmp_path / "masks" / name, mask)
    more = {"a.png": ["--label", "255=effusion"], "a_effusion.png": ["--flat"]}.get(masks[0], [])
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", *more)
    for more, expected in ((["--absent-unmasked"], 2), ([], 0)):
        code, _, err = cli(*command, *more, "-o", tmp_path / "m.jsonl")
        said = " ".join(err.split())
        assert (code, f"{masks[1]}: a.png also has the " in said, "remove the wrong one" in said) == (
            expected,
            True,
            True,
        )
    found = made(tmp_path / "m.jsonl")
    assert [*found] == ["a/effusion"]
    assert np.array_equal(found["a/effusion"], ONE)


@pytest.mark.parametrize("mask", ["b_effusion.png", "c_mask.png"])
def test_a_mask_beside_the_pictures_is_no_picture(tmp_path: Path, cli: Cli, mask: str) -> None:
    """The picture of ``b`` is missing, and that of ``c`` would be a radiograph without an effusion."""
    images = radiographs(tmp_path / "images", "a.png", "c.png")
    for name in ("a_effusion.png", mask):
        png(images / name, ONE)
    command = ("ingest", "masks", "--images", images, "--flat")
    code, _, err = cli(*command, "--absent-unmasked", "-o", tmp_path / "m.jsonl")
    assert (code, mask in err) == (2, True)
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert (code, mask in err) == (0, True)
    assert [*made(tmp_path / "m.jsonl")] == ["a/effusion"]


def ingested(cli: Cli, root: Path, *more: object) -> tuple[int, str]:
    """Read the label maps in ``maps`` for the pictures in ``images``; return the exit code and the messages."""
    command = ("ingest", "masks", "--images", root / "images", "--masks", root / "maps", "--label", "255=effusion")
    code, _, err = cli(*command, *more, "-o", root / "m.jsonl")
    return code, " ".join(err.split())


def test_the_label_map_whose_name_is_the_picture_s_is_used_alone(tmp_path: Path, cli: Cli) -> None:
    """The other one has a second structure, which is not added."""
    radiographs(tmp_path / "images", "a.png", "b.png")
    png(tmp_path / "maps/a.png", ONE)
    png(tmp_path / "maps/a_mask.png", np.where(TWO, 7, 0).astype(np.uint8))
    png(tmp_path / "maps/b.png", TWO)
    code, err = ingested(cli, tmp_path, "--label", "7=edema")
    assert (code, "a_mask.png: a.png also has the file" in err) == (0, True), err
    found = made(tmp_path / "m.jsonl")
    assert [*found] == ["a/effusion", "b/effusion"]
    assert np.array_equal(found["a/effusion"], ONE)


@pytest.mark.parametrize("names", [("1/a.png", "2/a.png"), ("a.tif", "a.tiff")])
def test_two_label_maps_that_fit_a_picture_alike_leave_it_out(tmp_path: Path, cli: Cli, names: tuple[str, str]) -> None:
    radiographs(tmp_path / "images", "a.png", "b.png")
    for name, mask in zip(names, (ONE, TWO), strict=True):
        png(tmp_path / "maps" / name, mask)
    png(tmp_path / "maps/b.png", TWO)
    for more, expected in ((["--absent-unmasked"], 2), ([], 0)):
        code, err = ingested(cli, tmp_path, *more)
        assert (code, all(name in err for name in names)) == (expected, True), err
    assert [*made(tmp_path / "m.jsonl")] == ["b/effusion"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("q", "q_0000"), {"q_0000": "q", "q_0000_0000": "q_0000"}),
        (("q_0000", "q_0000_0000"), {"q_0000": "q_0000", "q_0000_0000": "q_0000_0000"}),
        (("p", "q_0000"), {"p_0000": "p"}),
    ],
)
def test_a_picture_of_nnunet_may_have_the_name_of_another_one_s_label_map(
    tmp_path: Path, cli: Cli, labels: tuple[str, str], expected: dict[str, str]
) -> None:
    """In the last case ``q_0000`` can be the label map of either picture."""
    radiographs(tmp_path / "images", "q_0000.png", "q_0000_0000.png", "p_0000.png")
    of_label = dict(zip(labels, (ONE, TWO), strict=True))
    for label, mask in of_label.items():
        png(tmp_path / f"maps/{label}.png", mask)
    code, err = ingested(cli, tmp_path)
    found = made(tmp_path / "m.jsonl")
    assert (code, {*found}) == (0, {f"{picture}/effusion" for picture in expected}), err
    assert all(np.array_equal(found[f"{picture}/effusion"], of_label[label]) for picture, label in expected.items())
    assert ("q_0000.png: 2 pictures" in err) == ("p" in labels)


def test_a_mask_without_a_picture_or_smoothed_is_moved_with_its_picture(tmp_path: Path, cli: Cli) -> None:
    radiographs(tmp_path / "images", "a.png", "b.png")
    png(tmp_path / "maps/a.png", ONE)
    png(tmp_path / "maps/c.png", TWO)
    code, err = ingested(cli, tmp_path, "--absent-unmasked")
    assert (code, "or move the mask and its picture out of" in err) == (2, True), err
    (tmp_path / "maps/c.png").unlink()
    for name in "ab":
        noise = np.random.default_rng(0).integers(0, 256, (TALL, WIDE, 3)).astype(np.uint8)
        png(tmp_path / f"maps/{name}.png", noise)
    code, err = ingested(cli, tmp_path, "--absent-unmasked")
    assert (code, err.count("edges are smoothed"), err.count("move its picture, too")) == (2, 2, 1), err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--label", "0=effusion"], "background"),
        (["--label", "#000000=effusion"], "background"),
        (["--label", "3=effusion", "--label", "3=heart"], "3 already has the name effusion"),
        (["--label", "03=effusion", "--label", "3=heart"], "3 already has the name effusion"),
        (["--label-file", "a.csv"], "the label 3 has two names, 'effusion' and 'heart'"),
        (["--label-file", "a.json"], "the label 3 has two names, 'effusion' and 'heart'"),
    ],
)
def test_a_value_has_one_meaning(tmp_path: Path, cli: Cli, given: list[str], said: str) -> None:
    images = radiographs(tmp_path / "images", "a.png")
    png(tmp_path / "maps/a.png", ONE.astype(np.uint8) * 3)
    (tmp_path / "a.csv").write_text("label,name\n3,effusion\n3,heart\n")
    (tmp_path / "a.json").write_text(json.dumps({"labels": {"effusion": 3, "heart": 3}}))
    given = [str(tmp_path / one) if one.startswith("a.") else one for one in given]
    code, _, err = cli(
        "ingest", "masks", "--images", images, "--masks", tmp_path / "maps", *given, "-o", tmp_path / "m.jsonl"
    )
    assert (code, said in err) == (2, True), err


@pytest.mark.parametrize("given", ["#ff0000", "1"])
def test_a_palette_is_read_by_colours_and_by_indices(tmp_path: Path, cli: Cli, given: str) -> None:
    """The same colours have another order in each file, and black need not come first."""
    images = radiographs(tmp_path / "images", "a.png", "b.png", "c.png")
    (tmp_path / "maps").mkdir()
    palettes = {"a": [(0, 0, 0), (255, 0, 0)], "b": [(255, 255, 255), (255, 0, 0)], "c": [(255, 0, 0), (0, 0, 0)]}
    for name, palette in palettes.items():
        picture = Image.fromarray(ONE.astype(np.uint8) if name != "c" else (~ONE).astype(np.uint8), mode="P")
        picture.putpalette([part for colour in palette for part in colour])
        picture.save(tmp_path / "maps" / f"{name}.png")
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "maps", "--label", f"{given}=effusion")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    expected = ["a/effusion", "b/effusion", *(["c/effusion"] if given != "1" else [])]
    found = made(tmp_path / "m.jsonl")
    assert [*found] == expected
    assert all(np.array_equal(mask, ONE) for mask in found.values())


def test_grey_is_a_colour_too(tmp_path: Path, cli: Cli) -> None:
    """A file with only white is one of grey values to its format, and one of colours to its maker."""
    images = radiographs(tmp_path / "images", "a.png", "b.png")
    for name in "ab":
        colours = np.zeros((TALL, WIDE, 3), np.uint8)
        colours[ONE] = 255
        if name == "b":
            colours[TWO] = (255, 0, 0)
        png(tmp_path / "maps" / f"{name}.png", colours)
    for n, white in enumerate(("#ffffff", "255")):
        out = tmp_path / f"{n}.jsonl"
        command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "maps", "--label", f"{white}=effusion")
        code, _, err = cli(*command, "--label", "#ff0000=heart", "-o", out)
        assert code == 0, err
        found = made(out)
        assert [*found] == ["a/effusion", "b/effusion"]
        assert all(np.array_equal(mask, ONE) for mask in found.values())


def test_values_between_0_and_1_are_no_mask(tmp_path: Path, cli: Cli) -> None:
    images = radiographs(tmp_path / "images", "a.png")
    (tmp_path / "masks/a").mkdir(parents=True)
    for wrong in (0.4, float("nan"), -1.0):
        Image.fromarray(ONE.astype(np.float32) * np.float32(wrong)).save(tmp_path / "masks/a/effusion.tif")
        command = ("--images", images, "--masks", tmp_path / "masks", "-o", tmp_path / "m.jsonl")
        assert cli("ingest", "masks", *command)[0] == 0
        code, _, err = cli("validate", tmp_path / "m.jsonl")
        (tmp_path / "m.jsonl").unlink()
        assert (code, "effusion.tif: a mask has only 0 and either 1 or 255" in " ".join(err.split())) == (2, True), err


def test_pages_that_are_not_masks_of_one_picture_are_refused(tmp_path: Path, cli: Cli) -> None:
    images = radiographs(tmp_path / "images", "a.png")
    (tmp_path / "maps").mkdir()
    lung = np.zeros((2 * TALL, 2 * WIDE), bool)
    lung[40:80, 20:60] = True
    pages = [Image.fromarray(mask.astype(np.uint8) * 255) for mask in (lung, ONE)]
    pages[0].save(tmp_path / "maps/a.tif", save_all=True, append_images=pages[1:])
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "maps", "--label", "2=effusion")
    code, _, err = cli(*command, "--label", "1=right_lung", "-o", tmp_path / "m.jsonl")
    assert (code, "has pages of unlike sizes" in err) == (2, True), err
    values = [Image.fromarray((ONE * 1 + TWO * 2).astype(np.uint8)) for _ in range(2)]
    values[0].save(tmp_path / "maps/a.tif", save_all=True, append_images=values[1:])
    code, _, err = cli(*command, "-o", tmp_path / "n.jsonl")
    assert (code, "page 1 has 2 values (1, 2)" in " ".join(err.split())) == (2, True), err


def test_pictures_of_one_name_in_one_folder_are_to_be_renamed(tmp_path: Path, cli: Cli) -> None:
    radiographs(tmp_path / "images", "a.png", "a.jpg", "b.png")
    for name in ("a", "b"):
        png(tmp_path / f"maps/{name}.png", ONE)
    code, err = ingested(cli, tmp_path)
    assert (code, "(a.jpg, a.png); rename all but one of the pictures" in err) == (0, True), err
    assert [*made(tmp_path / "m.jsonl")] == ["b/effusion"]


def test_radiographs_with_one_patient_id_are_counted_and_the_id_is_kept_nowhere(tmp_path: Path, cli: Cli) -> None:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    (tmp_path / "images").mkdir()
    lines = ["image,mask,finding,patient_id"]
    for name, patient in (("a", "Smith-77"), ("b", "Smith-77"), ("c", "Jones-78"), ("d", "")):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.1", "1.2.3"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        path = tmp_path / f"images/{name}.dcm"
        data = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
        data.PatientID, data.Rows, data.Columns, data.SamplesPerPixel = patient, TALL, WIDE, 1
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
        data.PhotometricInterpretation = "MONOCHROME2"
        data.PixelData = np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8).tobytes()
        data.save_as(path, enforce_file_format=True)
        png(tmp_path / f"maps/{name}.png", ONE)
        lines.append(f"images/{name}.dcm,maps/{name}.png,effusion,p{name}")
    code, err = ingested(cli, tmp_path)
    assert (code, "1 radiograph with the Patient ID of an earlier one" in err) == (0, True), err
    assert "Smith" not in err + (tmp_path / "m.jsonl").read_text()
    (tmp_path / "cases.csv").write_text("\n".join(lines))
    code, _, err = cli("ingest", "masks", "--table", tmp_path / "cases.csv", "-o", tmp_path / "t.jsonl")
    assert (code, "Patient ID" in err) == (0, False), "each case of the table has its patient"


def test_all_tiffs_have_the_same_number_of_pages(tmp_path: Path, cli: Cli) -> None:
    """Pages without a structure were left out of ``b``, so that its effusion would be read as page 1."""
    radiographs(tmp_path / "images", "a.png", "b.png", "c.png")
    (tmp_path / "maps").mkdir()
    pages = [Image.fromarray(mask.astype(np.uint8) * 255) for mask in (ONE, TWO, ONE)]
    for name, first in (("a", 0), ("b", 1), ("c", 0)):
        pages[first].save(tmp_path / f"maps/{name}.tif", save_all=True, append_images=pages[first + 1 :])
    code, err = ingested(cli, tmp_path, "--label", "1=edema")
    assert (code, "b.tif: has 2 pages, but" in err, "a.tif has 3 (1 file of 3 differ" in err) == (2, True, True), err


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I", "F", "1"])
def test_tiffs_of_any_depth_are_label_maps(tmp_path: Path, cli: Cli, mode: str) -> None:
    images = radiographs(tmp_path / "images", "a.png")
    (tmp_path / "maps").mkdir()
    kind = {"I;16": "<u2", "I;16B": ">u2", "I": "<i4", "F": "<f4", "1": "bool"}[mode]
    Image.fromarray((ONE * 300).astype(kind)).save(tmp_path / "maps/a.tif")
    value = "1" if mode == "1" else "300"
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "maps", "--label", f"{value}=effusion")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert np.array_equal(made(tmp_path / "m.jsonl")["a/effusion"], ONE)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_turned_mask_fits_a_turned_picture(tmp_path: Path, cli: Cli, suffix: str) -> None:
    exif = Image.Exif()
    exif[274] = 6
    (tmp_path / "images").mkdir()
    (tmp_path / "masks/a").mkdir(parents=True)
    grey = np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8)
    Image.fromarray(grey).save(tmp_path / "images/a.jpg", exif=exif)
    Image.fromarray(ONE.astype(np.uint8) * 255).save(tmp_path / f"masks/a/effusion.{suffix}", exif=exif)
    command = ("ingest", "masks", "--images", tmp_path / "images", "--masks", tmp_path / "masks")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    assert np.array_equal(made(tmp_path / "m.jsonl")["a/effusion"], np.rot90(ONE, -1))


def test_boxes_beyond_the_size_that_the_file_states_are_refused(tmp_path: Path, cli: Cli) -> None:
    """The file states the size of a copy, but its boxes are those of the original."""
    images = radiographs(tmp_path / "images", "a.png")
    reaches = "the shape reaches x = 160"
    differs = "--drawn-on gives the size 40 x 30 px, but the data set states 80 x 60 px for a.png"
    for size, drawn, said in (
        ((80, 60), [], reaches),
        ((None, None), ["--drawn-on", "80x60"], reaches),
        ((80, 60), ["--drawn-on", "40x30"], differs),
    ):
        about = dict(zip(("width", "height"), size, strict=True)) if size[0] else {}
        data = {
            "images": [{"id": 1, "file_name": "a.png", **about}],
            "categories": [{"id": 1, "name": "effusion"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [60, 40, 100, 100]}],
        }
        (tmp_path / "c.json").write_text(json.dumps(data))
        command = ("ingest", "coco", tmp_path / "c.json", "--images", images, *drawn, "-o", tmp_path / "m.jsonl")
        code, _, err = cli(*command)
        assert (code, said in " ".join(err.split())) == (2, True), err


def test_a_finding_that_is_marked_and_listed_as_absent_is_one_case(tmp_path: Path, cli: Cli) -> None:
    images = radiographs(tmp_path / "images", "s/a.png", "s/b.png")
    png(tmp_path / "masks/a_effusion.png", ONE)
    (tmp_path / "absent.csv").write_text("image,finding\na,effusion\nb,effusion\n")
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "--flat")
    code, _, err = cli(*command, "--absent", tmp_path / "absent.csv", "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    found = [(case.case_id, case.present) for case in cases.read_manifest(tmp_path / "m.jsonl")]
    assert found == [("s/a/effusion", True), ("s/b/effusion", False)], err


def test_a_structure_named_twice_in_a_folder_of_anatomy(tmp_path: Path, cli: Cli) -> None:
    images = radiographs(tmp_path / "images", "a.png")
    png(tmp_path / "masks/a/effusion.png", ONE)
    for name in ("heart.png", "Heart.tif"):
        png(tmp_path / "lungs/a" / name, TWO)
    shutil.copy(tmp_path / "lungs/a/heart.png", tmp_path / "lungs/a/right_lung.png")
    command = ("ingest", "masks", "--images", images, "--masks", tmp_path / "masks", "--anatomy", tmp_path / "lungs")
    code, _, err = cli(*command, "-o", tmp_path / "m.jsonl")
    assert (code, "has another mask of this structure; remove one" in " ".join(err.split())) == (0, True), err
