"""The findings chexqa knows: where their contours may lie, whether they have attributes, what is mistaken for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chexqa.files.errors import InputError, suggest


@dataclass(frozen=True)
class Finding:
    """What generators need to know of a finding.

    ``field``: where its contour may lie: ``lung`` (the lungs without the heart) or ``any``.
    ``attributes``: whether stage 4 (zones, regions, share of a lung) is asked of it.
    ``relatives``: its parents, children and look-alikes, the findings in whose presence the absence of this one is
    open to dispute (parents and children as in the CheXpert label hierarchy).
    ``anchored``: whether its lesions touch a lung or the heart; a tube in the neck touches neither.
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
    # Of ChestX-Det. Calcified vessels lie in the mediastinum, broken ribs, clavicles and the pleura beside the lungs.
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
# The seven findings of CheXpercept, which MIMIC-ILS outlines and phantoms are drawn with.
CHEXPERCEPT_FINDINGS = ("atelectasis", "cardiomegaly", "consolidation", "edema", "effusion", "opacity", "pneumonia")


def find(name: str, where: str) -> Finding:
    """The finding called ``name``; an ``InputError`` that begins with ``where`` and names the nearest one otherwise."""
    finding = FINDINGS.get(name)
    if finding is None:
        near = name.strip().lower().replace(" ", "_").replace("-", "_")
        hint = f" (did you mean '{near}'?)" if near in FINDINGS else suggest(near, FINDINGS)
        raise InputError(f"{where}: there is no finding '{name}'{hint}.")
    return finding
