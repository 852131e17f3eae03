"""JSON Schemas (draft 2020-12), one for each file format."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import Any

import jsonschema

# Tables and files of chexqa hold no numbers beyond these, but JSON can write them (1e999 is infinite).
LEAST, MOST = -(2**63), 2**63 - 1


def _is_number(_: object, value: object) -> bool:
    """Return True for a finite float and for a whole number of 64 bits."""
    if type(value) is int:
        return LEAST <= value <= MOST
    return type(value) is float and math.isfinite(value)


def _is_integer(checker: object, value: object) -> bool:
    """Return True for a whole number of 64 bits; by the standard, 1.0 is one too."""
    whole = type(value) is int or (type(value) is float and value.is_integer() and LEAST <= value <= MOST)
    return whole and _is_number(checker, value)


_untyped: Any = jsonschema.validators
_types = {"number": _is_number, "integer": _is_integer}
Draft202012Validator: type[jsonschema.Draft202012Validator] = _untyped.extend(
    jsonschema.Draft202012Validator, type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(_types)
)


def names() -> list[str]:
    """Return the names of all schemas, sorted: ``["answer", "benchmark", "case", …]``."""
    suffix = ".schema.json"
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(suffix) for name in files if name.endswith(suffix))


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema called ``name``; raise ``FileNotFoundError`` for a name that is not in :func:`names`."""
    text = resources.files(__name__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return a validator for the schema called ``name``."""
    return Draft202012Validator(schema(name))
