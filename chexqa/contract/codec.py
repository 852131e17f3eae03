"""Conversion between frozen dataclasses and JSON records.

A field's type can be a dataclass, a sequence, a mapping with text keys, a literal or a plain value. Each of these types
can be optional (``int | None``). A dataclass with the methods ``to_record`` and ``from_record`` is converted by them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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

    Raise ``ValueError`` if a field is missing or of another type. A whole number in a float field stays an integer.
    """
    readers = _readers(wanted)
    missing = [name for name, (_, required) in readers.items() if required and name not in record]
    if missing:
        raise ValueError(f"field '{missing[0]}' is missing")
    return wanted(**{name: read(record[name]) for name, (read, _) in readers.items() if name in record})


def _readers(made: Any) -> dict[str, tuple[Callable[[Any], Any], bool]]:
    """Return, for each field of a dataclass, the function that reads it, and True if the field is required."""
    return _readers_of(made)


@cache
def _readers_of(made: Any) -> dict[str, tuple[Callable[[Any], Any], bool]]:
    hints = get_type_hints(made)
    return {one.name: (_reader(hints[one.name]), one.default is one.default_factory is MISSING) for one in fields(made)}


def _reader(wanted: Any) -> Callable[[Any], Any]:
    """Return a function that converts a JSON value to the type ``wanted``."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return lambda value: value
    if origin in (Union, UnionType):
        some = _reader(next(one for one in inner if one is not NoneType))
        return lambda value: None if value is None else some(value)
    if is_dataclass(wanted) and isinstance(wanted, type):
        return _dataclass_reader(wanted)
    if origin is Literal:
        return lambda value: value if value in inner else _refuse(value, wanted)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entry = _reader(inner[1])
        return lambda value: (
            {name: entry(one) for name, one in value.items()} if isinstance(value, Mapping) else _refuse(value, wanted)
        )
    if isinstance(origin, type):
        return _sequence_reader(wanted, origin, inner)
    return _plain_reader(wanted)


def _dataclass_reader(wanted: Any) -> Callable[[Any], Any]:
    made = getattr(wanted, "from_record", None)

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return _refuse(value, wanted)
        return decode(wanted, value) if made is None else made(value)

    return read


def _sequence_reader(wanted: Any, origin: type, inner: tuple[Any, ...]) -> Callable[[Any], Any]:
    # A tuple of fixed length has one type for each entry; every other sequence has one type for all entries.
    fixed = [_reader(one) for one in inner] if origin is tuple and inner[-1] is not Ellipsis else None
    entry = _reader(inner[0])

    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple) or (fixed is not None and len(fixed) != len(value)):
            return _refuse(value, wanted)
        if fixed is None:
            return tuple([entry(one) for one in value])
        return tuple([one(part) for one, part in zip(fixed, value, strict=True)])

    return read


def _plain_reader(wanted: Any) -> Callable[[Any], Any]:
    plain = (int, float) if wanted is float else wanted

    def read(value: Any) -> Any:
        if type(value) is wanted or (isinstance(value, plain) and (wanted is bool or not isinstance(value, bool))):
            return value
        if wanted is int and isinstance(value, float) and value.is_integer():
            return int(value)  # JSON Schema accepts 24.0 as an integer
        return _refuse(value, wanted)

    return read


def _refuse(value: Any, wanted: Any) -> Any:
    raise ValueError(f"{value!r:.50} is not of type {getattr(wanted, '__name__', wanted)}")
