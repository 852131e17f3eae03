"""Shell completion for the values of options: names of models and of protocols."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from chexqa.eval.models import registry
from chexqa.eval.prompts import protocols
from chexqa.files.errors import InputError
from chexqa.files.text import shown


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the registered models whose names start with the text after the last comma.

    Models of ``--models-file`` are included. A model named before the last comma is not offered again.
    """
    before, comma, begun = incomplete.rpartition(",")
    file = ctx.params.get("models_file")
    try:
        known = registry.load(None if file is None else Path(file))
    except InputError:  # the command itself reports a wrong file
        known = registry.load()
    named = before.split(",")
    words = [registry.ALL] if not before else []
    items = [CompletionItem(word, help="every registered model") for word in words if word.startswith(begun)]
    for name, model in known.items():
        # A name with control characters cannot be typed on a terminal.
        if name.startswith(begun) and name not in named and shown(name) == name:
            items.append(CompletionItem(f"{before}{comma}{name}", help=f"{model.domain}, {model.access}"))
    return items


def protocol(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the protocols that start with ``incomplete``."""
    return [CompletionItem(name) for name in protocols.PROTOCOLS if name.startswith(incomplete)]
