"""All installed modules of the package, with their files and imports, as ``docs/import_graph.py`` finds them."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load(path: Path) -> ModuleType:
    """Return a module made from a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(path.stem, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


import_graph = load(ROOT / "docs" / "import_graph.py")
FILES: dict[str, Path] = import_graph.module_files()


@functools.cache
def graph() -> dict[str, set[str]]:
    """Return for each module the modules of the package that it imports."""
    made: dict[str, set[str]] = import_graph.module_graph()
    return made
