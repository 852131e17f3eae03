"""The type of options that take an amount of seconds, minutes or dollars."""

from __future__ import annotations

import math
from typing import Any

import click


class PositiveFloat(click.FloatRange):
    """A finite number above zero; click's own range also accepts ``nan``, a limit that no sum would reach."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise click's error if the value is not a finite number above 0."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number; give one above 0.", param, ctx)
        return number
