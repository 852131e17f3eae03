"""Demo: the commands that a user would type, run one after another on drawn phantoms with the offline baselines."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.contract.cases import MANIFEST
from chexqa.files.errors import InputError, unwritable
from chexqa.files.opening import real
from chexqa.files.say import say

CASES = 60  # six cases of each finding
PROTOCOLS = ("end_to_end", "independent")
BASELINES = "baseline/oracle,baseline/blind-prior,baseline/chance,baseline/first"


def demo(folder: Path) -> None:
    """Run all steps from cases to a report in ``folder``; cases and a benchmark that exist there are used again."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the demo.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    cases, bench, report = folder / "cases", folder / "bench", folder / "report"
    runs = [folder / f"run-{protocol}" for protocol in PROTOCOLS]
    if not (cases / MANIFEST).exists():
        _step("synth", str(cases), "--cases", str(CASES), "--seed", "1", "--findings", "all")
    if not (bench / benchmark.ABOUT).exists():
        _step("generate", str(cases), "-o", str(bench), "--seed", "1")
    for protocol, path in zip(PROTOCOLS, runs, strict=True):
        _step("eval", str(bench), "--models", BASELINES, "--protocol", protocol, "-o", str(path))
    _step("report", *map(str, runs), "-o", str(report))
    say(_NEXT.format(bench=bench))
    _step("grade", str(runs[0]))
    say(f"\nOpen the report in a browser: {real(report)}/index.html")


_NEXT = """
What to try next:
  ask a model of your own        chexqa eval {bench} --model-id NAME --api-base http://127.0.0.1:8000/v1 -o my-run
  list the registered models     chexqa models
  use your own radiographs       chexqa ingest masks --help
  read the questions             less {bench}/items.jsonl"""


def _step(*args: str) -> None:
    say(f"\n$ chexqa {' '.join(args)}", bold=True)
    code = run(list(args))
    if code:
        raise click.exceptions.Exit(code)
