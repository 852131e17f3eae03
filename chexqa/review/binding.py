"""Hashes of the content shown to a reviewer, which bind a verdict (the reviewer's judgement) to this content.

A verdict counts in any benchmark or manifest that shows the same content, and in no other. The hash covers

- for a blind answer: the question, its options and its pictures;
- for a verdict on a proposal: also the proposed answer, and the masks from which the answer was computed;
- for a verdict on a mask: mask, lungs and radiograph.

For a picture of an item, the hash of its file is hashed; for the radiograph of a mask, its pixels. Patient data, names
of source files and a benchmark's version have no influence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chexqa.contract.benchmark import image_digest
from chexqa.contract.cases import LoadedCase
from chexqa.contract.items import CaseKey, Item
from chexqa.files.jsonio import dump
from chexqa.imaging import masks
from chexqa.imaging.read import Gray, Mask

# Raise this number with any change of the hashed content; older verdicts then count only on their own benchmark.
VERSION = 1
LESION, LUNGS, HEART = "lesion", ("right_lung", "left_lung"), "heart"


class ShownMask(NamedTuple):
    """Picture and masks of a case that a reviewer of masks sees.

    - ``image``: the grey working image ``(H, W)``.
    - ``lesion``, ``right_lung``, ``left_lung``: masks of the same size; None for a mask that the case does not have.
    - ``image_key``: the identity of the radiograph, as in :attr:`chexqa.contract.cases.LoadedCase.image_key`.
    """

    image: Gray
    lesion: Mask | None
    right_lung: Mask | None
    left_lung: Mask | None
    image_key: str

    @property
    def seen(self) -> str:
        """The hash that binds a verdict to this mask."""
        stored = {
            name: masks.to_rle(mask)
            for name, mask in zip((LESION, *LUNGS), (self.lesion, self.right_lung, self.left_lung), strict=True)
            if mask is not None
        }
        return mask_seen(self.image_key, stored)


def shown_mask(loaded: LoadedCase) -> ShownMask:
    """Return the mask of a manifest's case as it is shown for review."""
    return ShownMask(loaded.working, loaded.lesion, loaded.right_lung, loaded.left_lung, loaded.image_key)


def mask_seen(image_key: str, stored: Mapping[str, Any]) -> str:
    """Return one hash for a radiograph, its lesion and its lungs.

    ``stored`` has the masks, run-length encoded at the size of the working image.
    """
    return _hash("mask", image_key, _runs(stored, (LESION, *LUNGS)))


def question_seen(item: Item) -> str:
    """Return the hash of the content that a blind reader sees: question, options in their order, and pictures."""
    return _hash("question", *_question(item))


def proposal_seen(item: Item, proposed: Iterable[int], case: CaseKey) -> str:
    """Return the hash of the content that a reviewer of a proposal sees; ``proposed`` are option numbers.

    The hash also covers the masks from which the key was computed:

    - attributes: all masks;
    - grid: the lesion;
    - items that ask for a place: the lesion and the heart.
    """
    names: tuple[str, ...] = (LESION, *LUNGS, HEART) if item.stage == 4 else ()
    if item.form.is_place:
        names = (LESION, HEART)
    elif not item.form.lists_options:
        names = (LESION,)
    return _hash("proposal", *_question(item), sorted(proposed), _runs(case.measures.get("masks", {}), names))


def _runs(stored: Mapping[str, Any], names: Iterable[str]) -> list[list[Any]]:
    """Return name, size and run lengths of each named mask; masks that are missing are left out."""
    return [[name, stored[name]["size"], stored[name]["counts"]] for name in names if stored.get(name) is not None]


def _question(item: Item) -> tuple[Any, ...]:
    options = [
        [option.n, option.text, option.image and image_digest(option.image), option.color, option.letter, option.side]
        for option in item.options
    ]
    pictures = [[picture.role, image_digest(picture.image)] for picture in item.alone_images]
    return item.finding, item.kind, item.question, options, item.multi, pictures


def _hash(*parts: Any) -> str:
    return hashlib.sha256(dump({"version": VERSION, "seen": parts}).encode()).hexdigest()[:32]
