"""Fills: can it be told which filled patch hid a lesion, and which picture has the filled lesion?

``python benchmarks/grounding/fills.py PHANTOMS [DATA] [OUTLINES] [--fill NAME]`` fills the lesion of each present case
of PHANTOMS (a folder of cases) and other lung of the same shape, as ``chexqa generate --interventions`` does, and that
of the first OUTLINES radiographs of ChestX-Det, whose real outlines are drawn as shadows (``benchmarks/real_shapes``;
DATA holds ``chestx_det/ChestX_Det_test.json`` and ``anatomy/jsrt_contours.json``). It prints

- how often a random forest tells the two patches apart by what is in them and in a rim of 10 px of 1024, position and
  shape left out (cross-validated by case; 50 % by chance, 60 % is the limit);
- the same of the rim alone before anything is filled: what no fill can hide, as the halo of a lesion;
- how often a forest tells the two pictures apart by statistics of the whole picture, with p of a sign test;
- the grey level within the filled patch minus that of the rim beside it: a haze is above 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, skew

from chexqa.contract.cases import load_case, read_manifest
from chexqa.contract.findings import FINDINGS
from chexqa.files.seeds import stream
from chexqa.generators.interventions.clean_places import clean_place
from chexqa.generators.interventions.fills import GROWTH, RIM, Fill, Surroundings, filled, grown, scaled

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_shapes"))
import run as real_shapes

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Numbers = list[float]
Pair = tuple[str, Gray, Mask, Mask, Mask]  # name, radiograph, lungs, patch of the lesion, all findings
MOST_OF_LUNGS = 0.25


def phantoms(folder: Path) -> Iterator[Pair]:
    """Yield the present cases of a folder whose finding lies in the lungs."""
    for case in read_manifest(folder):
        if not case.present or FINDINGS[case.finding].field != "lung":
            continue
        loaded = load_case(case)
        masks = [loaded.lesion, loaded.right_lung, loaded.left_lung, loaded.heart]
        lesion, right, left, heart = (one for one in masks if one is not None)
        yield case.case_id, loaded.working, (right | left) & ~heart, lesion, lesion


def outlines(data: Path, count: int) -> Iterator[Pair]:
    """Yield the first radiographs of ChestX-Det with real outlines of each finding on a drawn chest."""
    import json

    cases = json.loads((data / "chestx_det" / "ChestX_Det_test.json").read_text(encoding="utf-8"))
    anatomies = real_shapes.anatomies(data)
    for number, case in enumerate(cases[:count]):
        if not case["polygons"]:
            continue
        lesion = real_shapes.filled(case["polygons"])
        anatomy = real_shapes.best_of(anatomies, lesion)
        picture = real_shapes.radiograph(np.random.default_rng(number), anatomy, lesion)
        lungs = (anatomy["right_lung"] | anatomy["left_lung"]) & ~anatomy.get("heart", np.zeros_like(lesion))
        first = real_shapes.filled(case["polygons"][:1])
        yield case["file_name"], picture, lungs, first, lesion


def both(pair: Pair, fill: Fill) -> tuple[tuple[Gray, Mask], tuple[Gray, Mask]] | None:
    """Return the target picture and the irrelevant picture with their patches; None if there is no clean place."""
    name, image, lungs, lesion, taken = pair
    if not lesion.any() or np.count_nonzero(lesion) > MOST_OF_LUNGS * np.count_nonzero(lungs):
        return None
    patch = grown(lesion, scaled(GROWTH, lesion.shape))
    place = clean_place(image, patch, lungs, taken)
    if place is None:
        return None
    near = Surroundings(lungs, ~grown(taken, scaled(RIM, taken.shape)))
    made = [(filled(image, one, fill, near, stream(0, name, label)), one)
            for one, label in ((patch, "target"), (place, "irrelevant"))]  # fmt: skip
    return made[0], made[1]


def bands(image: Gray) -> list[npt.NDArray[np.float32]]:
    """Return differences of Gaussians of the picture, from fine to coarse."""
    grey = image.astype(np.float32)
    smooth = [grey, *(cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1, 2, 4, 8, 16))]
    return [np.asarray(one - other, np.float32) for one, other in pairwise(smooth)]


def of_patch(image: Gray, patch: Mask) -> Numbers:
    """Return statistics of a patch and its rim, without position and shape."""
    reach = scaled(RIM, image.shape)
    rim, core = grown(patch, reach) & ~patch, patch
    edge = cv2.morphologyEx(patch.astype(np.uint8), cv2.MORPH_GRADIENT, np.ones((5, 5), np.uint8)).astype(bool)
    grey = image.astype(np.float32)
    numbers = [float(grey[core].mean() - grey[rim].mean()), float(grey[core].std()), float(grey[rim].std()),
               float(grey[rim].mean()), float(skew(grey[core])), float(skew(grey[rim]))]  # fmt: skip
    for band in bands(image):
        spread = [float(band[area].std()) for area in (core, rim, edge)]
        numbers += [*spread, spread[0] / (spread[1] + 1e-3), spread[2] / (spread[1] + 1e-3), float(skew(band[core]))]
    return numbers


def of_rim(image: Gray, patch: Mask) -> Numbers:
    """Return statistics of the rim alone, which a fill does not change."""
    rim = grown(patch, scaled(RIM, image.shape)) & ~patch
    grey = image.astype(np.float32)
    numbers = [float(grey[rim].mean()), float(grey[rim].std()), float(skew(grey[rim]))]
    return [*numbers, *(float(band[rim].std()) for band in bands(image))]


def of_picture(image: Gray) -> Numbers:
    """Return statistics of a whole picture."""
    grey = image.astype(np.float32)
    numbers = [float(grey.mean()), float(grey.std()), float(skew(grey.ravel())),
               *np.percentile(grey, (1, 5, 25, 50, 75, 95, 99)).tolist()]  # fmt: skip
    for band in bands(image):
        numbers += [float(band.std()), float(np.abs(band).mean()), float(skew(band.ravel()))]
    return numbers


def told(rows: list[tuple[Numbers, Numbers]]) -> tuple[float, int, int]:
    """Return the share of pictures told right by a cross-validated forest, and how many pairs it orders right."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GroupKFold

    table = np.array([one for pair in rows for one in pair])
    truth = np.tile([1, 0], len(rows))
    cases = np.repeat(np.arange(len(rows)), 2)
    score = np.zeros(len(truth))
    for learned, tested in GroupKFold(10).split(table, truth, cases):
        forest = RandomForestClassifier(300, min_samples_leaf=3, random_state=0).fit(table[learned], truth[learned])
        score[tested] = forest.predict_proba(table[tested])[:, 1]
    first, second = score[::2], score[1::2]
    right = float(np.mean((score > 0.5) == truth))
    return right, int(np.sum(first > second)), int(np.sum(first != second))


def main(sources: dict[str, Iterator[Pair]], fill: Fill) -> None:
    for name, source in sources.items():
        patches, pictures, haze, rims = [], [], [], []
        for pair in source:
            made = both(pair, fill)
            if made is None:
                continue
            rims.append((of_rim(pair[1], made[0][1]), of_rim(pair[1], made[1][1])))
            patches.append((of_patch(*made[0]), of_patch(*made[1])))
            pictures.append((of_picture(made[0][0]), of_picture(made[1][0])))
            haze.append([one[0] for one in patches[-1]])
        print(f"{name}, {fill}: {len(patches)} cases")
        right, ordered, of = told(patches)
        print(f"  patch and rim: {100 * right:.1f} % told right (limit 60); {ordered} of {of} pairs in order")
        right, ordered, of = told(rims)
        print(f"  rim before anything is filled: {100 * right:.1f} % told right; {ordered} of {of} pairs in order")
        right, ordered, of = told(pictures)
        p = binomtest(ordered, of, 0.5, "greater").pvalue if of else 1.0
        print(f"  whole picture: {100 * right:.1f} % told right; {ordered} of {of} pairs in order, p = {p:.3f}")
        for label, column in (("target", 0), ("irrelevant", 1)):
            values = np.array(haze)[:, column]
            print(f"  {label}: patch minus rim {values.mean():+.1f} grey levels (sd {values.std():.1f})")


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if not one.startswith("--")]
    chosen: Fill = "inpaint"
    if "--fill" in sys.argv:
        chosen = arguments.pop()  # type: ignore[assignment]
    given = {"phantoms": phantoms(Path(arguments[0]))}
    if len(arguments) > 1:
        given["outlines of ChestX-Det"] = outlines(Path(arguments[1]), int(arguments[2]) if arguments[2:] else 200)
    main(given, chosen)
