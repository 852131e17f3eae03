"""Types of options that several commands have: an amount of seconds, minutes or dollars; the name of a wording."""

from __future__ import annotations

import math
import re
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


def prompt(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the name of a wording; raise click's error for a name of no known form."""
    if value is None or value in ("plain", "reason") or re.fullmatch(r"bank:[A-Za-z0-9][\w.-]{0,79}", value, re.ASCII):
        return value
    raise click.BadParameter(f"'{value}' is no wording; give plain, reason, or bank:NAME.", ctx, param)
