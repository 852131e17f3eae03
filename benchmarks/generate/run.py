"""Time of making a benchmark, compared with the smallest possible time (the floor); and peak memory.

    python benchmarks/generate/run.py [CASES] [--memory]

The floor is the time to decode the inputs and to encode the pictures, with OpenCV's PNG encoder and with chexqa's.
Compare the ratios, because other work on the machine changes times. With `--memory` the script prints only the peak
memory, for a tenth of the cases and for all.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.cases import load_case, read_manifest
from chexqa.files.workers import pool
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.executors import WorkerConfig
from chexqa.generators.pipeline.job import make_job
from chexqa.imaging import png
from chexqa.imaging.anatomy import Lungs, regions
from chexqa.phantoms import write_cases

ROUNDS = 5
TARGET = 1.25
Picture = npt.NDArray[np.uint8]
Encoder = Callable[[Picture], bytes]


class Spent(NamedTuple):
    """Wall and processor time of this process and its finished children, in seconds."""

    wall: float
    processor: float

    @classmethod
    def on(cls, work: Callable[[], object]) -> Spent:
        """Return the time spent in one call of ``work``."""
        wall, processor = time.perf_counter(), _processor()
        work()
        return cls(time.perf_counter() - wall, _processor() - processor)


def ratios(above: list[Spent], below: list[Spent]) -> str:
    """Return as text the ratio of the times ``above`` to the times ``below``, for wall and processor time.

    A ratio is the median over rounds; the ratios of all rounds follow in brackets.
    """
    told = []
    for name in Spent._fields:
        found = [getattr(one, name) / getattr(other, name) for one, other in zip(above, below, strict=True)]
        listed = ", ".join(f"{ratio:.2f}" for ratio in found)
        told.append(f"{statistics.median(found):.2f} in {name} time ({listed})")
    return "; ".join(told)


def _processor() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def generate(manifest: Path, out: Path, workers: int = 1) -> Spent:
    """Generate with the default recipes and return the time spent."""
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), seed=1)
    return Spent.on(lambda: generate_benchmark.generate(manifest, out, job, workers=WorkerConfig(workers)))


def by_opencv(array: Picture) -> bytes:
    """Return a picture encoded by OpenCV at compression level 1."""
    return cv2.imencode(".png", array, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()


def floor(manifest: Path, bench: Path, encode: Encoder) -> Spent:
    """Return the time to decode all pictures and masks of the cases, and to encode all pictures of the benchmark."""
    cases = read_manifest(manifest)
    loaded = benchmark.load(bench)
    images = sorted({picture.image for item in loaded.items for picture in item.alone_images + item.turn_images})
    pictures = [cv2.imread(str(bench / image), cv2.IMREAD_UNCHANGED) for image in images]

    def work() -> None:
        for case in cases:
            for path in (case.image, case.mask, *case.anatomy.values()):
                if isinstance(path, Path):
                    cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        for picture in pictures:
            assert picture is not None, "every picture of the benchmark can be read"
            encode(picture)

    return Spent.on(work)


def floor_beside_another(manifest: Path, bench: Path) -> Spent:
    """Run :func:`floor` with OpenCV's encoder in two processes at once; return the mean of their times."""
    with pool(2) as workers:
        both = [future.result() for future in [workers.submit(floor, manifest, bench, by_opencv) for _ in range(2)]]
    return Spent(*(statistics.mean(times) for times in zip(*both, strict=True)))


def region_times(manifest: Path) -> tuple[float, float]:
    """Return two times in ms: to compute the regions of one case, and to encode its radiograph with OpenCV."""
    case = load_case(read_manifest(manifest)[0])
    assert case.right_lung is not None
    assert case.left_lung is not None
    lungs = Lungs(case.right_lung, case.left_lung)
    rgb = cv2.cvtColor(case.working, cv2.COLOR_GRAY2RGB)
    least = [min(Spent.on(work).wall for _ in range(10)) for work in (lambda: regions(lungs), lambda: by_opencv(rgb))]
    return least[0] * 1000, least[1] * 1000


def peaks(manifest: Path, out: Path, workers: int) -> tuple[float, float]:
    """Generate a benchmark in a new interpreter.

    Return the peak memory of the interpreter and of its largest worker, in MB.
    """
    command = [sys.executable, __file__, "--child", str(manifest), str(out), str(workers)]
    own, child = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return own / 1024, child / 1024


def child(manifest: Path, out: Path, workers: int) -> None:
    """Generate a benchmark, and print the peak memory in KB of this process and of its largest child process."""
    generate(manifest, out, workers)
    # getrusage is not used for this process: its peak includes that of the process that started it.
    own = int(Path("/proc/self/status").read_text(encoding="utf-8").split("VmHWM:")[1].split()[0])
    print(json.dumps([own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))


def speed(count: int, folder: Path) -> None:
    cv2.setNumThreads(1)
    manifest = write_cases(folder / "cases", count, seed=1, workers=2)
    ones, floors, owns, twos, pairs = [], [], [], [], []
    # The measurements alternate, because the machine's speed changes within minutes.
    for turn in range(ROUNDS):
        bench = folder / f"one{turn}"
        ones.append(generate(manifest, bench))
        floors.append(floor(manifest, bench, by_opencv))
        owns.append(floor(manifest, bench, png.encode))
        twos.append(generate(manifest, folder / f"two{turn}", 2))
        pairs.append(floor_beside_another(manifest, bench))
        for told, spent in (
            ("generated by one worker", ones), ("generated by two workers", twos),
            ("only decoded and encoded, with OpenCV", floors),
            ("only decoded and encoded, with chexqa's encoder", owns),
            ("only decoded and encoded, with OpenCV, in two processes at once", pairs),
        ):  # fmt: skip
            print(f"{count} cases, {told}: {spent[-1].wall:.1f} s ({count / spent[-1].wall:.2f} cases/s)")
    print(f"time of one worker divided by the time of decoding and encoding alone, with OpenCV (target: {TARGET}): "
          f"{ratios(ones, floors)}")  # fmt: skip
    print(f"the same ratio, if chexqa's encoder is used in place of OpenCV's: {ratios(ones, owns)}")
    print(f"time of one worker divided by the time of two workers: {ratios(ones, twos)}")
    halves = [Spent(pair.wall / 2, pair.processor / 2) for pair in pairs]
    print(f"greatest speed-up that two workers can reach on this machine, measured on decoding and encoding alone: "
          f"{ratios(floors, halves)}")  # fmt: skip
    own, encoding = region_times(manifest)
    print(f"computing the regions of a case: {own:.1f} ms; encoding one RGB picture with OpenCV: {encoding:.1f} ms; "
          f"ratio {own / encoding:.2f}")  # fmt: skip
    full = peaks(manifest, folder / "three", 2)
    print(
        f"peak memory with two workers: {full[1]:.0f} MB in the larger worker, {full[0]:.0f} MB in the parent process"
    )


def memory(count: int, folder: Path) -> None:
    for cases in (max(1, count // 10), count):
        manifest = write_cases(folder / f"cases{cases}", cases, seed=1, size=256, workers=2)
        print(f"{cases} cases, one worker: peak memory {peaks(manifest, folder / f'bench{cases}', 1)[0]:.0f} MB")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--child"]:
        child(Path(arguments[1]), Path(arguments[2]), int(arguments[3]))
        return
    numbers = [int(text) for text in arguments if text != "--memory"]
    with tempfile.TemporaryDirectory() as folder:
        if "--memory" in arguments:
            memory(numbers[0] if numbers else 2000, Path(folder))
        else:
            speed(numbers[0] if numbers else 21, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
