"""Conversion of a segmentation model's output into masks: resizing, threshold, one component for each structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract.cases import STRUCTURES
from chexqa.files.errors import InputError, suggest
from chexqa.imaging.read import Gray, Mask

# Name of an output that holds both lungs; their positions tell right from left.
BOTH_LUNGS = "lungs"
NAMES = (*STRUCTURES, BOTH_LUNGS)
Predict = Callable[[Gray], Mapping[str, npt.NDArray[Any]]]

_SMALLEST = 0.002  # share of the picture; a smaller component does not count as a lung or heart
_PIECE = 0.2  # share of the larger lung; a smaller component does not count as the second lung


def structures(raw: Mapping[str, Any], shape: tuple[int, int], where: str) -> dict[str, Mask]:
    """Return the masks ``(H, W)`` of lungs and heart that a model found in a picture of ``shape`` ``(H, W)``.

    ``raw`` is the model's output: a mask (bool) or probabilities for each structure, as an array of any size that
    covers the complete picture. Probabilities are resized smoothly and thresholded at 0.5. The result depends on the
    structure:

    - ``right_lung``, ``left_lung``, ``heart``: the largest 4-connected component.
    - ``lungs`` (both lungs in one array): the two largest 4-connected components, as ``right_lung`` and ``left_lung``.
      If the lungs are joined into one component, the result has neither.

    Components smaller than 0.2 % of the picture do not count. Holes are filled. Raises ``InputError`` if ``raw`` has
    another form; the message begins with ``where``.
    """
    if not isinstance(raw, Mapping):
        raise InputError(f"{where}: the model must return a dictionary of masks, not {type(raw).__name__}.")
    found: dict[str, Mask] = {}
    for name, values in raw.items():
        if name not in NAMES:
            hint = suggest(str(name), NAMES)
            raise InputError(f"{where}: '{name}' is not a structure{hint}; the names are {', '.join(NAMES)}.")
        mask = _mask(values, shape, f"{where}, {name}")
        parts = _two_lungs(mask) if name == BOTH_LUNGS else {name: _pieces(mask)[:1]}
        found |= {part: _without_holes(pieces[0]) for part, pieces in parts.items() if pieces}
    return {name: found[name] for name in STRUCTURES if name in found}


def _mask(values: Any, shape: tuple[int, int], where: str) -> Mask:
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "bfiu":
        raise InputError(
            f"{where}: the model must return one array of numbers (height, width) for each structure, not an array of "
            f"{array.dtype} with the shape {array.shape}."
        )
    numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > 1:
        raise InputError(
            f"{where}: values from {numbers.min():.3g} to {numbers.max():.3g} are not probabilities from 0 to "
            "1; return probabilities, or for an ONNX model give its --activation."
        )
    height, width = shape
    resized = cv2.resize(numbers, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(resized > 0.5, dtype=np.bool_)


def _pieces(mask: Mask) -> list[Mask]:
    """Return the 4-connected components that are large enough, the largest first."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    sizes = stats[1:count, cv2.CC_STAT_AREA]
    order = [number for number in np.argsort(-sizes, kind="stable") if sizes[number] >= _SMALLEST * mask.size]
    return [np.asarray(labels == number + 1, dtype=np.bool_) for number in order[:2]]


def _two_lungs(mask: Mask) -> dict[str, list[Mask]]:
    """Return the two largest components as right and left lung; the patient's right lung is on the picture's left.

    Return ``{}`` if there is only one component, since lungs that are joined cannot be separated.
    """
    pieces = _pieces(mask)
    if len(pieces) < 2 or pieces[1].sum() < _PIECE * pieces[0].sum():
        return {}
    pieces.sort(key=lambda piece: float(np.nonzero(piece)[1].mean()))
    return {"right_lung": pieces[:1], "left_lung": pieces[1:]}


def _without_holes(mask: Mask) -> Mask:
    filled = np.zeros(mask.shape, np.uint8)
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(filled, outlines, -1, 1, cv2.FILLED)
    return filled > 0
