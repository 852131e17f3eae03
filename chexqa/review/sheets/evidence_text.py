"""Evidence in words that a reviewer can check by eye, and flags that mark an item worth a second look.

Numbers come from the key's evidence as generation stored it. Lengths are in pixels of a picture with a longer side of
1024, as in the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chexqa.contract.items import GRID, Answer, CaseKey, Item

UNSTABLE, NEAR, HARD = "unstable", "near a threshold", "hard to see"
FLAG_WORDS = {
    UNSTABLE: "slightly different masks would give another answer",
    NEAR: "a measured number lies close to where the answer changes",
    HARD: "a small lesion, or a small error in the outline",
}
# Shares that are near the recipes' thresholds: of a region (20 and 25 %), of a cell, of a lung, between lungs.
_REGION_NEAR, _CELL_NEAR = (0.15, 0.30), (0.45, 0.55)
_LUNG_CUTS, _LUNG_NEAR, _RATIO_NEAR = (1 / 3, 2 / 3), 0.05, (1.35, 1.65)
_SMALL_LESION, _SMALL_DEPTH, _SMALL_SHARE = 0.005, 18.0, 0.08
_MAX_PLACES = 6

Words = Callable[[Item, dict[str, Any], CaseKey], str]


def evidence_words(item: Item, answer: Answer, case: CaseKey) -> str:
    """Return the evidence behind the proposed answer, one fact a line; empty if the key holds none."""
    words = _WORDS.get(item.kind)
    try:
        return "" if words is None or not answer.evidence else words(item, answer.evidence, case)
    except (KeyError, IndexError, TypeError, ValueError):
        # Evidence has no schema: a benchmark of another tool may hold other numbers, which are shown unchanged.
        return "; ".join(f"{name}: {value}" for name, value in answer.evidence.items())[:1000]


def proposed_words(item: Item, answer: Answer) -> str:
    """Return the proposed answer in words, one right option a line."""
    if not answer.answer:
        return "no cell can be hit"
    by_number = {option.n: option for option in item.options}
    if item.kind == GRID:
        cells = ", ".join(str(by_number[number].text) for number in answer.answer)
        return cells if len(answer.answer) == 1 else f"any of {cells}"
    return "\n".join(f"{number}. {by_number[number].text or f'picture {number}'}" for number in answer.answer)


def flags(item: Item, answer: Answer) -> tuple[str, ...]:
    """Return the item's flags: those of the key, near a threshold, hard to see."""
    found = list(answer.flags)
    try:
        found += [NEAR] if _is_near(item.kind, answer.evidence) else []
        found += [HARD] if _is_hard(item.kind, answer.evidence) else []
    except (KeyError, TypeError, ValueError):
        pass  # evidence of another tool: only the key's flags count
    return tuple(dict.fromkeys(found))


def place(region: str) -> str:
    """Return a region's name in words: ``right_mid_lateral`` as "lateral part of the right mid zone"."""
    side, zone, part = region.split("_")
    return f"{side} costophrenic angle" if zone == "costophrenic" else f"{part} part of the {side} {zone} zone"


def percent(share: float) -> str:
    """Return a share as percent, with one decimal below 10 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def _detection(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    if evidence["lesion_share"]:
        return f"the mask covers {percent(evidence['lesion_share'])} of the picture"
    kind = {"normal": "its source says: no finding", "other": "its source says: other findings, not this one"}
    return "no mask; " + kind.get(str(case.measures.get("negative_kind")), "its source says: absent")


def _edit_words(edit: dict[str, Any]) -> str:
    wrong = "takes in too much" if edit["over"] else "leaves out a part"
    return f"{wrong} ({edit['depth']:.0f} px deep, {percent(edit['share'])} of the lesion)"


def _contour(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    errors = [_edit_words(edit) for edit in evidence["edits"] if edit["true"]]
    if not errors:
        return "the outline shown is the approved one"
    return "\n".join([f"overlaps the approved outline by {percent(evidence['iou'])} (IoU)", *errors])


def _points(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    lines = []
    for option, point in zip(item.options, evidence["points"], strict=False):
        if point["edit"] is not None:
            # An area taken in by mistake lies inside the outline shown, an area left out lies outside.
            where = "inside: too much is taken in" if point["inside"] else "outside: a part is left out"
            lines.append(f"{option.color}: {point['distance']:.0f} px {where}")
    return "\n".join([*lines, "nothing is wrong at the other points"])


def _result(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    lines = []
    for number, errors in enumerate(evidence["errors"], start=1):
        wrong = [_edit_words(evidence["edits"][edit]) for edit in errors]
        lines.append(f"{number}: {'; '.join(wrong) if wrong else 'the approved outline'}")
    return "\n".join(lines)


def _distribution(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    union = evidence["union"]
    involved = sorted(evidence["involved"], key=lambda name: -union[name])
    others = sorted((name for name in union if name not in involved and union[name]), key=lambda name: -union[name])
    zones = {_zone(name) for name in involved}
    lines = [f"{len(zones)} of six zones"]
    lines += [f"covers {percent(union[name])} of the {place(name)}" for name in involved[:_MAX_PLACES]]
    if len(involved) > _MAX_PLACES:
        lines.append(f"and {len(involved) - _MAX_PLACES} more places")
    if others:
        lines.append(f"not counted: {percent(union[others[0]])} of the {place(others[0])}")
    return "\n".join(lines)


def _zone(region: str) -> tuple[str, str]:
    side, zone, _ = region.split("_")
    return side, "lower" if zone == "costophrenic" else zone


def _location(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    return "\n".join(f"covers {percent(evidence['union'].get(name, 0.0))} of the {place(name)}"
                     for name in evidence["shown"])  # fmt: skip


def _severity(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    return f"covers {percent(evidence['lung_share'].get(evidence['side'], 0.0))} of the {evidence['side']} lung"


def _comparison(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    areas = {side: evidence["lung_area"].get(side, 0) for side in ("right", "left")}
    lines = [f"{side} lung: {area:,} px, {percent(evidence['lung_share'].get(side, 0.0))} of it"
             for side, area in areas.items()]  # fmt: skip
    if min(areas.values()):
        lines.append(f"one is {max(areas.values()) / min(areas.values()):.1f} times the other")
    return "\n".join(lines)


def _grid(item: Item, evidence: dict[str, Any], case: CaseKey) -> str:
    covered = sorted(zip(evidence["coverage"], item.options, strict=True), key=lambda cell: -cell[0])
    cells = [f"{percent(share)} of {option.text}" for share, option in covered[:_MAX_PLACES] if share]
    return f"covers {', '.join(cells)}" if cells else "the mask is empty"


_WORDS: dict[str, Words] = {
    "detection": _detection,
    "contour_evaluation": _contour,
    "revision_expansion": _points,
    "revision_contraction": _points,
    "revision_result": _result,
    "distribution": _distribution,
    "location": _location,
    "severity": _severity,
    "comparison": _comparison,
    GRID: _grid,
}


def _is_near(kind: str, evidence: dict[str, Any]) -> bool:
    def between(value: float, limits: tuple[float, float]) -> bool:
        return limits[0] <= value <= limits[1]

    if kind == "location":
        return any(between(evidence["union"].get(name, 0.0), _REGION_NEAR) for name in evidence["shown"])
    if kind == "distribution":
        most: dict[tuple[str, str], float] = {}
        for name, share in evidence["union"].items():
            most[_zone(name)] = max(share, most.get(_zone(name), 0.0))
        return any(between(share, _REGION_NEAR) for share in most.values())
    if kind == "severity":
        share = evidence["lung_share"].get(evidence["side"], 0.0)
        return any(abs(share - cut) <= _LUNG_NEAR for cut in _LUNG_CUTS)
    if kind == "comparison":
        low, high = sorted(evidence["lung_area"].get(side, 0) for side in ("right", "left"))
        return bool(low) and between(high / low, _RATIO_NEAR)
    return kind == GRID and any(between(share, _CELL_NEAR) for share in evidence["coverage"])


def _is_hard(kind: str, evidence: dict[str, Any]) -> bool:
    if kind == "detection":
        return bool(0 < evidence["lesion_share"] < _SMALL_LESION)
    if kind not in ("contour_evaluation", "revision_result"):
        return False
    true = [edit for edit in evidence["edits"] if edit["true"]]
    return any(edit["depth"] < _SMALL_DEPTH or edit["share"] < _SMALL_SHARE for edit in true)
