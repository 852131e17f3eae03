"""Kinds of question from plugins: modules that register kinds with builder and wording.

The command line names a plugin by an entry point of the group ``chexqa.kinds``, an importable module or a Python file.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from chexqa.contract.declared import declaration, declared
from chexqa.contract.forms import FORMS
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files.errors import InputError, first_file, plugin_code, sentence, suggest
from chexqa.files.jsonio import Record, read_yaml
from chexqa.files.opening import sha256_of
from chexqa.generators.pipeline.builders.registry import Builder, CaseToBuild
from chexqa.question_banks import check_braces

GROUP = "chexqa.kinds"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Question:
    """A kind with its builder, and its texts, keyed by language.

    - ``bank``: the file of the texts; None for a kind of chexqa.
    - ``code``: the SHA-256 of the file that registers the kind; None if there is no such file.
    """

    kind: Kind
    builder: Builder
    texts: Record
    bank: Path | None = None
    code: str | None = None

    def ask(self, case: CaseToBuild) -> None:
        """Run the builder on a case; raise ``InputError`` with the failing line if the code of a plugin fails."""
        if self.kind.name in KINDS:
            self.builder(case, self.kind)
            return
        with plugin_code(
            f"the plugin of the kind '{self.kind.name}' failed on the case '{case.survey.source_case_id}'", self.builder
        ):
            self.builder(case, self.kind)


class _Texts(dict[str, str]):
    """Texts of a kind in one language; the error for a missing text names the file and the field to add."""

    def __init__(self, texts: Record, place: str) -> None:
        super().__init__(texts)
        self._place = place

    def __missing__(self, name: str) -> str:
        raise ValueError(f"{self._place}.{name}': there is no such text; add it")


# The questions of each plugin, keyed by its name and the hash of its file, so that a changed file is read again.
_FOUND: dict[tuple[str, str | None], list[Question]] = {}
_reading: list[Question] = []


def question(kind: Kind, bank: Path) -> Callable[[Builder], Builder]:
    """Return a decorator for a plugin; it registers the decorated function as the builder of the new ``kind``.

    ``bank`` is a YAML file with the texts of the kind, keyed by language; one of the texts is ``question``.

    Raise ``InputError`` if chexqa already has a kind with this name or if ``bank`` cannot be read. Raise ``ValueError``
    or ``TypeError`` if the declaration of ``kind`` breaks another rule for plugins.
    """
    if not _NAME.fullmatch(kind.name):
        raise ValueError(f"the name '{kind.name}' is not of the form {_NAME.pattern}; give the kind another name")
    if kind.level is not None or kind.stage is not None:
        raise ValueError(f"the kind '{kind.name}' comes from a plugin; give level=None and stage=None")
    if kind.form_name not in FORMS:
        raise ValueError(
            f"the kind '{kind.name}' has the form '{kind.form_name}'; give form_name single, multi or cell"
        )
    declared(declaration(kind), f"the plugin of the kind '{kind.name}'")
    texts = read_yaml(bank, "kind_texts")
    check_texts(texts, bank)
    code = _hash(inspect.stack(0)[1].filename)

    def register(builder: Builder) -> Builder:
        _reading.append(Question(kind, builder, texts, bank, code))
        return builder

    return register


def check_texts(texts: Record, bank: Path) -> None:
    """Raise ``InputError`` for a question that has a placeholder other than ``{finding}`` and ``{note}``."""
    for language, words in texts.items():
        check_braces(words["question"], set(), {"finding", "note"}, f"{bank}, field '{language}.question'")


def load(names: Iterable[str]) -> list[Question]:
    """Return the questions of the given plugins, sorted by kind.

    Raise ``InputError`` if a plugin does not exist, fails or registers no question, or if two register the same kind.
    """
    found: dict[str, Question] = {}
    givers: dict[str, str] = {}
    for name in names:
        key = (name, _hash(name))
        if key not in _FOUND:
            _reading.clear()
            try:
                _import(name)
            except InputError as error:
                raise InputError(f"--plugin {name}: {error}") from error
            except (Exception, SystemExit) as error:
                raise InputError(
                    f"--plugin {name}: cannot be loaded: {sentence(error, first_file(error))}; correct the plugin."
                ) from error
            if not _reading:
                raise InputError(f"--plugin {name}: does not register a kind of question; see docs/extending.md.")
            _FOUND[key] = list(_reading)
        for one in _FOUND[key]:
            if one.kind.name in found:
                raise InputError(
                    f"--plugin {name}: the kind '{one.kind.name}' is already registered by --plugin "
                    f"{givers[one.kind.name]}; leave out one plugin, or rename the kind."
                )
            found[one.kind.name], givers[one.kind.name] = one, name
    return [found[name] for name in sorted(found)]


def texts_of(questions: Iterable[Question], language: str) -> dict[str, Record]:
    """Return the texts of each kind in a language; raise ``InputError`` if a plugin lacks the language."""
    found: dict[str, Record] = {}
    for one in questions:
        if language not in one.texts:
            raise InputError(
                f"the plugin of the kind '{one.kind.name}' has no texts in the question bank's language '{language}'; "
                f"use a bank in a language of the plugin ({', '.join(sorted(one.texts))}), "
                f"or add '{language}' to {one.bank}."
            )
        found[one.kind.name] = _Texts(one.texts[language], f"{one.bank}, field '{language}")
    return found


def all_kinds(questions: Iterable[Question]) -> dict[str, Kind]:
    """Return all kinds, keyed by name: chexqa's, and those of the given questions."""
    return {**KINDS, **{one.kind.name: one.kind for one in questions}}


def _hash(file: str) -> str | None:
    return sha256_of(Path(file)) if Path(file).is_file() else None


def _import(name: str) -> None:
    """Run the module of a plugin, which registers its questions."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name in points:
        name = points[name].module
    elif name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise InputError("no such file; name a Python file, a module or an installed plugin.")
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
            f"there is no such module or installed plugin{suggest(name, points)}; give a Python file as NAME.py."
        ) from None
