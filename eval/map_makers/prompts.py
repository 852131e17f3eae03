"""Wording of findings, for models that compare a radiograph with text: a file of templates and synonyms."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from chexqa.contract.findings import FINDINGS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import read_yaml
from chexqa.question_banks import check_braces

DEFAULT = "prompts.yaml"


@dataclass(frozen=True)
class Prompts:
    """Wording of findings.

    - ``name``: name of the wording.
    - ``templates``: sentences with ``{finding}`` that say that the finding is present.
    - ``negatives``: sentences with ``{finding}`` that say that the finding is absent.
    - ``words``: the names of each finding, keyed by finding; the usual name comes first.
    """

    name: str
    templates: tuple[str, ...]
    negatives: tuple[str, ...]
    words: dict[str, tuple[str, ...]]

    def finding(self, finding: str) -> str:
        """Return a finding in words.

        >>> read_prompts(None).finding("effusion")
        'pleural effusion'
        """
        return self.words[finding][0] if finding in self.words else finding.replace("_", " ")

    def positive(self, words: str) -> list[str]:
        """Return every sentence that says that a finding is present: each template with each of the finding's names.

        ``words`` is the finding's usual name.
        """
        return [template.format(finding=name) for template in self.templates for name in self._names(words)]

    def negative(self, words: str) -> list[str]:
        """Return every sentence that says that a finding is absent; ``words`` is the finding's usual name."""
        return [template.format(finding=name) for template in self.negatives for name in self._names(words)]

    def _names(self, words: str) -> tuple[str, ...]:
        return next((names for names in self.words.values() if names[0] == words), (words,))


def read_prompts(path: Path | None) -> Prompts:
    """Read a wording from a YAML file; if ``path`` is None, read the wording that comes with chexqa.

    Raise ``InputError`` for a template or a finding that is not valid.
    """
    path = path or Path(str(resources.files("chexqa.eval.map_makers").joinpath(DEFAULT)))
    record = read_yaml(path, "map_prompts")
    for part in ("templates", "negatives"):
        for number, template in enumerate(record[part]):
            check_braces(template, {"finding"}, set(), f"{path}, field '{part}.{number}'")
    unknown = [name for name in record["findings"] if name not in FINDINGS]
    if unknown:
        raise InputError(f"{path}, field 'findings': there is no finding '{unknown[0]}'; remove the entry.")
    words = {name: tuple(names) for name, names in record["findings"].items()}
    return Prompts(record["name"], tuple(record["templates"]), tuple(record["negatives"]), words)
