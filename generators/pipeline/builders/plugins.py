"""Kinds of question from plugins: modules that register kinds with builder and wording.

The command line names a plugin by an entry point of the group ``chexqa.kinds``, an importable module or a Python file.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from chexqa.contract.declared import declaration, declared
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files.errors import InputError, first_file, plugin_code, sentence, suggest
from chexqa.files.jsonio import Record, read_yaml
from chexqa.generators.pipeline.builders.registry import Builder, CaseToBuild
from chexqa.question_banks import check_braces

GROUP = "chexqa.kinds"


@dataclass(frozen=True)
class Question:
    """A kind with its builder, and its texts, keyed by language."""

    kind: Kind
    builder: Builder
    texts: Record

    def ask(self, case: CaseToBuild) -> None:
        """Run the builder on a case; raise ``InputError`` with the failing line if the code of a plugin fails."""
        if self.kind.name in KINDS:
            self.builder(case, self.kind)
            return
        with plugin_code(
            f"the plugin of the kind '{self.kind.name}' failed on the case '{case.survey.source_case_id}'"
        ):
            self.builder(case, self.kind)


_FOUND: dict[str, list[Question]] = {}
_reading: list[Question] = []


def question(kind: Kind, bank: Path) -> Callable[[Builder], Builder]:
    """Return a decorator for a plugin; it registers the decorated function as the builder of the new ``kind``.

    ``bank`` is a YAML file with the texts of the kind, keyed by language; one of the texts is ``question``.

    Raise ``InputError`` if ``kind`` has a level or a stage, if chexqa already has a kind with this name, or if ``bank``
    cannot be read.
    """
    if kind.level is not None or kind.stage is not None:
        raise InputError(f"the kind '{kind.name}' comes from a plugin and must have no level and no stage.")
    declared(declaration(kind), f"the plugin of the kind '{kind.name}'")
    texts = read_yaml(bank, "kind_texts")
    for language, words in texts.items():
        check_braces(words["question"], set(), {"finding", "note"}, f"{bank}, field '{language}.question'")

    def register(builder: Builder) -> Builder:
        _reading.append(Question(kind, builder, texts))
        return builder

    return register


def load(names: Iterable[str]) -> list[Question]:
    """Return the questions of the given plugins, sorted by kind.

    Raise ``InputError`` if a plugin does not exist, fails or registers no question, or if two register the same kind.
    """
    found: dict[str, Question] = {}
    givers: dict[str, str] = {}
    for name in names:
        if name not in _FOUND:
            _reading.clear()
            try:
                _import(name)
            except InputError:
                raise
            except (Exception, SystemExit) as error:
                raise InputError(
                    f"--plugin {name}: cannot be loaded: {sentence(error, first_file(error))}; correct the plugin."
                ) from error
            if not _reading:
                raise InputError(f"--plugin {name}: does not register a kind of question; see docs/extending.md.")
            _FOUND[name] = list(_reading)
        for one in _FOUND[name]:
            if one.kind.name in found:
                raise InputError(
                    f"--plugin {name}: the kind '{one.kind.name}' is already registered by --plugin "
                    f"{givers[one.kind.name]}; leave out one plugin, or rename the kind."
                )
            found[one.kind.name], givers[one.kind.name] = one, name
    return [found[name] for name in sorted(found)]


def texts_of(questions: Iterable[Question], language: str) -> dict[str, Record]:
    """Return the texts of each kind in a language; raise ``InputError`` if a plugin lacks the language."""
    found = {}
    for one in questions:
        if language not in one.texts:
            raise InputError(
                f"the plugin of the kind '{one.kind.name}' has no texts in the question bank's language '{language}'; "
                f"use a bank in a language of the plugin ({', '.join(sorted(one.texts))}), or add texts to the plugin."
            )
        found[one.kind.name] = one.texts[language]
    return found


def all_kinds(questions: Iterable[Question]) -> dict[str, Kind]:
    """Return all kinds, keyed by name: chexqa's, and those of the given questions."""
    return {**KINDS, **{one.kind.name: one.kind for one in questions}}


def _import(name: str) -> None:
    """Run the module of a plugin, which registers its questions."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name in points:
        name = points[name].module
    elif name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise InputError(f"--plugin {name}: no such file; name a Python file, a module or an installed plugin.")
        spec = importlib.util.spec_from_file_location(f"chexqa_plugin_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return
    try:
        sys.modules.pop(name, None)
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise
        raise InputError(
            f"--plugin {name}: there is no such module or installed plugin{suggest(name, points)}; "
            "give a Python file as NAME.py."
        ) from None
