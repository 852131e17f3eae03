"""Generation of a benchmark folder: survey every case, draw paths, build the drawn cases, write the files.

The same manifest, recipes, bank and seed give the same bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from chexqa.contract import benchmark
from chexqa.contract.cases import Case, is_lateral, read_manifest
from chexqa.contract.items import Answer, CaseKey, Item, priors
from chexqa.eval.places import markers
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.opening import optional_path
from chexqa.files.workers import same_everywhere
from chexqa.generators.pipeline import balance_positions
from chexqa.generators.pipeline.build_pass import Others, bench_case_id, build
from chexqa.generators.pipeline.builders import places as place_builders
from chexqa.generators.pipeline.builders import plugins
from chexqa.generators.pipeline.builders.place_cases import draw_place_cases, kinds_of_present, with_place_kinds
from chexqa.generators.pipeline.case_index import Cases, only_data
from chexqa.generators.pipeline.case_paths import Candidate, Draw, draw_again, draw_paths
from chexqa.generators.pipeline.checkpoint import BUILT, Checkpoint, discard, image_store, open_checkpoint
from chexqa.generators.pipeline.executors import TaskRunner, WorkerConfig, WorkerDied
from chexqa.generators.pipeline.job import GenerationJob, Original, drawn_pictures, job_record
from chexqa.generators.pipeline.measure_pass import empty_survey, left_out, survey
from chexqa.generators.pipeline.recipe import PerceptionRecipe
from chexqa.generators.pipeline.survey import Survey

_REASONS = 3
_OTHER_MASKS = "its finding, radiograph or masks differ from those in the benchmark for which fresh items are made"
_NAMED = re.compile(r"^\S+, line \d+: (?:[^\s:]+: )?")
T = TypeVar("T")
Progress = Callable[[str, int], Callable[[], None]]


def generate(
    manifest: str | Path, out: str | Path, job: GenerationJob, *, image_root: str | Path | None = None,
    workers: WorkerConfig | None = None, progress: Progress | None = None, original: Original | None = None,
) -> Record:  # fmt: skip
    """Make the benchmark folder ``out`` and return the content of its ``benchmark.json``.

    - ``manifest``: the manifest of the cases, or its folder.
    - ``job``: the recipes, questions and seed. To make a fresh seed of an existing benchmark, call
      :func:`chexqa.generators.pipeline.job.make_fresh_job` for the job.
    - ``workers``: the settings of worker processes; None to work in this process only.
    - ``progress``: a function that takes a label and the number of steps, and returns a function to call at each step.
    - ``original``: for a fresh seed, the existing benchmark; all its cases must be in the manifest.

    Cases that cannot be used are listed in ``skipped.jsonl``. Raises ``InputError`` if no case gives an item.
    """
    manifest, out, workers = Path(manifest), Path(out), workers or WorkerConfig()
    image_root = optional_path(image_root)
    cases = Cases(read_manifest(manifest, image_root), None if original is None else original.paths)
    if original is not None:
        _check_complete(manifest, cases, original)
    data = only_data(cases.data, manifest)
    step = progress or (lambda label, total: lambda: None)
    with open_checkpoint(out, job_record(cases.digest, job)) as partial:
        with workers.gathered() as runner:
            summaries = _survey_all(partial, cases, job, runner, step, original)
            draw = _draw(summaries, job, original)
            built = _build_all(partial, cases, summaries, draw, job, runner, step, _place_cases(summaries, job))
            built = built if original is None else _without_copies(built, summaries, original)
        if not built:
            discard(out)
            reasons = Counter(str(row["reason"]) for row in _skipped(summaries, draw, built))
            raise InputError(f"{manifest}: no case gave an item: {_most_frequent(reasons, len(cases))}")
        contents = _contents(built, _skipped(summaries, draw, built), draw, job)
        name = "+".join(recipe.name for recipe in job.recipes)
        recipes = tuple(recipe.to_record() for recipe in job.recipes)
        kinds = [one.kind for one in job.questions]
        origin = benchmark.Origin(name, "1", job.seed, recipes, job.bank, data, kinds, job.fresh_of)
        altered = None if job.fill is None else _Again(lambda: _altered(built, job.seed))
        return partial.finish(out, origin, contents, altered, job.fill or "")


def _altered(built: Mapping[str, Record], seed: int) -> Iterator[Record]:
    """Yield the records of altered pictures in the order of the benchmark's cases."""
    for case_id in sorted(built, key=lambda case_id: bench_case_id(seed, case_id)):
        if (record := built[case_id].get("interventions")) is not None:
            yield record


def _check_complete(manifest: Path, cases: Cases, original: Original) -> None:
    """Raise ``InputError`` if the manifest lacks a case of the benchmark for which fresh items are made."""
    missing = sorted(original.paths.keys() - cases.keys())
    if missing:
        raise InputError(
            f"{manifest}: benchmark '{original.about['name']}' has {len(original.paths):,} cases with a finding, and "
            f"this manifest lacks {len(missing):,} of them, such as '{missing[0]}'; give the manifest that the "
            "benchmark was made from."
        )


def _without_copies(
    built: Mapping[str, Record], summaries: dict[str, CaseSummary], original: Original
) -> dict[str, Record]:
    """Return the built cases; leave out cases with a drawn picture that is also in the original benchmark."""
    kept: dict[str, Record] = {}
    for case_id, record in built.items():
        if original.drawn & drawn_pictures(map(Item.from_record, record["items"])):
            summaries[case_id].skipped.append((None, "a picture drawn for it is also in the original benchmark"))
        else:
            kept[case_id] = record
    return kept


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """Summary of a case's survey that stays in memory.

    - ``usable``: True if the case can get a question path.
    - ``unstable_key``: True if slightly different masks would change the key of an attribute item.
    - ``grid``: True if the case has a grid item.
    - ``places``: the kinds of question on places that the case can get.
    - ``larger``: the correct option of the comparison item, or None.
    - ``edit_depth``: the depth of the shallowest true edit as a fraction of the picture's longer side, if the recipe
      gives depths.
    - ``lesion_share``: the lesion's share of the picture.
    """

    finding: str
    present: bool
    image_key: str | None
    usable: bool
    unstable_key: bool
    grid: bool
    places: tuple[str, ...]
    larger: str | None
    edit_depth: float | None
    lesion_share: float
    skipped: list[tuple[str | None, str]]

    @classmethod
    def of(cls, survey: Survey, recipe: PerceptionRecipe | None) -> CaseSummary:
        """Return the summary of a survey that was measured with the thresholds of ``recipe``."""
        drawn = None if survey.perception is None else survey.perception.attributes
        return cls(
            finding=survey.finding,
            present=survey.present,
            image_key=survey.image_key,
            usable=survey.perception is not None,
            unstable_key=drawn is not None and not all(drawn.stable.values()),
            grid=survey.grid is not None,
            places=() if survey.places is None else survey.places.kinds,
            edit_depth=None if recipe is None or not recipe.depths else _depth(survey),
            lesion_share=0.0 if survey.size is None else survey.size.lesion_share,
            larger=None if drawn is None or recipe is None else balance_positions.correct_name(drawn, recipe),
            skipped=list(survey.skipped),
        )


def _depth(survey: Survey) -> float | None:
    """Return the depth of a case's shallowest true edit as a fraction of the longer side; None without edits."""
    plan = None if survey.perception is None else survey.perception.plan
    if plan is None or survey.size is None:
        return None
    return min(plan.edits[number].depth for number in plan.true) / max(survey.size.working_size)


def _survey_all(
    partial: Checkpoint, cases: Cases, job: GenerationJob, runner: TaskRunner, step: Progress,
    original: Original | None,
) -> dict[str, CaseSummary]:  # fmt: skip
    done = partial.records("survey")
    advance = step("surveying cases", len(cases))
    summaries: dict[str, CaseSummary] = {}
    for case_id, record in done.items():
        summaries[case_id] = CaseSummary.of(Survey.from_record(record), job.perception)
        advance()
    tasks = (
        (case_id, (case, job, cases.findings.get(str(case.image), ())))
        for case_id, case in cases.items()
        if case_id not in done
    )
    for case_id, result in runner.run(_survey_task, tasks):
        surveyed = empty_survey(cases[case_id], result.reason) if isinstance(result, WorkerDied) else result
        if original is not None and surveyed.perception is not None and not original.is_same(surveyed):
            surveyed = empty_survey(cases[case_id], _OTHER_MASKS)
        done.add(case_id, surveyed.to_record())
        summaries[case_id] = CaseSummary.of(surveyed, job.perception)
        advance()
    return summaries


@same_everywhere()
def _survey_task(case: Case, job: GenerationJob, others: tuple[str, ...]) -> Survey:
    if job.reviewed and case.present and case.review != "approved":
        said = "has not been reviewed" if case.review is None else f"is not approved (review: {case.review})"
        return left_out(case, f"its mask {said}, and --reviewed takes approved masks only")
    if is_lateral(case.view) and not job.lateral:
        return left_out(
            case, f"the view is {case.view}, but the questions are on frontal views; give --allow-lateral to use it"
        )
    return survey(case, job.perception, job.grid, job.seed, others, job.reviewed, job.places)


def _draw(summaries: dict[str, CaseSummary], job: GenerationJob, original: Original | None) -> Draw:
    if job.perception is None:
        return Draw({}, {}, ())
    if original is not None:
        usable = {case_id: original.paths[case_id] for case_id, summary in summaries.items() if summary.usable}
        return Draw(draw_again(usable, job.seed), {}, ())
    candidates = [
        Candidate(
            case_id,
            summary.finding,
            summary.present,
            summary.image_key,
            summary.unstable_key,
            summary.edit_depth,
            summary.lesion_share,
        )
        for case_id, summary in summaries.items()
        if summary.usable and summary.image_key is not None
    ]
    with_finding = {
        (summary.finding, summary.image_key)
        for summary in summaries.values()
        if summary.present and not summary.usable and summary.image_key is not None
    }
    return draw_paths(candidates, job.perception, job.seed, with_finding)


def _build_all(
    partial: Checkpoint,
    cases: Cases,
    summaries: dict[str, CaseSummary],
    draw: Draw,
    job: GenerationJob,
    runner: TaskRunner,
    step: Progress,
    for_places: Set[str],
) -> Mapping[str, Record]:
    wanted = sorted(
        case_id for case_id, summary in summaries.items()
        if case_id in draw.paths or summary.grid or case_id in for_places
    )  # fmt: skip
    places = balance_positions.assign_positions(
        {case_id: (summary.larger, summary.finding) for case_id, summary in summaries.items()
         if case_id in draw.paths and summary.larger is not None},
        job.seed,
    )  # fmt: skip
    surveyed, done = partial.records("survey"), partial.records(BUILT)
    place_kinds = kinds_of_present((one.finding, one.places) for one in map(summaries.__getitem__, for_places)
                                   if one.present)  # fmt: skip
    advance = step("building items", len(wanted))
    for _ in done:
        advance()
    tasks = (
        (
            case_id,
            (
                partial.folder,
                cases[case_id],
                with_place_kinds(
                    balance_positions.with_position(Survey.from_record(surveyed[case_id]), places.get(case_id)),
                    place_kinds,
                ),
                draw.paths.get(case_id),
                job,
                case_id in for_places,
                _other_findings(case_id, cases, surveyed) if job.fill is not None else (),
            ),
        )
        for case_id in wanted
        if case_id not in done
    )
    for case_id, result in runner.run(_build_task, tasks):
        if isinstance(result, WorkerDied):
            summaries[case_id].skipped.append((None, result.reason))
        else:
            done.add(case_id, result)
        advance()
    if for_places:
        names = [(name, bench_case_id(job.seed, name)) for name in (f"marker-{n:02}" for n in range(markers.COUNT))]
        made = place_builders.marker_records(names, job.questions, job.bank, job.seed, image_store(partial.folder))
        for source, record in made.items():
            if source not in done:
                done.add(source, record)
    return done


def _other_findings(case_id: str, cases: Cases, surveyed: Mapping[str, Record]) -> Others:
    """Return the other findings in a case's radiograph.

    Each is a mask as run lengths, or a case whose mask is not read yet.
    """
    same = (other for other in cases.present.get(str(cases[case_id].image), ()) if other != case_id)
    masks = ((other, surveyed[other]["masks"].get("lesion") if other in surveyed else None) for other in same)
    return tuple(cases[other] if mask is None else mask for other, mask in masks)


def _place_cases(summaries: dict[str, CaseSummary], job: GenerationJob) -> set[str]:
    """Return the cases that are drawn for questions on places."""
    if job.places is None:
        return set()
    candidates = (
        Candidate(case_id, summary.finding, summary.present, summary.image_key)
        for case_id, summary in summaries.items()
        if summary.places and summary.image_key is not None
    )
    return draw_place_cases(candidates, job.places, job.seed)


@same_everywhere()
def _build_task(
    folder: Path, case: Case, survey: Survey, path: Any, job: GenerationJob, asks_places: bool, others: Others
) -> Record:
    return build(
        case,
        survey,
        path,
        perception=job.perception,
        grid=job.grid,
        bank=job.bank,
        seed=job.seed,
        store=image_store(folder),
        controls=job.controls,
        questions=job.questions,
        places=job.places if asks_places else None,
        fresh=job.fresh_of is not None,
        fill=job.fill,
        others=others,
        layers=job.layers,
    )


def _skipped(summaries: dict[str, CaseSummary], draw: Draw, built: Mapping[str, Record]) -> list[Record]:
    """Return a record with the reason for each case that is left out of a task (null: of all tasks), sorted by id."""
    rows = []
    for case_id, summary in sorted(summaries.items()):
        reasons = list(summary.skipped)
        if case_id in draw.unused:
            reasons.append(("perception", draw.unused[case_id]))
        for task, reason in reasons:
            task = task if case_id in built else None
            rows.append({"source_case_id": case_id, "finding": summary.finding, "task": task, "reason": reason})
    return rows


def _most_frequent(reasons: Counter[str], cases: int) -> str:
    if not reasons:
        return "the recipe's quotas are all zero; give at least one above 0."
    # Reasons that differ only in the named line and file count as the same reason.
    alike: dict[str, list[str]] = {}
    for reason in reasons.elements():
        alike.setdefault(_NAMED.sub("", reason), []).append(reason.rstrip("."))
    common = sorted(alike.values(), key=len, reverse=True)[:_REASONS]
    return "; ".join(f"{found[0]} ({len(found)} of {cases})" for found in common) + "."


@dataclass(frozen=True)
class _Again(Generic[T]):
    """Iterable that reads its values from the disk in every iteration, instead of keeping them in memory."""

    make: Callable[[], Iterator[T]]

    def __iter__(self) -> Iterator[T]:
        return self.make()


def _contents(built: Mapping[str, Record], skipped: list[Record], draw: Draw, job: GenerationJob) -> benchmark.Contents:
    """Return the contents of the benchmark with priors filled in.

    The contents are sorted by benchmark id, which hides the source's order.
    """
    order = sorted(built, key=lambda case_id: bench_case_id(job.seed, case_id))
    kinds = plugins.all_kinds(job.questions)

    def pairs() -> Iterator[tuple[Record, Record]]:
        """Yield every item with its answer."""
        for case_id in order:
            row = built[case_id]
            yield from zip(row["items"], row["answers"], strict=True)

    accuracy = priors(
        (item["kind"], item["finding"], kinds[item["kind"]].form, answer["answer"]) for item, answer in pairs()
    )

    def answers() -> Iterator[Answer]:
        for item, answer in pairs():
            yield Answer.from_record({**answer, "prior": accuracy[item["kind"], item["finding"]]})

    return benchmark.Contents(
        items=_Again(lambda: (Item.from_record(item, kinds) for item, _ in pairs())),
        answers=_Again(answers),
        cases=_Again(lambda: (CaseKey(**built[case_id]["case"]) for case_id in order)),
        skipped=tuple(skipped),
        shortfall=draw.shortfall,
    )
