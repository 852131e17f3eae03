"""From a manifest to a benchmark folder: survey every case, draw paths, build the drawn ones, write the files.

The same manifest, recipes, bank and seed give the same bytes: every case has random streams of its own, and what is
written is sorted by ids that depend on nothing but the seed and the source's id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chexqa import benchmark
from chexqa.cases import Case, read_manifest
from chexqa.errors import InputError
from chexqa.generators.building import build
from chexqa.generators.crew import Crew, Lost
from chexqa.generators.partial import Partial, discard, image_store, open_partial
from chexqa.generators.paths import Candidate, Draw, draw_paths
from chexqa.generators.survey import empty_survey, survey
from chexqa.items import GRID, Answer, CaseKey, Item
from chexqa.records import Record
from chexqa.version import __version__

Progress = Callable[[str, int], Callable[[], None]]


@dataclass(frozen=True)
class Job:
    """What to make: recipes (at most one for each task) and bank as checked records, and the seed.

    ``controls``: whether every drawing is made on plain grey too.
    """

    perception: Record | None
    grid: Record | None
    bank: Record
    seed: int
    controls: bool = False

    @property
    def recipes(self) -> tuple[Record, ...]:
        """The recipes that are there."""
        return tuple(recipe for recipe in (self.perception, self.grid) if recipe is not None)


def make_job(recipes: Iterable[Record], bank: Record, seed: int, controls: bool = False) -> Job:
    """A job; ``InputError`` where two recipes are for the same task or the bank lacks a finding's name."""
    by_task: dict[str, Record] = {}
    for recipe in recipes:
        other = by_task.setdefault(recipe["task"], recipe)
        if other is not recipe:
            raise InputError(
                f"the recipes '{other['name']}' and '{recipe['name']}' are both for the {recipe['task']} task; "
                "give one of them, and make a second benchmark with the other."
            )
        missing = [finding for finding in recipe["findings"] if finding not in bank["findings"]]
        if missing:
            raise InputError(
                f"the question bank '{bank['name']}' has no name for '{missing[0]}'; add it to 'findings'."
            )
    return Job(by_task.get("perception"), by_task.get("grid"), bank, seed, controls)


def generate(
    manifest: Path, out: Path, job: Job, *, image_root: Path | None = None, crew: Crew | None = None,
    progress: Progress | None = None,
) -> Record:  # fmt: skip
    """Make a benchmark folder from a manifest (or its folder); returns its ``benchmark.json``.

    A case that cannot be used is listed in ``skipped.jsonl`` with the reason and stops nothing. ``progress`` is
    called with a label and a total, and what it returns once a step. ``crew``: who does the work.
    """
    crew = crew or Crew()
    cases = {case.case_id: case for case in read_manifest(manifest, image_root)}
    data = _kind_of_data(cases.values(), manifest)
    step = progress or (lambda label, total: lambda: None)
    with open_partial(out, _job_record(cases.values(), job)) as partial:
        surveyed = _survey_all(partial, cases, job, crew, step)
        draw = _draw(surveyed, job)
        built = _build_all(partial, cases, surveyed, draw, job, crew, step)
        if not built:
            discard(out)
            reasons = Counter(str(row["reason"]) for row in _skipped(surveyed, draw, built))
            raise InputError(f"{manifest}: no case gave an item: {_most_frequent(reasons, len(cases))}")
        contents = _contents(built, _skipped(surveyed, draw, built), draw)
        name = "+".join(str(recipe["name"]) for recipe in job.recipes)
        origin = benchmark.Origin(name, "1", job.seed, job.recipes, job.bank, data)
        return partial.finish(out, origin, contents)


def _kind_of_data(cases: Iterable[Case], manifest: Path) -> str:
    kinds = {case.source == "phantom" for case in cases}
    if len(kinds) > 1:
        raise InputError(
            f"{manifest}: holds drawn phantoms and real radiographs, which are never pooled; use one manifest for each."
        )
    return "phantom" if kinds.pop() else "real"


def _job_record(cases: Iterable[Case], job: Job) -> Record:
    """What must be the same for an interrupted generation to go on."""
    lines = sorted(repr(replace(case, manifest=Path(), line=0)) for case in cases)
    return {
        "manifest": benchmark.record_hash({"lines": lines}),
        "recipes": [benchmark.record_hash(recipe) for recipe in job.recipes],
        "question bank": benchmark.record_hash(job.bank),
        "seed": job.seed,
        "choice of --with-controls": job.controls,
        "version of chexqa": __version__,
    }


def _survey_all(partial: Partial, cases: dict[str, Case], job: Job, crew: Crew, step: Progress) -> dict[str, Record]:
    done = partial.finished("survey")
    advance = step("surveying cases", len(cases))
    for _ in done:
        advance()
    present: dict[Path, list[str]] = defaultdict(list)
    for case in cases.values():
        if case.present:
            present[case.image].append(case.finding)
    tasks = (
        (case_id, (case, job, tuple(present.get(case.image, ()))))
        for case_id, case in cases.items()
        if case_id not in done
    )
    for case_id, result in crew.run(_survey_task, tasks):
        done[case_id] = empty_survey(cases[case_id], result.reason) if isinstance(result, Lost) else result
        partial.add("survey", case_id, done[case_id])
        advance()
    return done


def _survey_task(case: Case, job: Job, others: tuple[str, ...]) -> Record:
    return survey(case, job.perception, job.grid, job.seed, others)


def _draw(surveyed: dict[str, Record], job: Job) -> Draw:
    if job.perception is None:
        return Draw({}, {}, ())
    candidates = [
        Candidate(
            record["source_case_id"], record["finding"], record["present"], record["image_key"], _is_flagged(record)
        )
        for record in surveyed.values()
        if record["perception"] is not None
    ]
    return draw_paths(candidates, job.perception, job.seed)


def _is_flagged(record: Record) -> bool:
    """Whether an attribute item would be unstable."""
    drawn = record["perception"].get("attributes")
    return drawn is not None and not all(drawn["stable"].values())


def _build_all(
    partial: Partial,
    cases: dict[str, Case],
    surveyed: dict[str, Record],
    draw: Draw,
    job: Job,
    crew: Crew,
    step: Progress,
) -> dict[str, Record]:
    wanted = sorted(
        case_id for case_id, record in surveyed.items() if case_id in draw.paths or record["grid"] is not None
    )
    done = partial.finished("built")
    advance = step("building items", len(wanted))
    for _ in done:
        advance()
    tasks = (
        (case_id, (partial.folder, cases[case_id], surveyed[case_id], draw.paths.get(case_id), job))
        for case_id in wanted
        if case_id not in done
    )
    for case_id, result in crew.run(_build_task, tasks):
        if isinstance(result, Lost):
            surveyed[case_id]["skipped"].append([None, result.reason])
        else:
            done[case_id] = result
            partial.add("built", case_id, result)
        advance()
    return {case_id: done[case_id] for case_id in wanted if case_id in done}


def _build_task(folder: Path, case: Case, surveyed: Record, path: Any, job: Job) -> Record:
    return build(
        case,
        surveyed,
        path,
        perception=job.perception,
        grid=job.grid,
        bank=job.bank,
        seed=job.seed,
        store=image_store(folder),
        controls=job.controls,
    )


def _skipped(surveyed: dict[str, Record], draw: Draw, built: dict[str, Record]) -> list[Record]:
    """Cases left out of a task, or (task null) of all they were meant for, with the reason, in the order of ids."""
    rows = []
    for case_id, record in sorted(surveyed.items()):
        reasons = list(record["skipped"])
        if case_id in draw.unused:
            reasons.append(["perception", draw.unused[case_id]])
        for task, reason in reasons:
            task = task if case_id in built else None
            rows.append({"source_case_id": case_id, "finding": record["finding"], "task": task, "reason": reason})
    return rows


def _most_frequent(reasons: Counter[str], cases: int) -> str:
    if not reasons:
        return "the recipe's quotas are all zero."
    reason, count = reasons.most_common(1)[0]
    return f"{reason.rstrip('.')} ({count} of {cases})."


def _contents(built: dict[str, Record], skipped: list[Record], draw: Draw) -> benchmark.Contents:
    """Everything in the order of benchmark ids, which says nothing of the source's order, with priors filled in."""
    rows = sorted(built.values(), key=lambda row: str(row["case"]["case_id"]))
    items = tuple(Item.from_record(record) for row in rows for record in row["items"])
    answers = [Answer.from_record(record) for row in rows for record in row["answers"]]
    return benchmark.Contents(
        items=items,
        answers=tuple(with_priors(items, answers)),
        cases=tuple(CaseKey(**row["case"]) for row in rows),
        skipped=tuple(skipped),
        shortfall=draw.shortfall,
    )


def with_priors(items: Iterable[Item], answers: Iterable[Answer]) -> list[Answer]:
    """Answers with ``prior``: the accuracy of always giving the kind's and finding's most frequent answer.

    For grid cells it is the cell that is a hit most often.
    """
    group_of = {item.item_id: (item.kind, item.finding) for item in items}
    counts: dict[tuple[str, str], Counter[Any]] = defaultdict(Counter)
    sizes: Counter[tuple[str, str]] = Counter()
    rows = list(answers)
    for answer in rows:
        group = group_of[answer.item_id]
        sizes[group] += 1
        counts[group].update(answer.answer if group[0] == GRID else [answer.answer])
    best = {group: max(counts[group].values(), default=0) / size for group, size in sizes.items()}
    return [replace(answer, prior=best[group_of[answer.item_id]]) for answer in rows]
