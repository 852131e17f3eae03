"""The page of licences names every direct dependency, with the licence that the distribution itself declares."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROW = re.compile(r"^\| ([A-Za-z][\w-]*) \| ([\w.-]+) \| \S.* \|$", re.MULTILINE)
# How distributions write a licence: as an SPDX expression, in a field of their own words, or as a classifier.
WRITTEN = {
    "Apache-2.0": r"Apache[- ](Software License|License|2)",
    "BSD-2-Clause": r"BSD",
    "BSD-3-Clause": r"BSD",
    "MIT": r"\bMIT\b",
    "MIT-CMU": r"MIT-CMU|HPND",
    "MPL-2.0": r"MPL-2\.0|Mozilla Public License 2\.0",
    "PSF-2.0": r"Python Software Foundation License|PSF",
}
COPYLEFT = re.compile(r"GPL|General Public License|EUPL|CeCILL", re.IGNORECASE)


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements}


def listed() -> dict[str, dict[str, str]]:
    """Licences by package, by heading of the page."""
    text = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {title: dict(row for row in ROW.findall(body) if row[0] != "package") for title, _, body in parts}


def declared(package: str) -> str:
    """What a distribution says of its licence, without whole texts of licences."""
    about = metadata.metadata(package)
    classifiers = [name for name in about.get_all("Classifier") or [] if name.startswith("License ::")]
    # A missing field is None or an error, by the version of importlib.metadata: asked for all of it, it is none at all.
    said = [str(words) for field in ("License-Expression", "License") for words in about.get_all(field) or []]
    # A distribution may name nothing but the file, which begins with the licence's name.
    texts = [
        metadata.distribution(package).read_text(f"licenses/{name}") for name in about.get_all("License-File") or []
    ]
    said += [text for text in texts if text]
    return " | ".join([*(words.splitlines()[0][:100] for words in said if words.strip()), *classifiers])


def test_the_page_names_the_direct_dependencies_and_no_others() -> None:
    page, extras = listed(), PROJECT["optional-dependencies"]
    assert set(page["Always installed"]) == names(PROJECT["dependencies"])
    optional = set().union(*(names(extra) for name, extra in extras.items() if name != "dev"))
    assert set(page["With an extra"]) == optional
    assert set(page["For development"]) == names(extras["dev"]) - optional


# The libraries that run open models are installed by 'make test-torch' alone, and Inspect by 'make test-harnesses'.
EXTRAS = PROJECT["optional-dependencies"]
LOCAL = names(EXTRAS["local"] + EXTRAS["maps"]) if find_spec("torch") is None else set()
INSPECT = names(EXTRAS["inspect"]) if find_spec("inspect_ai") is None else set()
HERE = [row for part in listed().values() for row in part.items() if row[0] not in LOCAL | INSPECT]


@pytest.mark.parametrize(("package", "licence"), HERE)
def test_a_licence_is_the_one_the_distribution_declares_and_no_copyleft(package: str, licence: str) -> None:
    try:
        words = declared(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    assert re.search(WRITTEN[licence], words), words
    assert not COPYLEFT.search(words), words
