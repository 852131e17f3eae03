"""Time, memory and size of every export of a benchmark, and of a run's records.

    python benchmarks/exports/run.py FOLDER [FORMAT…]

FOLDER has a subfolder `bench` with the benchmark, such as the one that `benchmarks/review/run.py` makes. Formats that
export a run also need a subfolder `run`; if it is missing, the script makes it by asking a baseline. Every export is a
process of its own, and the exported files are deleted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEGABYTE = 2**20
EXPORTS = {
    "croissant": ["export", "{bench}", "--format", "croissant", "-o", "{bench}/croissant.json"],
    "huggingface": ["export", "{bench}", "--format", "huggingface", "-o", "{out}"],
    "inspect": ["export", "{bench}", "--format", "inspect", "-o", "{out}"],
    "lmms-eval": ["export", "{bench}", "--format", "lmms-eval", "-o", "{out}"],
    "vlmevalkit": ["export", "{bench}", "--format", "vlmevalkit", "-o", "{out}"],
    "vlmevalkit-tsv": ["export", "{bench}", "--format", "vlmevalkit", "-o", "{out}.tsv"],
    "chexpercept": ["export", "{bench}", "--format", "chexpercept", "-o", "{out}"],
    "no-key": ["export", "{bench}", "--no-key", "-o", "{out}"],
    "every-eval-ever": ["run", "export", "{run}", "--benchmark", "{bench}", "--format", "every-eval-ever",
                        "--organization", "A lab", "-o", "{out}"],
    "results": ["run", "export", "{run}", "--benchmark", "{bench}", "--format", "huggingface", "--dataset", "a/b",
                "-o", "{out}"],
    "predictions": ["run", "export", "{run}", "--benchmark", "{bench}", "--format", "predictions", "-o", "{out}.jsonl"],
}  # fmt: skip
OF_RUNS = ("every-eval-ever", "results", "predictions")


def files_of(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def size(files: list[Path]) -> str:
    return f"{sum(file.stat().st_size for file in files) / MEGABYTE:,.1f} MB in {len(files):,} files"


def measured(words: list[str]) -> str:
    """Run a command in a process of its own; return its seconds, processor time and peak memory."""
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", "from chexqa.cli.main import main; main()", *words], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"chexqa {' '.join(words)}: exit code {child.returncode}")
    cpu = used.ru_utime + used.ru_stime
    elapsed = time.perf_counter() - start
    return f"{elapsed:.1f} s elapsed, {cpu:.1f} s of processor time, peak memory {used.ru_maxrss / 1024:.0f} MB"


def main() -> None:
    folder, formats = Path(sys.argv[1]), sys.argv[2:] or list(EXPORTS)
    bench, run = folder / "bench", folder / "run"
    if set(formats) & set(OF_RUNS) and not run.exists():
        print("asking baseline/chance:", measured(["eval", str(bench), "--models", "baseline/chance", "-o", str(run)]))
    print("pictures of the benchmark:", size(files_of(bench / "images")))
    for name in formats:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            out = Path(scratch) / "out"
            words = [word.format(bench=bench, run=run, out=out) for word in EXPORTS[name]]
            figures = measured(words)
            written = Path(words[words.index("-o") + 1])
            print(f"{name}: {figures}; {size(files_of(written))}", flush=True)
            if name == "croissant":
                written.unlink()
            elif written.is_dir():
                shutil.rmtree(written)


if __name__ == "__main__":
    main()
