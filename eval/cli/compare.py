"""The command ``compare``, which shows how two runs differ: in their scores, and in the items whose answers changed.

With ``--fresh``, the second run is on a fresh seed: a benchmark made with another seed from the first benchmark's
cases. The command then shows how far each model's accuracy falls.
"""

from __future__ import annotations

from pathlib import Path

import click
import polars as pl
from rich.console import Console
from rich.text import Text

from chexqa.eval.cli.params import MARGIN
from chexqa.eval.design import plan as planning
from chexqa.eval.report.display import percent, spread
from chexqa.eval.report.display_comparisons import margin_note
from chexqa.eval.report.display_notes import plain_table
from chexqa.eval.report.write import to_json
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.eval.scoring.grade import MARGIN as DEFAULT_MARGIN
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.tables.fresh_seeds import FRESH_MARGIN, FreshComparison, compare_fresh
from chexqa.eval.tables.numbers_markdown_latex import number_text, words
from chexqa.eval.tables.run_diff import CHANGES, Compared, compare_runs
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_bytes
from chexqa.files.say import say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, plural

LISTED = 20
_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa compare run-before run-after --out changes.csv")
@click.argument("first", metavar="RUN_A", type=_PATH)
@click.argument("second", metavar="[RUN_B]", type=_PATH, required=False)
@click.option(
    "--shared", is_flag=True, help="Allow runs of two different benchmarks, and compare the items that are in both."
)
@click.option("--other-wording", is_flag=True,
              help="As --shared, but items that differ only in the words of question and options (as in two languages) "
              "also count as the same.")  # fmt: skip
@click.option("--fresh", is_flag=True,
              help="Show how far each model's accuracy falls from RUN_A to RUN_B. The benchmark of RUN_B must be a "
              "fresh seed ('chexqa freshen') of the benchmark of RUN_A. With --fresh, the default of --margin is "
              f"{100 * FRESH_MARGIN:g}.")  # fmt: skip
@click.option("--models", "names", metavar="A,B",
              help="Compare model A of RUN_A with model B of RUN_B (of RUN_A if RUN_B is not given).")  # fmt: skip
@click.option("--benchmark", "folders", metavar="DIR", multiple=True, type=_PATH,
              help="Folder of RUN_A's benchmark, if this folder moved; give the option again for RUN_B.")  # fmt: skip
@click.option("--reread", is_flag=True, help="Read the stored replies of both runs again with today's parser.")
@MARGIN
@click.option("--plan", metavar="FILE", type=_PATH,
              help="The study's plan, written by 'chexqa plan'; the plan's margin is used.")  # fmt: skip
@click.option(
    "-o",
    "--out",
    metavar="FILE.csv",
    type=_PATH,
    help="Write one CSV with a line for each item and the answers of both runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def compare(
    first: Path,
    second: Path | None,
    shared: bool,
    other_wording: bool,
    fresh: bool,
    names: str | None,
    folders: tuple[Path, ...],
    reread: bool,
    margin: float | None,
    plan: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show what changed from RUN_A to RUN_B, score by score and item by item, with paired tests.

    Models of the same name are compared, on the items that both runs asked. Runs of different benchmarks need --shared,
    --other-wording or --fresh. A run may be a file of predictions made elsewhere (.jsonl); two such files need
    --benchmark.
    """
    places = (*folders, None, None)[:2]
    if second is None:
        if names is None or fresh:
            raise InputError(
                f"compare {first}: give a second run (RUN_B), or compare two models of this run with "
                "--models A,B (without --fresh)."
            )
        second = first
    if fresh:
        for option, given in (("--shared", shared), ("--other-wording", other_wording), ("--plan", plan is not None)):
            if given:
                raise InputError(
                    f"{option} cannot be given with --fresh, which has its own choice of items and its own verdicts; "
                    f"leave out {option}."
                )
        size = FRESH_MARGIN if margin is None else margin / 100
        _say_fresh(compare_fresh(first, second, _pair(names), places, reread, size), out, as_json)
        return
    planned = None if plan is None else planning.read_plan(plan)
    default = DEFAULT_MARGIN if planned is None else planned.margin
    found = compare_runs(
        first, second, shared, _pair(names), places, reread, default if margin is None else margin / 100, other_wording
    )
    if planned is not None:
        _check_plan(planned, found, margin)
    if as_json:
        say_json(to_json({"comparisons": [_record(one) for one in found]}))
    else:
        for one in found:
            _show(one, console())
        if found and found[0].note:
            console().print(Text(found[0].note, style="yellow"))
    if out is not None:
        notice = PHANTOM_NOTICE if found[0].benchmark.is_phantom else None
        marked = [one.items.with_columns(**{name: pl.lit(value) for name, value in _named(one).items()})
                  for one in found]  # fmt: skip
        write_bytes(out, csv_bytes(pl.concat(marked), notice))
        say(f"wrote {plural(sum(frame.height for frame in marked), 'item')} to {out}", err=as_json)


def _say_fresh(found: FreshComparison, out: Path | None, as_json: bool) -> None:
    """Print the drops from a benchmark to a fresh seed, and write the drops to the file ``out``."""
    notice = PHANTOM_NOTICE if found.benchmark.is_phantom else None
    if as_json:
        about = {name: {"run": str(run.folder), "benchmark": run.about["benchmark"]["hash"]}
                 for name, run in zip(("run", "fresh_run"), found.runs, strict=True)}  # fmt: skip
        say_json(to_json({**about, "notice": notice, "left_out": found.left_out, "parser_note": found.note,
                          "drops": found.drops.to_dicts()}))  # fmt: skip
    else:
        _show_fresh(found, console())
    if out is not None:
        write_bytes(out, csv_bytes(found.drops, notice))
        say(f"wrote {plural(found.drops.height, 'row')} to {out}", err=as_json)


def _show_fresh(found: FreshComparison, out: Console) -> None:
    margin = number_text("margin", found.drops["margin"][0])
    note = (
        "Drop: accuracy on the benchmark minus accuracy on the fresh seed, with its 95 % interval over patients. "
        "p: one-sided permutation test that exchanges the two benchmarks' labels patient by patient, with Holm's "
        "correction over models and kinds. "
        f"Verdict 'does not fall': the interval ends below {margin} points. If not: 'falls' if p is below 1 %, "
        "otherwise 'undecided'. A model falls if one of its kinds falls. Kinds that a fresh seed does not change are "
        "left out."
    )
    seeds = [bench.about["seed"] for bench in (found.benchmark, found.fresh)]
    for (model, protocol), rows in found.drops.group_by("model", "protocol", maintain_order=True):
        table = plain_table(
            f"{model} ({protocol}): seed {seeds[0]} against seed {seeds[1]} (percent)", "kind",
            ["items", "fresh\nitems", "accu-\nracy", "fresh", "drop", "p\n(Holm)", " verdict"],
        )  # fmt: skip
        for row in rows.to_dicts():
            table.add_row(
                Text(words(row["kind"])), f"{row['items']:,}", f"{row['items_fresh']:,}", percent(row["accuracy"]),
                percent(row["accuracy_fresh"]), spread(row, "drop", 1), number_text("p_holm", row["p_holm"]),
                row["verdict"] or "",
            )  # fmt: skip
        out.print()
        out.print(table)
    out.print(Text(note, style="dim"))
    if found.benchmark.is_phantom:
        out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
    for why, number in found.left_out.items():
        out.print(f"Left out, {why}: {plural(number, 'item')}.")
    if found.note:
        out.print(Text(found.note, style="yellow"))


def _check_plan(plan: planning.Plan, found: list[Compared], margin: float | None) -> None:
    """Raise ``InputError`` for a plan of another benchmark, and for a margin that differs from the plan's margin."""
    if plan.record["benchmark"]["hash"] != found[0].benchmark.hash:
        raise InputError(
            f"{plan.path}: this plan was written for another benchmark; give the plan that was written for "
            f"{found[0].benchmark.folder}."
        )
    if margin is not None and abs(margin / 100 - plan.margin) > 1e-9:
        raise InputError(
            f"--margin {margin:g}: the plan {plan.path} fixes a margin of {100 * plan.margin:g}; leave --margin out."
        )


def _pair(names: str | None) -> tuple[str, str] | None:
    if names is None:
        return None
    first, comma, second = (part.strip() for part in names.partition(","))
    if not (first and comma and second) or "," in second:
        raise InputError(f"--models {names}: name two models as A,B, the first from RUN_A and the second from RUN_B.")
    return first, second


def _named(one: Compared) -> dict[str, str]:
    """Return the model, run and protocol of both sides."""
    first, second = one.sides
    return {
        "model_a": one.first, "model_b": one.second, "run_a": first.run, "run_b": second.run,
        "protocol_a": first.protocol, "protocol_b": second.protocol,
    }  # fmt: skip


def _record(one: Compared) -> dict[str, object]:
    return {
        **_named(one),
        "items_a": one.sides[0].items,
        "items_b": one.sides[1].items,
        "chance": one.chance,
        "notice": PHANTOM_NOTICE if one.benchmark.is_phantom else None,
        "left_out": one.left_out,
        "parser_note": one.note,
        "scores": one.scores.to_dicts(),
        "items": one.items.to_dicts(),
    }


def _show(one: Compared, out: Console) -> None:
    """Print the scores, the number of items by change, and the first changed items."""
    title = one.first if one.first == one.second else f"{one.first} (A) and {one.second} (B)"
    note = (
        "Levels and their mean: accuracy corrected for chance. Their items are those that count in this score: without "
        "cardiomegaly, questions with one possible answer, and findings whose yes/no questions all have one key. "
        "Grid: hit rate, averaged over findings. Kinds: "
        "accuracy. B - A: the difference with its 95 % interval, which is missing if fewer than "
        f"{LEAST_CLUSTERS} patients count. Gained: items right in B and not in A; lost: the reverse. p: sign-flip test "
        "over patients, or McNemar's test if each patient has one item; p is not corrected for the number of tests. An "
        "end of an interval at 0 may have been moved there so that the interval agrees with p (docs/intervals.md). "
        f"{margin_note(one.scores)}"
    )
    table = plain_table(
        f"{title}: {plural(one.items.height, 'item')} (percent)",
        "score",
        ["items", "A", "B", "B - A", "gained", "lost", "p", "verdict"],
        note,
    )
    for row in one.scores.to_dicts():
        moved = [number_text(name, row[name]) for name in ("gained", "lost")]
        table.add_row(
            Text(words(row["score"])), f"{row['items']:,}", percent(row["value_a"]), percent(row["value_b"]),
            spread(row, "difference", 1), *moved, number_text("p", row["p"]), row["verdict"] or "",
        )  # fmt: skip
    out.print()
    for letter, model, side in zip("AB", (one.first, one.second), one.sides, strict=True):
        asked = f"{letter}: {model} in {side.run}; {side.protocol}; {plural(side.items, 'item')} asked"
        out.print(Text(asked), soft_wrap=True)
    if "not asked of both" in one.left_out:
        kept = plural(one.items.height, "item")
        said = f"The runs asked different items; all numbers use only the {kept} that both runs asked."
        out.print(Text(said, style="yellow"), soft_wrap=True)
    out.print(table)
    chance = ", ".join(f"{words(kind)} {percent(value)}" for kind, value in one.chance.items())
    out.print(Text(f"Chance on these items (percent): {chance}.", style="dim"))
    if one.benchmark.is_phantom:
        out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
    found = dict(one.items["change"].value_counts().rows())
    out.print("; ".join(f"{name}: {found[name]:,}" for name in CHANGES if name in found))
    for why, number in one.left_out.items():
        out.print(f"Left out, {why}: {plural(number, 'item')}.", style="red")
    changed = one.items.filter(pl.col("change").is_in(["gained", "lost"]))
    for row in changed.head(LISTED).to_dicts():
        out.print(f"  {row['change']:<6}  {row['item_id']}  {row['finding']}: {row['state_a']} {_said(row['parsed_a'])}"
                  f"-> {row['state_b']} {_said(row['parsed_b'])}", soft_wrap=True)  # fmt: skip
    if changed.height > LISTED:
        out.print(f"  … and {changed.height - LISTED:,} more (--out FILE.csv has all)")


def _said(parsed: list[int] | None) -> str:
    return f"({', '.join(map(str, parsed))}) " if parsed else ""
