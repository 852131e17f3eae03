"""The list of mistakes that ``make mutants`` tries one by one fits today's code and tests."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_mistake_of_the_list_can_be_made_in_one_place_and_has_its_tests() -> None:
    mutants = runpy.run_path(str(ROOT / "benchmarks" / "mutants" / "table.py"))["MUTANTS"]
    assert len(mutants) >= 40
    for mutant in mutants:
        assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1, mutant.why
        assert mutant.new != mutant.old
        assert all((ROOT / name).is_file() for name in mutant.tests), mutant.why
