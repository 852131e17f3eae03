"""Grades of runs: one row for every question that a run should ask a model, with the question's final state.

Questions that were never asked have rows too, so every accuracy is over all questions. A run that asks its items
several times (repeats, or rotations of the options) has a row for each item, repeat and rotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, Answer, CaseKey, Item, asked_conditions, clusters, radiographs
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.design import subset
from chexqa.eval.design.plan import Plan
from chexqa.eval.models import registry
from chexqa.eval.places.run_scores import PlaceScores, place_scores
from chexqa.eval.prompts import conditions, option_order
from chexqa.eval.runs import foreign_lines
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.csv_and_parquet import frame_of
from chexqa.eval.scoring.frequent import frequent_accuracy
from chexqa.eval.scoring.outcomes import TURN_COLUMNS, outcome_of
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, dump, is_folder
from chexqa.files.opening import Given, each, optional_path
from chexqa.files.terminal import messages, plural
from chexqa.files.text import few, shown

# Final states of an item. Only the first counts as correct; the last two are unfinished.
STATES = (
    "correct", "wrong", "unparsed", "truncated", "refused", "empty", "overflow", "error", "not_asked",
)  # fmt: skip
UNFINISHED = ("error", "not_asked")
NO_REPLY = (*UNFINISHED, "overflow")
# The largest difference between models that are called alike, unless another one is named.
MARGIN = 0.05
# Columns about an item. Their values are the same for every model.
ITEM_COLUMNS: dict[str, Any] = {
    "case_id": pl.String,
    "patient_id": pl.String,
    "study_id": pl.String,
    "picture": pl.String,
    "item_id": pl.String,
    "kind": pl.String,
    "level": pl.String,
    "stage": pl.Int64,
    "finding": pl.String,
    "path": pl.String,
    "answer": pl.List(pl.Int64),
    "chance": pl.Float64,
    "prior": pl.Float64,
    "chance_joint": pl.Float64,
    "scored": pl.Boolean,
    "sex": pl.String,
    "age": pl.Float64,
    "view": pl.String,
    "lesion_share": pl.Float64,
    "edit_depth": pl.Float64,
    "edit_area": pl.Float64,
    "flags": pl.List(pl.String),
    "evidence": pl.String,
}
ROUND = ("repeat", "rotation")
COLUMNS: dict[str, Any] = {
    "model": pl.String,
    "protocol": pl.String,
    "repeat": pl.Int64,
    "rotation": pl.Int64,
    **ITEM_COLUMNS,
    **TURN_COLUMNS,
}


@dataclass(frozen=True, eq=False)
class Graded:
    """Grades of runs, with the benchmark and the runs that they were made from.

    - ``grades``: the table of grades (:data:`COLUMNS`).
    - ``domains``: the domain of each model (``general``, ``medical`` or ``baseline``) if it is known.
    - ``allow_partial``: True if a model with unfinished items gets scores from its finished items.
    - ``changed``: the turns that the current parser reads differently from the run.
    - ``only_items_of``: the folder of a run; the grades have only the items that this run asked.
    - ``reviewed``: the sample of reviewed items.
    - ``second_reader``: for each item, whether a second reader's masks give the same answer as the key.
    - ``fresh``: each model's drop of accuracy on a fresh seed.
    - ``margin``: two models are called alike if their scores differ by less than this fraction.
    - ``plan``: the plan that was written before the study.
    - ``places``: the scores of answers with coordinates.
    """

    benchmark: Benchmark
    runs: tuple[Run, ...]
    grades: pl.DataFrame
    domains: Mapping[str, str] = field(default_factory=dict)
    allow_partial: bool = False
    changed: pl.DataFrame | None = None  # rereading.COLUMNS
    only_items_of: Path | None = None
    reviewed: pl.DataFrame | None = None  # chexqa.eval.readers.reviewed.COLUMNS
    second_reader: pl.DataFrame | None = None  # chexqa.eval.readers.second_reader.COLUMNS
    fresh: pl.DataFrame | None = None  # chexqa.eval.tables.fresh_seeds.MODEL_DROPS
    margin: float = MARGIN
    plan: Plan | None = None
    places: PlaceScores = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the number of graded answers, the first models and the benchmark, in one line."""
        models, folder = (
            few(self.grades["model"].unique(maintain_order=True).to_list()),
            shown(str(self.benchmark.folder)),
        )
        return f"<{type(self).__name__}: {plural(self.grades.height, 'answer')} of {models} on {folder}>"


def grade_folders(
    folders: Given | Sequence[Given],
    benchmark_folder: Given | None = None,
    allow_partial: bool = False,
    models_file: Given | None = None,
    reread: bool = False,
    on: Given | None = None,
) -> Graded:
    """Read runs and return their grades on their common benchmark; errors as in :func:`load_runs`.

    - ``folders``: one or several loaded runs or folders of runs.
    - ``models_file``: a user's ``models.yaml``, which says which models are medical.
    - ``reread``: True if the current parser reads the stored replies again.
    - ``on``: as in :func:`grade_runs`.
    """
    benchmark, runs = load_runs(folders, benchmark_folder)
    return grade_runs(benchmark, runs, allow_partial, optional_path(models_file), reread, optional_path(on))


def load_runs(
    folders: Given | Sequence[Given], benchmark_folder: Given | None = None
) -> tuple[Benchmark, tuple[Run, ...]]:
    """Return the runs' common benchmark and the runs.

    Without ``benchmark_folder``, the folder that ``run.json`` names is read. Raise ``InputError`` if the runs are of
    different benchmarks, or if the folder has another benchmark.
    """
    runs = tuple(_answered(read_run.load(Path(folder))) for folder in each(folders))
    for run in runs:
        read_run.say(run.aside)
    first = runs[0].about["benchmark"]
    for run in runs[1:]:
        other = run.about["benchmark"]
        if other["hash"] != first["hash"]:
            raise InputError(
                f"{run.folder}: this run is of benchmark {label(other)}, but {runs[0].folder} is of {label(first)}; "
                "grade them separately."
            )
    return find_benchmark(runs[0], optional_path(benchmark_folder)), runs


def _answered(run: Run) -> Run:
    """Return the run without models that never replied, such as those with a mistyped name; a remark names them.

    If no model of the run has replied, return the run unchanged.
    """
    turns = (*run.turns, *run.altered)
    replied = {turn.model for turn in turns if turn.state != read_run.ERROR}
    silent = [name for name in run.models if name not in replied]
    if not replied or not silent:
        return run
    for name in silent:
        said = next((turn.error for turn in reversed(turns) if turn.model == name), None)
        why = f" ({said})" if said else ""
        messages().print(f"{run.folder}: left out '{name}', which has not replied{why}", soft_wrap=True)
    kept = {name: about for name, about in run.about["models"].items() if name in replied}
    own, altered = (tuple(turn for turn in rows if turn.model in replied) for rows in (run.turns, run.altered))
    return replace(run, about=run.about | {"models": kept}, turns=own, altered=altered)


def grade_runs(
    benchmark: Benchmark,
    runs: Sequence[Run],
    allow_partial: bool = False,
    models_file: Path | None = None,
    reread: bool = False,
    on: Path | None = None,
) -> Graded:
    """Return the grades of runs of a loaded benchmark.

    If ``runs`` contains reader studies, only items that all of these studies asked are graded, in every run.

    - ``on``: the folder of one run; only the items that it asked are graded, in all runs.
    - ``reread``: as in :func:`grade_folders`.
    """
    domains = _domains(runs, models_file)
    used, changed = rereading.reread(benchmark, runs) if reread else (tuple(runs), None)
    place, shared = _common(benchmark, used, on)
    places = place_scores(benchmark, used)
    grades = grade(benchmark, used, places)
    if shared is not None:
        grades = grades.filter(pl.col("item_id").is_in(sorted(shared)))
    return Graded(benchmark, used, grades, domains, allow_partial, changed, place, places=places)


def _domains(runs: Iterable[Run], models_file: Path | None) -> dict[str, str]:
    """Return the domains of models, by model; a user's file counts first. Readers have no domain."""
    known = {name: str(model.domain) for name, model in registry.load(models_file).items() if model.domain}
    models = (pair for run in runs for pair in run.about["models"].items())
    recorded = {name: model["domain"] for name, model in models if "domain" in model}
    found = recorded | known if models_file else known | recorded
    return {name: domain for name, domain in found.items() if not name.startswith(registry.READERS)}


def _common(benchmark: Benchmark, runs: Sequence[Run], on: Path | None) -> tuple[Path | None, set[str] | None]:
    """Return the run that limits the graded items, and the ids of these items; (None, None) without a limit."""
    studies = [run for run in runs if run.about.get("cases") is not None]
    if on is not None:
        named = Run(on, read_run.read_about(on), (), decision=read_run.read_decision(on))
        about = named.about["benchmark"]
        if about["hash"] != benchmark.hash:
            raise InputError(
                f"--on {on}: this run is of benchmark {label(about)}, but the graded runs are of '{benchmark.name}' "
                f"({benchmark.hash[:8]}); name a run of the same benchmark."
            )
        studies.insert(0, named)
    if not studies:
        return None, None
    shared = set.intersection(*({item.item_id for item in _selected(benchmark, run)} for run in studies))
    if not shared:
        raise InputError(
            f"{studies[0].folder} and {studies[1].folder}: these runs share no case; grade them separately."
        )
    return studies[0].folder, shared


def find_benchmark(run: Run, folder: Path | None = None) -> Benchmark:
    """Return the benchmark of a run, from ``folder`` or from the folder that the run records.

    Raise ``InputError`` if the folder has another benchmark.
    """
    folder = folder or run.benchmark_folder
    if not is_folder(folder):
        raise InputError(f"{folder}: the benchmark of {run.folder} is not there; give its folder with --benchmark DIR.")
    benchmark = benchmarks.load(folder)
    if benchmark.hash != run.about["benchmark"]["hash"]:
        raise InputError(
            f"{folder}: this is benchmark {benchmark.hash[:8]}, but {run.folder} was run on "
            f"{run.about['benchmark']['hash'][:8]}; give the right folder with --benchmark DIR."
        )
    return benchmark


def label(about: Record) -> str:
    """Return a benchmark's name for messages, made from its record in ``run.json``."""
    return f"'{about['name']}' {about['version']} ({about['hash'][:8]})"


ModelProtocol = tuple[str, str]  # model, protocol
Round = tuple[int, int]  # repeat, rotation


def grade(benchmark: Benchmark, runs: Iterable[Run], places: PlaceScores | None = None) -> pl.DataFrame:
    """Return the grades as a table (:data:`COLUMNS`) with a row for each question that should be asked.

    A row is one item, model, protocol, repeat and rotation.
    """
    runs = tuple(runs)
    answers, cases = benchmark.key("grading")
    places = place_scores(benchmark, runs) if places is None else places
    said: dict[ModelProtocol, dict[tuple[Round, str], Turn]] = {}
    due: dict[ModelProtocol, dict[Round, set[str]]] = {}
    for run in runs:
        asked = _selected(benchmark, run)
        protocol = protocol_name(run)
        for model in run.models:
            wanted = {item.item_id for item in asked if _does(run, model, item)}
            said.setdefault((model, protocol), {})
            rounds = due.setdefault((model, protocol), {})
            repeats, rotations = run.about.get("repeats", 1), run.about.get("rotations", 1)
            option_order.check_amount(len(asked), repeats, rotations, f"{run.folder / read_run.ABOUT}: asks")
            for number in product(range(repeats), range(rotations)):
                rounds.setdefault(number, set()).update(wanted)
        for turn in run.counted_turns:
            _place(said[turn.model, protocol], due[turn.model, protocol], turn, run, runs, benchmark.item)
    known = _item_frame(benchmark, answers, cases)
    every = [(place, number) for place in said for number in sorted(due[place])]
    parts = [_part(benchmark, known, who, number, due[who][number], said[who], places) for who, number in every]
    return pl.concat([pl.DataFrame(schema=COLUMNS), *parts])


def _selected(benchmark: Benchmark, run: Run) -> tuple[Item, ...]:
    """Return the items that a run asks, without altered items."""
    # A reader study, or a run that a stopping rule ended, asks only some cases.
    if (cases := run.stopped_on or run.about.get("cases")) is not None:
        kept = frozenset(cases)
        return tuple(item for item in benchmark.items if item.case_id in kept)
    if ORIGINAL not in asked_conditions(run.about):
        return ()
    return subset.of_run(benchmark, run.about)


def _does(run: Run, model: str, item: Item) -> bool:
    """Return True if the model should have answered the item.

    Predictions may be for one task only, and a reader may have been given only some cases.
    """
    about = run.about["models"][model]
    tasks, cases = about.get("tasks"), about.get("cases")
    return (tasks is None or item.task in tasks) and (cases is None or item.case_id in cases)


def protocol_name(run: Run) -> str:
    """Return the name of a run's protocol in tables, such as ``end_to_end (blind)``."""
    # A run with another wording, with examples or without the radiograph has its own name, so that no table mixes runs.
    without = "".join(f" ({words})" for name, words in WITHOUT.items() if run.about.get(name))
    how = conditions.of_run(run.about)
    return f"{run.about['protocol']}{f' ({how.words})' if how.words else ''}{without}"


# Words for runs without the radiograph, by their field in run.json.
WITHOUT = {"blind": "blind", "overlay_only": "overlay only"}


def _place(
    said: dict[tuple[Round, str], Turn], due: dict[Round, set[str]], turn: Turn, run: Run, runs: Sequence[Run],
    items: Mapping[str, Item],
) -> None:  # fmt: skip
    """Put a turn of one of ``runs`` into the rows to grade.

    Raise ``InputError`` if the turn's item, options or round do not exist, or if another turn answered its question.
    """
    foreign_lines.check(run.folder, [turn], items)
    number = (turn.repeat, turn.rotation)
    if number not in due or turn.item_id not in due[number]:
        raise InputError(
            f"{run.folder}: the log has repeat {turn.repeat}, rotation {turn.rotation} of item '{turn.item_id}', but "
            f"{read_run.ABOUT} does not ask for them; restore {read_run.ABOUT}."
        )
    before = said.get((number, turn.item_id))
    if before and before.state != read_run.ERROR and turn.state != read_run.ERROR:
        other = next(one for one in runs if before in one.counted_turns)
        raise InputError(
            f"{run.folder}: model '{turn.model}' answered item '{turn.item_id}' both in this run and in "
            f"{other.folder}; grade the two runs separately, or compare them with 'chexqa compare RUN_A RUN_B'."
        )
    if before is None or before.state == read_run.ERROR:
        said[number, turn.item_id] = turn


def _item_frame(benchmark: Benchmark, answers: Mapping[str, Answer], cases: Mapping[str, CaseKey]) -> pl.DataFrame:
    """Return a row for each item with the columns that the key gives, in the benchmark's order."""
    pictures, edits = radiographs(benchmark.items, cases), _edits(benchmark.items, answers)
    frequent = frequent_accuracy(benchmark.items, answers, clusters(benchmark.items, cases))
    rows = []
    for item in benchmark.items:
        answer, case = answers[item.item_id], cases[item.case_id]
        rows.append(
            (
                item.case_id, case.patient_id, case.study_id, pictures[item.case_id], item.item_id, item.kind,
                item.level, item.stage, item.finding, answer.path, answer.answer, answer.chance, frequent[item.item_id],
                answer.chance_joint, answer.scored, case.sex, case.age, case.view, case.measures.get("lesion_share"),
                *edits.get(item.case_id, (None, None)), answer.flags, dump(answer.evidence),
            )
        )  # fmt: skip
    return frame_of(rows, ITEM_COLUMNS)


def _edits(items: Iterable[Item], answers: Mapping[str, Answer]) -> dict[str, tuple[float, float]]:
    """Return the least depth (pixels) and the least area (share of the lesion) of a case's edits, by case."""
    found: dict[str, tuple[float, float]] = {}
    for item in items:
        true = [edit for edit in answers[item.item_id].evidence.get("edits", ()) if edit["true"]]
        if true:
            found[item.case_id] = (min(edit["depth"] for edit in true), min(edit["share"] for edit in true))
    return found


def _part(
    benchmark: Benchmark, known: pl.DataFrame, place: ModelProtocol, number: Round, due: set[str],
    said: Mapping[tuple[Round, str], Turn], places: PlaceScores,
) -> pl.DataFrame:  # fmt: skip
    """Return the rows of one repeat and rotation, for one model and protocol."""
    answers = benchmark.key("grading")[0]
    items = [item for item in benchmark.items if item.item_id in due]
    rows = [outcome_of(item, answers[item.item_id], said.get((number, item.item_id)), places) for item in items]
    outcome = frame_of(rows, TURN_COLUMNS)
    about = known if len(due) == known.height else known.filter(pl.col("item_id").is_in(list(due)))
    names = {"model": place[0], "protocol": place[1], "repeat": number[0], "rotation": number[1]}
    joined = pl.concat([about, outcome], how="horizontal")
    return joined.with_columns(pl.lit(value, COLUMNS[name]).alias(name) for name, value in names.items()).select(
        list(COLUMNS)
    )
