"""The command ``chexqa eval``, which asks models the questions of a benchmark."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, condition_of
from chexqa.eval.cli import batches, completion, live_progress, params
from chexqa.eval.cli.params import PositiveFloat, other_model, select
from chexqa.eval.design import subset
from chexqa.eval.design.pair_decision import TARGETS, Decision, StoppingRule
from chexqa.eval.design.weights import ON
from chexqa.eval.models import in_process, registry
from chexqa.eval.models.rate_limit import OutagePolicy, RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import conditions, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.runs import dry_run, runner, until_decided
from chexqa.eval.runs.budget import Budget
from chexqa.eval.runs.model_progress import ModelProgress, unfinished
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.stress import cells
from chexqa.eval.stress.unequal_wordings import unequal
from chexqa.eval.stress.wordings import WORDING
from chexqa.files.errors import InputError
from chexqa.files.say import argument, say, say_json
from chexqa.files.terminal import console, loading, messages, plural
from chexqa.generators.interventions import altered_items

_COUNT = click.IntRange(1, 1_000_000_000_000)
_TIMES = click.IntRange(1, 10_000)
_AMOUNT = PositiveFloat()
_PATH = click.Path(path_type=Path)
_NO_KEY = "Or ask the baselines, which need neither key nor server: --models baseline/chance,baseline/oracle"


@click.command("eval", epilog="'chexqa models' lists the models and what each model lacks on this machine.")
@click.argument("bench", type=_PATH)
@click.option("-o", "--out", "folder", type=_PATH, metavar="RUN",
              help="The run's folder. The same command resumes the run; other models can be added.")  # fmt: skip
@click.option("--models", "names", metavar="A,B|all", shell_complete=completion.models,
              help="Registered models (see 'chexqa models'), or ids in the form that --model-id takes.")  # fmt: skip
@other_model
@click.option("--python", "callables", multiple=True, metavar="FILE.py:NAME",
              help="A Python function or class as a model (docs/own-models.md); may be repeated.")  # fmt: skip
@click.option("--devices", metavar="D,D",
              help="Devices for --python and transformers/…: GPU numbers, or cpu. 0,1 starts two processes with one "
                   "GPU each; 0+1,2+3 starts two processes with two GPUs each.")  # fmt: skip
@click.option("--models-file", type=_PATH, metavar="FILE", help="Your own models file (YAML).")
@click.option(
    "--skip-unavailable", is_flag=True, help="Leave out models that cannot be asked, such as models without an API key."
)
@click.option(
    "--max-tokens", type=_COUNT, metavar="N", help="Largest number of tokens in a reply; replaces the model's setting."
)
@click.option("--temperature", type=click.FloatRange(0, 100), metavar="T",
              help="Temperature; replaces the model's setting.")  # fmt: skip
@click.option("--frame", metavar="NAME",
              help="Frame of the model's coordinates (unit and order of the numbers), such as thousand-yxyx; replaces "
              "the model's setting.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="Set an argument of the request to VALUE, as JSON; null removes it. May be repeated.")  # fmt: skip
@click.option("--protocol", default="end_to_end", show_default=True, metavar="|".join(protocols.PROTOCOLS),
              shell_complete=completion.protocol, help="What a model sees of its earlier answers.")  # fmt: skip
@click.option("--prompt", metavar="plain|reason|bank:NAME", callback=params.prompt,
              help="Ask for the answer only, ask for reasoning first, or use the bank's wording NAME.")  # fmt: skip
@click.option(
    "--system", type=_PATH, metavar="FILE", help="A system prompt of your own, used instead of the question bank's."
)
@click.option("--shots", default=0, show_default=True, type=click.IntRange(0, 100), metavar="K",
              help="Number of examples before each question: other patients' items with right answers.")  # fmt: skip
@click.option("--confidence", is_flag=True, help="Ask for a confidence in percent after every answer.")
@click.option("--may-abstain", is_flag=True, help="Let the model abstain; an abstention counts as not right.")
@click.option("--logprobs", is_flag=True,
              help="Request the log-probabilities of the reply's tokens; chexqa computes a second confidence from "
              "them, beside the one that the model states.")  # fmt: skip
@click.option("--stress", metavar="all|noise,wording,…",
              help="Ask each question once more, changed in one way: a degraded radiograph, other words, or a false "
              "history.")  # fmt: skip
@click.option("--blind", is_flag=True, help="Send the text without the pictures.")
@click.option("--condition", "interventions", multiple=True, metavar="C,C",
              help="Versions of the radiograph to ask about: original, target (lesion filled in), partial (lesion "
              "partly filled in), irrelevant (other lung tissue filled in), mirror (mirrored); may be repeated  "
              "[default: original].")  # fmt: skip
@click.option(
    "--overlay-only",
    is_flag=True,
    help="Send pictures with the drawn outlines and marks on plain grey instead of on the radiograph; needs 'generate "
    "--with-controls'.",
)
@click.option("--rotate", "rotations", default=1, show_default=True, type=_TIMES, metavar="N",
              help="Hold each conversation N times, once for each of N orders of the options.")  # fmt: skip
@click.option("--repeats", default=1, show_default=True, type=_TIMES, metavar="K",
              help="Hold each conversation K times.")  # fmt: skip
@click.option("--limit", type=_COUNT, metavar="N",
              help="As a trial, ask only N cases. With --condition, cases with altered pictures go first.")  # fmt: skip
@click.option("--limit-per-path", type=_COUNT, metavar="N", help="As a trial, ask only N cases of each path.")
@click.option(
    "--shard", metavar="I/N", help="Ask one part of the cases: 2/4 is the second of four. Each part has its own log."
)
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 1024),
              help="Largest number of conversations at once for each model; lowered after a server's 429.")  # fmt: skip
@click.option("--timeout", default=600.0, show_default=True, type=_AMOUNT, metavar="S",
              help="Time limit in seconds for one attempt at a question.")  # fmt: skip
@click.option("--attempts", default=6, show_default=True, type=click.IntRange(1, 100),
              help="Number of attempts at a question before the question ends as an error.")  # fmt: skip
@click.option("--give-up-after", default=30.0, show_default=True, type=_AMOUNT, metavar="MIN",
              help="Give up a model after MIN minutes in which its server only failed or answered HTTP 429 (too many "
              "requests), and after 30 s if the server has never answered.")  # fmt: skip
@click.option("--budget-usd", type=_AMOUNT, metavar="USD",
              help="Stop when the run has cost this many dollars, including costs before it was resumed.")  # fmt: skip
@click.option("--budget-tokens", type=_COUNT, metavar="N",
              help="Stop when the run has used N tokens, including those used before it was resumed.")  # fmt: skip
@click.option("--max-minutes", type=_AMOUNT, metavar="MIN", help="Stop after this many minutes.")
@click.option("--until-decided", "until", metavar="A,B",
              help="Ask models A and B about patient after patient until it is decided which is better.")  # fmt: skip
@click.option("--on", type=click.Choice(ON), help="With --until-decided: the score that decides  [default: mean].")
@click.option("--alpha", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), metavar="P",
              help="With --until-decided: probability of declaring one model better although both are equal  "
              "[default: 0.05].")  # fmt: skip
@click.option("--target", type=click.Choice(TARGETS),
              help="With --until-decided: patients for whom the decision holds. population: all similar "
              "patients. benchmark: the benchmark's own patients.  [default: population]")  # fmt: skip
@click.option("--batch", type=_PATH, metavar="DIR",
              help="Write the requests into DIR as batch files, and read the results that you put there.")  # fmt: skip
@click.option("--batch-submit", is_flag=True,
              help="With --batch: send the files, fetch the results, and repeat until all is done.")  # fmt: skip
@click.option("--batch-poll", default=60.0, show_default=True, type=_AMOUNT, metavar="S",
              help="Seconds between checks of a batch that was sent.")  # fmt: skip
@click.option("--dry-run", "dry", type=_PATH, metavar="DIR",
              help="Send nothing; write into DIR one conversation of each sort that a model would get.")  # fmt: skip
@click.option("--allow-remote-credentialed", is_flag=True,
              help="Allow sending pictures to providers even if the data set has credentialed access.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed for baseline/chance and for the examples of --shots.")
@click.option("--json", "as_json", is_flag=True, help="Print each model's states, cost and tokens as JSON.")
def evaluate(bench: Path, folder: Path | None, dry: Path | None, as_json: bool, **given: Any) -> None:
    """Ask models the questions of the benchmark BENCH.

    Each reply is written to disk before the next question is asked. After an interruption the same command continues
    and asks no answered question again.

    \b
    Examples:
      chexqa eval bench --models baseline/oracle,baseline/chance -o run
      chexqa eval bench --models gpt-5.4 --limit-per-path 5 --dry-run look
      chexqa eval bench --models all --skip-unavailable --budget-usd 50 -o run
      chexqa eval bench --model-id NAME --api-base http://127.0.0.1:8000/v1 -o run
      chexqa eval bench --models lingshu-32b --shard 2/4 --concurrency 64 -o run
      chexqa eval bench --models gpt-5.4 --blind -o run-blind
      chexqa eval bench --models gpt-5.4 --prompt reason --shots 3 -o run-reason-3
      chexqa eval bench --models gpt-5.4 --batch batches --batch-submit -o run
      chexqa eval bench --until-decided gpt-5.4,lingshu-32b --on fine -o run-decided
      chexqa eval bench --python my_model.py:answer -o run
      chexqa eval bench --models gpt-5.4 --condition original,target,irrelevant -o run
      chexqa eval bench --models gpt-5.4 --protocol independent --stress all -o run
      chexqa eval bench --model-id transformers/google/medgemma-4b-it --devices 0,1 -o run
    """
    if folder is None and dry is None:
        raise InputError("the run has no folder; give one as -o RUN.")
    benchmark.check_folder(bench)
    rule = _rule(given)
    chosen = set_up(_choose(given), given)
    protocols.named(given["protocol"])
    with loading(bench):
        loaded = benchmark.load(bench)
    if dry is not None:
        _say_dry(dry_run.write(_order(loaded, chosen, dry, given, rule), dry), dry)
        return
    assert folder is not None
    _conclude(ask(loaded, chosen, folder, given), folder, as_json, has_key=loaded.answers is not None)


def set_up(chosen: list[Model], given: dict[str, Any]) -> list[Model]:
    """Return the models with the settings in the options ``given``: devices, decoding and coordinate system.

    Raises ``InputError`` for two models of one name and for an invalid value.
    """
    twice = [name for name, count in Counter(model.name for model in chosen).items() if count > 1]
    if twice:
        raise InputError(f"two models are called '{twice[0]}'; give one of them another name (its attribute 'name').")
    named = (*given["settings"], *(["logprobs=true"] if given["logprobs"] else []))
    settings = registry.overrides(named, given["max_tokens"], given["temperature"])
    return [
        registry.in_frame(registry.overridden(model, settings), given["frame"])
        for model in _placed(chosen, given["devices"])
    ]


def ask(bench: Benchmark, chosen: list[Model], folder: Path, given: dict[str, Any]) -> list[ModelProgress]:
    """Ask the models, live or in batches; return each model's progress. ``given`` has the command's options.

    The command ``chexqa eval`` and :func:`chexqa.evaluate` call this function.
    """
    rule, batch = _rule(given), given["batch"]
    if batch is not None and rule is not None:
        raise InputError(
            "--until-decided needs the answers patient by patient, but --batch asks all patients at once; leave out "
            "--batch."
        )
    if batch is not None and given["stress"] is not None:
        raise InputError(
            "--stress makes its pictures only when a model is asked, so batch files cannot have them; leave out "
            "--batch."
        )
    if given["batch_submit"] and batch is None:
        raise InputError("--batch-submit needs --batch DIR, the folder of the files to send.")
    # Files can be written without a key or a server.
    files_alone = batch is not None and not given["batch_submit"]
    order = _order(bench, chosen if files_alone else _available(chosen, given["skip_unavailable"]), folder, given, rule)
    altered = set(order.interventions) - {ORIGINAL}
    if altered and all(condition_of(item.item_id) not in altered for item in order.items):
        messages().print(
            "none of the chosen cases has an altered picture, so no question about altered pictures is asked; choose "
            "more cases",
            soft_wrap=True,
        )
    if batch is not None:
        found = batches.ask(order, batch, given["batch_submit"], given["batch_poll"])
    else:
        found = _ask_live(order)
    runner.count_left_out(order, found)
    return found


def _ask_live(order: RunConfig) -> list[ModelProgress]:
    for wording, why in unequal(order.benchmark).items() if WORDING in order.stress else ():
        about = f"wording {wording.letter} of {wording.kind}"
        messages().print(f"{about} is left out, because reviewers rejected it or want it changed ({why})")
    # A callable may print; its output must not mix with the result of this command.
    apart = redirect_stdout(sys.stderr) if any(model.python for model in order.models) else nullcontext()
    with apart, live_progress.shown(messages()) as watch:
        return runner.run(order, watch)


def _rule(given: dict[str, Any]) -> StoppingRule | None:
    """Return the stopping rule of ``--until-decided``; None if the option is not given.

    If no models are named, the rule's two models become the models to ask.
    """
    if given["until"] is None:
        alone = [name for name in ("on", "alpha", "target") if given[name] is not None]
        if alone:
            raise InputError(
                f"--{alone[0]} works only with --until-decided A,B; add --until-decided or leave out --{alone[0]}."
            )
        return None
    names = [name.strip() for name in given["until"].split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise InputError(f"--until-decided {given['until']}: name two models, such as gpt-5.4,lingshu-32b.")
    if not given["callables"] and given["names"] is None and given["model_id"] is None:
        given["names"] = ",".join(names)
    return StoppingRule((names[0], names[1]), given["on"] or "mean", given["alpha"] or 0.05,
                        given["target"] or "population")  # fmt: skip


def _order(
    bench: Benchmark, models: list[Model], folder: Path, given: dict[str, Any], rule: StoppingRule | None = None
) -> RunConfig:
    """Return the settings of a run from the command's options; raise ``InputError`` if the settings are invalid."""
    protocol = protocols.named(given["protocol"])
    shard = subset.shard(given["shard"]) if given["shard"] else None
    return RunConfig(
        benchmark=bench,
        models=tuple(models),
        protocol=protocol,
        folder=folder,
        seed=given["seed"],
        concurrency=given["concurrency"],
        allow_remote_credentialed=given["allow_remote_credentialed"],
        policy=RetryPolicy(attempts=given["attempts"], timeout_s=given["timeout"]),
        patience=OutagePolicy(give_up_s=60 * given["give_up_after"]),
        modifiers=Modifiers(given["blind"], given["overlay_only"], given["rotations"], given["repeats"]),
        budget=Budget(given["budget_usd"], given["budget_tokens"], given["max_minutes"]),
        limit=given["limit"],
        limit_per_path=given["limit_per_path"],
        shard=shard,
        condition=conditions.given(
            given["prompt"], given["system"], given["shots"], given["confidence"], given["may_abstain"]
        ),
        until=rule,
        interventions=altered_items.named(given["interventions"]),
        stress=cells.named(given["stress"]),
    )


def _choose(given: dict[str, Any]) -> list[Model]:
    """Return the models that the options name: registered models, an unregistered model, then Python callables."""
    callables = given["callables"]
    about = given["names"], given["model_id"], given["api_base"]
    chosen = []
    if not callables or about != (None, None, None):
        chosen = select(*about, given["models_file"], given["provider_protocol"])
    return chosen + [in_process.of_callable(address) for address in callables]


def _placed(chosen: list[Model], devices: str | None) -> list[Model]:
    """Return the models, with ``--devices`` set for each model that runs on this machine."""
    placed = [in_process.placed(model, in_process.device_names(devices)) for model in chosen]
    if devices and not any(model.python for model in placed):
        raise InputError(
            "--devices applies only to models that run on this machine, but no such model is named; leave --devices "
            "out, or add --python FILE.py:NAME or --model-id transformers/…"
        )
    return placed


def _available(chosen: list[Model], skip: bool) -> list[Model]:
    """Return the models that can be asked now.

    For other models the message says what each lacks: with ``skip`` it is printed, without it ``InputError`` is raised.
    ``InputError`` is also raised if no model is left.
    """
    lacks = {model.name: lack for model in chosen if (lack := registry.lacking(model)) is not None}
    if not lacks:
        return chosen
    listed = "".join(f"\n  {name}: {lack}" for name, lack in lacks.items())
    available = [model for model in chosen if model.name not in lacks]
    if not skip or not available:
        hint = ", or add --skip-unavailable to run the others" if available and not skip else ""
        listed += "" if available else f"\n{_NO_KEY}"
        raise InputError(
            f"{plural(len(lacks), 'model')} cannot be asked yet; do what the lines below say{hint}:{listed}\n"
        )
    messages().print(f"left out: {plural(len(lacks), 'model')} that cannot be asked yet:{listed}")
    return available


def _say_dry(written: dry_run.Written, folder: Path) -> None:
    whole = f"{plural(written.conversations, 'conversation')} with {plural(written.turns, 'turn')} for each model"
    say(f"wrote {plural(written.files, 'file')} to {folder}; nothing was sent. The complete run would be {whole}.")


def _conclude(progress_of_models: list[ModelProgress], folder: Path, as_json: bool, *, has_key: bool) -> None:
    """Print a line for each model, then the next command; raise ``UnfinishedError`` if items are unfinished.

    Without its key, a benchmark's runs are graded with ``--benchmark`` by somebody who has the key.
    """
    decision = next((progress.decision for progress in progress_of_models if progress.decision), None)
    if as_json:
        say_json(
            json.dumps({"run": str(folder), "models": list(map(live_progress.record, progress_of_models)),
                        "decision": decision and until_decided.record(decision)}, indent=2)
        )  # fmt: skip
    else:
        for progress in progress_of_models:
            live_progress.print_summary(progress)
    if decision is not None and not as_json:
        console().print(decided(decision), soft_wrap=True)
    if (error := unfinished(progress_of_models)) is not None:
        raise error
    if not as_json:
        where = "" if has_key else " --benchmark WITH_KEY (the benchmark with its key)"
        console().print(f"Next: chexqa grade {argument(folder)}{where}", soft_wrap=True)


def decided(decision: Decision) -> str:
    """Return a sentence that names the model that a stopping rule found better, or says that it did not decide."""
    first, second = decision.rule.models
    found = f"{decision.better} is better" if decision.decided else "it is not decided which model is better"
    many = f"{decision.patients:,} of {plural(decision.of, 'patient')}"
    ends = f"[{100 * decision.low:.1f}, {100 * decision.high:.1f}]"
    return (
        f"After {many}: {found} (score: {decision.rule.on}). {first} minus {second}: "
        f"{100 * (decision.difference or 0):+.1f} points, {100 * (1 - decision.rule.alpha):g} % confidence sequence "
        f"{ends}."
    )
