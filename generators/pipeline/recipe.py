"""Recipes: the numbers that make a benchmark, one YAML file each, and their loader."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from chexqa.contract.findings import find
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, read_yaml
from chexqa.generators.contour.edit_sets import MOST
from chexqa.generators.contour.edits import taken
from chexqa.imaging.anatomy import REGIONS

DEFAULT = ("chexpercept", "grid")
# What is counted. YAML's 24.0 is a whole number to the schema, but to Python none that it counts with.
_COUNTS = frozenset(("lesion_free", "revision_free", "revision_required", "tries", "min", "max", "location_options"))
# Fields that grid recipes once had to have: the grid is always of 8 x 8 cells.
_NOT_NEEDED = ("columns", "rows")


def names() -> list[str]:
    """The recipes that come with chexqa."""
    entries = resources.files("chexqa.generators").joinpath("recipes").iterdir()
    return sorted(Path(entry.name).stem for entry in entries if entry.name.endswith(".yaml"))


def load(recipe: str) -> Record:
    """A recipe by name, or from a YAML file of one's own; checked against the schema ``recipe``."""
    if recipe.endswith((".yaml", ".yml")):
        path = Path(recipe)
    elif recipe in names():
        path = Path(str(resources.files("chexqa.generators").joinpath("recipes", f"{recipe}.yaml")))
    else:
        raise InputError(f"there is no recipe '{recipe}'{suggest(recipe, names())}; or name a .yaml file.")
    record = read_yaml(path, "recipe")
    for name in _NOT_NEEDED:
        record.pop(name, None)
    for part in (record, *(value for value in record.values() if isinstance(value, dict))):
        part.update({name: int(part[name]) for name in _COUNTS & part.keys()})
    for finding in record["findings"]:
        find(finding, f"{path}, field 'findings'")
    wrong = _wrong_number(record) if record["task"] == "perception" else _wrong_place(record)
    if wrong:
        raise InputError(f"{path}: {wrong}.")
    return record


def _wrong_number(recipe: Record) -> str | None:
    """What a schema cannot say of a perception recipe's numbers, in one clause; None where all is well."""
    edits, points, attributes = recipe["deformation"], recipe["points"], recipe["attributes"]
    ranges = {f"deformation.{name}": edits[name] for name in ("depth_to_size", "reach_to_depth", "iou")}
    ranges |= {f"deformation.max_{name}": [edits[f"min_{name}"], edits[f"max_{name}"]] for name in ("depth", "share")}
    ranges |= {"points.max": [points["min"], points["max"]], "attributes.severity_cuts": attributes["severity_cuts"]}
    for name, (low, high) in ranges.items():
        if not 0 <= low <= high:
            return f"field '{name}': {low} to {high} is no range from low to high"
    if taken(edits["max_share"]) <= edits["min_share"]:
        return (
            f"field 'deformation.max_share': with {edits['max_share']} at most {taken(edits['max_share']):.3f} can be "
            f"taken away, which is not more than min_share, {edits['min_share']}"
        )
    if edits["reach_to_depth"][0] <= 1:
        return "field 'deformation.reach_to_depth': an edit must reach farther than it is deep; begin above 1"
    if not any(edits["edit_count_weights"]):
        return "field 'deformation.edit_count_weights': at least one weight must be above 0"
    if points["max"] <= MOST:
        return f"field 'points.max': {MOST} true points and another one need at least {MOST + 1}"
    if attributes["severity_cuts"][0] == 0:
        return "field 'attributes.severity_cuts': no lesion covers less than 0 of a lung; begin above 0"
    if attributes["location_options"] > len(REGIONS):
        return f"field 'attributes.location_options': there are {len(REGIONS)} regions to choose from"
    return None


def _wrong_place(recipe: Record) -> str | None:
    """A key of ``plausible_anatomy`` that the recipe does not ask about, in one clause."""
    for name in recipe["plausible_anatomy"]:
        if name not in recipe["findings"]:
            return (
                f"field 'plausible_anatomy': the recipe does not ask about '{name}'{suggest(name, recipe['findings'])}"
            )
    return None
