"""Parameters of tests that make the same promise of many values; most of the values belong to the long tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_long(values: Iterable[Any], keep: int = 2, names: int = 1) -> list[Any]:
    """Return the values as parameters; those after the first ``keep`` belong to the long tests.

    ``names`` is the number of arguments that each value is for.
    """
    given = [(value,) if names == 1 else tuple(value) for value in values]
    return [pytest.param(*value, marks=() if number < keep else pytest.mark.long) for number, value in enumerate(given)]
