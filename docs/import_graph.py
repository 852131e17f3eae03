"""Script that prints the order of the packages and draws their imports: ``python docs/import_graph.py``.

``make graph`` runs this script. :data:`ORDER` is the order: a package imports only from packages before it. The
picture, ``docs/import-graph.svg``, is therefore a triangle. ``tests/project/test_architecture.py`` tests the order, the
sizes of packages and the picture.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "import-graph.svg"
# Packages of one row stand side by side and do not import each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("schemas",), ("files",), ("stats",), ("imaging",), ("question_banks",), ("contract",),
    ("places",), ("prompts",), ("phantoms", "sources", "segmentation", "contour", "review", "interchange"),
    ("attributes",), ("interventions",), ("stress",), ("local",), ("models",), ("builders",), ("pipeline",),
    ("design",),
    ("runs",), ("batches",),
    ("scoring",), ("readers", "harnesses"),
    ("heatmaps", "place_results", "confidence", "grounding", "thresholds", "side_by_side"), ("map_makers",),
    ("map_models",),
    ("audit",), ("tables",), ("gallery", "leaderboard", "records"), ("report",), ("cli",),
)  # fmt: skip
Graph = dict[str, set[str]]


def module_files() -> dict[str, Path]:
    """Return the file of each module of the project, keyed by the module's installed name."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    files = {}
    for package, folder in setuptools["package-dir"].items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


@functools.cache
def imported(path: Path) -> set[str]:
    """Return all names that a module imports, also inside functions; imports for type checkers only are left out."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{path}: a relative import")
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        # No expression holds an import.
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return names


def module_graph() -> Graph:
    """Return, for each module of the project, the other modules of the project that it imports."""
    files = module_files()
    return {name: (imported(path) & files.keys()) - {name} for name, path in files.items()}


def package_of(module: str) -> str:
    """Return the package of :data:`ORDER` that a module belongs to, or an empty text for a module at the top."""
    parts = [part for part in module.split(".")[1:] if part not in ("eval", "generators")]
    known = {name for row in ORDER for name in row}
    return parts[0] if parts and parts[0] in known else ""


def package_arrows(graph: Graph) -> Counter[tuple[str, str]]:
    """Return the number of imports from one package to another, for each pair of packages."""
    pairs = ((package_of(name), package_of(other)) for name, others in graph.items() for other in others)
    return Counter((one, other) for one, other in pairs if one and other and one != other)


def svg(arrows: Counter[tuple[str, str]], sizes: Counter[str]) -> str:
    """Return the picture of the imports as SVG: a table with one row and one column for each package.

    A cell has the number of times that the row's package imports from the column's package. ``sizes`` has each
    package's number of modules, which is shown after the row's name.
    """
    names = [name for row in ORDER for name in row]
    cell, left, top = 34, 170, 112
    width, height = left + cell * len(names) + 10, top + cell * len(names) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for row, name in enumerate(names):
        x, y = left + cell * (row + 0.5), top + cell * (row + 0.5)
        modules = f" ({sizes[name]})" if sizes[name] else ""
        lines.append(f'<text x="{left - 8}" y="{y + 5:.0f}" text-anchor="end">{escape(name + modules)}</text>')
        lines.append(f'<text transform="translate({x + 5:.0f} {top - 8}) rotate(-60)">{escape(name)}</text>')
        for column, other in enumerate(names[: row + 1]):
            count = arrows[name, other]
            fill = "#dddddd" if row == column else f"rgba(68, 119, 170, {min(0.9, 0.15 + count / 40):.2f})"
            place = f'x="{left + cell * column}" y="{top + cell * row}" width="{cell - 2}" height="{cell - 2}"'
            lines.append(f'<rect {place} fill="{fill if count or row == column else "#f6f6f6"}"/>')
            if count:
                middle = left + cell * (column + 0.5) - 1
                lines.append(f'<text x="{middle:.0f}" y="{y + 4:.0f}" text-anchor="middle">{count}</text>')
    return "\n".join([*lines, "</svg>", ""])


def picture() -> str:
    """Return the picture of the imports in the current source tree, as :func:`svg` draws it."""
    sizes = Counter(package_of(name) for name, path in module_files().items() if path.name != "__init__.py")
    return svg(package_arrows(module_graph()), sizes)


def main() -> None:
    """Write the picture, and print each package with the packages that it imports from and the numbers of imports."""
    OUT.write_text(picture(), encoding="utf-8")
    arrows = package_arrows(module_graph())
    for row in ORDER:
        for name in row:
            uses = ", ".join(f"{other} {count}" for (one, other), count in sorted(arrows.items()) if one == name)
            print(f"{name:>15}  <-  {uses or '-'}")


if __name__ == "__main__":
    main()
