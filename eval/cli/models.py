"""The command group ``models``: it lists the models and, for each, what is missing on this machine (variables,
packages); it checks models, and prints commands for vLLM.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import click
from rich import box
from rich.table import Table
from rich.text import Text

from chexqa.cli.main import Entry, LazyGroup
from chexqa.eval.cli import completion
from chexqa.eval.cli.params import PositiveFloat, other_model, select
from chexqa.eval.models import data_policy, health_check, in_process, registry, vllm
from chexqa.eval.models.registry import Model, Thinking
from chexqa.files.errors import InputError, UnfinishedError, suggest
from chexqa.files.jsonio import Record
from chexqa.files.say import say, say_json
from chexqa.files.terminal import console, messages, plural

COMMANDS: dict[str, Entry] = {
    "check": Entry(
        "chexqa.eval.cli.models:check", "Send one tiny question to each model that is set up on this machine."
    ),
    "serve": Entry("chexqa.eval.cli.models:serve", "Print the vLLM command that serves an open-weights model."),
}
_FILE = click.option("--models-file", metavar="F", type=click.Path(path_type=Path), help="Your own models file (YAML).")
SAID_CHARACTERS = 60


class ModelsGroup(LazyGroup):
    """The commands of ``chexqa models``."""

    table: ClassVar[dict[str, Entry]] = COMMANDS


@click.group(cls=ModelsGroup, invoke_without_command=True, epilog="Example: chexqa models check --models gpt-5.4")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print the models as a JSON list.")
@click.pass_context
def models(ctx: click.Context, models_file: Path | None, as_json: bool) -> None:
    """Show the registered models with domain, access, price, and what each model lacks on this machine.

    To ask any other litellm id or OpenAI-compatible endpoint: 'chexqa eval … --model-id ID --api-base URL'.
    """
    if ctx.invoked_subcommand is not None:
        return
    known = list(registry.load(models_file).values())
    if as_json:
        say_json(json.dumps([_record(model) for model in known], indent=2))
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
        "system_prompt": model.system_prompt,
        "images_first": model.images_first,
        "multi_turn_images": model.multi_turn_images,
        "strip_tokens": list(model.strip_tokens),
        "thinking": model.thinking,
        "thinking_switch": model.thinking_switch,
        "image_tokens": model.image_tokens,
        "reply_tokens": model.reply_tokens,
        "vllm": list(model.vllm),
        "served_by": list(model.served_by),
    }


def _table(known: list[Model]) -> Table:
    note = (
        "To set here: environment variables. Set a …_KEY to your key, and a …_URL to the address of that model's "
        "OpenAI-compatible server (such as http://127.0.0.1:8000/v1). $/M: dollars for a million tokens, in/out; – is "
        "unknown."
    )
    table = _plain_table()
    table.caption, table.caption_justify = Text(note, style="dim"), "left"
    for name in ("model", "domain", "access"):
        table.add_column(name, no_wrap=True)
    table.add_column("$/M", justify="right", no_wrap=True)
    table.add_column("to set here", overflow="fold")
    for model in known:
        variable = registry.missing_variable(model)
        missing = Text(variable, style="yellow") if variable else Text("nothing", style="green")
        table.add_row(Text(model.name), model.domain, model.access, _price(model), missing)
    return table


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)


def _price(model: Model) -> str:
    if model.price is None:
        return "–"
    return f"{model.price.input_per_million_usd:g}/{model.price.output_per_million_usd:g}"


@click.command("check", epilog="Example: chexqa models check --models gpt-5.4,lingshu-32b")
@click.option("--models", "names", metavar="A,B|all",
              help="Models to check.  [default: all, unless --model-id is given]",
              shell_complete=completion.models)  # fmt: skip
@_FILE
@other_model
@click.option("--timeout", default=120.0, show_default=True, type=PositiveFloat(), metavar="S",
              help="Seconds to wait for an answer.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the results as a JSON list.")
def check(
    names: str | None, models_file: Path | None, model_id: str | None, api_base: str | None, provider_protocol: bool,
    timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Send one tiny picture and question to each model that is ready to be asked, and show its answer.

    A provider charges a fraction of a cent for one question. The exit code is 3 if a model fails.
    """
    if names is None and model_id is None and api_base is None:
        names = registry.ALL
    given = [in_process.placed(model) for model in select(names, model_id, api_base, models_file, provider_protocol)]
    chosen = [model for model in given if not data_policy.is_baseline(model)]
    asked = [model for model in chosen if registry.lacking(model) is None]
    if not asked:
        raise InputError("none of the chosen models can be asked here; 'chexqa models' shows what each model lacks.")
    data_policy.check_endpoints(asked)
    found = health_check.check(asked, timeout)
    if as_json:
        say_json(json.dumps([one.to_record() for one in found], indent=2))
    else:
        _show(found)
    left_out = len(chosen) - len(asked)
    if left_out:
        messages().print(
            f"Not checked: {plural(left_out, 'model')} that cannot be asked here ('chexqa models' shows why)."
        )
    failed = [one.model for one in found if not one.works]
    if failed:
        raise UnfinishedError(f"{plural(len(failed), 'model')} failed: {', '.join(failed)}.")


def _show(found: list[health_check.Check]) -> None:
    table = _plain_table()
    table.add_column("model", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("what came back", overflow="fold")
    for one in found:
        word = Text("works", style="green") if one.works else Text("fails", style="red")
        if one.works and not one.right:
            word = Text("works, answers wrong" if one.readable else "works, no readable answer", style="yellow")
        # An error is shown in full. Of a long answer only the end is shown, because it is the most informative part.
        short = one.said if not one.works or len(one.said) <= SAID_CHARACTERS else f"…{one.said[1 - SAID_CHARACTERS :]}"
        table.add_row(Text(one.model), word, "" if one.latency_s is None else f"{one.latency_s:.1f}", Text(short))
    console().print(table)


@click.command("serve", epilog="Example: chexqa models serve lingshu-32b --gpus 4")
@click.argument("name", shell_complete=completion.models)
@_FILE
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="The server's port.")
@click.option(
    "--gpus",
    type=click.IntRange(1, 64),
    help="Number of GPUs to split the model over, instead of the registry's number.",
)
@click.option(
    "--thinking",
    type=click.Choice(["on", "off"]),
    help="Let the model think before it answers (on) or not (off); a request's own setting overrides this.",
)
def serve(name: str, models_file: Path | None, port: int, gpus: int | None, thinking: Thinking | None) -> None:
    """Print the vLLM command that serves the open-weights model NAME.

    The command also prints the environment variable to set to the server's address.
    """
    known = registry.load(models_file)
    if name not in known:
        raise InputError(f"there is no model '{name}'{suggest(name, known)}; 'chexqa models' lists the models.")
    model = known[name]
    say(vllm.for_shell(vllm.command(model, port, gpus, thinking)))
    if model.endpoint_variable:
        say(
            f"Then, on the machine where chexqa runs: export {model.endpoint_variable}=http://127.0.0.1:{port}/v1",
            err=True,
        )
    if model.key_variable:
        words = (
            f'If others can reach the port: add --api-key "${model.key_variable}" and set this variable on both '
            "machines."
        )
        say(words, err=True)
