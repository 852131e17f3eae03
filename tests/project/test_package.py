"""The wheel holds what the tree holds, under one top-level name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.xdist_group("package"), pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
# What the source archive holds, but for what only this repository's CI and git want.
SOURCES = (
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile", "README.md"),
    *("benchmarks", "docs", "mkdocs.yml", "pyproject.toml", "tests"),
    *SETUPTOOLS["package-dir"].values(),
)
KEPT = (".py", ".yaml", ".json", ".typed", ".j2", ".css", ".js")


def expected() -> set[str]:
    """Every module and data file of the mapped folders, by its place in the package."""
    names = set()
    for package, folder in SETUPTOOLS["package-dir"].items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in KEPT or path.name == "py.typed":
                names.add(f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder)}")
    return names


EPOCH = "1764028800"


def build(source: Path, out: Path) -> Path:
    """A source archive of a copy of the tree, and a wheel made of that archive; a build leaves nothing in the tree."""
    for name in SOURCES:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, source / name)
        else:
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(source)], capture_output=True,
                          text=True, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})  # fmt: skip
    if done.returncode and "No matching distribution found for setuptools" in done.stdout + done.stderr:
        pytest.skip("building needs setuptools from a package index, and none can be reached")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "deprecat" not in (done.stdout + done.stderr).lower()
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist"))


@pytest.mark.long
def test_the_same_tree_is_built_to_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """In another folder, whose files have other times. A source archive holds these times, and the same files."""
    source, out = tmp_path / "another place", tmp_path / "dist"
    source.mkdir()
    again = build(source, out)
    assert [path.read_bytes() for path in built.glob("*.whl")] == [path.read_bytes() for path in again.glob("*.whl")]
    assert packed(built) == packed(again)


def packed(folder: Path) -> dict[str, bytes]:
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {one.name: file.read() for one in archive if (file := archive.extractfile(one)) is not None}


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.long
def test_the_source_archive_holds_what_the_tree_holds(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    wanted = {
        str(file.relative_to(ROOT))
        for name in SOURCES
        for file in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted - held == set()
    assert {name.partition("/")[0] for name in held - wanted} <= {"PKG-INFO", "setup.cfg", "chexqa.egg-info"}


@pytest.mark.long
def test_the_wheel_runs_a_small_chain_without_the_tree(built: Path, tmp_path: Path) -> None:
    """Installed into a folder of its own, and called from elsewhere, it finds all its modules and data files."""
    (path,) = built.glob("*.whl")
    home = tmp_path / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        str(home),
        str(path),
    ]
    subprocess.run(pip, check=True)

    commands = [
        ["--help"],
        ["synth", "phantoms", "--cases", "3", "--size", "512"],
        ["generate", "phantoms", "-o", "bench", "--recipe", "grid"],
        ["eval", "bench", "--models", "baseline/oracle", "-o", "run"],
        ["grade", "run"],
        ["report", "run", "-o", "report"],
    ]
    start = (
        "import json, sys, chexqa.eval, chexqa.cli.main as c; print(chexqa.eval.__file__)\n"
        "for command in json.loads(sys.argv[1]): assert c.run(command) == 0, command"
    )
    done = subprocess.run([sys.executable, "-c", start, json.dumps(commands)], capture_output=True, text=True,
                          check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(home)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(home))
    assert "generate" in done.stdout
    assert "baseline/oracle" in done.stdout
    assert (tmp_path / "report" / "index.html").is_file()


def test_the_wheel_holds_every_module_and_data_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == expected()


def test_the_wheel_installs_one_top_level_name(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"chexqa"}
    assert len(tops) == 2


def test_the_wheel_says_its_command_its_licence_and_its_version(wheel: zipfile.ZipFile) -> None:
    info = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    assert b"chexqa = chexqa.__main__:main" in wheel.read(f"{info}/entry_points.txt")
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
        "chexqa/eval/models/models.yaml",
        "chexqa/eval/tables/published.yaml",
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
