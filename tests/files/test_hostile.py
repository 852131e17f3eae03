"""Files from strangers: none fills the memory, is read for ever, leads out of its folder or ends in a traceback."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grades import run, said

from chexqa.contract import benchmark, read_run
from chexqa.eval.models import registry
from chexqa.eval.report import write
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import groups
from chexqa.files import jsonio, limits
from chexqa.files.errors import InputError
from chexqa.files.limits import MAX_DEPTH, is_deep
from chexqa.imaging import masks
from chexqa.imaging import read as imaging
from chexqa.interchange.release_export import export_release

Cli = Callable[..., tuple[int, str, str]]
HEAD = "models:\n  - {name: m, like: lingshu-32b, decoding: "


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("1", False),
        (nested(MAX_DEPTH), False),
        (nested(MAX_DEPTH + 1), True),
        ('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH, False),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), True),
        (json.dumps([[1]] * 1000), False),
        (json.dumps(["["] * 1000), False),
        (json.dumps(['\\"[', "]{"] * 1000), False),
        (json.dumps([["[" * 99, {"}": json.loads(nested(MAX_DEPTH - 2))}]]), False),
        (json.dumps([["[" * 99, {"}": json.loads(nested(MAX_DEPTH - 1))}]]), True),
    ],
)
def test_depth_is_that_of_lists_and_objects_whatever_strings_hold(text: str, deep: bool) -> None:
    json.loads(text)
    assert is_deep(text) is deep


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 100_000])
def test_json_that_is_nested_without_end_is_refused(depth: int) -> None:
    with pytest.raises(InputError, match=r"^here: (lists and objects are nested more than 64 deep|not valid JSON)"):
        jsonio.parse_json(nested(depth), "here")


HALVES = ['"\\ud800"', '{"\\uDFFF": 1}', '[["a", "\\uDE00\\ud83d"]]']
WHOLE = ['"\\ud83d\\ude00"', '"\\\\ud800"', '"\\ud55c"', '"\U0001f600"']


@pytest.mark.parametrize("text", HALVES + WHOLE)
def test_half_of_a_character_is_refused_and_a_whole_one_is_not(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(f"1\n{text}\n", encoding="utf-8")
    if text in WHOLE:
        assert [value for _, value in jsonio.read_lines(tmp_path / "x.jsonl")] == [1, json.loads(text)]
        return
    with pytest.raises(InputError, match=r"x\.jsonl, line 2: contains \\u[0-9a-f]{4}, an unpaired surrogate"):
        list(jsonio.read_lines(tmp_path / "x.jsonl"))


def test_what_is_written_below_a_plain_file_or_under_too_long_a_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    for path in (tmp_path / "plain" / "x", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="x: cannot be written"):
            jsonio.write_bytes(path, b"")
        with pytest.raises(InputError, match="x: cannot be written"):
            jsonio.write_lines(path, [{}])


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("{}\n" + " " * 50 + "\n" + " " * 51 + "\n")
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 52)
    assert [number for number, _ in jsonio.read_lines(path)] == [1]
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 51)
    with pytest.raises(InputError, match="line 3: is longer than 51 characters"):
        list(jsonio.read_lines(path))


def test_a_log_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_bytes(b"x" * 60)
    assert read_run.read_log(path).turns == []  # a line that was cut while being written
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 51)
    assert "turns.jsonl, line 1: is longer than 51 characters" in str(read_run.read_log(path).aside)


def test_a_file_beyond_its_bound_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    with path.open("wb") as file:
        file.truncate(limits.MAX_YAML_BYTES + 1)
    with pytest.raises(InputError, match=r"models\.yaml: is larger than 1 MB"):
        registry.load(path)
    path = tmp_path / "chexpercept.json"
    with path.open("wb") as file:
        file.truncate(limits.MAX_JSON_BYTES + 1)  # a hole: it takes no room on the disk
    with pytest.raises(InputError, match="is larger than 1,024 MB"):
        jsonio.read_text(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "x.png"
    os.mkfifo(pipe)
    for read in (jsonio.read_text, imaging.read_radiograph, lambda path: masks.read_mask_png(path)):
        with pytest.raises(InputError, match="is a pipe or device"):
            read(pipe)


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (bomb(12), "more than 100,000 values after all aliases are expanded"),
        ("models: &m [*m]", "a value contains an alias of itself"),
        ("models: [" * 5_000, "not valid YAML"),
        (HEAD + "{when: 2026-01-01}}", "contains a value that JSON cannot express"),
        (HEAD + "{temperature: .nan}}", "contains a value that JSON cannot express"),
        (HEAD + "!!set {a}}", "contains a value that JSON cannot express"),
        (HEAD + "!!binary aGk=}", "contains a value that JSON cannot express"),
        (HEAD + "{1: 2}}", "the key 1 is not text"),
        (HEAD + '{a: "\\ud800"}}', "an unpaired surrogate"),
        (HEAD + "!!python/object/apply:os.getcwd []}", "could not determine a constructor"),
    ],
)
def test_yaml_that_bursts_runs_or_is_no_plain_data_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"models\\.yaml.*{reason}"):
        registry.load(path)


def test_aliases_as_people_use_them_are_read(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        "models:\n"
        "  - {name: one, like: lingshu-32b, decoding: &d {temperature: 0, max_tokens: 9}}\n"
        "  - {name: two, like: lingshu-32b, decoding: *d}\n"
    )
    models = registry.load(path)
    assert models["one"].decoding == models["two"].decoding == {"temperature": 0, "max_tokens": 9}


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)),
              (b"IEND", b"")]  # fmt: skip
    coded = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
             for name, data in chunks)  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)


BAD_PICTURES = {
    "a bomb": (png(60_000, 60_000), "60000 x 60000 px"),
    "no pixels": (png(0, 5), "0 x 5 px"),
    "no picture": (b"#!/bin/sh" * 20, "is not a PNG file"),
    "nothing": (b"", "is not a PNG file"),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_a_benchmark_s_picture_is_bounded_though_its_hash_is_right(tiny_benchmark: Path, cli: Cli, name: str) -> None:
    data, reason = BAD_PICTURES[name]
    items = (tiny_benchmark / "items.jsonl").read_text()
    old = json.loads(items.splitlines()[0])["alone_images"][0]["image"]
    new = benchmark.image_path(jsonio.sha256(data))
    (tiny_benchmark / new).parent.mkdir(parents=True, exist_ok=True)
    (tiny_benchmark / new).write_bytes(data)
    (tiny_benchmark / "items.jsonl").write_text(items.replace(old, new))
    about = json.loads((tiny_benchmark / "benchmark.json").read_text())
    about["files"]["items.jsonl"] = jsonio.sha256((tiny_benchmark / "items.jsonl").read_bytes())
    (tiny_benchmark / "benchmark.json").write_text(json.dumps(about))
    bench = benchmark.load(tiny_benchmark)
    with pytest.raises(InputError, match=reason):
        bench.thumb_bytes(new)
    code, _, err = cli("show", tiny_benchmark, bench.items[0].case_id, "-o", tiny_benchmark.parent / "sheet.png")
    assert (code, new in err, reason in err) == (2, True, True)


def test_other_makes_of_png_are_shown_as_8_bits_of_grey_or_rgb() -> None:
    import cv2

    ramp = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * 16
    deep = cv2.imencode(".png", ramp)[1].tobytes()
    assert (imaging.decode_png(deep, "it") == ramp >> 8).all()
    clear = np.dstack([np.full((64, 64), shade, np.uint8) for shade in (10, 20, 30, 0)])
    assert (imaging.decode_png(cv2.imencode(".png", clear)[1].tobytes(), "it") == [30, 20, 10]).all()


def test_a_link_in_a_thumbnail_s_place_brings_no_other_file_into_a_report(tiny_benchmark: Path) -> None:
    secret = tiny_benchmark.parent / "secret"
    secret.write_bytes(imaging.encode_thumb(np.zeros((400, 500), np.uint8)))
    bench = benchmark.load(tiny_benchmark)
    image = bench.items[0].alone_images[0].image
    thumb = tiny_benchmark / benchmark.thumb_path(image)
    thumb.parent.mkdir(parents=True)
    thumb.symlink_to(secret)
    with pytest.raises(InputError, match="is a link that leads out of"):
        bench.thumb_bytes(image)


def test_a_thumbnail_that_is_another_picture_is_not_decoded() -> None:
    from io import BytesIO

    from PIL import Image

    for kind, size, reason in (("PNG", (9, 9), "is not a complete JPEG"), ("JPEG", (385, 9), "385 x 9 px")):
        file = BytesIO()
        Image.new("L", size).save(file, kind)
        with pytest.raises(InputError, match=f"^that one.*{reason}"):
            imaging.open_thumb(file.getvalue(), "that one")
    good = imaging.encode_thumb(np.zeros((400, 500), np.uint8))
    assert imaging.open_thumb(good, "it").size == (384, 307)
    with pytest.raises(InputError, match="is not a complete JPEG"):
        imaging.open_thumb(good[:-50], "it")


def changed_key(folder: Path, change: Callable[[dict[str, Any]], object]) -> benchmark.Benchmark:
    """The benchmark with every line of its key changed, as a stranger could have written it."""
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    for line in lines:
        change(line)
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    about = json.loads((folder / "benchmark.json").read_text())
    about["files"]["answers.jsonl"] = jsonio.sha256((folder / "answers.jsonl").read_bytes())
    (folder / "benchmark.json").write_text(json.dumps(about))
    return benchmark.load(folder)


@pytest.mark.parametrize("place", ["../../../../../outside.png", "a/../../../../../../outside.png"])
def test_an_export_writes_nothing_outside_its_folder(tiny_benchmark: Path, tmp_path: Path, place: str) -> None:
    def lead_out(line: dict[str, Any]) -> None:
        if line.get("item_id", "").endswith("/contour_evaluation"):
            line["evidence"] = {"release": {"relative_path": place}}

    out = tmp_path / "a" / "b" / "c" / "d" / "e" / "out"  # deeper than the place leads up
    out.parent.mkdir(parents=True)
    with pytest.raises(InputError, match="name a picture outside the case's folder"):
        export_release(changed_key(tiny_benchmark, lead_out), out)
    assert not out.exists()
    assert not list(tmp_path.rglob("outside.png"))


def test_an_export_takes_no_folder_s_name_from_a_key(tiny_benchmark: Path, tmp_path: Path) -> None:
    def lead_out(line: dict[str, Any]) -> None:
        if "source_case_id" in line:
            line["source_case_id"] = "effusion_../../../outside"
            line["measures"] = {"release": {"pair_id": "1", "dicom_id": "2"}}

    out = tmp_path / "a" / "b" / "c" / "out"
    out.parent.mkdir(parents=True)
    made = export_release(changed_key(tiny_benchmark, lead_out), out)
    assert made == 6, "a key that is none gives the case's own id"
    assert {path.parent.name for path in out.rglob("detection_qa")} == set(
        json.loads((out / "chexpercept.json").read_text())
    )
    assert not list(tmp_path.rglob("outside"))


def test_a_report_removes_no_file_that_a_stranger_s_index_names(tiny_benchmark: Path, tmp_path: Path) -> None:
    bench, folder, mine = benchmark.load(tiny_benchmark), tmp_path / "report", tmp_path / "mine"
    for place in (mine / "a", folder / "sub" / "x.csv"):
        place.parent.mkdir(parents=True)
        place.write_text("text")
    (folder / "link").symlink_to(mine)
    names = ["report.json", "sub/x.csv", "../mine/a", str(mine / "a"), "link/a"]
    (folder / "report.json").write_text(json.dumps({"tables": {}, "files": names}))
    write.write(groups(grade.grade_runs(bench, [run(said(bench))])), folder, overwrite=True)
    assert not (folder / "sub" / "x.csv").exists(), "which the folder's earlier report wrote"
    assert (mine / "a").read_text() == "text"
