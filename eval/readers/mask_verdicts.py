"""Second-reader score: how often a benchmark's items agree with another reader's masks, kind by kind.

The second reader's masks answer the benchmark's items. Items are also made from the second reader's masks, and the
benchmark's masks answer these. docs/readers.md says how a mask answers each kind of question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import NamedTuple

import cv2
import numpy as np

from chexqa.contract.benchmark import Benchmark, record_hash
from chexqa.contract.cases import MANIFEST, load_case, read_manifest
from chexqa.contract.items import Answer, CaseKey, Path
from chexqa.contract.kinds import GRID_CELL, KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.seeds import stream
from chexqa.generators.attributes import attribute_keys
from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.field import field_of
from chexqa.generators.contour.plan import ContourPlan
from chexqa.generators.pipeline.measure_pass import draw_attributes
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, Recipe
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.grid import coverage, hits
from chexqa.imaging.mask_source import is_box
from chexqa.imaging.masks import components, disc, from_rle, iou, read_mask_png, rle_area, to_rle
from chexqa.imaging.read import Mask, mask_to_working

TIE = 0.01
Verdicts = dict[str, bool | None]


@dataclass(frozen=True, eq=False)
class SecondMask:
    """The second reader's mask or box as run lengths at the working size; empty if the finding is absent."""

    # Thousands of masks as arrays would take gigabytes.

    runs: Record
    is_box: bool = False

    @classmethod
    def of(cls, mask: Mask, is_box: bool = False) -> SecondMask:
        """Return the object for the second reader's mask ``(H, W)``."""
        return cls(to_rle(mask), is_box)

    @cached_property
    def is_empty(self) -> bool:
        """Return True if the reader calls the finding absent."""
        return rle_area(self.runs, "a second mask") == 0

    def mask(self) -> Mask:
        """Return the mask ``(H, W)``."""
        return from_rle(self.runs, "a second mask")


def read_second_masks(
    folder: FilePath, benchmark: Benchmark, image_root: FilePath | None = None
) -> dict[str, SecondMask]:
    """Return the second reader's masks, keyed by the benchmark's case ids.

    - ``folder``: a manifest, a folder with ``cases.jsonl``, or a folder of PNG files named after the case ids in the
      benchmark's source (``a/b.png`` for the case ``a/b``). Masks of cases outside the benchmark are ignored.
    - ``image_root``: the folder that a manifest's paths are relative to; None: the manifest's own folder.

    Raises ``InputError`` if no case of the benchmark has a second mask, and for a mask that was drawn on another
    radiograph, has other proportions than the radiograph, or was redrawn in a review.
    """
    _, cases = benchmark.key("--second-masks")
    wanted = {case.source_case_id: case for case in cases.values()}
    if folder.is_file() or (folder / MANIFEST).is_file():
        found = _of_manifest(folder, wanted, image_root)
    else:
        if not folder.is_dir():
            raise InputError(f"{folder}: does not exist; give the folder or manifest of the second reader's masks.")
        # A data set's case ids may hold slashes, which are folders here.
        named = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.png"))}
        found = {
            wanted[name].case_id: SecondMask.of(_sized(path, wanted[name]))
            for name, path in named.items()
            if name in wanted
        }
    if not found:
        raise InputError(
            f"{folder}: has no mask for any case of {benchmark.folder}; give a folder of files CASE.png, or a manifest "
            "with case_id. CASE and case_id are case ids of the manifest that the benchmark was made from."
        )
    return found


def _of_manifest(path: FilePath, wanted: Mapping[str, CaseKey], image_root: FilePath | None) -> dict[str, SecondMask]:
    found = {}
    for case in read_manifest(path, image_root):
        key = wanted.get(case.case_id)
        if key is None:
            continue
        where = f"{case.manifest}, line {case.line}"
        if case.redrawn is not None:
            raise InputError(
                f"{where}: this mask was redrawn in a review by a person who saw an earlier mask; give masks drawn "
                "without seeing another one."
            )
        loaded = load_case(case)
        if loaded.image_key != key.measures.get("image_key"):
            raise InputError(
                f"{where}: this radiograph differs from that of case '{case.case_id}' in the "
                f"benchmark; give masks of the same radiographs."
            )
        mask = np.zeros(loaded.working.shape, bool) if loaded.lesion is None else loaded.lesion
        found[key.case_id] = SecondMask.of(mask, is_box(case.mask))
    return found


def _sized(path: FilePath, key: CaseKey) -> Mask:
    mask = mask_to_working(read_mask_png(path))
    first = next(iter(key.measures.get("masks", {}).values()), None)
    if first is not None and tuple(first["size"]) != mask.shape:
        height, width = first["size"]
        raise InputError(
            f"{path}: the mask's proportions differ from the radiograph's (resized to the same longer side, the "
            f"mask has {mask.shape[1]} x {mask.shape[0]} px, the radiograph {width} x {height} px); give the mask in "
            "the radiograph's original size."
        )
    return mask


@dataclass(frozen=True, eq=False)
class Subject:
    """A case: its id in the data source, finding, question path, and anatomy masks ``(H, W)`` at the working size."""

    source: str
    finding: str
    path: Path | None
    lungs: Lungs
    has_lungs: bool
    heart: Mask | None


class Verdict(NamedTuple):
    """Result for one item that was made from one of two masks and answered from the other.

    The two masks are the benchmark's and the second reader's.

    - ``back``: True if the item was made from the second reader's mask; False if it was made from the benchmark's.
    - ``right``: True if the answer is right; None for a tie, in which two of four pictures fit about equally well.
    - ``key``: the benchmark's key for this kind and case.
    """

    kind: str
    case_id: str
    back: bool
    right: bool | None
    key: Answer


def second_reader_verdicts(
    benchmark: Benchmark, second: Mapping[str, SecondMask], recipes: Iterable[Recipe]
) -> list[Verdict]:
    """Return the verdicts on all items of the cases with a second mask, sorted by kind.

    Raises ``InputError`` if the recipes are not the benchmark's, or if its contour items cannot be made again.
    """
    answers, cases = benchmark.key("--second-masks")
    perception, grid = _of_benchmark(benchmark, recipes)
    by_case: dict[str, dict[str, Answer]] = {}
    finding: dict[str, str] = {}
    for item in benchmark.items:
        by_case.setdefault(item.case_id, {})[item.kind] = answers[item.item_id]
        finding[item.case_id] = item.finding
    first = {name: cases[name].measures.get("masks", {}).get("lesion") for name in second}
    says_absent = any(first[name] is None or one.is_empty for name, one in second.items())
    maker = _Maker(perception, grid, int(benchmark.about["seed"]))
    made: list[Verdict] = []
    for case_id, other in second.items():
        own = by_case.get(case_id, {})
        drawn, runs = other.mask(), first[case_id]
        case = _subject(cases[case_id], finding.get(case_id, ""), drawn.shape)
        mask = np.zeros_like(drawn) if runs is None else from_rle(runs, case_id)
        forth: Verdicts = {}
        back: Verdicts = {}
        # Detection counts only if one of the readers calls a finding absent in some case.
        if says_absent:
            stage_1 = [kind for kind in own if KINDS[kind].stage == 1]
            forth = dict.fromkeys(stage_1, bool(drawn.any()) == bool(mask.any()))
        if mask.any() and drawn.any():
            forth |= maker.verdicts(case, mask, drawn, other.is_box, own, True)
            back = maker.verdicts(case, drawn, mask, other.is_box, own, False)
        made += [Verdict(kind, case_id, found is back, right, own[kind])
                 for found in (forth, back) for kind, right in found.items() if kind in own]  # fmt: skip
    order = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(made, key=lambda one: order[one.kind])


def _of_benchmark(benchmark: Benchmark, recipes: Iterable[Recipe]) -> tuple[PerceptionRecipe | None, GridRecipe | None]:
    perception, grid = None, None
    known = {entry["hash"] for entry in benchmark.about["recipes"] if "hash" in entry}
    for recipe in recipes:
        if record_hash(recipe.to_record()) not in known:
            raise InputError(
                f"{benchmark.folder}: this benchmark was not made with the recipe '{recipe.name}'; give its "
                "recipes to 'chexqa second-reader', each with --recipe FILE."
            )
        if isinstance(recipe, PerceptionRecipe):
            perception = recipe
        elif isinstance(recipe, GridRecipe):
            grid = recipe
    return perception, grid


def _subject(key: CaseKey, finding: str, shape: tuple[int, ...]) -> Subject:
    masks = {name: from_rle(rle, key.case_id) for name, rle in key.measures.get("masks", {}).items()}
    empty = np.zeros(shape, bool)
    lungs = Lungs(masks.get("right_lung", empty), masks.get("left_lung", empty))
    has_lungs = "right_lung" in masks or "left_lung" in masks
    return Subject(key.source_case_id, finding, key.path, lungs, has_lungs, masks.get("heart"))


@dataclass(frozen=True)
class _Maker:
    """Maker of a case's items from one of two masks; the other mask answers the items."""

    perception: PerceptionRecipe | None
    grid: GridRecipe | None
    seed: int

    def verdicts(
        self, case: Subject, key_mask: Mask, answer_mask: Mask, has_boxes: bool, own: Mapping[str, Answer],
        of_benchmark: bool,
    ) -> Verdicts:  # fmt: skip
        """Make items from ``key_mask``, answer them from ``answer_mask``, and return which answers are right.

        The result is keyed by kind of question: True for a right answer, False for a wrong one, None for a tie.

        - ``has_boxes``: True if ``answer_mask`` was made from boxes; then only the item on the grid is made.
        - ``own``: the benchmark's keys of the case, keyed by kind; the result has only kinds with a key.
        - ``of_benchmark``: True if ``key_mask`` is the benchmark's mask. ``InputError`` is raised if the benchmark's
          own items cannot be made again.
        """
        found: Verdicts = {}
        if self.grid is not None and GRID_CELL in own:
            hit = own[GRID_CELL].answer if of_benchmark else hits(coverage(key_mask), self.grid.hit_share)
            found[GRID_CELL] = 1 + int(np.argmax(coverage(answer_mask))) in hit
        if self.perception is None or has_boxes or case.path in (None, "lesion_free"):
            return found
        lungs = (case.lungs.right, case.lungs.left) if case.has_lungs else ()
        purpose = "" if of_benchmark else "second reader "
        plan = contour.draw_plan(
            key_mask, field_of(case.finding, key_mask, lungs, case.heart), self.perception.deformation,
            self.perception.points, stream(self.seed, case.source, f"{purpose}contour"),
        )  # fmt: skip
        if isinstance(plan, ContourPlan):
            found |= _outlines(case, plan, key_mask, answer_mask, self.perception, own if of_benchmark else None)
        elif of_benchmark:
            raise InputError(f"case '{case.source}': {_AGAIN}.")
        if case.has_lungs and any(KINDS[kind].stage == 4 for kind in own):
            rng = stream(self.seed, case.source, f"{purpose}attributes")
            found |= _attributes(key_mask, answer_mask, case.lungs, self.perception, rng)
        return {kind: right for kind, right in found.items() if kind in own}


_AGAIN = "this version of chexqa cannot make its outlines and points again; use the version that made the benchmark"


def _outlines(
    case: Subject, plan: ContourPlan, key_mask: Mask, other: Mask, recipe: PerceptionRecipe,
    own: Mapping[str, Answer] | None,
) -> Verdicts:  # fmt: skip
    is_altered = case.path == "revision_required"
    suboptimal = plan.suboptimal(key_mask)
    shown = suboptimal if is_altered else key_mask
    found: Verdicts = {}
    for name, kind in KINDS.items():
        if kind.stage == 2:
            found[name] = is_major(shown, other, recipe) == is_altered
        elif kind.stage == 3 and is_altered:
            found[name] = _by_points(plan, other, kind.points) if kind.points else _by_pictures(plan, key_mask, other)
            if own is not None and kind.points:
                _check_points(case, plan, own[name])
    # If only one answer to an item on points is possible, the item shows no agreement and is left out.
    asked = {
        points: any(point.inside == (points == "inside") for point in plan.points) for points in ("inside", "outside")
    }
    return {name: right for name, right in found.items() if asked.get(KINDS[name].points or "", True)}


def _check_points(case: Subject, plan: ContourPlan, key: Answer) -> None:
    points = [tuple(point["xy"]) for point in key.evidence.get("points", ())]
    if points != [tuple(point.xy) for point in plan.points]:
        raise InputError(f"case '{case.source}': {_AGAIN}.")


def _by_points(plan: ContourPlan, other: Mask, side: str) -> bool:
    """Return True if the other mask requires moving exactly the points of the key."""
    inside = side == "inside"
    said = {number for number, point in enumerate(plan.points, start=1)
            if point.inside == inside and bool(other[point.xy[1], point.xy[0]]) != inside}  # fmt: skip
    return said == set(plan.marked(inside))


def _by_pictures(plan: ContourPlan, key_mask: Mask, other: Mask) -> bool | None:
    """Return True if the right picture fits the other mask best; None if two pictures fit about equally well."""
    fits = [iou(plan.with_errors(key_mask, errors), other) for errors in plan.results]
    best, next_best = sorted(fits, reverse=True)[:2]
    return None if best - next_best < TIE else 1 + int(np.argmax(fits)) == plan.right_result


def is_major(shown: Mask, truth: Mask, recipe: PerceptionRecipe) -> bool:
    """Return True if an outline has a major error: a large connected area where ``shown`` and ``truth`` differ."""
    # The area is at least as large as the recipe's smallest error. Thin rims are removed first.
    least = recipe.deformation.min_share * np.count_nonzero(truth)
    kernel = disc(max(1.0, recipe.deformation.min_depth * max(shown.shape) / 4))
    for part in (shown & ~truth, truth & ~shown):
        opened = cv2.morphologyEx(part.view(np.uint8), cv2.MORPH_OPEN, kernel).astype(bool)
        labels, count = components(opened, 8)
        if count and np.bincount(labels.ravel())[1:].max() >= least:
            return True
    return False


def _attributes(
    key_mask: Mask, other: Mask, lungs: Lungs, recipe: PerceptionRecipe, rng: np.random.Generator
) -> Verdicts:  # fmt: skip
    """Return, for each kind, True if both masks make the same options right."""
    drawn = draw_attributes(key_mask, lungs, recipe.attributes, rng)
    if isinstance(drawn, str):
        return {}
    judged = attribute_keys.judge(attribute_keys.measure(other, lungs, recipe.attributes), recipe.attributes)
    said = attribute_keys.right_options(drawn.drawn, judged, recipe.attributes)
    return {kind: said.get(kind) == right for kind, right in drawn.right.items()}
