"""Recipes, the settings of a generation: a dataclass for each task, read from a YAML file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from chexqa.contract import codec, items
from chexqa.contract.findings import find
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, read_yaml
from chexqa.generators.attributes.attribute_keys import AttributeRules
from chexqa.generators.contour.edit_sets import MOST
from chexqa.generators.contour.edits import Deformation, taken
from chexqa.generators.contour.points import PointRules
from chexqa.imaging.anatomy import REGIONS

DEFAULT = ("chexpercept", "grid")


@dataclass(frozen=True)
class Quotas:
    """Largest number of cases of each finding on each question path (sequence of questions)."""

    lesion_free: int
    revision_free: int
    revision_required: int

    def of(self, path: items.Path) -> int:
        """Return the quota of a path."""
        quota: int = getattr(self, path)
        return quota


@dataclass(frozen=True)
class PerceptionRecipe:
    """Settings of detection, contour and attribute items.

    - ``stable_only``: True to leave out an item if slightly different masks would change its key.
    - ``negative_kinds``: which cases can be lesion-free: ``normal`` radiographs, or radiographs with ``other``
      findings.
    - ``exclude_relatives``: True if no lesion-free case may show a parent, child or look-alike of the finding.
    - ``pa_only``: the findings that are asked about on PA views only.
    - ``depths``: possible depths of edits, as fractions of the picture's longer side; all edits of a case have the same
      depth. If no depths are given, edits have any depth that ``deformation`` allows.
    """

    name: str
    task: Literal["perception"]
    description: str
    findings: tuple[str, ...]
    quotas: Quotas
    stable_only: bool
    negative_kinds: tuple[Literal["normal", "other"], ...]
    exclude_relatives: bool
    deformation: Deformation
    points: PointRules
    attributes: AttributeRules
    pa_only: tuple[str, ...] = ()
    depths: tuple[float, ...] = ()  # small, medium and large lesions get each depth equally often

    def to_record(self) -> Record:
        """Return the JSON form, from which a benchmark's hash of the recipe is computed."""
        record: Record = codec.encode(self)
        if not self.depths:  # so that the hash of a recipe without depths does not depend on this field
            del record["depths"]
        return record

    def wrong(self) -> str | None:
        """Return an error text on a wrong setting that the schema does not detect; None if all are right."""
        edits, points, attributes = self.deformation, self.points, self.attributes
        ranges: dict[str, tuple[float, float]] = {
            "deformation.depth_to_size": edits.depth_to_size,
            "deformation.reach_to_depth": edits.reach_to_depth,
            "deformation.iou": edits.iou,
            "deformation.max_depth": (edits.min_depth, edits.max_depth),
            "deformation.max_share": (edits.min_share, edits.max_share),
            "points.max": (points.min, points.max),
            "attributes.severity_cuts": attributes.severity_cuts,
        }
        for name, (low, high) in ranges.items():
            if not 0 <= low <= high:
                return f"field '{name}': {low} to {high} is not a range; give the smaller value first"
        if taken(edits.max_share) <= edits.min_share:
            return (
                f"field 'deformation.max_share': {edits.max_share} lets an edit remove at most "
                f"{taken(edits.max_share):.3f} of the lesion; this must be more than min_share, {edits.min_share}"
            )
        if edits.reach_to_depth[0] <= 1:
            return "field 'deformation.reach_to_depth': an edit must reach farther than it is deep; give values above 1"
        if not any(edits.edit_count_weights):
            return "field 'deformation.edit_count_weights': at least one weight must be above 0"
        if points.max <= MOST:
            return (
                f"field 'points.max': a picture may have {MOST} true points and has at least one other point, "
                f"so give at least {MOST + 1}"
            )
        if attributes.severity_cuts[0] == 0:
            return "field 'attributes.severity_cuts': a lesion cannot cover less than 0 of a lung; give values above 0"
        if attributes.location_options > len(REGIONS):
            return (
                f"field 'attributes.location_options': there are only {len(REGIONS)} regions; give at most this number"
            )
        return None


@dataclass(frozen=True)
class GridRecipe:
    """Settings of the grid task.

    - ``hit_share``: the share of a cell of the grid that the lesion must cover for the cell to be a hit.
    - ``plausible_anatomy``: the anatomy in which each finding can lie. A wrong cell there counts as a position error,
      and elsewhere as an anatomy error.
    """

    name: str
    task: Literal["grid"]
    description: str
    findings: tuple[str, ...]
    hit_share: float
    plausible_anatomy: dict[str, tuple[str, ...]]

    def to_record(self) -> Record:
        """Return the JSON form, from which a benchmark's hash of the recipe is computed."""
        record: Record = codec.encode(self)
        return record

    def wrong(self) -> str | None:
        """Return an error text on a wrong setting that the schema does not detect; None if all are right."""
        for name in self.plausible_anatomy:
            if name not in self.findings:
                return (
                    f"field 'plausible_anatomy': the recipe does not ask about '{name}'{suggest(name, self.findings)}"
                )
        return None


@dataclass(frozen=True)
class PlacesRecipe:
    """Settings of questions on places.

    - ``absent_per_present``: the number of cases without the finding for each case with it.
    - ``diffuse``: findings for which no box is asked.
    - ``diffuse_in_both_lungs``: findings for which no box is asked in a case whose mask lies in both lungs.
    - ``heart``: findings for which the heart's width is asked; no question on these findings counts in a headline.
    """

    name: str
    task: Literal["places"]
    description: str
    findings: tuple[str, ...]
    kinds: tuple[str, ...]
    absent_per_present: float
    diffuse: tuple[str, ...]
    diffuse_in_both_lungs: tuple[str, ...]
    heart: tuple[str, ...]

    def to_record(self) -> Record:
        """Return the JSON form, from which a benchmark's hash of the recipe is computed."""
        record: Record = codec.encode(self)
        return record

    def wrong(self) -> str | None:
        """Return an error text on a wrong setting that the schema does not detect; None if all are right."""
        for field_name in ("diffuse", "diffuse_in_both_lungs", "heart"):
            for name in getattr(self, field_name):
                if name not in self.findings:
                    return f"field '{field_name}': the recipe does not ask about '{name}'{suggest(name, self.findings)}"
        return None


Recipe = PerceptionRecipe | GridRecipe | PlacesRecipe


def names() -> list[str]:
    """Return the names of the recipes that come with chexqa."""
    entries = resources.files("chexqa.generators").joinpath("recipes").iterdir()
    return sorted(Path(entry.name).stem for entry in entries if entry.name.endswith(".yaml"))


def load(recipe: str) -> Recipe:
    """Load a recipe by its name or from a YAML file; raise ``InputError`` if it is not valid.

    >>> load("grid").hit_share
    0.5
    """
    if recipe.endswith((".yaml", ".yml")):
        path = Path(recipe)
    elif recipe in names():
        path = Path(str(resources.files("chexqa.generators").joinpath("recipes", f"{recipe}.yaml")))
    else:
        raise InputError(
            f"there is no recipe '{recipe}'{suggest(recipe, names())}; give the name of a recipe, or the path of a "
            ".yaml file."
        )
    record = read_yaml(path, "recipe")
    loaded: Recipe
    if record["task"] == "perception":
        loaded = codec.decode(PerceptionRecipe, record)
    elif record["task"] == "grid":
        loaded = codec.decode(GridRecipe, record)
    else:
        loaded = codec.decode(PlacesRecipe, record)
    for finding in loaded.findings:
        find(finding, f"{path}, field 'findings'")
    wrong = loaded.wrong()
    if wrong:
        raise InputError(f"{path}: {wrong}.")
    return loaded
