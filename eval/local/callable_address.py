"""Address of a user's Python model (``FILE.py:NAME``, ``module:NAME`` or an object), and its declared attributes."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from chexqa.eval.local.conversation import FORMS, Form
from chexqa.files.errors import InputError, first_file, sentence, suggest
from chexqa.files.opening import sha256_of

ANSWER, BATCH, LOAD = "answer", "answer_batch", "load"
EXAMPLE = "give FILE.py:NAME or module:NAME"
# Fields of a model that a callable may set as attributes, besides 'pictures', 'batch_size' and 'name'.
MODEL_FIELDS = ("max_images", "system_prompt", "images_first", "multi_turn_images", "strip_tokens", "context_tokens")


@dataclass(frozen=True)
class Target:
    """A callable, given by its address or as the object ``found``.

    - ``arguments``: arguments of the constructor, if the callable is a class.
    - ``who``: the callable's name in messages.
    - ``devices``: one device for each worker process, which sees only this device; empty if the callable runs in this
      process. A device is ``cpu``, the number of a GPU, or several numbers joined by ``+``.
    """

    address: str
    who: str
    found: Any = field(default=None, repr=False, compare=False)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Traits:
    """Arguments that a callable takes, and attributes that it declares.

    - ``takes``: the names of the keyword arguments besides the conversation; None if any name is accepted.
    - ``needs``: the names of the arguments besides the conversation that have no default value, in order.
    - ``decoding_at_load``: True if the constructor takes all decoding settings as ``decoding``.
    - ``own``: the callable's attributes that are fields of a model's configuration (:data:`MODEL_FIELDS`).
    - ``source``: the callable's file, used to locate errors.
    - ``version``: the name of the callable's file and the beginning of its SHA-256.
    """

    name: str
    pictures: Form
    batches: bool
    is_async: bool
    batch_size: int | None
    takes: frozenset[str] | None
    needs: tuple[str, ...]
    decoding_at_load: bool
    own: dict[str, Any]
    source: str | None
    version: str | None


def resolve(target: Target) -> Any:
    """Return what is at an address: a function, an object or a class (the class itself, not an instance).

    Raise ``InputError`` if nothing is there.
    """
    if target.found is not None:
        return target.found
    place, name = split(target.address)
    module = module_at(place, target.who)
    if not hasattr(module, name):
        known = [one for one in vars(module) if not one.startswith("_") and callable(getattr(module, one))]
        raise InputError(f"{target.who}: {Path(place).name} has no '{name}'{suggest(name, known)}.")
    return getattr(module, name)


def traits(found: Any, target: Target) -> Traits:
    """Return what a function, class or object declares in its arguments and attributes.

    Raise ``InputError`` if the object cannot be used as a model.
    """
    who = target.who
    function, batches = _called(found, who)
    pictures = getattr(found, "pictures", "pil")
    if pictures not in FORMS:
        raise InputError(
            f"{who}: its attribute 'pictures' is '{pictures}'; write one of {', '.join(map(repr, FORMS))}."
        )
    size = getattr(found, "batch_size", None)
    if size is not None and (type(size) is not int or size < 1):
        raise InputError(f"{who}: its batch_size is {size!r}; write a whole number of at least 1.")
    own = {name: getattr(found, name) for name in MODEL_FIELDS if hasattr(found, name)}
    said = getattr(found, "name", None)
    name = said if isinstance(said, str) and said else default_name(target.address)
    is_async = inspect.iscoroutinefunction(function)
    at_load = inspect.isclass(found) and "decoding" in inspect.signature(found).parameters
    source = _source(function)
    given = {*target.arguments, *(["decoding"] if at_load else [])}
    if inspect.isclass(found) and (missing := [one for one in _without_default(found) if one not in given]):
        place = f" (__init__ in {line})" if (line := _line(found.__init__)) else ""
        raise InputError(
            f"{who}: the class {found.__name__} is made without arguments, but needs the argument "
            f"'{missing[0]}'{place}; give '{missing[0]}' a default value."
        )
    takes = _keywords(function, who)
    needs = _needed(found, function, BATCH if batches else ANSWER)
    return Traits(name, pictures, batches, is_async, size, takes, needs, at_load, own, source, _version(source))


def default_name(address: str) -> str:
    """Return the name of a callable that has no attribute ``name``.

    The name of ``folder/my_model.py:answer`` is ``my_model:answer``.
    """
    place, name = split(address)
    return f"{Path(place).stem if place.endswith('.py') else place}:{name}" if place else name


def split(address: str) -> tuple[str, str]:
    """Split the address of a callable into its file or module, and the name of the object defined there.

    >>> split("models/mine.py:Mine"), split("mine.py"), split("package.module:answer")
    (('models/mine.py', 'Mine'), ('mine.py', 'answer'), ('package.module', 'answer'))
    """
    place, colon, name = address.rpartition(":")
    if address.endswith(".py") or not colon:  # the colon of C:\model.py does not divide the address
        return address, ANSWER
    return place, name or ANSWER


def _called(found: Any, who: str) -> tuple[Any, bool]:
    """Return the function to call for a question, and True if it takes several conversations at once."""
    for name, batches in ((BATCH, True), (ANSWER, False)):
        function = getattr(found, name, None)
        if callable(function):
            return function, batches
    if inspect.isclass(found) or not callable(found):
        what = f"the class {found.__name__}" if inspect.isclass(found) else f"an object of type {type(found).__name__}"
        raise InputError(f"{who}: is {what} without '{ANSWER}' or '{BATCH}'; add one of these methods.")
    return (found if inspect.isfunction(found) or inspect.ismethod(found) else getattr(found, "__call__")), False  # noqa: B004, B009


def _keywords(function: Any, who: str) -> frozenset[str] | None:
    """Return the names of the arguments besides the conversation; None if any name is accepted."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        return frozenset()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    places = [one for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY and one.name != "self"]
    if not places:
        raise InputError(
            f"{who}: takes no argument; add one for the conversation, which is passed as the first argument."
        )
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    return frozenset(
        one.name for one in parameters if one.name != "self" and one not in places[:1] and one.kind not in kinds
    )


def _needed(found: Any, function: Any, name: str) -> tuple[str, ...]:
    """Return the arguments that have no default value, except the conversation and a method's ``self``."""
    # No object of a class exists yet, so the first parameter of its method is ``self``.
    is_method = inspect.isclass(found) and inspect.isfunction(inspect.getattr_static(found, name))
    return _without_default(function, first=is_method + 1)


def _without_default(function: Any, first: int = 0) -> tuple[str, ...]:
    """Return the arguments without a default value, from position ``first`` on."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        return ()
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(one.name for place, one in enumerate(parameters) if one.default is one.empty
                 and one.kind not in various and (place >= first or one.kind is one.KEYWORD_ONLY))  # fmt: skip


def _line(function: Any) -> str:
    """Return file and line of a function; ``""`` if it is in no file, as the ``__init__`` of a dataclass."""
    code = getattr(function, "__code__", None)
    if code is None or not Path(code.co_filename).is_file():
        return ""
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"


def _source(function: Any) -> str | None:
    try:
        return inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None


def _version(source: str | None) -> str | None:
    if source is None or not Path(source).is_file():
        return None
    return f"{Path(source).name} {sha256_of(Path(source))[:12]}"


def module_at(place: str, who: str) -> ModuleType:
    """Import a file or a module, which may import files beside it; raise ``InputError`` if the import fails."""
    if not place:
        raise InputError(f"{who}: names neither a file nor a module; {EXAMPLE}.")
    path = Path(place)
    if place.endswith(".py") and not path.is_file():
        several = "give --python again for each of several models" if "," in place else EXAMPLE
        raise InputError(f"{who}: there is no file {place}; {several}.")
    folder = str(path.resolve().parent) if place.endswith(".py") else str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _from_file(path) if place.endswith(".py") else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name in (place, place.partition(".")[0]):
            raise InputError(f"{who}: there is no module '{place}'; {EXAMPLE}.") from None
        raise InputError(f"{who}: cannot be imported: {sentence(error, first_file(error))}.") from None
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(f"{who}: cannot be imported: {sentence(error, first_file(error))}.") from None


def _from_file(path: Path) -> ModuleType:
    """Run a Python file as a separate module; each file is run only once."""
    name = f"_chexqa_python_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return known
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look for the module there
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, name)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
