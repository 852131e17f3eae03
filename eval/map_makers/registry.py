"""Registry of map makers, and the plugins that add makers to it.

A maker is a function ``(picture, finding) -> (map, score)``:

- ``picture``: a radiograph, uint8 ``(H, W)``.
- ``finding``: a finding in words, such as "pleural effusion".
- ``map``: an array ``(h, w)`` of real numbers that covers the complete picture; larger where the finding is seen.
- ``score``: a number, larger if the finding is more likely.

A maker can also have a method ``batch(pictures, findings)``, which gets several pictures and, for each picture, a list
of findings. The method returns, for each picture, a list of pairs ``(map, score)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from chexqa.eval.local.callable_address import module_at
from chexqa.eval.map_makers.prompts import Prompts
from chexqa.files.errors import InputError, defined, plugin_code, suggest
from chexqa.files.opening import sha256_of
from chexqa.imaging.read import Gray

GROUP = "chexqa.map_makers"
Domain = Literal["cxr", "biomedical", "general"]
DOMAINS: tuple[Domain, ...] = ("cxr", "biomedical", "general")
Map = npt.NDArray[np.floating]
Made = tuple[Map, float]


class Maker(Protocol):
    """Function that returns the map and the score of a finding on a radiograph."""

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map ``(h, w)``, which covers the complete picture ``(H, W)``, and the score."""


@dataclass(frozen=True)
class Loading:
    """Arguments for loading a map maker.

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
    """Registered maker: a name, and either a finished maker or a function that loads one from a folder of weights.

    ``domain`` is the kind of data that the model was trained on; None if it depends on the weights. ``about``
    describes the maps in one line of text. ``file`` is the file that registers the maker; None if there is no file.
    """

    name: str
    domain: Domain | None
    about: str
    ready: Maker | None = None
    load: Load | None = None
    file: str | None = None


FAMILIES: dict[str, Family] = {}


def map_maker(name: str, domain: Domain | None = None) -> Callable[[Maker], Maker]:
    """Return a decorator that registers a maker that needs no weights."""

    def register(maker: Maker) -> Maker:
        _add(Family(name, domain, _first_line(maker), ready=maker, file=_caller()))
        return maker

    return register


def map_loader(name: str, domain: Domain | None = None, about: str | None = None) -> Callable[[Load], Load]:
    """Return a decorator for a function that loads a map maker from weights; it registers the function as ``name``.

    ``about`` describes the maps in one line; the default is the first line of the function's docstring.
    """

    def register(load: Load) -> Load:
        _add(Family(name, domain, about or _first_line(load), load=load, file=_caller()))
        return load

    return register


def _caller() -> str | None:
    """Return the file that calls the caller of this function; None for code of a session."""
    file = inspect.stack(0)[2].filename
    return file if Path(file).is_file() else None


def _add(family: Family) -> None:
    """Register a family; raise ``InputError`` if its name is taken by other code, or if its domain is unknown."""
    place, taken = defined(family.ready or family.load), FAMILIES.get(family.name)
    if family.domain is not None and family.domain not in DOMAINS:
        raise InputError(
            f"{place}the map maker '{family.name}' has the domain '{family.domain}'; write one of "
            f"{', '.join(map(repr, DOMAINS))}, or leave it out."
        )
    if taken is not None and taken.file != family.file:
        raise InputError(
            f"{place}the map maker '{family.name}' is already registered by {taken.file or _home(taken)}; "
            "rename one of them."
        )
    FAMILIES[family.name] = family


def code_hash(family: Family) -> str | None:
    """Return the SHA-256 of a plugin's file; None for a family of chexqa's."""
    own = _home(family).startswith("chexqa.") or family.file is None
    return None if own else sha256_of(Path(str(family.file)))


def _first_line(found: object) -> str:
    return (getattr(found, "__doc__", None) or "").strip().partition("\n")[0]


def load_plugins(names: Iterable[str]) -> None:
    """Import plugins, which register their makers.

    A plugin is named by an entry point of the group :data:`GROUP`, by a Python file or by a module. Raise
    ``InputError`` if a plugin does not exist or registers no maker.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    for name in names:
        before = dict(FAMILIES)
        place = points[name].module if name in points else name
        module = module_at(place, f"--plugin {name}")
        own = {family for family in FAMILIES.values() if _home(family) == module.__name__}
        if not own and before == FAMILIES:
            raise InputError(f"--plugin {name}: this plugin registers no map maker; see docs/extending.md.")


def _home(family: Family) -> str:
    return _module_of(family.ready or family.load)


def _module_of(found: object) -> str:
    return str(getattr(found, "__module__", None) or type(found).__module__)


def load_maker(family: Family, loading: Loading) -> Maker:
    """Return the maker that a family loads.

    Raise ``InputError`` if the code of a plugin fails; the message names the failing line.
    """
    assert family.load is not None, "a family is ready or can be loaded"
    with _called(family.load, f"the plugin of the map maker '{family.name}' failed on the weights {loading.weights}"):
        return family.load(loading)


def _called(found: object, failure: str) -> AbstractContextManager[None]:
    """Return the context for a call of ``found``, which is a plugin's unless it is defined in chexqa."""
    return nullcontext() if _module_of(found).startswith("chexqa.") else plugin_code(failure, found)


def family_named(name: str, others: Iterable[str] = ()) -> Family:
    """Return the family of this name; raise ``InputError`` if there is none.

    ``others`` are further known names, which the message can suggest.
    """
    if name not in FAMILIES:
        known = [*FAMILIES, *others]
        raise InputError(
            f"there is no map maker '{name}'{suggest(name, known)}; 'chexqa heatmaps makers' lists the makers, and "
            "--plugin adds your own."
        )
    return FAMILIES[name]


def run_batch(
    maker: Maker, name: str, pictures: Sequence[Gray], findings: Sequence[Sequence[str]], cases: Sequence[Sequence[str]]
) -> list[list[Made]]:
    """Run a maker on several pictures; return, for each picture, the map and score of each of its findings.

    ``cases`` has the id of each finding's case. Raise ``InputError`` if the code of a plugin fails; the message names
    the maker (``name``), a case and the failing line.
    """
    failed = f"the plugin of the map maker '{name}' failed on"
    batch = getattr(maker, "batch", None)
    if batch is not None:
        count = sum(map(len, cases))
        others = f" or one of the {count - 1:,} cases after it" if count > 1 else ""
        with _called(maker, f"{failed} the case '{cases[0][0]}'{others}"):
            return cast(list[list[Made]], batch(pictures, findings))
    made: list[list[Made]] = []
    for picture, wanted, ids in zip(pictures, findings, cases, strict=True):
        made.append([])
        for finding, case_id in zip(wanted, ids, strict=True):
            with _called(maker, f"{failed} the case '{case_id}'"):
                made[-1].append(maker(picture, finding))
    return made


def checked(made: Any, where: str) -> Made:
    """Return a maker's map as float32 ``(h, w)`` and its score as a float; raise ``InputError`` for anything else.

    All numbers must be finite. ``where`` is the beginning of the message.
    """
    try:
        values, score = made if isinstance(made, tuple | list) else ()
        values = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{where}: the maker returned {_kind(made)}; it must return a pair (map, score).") from None
    try:
        score = float(score)
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: the maker returned a score of type {type(score).__name__}; the score must be a number."
        ) from None
    if not np.isfinite(score):
        raise InputError(f"{where}: the maker returned the score {score}; the score must be a finite number.")
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: the maker's map has shape {values.shape} and type {values.dtype}; it must have shape (h, w) "
            f"and real numbers."
        )
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if bad := int(np.count_nonzero(~np.isfinite(values))):
        raise InputError(
            f"{where}: {bad:,} of the {values.size:,} values of the maker's map are not finite (NaN or infinite); all "
            "must be finite."
        )
    return values, score


def _kind(made: object) -> str:
    return f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
