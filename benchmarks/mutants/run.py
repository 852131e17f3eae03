"""Mutation test: the project's tests must notice small mistakes that are put into the code one at a time.

    python benchmarks/mutants/run.py [--only WORD] [--workers N]

The mistakes are in ``table.py``. A mistake that no test notices survives; the exit code is the number of survivors.
``make mutants`` runs the script, which takes about five minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from table import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


def make_copy(folder: Path) -> Path:
    """Copy the package and the tests into ``folder`` and return it; the copied tests import the copied package."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    for package, source in sorted(setuptools["package-dir"].items()):
        target = folder / "site" / package.replace(".", "/")
        shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def installed(file: str) -> str:
    """Return where a file of the source tree lies in the copied package, as a relative path."""
    return file if file.startswith("chexqa/") else f"chexqa/{file}"


def check(mutant: Mutant) -> None:
    """Raise ``SystemExit`` unless the text to be replaced occurs once in its file and differs from the new text."""
    count = (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old)
    if count != 1 or mutant.old == mutant.new:
        raise SystemExit(
            f"{mutant.file}: {mutant.old!r} occurs {count} times, but the text to be replaced must occur once and "
            "differ from the new text; correct benchmarks/mutants/table.py."
        )


def is_noticed(mutant: Mutant, folder: Path) -> bool:
    """Put the mistake into the copy in ``folder``, run its tests, and restore the copy; return True if a test fails."""
    path = folder / "site" / installed(mutant.file)
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        *mutant.tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    finally:
        path.write_text(whole, encoding="utf-8")
    if done.returncode not in (0, 1):
        printed = done.stdout[-2000:] + done.stderr[-2000:]
        raise SystemExit(f"{' '.join(command)}: the tests could not run (exit code {done.returncode}):\n{printed}")
    return done.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Put small mistakes into the code, one at a time; the tests must notice each."
    )
    parser.add_argument("--only", default="", metavar="WORD",
                        help="try only the mistakes whose file or description contains this word")  # fmt: skip
    parser.add_argument("--workers", type=int, default=2, help="number of mistakes tested in parallel (default: 2)")
    asked = parser.parse_args()
    for mutant in MUTANTS:
        check(mutant)
    wanted = [mutant for mutant in MUTANTS if asked.only in mutant.file or asked.only in mutant.why]
    with tempfile.TemporaryDirectory(prefix="chexqa-mutants-") as name, ThreadPoolExecutor(asked.workers) as pool:
        copies: Queue[Path] = Queue()
        for number in range(asked.workers):
            copies.put(make_copy(Path(name) / str(number)))

        def tried(mutant: Mutant) -> bool:
            folder = copies.get()
            try:
                return is_noticed(mutant, folder)
            finally:
                copies.put(folder)

        survivors = 0
        for mutant, noticed in zip(wanted, pool.map(tried, wanted), strict=True):
            survivors += not noticed
            print(f"{'noticed ' if noticed else 'SURVIVES'}  {mutant.file}: {mutant.why}", flush=True)
    print(f"mistakes put into the code: {len(wanted)}; missed by all tests: {survivors}")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
