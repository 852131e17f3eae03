"""The JSON Schemas (draft 2020-12), one for each file format, and nothing else."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import Any

import jsonschema

# Beyond these no table or file of chexqa's can hold a number, and JSON can write them all the same (1e999 is endless).
LEAST, MOST = -(2**63), 2**63 - 1


def _is_number(_: object, value: object) -> bool:
    """Whether a value is a number that has an end, and for a whole one 64 bits."""
    if type(value) is int:
        return LEAST <= value <= MOST
    return type(value) is float and math.isfinite(value)


def _is_integer(checker: object, value: object) -> bool:
    """As the standard has it, 1.0 is a whole number too."""
    whole = type(value) is int or (type(value) is float and value.is_integer() and LEAST <= value <= MOST)
    return whole and _is_number(checker, value)


_untyped: Any = jsonschema.validators
_types = {"number": _is_number, "integer": _is_integer}
Draft202012Validator: type[jsonschema.Draft202012Validator] = _untyped.extend(
    jsonschema.Draft202012Validator, type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(_types)
)


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
def validator(name: str) -> jsonschema.Draft202012Validator:
    """A validator for the schema called ``name``."""
    return Draft202012Validator(schema(name))
