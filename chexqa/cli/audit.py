"""The commands that check a benchmark's validity: ``audit`` and ``second-reader``."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from chexqa.files.errors import EXIT_INPUT, EXIT_OK, InputError
from chexqa.files.jsonio import dump
from chexqa.files.say import say, say_json
from chexqa.files.terminal import PHANTOM_NOTICE, console, progress


@click.command(epilog="Example: chexqa audit bench")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for README.md  [default: BENCH].")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def audit(bench: Path, out: Path | None, as_json: bool) -> int:
    """Look for shortcuts: ways to answer BENCH without seeing the anatomy. Write the card, a README.md with figures.

    BENCH is a benchmark's folder, or another project's benchmark with its answers: a VLMEvalKit table (.tsv), a Hugging
    Face folder with Parquet files, or CheXpercept's release. Another project's benchmark needs -o. Exit code 2 means a
    leak: an artefact predicts answers better than chance.
    """
    from chexqa.generators.audit import card, display
    from chexqa.generators.audit.audit import audit as run_audit
    from chexqa.interchange.foreign import format_of, opened

    layout = format_of(bench)
    if layout is not None and out is None:
        raise InputError(
            f"{bench}: is {layout}, not a benchmark of chexqa, so the card (README.md) is not written into it; name "
            "another folder for the card with -o."
        )
    with opened(bench) as loaded:
        loaded.key("the audit")
        with card.prepared(out or bench):
            with progress("measuring pictures", len({item.case_id for item in loaded.items})) as advance:
                found = run_audit(loaded, advance)
            path = card.write(found, out or bench)
        if as_json:
            say_json(dump(found.to_record()))
        else:
            display.show(found, console())
            say(f"Card: {path}")
    return EXIT_INPUT if found.leaks else EXIT_OK


@click.command("second-reader", epilog="Example: chexqa second-reader bench --second-masks readers")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("--second-masks", "masks", type=click.Path(path_type=Path), required=True, metavar="DIR",
              help="Another reader's masks: a manifest with the same case ids, or files CASE.png.")  # fmt: skip
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    help="The recipe that the benchmark was made with; needed only if it is your own YAML file.",
)
@click.option(
    "--image-root", type=click.Path(path_type=Path),
    help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the scores as a JSON list.")
def second_reader(
    bench: Path, masks: Path, recipes: tuple[str, ...], image_root: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Score another reader's masks on BENCH. The reader drew these masks on a random sample of cases, without seeing
    the masks of BENCH.

    The second reader's masks are used to answer the items of BENCH. Conversely, new items are made from the second
    reader's masks, and the masks of BENCH are used to answer these items. A mask can be a box, but boxes answer grid
    items only. An empty mask means that the second reader calls the finding absent.
    """
    from chexqa.contract import benchmark
    from chexqa.eval.readers import second_reader as readers
    from chexqa.eval.report.display import percent, spread

    loaded = benchmark.load(bench)
    found = readers.second_reader(readers.load(masks, loaded, recipes, image_root))
    if as_json:
        say_json(json.dumps(found.to_dicts(), indent=2))
        return
    table = Table(
        title="Second reader (percent)", title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, 1, 0, 0), collapse_padding=True,
    )  # fmt: skip
    table.add_column("\nkind", overflow="fold")
    for head in ("\nitems", "\npatients", "by\nsecond", "items\nback", "by\nfirst", "\nmean", "\nchance",
                 "\noracle", "\nties"):  # fmt: skip
        table.add_column(head, justify="right", no_wrap=True)
    for row in found.to_dicts():
        shares = [spread(row, name) for name in ("by_second", "by_first", "second_reader")]
        table.add_row(row["kind"].replace("_", " "), str(row["items"]), str(row["patients"]), shares[0],
                      str(row["items_back"]), *shares[1:], percent(row["chance"]), percent(row["oracle"]),
                      str(row["ties"]))  # fmt: skip
    console().print(table)
    if loaded.is_phantom:
        console().print(f"({PHANTOM_NOTICE})", style="yellow")
    say(
        "'By second': share of the benchmark's items that are answered rightly with the second reader's masks. 'Items "
        "back': number of items made from the second reader's masks. 'By first': share of these items that are "
        "answered rightly with the benchmark's masks. 'Mean': mean of both shares. 'Oracle': share of items that have "
        "a right answer. 'Ties': answers left out, because two pictures fit a mask about equally well. A model can "
        "score higher than these shares, because each item was made from only one of the two masks. With ten patients "
        "or more, the 95 % interval is under each number."
    )
