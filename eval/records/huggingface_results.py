"""Results of a run as files for ``.eval_results/`` of model repositories on the Hugging Face hub.

A model has a folder with one file. Its entries are the scores of the headline: each level, the mean of levels, and the
grid's hit rate as the mean of findings. The hub shows them on the pages of the model and of the data set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import yaml

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, write_bytes
from chexqa.interchange import dataset_card
from chexqa.interchange.folders import new_folder
from chexqa.stats import CONFIDENCE
from chexqa.version import __version__

_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


def export_results(run: Run, benchmark: Benchmark, out: Path, dataset: str) -> list[Path]:
    """Write each model's file into the new folder ``out``; return the files.

    ``dataset`` is the data set's name on the hub, such as ``group/my-set``. Models without a headline are left out.
    Raise ``InputError`` if no model has one.
    """
    if not _REPOSITORY.fullmatch(dataset):
        raise InputError(f"--dataset {dataset}: this is not the name of a data set on the hub; write OWNER/NAME.")
    graded = grade.grade_runs(benchmark, [run])
    tables = all_tables(graded)
    written = []
    with new_folder(out) as temporary:
        for model in run.models:
            entries = list(_entries(run, benchmark, tables, model, dataset))
            if not entries:
                continue
            named = f"{dataset.partition('/')[2]}.yaml"
            place = Path(re.sub(r"[^\w.-]+", "--", model)) / ".eval_results" / named
            (temporary / place).parent.mkdir(parents=True)
            write_bytes(temporary / place, yaml.safe_dump(entries, sort_keys=False, allow_unicode=True).encode())
            written.append(out / place)
        if not written:
            raise InputError(
                f"{run.folder}: no model has finished all its items, so there is no headline to export; "
                "continue the run."
            )
    return written


def _entries(run: Run, benchmark: Benchmark, tables: dict[str, pl.DataFrame], model: str, dataset: str
             ) -> Iterator[Record]:  # fmt: skip
    protocol = grade.protocol_name(run)
    days = sorted(turn.started[:10] for turn in run.turns if turn.model == model and turn.started)
    notes = f"chexqa {__version__}, protocol {protocol}, benchmark {benchmark.hash[:16]}"
    own = (pl.col("model") == model) & (pl.col("protocol") == protocol)
    levels = tables["levels"].filter(own).iter_rows(named=True)
    cells = tables["grid"].filter(own & (pl.col("finding") == MACRO)).iter_rows(named=True)
    scores = [
        *((dataset_card.OVERALL if row["level"] == OVERALL else row["level"], row, "corrected") for row in levels),
        *((dataset_card.GRID, row, "hit_rate") for row in cells),
    ]
    for task, row, column in scores:
        low, high = row[f"{column}_low"], row[f"{column}_high"]
        interval = "" if low is None else f", {100 * CONFIDENCE:g} % interval {low:.3f} to {high:.3f}"
        if row[column] is not None:
            yield {
                "dataset": {"id": dataset, "task_id": task}, "value": round(row[column], 6),
                **({"date": days[-1]} if days else {}), "evaluation_framework": dataset_card.FRAMEWORK,
                "notes": f"{notes}{interval}",
            }  # fmt: skip
