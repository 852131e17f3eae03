"""Whether a record fits its schema, at a fraction of jsonschema's cost: each schema becomes one Python expression.

jsonschema takes a millisecond for an item of 64 options, and a run has tens of thousands of lines. What does not fit is
put to jsonschema all the same (``chexqa.records``), for the sentence that says why. A schema with a keyword that is not
translated here is left to jsonschema altogether.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chexqa import schemas

Check = Callable[[Any], bool]

_SILENT = {"$schema", "$comment", "title", "description"}
_TYPES = {
    "string": "type({0}) is str",
    "integer": "(type({0}) is int or type({0}) is float and {0}.is_integer())",
    "number": "type({0}) in (int, float)",
    "boolean": "type({0}) is bool",
    "null": "{0} is None",
    "object": "type({0}) is dict",
    "array": "type({0}) is list",
}
# A bound says nothing about what is of another type.
_BOUNDS = {
    "minLength": "(type({0}) is not str or len({0}) >= {1})",
    "minItems": "(type({0}) is not list or len({0}) >= {1})",
    "maxItems": "(type({0}) is not list or len({0}) <= {1})",
    "minimum": "(type({0}) not in (int, float) or {0} >= {1})",
    "maximum": "(type({0}) not in (int, float) or {0} <= {1})",
}
_OBJECT = {"properties", "required", "additionalProperties"}


class UntranslatedError(ValueError):
    """A schema says something that has no translation here."""


@functools.cache
def fits(name: str) -> Check:
    """The function that says whether a record fits the schema called ``name``."""
    try:
        return compiled(schemas.schema(name))
    except UntranslatedError:
        return schemas.validator(name).is_valid


def compiled(schema: Mapping[str, Any]) -> Check:
    """A schema as a function; raises ``UntranslatedError``."""
    constants: dict[str, Any] = {}
    check: Check = eval(f"lambda value: {_expression(schema, 'value', constants)}", constants)
    return check


def _expression(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> str:
    """The schema as an expression in ``value``, itself an expression; puts what it refers to into ``constants``."""
    return " and ".join(_parts(schema, value, constants)) or "True"


def _parts(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> Iterator[str]:
    # The type comes first, so that what is of another type is never looked into.
    for keyword, wanted in sorted(schema.items(), key=lambda entry: entry[0] != "type"):
        if keyword == "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            yield _either(_TYPES[name].format(value) for name in names)
        elif keyword in _BOUNDS:
            yield _BOUNDS[keyword].format(value, repr(wanted))
        elif keyword == "pattern":
            search = _constant(re.compile(wanted).search, constants)
            yield f"(type({value}) is not str or {search}({value}) is not None)"
        elif keyword in ("enum", "const"):
            yield _either(_equal(value, entry) for entry in (wanted if keyword == "enum" else [wanted]))
        elif keyword == "anyOf":
            yield _either(f"({_expression(one, value, constants)})" for one in wanted)
        elif keyword == "items":
            entry = f"entry{value.count('entry')}"
            yield f"(type({value}) is not list or all({_expression(wanted, entry, constants)} for {entry} in {value}))"
        elif keyword not in _SILENT | _OBJECT:
            raise UntranslatedError(keyword)
    if _OBJECT & schema.keys():
        yield f"(type({value}) is not dict or {' and '.join(_fields(schema, value, constants))})"


def _fields(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> Iterator[str]:
    """What an object's fields must be."""
    known, required = schema.get("properties", {}), frozenset(schema.get("required", ()))
    yield f"{_constant(required, constants)} <= {value}.keys()"
    others = schema.get("additionalProperties", True)
    if others is False:
        yield f"{value}.keys() <= {_constant(frozenset(known), constants)}"
    elif others is not True:
        field = f"entry{value.count('entry')}"
        fitting = _expression(others, f"{value}[{field}]", constants)
        yield f"all({fitting} for {field} in {value}.keys() - {_constant(frozenset(known), constants)})"
    for name, about in known.items():
        fitting = _expression(about, f"{value}[{name!r}]", constants)
        yield fitting if name in required else f"({name!r} not in {value} or {fitting})"


def _equal(value: str, wanted: object) -> str:
    """Equality as JSON has it: 1 is 1.0, and no boolean."""
    if wanted is None or isinstance(wanted, bool):
        return f"{value} is {wanted}"
    if isinstance(wanted, str):
        return f"{value} == {wanted!r}"
    if isinstance(wanted, int | float):
        return f"(type({value}) in (int, float) and {value} == {wanted!r})"
    raise UntranslatedError("a list or an object as a constant")


def _either(parts: Iterator[str]) -> str:
    return f"({' or '.join(parts)})"


def _constant(value: object, constants: dict[str, Any]) -> str:
    name = f"constant{len(constants)}"
    constants[name] = value
    return name
