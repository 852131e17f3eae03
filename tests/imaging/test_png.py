"""Writing PNG files: what two other decoders read is what was written, and a file's length tells nothing."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import deflate
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from chexqa import phantoms
from chexqa.imaging import png
from chexqa.imaging.read import read_radiograph

# A process that compresses what lies in files and prints checksums. It imports little, since it is started often; the
# rest of an encoding is sums of whole numbers.
COMPRESSING = """
import sys
sys.path.append(sys.argv[1])
from deflate import crc32, zlib_compress
print([crc32(zlib_compress(open(path, "rb").read(), 1)) for path in sys.argv[2:]])
"""


def by_pillow(data: bytes) -> np.ndarray:
    """The pixels as Pillow reads them, which checks every chunk; nothing but pixels may be there."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.verify()
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        assert picture.info == {}
        return np.array(picture)


def by_opencv(data: bytes) -> np.ndarray:
    array = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert array is not None
    return array if array.ndim == 2 else cv2.cvtColor(array, cv2.COLOR_BGR2RGB)


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([(), (3,)]), st.integers(1, 256), st.integers(0, 99))
def test_two_other_decoders_read_what_was_written(
    height: int, width: int, channels: tuple[int, ...], shades: int, seed: int
) -> None:
    array = np.random.default_rng(seed).integers(0, shades, (height, width, *channels)).astype(np.uint8)
    data = png.encode(array)
    assert np.array_equal(by_pillow(data), array)
    assert np.array_equal(by_opencv(data), array)
    assert png.encode(array) == data


def test_a_part_of_a_larger_array_is_written_as_it_looks() -> None:
    whole = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    for part in (whole[5:30, 7:50], whole[::-1], whole[:, ::2], whole[..., 0], np.asfortranarray(whole)):
        assert np.array_equal(by_pillow(png.encode(part)), part)


def test_a_large_picture_comes_back_and_is_smaller_than_its_pixels() -> None:
    smooth = cv2.resize(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8), (1024, 1024))
    data = png.encode(np.asarray(smooth, np.uint8))
    assert np.array_equal(by_opencv(data), smooth)
    assert len(data) < smooth.size / 3


@pytest.mark.parametrize("sides", [(8, 8), (180, 40, 181), (300, 700)])
def test_files_of_a_set_are_of_one_length_and_show_what_they_did(sides: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in sides]
    files = png.of_one_length([png.encode(image) for image in images])
    assert len({len(file) for file in files}) == 1
    assert len(files[0]) % 65536 == 0
    assert files == png.of_one_length([png.encode(image) for image in images])
    for image, file in zip(images, files, strict=True):
        assert np.array_equal(by_pillow(file), image)
        assert np.array_equal(by_opencv(file), image)


@pytest.mark.parametrize("short_by", range(14))
def test_a_file_that_nearly_fills_a_length_takes_it_or_the_next(short_by: int) -> None:
    """A chunk takes twelve bytes at least."""
    head, end = png.encode(np.zeros((1, 1), np.uint8))[:-12], png.encode(np.zeros((1, 1), np.uint8))[-12:]
    chunk = bytes(65536 - len(head) - len(end) - short_by)
    (padded,) = png.of_one_length([head + chunk + end])
    assert len(padded) == (65536 if short_by >= 12 else 131072)


def flat(number: int) -> np.ndarray:
    """A wide picture of one shade with an outline.

    With an encoder whose bytes depend on where its memory lies, one in a hundred of these differs from process to
    process; of noisy pictures hardly any does.
    """
    picture = np.full((300, 1024, 3), 20 * number, np.uint8)
    centre, axes = (340 + 3 * number, 150), (205 + number, 50)
    return np.asarray(cv2.ellipse(picture, centre, axes, 9 * number, 0, 360, (255, 0, 0), 1, cv2.LINE_AA), np.uint8)


def sums_in_processes(
    pictures: Iterable[np.ndarray], starts: Iterable[list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The checksums of the pictures' packed rows, here and in new processes that are started by each of ``starts``."""
    sums: list[int] = []
    files: list[str] = []

    def noted(rows: np.ndarray, level: int) -> bytes:
        assert level == 1
        path = folder / f"{len(files)}.rows"
        path.write_bytes(rows.tobytes())
        files.append(str(path))
        packed = deflate.zlib_compress(rows, level)
        sums.append(deflate.crc32(packed))
        return bytes(packed)

    with monkeypatch.context() as patch:
        patch.setattr(png, "zlib_compress", noted)
        for picture in pictures:
            png.encode(picture)
    place = str(Path(deflate.__file__).parents[1])

    def printed(start: list[str]) -> str:
        command = [*start, sys.executable, "-I", "-S", "-c", COMPRESSING, place, *files]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    with ThreadPoolExecutor(2) as executor:
        return {str(sums), *executor.map(printed, starts)}


@pytest.mark.long
def test_sixty_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process has its memory elsewhere."""
    noise = np.random.default_rng(0).integers(0, 256, (256, 256), np.uint8)
    pictures = [*map(flat, range(5)), noise, phantoms.draw(0, 0, "effusion", True, 256).image]
    assert len(sums_in_processes(pictures, [[]] * 60, tmp_path, monkeypatch)) == 1


@pytest.mark.long
def test_sixty_processes_write_the_same_bytes_of_real_radiographs(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [read_radiograph(path) for path in sorted((real_data / "radiographs" / "images").glob("nih_*.png"))]
    assert len(pictures) == 2
    assert len(sums_in_processes(pictures, [[]] * 60, tmp_path, monkeypatch)) == 1


def test_three_other_processors_write_the_same_bytes(
    qemu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [flat(1)[:100], np.random.default_rng(0).integers(0, 256, (200, 200), np.uint8)]
    starts = [[qemu, "-cpu", name] for name in ("Nehalem", "Haswell", "EPYC")]
    assert len(sums_in_processes(pictures, starts, tmp_path, monkeypatch)) == 1


@pytest.mark.parametrize("width", [1, 7, 8])
@pytest.mark.parametrize("colours", [2, 16, 17, 65])
def test_a_drawing_comes_back_in_its_colours_and_is_transparent_elsewhere(width: int, colours: int) -> None:
    palette = [(number, 2 * number, 255 - number) for number in range(65)]
    drawing = np.random.default_rng(0).integers(0, colours, (40, width), np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png.encode_drawing(drawing, palette))).convert("RGBA"))
    assert np.array_equal(read[..., 3] == 0, drawing == 0)
    assert np.array_equal(read[drawing > 0, :3], np.array(palette, np.uint8)[drawing[drawing > 0]])
