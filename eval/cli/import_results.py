"""The commands ``chexqa import chexpercept-results`` and ``chexqa import inspect``, which turn others' results into a
run.
"""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.files.say import argument, say
from chexqa.files.terminal import messages, plural

_PATH = click.Path(path_type=Path)


@click.command(
    epilog="Example: chexqa import chexpercept-results gemini_gemini-3.1-pro/oracle_implicit/all_results.json "
    "--benchmark bench -o run"
)
@click.argument("results", metavar="ALL_RESULTS", type=_PATH)
@click.option("--benchmark", "bench", required=True, metavar="BENCH", type=_PATH,
              help="The benchmark made from CheXpercept's release by 'chexqa import'.")  # fmt: skip
@click.option("--model", metavar="NAME", help="The model that was asked, if the folder's name does not contain it.")
@click.option("--protocol", metavar="NAME", help="The protocol, if the folder's name does not contain it.")
@click.option("-o", "--out", "output", required=True, metavar="RUN", type=_PATH, help="The new run's folder.")
def chexpercept_results(results: Path, bench: Path, model: str | None, protocol: str | None, output: Path) -> None:
    """Turn results of CheXpercept's own evaluation (all_results.json) into a run that 'grade' reads.

    CheXpercept's flags decide which answers are right. differences.csv in the run lists the replies that chexqa reads
    differently.
    """
    from chexqa.eval.scoring.chexpercept_results import DIFFERENCES, import_results

    done = import_results(results, bench, output, model, protocol)
    say(f"{done.model}, {done.protocol}: {plural(done.turns, 'turn')} written to {output}")
    if done.not_asked:
        messages().print(f"note: {plural(done.not_asked, 'item')} not asked, so the model has no headline number.",
                         soft_wrap=True)  # fmt: skip
    if done.empty_detections:
        messages().print(
            f"note: empty answers to detection questions: {done.empty_detections:,}; they count as wrong, as in "
            "CheXpercept's own evaluation.",
            soft_wrap=True,
        )
    if done.differences:
        messages().print(
            f"note: for {plural(done.differences, 'reply', 'replies')}, chexqa's parser reads an answer that differs "
            f"from the one in the imported results; see {output / DIFFERENCES}.", soft_wrap=True,
        )  # fmt: skip
    say(f"Next: chexqa grade {argument(output)}")


@click.command(
    "inspect", epilog="Example: chexqa import inspect logs/2026-01-01_benchmark.eval --benchmark bench -o run"
)
@click.argument("log", metavar="LOG", type=_PATH)
@click.option(
    "--benchmark", "bench", required=True, metavar="BENCH", type=_PATH, help="The benchmark that was asked in LOG."
)
@click.option("--model", metavar="NAME", help="The model's name in the run  [default: its name in LOG].")
@click.option("-o", "--out", "output", required=True, metavar="RUN", type=_PATH, help="The new run's folder.")
def inspect_log(log: Path, bench: Path, model: str | None, output: Path) -> None:
    """Turn a log of Inspect's task chexqa/benchmark into a run that 'grade' and 'report' read.

    'inspect eval chexqa/benchmark -T folder=BENCH' makes LOG. Replies, states and times of LOG are kept.
    """
    from chexqa.eval.harnesses.inspect_log import import_log

    done = import_log(log, bench, output, model)
    say(f"{done.model}, {done.protocol}: {plural(done.turns, 'turn')} written to {output}")
    if done.not_asked:
        messages().print(f"note: {plural(done.not_asked, 'item')} not asked, so the model has no headline number.",
                         soft_wrap=True)  # fmt: skip
    say(f"Next: chexqa grade {argument(output)}")
