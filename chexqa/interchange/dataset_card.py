"""Parts of a data set's card on the Hugging Face hub (description, citation, audit), and the file ``eval.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from chexqa.contract.benchmark import CARD, CARD_MARK, Benchmark
from chexqa.contract.kinds import LEVELS
from chexqa.files.jsonio import Record, read_text, write_bytes
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import MissingError, read_whole
from chexqa.files.text import markdown, shown
from chexqa.interchange.dataset_about import DatasetAbout

FIGURES = "card"
SPLIT = "test"
FRAMEWORK = "chexqa"  # the framework's name in ``eval.yaml`` and in results for the hub
# Task of the mean over levels, and of the grid, in ``eval.yaml``.
OVERALL, GRID = "mean_of_levels", "grid"
_NO_AUDIT = (
    "This benchmark has not been audited, so nobody has looked for shortcuts in it. `chexqa audit` looks for shortcuts "
    "and writes its results into the benchmark's card."
)
_WITHHELD = "The audit's tables and figures tell how often each answer is right, so they are withheld with the answers."
_MARK, _PAIR = r"[^\s<>\"'`|\\()]", r"\([^\s<>\"'`|\\()]*\)"
# An address keeps pairs of brackets, such as those of a DOI, and ends before a mark of the sentence around it.
_ADDRESS = re.compile(rf"https?://(?:{_MARK}|{_PAIR})*(?:(?![.,;:!?\]}}]){_MARK}|{_PAIR})")
_FILES = re.compile(r"\b\w+\.jsonl\b")
_FIELDS = {
    "license": "Licence", "doi": "DOI", "url": "Address", "date_published": "Published", "collection": "Radiographs",
    "annotation": "Masks and labels", "biases": "Biases", "limitations": "Limits",
    "personal_information": "Personal information", "use_cases": "Uses", "social_impact": "Effects on people",
}  # fmt: skip


def copy_audit(benchmark: Benchmark, out: Path, withheld: bool) -> str | None:
    """Return the text of the benchmark's card and copy its figures into ``out``; None if no audit wrote a card.

    If the key is ``withheld``, the text is the card's summary (what stands before its first section), and no figure is
    copied: sections and figures tell how the answers are distributed.
    """
    try:
        text = read_text(benchmark.folder / CARD, inside=benchmark.folder)
    except MissingError:
        return None
    if not text.startswith(CARD_MARK):
        return None
    # The card's own title is left out, and its headings become those of a section.
    body = text.removeprefix(CARD_MARK).strip().partition("\n")[2].strip()
    if withheld:
        return f"{re.split(r'^## ', body, maxsplit=1, flags=re.MULTILINE)[0].strip()}\n\n{_WITHHELD}"
    figures = sorted((benchmark.folder / FIGURES).glob("*.svg"))
    if figures:
        (out / FIGURES).mkdir()
    for path in figures:
        write_bytes(out / FIGURES / path.name, read_whole(path, MAX_PICTURE_BYTES, benchmark.folder))
    missing = sorted(set(_FILES.findall(body)))
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        body = f"Of the files named here, these are in the benchmark's folder, not in this data set: {names}.\n\n{body}"
    return "\n".join(f"#{line}" if line.startswith("##") else line for line in body.split("\n"))


def text(benchmark: Benchmark, about: DatasetAbout, audit: str | None, croissant_version: str) -> str:
    """Return the card's sections on data set, citation and audit.

    ``audit`` is the result of :func:`copy_audit`. ``croissant_version`` is the data set's version as the Croissant
    metadata state it.
    """
    version = str(benchmark.about["version"])
    lines = ["## About the data set", ""]
    if croissant_version != version:
        lines.append(
            f"- **Version**: {markdown(version)}, in `croissant.json` {markdown(croissant_version)}, because Croissant "
            "wants three numbers"
        )
    lines += [f"- **{words}**: {_linked(str(about.get(name)))}" for name, words in _FIELDS.items()
              if about.get(name) is not None]  # fmt: skip
    for one in about.get("sources") or ():
        told = ", ".join(_linked(one[name]) for name in ("name", "url", "license") if name in one)
        lines.append(f"- **Source**: {told}")
    if about.missing:
        lines.append(f"- **Not given**: {', '.join(about.missing)}")
    lines += ["", "## Citation", ""]
    citation = about.get("citation")
    lines += ["```", *str(citation).replace("```", "").split("\n"), "```"] if citation else [
        "Nobody has said how to cite this data set. Name its version and hash: "
        f"{markdown(about.name(benchmark))} {markdown(version)}, {benchmark.hash}."
    ]  # fmt: skip
    lines += ["", "## Audit", "", _NO_AUDIT if audit is None else audit, ""]
    return "\n".join(lines)


def _linked(text: str) -> str:
    """Return text as one line of Markdown that shows it literally, with each address as a link."""
    parts, end = [], 0
    for found in _ADDRESS.finditer(shown(text)):
        parts += [markdown(shown(text)[end : found.start()]), f"<{found[0]}>"]
        end = found.end()
    return "".join([*parts, markdown(shown(text)[end:])])


def eval_yaml(benchmark: Benchmark, about: DatasetAbout) -> str:
    """Return ``eval.yaml``, the file that declares a data set to be a benchmark on the Hugging Face hub.

    The file has a task for each main score. The hub ignores the file as long as chexqa is not on the hub's list of
    evaluation frameworks.
    """
    kinds = benchmark.kinds
    levels = [level for level in LEVELS if any(kinds[item.kind].level == level for item in benchmark.items)]
    names = [*levels, *([OVERALL] if len(levels) > 1 else [])]
    if any(item.form.name == "cell" for item in benchmark.items):
        names.append(GRID)
    record: Record = {
        "name": about.name(benchmark),
        "description": "Perception on chest radiographs, from the presence of a finding to its outline and its place; "
                       "accuracy corrected for chance (levels) and hit rate (grid).",
        "evaluation_framework": FRAMEWORK,
        "tasks": [{"id": name, "config": "default", "split": SPLIT} for name in names],
    }  # fmt: skip
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=1000)
