"""The section on altered pictures in a benchmark's card: their number, and the cases without altered pictures."""

from __future__ import annotations

from collections import Counter, defaultdict

from chexqa.files.jsonio import Record
from chexqa.files.text import markdown

_FILLS = {
    "inpaint": "a smooth continuation of the surroundings with the noise of lung tissue",
    "mean": "the mean grey level of the rim around it",
    "blur": "a blur of itself and its surroundings",
}


def lines(about: Record) -> list[str]:
    """Return the lines of a benchmark's card that describe its altered pictures, as Markdown; no lines if it has none.

    ``about`` is the content of ``benchmark.json``.
    """
    found = about.get("interventions")
    if found is None:
        return []
    counts = ", ".join(f"{name} {many:,}" for name, many in found["counts"].items())
    parts = [
        "## Altered pictures",
        f"Altered items by condition: {counts}. A filled area is replaced by {_FILLS[found['fill']]}.",
    ]
    if not found["not_audited"]:
        return parts
    cases: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in found["not_audited"]:
        cases[row["finding"], row["reason"]][row["condition"]] += row["cases"]
    names = [*found["counts"]]
    rows = [["finding", "why not audited", *names], ["---", "---", *("---:" for _ in names)]]
    rows += [
        [*key, *(f"{many[name]:,}" if many[name] else "" for name in names)] for key, many in sorted(cases.items())
    ]
    parts.append("Cases that cannot be asked under a condition are left out, and are never counted as 0:")
    parts.append("\n".join("| " + " | ".join(markdown(cell) for cell in row) + " |" for row in rows))
    return parts
