"""The input of the predictors: items as choices among candidates, and as rows with a label.

Features come only from what a model may see (texts, pictures, the order of the file); the key supplies only the right
answers. A feature that does not apply to an item, or cannot be read from its pictures, is left out.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, CaseKey, Item, clusters
from chexqa.contract.kinds import GRID_CELL, kind_order
from chexqa.generators.audit import outlines
from chexqa.generators.audit.outlines import Measures, Outline

Value = float | str
POINT_KINDS = ("revision_expansion", "revision_contraction")
# Kinds with right answers that depend on the drawn outlines and points, not on the radiograph as a whole.
_DRAWN = (*POINT_KINDS, "revision_result", "location", GRID_CELL)


@dataclass(frozen=True)
class Choice:
    """Candidates within one item. ``right``: True for the right ones; ``features``: values of candidates, by name."""

    item_id: str
    group: str
    right: tuple[bool, ...]
    features: dict[str, tuple[Value, ...]]

    def part(self, keep: list[int]) -> Choice:
        """Return the same choice among some of the candidates, by index."""
        features = {name: tuple(values[index] for index in keep) for name, values in self.features.items()}
        return Choice(self.item_id, self.group, tuple(self.right[index] for index in keep), features)


@dataclass(frozen=True)
class ItemFeatures:
    """One item as a whole: its answer as a word, and its features by name."""

    item_id: str
    group: str
    finding: str
    label: str
    features: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Features:
    """All items by kind. ``rows``: every item, in the order of the file. ``choices``: choices among candidates.

    ``beside``: for the two kinds of point items, the choice among the points on the possible side of the outline.
    ``edits``: among all points of an item, the choice of those that mark an edit.
    """

    rows: dict[str, list[ItemFeatures]]
    choices: dict[str, list[Choice]]
    beside: dict[str, list[Choice]]
    edits: list[Choice]


@dataclass(frozen=True)
class Seen:
    """Measures of a case's pictures: sizes in bytes, outlines, points by colour, the four results."""

    radiograph: Measures
    contour: Measures
    points_bytes: float | None
    points: dict[str, Measures]
    results: tuple[Measures, ...]


class _Case(NamedTuple):
    case_id: str
    items: list[Item]


def collect(bench: Benchmark, advance: Callable[[], None]) -> Features:
    """Measure every case's pictures (``advance`` is called once a case) and return choices and rows.

    Raise ``InputError`` if the key is withheld, or a picture is missing or changed.
    """
    answers, cases = bench.key("the audit")
    by_case: dict[str, list[Item]] = defaultdict(list)
    for item in bench.items:
        by_case[item.case_id].append(item)

    def measured(case: _Case) -> tuple[str, Seen]:
        seen = _see(bench, case.items)
        advance()
        return case.case_id, seen

    # OpenCV releases the interpreter's lock while it decodes, so threads run in parallel.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = dict(pool.map(measured, (_Case(*entry) for entry in by_case.items())))
    return _lay_out(bench.items, answers, cases, seen)


def _see(bench: Benchmark, items: list[Item]) -> Seen:
    """Measure the pictures of one case."""
    pictures = {item.kind: {picture.role: picture.image for picture in item.alone_images} for item in items}
    image = {role: path for roles in pictures.values() for role, path in roles.items()}
    radiograph: Measures = {}
    if "radiograph" in image:
        data = bench.image_bytes(image["radiograph"])
        width, height = struct.unpack(">II", data[16:24])
        radiograph = {"file size": float(len(data)), "shape of the picture": height / width}
    shown: Outline | None = None
    contour: Measures = {}
    if "contour" in image:
        data = bench.image_bytes(image["contour"])
        shown = Outline.of(data)
        contour = {} if shown is None else shown.measures()
        if radiograph:
            contour["file size"] = len(data) - radiograph["file size"]
    points_bytes, points = None, {}
    if "points" in image:
        data = bench.image_bytes(image["points"])
        points_bytes = len(data) - radiograph["file size"] if radiograph else None
        points = {} if shown is None else _points(data, shown)
    results = next((item for item in items if item.kind == "revision_result"), None)
    return Seen(radiograph, contour, points_bytes, points, () if results is None else _results(bench, results, shown))


def _points(data: bytes, shown: Outline) -> dict[str, Measures]:
    """Return the measures of each coloured point against the outline; ``isolation``: distance to the nearest other."""
    image = outlines.read(data)
    if image.shape[:2] != shown.mask.shape:
        return {}
    places = outlines.point_places(image)
    measured = {}
    for color, (x, y) in places.items():
        others = [((x - a) ** 2 + (y - b) ** 2) ** 0.5 / shown.side for name, (a, b) in places.items() if name != color]
        measured[color] = {**shown.at((x, y)), "isolation": min(others, default=1.0)}
    return measured


def _results(bench: Benchmark, item: Item, shown: Outline | None) -> tuple[Measures, ...]:
    """Return the measures of each of the four pictures: alone, against the others and against the earlier outline."""
    data = [bench.image_bytes(option.image) for option in item.options if option.image]
    four = [Outline.of(entry) for entry in data]
    sizes: list[Measures] = [{"file size": float(len(entry))} for entry in data]
    found = [outline for outline in four if outline is not None]
    if len(found) < len(four) or len({outline.mask.shape for outline in found}) > 1:
        return tuple(sizes)
    rows = []
    for size, one in zip(sizes, found, strict=True):
        row = {
            **size,
            **one.measures(),
            "difference from the other three": sum(outlines.difference(one, other) for other in found),
            "overlap with the other three": -sum(outlines.dissimilarity(one, other) for other in found),
        }
        if shown is not None and shown.mask.shape == one.mask.shape:
            row["difference from the outline shown before"] = outlines.difference(one, shown)
        rows.append(row)
    return tuple(rows)


def _lay_out(
    items: tuple[Item, ...], answers: dict[str, Answer], cases: dict[str, CaseKey], seen: dict[str, Seen]
) -> Features:
    kinds = kind_order(item.kind for item in items)
    features = Features({kind: [] for kind in kinds}, {kind: [] for kind in kinds}, {k: [] for k in POINT_KINDS}, [])
    fixed = _kinds_in_fixed_order(items)
    marked: dict[str, list[bool]] = {}
    groups = clusters(items, cases)
    for place, item in enumerate(items):
        answer, group = answers[item.item_id], groups[item.case_id]
        features.rows[item.kind].append(_row(item, answer, group, place, seen[item.case_id]))
        choice = _choice(item, answer, group, seen[item.case_id], item.kind in fixed)
        features.choices[item.kind].append(choice)
        if item.kind in POINT_KINDS:
            for side in (0.0, 1.0):
                inside = choice.features.get("inside", ())
                features.beside[item.kind].append(choice.part([n for n, value in enumerate(inside) if value == side]))
            # Both point items of a case show the same points: a point that marks an edit is right in one of the two.
            other = marked.pop(item.case_id, None)
            if other is None:
                marked[item.case_id] = list(choice.right)
            else:
                either = tuple(first or second for first, second in zip(other, choice.right, strict=True))
                features.edits.append(Choice(item.item_id, group, either, choice.features))
    return features


def _kinds_in_fixed_order(items: tuple[Item, ...]) -> set[str]:
    """Return the kinds with the same options in every item: there a position has a meaning, as in yes and no."""
    texts: dict[str, set[tuple[str | None, ...]]] = defaultdict(set)
    for item in items:
        texts[item.kind].add(tuple(option.text for option in item.options if not option.image and not option.color))
    several = {item.kind for item in items if item.form.takes_several}
    return {kind for kind, lists in texts.items() if len(lists) == 1 and any(lists) and kind not in several}


def _row(item: Item, answer: Answer, group: str, place: int, seen: Seen) -> ItemFeatures:
    label = ", ".join(str(number) for number in answer.answer) or "no cell"
    features: dict[str, Value] = {
        "place in the file": float(place),
        "wording": item.question,
        "length of the question": float(len(item.question)),
    }
    if item.kind in POINT_KINDS:
        none = (len(item.options),)
        label = "0 points" if answer.answer == none else f"{len(answer.answer)} points"
        features["number of points"] = float(len(item.options) - 1)
        if seen.points_bytes is not None:
            features["file size"] = seen.points_bytes
    if item.kind == "contour_evaluation":
        features.update({f"outline: {name}" if name != "file size" else name: v for name, v in seen.contour.items()})
    if item.kind not in _DRAWN:
        features.update({f"radiograph: {name}": value for name, value in seen.radiograph.items()})
    return ItemFeatures(item.item_id, group, item.finding, label, features)


def _choice(item: Item, answer: Answer, group: str, seen: Seen, fixed: bool) -> Choice:
    """Return the item's options as candidates; "none" is neither a candidate nor part of a candidate's features."""
    options = item.options[:-1] if item.form.takes_several else item.options
    right = tuple(option.n in answer.answer for option in options)
    features: dict[str, tuple[Value, ...]] = {}
    if not fixed and item.form.lists_options:
        features["position"] = tuple(f"option {option.n}" for option in options)
    if item.kind == "location":
        features["region named"] = tuple(str(option.text) for option in options)
        features["length of the option"] = tuple(float(len(str(option.text))) for option in options)
    measured: list[Measures] = []
    if item.kind in POINT_KINDS:
        features["colour"] = tuple(str(option.color) for option in options)
        measured = [seen.points[str(option.color)] for option in options if str(option.color) in seen.points]
    elif item.kind == "revision_result":
        measured = list(seen.results)
    if len(measured) == len(options):
        names = set(measured[0]).intersection(*measured[1:])
        features.update({name: tuple(row[name] for row in measured) for name in sorted(names)})
    return Choice(item.item_id, group, right, features)
