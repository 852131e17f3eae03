"""The command ``chexqa estimate``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.table import Table

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.batches import rounds
from chexqa.eval.cli import completion, params
from chexqa.eval.cli.params import other_model, select
from chexqa.eval.models import client
from chexqa.eval.prompts import conditions, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.runs.cost_estimate import Estimate, Work, estimate, work
from chexqa.files.say import say_json
from chexqa.files.terminal import console, messages, plural, progress

_COUNT = click.IntRange(1, 1_000_000_000_000)
_TIMES = click.IntRange(1, 10_000)
_PATH = click.Path(path_type=Path)


@click.command("estimate", epilog="Example: chexqa estimate bench --models all --protocol end_to_end")
@click.argument("bench", type=_PATH)
@click.option("--models", "names", metavar="A,B|all", shell_complete=completion.models,
              help="Registered models ('chexqa models' lists them), or ids as for --model-id.")  # fmt: skip
@other_model
@click.option("--models-file", type=_PATH, metavar="FILE", help="A models.yaml of your own.")
@click.option("--protocol", "named", multiple=True, metavar="|".join(protocols.PROTOCOLS),
              shell_complete=completion.protocol,
              help="A protocol; repeat the option for several.  [default: all]")  # fmt: skip
@click.option("--prompt", metavar="plain|reason|bank:NAME", callback=params.prompt,
              help="Prompt wording: the answer alone, reasoning first, or the bank's wording NAME.")  # fmt: skip
@click.option(
    "--system", type=_PATH, metavar="FILE", help="A system prompt of your own, used instead of the question bank's."
)
@click.option("--shots", default=0, show_default=True, type=click.IntRange(0, 100), metavar="K",
              help="Count K worked examples before each question.")  # fmt: skip
@click.option("--blind", is_flag=True, help="Count prompts without pictures.")
@click.option("--overlay-only", is_flag=True, help="Count only the drawings on plain grey.")
@click.option("--rotate", "rotations", default=1, show_default=True, type=_TIMES, metavar="N",
              help="Count each conversation N times, with its options in N orders.")  # fmt: skip
@click.option(
    "--repeats", default=1, show_default=True, type=_TIMES, metavar="K", help="Count each conversation K times."
)
@click.option("--limit", type=_COUNT, metavar="N", help="Count only N cases (approximately).")
@click.option("--limit-per-path", type=_COUNT, metavar="N", help="Count only N cases of each path (approximately).")
@click.option(
    "--reply-tokens", type=_COUNT, metavar="N", help="Number of tokens in a reply, instead of the registry's estimate."
)
@click.option("--batch", is_flag=True, help="Count half of each price, as batch endpoints charge.")
@click.option("--cached", is_flag=True, help="Assume that the provider's prefix cache holds every earlier turn.")
@click.option("--json", "as_json", is_flag=True, help="Print the estimates as a JSON list.")
def command(bench: Path, names: str | None, models_file: Path | None, as_json: bool, **given: Any) -> None:
    """Estimate what a run over the benchmark BENCH would ask and cost, for each protocol and model.

    Calls and pictures are counted from the real conversations. Tokens are estimated: one for four characters of text,
    the provider's count for a picture, and a guess for a reply. A cost is unknown if the price, the tokens of a
    picture or the tokens of a reply are unknown; the last lines say which field of a models file is missing.
    """
    chosen = select(names, given["model_id"], given["api_base"], models_file, given["provider_protocol"])
    loaded = benchmark.load(bench)
    wanted = [protocols.named(name) for name in given["named"]] or _possible(loaded)
    modifiers = Modifiers(given["blind"], given["overlay_only"], given["rotations"], given["repeats"])
    condition = conditions.given(given["prompt"], given["system"], given["shots"])
    price = (lambda model: rounds.discounted(client.price(model))) if given["batch"] else client.price
    prices = {model.name: price(model) for model in chosen}
    found: list[tuple[Work, list[Estimate]]] = []
    with progress("rendering conversations", len(wanted)) as advance:
        for protocol in wanted:
            load = work(loaded, protocol, modifiers, given["limit"], given["limit_per_path"], condition)
            rows = [estimate(load, one, prices[one.name], given["reply_tokens"], given["cached"]) for one in chosen]
            found.append((load, rows))
            advance()
    if as_json:
        records = [
            {**asdict(row), "conversations": load.conversations, "calls": load.calls, "images": load.images,
             "picture_bytes": load.picture_bytes}
            for load, rows in found for row in rows
        ]  # fmt: skip
        say_json(json.dumps(records, indent=2))
        return
    for load, rows in found:
        _show(load, rows)


def _possible(loaded: Benchmark) -> list[protocols.Protocol]:
    """Return the protocols that can be asked.

    Without a key the oracle protocols are left out, and a note is printed.
    """
    possible = [name for name in protocols.PROTOCOLS if loaded.answers is not None or not protocols.needs_key(name)]
    if len(possible) < len(protocols.PROTOCOLS):
        messages().print("The oracle protocols are left out: they need the benchmark's key, which is missing.")
    return possible


def _show(load: Work, rows: list[Estimate]) -> None:
    """Print one protocol's estimates as a table."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("model", no_wrap=True)
    for name in ("M tokens in", "of pictures", "M out", "dollars"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("calls over its limits")
    for row in rows:
        too = [f"{row.too_long:,} too long"] * bool(row.too_long)
        too += [f"{row.too_many_images:,} with too many pictures"] * bool(row.too_many_images)
        cells = (_millions(row.input_tokens), _millions(row.image_tokens), _millions(row.output_tokens))
        dollars = "unknown" if row.cost_usd is None else f"{row.cost_usd:,.2f}"
        table.add_row(row.model, *cells, dollars, ", ".join(too))
    out = console()
    out.print(
        f"{load.protocol}: {plural(load.calls, 'call')} in {plural(load.conversations, 'conversation')}, "
        f"{plural(load.images, 'picture')} ({load.picture_bytes / 1e9:,.1f} GB) for each model",
        soft_wrap=True,
    )  # fmt: skip
    out.print(table)
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    unknown = len(rows) - len(known)
    if known:
        more = f", without {plural(unknown, 'model')} of unknown cost" if unknown else ""
        out.print(f"Together ${sum(known):,.2f}{more}.", soft_wrap=True)
    for row in rows:
        if row.lacking:
            fields = " and ".join(", ".join(row.lacking).rsplit(", ", 1))
            instead = " (or give --reply-tokens)" if "reply_tokens" in row.lacking else ""
            out.print(
                f"{row.model}: its cost is unknown without {fields}; write them into a models file{instead}.",
                soft_wrap=True,
            )
    out.print()


def _millions(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens / 1e6:,.2f}"
