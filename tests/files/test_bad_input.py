"""Cases as they come from real data sets, odd or wrong: each is used or named, and none stops the rest."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from plans import perception

from chexqa import question_banks
from chexqa.generators.attributes import attribute_keys, stability
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import make_job
from chexqa.imaging import masks
from chexqa.imaging.anatomy import Lungs
from chexqa.phantoms import write_cases
from chexqa.phantoms.draw import draw

pytestmark = pytest.mark.xdist_group("bad_input")

Record = dict[str, Any]
Change = Callable[[Record], object]

PHANTOM = draw(4, 0, "effusion", True, 256)
LESION, ANATOMY = PHANTOM.lesion, PHANTOM.anatomy
SHAPE = PHANTOM.image.shape
assert LESION is not None
ROWS, COLUMNS = np.nonzero(LESION)
MIDDLE = int(np.median(COLUMNS)), int(np.median(ROWS))


def specks() -> np.ndarray:
    """Ten thousand pixels, none beside another."""
    mask = np.zeros(SHAPE, bool)
    mask[20:220:2, 28:228:2] = True
    return mask


def with_holes() -> np.ndarray:
    mask = masks.from_polygons([[[60, 90], [110, 90], [110, 170], [60, 170]]], SHAPE, "holes")
    mask[105:115, 70:80] = mask[140:150, 85:95] = False
    return mask


def rle(mask: np.ndarray) -> Record:
    return masks.to_rle(np.ascontiguousarray(mask))


def give(**fields: Any) -> Change:
    return lambda record: record.update(fields)


def image_of(save: Callable[[Path], object]) -> Change:
    """A change that writes another file in the place of the case's picture."""
    return lambda record: save(record["folder"] / record["image"])


def png_bomb(path: Path) -> None:
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    coded = [struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
             for name, data in chunks]  # fmt: skip
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(coded))


def animated(path: Path) -> None:
    frames = [Image.fromarray(PHANTOM.image), Image.fromarray(PHANTOM.image[::-1].copy())]
    frames[0].save(path, "PNG", save_all=True, append_images=frames[1:])


LUNGS = {name: rle(ANATOMY[name]) for name in ("right_lung", "left_lung")}
RECTANGLE = [[60, 90], [110, 90], [110, 170], [60, 170]]
BOW_TIE = [[60, 90], [110, 170], [110, 90], [60, 170]]

# What is done to a good case, and the reason it is left out with; None where it is used all the same.
CASES: dict[str, tuple[Change, str | None]] = {
    "as drawn": (give(), None),
    "no heart mask": (give(anatomy=LUNGS), None),
    "the right lung alone": (give(anatomy={"right_lung": LUNGS["right_lung"]}, mask={"polygons": [RECTANGLE]}), None),
    "a lesion larger than the lung": (give(mask=rle(cv2.dilate(
        ANATOMY["right_lung"].astype(np.uint8), np.ones((13, 13))) > 0)), None),
    "a lesion with holes": (give(mask=rle(with_holes())), None),
    "a lesion and specks of one pixel": (give(mask=rle(with_holes() | (specks() & (np.arange(SHAPE[1]) % 16 == 0)))),
                                         None),
    "a polygon that crosses itself": (give(mask={"polygons": [BOW_TIE]}), None),
    "no lungs": (give(anatomy={}), "no lung masks are given"),
    "the lungs swapped": (give(anatomy={"right_lung": LUNGS["left_lung"], "left_lung": LUNGS["right_lung"]}),
                          "exchange the two masks"),
    "ten thousand specks": (give(mask=rle(specks())), "every part of the lesion is smaller than 1,000 px"),
    "run lengths of the wrong length": (give(mask={"size": list(SHAPE), "counts": [5, 7]}), "lengths add up to 12"),
    "run lengths of another size": (give(mask=rle(np.ones((99, 88), bool))), "run lengths are for 88 x 99 px"),
    "a polygon that leaves the image": (give(mask={"polygons": [[[5, 5], [900, 5], [5, 90]]]}),
                                        "the point (900, 5), outside the image"),
    "a bomb": (image_of(png_bomb), "more than 64,000,000 pixels"),
    "an animation": (image_of(animated), "an animated picture"),
    "a picture for printing": (image_of(lambda path: Image.fromarray(PHANTOM.image).convert("CMYK").save(path, "JPEG")),
                               "the picture has CMYK colours"),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[str]], dict[str, list[str]]]:
    """All the cases in one manifest: the kinds of item of each, and the reasons each is left out with."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "images").mkdir()
    with (folder / "cases.jsonl").open("w") as file:
        for number, (name, (change, _)) in enumerate(CASES.items()):
            image = PHANTOM.image.copy()
            image[0, number] ^= 1  # each radiograph another one
            cv2.imwrite(str(folder / "images" / f"{number}.png"), image)
            record: Record = {
                "case_id": name, "image": f"images/{number}.png", "finding": "effusion", "present": True,
                "mask": rle(LESION), "anatomy": {part: rle(mask) for part, mask in ANATOMY.items()},
                **dict.fromkeys(("patient_id", "study_id", "view", "sex", "age", "license")),
                "source": "phantom", "access": "open", "folder": folder,
            }  # fmt: skip
            change(record)
            del record["folder"]
            file.write(json.dumps(record) + "\n")
    loaded = [recipe.load(name) for name in recipe.DEFAULT]
    generate_benchmark.generate(folder, folder / "bench", make_job(loaded, question_banks.load("en"), 1))
    rows = [json.loads(line) for line in (folder / "bench" / "answers.jsonl").read_text().splitlines()]
    sources = {row["case_id"]: row["source_case_id"] for row in rows if "item_id" not in row}
    kinds: dict[str, set[str]] = {name: set() for name in CASES}
    for row in rows:
        if "item_id" in row:
            case_id, kind = row["item_id"].split("/")
            kinds[sources[case_id]].add(kind)
    reasons: dict[str, list[str]] = {name: [] for name in CASES}
    for line in (folder / "bench" / "skipped.jsonl").read_text().splitlines():
        row = json.loads(line)
        reasons[row["source_case_id"]].append(row["reason"])
    return kinds, reasons


ONE_LUNG = ("the right lung alone",)


@pytest.mark.parametrize("name", CASES)
def test_an_odd_case_is_used_or_named(outcome: tuple[dict[str, set[str]], dict[str, list[str]]], name: str) -> None:
    kinds, reasons = outcome[0][name], outcome[1][name]
    words = CASES[name][1]
    if words is None:
        assert reasons == []
        assert {"detection", "contour_evaluation", "severity", "grid_cell"} <= kinds
        assert ("comparison" in kinds) == (name not in ONE_LUNG), "both lungs are needed to compare them"
        assert "distribution" not in kinds or name not in ONE_LUNG
        return
    assert len(reasons) == 1
    assert words in reasons[0]
    readable = name in ("no lungs", "ten thousand specks")
    assert kinds == ({"grid_cell"} if readable else set())


def test_a_polygon_that_crosses_itself_is_filled_even_odd() -> None:
    mask = masks.from_polygons([BOW_TIE], SHAPE, "bow tie")
    assert mask[130, 65]
    assert mask[130, 105]
    assert not mask[100, 85]
    assert not mask[160, 85]


def test_ten_thousand_specks_beside_a_lesion_are_no_part_of_its_attributes() -> None:
    rules = perception().attributes
    shape = (1024, 1024)
    right, left, lesion = (np.zeros(shape, bool) for _ in range(3))
    right[200:900, 100:450], left[200:900, 560:910] = True, True
    lesion[400:600, 200:400] = True
    many = lesion.copy()
    many[620:820:2, 560:960:4] = True
    assert len(attribute_keys.parts_of(many)) == 10_001
    lungs = Lungs(right, left)
    one, all_of_them = (attribute_keys.measure(mask, lungs, rules) for mask in (lesion, many))
    assert len(all_of_them.components) == 1
    assert all_of_them.components[0].pixels == one.components[0].pixels == 40_000
    assert all_of_them.regions == one.regions
    drawn = attribute_keys.draw(attribute_keys.judge(all_of_them, rules), {}, rules, np.random.default_rng(1))
    assert isinstance(drawn, attribute_keys.Attributes)
    right_options = attribute_keys.right_options(drawn, attribute_keys.judge(all_of_them, rules), rules)
    assert set(stability.stable_attributes(many, lungs, drawn, right_options, rules)) == set(right_options)


@pytest.fixture(scope="module")
def one_phantom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phantom") / "cases"
    write_cases(folder, 1, seed=1, size=256)
    return folder


@pytest.mark.parametrize(
    "args",
    [("generate", "{cases}", "-o", "{loop}"), ("generate", "{cases}", "-o", "{loop}/bench"),
     ("report", "{loop}", "-o", "out"), ("validate", "{loop}"), ("review", "import", "{loop}"),
     ("import", "chexpercept-results", "{loop}", "--benchmark", "{cases}", "-o", "out"),
     ("heatmaps", "grade", "{loop}", "--benchmark", "{cases}", "-o", "out")],
)  # fmt: skip
def test_a_link_to_itself_is_told_in_one_sentence(
    cli: Any, tmp_path: Path, one_phantom: Path, args: tuple[str, ...]
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    given = [arg.format(loop=tmp_path / "loop", cases=one_phantom) for arg in args]
    code, _, err = cli(*given)
    assert code == 2, err
    assert "internal error" not in err
