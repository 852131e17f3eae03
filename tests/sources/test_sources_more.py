"""``chexqa ingest`` of ChestX-Det and MIMIC-ILS."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_files import (
    BOW_TIE,
    BOX,
    LEFT,
    NO_NEGATIVES,
    OTHER,
    RAMP,
    RIGHT,
    RUNS,
    SIDE,
    Cli,
    check_anatomy,
    entry,
    ingest_det,
    load_all,
    peak,
    save,
    write_chexmask,
    write_det,
)
from source_folders import DICOM, pair, study

from chexqa import question_banks
from chexqa.contract import cases, findings
from chexqa.files.errors import InputError
from chexqa.imaging import mask_source, masks
from chexqa.sources import chestx_det, mimic_ils


def test_the_instances_of_a_finding_are_one_case_and_a_radiograph_without_any_is_normal(det: Path, cli: Cli) -> None:
    code, out, err = ingest_det(cli, det)
    assert (code, err) == (0, "")
    assert "wrote 9 cases (2 present, 7 absent) of 2 radiographs" in out
    effusion, thickening, *absent = load_all(det)
    assert (effusion.case.case_id, thickening.case.finding) == ("test/1/effusion", "pleural_thickening")
    assert np.array_equal(effusion.source_mask, masks.from_polygons([BOX, OTHER], (SIDE, SIDE), "both"))
    assert np.array_equal(thickening.source_mask, masks.from_polygons([OTHER], (SIDE, SIDE), "one"))
    assert {(one.case.access, one.case.source) for one in absent} == {("open", "ChestX-Det")}
    assert {(one.case.image.name, one.case.negative_kind) for one in absent} == {("2.png", "normal")}
    assert [one.case.finding for one in absent] == [
        "atelectasis", "cardiomegaly", "consolidation", "edema", "effusion", "opacity", "pneumonia",
    ]  # fmt: skip


def test_the_findings_of_normal_radiographs_can_be_named(det: Path, cli: Cli) -> None:
    assert ingest_det(cli, det, "--findings", "nodule, mass,nodule", "--access", "credentialed")[0] == 0
    absent = [case for case in cases.read_manifest(det) if not case.present]
    assert [(case.finding, case.access) for case in absent] == [("nodule", "credentialed"), ("mass", "credentialed")]
    (det / "cases.jsonl").unlink()
    code, _, err = ingest_det(cli, det, "--findings", "nodul")
    assert (code, "--findings: there is no finding 'nodul' (did you mean 'nodule'?)" in err) == (2, True)


def test_pictures_are_found_in_any_of_the_usual_folders_and_both_splits_are_read(det: Path, cli: Cli) -> None:
    for place in ("3.png", "train/4.png", "train_data/5.png"):
        save(det.parent / "disk" / place, RAMP)
    names = ("3.png", "4.png", "5.png", "6.png")
    (det / "ChestX_Det_train.json").write_text(json.dumps([entry(name, Mass=[BOX]) for name in names]))
    code, out, err = ingest_det(cli, det, "--images", det.parent / "disk")
    assert (code, "wrote 3 cases" in out) == (0, True)
    assert "3 radiographs not found and left out, the first is 6.png" in err
    assert len(load_all(det, det.parent / "disk")) == 3


FAULTS: list[tuple[Any, str]] = [
    (entry("1.png", Efusion=[BOX]), "1.png: 'Efusion' is not one of ChestX-Det's findings (did you mean 'Effusion'?)"),
    (entry("1.png", Effusion=[[[1, 1], [1500, 1], [5, 5]]]), "1.png, Effusion: polygon 1 has the point (1500, 1)"),
    (entry("1.png", Effusion=[[[1, 1], [5, 5]]]), "1.png, Effusion: a polygon must be a list of three or more [x, y]"),
    (entry("1.png", Effusion=["abc"]), "a polygon must be a list of three or more [x, y]"),
    (entry("1.png", Effusion=[[[1, 1], [2, float("1e999")], [3, 3]]]), "has the point (2, inf)"),
    ({"file_name": "1.png", "syms": ["Mass"], "polygons": []}, "'syms' and 'polygons' must be lists of the same"),
    ({"file_name": "1.png", "syms": [["Mass"]], "polygons": [BOX]}, "'['Mass']' is not one of"),
    ({"syms": []}, "entry 1: has no 'file_name'"),
    (entry("../1.png", Mass=[BOX]), "entry 1: 'file_name' must be a picture's name without a folder, not '../1.png'"),
    ("text", "entry 1: has no 'file_name'"),
    (entry(""), "entry 1: has no 'file_name'"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "words"), FAULTS, ids=[words[:40] for _, words in FAULTS])
def test_a_damaged_entry_is_named_and_the_rest_goes_on(det: Path, cli: Cli, bad: Any, words: str) -> None:
    text = json.dumps([bad, entry("2.png", Nodule=[BOX])]).replace("Infinity", "1e999")
    (det / "ChestX_Det_test.json").write_text(text)
    code, out, err = ingest_det(cli, det)
    assert (code, "wrote 1 case (1 present, 0 absent)" in out) == (0, True)
    assert words in err
    assert "left out: " in err
    assert "ChestX_Det_test.json" in err


def test_a_name_longer_than_files_have_is_not_there(det: Path, cli: Cli) -> None:
    write_det(det, entry("a" * 300 + ".png", Mass=[BOX]), entry("2.png", Nodule=[BOX]))
    (det / "map.csv").write_text(f"image,key\n2.png,{'k' * 300}\n")
    code, out, err = ingest_det(cli, det, "--anatomy", det, "--key-map", det / "map.csv")
    assert (code, "wrote 1 case" in out) == (0, True)
    assert "1 radiograph not found and left out, the first is aaa" in err
    assert "1 radiograph without anatomy masks, the first is 2" in err


def test_a_radiograph_given_twice_is_taken_once(det: Path, cli: Cli) -> None:
    write_det(det, entry("1.png", Mass=[BOX]), entry("1.png", Nodule=[BOX]))
    code, out, err = ingest_det(cli, det)
    assert (code, "wrote 1 case" in out) == (0, True)
    assert "entry 2: the picture '1.png' is already in entry 1, and only that entry is used" in err


def test_a_finding_of_two_pictures_with_one_stem_is_taken_of_the_first(det: Path, cli: Cli) -> None:
    save(det / "test_data" / "1.jpg", RAMP)
    save(det / "test_data" / "2.jpg", RAMP)
    write_det(det, entry("1.png", Mass=[BOX]), entry("1.jpg", Mass=[BOX], Nodule=[BOX]), entry("2.png"), entry("2.jpg"))
    code, _, err = ingest_det(cli, det, "--findings", "mass")
    assert code == 0
    assert "ChestX_Det_test.json, 1.jpg: the case 'test/1/mass' occurs twice; only the first case is used" in err
    read = {case.case_id: case.image.name for case in cases.read_manifest(det)}
    assert read == {"test/1/mass": "1.png", "test/1/nodule": "1.jpg", "test/2/mass": "2.png"}


def test_where_no_picture_is_found_the_error_says_so(det: Path, ils: Path, cli: Cli) -> None:
    (det.parent / "empty").mkdir()
    code, _, err = ingest_det(cli, det, "--images", det.parent / "empty")
    assert code == 2
    assert "there is no case to write; 2 radiographs not found and left out, the first is 1.png." in err
    code, _, err = ingest_ils(cli, ils, {"train": {"s1": study([pair("effusion")], [], image_path="none.jpg")}})
    assert (code, "1 radiograph not found and left out, the first is none.jpg." in err) == (2, True)


def test_where_nothing_is_left_the_first_fault_is_the_error(det: Path, cli: Cli) -> None:
    write_det(det, entry("1.png", Efusion=[BOX]))
    code, out, err = ingest_det(cli, det)
    assert (code, out) == (2, "")
    assert "no case to write" in err
    assert "'Efusion' is not one of ChestX-Det's findings" in err
    assert not (det / "cases.jsonl").exists()


def test_many_faults_are_counted_after_the_first_ten(det: Path, cli: Cli) -> None:
    write_det(det, *[entry(f"{number}.png", Bad=[BOX]) for number in range(25)], entry("2.png", Mass=[BOX]))
    err = ingest_det(cli, det)[2]
    assert err.count("'Bad' is not one of ChestX-Det's findings") == 10
    assert "left out as well, but not listed here: 15 more entries." in err


def test_an_outline_that_crosses_itself_is_filled_even_odd_and_named(det: Path, cli: Cli) -> None:
    write_det(det, entry("1.png", Mass=[BOW_TIE]))
    code, _, err = ingest_det(cli, det)
    assert code == 0
    assert "1 outline with a line that crosses itself, filled by the even-odd rule, the first is" in err
    mask = load_all(det)[0].source_mask
    assert mask is not None
    assert mask[300, 110]
    assert mask[300, 290]
    assert not mask[210, 200]


def test_outlines_for_1024_px_fit_a_smaller_picture_of_the_same_proportions_only(det: Path, cli: Cli) -> None:
    whole = det / "test_data" / "1.png"
    save(whole, RAMP)
    assert ingest_det(cli, det)[0] == 0
    before = cases.load_case(cases.read_manifest(det)[0]).source_mask
    save(whole, RAMP[::2, ::2])
    after = cases.load_case(cases.read_manifest(det)[0]).source_mask
    assert before is not None
    assert after is not None
    assert after.shape == (512, 512)
    assert abs(after.mean() - before.mean()) < 0.01
    save(whole, RAMP[::2])
    with pytest.raises(InputError, match="the run lengths are for 1024 x 1024 px and its image 1024 x 512 px"):
        cases.load_case(cases.read_manifest(det)[0])


@pytest.mark.parametrize("text", ["", "[", '{"a": 1}', '[{"file_name": NaN}]', "\xff"])
def test_a_file_that_is_no_list_of_radiographs_is_refused(det: Path, cli: Cli, text: str) -> None:
    (det / "ChestX_Det_test.json").write_text(text, encoding="latin-1")
    code, out, err = ingest_det(cli, det)
    assert (code, out, "ChestX_Det_test.json" in err) == (2, "", True)


def test_a_folder_without_the_data_sets_file_is_named(tmp_path: Path, cli: Cli) -> None:
    assert "contains neither ChestX_Det_train.json nor" in cli("ingest", "chestx-det", tmp_path, "-o", tmp_path)[2]
    code, _, err = cli("ingest", "mimic-ils", tmp_path, "--images", tmp_path, "-o", tmp_path)
    assert (code, "contains no mimic_ils_instruction_answer.json" in err) == (2, True)


def test_every_finding_of_the_data_sets_is_known_and_has_a_name() -> None:
    names = question_banks.load("en")["findings"]
    for finding in [*chestx_det.FINDINGS.values(), *findings.FINDINGS]:
        assert findings.find(finding, "here").name in names


def test_the_real_chestx_det_file_becomes_cases(real_data: Path, tmp_path: Path, cli: Cli) -> None:
    entries = json.loads((real_data / "chestx_det" / "ChestX_Det_test.json").read_text())
    save(tmp_path / "blank.png", RAMP)
    (tmp_path / "test_data").mkdir()
    for radiograph in entries:
        os.link(tmp_path / "blank.png", tmp_path / "test_data" / radiograph["file_name"])
    command = ("ingest", "chestx-det", real_data / "chestx_det", "--images", tmp_path, "-o", tmp_path)
    code, out, err = cli(*command)
    present = sum(len(set(radiograph["syms"])) for radiograph in entries)
    normal = sum(not radiograph["syms"] for radiograph in entries)
    assert (code, normal) == (0, 64)
    assert f"wrote {present + 7 * normal:,} cases ({present:,} present, 448 absent) of 553 radiographs" in out
    assert "left out" not in err
    read = cases.read_manifest(tmp_path)
    assert {case.finding for case in read if case.present} == set(chestx_det.FINDINGS.values())
    for case in read[:: len(read) // 4]:
        assert cases.load_case(case).working.shape == (SIDE, SIDE)


# MIMIC-ILS, on files made here


@pytest.fixture
def ils(tmp_path: Path) -> Path:
    """MIMIC-ILS's layout with one picture and masks for what ``pair`` names."""
    save(tmp_path / "files/p10/p10000001/s1/x.jpg", RAMP)
    for name in ("effusion_global", "effusion_basic", "edema_basic"):
        save(tmp_path / "ils/lesion_mask/s1" / f"s1_{name}.png", RIGHT if name.endswith("global") else LEFT)
    return tmp_path


def ingest_ils(cli: Cli, data: Path, splits: Any, *more: object) -> tuple[int, str, str]:
    (data / "ils" / mimic_ils.FILE).write_text(json.dumps(splits))
    return cli("ingest", "mimic-ils", data / "ils", "--images", data / "files", "-o", data, *more)


def test_global_masks_go_before_basic_ones_and_global_negatives_are_absent(ils: Path, cli: Cli) -> None:
    positive = [
        pair("effusion", "basic"), pair("effusion", "global"), pair("edema", "lesion_inference", "no/such.png"),
        pair("edema", "basic"), pair("edema", "basic", "second.png"), pair("opacity", "lesion_inference"),
    ]  # fmt: skip
    negative = [pair("pneumonia", mask=None), pair("pneumonia", mask=None), pair("atelectasis", "basic", None)]
    table = write_chexmask(ils / "m.csv", "dicom_id", {DICOM: RUNS})
    code, out, err = ingest_ils(cli, ils, {"train": {}, "test": {"s1": study(positive, negative)}}, "--anatomy", table)
    assert (code, err) == (0, "")
    assert "wrote 3 cases (2 present, 1 absent) of 1 radiograph" in out
    effusion, edema, pneumonia = load_all(ils)
    assert np.array_equal(effusion.source_mask, RIGHT)
    assert np.array_equal(edema.source_mask, LEFT)
    check_anatomy(pneumonia)
    case = pneumonia.case
    assert (case.case_id, case.finding, case.negative_kind) == ("s1/pneumonia", "pneumonia", "other")
    assert (case.patient_id, case.study_id, case.access, case.source) == (
        "p10000001",
        "s1",
        "credentialed",
        "MIMIC-ILS",
    )


def test_flat_pictures_and_predicted_masks_of_half_the_size_give_items(ils: Path, cli: Cli) -> None:
    shutil.rmtree(ils / "files")
    shutil.rmtree(ils / "ils" / "lesion_mask")
    save(ils / "files" / f"{DICOM}.png", RAMP)
    save(ils / "predicted" / "effusion" / "12_3" / "pred_mask.png", RIGHT[::2, ::2])
    shown = {**pair("effusion"), "pair_id": "12_3"}
    code, _, err = ingest_ils(cli, ils, {"val": {"s1": study([shown], [])}}, "--masks", ils / "predicted")
    assert (code, err) == (0, NO_NEGATIVES)
    (loaded,) = load_all(ils)
    assert loaded.source_mask is not None
    assert loaded.source_mask.shape == RAMP.shape
    assert np.mean(loaded.source_mask != (RIGHT > 0)) < 0.01


def test_a_square_mask_of_a_picture_that_is_not_square_was_drawn_on_it_stretched(ils: Path, cli: Cli) -> None:
    wide = RAMP[: len(RAMP) // 2]
    (picture,) = (ils / "files").rglob("*.*")
    save(picture, wide)
    assert ingest_ils(cli, ils, {"val": {"s1": study([pair("effusion")], [])}})[0] == 0
    (case,) = cases.read_manifest(ils)
    assert case.mask_frame == "stretched"
    loaded = cases.load_case(case)
    assert loaded.source_mask is not None
    assert loaded.source_mask.shape == wide.shape


def test_lungs_of_two_sources_are_where_both_have_them(ils: Path, cli: Cli) -> None:
    table = write_chexmask(ils / "m.csv", "dicom_id", {DICOM: RUNS})
    save(ils / "lungs" / DICOM / "right_lung.png", RIGHT)
    code, _, err = ingest_ils(
        cli, ils, {"val": {"s1": study([pair("effusion")], [])}}, "--anatomy", table, "--anatomy", ils / "lungs"
    )
    assert (code, err) == (0, NO_NEGATIVES)
    (case,) = cases.read_manifest(ils)
    lung = case.anatomy["right_lung"]
    assert isinstance(lung, dict)
    parts = [mask_source.read(part, RAMP.shape, "a part") for part in lung["all_of"]]
    assert np.array_equal(mask_source.read(lung, RAMP.shape, "the lung"), parts[0] & parts[1])
    assert "all_of" not in case.anatomy["left_lung"], "only one source has it"


def test_a_study_without_positive_pairs_is_normal(ils: Path, cli: Cli) -> None:
    studies = {"s1": study([], [pair("edema", mask=None)])}
    assert ingest_ils(cli, ils, {"val": studies})[0] == 0
    assert [case.negative_kind for case in cases.read_manifest(ils)] == ["normal"]


def test_missing_pictures_and_masks_are_counted(ils: Path, cli: Cli) -> None:
    studies = {
        "s1": study([pair("effusion"), pair("edema", mask="s1/none.png")], []),
        "s2": study([pair("effusion")], [], image_path="p10/none.jpg"),
    }
    code, out, err = ingest_ils(cli, ils, {"train": studies})
    assert (code, "wrote 1 case" in out) == (0, True)
    assert "1 radiograph not found and left out, the first is p10/none.jpg" in err
    assert "1 mask not found and its case left out, the first is s1/none.png" in err


BAD_STUDIES: list[tuple[Any, str]] = [
    (study([pair("efusion")], []), "'efusion' is not one of MIMIC-ILS's findings (did you mean 'effusion'?)"),
    (study([pair("effusion", mask=None)], []), "s0, s1_effusion: has no 'seg_mask_path'"),
    (study([], [], image_path=None), "s0: has no 'image_path'"),
    (study([], [], dicom_id=7), "s0: has no 'dicom_id'"),
    (study([], [], instruction_answer_pairs=[]), "s0: has no list 'positive_pairs' in 'instruction_answer_pairs'"),
    (study([], [], image_path="../files/p10/p10000001/s1/x.jpg"), ""),
    ("text", "s0: has no 'image_path'"),
    (study([pair("effusion")], [], subject_id=[7]), "s0: 'subject_id' is [7], neither text nor a whole number"),
    (study([pair("effusion")], [], image_path="a" * 300), "1 radiograph not found and left out, the first is aaa"),
    (study([pair("effusion", mask="a" * 300)], []), "1 mask not found and its case left out, the first is aaa"),
]


@pytest.mark.parametrize(("bad", "words"), BAD_STUDIES, ids=[words[:30] for _, words in BAD_STUDIES])
def test_a_damaged_study_is_named_and_the_rest_goes_on(ils: Path, cli: Cli, bad: Any, words: str) -> None:
    code, out, err = ingest_ils(cli, ils, {"train": {"s0": bad, "s1": study([pair("effusion")], [])}})
    assert (code, "wrote 1 case" in out) == (0, True)
    assert words in err


def test_a_patient_may_be_a_whole_number(ils: Path, cli: Cli) -> None:
    studies = {"s1": study([pair("effusion")], [], subject_id=10000032)}
    assert ingest_ils(cli, ils, {"train": studies})[0] == 0
    assert cases.read_manifest(ils)[0].patient_id == "10000032"


def test_a_study_given_twice_is_taken_once_and_one_without_a_name_is_left_out(ils: Path, cli: Cli) -> None:
    one = study([pair("effusion")], [pair("edema", mask=None)])
    code, out, err = ingest_ils(cli, ils, {"train": {"s1": one, "": one}, "test": {"s1": one}})
    assert (code, "wrote 2 cases (1 present, 1 absent)" in out) == (0, True)
    assert f"{mimic_ils.FILE}, s1: the case 's1/effusion' occurs twice; only the first case is used" in err
    assert f"{mimic_ils.FILE}, train: the name of a study is empty" in err


@pytest.mark.parametrize("dicom", ["..", "a" * 300])
def test_a_picture_s_name_that_no_file_has_has_no_anatomy(ils: Path, cli: Cli, dicom: str) -> None:
    studies = {"s1": study([pair("effusion")], [], dicom_id=dicom)}
    code, _, err = ingest_ils(cli, ils, {"train": studies}, "--anatomy", ils / "files")
    assert (code, "1 radiograph without anatomy masks" in err) == (0, True)


def test_a_finding_that_is_both_positive_and_globally_negative_is_not_absent(ils: Path, cli: Cli) -> None:
    studies = {"s1": study([pair("effusion"), pair("edema", "lesion_inference")], [pair("edema", mask=None)])}
    code, out, err = ingest_ils(cli, ils, {"train": studies})
    assert (code, "wrote 1 case (1 present, 0 absent)" in out) == (0, True)
    assert "'edema' has a positive pair and a negative global pair" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file ends too early"),
        ("[1]", "an object is expected, not '['"),
        ('{"train": [1]}', "near 'train': an object is expected, not '['"),
        ('{"train": {"s1": {"a": 1}, "s2": {"a', "near 's2': not valid JSON"),
        ('{"train": {"s1": {"a": 1} "s2": 1}}', "near 's1': a comma or the end of the object is expected"),
        ('{"train": {"s1": {"a": 1}', "near 's1': the file ends too early"),
        ('{"train": {1: 2}}', "a key is not text"),
        ('{"train": {}} x', "more follows after the end"),
        ('{"train": {"s\\ud800": {}}}', "near 'train': contains \\ud800, an unpaired surrogate"),
        ('{"train": {"s1": {"a": "\\udc00"}}}', "near 's1': contains \\udc00, an unpaired surrogate"),
    ],
)
def test_damaged_json_is_named_with_the_last_key(ils: Path, cli: Cli, text: str, words: str) -> None:
    (ils / "ils" / mimic_ils.FILE).write_text(text)
    code, out, err = cli("ingest", "mimic-ils", ils / "ils", "--images", ils / "files", "-o", ils)
    assert (code, out) == (2, "")
    assert words in err
    assert mimic_ils.FILE in err
    assert not (ils / "cases.jsonl").exists()


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_a_stream_gives_what_a_whole_file_gives_wherever_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    data = {
        "a": {"1": {"x": [1, -2.5e3, None, '}"]{\\ü']}, "2": 12345, "3": "te xt"},
        "b": {},
        "ç": {"4": [[]], "5": 0},
    }
    for indent in (None, 2):
        (tmp_path / "x.json").write_text(json.dumps(data, indent=indent, ensure_ascii=False), encoding="utf-8")
        monkeypatch.setattr(mimic_ils, "_CHUNK", chunk)
        flat = [(outer, inner, value) for outer, members in data.items() for inner, value in members.items()]
        assert list(mimic_ils.grandchildren(tmp_path / "x.json")) == flat


@pytest.mark.long
def test_a_large_json_file_is_never_in_memory(tmp_path: Path) -> None:
    pairs = [pair("edema", mask=None, instruction="Is there any edema to be seen?")] * 20
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"train": {f"s{number}": study([], pairs) for number in range(6_000)}}))
    assert path.stat().st_size > 16_000_000
    assert peak(lambda: sum(1 for _ in mimic_ils.grandchildren(path))) < 8_000_000
