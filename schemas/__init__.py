"""JSON Schemas (draft 2020-12), one for each file format, and the two validators that check records.

``fits`` uses the package jsonschema-rs and answers yes or no in a few microseconds. ``validator`` uses the package
jsonschema and takes up to a millisecond; it explains why a record does not fit. Both accept the same JSON values.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:
    import jsonschema

Check = Callable[[object], bool]

# Bounds of every number: the 64-bit integers of a table. JSON can hold larger numbers, such as 1e999.
MOST = 2**63 - 1
LEAST = -MOST


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
def fits(name: str) -> Check:
    """Return a check function for the schema called ``name``: it takes a record and returns True if the record fits."""
    return fast_check(schema(name))


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return jsonschema's validator for the schema ``name``; it explains why a record does not fit."""
    return slow_validator(schema(name))


def fast_check(schema: dict[str, Any]) -> Check:
    """Return a check function for ``schema``: it takes a value and returns True if the value fits."""
    is_valid = jsonschema_rs.Draft202012Validator(_with_bounds(schema)).is_valid

    def check(value: object) -> bool:
        try:
            return is_valid(value)
        except ValueError:  # a lone surrogate, or a Python object that has no JSON form
            return slow_validator(schema).is_valid(value)

    return check


def slow_validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Return jsonschema's validator for ``schema``, changed so that it accepts the same values as :func:`fast_check`.

    Numbers are limited to 64 bits, and patterns are read as in ECMA-262.
    """
    return _validator_class()(schema)


@functools.cache
def _validator_class() -> type[jsonschema.Draft202012Validator]:
    import jsonschema  # this import takes 0.1 s and is needed only for an error

    base = jsonschema.Draft202012Validator
    types = base.TYPE_CHECKER.redefine_many({"number": _is_number, "integer": _is_integer})
    untyped: Any = jsonschema.validators
    made: type[jsonschema.Draft202012Validator] = untyped.extend(base, {"pattern": _pattern}, type_checker=types)
    return made


def _is_number(_: object, value: Any) -> bool:
    """Return True if a value is a number within the bounds."""
    return type(value) in (int, float) and LEAST <= value <= MOST


def _is_integer(checker: object, value: Any) -> bool:
    """Return True if a value is a whole number within the bounds; by the standard, 1.0 is a whole number."""
    return _is_number(checker, value) and value % 1 == 0


def _pattern(_: object, pattern: str, value: object, __: object) -> Iterator[jsonschema.ValidationError]:
    """Yield an error if a text does not match the pattern as ECMA-262 reads it.

    In ECMA-262 ``$`` matches only at the end of the text and ``\\d`` only an ASCII digit. In Python ``$`` also matches
    before a final newline.
    """
    from jsonschema import ValidationError

    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value, re.ASCII):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _with_bounds(schema: Any) -> Any:
    """Return a copy of a schema in which every number has the bounds :data:`LEAST` and :data:`MOST`, or closer ones."""
    if isinstance(schema, list):
        return [_with_bounds(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: _with_bounds(value) for key, value in schema.items()}
    types = [schema.get("type")] if isinstance(schema.get("type"), str) else schema.get("type")
    if isinstance(types, list) and {"integer", "number"} & set(types):
        copy["minimum"] = max(LEAST, schema.get("minimum", LEAST))
        copy["maximum"] = min(MOST, schema.get("maximum", MOST))
    return copy
