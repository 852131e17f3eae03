"""The steps from cases to a report in Python: ``generate``, ``freshen``, ``evaluate``, ``grade`` and ``report``.

Each function does the same as the command of its name (``evaluate``: ``chexqa eval``), with the same files and the same
errors. The result of one step can be given to the next. Tables are polars frames. ``docs/python.md`` shows examples.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run
from chexqa.eval.cli import params
from chexqa.eval.models import in_process
from chexqa.eval.models.registry import Model
from chexqa.eval.scoring.grade import Graded
from chexqa.files.errors import InputError
from chexqa.files.opening import Given, each, optional_path
from chexqa.files.say import say
from chexqa.files.text import few
from chexqa.frames import LoadedBenchmark, LoadedRun, as_path, load_benchmark, load_run

if TYPE_CHECKING:
    from click import Command

    from chexqa.eval.tables.all_tables import Group
    from chexqa.generators.pipeline.job import GenerationJob, Original

Asked = str | Model | Callable[..., Any] | object
T = TypeVar("T")
PARTED = (
    "The models were asked different items, so they are in separate groups: the result's 'groups' has all groups, and "
    "'tables' has the tables of the first group. Give shared=True to grade only the items that all models were asked."
)
KEPT = (
    "{models} had answered every question before and was not called, so its replies are those of the earlier call. "
    "If its code has changed, name another folder."
)


class LoadedGrades(Graded):
    """Graded runs, with every table of results as a polars frame; :attr:`grades` has one row for each answer.

    Models that were asked different items are in different :attr:`groups`. The group with the most items comes first.
    """

    @cached_property
    def groups(self) -> list[Group]:
        """Groups of models that were asked the same items, each with ``title`` and ``tables``."""
        from chexqa.eval.tables.all_tables import groups

        return groups(self)

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The tables of the first group (models that were asked the same items), keyed by name, such as ``levels``;
        ``docs/columns.md`` explains every column.
        """
        return self.groups[0].tables


@params.names_arguments()
def generate(
    cases: str | Path,
    out: str | Path,
    *,
    recipes: str | Iterable[str] = (),
    bank: str = "en",
    seed: int = 0,
    image_root: str | Path | None = None,
    with_controls: bool = False,
    with_layers: bool = False,
    reviewed: bool = False,
    allow_lateral: bool = False,
    interventions: bool = False,
    fill: str | None = None,
    plugins: str | Iterable[str] = (),
    workers: int = 1,
) -> LoadedBenchmark:
    """Make a benchmark from cases, and return the loaded benchmark.

    ``cases`` is a manifest, or a folder that contains ``cases.jsonl``. ``recipes`` are names or YAML files; the default
    is ``chexpercept`` and ``grid``. With ``interventions``, altered radiographs are made too, some with the lesion
    filled. ``fill`` names the method of filling: ``inpaint`` (the default), ``mean`` or ``blur``.
    """
    from chexqa.cli.generate import generate as command
    from chexqa.generators.pipeline.job import named_job

    seed, workers = _whole_numbers(command, seed, workers)
    job = named_job(
        _names(recipes), bank, seed, controls=with_controls, reviewed=reviewed, plugin_names=_names(plugins),
        lateral=allow_lateral, interventions=interventions, fill=fill, layers=with_layers,
    )  # fmt: skip
    return _made(cases, out, job, None, image_root, workers)


@params.names_arguments()
def freshen(
    bench: Benchmark | str | Path,
    cases: str | Path,
    out: str | Path,
    *,
    seed: int,
    recipes: str | Iterable[str] = (),
    bank: str | None = None,
    image_root: str | Path | None = None,
    workers: int = 1,
) -> LoadedBenchmark:
    """Make a new benchmark with other questions on the same cases (a fresh seed), and return the loaded benchmark.

    ``seed`` must differ from the seed of ``bench``. ``recipes`` and ``bank`` are needed if ``bench`` was made from
    files of your own. ``chexqa.grade(run, fresh=fresh_run)`` shows how much worse a model scores on the fresh seed.
    """
    from chexqa.cli.generate import freshen as command
    from chexqa.generators.pipeline.job import named_fresh_job

    seed, workers = _whole_numbers(command, seed, workers)
    job, original = named_fresh_job(_benchmark(bench), _names(recipes), bank, seed)
    return _made(cases, out, job, original, image_root, workers)


def _whole_numbers(command: Command, seed: int, workers: int) -> tuple[int, int]:
    """Return the seed and the number of workers, checked as the options of a command that makes a benchmark."""
    checked = params.checked(command, {"seed": seed, "workers": workers})
    return checked["seed"], checked["workers"]


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _made(
    cases: str | Path, out: str | Path, job: GenerationJob, original: Original | None, image_root: str | Path | None,
    workers: int,
) -> LoadedBenchmark:  # fmt: skip
    """Make a benchmark, load it, and return it."""
    from chexqa.generators.pipeline import generate_benchmark
    from chexqa.generators.pipeline.executors import WorkerConfig

    folder = as_path(out, "the benchmark's folder")
    generate_benchmark.generate(
        as_path(cases, "a manifest"), folder, job, image_root=optional_path(image_root),
        workers=WorkerConfig(workers, None), original=original,
    )  # fmt: skip
    return load_benchmark(folder)


class RunOptions(TypedDict, total=False):
    """Options of ``chexqa eval``; each field has the name, meaning and default of the command's option.

    ``chexqa eval --help`` explains all of them. The most frequent ones are:

    - ``protocol``: ``end_to_end`` (the default), ``oracle_passed``, ``oracle_stated`` or ``independent``.
    - ``limit``, ``limit_per_path``: the largest number of cases, or of cases of each path.
    - ``prompt``, ``system``, ``shots``: the wording, a file with the system prompt, the number of worked examples.
    - ``concurrency``, ``timeout``, ``attempts``: conversations at once, seconds for an attempt, attempts at a question.
    - ``budget_usd``, ``budget_tokens``, ``max_minutes``: the run stops when one of them is used up.
    - ``max_tokens``, ``temperature``: arguments of the request; ``decoding`` has all others.
    - ``repeats``, ``rotate``: how often each question is asked, and in how many orders of its options.
    - ``blind``: ask without pictures.
    - ``confidence``, ``may_abstain``: ask for a confidence after every answer, let the model abstain.
    - ``seed``: the seed of ``baseline/chance`` and of the choice of worked examples.
    """

    devices: str | None
    models_file: str | Path | None
    skip_unavailable: bool
    api_base: str | None
    provider_protocol: bool
    max_tokens: int | None
    temperature: float | None
    frame: str | None
    protocol: str
    condition: str | Iterable[str] | None
    prompt: str | None
    system: str | Path | None
    shots: int
    confidence: bool
    may_abstain: bool
    logprobs: bool
    stress: str | None
    blind: bool
    overlay_only: bool
    rotate: int
    repeats: int
    limit: int | None
    limit_per_path: int | None
    shard: str | None
    concurrency: int
    timeout: float
    attempts: int
    give_up_after: float
    budget_usd: float | None
    budget_tokens: int | None
    max_minutes: float | None
    until_decided: str | None
    on: str | None
    alpha: float | None
    target: str | None
    batch: str | Path | None
    batch_submit: bool
    batch_poll: float
    allow_remote_credentialed: bool
    seed: int


@params.names_arguments(RunOptions.__annotations__)
def evaluate(
    bench: Benchmark | str | Path,
    models: Asked | Sequence[Asked],
    out: str | Path,
    *,
    name: str | None = None,
    decoding: Mapping[str, Any] | None = None,
    allow_unfinished: bool = False,
    **options: Unpack[RunOptions],
) -> LoadedRun:
    """Ask models the questions of a benchmark, and return the run; a run that exists in ``out`` is continued.

    ``models`` is one model or a list of models. A model is given as one of these:

    - a registered name (``gpt-5.4``, ``baseline/chance``);
    - the id of any other model; if its server has an address of its own, give it as ``api_base``;
    - weights that this process loads (``transformers/FOLDER``);
    - a callable (``docs/own-models.md``);
    - a :class:`Model` of the registry.

    ``name`` is the name under which the run records a single callable. ``decoding`` has arguments of the request, as in
    ``--set``. ``options`` are explained in :class:`RunOptions`.

    If questions remain unanswered (for example, if requests of the option ``batch`` still wait for results),
    ``UnfinishedError`` is raised. With ``allow_unfinished`` the run is returned instead. A second call with the same
    arguments asks the remaining questions; answered questions keep their replies, even if the code of a callable has
    changed.
    """
    from chexqa.eval.cli import eval as command
    from chexqa.eval.runs.model_progress import unfinished

    given = params.values(command.evaluate, ["."], options, RunOptions.__annotations__)
    given["settings"] = _settings(decoding or {})
    asked = command.set_up(_models(models, name, given), given)
    callables = {model.name for model in asked if model.python and not in_process.is_weights(model.litellm)}
    loaded, folder = _benchmark(bench), as_path(out, "the run's folder")
    done = _outside_loops(lambda: command.ask(loaded, asked, folder, given))
    error = unfinished(done, in_python=True)
    if error is not None and not allow_unfinished:
        raise error
    kept = [one.model for one in done if one.model in callables and not one.asked and not one.unfinished]
    if kept:
        say(f"{folder}: {KEPT.format(models=few(kept))}", err=True)
    return load_run(folder)


def _settings(decoding: Mapping[str, Any]) -> tuple[str, ...]:
    """Return arguments of the request in the form of ``--set``: one text ``NAME=JSON`` for each."""
    try:
        return tuple(f"{name}={json.dumps(value, allow_nan=False)}" for name, value in decoding.items())
    except (TypeError, ValueError) as error:
        raise InputError(f"decoding: cannot be written as JSON ({error}); give values that JSON can express.") from None


@params.names_arguments()
def grade(
    *runs: Run | str | Path | Sequence[Run | str | Path],
    benchmark: Benchmark | str | Path | None = None,
    allow_partial: bool = False,
    models_file: str | Path | None = None,
    reread: bool = False,
    on: Run | str | Path | None = None,
    shared: bool = False,
    margin: float | None = None,
    plan: str | Path | None = None,
    fresh: Run | str | Path | Sequence[Run | str | Path] = (),
    protocol: str | None = None,
    reviewed: str | Path | None = None,
    second_masks: str | Path | None = None,
) -> LoadedGrades:
    """Grade runs, or files of answers that other programs collected (``.jsonl``); the tables are polars frames.

    If models were asked different items, the result has several ``groups``, and a line on stderr says so. With
    ``shared``, only the items that all models were asked are graded. ``margin`` is the equivalence margin: the largest
    difference, in percentage points, at which two models count as equivalent. ``fresh`` is one run or several runs on
    a fresh seed of the benchmark (:func:`freshen`). ``protocol`` is the protocol of answers that do not name theirs.
    ``reviewed`` is the folder of a review in which experts answered a random sample without seeing the key; accuracies
    are then corrected for wrong keys. ``second_masks`` is a manifest or a folder of masks that another reader drew.
    """
    from chexqa.eval.cli.grade import grade as command
    from chexqa.eval.cli.grade import read

    paths = _folders(run for given in runs for run in each(given))
    if not paths:
        raise InputError("no run is given; name one or several runs, such as chexqa.grade('run').")
    margin = params.checked(command, {"margin": margin})["margin"]
    again = _folders(each(fresh))
    graded = read(
        paths, optional_path(benchmark), allow_partial, optional_path(models_file), reread, optional_path(on), shared,
        margin, protocol, optional_path(reviewed), optional_path(plan), optional_path(second_masks), again,
    )  # fmt: skip
    made = LoadedGrades(**{field.name: getattr(graded, field.name) for field in fields(graded)})
    if len(made.groups) > 1:
        say(f"{'; '.join(group.title for group in made.groups)}. {PARTED}", err=True)
    return made


@params.names_arguments()
def report(
    graded: LoadedGrades | Run | str | Path, out: str | Path, *, overwrite: bool = False, workers: int = 1
) -> Path:
    """Write the report of graded runs, or of one run, and return the path of its HTML page.

    The report has a page, a gallery, plots and tables.

    - ``out``: the report's folder. An earlier report of the same runs in this folder is replaced.
    - ``overwrite``: True to replace a report of other runs, too; if False, such a report raises ``InputError``.
    - ``workers``: the number of processes; a script that gives more than one needs the guard
      ``if __name__ == "__main__"``.
    """
    from chexqa.eval.report import build

    folder = as_path(out, "the report's folder")
    rows = graded if isinstance(graded, LoadedGrades) else grade(graded)
    build.write_report(rows.groups, folder, overwrite, workers)
    return folder / build.INDEX


def _benchmark(bench: Benchmark | str | Path) -> Benchmark:
    return bench if isinstance(bench, Benchmark) else load_benchmark(bench)


def _folders(runs: Iterable[Given]) -> tuple[Path, ...]:
    return tuple(as_path(run, "a run") for run in runs)


def _models(given: Asked | Sequence[Asked], name: str | None, options: Mapping[str, Any]) -> list[Model]:
    """Return all given models as models of the registry: first those given as text, then objects and callables."""
    rows: list[Asked] = list(given) if isinstance(given, list | tuple) else [given]
    if name is not None and (len(rows) > 1 or isinstance(rows[0], str | Model)):
        raise InputError(
            f"name={name!r} can only name a single callable, but the given models have names of their own; leave "
            "'name' out."
        )
    texts = [row for row in rows if isinstance(row, str)]
    names = [part for row in texts for part in ([row] if in_process.is_weights(row) else row.split(","))]
    about = options["api_base"], options["models_file"], options["provider_protocol"]
    chosen = params.select(names or None, None, *about) if names or options["api_base"] is not None or not rows else []
    objects = [row for row in rows if not isinstance(row, str)]
    return chosen + [row if isinstance(row, Model) else in_process.of_callable(row, name) for row in objects]


def _outside_loops(work: Callable[[], T]) -> T:
    """Run ``work`` and return its result; if an event loop is running, as in a notebook, run it in another thread.

    An interrupt stops a run of models as Ctrl-C stops the command: first after the questions in flight, then at once.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    from chexqa.eval.runs import runner

    with ThreadPoolExecutor(1) as thread:
        # With the context of this thread, IPython shows what the other thread prints below this cell.
        done = thread.submit(contextvars.copy_context().run, work)
        while True:
            try:
                return done.result()
            except KeyboardInterrupt:
                if not runner.interrupt():
                    raise
