"""chexqa: a benchmark engine for chest-radiograph perception.

``chexqa.load(path)`` reads a benchmark or a run; ``chexqa.load_benchmark`` and ``chexqa.load_run`` read only one of
them. :mod:`chexqa.chain` defines the steps from cases to a report: ``chexqa.generate``, ``chexqa.freshen``,
``chexqa.evaluate``, ``chexqa.grade``, ``chexqa.report``. :mod:`chexqa.api` documents the functions behind all commands.
Heavy libraries are imported only when a function needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chexqa.version import __version__ as __version__

if TYPE_CHECKING:
    from chexqa.chain import evaluate as evaluate
    from chexqa.chain import freshen as freshen
    from chexqa.chain import generate as generate
    from chexqa.chain import grade as grade
    from chexqa.chain import report as report
    from chexqa.eval.local.replies import ModelReply as ModelReply
    from chexqa.eval.local.replies import PromptTooLongError as PromptTooLongError
    from chexqa.frames import load as load
    from chexqa.frames import load_benchmark as load_benchmark
    from chexqa.frames import load_run as load_run

# The module that defines each name.
MODULES = {
    "load": "chexqa.frames",
    "load_benchmark": "chexqa.frames",
    "load_run": "chexqa.frames",
    "generate": "chexqa.chain",
    "freshen": "chexqa.chain",
    "evaluate": "chexqa.chain",
    "grade": "chexqa.chain",
    "report": "chexqa.chain",
    "ModelReply": "chexqa.eval.local.replies",
    "PromptTooLongError": "chexqa.eval.local.replies",
}
# The names that help() explains.
__all__ = [*MODULES]


def __getattr__(name: str) -> Any:
    """Import and return a public function or submodule when it is first used (see :data:`MODULES`)."""
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    from chexqa.files.errors import suggest

    raise AttributeError(f"module 'chexqa' has no attribute '{name}'{suggest(name, MODULES)}")


def __dir__() -> list[str]:
    """Return the names of the package, including those that are imported at first use."""
    return sorted([*globals(), *MODULES])
