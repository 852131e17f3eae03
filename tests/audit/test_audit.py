"""The audit: a shortcut that was planted is found, a fair benchmark passes, and the card says what it must."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from rest_long import rest_long
from scipy import stats

from chexqa.contract import benchmark
from chexqa.contract.items import Option, Picture
from chexqa.files.errors import InputError
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.generators.audit import card, classifier
from chexqa.generators.audit.audit import Audit, audit
from chexqa.generators.audit.exact_tests import BinaryScore, Contest, interval, p_by_permutation, p_of_hits
from chexqa.generators.audit.outlines import Outline, outline_pixels, point_places
from chexqa.generators.audit.rule_scores import Result
from chexqa.imaging import overlays, png
from chexqa.imaging.colors import PALETTES, POINT_COLORS
from chexqa.imaging.hand_drawn import smooth_outlines

Mask = npt.NDArray[np.bool_]
Cli = Callable[..., tuple[int, str, str]]
SIDE = 256


@pytest.fixture(autouse=True)
def without_the_classifier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests take seconds: only the tests that are about them grow any."""
    if "classifier" not in request.node.name:
        monkeypatch.setattr(classifier, "installed", lambda: False)


# --- exact tests


def test_hits_of_equal_contests_are_binomial() -> None:
    contests = [Contest(4, 1, 1, int(number < 30)) for number in range(70)]
    assert p_of_hits(contests) == pytest.approx(float(stats.binom.sf(29, 70, 0.25)))


def test_hits_of_unequal_contests_agree_with_counting_every_outcome() -> None:
    shapes = [(4, 1, 1), (3, 2, 1), (5, 2, 3)]
    outcomes = [
        [sum(index < right for index in picked) for picked in itertools.combinations(range(size), count)]
        for size, right, count in shapes
    ]
    totals = [sum(hits) for hits in itertools.product(*outcomes)]
    for hits in range(5):
        contests = [Contest(*shape, hits if shape == shapes[-1] else 0) for shape in shapes]
        counted = sum(total >= hits for total in totals) / len(totals)
        assert p_of_hits(contests) == pytest.approx(counted)


def test_yes_and_no_count_the_ones_left_out_too() -> None:
    assert BinaryScore.of([Contest(10, 5, 5, 5)]) == (10, 10, 5.0)
    assert BinaryScore.of([Contest(10, 4, 2, 1)]) == (10, 6, pytest.approx(5.6))


def test_wilsons_interval_of_none_in_ten_and_of_nothing() -> None:
    assert interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert interval(0, 0) == (0, 1)
    assert interval(5, 10, looks=4)[1] > interval(5, 10)[1]


def test_a_permutation_test_stops_early_where_chance_reaches_the_score() -> None:
    calls = Counter[str]()

    def always() -> float:
        calls["draws"] += 1
        return 1.0

    assert p_by_permutation(1.0, always) == 1.0
    assert calls["draws"] == 20
    assert p_by_permutation(2.0, always, most=199) == pytest.approx(1 / 200)


# --- what is read from a picture


def disc(x: int, y: int, radius: float, side: int = SIDE) -> Mask:
    rows, columns = np.mgrid[:side, :side]
    return np.asarray(np.hypot(columns - x, rows - y) <= radius)


def noise(seed: int, side: int = SIDE) -> overlays.Image:
    return np.random.default_rng(seed).integers(0, 256, (side, side), dtype=np.uint8)


def outlined(image: overlays.Image, mask: Mask) -> overlays.Image:
    return overlays.draw_outline(image, smooth_outlines(mask))


def seen(mask: Mask) -> Outline:
    outline = Outline.of(outlined(noise(0, len(mask)), mask))
    assert outline is not None
    return outline


@pytest.mark.parametrize("side", [256, 512, 1024])
@pytest.mark.parametrize(
    "mask",
    [
        pytest.param(lambda side: disc(side // 2, side // 2, side / 4, side), id="a disc"),
        pytest.param(lambda side: disc(0, side // 2, side / 4, side), id="touching the border"),
        pytest.param(
            lambda side: disc(side // 4, side // 2, side / 6, side) | disc(3 * side // 4, side // 2, side / 8, side),
            id="two parts",
        ),
        pytest.param(
            lambda side: disc(side // 2, side // 2, side / 3, side) & ~disc(side // 2, side // 2, side / 6, side),
            id="with a hole",
        ),
    ],
)
def test_the_mask_is_read_back_from_the_outline_drawn_over_noise(mask: Callable[[int], Mask], side: int) -> None:
    drawn = mask(side)
    found = seen(drawn).mask
    assert np.count_nonzero(found & drawn) / np.count_nonzero(found | drawn) > 0.93


def test_a_picture_without_an_outline_has_none() -> None:
    assert Outline.of(overlays.to_rgb(noise(1))) is None


def test_a_square_has_four_corners_and_a_disc_none() -> None:
    square = np.zeros((1024, 1024), bool)
    square[300:700, 300:700] = True
    assert seen(square).measures()["corners"] == 4
    assert seen(disc(512, 512, 200, 1024)).measures()["corners"] == 0


def test_a_jagged_outline_measures_rougher_longer_and_less_compact_than_a_smooth_one() -> None:
    smooth = disc(512, 512, 200, 1024)
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    radius = 200 + 10 * np.sin(40 * angle)
    corners = np.stack([512 + radius * np.cos(angle), 512 + radius * np.sin(angle)], axis=1)
    jagged = cv2.fillPoly(np.zeros((1024, 1024), np.uint8), [corners.round().astype(np.int32)], 1).astype(bool)
    first, second = seen(smooth).measures(), seen(jagged).measures()
    for name in ("roughness", "bend", "length", "compactness"):
        assert second[name] > 1.1 * first[name]


def marks(points: list[tuple[tuple[int, int], str]]) -> list[overlays.Mark]:
    """Marks of the given places and colours, from either palette."""
    palettes = itertools.cycle(PALETTES.values())
    return [overlays.Mark(xy, next(palettes)[color]) for xy, color in points]


def test_coloured_points_are_found_where_they_are() -> None:
    points = [((60, 80), "red"), ((200, 100), "blue"), ((128, 220), "brown")]
    image = overlays.draw_points(outlined(noise(2), disc(128, 128, 60)), marks(points))
    for (x, y), color in points:
        assert point_places(image)[color] == pytest.approx((x, y), abs=1)
    assert not outline_pixels(overlays.draw_points(overlays.to_rgb(noise(2)), marks(points))).any()


def test_a_point_knows_its_side_and_its_distance() -> None:
    outline = seen(disc(512, 512, 200, 1024))
    outside, inside = outline.at((512, 262)), outline.at((512, 362))
    assert (outside["inside"], inside["inside"]) == (0, 1)
    assert [row["distance"] * 1024 for row in (outside, inside)] == pytest.approx([50, 50], abs=3)


# --- benchmarks with and without a planted leak


class Planted:
    """Adds cases whose pictures are drawn: an outline, points inside and outside it, four outlines of four sizes."""

    def __init__(self, handmade: Any, seed: int = 5) -> None:
        self.handmade = handmade
        self.rng = np.random.default_rng(seed)

    def keep(self, role: str, image: overlays.Image) -> Picture:
        data = png.encode(image)
        path = benchmark.image_path(benchmark.sha256(data))
        (self.handmade.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.handmade.folder / path).write_bytes(data)
        return Picture(role, path)

    def add(
        self, name: str, *, option: int | None = None, rank: int | None = None, far: bool = False, scale: float = 1
    ) -> None:
        """A revision-required case: its right picture at ``option``, of this ``rank`` by area, or drawn at random.

        ``far``: the point to expand at is the farther of the two outside, else either; ``scale``: of the four outlines.
        """
        rng = self.rng
        # A flat ground is fast to encode; a line of noise makes it a radiograph of its own.
        ground = np.full((128, 128), 90, np.uint8)
        ground[0] = rng.integers(0, 256, 128)
        radii = rng.permutation([20, 24, 28, 32]) + rng.integers(0, 4)
        right = int(rng.integers(4)) if rank is None else int(np.argsort(radii)[rank])
        if option is not None:
            right = option - 1
        colors = [str(color) for color in rng.choice(POINT_COLORS, 4, replace=False)]
        near_far = [rng.permutation([8, 24]), rng.permutation([4, 20])]
        places = [(64, 38 - int(step)) for step in near_far[0]] + [(64, 64 + int(step)) for step in near_far[1]]
        outer = int(np.argmax(near_far[0])) if far else int(rng.integers(2))
        order = [int(index) for index in rng.permutation(4)]
        places = [places[index] for index in order]
        case_id = self.handmade.case(
            name, "effusion", "revision_required",
            revision_result=(right + 1,), revision_expansion=(order.index(outer) + 1,),
            revision_contraction=(order.index(2 + int(rng.integers(2))) + 1,), **random_attributes(rng),
        )  # fmt: skip
        contour = self.keep("contour", outlined(ground, disc(64, 64, 26, 128)))
        points = self.keep(
            "points",
            overlays.draw_points(
                outlined(ground, disc(64, 64, 26, 128)), marks(list(zip(places, colors, strict=True)))
            ),
        )
        fits = [self.keep("option", outlined(ground, disc(64, 64, scale * radius, 128))) for radius in radii]
        radiograph = self.keep("radiograph", ground)
        for index, item in enumerate(self.handmade.items):
            if item.case_id != case_id:
                continue
            options = item.options
            if item.kind == "revision_result":
                options = tuple(Option(n, image=picture.image) for n, picture in enumerate(fits, start=1))
            elif item.kind in ("revision_expansion", "revision_contraction"):
                named = (Option(n, f"the {color} point", color=color) for n, color in enumerate(colors, start=1))
                options = (*named, options[-1])
            images = {"radiograph": [radiograph], "contour": [contour], "points": [points], "option": fits}
            roles = dict.fromkeys(picture.role for picture in item.alone_images)
            alone = tuple(picture for role in roles for picture in images[role])
            turn = tuple(alone[-len(item.turn_images) :]) if item.turn_images else ()
            self.handmade.items[index] = dataclasses.replace(
                item, options=options, alone_images=alone, turn_images=turn
            )

    def write(self) -> benchmark.Benchmark:
        return benchmark.load(self.handmade.write())


def random_attributes(rng: np.random.Generator) -> dict[str, tuple[int, ...]]:
    return {kind: (int(rng.integers(1, 5)),) for kind in ("distribution", "severity", "comparison")} | {
        "location": (int(rng.integers(1, 4)),)
    }


def fair_cases(handmade: Any, count: int, seed: int = 3) -> None:
    """Cases on all three paths, every answer drawn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        path = ("lesion_free", "revision_free", "revision_required")[int(rng.integers(3))]
        points = [tuple(sorted(int(n) + 1 for n in np.flatnonzero(rng.random(4) < 0.4))) or (5,) for _ in range(2)]
        handmade.case(
            f"fair {number}", ("effusion", "edema")[number % 2], path,
            detection=(2,) if path == "lesion_free" else (1,),
            contour_evaluation=(1,) if path == "revision_required" else (2,),
            revision_expansion=points[0], revision_contraction=points[1],
            revision_result=(int(rng.integers(1, 5)),), **random_attributes(rng),
        )  # fmt: skip


def leaks(found: Audit) -> set[tuple[str, str]]:
    return {(row.kind, row.predictor) for row in found.leaks}


def row(found: Audit, kind: str, predictor: str) -> Result:
    return next(entry for entry in found.results if (entry.kind, entry.predictor) == (kind, predictor))


def test_a_fair_benchmark_passes(handmade: Any) -> None:
    fair_cases(handmade, 90)
    found = audit(benchmark.load(handmade.write()))
    assert not found.leaks
    assert {entry.kind for entry in found.tested} == set(found.contents["balance"])


@pytest.mark.long
def test_fair_pictures_and_points_pass(handmade: Any) -> None:
    planted = Planted(handmade)
    for number in range(40):
        planted.add(f"case {number}")
    found = audit(planted.write())
    assert not found.leaks
    area = row(found, "revision_result", "area")
    assert (area.answers, area.rules) == (40, 4)
    assert row(found, "revision_expansion", "distance, on its side").answers == 40


def test_a_right_picture_that_is_always_option_one_is_caught(handmade: Any) -> None:
    planted = Planted(handmade)
    for number in range(30):
        planted.add(f"case {number}", option=1)
    found = audit(planted.write())
    assert ("revision_result", "position") in leaks(found)
    caught = row(found, "revision_result", "position")
    assert (caught.rule, caught.right, caught.answers, caught.chance) == ("option 1", 30, 30, 0.25)
    assert ("revision_result", "area") not in leaks(found)


@pytest.mark.parametrize(("rank", "rule"), [(0, "smallest"), (2, "second largest")])
def test_a_right_picture_that_always_has_the_same_rank_by_area_is_caught(handmade: Any, rank: int, rule: str) -> None:
    planted = Planted(handmade)
    for number in range(30):
        planted.add(f"case {number}", rank=rank)
    found = audit(planted.write())
    assert ("revision_result", "area") in leaks(found)
    assert row(found, "revision_result", "area").rule == rule
    assert ("revision_result", "position") not in leaks(found)


def test_true_points_that_lie_farther_out_are_caught(handmade: Any) -> None:
    planted = Planted(handmade)
    for number in range(30):
        planted.add(f"case {number}", far=True)
    found = audit(planted.write())
    assert ("revision_expansion", "distance, on its side") in leaks(found)
    assert all(kind == "revision_expansion" for kind, _ in leaks(found))


def test_the_classifier_finds_what_is_planted(handmade: Any) -> None:
    pytest.importorskip("sklearn")
    planted = Planted(handmade)
    for number in range(30):
        planted.add(f"case {number}", rank=1)
    found = audit(planted.write())
    assert ("revision_result", classifier.NAME) in leaks(found)
    tested = row(found, "revision_result", classifier.NAME)
    assert tested.answers == 24, "the first block of five is learned from alone"


def test_without_scikit_learn_the_classifiers_row_says_so(handmade: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fair_cases(handmade, 30)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    found = audit(benchmark.load(handmade.write()))
    rows = [entry for entry in found.results if entry.predictor == classifier.NAME]
    assert rows
    assert all("chexqa[audit]" in entry.rule and entry.p is None for entry in rows)


def test_a_file_sorted_by_path_is_caught(handmade: Any) -> None:
    rng = np.random.default_rng(1)
    for number in range(40):
        path = "revision_free" if number < 20 else "revision_required"
        handmade.case(
            f"case {number}", "effusion", path, contour_evaluation=(2,) if number < 20 else (1,),
            revision_result=(int(rng.integers(1, 5)),), **random_attributes(rng),
        )  # fmt: skip
    found = audit(benchmark.load(handmade.write()))
    assert ("contour_evaluation", "place in the file") in leaks(found)
    assert ("contour_evaluation", "answer of the item before") in leaks(found)


def test_answers_that_alternate_are_caught(handmade: Any) -> None:
    for number in range(40):
        answer = (1,) if number % 2 else (2,)
        handmade.case(f"case {number}", "cardiomegaly", "revision_free", contour_evaluation=answer)
    found = audit(benchmark.load(handmade.write()))
    assert leaks(found) == {
        ("contour_evaluation", "answer of the item before"), ("contour_evaluation", "place in the file"),
    }  # fmt: skip
    assert "place in the file mod" in row(found, "contour_evaluation", "place in the file").rule
    assert row(found, "contour_evaluation", "answer of the item before").rule == "another one"


def test_wording_that_gives_the_answer_away_is_caught(handmade: Any) -> None:
    rng = np.random.default_rng(7)
    for number in range(40):
        answer = int(rng.integers(1, 3))
        handmade.case(f"case {number}", "effusion", "lesion_free", detection=(answer,))
        item = handmade.items[-1]
        handmade.items[-1] = dataclasses.replace(item, question=item.question + " " * (answer - 1))
    found = audit(benchmark.load(handmade.write()))
    assert leaks(found) == {("detection", "wording"), ("detection", "length of the question")}


Plant = Callable[[bool, overlays.Image, overlays.Image], tuple[bytes, bytes]]


def padded(data: bytes, count: int) -> bytes:
    """A PNG with a chunk of zeros before its end, as the generator pads its overlays."""
    return data[:-12] + png.chunk(b"paDd", bytes(count)) + data[-12:]


def outlines_that_may_tell(handmade: Any, plant: Plant, count: int = 48) -> benchmark.Benchmark:
    """Cases asked if their outline needs a revision; ``plant`` makes the files of the radiograph and of the overlay."""
    rng = np.random.default_rng(6)
    for number in range(count):
        altered = bool(rng.integers(2))
        handmade.case(f"case {number}", "cardiomegaly", "revision_free", contour_evaluation=(1 if altered else 2,))
        ground = rng.integers(40, 200, (128, 128), dtype=np.uint8)
        files = plant(altered, ground, outlined(ground, disc(64, 64, 26, 128)))
        kept = {}
        for role, data in zip(("radiograph", "contour"), files, strict=True):
            path = handmade.folder / benchmark.image_path(benchmark.sha256(data))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            kept[role] = Picture(role, benchmark.image_path(benchmark.sha256(data)))
        for place in (-2, -1):
            item = handmade.items[place]
            shown = {
                name: tuple(kept[one.role] for one in getattr(item, name)) for name in ("turn_images", "alone_images")
            }
            handmade.items[place] = dataclasses.replace(item, **shown)
    return benchmark.load(handmade.write())


def nothing(altered: bool, ground: overlays.Image, overlay: overlays.Image) -> tuple[bytes, bytes]:
    return png.encode(ground), png.encode(overlay)


def one_byte(altered: bool, ground: overlays.Image, overlay: overlays.Image) -> tuple[bytes, bytes]:
    data = png.encode(overlay)
    return png.encode(ground), padded(data, (len(data) + altered) % 2)


def text_chunk(altered: bool, ground: overlays.Image, overlay: overlays.Image) -> tuple[bytes, bytes]:
    data = padded(png.encode(ground), int(ground[0, 0]))
    added = png.chunk(b"tEXt", b"Software\0a") if altered else b""
    return data[:33] + added + data[33:], png.encode(overlay)


def other_text(altered: bool, ground: overlays.Image, overlay: overlays.Image) -> tuple[bytes, bytes]:
    data = png.encode(ground)
    return data[:33] + png.chunk(b"tEXt", b"Software\0" + b"ba"[altered:][:1]) + data[33:], png.encode(overlay)


def two_levels(altered: bool, ground: overlays.Image, overlay: overlays.Image) -> tuple[bytes, bytes]:
    brighter = ground + np.uint8(2 * altered)
    return png.encode(ground), png.encode(outlined(brighter, disc(64, 64, 26, 128)))


@pytest.mark.parametrize(
    ("plant", "predictors"),
    rest_long(
        [
            (nothing, set()),
            (two_levels, {"contour: grey levels"}),
            (one_byte, {"contour: the file"}),
            (text_chunk, {"radiograph: the file"}),
            (other_text, {"radiograph: the file"}),
        ],
        keep=3,
        names=2,
    ),
)
def test_traces_of_how_a_file_was_made_are_caught(plant: Plant, predictors: set[str], handmade: Any) -> None:
    found = audit(outlines_that_may_tell(handmade, plant))
    assert leaks(found) == {("contour_evaluation", name) for name in predictors}


def test_an_even_case_id_is_caught(handmade: Any) -> None:
    made = outlines_that_may_tell(handmade, nothing)
    assert not audit(made).leaks
    answers, _ = made.key("this test")
    even = {}
    for item in made.items:
        if item.kind == "contour_evaluation":
            last = int(item.case_id[-1], 16) // 2 * 2 + answers[item.item_id].answer[0] % 2
            even[item.case_id] = f"{item.case_id[:-1]}{last:x}"
    renamed = [
        dataclasses.replace(item, case_id=even[item.case_id], item_id=f"{even[item.case_id]}/{item.kind}")
        for item in made.items
    ]
    keys = {new.item_id: answers[old.item_id] for old, new in zip(made.items, renamed, strict=True)}
    cases = {even[name]: dataclasses.replace(case, case_id=even[name]) for name, case in (made.cases or {}).items()}
    found = audit(dataclasses.replace(made, items=tuple(renamed), answers=keys, cases=cases))
    assert leaks(found) == {("contour_evaluation", "ids")}
    assert " mod " in row(found, "contour_evaluation", "ids").rule


def test_a_tell_tale_quarter_is_caught_where_halves_are_even(handmade: Any) -> None:
    rng = np.random.default_rng(8)
    for number in range(80):
        length = int(rng.integers(0, 80))
        middle = 20 <= length < 40 or length >= 60
        handmade.case(f"case {number}", "cardiomegaly", "lesion_free", detection=(1 if middle else 2,))
        item = handmade.items[-1]
        handmade.items[-1] = dataclasses.replace(item, question=item.question + "x" * length)
    found = audit(benchmark.load(handmade.write()))
    assert leaks(found) == {("detection", "length of the question")}
    assert "quarter" in row(found, "detection", "length of the question").rule


@pytest.mark.long
def test_a_share_that_only_evens_out_over_lesions_of_all_sizes_is_caught(handmade: Any) -> None:
    planted = Planted(handmade)
    for number in range(64):
        planted.add(f"case {number}", rank=number % 4, scale=(1.0, 0.8, 0.7, 0.6)[number % 4])
    found = audit(planted.write())
    assert ("revision_result", "area, by room") in leaks(found)
    assert ("revision_result", "area") not in leaks(found)
    assert "where the mean area is" in row(found, "revision_result", "area, by room").rule


def test_a_most_frequent_answer_is_a_prior_and_no_leak(handmade: Any) -> None:
    rng = np.random.default_rng(2)
    for number in range(30):
        answers = {**random_attributes(rng), "severity": (1,)}
        handmade.case(f"case {number}", "effusion", "revision_free", contour_evaluation=(2,), **answers)
    found = audit(benchmark.load(handmade.write()))
    assert not found.leaks
    prior = row(found, "severity", "most frequent answer")
    assert (prior.sort, prior.right, prior.answers) == ("prior", 30, 30)


def test_a_position_counts_as_an_artefact_only_where_options_are_shuffled(handmade: Any) -> None:
    rng = np.random.default_rng(4)
    for number in range(40):
        answers = {**random_attributes(rng), "comparison": (1,), "severity": (1,)}
        handmade.case(f"case {number}", "effusion", "revision_free", contour_evaluation=(2,), **answers)
    texts = ["similar", "left", "right", "single"]
    for index, item in enumerate(handmade.items):
        if item.kind == "comparison":
            options = tuple(Option(n, str(text)) for n, text in enumerate(rng.permutation(texts), start=1))
            handmade.items[index] = dataclasses.replace(item, options=options)
    found = audit(benchmark.load(handmade.write()))
    assert leaks(found) == {("comparison", "position")}


def test_what_the_rules_force_is_measured_by_name(handmade: Any) -> None:
    planted = Planted(handmade)
    for number in range(25):
        planted.add(f"case {number}")
    handmade.case("free", "effusion", "lesion_free", detection=(2,))
    found = audit(planted.write())
    forced = {(entry.kind, entry.rule): entry for entry in found.results if entry.sort == "forced"}
    never = forced[("revision_expansion", "no point inside the outline is right")]
    assert (never.right, never.answers) == (50, 50)
    paths = forced[("detection", "always yes: two paths of three have the finding")]
    assert (paths.right, paths.answers) == (25, 26)


def test_duplicates_are_counted(handmade: Any) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,), measures={"image_key": "same"})
    handmade.case("b", "effusion", "lesion_free", detection=(2,), measures={"image_key": "same"})
    first, second = handmade.items
    handmade.items[1] = dataclasses.replace(second, alone_images=first.alone_images, turn_images=first.turn_images)
    same = audit(benchmark.load(handmade.write())).contents["duplicates"]
    assert same == {
        "items": 1,
        "items_with_equal_options": 0,
        "radiographs_of_several_cases": 1,
        "radiographs_twice_with_one_finding": 1,
    }


# --- the command and the card


def test_the_command_writes_a_card_and_leaves_the_benchmark_whole(tiny_benchmark: Path, cli: Cli) -> None:
    code, out, err = cli("audit", tiny_benchmark)
    assert (code, err) == (0, "")
    assert out.startswith("No leak"), "the verdict comes first"
    assert out.count(PHANTOM_NOTICE) == 1
    text = (tiny_benchmark / card.CARD).read_text(encoding="utf-8")
    assert benchmark.load(tiny_benchmark).about["canary"] in text
    assert PHANTOM_NOTICE in text.lower()
    figures = sorted(path.name for path in (tiny_benchmark / card.FIGURES).iterdir())
    assert figures
    for name in figures:
        assert f"({card.FIGURES}/{name})" in text
        assert name.endswith(".svg")
    assert cli("validate", tiny_benchmark)[0] == 0
    before = {path: path.read_bytes() for path in tiny_benchmark.rglob("*") if path.is_file()}
    assert cli("audit", tiny_benchmark)[0] == 0
    assert {path: path.read_bytes() for path in tiny_benchmark.rglob("*") if path.is_file()} == before


def test_a_leak_ends_with_exit_code_two_and_is_named(handmade: Any, tmp_path: Path, cli: Cli) -> None:
    for number in range(30):
        handmade.case(f"case {number}", "cardiomegaly", "revision_required")
    code, out, _ = cli("audit", handmade.write("real"), "-o", tmp_path / "card")
    assert code == 2
    assert "revision_result, position (option 1): 100.0 % right, 25.0 % by chance" in out
    assert PHANTOM_NOTICE not in out
    text = (tmp_path / "card" / card.CARD).read_text(encoding="utf-8")
    assert PHANTOM_NOTICE not in text.lower()
    assert "it has leaks" in text
    assert not (handmade.folder / card.CARD).exists()


@pytest.mark.long
def test_json_holds_every_result(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    code, out, _ = cli("audit", tiny_benchmark, "-o", tmp_path / "card", "--json")
    record = json.loads(out)
    assert code == 0
    assert record["leaks"] == 0
    assert record["hash"] == benchmark.load(tiny_benchmark).hash
    assert {"artefact", "prior", "forced"} == {entry["sort"] for entry in record["results"]}
    assert record["contents"]["balance"]["detection"]["edema"] == {"Yes": 1, "No": 1}


def test_a_readme_of_ones_own_is_not_written_over(tiny_benchmark: Path, cli: Cli) -> None:
    (tiny_benchmark / card.CARD).write_text("mine")
    code, _, err = cli("audit", tiny_benchmark)
    assert code == 2
    assert "-o" in err
    assert (tiny_benchmark / card.CARD).read_text() == "mine"


def test_a_withheld_key_is_asked_for(tiny_benchmark: Path, cli: Cli) -> None:
    (tiny_benchmark / benchmark.ANSWERS).unlink()
    code, _, err = cli("audit", tiny_benchmark)
    assert code == 2
    assert "the audit needs the key" in err
    assert not (tiny_benchmark / card.CARD).exists()


def test_a_changed_picture_is_named(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    image = bench.items[0].alone_images[0].image
    (tiny_benchmark / image).write_bytes(b"other")
    with pytest.raises(InputError, match=Path(image).name):
        audit(bench)


@pytest.mark.parametrize("there", [False, True])
def test_an_audit_that_fails_leaves_no_folder_that_it_made(
    there: bool, tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    out = tmp_path / "cards" / "mine"
    if there:
        out.mkdir(parents=True)
    (tiny_benchmark / benchmark.load(tiny_benchmark).items[0].alone_images[0].image).unlink()
    assert cli("audit", tiny_benchmark, "-o", out)[0] == 2
    assert not (out / card.FIGURES).exists()
    assert (out.exists(), out.parent.exists()) == (there, there)


def test_text_from_outside_cannot_break_the_cards_tables(handmade: Any) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,), measures={"source": "a|b\n# <c>"})
    found = audit(benchmark.load(handmade.write("real")))
    assert r"| source | a\|b \# &lt;c&gt; | 1 |" in card.text(found, [])


def test_the_card_counts_radiographs_and_warns_where_every_answer_is_the_same(handmade: Any) -> None:
    for name, finding in (("a", "effusion"), ("b", "edema"), ("c", "effusion")):
        picture = {"image_key": "one" if name != "c" else "two"}
        handmade.case(name, finding, "revision_free", detection=(1,), contour_evaluation=(2,), measures=picture)
    written = card.text(audit(benchmark.load(handmade.write("real"))), [])
    assert "on 3 cases (3 patients, 2 radiographs, " in written
    assert "items of the kind detection or contour" in written
