"""Type check of the package as it is installed: a tree of links to the mapped folders, with every file checked.

A type checker that runs on the project's root skips the folders that package-dir maps into the package.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def link_tree(tree: Path) -> int:
    """Make ``tree/chexqa``, a copy of the installed package made of links; return its number of modules."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    shutil.rmtree(tree, ignore_errors=True)
    modules = 0
    for package in sorted(setuptools["packages"]):
        parent = package
        while parent not in setuptools["package-dir"]:
            parent = parent.rpartition(".")[0]
        inner = package.removeprefix(parent).replace(".", "/").lstrip("/")
        source = ROOT / setuptools["package-dir"][parent] / inner
        folder = tree / package.replace(".", "/")
        folder.mkdir(parents=True)
        for file in [*source.glob("*.py"), *source.glob("py.typed")]:
            (folder / file.name).symlink_to(file)
            modules += file.suffix == ".py"
    return modules


def main(tree: Path) -> int:
    """Check types and return the exit code; the check also fails if the checker saw too few or too many files."""
    modules = link_tree(tree)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "chexqa"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="", end="")
    if done.returncode:
        return done.returncode
    seen = re.search(r"in (\d+) source files", done.stdout)
    if seen is None or int(seen.group(1)) != modules:
        print(f"error: the type checker saw {seen.group(1) if seen else 'no'} files, but the package has {modules}.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
