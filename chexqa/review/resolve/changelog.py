"""Text on what a review changed: the benchmark's page of changes, and a short card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from chexqa.contract.benchmark import CARD_MARK, Benchmark
from chexqa.contract.kinds import kind_order
from chexqa.files.jsonio import Record
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import markdown
from chexqa.review.columns import benchmark_mark
from chexqa.review.resolve.decide import STATUSES, UNREVIEWED

TITLE = "## Changes by expert review"
# Status of an item without faults that was removed together with its case.
LEFT = "left with its case"


def entry(
    version: str, before: Benchmark, statuses: Mapping[str, int], changes: Iterable[Record], about: Record, lost: int,
    readers: int,
) -> str:  # fmt: skip
    """Return the text on one version: the number of items judged, the results, and the number of cases that remain.

    - ``before``: the benchmark that was reviewed.
    - ``statuses``: the number of items in each status.
    - ``changes``: records of the schema ``review_change``.
    - ``about``: the new version's ``benchmark.json``.
    - ``lost``: the number of cases whose items on perception (stages 1 to 4) were all removed.
    - ``readers``: the number of reviewers.
    """
    rows = list(changes)
    judged = sum(count for status, count in statuses.items() if status != UNREVIEWED)
    decided = ", ".join(f"{statuses[status]:,} {status}" for status in STATUSES if statuses.get(status))
    old, new = before.about["counts"], about["counts"]
    lines = [
        f"### Version {markdown(version)}",
        f"From version {markdown(before.about['version'])} ({benchmark_mark(before.hash)}). "
        f"{plural(readers, 'person', 'people')} judged {judged:,} of {plural(old['items'], 'item')}: {decided}.",
        *_lost(lost),
        f"{plural(new['items'], 'item')} of {plural(new['cases'], 'case')} remain; before the review there were "
        f"{plural(old['items'], 'item')} of {plural(old['cases'], 'case')}.",
        *_table(rows),
        *_paths(old["paths"], new["paths"]),
    ]
    return "\n\n".join(lines)


def _lost(cases: int) -> list[str]:
    if not cases:
        return []
    return [
        f"{plural(cases, 'case')} lost all perception items, because an item of stages 1 to 3 was rejected, or "
        f"reviewers doubt the mask or label."
    ]


def _table(rows: list[Record]) -> list[str]:
    """Return a table of the changes: the number of items by kind, new status and reason."""
    if not rows:
        return []
    kinds = kind_order(row["kind"] for row in rows)
    counts = Counter(
        (kinds.index(row["kind"]), row["status"], "" if row["status"] == LEFT else row["why"]) for row in rows
    )
    lines = ["| kind | status | reason | items |", "| --- | --- | --- | ---: |"]
    for (kind, status, why), count in sorted(counts.items()):
        lines.append(f"| {kinds[kind]} | {status} | {markdown(why)} | {count:,} |")
    return [
        "\n".join(lines),
        "`review_changes.jsonl` lists the changes item by item, and `mask_review.jsonl` "
        "lists the masks to review again.",
    ]


def _paths(old: dict[str, dict[str, int]], new: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence on the findings and paths that have fewer cases now."""
    lost = [
        f"{markdown(finding)} {path.replace('_', '-')} {new.get(finding, {}).get(path, 0):,} of {count:,}"
        for finding, paths in old.items()
        for path, count in paths.items()
        if new.get(finding, {}).get(path, 0) < count
    ]
    return [f"Findings and paths that lost cases, with the cases that remain: {', '.join(lost)}."] if lost else []


def page(newest: str, older: str) -> str:
    """Return the text of the page of changes; the newest version comes first."""
    body = older.removeprefix(TITLE).strip()
    return "\n\n".join(part for part in (TITLE, newest, body) if part) + "\n"


def card(about: Record, changes: str) -> str:
    """Return a short card of a new version, with its changes; ``chexqa audit`` later replaces the card by the full one.

    ``about`` is the new version's ``benchmark.json``.
    """
    counts = about["counts"]
    notice = [f"**{PHANTOM_NOTICE[0].upper()}{PHANTOM_NOTICE[1:]}.**"] if about["data"] == "phantom" else []
    parts = [
        CARD_MARK,
        f"# {markdown(about['name'])} {markdown(about['version'])}",
        *notice,
        f"{plural(counts['items'], 'item')} of {plural(counts['cases'], 'case')}. No audit of this version was made; "
        "`chexqa audit`, with this folder, makes it and writes the full card.",
        changes.strip(),
        "## Canary",
        f"`{markdown(about['canary'])}`",
    ]
    return "\n\n".join(parts) + "\n"
