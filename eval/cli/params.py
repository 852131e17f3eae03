"""Options that several commands share: positive amounts, the name of a wording, and the choice of models."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import click

from chexqa.eval.models import in_process, registry
from chexqa.eval.models.registry import Model
from chexqa.eval.scoring.grade import MARGIN as DEFAULT_MARGIN
from chexqa.files.errors import InputError, SentenceError, suggest

P = ParamSpec("P")
T = TypeVar("T")


class PositiveFloat(click.FloatRange):
    """Type of an option: a finite number above zero.

    Click's own range would also accept ``nan``, and a limit of ``nan`` would never be reached.
    """

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise click's error if the value is not a finite number above 0."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number above 0.", param, ctx)
        return number


MARGIN = click.option(
    "--margin", metavar="POINTS", type=PositiveFloat(),
    help="Margin in points: two models count as alike if their scores differ by less. Choose it before grading.  "
    f"[default: {100 * DEFAULT_MARGIN:g}]",
)  # fmt: skip


Command = TypeVar("Command", bound=Callable[..., Any])


def other_model(command: Command) -> Command:
    """Add the options ``--model-id``, ``--api-base`` and ``--provider-protocol`` to a command."""
    for option in (
        click.option(
            "--provider-protocol", is_flag=True,
            help="Send requests to --api-base in the provider's own format, not in OpenAI's (for anthropic/…, gemini/… "
                 "and vertex_ai/…).",
        ),
        click.option(
            "--api-base", metavar="URL",
            help="Address of the model's OpenAI-compatible server; its API key is read from CHEXQA_API_KEY.",
        ),
        click.option(
            "--model-id", metavar="ID",
            help="A model that chexqa does not list: its litellm id, its name at the server that --api-base "
                 "gives, or transformers/FOLDER_OR_ID.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def named_options(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options, keyed by their names in Python: ``until_decided`` for ``--until-decided``."""
    return {
        max(option.opts, key=len).removeprefix("--").replace("-", "_"): option
        for option in command.params
        if isinstance(option, click.Option)
    }


def values(
    command: click.Command, arguments: Sequence[str], given: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return the values of a command's parameters, converted and checked as on the command line.

    ``arguments`` has the values of the positional arguments. ``given`` has values of options, keyed by their names in
    Python; None means the command's default. Only the options in ``names`` may be given. Raises ``InputError`` for an
    unknown name and for a value that the command refuses.
    """
    known, allowed, line = named_options(command), set(names), []
    for name, value in given.items():
        if name not in allowed:
            raise InputError(f"there is no option '{name}'{suggest(name, allowed)}.")
        option = f"--{name.replace('_', '-')}"
        if known[name].is_flag and not isinstance(value, bool | None):
            raise InputError(f"{name}={value!r}: give True or False.")
        if known[name].is_flag:
            line += [option] if value else []
        elif value is not None:
            line.append(f"{option}={value}")
    try:
        return command.make_context(command.name, [*line, "--", *arguments]).params
    except click.UsageError as error:
        raise InputError(error.format_message()) from None


def checked(command: click.Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of some of a command's options, converted and checked; None stays None.

    ``given`` is keyed by the options' names in Python. Raises ``InputError`` for a value that the command refuses.
    """
    options, context = named_options(command), click.Context(command)
    try:
        return {
            name: None if value is None else options[name].type_cast_value(context, str(value))
            for name, value in given.items()
        }
    except click.UsageError as error:
        raise InputError(error.format_message()) from None


# Options whose arguments have other names in Python.
_RENAMED = {"recipe": "recipes", "plugin": "plugins", "model_id": "models", "python": "models", "set": "decoding"}
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])(?![\w-])")


def names_arguments(options: Mapping[str, Any] = MappingProxyType({})) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: in errors of the function, names of command-line options become names of its arguments.

    For example, ``--api-base`` becomes ``api_base``, and the flag ``--blind`` becomes ``blind=True``. An option that
    matches no argument of the function is left as it is.

    ``options``: names and types of further arguments, which the function takes as ``**options``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kinds = function.__annotations__ | dict(options)

        def argument(option: re.Match[str]) -> str:
            name = option[1].replace("-", "_")
            name = _RENAMED.get(name, name)
            if name not in kinds:
                return option[0]
            return f"{name}=True" if getattr(kinds[name], "__forward_arg__", kinds[name]) == "bool" else name

        @wraps(function)
        def called(*given: P.args, **named: P.kwargs) -> T:
            try:
                return function(*given, **named)
            except SentenceError as error:
                error.args = (_OPTION.sub(argument, str(error)),)
                if isinstance(error, InputError):
                    error.parts = tuple(_OPTION.sub(argument, part) for part in error.parts)
                raise

        return called

    return decorate


def select(
    names: str | Sequence[str] | None,
    model_id: str | None = None,
    api_base: str | None = None,
    models_file: Path | None = None,
    provider_protocol: bool = False,
) -> list[Model]:
    """Return the models that a command's options name; ``model_id`` comes last.

    Both ``names`` ("A,B") and ``model_id`` accept registered models, litellm ids, and names of models on the server at
    ``api_base``; ``names`` may be a list. ``provider_protocol``: see :func:`registry.adhoc`.
    """
    if names is None and model_id is None:
        if api_base is not None:
            raise InputError("--api-base needs a model; give --model-id NAME, the model's name on the server.")
        raise InputError("no model is named; give --models A,B or --models all ('chexqa models' lists the models).")
    if provider_protocol and api_base is None:
        raise InputError(
            "--provider-protocol applies only to a server at --api-base; give --api-base, or leave out "
            "--provider-protocol."
        )
    registered = registry.load(models_file)

    def other(name: str) -> Model | None:
        if api_base is None and "/" not in name:
            return None
        if provider_protocol:
            return registry.adhoc(name, api_base, True)
        return in_process.unregistered(name, api_base, registered)

    chosen = registry.choose(names, registered, other) if names is not None else []
    if model_id is not None and model_id.strip() in registered:
        model = registered[model_id.strip()]
        if api_base is not None:
            raise InputError(f"--model-id {model.name}: a registered model has that name; {_at_address(model)}.")
        chosen += [] if model in chosen else [model]
    elif model_id is not None:
        chosen += [registry.adhoc(model_id, api_base, True) if provider_protocol else
                   in_process.unregistered(model_id, api_base, registered)]  # fmt: skip
    if api_base is not None and all(model.name in registered for model in chosen):
        model = chosen[-1]
        raise InputError(f"--api-base is for models that are not registered; {_at_address(model)}.")
    return chosen


def _at_address(model: Model) -> str:
    """Return a clause that tells the user how to ask a registered model's name at a server of the user's choice."""
    variable = model.endpoint_variable
    own = f"set {variable} to the server's address and use --models {model.name}, or " if variable else ""
    return f"{own}ask the server's own model of that name with --model-id openai/{model.name}"


def prompt(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the wording's name; raise click's error if it is not ``plain``, ``reason`` or ``bank:NAME``."""
    if value is None or value in ("plain", "reason") or re.fullmatch(r"bank:[A-Za-z0-9][\w.-]{0,79}", value, re.ASCII):
        return value
    raise click.BadParameter(f"'{value}' is not a wording; give plain, reason, or bank:NAME.", ctx, param)
