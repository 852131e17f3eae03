"""chexqa: a benchmark engine for chest-radiograph perception.

``chexqa.load(path)`` reads a benchmark or a run; see :mod:`chexqa.api` for it and for the functions behind every
command. Nothing heavy is imported until something is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chexqa.version import __version__ as __version__

if TYPE_CHECKING:
    from chexqa.api import load as load

_FROM_API = ("load",)


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name in _FROM_API:
        from chexqa import api

        return getattr(api, name)
    raise AttributeError(f"module 'chexqa' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Names of the package, those that are imported late included."""
    return sorted([*globals(), *_FROM_API])
