"""Examples in docstrings: each runs as it stands, and so many functions have one."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from chexqa import api

pytestmark = pytest.mark.xdist_group("examples")

ROOT = Path(__file__).parents[2]
FOLDERS = ("chexqa", "eval", "generators", "question_banks", "schemas")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def examples(module: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    name = module if module.startswith("chexqa") else f"chexqa.{module}"
    found = doctest.DocTestFinder().find(importlib.import_module(name))
    return [test for test in found if test.examples]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples of ``chexqa.api`` have run, so that it holds a benchmark, a run and a report."""
    made = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        assert doctest.testmod(api).failed == 0
    return made


@pytest.mark.parametrize("module", [name for name in MODULES if name != "chexqa.api"])
def test_examples_give_what_they_say(module: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    runner = doctest.DocTestRunner()
    for test in examples(module):
        assert runner.run(test).failed == 0, test.name


def test_twenty_functions_that_people_call_have_an_example() -> None:
    assert sum(len(examples(module)) for module in MODULES) >= 20
