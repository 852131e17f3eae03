"""Layout of CheXpercept's own release: the fields of each kind of item, its pictures and its list of options.

``chexpercept.json`` maps ``<finding>_<pair_id>`` to the questions of a case (schema ``chexpercept_case``). The pictures
of the case are in ``chexpercept/<finding>_<pair_id>/``. Source: CheXpercept (arXiv 2606.21020) and its evaluation
scripts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import Path
from chexqa.files.jsonio import Record

INDEX, PICTURES = "chexpercept.json", "chexpercept"
XRAY = "detection_qa/xray.png"
OVERLAY = "contour_eval_qa/xray_with_mask.png"
REVISION_FOLDER = "contour_revision_qa"
POINTS = f"{REVISION_FOLDER}/xray_with_mask_and_points.png"
# Word at the end of a question; its options follow as "(1) …".
LIST_HEAD = "Options:"
NO_POINT = "None"
# Prefix of the ids of exported phantom cases, so that nobody mistakes them for patients.
PHANTOM = "phantom-"

REVISIONS = {
    "revision_expansion": "expansion", "revision_contraction": "contraction", "revision_result": "revision_result",
}  # fmt: skip
ATTRIBUTES = {
    "distribution": "distribution", "location": "location", "severity": "severity/measurement",
    "comparison": "comparison",
}  # fmt: skip


class ReleaseKey(NamedTuple):
    """Id of a case in CheXpercept's files, split into the finding and the ``pair_id`` of these files."""

    finding: str
    pair_id: str


def split_key(key_id: str) -> ReleaseKey | None:
    """Split an id of CheXpercept's files, ``<finding>_<pair_id>``, into the finding and the pair id.

    Return None if the finding is unknown, or the id cannot be the name of a folder.
    """
    fitting = [name for name in FINDINGS if key_id.startswith(f"{name}_") and len(key_id) > len(name) + 1]
    if not fitting or set(key_id) & {"/", "\\", "\0"} or key_id in (".", ".."):
        return None
    finding = max(fitting, key=len)
    return ReleaseKey(finding, key_id[len(finding) + 1 :])


def path_of(entry: Record) -> Path:
    """Return a case's question path (the sequence of questions that the case gets).

    The path depends on the answer to the detection question, and on whether the case's contour was deformed.
    """
    if entry["detection_qa"]["answer_index"] != 1:
        return "lesion_free"
    return "revision_free" if entry["contour_qa"]["no_deformation"] else "revision_required"


def asked(entry: Record, kind: str) -> Record | None:
    """Return a case's question of the kind ``kind`` with options and answer; None if the case has no such question."""
    contour, attributes = entry.get("contour_qa") or {}, entry.get("attribute_extraction_qa") or {}
    part: Any
    if kind == "detection":
        part = entry["detection_qa"]
    elif kind == "contour_evaluation":
        part = contour.get("contour_eval_qa")
    elif kind in REVISIONS:
        part = contour.get(f"contour_revision_qa_{REVISIONS[kind]}")
    else:
        part = attributes.get(ATTRIBUTES[kind])
    return part or None


def split_list(question: str, count: int) -> tuple[str, list[str]] | None:
    """Return a question without its list of options, and the texts of the ``count`` options in the list.

    The list begins with "Options:". Returns None if the question has no list of ``count`` options.
    """
    lines = question.split("\n")
    marks = [f"({number}) " for number in range(1, count + 1)]
    head, tail = lines[:-count], lines[-count:]
    if not head or head[-1] != LIST_HEAD or not all(map(str.startswith, tail, marks)):
        return None
    texts = [line.removeprefix(mark) for line, mark in zip(tail, marks, strict=True)]
    return ("\n".join(head), texts) if all(texts) else None


def with_list(question: str, texts: list[str]) -> str:
    """Return the question followed by the list of its options, as CheXpercept's files have it.

    :func:`split_list` does the inverse.
    """
    head = question if question.endswith(f"\n{LIST_HEAD}") else f"{question}\n\n{LIST_HEAD}"
    return "\n".join([head, *(f"({number}) {text}" for number, text in enumerate(texts, start=1))])


def ordinal(number: int) -> str:
    """Return the name of option ``number``'s picture in CheXpercept's files: ``"1st mask"`` for 1."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number, "th")
    return f"{number}{ending} mask"
