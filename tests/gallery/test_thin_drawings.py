"""Drawings stored without the radiograph below: what comes back is the picture, and changed radiographs stay whole."""

from __future__ import annotations

import io

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from chexqa.eval.gallery.thin_drawings import thin_drawing

pytestmark = pytest.mark.xdist_group("thin_drawings")

Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def radiograph() -> Pixels:
    """A noisy grey picture, as a JPEG would hold it."""
    grey = np.random.default_rng(0).normal(120, 6, (320, 256)).clip(0, 255).astype(np.uint8)
    return stored(cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB))


def stored(picture: Pixels) -> Pixels:
    """Return a picture after it was stored as a JPEG."""
    done, data = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])
    assert done
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1])


def test_a_line_comes_back_in_its_colour_and_nothing_else_is_stored(radiograph: Pixels) -> None:
    outlined = cv2.circle(radiograph.copy(), (120, 160), 60, (0, 255, 255), 2)
    drawing = thin_drawing(radiograph, stored(outlined))
    assert drawing is not None
    layer = np.asarray(Image.open(io.BytesIO(drawing)).convert("RGBA"))
    seen = np.where(layer[..., 3:] > 0, layer[..., :3], radiograph)
    ring = (outlined != radiograph).any(axis=2)
    assert np.abs(seen.astype(int) - outlined)[cv2.erode(ring.astype(np.uint8), np.ones((2, 2))) > 0].mean() < 45
    far = cv2.dilate(ring.astype(np.uint8), np.ones((9, 9))) == 0
    assert not layer[..., 3][far].any()
    assert len(drawing) < 2000


@pytest.mark.parametrize("change", ["a filled lesion", "another size", "a coloured half"])
def test_a_picture_that_is_no_thin_drawing_is_stored_whole(radiograph: Pixels, change: str) -> None:
    other = radiograph.copy()
    if change == "a filled lesion":
        other = cv2.add(other, cv2.circle(np.zeros_like(other), (60, 80), 20, (18, 18, 18), -1))
    elif change == "another size":
        other = other[:-1]
    else:
        other[:, :128] = (200, 40, 40)
    assert thin_drawing(radiograph, np.ascontiguousarray(other)) is None
