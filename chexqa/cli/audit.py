"""The command ``audit``."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.files.errors import EXIT_INPUT, EXIT_OK, InputError
from chexqa.files.jsonio import dump
from chexqa.files.say import say, say_json
from chexqa.files.terminal import console, progress


@click.command(epilog="Example: chexqa audit bench")
@click.argument("bench", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the card  [default: BENCH].")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def audit(bench: Path, out: Path | None, as_json: bool) -> int:
    """Try to answer BENCH without looking at the anatomy, and write its card (README.md with figures).

    BENCH is a benchmark's folder, or a foreign benchmark with its answers: a VLMEvalKit table (.tsv), a Hugging Face
    folder with Parquet files, or CheXpercept's release. Foreign benchmarks need -o. Exit code 2 means a leak: an
    artefact predicts answers better than chance.
    """
    from chexqa.generators.audit import card, display
    from chexqa.generators.audit.audit import audit as run_audit
    from chexqa.interchange.foreign import format_of, opened

    layout = format_of(bench)
    if layout is not None and out is None:
        raise InputError(f"{bench}: is {layout}; name a folder for the card with -o.")
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
