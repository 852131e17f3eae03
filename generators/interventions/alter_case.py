"""Making of the altered pictures of one case, and the reasons why some of them are not made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import Answer, Item
from chexqa.files.jsonio import Record
from chexqa.files.seeds import stream
from chexqa.generators.interventions import partial_and_mirror as attributes
from chexqa.generators.interventions.altered_items import AlteredKey, NotAudited, altered_record
from chexqa.generators.interventions.clean_places import clean_place
from chexqa.generators.interventions.fills import BAND, GROWTH, Fill, Surroundings, filled, grown, scaled
from chexqa.generators.interventions.partial_and_mirror import Asked
from chexqa.generators.interventions.textures import Textures
from chexqa.imaging.anatomy import Lungs

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
# Kinds of question that are asked again under each condition.
ASKED_AGAIN: dict[str, tuple[str, ...]] = {
    "target": ("detection",), "irrelevant": ("detection",), "partial": attributes.KINDS, "mirror": attributes.KINDS
}  # fmt: skip
MOST_OF_LUNGS = 0.25  # a larger lesion leaves too little lung to look at
NOT_LUNG = "the finding is judged by the outline of heart or mediastinum, or lies outside the lungs"
NO_LUNGS = "no mask of the lungs is given"
TOO_LARGE = "the lesion takes up more than 25 % of the lungs"
NO_PLACE = "the lungs have no place like the lesion's that is free of findings"
UNKNOWN = "another finding is present whose outline cannot be read"
NO_PART = "no side or component can be filled so that a key changes clearly"
NO_SIDE = "no key changes clearly in the mirrored picture"
NO_WORDS = "chexqa has no wording for a mirrored picture in the bank's language"


@dataclass(frozen=True)
class CaseToAlter:
    """Input of the interventions: one case as the benchmark shows it.

    - ``working``: the radiograph ``(H, W)``.
    - ``masks``: ``lesion``, and ``right_lung``, ``left_lung`` and ``heart`` where they are given, bool ``(H, W)``.
    - ``others``: the masks of the other findings in the radiograph; None if one of them is unknown.
    - ``asked``: the attribute questions, or None.
    - ``mirror_note``: the sentence that a mirrored question begins with; None if the language has none.
    """

    finding: str
    working: Gray
    masks: Mapping[str, Mask]
    others: Sequence[Mask] | None
    items: Sequence[Item]
    answers: Sequence[Answer]
    asked: Asked | None
    mirror_note: str | None

    @property
    def lungs(self) -> Lungs:
        """Return the masks of both lungs; the mask of a missing lung is all False."""
        empty = np.zeros(self.working.shape, bool)
        return Lungs(self.masks.get("right_lung", empty), self.masks.get("left_lung", empty))

    @property
    def lung_fields(self) -> Lungs:
        """Return the masks of both lungs without the heart."""
        heart = self.masks.get("heart", np.zeros(self.working.shape, bool))
        return Lungs(self.lungs.right & ~heart, self.lungs.left & ~heart)

    @property
    def taken(self) -> Mask:
        """Return the pixels of all findings, ``(H, W)``."""
        return np.asarray(np.logical_or.reduce([self.masks["lesion"], *(self.others or ())]))


class Alteration:
    """Collector of the altered items of one case; ``show`` stores a picture and returns its path in the benchmark."""

    def __init__(self, case: CaseToAlter, show: Callable[[Gray], str], fill: Fill, seed: int) -> None:
        self.case, self.show, self.fill, self.seed = case, show, fill, seed
        self.case_id = case.items[0].case_id
        self.items: list[Record] = []
        self.keys: list[Record] = []
        self.left: list[Record] = []
        self._near: Surroundings | None = None

    @property
    def record(self) -> Record:
        """Return the altered items, their keys, and the reason for each impossible alteration, ready for JSON."""
        return {"items": self.items, "keys": self.keys, "not_audited": self.left}

    def leave(self, reason: str, *conditions: str) -> None:
        """Record the reason why the case cannot be asked under the given conditions."""
        self.left += [NotAudited(self.case_id, self.case.finding, name, reason).to_record() for name in conditions]

    def add(self, condition: str, image: Gray, keys: Mapping[str, tuple[int, ...] | None], pixels: int = 0,
            part: str | None = None, note: str = "") -> None:  # fmt: skip
        """Add the altered items of one picture; ``keys`` has the answers, keyed by kind of question (None: unknown).

        ``note`` is a sentence that is put before the question.
        """
        path = self.show(image)
        for item in self.case.items:
            if item.kind in keys:
                self.items.append(altered_record(item, condition, path, note + item.question))
                key = AlteredKey(f"{item.item_id}@{condition}", keys[item.kind], pixels, part)
                self.keys.append(key.to_record())

    def surroundings(self, place: Mask | None = None) -> Surroundings:
        """Return the lungs and the clean tissue that all fills of the case use.

        ``place`` is the area without findings that the condition ``irrelevant`` fills in; None if the case is not asked
        under this condition. Only the first call uses ``place``; later calls return the same result.
        """
        # All fills of a case copy from the same tissue: neither in a finding nor in ``place``.
        if self._near is None:
            case = self.case
            taken = case.taken if place is None else case.taken | place
            clean, lungs = ~grown(taken, scaled(BAND, taken.shape)), case.lung_fields
            field = lungs.right | lungs.left
            textures = Textures(case.working, field, clean) if self.fill == "inpaint" else None
            self._near = Surroundings(field, clean, textures)
        return self._near

    def paint(self, patch: Mask, condition: str, near: Surroundings, rest: Mask | None = None) -> Gray:
        """Return the radiograph with the patch filled; ``rest`` is the part of the lesion that must stay."""
        stays = [*(self.case.others or ())] + ([] if rest is None else [rest])
        kept = np.logical_or.reduce(stays) if stays else None
        return filled(self.case.working, patch, self.fill, near, stream(self.seed, self.case_id, condition), kept)


def alter(case: CaseToAlter, show: Callable[[Gray], str], fill: Fill, seed: int) -> Record:
    """Make the altered pictures of a case with the finding, and return a record of them.

    The record has the altered items, their keys, and the reason for each altered picture that was not made. The same
    case, fill and seed give the same pictures.
    """
    made = Alteration(case, show, fill, seed)
    lesion = case.masks["lesion"]
    if (reason := _not_audited(case, lesion)) is not None:
        made.leave(reason, "target", "irrelevant")
    else:
        _add_fills(made, lesion)
    kinds = {item.kind for item in case.items} & {*attributes.KINDS}
    if case.asked is not None and kinds:
        right = {kind: key for kind, key in case.asked.right.items() if kind in kinds}
        asked = replace(case.asked, right=right)
        _add_partial(made, lesion, asked)
        _add_mirror(made, lesion, asked)
    return made.record


def _not_audited(case: CaseToAlter, lesion: Mask) -> str | None:
    """Return the reason why the whole lesion cannot be filled, or None."""
    if FINDINGS[case.finding].field != "lung":
        return NOT_LUNG
    lungs = np.count_nonzero(case.lungs.right | case.lungs.left)
    if not lungs:
        return NO_LUNGS
    if np.count_nonzero(lesion) > MOST_OF_LUNGS * lungs:
        return TOO_LARGE
    return UNKNOWN if case.others is None else None


def _add_fills(made: Alteration, lesion: Mask) -> None:
    """Add two pictures or none: the lesion filled (target), and other lung tissue filled (irrelevant)."""
    case = made.case
    patch = grown(lesion, scaled(GROWTH, lesion.shape))
    place = clean_place(case.working, patch, case.lung_fields, case.taken)
    if place is None:
        made.leave(NO_PLACE, "target", "irrelevant")
        return
    answer = next(one.answer for one in case.answers if one.item_id.endswith("/detection"))
    near = made.surroundings(place)
    for name, filling, key, part in (("target", patch, None, "all"), ("irrelevant", place, answer, "lung")):
        made.add(name, made.paint(filling, name, near), {"detection": key}, int(np.count_nonzero(filling)), part)


def _add_partial(made: Alteration, lesion: Mask, asked: Asked) -> None:
    """Add the picture in which a part of the lesion is filled."""
    case = made.case
    found = None if case.others is None else attributes.partial_target(lesion, case.lungs, asked)
    if found is None:
        made.leave(UNKNOWN if case.others is None else NO_PART, "partial")
        return
    if np.count_nonzero(found.filled) > MOST_OF_LUNGS * np.count_nonzero(case.lungs.right | case.lungs.left):
        made.leave(TOO_LARGE, "partial")
        return
    patch = grown(found.filled, scaled(GROWTH, lesion.shape)) & ~grown(found.rest, 1)
    image = made.paint(patch, "partial", made.surroundings(), grown(found.rest, 1))
    made.add("partial", image, found.keys, int(np.count_nonzero(patch)), found.part)


def _add_mirror(made: Alteration, lesion: Mask, asked: Asked) -> None:
    """Add the mirrored picture."""
    note = made.case.mirror_note
    keys = {} if note is None else attributes.mirrored_keys(lesion, made.case.lungs, asked)
    if keys:
        made.add("mirror", attributes.mirrored(made.case.working, made.case.lungs), keys, note=f"{note} ")
    else:
        made.leave(NO_WORDS if note is None else NO_SIDE, "mirror")
