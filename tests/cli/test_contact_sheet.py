"""The contact sheet: it names a case in every way, shows it, and says what is missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa.cli.contact_sheet import GAP, LINE, contact_sheet, find_case
from chexqa.contract import benchmark
from chexqa.files.errors import InputError
from chexqa.imaging.masks import to_rle


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


def test_only_where_regions_are_asked_about_are_the_lungs_grown_by_the_lesion(handmade: Any) -> None:
    """A large heart between the lungs is no opaque lung; an effusion that reaches out of one is."""
    right, left, lesion = (np.zeros((64, 64), bool) for _ in range(3))
    right[8:56, 4:24] = left[8:56, 40:60] = lesion[30:50, 20:44] = True
    stored = {name: to_rle(mask) for name, mask in (("right_lung", right), ("left_lung", left), ("lesion", lesion))}
    for finding in ("effusion", "cardiomegaly"):
        handmade.case(finding, finding, "revision_free", measures={"masks": stored})
    bench = benchmark.load(handmade.write())

    def hue(finding: str, x: int, y: int) -> int:
        """How far a pixel of the anatomy's picture is from grey: nothing is drawn there unless it is lung."""
        sheet = np.asarray(contact_sheet(bench, find_case(bench, finding)), int)
        top = 3 * LINE + 2 * GAP  # the header: case, source, and that all is drawn
        return int(np.ptp(sheet[top + GAP + y, GAP + x]))

    assert hue("effusion", 32, 40) > 10
    assert hue("cardiomegaly", 32, 40) == 0
    assert hue("cardiomegaly", 10, 40) > 10, "the lung is shown all the same"


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
