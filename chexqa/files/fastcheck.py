"""Fast schema checks: each schema is compiled to one Python expression, much faster than jsonschema.

jsonschema takes a millisecond for an item with 64 options, and a run has tens of thousands of lines. jsonschema still
explains records that do not fit (``chexqa.files.jsonio``), and checks schemas with a keyword that this module lacks.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chexqa import schemas
from chexqa.schemas import LEAST, MOST

Check = Callable[[Any], bool]

_SILENT = {"$schema", "$comment", "title", "description"}
_TYPES = {
    "string": "type({0}) is str",
    # Numbers are finite, and whole numbers have 64 bits, as in chexqa.schemas.
    "integer": f"((type({{0}}) is int or type({{0}}) is float and {{0}}.is_integer()) and {LEAST} <= {{0}} <= {MOST})",
    "number": f"(type({{0}}) is int and {LEAST} <= {{0}} <= {MOST} or type({{0}}) is float and -inf < {{0}} < inf)",
    "boolean": "type({0}) is bool",
    "null": "{0} is None",
    "object": "type({0}) is dict",
    "array": "type({0}) is list",
}
# The types that a keyword applies to, and its condition; values of other types always pass.
_STRING, _LIST, _NUMBER, _DICT = ("string",), ("array",), ("integer", "number"), ("object",)
_BOUNDS = {
    "minLength": (_STRING, "len({0}) >= {1}"),
    "maxLength": (_STRING, "len({0}) <= {1}"),
    "minItems": (_LIST, "len({0}) >= {1}"),
    "maxItems": (_LIST, "len({0}) <= {1}"),
    "minimum": (_NUMBER, "{0} >= {1}"),
    "maximum": (_NUMBER, "{0} <= {1}"),
}
_OTHERS = {
    _STRING: "type({0}) is not str",
    _LIST: "type({0}) is not list",
    _NUMBER: "type({0}) not in (int, float)",
    _DICT: "type({0}) is not dict",
}
_OBJECT = {"properties", "required", "additionalProperties"}


class UntranslatedError(ValueError):
    """A schema has a keyword or value without a translation."""


@functools.cache
def fits(name: str) -> Check:
    """Return a function that tells whether a record fits the schema ``name``."""
    try:
        return compiled(schemas.schema(name))
    except UntranslatedError:
        return schemas.validator(name).is_valid


def compiled(schema: Mapping[str, Any]) -> Check:
    """Compile a schema to a function; raise ``UntranslatedError`` if it cannot be translated."""
    constants: dict[str, Any] = {"inf": math.inf}
    # The expression comes only from the package's schemas; no content of other files gets into it.
    check: Check = eval(f"lambda value: {_expression(schema, 'value', constants)}", constants)  # nosec B307
    return check


def _expression(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> str:
    """Return the schema as an expression in the expression ``value``; put the objects it uses into ``constants``."""
    return " and ".join(_parts(schema, value, constants)) or "True"


def _parts(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> Iterator[str]:
    # The type comes first, so a value of another type is not examined.
    for keyword, wanted in sorted(schema.items(), key=lambda entry: entry[0] != "type"):
        if keyword == "type":
            names = [wanted] if isinstance(wanted, str) else wanted
            yield _either(_TYPES[name].format(value) for name in names)
        elif keyword in _BOUNDS:
            types, bound = _BOUNDS[keyword]
            yield _where(schema, types, value, bound.format(value, repr(wanted)))
        elif keyword == "pattern":
            search = _constant(re.compile(wanted).search, constants)
            yield _where(schema, _STRING, value, f"{search}({value}) is not None")
        elif keyword in ("enum", "const"):
            yield _either(_equal(value, entry) for entry in (wanted if keyword == "enum" else [wanted]))
        elif keyword == "anyOf":
            yield _either(f"({_expression(one, value, constants)})" for one in wanted)
        elif keyword == "items":
            entry = f"entry{value.count('entry')}"
            # For the few entries of these lists, a list is faster than a generator.
            every = f"all([{_expression(wanted, entry, constants)} for {entry} in {value}])"
            yield _where(schema, _LIST, value, every)
        elif keyword not in _SILENT | _OBJECT:
            raise UntranslatedError(keyword)
    if _OBJECT & schema.keys():
        yield _where(schema, _DICT, value, " and ".join(_fields(schema, value, constants)))


def _where(schema: Mapping[str, Any], types: tuple[str, ...], value: str, expression: str) -> str:
    """Return a condition that applies only to values of these types; the schema's type may already exclude others."""
    return f"({expression})" if schema.get("type") in types else f"({_OTHERS[types].format(value)} or {expression})"


def _fields(schema: Mapping[str, Any], value: str, constants: dict[str, Any]) -> Iterator[str]:
    """Yield the conditions on an object's fields."""
    known, required = schema.get("properties", {}), frozenset(schema.get("required", ()))
    others = schema.get("additionalProperties", True)
    if others is False and required == known.keys():
        yield f"{value}.keys() == {_constant(required, constants)}"
    else:
        yield f"{_constant(required, constants)} <= {value}.keys()"
        if others is False:
            yield f"{value}.keys() <= {_constant(frozenset(known), constants)}"
    if isinstance(others, Mapping):
        field = f"entry{value.count('entry')}"
        fitting = _expression(others, f"{value}[{field}]", constants)
        yield f"all({fitting} for {field} in {value}.keys() - {_constant(frozenset(known), constants)})"
    for name, about in known.items():
        fitting = _expression(about, f"{value}[{name!r}]", constants)
        yield fitting if name in required else f"({name!r} not in {value} or {fitting})"


def _equal(value: str, wanted: object) -> str:
    """Return a test for equality in JSON: 1 equals 1.0 but no boolean."""
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
