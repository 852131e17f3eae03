"""Settings of a generation: recipes, question bank, seed and options, with checks that they fit together.

A generation may also make fresh items for the cases of an existing benchmark (:class:`Original`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.declared import declaration
from chexqa.contract.items import PERCEPTION, Item
from chexqa.contract.items import Path as QuestionPath
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, dump, sha256
from chexqa.generators.interventions.fills import FILLS, Fill
from chexqa.generators.pipeline import recipe as recipe_files
from chexqa.generators.pipeline.builders import places as place_builders
from chexqa.generators.pipeline.builders import plugins
from chexqa.generators.pipeline.builders.plugins import Question
from chexqa.generators.pipeline.checkpoint import PLUGIN_CODE
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe, Recipe
from chexqa.generators.pipeline.survey import Survey
from chexqa.version import __version__


@dataclass(frozen=True)
class GenerationJob:
    """Settings of a generation: recipes (at most one per task), the question bank as a checked record, and the seed.

    - ``controls``: True to make every drawing (outline, points or grid) on plain grey, too.
    - ``layers``: True to store the drawn pixels as a mask, too.
    - ``reviewed``: True to use only lesion masks that a review approved.
    - ``plugins``: the names of the plugins that add questions.
    - ``lateral``: True to use lateral views, too.
    - ``fill``: how lesions are filled in altered pictures; None makes no altered pictures.
    - ``fresh_of``: the record of the benchmark whose cases get fresh items; None for a new benchmark.
    """

    perception: PerceptionRecipe | None
    grid: GridRecipe | None
    bank: Record
    seed: int
    controls: bool = False
    reviewed: bool = False
    plugins: tuple[str, ...] = ()
    lateral: bool = False
    places: PlacesRecipe | None = None
    fill: Fill | None = None
    fresh_of: Record | None = None
    layers: bool = False

    @property
    def questions(self) -> list[Question]:
        """Return the kinds of question that are not built in: those of plugins, and those that ask for places."""
        own = [] if self.places is None else place_builders.questions(self.places, self.bank["language"])
        return [*plugins.load(self.plugins), *own]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes that are not None."""
        return tuple(recipe for recipe in (self.perception, self.grid, self.places) if recipe is not None)


def make_job(
    recipes: Iterable[Recipe],
    bank: Record,
    seed: int,
    controls: bool = False,
    reviewed: bool = False,
    plugin_names: Iterable[str] = (),
    lateral: bool = False,
    fill: Fill | None = None,
    layers: bool = False,
) -> GenerationJob:
    """Return a job; raise ``InputError`` if two recipes have the same task or the bank lacks a finding's name."""
    perception: PerceptionRecipe | None = None
    grid: GridRecipe | None = None
    places: PlacesRecipe | None = None
    by_task: dict[str, Recipe] = {}
    for recipe in recipes:
        other = by_task.setdefault(recipe.task, recipe)
        if other is not recipe:
            raise InputError(
                f"the recipes '{other.name}' and '{recipe.name}' are both for the {recipe.task} task; give "
                "only one of them, and make a second benchmark with the other."
            )
        missing = [finding for finding in recipe.findings if finding not in bank["findings"]]
        if missing:
            raise InputError(
                f"the question bank '{bank['name']}' has no name for the finding '{missing[0]}'; add one to 'findings'."
            )
        if isinstance(recipe, PerceptionRecipe):
            perception = recipe
        elif isinstance(recipe, GridRecipe):
            grid = recipe
        else:
            places = recipe
    names = tuple(sorted(str(Path(name).resolve()) if name.endswith(".py") else name for name in plugin_names))
    job = GenerationJob(perception, grid, bank, seed, controls, reviewed, names, lateral, places, fill,
                        layers=layers)  # fmt: skip
    plugins.texts_of(job.questions, bank["language"])
    return job


def named_job(
    recipes: Sequence[str], bank: str, seed: int, *, controls: bool = False, reviewed: bool = False,
    plugin_names: Iterable[str] = (), lateral: bool = False, interventions: bool = False, fill: str | None = None,
    layers: bool = False,
) -> GenerationJob:  # fmt: skip
    """Return a job whose recipes and question bank are given as names or files.

    Without recipes, the default ones are used. ``fill`` may be given only with ``interventions``; its default is then
    ``inpaint``. Raise ``InputError`` for an unknown ``fill``, and in the same cases as :func:`make_job`.
    """
    if fill is not None and not interventions:
        raise InputError("--fill: can be used only with --interventions; add --interventions, or leave out --fill.")
    if fill not in (None, *FILLS):
        raise InputError(f"--fill {fill}: there is no such fill{suggest(str(fill), FILLS)}.")
    loaded = [recipe_files.load(name) for name in recipes or recipe_files.DEFAULT]
    painted = next(name for name in FILLS if fill in (None, name)) if interventions else None
    return make_job(loaded, question_banks.load(bank), seed, controls, reviewed, plugin_names, lateral, painted,
                    layers)  # fmt: skip


def job_record(manifest_digest: str, job: GenerationJob) -> Record:
    """Return the settings that must be unchanged when an interrupted generation continues, and the plugins' code."""
    record: Record = {
        "manifest": manifest_digest,
        "recipes": [benchmark.record_hash(recipe.to_record()) for recipe in job.recipes],
        "question bank": benchmark.record_hash(job.bank),
        "seed": job.seed,
        "choice of --with-controls": job.controls,
        "choice of --reviewed": job.reviewed,
        "choice of --allow-lateral": job.lateral,
        "version of chexqa": __version__,
    }
    if job.layers:
        record["choice of --with-layers"] = True
    if job.fill is not None:
        record["choice of --interventions or --fill"] = job.fill
    if job.fresh_of is not None:
        record["benchmark to freshen"] = job.fresh_of["hash"]
    if job.plugins:
        record["choice of --plugin"] = [one.kind.name for one in job.questions]
        record[PLUGIN_CODE] = [
            benchmark.record_hash({"kind": declaration(one.kind), "texts": one.texts, "code": one.code})
            for one in job.questions
        ]
    return record


@dataclass(frozen=True)
class Original:
    """An existing benchmark; fresh items are made for its cases with a finding.

    - ``about``: the benchmark's name, version, hash and seed, as recorded in the fresh benchmark.
    - ``paths``: each case's finding and question path, keyed by source id.
    - ``masks``: a hash of each case's finding, radiograph and masks, keyed by source id.
    - ``drawn``: the paths of all pictures with a drawing (outline, points or grid).
    - ``controls``: True if every drawing also exists on plain grey.
    """

    about: Record
    paths: Mapping[str, tuple[str, QuestionPath]]
    masks: Mapping[str, str]
    drawn: frozenset[str]
    controls: bool

    @classmethod
    def of(cls, bench: Benchmark) -> Original:
        """Return what is needed of ``bench`` to make fresh items for its cases.

        Raise ``InputError`` if it lacks its key, or if it has no question on an outline.
        """
        _, cases = bench.key("freshen")
        findings = {item.case_id: item.finding for item in bench.items if item.task == PERCEPTION}
        with_finding = [
            (case, findings[case.case_id], case.path) for case in cases.values()
            if case.case_id in findings and case.path not in (None, "lesion_free")
        ]  # fmt: skip
        # Without a question on an outline, another seed would change nothing.
        if not with_finding:
            raise InputError(
                f"{bench.folder}: asks no question on an outline, so another seed would change nothing; give a "
                "benchmark with questions on outlines."
            )
        pictures = [picture for item in bench.items for picture in (*item.turn_images, *item.alone_images)]
        return cls(
            {"name": bench.name, "version": bench.about["version"], "hash": bench.hash, "seed": bench.about["seed"]},
            {case.source_case_id: (finding, path) for case, finding, path in with_finding if path is not None},
            {
                case.source_case_id: _mask_hash(finding, case.measures.get("image_key"), case.measures.get("masks", {}))
                for case, finding, _ in with_finding
            },
            drawn_pictures(bench.items),
            any(picture.control is not None for picture in pictures),
        )

    def is_same(self, survey: Survey) -> bool:
        """Return True if the surveyed case has the same finding, radiograph and masks as in the existing benchmark."""
        return self.masks[survey.source_case_id] == _mask_hash(survey.finding, survey.image_key, survey.masks)


def drawn_pictures(items: Iterable[Item]) -> frozenset[str]:
    """Return the paths of the items' pictures that show a drawing, on the radiograph or on plain grey."""
    pictures = (picture for item in items for picture in (*item.turn_images, *item.alone_images))
    drawn = ((picture.image, picture.control) for picture in pictures if picture.role != "radiograph")
    return frozenset(path for pair in drawn for path in pair if path is not None)


def _mask_hash(finding: str, image_key: object, masks: Mapping[str, object]) -> str:
    return sha256(dump({"finding": finding, "image_key": image_key, "masks": dict(masks)}).encode())


def make_fresh_job(bench: Benchmark, original: Original, recipes: Iterable[Recipe], bank: Record, seed: int
                   ) -> GenerationJob:  # fmt: skip
    """Return the job that makes fresh items for a benchmark's cases, from the benchmark's recipes and question bank.

    - ``recipes``, ``bank``: those that the benchmark was made with. Only recipes with questions on outlines are used.
    - ``seed``: another seed than the benchmark's.

    Raise ``InputError`` if the benchmark has this seed, if no recipe has questions on outlines, or if the benchmark was
    not made with the bank and the used recipes.
    """
    if seed == bench.about["seed"]:
        raise InputError(f"--seed {seed}: is the seed of {bench.folder} itself; give another seed.")
    known = {entry["hash"] for entry in bench.about["recipes"]}
    perception = [recipe for recipe in recipes if isinstance(recipe, PerceptionRecipe)]
    if not perception:
        raise InputError(
            f"{bench.folder}: a fresh seed of this benchmark needs a recipe with questions on outlines; give the "
            "benchmark's own recipe with --recipe."
        )
    for recipe in perception:
        if benchmark.record_hash(recipe.to_record()) not in known:
            raise InputError(
                f"{bench.folder}: was made with a recipe that differs from the given recipe '{recipe.name}'; give the "
                "file of the benchmark's own recipe with --recipe."
            )
    if benchmark.record_hash(bank) != bench.about["question_bank"]["hash"]:
        raise InputError(
            f"{bench.folder}: was made with a question bank that differs from the given bank '{bank['name']}'; give "
            "the file of the benchmark's own bank with --bank."
        )
    job = make_job(perception, bank, seed, controls=original.controls, lateral=True)
    return replace(job, fresh_of=original.about)


def named_fresh_job(bench: Benchmark, recipes: Sequence[str], bank: str | None, seed: int
                    ) -> tuple[GenerationJob, Original]:  # fmt: skip
    """Return the job of :func:`make_fresh_job`, and the original benchmark.

    ``recipes`` and ``bank`` are names or files; they are needed if the benchmark was made from files of a user.
    """
    original = Original.of(bench)
    named = recipes or [entry["name"] for entry in bench.about["recipes"] if entry["name"] in recipe_files.names()]
    words = question_banks.load(bank or bench.about["question_bank"]["name"])
    return make_fresh_job(bench, original, [recipe_files.load(name) for name in named], words, seed), original
