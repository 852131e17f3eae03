"""Addition of predicted masks of lungs and heart to a manifest; existing masks are never replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chexqa.contract.anatomy_checks import check_lungs, doubts
from chexqa.contract.cases import MANIFEST, STRUCTURES, Case, is_lateral, read_manifest, write_manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, exists, is_folder, read_jsonl
from chexqa.imaging import mask_source, masks
from chexqa.imaging.read import Gray, Mask, read_radiograph
from chexqa.segmentation import clean_up

_MOST_FAULTS = 20
_LUNGS = ("right_lung", "left_lung")


class Model(Protocol):
    """Segmentation model: a function on a radiograph, with a name that the manifest records."""

    name: str

    def __call__(self, image: Gray) -> Any:
        """Return a mask or probabilities for each structure in a radiograph ``(H, W)`` uint8, keyed by structure.

        Each array covers the complete radiograph.
        """


@dataclass
class Filled:
    """Result of :func:`fill_in`: counts of cases and radiographs, radiographs left out, and remarks.

    ``image_root`` is the folder that the new manifest's paths are relative to; ``None`` means the manifest's own
    folder.
    """

    cases: int = 0
    changed: int = 0
    radiographs: int = 0
    laterals: int = 0
    structures: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    doubtful: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    more_faults: int = 0
    image_root: Path | None = None

    def fault(self, text: str) -> None:
        """Record the reason why a radiograph got no predicted masks."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(text.removesuffix("."))
        else:
            self.more_faults += 1


@dataclass(frozen=True)
class _Found:
    """Masks that a model found in a picture of ``shape`` ``(H, W)``, as run lengths.

    ``asked`` has the names of the structures that the model looks for.
    """

    shape: tuple[int, int]
    masks: dict[str, Record]
    asked: frozenset[str]


def fill_in(
    manifest: Path, out: Path, model: Model, image_root: Path | None = None, on_case: Callable[[], None] | None = None
) -> Filled:
    """Write the manifest ``out``, in which a model's masks are added where masks are missing, and return the counts.

    Each radiograph is given to the model once. An existing mask is never replaced, and lateral views get no masks. If
    predicted lungs contradict existing lungs or each other, they are left out and the reason is recorded. The field
    ``predicted`` names the model of each new mask. Raises ``InputError`` for a manifest or a model that cannot be used,
    and if ``out`` exists.
    """
    if exists(out):
        raise InputError(f"{out}: exists already; remove it or name another file.")
    source = manifest / MANIFEST if is_folder(manifest) else manifest
    cases = read_manifest(manifest, image_root)
    filled = Filled(image_root=_root(source, out, image_root))
    filler = _Filler(model, filled)

    def records() -> Iterator[Record]:
        for (_, record), case in zip(read_jsonl(source, "case"), cases, strict=True):
            yield filler.record(record, case)
            if on_case is not None:
                on_case()

    filled.cases = write_manifest(out, records())
    return filled


def count(manifest: Path, image_root: Path | None = None) -> int:
    """Return the number of cases in a manifest."""
    return len(read_manifest(manifest, image_root))


def _root(source: Path, out: Path, image_root: Path | None) -> Path | None:
    """Return the folder that the paths of the manifest ``out`` are relative to; None for the manifest's own folder."""
    if source.parent.resolve() == out.parent.resolve():
        return image_root
    if image_root is not None and image_root.resolve() != source.parent.resolve():
        raise InputError(
            f"{out}: a manifest here would need paths relative to two folders, {source.parent} and "
            f"{image_root}; write the new manifest into {source.parent}."
        )
    return source.parent


class _Filler:
    """Filler of missing masks; it caches the model's predictions, since several cases can show the same picture."""

    def __init__(self, model: Model, filled: Filled) -> None:
        self._model, self._filled = model, filled
        self._known: dict[Path, _Found | None] = {}

    def record(self, record: Record, case: Case) -> Record:
        """Return a record of the manifest with its missing masks added."""
        missing = [name for name in STRUCTURES if name not in case.anatomy]
        if not missing:
            return record
        if is_lateral(case.view):
            self._filled.laterals += 1
            return record
        if case.image not in self._known:
            self._known[case.image] = self._predict(case)
        found = self._known[case.image]
        if found is None:
            return record
        self._filled.missed.update(name for name in missing if name in found.asked and name not in found.masks)
        new = {name: found.masks[name] for name in missing if name in found.masks}
        try:
            self._check(case, found.shape, new)
        except InputError as error:
            self._filled.fault(f"line {case.line}, {case.case_id}: {error}")
            new = {name: rle for name, rle in new.items() if name not in _LUNGS}
        if not new:
            return record
        self._filled.changed += 1
        self._filled.structures.update(list(new))
        both = {**(record.get("anatomy") or {}), **new}
        named = {**(record.get("predicted") or {}), **dict.fromkeys(new, self._model.name)}
        return {**record, "anatomy": {name: both[name] for name in STRUCTURES if name in both}, "predicted": named}

    def _predict(self, case: Case) -> _Found | None:
        try:
            image = read_radiograph(case.image)
        except InputError as error:
            self._filled.fault(f"line {case.line}: {error}")
            return None
        self._filled.radiographs += 1
        shape = (image.shape[0], image.shape[1])
        raw = self._model(image)
        found = clean_up.structures(raw, shape, f"line {case.line}, {case.image.name}")
        asked = {part for name in raw for part in (_LUNGS if name == clean_up.BOTH_LUNGS else (name,))}
        return _Found(shape, {name: masks.to_rle(mask) for name, mask in found.items()}, frozenset(asked))

    def _check(self, case: Case, shape: tuple[int, int], new: dict[str, Record]) -> None:
        """Raise ``InputError`` if predicted lungs contradict each other or existing lungs.

        If the lungs look wrong in another way, a remark is added.
        """
        lungs: dict[str, Mask] = {}
        for name in _LUNGS:
            if name in new:
                lungs[name] = masks.from_rle(new[name], name)
            elif name in case.anatomy:
                lungs[name] = mask_source.read(case.anatomy[name], shape, name, case.mask_frame)
        check_lungs(lungs)
        if len(lungs) == len(_LUNGS) and any(name in new for name in _LUNGS):
            for doubt in doubts(lungs["right_lung"], lungs["left_lung"]):
                self._filled.doubtful.append(f"{case.case_id}: {doubt}")
