"""Localization maps: each metric by hand and by a second way, file formats, names, readers' marks, the command."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch_files import pickled

from chexqa.cli.validate import validate
from chexqa.contract import benchmark
from chexqa.eval.heatmaps import grading, metrics, summary, targets
from chexqa.eval.heatmaps.map_files import read_map
from chexqa.files.errors import InputError
from chexqa.imaging import grid, masks

Cli = Callable[..., tuple[int, str, str]]
KEY = "patient1_study1_view1_frontal"
SIDE = 80


def box(top: int, bottom: int, left: int, right: int, side: int = SIDE) -> np.ndarray:
    mask = np.zeros((side, side), bool)
    mask[top:bottom, left:right] = True
    return mask


def peak(y: int, x: int, side: int = SIDE) -> np.ndarray:
    """A map with a single maximum at a pixel."""
    rows, columns = np.mgrid[:side, :side]
    return np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 50.0)


def graded(values: np.ndarray, mask: np.ndarray, threshold: float | None = None) -> metrics.Values:
    hits = grid.hits(grid.coverage(mask), grid.HIT_SHARE)
    return metrics.grade_map(metrics.fit(values, mask.shape), mask, hits, threshold)


# --- the grid -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(8, 90), st.integers(8, 90), st.integers(0, 10**6))
def test_every_pixel_lies_in_the_cell_whose_coverage_it_adds_to(height: int, width: int, place: int) -> None:
    row, column = divmod(place % (height * width), width)
    mask = np.zeros((height, width), bool)
    mask[row, column] = True
    (number,) = [number for number, share in enumerate(grid.coverage(mask), start=1) if share > 0]
    assert grid.cells_at(np.array([row]), np.array([column]), (height, width)).tolist() == [number]


# --- metrics --------------------------------------------------------------------------------------------------------


def test_a_map_that_points_into_the_mask_hits_and_one_that_points_beside_it_misses() -> None:
    mask = box(20, 40, 20, 40)  # four whole cells: C3, D3, C4, D4
    inside, beside, near, far = (graded(peak(*place), mask) for place in ((25, 25), (40, 30), (44, 30), (70, 70)))
    assert (inside["pointing"], inside["pointing_15px"], inside["grid_hit"]) == (1, 1, 1)
    assert (beside["pointing"], beside["pointing_15px"], beside["grid_hit"]) == (0, 1, 0)  # 1 px away, of 1.17 allowed
    assert near["pointing_15px"] == 0, "15 px are those of a picture of 1024 px"
    assert (far["pointing"], far["pointing_15px"], far["grid_hit"]) == (0, 0, 0)


def test_the_tolerance_is_15_px_of_a_picture_of_1024() -> None:
    mask = box(0, 100, 0, 100, side=1024)
    for away, hit in ((15, 1), (16, 0)):
        values = np.zeros((1024, 1024))
        values[50, 99 + away] = 1
        assert graded(values, mask)["pointing_15px"] == hit


def test_where_the_maximum_is_shared_a_hit_is_the_share_of_it_that_hits() -> None:
    mask = box(0, 10, 0, 10)
    values = np.zeros((SIDE, SIDE))
    values[5, 5] = values[5, 60] = values[60, 60] = values[70, 5] = 3.0
    assert (graded(values, mask)["pointing"], graded(values, mask)["grid_hit"]) == (0.25, 0.25)


def test_a_constant_map_points_anywhere_segments_nothing_and_tells_nothing() -> None:
    mask = box(0, 40, 0, 80)
    for value in (0.0, 7.0, -3.0):
        values = graded(np.full((5, 5), value), mask, threshold=0.5)
        assert (values["pointing"], values["grid_hit"]) == (0.5, 0.5)
        assert [values[name] for name in ("iou_otsu", "dice_otsu", "iou_given", "dice_given")] == [0, 0, 0, 0]
        assert (values["auc"], values["cnr"]) == (0.5, 0.0)


def test_a_lesion_too_small_for_any_cell_has_no_attainable_grid_hit() -> None:
    values = graded(peak(5, 5), box(3, 8, 3, 8))
    assert (values["grid_hit"], values["grid_hit_attainable"]) == (0.0, None)


def test_a_mask_as_map_is_perfect_but_has_no_noise_to_compare_with() -> None:
    mask = box(10, 50, 20, 60)
    values = graded(mask.astype(float), mask, threshold=0.4)
    assert [values[name] for name in ("iou_otsu", "dice_otsu", "iou_given", "dice_given", "auc")] == [1] * 5
    assert values["cnr"] is None


def test_auc_and_cnr_have_no_number_where_the_mask_is_the_whole_picture() -> None:
    values = graded(peak(5, 5), np.ones((SIDE, SIDE), bool))
    assert (values["auc"], values["cnr"], values["pointing"]) == (None, None, 1.0)


def test_a_threshold_is_exceeded_not_met() -> None:
    values = np.array([[0.0, 0.4], [0.5, 1.0]], np.float32)
    assert metrics.segment(values, 0.5).tolist() == [[False, False], [False, True]]


def slow_otsu(levels: np.ndarray) -> int:
    """The threshold of the greatest variance between classes, by trying all."""
    best, chosen = -1.0, 0
    for threshold in range(256):
        low, high = levels[levels <= threshold], levels[levels > threshold]
        if low.size and high.size:
            between = low.size * high.size * (low.mean() - high.mean()) ** 2
            if between > best * (1 + 1e-9):
                best, chosen = between, threshold
    return chosen


@pytest.mark.parametrize("seed", range(8))
def test_otsus_threshold_is_the_one_of_the_greatest_variance_between_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, mask = metrics.fit(rng.normal(0, 1, (9, 9)).cumsum(axis=1), (60, 60)), rng.random((60, 60)) < 0.3
    grey = (255 * values).astype(np.uint8)
    assert metrics.otsu(metrics.in_steps(values, np.flatnonzero(mask)).grey_levels()) == slow_otsu(grey)
    found = metrics.grade_map(values, mask, (), None)
    marked = grey > slow_otsu(grey)
    assert (found["iou_otsu"], found["dice_otsu"]) == (masks.iou(marked, mask), masks.dice(marked, mask))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 12), st.booleans())
def test_pixel_auc_is_scikit_learns_with_many_ties_and_with_none(seed: int, side: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.integers(0, 4, (side, side)) / 3 if ties else rng.random((side, side))).astype(np.float32)
    mask = rng.random((side, side)) < 0.4
    if mask.all() or not mask.any():
        return
    assert metrics.pixel_auc(values, mask) == pytest.approx(roc_auc_score(mask.ravel(), values.ravel()), abs=1e-12)


def blob(random: np.random.Generator) -> np.ndarray:
    rows, columns = np.mgrid[:30, :30]
    return np.exp(-((rows - random.integers(30)) ** 2 + (columns - 9) ** 2) / 8)


# Maps by what makes their ranks hard to count, and the greatest error: pixels of one step of a smooth map may tie.
HARD: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], float]] = {
    "smooth": (lambda random: random.normal(size=(14, 14)).cumsum(0), metrics.UNRESOLVED / 2),
    "0 in most places": (lambda random: np.maximum(random.normal(size=(7, 7)) - 0.8, 0), metrics.UNRESOLVED / 2),
    "most values near 0": (lambda random: random.random((20, 20)) ** 9, metrics.UNRESOLVED / 2),
    "a far tail": (blob, metrics.UNRESOLVED / 2),
    "one value a million times the others": (lambda random: np.append(random.random(899), 1e6).reshape(30, 30), 1e-12),
    "grey levels": (lambda random: random.integers(0, 256, (200, 260)), 1e-12),
    "sixteen bits": (lambda random: np.append(random.integers(0, 65281, 51998), [0, 65280]).reshape(200, 260), 1e-12),
    "two values": (lambda random: random.random((200, 260)) < 0.2, 1e-12),
}


@pytest.mark.parametrize("name", HARD)
def test_pixel_auc_of_many_pixels_is_scikit_learns_within_the_stated_error(name: str) -> None:
    random = np.random.default_rng(len(name))
    values = metrics.fit(np.asarray(HARD[name][0](random), np.float64), (200, 260))
    mask = np.zeros((200, 260), bool)
    mask[40:90, 100:180] = True
    expected = roc_auc_score(mask.ravel(), values.ravel())
    assert metrics.pixel_auc(values, mask) == pytest.approx(expected, abs=HARD[name][1])


def test_contrast_to_noise_is_the_same_from_sums_and_from_pixels() -> None:
    random = np.random.default_rng(0)
    for spread in (1, 1e-3, 1e-9, 0):  # of what lies outside
        mask = random.random((90, 70)) < 0.2
        values = np.where(mask, random.random((90, 70)), 0.3 + spread * random.random((90, 70))).astype(np.float32)
        inside, outside = values[mask].astype(float), values[~mask].astype(float)
        expected = abs(inside.mean() - outside.mean()) / math.sqrt(inside.var() + outside.var())
        assert metrics.contrast_to_noise(values, mask) == pytest.approx(expected, rel=1e-9)


def test_contrast_to_noise_by_hand() -> None:
    values = np.array([[1, 3, 0, 0], [0, 2, 0, 2]], np.float32)
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 0]], bool)
    outside = np.array([0, 0, 0, 2, 0, 2])  # mean 2/3, variance 8/9; inside mean 2, variance 1
    assert metrics.contrast_to_noise(values, mask) == pytest.approx((2 - outside.mean()) / math.sqrt(1 + 8 / 9))
    assert metrics.contrast_to_noise(-values, mask) == metrics.contrast_to_noise(values, mask)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 999), scale=st.sampled_from([1e-300, 1e-3, 1, 1e6, 1e300]), shift=st.integers(-3, 3))
def test_what_a_map_is_measured_in_changes_nothing(seed: int, scale: float, shift: int) -> None:
    rng = np.random.default_rng(seed)
    values, mask = rng.random((7, 9)), rng.random((60, 50)) < 0.3
    plain, moved = (graded(array, mask, threshold=0.6) for array in (values, (values + shift) * scale))
    assert moved == {name: pytest.approx(value, abs=2e-3) for name, value in plain.items()}


def slow_bilinear(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Bilinear interpolation between pixel centres, the border repeated: what PyTorch calls align_corners=False."""
    out = np.zeros(shape)
    for y in range(shape[0]):
        for x in range(shape[1]):
            v = min(max((y + 0.5) * values.shape[0] / shape[0] - 0.5, 0), values.shape[0] - 1)
            u = min(max((x + 0.5) * values.shape[1] / shape[1] - 0.5, 0), values.shape[1] - 1)
            i, j = int(v), int(u)
            k, m = min(i + 1, values.shape[0] - 1), min(j + 1, values.shape[1] - 1)
            top = values[i, j] * (1 - (u - j)) + values[i, m] * (u - j)
            low = values[k, j] * (1 - (u - j)) + values[k, m] * (u - j)
            out[y, x] = top * (1 - (v - i)) + low * (v - i)
    return (out - out.min()) / (out.max() - out.min())


@pytest.mark.parametrize(("small", "large"), [((7, 7), (30, 41)), ((5, 9), (16, 9)), ((20, 20), (11, 13))])
def test_maps_are_stretched_bilinearly_without_aligned_corners(small: tuple[int, int], large: tuple[int, int]) -> None:
    values = np.random.default_rng(1).random(small)
    np.testing.assert_allclose(metrics.fit(values, large), slow_bilinear(values, large), atol=2e-5)


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 5), (1, 4, 5), (1, 1, 4, 5)])
def test_a_map_is_read_from_every_kind_of_file(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.arange(20, dtype="<f4").reshape(shape)
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    np.savez(tmp_path / "b.npz", array)
    np.savez_compressed(tmp_path / "c.npz", map=array, other=np.zeros(3))
    (tmp_path / "d.pkl").write_bytes(pickled(array))
    cv2.imwrite(str(tmp_path / "e.png"), array.reshape(4, 5).astype(np.uint8))
    cv2.imwrite(str(tmp_path / "f.PNG"), array.reshape(4, 5).astype(np.uint16))
    for path in sorted(tmp_path.iterdir()):
        np.testing.assert_array_equal(read_map(path), np.arange(20).reshape(4, 5), err_msg=path.name)


def write_bad(folder: Path, name: str) -> Path:
    array = np.zeros((4, 5), np.float32)
    path = folder / name
    if name == "objects.npy":
        np.save(path, np.array([[{}]], object), allow_pickle=True)
    elif name == "channels.npy":
        np.save(path, np.zeros((3, 4, 5)))
    elif name == "complex.npy":
        np.save(path, array.astype(complex))
    elif name == "empty.npy":
        np.save(path, np.zeros((0, 5)))
    elif name == "short.npy":
        np.save(path, array)
        path.write_bytes(path.read_bytes()[:-1])
    elif name == "lying.npy":
        np.save(path, array)
        path.write_bytes(path.read_bytes().replace(b"(4, 5)", b"(9**9,)"))
    elif name == "two.npz":
        np.savez(path, array, array)
    elif name == "text.npz":
        path.write_text("no archive")
    elif name.endswith("_packed.npz"):
        method = {"lzma": zipfile.ZIP_LZMA, "bzip2": zipfile.ZIP_BZIP2}[name.partition("_")[0]]
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("map.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5)}"))
    elif name == "colours.png":
        cv2.imwrite(str(path), np.zeros((4, 5, 3), np.uint8))
    elif name == "cut.png":
        path.write_bytes(cv2.imencode(".png", np.random.default_rng(0).integers(0, 255, (40, 50), np.uint8))[1][:200])
    else:
        path.write_bytes(b"\x80\x04cos\nsystem\n.")
    return path


@pytest.mark.parametrize(
    "name",
    ["objects.npy", "channels.npy", "complex.npy", "empty.npy", "short.npy", "lying.npy", "two.npz", "text.npz",
     "lzma_packed.npz", "bzip2_packed.npz", "colours.png", "cut.png", "hostile.pkl"],
)  # fmt: skip
def test_what_is_no_map_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    path = write_bad(tmp_path, name)
    with pytest.raises(InputError) as caught:
        read_map(path)
    assert str(caught.value).startswith(f"{path}: ")


def npy(header: bytes, version: int = 1) -> bytes:
    """A NumPy file with this header and 20 numbers."""
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 * version, "little") + header + bytes(80)


@pytest.mark.parametrize(
    "data",
    [npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5"), npy(b"'''"), npy(b"{" * 9000, 2), npy(b"[]"),
     npy(b"1" * 100_000, 2), npy(b"{'descr': (), 'fortran_order': False, 'shape': (4, 5)}"), npy(b"\xff\n\\c"),
     npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10**30, 5)}"), npy(b"-" * 9000, 2), npy(b"", 2)],
)  # fmt: skip
def test_a_broken_header_of_numpys_is_one_sentence(
    tmp_path: Path, data: bytes, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npy: is damaged or not a NumPy file") as caught:
        read_map(path)
    assert len(str(caught.value).removeprefix(str(path))) < 140
    assert "\n" not in str(caught.value)
    assert not recwarn.list


def test_any_byte_of_a_header_may_be_wrong(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 5), np.float32))
    whole, draw = (tmp_path / "a.npy").read_bytes(), np.random.default_rng(0)
    for _ in range(400):
        damaged = bytearray(whole)
        for place in draw.integers(0, 128, 2):
            damaged[place] = draw.integers(256)
        (tmp_path / "a.npy").write_bytes(bytes(damaged))
        with pytest.raises(InputError, match=r"a\.npy: "):
            read_map(tmp_path / "a.npy")


# --- names ----------------------------------------------------------------------------------------------------------


def write_masks(folder: Path, outlines: dict[str, dict[str, np.ndarray]]) -> Path:
    """CheXlocalize's run lengths, every finding that is not given empty."""
    empty = np.zeros((SIDE, SIDE), bool)
    names = ("Atelectasis", "Airspace Opacity", "Edema", "Enlarged Cardiomediastinum", "Pleural Effusion")
    record = {key: {name: masks.to_rle(given.get(name, empty)) for name in names} for key, given in outlines.items()}
    path = folder / "gt_segmentations_val.json"
    path.write_text(json.dumps(record))
    return path


@pytest.fixture
def truth(tmp_path: Path) -> targets.Truth:
    """Three findings of two people."""
    left, right = box(20, 40, 20, 40), box(30, 60, 50, 70)
    return targets.of_masks(
        write_masks(
            tmp_path,
            {KEY: {"Airspace Opacity": left, "Pleural Effusion": right}, KEY.replace("1", "2"): {"Edema": left}},
        )
    )


@pytest.mark.parametrize(
    ("stem", "finding"),
    [
        (f"{KEY}_opacity", "opacity"),
        (f"{KEY}_Lung Opacity", "opacity"),
        (f"{KEY}_lung_opacity", "opacity"),
        (f"{KEY}_Airspace Opacity", "opacity"),
        (f"{KEY}_Pleural Effusion", "effusion"),
        (f"{KEY}_EFFUSION", "effusion"),
        ("patient2_study2_view2_frontal", "edema"),
        (f"{KEY}_edema", None),
        ("patient3_study1_view1_frontal_edema", None),
        ("readme", None),
    ],
)
def test_a_file_finds_its_radiograph_and_finding(truth: targets.Truth, stem: str, finding: str | None) -> None:
    found = targets.Directory(truth.targets).find(stem, "x.npy")
    assert (found.finding if found else None) == finding


def test_a_name_that_fits_two_cases_is_refused_with_what_to_do(truth: targets.Truth) -> None:
    with pytest.raises(InputError, match=r"fits 2 cases .*<case id>_<finding>"):
        targets.Directory(truth.targets).find(KEY, "x.npy")


# --- grading --------------------------------------------------------------------------------------------------------


def write_maps(folder: Path, truth: targets.Truth, **changed: np.ndarray | None) -> Path:
    """A map for each target, pointing at its mask's middle, but for what is changed by finding (None: left out)."""
    folder.mkdir()
    for target in truth.targets:
        rows, columns = np.nonzero(target.read())
        values = changed.get(target.finding, peak(int(rows.mean()), int(columns.mean())))
        if values is not None:
            np.save(folder / f"{target.case_id.replace('/', '_')}.npy", values)
    return folder


def by_finding(rows: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["finding"]: row for row in rows.to_dicts()}


def test_every_target_has_a_row_whatever_its_map_is(tmp_path: Path, truth: targets.Truth) -> None:
    broken = peak(3, 3)
    broken[0, 0] = np.nan
    folder = write_maps(tmp_path / "maps", truth, opacity=None, edema=broken)
    np.save(folder / "somebody_edema.npy", peak(1, 1))
    (folder / "notes.txt").write_text("not a map")
    one = grading.grade_maps("m", folder, truth, None)
    rows = by_finding(one.rows)
    assert {name: row["state"] for name, row in rows.items()} == {
        "opacity": "missing", "effusion": "graded", "edema": "not_finite",
    }  # fmt: skip
    assert rows["opacity"]["pointing"] is None
    assert rows["edema"]["pointing"] == pytest.approx(400 / 6400)  # it points anywhere
    assert one.unused == ("somebody_edema.npy",)
    assert rows["effusion"]["patient_id"] == "patient1"


def test_worker_processes_give_the_same_rows_in_the_same_order(
    tmp_path: Path, truth: targets.Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: write_maps(tmp_path / name, truth, edema=peak(3, place)) for place, name in enumerate("ab")}
    alone = grading.grade_folders(folders, truth, None)
    monkeypatch.setattr(grading, "MANY_MAPS", 1)
    monkeypatch.setattr(grading, "_OF_TASK", 1)
    advanced: list[None] = []
    shared = grading.grade_folders(folders, truth, None, lambda: advanced.append(None), workers=2)
    assert list(shared) == ["a", "b"]
    assert all(shared[name].rows.equals(alone[name].rows) for name in folders)
    assert len(advanced) == len(truth.targets)


def test_a_model_with_a_missing_map_has_no_numbers_unless_partial_ones_are_asked_for(
    tmp_path: Path, truth: targets.Truth
) -> None:
    folder = write_maps(tmp_path / "maps", truth, opacity=None)
    rows = grading.grade_maps("m", folder, truth, None).rows
    whole, partial = summary.summarise(rows), summary.summarise(rows, allow_partial=True)
    assert whole["pointing"].null_count() == whole.height == 4
    found = by_finding(partial)
    assert (found[summary.MACRO]["pointing"], found["effusion"]["pointing"]) == (1.0, 1.0)
    assert (found["opacity"]["pointing"], found[summary.MACRO]["missing"]) == (None, 1)


def test_the_last_row_is_the_mean_of_findings_and_shares_have_intervals_inside_0_and_1(
    tmp_path: Path, truth: targets.Truth
) -> None:
    many = targets.Truth("x", False, tuple(
        targets.Target(f"{number}", target.finding, frozenset({f"{number}"}), f"p{number // 2}", None, "", None,
                       target.read)
        for number, target in enumerate(truth.targets * 8)
    ))  # fmt: skip
    rng = np.random.default_rng(3)
    folder = tmp_path / "maps"
    folder.mkdir()
    for target in many.targets:
        np.save(folder / f"{target.case_id}.npy", rng.random((8, 8)))
    rows = grading.grade_maps("m", folder, many, None).rows
    table = summary.summarise(rows)
    means = rows.group_by("finding").agg(pl.col("auc").mean())
    last = table.to_dicts()[-1]
    assert last["finding"] == summary.MACRO
    assert last["auc"] == pytest.approx(means["auc"].mean())
    assert last["auc_low"] < last["auc"] < last["auc_high"]
    for name in metrics.METRICS[:-1]:
        ends = table.select(f"{name}_low", f"{name}_high").drop_nulls().to_numpy()
        assert ((ends >= 0) & (ends <= 1 + 1e-6)).all(), name


def test_a_readers_points_are_graded_by_pointing_and_grid_alone(tmp_path: Path, truth: targets.Truth) -> None:
    path = tmp_path / "hb_salient_pt_val.json"
    # The opacity is hit by the second point, the edema is missed, the effusion has no point.
    path.write_text(json.dumps({
        KEY: {"Airspace Opacity": [[5.2, 5.9], [25.0, 30.5]], "Atelectasis": [[1, 1]]},
        KEY.replace("1", "2"): {"Edema": [[79.9, 80]], "img_size": [SIDE, SIDE]},
    }))  # fmt: skip
    one = grading.grade_points("reader", path, truth)
    rows = by_finding(one.rows)
    assert {name: (row["state"], row["pointing"], row["grid_hit"]) for name, row in rows.items()} == {
        "opacity": ("graded", 1.0, 1.0), "effusion": ("nothing_marked", 0.0, 0.0), "edema": ("graded", 0.0, 0.0),
    }  # fmt: skip
    assert one.rows.select("iou_otsu", "auc", "cnr").null_count().row(0) == (3, 3, 3)
    assert one.unused == (f"{KEY}/atelectasis",)


@pytest.mark.parametrize("point", [[1], [1, "x"], [None, 1], [10**400, 1], 7])
def test_points_that_are_none_are_refused(tmp_path: Path, truth: targets.Truth, point: object) -> None:
    (tmp_path / "hb.json").write_text(json.dumps({KEY: {"Airspace Opacity": [point]}}))
    with pytest.raises(InputError, match=r"Airspace Opacity: must be a list of \[x, y\] in pixels"):
        grading.grade_points("reader", tmp_path / "hb.json", truth)


def test_a_readers_outlines_are_graded_by_everything(tmp_path: Path, truth: targets.Truth) -> None:
    path = tmp_path / "hb_annotations_val.json"
    path.write_text(json.dumps({
        KEY: {"img_size": [SIDE, SIDE], "Airspace Opacity": [[[20, 20], [39, 20], [39, 39], [20, 39]]],
              "Pleural Effusion": [[[50, 30], [69, 30], [69, 44], [50, 44]]]},
    }))  # fmt: skip
    rows = by_finding(grading.grade_outlines("reader", path, truth).rows)
    assert [rows["opacity"][name] for name in ("iou_otsu", "dice_given", "auc", "pointing")] == [1, 1, 1, 1]
    assert rows["effusion"]["iou_given"] == rows["effusion"]["iou_otsu"] == 0.5
    assert (rows["edema"]["state"], rows["edema"]["iou_otsu"], rows["edema"]["auc"]) == ("nothing_marked", 0, 0.5)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("threshold,task\n0.4,Emphysemaa\n", "line 2: there is no finding 'Emphysemaa' .did you mean 'emphysema'"),
        ("threshold,task\n1.4,Edema\n", "line 2: the threshold '1.4' is not a number from 0 to 1"),
        ("threshold,task\nnan,Edema\n", "line 2: the threshold 'nan'"),
        (
            "finding,threshold\nedema,0.1\nedema,0.2\n",
            "line 3: the threshold of edema is 0.2, but 0.1 in an earlier line",
        ),
        ("finding,limit\n", "the column 'threshold' is missing"),
        ("threshold,name\n", "no column 'finding' .or 'task'."),
    ],
)
def test_thresholds_that_are_none_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(lines)
    with pytest.raises(InputError, match=message):
        grading.read_thresholds(tmp_path / "t.csv")


def test_thresholds_have_chexlocalizes_layout_and_must_name_every_graded_finding(
    tmp_path: Path, truth: targets.Truth
) -> None:
    (tmp_path / "t.csv").write_text("threshold,task\n0.4,Airspace Opacity\n0.2,Pleural Effusion\n")
    thresholds = grading.read_thresholds(tmp_path / "t.csv")
    assert dict(thresholds.by_finding) == {"opacity": 0.4, "effusion": 0.2}
    with pytest.raises(InputError, match="has no threshold for edema"):
        grading.grade_maps("m", write_maps(tmp_path / "maps", truth), truth, thresholds)


def test_all_wrong_map_files_of_all_folders_are_listed_at_once(cli: Cli, tmp_path: Path, truth: targets.Truth) -> None:
    one, two = (write_maps(tmp_path / name, truth) for name in ("one", "two"))
    wrong = sorted((*one.iterdir(), next(two.iterdir())))
    for path in wrong:
        path.write_bytes(b"no map")
    command = ("heatmaps", "grade", one, two, "--masks", tmp_path / "gt_segmentations_val.json", "-o", tmp_path / "g")
    code, _, err = cli(*command)
    assert code == 2
    first, *lines = err.splitlines()
    assert first == "error: 4 map files are wrong; correct them:"
    assert sorted(line.partition(": ")[0] for line in lines) == [f"  {path}" for path in wrong]
    (one / f"{KEY}_Airspace Opacity.npy").write_bytes(b"")
    (two / f"{KEY}.npy").write_bytes(b"")
    first, *lines = cli(*command)[2].splitlines()
    assert first == "error: 2 map files are wrong; correct them:"
    assert ["remove one of the two" in line or "fits 2 cases" in line for line in lines] == [True, True]


def test_all_wrong_marks_and_lines_are_listed_at_once(tmp_path: Path, truth: targets.Truth) -> None:
    other = KEY.replace("1", "2")
    points, outlines, csv = tmp_path / "points.json", tmp_path / "outlines.json", tmp_path / "t.csv"
    points.write_text(json.dumps({KEY: {"Airspace Opacity": [[1, SIDE + 9]], "Oedema": []}, other: {"Edema": 7}}))
    outlines.write_text(json.dumps({KEY: {"Pneumonai": []}, other: {"Edema": 7}}))
    csv.write_text("threshold,task\n0.4,Edema\n1.4,Edema\n0.3,Edema\n")
    for path, read, named in (
        (points, lambda: grading.grade_points("m", points, truth),
         ["3 points", f"{KEY}: 'Oedema'", f"{other}, Edema: must", f"{KEY}/opacity: the point (1, 89)"]),
        (outlines, lambda: grading.grade_outlines("m", outlines, truth),
         ["2 outlines", f"{KEY}: 'Pneumonai'", f"{other}, Edema: must"]),
        (csv, lambda: grading.read_thresholds(csv),
         ["2 lines", "line 3: the threshold '1.4'", "line 4: the threshold of edema is 0.3"]),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            read()
        first, *lines = str(caught.value).splitlines()
        assert first == f"{path}: {named[0]} are wrong; correct them:"
        assert [line[2 : 2 + len(start)] for line, start in zip(lines, named[1:], strict=True)] == named[1:]


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_grades_maps_points_and_outlines_together(tmp_path: Path, truth: targets.Truth, cli: Cli) -> None:
    masks_file = tmp_path / "gt_segmentations_val.json"
    (tmp_path / "t.csv").write_text("finding,threshold\nopacity,0.4\neffusion,0.2\nedema,0.3\n")
    (tmp_path / "points.json").write_text(json.dumps({KEY: {"Airspace Opacity": [[25, 25]]}}))
    folder = write_maps(tmp_path / "gradcam", truth)
    out = tmp_path / "out"
    code, printed, err = cli("heatmaps", "grade", folder, folder, "--name", "one", "--name", "=two", "--masks",
                             masks_file, "--points", tmp_path / "points.json", "--outlines", masks_file,
                             "--thresholds", tmp_path / "t.csv", "-o", out)  # fmt: skip
    assert (code, err) == (0, "")
    assert "gt_segmentations_val.json" in printed
    rows = pl.read_parquet(out / "heatmaps.parquet")
    assert rows.columns == list(grading.COLUMNS)
    assert rows["model"].unique(maintain_order=True).to_list() == ["one", "=two", "radiologist points",
                                                                  "radiologist outlines"]  # fmt: skip
    index = json.loads((out / "heatmaps.json").read_text())
    assert (index["targets"], index["notice"]) == (3, None)
    assert validate(out / "heatmaps.json").summary == "heatmaps file, fits its schema"
    assert index["thresholds"]["by_finding"] == {"opacity": 0.4, "effusion": 0.2, "edema": 0.3}
    table = (out / "heatmaps.csv").read_text()
    assert "'=two" in table
    assert "radiologist points,mean of findings,3,0,0.33" in table
    first, *others = (out / "maps.html").read_text().split("<section")[1:]
    assert first.count("<tr>") == 5  # the head, and a row for each model
    assert '<td class="text">=two</td><td>3</td><td>1.000</td><td>1.000</td>' in first
    # Each finding has one lesion, so there are no thirds and no intervals: no page of dashes.
    assert "No row of lesion_size.csv has a number." in others[0]
    assert "correlations.csv has 12 more rows, without a number." in others[2]
    assert "<table" not in others[0]
    assert "low</th>" not in first


def test_maps_are_graded_on_a_benchmarks_own_items(handmade: Any, tmp_path: Path, cli: Cli) -> None:
    lesion = box(20, 40, 20, 40)
    measures = {"masks": {"lesion": masks.to_rle(lesion)}, "source_size": [160, 160], "image_key": "k"}
    # By the key only C3 (19) is a hit, and the map points at D4, which the mask fills too.
    case = handmade.case("x1/effusion", "effusion", "revision_free", contour_evaluation=(2,), grid=(19,),
                         measures=measures)  # fmt: skip
    handmade.case("x2", "edema", "lesion_free", detection=(2,))
    bench = handmade.write()
    (tmp_path / "maps").mkdir()
    np.save(tmp_path / "maps" / "x1_effusion.npy", peak(35, 35))
    (tmp_path / "p.json").write_text(json.dumps({"x1": {"Pleural Effusion": [[50, 50]]}}))  # of the 160 px radiograph
    code, printed, err = cli("heatmaps", "grade", tmp_path / "maps", "--benchmark", bench, "--points",
                             tmp_path / "p.json", "-o", tmp_path / "out")  # fmt: skip
    assert (code, err) == (0, "")
    assert "drawn phantoms: a software test" in " ".join(printed.split())
    one, reader = pl.read_parquet(tmp_path / "out" / "heatmaps.parquet").to_dicts()
    assert (one["item_id"], one["case_id"], one["picture"]) == (f"{case}/grid_cell", case, "k")
    answers = [json.loads(line) for line in (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()]
    made_on = benchmark.load(bench).hash
    assert answers == [
        {"model": "maps", "item_id": f"{case}/grid_cell", "answer": [28], "benchmark": made_on},
        {"model": "radiologist points", "item_id": f"{case}/grid_cell", "answer": [19], "benchmark": made_on},
    ]
    code, _, err = cli("grade", tmp_path / "out" / "predictions.jsonl", "--benchmark", bench, "--out", tmp_path / "g")
    assert (code, err) == (0, "")
    table = pl.read_csv(tmp_path / "g" / "tables" / "grid.csv", comment_prefix="#")
    found = dict(table.filter(finding="effusion").select("model", "hit_rate").iter_rows())
    assert found == {"maps": 0, "radiologist points": 1}
    assert (one["pointing"], one["grid_hit"]) == (1.0, 0.0)
    assert (reader["pointing"], reader["grid_hit"]) == (1.0, 1.0)
    (tmp_path / "truth.json").write_text(json.dumps({"patient1_study1_view1_frontal": {"Edema": masks.to_rle(lesion)}}))
    np.save(tmp_path / "maps" / "patient1_study1_view1_frontal_Edema.npy", peak(35, 35))
    (tmp_path / "maps" / "x1_effusion.npy").unlink()
    code, _, err = cli("heatmaps", "grade", tmp_path / "maps", "--masks", tmp_path / "truth.json",
                       "-o", tmp_path / "out")  # fmt: skip
    assert (code, err) == (0, "")
    assert not (tmp_path / "out" / "predictions.jsonl").exists(), "answers of the other set"


def test_a_withheld_key_is_said(handmade: Any, tmp_path: Path, cli: Cli) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    bench = handmade.write()
    code, _, err = cli("heatmaps", "grade", tmp_path, "--benchmark", bench, "-o", tmp_path / "out")
    assert code == 2
    assert "no case with a finding has a mask" in err
    (bench / "answers.jsonl").unlink()
    code, _, err = cli("heatmaps", "grade", tmp_path, "--benchmark", bench, "-o", tmp_path / "out")
    assert code == 2
    assert "grading maps needs the key" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to grade"),
        (["maps", "--name", "a", "--name", "b"], "--name is given 2 times for 1 folder of maps"),
        (["maps", "maps"], "two models have the name 'maps'"),
        (["none"], "is not a folder"),
        (["empty"], "there is no map file in it"),
        (["stranger"], "'who.npy' fits no case with a present finding"),
        (["twice"], "is a map of the same finding as"),
    ],
)
def test_wrong_input_is_met_with_a_sentence(
    tmp_path: Path, truth: targets.Truth, cli: Cli, arguments: list[str], message: str
) -> None:
    write_maps(tmp_path / "maps", truth)
    for name, files in (("empty", []), ("stranger", ["who"]), ("twice", [f"{KEY}_opacity", f"{KEY}_Lung Opacity"])):
        (tmp_path / name).mkdir()
        for stem in files:
            np.save(tmp_path / name / f"{stem}.npy", peak(1, 1))
    given = [argument if argument.startswith("-") or len(argument) == 1 else tmp_path / argument
             for argument in arguments]  # fmt: skip
    code, _, err = cli("heatmaps", "grade", *given, "--masks", tmp_path / "gt_segmentations_val.json", "-o",
                       tmp_path / "out")  # fmt: skip
    assert code == 2
    assert message in err
    assert not (tmp_path / "out").exists()


def test_real_masks_of_chexlocalize_are_graded_in_their_own_layout(real_data: Path, tmp_path: Path, cli: Cli) -> None:
    """Blurred masks as pickled tensors: they point into their masks, and a reader's outlines score 1."""
    sample = real_data / "chexlocalize_sample"
    truth = targets.of_masks(sample / "gt_segmentations_val.json")
    (tmp_path / "maps").mkdir()
    names = {"opacity": "Lung Opacity", "cardiomegaly": "Cardiomegaly",
             "enlarged_cardiomediastinum": "Enlarged Cardiomediastinum"}  # fmt: skip
    for target in truth.targets:
        small = cv2.resize(target.read().astype(np.float32), (320, 320), interpolation=cv2.INTER_AREA)
        blurred = cv2.GaussianBlur(small, (0, 0), 10)[None, None].astype("<f4")
        stem = f"{target.case_id.split('/')[0]}_{names[target.finding]}_map"
        (tmp_path / "maps" / f"{stem}.pkl").write_bytes(pickled(blurred, prob=0.5, gt=1, cxr_dims=(2828, 2320)))
    code, _, err = cli("heatmaps", "grade", tmp_path / "maps", "--masks", sample / "gt_segmentations_val.json",
                       "--outlines", sample / "gt_annotations_val.json", "-o", tmp_path / "out")  # fmt: skip
    assert (code, err) == (0, "")
    rows = pl.read_parquet(tmp_path / "out" / "heatmaps.parquet")
    maps, outlines = rows.filter(pl.col("model") == "maps"), rows.filter(pl.col("model") == "radiologist outlines")
    assert (maps["pointing"] == 1).all()
    assert (maps["iou_otsu"] > 0.7).all()
    assert (maps["auc"] > 0.99).all()
    assert (outlines["iou_otsu"] == 1).all()
