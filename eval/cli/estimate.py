"""Commands before a run: ``estimate`` (questions, cost), ``power`` (differences) and ``plan`` (preregistration)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
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
from chexqa.eval.cli.params import PositiveFloat, other_model, select
from chexqa.eval.design import plan as planning
from chexqa.eval.design import power as design
from chexqa.eval.design import subset
from chexqa.eval.design.power import Assumptions, Resolution
from chexqa.eval.design.weights import ON, asked_items
from chexqa.eval.grounding.net_grounding import few_audited
from chexqa.eval.models import client
from chexqa.eval.prompts import conditions, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.report.display_notes import plain_table, print_table
from chexqa.eval.runs.cost_estimate import Estimate, Work, estimate, work
from chexqa.eval.scoring.grade import MARGIN
from chexqa.eval.stress import cells
from chexqa.files.errors import InputError
from chexqa.files.say import say, say_json
from chexqa.files.terminal import Name, console, duration, messages, plural, progress
from chexqa.generators.interventions import altered_items

_COUNT = click.IntRange(1, 1_000_000_000_000)
_TIMES = click.IntRange(1, 10_000)
_PATH = click.Path(path_type=Path)


@click.command("estimate", epilog="Example: chexqa estimate bench --models all --protocol end_to_end")
@click.argument("bench", type=_PATH)
@click.option("--models", "names", metavar="A,B|all", shell_complete=completion.models,
              help="Registered models (see 'chexqa models'), or ids in the form that --model-id takes.")  # fmt: skip
@other_model
@click.option("--models-file", type=_PATH, metavar="FILE", help="Your own models file (YAML).")
@click.option("--protocol", "named", multiple=True, metavar="|".join(protocols.PROTOCOLS),
              shell_complete=completion.protocol,
              help="A protocol; repeat the option for several.  [default: all]")  # fmt: skip
@click.option("--prompt", metavar="plain|reason|bank:NAME", callback=params.prompt,
              help="Ask for the answer only, ask for reasoning first, or use the bank's wording NAME.")  # fmt: skip
@click.option(
    "--system", type=_PATH, metavar="FILE", help="A system prompt of your own, used instead of the question bank's."
)
@click.option("--shots", default=0, show_default=True, type=click.IntRange(0, 100), metavar="K",
              help="Assume K worked examples before each question.")  # fmt: skip
@click.option("--confidence", is_flag=True, help="Assume that each prompt asks for a confidence in percent.")
@click.option("--may-abstain", is_flag=True, help="Assume that each prompt allows an abstention.")
@click.option("--stress", metavar="all|noise,wording,…",
              help="Assume that each question is asked twice: as it is, and as 'eval --stress' asks it.")  # fmt: skip
@click.option("--blind", is_flag=True, help="Assume that no pictures are sent.")
@click.option("--condition", "interventions", multiple=True, metavar="C,C",
              help="Also count questions about altered pictures, as 'eval --condition' asks them. May be "
              "repeated.")  # fmt: skip
@click.option("--overlay-only", is_flag=True, help="Assume that pictures show only outlines and marks, on plain grey.")
@click.option("--rotate", "rotations", default=1, show_default=True, type=_TIMES, metavar="N",
              help="Assume that each conversation is asked N times, once for each of N orders of the "
                   "options.")  # fmt: skip
@click.option(
    "--repeats",
    default=1,
    show_default=True,
    type=_TIMES,
    metavar="K",
    help="Assume that each conversation is asked K times.",
)
@click.option("--limit", type=_COUNT, metavar="N", help="Estimate a trial of about N cases.")
@click.option(
    "--limit-per-path",
    type=_COUNT,
    metavar="N",
    help="Estimate a trial of about N cases of each path (lesion_free, revision_free, revision_required).",
)
@click.option(
    "--reply-tokens", type=_COUNT, metavar="N", help="Number of tokens in a reply, instead of the registry's estimate."
)
@click.option("--seconds", type=PositiveFloat(), metavar="S",
              help="Seconds that a reply takes (shown by 'chexqa models check'), to estimate the time of the "
                   "run.")  # fmt: skip
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 10_000), metavar="N",
              help="Number of conversations at once, to estimate the time of the run.")  # fmt: skip
@click.option("--batch", is_flag=True, help="Assume half of each price, as batch endpoints charge.")
@click.option("--cached", is_flag=True, help="Assume that the provider's prefix cache has every earlier turn.")
@click.option("--json", "as_json", is_flag=True, help="Print the estimates as a JSON list.")
def command(bench: Path, names: str | None, models_file: Path | None, as_json: bool, **given: Any) -> None:
    """Estimate what a run over the benchmark BENCH would ask and cost, for each protocol and model.

    Calls and pictures are counted from the real conversations. Tokens are estimated: one token for four characters of
    text, the provider's count for a picture, and a guess for a reply. A cost is unknown if the price, the tokens of a
    picture or the tokens of a reply are unknown; the last lines say which field of a models file is missing. The time
    covers only the replies; waiting for rate limits takes longer.
    """
    benchmark.check_folder(bench)
    chosen = select(names, given["model_id"], given["api_base"], models_file, given["provider_protocol"])
    loaded = benchmark.load(bench)
    stress = cells.named(given["stress"])
    alone = bool(stress) or set(altered_items.ALONE) & set(altered_items.named(given["interventions"]))
    wanted = [protocols.named(name) for name in given["named"]] or (["independent"] if alone else _possible(loaded))
    modifiers = Modifiers(given["blind"], given["overlay_only"], given["rotations"], given["repeats"])
    condition = conditions.given(given["prompt"], given["system"], given["shots"], given["confidence"],
                                 given["may_abstain"])  # fmt: skip
    price = (lambda model: rounds.discounted(client.price(model))) if given["batch"] else client.price
    prices = {model.name: price(model) for model in chosen}
    found: list[tuple[Work, list[Estimate]]] = []
    with progress("rendering conversations", len(wanted)) as advance:
        for protocol in wanted:
            load = work(loaded, protocol, modifiers, given["limit"], given["limit_per_path"], condition,
                        interventions=altered_items.named(given["interventions"]), stress=stress)  # fmt: skip
            rows = [estimate(load, one, prices[one.name], given["reply_tokens"], given["cached"]) for one in chosen]
            found.append((load, rows))
            advance()
    if as_json:
        records = [
            {**asdict(row), "conversations": load.conversations, "calls": load.calls, "images": load.images,
             "picture_bytes": load.picture_bytes, "upload_bytes": load.upload_bytes,
             "time_s": given["seconds"] and round(load.seconds(given["seconds"], given["concurrency"]), 1)}
            for load, rows in found for row in rows
        ]  # fmt: skip
        say_json(json.dumps(records, indent=2))
        return
    _show(found)
    _show_costs(found)
    console().print(_time([load for load, _ in found], given), soft_wrap=True)
    console().print()
    if loaded.answers is not None:
        asked = altered_items.named(given["interventions"])
        items = subset.chosen(loaded, given["limit"], given["limit_per_path"], asked)
        console().print(_apart(design.resolutions(asked_items(loaded, items), _SMALL, Assumptions())), soft_wrap=True)
        looks = {"target", "irrelevant"} <= {*asked}
        if looks and (few := few_audited(loaded, items)) is not None:
            console().print(few, style="yellow", soft_wrap=True)


def _time(loads: Sequence[Work], given: Mapping[str, Any]) -> str:
    """Return a sentence on the duration of a run; without ``--seconds`` the sentence assumes 1 s for each reply.

    Protocols of different durations are named.
    """
    if given["batch"]:
        return "Time: a batch endpoint may need hours for each question of a conversation, one question after another."
    at_once = f"{plural(given['concurrency'], 'conversation')} at once"
    each = [duration(load.seconds(given["seconds"] or 1, given["concurrency"])) for load in loads]
    told = _by_protocol(loads, each)
    if given["seconds"] is None:
        return f"Time: {told} if a reply takes 1 s, with {at_once}; give the real time with --seconds."
    return f"Time: {told} for each model, at {given['seconds']:g} s a reply and {at_once}."


def _by_protocol(loads: Sequence[Work], each: Sequence[str]) -> str:
    """Return texts as one list, each with its protocol; only the text if it is the same for all of them."""
    if len(set(each)) == 1:
        return each[0]
    return "; ".join(f"{text} ({load.protocol})" for load, text in zip(loads, each, strict=True))


def _possible(loaded: Benchmark) -> list[protocols.Protocol]:
    """Return the protocols that can be asked.

    Without a key, the oracle protocols are left out and a note is printed.
    """
    possible = [name for name in protocols.PROTOCOLS if loaded.answers is not None or not protocols.needs_key(name)]
    if len(possible) < len(protocols.PROTOCOLS):
        messages().print("The protocols oracle_passed and oracle_stated are left out: they need the benchmark's key.")
    return possible


def _show(found: Sequence[tuple[Work, list[Estimate]]]) -> None:
    """Print the estimates as one table, and below it the calls that a model cannot take."""
    table = plain_table("Estimate", "protocol, model", ["calls", "pictures", "M tokens\nin", "M out", "dollars"])
    table.columns[0].max_width = 40
    over = []
    for load, rows in found:
        for row in rows:
            tokens = (_millions(row.input_tokens), _millions(row.output_tokens))
            dollars = "unknown" if row.cost_usd is None else f"{row.cost_usd:,.2f}"
            table.add_row(Name(f"{load.protocol} {row.model}"), f"{load.calls:,}", f"{load.images:,}", *tokens, dollars)
            too = [f"{row.too_long:,} calls too long"] * bool(row.too_long)
            too += [f"{row.too_many_images:,} calls with too many pictures"] * bool(row.too_many_images)
            over += [f"{row.model}, {load.protocol}: {', '.join(too)}."] * bool(too)
    print_table(table, console())
    for line in over:
        console().print(line, soft_wrap=True)
    sent = [f"{plural(load.conversations, 'conversation')}, {load.upload_bytes / 1e9:,.2g} GB" for load, _ in found]
    console().print(f"Sent to each model: {_by_protocol([load for load, _ in found], sent)}.", soft_wrap=True)


def _show_costs(found: Sequence[tuple[Work, list[Estimate]]]) -> None:
    """Print the total cost of each protocol, and the fields that a model's cost needs."""
    out, rows = console(), found[0][1]
    totals = [f"${sum(row.cost_usd or 0 for row in rows):,.2f}" for _, rows in found]
    unknown = sum(row.cost_usd is None for row in rows)
    if unknown < len(rows):
        more = f", without {plural(unknown, 'model')} of unknown cost" if unknown else ""
        out.print(f"Total cost: {_by_protocol([load for load, _ in found], totals)}{more}.", soft_wrap=True)
    for row in rows:
        if row.lacking:
            fields = " and ".join(", ".join(row.lacking).rsplit(", ", 1))
            instead = " (or give --reply-tokens)" if "reply_tokens" in row.lacking else ""
            what = "cost is" if row.cost_usd is None else "tokens are"
            out.print(
                f"{row.model}: its {what} unknown, because its registry entry lacks {fields}; add these fields in a "
                f"models file{instead}.",
                soft_wrap=True,
            )


def _millions(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens / 1e6:,.2f}"


# A difference is required; the numbers shown here do not depend on it.
_SMALL = 0.01


def _apart(found: list[Resolution]) -> str:
    """Return a sentence with the smallest difference that a study detects, for each level."""
    shown = [row for row in found if row.score in ON] or found[:1]
    if not shown:
        return "With these cases, no difference between two models can be shown."
    sizes = ", ".join(f"{row.points} points ({row.score})" for row in shown if row.can_detect)
    without = ", ".join(row.score for row in shown if not row.can_detect)
    these = f"With these {plural(max(row.patients for row in shown), 'patient')}"
    said = (
        [f"{these}, four of five studies find a difference between two models if it is at least {sizes}."]
        if sizes
        else []
    )
    said += [f"{these}, no difference between two models can be shown on {without}."] if without else []
    assumed = "Assumed: one model is right and the other wrong on 30 % of the items. For more, run chexqa power."
    return " ".join([*said, assumed])


@click.command("power", epilog="Example: chexqa power bench --difference 5 --models gpt-5.4,lingshu-32b")
@click.argument("study", metavar="BENCH|N")
@click.option("--difference", default=5.0, show_default=True, type=PositiveFloat(), metavar="POINTS",
              help="Difference between two models' scores; the study should be able to detect it.")  # fmt: skip
@click.option("--patients", type=click.IntRange(2, 10_000_000), metavar="N",
              help="Plan for N patients, not for the number in BENCH; kinds and findings keep their "
                   "proportions.")  # fmt: skip
@click.option("--discordance", default=30.0, show_default=True, type=click.FloatRange(0, 100, min_open=True),
              metavar="%", help="Share of items on which one of two models is right and the other wrong.")  # fmt: skip
@click.option("--correlation", default=0.2, show_default=True, type=click.FloatRange(0, 1), metavar="R",
              help="How strongly the differences between two models are assumed to correlate among the items of one "
                   "patient (0: not at all).")  # fmt: skip
@click.option("--tests", default=1, show_default=True, type=click.IntRange(1, 1_000_000), metavar="K",
              help="Number of tests that Holm's correction covers. For example, 14 models need 368 tests: 4 scores "
                   "times 92 comparisons (91 pairs of models, and medical against general models).")  # fmt: skip
@click.option("--models", "names", metavar="A,B|all", shell_complete=completion.models,
              help="Also show the price of asking these models.")  # fmt: skip
@other_model
@click.option("--models-file", type=_PATH, metavar="FILE", help="Your own models file (YAML).")
@click.option("--protocol", "named", default="end_to_end", show_default=True, metavar="|".join(protocols.PROTOCOLS),
              shell_complete=completion.protocol, help="Protocol for which the price is computed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def power(study: str, difference: float, as_json: bool, **given: Any) -> None:
    """Show which differences between two models a study can detect, for each level and kind of question.

    The study asks both models all items of the benchmark BENCH. With --patients N, the study has N patients, with kinds
    and findings in BENCH's proportions. With a number N in place of BENCH, the study has N patients with one case each,
    made by the recipe chexpercept. Scores are corrected for chance.
    """
    assumed = Assumptions(given["discordance"] / 100, given["correlation"], tests=given["tests"])
    price = None
    if study.isascii() and study.isdecimal() and not Path(study).exists():
        if given["patients"] is not None or (given["names"], given["model_id"]) != (None, None):
            raise InputError(
                f"power {study}: --patients and --models need a benchmark; give the benchmark's folder in place of "
                f"{study}."
            )
        if not 2 <= int(study) <= 10_000_000:
            raise InputError(f"power {study}: the number of patients must be from 2 to 10,000,000.")
        found = design.resolutions(design.usual_study(_MIX), difference / 100, assumed, int(study))
        patients = int(study)
    else:
        loaded = benchmark.load(Path(study))
        asked = asked_items(loaded, loaded.items)
        found = design.resolutions(asked, difference / 100, assumed, given["patients"])
        whole = len({row.patient for row in asked})
        patients = given["patients"] or whole
        price = _price(loaded, patients / whole, given)
    if as_json:
        say_json(json.dumps({"patients": patients, "difference": difference / 100, **asdict(assumed), "cost_usd": price,
                             "scores": [row._asdict() for row in found]}, indent=2))  # fmt: skip
        return
    _show_power(found, patients, difference, assumed, price, given["names"] or given["model_id"])


# Number of patients in the mix for a plain number N: a multiple of seven findings times three paths.
_MIX = 210


def _price(loaded: Benchmark, scale: float, given: dict[str, Any]) -> float | None:
    """Return the cost in dollars of asking the named models; None if no model is named or a price is unknown."""
    if (given["names"], given["model_id"]) == (None, None):
        return None
    chosen = select(given["names"], given["model_id"], given["api_base"], given["models_file"],
                    given["provider_protocol"])  # fmt: skip
    load = work(loaded, protocols.named(given["named"]), Modifiers())
    costs = [estimate(load, model, client.price(model), None, False).cost_usd for model in chosen]
    known = [cost for cost in costs if cost is not None]
    return scale * sum(known) if len(known) == len(costs) else None


def _show_power(
    found: list[Resolution], patients: int, difference: float, assumed: Assumptions, price: float | None,
    names: str | None,
) -> None:  # fmt: skip
    out = console()
    cost = "" if names is None else f", at an unknown price for {names}" if price is None else f", for ${price:,.2f}"
    title = f"Differences between models that {plural(patients, 'patient')} suffice to detect{cost}"
    out.print(title, style="bold", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("score", no_wrap=True)
    for head in ("patients", "least found", f"power at {difference:g}", f"needed for {difference:g}",
                 f"alike within {difference:g}", "until decided"):  # fmt: skip
        table.add_column(head, justify="right")
    for row in found:
        ends = "" if row.within is None else f"no, {100 * row.within:.0f} %"
        until = f"{row.sequential:,}" if row.sequential else ends
        needed, alike = ("none" if number is None else f"{number:,}" for number in (row.needed, row.alike))
        table.add_row(row.score, f"{row.patients:,}", row.points, f"{100 * row.power:.0f} %", needed, alike, until)
    out.print(table)
    family = f" divided by {assumed.tests:,}, as for the first test in Holm's method" if assumed.tests > 1 else ""
    out.print(
        "patients: the number of patients with items that count in the score.\n"
        "least found: the smallest difference, in points, that a test detects in four of five studies; the level of "
        f"the test is 5 %{family}; 'none': there are too few patients to detect even the largest difference of two "
        f"models that disagree on {100 * assumed.discordance:g} % of the items.\n"
        f"power at {difference:g}: the share of studies of this size that detect a difference of "
        f"{difference:g} points.\n"
        "needed: the number of patients with which four of five studies with the same mix of items detect a difference "
        f"of {difference:g} points.\n"
        "alike: the number of patients with which four of five studies show that two models with equal true scores "
        f"differ by less than {difference:g} points; the level of the test of equivalence is 5 %{family}.\n"
        "until decided: the median number of counted patients after which 'eval --until-decided' stops, for a true "
        f"difference of {difference:g} points; 'no, 30 %': only 30 % of the runs stop early, so there is no median. "
        "'--until-decided' makes a single test, so --tests does not change this number.\n"
        "The numbers under 'needed' and 'alike' include patients without items that count in the score; they are "
        "'none' if no item can be answered right (no cell of the grid is a hit).\n"
        f"Assumed: one model is right and the other wrong on {100 * assumed.discordance:g} % of the items, with "
        f"correlation {assumed.correlation:g} within a patient.", soft_wrap=True)  # fmt: skip


@click.command("plan", epilog="Example: chexqa plan bench --models gpt-5.4,medgemma-27b --on mean -o plan.json")
@click.argument("bench", type=_PATH)
@click.option("--models", "names", metavar="A,B", required=True, shell_complete=completion.models,
              help="Models to be compared, named as tables show them; chexqa need not know these names.")  # fmt: skip
@click.option("--protocol", "named", multiple=True, metavar="|".join(protocols.PROTOCOLS),
              shell_complete=completion.protocol,
              help="A protocol; repeat the option for several.  [default: end_to_end]")  # fmt: skip
@click.option("--on", "primary", type=click.Choice(planning.PRIMARY), default="mean", show_default=True,
              help="Primary score: the one that decides which model is better.")  # fmt: skip
@click.option("--margin", metavar="POINTS", type=PositiveFloat(), default=100 * MARGIN, show_default=True,
              help="Margin in points: two models count as alike if their scores differ by less.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the run.")
@click.option("--repeats", type=_TIMES, default=1, show_default=True, help="Number of repeats of each conversation.")
@click.option("--rotate", "rotations", type=_TIMES, default=1, show_default=True,
              help="Number of orders of the options; each conversation is held once with each order.")  # fmt: skip
@click.option("--limit", type=_COUNT, metavar="N", help="As a trial, ask only about N cases ('eval --limit').")
@click.option(
    "--exclude",
    multiple=True,
    metavar="TEXT",
    help="A rule on what the study excludes, in words; may be repeated.",
)
@click.option("-o", "--out", required=True, metavar="FILE.json", type=_PATH, help="New file for the plan.")
def plan(
    bench: Path, names: str, named: tuple[str, ...], primary: str, margin: float, seed: int, repeats: int,
    rotations: int, limit: int | None, exclude: tuple[str, ...], out: Path,
) -> None:  # fmt: skip
    """Write the plan of a study (its preregistration) before the run; 'grade --plan' later compares the run with it.

    The plan fixes the primary score, the equivalence margin, the comparisons that Holm's method corrects together,
    models, protocols, seed, repeats, orders of options, cases and exclusions. The SHA-256 of the plan is printed.
    Publish this hash to prove later that the plan is older than the run.
    """
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already, and a plan is never overwritten; name another file.")
    models = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not models:
        raise InputError("--models names no model; give at least one, such as --models gpt-5.4.")
    asked = [protocols.named(name) for name in dict.fromkeys(named)] or ["end_to_end"]
    made = planning.write_plan(
        benchmark.load(bench), out, models, list(asked), primary, margin, seed, repeats, rotations, limit, exclude
    )
    say(f"plan: {out}, {plural(made.record['cases'], 'case')}, {plural(made.record['items'], 'item')}")
    say(f"SHA-256: {made.sha256}")
