"""The contact sheet: it names a case in every way, shows it, and says what is missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grades import rows, said, study
from grades import run as answers_of
from PIL import Image, ImageDraw

from chexqa.cli.contact_sheet import GAP, LINE, ZOOM, contact_sheet, find_case
from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.eval.gallery import files as gallery
from chexqa.eval.tables import asked_items
from chexqa.files.errors import InputError
from chexqa.imaging.masks import to_rle
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("contact_sheet")


def test_a_case_is_found_by_its_id_its_sources_id_and_its_items(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    item = next(item for item in bench.items if item.kind == "location")
    assert bench.cases is not None
    source = bench.cases[item.case_id].source_case_id
    assert find_case(bench, item.item_id) == find_case(bench, item.case_id) == find_case(bench, source) == item.case_id


def test_a_case_of_the_key_without_items_is_refused(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    case_id = find_case(bench, "a")
    left = tuple(item for item in bench.items if item.case_id != case_id)
    with pytest.raises(InputError, match=f"the case '{case_id}' is in the key but has no items"):
        contact_sheet(replace(bench, items=left), case_id)


def test_a_longer_path_makes_a_longer_sheet(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    sheets = {name: contact_sheet(bench, find_case(bench, name)) for name in ("a", "c")}
    assert sheets["c"].height > sheets["a"].height > 100
    assert len(np.unique(np.asarray(sheets["c"], np.int64) @ [1 << 16, 1 << 8, 1])) > 50, "colours"


def test_the_command_writes_a_picture_and_an_unknown_name_is_told(
    tiny_benchmark: Path, tmp_path: Path, cli: Any
) -> None:
    code, out, _ = cli("show", tiny_benchmark, "b", "-o", tmp_path / "b.png")
    assert code == 0
    assert "b.png" in out
    assert Image.open(tmp_path / "b.png").width == 1800
    code, _, err = cli("show", tiny_benchmark, "nobody", "-o", tmp_path / "n.png")
    assert code == 2
    assert "nobody" in err
    assert not (tmp_path / "n.png").exists()


def test_without_a_name_items_that_can_be_shown_are_named(tiny_benchmark: Path, tmp_path: Path, cli: Any) -> None:
    code, _, err = cli("show", tiny_benchmark)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.endswith(f"; all ids are in {tiny_benchmark / 'items.jsonl'}.\n")
    bench = benchmark.load(tiny_benchmark)
    named = err.partition("such as ")[2].partition(";")[0].split(", ")
    assert len({find_case(bench, name) for name in named}) == 3
    (tmp_path / "keyless").mkdir()
    for name in ("benchmark.json", "items.jsonl", "skipped.jsonl", "images"):
        (tmp_path / "keyless" / name).symlink_to(tiny_benchmark / name)
    assert "key" in cli("show", tmp_path / "keyless")[2]


def test_only_where_regions_are_asked_about_are_the_lungs_grown_by_the_lesion(handmade: Any) -> None:
    """A large heart between the lungs is no opaque lung; an effusion that reaches out of one is."""
    right, left, lesion = (np.zeros((64, 64), bool) for _ in range(3))
    right[8:56, 4:24] = left[8:56, 40:60] = lesion[30:50, 20:44] = True
    stored = {name: to_rle(mask) for name, mask in (("right_lung", right), ("left_lung", left), ("lesion", lesion))}
    for finding in ("effusion", "cardiomegaly", "added_elsewhere"):
        handmade.case(finding, finding, "revision_free", measures={"masks": stored})
    bench = benchmark.load(handmade.write())

    def hue(finding: str, x: int, y: int) -> int:
        """How far a pixel of the anatomy's picture is from grey: nothing is drawn there unless it is lung."""
        sheet = np.asarray(contact_sheet(bench, find_case(bench, finding)), int)
        top = 3 * LINE + 2 * GAP  # the header: case, source, and that all is drawn
        return int(np.ptp(sheet[top + GAP + y, GAP + x]))

    assert hue("effusion", 32, 40) > 10
    assert hue("cardiomegaly", 32, 40) == 0
    assert hue("added_elsewhere", 32, 40) > 10, "a finding that this chexqa does not know is shown, too"
    assert hue("cardiomegaly", 10, 40) > 10, "the lung is shown all the same"


def test_the_most_frequent_answer_is_that_of_other_patients_as_in_the_tables(
    handmade: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a and b, the others' answers are equally frequent; for c, theirs is wrong. Of all three, two have it."""
    case_id, *_ = [
        handmade.case(name, "edema", "revision_free", severity=(n,)) for name, n in zip("abc", (1, 1, 2), strict=True)
    ]
    bench = benchmark.load(handmade.write())
    drawn: list[str] = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda _, at, text, **style: drawn.append(text))
    contact_sheet(bench, case_id)
    severity = drawn[drawn.index("severity") :]
    assert next(line for line in severity if "chance" in line) == "chance 0.250, most frequent answer 0.33"
    made = study(bench, [answers_of(said(bench))])
    assert rows(asked_items.dataset_summary(made), "kind")["severity"]["prior"] == pytest.approx(1 / 3)
    shown = gallery.unpacked(dict(gallery.files(made.graded))["gallery/cases-000.js"])[case_id]["items"]
    assert shown[f"{case_id}/severity"]["frequent"] == pytest.approx(1 / 3, abs=1e-3)


def test_a_patient_who_is_not_known_is_not_named(handmade: Any) -> None:
    handmade.case("a", "effusion", "lesion_free")
    handmade.cases[0] = replace(handmade.cases[0], patient_id=None)
    handmade.case("b", "effusion", "lesion_free", patient="None")
    bench = benchmark.load(handmade.write())
    unnamed, named = (header(contact_sheet(bench, find_case(bench, name))) for name in ("a", "b"))
    assert unnamed < named, "its line is shorter"


def header(sheet: Image.Image) -> int:
    """The last column with ink in the header's second line, which is grey on white."""
    line = np.asarray(sheet.convert("L"))[GAP + LINE : GAP + 2 * LINE]
    return int(np.flatnonzero((line < 200).any(axis=0))[-1])


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> benchmark.Benchmark:
    """The benchmark of one phantom with an effusion, whose outline was altered."""
    folder = tmp_path_factory.mktemp("drawn")
    write_cases(folder / "cases", 1, seed=4, size=256, findings=("effusion",))
    assert run(["generate", str(folder / "cases"), "--recipe", "chexpercept", "-o", str(folder / "bench")]) == 0
    return benchmark.load(folder / "bench")


@pytest.mark.long
def test_every_place_that_differs_is_shown_enlarged_with_the_approved_outline(drawn: benchmark.Benchmark) -> None:
    answers, cases = drawn.key("a test")
    (case_id,) = cases
    edits = answers[f"{case_id}/revision_result"].evidence["edits"]
    sheet = contact_sheet(drawn, case_id)
    without = {
        item_id: replace(answer, evidence={**answer.evidence, "edits": [{**edit, "point_xy": []} for edit in edits]})
        if "edits" in answer.evidence
        else answer
        for item_id, answer in answers.items()
    }
    plain = contact_sheet(replace(drawn, answers=without), case_id)
    row = ZOOM + 2 * LINE + 3 * GAP
    assert edits
    assert sheet.height - plain.height == len(edits) * row
    assert np.array_equal(np.asarray(sheet)[: plain.height], np.asarray(plain)), "nothing else changes"
    for number in range(len(edits)):
        part = np.asarray(sheet, int)[plain.height + number * row :][:row]
        red = (part[..., 0] > 180) & (part[..., 1] < 120) & (part[..., 2] < 120)
        crops = [slice(GAP + place * (ZOOM + GAP), GAP + place * (ZOOM + GAP) + ZOOM) for place in range(6)]
        assert all(red[:, crop].any() for crop in (crops[0], *crops[2:])), "the approved outline"
        shown = [part[GAP + LINE : GAP + LINE + ZOOM, crop] for crop in crops]
        having = [number in own for own in answers[f"{case_id}/revision_result"].evidence["errors"]]
        if edits[number]["true"] and not all(having):
            mended = shown[2 + having.index(False)]
            assert np.abs(shown[0] - mended).max() > 60, "the outline shown differs there from one that was mended"


def test_the_sheet_names_the_model_of_predicted_lungs_and_what_looks_wrong(drawn: benchmark.Benchmark) -> None:
    assert drawn.cases is not None
    ((case_id, case),) = drawn.cases.items()
    measures = {**case.measures, "predicted": {"right_lung": "net.onnx"}, "lung_doubts": ["the lungs overlap by 4 %"]}
    told = replace(drawn, cases={case_id: replace(case, measures=measures)})
    top = 3 * LINE + 3 * GAP
    ink = [(np.asarray(contact_sheet(one, case_id).convert("L"))[top : top + 6 * LINE, 640:] < 100).sum()
           for one in (drawn, told)]  # fmt: skip
    assert ink[1] > ink[0] + 500
