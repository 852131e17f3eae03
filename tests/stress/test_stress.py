"""Stress: degradations, drawings laid on again, the design, other wordings, a run under stress and its tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import logs
import numpy as np
import pytest
from grades import run, said, study
from handmade import Handmade

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import image_path
from chexqa.contract.items import Item, Picture
from chexqa.eval.gallery import files as gallery
from chexqa.eval.report.display_notes import unfinished_models
from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.stress import cells, wordings
from chexqa.eval.stress.degradations import DEGRADATIONS, SEVERITIES
from chexqa.eval.stress.stressed_pictures import StressedPictures
from chexqa.eval.tables.asked_items import states
from chexqa.eval.thresholds.stress_tables import has_stress, stress, stress_curve
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder
from chexqa.imaging import overlays

Cli = Callable[..., tuple[int, str, str]]


def film(side: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth picture with texture and a light upper right corner, and its lungs."""
    down, right = np.mgrid[:side, :side] / side
    texture = np.random.default_rng(0).normal(0, 6, (side, side))
    lungs = (np.hypot((right - 0.3) / 0.14, (down - 0.5) / 0.27) < 1) | (np.hypot((right - 0.7) / 0.14, (down - 0.5) / 0.27) < 1)  # fmt: skip  # noqa: E501
    grey = 190 - 110 * lungs + 40 * (right + (1 - down)) - 40 + texture
    return np.clip(grey, 0, 255).astype(np.uint8), lungs


@pytest.mark.parametrize("name", DEGRADATIONS)
def test_a_degradation_grows_with_its_severity_and_keeps_the_size(name: str) -> None:
    image, lungs = film()
    losses = []
    for severity in SEVERITIES:
        made = DEGRADATIONS[name](image, severity, np.random.default_rng(3), lungs)
        again = DEGRADATIONS[name](image, severity, np.random.default_rng(3), lungs)
        assert (made.shape, made.dtype) == (image.shape, np.uint8)
        assert np.array_equal(made, again)
        losses.append(float(np.abs(made.astype(float) - image).mean()))
        if name in ("collimation", "marker"):
            assert np.array_equal(made[lungs], image[lungs]), "the lungs stay as they are"
    assert losses == sorted(losses)
    assert losses[0] > 0


@pytest.mark.parametrize("seed", [0, 2])
def test_a_window_leaves_the_lungs_their_grey_levels(seed: int) -> None:
    """Too dark or too bright, the lungs are neither black nor white; without lungs, the picture's middle is neither."""
    image, lungs = film(256)
    middle = np.zeros(image.shape, bool)
    middle[32:-32, 32:-32] = True
    for known, held in ((lungs, lungs), (None, middle)):
        made = DEGRADATIONS["window"](image, 5, np.random.default_rng(seed), known)
        for end in (0, 255):
            assert (made[held] == end).mean() <= 0.015
        assert not np.array_equal(made, image)


def test_collimation_without_lungs_changes_nothing() -> None:
    image, _ = film(64)
    assert np.array_equal(DEGRADATIONS["collimation"](image, 5, np.random.default_rng(0), None), image)


class Stored:
    """A benchmark of pictures in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cases: dict[str, Any] = {}

    def store(self, data: bytes, thumb: bytes | None) -> str:
        path = image_path(sha256(data))
        self.files[path] = data
        return path

    def image_bytes(self, image: str) -> bytes:
        return self.files[image]


def decoded(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return np.asarray(image)


@pytest.mark.parametrize("cell", [f"{name}-5" for name in DEGRADATIONS])
def test_the_drawing_on_a_spoilt_radiograph_is_that_of_the_original_pixel_for_pixel(cell: str) -> None:
    image, _ = film(256)
    # A difference of the two pictures would miss pixels in which the radiograph has the drawing's colours.
    image[100:130] = 255
    stored = Stored()
    builder = ItemBuilder("c1", "edema", None, question_banks.load("en"), stored.store, layers=True)
    line = 128 + 60 * np.stack([np.cos(np.linspace(0, 6.2, 80)), np.sin(np.linspace(0, 6.2, 80))], axis=1)
    marks = [overlays.Mark((128, 110), (255, 255, 255), "A"), overlays.Mark((190, 128), (230, 40, 40), "B")]
    (drawn,) = builder.drawn(
        "points", image, lambda grey: overlays.draw_points(overlays.draw_outline(grey, [line]), marks, [line])
    )
    assert drawn.layer is not None
    assert drawn.base is not None
    layer = decoded(stored.files[drawn.layer])[..., 0] > 0
    source = StressedPictures(stored)  # type: ignore[arg-type]
    name, data = source.make(drawn, cell, "c1")
    assert name == image_path(sha256(data))
    assert source.image_bytes(name) == data
    source._made.clear()
    assert source.image_bytes(name) == data, "made again after it was dropped"
    made, original, base = decoded(data), decoded(stored.files[drawn.image]), decoded(stored.files[drawn.base])
    assert np.array_equal(made[layer], original[layer])
    assert np.array_equal(original[~layer], base[~layer]), "nothing is drawn beside the layer"
    plain = decoded(source.make(Picture("radiograph", drawn.base), cell, "c1")[1])
    assert np.array_equal(made[~layer], plain[~layer]), "all pictures of an item are spoilt alike"
    if cell != "collimation-5":  # no lungs are known
        assert (made[~layer] != base[~layer]).mean() > 0.01
        assert name not in stored.files, "a spoilt picture is never stored"


def items_of(count: int) -> list[Item]:
    picture = Picture("radiograph", image_path("0" * 64))
    return [
        Item(f"c{n}/detection", f"c{n}", 1, "detection", "coarse", 1, "edema", "Does this radiograph show edema?",
             (), False, (picture,), (picture,))
        for n in range(count)
    ]  # fmt: skip


def test_each_item_gets_one_cell_and_each_cell_equally_many_items() -> None:
    rows = items_of(430)
    bank = question_banks.load("en")
    made = cells.stressed(rows, cells.named("all"), bank, {item.case_id: True for item in rows})
    assert len(made) == len(rows), "at most twice the turns"
    counts = Counter(item.condition for item in made)
    assert len(counts) == 8 * 5 + 2 + 1
    assert set(counts.values()) == {10}
    unknown = cells.stressed(rows, ("collimation", "noise"), bank, {})
    assert {cells.kind_of(item.condition) for item in unknown} == {"noise"}, "no lungs, no collimation"
    assert cells.named("wording, noise") == ("noise", "wording")
    with pytest.raises(InputError, match="--stress nois: there is no stress of this name"):
        cells.named("nois")


@pytest.mark.parametrize("letter", wordings.letters("en"))
def test_every_other_wording_has_the_numbers_and_directions_of_the_bank(letter: str) -> None:
    own, other = question_banks.load("en")["kinds"], wordings.wordings("en")[letter]["kinds"]
    assert own.keys() == other.keys()
    for kind, text in other.items():
        assert wordings.misfit(own[kind]["question"], text) is None, kind
        assert text.strip() != own[kind]["question"].strip()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("distribution", ("third", "quarter")),
        ("distribution", ("six", "four")),
        ("revision_expansion", ("outwards", "inwards")),
        ("severity", ("{side} ", "")),
        ("contour_evaluation", ("{least_error}", "a tenth")),
        ("location", ("outer quarter", "outer third")),
        ("grid_cell", ("most", "")),
        ("comparison", (", unless both are so", "")),
        ("comparison", ("less than", "more than")),
        ("severity", (" Leave the heart out of the lung field.", "")),
        ("location", ("towards the spine", "towards the chest")),
    ],
)
def test_a_wording_of_another_meaning_is_caught(kind: str, change: tuple[str, str]) -> None:
    own = question_banks.load("en")["kinds"][kind]["question"]
    other = wordings.wordings("en")["b"]["kinds"][kind]
    assert change[0] in other
    assert wordings.misfit(own, other.replace(*change)) is not None


def test_a_question_is_worded_anew_with_the_values_of_its_own() -> None:
    item = replace(items_of(1)[0], kind="severity", question=question_banks.load("en")["kinds"]["severity"]["question"]
                   .format(side="left", outline="the pleural fluid"))  # fmt: skip
    bank = {"name": "en", "language": "en"}
    asked = wordings.stressed_question(item, "wording-b", bank)
    assert asked.startswith("What share of the left lung field is taken up by the pleural fluid?")
    assert wordings.stressed_question(item, "noise-3", bank) == item.question
    told = wordings.stressed_question(item, "history", bank)
    assert told.endswith(item.question)
    assert told.startswith("History: known ")
    assert "edema" not in told.removesuffix(item.question), "the history is of another finding"
    with pytest.raises(InputError, match="cannot be put in other words"):
        wordings.stressed_question(replace(item, question="How much?"), "wording-c", bank)


@pytest.fixture
def layered(tmp_path: Path) -> Path:
    """A benchmark of two cases whose drawings have layers."""
    (tmp_path / "bench").mkdir()

    class Layered(Handmade):
        def picture(self, role: str, *key: object) -> Picture:
            made = super().picture(role, *key)
            if role == "radiograph":
                return made
            base, layer = super().picture("radiograph", *key[:1]), super().picture(f"{role} layer", *key)
            return replace(made, base=base.image, layer=layer.image)

    made = Layered(tmp_path / "bench")
    made.case("a", "effusion", "lesion_free", detection=(2,))
    made.case("c", "effusion", "revision_required", revision_expansion=(1, 3), revision_contraction=(5,),
              revision_result=(3,), distribution=(2,))  # fmt: skip
    return made.write()


def test_a_run_under_stress_records_it_is_resumed_and_refuses_another(cli: Cli, layered: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("eval", layered, "--models", "baseline/oracle", "--protocol", "independent", "-o", out)
    assert cli(*command, "--stress", "noise,history")[0] == 0
    assert json.loads((out / "run.json").read_text())["stress"] == ["noise", "history"]
    (log,) = (out / "turns").glob("*.jsonl")
    turns = [json.loads(line) for line in log.read_text().splitlines()]
    spoilt = {turn["item_id"]: turn for turn in turns if "stress" in turn}
    plain = {turn["item_id"]: turn for turn in turns if "stress" not in turn}
    assert len(spoilt) == len(plain)
    (row,) = json.loads(cli("run", "status", out, "--json")[1])
    assert row["total"] == row["done"] == len(turns)
    for item_id, turn in spoilt.items():
        base, _, cell = item_id.partition("@")
        assert turn["stress"] == cell
        assert turn["parsed"] == plain[base]["parsed"], "the oracle knows that the key stays"
        assert (turn["image_hashes"] != plain[base]["image_hashes"]) == cell.startswith("noise")
        assert turn["request_hash"] != plain[base]["request_hash"]
        assert not {path.stem for path in (layered / "images").rglob("*.png")} & (
            {*turn["image_hashes"]} - {*plain[base]["image_hashes"]}
        )
    assert cli(*command, "--stress", "history,noise")[0] == 0
    assert len(log.read_text().splitlines()) == len(turns), "nothing is asked again"
    code, _, err = cli(*command, "--stress", "blur")
    assert code == 2
    assert "--stress was noise, history and is now blur" in " ".join(err.split())
    made = dict(gallery.files(grade_folders([out])))
    index = json.loads(made["gallery/index.js"].decode().partition("(")[2].rpartition(")")[0])
    shown = Counter(index["conditions"][item[10]].partition("-")[0] for item in index["items"])
    assert shown == {"original": len(plain), "noise": len(spoilt) - shown["history"], "history": shown["history"]}
    cards = {item[2]: item[9] for item in index["items"]}
    for item_id in spoilt:
        base, _, cell = item_id.partition("@")
        assert (cards[item_id] == cards[base]) == (cell == "history"), "a spoilt picture is shown spoilt"
    assert "altered question" not in " ".join(cli("grade", out)[1].split())
    log.write_text("".join(json.dumps(turn) + "\n" for turn in turns if turn is not spoilt[item_id]))
    said = f"baseline/oracle: 1 of {len(spoilt)} altered questions (--condition, --stress) unfinished"
    assert said in " ".join(cli("grade", out)[1].split())
    both = grade_folders([out, logs.log(tmp_path / "other", layered)])
    (line,) = unfinished_models(both, states(scored_sample(both)))
    assert line.startswith(f"Protocol independent: {said}")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--stress", "noise"], "give --protocol independent"),
        (["--stress", "noise", "--protocol", "independent", "--blind"], "--blind sends no pictures"),
        (
            ["--stress", "noise", "--protocol", "independent"],
            "generate the benchmark again with 'chexqa generate --with-layers'",
        ),
        (["--stress", "wording", "--protocol", "independent"], "cannot be put in other words"),
    ],
)
def test_a_stress_that_cannot_be_asked_is_refused(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, options: list[str], error: str
) -> None:
    code, _, err = cli("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", tmp_path / "run", *options)
    assert code == 2
    assert error in " ".join(err.split())
    assert not (tmp_path / "run").exists()


def test_a_planted_sensitivity_to_wording_is_found(handmade: Handmade) -> None:
    """A model that gives another answer to one in five questions in other words, and to no spoilt radiograph."""
    for number in range(300):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    turns = said(bench)
    altered = []
    for number, turn in enumerate(turns):
        cell = f"wording-{'bc'[number % 2]}" if number < 200 else f"noise-{1 + number % 5}"
        answer = (1,) if number < 200 and number % 5 == 0 else turn.parsed
        altered.append(replace(turn, item_id=f"{turn.item_id}@{cell}", stress=cell, parsed=answer))
    made = study(bench, [replace(run(turns), altered=tuple(altered))])
    assert has_stress(made.graded)
    rows = {row["stress"]: row for row in stress(made).to_dicts()}
    assert rows["wording"]["flips"] == pytest.approx(0.2)
    assert rows["wording"]["flips_low"] < 0.2 < rows["wording"]["flips_high"]
    assert rows["wording"]["change"] == pytest.approx(-0.2)
    assert (rows["noise"]["flips"], rows["noise"]["items"], rows["noise"]["change"]) == (0, 100, 0)
    curve = stress_curve(made)
    assert curve.filter(curve["stress"] == "noise")["strength"].to_list() == ["1", "2", "3", "4", "5"]
    assert not has_stress(study(bench, [run(turns)]).graded)
