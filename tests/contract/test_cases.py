"""The manifest and the cases in it: what is accepted, what is refused, and with which words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa.contract import cases, findings
from chexqa.contract.anatomy_checks import doubts
from chexqa.contract.cases import is_lateral
from chexqa.files.errors import InputError
from chexqa.imaging import masks

H, W = 60, 80
RIGHT, LEFT, HEART, LESION = (np.zeros((H, W), np.bool_) for _ in range(4))
RIGHT[5:50, 5:30] = True
LEFT[5:50, 50:75] = True
HEART[30:50, 30:55] = True
LESION[20:30, 10:20] = True
RAMP = np.add.outer(np.arange(H), np.arange(W)).astype(np.uint8)


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)).save(path)


def line(**changes: Any) -> dict[str, Any]:
    """A case's record: an effusion in the right lung of ``a.png``."""
    record = {
        "case_id": "one", "image": "a.png", "finding": "effusion", "present": True, "mask": "m/effusion.png",
        "anatomy": {name: f"m/{name}.png" for name in cases.STRUCTURES}, "patient_id": None, "study_id": None,
        "view": None, "sex": None, "age": None, "source": None, "license": None, "access": "open",
    }  # fmt: skip
    return {**record, **changes}


def absent(**changes: Any) -> dict[str, Any]:
    return line(**{"present": False, "mask": None, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one radiograph and its masks."""
    data = tmp_path / "data"
    save(data / "a.png", RAMP)
    save(data / "b.png", RAMP.T.copy().reshape(H, W))
    for name, mask in {"right_lung": RIGHT, "left_lung": LEFT, "heart": HEART, "effusion": LESION}.items():
        save(data / "m" / f"{name}.png", mask)
    return data


Read = Callable[..., list[cases.Case]]


@pytest.fixture
def read(folder: Path) -> Read:
    """Write records as the folder's manifest, unchecked, and read it."""

    def call(*records: dict[str, Any] | str, root: Path | None = None) -> list[cases.Case]:
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (folder / "cases.jsonl").write_text("".join(text + "\n" for text in lines))
        return cases.read_manifest(folder, root)

    return call


def test_a_case_is_loaded_at_its_own_and_the_working_size(read: Read) -> None:
    loaded = cases.load_case(read(line())[0])
    assert np.array_equal(loaded.image, RAMP)
    assert np.array_equal(loaded.source_mask, LESION)
    assert set(loaded.source_anatomy) == set(cases.STRUCTURES)
    assert loaded.working.shape == (768, 1024)
    assert loaded.lesion is not None
    assert np.argwhere(loaded.lesion).min(axis=0).tolist() == [256, 128]
    assert loaded.right_lung is not None
    assert loaded.left_lung is not None
    assert loaded.heart is not None
    assert np.argwhere(loaded.left_lung)[:, 1].min() == 640


def test_anatomy_may_be_missing(read: Read) -> None:
    loaded = cases.load_case(read(line(anatomy={"left_lung": "m/left_lung.png"}, mask="m/left_lung.png"))[0])
    assert loaded.right_lung is None
    assert loaded.heart is None
    assert loaded.left_lung is not None
    assert cases.load_case(read(line(anatomy={}))[0]).source_anatomy == {}


def test_an_absent_case_has_no_lesion(read: Read) -> None:
    loaded = cases.load_case(read(absent())[0])
    assert loaded.lesion is None
    assert loaded.source_mask is None


@pytest.mark.parametrize(
    "mask",
    [
        masks.to_rle(LESION),
        {**masks.to_rle(LESION), "size": [float(H), float(W)]},
        {"polygons": [[[10, 20], [19, 20], [19, 29], [10, 29]]]},
    ],
    ids=["rle", "a size with points", "polygons"],
)
def test_an_embedded_mask_is_the_same_as_a_file(read: Read, mask: dict[str, Any]) -> None:
    assert np.array_equal(cases.load_case(read(line(mask=mask))[0]).source_mask, LESION)


def test_the_same_pixels_have_one_key_whatever_the_file(read: Read, folder: Path) -> None:
    Image.fromarray(RAMP).convert("RGB").save(folder / "copy.png")
    one, copy, other = read(line(), line(case_id="2", image="copy.png"), line(case_id="3", image="b.png"))
    assert cases.image_key(one) == cases.image_key(copy) == cases.load_case(one).image_key
    assert cases.image_key(other) != cases.image_key(one)


def test_an_absent_finding_is_normal_unless_another_line_has_one_in_the_same_image(read: Read) -> None:
    ill, beside, alone, given = read(
        line(), absent(case_id="2", finding="edema"), absent(case_id="3", image="b.png"),
        absent(case_id="4", image="b.png", finding="edema", negative_kind="other"),
    )  # fmt: skip
    assert [case.negative_kind for case in (ill, beside, alone, given)] == [None, "other", "normal", "other"]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([line(), "{broken"], "line 2: not valid JSON"),
        ([line(), "{broken"], "correct the text there, or create the file again"),
        ([json.dumps(line())[:-1] + ', "mask": null}'], "line 1: not valid JSON (the key 'mask' is given twice in one"),
        ([line(), line(case_id="2", age="old")], "line 2: field 'age': \"old\" must be a number or null"),
        ([line(extra=1)], "line 1: unknown field \"extra\""),
        ([{k: v for k, v in line().items() if k != "present"}], "line 1: the field 'present' is missing"),
        ([{k: v for k, v in line().items() if k != "mask"}], "line 1: the finding is present but has no 'mask'"),
        ([line(reference="guessed")], "line 1: field 'reference'"),
        ([line(pixel_spacing_mm=[0.1])], "line 1: field 'pixel_spacing_mm'"),
        ([["a list"]], "line 1: "),
        ([line(), absent(finding="edema"), line(case_id="x")], "the case id 'one' is given twice, first in line 1"),
        ([line(finding="Effusion")], "line 1: there is no finding 'Effusion' (did you mean 'effusion'?); to add"),
        ([line(finding="lung lesion")], "(did you mean 'lung_lesion'?)"),
        ([line(finding="carдiomegali")], "(did you mean 'cardiomegaly'?)"),
        ([line(mask=None)], "line 1: the finding is present but has no 'mask'"),
        ([absent(mask="m/effusion.png")], "line 1: the finding is absent but has a mask"),
        ([line(negative_kind="other")], "'negative_kind' is only for absent findings"),
        ([line(), absent(case_id="2")], "differs from that in line 1 for the same image 'a.png'"),
        ([line(), absent(case_id="2", finding="edema", negative_kind="normal")], "'negative_kind' is 'normal', but"),
        ([line(image="../a.png")], "line 1: the path '../a.png' leaves the manifest's folder"),
        ([line(image="/etc/passwd")], "line 1: the path '/etc/passwd' leaves the manifest's folder"),
        ([line(mask="m/../../x.png")], "leaves the manifest's folder"),
        ([line(anatomy={"heart": "/x.png"})], "leaves the manifest's folder"),
        ([line(image="a\0.png")], "leaves the manifest's folder"),
        ([line(), absent(case_id="2", image="./a.png")], "line 2: 'present' of 'effusion' differs from that in line 1"),
        ([line(), line(case_id="\ud800")], "line 2: contains \\ud800, an unpaired surrogate; write the whole"),
        ([], "contains no case"),
    ],
)  # fmt: skip
def test_a_wrong_manifest_is_refused_with_its_line(read: Read, records: list[Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        read(*records)
    assert words in str(error.value)
    assert "cases.jsonl" in str(error.value)


def test_a_line_by_hand_needs_four_fields_and_a_mask_where_the_finding_is_present(folder: Path, read: Read) -> None:
    short = {"case_id": "one", "image": "a.png", "finding": "effusion", "present": True, "mask": "m/effusion.png"}
    present, absent_too = read(short, {"case_id": "two", "image": "b.png", "finding": "edema", "present": False})
    assert (present.anatomy, present.sex, present.access) == ({}, None, "credentialed")
    assert (absent_too.mask, absent_too.negative_kind, absent_too.acquisition) == (None, "normal", {})
    assert cases.load_case(present).lesion is not None


def test_what_is_known_of_device_and_pixels_goes_with_the_case(folder: Path, read: Read) -> None:
    (case,) = read(line(pixel_spacing_mm=[0.139, 0.139], reference="drawn", device="portable", site=None))
    assert case.acquisition == {"pixel_spacing_mm": [0.139, 0.139], "reference": "drawn", "device": "portable"}


def test_a_link_that_leaves_the_folder_is_refused_and_one_inside_is_not(read: Read, folder: Path) -> None:
    save(folder.parent / "outside" / "o.png", RAMP)
    (folder / "inner.png").symlink_to(folder / "a.png")
    assert np.array_equal(cases.load_case(read(line(image="inner.png"))[0]).image, RAMP)
    (folder / "outer.png").symlink_to(folder.parent / "outside" / "o.png")
    (folder / "away").symlink_to(folder.parent / "outside")
    for image in ("outer.png", "away/o.png"):
        with pytest.raises(InputError, match="leaves the manifest's folder through a link"):
            read(line(image=image))


def test_paths_start_at_the_manifest_and_then_at_the_image_root(read: Read, folder: Path) -> None:
    disk = folder.parent / "disk"
    save(disk / "far.png", RAMP)
    save(disk / "a.png", RAMP[::-1].copy())
    far, near = read(line(image="far.png"), line(case_id="2"), root=disk)
    assert far.image == disk / "far.png"
    assert near.image == folder / "a.png"
    assert cases.load_case(far).lesion is not None
    with pytest.raises(InputError, match="the image root is not a folder"):
        read(line(), root=folder / "nowhere")
    with pytest.raises(InputError, match="leaves"):
        read(line(image="../disk/far.png"), root=disk)


def test_a_folder_without_manifest_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contains no cases\.jsonl; make one"):
        cases.read_manifest(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        cases.read_manifest(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        cases.read_manifest(tmp_path / ("x" * 300))
    (tmp_path / "cases.jsonl").touch()
    with pytest.raises(InputError, match="the image root is not a folder"):
        cases.read_manifest(tmp_path, tmp_path / ("x" * 300))


def bad_cases() -> dict[str, tuple[Callable[[Path], None], dict[str, Any], str]]:
    """What is done to the files, the record, and the words that name it."""

    def nothing(folder: Path) -> None: ...

    def put(name: str, array: np.ndarray) -> Callable[[Path], None]:
        return lambda folder: save(folder / name, array)

    far = np.zeros((H, W), np.bool_)
    far[55:58, 38:42] = True
    swapped = {"right_lung": "m/left_lung.png", "left_lung": "m/right_lung.png"}
    wide = RIGHT | np.roll(RIGHT, 20, axis=1)
    return {
        "the image is missing": (lambda folder: (folder / "a.png").unlink(), line(), "a.png: no such file"),
        "a name longer than files have": (nothing, line(image="a" * 300 + ".png"), "aaa.png: no such file"),
        "the image is text": (lambda folder: (folder / "a.png").write_text("x") and None, line(), "not a PNG or JPEG"),
        "the mask is missing": (lambda folder: (folder / "m/effusion.png").unlink(), line(), "effusion.png: no such"),
        "the mask has another size": (put("m/effusion.png", LESION.T), line(), "60 x 80 px and its image 80 x 60 px"),
        "the mask is grey": (put("m/effusion.png", RAMP), line(), "values (0, 1, 2, 3, 4, …)"),
        "the mask is empty": (put("m/effusion.png", LESION & False), line(), "effusion.png: the mask is empty"),
        "a lung mask is empty": (put("m/left_lung.png", LESION & False), line(), "left_lung.png: the mask is empty"),
        "the run lengths have another size": (
            nothing, line(mask={"size": [W, H], "counts": [0, W * H]}), "run lengths are for 60 x 80 px"),
        "the run lengths are short": (nothing, line(mask={"size": [H, W], "counts": [0, 5]}), "lengths add up to 5"),
        "the run lengths are empty": (nothing, line(mask=masks.to_rle(LESION & False)), "the mask is empty"),
        "a polygon leaves the image": (
            nothing, line(mask={"polygons": [[[1, 1], [900, 1], [5, 5]]]}), "outside the image of 80 x 60 px"),
        "a polygon has an absurd number": (
            nothing, line(mask={"polygons": [[[1e18, 1], [9, 1], [5, 5]]]}), "point (1e+18, 1), outside the image"),
        "the lesion touches nothing": (put("m/effusion.png", far), line(), "if each pixel has only one label"),
        "the lungs are swapped": (nothing, line(anatomy=swapped), "exchange the two masks"),
        "the lungs overlap": (put("m/left_lung.png", wide), line(), "overlap in 100% of the smaller lung"),
    }  # fmt: skip


@pytest.mark.parametrize("name", bad_cases())
def test_a_bad_case_is_named_in_one_sentence_without_machine_paths(folder: Path, read: Read, name: str) -> None:
    spoil, record, words = bad_cases()[name]
    spoil(folder)
    case = read(line(case_id="0", finding="edema", anatomy={}, image="b.png", mask=masks.to_rle(LESION)), record)[1]
    with pytest.raises(InputError) as error:
        cases.load_case(case)
    assert str(error.value).startswith("cases.jsonl, line 2: ")
    assert words in str(error.value)
    assert str(folder) not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_device_or_a_heart_without_heart_mask_may_lie_outside_the_lungs(folder: Path, read: Read) -> None:
    away = np.zeros((H, W), np.bool_)
    away[1:4, 38:42] = True
    lungs = {name: f"m/{name}.png" for name in ("right_lung", "left_lung")}
    for number, (finding, anatomy) in enumerate([("support_devices", line()["anatomy"]), ("cardiomegaly", lungs)]):
        case = read(line(case_id=str(number), finding=finding, anatomy=anatomy, mask=masks.to_rle(away)))[0]
        assert cases.load_case(case).lesion is not None
    case = read(line(finding="cardiomegaly", mask=masks.to_rle(away)))[0]
    with pytest.raises(InputError, match="overlaps none of right_lung, left_lung"):
        cases.load_case(case)


def test_a_lesion_beside_the_only_masks_given_is_no_error(folder: Path, read: Read) -> None:
    """A data set with masks of the heart alone, or of one lung, says nothing on where lesions of the lungs may lie."""
    away = np.zeros((H, W), np.bool_)
    away[1:4, 38:42] = True
    for number, name in enumerate(("heart", "right_lung")):
        anatomy = {name: line()["anatomy"][name]}
        case = read(line(case_id=str(number), finding="edema", anatomy=anatomy, mask=masks.to_rle(away)))[0]
        assert cases.load_case(case).lesion is not None


def test_a_lesion_that_vanishes_at_the_working_size_is_named(folder: Path, read: Read) -> None:
    large = np.add.outer(np.arange(2048), np.arange(4096)).astype(np.uint8)
    save(folder / "large.png", large)
    speck = np.zeros(large.shape, np.bool_)
    speck[100, 100] = True
    with pytest.raises(InputError, match="it vanishes when the picture is resized to 1024 px"):
        cases.load_case(read(line(image="large.png", anatomy={}, mask=masks.to_rle(speck)))[0])


def test_a_written_manifest_reads_back(folder: Path) -> None:
    assert cases.write_manifest(folder / "new.jsonl", [line(), absent(case_id="2", finding="edema")]) == 2
    read = cases.read_manifest(folder / "new.jsonl")
    assert [(case.case_id, case.line, case.mask) for case in read] == [
        ("one", 1, folder / "m" / "effusion.png"), ("2", 2, None),
    ]  # fmt: skip


@pytest.mark.parametrize("records", [[], [line(), line()], [line(), {"case_id": "2"}], [line(finding="flu")]])
def test_a_wrong_record_leaves_the_old_manifest_and_no_scrap(tmp_path: Path, records: list[Any]) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("old")
    with pytest.raises(InputError, match=r"cases\.jsonl"):
        cases.write_manifest(path, records)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_into_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; make it first"):
        cases.write_manifest(tmp_path / "x" / "cases.jsonl", [line()])


def test_a_file_that_the_records_come_from_is_not_taken_for_the_manifest(tmp_path: Path) -> None:
    def records() -> Iterator[dict[str, Any]]:
        (tmp_path / "there").iterdir().__next__()
        yield line()

    with pytest.raises(InputError, match=r"there: cannot be used \(No such file"):
        cases.write_manifest(tmp_path / "cases.jsonl", records())
    assert list(tmp_path.iterdir()) == []


def test_relatives_are_known_findings_and_mutual() -> None:
    for finding in findings.FINDINGS.values():
        for name in finding.relatives:
            assert finding.name in findings.FINDINGS[name].relatives


def half_lungs(right: tuple[int, int], left: tuple[int, int], top: int = 20) -> list[str]:
    """Doubts about two boxes of lungs, 60 px high, from these columns to these in a picture of 100 x 100."""
    masks = [np.zeros((100, 100), bool) for _ in range(2)]
    for mask, (begin, end) in zip(masks, (right, left), strict=True):
        mask[top : top + 60, begin:end] = True
    return doubts(*masks)


@pytest.mark.parametrize(
    ("right", "left", "top", "said"),
    [
        ((10, 40), (55, 90), 20, []),
        ((10, 52), (50, 90), 20, ["the lungs overlap by 5% of the smaller one"]),
        ((10, 50), (75, 90), 20, ["the left lung has 38% of the area of the right one"]),
        ((10, 40), (60, 60), 20, []),
        ((0, 40), (55, 90), 20, ["the right lung is cut off by the picture's edge"]),
        ((10, 40), (55, 90), 40, ["the right lung is cut off by the picture's edge",
                                  "the left lung is cut off by the picture's edge"]),
    ],
)  # fmt: skip
def test_lungs_that_look_wrong_are_told_of(
    right: tuple[int, int], left: tuple[int, int], top: int, said: list[str]
) -> None:
    assert half_lungs(right, left, top) == said


@pytest.mark.parametrize(
    ("view", "lateral"), [("LATERAL", True), ("ll", True), ("PA", False), ("LLD", False), (None, False)]
)
def test_a_lateral_view_is_known_by_its_name(view: str | None, lateral: bool) -> None:
    assert is_lateral(view) == lateral
