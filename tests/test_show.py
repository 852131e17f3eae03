"""The contact sheet: it names a case in every way, shows it, and says what is missing."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from chexqa import benchmark
from chexqa.show import contact_sheet, find_case


def test_a_case_is_found_by_its_id_its_sources_id_and_its_items(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    item = next(item for item in bench.items if item.kind == "location")
    assert bench.cases is not None
    source = bench.cases[item.case_id].source_case_id
    assert find_case(bench, item.item_id) == find_case(bench, item.case_id) == find_case(bench, source) == item.case_id


def test_a_longer_path_makes_a_longer_sheet(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    sheets = {name: contact_sheet(bench, find_case(bench, name)) for name in ("a", "c")}
    assert sheets["c"].height > sheets["a"].height > 100
    assert len(np.unique(np.asarray(sheets["c"]).reshape(-1, 3), axis=0)) > 50


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
