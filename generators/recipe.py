"""Recipes: the numbers that make a benchmark, one YAML file each, and their loader."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from chexqa.errors import InputError, suggest
from chexqa.findings import find
from chexqa.records import Record, read_yaml

DEFAULT = ("chexpercept", "grid")


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
    for finding in record["findings"]:
        find(finding, f"{path}, field 'findings'")
    return record
