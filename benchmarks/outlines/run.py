"""Shortcut test of the question with four outlines: can a forest find the right one without the radiograph?

The script makes thousands of items from outlines alone:

    python benchmarks/outlines/run.py draw TRAIN --seed 1 --phantoms 3000 --real DATA
    python benchmarks/outlines/run.py draw TEST --seed 2 --phantoms 5000 --real DATA --plans 5
    python benchmarks/outlines/run.py judge TRAIN TEST

`draw` writes items into a file. The folder DATA contains `chestx_det/ChestX_Det_test.json` and
`anatomy/jsrt_contours.json`; without `--real` there are only phantoms. `--plans` is the number of items made from each
real outline.

`judge` trains a random forest on TRAIN and tests it on TEST. The forest sees only the audit's measures of the outlines.
`judge` prints the share of right answers, with a 95 % interval over radiographs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.contract import benchmark
from chexqa.contract.findings import CHEXPERCEPT_FINDINGS, FINDINGS
from chexqa.files.seeds import digest, stream
from chexqa.generators.audit import outlines, shortcuts_tried
from chexqa.generators.audit.exact_tests import NullScore
from chexqa.generators.audit.outlines import Outline
from chexqa.generators.audit.rule_scores import Rule, by_room, choice_rules, ranks, sides
from chexqa.generators.audit.shortcuts_tried import BY_ROOM, Choice
from chexqa.generators.contour.plan import ContourPlan, draw_plan
from chexqa.generators.pipeline import recipe as recipes
from chexqa.generators.pipeline.recipe import PerceptionRecipe
from chexqa.imaging import overlays
from chexqa.imaging.hand_drawn import hand_drawn
from chexqa.phantoms.body import draw_patient, frame_of
from chexqa.phantoms.draw import added_signal, half_peak, plan_lesion
from chexqa.phantoms.outlines import LUNGS, NO_CHANGE, SIDES, draw_outlines
from chexqa.phantoms.thorax import coarse_frame, draw_air
from chexqa.sources.chestx_det import FINDINGS as NAMES
from chexqa.stats import bootstrap_draws

Mask = npt.NDArray[np.bool_]
Table = npt.NDArray[np.float64]
SIDE = 1024
FOLDS = 2
DRAWS = 2000


class Lesion(NamedTuple):
    """A lesion: its mask, the pixels that an outline of it may cover (``field``), and the name of its radiograph."""

    source: str
    radiograph: str
    finding: str
    mask: Mask
    field: Mask


def field_of(finding: str, lesion: Mask, anatomy: dict[str, Mask]) -> Mask:
    """Return the pixels that an outline of the lesion may cover.

    For lung findings, these are the lesion and the lungs without the heart; for other findings, all pixels.
    """
    if FINDINGS[finding].field == "any":
        return np.ones_like(lesion)
    return np.asarray(lesion | ((anatomy["right_lung"] | anatomy["left_lung"]) & ~anatomy["heart"]))


def phantoms(seed: int, count: int) -> Iterator[Lesion]:
    """Yield the lesions of ``count`` phantoms as `chexqa synth` draws them, without drawing the radiographs."""
    for index in range(count):
        finding = CHEXPERCEPT_FINDINGS[index % len(CHEXPERCEPT_FINDINGS)]
        patient = draw_patient(seed, index)
        frame = frame_of(patient, SIDE)
        plan = plan_lesion(patient, coarse_frame(patient, frame), finding)
        shapes = draw_outlines(patient, frame, plan.change if plan else NO_CHANGE)
        signal = added_signal(plan, draw_air(patient, frame, shapes, plan.change).room, frame)
        lesion = shapes.heart if signal is None else half_peak(signal)
        anatomy = {**{LUNGS[side]: shapes.lungs[side] for side in SIDES}, "heart": shapes.heart}
        yield Lesion("phantom", f"p{seed}-{index}", finding, lesion, field_of(finding, lesion, anatomy))


def real_shapes() -> Any:
    """Return `benchmarks/real_shapes/run.py` as a module."""
    spec = importlib.util.spec_from_file_location("real_shapes", Path(__file__).parents[1] / "real_shapes" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def real(data: Path) -> Iterator[Lesion]:
    """Yield the lesions of ChestX-Det."""
    shapes = real_shapes()
    anatomies = shapes.anatomies(data)
    for case in json.loads((data / "chestx_det" / "ChestX_Det_test.json").read_text(encoding="utf-8")):
        # ChestX-Det has no lung masks; these are JSRT lungs that contain the most pixels of the lesions.
        anatomy = shapes.best_of(anatomies, shapes.filled(case["polygons"]))
        parts: dict[str, list[Any]] = {}
        for name, polygon in zip(case["syms"], case["polygons"], strict=True):
            if NAMES[name] in CHEXPERCEPT_FINDINGS:
                parts.setdefault(NAMES[name], []).append(polygon)
        for finding, polygons in parts.items():
            lesion = shapes.filled(polygons)
            if lesion.any():
                yield Lesion("real", case["file_name"], finding, lesion, field_of(finding, lesion, anatomy))


def seen(mask: Mask, rng: np.random.Generator) -> Outline:
    """Return a mask's outline as an item shows it: drawn by a simulated hand, then read from the drawn picture."""
    ground = np.zeros(mask.shape, np.uint8)
    return Outline(outlines.enclosed(outlines.outline_pixels(overlays.draw_outline(ground, hand_drawn(mask, rng)))))


def measured(lesion: Lesion, plan: ContourPlan, shown: Outline, *purpose: object) -> dict[str, list[float]]:
    """Return the audit's measures of the four outlines in ``plan``: four numbers for each measure, keyed by its name.

    - ``shown``: the wrong outline that an earlier question shows.
    - ``purpose``: seed and name of the random streams that draw the outlines, as for :func:`stream`.
    """
    four = [
        seen(plan.with_errors(lesion.mask, errors), stream(*purpose, number))
        for number, errors in enumerate(plan.results)
    ]
    rows = [
        {
            **one.measures(),
            "difference from the other three": sum(outlines.difference(one, other) for other in four),
            "overlap with the other three": -sum(outlines.dissimilarity(one, other) for other in four),
            "difference from the outline shown before": outlines.difference(one, shown),
        }
        for one in four
    ]
    return {name: [round(row[name], 8) for row in rows] for name in rows[0]}


def drawn(lesion: Lesion, recipe: PerceptionRecipe, seed: int, number: int) -> dict[str, Any] | None:
    """Return a record of item ``number`` on a lesion; None if the lesion allows no item."""
    purpose = seed, "outlines", lesion.radiograph, lesion.finding, number
    plan = draw_plan(lesion.mask, lesion.field, recipe.deformation, recipe.points, stream(*purpose))
    if isinstance(plan, str):
        return None
    first, *others = (frozenset(errors) for errors in plan.results)
    shown = seen(plan.suboptimal(lesion.mask), stream(*purpose, "shown"))
    return {
        "source": lesion.source, "radiograph": lesion.radiograph, "finding": lesion.finding,
        "share": round(float(lesion.mask.mean()), 6), "right": plan.right_result - 1,
        "two_by_two": not first ^ others[0] ^ others[1] ^ others[2],
        "measures": measured(lesion, plan, shown, *purpose),
        "shown": round(shown.measures()["area"], 8),
        "inside": [bool(shown.mask[point.xy[1], point.xy[0]]) for point in plan.points],
        "marks": [point.edit is not None for point in plan.points],
    }  # fmt: skip


def measure(args: argparse.Namespace) -> None:
    """Measure the outlines in a benchmark's pictures as the audit does, and write a line for each item into a file."""
    bench = benchmark.load(args.bench)
    cases = bench.key("'measure'")[1]
    bench = replace(bench, items=tuple(item for item in bench.items if item.kind == "revision_result"))
    made = 0
    with args.out.open("w", encoding="utf-8") as out:
        for choice in shortcuts_tried.collect(bench, lambda: None).choices["revision_result"]:
            item = bench.item[choice.item_id]
            source = cases[item.case_id].source_case_id
            name = source.rpartition("/")[0].rpartition("/")[2] or source
            numbers = {key: values for key, values in choice.features.items() if not isinstance(values[0], str)}
            record = {
                "source": "phantom" if bench.is_phantom else "real", "radiograph": name, "finding": item.finding,
                "right": choice.right.index(True), "measures": numbers,
            }  # fmt: skip
            out.write(json.dumps(record) + "\n")
            made += 1
    print(f"{made} items written")


def in_turns(sources: list[Iterator[Lesion]], plans: int) -> Iterator[tuple[Lesion, int]]:
    """Yield pairs of a lesion and the index of an item made from it; the sources of lesions take turns.

    A real lesion is yielded ``plans`` times, with the indices 0, 1, …; a phantom's lesion once, with the index 0.
    """
    left = list(sources)
    while left:
        for one in tuple(left):
            lesion = next(one, None)
            if lesion is None:
                left.remove(one)
            else:
                yield from ((lesion, number) for number in range(plans if lesion.source == "real" else 1))


def draw(args: argparse.Namespace) -> None:
    """Make items from outlines alone, and write their measures and keys to a file, one item per line."""
    recipe = recipes.load(args.recipe)
    assert isinstance(recipe, PerceptionRecipe)
    sources = [phantoms(args.seed, args.phantoms), *([real(args.real)] if args.real else [])]
    made = lost = 0
    with args.out.open("w", encoding="utf-8") as out:
        for lesion, number in in_turns(sources, args.plans):
            record = drawn(lesion, recipe, args.seed, number)
            made, lost = made + (record is not None), lost + (record is None)
            if record is not None:
                out.write(json.dumps(record) + "\n")
                out.flush()
    print(f"{made} items written; {lost} items left out, because no wrong outline could be drawn for the lesion")


def table(rows: list[dict[str, Any]], names: Sequence[str]) -> Table:
    """Return the features from which a forest guesses the right outline: a row for each of an item's four outlines.

    There are three columns for each measure in ``names``: its value, the difference from the mean of the four outlines,
    and the share of the other three outlines with a smaller value.
    """
    parts = []
    for row in rows:
        columns = np.array([row["measures"][name] for name in names], float)
        below = (columns[:, :, None] > columns[:, None, :]).sum(axis=2) / 3
        parts.append(np.concatenate([columns, columns - columns.mean(axis=1, keepdims=True), below]).T)
    return np.concatenate(parts)


def fold(row: dict[str, Any]) -> int:
    """Return the number of the cross-validation fold of a real outline's radiograph, or -1 for a phantom."""
    return (
        -1
        if row["source"] == "phantom"
        else int.from_bytes(digest("fold", Path(row["radiograph"]).stem)[:4], "big") % FOLDS
    )


def forest_hits(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> npt.NDArray[np.bool_]:
    """Train a random forest on ``train``; return True for each item in ``test`` whose right outline it finds."""
    from sklearn.ensemble import RandomForestClassifier

    names = list(train[0]["measures"])
    truth = np.concatenate([np.arange(4) == row["right"] for row in train])
    forest = RandomForestClassifier(300, min_samples_leaf=5, random_state=0).fit(table(train, names), truth)
    scores = forest.predict_proba(table(test, names))[:, 1].reshape(-1, 4)
    return np.asarray(scores.argmax(axis=1) == [row["right"] for row in test])


def cross_validated_hits(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> npt.NDArray[np.bool_]:
    """Return the result of :func:`forest_hits`, with a forest of its own for each fold (:func:`fold`) of ``test``.

    The forest of a fold is trained on all items in ``train`` except those of the same fold. Phantoms in ``test`` belong
    to no fold; their forest is trained on all items in ``train``.
    """
    hits = np.zeros(len(test), bool)
    for part in range(-1, FOLDS):
        own = [place for place, row in enumerate(test) if fold(row) == part]
        if own:
            learned = [row for row in train if part == -1 or fold(row) != part]
            hits[own] = forest_hits(learned, [test[place] for place in own])
    return hits


def judge(args: argparse.Namespace) -> None:
    """Print how often a random forest finds the right one of four outlines.

    There is one result for all items, one for phantoms, and one for real radiographs.
    """
    train = [json.loads(line) for line in args.train.open(encoding="utf-8")]
    test = [json.loads(line) for path in args.test for line in path.open(encoding="utf-8")]
    hits = cross_validated_hits(train, test)
    for source in ("all", "phantom", "real"):
        own = np.array([source in ("all", row["source"]) for row in test])
        if not own.any():
            continue
        names = np.unique([row["radiograph"] for row in test], return_inverse=True)[1][own]
        counts, right = np.bincount(names), np.bincount(names, weights=hits[own])
        counts, right = counts[counts > 0], right[counts > 0]
        draws = bootstrap_draws(len(counts), "outlines", replicates=DRAWS)
        low, high = np.quantile(draws @ right / (draws @ counts), (0.025, 0.975))
        share = f"{100 * hits[own].mean():.1f} % (95 % interval {100 * low:.1f} to {100 * high:.1f})"
        print(f"{source}: a random forest finds the right outline in {share} of {own.sum():,} items on {len(counts):,} "
              "radiographs; 25 % by chance")  # fmt: skip


def named(feature: str, tested: list[Rule]) -> list[Rule]:
    """Return the rules, with ``feature`` put in front of each rule's name."""
    return [rule._replace(name=f"{feature}: {rule.name}") for rule in tested]


def rules(args: argparse.Namespace) -> None:
    """Try the audit's rules on the items of the file, and print the rules with the smallest p-values."""
    rows = [json.loads(line) for line in args.items.open(encoding="utf-8")]
    results: list[Choice] = []
    points: list[Choice] = []
    for place, row in enumerate(rows):
        four = {name: tuple(values) for name, values in row["measures"].items()}
        areas = sorted(four["area"])
        room = {"mean area": sum(areas), "least step in area": areas[1] / areas[0],
                "range of areas": areas[-1] / areas[0]}  # fmt: skip
        right = tuple(number == row["right"] for number in range(4))
        results.append(Choice(str(place), row["radiograph"], right, four, room))
        inside = tuple(map(float, row["inside"]))
        room = {"outline": row["shown"], "number of points": float(len(inside)),
                "share of points inside": sum(inside) / len(inside)}  # fmt: skip
        points.append(Choice(str(place), row["radiograph"], tuple(row["marks"]), {"inside": inside}, room))
    tested = [rule for name in BY_ROOM for rule in named(name, by_room(results, name, ranks))]
    tested += [rule for name in BY_ROOM for rule in named(name, choice_rules(results, name, ranks))]
    tested += named("side", by_room(points, "inside", sides)) + named("side", choice_rules(points, "inside", sides))
    found = [(NullScore.of(rule.contests, rule.answers, rule.right).p(rule.right), rule) for rule in tested]
    for p, rule in sorted(found, key=lambda one: one[0])[: args.best]:
        share, chance = 100 * rule.right / rule.answers, 100 * rule.expected / rule.answers
        print(f"{rule.name}: right in {share:.1f} % of {rule.answers} answers, {chance:.1f} % by chance; p = {p:.1e} "
              f"before correction for {len(found)} rules")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("draw")
    one.add_argument("out", type=Path)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--phantoms", type=int, default=100)
    one.add_argument("--real", type=Path)
    one.add_argument("--plans", type=int, default=1)
    one.add_argument("--recipe", default="chexpercept")
    one.set_defaults(run=draw)
    two = commands.add_parser("judge")
    two.add_argument("train", type=Path)
    two.add_argument("test", type=Path, nargs="+")
    two.set_defaults(run=judge)
    three = commands.add_parser("rules")
    three.add_argument("items", type=Path)
    three.add_argument("--best", type=int, default=12)
    three.set_defaults(run=rules)
    four = commands.add_parser("measure")
    four.add_argument("out", type=Path)
    four.add_argument("bench", type=Path)
    four.set_defaults(run=measure)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
