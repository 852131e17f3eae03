"""Question banks: the wording of every question and option, one YAML file a language, and their loader."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from chexqa.errors import InputError, suggest
from chexqa.records import Record, read_yaml


def names() -> list[str]:
    """The banks that come with chexqa."""
    return sorted(
        Path(entry.name).stem for entry in resources.files(__name__).iterdir() if entry.name.endswith(".yaml")
    )


def load(bank: str) -> Record:
    """A bank by name, or from a YAML file of one's own; checked against the schema ``bank``."""
    if bank.endswith((".yaml", ".yml")):
        return read_yaml(Path(bank), "bank")
    if bank not in names():
        raise InputError(f"there is no question bank '{bank}'{suggest(bank, names())}; or name a .yaml file.")
    return read_yaml(Path(str(resources.files(__name__).joinpath(f"{bank}.yaml"))), "bank")
