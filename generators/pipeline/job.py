"""Settings of a generation: recipes, question bank, seed and options, and which of them may be given together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.contract.declared import declaration
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.generators.interventions.fills import Fill
from chexqa.generators.pipeline.builders import places as place_builders
from chexqa.generators.pipeline.builders import plugins
from chexqa.generators.pipeline.builders.plugins import Question
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe, Recipe
from chexqa.version import __version__


@dataclass(frozen=True)
class GenerationJob:
    """Settings of a generation: recipes (at most one per task), the question bank as a checked record, and the seed.

    With ``controls`` every drawing is also made on plain grey. With ``reviewed`` only lesion masks that a review
    approved are used. ``plugins`` has the names of the plugins that add questions. With ``lateral`` lateral views are
    used too. ``fill`` is the name of the fill of interventions; None makes no altered pictures.
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

    @property
    def questions(self) -> list[Question]:
        """Return the kinds of question that the benchmark declares: from outside the package, and on places."""
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
                f"the question bank '{bank['name']}' has no name for '{missing[0]}'; add it to 'findings'."
            )
        if isinstance(recipe, PerceptionRecipe):
            perception = recipe
        elif isinstance(recipe, GridRecipe):
            grid = recipe
        else:
            places = recipe
    names = tuple(sorted(str(Path(name).resolve()) if name.endswith(".py") else name for name in plugin_names))
    job = GenerationJob(perception, grid, bank, seed, controls, reviewed, names, lateral, places, fill)
    plugins.texts_of(job.questions, bank["language"])
    return job


def job_record(manifest_digest: str, job: GenerationJob) -> Record:
    """Return the settings that must be equal to continue an interrupted generation."""
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
    if job.fill is not None:
        record["choice of --interventions or --fill"] = job.fill
    if job.plugins:
        record["plugins"] = [
            benchmark.record_hash({"kind": declaration(one.kind), "texts": one.texts}) for one in job.questions
        ]
    return record
