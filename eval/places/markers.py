"""Test markers at known places; they show whether a model uses the coordinate system (frame) declared for it.

A test marker is a white L on a plain picture. The model is asked for the places of :data:`COUNT` markers. The declared
frame is proved if it is the only frame in which at least :data:`ENOUGH` markers are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.eval.places.coordinate_systems import FRAMES, Frame, Shape
from chexqa.eval.places.target import Target
from chexqa.files.seeds import stream
from chexqa.imaging.read import Mask

# The kinds of question on test markers, each with the answer form for which it proves the frame.
KINDS = {"marker_point": "point", "marker_box": "box"}
COUNT, ENOUGH, NEAR = 12, 11, 0.03
WIDTH, HEIGHT = 1024, 832
_GREY, _WHITE = 96, 255


@dataclass(frozen=True, eq=False)
class Mark:
    """A picture ``(H, W)`` uint8 with a test marker, and the marker's mask ``(H, W)``."""

    picture: npt.NDArray[np.uint8]
    mask: Mask


def draw(seed: int, number: int) -> Mark:
    """Draw one test marker: an L with arms of different lengths."""
    random = stream(seed, "markers", number)
    while True:
        long, short, thick = int(random.integers(90, 200)), int(random.integers(40, 80)), int(random.integers(14, 24))
        width, height = (long, short) if random.integers(2) else (short, long)
        x, y = int(random.integers(20, WIDTH - width - 20)), int(random.integers(20, HEIGHT - height - 20))
        across, down = (x + width / 2) / WIDTH, (y + height / 2) / HEIGHT
        # Far from the diagonal, x and y cannot be confused.
        if abs(across - down) > 0.15 and max(across, down) > 0.4:
            break
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.rectangle(mask, (x, y), (x + thick - 1, y + height - 1), 1, -1)
    cv2.rectangle(mask, (x, y + height - thick), (x + width - 1, y + height - 1), 1, -1)
    picture = np.full((HEIGHT, WIDTH), _GREY, np.uint8)
    picture[mask > 0] = _WHITE
    return Mark(picture, mask.view(bool))


def is_found(form: str, shapes: Sequence[Shape], target: Target) -> bool:
    """Return True if the answered point or box (in pixels) is close enough to the test marker.

    Each number may be off by at most :data:`NEAR` times the picture's longer side.
    """
    if len(shapes) != 1:
        return False
    wanted = target.inner_point if form == "point" else target.mask_box
    most = NEAR * max(target.mask.shape)
    return all(abs(found - right) <= most for found, right in zip(shapes[0], wanted, strict=True))


@dataclass(frozen=True)
class Proof:
    """Verdict on a model's coordinate system (frame), from its answers on the test markers of one answer form.

    - ``asked``: the number of test markers.
    - ``found``: the number of test markers found in the declared frame.
    - ``fitting``: the names of all frames in which enough test markers are found.
    - ``verdict``: ``proved``, ``ambiguous``, ``another fits``, ``not proved`` or ``unfinished``.
    """

    declared: str
    asked: int
    found: int
    fitting: tuple[str, ...]
    verdict: str


def proof(
    form: str, declared: Frame, replies: Sequence[tuple[str | None, Target]],
    read: Callable[[str, Frame], Sequence[Shape] | None],
) -> Proof:  # fmt: skip
    """Return the verdict on a declared coordinate system.

    - ``replies``: each reply (or None) with its test marker.
    - ``read``: a function that reads a reply in a given frame; it returns the shapes, or None if there are none.
    """
    enough = ENOUGH * len(replies) / COUNT
    counts = {
        frame.name: sum(
            text is not None and (shapes := read(text, frame)) is not None and is_found(form, shapes, target)
            for text, target in replies
        )
        for frame in _different(form, declared)
    }
    fitting = tuple(name for name, count in counts.items() if replies and count >= enough)
    found = counts[declared.name]
    if len(replies) < COUNT or all(text is None for text, _ in replies):
        verdict = "unfinished"
    elif declared.name in fitting:
        verdict = "proved" if len(fitting) == 1 else "ambiguous"
    else:
        verdict = "another fits" if fitting else "not proved"
    return Proof(declared.name, len(replies), found, fitting, verdict)


def _different(form: str, declared: Frame) -> list[Frame]:
    """Return the frames that differ for an answer form, the declared frame first."""
    # For a point, xywh is the same order as xyxy.
    frames: dict[tuple[str, bool, bool], Frame] = {}
    for frame in (declared, *FRAMES.values()):
        frames.setdefault((frame.unit, frame.order == "yxyx", form != "point" and frame.order == "xywh"), frame)
    return list(frames.values())
