"""Annotations as tools and data sets write them: COCO JSON, boxes, SIIM's run lengths, label maps, flat folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa import question_banks
from chexqa.contract import benchmark, cases
from chexqa.files.errors import InputError
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import make_job
from chexqa.imaging import masks
from chexqa.sources import siim

Cli = Callable[..., tuple[int, str, str]]
SIDE = 256
FLUID = np.zeros((SIDE, SIDE), bool)
FLUID[150:230, 20:110] = True
HEART = np.zeros((SIDE, SIDE), bool)
HEART[120:210, 100:180] = True
RIGHT = np.zeros((SIDE, SIDE), bool)
RIGHT[30:230, 20:110] = True


def picture(path: Path, number: int = 0) -> Path:
    """A picture of its own: a ramp with a bright spot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.add.outer(np.linspace(0, 120, SIDE), np.linspace(0, 130, SIDE)).astype(np.uint8)
    pixels[number * 8 : number * 8 + 8, :8] = 255
    Image.fromarray(pixels).save(path)
    return path


def png(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint8) * (255 if values.dtype == bool else 1)).save(path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number, name in enumerate("abc"):
        picture(tmp_path / "images" / f"{name}.png", number)
    return tmp_path / "images"


def told(cli: Cli, out: Path, *command: object) -> tuple[list[cases.LoadedCase], str]:
    """The loaded cases that a command writes, and what it says beside."""
    code, _, err = cli("ingest", *command, "-o", out)
    assert code == 0, err
    return [cases.load_case(case) for case in cases.read_manifest(out)], " ".join(err.split())


def coco(path: Path, *annotations: dict[str, Any], **more: Any) -> Path:
    listed = [{"id": n, "file_name": f"{name}.png", "width": SIDE, "height": SIDE} for n, name in enumerate("abc")]
    names = ["Pleural effusion", "Big heart", "right_lung", "Wire"]
    data = {
        "images": listed,
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
        "annotations": [{"id": n, "iscrowd": 0, "area": 1, **one} for n, one in enumerate(annotations)],
        **more,
    }
    path.write_text(json.dumps(data))
    return path


BOX = [20, 150, 90, 80]
SQUARE = [[20, 150, 109, 150, 109, 229, 20, 229]]


@pytest.mark.parametrize("form", ["polygons", "compressed", "numbers"])
def test_every_form_of_a_coco_outline_gives_the_same_mask(images: Path, tmp_path: Path, cli: Cli, form: str) -> None:
    runs = masks.to_rle(FLUID)
    flat = FLUID.T.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    numbers = np.diff([0, *edges, flat.size]).tolist()
    shape = {"polygons": SQUARE, "compressed": runs, "numbers": {"size": [SIDE, SIDE], "counts": numbers}}[form]
    file = coco(tmp_path / "c.json", {"image_id": 0, "category_id": 0, "segmentation": shape, "bbox": BOX})
    (made,), err = told(cli, tmp_path, "coco", file, "--images", images)
    assert (made.case.case_id, made.case.finding) == ("a/effusion", "effusion")
    assert np.array_equal(made.source_mask, FLUID)
    assert "the right answer to 'is the finding present' is always yes" in err


def test_shapes_of_one_finding_are_joined_and_structures_become_anatomy(images: Path, tmp_path: Path, cli: Cli) -> None:
    top = [[[30, 20, 60, 20, 60, 40, 30, 40]]]
    file = coco(
        tmp_path / "c.json",
        {"image_id": 0, "category_id": 0, "segmentation": SQUARE},
        {"image_id": 0, "category_id": 0, "segmentation": masks.to_rle(HEART)},
        {"image_id": 0, "category_id": 0, "segmentation": [], "bbox": [0, 0, 9, 9]},
        {"image_id": 0, "category_id": 1, "segmentation": top[0]},
        {"image_id": 0, "category_id": 2, "segmentation": masks.to_rle(RIGHT)},
        {"image_id": 1, "category_id": 3, "segmentation": top[0]},
    )
    command = ("coco", file, "--images", images, "--category", "Big heart=cardiomegaly", "--absent-unmasked")
    made, err = told(cli, tmp_path, *command)
    by_id = {one.case.case_id: one for one in made}
    assert set(by_id) == {f"{name}/{finding}" for name in "abc" for finding in ("effusion", "cardiomegaly")}
    assert np.array_equal(by_id["a/effusion"].source_mask, FLUID | HEART), "the box beside outlines is left out"
    assert np.array_equal(by_id["a/effusion"].source_anatomy["right_lung"], RIGHT)
    assert [one.case.present for one in made if one.case.case_id[0] in "bc"] == [False] * 4
    assert "1 annotation not used: give --category 'Wire=NAME' to use them" in err
    assert "(NAME: a finding, right_lung, left_lung, heart)" in err
    assert "without an outline" not in err


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"image_id": 9, "category_id": 0, "segmentation": SQUARE}, "annotation 0: refers to image 9"),
        ({"image_id": 0, "category_id": 0, "segmentation": [[1, 2, 3, 4]]}, "annotations.0.segmentation.0"),
        ({"image_id": 0, "category_id": 0}, "annotation 0: has neither a 'segmentation' nor a 'bbox'"),
        ({"image_id": 0, "category_id": 0, "segmentation": [[1, 2, 3, 4, "x", 6]]}, "annotations.0.segmentation.0"),
        ({"image_id": 0, "category_id": 0, "segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "an odd number of values"),
        ({"category_id": 0}, "image_id"),
    ],
)
def test_what_is_wrong_with_coco_is_named(
    images: Path, tmp_path: Path, cli: Cli, broken: dict[str, Any], words: str
) -> None:
    code, _, err = cli("ingest", "coco", coco(tmp_path / "c.json", broken), "--images", images, "-o", tmp_path)
    assert (code, words in " ".join(err.split())) == (2, True), err
    assert not (tmp_path / cases.MANIFEST).exists()


def test_an_id_of_two_pictures_or_categories_is_refused(images: Path, tmp_path: Path, cli: Cli) -> None:
    """With one of the two silently left out, annotations would lie on the wrong radiograph."""
    one = {"image_id": 0, "category_id": 0, "segmentation": SQUARE}
    twice = [{"id": 0, "file_name": f"{name}.png", "width": SIDE, "height": SIDE} for name in "ab"]
    labels = [{"id": 0, "name": "Effusion"}, {"id": 0, "name": "Edema"}]
    for more, words in (
        ({"images": twice}, "the image id 0 is given to 'a.png' and to 'b.png'"),
        ({"categories": labels}, "the category id 0 is given to 'Effusion' and to 'Edema'"),
    ):
        file = coco(tmp_path / "c.json", one, **more)
        code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path)
        assert (code, words in " ".join(err.split())) == (2, True), err


def test_a_label_with_hyphens_is_known_and_boxes_alone_are_told(images: Path, tmp_path: Path, cli: Cli) -> None:
    labels = [{"id": 0, "name": "PLEURAL-EFFUSION"}]
    file = coco(tmp_path / "c.json", {"image_id": 0, "category_id": 0, "bbox": BOX}, categories=labels)
    (made,), err = told(cli, tmp_path, "coco", file, "--images", images)
    assert made.case.finding == "effusion"
    assert "1 case without an outline: only tasks that ask for a place use boxes, the first is a.png" in err


def test_outlines_of_pictures_of_other_proportions_are_left_out(images: Path, tmp_path: Path, cli: Cli) -> None:
    listed = [{"id": 0, "file_name": "a.png", "width": 512, "height": 400}]
    file = coco(tmp_path / "c.json", {"image_id": 0, "category_id": 0, "segmentation": SQUARE}, images=listed)
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path)
    said = "on a picture of 512 x 400 px, but a.png has other proportions (256 x 256 px)"
    assert (code, said in " ".join(err.split())) == (2, True)


VINDR = "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max\n" + "".join(
    f"{row}\n"
    for row in ("a,Pleural effusion,10,R1,20,150,110,230", "a,Pleural effusion,10,R2,30,160,100,220",
                "b,No finding,14,R1,,,,", "c,ILD,5,R1,1,1,9,9")
)  # fmt: skip
NIH = "Image Index,Finding Label,Bbox [x,y,w,h],,,\na.png,Effusion,20,150,90,80,,,\n"
PADCHEST = json.dumps(
    [{"ImageID": "a.png", "findings": [{"labels": ["pleural effusion"],
                                        "boxes": [[20 / 256, 150 / 256, 110 / 256, 230 / 256]]}]},
     {"ImageID": "b.png", "findings": []}]
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"), [("vindr.csv", VINDR), ("BBox_List_2017.csv", NIH), ("padchest.json", PADCHEST)]
)
def test_boxes_become_cases_that_only_the_grid_takes(
    images: Path, tmp_path: Path, cli: Cli, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    made, _ = told(cli, tmp_path, "boxes", tmp_path / name, "--images", images, "--absent-unmasked")
    effusion = made[0]
    assert np.array_equal(effusion.source_mask, FLUID)
    assert all(not one.case.present for one in made[1:])
    job = make_job([recipe.load(one) for one in recipe.DEFAULT], question_banks.load("en"), 0)
    about = generate_benchmark.generate(tmp_path, tmp_path / "bench", job)
    present = [item.kind for item in benchmark.load(tmp_path / "bench").items if item.case_id.startswith("c")]
    assert present.count("grid_cell") == 1
    assert "contour_evaluation" not in present
    reasons = (tmp_path / "bench" / "skipped.jsonl").read_text()
    assert reasons.count("its mask is a box") == 1, about


def test_a_box_without_width_and_a_table_of_something_else_are_named(images: Path, tmp_path: Path, cli: Cli) -> None:
    for text, words in (
        (VINDR + "b,Pleural effusion,10,R1,50,50,40,60\n", "line 6: the box [50.0, 50.0, -10.0, 10.0] is empty"),
        ("a,b\n1,2\n", "has neither the columns of VinDr-CXR (image_id"),
    ):
        (tmp_path / "t.csv").write_text(text)
        code, _, err = cli("ingest", "boxes", tmp_path / "t.csv", "--images", images, "-o", tmp_path)
        assert (code, words in " ".join(err.split())) == (2, True), err


def relative_runs(mask: np.ndarray) -> str:
    """The run lengths as the competition's page describes them, written the slow way."""
    flat, runs, last, place = mask.T.ravel(), [], 0, 0
    while place < flat.size:
        if flat[place]:
            end = place
            while end < flat.size and flat[end]:
                end += 1
            runs += [place - last, end - place]
            last = place = end
        else:
            place += 1
    return " ".join(map(str, runs))


def test_siim_s_offsets_are_read_as_they_are_written() -> None:
    mask = np.zeros((1024, 1024), bool)
    mask[200:400, 300:310] = mask[1000:, 1020:] = True
    mask[0, 0] = True
    assert np.array_equal(siim.from_offsets(relative_runs(mask), "a row"), mask)


@pytest.mark.parametrize("runs", ["", "1", "1 x", "-5 3", "1048576 1", "5 2 1"])
def test_runs_that_cannot_be_are_named(runs: str) -> None:
    with pytest.raises(InputError, match="row 3: EncodedPixels must be -1, or pairs"):
        siim.from_offsets(runs, "row 3")


def test_rows_of_one_picture_are_joined_and_minus_one_is_absent(images: Path, tmp_path: Path, cli: Cli) -> None:
    whole = np.zeros((1024, 1024), bool)
    whole[400:600, 100:300] = True
    other = np.roll(whole, 500, axis=1)
    (tmp_path / "images" / "deep").mkdir()
    (images / "b.png").rename(images / "deep" / "b.png")
    (tmp_path / "rle.csv").write_text(
        f"ImageId, EncodedPixels\na, {relative_runs(whole)}\na, {relative_runs(other)}\nb, -1\n"
    )
    made, _ = told(cli, tmp_path, "siim", tmp_path / "rle.csv", "--images", images)
    assert [(one.case.image.name, one.case.finding, one.case.present) for one in made] == [
        ("a.png", "pneumothorax", True), ("b.png", "pneumothorax", False),
    ]  # fmt: skip
    assert made[0].source_mask is not None
    assert made[0].source_mask.shape == (SIDE, SIDE)
    assert abs(made[0].source_mask.mean() - (whole | other).mean()) < 0.005


def test_masks_that_lie_beside_their_pictures_are_found_by_their_names(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(images / "a_effusion.png", FLUID)
    png(images / "a_right_lung.png", RIGHT)
    png(images / "c_pleural_thickening.png", HEART)
    made, _ = told(cli, tmp_path, "masks", "--images", images, "--flat", "--absent-unmasked")
    assert {(one.case.case_id, one.case.present) for one in made} == {
        ("a/effusion", True), ("b/effusion", False), ("b/pleural_thickening", False), ("c/pleural_thickening", True),
    }  # fmt: skip
    (effusion,) = (one for one in made if one.case.case_id == "a/effusion")
    assert np.array_equal(effusion.source_mask, FLUID)
    assert np.array_equal(effusion.source_anatomy["right_lung"], RIGHT)


def test_pictures_without_an_annotated_finding_are_counted(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(images / "a_effusion.png", FLUID)
    png(images / "c_effuson.png", FLUID)
    _, err = told(cli, tmp_path, "masks", "--images", images, "--flat")
    assert "3 pictures without an annotated finding (left out), the first is b." in err


def test_the_layout_looked_for_is_shown_if_no_mask_was_found(images: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "maps").mkdir()
    for options, layout in (
        (("--flat",), "<picture>_<finding>.png, such as p1_effusion.png for p1.png"),
        (("--masks", tmp_path / "maps", "--label", "3=effusion"), "label maps <masks>/<picture>.png, such as"),
    ):
        code, _, err = cli("ingest", "masks", "--images", images, *options, "-o", tmp_path / "cases.jsonl")
        assert code == 2
        assert f"chexqa looks for masks named {layout}" in " ".join(err.split())


def test_the_grey_values_of_a_label_map_are_named(images: Path, tmp_path: Path, cli: Cli) -> None:
    values = RIGHT.astype(np.uint8) + 2 * FLUID
    png(tmp_path / "maps" / "a.png", values)
    labels = ("--label", "1=right_lung", "--label", "3=effusion")
    (made,), _ = told(cli, tmp_path, "masks", "--images", images, "--masks", tmp_path / "maps", *labels)
    assert np.array_equal(made.source_mask, values == 3)
    assert np.array_equal(made.source_anatomy["right_lung"], RIGHT), "the lesion's hole is filled"
    code, _, err = cli("ingest", "masks", "--images", images, "--label", "3=efusion", "-o", tmp_path / "x.jsonl")
    assert (code, "did you mean 'effusion'" in " ".join(err.split())) == (2, True)


def test_pictures_named_as_absent_make_cases_without_the_finding(images: Path, tmp_path: Path, cli: Cli) -> None:
    png(tmp_path / "masks" / "a" / "effusion.png", FLUID)
    png(tmp_path / "masks" / "b" / "edema.png", RIGHT)
    (tmp_path / "none.csv").write_text("image,finding\nc.png,\nb,effusion\n")
    command = ("masks", "--images", images, "--masks", tmp_path / "masks", "--absent", tmp_path / "none.csv")
    made, err = told(cli, tmp_path, *command)
    assert {one.case.case_id for one in made if not one.case.present} == {"c/effusion", "c/edema", "b/effusion"}
    assert "always answered yes" not in err
    (tmp_path / "none.csv").write_text("image\nz.png\n")
    code, _, err = cli("ingest", *command, "-o", tmp_path / "x.jsonl")
    assert (code, "the picture 'z.png' is not in" in " ".join(err.split())) == (2, True)
