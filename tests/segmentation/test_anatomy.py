"""``chexqa anatomy``: a model's lungs and hearts go where there are none, marked, and nothing else changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tiny_onnx import convolution

from chexqa.contract.cases import load_case, read_manifest
from chexqa.files.errors import InputError
from chexqa.segmentation import clean_up
from chexqa.segmentation.onnx_model import OnnxModel, OnnxOptions, channels_of

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed: pip install 'chexqa[onnx]'")

# Grey levels of a drawn chest: the argmax of three lines tells them apart.
BLACK, HEART, LUNG = 0, 100, 220
THREE = ([0, 20, 60], [0, -4, -28])  # nothing, heart, lung


def chest(shape: tuple[int, int] = (200, 300)) -> np.ndarray:
    """A right lung, a heart and a left lung side by side, with a hole in one lung and a speck beside it."""
    height, width = shape
    image = np.full(shape, BLACK, np.uint8)

    def box(left: float, right: float, top: float, bottom: float, grey: int) -> None:
        image[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = grey

    box(0.15, 0.40, 0.1, 0.9, LUNG)
    box(0.45, 0.60, 0.5, 0.9, HEART)
    box(0.65, 0.88, 0.1, 0.9, LUNG)
    box(0.20, 0.26, 0.3, 0.4, BLACK)
    box(0.02, 0.05, 0.02, 0.06, LUNG)
    return image


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return float((one & other).sum() / (one | other).sum())


def folder_of(tmp_path: Path, records: list[dict[str, Any]], shape: tuple[int, int] = (200, 300)) -> Path:
    for name in {record["image"] for record in records}:
        cv2.imwrite(str(tmp_path / name), chest(shape))
    lines = [json.dumps({"finding": "effusion", "present": False} | record) for record in records]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "cases.jsonl"


def model(tmp_path: Path, **options: Any) -> Path:
    path = tmp_path / "lungs.onnx"
    path.write_bytes(convolution(*THREE, **options))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


SOFTMAX = ("--activation", "softmax", "--channel", "heart=1", "--channel", "lungs=2")


def test_missing_masks_are_filled_in_and_marked_and_given_ones_stay(tmp_path: Path, cli: Any) -> None:
    given = {"size": [200, 300], "counts": [200 * 200, 200 * 60, 200 * 40]}
    manifest = folder_of(tmp_path, [
        {"case_id": "none", "image": "a.png"},
        {"case_id": "some", "image": "a.png", "finding": "edema", "anatomy": {"left_lung": given}},
        {"case_id": "side", "image": "b.png", "view": "LATERAL"},
    ])  # fmt: skip
    before = manifest.read_bytes()
    code, out, err = cli("anatomy", manifest, "--onnx", model(tmp_path), *SOFTMAX, "-o", tmp_path / "new.jsonl")
    assert code == 0, err
    assert "masks added to 2 of 3 cases (2 right_lung, 1 left_lung, 2 heart)" in out
    assert "review export" in out
    assert "no lung masks were made for 1 lateral view" in err
    assert manifest.read_bytes() == before
    none, some, side = rows(tmp_path / "new.jsonl")
    assert side == rows(manifest)[2]
    assert some["anatomy"]["left_lung"] == given
    assert set(some["predicted"]) == {"right_lung", "heart"}
    assert none["predicted"]["left_lung"].startswith("lungs.onnx ")
    loaded = load_case(read_manifest(tmp_path / "new.jsonl")[0]).source_anatomy
    assert {name: mask.shape for name, mask in loaded.items()} == dict.fromkeys(loaded, (200, 300))
    picture = chest()
    right = np.zeros(picture.shape, bool)
    right[20:180, 45:120] = True  # without its hole
    assert overlap(loaded["right_lung"], right) > 0.88
    assert overlap(loaded["heart"], picture == HEART) > 0.85
    assert not (loaded["left_lung"] & (np.arange(300) < 150)).any(), "the patient's left lung is on the right"

    code, out, _ = cli(
        "anatomy", tmp_path / "new.jsonl", "--onnx", model(tmp_path), *SOFTMAX, "-o", tmp_path / "again.jsonl"
    )
    assert code == 0
    assert rows(tmp_path / "again.jsonl") == rows(tmp_path / "new.jsonl"), "nothing is missing any more"


def test_items_on_predicted_lungs_carry_a_flag_and_the_sheet_names_the_model(tmp_path: Path, cli: Any) -> None:
    from chexqa.contract import benchmark

    lesion = {"size": [200, 300], "counts": [200 * 50 + 100, *([70, 130] * 60), 200 * 190 - 100]}
    manifest = folder_of(tmp_path, [{"case_id": "a", "image": "a.png", "present": True, "mask": lesion}])
    code, _, err = cli("anatomy", manifest, "--onnx", model(tmp_path), *SOFTMAX, "-o", tmp_path / "new.jsonl")
    assert code == 0, err
    assert cli("generate", tmp_path / "new.jsonl", "-o", tmp_path / "bench")[0] == 0
    bench = benchmark.load(tmp_path / "bench")
    answers, cases = bench.key("a test")
    flagged = {item.kind for item in bench.items if "predicted_lungs" in answers[item.item_id].flags}
    assert "severity" in flagged
    assert "detection" not in flagged
    (case,) = cases.values()
    assert case.measures["predicted"]["right_lung"].startswith("lungs.onnx ")


def test_a_function_of_ones_own_is_asked_once_a_picture_at_any_size(
    tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_of_a_test.py").write_text(
        "import numpy as np\n"
        "calls = []\n"
        "def masks(image):\n"
        "    calls.append(image.shape)\n"
        "    small = image[::4, ::4]\n"
        "    return {'lungs': small > 200, 'heart': np.where((small > 50) & (small < 150), 0.9, 0.1)}\n"
        "def wrong(image): return {'liver': image > 0}\n"
        "def broken(image): raise RuntimeError('no memory')\n"
    )
    monkeypatch.chdir(tmp_path)
    manifest = folder_of(
        tmp_path,
        [{"case_id": f"c{number}", "image": "a.png", "finding": finding} for number, finding in
         enumerate(("effusion", "edema", "opacity"))],
    )  # fmt: skip
    code, _, err = cli("anatomy", manifest, "--with", "mine_of_a_test:masks", "-o", "new.jsonl")
    assert code == 0, err
    assert sys.modules["mine_of_a_test"].calls == [(200, 300)]
    first = rows(tmp_path / "new.jsonl")[0]
    assert first["predicted"] == dict.fromkeys(("right_lung", "left_lung", "heart"), "mine_of_a_test:masks")
    for name, said in (
        ("mine_of_a_test:wrong", "'liver' is not a structure"),
        ("mine_of_a_test:broken", "RuntimeError: no memory"),
        ("mine_of_a_test:nothing", "has no function 'nothing'"),
        ("no_such_module_at_all:f", "there is no module"),
        ("mine", "module:function"),
    ):
        code, _, err = cli("anatomy", manifest, "--with", name, "-o", "other.jsonl")
        assert code == 2
        assert said in err
        assert not Path("other.jsonl").exists()


@pytest.mark.parametrize(("fit", "colours", "side"), [("stretch", 3, 64), ("pad", 1, 96), ("pad", 1, None)])
def test_pictures_of_any_shape_come_back_at_their_place(
    fit: Any, colours: int, side: int | None, tmp_path: Path
) -> None:
    path = model(tmp_path, colours=colours, side=side)
    image = chest((360, 220))
    made = OnnxModel(path, OnnxOptions({"lungs": 2}, "softmax", (0, 1), fit, 128))
    found = clean_up.structures(made(image), image.shape, "a test")
    solid = image == LUNG
    solid[108:144, 44:57] = True
    solid[:30, :20] = False
    assert overlap(found["right_lung"] | found["left_lung"], solid) > 0.88


def test_lungs_that_run_into_each_other_are_not_told_apart() -> None:
    mask = np.zeros((100, 100), bool)
    mask[10:90, 10:90] = True
    assert clean_up.structures({"lungs": mask}, (100, 100), "a test") == {}


def test_predicted_lungs_that_contradict_given_ones_are_left_out(tmp_path: Path, cli: Any) -> None:
    swapped = {"size": [200, 300], "counts": [200 * 200, 200 * 60, 200 * 40]}  # the left lung's place
    manifest = folder_of(tmp_path, [{"case_id": "a", "image": "a.png", "anatomy": {"right_lung": swapped}}])
    code, out, err = cli("anatomy", manifest, "--onnx", model(tmp_path), *SOFTMAX, "-o", tmp_path / "new.jsonl")
    assert code == 0
    assert "left out: line 1, a: right_lung and left_lung overlap" in err
    assert "(1 heart)" in out
    assert set(rows(tmp_path / "new.jsonl")[0]["predicted"]) == {"heart"}


@pytest.mark.parametrize(("data", "options", "said"), [
    (b"no model", (), "onnxruntime cannot read it"),
    (convolution(*THREE, inputs=2), (), "must take one input of floats"),
    (convolution(*THREE), (), "the model has 3 channels; name the channel of each structure"),
    (convolution(*THREE), ("--channel", "heart=3"), "the model's channels are 0 to 2"),
    (convolution(*THREE), ("--channel", "hart=1"), "did you mean 'heart'"),
    (convolution(*THREE), ("--channel", "lungs=1", "--channel", "left_lung=2"), "or right_lung and left_lung"),
    (convolution(*THREE), ("--activation", "none", "--channel", "heart=1"), "not probabilities from 0 to 1"),
])  # fmt: skip
def test_a_model_that_cannot_be_used_is_told_in_one_sentence(
    data: bytes, options: tuple[str, ...], said: str, tmp_path: Path, cli: Any
) -> None:
    manifest = folder_of(tmp_path, [{"case_id": "a", "image": "a.png"}])
    (tmp_path / "model.onnx").write_bytes(data)
    code, _, err = cli("anatomy", manifest, "--onnx", tmp_path / "model.onnx", *options, "-o", tmp_path / "new.jsonl")
    assert code == 2
    assert said in err
    assert not (tmp_path / "new.jsonl").exists()


def test_one_model_is_named_and_a_manifest_is_not_written_over(tmp_path: Path, cli: Any) -> None:
    manifest = folder_of(tmp_path, [{"case_id": "a", "image": "a.png"}])
    assert "give a model" in cli("anatomy", manifest, "-o", tmp_path / "new.jsonl")[2]
    code, _, err = cli("anatomy", manifest, "--onnx", model(tmp_path), *SOFTMAX, "-o", manifest)
    assert code == 2
    assert "exists already" in err


def test_a_manifest_elsewhere_names_the_folder_of_its_paths(tmp_path: Path, cli: Any) -> None:
    manifest = folder_of(tmp_path, [{"case_id": "a", "image": "a.png"}])
    (tmp_path / "elsewhere").mkdir()
    code, out, _ = cli(
        "anatomy", manifest, "--onnx", model(tmp_path), *SOFTMAX, "-o", tmp_path / "elsewhere" / "new.jsonl"
    )
    assert code == 0
    assert f"--image-root {tmp_path}" in out
    assert load_case(read_manifest(tmp_path / "elsewhere" / "new.jsonl", tmp_path)[0]).heart is not None


def test_channels_are_read(tmp_path: Path) -> None:
    assert channels_of(("right_lung=5", "heart=0")) == {"right_lung": 5, "heart": 0}
    with pytest.raises(InputError, match="named twice"):
        channels_of(("heart=5", "heart=0"))
