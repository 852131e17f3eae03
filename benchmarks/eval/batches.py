"""Speed and memory of writing a batch's files, compared with a plain write of as many bytes.

    python benchmarks/eval/batches.py [--short]

The batch has 1,040 questions with two pictures of 0.6 MB each. Writing the batch and the plain write alternate; their
median times are compared. Peak memory is measured in separate processes.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import inputs

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.batches import rounds
from chexqa.eval.models import registry
from chexqa.eval.models.client import load_litellm
from chexqa.eval.runs.runner import RunConfig
from chexqa.files import opening
from chexqa.files.opening import open_binary

MIB = 2**20


class Timed(NamedTuple):
    """Wall and processor time in seconds."""

    wall: float
    cpu: float


def write(loaded: Benchmark, folder: Path) -> tuple[Timed, list[int]]:
    """Write the files of the batch's first round; return the times and the sizes of the files in bytes."""
    opening._hashed.clear()  # a new process would have no hashed files
    model = registry.adhoc("m", "http://127.0.0.1:9/v1")
    order = RunConfig(loaded, (model,), "end_to_end", folder / "run")
    began, cpu = time.perf_counter(), time.process_time()
    _, (waiting,) = rounds.step(order, folder / "files")
    seconds = Timed(time.perf_counter() - began, time.process_time() - cpu)
    sizes = [path.stat().st_size for path in waiting.written]
    inputs.remove(folder)
    return seconds, sizes


def plain_write(loaded: Benchmark, folder: Path, sizes: list[int]) -> Timed:
    """Read the pictures of all items, write files of ``sizes`` bytes, and return the time of both together.

    The folder is then removed.
    """
    folder.mkdir()
    images = [picture.image for item in loaded.items for picture in item.turn_images]
    piece = os.urandom(MIB)
    began, cpu = time.perf_counter(), time.process_time()
    for image in images:
        with open_binary(loaded.folder / image) as file:
            file.read()
    for number, size in enumerate(sizes):
        with (folder / str(number)).open("wb", buffering=0) as file:
            for _ in range(size // MIB):
                file.write(piece)
            file.write(piece[: size % MIB])
            os.fsync(file.fileno())
    seconds = Timed(time.perf_counter() - began, time.process_time() - cpu)
    inputs.remove(folder)
    return seconds


def peak(folder: Path) -> None:
    """Write a batch's first round once, and print by how many MiB it raises the peak memory of this process."""
    load_litellm()
    loaded = benchmark.load(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        write(loaded, Path(name) / "x")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="a tenth of the questions, and two measurements instead of five"
    )
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        peak(given.peak)
        return
    count, times = (104, 2) if given.short else (1040, 5)
    load_litellm()
    with tempfile.TemporaryDirectory(dir=os.environ.get("CHEXQA_BENCHMARK_DIR")) as name:
        home = Path(name)
        memory = []
        for size in (count // 4, count):
            folder = home / f"bench-{size}"
            loaded = inputs.make_benchmark(folder, inputs.make_pool(folder), size, 2, 1)
            memory.append(float(subprocess.check_output([sys.executable, __file__, "--peak", folder], text=True)))
        ours, plain = [], []
        for _ in range(times):
            seconds, sizes = write(loaded, home / "round")
            ours.append(seconds)
            plain.append(plain_write(loaded, home / "plain", sizes))
    one, other = (statistics.median(times.wall for times in rows) for rows in (ours, plain))
    used, least = (statistics.median(times.cpu for times in rows) for rows in (ours, plain))
    print(f"{count} questions, {sum(sizes) / 1e9:.2f} GB in {len(sizes)} files")
    print(
        f"written in {one:.1f} s ({sum(sizes) / 1e6 / one:,.0f} MB/s), "
        f"a plain write of the same bytes takes {other:.1f} s: ratio {one / other:.2f}"
    )
    print(f"processor time per GB: batch {used / sum(sizes) * 1e9:.2f} s, plain write {least / sum(sizes) * 1e9:.2f} s")
    print(
        f"peak memory added by writing: {memory[0]:.0f} MiB for {count // 4} questions, {memory[1]:.0f} MiB for {count}"
    )


if __name__ == "__main__":
    main()
