"""Phantoms: what a user of the drawn radiographs and of their masks relies on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from rest_long import rest_long

from chexqa.contract.findings import CHEXPERCEPT_FINDINGS, PHANTOM_FINDINGS
from chexqa.files.errors import InputError
from chexqa.phantoms import Phantom, draw, write_cases

pytestmark = pytest.mark.xdist_group("phantoms")

SIZE = 256
KEYS = [
    *("case_id", "image", "finding", "present", "mask", "anatomy", "patient_id", "study_id"),
    *("view", "sex", "age", "source", "license", "access"),
]
OUTLINE_FINDINGS = ("cardiomegaly", "enlarged_cardiomediastinum")  # they change outlines and add nothing
LUNG_FINDINGS = [finding for finding in PHANTOM_FINDINGS if finding not in OUTLINE_FINDINGS]


@cache
def phantom(index: int, finding: str, present: bool = True) -> Phantom:
    return draw(3, index, finding, present, SIZE)


def lungs(case: Phantom) -> np.ndarray:
    return case.anatomy["right_lung"] | case.anatomy["left_lung"]


@pytest.mark.parametrize("finding", PHANTOM_FINDINGS)
def test_same_arguments_draw_the_same_phantom(finding: str) -> None:
    again = draw(3, 0, finding, True, SIZE)
    first = phantom(0, finding)
    assert np.array_equal(again.image, first.image)
    assert again.lesion is not None
    assert np.array_equal(again.lesion, first.lesion)


def test_seed_and_index_draw_different_people() -> None:
    pictures = {draw(seed, index, "edema", False, SIZE).image.tobytes() for seed in (1, 2) for index in (0, 1)}
    assert len(pictures) == 4


def test_a_patient_without_finding_is_the_same_whatever_was_looked_for() -> None:
    first, *others = (phantom(1, finding, False) for finding in PHANTOM_FINDINGS)
    for other in others:
        assert np.array_equal(first.image, other.image)
        assert (first.view, first.sex, first.age, first.ctr) == (other.view, other.sex, other.age, other.ctr)
        assert other.lesion is None
        assert other.signal is None


@pytest.mark.parametrize("finding", [f for f in LUNG_FINDINGS if f not in ("atelectasis", "pneumothorax")])
@pytest.mark.parametrize("index", rest_long([0, 1, 2], keep=1))
def test_twins_differ_where_the_lesion_is(finding: str, index: int) -> None:
    present, absent = phantom(index, finding), phantom(index, finding, False)
    assert present.lesion is not None
    assert present.signal is not None
    assert all(np.array_equal(present.anatomy[name], absent.anatomy[name]) for name in absent.anatomy)
    change = present.image.astype(int) - absent.image.astype(int)
    assert change[present.lesion].mean() > 8
    # Sharpening of the picture carries a trace of the lesion a little further, and nothing else differs.
    away = cv2.dilate((present.signal > 1e-3).astype(np.uint8), np.ones((25, 25), np.uint8)) == 0
    assert np.abs(change[away]).mean() < 1.5
    assert np.abs(change[:10]).max() <= 2


def test_twin_of_atelectasis_keeps_its_other_half() -> None:
    for index in range(6):
        present, absent = phantom(index, "atelectasis"), phantom(index, "atelectasis", False)
        assert present.lesion is not None
        side = "right_lung" if (present.lesion & present.anatomy["right_lung"]).any() else "left_lung"
        other = "left_lung" if side == "right_lung" else "right_lung"
        assert present.anatomy[side].sum() < 0.99 * absent.anatomy[side].sum()  # volume is lost on its own side
        assert np.array_equal(present.anatomy[other], absent.anatomy[other])


@pytest.mark.parametrize("finding", LUNG_FINDINGS)
def test_mask_is_where_the_added_signal_exceeds_half_its_peak(finding: str) -> None:
    case = phantom(2, finding)
    assert case.signal is not None
    assert case.signal.min() >= 0
    assert np.array_equal(case.lesion, case.signal > case.signal.max() / 2)


@pytest.mark.parametrize("finding", PHANTOM_FINDINGS)
def test_masks_are_whole_and_lesions_lie_in_their_organ(finding: str) -> None:
    for index in range(5):
        case = phantom(index, finding)
        assert case.lesion is not None
        for mask in (case.lesion, *case.anatomy.values()):
            assert mask.dtype == np.bool_
            assert mask.shape == case.image.shape
            assert mask.any()
        if finding == "enlarged_cardiomediastinum":
            assert not (case.lesion & lungs(case)).any()
            assert (case.lesion & case.anatomy["heart"]).sum() == case.anatomy["heart"].sum()
        else:
            organ = case.anatomy["heart"] if finding == "cardiomegaly" else lungs(case)
            assert (case.lesion & organ).sum() >= 0.95 * case.lesion.sum()
        assert (0.0008 if finding == "lung_lesion" else 0.003) < case.lesion.mean() < 0.32


@pytest.mark.parametrize("finding", rest_long(PHANTOM_FINDINGS, keep=4))
def test_anatomy_is_that_of_a_frontal_radiograph(finding: str) -> None:
    for index in range(5):
        case = phantom(index, finding)
        right, left, heart = (case.anatomy[name] for name in ("right_lung", "left_lung", "heart"))
        assert not (right & left).any()
        assert not ((right | left) & heart).any()
        columns = [float(np.nonzero(mask)[1].mean()) for mask in (right, heart, left)]
        assert columns == sorted(columns)  # the patient's right is the left of the picture
        for lung in (right, left):
            assert cv2.connectedComponents(lung.astype(np.uint8), connectivity=4)[0] == 2
            assert 0.04 < lung.mean() < 0.30
        absent = phantom(index, finding, False)
        if finding != "cardiomegaly":  # a grown heart brightens what was lung, its own place stays bright
            assert absent.image[absent.anatomy["heart"]].mean() > absent.image[lungs(absent)].mean() + 40


@pytest.mark.long
def test_cardiothoracic_ratio_keeps_clear_of_the_limit() -> None:
    for index in range(25):
        assert 0.3 < draw(8, index, "edema", False, SIZE).ctr < 0.48
        assert 0.52 < draw(8, index, "cardiomegaly", True, SIZE).ctr < 0.75
    for finding in LUNG_FINDINGS:
        assert all(phantom(index, finding).ctr < 0.48 for index in range(5))


def test_cardiothoracic_ratio_is_that_of_the_masks() -> None:
    for finding in ("opacity", "cardiomegaly"):
        case = phantom(4, finding)
        heart = np.flatnonzero(case.anatomy["heart"].any(axis=0))
        thorax = np.flatnonzero(lungs(case).any(axis=0))
        assert case.ctr == pytest.approx((np.ptp(heart) + 1) / (np.ptp(thorax) + 1))


def test_cardiomegaly_mask_is_the_heart() -> None:
    case = phantom(0, "cardiomegaly")
    assert np.array_equal(case.lesion, case.anatomy["heart"])
    assert case.anatomy["heart"].sum() > 1.2 * phantom(0, "cardiomegaly", False).anatomy["heart"].sum()


def test_a_wide_mediastinum_is_wider_above_the_heart_and_the_heart_is_as_it_was() -> None:
    for index in range(6):
        present, absent = (phantom(index, "enlarged_cardiomediastinum", there) for there in (True, False))
        assert present.lesion is not None
        assert np.array_equal(present.anatomy["heart"], absent.anatomy["heart"])
        top = np.flatnonzero(present.anatomy["heart"].any(axis=1))[0]
        between = {case.present: (~lungs(case))[:top, :].sum() for case in (present, absent)}
        assert between[True] > between[False], "the lungs give way to it"
        assert not (lungs(present) & ~lungs(absent)).any()
        taken = lungs(absent) & ~lungs(present)
        change = present.image.astype(int) - absent.image.astype(int)
        assert change[taken].mean() > 25, "what was lung is as bright as the vessels"
        assert (taken & present.lesion).sum() >= 0.9 * taken.sum()


def test_a_pneumothorax_is_darker_than_its_twin_lies_along_the_wall_of_one_side_and_shows_the_lungs_border() -> None:
    for index in range(6):
        present, absent = phantom(index, "pneumothorax"), phantom(index, "pneumothorax", False)
        assert present.lesion is not None
        assert all(np.array_equal(present.anatomy[name], absent.anatomy[name]) for name in absent.anatomy)
        sides = [name for name in ("right_lung", "left_lung") if (present.lesion & present.anatomy[name]).any()]
        assert len(sides) == 1
        change = present.image.astype(int) - absent.image.astype(int)
        assert change[present.lesion].mean() < -5
        border = cv2.dilate(present.lesion.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        inner = border & ~present.lesion & cv2.erode(present.anatomy[sides[0]].astype(np.uint8), np.ones((9, 9))) > 0
        assert change[inner].mean() > change[present.lesion].mean() + 5, "the line of the pleura"
        other = present.anatomy["left_lung" if sides[0] == "right_lung" else "right_lung"]
        away = other & (cv2.dilate((change > 3).astype(np.uint8), np.ones((3, 3))) == 0)
        assert np.abs(change[away]).mean() < 1.5


def test_lung_lesions_are_of_all_sizes_and_round() -> None:
    shares = []
    for index in range(14):
        case = phantom(index, "lung_lesion")
        assert case.lesion is not None
        count, _, stats, _ = cv2.connectedComponentsWithStats(case.lesion.astype(np.uint8))
        largest = stats[1:][stats[1:, cv2.CC_STAT_AREA].argmax()]
        box = largest[cv2.CC_STAT_WIDTH] * largest[cv2.CC_STAT_HEIGHT]
        assert largest[cv2.CC_STAT_AREA] > 0.5 * box
        assert count - 1 <= 6
        shares.append(case.lesion.mean())
    assert min(shares) < 0.004 < 0.01 < max(shares)


def test_edema_is_in_both_lungs() -> None:
    for index in range(12):
        case = phantom(index, "edema")
        assert case.lesion is not None
        for side in ("right_lung", "left_lung"):
            assert (case.lesion & case.anatomy[side]).sum() > 0.03 * case.anatomy[side].sum()


def test_effusion_fills_the_lowest_part_of_its_lung() -> None:
    sides: Counter[str] = Counter()
    for index in range(16):
        case = phantom(index, "effusion")
        assert case.lesion is not None
        for side in ("right_lung", "left_lung"):
            lung = case.anatomy[side]
            if (case.lesion & lung).sum() < 20:
                continue
            rows = np.flatnonzero(lung.any(axis=1))
            lowest = np.zeros_like(lung)
            lowest[rows[-1] - max(2, len(rows) // 20) :] = True
            assert (case.lesion & lung & lowest).sum() > 0.5 * (lung & lowest).sum()
            sides[side] += 1
    assert min(sides["right_lung"], sides["left_lung"]) >= 3


@pytest.mark.parametrize("finding", rest_long(["effusion", "opacity", "atelectasis", "consolidation", "pneumonia"]))
def test_lesions_vary_in_side_and_size(finding: str) -> None:
    cases = [phantom(index, finding) for index in range(12)]
    areas = [float(case.lesion.mean()) for case in cases if case.lesion is not None]
    assert max(areas) > 2.5 * min(areas)
    for side in ("right_lung", "left_lung"):
        assert sum(bool((case.lesion & case.anatomy[side]).any()) for case in cases) >= 2


@pytest.mark.parametrize("size", [256, 400, 1024])
def test_size_is_the_longer_side_and_the_drawing_scales_with_it(size: int) -> None:
    case = draw(5, 7, "consolidation", True, size)
    assert case.image.dtype == np.uint8
    assert max(case.image.shape) == size
    assert 0.84 < case.image.shape[0] / case.image.shape[1] < 1.21
    reference = draw(5, 7, "consolidation", True, 512)
    assert case.lesion is not None
    assert reference.lesion is not None
    height, width = reference.lesion.shape
    resized = cv2.resize(case.lesion.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0
    assert (resized & reference.lesion).sum() / (resized | reference.lesion).sum() > 0.85


def test_bad_arguments_are_explained() -> None:
    with pytest.raises(InputError, match="did you mean 'edema'"):
        draw(1, 0, "oedema", True, SIZE)
    for size in (255, 2049):
        with pytest.raises(InputError, match="256 to 2048"):
            draw(1, 0, "edema", True, size)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phantoms") / "new" / "cases"
    calls: list[None] = []
    assert write_cases(out, 42, 11, SIZE, on_case=lambda: calls.append(None)) == out / "cases.jsonl"
    assert len(calls) == 42
    return out


def rows_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def test_manifest_holds_every_finding_two_present_for_one_absent(folder: Path) -> None:
    rows = rows_of(folder)
    counts = Counter((row["finding"], row["present"]) for row in rows)
    assert counts == {
        (finding, present): 4 if present else 2 for finding in CHEXPERCEPT_FINDINGS for present in (True, False)
    }
    for length in range(7, 43):
        prefix = Counter(str(row["finding"]) for row in rows[:length])
        assert max(prefix.values()) - min(prefix.get(finding, 0) for finding in CHEXPERCEPT_FINDINGS) <= 1
        assert abs(sum(bool(row["present"]) for row in rows[:length]) - length * 2 / 3) <= 2.5
    assert len({row["patient_id"] for row in rows}) == len(rows)


def test_findings_can_be_named_and_the_seven_are_the_default(folder: Path, tmp_path: Path) -> None:
    write_cases(tmp_path / "all", 10, 11, SIZE, findings=PHANTOM_FINDINGS)
    assert sorted(str(row["finding"]) for row in rows_of(tmp_path / "all")) == sorted(PHANTOM_FINDINGS)
    write_cases(tmp_path / "seven", 3, 11, SIZE, findings=CHEXPERCEPT_FINDINGS)
    assert rows_of(tmp_path / "seven") == rows_of(folder)[:3]
    for wrong in (("pneumothoraks",), ("edema", "edema"), ()):
        with pytest.raises(InputError):
            write_cases(tmp_path / "no", 3, 11, SIZE, findings=wrong)


def test_manifest_rows_and_files_agree(folder: Path) -> None:
    named = {Path("cases.jsonl")}
    for row in rows_of(folder):
        assert list(row) == KEYS
        assert (row["source"], row["license"], row["access"]) == ("phantom", "CC0-1.0", "open")
        assert row["view"] in ("PA", "AP")
        assert row["sex"] in ("F", "M")
        assert isinstance(row["age"], int)
        image = cv2.imread(str(folder / str(row["image"])), cv2.IMREAD_UNCHANGED)
        assert image.ndim == 2
        assert image.dtype == np.uint8
        anatomy = row["anatomy"]
        assert isinstance(anatomy, dict)
        assert set(anatomy) == {"right_lung", "left_lung", "heart"}
        assert (row["mask"] is not None) == row["present"]
        for place in [*anatomy.values(), *([row["mask"]] if row["mask"] else [])]:
            mask = cv2.imread(str(folder / place), cv2.IMREAD_UNCHANGED)
            assert mask.shape == image.shape
            assert set(np.unique(mask).tolist()) == {0, 255}
            named.add(Path(place))
        named.add(Path(str(row["image"])))
    assert {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} == named


def test_same_arguments_write_the_same_bytes_with_one_worker_or_two(folder: Path, tmp_path: Path) -> None:
    def hashes(root: Path) -> dict[str, str]:
        files = (path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    write_cases(tmp_path / "again", 14, 11, SIZE, workers=2)
    again, whole = hashes(tmp_path / "again"), hashes(folder)
    assert again.pop("cases.jsonl") != whole.pop("cases.jsonl"), "fewer cases"
    assert rows_of(tmp_path / "again") == rows_of(folder)[:14]
    assert again.items() <= whole.items()


@pytest.mark.long
def test_a_longer_set_begins_with_the_shorter_one(folder: Path, tmp_path: Path) -> None:
    write_cases(tmp_path / "short", 5, 11, SIZE)
    assert rows_of(tmp_path / "short") == rows_of(folder)[:5]


def test_a_finished_folder_is_refused_and_kept(folder: Path) -> None:
    before = (folder / "cases.jsonl").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_cases(folder, 1, 1, SIZE)
    assert (folder / "cases.jsonl").read_bytes() == before


@pytest.mark.parametrize(("cases", "size"), [(0, SIZE), (-3, SIZE), (1, 100), (1, 5000)])
def test_impossible_orders_are_refused_and_leave_nothing(cases: int, size: int, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_cases(tmp_path / "out", cases, 1, size)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_cases(tmp_path / "out", 3, 1, SIZE, on_case=stop)
    assert not list(tmp_path.iterdir())


def test_a_twin_is_the_same_radiograph_without_the_lesion(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases", 2, 3, 256, findings=("opacity",), twins=True)
    lines = (tmp_path / "cases" / "cases.jsonl").read_text().splitlines()
    cases = {row["case_id"]: row for row in map(json.loads, lines)}
    twins = [name for name in cases if name.endswith("-twin")]
    assert twins
    for name in twins:
        case, twin = cases[name.removesuffix("-twin")], cases[name]
        assert (twin["present"], twin["mask"], twin["patient_id"]) == (False, None, case["patient_id"])
        shown, without, lesion = (
            cv2.imread(str(tmp_path / "cases" / path), cv2.IMREAD_GRAYSCALE).astype(int)
            for path in (case["image"], twin["image"], case["mask"])
        )
        assert np.abs(shown - without)[lesion > 0].mean() > 5
        far = cv2.dilate(lesion.astype(np.uint8), np.ones((61, 61), np.uint8)) == 0
        assert np.abs(shown - without)[far].mean() < 0.2
