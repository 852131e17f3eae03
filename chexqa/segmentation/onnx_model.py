"""Segmentation model in an ONNX file, run by onnxruntime on the CPU (extra ``onnx``)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.files.errors import InputError, suggest
from chexqa.files.limits import MAX_MODEL_BYTES
from chexqa.files.opening import read_whole
from chexqa.imaging.read import Gray
from chexqa.segmentation.clean_up import BOTH_LUNGS, NAMES

Activation = Literal["sigmoid", "softmax", "none"]
Fit = Literal["stretch", "pad"]
Numbers = npt.NDArray[np.float32]

_LARGEST_SIDE = 4096


@dataclass(frozen=True)
class OnnxOptions:
    """Facts about a model that its ONNX file does not state.

    - ``channels``: the output channel of each structure, or its value if the output is a label map. An empty
      ``channels`` means that the only channel, or the value 1 of the label map, shows both lungs.
    - ``activation``: the function that turns outputs into probabilities.
    - ``values``: the input's numbers for black and for white.
    - ``fit``: the picture is stretched to the input's size, or padded with black.
    - ``size``: the side of the input in pixels, if the file does not fix it.
    """

    channels: dict[str, int]
    activation: Activation = "sigmoid"
    values: tuple[float, float] = (0.0, 1.0)
    fit: Fit = "stretch"
    size: int | None = None


def channels_of(words: tuple[str, ...]) -> dict[str, int]:
    """Return the channel of each structure, from texts like ``right_lung=5``; raise ``InputError`` for other texts."""
    found: dict[str, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in NAMES or not re.fullmatch(r"\d{1,4}", number):
            hint = "" if name in NAMES else suggest(name, NAMES)
            raise InputError(f"--channel {word}: give STRUCTURE=NUMBER{hint}; structures are {', '.join(NAMES)}.")
        if name in found:
            raise InputError(f"--channel {word}: '{name}' is named twice; name it once.")
        found[name] = int(number)
    if BOTH_LUNGS in found and len(found.keys() & {"right_lung", "left_lung"}) > 0:
        raise InputError(
            f"--channel: names {BOTH_LUNGS} and also a single lung; name either {BOTH_LUNGS}, or right_lung and "
            "left_lung."
        )
    return found


class OnnxModel:
    """ONNX model; calling it with a radiograph ``(H, W)`` uint8 returns probabilities, keyed by structure."""

    def __init__(self, path: Path, options: OnnxOptions) -> None:
        """Load the file; raise ``InputError`` if the extra ``onnx`` is missing or the model's input is not one
        picture.
        """
        try:
            import onnxruntime
        except ImportError:
            raise InputError(
                f"{path}: ONNX models need a package that is not installed; run: pip install 'chexqa[onnx]'."
            ) from None
        data = read_whole(path, MAX_MODEL_BYTES)
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4  # onnxruntime prints fatal errors only; chexqa shows all other errors
        try:
            self._session = onnxruntime.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise InputError(
                f"{path}: onnxruntime cannot read it ({_first_line(error)}); save the model as one file."
            ) from None
        self.name = f"{path.name} {hashlib.sha256(data).hexdigest()[:12]}"
        self._path, self._options = path, options
        self._input = self._one_input()

    def _one_input(self) -> Any:
        inputs = self._session.get_inputs()
        shape: list[Any] = list(inputs[0].shape) if len(inputs) == 1 else []
        if len(shape) != 4 or inputs[0].type not in ("tensor(float)", "tensor(float16)"):
            found = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
            raise InputError(
                f"{self._path}: the model must take one input of floats, (batch, channels, height, "
                f"width), but it takes {found}; export the model with this input."
            )
        self._last = shape[3] in (1, 3) and shape[1] not in (1, 3)
        self._colours = shape[3] if self._last else shape[1] if shape[1] in (1, 3) else 1
        sides = shape[1:3] if self._last else shape[2:4]
        fixed = [side if isinstance(side, int) else self._options.size or 512 for side in sides]
        if not all(1 <= side <= _LARGEST_SIDE for side in fixed):
            raise InputError(
                f"{self._path}: the sides of the model's input are {fixed}, but must be from 1 to "
                f"{_LARGEST_SIDE:,} pixels; export the model with another size, or give another --size."
            )
        self._height, self._width = fixed
        return inputs[0]

    def __call__(self, image: Gray) -> dict[str, Numbers]:
        """Return the probabilities of each structure, an array that covers the complete radiograph."""
        placed, window = self._placed(image)
        low, high = self._options.values
        scaled = np.float32(low) + placed * np.float32((high - low) / 255)
        batch = np.repeat(scaled[None, None], self._colours, axis=1)
        if self._last:
            batch = batch.transpose(0, 2, 3, 1)
        batch = np.ascontiguousarray(batch, np.float16 if self._input.type == "tensor(float16)" else np.float32)
        try:
            output = np.asarray(self._session.run(None, {self._input.name: batch})[0])
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise InputError(
                f"{self._path}: the model failed ({_first_line(error)}); run it once outside chexqa to find the cause."
            ) from None
        return {name: _cut(values, window) for name, values in self._by_structure(output).items()}

    def _placed(self, image: Gray) -> tuple[Numbers, tuple[float, float, float, float]]:
        """Return the picture at the input's size, and the part of the input that it fills: top, bottom, left, right.

        The four numbers are fractions of the input's sides.
        """
        height, width = image.shape
        tall, wide = self._height, self._width
        if self._options.fit == "pad":
            scale = min(self._height / height, self._width / width)
            tall, wide = max(1, round(height * scale)), max(1, round(width * scale))
        shrinks = tall < height or wide < width
        method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        small = cv2.resize(image, (wide, tall), interpolation=method).astype(np.float32)
        canvas = np.zeros((self._height, self._width), np.float32)
        top, left = (self._height - tall) // 2, (self._width - wide) // 2
        canvas[top : top + tall, left : left + wide] = small
        edges = top / self._height, (top + tall) / self._height, left / self._width, (left + wide) / self._width
        return canvas, edges

    def _by_structure(self, output: npt.NDArray[Any]) -> dict[str, Numbers]:
        """Return the probabilities of each structure, as arrays of the output's size."""
        if output.ndim == 4 and output.shape[0] == 1:
            planes = np.moveaxis(output[0], -1, 0) if self._last else output[0]
        elif output.ndim == 3 and output.shape[0] == 1:
            planes = output
        else:
            raise InputError(
                f"{self._path}: the model's first output is {output.shape}, not (1, channels, height, width) or (1, "
                "height, width); export the model with this output."
            )
        channels = self._options.channels
        if output.dtype.kind in "iub" and len(planes) == 1:
            return {
                name: (planes[0] == value).astype(np.float32) for name, value in (channels or {BOTH_LUNGS: 1}).items()
            }
        if not channels and len(planes) > 1:
            raise InputError(
                f"{self._path}: the model has {len(planes)} channels; name the channel of each structure, as in "
                "--channel right_lung=5."
            )
        channels = channels or {BOTH_LUNGS: 0}
        over = {name: number for name, number in channels.items() if number >= len(planes)}
        if over:
            name, number = next(iter(over.items()))
            raise InputError(
                f"--channel {name}={number}: the model's channels are 0 to {len(planes) - 1}; give one of these."
            )
        likely = _probabilities(planes.astype(np.float32), self._options.activation)
        return {name: likely[number] for name, number in channels.items()}


def _probabilities(planes: Numbers, activation: Activation) -> Numbers:
    if activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-np.clip(planes, -60, 60))), np.float32)
    if activation == "softmax":
        powers = np.exp(planes - planes.max(axis=0))
        return np.asarray(powers / powers.sum(axis=0), np.float32)
    return planes


def _cut(values: Numbers, window: tuple[float, float, float, float]) -> Numbers:
    """Return the part of an output that the picture fills; ``window`` has top, bottom, left, right as fractions."""
    height, width = values.shape
    top, bottom = (round(edge * height) for edge in window[:2])
    left, right = (round(edge * width) for edge in window[2:])
    return values[top : max(bottom, top + 1), left : max(right, left + 1)]


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200].rstrip(".")
