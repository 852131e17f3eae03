"""The Python interface: read benchmarks and runs as polars frames, and call the function behind each command.

From drawn phantoms to the tables of a report:

>>> from pathlib import Path
>>> import chexqa
>>> from chexqa import api, question_banks
>>> from chexqa.eval.models import registry
>>> from chexqa.eval.runs.runner import RunConfig
>>> from chexqa.generators.pipeline import recipe
>>> manifest = api.write_cases("cases", cases=4, seed=1, size=256)
>>> job = api.make_job([recipe.load("chexpercept"), recipe.load("grid")], question_banks.load("en"), seed=1)
>>> about = api.generate(manifest, Path("bench"), job)
>>> bench = chexqa.load("bench")
>>> bench.items_frame().height == about["counts"]["items"]
True
>>> models = registry.choose("baseline/oracle,baseline/chance", registry.load())
>>> done = api.run(RunConfig(bench, tuple(models), "end_to_end", Path("run")))
>>> [progress.unfinished for progress in done]
[0, 0]
>>> graded = api.grade_folders([Path("run")])
>>> levels = api.all_tables(graded)["levels"]
>>> levels.filter(levels["model"] == "baseline/oracle")["accuracy"].to_list()[0]
1.0
>>> files = api.write(graded, Path("report"))

Frames are polars frames (``.to_pandas()`` converts them): ``items_frame()`` and ``cases_frame()`` of a benchmark,
``frame()`` of a run. Each function is imported on first use:

===================  ====================================================================================
``chexqa synth``     :func:`write_cases`
``chexqa generate``  :func:`make_job` and :func:`generate`
``chexqa validate``  :func:`validate`
``chexqa show``      :func:`contact_sheet` (a picture of PIL) and :func:`write_sheet` (a file)
``chexqa eval``      :func:`run`
``chexqa grade``     :func:`grade_folders`, :func:`grade_predictions` (answers made elsewhere) and :func:`all_tables`
                     (every table as a frame)
``chexqa report``    :func:`write`
``chexqa compare``   :func:`compare_runs`
``chexqa export``    :func:`export_dataset` (a Hugging Face dataset)
``chexqa.rewards``   :class:`Rewards` (rewards for training)
===================  ====================================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chexqa.cli.contact_sheet import contact_sheet as contact_sheet
    from chexqa.cli.contact_sheet import write_sheet as write_sheet
    from chexqa.cli.validate import validate as validate
    from chexqa.eval.report.write import write as write
    from chexqa.eval.runs.runner import run as run
    from chexqa.eval.scoring.grade import grade_folders as grade_folders
    from chexqa.eval.scoring.predictions import grade_predictions as grade_predictions
    from chexqa.eval.tables.all_tables import all_tables as all_tables
    from chexqa.eval.tables.run_diff import compare_runs as compare_runs
    from chexqa.frames import LoadedBenchmark as LoadedBenchmark
    from chexqa.frames import LoadedRun as LoadedRun
    from chexqa.frames import load as load
    from chexqa.generators.pipeline.generate_benchmark import generate as generate
    from chexqa.generators.pipeline.job import make_job as make_job
    from chexqa.interchange.huggingface import export_dataset as export_dataset
    from chexqa.phantoms import write_cases as write_cases
    from chexqa.rewards import Rewards as Rewards

# The module that defines each name.
MODULES = {
    "load": "chexqa.frames",
    "LoadedBenchmark": "chexqa.frames",
    "LoadedRun": "chexqa.frames",
    "write_cases": "chexqa.phantoms",
    "make_job": "chexqa.generators.pipeline.job",
    "generate": "chexqa.generators.pipeline.generate_benchmark",
    "validate": "chexqa.cli.validate",
    "contact_sheet": "chexqa.cli.contact_sheet",
    "write_sheet": "chexqa.cli.contact_sheet",
    "run": "chexqa.eval.runs.runner",
    "grade_folders": "chexqa.eval.scoring.grade",
    "grade_predictions": "chexqa.eval.scoring.predictions",
    "all_tables": "chexqa.eval.tables.all_tables",
    "write": "chexqa.eval.report.write",
    "compare_runs": "chexqa.eval.tables.run_diff",
    "export_dataset": "chexqa.interchange.huggingface",
    "Rewards": "chexqa.rewards",
}
# The names that help() explains.
__all__ = [*MODULES]


def __getattr__(name: str) -> Any:
    """Import and return a function of :data:`MODULES` when it is first used."""
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    from chexqa.files.errors import suggest

    raise AttributeError(f"module 'chexqa.api' has no attribute '{name}'{suggest(name, MODULES)}")


def __dir__() -> list[str]:
    """Return the module's names, including those that are imported at first use."""
    return sorted([*globals(), *MODULES])
