"""How fast is generation, against the floor of decoding its inputs and encoding its pictures?

Both are measured in one process, one after the other, on the same phantom cases; machines are noisy, so the ratio is
the figure to look at. Run it with `python benchmarks/generate/run.py [CASES]`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import cv2

from chexqa import benchmark, question_banks
from chexqa.anatomy import Lungs, regions
from chexqa.cases import load_case, read_manifest
from chexqa.generators import pipeline, recipe
from chexqa.imaging import encode_png
from chexqa.phantoms import write_cases


def floor_seconds(manifest: Path, bench: Path) -> float:
    """Decode every picture and mask of the cases once and encode every picture of the benchmark once."""
    cases = read_manifest(manifest)
    loaded = benchmark.load(bench)
    images = sorted({picture.image for item in loaded.items for picture in item.alone_images + item.turn_images})
    pictures = [cv2.imread(str(bench / image), cv2.IMREAD_UNCHANGED) for image in images]
    start = time.perf_counter()
    for case in cases:
        for path in (case.image, case.mask, *case.anatomy.values()):
            if isinstance(path, Path):
                cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    for picture in pictures:
        assert picture is not None, "every picture of the benchmark can be read"
        encode_png(picture)
    return time.perf_counter() - start


def region_ratio(manifest: Path) -> tuple[float, float]:
    """Milliseconds for the regions of one case at 1024 px and for encoding its radiograph as an RGB picture."""
    case = load_case(read_manifest(manifest)[0])
    assert case.right_lung is not None
    assert case.left_lung is not None
    lungs = Lungs(case.right_lung, case.left_lung)
    rgb = cv2.cvtColor(case.working, cv2.COLOR_GRAY2RGB)
    times = []
    for work in (lambda: regions(lungs), lambda: encode_png(rgb)):
        work()
        start = time.perf_counter()
        for _ in range(10):
            work()
        times.append((time.perf_counter() - start) * 100)
    return times[0], times[1]


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_cases(Path(folder) / "cases", count, seed=1)
        recipes = [recipe.load(name) for name in recipe.DEFAULT]
        job = pipeline.make_job(recipes, question_banks.load("en"), seed=1)
        start = time.perf_counter()
        pipeline.generate(manifest, Path(folder) / "bench", job)
        seconds = time.perf_counter() - start
        floor = floor_seconds(manifest, Path(folder) / "bench")
        own, encoding = region_ratio(manifest)
    print(f"{count} cases, one worker: {seconds:.1f} s ({count / seconds:.2f} cases/s)")
    print(f"codec floor: {floor:.1f} s; generation takes {seconds / floor:.2f} times the floor")
    print(f"regions of a case: {own:.1f} ms; encoding one RGB picture: {encoding:.1f} ms; ratio {own / encoding:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
