"""Scripts that no test runs and no type checker reads use only names of the package that exist."""

from __future__ import annotations

import ast
import functools

import pytest
from modules import FILES, ROOT

SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").glob("*.py")])


@functools.cache
def names(module: str) -> frozenset[str]:
    """Return the names that a module of the package has at its top level, its submodules included."""
    found = {name.rpartition(".")[2] for name in FILES if name.rpartition(".")[0] == module}
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name for alias in node.names}
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            # A module that imports on demand lists its names as keys of a dictionary.
            case ast.Dict():
                found |= {
                    key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
    return frozenset(found)


def missing(text: str) -> list[str]:
    """Return the names that a script takes from modules of the package, and that these modules do not have."""
    tree = ast.parse(text)
    absent: list[str] = []
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("chexqa"):
            continue
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in FILES:
                modules[alias.asname or alias.name] = whole
            elif node.module not in FILES or alias.name not in names(node.module):
                absent.append(whole)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if node.attr not in names(module):
                absent.append(f"{module}.{node.attr}")
    return absent


@pytest.mark.xdist_group("tree")
def test_scripts_use_names_that_exist() -> None:
    assert len(SCRIPTS) > 40
    found = {str(path.relative_to(ROOT)): missing(path.read_text(encoding="utf-8")) for path in SCRIPTS}
    assert {path: absent for path, absent in found.items() if absent} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from chexqa.files.jsonio import no_such",
        "from chexqa.no_such import load",
        "from chexqa.files import jsonio\njsonio.no_such",
    ],
)
def test_a_name_that_does_not_exist_is_found(text: str) -> None:
    assert len(missing(text)) == 1
