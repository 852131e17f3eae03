"""Facts about a benchmark's data set that are not in the benchmark: licence, people, sources, collection of the images.

The user writes these facts into a YAML file (schema ``dataset_about``). Fields that the file lacks are never invented;
:attr:`DatasetAbout.missing` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexqa.contract.benchmark import Benchmark
from chexqa.files.jsonio import Record, read_yaml
from chexqa.files.terminal import PHANTOM_NOTICE

# Fields that a venue asks for, in the order in which they are named if they are missing.
WANTED = (
    "license", "creators", "url", "date_published", "doi", "citation", "sources", "collection", "annotation",
    "biases", "personal_information",
)  # fmt: skip
_SPDX = "https://spdx.org/licenses/"
# Answers that follow from the fact that every radiograph was drawn by the program.
_OF_PHANTOMS: Record = {
    "license": "Apache-2.0",
    "sources": [{"name": "chexqa's drawn phantoms"}],
    "collection": "No radiograph was collected. A program draws parametric chests from random numbers with a seed.",
    "annotation": "No person drew a mask or set a label. The program that draws a finding also makes its mask.",
    "biases": "The drawings represent no population. Findings, sizes, ages and sexes are drawn from fixed ranges.",
    "personal_information": "None: the radiographs show nobody.",
}


@dataclass(frozen=True)
class DatasetAbout:
    """Facts on one data set: the fields of the user's file; for phantoms, also the facts that hold for all phantoms."""

    given: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a field, or None if nobody gave it."""
        return self.given.get(name)

    def name(self, benchmark: Benchmark) -> str:
        """Return the data set's name: the user's, or that of the benchmark."""
        return str(self.given.get("name", benchmark.name))

    @property
    def missing(self) -> list[str]:
        """The names of wanted fields that are in neither the file nor the benchmark."""
        return [name for name in WANTED if name not in self.given]

    @property
    def license_url(self) -> str | None:
        """The licence as a URL."""
        name = self.given.get("license")
        return name if name is None or "/" in name else f"{_SPDX}{name}.html"

    @property
    def doi_url(self) -> str | None:
        """The DOI as a URL."""
        return f"https://doi.org/{self.given['doi']}" if "doi" in self.given else None


def load(path: Path | None, benchmark: Benchmark) -> DatasetAbout:
    """Read the user's file, if there is one; for phantoms, add the facts that are known for all phantoms."""
    given = {} if path is None else read_yaml(path, "dataset_about")
    return DatasetAbout({**(_OF_PHANTOMS if benchmark.is_phantom else {}), **given})


def description(benchmark: Benchmark) -> str:
    """Return a description of the data set in one paragraph."""
    counts = benchmark.about["counts"]
    drawn = f" Made from {PHANTOM_NOTICE}." if benchmark.is_phantom else ""
    return (
        f"Questions on findings that can be seen on chest radiographs: {counts['items']:,} items of "
        f"{counts['cases']:,} "
        f"cases. They ask about the presence, the outline and the place of a finding.{drawn}"
    )


def responsible_ai(benchmark: Benchmark, about: DatasetAbout) -> dict[str, Any]:
    """Return the properties of Croissant's RAI vocabulary; properties without a known value are left out.

    A property begins with chexqa's text, which is the same for all benchmarks. The user's text follows.
    """
    limits = (
        "The questions test perception on frontal chest radiographs with the findings listed, not diagnosis. Keys are "
        "computed from masks and are only as good as the masks. Results on one benchmark say nothing about other "
        "populations, devices or findings, and must not be used for clinical decisions."
    )
    uses = (
        "Meant for the evaluation of models that read images and text, and of the agreement of readers. Not meant for "
        "training, for clinical use, or for the ranking of products."
    )
    impact = (
        "Questions with provable answers show what a model sees and what it guesses. A high score can be mistaken for "
        "fitness for clinical use. A published key can become part of training data, unless data with the canary "
        "string are filtered out."
    )
    own = {name: about.get(name) for name in ("limitations", "use_cases", "social_impact")}
    made: dict[str, Any] = {
        "rai:dataLimitations": _joined(limits, own["limitations"]),
        "rai:dataBiases": about.get("biases"),
        "rai:personalSensitiveInformation": about.get("personal_information"),
        "rai:dataUseCases": _joined(uses, own["use_cases"]),
        "rai:dataSocialImpact": _joined(impact, own["social_impact"]),
        "rai:hasSyntheticData": benchmark.is_phantom,
        "rai:dataCollection": about.get("collection"),
        "rai:dataAnnotationProtocol": about.get("annotation"),
    }
    return {name: value for name, value in made.items() if value is not None}


def _joined(text: str, more: str | None) -> str:
    return text if more is None else f"{text} {more}"
