"""The JSON Schemas (draft 2020-12), one for each file format, and nothing else."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator


def names() -> list[str]:
    """The names of all schemas, sorted: ``["answer", "benchmark", "case", …]``."""
    suffix = ".schema.json"
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(suffix) for name in files if name.endswith(suffix))


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """The schema called ``name``; raises ``FileNotFoundError`` for a name that is not in :func:`names`."""
    text = resources.files(__name__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """A validator for the schema called ``name``."""
    return Draft202012Validator(schema(name))
