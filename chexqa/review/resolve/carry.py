"""Transfer of verdicts to a new benchmark or manifest, for all items or masks that are unchanged in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import MARKER, Item
from chexqa.files.errors import InputError
from chexqa.review.binding import question_seen
from chexqa.review.collect.verdicts import Verdict, seen_in
from chexqa.review.columns import item_row_id
from chexqa.review.resolve.mask_hashes import ManifestMasks


@dataclass(frozen=True)
class NotCarried:
    """Verdict that was not carried over to the new benchmark or manifest, with the reason.

    - ``why``: the reason.
    - ``case_id``: the id of the case in the new benchmark or manifest; ``None`` if the case is not there.
    - ``item_id``: the id of the item in the new benchmark; ``None`` if the item is not there. A verdict on a mask has
      no item.
    """

    verdict: Verdict
    why: str
    case_id: str | None
    item_id: str | None = None


@dataclass(frozen=True)
class Carried:
    """Verdicts on the old benchmark or manifest, and what has to be judged in the new one.

    - ``verdicts``: the verdicts that were carried over.
    - ``not_carried``: the verdicts that were not.
    - ``fresh``: new items on reviewed cases.
    """

    verdicts: tuple[Verdict, ...]
    not_carried: tuple[NotCarried, ...]
    fresh: tuple[Item, ...] = ()

    @property
    def cases(self) -> tuple[str, ...]:
        """Return the ids of the cases with an item or mask to judge: from ``not_carried``, then from ``fresh``."""
        again = [one.case_id for one in self.not_carried if one.verdict.is_on_mask or one.item_id is not None]
        return tuple(
            dict.fromkeys(name for name in [*again, *(item.case_id for item in self.fresh)] if name is not None)
        )

    @property
    def items(self) -> tuple[str, ...]:
        """Return the ids of the items to judge in the new benchmark; empty if the verdicts are on masks."""
        again = [one.item_id for one in self.not_carried if one.item_id is not None]
        return tuple(dict.fromkeys([*again, *(item.item_id for item in self.fresh)]))


def carry(old: Path, new: Path, verdicts: Iterable[Verdict], image_root: Path | None = None) -> Carried:
    """Carry the verdicts that were given on ``old`` over to ``new``.

    ``old`` and ``new`` are two benchmarks; for verdicts on masks, they are two manifests. Raise ``InputError`` for a
    verdict that is not on ``old``.
    """
    kinds = [(path / benchmark.ABOUT).is_file() for path in (old, new)]
    if kinds[0] != kinds[1]:
        names = ["a benchmark" if kind else "a manifest" for kind in kinds]
        raise InputError(f"{old} is {names[0]} and {new} is {names[1]}; give two benchmarks, or two manifests.")
    fresh: tuple[Item, ...] = ()
    if kinds[0]:
        before, after, given = benchmark.load(old), _NewItems(benchmark.load(new)), list(verdicts)
        found = _carry_items(before, after, given)
        judged_rows = {one.row for one in given}
        judged_cases = {item.case_id for item in before.items if item_row_id(item.item_id) in judged_rows}
        fresh = after.added_to([item for item in before.items if item.case_id in judged_cases])
    else:
        found = _carry_masks(ManifestMasks(old, image_root), ManifestMasks(new, image_root), verdicts)
    kept, left = [], []
    for one in found:
        if isinstance(one, NotCarried):
            left.append(one)
        else:
            kept.append(one)
    return Carried(tuple(kept), tuple(left), fresh)


class _NewItems:
    """Items of the new benchmark, found by id or by the hash of their shown content."""

    def __init__(self, bench: Benchmark) -> None:
        self.bench = bench
        self.answers, self.cases = bench.key("carrying verdicts over")

    @cached_property
    def _by_question(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for item in self.bench.items:
            found.setdefault(question_seen(item), []).append(item.item_id)
        return found

    def added_to(self, old_items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items that the new benchmark adds to the cases of ``old_items``; test markers are left out.

        An item is added if no item in ``old_items`` has the same question, pictures and options.
        """
        cases, asked = {item.case_id for item in old_items}, {question_seen(item) for item in old_items}
        items = (item for item in self.bench.items if item.case_id in cases and item.finding != MARKER)
        return tuple(item for item in items if question_seen(item) not in asked)

    def same_question(self, item: Item) -> str | None:
        """Return the id of the new item with this question, options and pictures, or ``None``."""
        found = self._by_question.get(question_seen(item), [])
        # Among several such items, only the one with this item's id is sure.
        return item.item_id if item.item_id in found else found[0] if len(found) == 1 else None


def _carry_items(old: Benchmark, new: _NewItems, verdicts: Iterable[Verdict]) -> Iterable[Verdict | NotCarried]:
    rows = {item_row_id(item.item_id): item for item in old.items}
    for verdict in verdicts:
        item = rows.get(verdict.row)
        if item is None or (verdict.benchmark != old.hash and verdict.seen != seen_in(old, verdict, item.item_id)):
            raise InputError(
                f"verdict on '{verdict.row}': is from a review of a benchmark other than {old.folder}; give "
                "the reviewed benchmark as OLD."
            )
        target = new.same_question(item)
        why = _item_differs(old, new, verdict, item, target)
        if why is not None or target is None:
            there = new.bench.item.get(target or item.item_id)
            case_id = there.case_id if there is not None else item.case_id if item.case_id in new.cases else None
            yield NotCarried(verdict, why or "", case_id, None if there is None else there.item_id)
            continue
        seen = verdict.seen or seen_in(old, verdict, item.item_id)
        yield _moved(verdict, new.bench.hash, item_row_id(target), seen)


def _item_differs(old: Benchmark, new: _NewItems, verdict: Verdict, item: Item, target: str | None) -> str | None:
    """Return the reason why a verdict on an item cannot be carried over; ``None`` if it can."""
    if target is None:
        there = new.bench.item.get(item.item_id)
        if there is None:
            gone = "question is not asked there" if item.case_id in new.cases else "case is not in the new benchmark"
            return f"its {gone}"
        return "its pictures changed" if there.question == item.question else "its question changed"
    if verdict.asks_answer:
        return None
    if verdict.planted is not None:
        key = new.answers[target].answer
        return (
            "the proposal, which was wrong on purpose, is the key now"
            if new.bench.item[target].form.is_right(key, verdict.planted)
            else None
        )
    if seen_in(old, verdict, item.item_id) == seen_in(new.bench, verdict, target):
        return None
    key = old.key("carrying verdicts over")[0][item.item_id].answer
    return "the masks behind its key changed" if new.answers[target].answer == key else "its key changed"


def _carry_masks(old: ManifestMasks, new: ManifestMasks, verdicts: Iterable[Verdict]) -> Iterable[Verdict | NotCarried]:
    for verdict in verdicts:
        if not verdict.is_on_mask:
            raise InputError(
                f"verdict on '{verdict.row}': is on an item, but {old.path} is a manifest; OLD and NEW must be the "
                "old and the new benchmark."
            )
        case_id = old.by_row.get(verdict.row)
        if case_id is None or not old.is_same(verdict, case_id):
            raise InputError(
                f"verdict on '{verdict.row}': is from a review of masks other than those of {old.path}; give "
                "the reviewed manifest as OLD."
            )
        if case_id not in new.places:
            yield NotCarried(verdict, "its case is not in the new manifest", None)
        elif new.seen(case_id) != old.seen(case_id):
            yield NotCarried(verdict, "its mask, lungs or radiograph changed", case_id)
        else:
            yield _moved(verdict, new.hash, verdict.row, old.seen(case_id))


def _moved(verdict: Verdict, onto: str, row: str, seen: str) -> Verdict:
    return replace(verdict, benchmark=onto, row=row, seen=seen, carried=verdict.carried or verdict.benchmark)
