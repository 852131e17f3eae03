"""Test of fills: can a random forest find out which of two filled patches hid a lesion?

``python benchmarks/grounding/fills.py PHANTOMS [DATA] [OUTLINES] [--fill NAME]`` makes two altered pictures of each
radiograph, as ``chexqa generate --interventions`` does: one in which the lesion is filled, and one in which a patch of
the same shape is filled elsewhere in the lungs. PHANTOMS is a folder of cases. DATA is a folder that contains
``chestx_det/ChestX_Det_test.json`` and ``anatomy/jsrt_contours.json``; with it, the script also uses drawn radiographs
with the real outlines of the first OUTLINES radiographs of ChestX-Det (``benchmarks/real_shapes``). It prints

- how often a forest finds the patch that hid a lesion, from statistics of the patch and of a rim around it (10 px of
  1024) without position and shape; it is cross-validated by case, 50 % are right by chance, and 60 % is the limit;
- the same for the rim alone before anything is filled, such as the halo of a lesion, which no fill can hide;
- how often a forest finds the picture with the filled lesion from statistics of the complete picture, with the p-value
  of a sign test;
- the mean grey level in the filled patch minus that of the rim around it; a haze left by a fill is above 0.
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
    """Yield the cases of a folder that show a finding of the lungs."""
    for case in read_manifest(folder):
        if not case.present or FINDINGS[case.finding].field != "lung":
            continue
        loaded = load_case(case)
        masks = [loaded.lesion, loaded.right_lung, loaded.left_lung, loaded.heart]
        lesion, right, left, heart = (one for one in masks if one is not None)
        yield case.case_id, loaded.working, (right | left) & ~heart, lesion, lesion


def outlines(data: Path, count: int) -> Iterator[Pair]:
    """Yield drawn radiographs with the real outlines of the first ``count`` radiographs of ChestX-Det.

    The patch to fill is the first outline of a radiograph. Radiographs without an outline are left out.
    """
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
    """Return two altered pictures, each with its filled patch: the lesion filled, and another patch of lung filled.

    Returns None if the lesion is too large or if no other patch fits.
    """
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
    """Return the differences of successive Gaussian blurs of the picture, from fine to coarse."""
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
    """Return how well a cross-validated forest finds the first of each pair of rows.

    The results are the share of rows that it classifies right, the number of pairs in which the first row gets the
    higher score, and the number of pairs with different scores.
    """
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
        print(f"  patch and rim: {100 * right:.1f} % classified right (limit 60 %); {ordered} of {of} pairs in order")
        right, ordered, of = told(rims)
        print(f"  rim before filling: {100 * right:.1f} % classified right; {ordered} of {of} pairs in order")
        right, ordered, of = told(pictures)
        p = binomtest(ordered, of, 0.5, "greater").pvalue if of else 1.0
        print(
            f"  complete picture: {100 * right:.1f} % classified right; {ordered} of {of} pairs in order, p = {p:.3f}"
        )
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
