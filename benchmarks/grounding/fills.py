"""Test of fills: can classifiers tell which filled patch hid a lesion, and whether a picture was filled at all?

    python benchmarks/grounding/fills.py --phantoms FOLDER --outlines DATA [--fill NAME] [--every N]

- FOLDER: phantoms made by ``chexqa synth --twins``.
- DATA: a folder with ``chestx_det/ChestX_Det_test.json`` and ``anatomy/jsrt_contours.json``. Radiographs are drawn with
  the real lesion outlines (``benchmarks/real_shapes``).
- ``--every N``: take only every Nth case.

Each radiograph is filled twice: over the lesion (target), and elsewhere in the lung (irrelevant). Classifiers see
statistics of pixels, but neither position nor shape. The script prints the share of patches that each classifier gets
right (50 % by chance, at most 60 % wanted), with 95 % intervals over radiographs. A random forest then judges whole
pictures; the script prints its share of right answers, and p (against guessing).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from chexqa.contract.cases import load_case, read_manifest
from chexqa.contract.findings import FINDINGS
from chexqa.files.seeds import stream
from chexqa.generators.interventions.clean_places import clean_place
from chexqa.generators.interventions.fills import BAND, FILLS, GROWTH, RIM, Fill, Surroundings, filled, grown, scaled
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.masks import window

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real_shapes"))
import run as real_shapes

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Numbers = list[float]
MOST_OF_LUNGS = 0.25
EXCHANGES = 20_000
# Pairs of whole pictures. In the first pair, the lesion itself may tell the pictures apart, because only the irrelevant
# picture still has it. In the second, only a difference between the fills can; in the third, only a trace of the fill.
WHOLE = (
    "target against irrelevant picture",
    "the same two fills of the radiograph drawn without the lesion",
    "target picture against the unfilled radiograph drawn without the lesion",
)
# Sets of pixels that the classifiers of patches see. Inside the lungs, no chest wall tells where the patch is. The rim
# before the fill shows how far the lesion's traces outside the patch give it away.
PIXELS = ("patch and rim", "patch and rim inside the lungs", "all changed pixels and their rim", "rim before the fill")


@dataclass(frozen=True)
class Lesion:
    """A radiograph with a lesion.

    - ``sides``: the lungs without the heart.
    - ``taken``: the pixels of all findings.
    - ``twin``: the radiograph drawn without the lesion; None if there is none.
    """

    name: str
    image: Gray
    sides: Lungs
    lesion: Mask
    taken: Mask
    twin: Gray | None

    @property
    def lungs(self) -> Mask:
        """Return the pixels of both lungs."""
        return self.sides.right | self.sides.left


def phantoms(folder: Path) -> Iterator[Callable[[], Lesion]]:
    """Yield a function for each case in ``folder`` with a finding in the lungs; the function returns the lesion."""
    cases = {case.case_id: case for case in read_manifest(folder)}
    for case in cases.values():
        if case.present and FINDINGS[case.finding].field == "lung":
            yield _Phantom(case, cases.get(f"{case.case_id}-twin"))


@dataclass(frozen=True)
class _Phantom:
    case: Any
    twin: Any

    def __call__(self) -> Lesion:
        loaded = load_case(self.case)
        masks = [loaded.lesion, loaded.right_lung, loaded.left_lung, loaded.heart]
        lesion, right, left, heart = (one for one in masks if one is not None)
        twin = None if self.twin is None else load_case(self.twin).working
        return Lesion(self.case.case_id, loaded.working, Lungs(right & ~heart, left & ~heart), lesion, lesion, twin)


def outlines(data: Path) -> Iterator[Callable[[], Lesion]]:
    """Yield a function for each radiograph of ChestX-Det with lesions.

    The function draws a new radiograph, whose lesions have the same outlines.
    """
    cases = json.loads((data / "chestx_det" / "ChestX_Det_test.json").read_text(encoding="utf-8"))
    for number, case in enumerate(cases):
        if case["polygons"]:
            yield _Outlined(data, number, case)


@dataclass(frozen=True)
class _Outlined:
    data: Path
    number: int
    case: dict[str, Any]

    def __call__(self) -> Lesion:
        lesion = real_shapes.filled(self.case["polygons"])
        anatomy = real_shapes.best_of(real_shapes.anatomies(self.data), lesion)
        image, twin = (real_shapes.radiograph(np.random.default_rng(self.number), anatomy, drawn)
                       for drawn in (lesion, np.zeros_like(lesion)))  # fmt: skip
        right, left = (anatomy[name] & ~anatomy.get("heart", np.zeros_like(lesion))
                       for name in ("right_lung", "left_lung"))  # fmt: skip
        return Lesion(self.case["file_name"], image, Lungs(right, left), lesion, lesion, twin)


def patches(case: Lesion) -> tuple[Mask, Mask] | None:
    """Return the two patches to fill: the lesion with a margin, and a patch like it elsewhere in the lungs.

    The first is filled in the target picture, the second in the irrelevant picture. Return None if the lesion is empty
    or too large, or if the second patch fits nowhere in the lungs.
    """
    lesion = case.lesion
    if not lesion.any() or np.count_nonzero(lesion) > MOST_OF_LUNGS * np.count_nonzero(case.lungs):
        return None
    patch = grown(lesion, scaled(GROWTH, lesion.shape))
    place = clean_place(case.image, patch, case.sides, case.taken)
    return None if place is None else (patch, place)


def both(case: Lesion, chosen: tuple[Mask, Mask], fill: Fill, image: Gray) -> list[tuple[Gray, Mask]]:
    """Fill each of the two patches ``chosen`` in its own copy of ``image``; return each copy with its patch."""
    near = Surroundings(case.lungs, ~grown(case.taken | chosen[1], scaled(BAND, image.shape)))
    return [(filled(image, one, fill, near, stream(0, case.name, label)), one)
            for one, label in zip(chosen, ("target", "irrelevant"), strict=True)]  # fmt: skip


def bands(image: Gray) -> list[npt.NDArray[np.float32]]:
    """Return differences of Gaussians of the picture, from fine to coarse."""
    grey = image.astype(np.float32)
    smooth = [grey, *(cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1, 2, 4, 8, 16))]
    return [np.asarray(one - other, np.float32) for one, other in pairwise(smooth)]


def of_patch(
    image: Gray, image_bands: list[npt.NDArray[np.float32]], patch: Mask, reach: int, seen: Mask | None = None
) -> Numbers:
    """Return statistics of a patch and of the rim around it, which is ``reach`` px wide.

    - ``image_bands``: the :func:`bands` of ``image``.
    - ``seen``: the pixels that count (default: all).
    """
    edge = cv2.morphologyEx(patch.astype(np.uint8), cv2.MORPH_GRADIENT, np.ones((5, 5), np.uint8)).astype(bool)
    core, rim, edge = (one if seen is None else one & seen for one in (patch, grown(patch, reach) & ~patch, edge))
    grey = image.astype(np.float32)
    numbers = [float(grey[core].mean() - grey[rim].mean()), float(grey[core].std()), float(grey[rim].std()),
               float(grey[rim].mean()), float(skew(grey[core])), float(skew(grey[rim]))]  # fmt: skip
    for band in image_bands:
        spread = [float(band[area].std()) for area in (core, rim, edge)]
        numbers += [*spread, spread[0] / (spread[1] + 1e-3), spread[2] / (spread[1] + 1e-3), float(skew(band[core]))]
    return numbers


def of_rim(image: Gray, patch: Mask, reach: int) -> Numbers:
    """Return statistics of the rim of ``reach`` px around a patch, without the patch."""
    rim = grown(patch, reach) & ~patch
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


def measured(make: Callable[[], Lesion], fill: Fill) -> dict[str, tuple[Numbers, Numbers]] | None:
    """Fill a case; return the statistics of the two pictures that each test compares, keyed by the test's name.

    The tests are those in :data:`PIXELS` and :data:`WHOLE`. For a case without ``Lesion.twin``, the second and third
    test in :data:`WHOLE` are left out. Return None if the case cannot be filled (:func:`patches`).
    """
    case = make()
    chosen = patches(case)
    if chosen is None:
        return None
    made = both(case, chosen, fill, case.image)
    reach, band = (scaled(share, case.image.shape) for share in (RIM, BAND))
    found: dict[str, list[Numbers]] = {name: [] for name in PIXELS}
    for image, patch in made:
        around = window(patch, 2 * reach + band + 32)
        own, inner, lungs = image[around], patch[around], case.lungs[around]
        fine = bands(own)
        found[PIXELS[0]].append(of_patch(own, fine, inner, reach))
        found[PIXELS[1]].append(of_patch(own, fine, inner, reach, lungs))
        found[PIXELS[2]].append(of_patch(own, fine, grown(inner, band), reach))
        found[PIXELS[3]].append(of_rim(case.image[around], inner, reach))
    found[WHOLE[0]] = [of_picture(image) for image, _ in made]
    if case.twin is not None:
        found[WHOLE[1]] = [of_picture(image) for image, _ in both(case, chosen, fill, case.twin)]
        found[WHOLE[2]] = [found[WHOLE[0]][0], of_picture(case.twin)]
    return {name: (pair[0], pair[1]) for name, pair in found.items()}


def classifiers() -> dict[str, Callable[[], Any]]:
    """Return functions that make the classifiers, keyed by name."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=2000)),
        "random forest": lambda: RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
        "boosted trees": lambda: HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=8, random_state=0),
    }


def scores(rows: list[tuple[Numbers, Numbers]], make: Callable[[], Any]) -> npt.NDArray[np.float64]:
    """Return, for each picture, a classifier's probability that it is the first of its pair, ``(pairs, 2)``.

    In a row such as ``[0.9, 0.2]`` both pictures are classified correctly: the first is probably a first picture, the
    second probably not.

    - ``rows``: the statistics of the two pictures of each pair. All first pictures are of one sort (such as target),
      all second pictures of another sort (such as irrelevant).
    - ``make``: a function that returns an untrained classifier.
    """
    from sklearn.model_selection import GroupKFold

    table = np.nan_to_num(np.array([one for pair in rows for one in pair]))
    truth, cases = np.tile([1, 0], len(rows)), np.repeat(np.arange(len(rows)), 2)
    score = np.zeros(len(truth))
    # A pair is judged by a classifier that was trained on other pairs.
    for learned, tested in GroupKFold(min(10, len(rows))).split(table, truth, cases):
        score[tested] = make().fit(table[learned], truth[learned]).predict_proba(table[tested])[:, 1]
    return score.reshape(-1, 2)


def correct(score: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each pair, the share of its two pictures that are classified correctly: 0, 0.5 or 1.

    ``score`` is the result of :func:`scores`.
    """
    return np.asarray(((score[:, 0] > 0.5).astype(float) + (score[:, 1] <= 0.5)) / 2)


def exchanged(right: npt.NDArray[np.float64]) -> float:
    """Return the p-value of the hypothesis that the pictures of a pair cannot be told apart.

    ``right`` is the result of :func:`correct`.
    """
    # Labels of random pairs are exchanged. The classifiers need no new training, because none learned from the pair
    # that it judges.
    beyond = right - 0.5
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (EXCHANGES, len(right)))
    return float((1 + np.count_nonzero(signs @ beyond >= beyond.sum() - 1e-9)) / (1 + EXCHANGES))


def told(rows: list[tuple[Numbers, Numbers]], make: Callable[[], Any], tested: bool = False) -> str:
    """Return, as text, the percentage of pictures classified correctly, with its 95 % interval over radiographs.

    - ``rows``, ``make``: as in :func:`scores`.
    - ``tested``: True to add the p-value of :func:`exchanged`.
    """
    right = correct(scores(rows, make))
    p = f", p = {exchanged(right):.3f}" if tested else ""
    half = 1.96 * right.std(ddof=1) / np.sqrt(len(right))
    return f"{100 * right.mean():.0f} ({100 * (right.mean() - half):.0f} to {100 * (right.mean() + half):.0f}){p}"


def main(sources: dict[str, list[Callable[[], Lesion]]], fill: Fill) -> None:
    for name, source in sources.items():
        with ProcessPoolExecutor(2) as pool:
            rows = [one for one in pool.map(measured, source, [fill] * len(source), chunksize=4) if one is not None]
        print(
            f"{name}, filled by '{fill}': {len(rows)} of {len(source)} radiographs can be filled. A classifier "
            "tries to tell two kinds of picture apart, for example target (filled over the lesion) and irrelevant "
            "(filled elsewhere in the lung). A guess is right in 50 %. A good fill leaves no trace, so a classifier "
            "should be right in at most 60 %. Percentage that each classifier gets right, with its 95 % "
            "interval in brackets:",
            flush=True,
        )
        for test in PIXELS:
            found = [f"{label} {told([row[test] for row in rows], make)}" for label, make in classifiers().items()]
            print(f"  {test}: {', '.join(found)}", flush=True)
        for test in WHOLE:
            pairs = [row[test] for row in rows if test in row]
            if pairs:
                share = told(pairs, classifiers()["random forest"], tested=True)
                print(
                    f"  {test}: a random forest on whole pictures ({len(pairs)} radiographs) is right in {share}",
                    flush=True,
                )
        haze = np.array([[one[0] for one in row[PIXELS[0]]] for row in rows])
        for label, values in zip(("target", "irrelevant"), haze.T, strict=True):
            print(
                f"  {label} picture: mean grey level of the filled patch minus that of its rim: {values.mean():+.1f} "
                f"(standard deviation {values.std():.1f})",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phantoms", type=Path)
    parser.add_argument("--outlines", type=Path)
    parser.add_argument("--fill", choices=FILLS, default="inpaint")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    chosen: dict[str, Iterator[Callable[[], Lesion]]] = {}
    if given.phantoms:
        chosen["phantoms"] = phantoms(given.phantoms)
    if given.outlines:
        chosen["outlines of ChestX-Det"] = outlines(given.outlines)
    main({name: [*islice(one, 0, None, given.every)] for name, one in chosen.items()}, given.fill)
