"""Maps made of cases by an analytic maker: files, scores, resuming, crops undone, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import analytic_maker
import cv2
import numpy as np
import polars as pl
import pytest
from analytic_maker import CELL, cosines, planted
from hypothesis import given, settings
from hypothesis import strategies as st

from chexqa.eval.heatmaps import metrics, targets
from chexqa.eval.heatmaps.map_files import map_name, read_map, read_score
from chexqa.eval.map_makers import prompts
from chexqa.eval.map_makers.cases_to_map import read_cases
from chexqa.eval.map_makers.geometry import InputFormat
from chexqa.files.jsonio import sha256
from chexqa.imaging import masks

Cli = Callable[..., tuple[int, str, str]]
PLUGIN = Path(analytic_maker.__file__)
SIZE = (160, 256)
EFFUSION, EDEMA = "pleural effusion", "pulmonary edema"


def write_cases(folder: Path) -> Path:
    """Three radiographs: two with an effusion in a known cell, one without; edema is asked of the first and absent."""
    lines = []
    for name, cell in (("one", (2, 3)), ("two", (7, 12)), ("none", None)):
        picture = planted(*SIZE, EFFUSION, cell) if cell else np.full(SIZE, 90, np.uint8)
        picture[0, 0] = 255
        cv2.imwrite(str(folder / f"{name}.png"), picture)
        mask = np.zeros(SIZE, bool)
        if cell:
            mask[cell[0] * CELL : (cell[0] + 1) * CELL, cell[1] * CELL : (cell[1] + 1) * CELL] = True
        lines.append({"case_id": f"{name}/effusion", "image": f"{name}.png", "finding": "effusion",
                      "present": bool(cell), "mask": masks.to_rle(mask) if cell else None, "patient_id": name,
                      "access": "open"})  # fmt: skip
    lines.append({"case_id": "one edema", "image": "one.png", "finding": "edema", "present": False, "mask": None,
                  "patient_id": "one", "access": "open"})  # fmt: skip
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "cases.jsonl"


def make(cli: Cli, cases: Path, out: Path, *words: Any) -> tuple[int, str, str]:
    return cli("heatmaps", "make", cases, "--maker", "analytic", "--plugin", PLUGIN, "-o", out, *words)


def test_every_case_gets_a_map_and_a_score_and_the_maps_point_at_the_planted_patches(tmp_path: Path, cli: Cli) -> None:
    cases = write_cases(tmp_path)
    code, printed, err = make(cli, cases, tmp_path / "maps", "--batch-size", 2)
    assert (code, err) == (0, "")
    assert "made 4 maps" in printed
    table = pl.read_csv(tmp_path / "maps" / "scores.csv")
    assert table.columns == ["case_id", "finding", "present", "score"]
    assert table["case_id"].to_list() == ["one/effusion", "two/effusion", "none/effusion", "one edema"]
    assert table["present"].to_list() == [1, 1, 0, 0]
    assert table["score"][0] == pytest.approx(1)
    assert table["score"][3] < 0.9
    stored = tmp_path / "maps" / map_name("one/effusion", "effusion")
    assert read_map(stored) == pytest.approx(cosines(planted(*SIZE, EFFUSION, (2, 3)), EFFUSION), abs=0.02)
    assert read_score(stored) == table["score"][0]
    about = json.loads((tmp_path / "maps" / "maker.json").read_text())
    assert (about["maker"], about["domain"], about["weights"]) == ("analytic", "general", None)
    code, printed, err = cli("heatmaps", "grade", tmp_path / "maps", "--masks", cases, "-o", tmp_path / "graded")
    assert (code, err, "given" in printed) == (0, "", False)
    rows = pl.read_parquet(tmp_path / "graded" / "heatmaps.parquet")
    assert rows["pointing"].to_list() == [1, 1]


def test_a_map_that_is_there_is_not_made_again(tmp_path: Path, cli: Cli) -> None:
    cases, out = write_cases(tmp_path), tmp_path / "maps"
    assert make(cli, cases, out)[0] == 0

    def stored() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in out.iterdir() if not path.name.startswith(".")}

    before, kept = stored(), out / map_name("one/effusion", "effusion")
    written = kept.stat().st_mtime_ns
    (out / map_name("two/effusion", "effusion")).unlink()
    (out / "scores.csv").unlink()
    code, printed, _ = make(cli, cases, out)
    assert code == 0
    assert "made 1 map in" in printed
    assert "kept 3" in printed
    assert stored() == before
    assert kept.stat().st_mtime_ns == written


def test_maps_of_changed_code_are_refused_and_names_are_taken_once(tmp_path: Path, cli: Cli) -> None:
    cases, out, plugin = write_cases(tmp_path), tmp_path / "maps", tmp_path / "changed.py"

    def run(name: str, value: int, *words: Any, file: Path = plugin) -> tuple[int, str, str]:
        sys.modules.pop(f"_chexqa_python_{file.stem}", None)
        file.write_text(
            "import numpy as np\nfrom chexqa.eval.map_makers.registry import map_maker\n"
            f"@map_maker('{name}', domain='general')\ndef made(picture, finding):\n"
            f"    return np.full((2, 2), {value}), 1\n"
        )
        return cli("heatmaps", "make", cases, "--plugin", file, "--maker", name, "-o", out, *words)

    assert run("twice", 1)[0] == 0
    before = (out / "scores.csv").read_bytes()
    code, _, err = run("twice", 2)
    assert (code, "field 'code': the maps in this folder were made before" in err) == (2, True)
    assert (out / "scores.csv").read_bytes() == before
    assert run("twice", 1)[1].endswith("kept 4 existing maps\n")
    code, _, err = run("clip-cosine", 1)
    assert code == 2
    assert "line 3, function 'made': the map maker 'clip-cosine' is already registered by" in err
    code, _, err = run("another", 1, file=tmp_path / "another.py")
    assert (code, "maps of 'twice', but this command makes maps of 'another'" in err) == (2, True)
    code, _, err = run("twice", 1, file=tmp_path / "other.py")
    assert (code, f"'twice' is already registered by {plugin}; rename one of them" in err) == (2, True)


def test_the_code_of_a_maker_is_that_of_the_file_which_registers_it(tmp_path: Path, cli: Cli) -> None:
    plugin = tmp_path / "partly.py"
    plugin.write_text(
        "from functools import partial\nimport numpy as np\nfrom chexqa.eval.map_makers.registry import map_maker\n"
        "def made(picture, finding, value):\n    return np.full((2, 2), value), 1\n"
        "map_maker('partly')(partial(made, value=1))\n"
    )
    words = ("--plugin", plugin, "--maker", "partly", "-o", tmp_path / "maps")
    assert cli("heatmaps", "make", write_cases(tmp_path), *words)[0] == 0
    known = json.loads((tmp_path / "maps" / "maker.json").read_text())
    assert known["code"] == sha256(plugin.read_bytes())


def test_a_benchmark_of_an_unknown_finding_has_cases_and_targets(handmade: Any) -> None:
    measures = {"masks": {"lesion": masks.to_rle(np.eye(30, dtype=bool))}}
    case = handmade.case("x1/hiatal_hernia", "hiatal_hernia", "revision_free", detection=(1,), measures=measures)
    bench = handmade.write()
    assert [one.finding for one in read_cases(bench).cases] == ["hiatal_hernia"]
    (target,) = targets.of_benchmark(bench).targets
    assert target.case_id == case
    image = replace(target, file_stems=frozenset({"image"}))
    assert targets.Directory([image]).find("image_hiatal_hernia", "maps") is image


def test_a_folder_of_another_makers_maps_is_refused(tmp_path: Path, cli: Cli) -> None:
    cases, out = write_cases(tmp_path), tmp_path / "maps"
    assert make(cli, cases, out)[0] == 0
    own = tmp_path / "own.yaml"
    own.write_text("name: own\ntemplates: ['{finding}']\nnegatives: []\nfindings: {}\n")
    code, _, err = make(cli, cases, out, "--prompts", own)
    assert code == 2
    assert "field 'prompts': the folder has maps of the wording 'plain'" in err
    (tmp_path / "strange").mkdir()
    np.save(tmp_path / "strange" / "x_edema.npy", np.ones((3, 3)))
    code, _, err = make(cli, cases, tmp_path / "strange")
    assert (code, "contains x_edema.npy but no maker.json" in err) == (2, True)
    assert [one.name for one in (tmp_path / "strange").iterdir()] == ["x_edema.npy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--maker", "analitic"), "there is no map maker 'analitic' (did you mean 'analytic'?)"),
        (("--maker", "analytic", "--weights", "."), "--maker analytic: takes no weights"),
        (("--maker", "clip-cosine"), "--maker clip-cosine: this maker needs a folder with its weights"),
        (("--maker", "clip-cosine", "--weights", "nowhere"), "--weights nowhere: is not a folder"),
        (("--maker", "analytic", "--plugin", "nowhere.py"), "--plugin nowhere.py: there is no file nowhere.py"),
        (("--maker", "analytic", "--plugin", "json"), "--plugin json: this plugin registers no map maker"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(tmp_path: Path, cli: Cli, words: tuple[str, ...], message: str) -> None:
    cases = write_cases(tmp_path)
    code, _, err = cli("heatmaps", "make", cases, "--plugin", PLUGIN, "-o", tmp_path / "out", *words)
    assert code == 2
    assert message in " ".join(err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("__import__('sys').exit(4)", "the case 'one/effusion' (SystemExit: 4)"),
        ("np.ones((2, 2))", "must return a pair"),
        ("(np.ones((2, 2, 2)), 0.5)", "has shape (2, 2, 2)"),
        ("(np.array([['a']]), 0.5)", "and type <U1"),
        ("7", "the maker returned int"),
        ("(np.ones((2, 2)), 'x')", "a score of type str; the score must be a number"),
        (
            "(np.ones((2, 2)), np.nan)",
            "broken.py, line 3, function 'broken': one/effusion, effusion: the maker returned the score nan",
        ),
        ("(np.full((2, 2), np.nan), 1)", "4 of the 4 values of the maker's map are not finite"),
    ],
)
def test_a_maker_that_returns_something_else_is_told(tmp_path: Path, cli: Cli, made: str, message: str) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "import numpy as np\nfrom chexqa.eval.map_makers.registry import map_maker\n"
        f"@map_maker('broken{abs(hash(made))}')\ndef broken(picture, finding):\n    return {made}\n"
    )
    code, _, err = cli("heatmaps", "make", write_cases(tmp_path), "--plugin", plugin, "--maker",
                       f"broken{abs(hash(made))}", "-o", tmp_path / "new" / "out")  # fmt: skip
    assert code == 2
    assert message in " ".join(err.split())
    assert not (tmp_path / "new").exists()


BATCH = "class Maker:\n    def batch(self, pictures, findings):\n        deeper(findings)\nmap_maker('%s')(Maker())\n"


@pytest.mark.parametrize(
    ("name", "code", "place", "failed"),
    [
        ("one-case", "@map_maker('%s')\ndef maker(picture, finding):\n    return deeper(picture)\n",
         "line 5, function 'deeper': ", "the case 'one/effusion'"),
        ("batch", BATCH, "line 5, function 'deeper': ", "the case 'one/effusion' or one of the 3 cases after it"),
        ("loader", "@map_loader('%s')\ndef load(loading):\n    return deeper(loading)\n",
         "line 5, function 'deeper': ", "the weights maps-weights"),
        ("signature", "@map_maker('%s')\ndef maker(picture):\n    return 1\n",
         "line 6, function 'maker': ", "the case 'one/effusion'"),
    ],
)  # fmt: skip
def test_a_plugin_whose_code_fails_is_named_with_the_place_and_the_case(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, code: str, place: str, failed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("maps-weights").mkdir()
    plugin = tmp_path / f"fails_{name}.py"
    plugin.write_text(
        "import numpy as np\nfrom chexqa.eval.map_makers.registry import map_loader, map_maker\n\n"
        "def deeper(given):\n    return np.zeros(2).reshape(3)\n" + code % f"fails-{name}"
    )
    weights = ("--weights", "maps-weights") if name == "loader" else ()
    made = cli("heatmaps", "make", write_cases(tmp_path), "--plugin", plugin, "--maker", f"fails-{name}", *weights,
               "-o", "maps")  # fmt: skip
    said = f"error: {plugin}, {place}the plugin of the map maker 'fails-{name}' failed on {failed} ("
    assert (made[0], made[2][: len(said)]) == (2, said)
    assert re.search(r" \((ValueError|TypeError): .+\); correct the plugin\.$", made[2])
    assert not Path("maps").exists()


def test_a_shifted_picture_shifts_the_map_by_as_much() -> None:
    picture = planted(*SIZE, EFFUSION, (2, 3))
    whole = cosines(picture, EFFUSION)
    for down, right in ((1, 0), (0, 2), (3, 5)):
        shifted = np.roll(picture, (down * CELL, right * CELL), (0, 1))
        assert cosines(shifted, EFFUSION) == pytest.approx(np.roll(whole, (down, right), (0, 1)))


FORMATS = [
    InputFormat((224, 224), "stretch"),
    InputFormat((224, 224), "crop", 224),
    InputFormat((224, 224), "crop", 256),
    InputFormat((224, 256), "crop", 300),
    InputFormat((224, 224), "pad"),
    InputFormat((192, 224), "pad"),
]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: f"{form.policy} {form.shorter} {form.side}")
@pytest.mark.parametrize("shape", [(300, 300), (400, 250), (260, 500), (97, 33)])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(across=st.floats(0, 1), down=st.floats(0, 1))
def test_a_planted_corner_comes_back_within_a_cell(
    form: InputFormat, shape: tuple[int, int], across: float, down: float
) -> None:
    """A bright spot anywhere that the input shows is where the map, put back, has its maximum."""
    cell = 16
    fit = form.fit(shape)
    scales = [fit.resized[axis] / shape[axis] for axis in (0, 1)]
    first = [max(0, fit.offset[axis]) / scales[axis] for axis in (0, 1)]
    last = [min(fit.resized[axis], fit.offset[axis] + fit.side[axis]) / scales[axis] for axis in (0, 1)]
    at = [int(min(first[axis] + part * (last[axis] - first[axis]), last[axis] - 1)) for axis, part in
          enumerate((down, across))]  # fmt: skip
    picture = np.zeros(shape, np.uint8)
    reach = [max(1, round(2 / scales[axis])) for axis in (0, 1)]
    picture[max(0, at[0] - reach[0]) : at[0] + reach[0] + 1, max(0, at[1] - reach[1]) : at[1] + reach[1] + 1] = 255
    pixels, same = form.to_input(picture)
    assert same == fit
    grid = pixels[0].reshape(form.side[0] // cell, cell, form.side[1] // cell, cell).mean(axis=(1, 3))
    back = metrics.fit(fit.undo(grid).astype(np.float64), shape)
    rows, columns = np.nonzero(back >= back.max() - 1e-6)
    allowed = [cell / scales[axis] + 1 for axis in (0, 1)]
    assert abs(rows.mean() - at[0]) <= allowed[0]
    assert abs(columns.mean() - at[1]) <= allowed[1]


def test_a_stretched_map_is_not_touched_and_a_crop_has_its_smallest_value_outside() -> None:
    values = np.arange(196.0).reshape(14, 14)
    assert (FORMATS[0].fit((400, 250)).undo(values) == values).all()
    back = InputFormat((224, 224), "crop", 224).fit((448, 224)).undo(values)
    assert back.shape == (112, 56)
    assert (back[:28] == 0).all()
    assert (back[-28:] == 0).all()
    assert back[56:84].mean() > back[28:56].mean() > 0


def test_the_wording_names_every_finding_and_combines_templates_with_names() -> None:
    wording = prompts.read_prompts(None)
    assert wording.finding("effusion") == EFFUSION
    assert len(wording.positive(EFFUSION)) == len(wording.templates) * len(wording.words["effusion"])
    assert "there is no pleural fluid" in wording.negative(EFFUSION)
    assert wording.positive("a lump") == [template.format(finding="a lump") for template in wording.templates]


def test_a_missing_radiograph_is_named_with_the_option_that_finds_it(tmp_path: Path, cli: Any) -> None:
    case = {"case_id": "a", "image": "pictures/a.png", "finding": "effusion", "present": False, "access": "open"}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n")
    (tmp_path / "flat.py").write_text(
        "import numpy as np\nfrom chexqa.eval.map_makers.registry import map_maker\n\n"
        "@map_maker('flat-one')\ndef flat(picture, finding):\n    '''Flat.'''\n    return np.eye(4), 0.0\n"
    )
    plugin = ("--plugin", tmp_path / "flat.py", "--maker", "flat-one")
    code, _, err = cli("heatmaps", "make", tmp_path / "cases.jsonl", *plugin, "-o", tmp_path / "maps")
    assert code == 2
    assert "cases.jsonl, line 1: a.png: no such file; if the data lies elsewhere, give --image-root" in " ".join(
        err.split()
    )
