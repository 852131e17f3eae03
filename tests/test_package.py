"""The wheel holds what the tree holds, under one top-level name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
KEPT = (".py", ".yaml", ".json", ".typed", ".j2", ".css", ".js")


def expected() -> set[str]:
    """Every module and data file of the mapped folders, by its place in the package."""
    names = set()
    for package, folder in SETUPTOOLS["package-dir"].items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in KEPT or path.name == "py.typed":
                names.add(f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder)}")
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the tree, so that a build leaves nothing in the tree itself."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for folder in SETUPTOOLS["package-dir"].values():
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "setuptools" in done.stderr and "No matching distribution" in done.stderr:
        pytest.skip("building a wheel needs setuptools from a package index, and none can be reached")
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_holds_every_module_and_data_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == expected()


def test_the_wheel_installs_one_top_level_name(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"chexqa"}
    assert len(tops) == 2


def test_the_wheel_says_its_command_its_licence_and_its_version(wheel: zipfile.ZipFile) -> None:
    info = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    assert b"chexqa = chexqa.cli:main" in wheel.read(f"{info}/entry_points.txt")
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    version: dict[str, str] = {}
    exec((ROOT / "chexqa" / "version.py").read_text(), version)
    assert f"Version: {version['__version__']}" in metadata
    assert any(name.endswith("LICENSE") for name in wheel.namelist())


@pytest.mark.parametrize(
    "name",
    [
        "chexqa/py.typed",
        "chexqa/schemas/item.schema.json",
        "chexqa/question_banks/en.yaml",
        "chexqa/generators/recipes/chexpercept.yaml",
        "chexqa/generators/recipes/grid.yaml",
        "chexqa/eval/models.yaml",
        "chexqa/eval/published.yaml",
    ],
)
def test_the_wheel_holds_what_the_tool_reads_at_run_time(wheel: zipfile.ZipFile, name: str) -> None:
    assert wheel.read(name) is not None


def test_nothing_but_chexqa_is_importable_at_top_level() -> None:
    """In an editable install too: the mapped folders are not on the path under their own names."""
    script = (
        "import importlib.util, chexqa.eval, chexqa.generators, chexqa.schemas, chexqa.question_banks\n"
        "print([name for name in ('eval', 'generators', 'schemas', 'question_banks')"
        " if importlib.util.find_spec(name) is not None])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"
