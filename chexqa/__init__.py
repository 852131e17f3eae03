"""chexqa: a benchmark engine for chest-radiograph perception.

``chexqa.load(path)`` reads a benchmark or a run. :mod:`chexqa.api` documents it and the functions behind every command.
Heavy libraries are imported only when a function needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chexqa.version import __version__ as __version__

if TYPE_CHECKING:
    from chexqa.api import load as load

_FROM_API = ("load",)


def __getattr__(name: str) -> Any:
    """Import and return a name of :mod:`chexqa.api` when it is first used."""
    if name in _FROM_API:
        from chexqa import api

        return getattr(api, name)
    raise AttributeError(f"module 'chexqa' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Return the names of the package, including those imported lazily."""
    return sorted([*globals(), *_FROM_API])
