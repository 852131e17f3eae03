"""Altered pictures: fills hide a lesion, a clean place is like the lesion's own, and keys follow from what is left."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from chexqa.generators.attributes import attribute_keys
from chexqa.generators.interventions import partial_and_mirror
from chexqa.generators.interventions.clean_places import LEAST_IN_LUNG, MOST_RESIZED, clean_place
from chexqa.generators.interventions.fills import BAND, FILLS, Fill, Surroundings, continued, filled, grown, scaled
from chexqa.generators.interventions.partial_and_mirror import Asked
from chexqa.generators.pipeline import recipe
from chexqa.imaging.anatomy import Lungs

SIZE = 256
rows, columns = np.mgrid[:SIZE, :SIZE]


def box(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask = np.zeros((SIZE, SIZE), bool)
    mask[top:bottom, left:right] = True
    return mask


RIGHT, LEFT = box(40, 220, 20, 110), box(40, 220, 146, 236)
LUNGS = RIGHT | LEFT
BOTH = Lungs(RIGHT, LEFT)


def disc_at(y: int, x: int, radius: int) -> np.ndarray:
    return np.asarray((rows - y) ** 2 + (columns - x) ** 2 <= radius**2)


def radiograph(lesion: np.ndarray, bright: int = 60) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 4, (SIZE, SIZE))
    return np.clip(np.where(LUNGS, 70 + rows / 8, 190) + noise + bright * lesion, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("fill", FILLS)
def test_a_fill_changes_the_patch_and_its_band_alone_and_takes_the_lesion_away(fill: Fill) -> None:
    lesion, other = disc_at(120, 65, 14), disc_at(120, 89, 5)
    image, patch = radiograph(lesion), grown(lesion, 3)
    near = Surroundings(LUNGS, LUNGS & ~grown(lesion, 4))
    made = filled(image, patch, fill, near, np.random.default_rng(2), other)
    changed = grown(patch, scaled(BAND, patch.shape)) & ~other if fill == "inpaint" else patch
    assert np.array_equal(made[~changed], image[~changed])
    inside, beside = made[disc_at(120, 65, 8)], image[grown(patch, 6) & ~patch]
    before = float(image[lesion].mean()) - float(beside.mean())
    assert abs(float(inside.mean()) - float(beside.mean())) < (0.7 if fill == "blur" else 0.1) * before
    again = filled(image, patch, fill, near, np.random.default_rng(2), other)
    assert np.array_equal(made, again)


def test_the_noise_of_an_inpainted_patch_is_that_of_the_tissue() -> None:
    lesion = disc_at(120, 65, 22)
    image = radiograph(lesion)
    made = filled(image, lesion, "inpaint", Surroundings(LUNGS, LUNGS & ~grown(lesion, 4)), np.random.default_rng(2))
    inner = np.diff(made[108:132, 55:75].astype(float), axis=1).std()
    tissue = np.diff(image[160:190, 50:90].astype(float), axis=1).std()
    assert 0.6 < inner / tissue < 1.4


def test_noise_of_a_patch_is_that_of_the_wall_on_the_wall_and_that_of_lung_in_the_lung() -> None:
    lesion = disc_at(120, 104, 26)
    grain = cv2.GaussianBlur(np.random.default_rng(3).normal(0, 1, (SIZE, SIZE)), (0, 0), 0.8)
    image = np.clip(np.where(LUNGS, 80 + 16 * grain, 180 + 4 * grain) + 60 * lesion, 0, 255).astype(np.uint8)
    near = Surroundings(LUNGS, ~grown(lesion, 5))
    made = filled(image, lesion, "inpaint", near, np.random.default_rng(2))
    for left, right in ((84, 102), (118, 126)):
        inside, below = (
            np.diff(one[:, left:right].astype(float), axis=0).std() for one in (made[108:132], image[170:210])
        )
        assert 0.6 < inside / below < 1.6


def test_a_patch_beside_the_wall_continues_the_lung_in_the_lung() -> None:
    lesion = disc_at(120, 30, 16) & RIGHT
    image = radiograph(lesion)
    near = Surroundings(LUNGS, LUNGS & ~grown(lesion, 2))
    made = filled(image, grown(lesion, 2), "inpaint", near, np.random.default_rng(2))
    # The wall is at 190 and lung at 85; a plain membrane through the whole rim gives about 130 here.
    assert float(made[110:130, 24:34].mean()) < 105


def test_the_membrane_of_a_slope_is_the_slope() -> None:
    slope = (0.5 * rows + 0.25 * columns).astype(np.float32)
    hole = disc_at(120, 120, 30)
    assert np.abs(continued(np.where(hole, 0, slope).astype(np.float32), hole) - slope).max() < 3


def test_a_clean_place_has_the_shape_and_lies_in_lung_off_every_finding() -> None:
    lesion, other = disc_at(120, 65, 14) & (columns < 70), disc_at(120, 190, 20)
    place = clean_place(radiograph(lesion), lesion, BOTH, lesion | other)
    assert place is not None
    assert np.count_nonzero(place) == np.count_nonzero(lesion)
    cut = [mask[mask.any(1)][:, mask.any(0)] for mask in (place, lesion)]
    assert np.array_equal(cut[0], cut[1]) or np.array_equal(cut[0][:, ::-1], cut[1])
    assert not (place & grown(lesion | other, 3)).any()
    assert np.count_nonzero(place & LUNGS) >= LEAST_IN_LUNG * np.count_nonzero(place)


def test_no_place_is_better_than_one_on_another_finding() -> None:
    lesion = box(60, 200, 30, 100)
    assert clean_place(radiograph(lesion), lesion, BOTH, lesion | LEFT) is None


def test_each_part_of_a_lesion_gets_its_own_place_that_lies_at_the_wall_as_the_part_does() -> None:
    inner, outer = disc_at(80, 65, 10), disc_at(180, 24, 12)
    lesion = inner | outer
    place = clean_place(radiograph(lesion), lesion, BOTH, lesion)
    assert place is not None
    assert np.count_nonzero(place) == np.count_nonzero(lesion)
    assert np.count_nonzero(place & ~LUNGS) > (1 - LEAST_IN_LUNG) * np.count_nonzero(outer)


RIGHT_OVAL = np.asarray(((rows - 128) / 96) ** 2 + ((columns - 66) / 48) ** 2 <= 1)
LEFT_OVAL = np.asarray(((rows - 124) / 76) ** 2 + ((columns - 186) / 56) ** 2 <= 1)


def along_the_wall() -> tuple[np.ndarray, np.ndarray]:
    """Return a radiograph with oval lungs, and a patch that ends at the wall of the right lung."""
    return np.where(RIGHT_OVAL | LEFT_OVAL, 80, 190).astype(np.uint8), grown(RIGHT_OVAL & disc_at(96, 24, 22), 1)


def test_the_place_of_a_lesion_along_the_wall_ends_at_the_wall_of_the_other_lung() -> None:
    image, patch = along_the_wall()
    lungs = RIGHT_OVAL | LEFT_OVAL
    place = clean_place(image, patch, Lungs(RIGHT_OVAL, LEFT_OVAL), patch)
    assert place is not None
    assert not (place & ~grown(LEFT_OVAL, 1)).any()
    assert abs(np.count_nonzero(place) / np.count_nonzero(patch) - 1) <= MOST_RESIZED
    at_wall = [np.count_nonzero(mask & grown(~grown(lungs, 1), 1)) for mask in (patch, place)]
    assert at_wall[1] > 0.7 * at_wall[0]


@pytest.mark.parametrize("inner", [False, True])
def test_the_lesion_and_its_mirrored_place_are_exchangeable(inner: bool) -> None:
    image, patch = along_the_wall()
    patch = disc_at(110, 60, 16) if inner else patch
    lungs = Lungs(RIGHT_OVAL, LEFT_OVAL)
    place = clean_place(image, patch, lungs, patch)
    assert place is not None
    again = clean_place(image, place, lungs, place)
    assert again is not None
    assert np.count_nonzero(again & patch) > 0.9 * np.count_nonzero(again | patch)


def test_a_lesion_along_the_wall_has_no_place_if_the_mirrored_one_is_taken() -> None:
    image, patch = along_the_wall()
    other = disc_at(110, 232, 12)
    assert clean_place(image, patch, Lungs(RIGHT_OVAL, LEFT_OVAL), patch | other) is None
    inner = disc_at(110, 60, 16)
    blocked = disc_at(110, 186, 6)
    place = clean_place(image, inner, Lungs(RIGHT_OVAL, LEFT_OVAL), inner | blocked)
    assert place is not None
    assert np.count_nonzero(place) == np.count_nonzero(inner)


def test_a_patch_that_lies_mostly_beside_the_lungs_has_no_place() -> None:
    lesion = disc_at(120, 14, 12)
    assert clean_place(radiograph(lesion), lesion, BOTH, lesion) is None


def asked(lesion: np.ndarray, lungs: Lungs) -> Asked:
    loaded = recipe.load("chexpercept")
    assert isinstance(loaded, recipe.PerceptionRecipe)
    rules = loaded.attributes
    judged = attribute_keys.judge(attribute_keys.measure(lesion, lungs, rules), rules)
    drawn = attribute_keys.Attributes(True, tuple(judged.involved[:2]), "right", ("left", "right", "similar", "single"))
    return Asked(drawn, attribute_keys.right_options(drawn, judged, rules), rules)


def test_the_key_of_a_part_follows_from_the_rest() -> None:
    lungs = Lungs(RIGHT, LEFT)
    lesion = disc_at(120, 65, 30) | disc_at(120, 190, 18)
    questions = asked(lesion, lungs)
    assert questions.right["comparison"] == (2,), "larger on the right"
    found = partial_and_mirror.partial_target(lesion, lungs, questions)
    assert found is not None
    assert found.keys["comparison"] == (4,), "only one side is left"
    assert np.array_equal(found.filled | found.rest, lesion)
    assert not (found.filled & found.rest).any()


def test_one_component_leaves_nothing_to_ask_about() -> None:
    lesion, lungs = disc_at(120, 65, 30), Lungs(RIGHT, LEFT)
    assert partial_and_mirror.partial_target(lesion, lungs, asked(lesion, lungs)) is None


def test_a_mirrored_picture_exchanges_left_and_right_and_hides_what_lies_outside() -> None:
    lungs = Lungs(RIGHT, LEFT)
    lesion = disc_at(120, 65, 30) | disc_at(120, 190, 18)
    keys = partial_and_mirror.mirrored_keys(lesion, lungs, asked(lesion, lungs))
    assert keys["comparison"] == (1,), "larger on the left"
    image = radiograph(lesion)
    image[2:12, 240:250] = 255
    made = partial_and_mirror.mirrored(image, lungs)
    assert np.array_equal(made[40:220, 20:236], image[40:220, 20:236][:, ::-1])
    assert not made[2:12, 6:16].any(), "the side marker is hidden"


def test_a_side_marker_above_the_shoulder_is_hidden_in_a_mirrored_picture() -> None:
    pointed = Lungs(RIGHT & (columns + rows > 150), LEFT & (columns - rows < 106))
    image = radiograph(RIGHT)
    image[28:40, 224:236] = 255
    made = partial_and_mirror.mirrored(image, pointed)
    assert not made[28:40, 20:32].any()
    both = pointed.right | pointed.left
    assert np.array_equal(made[both[:, ::-1]], image[:, ::-1][both[:, ::-1]])


def test_stripes_run_through_a_fill_and_a_haze_does_not() -> None:
    """Stripes stand for ribs. A wide soft lesion has a halo beyond its mask."""
    stripes = 14 * np.sin(rows / 5)
    smooth = np.exp(-((rows - 120) ** 2 + (columns - 65) ** 2) / 30**2)
    lesion = smooth > 0.6
    clean = np.clip(np.where(LUNGS, 70 + stripes, 190) + np.random.default_rng(1).normal(0, 3, (SIZE, SIZE)), 0, 255)
    image = np.clip(clean + 70 * smooth * LUNGS, 0, 255).astype(np.uint8)
    made = filled(image, lesion, "inpaint", Surroundings(LUNGS, ~grown(lesion, 8)), np.random.default_rng(2))
    core = disc_at(120, 65, 10)
    profile, true = (picture[105:136, 55:75].astype(float).mean(axis=1) for picture in (made, clean))
    assert profile.std() > 0.5 * true.std(), "the fill has stripes, not noise alone"
    rim = grown(lesion, 3) & ~lesion
    assert made[core].mean() < image[rim].mean() - 10, "the halo does not run through the fill"
    assert float(made[core].mean() - clean[core].mean()) < 0.5 * float(image[core].mean() - clean[core].mean())
