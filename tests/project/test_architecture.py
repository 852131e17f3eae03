"""The import graph runs as the design says, and the command line imports no more than it must."""

from __future__ import annotations

import ast
import graphlib
import importlib
import itertools
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click
import numpy as np
import pytest
from modules import FILES, ROOT, graph, import_graph

from chexqa import question_banks
from chexqa.cli.main import COMMANDS
from chexqa.contract.forms import FORMS
from chexqa.contract.kinds import KINDS
from chexqa.eval.prompts.parser_options import READINGS
from chexqa.generators.pipeline import build_pass
from chexqa.generators.pipeline.builders.registry import BUILDERS
from chexqa.schemas import schema

PICTURE = (ROOT / "docs" / "import-graph.svg").read_text(encoding="utf-8")
ORDER = [name for row in import_graph.ORDER for name in row]
ROW = {name: number for number, row in enumerate(import_graph.ORDER) for name in row}
FEWEST, MOST = 4, 12
# Tests that read every module of the tree: one process reads them once.
reads_the_tree = pytest.mark.xdist_group("tree")


def packages() -> dict[str, Path]:
    """Every package with a folder, the three that only hold packages included."""
    return {name: path.parent for name, path in FILES.items() if path.name == "__init__.py"}


def members(folder: Path) -> list[str]:
    """The modules and packages directly in a package."""
    inner = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
    return inner + [path.parent.name for path in folder.glob("*/__init__.py")]


@reads_the_tree
def test_every_module_is_seen() -> None:
    assert len(FILES) > 200
    assert {import_graph.package_of(name) for name in FILES} - {""} <= set(ORDER)
    assert "chexqa.files.jsonio" in graph()["chexqa.contract.benchmark"]


@reads_the_tree
def test_no_module_imports_itself_in_a_circle() -> None:
    # A package's __init__ is run before its modules, but what it imports of them is no circle.
    inner = {name: {other for other in others if not name.startswith(f"{other}.")} for name, others in graph().items()}
    assert list(graphlib.TopologicalSorter(inner).static_order())


@reads_the_tree
def test_a_package_imports_only_from_packages_before_it() -> None:
    arrows = import_graph.package_arrows(graph())
    assert [pair for pair in arrows if ROW[pair[1]] >= ROW[pair[0]]] == []


def test_a_package_has_few_enough_modules_to_be_known_and_enough_to_be_one() -> None:
    top = ("chexqa", "chexqa.eval", "chexqa.generators", "chexqa.schemas", "chexqa.question_banks")
    sizes = {name: len(members(folder)) for name, folder in packages().items() if name not in top}
    assert {name: size for name, size in sizes.items() if not FEWEST <= size <= MOST} == {}


@pytest.mark.parametrize("name", packages())
def test_a_package_says_what_it_is_for_and_names_modules_that_it_has(name: str) -> None:
    folder = packages()[name]
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert docstring
    named = set(re.findall(r"``(\w+)``", docstring)) if len(members(folder)) else set()
    known = {path.stem for path in folder.rglob("*")} | {path.name for path in folder.iterdir()}
    assert named <= known, f"{name} has no {named - known}"


def test_the_picture_of_the_imports_has_every_package() -> None:
    assert all(f">{name} (" in PICTURE or f">{name}<" in PICTURE for name in ORDER), "run 'make graph'"


@reads_the_tree
def test_schemas_stand_alone_and_question_banks_need_no_pictures() -> None:
    assert graph()["chexqa.schemas"] == set()
    assert not {"cv2", "numpy"} & import_graph.imported(FILES["chexqa.question_banks"])


@reads_the_tree
def test_litellm_is_imported_by_few_modules_and_never_at_the_top_of_a_command() -> None:
    users = {
        name
        for name, path in FILES.items()
        if any(part.split(".")[0] == "litellm" for part in import_graph.imported(path))
    }
    assert users
    assert all(name.startswith("chexqa.eval.") for name in users)
    for entry in COMMANDS.values():
        assert entry.address.split(":")[0] not in users


@pytest.mark.parametrize("name", COMMANDS)
def test_every_entry_of_the_command_table_is_a_command_with_help(name: str) -> None:
    module, _, attribute = COMMANDS[name].address.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.help
    assert COMMANDS[name].help.endswith(".")
    assert len(COMMANDS[name].help) < 80
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def modules_after(*args: str) -> set[str]:
    """Top-level names in ``sys.modules`` after a command line has run."""
    script = (
        "import json, sys\n"
        "from chexqa.cli.main import run\n"
        f"code = run({list(args)!r})\n"
        "print('\\n' + json.dumps([code, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, names = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return set(names)


HEAVY = {"cv2", "litellm", "numpy", "polars", "pandas", "matplotlib", "scipy", "jinja2", "shapely", "PIL", "openpyxl"}


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    names = modules_after(*args)
    assert not HEAVY & names
    assert not {"jsonschema", "jsonschema_rs"} & names


def test_help_of_a_command_does_not_import_litellm() -> None:
    assert not {"litellm", "cv2", "matplotlib"} & modules_after("generate", "--help")
    assert "litellm" not in modules_after("eval", "--help")


# Where a kind of question may be named, besides its declaration, its builder, the bank, the recipes and its schema.
ABOUT_KINDS = {
    "chexqa.contract.kinds",
    "chexqa.interchange.croissant",  # "distribution" is a word of that format
    "chexqa.question_banks",  # what a question must fill in
    "chexqa.eval.prompts.parser_clean_up", "chexqa.eval.prompts.parser_places",  # a word of replies
    "chexqa.generators.attributes.attribute_keys",  # what the four attributes are
    # Which questions are asked of altered pictures, and the measures of their answers.
    "chexqa.generators.interventions.alter_case", "chexqa.generators.interventions.partial_and_mirror",
    "chexqa.generators.pipeline.build_pass", "chexqa.eval.grounding.followed_keys",
    "chexqa.eval.grounding.grounding_tables", "chexqa.eval.grounding.published_measures",
    "chexqa.generators.pipeline.balance_positions",  # the one kind whose options are dealt out
    "chexqa.generators.audit.classifier", "chexqa.generators.audit.description", "chexqa.generators.audit.rule_scores",
    "chexqa.generators.audit.shortcuts_tried", "chexqa.generators.audit.priors",  # shortcuts of single kinds
    "chexqa.interchange.layout", "chexqa.interchange.release", "chexqa.interchange.release_export",
    "chexqa.interchange.foreign",  # which pictures a kind of that name has
    "chexqa.eval.scoring.chexpercept_results",  # their names in another format
    "chexqa.eval.prompts.protocols",  # what is put right before the four outlines
    "chexqa.review.sheets.questions",  # which pictures a sheet shows
    "chexqa.eval.tables.robustness_and_contradictions", "chexqa.eval.tables.levels_and_stages",
    "chexqa.eval.report.display", "chexqa.eval.thresholds.observations",  # whose answers show what is seen of an error
}  # fmt: skip


def kinds_named(path: Path) -> set[str]:
    """The kinds that stand in a module as texts of their own or as the beginning of a name in a docstring."""
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    return KINDS.keys() & texts


def test_a_kind_is_named_by_its_declaration_its_builder_and_what_is_about_it() -> None:
    named = {name: kinds_named(path) for name, path in FILES.items()}
    builders = {name for name in named if name.startswith("chexqa.generators.pipeline.builders.")}
    assert {name: kinds for name, kinds in named.items() if kinds} == {
        name: named[name] for name in ABOUT_KINDS | builders if named[name]
    }
    for kind in KINDS:
        assert len([name for name in builders if kind in named[name]]) <= 1
    assert len([name for name, kinds in named.items() if "severity" in kinds]) <= 6


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_asked_for_read_and_guessed(name: str) -> None:
    form, options = FORMS[name], 5
    assert form.is_place or name in READINGS
    texts = question_banks.place_wordings("en") if form.is_place else question_banks.load("en")["conversation"]
    assert texts[name]
    random = np.random.default_rng(0)
    answers = {form.guess(options, random) for _ in range(500)}
    key = next(iter(answers))
    assert form.wrong_key(key) is None
    assert form.is_right(key, key)
    assert form.credit(key, key) == 1
    assert sum(form.is_right(key, said) for said in answers) / len(answers) == form.chance(options, len(key))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_a_builder_words_and_evidence_that_the_schema_names(name: str) -> None:
    assert build_pass.BUILDER_MODULES
    assert name in BUILDERS
    assert name in question_banks.load("en")["kinds"]
    known = schema("answer")["properties"]["evidence"]["properties"]
    assert {one.name for one in fields(KINDS[name].evidence)} <= known.keys()


MOST_LINES, MOST_OF_A_FUNCTION = 400, 60
STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")
# A module of tests is a list of cases that do not lean on each other, read one by one, so its length is no burden.
LONG = set((ROOT / "tests").rglob("test_*.py"))


def python_files() -> list[Path]:
    """Every Python file of the tree, tests and benchmarks included."""
    folders = ("chexqa", "generators", "eval", "question_banks", "schemas", "docs", "benchmarks", "tests")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def long_functions(text: str) -> list[str]:
    """Functions over the bound; a command's options stand above its ``def`` and are its help, so they do not count."""
    found: list[str] = []
    inner: list[ast.AST] = [ast.parse(text)]
    while inner:
        node = inner.pop()
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (node.end_lineno or 0) - node.lineno >= MOST_OF_A_FUNCTION:
            found.append(node.name)
        # Only statements hold functions.
        inner += itertools.chain(*(getattr(node, part, ()) for part in STATEMENTS))
    return found


def test_modules_and_functions_are_short_enough_to_be_read() -> None:
    found = [f"{path.name}: {name}" for path in python_files() for name in long_functions(path.read_text())]
    found += [path.name for path in python_files() if path not in LONG and path.read_text().count("\n") > MOST_LINES]
    assert found == []


def test_a_function_over_the_bound_is_found() -> None:
    assert long_functions("def short():\n" + "    pass\n" * (MOST_OF_A_FUNCTION - 1)) == []
    assert long_functions("def long():\n" + "    pass\n" * MOST_OF_A_FUNCTION) == ["long"]


@pytest.mark.xdist_group("any")
def test_tests_that_share_something_are_given_to_one_process(request: pytest.FixtureRequest) -> None:
    # A pytest that pytest-xdist does not fit ignores the groups without a word, and make test takes twice as long.
    if request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith("@any")
