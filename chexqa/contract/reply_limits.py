"""Limits on the parts of a server's reply that are stored in a turn, so that every turn fits the schema ``turn``.

A text that is too long is reduced to its beginning and its end. An invalid or impossible number becomes None.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

from chexqa.files.jsonio import Record

# Models write at most 128,000 tokens; such a reply has about half as many characters as allowed here.
MAX_TEXT_CHARACTERS = 1_000_000
_BEGINNING, _MARK_CHARACTERS = 100_000, 100
# Longest name or reason from a server.
MAX_WORD_CHARACTERS = 300
MAX_ERROR_CHARACTERS = 2_000
MAX_TOKENS = 1_000_000_000
MAX_USD = 1_000_000_000
MAX_SECONDS = 100_000_000


def text(value: object) -> str | None:
    """Return a text cut to :data:`MAX_TEXT_CHARACTERS` characters; a remark replaces the middle of a longer text."""
    whole = _storable(value)
    if whole is None or len(whole) <= MAX_TEXT_CHARACTERS:
        return whole
    end = MAX_TEXT_CHARACTERS - _BEGINNING - _MARK_CHARACTERS
    mark = f"\n[… {len(whole) - _BEGINNING - end:,} characters were left out here …]\n"
    return whole[:_BEGINNING] + mark + whole[-end:]


def short(value: object, most: int = MAX_WORD_CHARACTERS) -> str | None:
    """Return the beginning of a text, at most ``most`` characters."""
    whole = _storable(value)
    return whole if whole is None or len(whole) <= most else whole[: most - 1] + "…"


def count(value: object) -> int | None:
    """Return a number of tokens, or None if it is not a whole number from 0 to :data:`MAX_TOKENS`."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def amount(value: object, most: float) -> float | None:
    """Return ``value`` if it is a finite number from 0 to ``most``, otherwise None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= most else None  # false for NaN, and exact for a huge int


def counts(usage: dict[str, Any] | None) -> dict[str, int | None] | None:
    """Return a reply's token counts, keyed by name; an impossible count becomes None."""
    return usage and {name: count(value) for name, value in usage.items()}


def true_numbers(record: Any) -> Any:
    """Return a turn's record in which None replaces every impossible number that a server sent."""
    if not isinstance(record, dict):
        return None
    most = {"cost_usd": MAX_USD, "latency_s": MAX_SECONDS}
    bounded = {name: amount(record[name], most[name]) for name in most if _is_number(record.get(name))}
    usage = record.get("usage")
    if not isinstance(usage, dict):
        return {**record, **bounded}
    known = {name: count(value) if _is_number(value) else value for name, value in usage.items()}
    return {**record, **bounded, "usage": known}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _storable(value: object) -> str | None:
    """Return text that UTF-8 can encode: each lone surrogate becomes a question mark; None if there is no text."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else None


def is_time(text: str) -> bool:
    """Return True if the date and time in ``text`` exist; 30 February does not.

    ``text`` must already fit the schema's pattern for times.
    """
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def whole_numbers(record: Record) -> Record:
    """Return a checked turn in which whole numbers written with a decimal point (1.0) are integers."""
    counts, lists = ("repeat", "rotation", "attempts"), ("parsed", "order")
    usage = record["usage"] or {}
    numbers = [record[name] for name in counts], *(record[name] or () for name in lists), usage.values()
    if float not in map(type, itertools.chain.from_iterable(numbers)):
        return record
    made: Record = {name: int(record[name]) for name in counts}
    made |= {name: record[name] and [int(number) for number in record[name]] for name in lists}
    made["usage"] = record["usage"] and {name: value if value is None else int(value) for name, value in usage.items()}
    return record | made
