"""The coordinator's whole round with six readers who type into a real LibreOffice, in small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from review_round import Readers, check_figures, review
from review_sheets import write_small

from chexqa.contract import benchmark
from chexqa.review.resolve.new_version import MASK_REVIEW

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.xdist_group("sheets")]
Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.long
def test_six_readers_who_type_into_libreoffice_give_the_figures_of_their_answers(
    tmp_path: Path, cli: Cli, soffice: str
) -> None:
    """`benchmarks/review/whole_round.py` is the same with 210 items of phantoms, and a mask redrawn and carried."""
    bench = benchmark.load(write_small(tmp_path / "bench"))
    twice = next(item for item in bench.items if item.kind == "revision_result")
    skills = {"anna": 0.95, "ben": 0.9, "carla": 0.8, "dora": 0.7, "emil": 0.6, "fred": 0.5}
    readers = Readers(bench, skills, frozenset({f"i-{twice.item_id}"}))
    sheets = tmp_path / "sheets"
    review(bench, readers, sheets, cli, tmp_path / "office", "--overlap", 1, "--overlap-readers", 6, "--planted", 0.1)
    figures = check_figures(bench, readers, sheets, cli)
    assert figures["planted"] > 0
    code, _, err = cli("review", "apply", bench.folder, sheets, "-o", tmp_path / "next")
    assert code == 0, err
    assert twice.case_id in (tmp_path / "next" / MASK_REVIEW).read_text()
