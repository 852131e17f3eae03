"""The shortcuts that the audit tries: ids, files, texts, the order of items, and measures of pictures and outlines.

Features come only from what a model may see; the key supplies only the right answers.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, CaseKey, Item, clusters
from chexqa.contract.kinds import GRID_CELL, KINDS, kind_order
from chexqa.generators.audit import outlines
from chexqa.generators.audit.outlines import Image, Measures, Outline
from chexqa.generators.audit.pictures import MODULI, Background, File, number_in, residues

Value = float | str
PredictorClass = Literal["artefact", "prior", "forced"]
POINT_KINDS = ("revision_expansion", "revision_contraction")
# Kinds with right answers that depend on the drawn outlines and points, not on the radiograph as a whole.
_DRAWN = (*POINT_KINDS, "revision_result", "location", GRID_CELL)


class Feature(NamedTuple):
    """Measure, or group of measures, that may predict answers; ``group`` is empty for a single measure."""

    sort: PredictorClass
    name: str
    group: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """Return the names of the measures."""
        return self.group or (self.name,)


def _mods(name: str) -> tuple[str, ...]:
    return tuple(f"{name} mod {modulus}" for modulus in MODULI)


def _file_of(role: str) -> tuple[str, ...]:
    return (*_mods(f"{role}: bytes"), f"{role}: parts", f"{role}: texts")


_AGAINST = ("difference in grey", "share of pixels that differ")
_LEVELS = ("mean grey", "spread of grey", "dark tail", "bright tail", "odd levels")
# Features compared among candidates of an item.
OF_RESULTS = tuple(
    Feature("artefact", name)
    for name in (
        "area", "length", "borders", "corners", "roughness", "bend", "compactness", "difference from the other three",
        "overlap with the other three", "difference from the outline shown before", "file size",
    )
)  # fmt: skip
FILE_OF_RESULTS = Feature("artefact", "the file", _file_of("file"))
GREY_OF_RESULTS = Feature("artefact", "grey levels outside the drawing", (*_AGAINST, *_LEVELS))
# Features that are also compared within strata of the room that a lesion leaves for edits.
BY_ROOM = ("area", "length", "difference from the outline shown before")
OF_POINTS = (
    Feature("artefact", "distance"),
    Feature("artefact", "isolation"),
    Feature("artefact", "corners nearby"),
    Feature("artefact", "roughness nearby"),
    # An edit is a bulge or a bay of the outline, which the question asks models to see.
    Feature("forced", "bulge"),
)
# Features of an item as a whole. A disease changes the whole radiograph, including its grey levels and the size of its
# file. The wording of severity names the lung that is asked about.
_OF_ITEMS = (
    Feature("artefact", "place in the file", ("place in the file", *_mods("place in the file"))),
    Feature("artefact", "ids", tuple(
        measure for name in ("case id", "item id") for measure in (name, f"{name}'s length", *_mods(name))
    )),
    Feature("artefact", "wording"),
    Feature("artefact", "length of the question"),
    Feature("artefact", "file size"),
    *(Feature("artefact", f"outline: {name}")
      for name in ("area", "length", "borders", "corners", "roughness", "bend", "compactness")),
    Feature("prior", "radiograph: file size"),
    Feature("prior", "radiograph: shape of the picture"),
    # At least one point marks no edit, so a small number of points means few edits.
    Feature("forced", "number of points"),
)  # fmt: skip
# If the drawing and not a disease decides the answer, a file's length and grey levels are artefacts.
_DRAWINGS = ("contour", "points")
_PRIORS_OF = {"severity": ("wording", "length of the question")}
# A case's path is drawn at random, so the radiograph as a whole must not predict it. In other items, such as those on
# points, the answer is drawn among options, so the radiograph as a whole cannot predict it.
_ARTEFACTS_OF = {
    "contour_evaluation": (
        "radiograph: file size", "radiograph: shape of the picture", "radiograph: bytes", "radiograph: grey levels",
    )
}  # fmt: skip


def features_of_items(kind: str, roles: Iterable[str]) -> list[Feature]:
    """Return the features of a whole item of this kind; ``roles`` are its pictures, such as ``radiograph``."""
    tried = list(_OF_ITEMS)
    for role in roles:
        sort: PredictorClass = "artefact" if role in _DRAWINGS else "prior"
        tried.append(Feature("artefact", f"{role}: the file", _file_of(role)))
        levels = tuple(f"{role}: {name}" for name in (*_AGAINST, *_LEVELS))
        tried.append(Feature(sort, f"{role}: grey levels", levels))
        if role != "radiograph":
            tried.append(Feature(sort, f"{role}: bytes"))
    return [one._replace(sort=_sort_in(kind, one)) for one in tried]


def _sort_in(kind: str, feature: Feature) -> PredictorClass:
    if feature.name in _PRIORS_OF.get(kind, ()):
        return "prior"
    return "artefact" if feature.name in _ARTEFACTS_OF.get(kind, ()) else feature.sort


def artefacts_of_items() -> list[str]:
    """Return the names of the artefacts that belong to a whole item, not to one of its options."""
    return [one.name for one in _OF_ITEMS if one.sort == "artefact"]


@dataclass(frozen=True)
class Choice:
    """Candidates of one item; ``right`` flags the right ones.

    - ``features``: the candidates' values, keyed by feature.
    - ``room``: measures of the room that the lesion leaves for edits.
    """

    item_id: str
    group: str
    right: tuple[bool, ...]
    features: dict[str, tuple[Value, ...]]
    room: dict[str, float] = field(default_factory=dict)

    def part(self, keep: list[int]) -> Choice:
        """Return the choice restricted to the candidates with the indices ``keep``."""
        features = {name: tuple(values[index] for index in keep) for name, values in self.features.items()}
        return replace(self, right=tuple(self.right[index] for index in keep), features=features)


@dataclass(frozen=True)
class ItemFeatures:
    """One item: its answer as a word, and the features that describe the whole item, keyed by name."""

    item_id: str
    group: str
    finding: str
    label: str
    features: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Features:
    """Features of a benchmark's items and options; the dictionaries are keyed by kind of question.

    - ``rows``: the features of each item as a whole, in file order.
    - ``choices``: the options of each item, except "none".
    - ``points_by_side``: the points outside the outline, then the points inside, for each item on points.
    - ``points_of_cases``: all points of each case; a point is right if it lies on an edit.
    """

    rows: dict[str, list[ItemFeatures]]
    choices: dict[str, list[Choice]]
    points_by_side: dict[str, list[Choice]]
    points_of_cases: list[Choice]


@dataclass(frozen=True)
class Seen:
    """Measures of one case's pictures; empty or None for missing pictures.

    - ``radiograph``, ``contour``: measures of the radiograph's file and shape, and of the drawn outline.
    - ``points_bytes``: the length in bytes of the picture with points minus that of the radiograph.
    - ``points``: measures of each point, keyed by colour.
    - ``results``: measures of the four pictures of ``revision_result``.
    - ``files``: measures of each picture's file, keyed by role.
    - ``backgrounds``: measures of each picture's background, keyed by role.
    """

    radiograph: Measures
    contour: Measures
    points_bytes: float | None
    points: dict[str, Measures]
    results: tuple[dict[str, Value], ...]
    files: dict[str, File] = field(default_factory=dict)
    backgrounds: dict[str, Measures] = field(default_factory=dict)


def collect(bench: Benchmark, advance: Callable[[], None]) -> Features:
    """Measure every case's pictures and return the features of all items; ``advance`` is called once per case.

    Raise ``InputError`` if the key is withheld, or a picture is missing or changed.
    """
    answers, cases = bench.key("the audit")
    by_case: dict[str, list[Item]] = defaultdict(list)
    for item in bench.items:
        by_case[item.case_id].append(item)

    def measured(items: list[Item]) -> Seen:
        seen = _see(bench, items)
        advance()
        return seen

    # OpenCV releases the interpreter's lock while it decodes, so threads run in parallel.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = dict(zip(by_case, pool.map(measured, by_case.values()), strict=True))
    return _lay_out(bench.items, answers, cases, seen)


def _see(bench: Benchmark, items: list[Item]) -> Seen:
    """Return the measures of the pictures of one case."""
    pictures = {item.kind: {picture.role: picture.image for picture in item.alone_images} for item in items}
    paths = {role: path for roles in pictures.values() for role, path in roles.items() if role != "option"}
    data = {role: bench.image_bytes(path) for role, path in paths.items()}
    files = {role: File.of(held) for role, held in data.items()}
    images = {role: outlines.read(held) for role, held in data.items()}
    grey = images["radiograph"][..., 1] if "radiograph" in images else None
    radiograph: Measures = {}
    if grey is not None:
        radiograph = {"file size": files["radiograph"].length, "shape of the picture": grey.shape[0] / grey.shape[1]}
    shown: Outline | None = None
    contour: Measures = {}
    if "contour" in images:
        shown = Outline.of(images["contour"])
        contour = {} if shown is None else shown.measures()
        if radiograph:
            contour["file size"] = files["contour"].length - radiograph["file size"]
    points_bytes, points = None, {}
    if "points" in images:
        points_bytes = files["points"].length - radiograph["file size"] if radiograph else None
        points = {} if shown is None else _points(images["points"], shown)
    four = next((item for item in items if item.kind == "revision_result"), None)
    results = () if four is None else _results(bench, four, shown, grey)
    backgrounds = {role: _background(image, None if role == "radiograph" else grey) for role, image in images.items()}
    return Seen(radiograph, contour, points_bytes, points, results, files, backgrounds)


def _background(image: Image, radiograph: Image | None) -> Measures:
    """Return measures of the grey levels outside a drawing, or their differences from the radiograph if it is given."""
    background = Background.of(image)
    return background.measures() if radiograph is None else background.against(radiograph)


def _points(image: Image, shown: Outline) -> dict[str, Measures]:
    """Return the measures of each coloured point; ``isolation`` is the distance to the nearest other point."""
    if image.shape[:2] != shown.mask.shape:
        return {}
    places = outlines.point_places(image)
    measured = {}
    for color, (x, y) in places.items():
        others = [((x - a) ** 2 + (y - b) ** 2) ** 0.5 / shown.side for name, (a, b) in places.items() if name != color]
        measured[color] = {**shown.at((x, y)), "isolation": min(others, default=1.0)}
    return measured


def _results(
    bench: Benchmark, item: Item, shown: Outline | None, radiograph: Image | None
) -> tuple[dict[str, Value], ...]:
    """Return measures of each of the four pictures: alone, and relative to the other three and the earlier outline."""
    data = [bench.image_bytes(option.image) for option in item.options if option.image]
    images = [outlines.read(entry) for entry in data]
    four = [Outline.of(image) for image in images]
    plain: list[dict[str, Value]] = [
        {**_of_file("file", File.of(entry)), **_background(image, radiograph), "file size": float(len(entry))}
        for entry, image in zip(data, images, strict=True)
    ]
    found = [outline for outline in four if outline is not None]
    if len(found) < len(four) or len({outline.mask.shape for outline in found}) > 1:
        return tuple(plain)
    rows = []
    for first, one in zip(plain, found, strict=True):
        row = {
            **first,
            **one.measures(),
            "difference from the other three": sum(outlines.difference(one, other) for other in found),
            "overlap with the other three": -sum(outlines.dissimilarity(one, other) for other in found),
        }
        if shown is not None and shown.mask.shape == one.mask.shape:
            row["difference from the outline shown before"] = outlines.difference(one, shown)
        rows.append(row)
    return tuple(rows)


def _of_file(role: str, file: File) -> dict[str, Value]:
    """Return a file's features, without its length, which a disease may change."""
    return {**residues(f"{role}: bytes", int(file.length)), f"{role}: parts": file.parts, f"{role}: texts": file.texts}


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
                on_side = [n for n, value in enumerate(choice.features.get("inside", ())) if value == side]
                features.points_by_side[item.kind].append(choice.part(on_side))
            # Both point items of a case show the same points: a point that marks an edit is right in one of the two.
            other = marked.pop(item.case_id, None)
            if other is None:
                marked[item.case_id] = list(choice.right)
            else:
                either = tuple(first or second for first, second in zip(other, choice.right, strict=True))
                features.points_of_cases.append(replace(choice, right=either))
    return features


def _kinds_in_fixed_order(items: tuple[Item, ...]) -> set[str]:
    """Return the kinds whose items all have the same options in the same order, such as yes and no."""
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
    features.update(_of_ids(item, place))
    for role in dict.fromkeys(picture.role for picture in item.alone_images if picture.role in seen.files):
        if role != "radiograph" or item.kind not in _DRAWN:
            features.update(_of_file(role, seen.files[role]))
            features.update({f"{role}: {name}": value for name, value in seen.backgrounds[role].items()})
        if role not in ("radiograph", "option"):
            features[f"{role}: bytes"] = seen.files[role].length
    return ItemFeatures(item.item_id, group, item.finding, label, features)


def _of_ids(item: Item, place: int) -> dict[str, Value]:
    """Return features of an item's ids and place in the file: their residues, and the ids as numbers."""
    features: dict[str, Value] = dict(residues("place in the file", place))
    for name, given in (("case id", item.case_id), ("item id", item.item_id)):
        if (number := number_in(given)) is not None:
            features.update({**residues(name, number), name: float(number)})
        features[f"{name}'s length"] = float(len(given))
    return features


def _choice(item: Item, answer: Answer, group: str, seen: Seen, fixed: bool) -> Choice:
    """Return the item's options as candidates; the option "none" is left out."""
    options = item.options[:-1] if item.form.takes_several else item.options
    right = tuple(option.n in answer.answer for option in options)
    features: dict[str, tuple[Value, ...]] = {}
    if not fixed and item.form.lists_options:
        features["position"] = tuple(f"option {option.n}" for option in options)
    if item.kind == "location" or (item.kind not in KINDS and not fixed and all(option.text for option in options)):
        named = "region named" if item.kind == "location" else "text of the option"
        features[named] = tuple(str(option.text) for option in options)
        features["length of the option"] = tuple(float(len(str(option.text))) for option in options)
    measured: list[dict[str, Value]] = []
    if item.kind in POINT_KINDS:
        features["colour"] = tuple(str(option.color) for option in options)
        measured = [{**seen.points[str(option.color)]} for option in options if str(option.color) in seen.points]
    elif item.kind == "revision_result":
        measured = list(seen.results)
    if len(measured) == len(options):
        names = set(measured[0]).intersection(*measured[1:])
        features.update({name: tuple(row[name] for row in measured) for name in sorted(names)})
    return Choice(item.item_id, group, right, features, _room(item.kind, features, seen))


def _room(kind: str, features: dict[str, tuple[Value, ...]], seen: Seen) -> dict[str, float]:
    """Return measures of an item that hint at the room that the lesion leaves for edits."""
    if kind in POINT_KINDS and "inside" in features and "area" in seen.contour:
        inside = [float(value) for value in features["inside"]]
        return {"outline": seen.contour["area"], "number of points": float(len(inside)), "share of points inside":
                sum(inside) / len(inside)}  # fmt: skip
    if kind == "revision_result" and "area" in features:
        areas = sorted(float(value) for value in features["area"])
        if areas[0] > 0:
            return {"mean area": sum(areas), "least step in area": areas[1] / areas[0],
                    "range of areas": areas[-1] / areas[0]}  # fmt: skip
    return {}
