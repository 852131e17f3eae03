"""Registry of map makers, and plugins that add to it.

A maker is a function ``(picture, finding) -> (map, score)``: ``picture`` is a radiograph, uint8 ``(H, W)``; ``finding``
is a finding in words, such as "pleural effusion"; ``map`` is an array ``(h, w)`` of real numbers that covers the whole
picture, larger where the finding is seen; ``score`` is a number, larger if the finding is more likely. A maker may also
have a method ``batch(pictures, findings)``, which gets several pictures and for each a list of findings, and returns
for each picture a list of pairs ``(map, score)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from chexqa.eval.local.callable_address import module_at
from chexqa.eval.map_makers.prompts import Prompts
from chexqa.files.errors import InputError, suggest
from chexqa.imaging.read import Gray

GROUP = "chexqa.map_makers"
Domain = Literal["cxr", "biomedical", "general"]
DOMAINS: tuple[Domain, ...] = ("cxr", "biomedical", "general")
Map = npt.NDArray[np.floating]
Made = tuple[Map, float]


class Maker(Protocol):
    """Function that returns the map and the score of a finding on a radiograph."""

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map ``(h, w)``, which covers the whole picture ``(H, W)``, and the score."""


@dataclass(frozen=True)
class Loading:
    """Arguments for loading a maker.

    - ``weights``: the folder of the weights, which exists.
    - ``device``: name of a device of torch, such as ``cpu`` or ``cuda:0``.
    - ``prompts``: the wording of findings.
    """

    weights: Path
    device: str
    prompts: Prompts


Load = Callable[[Loading], Maker]


@dataclass(frozen=True)
class Family:
    """Registered maker: a name and either a ready maker or a function that loads one from a folder of weights.

    ``domain``: the data that the model was trained on; None if these depend on the weights. ``about``: one line on its
    maps.
    """

    name: str
    domain: Domain | None
    about: str
    ready: Maker | None = None
    load: Load | None = None


FAMILIES: dict[str, Family] = {}


def map_maker(name: str, domain: Domain | None = None) -> Callable[[Maker], Maker]:
    """Return a decorator that registers a maker that needs no weights."""

    def register(maker: Maker) -> Maker:
        _add(Family(name, domain, _first_line(maker), ready=maker))
        return maker

    return register


def map_loader(name: str, domain: Domain | None = None) -> Callable[[Load], Load]:
    """Return a decorator that registers a function that loads a maker from a folder of weights."""

    def register(load: Load) -> Load:
        _add(Family(name, domain, _first_line(load), load=load))
        return load

    return register


def _add(family: Family) -> None:
    FAMILIES[family.name] = family


def _first_line(found: object) -> str:
    return (getattr(found, "__doc__", None) or "").strip().partition("\n")[0]


def load_plugins(names: Iterable[str]) -> None:
    """Import plugins, which register their makers.

    A plugin is the name of an entry point of the group :data:`GROUP`, a Python file or a module. Raise ``InputError``
    if a plugin does not exist or registers no maker.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    for name in names:
        before = dict(FAMILIES)
        place = points[name].module if name in points else name
        module = module_at(place, f"--plugin {name}")
        own = {family for family in FAMILIES.values() if _home(family) == module.__name__}
        if not own and before == FAMILIES:
            raise InputError(f"--plugin {name}: does not register a map maker; see docs/extending.md.")


def _home(family: Family) -> str:
    found = family.ready or family.load
    return str(getattr(found, "__module__", None) or type(found).__module__)


def family_named(name: str, others: Iterable[str] = ()) -> Family:
    """Return the family of this name; raise ``InputError`` if no family has the name.

    ``others`` are further known names.
    """
    if name not in FAMILIES:
        known = [*FAMILIES, *others]
        raise InputError(
            f"there is no map maker '{name}'{suggest(name, known)}; 'chexqa heatmaps makers' lists them, and --plugin "
            "adds your own."
        )
    return FAMILIES[name]


def run_batch(maker: Maker, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
    """Return the maps and scores of each picture's findings, picture by picture."""
    batch = getattr(maker, "batch", None)
    if batch is not None:
        return cast(list[list[Made]], batch(pictures, findings))
    return [[maker(picture, finding) for finding in wanted] for picture, wanted in zip(pictures, findings, strict=True)]


def checked(made: Any, where: str) -> Made:
    """Return a maker's map as float32 ``(h, w)`` and its score as a float; raise ``InputError`` for anything else."""
    try:
        values, score = made
        values, score = np.asarray(values), float(score)
    except (TypeError, ValueError):
        raise InputError(f"{where}: the maker must return a map and a score; it returned {_kind(made)}.") from None
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: the maker's map must be real numbers of shape (h, w); it has shape {values.shape} and type "
            f"{values.dtype}."
        )
    return values.astype(np.float32), score


def _kind(made: object) -> str:
    return f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
