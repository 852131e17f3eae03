"""Findings that chexqa asks about, each with its look-alikes, its questions and the area where its outline can lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chexqa.files.errors import InputError, suggest


@dataclass(frozen=True)
class Finding:
    """Facts about a finding that generators need.

    - ``field``: where its outline can lie: ``lung`` (the lungs without the heart) or ``any``.
    - ``attributes``: True if questions on zones, regions and the share of a lung (stage 4) are asked about it.
    - ``relatives``: its look-alikes, and its parents and children in the CheXpert label hierarchy.
    - ``anchored``: True if its lesions touch a lung or the heart; a tube in the neck touches neither.
    """

    name: str
    field: Literal["lung", "any"]
    attributes: bool
    relatives: tuple[str, ...]
    anchored: bool = True


_ALL = (
    Finding("atelectasis", "lung", True, ("opacity", "consolidation", "pneumonia", "fibrosis")),
    Finding("cardiomegaly", "any", False, ("enlarged_cardiomediastinum",)),
    Finding("consolidation", "lung", True, ("opacity", "pneumonia", "atelectasis", "mass")),
    Finding("edema", "lung", True, ("opacity", "pneumonia")),
    Finding("effusion", "lung", True, ("opacity", "pleural_thickening")),
    Finding(
        "opacity",
        "lung",
        True,
        (
            "consolidation",
            "pneumonia",
            "edema",
            "atelectasis",
            "effusion",
            "lung_lesion",
            "mass",
            "nodule",
            "diffuse_nodule",
            "fibrosis",
        ),
    ),
    Finding("pneumonia", "lung", True, ("opacity", "consolidation", "atelectasis", "edema")),
    Finding("enlarged_cardiomediastinum", "any", False, ("cardiomegaly",)),
    Finding("lung_lesion", "lung", True, ("opacity", "mass", "nodule", "diffuse_nodule", "calcification")),
    Finding("pneumothorax", "lung", True, ("emphysema",)),
    Finding("support_devices", "any", False, (), anchored=False),
    # Findings of ChestX-Det. Calcified vessels lie in the mediastinum, fractures and thickened pleura beside the lungs.
    Finding("calcification", "any", False, ("lung_lesion", "nodule"), anchored=False),
    Finding("diffuse_nodule", "lung", True, ("opacity", "lung_lesion", "nodule")),
    Finding("emphysema", "lung", True, ("pneumothorax",)),
    Finding("fibrosis", "lung", True, ("opacity", "atelectasis")),
    Finding("fracture", "any", False, (), anchored=False),
    Finding("mass", "lung", True, ("opacity", "lung_lesion", "nodule", "consolidation")),
    Finding("nodule", "lung", True, ("opacity", "lung_lesion", "mass", "diffuse_nodule", "calcification")),
    Finding("pleural_thickening", "lung", True, ("effusion",), anchored=False),
)
FINDINGS: dict[str, Finding] = {finding.name: finding for finding in _ALL}
# The seven findings of CheXpercept. MIMIC-ILS outlines them, and phantoms are drawn with them by default.
CHEXPERCEPT_FINDINGS = ("atelectasis", "cardiomegaly", "consolidation", "edema", "effusion", "opacity", "pneumonia")
# All findings that phantoms can show; the last three complete the nine of the grid task.
PHANTOM_FINDINGS = (*CHEXPERCEPT_FINDINGS, "enlarged_cardiomediastinum", "lung_lesion", "pneumothorax")


def find(name: str, where: str) -> Finding:
    """Return the finding ``name``; raise ``InputError`` that begins with ``where`` if the name is unknown.

    >>> find("effusion", "an example").attributes
    True
    """
    finding = FINDINGS.get(name)
    if finding is None:
        near = name.strip().lower().replace(" ", "_").replace("-", "_")
        hint = f" (did you mean '{near}'?)" if near in FINDINGS else suggest(near, FINDINGS)
        raise InputError(
            f"{where}: there is no finding '{name}'{hint}; to add one, see docs/extending.md, section 'A finding'."
        )
    return finding
