"""Conversion between frozen dataclasses and JSON records.

A field's type can be a dataclass, a tuple, another sequence, a mapping with text keys, a literal or a plain value, each
also optional. A dataclass with its own methods ``to_record`` and ``from_record`` is converted by these methods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return a value as JSON: dataclasses become objects with their fields in order, collections become lists.

    >>> encode({"sizes": (1024, 832)})
    {'sizes': [1024, 832]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _encode(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _encode(entry) for key, entry in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [_encode(entry) for entry in value]
    return value


def _encode(value: Any) -> Any:
    """Return, as JSON, a value that is part of another value."""
    return value.to_record() if hasattr(value, "to_record") else encode(value)


def decode(wanted: type[T], record: Mapping[str, Any]) -> T:
    """Return an instance of the dataclass ``wanted`` from a JSON object; unknown fields are ignored.

    Raises ``ValueError`` if a field is missing or of another type. A whole number in a float field stays an integer, so
    that the record is written again unchanged.
    """
    hints = _hints(wanted)
    missing = [name for name, (_, required) in hints.items() if required and name not in record]
    if missing:
        raise ValueError(f"field '{missing[0]}' is missing")
    return wanted(**{name: _decode(hint, record[name]) for name, (hint, _) in hints.items() if name in record})


def _hints(made: Any) -> dict[str, tuple[Any, bool]]:
    """Return, for each field of a dataclass, its type, and True if the field is required."""
    return _hints_of(made)


@cache
def _hints_of(made: Any) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(made)
    return {one.name: (hints[one.name], one.default is one.default_factory is MISSING) for one in fields(made)}


def _decode(wanted: Any, value: Any) -> Any:
    """Return a JSON value converted to the type ``wanted``."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return None if value is None else _decode(next(one for one in inner if one is not NoneType), value)
    if is_dataclass(wanted) and isinstance(wanted, type) and isinstance(value, Mapping):
        made = getattr(wanted, "from_record", None)
        return decode(wanted, value) if made is None else made(value)
    if origin is Literal and value in inner:
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {name: _decode(inner[1], entry) for name, entry in value.items()}
    if isinstance(origin, type) and not issubclass(origin, Mapping) and isinstance(value, list | tuple):
        # A tuple of fixed length has one type for each entry, every other sequence one type for all.
        types = inner if origin is tuple and inner[-1] is not Ellipsis else (inner[0],) * len(value)
        if len(types) == len(value):
            return tuple(_decode(one, entry) for one, entry in zip(types, value, strict=True))
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)  # JSON Schema accepts 24.0 as an integer
    if wanted is Any:
        return value
    plain = (int, float) if wanted is float else wanted
    if origin is None and isinstance(value, plain) and (wanted is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"{value!r:.50} is not of type {getattr(wanted, '__name__', wanted)}")
