"""New benchmark version from a benchmark and its reviewers' verdicts.

Pictures of remaining items are hard-linked or copied. The new version's key holds verdicts and reasons, but no names
and comments of reviewers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.contract.benchmark import CARD, CHANGES, Benchmark, Contents, thumb_path
from chexqa.contract.items import CONTESTED, PATHS, Answer, CaseKey, Item, Tally, with_priors
from chexqa.files import limits
from chexqa.files.atomic import new_folder
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_jsonl, read_text, write_bytes, write_jsonl
from chexqa.files.opening import MissingError, link_or_copy, real
from chexqa.review.collect.verdicts import Verdict, by_item
from chexqa.review.resolve import changelog
from chexqa.review.resolve.changelog import LEFT
from chexqa.review.resolve.decide import (
    CORRECTED,
    READERS_TO_REMOVE,
    REJECTED,
    SENT_BACK,
    UNREVIEWED,
    Decision,
    decide,
)

# Writer of altered items: it takes the old benchmark, the new folder and the ids of the items whose keys stay, and
# returns the field "interventions" of the new benchmark.json.
Carry = Callable[[Benchmark, Path, Set[str]], Record]
CHANGED, MASK_REVIEW = "review_changes.jsonl", "mask_review.jsonl"


@dataclass(frozen=True)
class Applied:
    """New version of a benchmark, before anything is written.

    - ``decisions``: the decision on each item, keyed by item id.
    - ``gone``: the reason for each removed item, keyed by item id.
    - ``changes``: records of the schema ``review_change``.
    - ``mask_review``: records of the schema ``mask_review``.
    - ``lost``: the number of cases that lose their perception items (stages 1 to 4).
    """

    bench: Benchmark
    version: str
    contents: Contents
    decisions: Mapping[str, Decision]
    gone: Mapping[str, str]
    changes: tuple[Record, ...]
    mask_review: tuple[Record, ...]
    lost: int
    readers: int


def apply_verdicts(
    bench: Benchmark, verdicts: Iterable[Verdict], version: str | None = None,
    readers_to_remove: int = READERS_TO_REMOVE,
) -> Applied:  # fmt: skip
    """Decide on every item and return the new version's content.

    ``version`` is by default named by :func:`next_version`. Raises ``InputError`` if no item has a verdict, or if no
    item would be left.
    """
    answers, cases = bench.key("applying a review")
    said = by_item(verdicts, bench)
    decisions = {
        item.item_id: decide(item, answers[item.item_id], said.get(item.item_id, ()), readers_to_remove)
        for item in bench.items
    }
    if all(decision.status == UNREVIEWED for decision in decisions.values()):
        raise InputError(f"{bench.folder}: none of its items has a verdict in the files given; import sheets first.")
    gone, lost = _leaving(bench.items, decisions)
    items = tuple(item for item in bench.items if item.item_id not in gone)
    if not items:
        raise InputError(f"{bench.folder}: the review would remove every item; adjudicate the rejected items first.")
    version = version or next_version(str(bench.about["version"]))
    names = _names(decisions.values())
    stay = _new_cases(items, cases, lost)
    paths = {case.case_id: case.path for case in stay}
    new = [
        _new_answer(item, answers[item.item_id], decisions[item.item_id], names, version, paths[item.case_id])
        for item in items
    ]
    contents = Contents(
        items, tuple(with_priors(items, new)), stay, _skipped(bench, items, cases, lost),
        _shortfall(bench, items, stay),
    )  # fmt: skip
    return Applied(
        bench, version, contents, decisions, gone, tuple(_changes(bench, decisions, gone, answers, cases)),
        tuple(_mask_review(bench.items, decisions, cases)), len(lost), len(names),
    )  # fmt: skip


def next_version(version: str) -> str:
    """Return the version that follows ``version``.

    The parts of a version are separated by dots. If the last part is a number, it rises by one; if not, ".1" is added.

    >>> next_version("1"), next_version("1.9"), next_version("draft")
    ('2', '1.10', 'draft.1')
    """
    head, dot, last = version.rpartition(".")
    return f"{head}{dot}{int(last) + 1}" if last.isascii() and last.isdigit() else f"{version}.1"


def _leaving(items: Sequence[Item], decisions: Mapping[str, Decision]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the reasons for removed items, and for cases that lose all perception items, both keyed by id."""
    lost: dict[str, str] = {}
    gone: dict[str, str] = {}
    for item in items:
        status = decisions[item.item_id].status
        if status not in (REJECTED, SENT_BACK):
            continue
        gone[item.item_id] = status
        # A rejected item of stage 4 or of the grid is removed alone.
        if item.stage is not None and (status == SENT_BACK or item.stage < 4):
            lost.setdefault(item.case_id, f"its {item.kind} was {status}")
    for item in items:
        if item.case_id in lost and item.stage is not None:
            gone.setdefault(item.item_id, lost[item.case_id])
    return gone, lost


def _new_cases(items: Iterable[Item], cases: Mapping[str, CaseKey], lost: Mapping[str, str]) -> tuple[CaseKey, ...]:
    """Return the cases that still have an item; a case that keeps only a grid item has no path."""
    left = {item.case_id for item in items}
    return tuple(
        replace(case, path=None) if case_id in lost else case for case_id, case in cases.items() if case_id in left
    )


def _names(decisions: Iterable[Decision]) -> dict[tuple[str, bool], str]:
    """Return the names that replace the reviewers' names, keyed by name and role (True: adjudicator)."""
    people = sorted({(vote.reviewer, vote.rules) for decision in decisions for vote in decision.votes})
    readers = [person for person in people if not person[1]]
    names = {person: f"reader {number}" for number, person in enumerate(readers, start=1)}
    rulers = [person for person in people if person[1]]
    return names | {person: f"adjudicator {number}" for number, person in enumerate(rulers, start=1)}


def _new_answer(
    item: Item, answer: Answer, decision: Decision, names: Mapping[tuple[str, bool], str], version: str, path: object
) -> Answer:
    """Return the key of a remaining item; an item without verdicts keeps its earlier review."""
    answer = replace(answer, path=path)  # type: ignore[arg-type]
    if decision.status == UNREVIEWED:
        return answer
    review: Record = {
        "status": decision.status,
        "why": decision.why,
        "version": version,
        "votes": [vote.to_record(names[vote.reviewer, vote.rules]) for vote in decision.votes],
        "proposed": list(answer.answer),
        "earlier": answer.review,
    }
    flags = [flag for flag in answer.flags if flag != CONTESTED]
    if decision.status == CONTESTED:
        flags.append(CONTESTED)
    right = answer.answer if decision.answer is None else decision.answer
    # The chance of a grid question is its share of cells that are hits.
    chance = answer.chance if item.form.lists_options or right == answer.answer else len(right) / len(item.options)
    return replace(answer, answer=right, chance=chance, flags=tuple(flags), review=review)


def _skipped(
    bench: Benchmark, items: Iterable[Item], cases: Mapping[str, CaseKey], lost: Mapping[str, str]
) -> tuple[Record, ...]:
    """Return the old version's skipped cases, and the cases that the review removed."""
    path = bench.folder / benchmark.SKIPPED
    rows = [record for _, record in read_jsonl(path, "skipped", bench.folder)] if path.exists() else []
    left = {item.case_id for item in items}
    finding = {item.case_id: item.finding for item in bench.items}
    for case_id, case in cases.items():
        if case_id in left and case_id not in lost:
            continue
        task = None if case_id not in left else "perception"
        reason = f"expert review: {lost.get(case_id, 'its last item was taken out')}"
        rows.append(
            {"source_case_id": case.source_case_id, "finding": finding[case_id], "task": task, "reason": reason}
        )
    return tuple(rows)


def _shortfall(bench: Benchmark, items: Iterable[Item], cases: Iterable[CaseKey]) -> tuple[Record, ...]:
    """Return the quotas that the new version does not meet."""
    made = bench.about["counts"]["paths"]
    # A quota that the old version met is not on record. The number of its cases takes the place of the quota.
    quotas = {(finding, path): count for finding, counts in made.items() for path, count in counts.items()}
    quotas |= {(row["finding"], row["path"]): row["quota"] for row in bench.about["shortfall"]}
    tally = Tally()
    for item in items:
        tally.item(item)
    for case in cases:
        tally.case(case)
    rows = []
    for finding, path in sorted(quotas, key=lambda pair: (pair[0], PATHS.index(pair[1]) if pair[1] in PATHS else 9)):
        left = tally.paths.get(finding, {}).get(path, 0)
        if left < quotas[finding, path]:
            rows.append({"finding": finding, "path": path, "quota": quotas[finding, path], "made": left})
    return tuple(rows)


def _changes(
    bench: Benchmark, decisions: Mapping[str, Decision], gone: Mapping[str, str], answers: Mapping[str, Answer],
    cases: Mapping[str, CaseKey],
) -> Iterable[Record]:  # fmt: skip
    """Yield a record for each item that was corrected, contested, or removed."""
    for item in bench.items:
        decision = decisions[item.item_id]
        status, why = decision.status, decision.why
        if item.item_id in gone and status not in (REJECTED, SENT_BACK):
            status, why = LEFT, gone[item.item_id]
        if status not in (CORRECTED, REJECTED, SENT_BACK, CONTESTED, LEFT):
            continue
        before = list(answers[item.item_id].answer)
        after = None if item.item_id in gone else list(decision.answer or before)
        yield {
            "item_id": item.item_id, "case_id": item.case_id, "source_case_id": cases[item.case_id].source_case_id,
            "kind": item.kind, "finding": item.finding, "status": status, "why": why, "before": before, "after": after,
        }  # fmt: skip


def _mask_review(
    items: Iterable[Item], decisions: Mapping[str, Decision], cases: Mapping[str, CaseKey]
) -> Iterable[Record]:
    """Yield a record for each case with a doubted mask."""
    doubted: dict[str, list[Item]] = {}
    for item in items:
        if decisions[item.item_id].status == SENT_BACK:
            doubted.setdefault(item.case_id, []).append(item)
    for case_id, found in doubted.items():
        reasons = sorted({decisions[item.item_id].why for item in found})
        yield {
            "case_id": case_id, "source_case_id": cases[case_id].source_case_id, "finding": found[0].finding,
            "items": [item.item_id for item in found], "why": "; ".join(reasons),
        }  # fmt: skip


def write_version(applied: Applied, out: Path, carry: Carry | None = None) -> Record:
    """Write the new version's folder, completely or not at all, and return its ``benchmark.json``.

    ``carry`` writes the altered items. Without it, a benchmark with altered items is refused.
    """
    if "interventions" in applied.bench.about and carry is None:
        raise InputError(f"{applied.bench.folder}: has altered items; call write_version() with the argument 'carry', "
                         "as 'chexqa review apply' does.")  # fmt: skip
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name a new folder with -o.")
    if not real(out).parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist; make it first.")
    with new_folder(out) as folder:
        return _write(applied, folder, carry)


def _write(applied: Applied, folder: Path, carry: Carry | None) -> Record:
    bench = applied.bench
    for image in sorted(set().union(*(item.image_paths for item in applied.contents.items))):
        bench.image_bytes(image)
        _link(bench, image, folder, limits.MAX_PICTURE_BYTES)
        with suppress(MissingError):
            _link(bench, thumb_path(image), folder, benchmark.MAX_THUMB_BYTES)
    head = {**bench.about, "version": applied.version}
    if carry is not None and "interventions" in head:
        before, _ = bench.key("applying a review")
        same = {one.item_id for one in applied.contents.answers if one.answer == before[one.item_id].answer}
        head["interventions"] = carry(bench, folder, same)
    about = benchmark.write_contents(folder, head, applied.contents).about
    write_jsonl(folder / CHANGED, applied.changes, "review_change")
    write_jsonl(folder / MASK_REVIEW, applied.mask_review, "mask_review")
    entry = changelog.entry(
        applied.version, bench, Counter(decision.status for decision in applied.decisions.values()), applied.changes,
        about, applied.lost, applied.readers,
    )  # fmt: skip
    older = ""
    with suppress(MissingError):
        older = read_text(bench.folder / CHANGES, inside=bench.folder)
    text = changelog.page(entry, older)
    write_bytes(folder / CHANGES, text.encode())
    write_bytes(folder / CARD, changelog.card(about, text).encode())
    return about


def _link(bench: Benchmark, name: str, folder: Path, most_bytes: int) -> None:
    """Link or copy a file of the old version into the new folder."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    link_or_copy(bench.folder / name, folder / name, most_bytes, bench.folder)
