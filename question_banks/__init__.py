"""Question banks: the wording of every question and option, one YAML file for each language, and their loader."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from string import Formatter

from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, read_yaml

# Placeholders for the numbers of the recipe's rule.
RULES = ("outline", "area", "otherwise", "least_error", "least_share", "least_lung", "times", "cell_share")


def names() -> list[str]:
    """Return the names of the banks that come with chexqa."""
    return sorted(
        Path(entry.name).stem for entry in resources.files(__name__).iterdir() if entry.name.endswith(".yaml")
    )


def load(bank: str) -> Record:
    """Return a question bank; ``bank`` is its name or the path of a YAML file.

    Raise ``InputError`` if the bank does not exist or is not valid.

    >>> load("en")["language"]
    'en'
    """
    if bank.endswith((".yaml", ".yml")):
        return read(Path(bank))
    if bank not in names():
        raise InputError(f"there is no question bank '{bank}'{suggest(bank, names())}; name a bank or a .yaml file.")
    return read(Path(str(resources.files(__name__).joinpath(f"{bank}.yaml"))))


def read(path: Path) -> Record:
    """Read a bank from a file and check it against the schema ``bank``, including the placeholders in braces."""
    bank = read_yaml(path, "bank")
    for kind, texts in bank["kinds"].items():
        where = f"{path}, field 'kinds.{kind}.question'"
        names_it = any(f"{{{name}}}" in texts["question"] for name in ("outline", "area"))
        needed = ({"side"} if kind == "severity" else set()) | (set() if names_it else {"finding"})
        check_braces(texts["question"], needed, {"finding", "note", *RULES}, where)
        if "point" in texts:
            check_braces(texts["point"], {"color"}, {"letter"}, f"{path}, field 'kinds.{kind}.point'")
    for rule in ("component", "union"):
        if "rules" in bank:
            check_braces(bank["rules"][rule]["area"], {"outline"}, set(), f"{path}, field 'rules.{rule}.area'")
    check_conversation(bank["conversation"], f"{path}, field", "conversation")
    for name, texts in bank.get("prompts", {}).items():
        reworded(bank["conversation"], texts, f"{path}, field", f"prompts.{name}")
    return bank


def wordings(language: str) -> Record | None:
    """Return chexqa's texts around the questions in a language: ``prompts`` by name, ``example`` and ``confidence``.

    The result is None for a language without these texts.

    >>> sorted(wordings("en")["prompts"])
    ['plain', 'reason']
    """
    for entry in resources.files(__name__).joinpath("prompts").iterdir():
        if entry.name == f"{language}.yaml":
            return read_yaml(Path(str(entry)), "prompts")
    return None


@cache
def place_wordings(language: str) -> Record:
    """Return a language's wordings of the questions on places; raise ``InputError`` if they do not exist.

    >>> place_wordings("en")["nowhere"]
    'nowhere'
    """
    path = Path(str(resources.files(__name__).joinpath("places", f"{language}.yaml")))
    if not path.is_file():
        raise InputError(
            f"chexqa's questions that ask for a point or box do not exist in the language '{language}'; leave out the "
            "recipe 'places'."
        )
    return read_yaml(path, "place_texts")


def reworded(conversation: Record, texts: Record, where: str, field: str) -> Record:
    """Return a copy of ``conversation`` in which each text of ``texts`` replaces the text with the same name.

    Raise ``InputError`` for a name that ``conversation`` lacks, and for a missing placeholder. Messages name the text
    by ``where`` and ``field``, as in ``en.yaml, field 'prompts.reason.answer': …`` for ``where="en.yaml, field"`` and
    ``field="prompts.reason"``.
    """
    for name in texts:
        if not isinstance(conversation.get(name), str):
            known = [key for key, text in conversation.items() if isinstance(text, str)]
            hint = suggest(name, known)
            raise InputError(f"{where} '{field}.{name}': there is no such text in 'conversation'{hint}.")
    made = {**conversation, **texts}
    check_conversation(made, where, field)
    return made


def share_words(bank: Record, share: float) -> str:
    """Return a share (0 to 1) in the bank's words, or in percent if the bank has no words for it.

    >>> share_words(load("en"), 0.2), share_words(load("en"), 0.45)
    ('a fifth', '45 %')
    """
    for parts, words in bank.get("rules", {}).get("one_in", {}).items():
        if abs(share * float(parts) - 1) < 1e-9:
            return str(words)
    return f"{100 * share:.3g} %"


def check_conversation(texts: Record, where: str, field: str) -> None:
    """Raise ``InputError`` if a placeholder in ``texts`` is missing or unknown.

    ``texts`` are the texts around the questions. ``where`` and ``field`` are as in :func:`reworded`.
    """
    for role, text in texts["pictures"].items():
        check_braces(text, {"n"}, set(), f"{where} '{field}.pictures.{role}'")
    for name, needed in _FILLED_IN.items():
        check_braces(texts[name], needed, set(), f"{where} '{field}.{name}'")
    if "example" in texts:
        check_braces(texts["example"], {"n"}, set(), f"{where} '{field}.example'")


_FILLED_IN = {
    "option": {"n", "text"},
    "option_picture": {"picture"},
    "answer": {"answer"},
    "truth": {"question", "answer"},
}


def check_braces(text: str, needed: set[str], allowed: set[str], where: str) -> None:
    """Check the placeholders of a text, such as ``{finding}``; raise ``InputError`` for a missing or an unknown one.

    - ``needed``: the names of the placeholders that must occur.
    - ``allowed``: the names of further placeholders that may occur.
    - ``where``: the file and field, for the message.
    """
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError:
        raise InputError(f"{where}: a brace is unmatched; write {{{{ or }}}} for a brace in the text.") from None
    found = {str(name) for _, name, _, _ in parts}
    if any(spec or conversion for _, _, spec, conversion in parts):  # a format with a huge width would fill the memory
        raise InputError(f"{where}: ':' and '!' are not allowed in braces; write only the placeholder's name.")
    for name in sorted(found - needed - allowed):
        known = ", ".join(f"{{{word}}}" for word in sorted(needed | allowed))
        raise InputError(f"{where}: {{{name}}} is not a known placeholder here; use {known}.")
    for name in sorted(needed - found):
        raise InputError(f"{where}: the placeholder {{{name}}} is missing; add it.")
