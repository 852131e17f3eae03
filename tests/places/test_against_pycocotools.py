"""Overlaps and matched boxes against pycocotools, the reference implementation of COCO's scores."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import numpy.typing as npt
import pytest
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from chexqa.eval.places.score import box_iou, filled, matches
from chexqa.eval.places.target import Box
from chexqa.imaging.masks import dice

SIDE = 1000
EDGES: list[Box] = [
    (0, 0, SIDE, SIDE), (0, 0, 1, 1), (SIDE - 1, SIDE - 1, SIDE, SIDE), (0, 0, SIDE, 5), (0, 400, 5, 900),
    (300.5, 300.5, 300.7, 300.7), (0.1, 0.1, SIDE - 0.1, SIDE - 0.1), (500, 500, SIDE, SIDE), (0, 500, 500, SIDE),
]  # fmt: skip
Boxes = list[Box]


def drawn_boxes(random: np.random.Generator, count: int) -> Boxes:
    corners = np.sort(random.uniform(0, SIDE, (count, 2, 2)).round(1), axis=1)
    return [(x0, y0, x1 + 0.1, y1 + 0.1) for (x0, y0), (x1, y1) in corners.tolist()]


def coco(boxes: Boxes) -> npt.NDArray[np.float64]:
    return np.array([[x0, y0, x1 - x0, y1 - y0] for x0, y0, x1, y1 in boxes])


def test_the_iou_of_boxes_is_that_of_pycocotools() -> None:
    boxes = [*EDGES, *drawn_boxes(np.random.default_rng(1), 60)]
    ours = np.array([[box_iou(one, other) for other in boxes] for one in boxes])
    theirs = coco_mask.iou(coco(boxes), coco(boxes), [0] * len(boxes))
    assert np.abs(ours - theirs).max() < 1e-6
    assert (ours > 0.3).sum() > 100


def test_the_dice_of_outlines_is_that_of_pycocotools_for_the_same_pixels() -> None:
    random = np.random.default_rng(2)
    outlines = [random.uniform(0, 120, 12).round(1).tolist() for _ in range(12)] + [[0, 0, 120, 0, 120, 120, 0, 120]]
    masks = [filled([outline], (120, 120)) for outline in outlines] + [np.eye(120, dtype=bool)]
    packed = [coco_mask.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in masks]
    iou = coco_mask.iou(packed, packed, [0] * len(packed))
    ours = np.array([[dice(one, other) for other in masks] for one in masks])
    assert np.abs(ours - 2 * iou / (1 + iou)).max() < 1e-6


def coco_matches(answers: list[Boxes], lesions: list[Boxes], least: float) -> list[int]:
    """Return the number of boxes that COCO's evaluation matches on each picture, at one threshold."""
    truth = COCO()
    truth.dataset = {
        "info": {}, "images": [{"id": number + 1} for number in range(len(lesions))], "categories": [{"id": 1}],
        "annotations": [],
    }  # fmt: skip
    for number, boxes in enumerate(lesions, start=1):
        for box in coco(boxes).tolist():
            truth.dataset["annotations"].append(
                {"id": len(truth.dataset["annotations"]) + 1, "image_id": number, "category_id": 1, "bbox": box,
                 "area": box[2] * box[3], "iscrowd": 0}
            )  # fmt: skip
    with redirect_stdout(io.StringIO()):
        truth.createIndex()
        said = truth.loadRes(
            [{"image_id": number, "category_id": 1, "bbox": box, "score": 1.0}
             for number, boxes in enumerate(answers, start=1) for box in coco(boxes).tolist()]
        )  # fmt: skip
        scored = COCOeval(truth, said, "bbox")
        scored.params.iouThrs = np.array([least])
        scored.params.areaRng, scored.params.areaRngLbl = [[0, 1e12]], ["all"]
        scored.evaluate()
    return [int((one["dtMatches"] > 0).sum()) for one in scored.evalImgs]


@pytest.mark.parametrize("least", [0.3, 0.5])
def test_boxes_are_matched_as_by_coco_or_in_more_pairs(least: float) -> None:
    random = np.random.default_rng(3)
    lesions: list[Boxes] = []
    for _ in range(150):  # up to four lesions that do not overlap, one in each quarter of the picture
        quarters = random.permutation(4)[: random.integers(1, 5)]
        lesions.append(
            [(500 * (q % 2) + x, 500 * (q // 2) + y, 500 * (q % 2) + x + w, 500 * (q // 2) + y + h)
             for q, (x, y, w, h) in zip(quarters.tolist(), random.uniform((0, 0, 60, 60), (200, 200, 300, 300),
                                        (len(quarters), 4)).tolist(), strict=True)]
        )  # fmt: skip
    answers = []
    for boxes in lesions:  # shifted copies, two of one lesion among them, and one box of its own
        near = [
            tuple(np.add(boxes[number], random.normal(0, 35, 4)).tolist())
            for number in random.integers(0, len(boxes), 4)
        ]
        answers.append([(x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)) for x0, y0, x1, y1 in near] + drawn_boxes(random, 1))
    ours = [matches(given, wanted, least) for given, wanted in zip(answers, lesions, strict=True)]
    theirs = coco_matches(answers, lesions, least)
    assert 150 < sum(theirs) < 500
    # A box overlaps two separate lesions by half of the union at most once: then both ways of matching agree.
    assert ours == theirs if least == 0.5 else all(one >= other for one, other in zip(ours, theirs, strict=True))
