"""Frozen dataclasses from checked JSON records and back: one rule for all of them.

A field may be a dataclass, a tuple, a mapping with text keys, a literal, a plain value, or one of these or None.
Records are checked against their schema beforehand, so an error raised here is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_record(value: Any) -> dict[str, Any]:
    """Return a dataclass as a JSON object, its fields in their order."""
    return {name: _plain(getattr(value, name)) for name in _hints(type(value))}


def from_record(wanted: type[T], record: Mapping[str, Any]) -> T:
    """Return a dataclass of the type ``wanted`` from its JSON object.

    Fields of the record that the dataclass does not have are ignored; a whole number stays one where a number is
    wanted, so that the record comes back as it was.
    """
    return wanted(**{name: _typed(hint, record[name]) for name, hint in _hints(wanted).items() if name in record})


def _hints(wanted: Any) -> dict[str, Any]:
    """The type of each field of a dataclass, in their order."""
    return _hints_of(wanted)


@cache
def _hints_of(wanted: Any) -> dict[str, Any]:
    hints = get_type_hints(wanted)
    assert is_dataclass(wanted)
    return {one.name: hints[one.name] for one in fields(wanted)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_record(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _typed(wanted: Any, value: Any) -> Any:
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return None if value is None else _typed(next(one for one in inner if one is not NoneType), value)
    if origin is tuple:
        kinds = inner if inner[-1] is not Ellipsis else (inner[0],) * len(value)
        return tuple(_typed(kind, entry) for kind, entry in zip(kinds, value, strict=True))
    if origin is not None and isinstance(value, Mapping):
        return {key: _typed(inner[1], entry) for key, entry in value.items()}
    if is_dataclass(wanted) and isinstance(wanted, type):
        return from_record(wanted, value)
    # YAML's 24.0 is a whole number to a schema, and none that Python counts with.
    return int(value) if wanted is int else value
