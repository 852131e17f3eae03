"""The command ``models``: what one can ask, and what each model lacks here."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from chexqa.eval import registry
from chexqa.eval.registry import Model
from chexqa.records import Record
from chexqa.terminal import console


@click.command()
@click.option("--models-file", metavar="F", type=click.Path(path_type=Path), help="A models.yaml of your own, added.")
@click.option("--json", "as_json", is_flag=True, help="Print the models as a JSON list.")
def models(models_file: Path | None, as_json: bool) -> None:
    """Show the models one can ask, their domain, access and price, and what each one lacks here.

    Any other litellm id or OpenAI-compatible endpoint: 'chexqa eval … --model-id ID --api-base URL'.
    """
    known = list(registry.load(models_file).values())
    if as_json:
        click.echo(json.dumps([_record(model) for model in known], indent=2))
        return
    console().print(_table(known))


def _record(model: Model) -> Record:
    price = model.price
    return {
        "name": model.name,
        "litellm": model.litellm,
        "repository": model.repository,
        "domain": model.domain,
        "access": model.access,
        "lacking": registry.lacking(model),
        "endpoint": registry.endpoint(model),
        "input_per_million_usd": price.input_per_million_usd if price else None,
        "output_per_million_usd": price.output_per_million_usd if price else None,
        "decoding": model.decoding,
        "max_images": model.max_images,
        "context_tokens": model.context_tokens,
        "vllm": list(model.vllm),
    }


def _table(known: list[Model]) -> Table:
    note = (
        "To set: environment variables, a …_KEY to your key, a …_URL to the address of an OpenAI-compatible server "
        "of that model (such as http://127.0.0.1:8000/v1). $/M: dollars for a million tokens, in/out; – is unknown."
    )
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), collapse_padding=True,
        caption=Text(note, style="dim"), caption_justify="left",
    )  # fmt: skip
    for name in ("model", "domain", "access"):
        table.add_column(name, no_wrap=True)
    table.add_column("$/M", justify="right", no_wrap=True)
    table.add_column("to set here", overflow="fold")
    for model in known:
        variable = registry.missing_variable(model)
        missing = Text(variable, style="yellow") if variable else Text("nothing", style="green")
        table.add_row(Text(model.name), model.domain, model.access, _price(model), missing)
    return table


def _price(model: Model) -> str:
    if model.price is None:
        return "–"
    return f"{model.price.input_per_million_usd:g}/{model.price.output_per_million_usd:g}"
