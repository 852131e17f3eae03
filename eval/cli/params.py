"""The type of options that take an amount of seconds, minutes or dollars, and the options of an unregistered model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

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


Command = TypeVar("Command", bound=Callable[..., Any])


def other_model(command: Command) -> Command:
    """Add the options ``--model-id``, ``--api-base`` and ``--provider-protocol`` to a command."""
    for option in (
        click.option(
            "--provider-protocol", is_flag=True,
            help="Ask anthropic/…, gemini/… and vertex_ai/… at --api-base in the provider's own protocol.",
        ),
        click.option(
            "--api-base", metavar="URL",
            help="The OpenAI-compatible server of that model; the key it wants is in CHEXQA_API_KEY.",
        ),
        click.option(
            "--model-id", metavar="ID", help="Any other model: a litellm id, or a name that --api-base serves."
        ),
    ):  # fmt: skip
        command = option(command)
    return command
