"""DICOM radiographs: shown as a viewer shows them, read within bounds, and nothing of the person."""

from __future__ import annotations

import builtins
import io
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa.contract import cases
from chexqa.files.errors import InputError
from chexqa.imaging import dicom
from chexqa.imaging import read as imaging

pydicom = pytest.importorskip("pydicom", reason="the extra 'dicom' is not installed: pip install 'chexqa[dicom]'")

from pydicom import uid  # noqa: E402
from pydicom.dataset import Dataset, FileMetaDataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402

H, W = 48, 64
RAMP = np.add.outer(np.arange(H), np.arange(W))  # 0 to 110
GREY = RAMP.astype(np.uint8)
NAME, NUMBER = "Doe^Jane", "MRN-4711"


def picture(values: np.ndarray = RAMP * 30, signed: bool = False, **tags: Any) -> Dataset:
    """A file of 12 bits in 16 unless ``tags`` say otherwise, with a person in it; ``None`` takes a tag away."""
    data = Dataset()
    data.PatientName, data.PatientID, data.PatientBirthDate = NAME, NUMBER, "19500101"
    data.SOPClassUID, data.SOPInstanceUID = uid.DigitalXRayImageStorageForPresentation, "1.2.3.4"
    bits = 8 if values.dtype == np.uint8 else 16
    data.Rows, data.Columns, data.SamplesPerPixel = values.shape[0], values.shape[1], 1
    data.BitsAllocated, data.BitsStored, data.HighBit = bits, min(bits, 12), min(bits, 12) - 1
    if signed or bits == 8:
        data.BitsStored, data.HighBit = bits, bits - 1
    data.PixelRepresentation, data.PhotometricInterpretation = int(signed), "MONOCHROME2"
    data.PixelData = values.astype(f"<{'i' if signed else 'u'}{bits // 8}").tobytes()
    data["PixelData"].VR = "OW"
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID
    for name, value in tags.items():
        if value is None:
            delattr(data, name)
        else:
            setattr(data, name, value)
    return data


def lut(data: list[int], first: int, bits: int = 16) -> list[Dataset]:
    item = Dataset()
    item.LUTDescriptor, item.LUTData = [len(data), first, bits], data
    item["LUTDescriptor"].VR, item["LUTData"].VR = "US", "US"
    return [item]


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write a data set to a file and return its path."""

    def call(data: Dataset, name: str = "x.dcm") -> Path:
        data.save_as(tmp_path / name, enforce_file_format=True)
        return tmp_path / name

    return call


Save = Callable[..., Path]


def linear(values: np.ndarray, center: float, width: float) -> np.ndarray:
    """The standard's linear window, value by value."""
    out = np.zeros(values.shape)
    for place, x in np.ndenumerate(values):
        if x <= center - 0.5 - (width - 1) / 2:
            out[place] = 0
        elif x > center - 0.5 + (width - 1) / 2:
            out[place] = 255
        else:
            out[place] = ((x - (center - 0.5)) / (width - 1) + 0.5) * 255
    return np.rint(out).astype(np.uint8)


def test_the_window_of_the_header_is_applied(save: Save) -> None:
    image = imaging.read_radiograph(save(picture(WindowCenter=1500, WindowWidth=2000)))
    assert image.dtype == np.uint8
    assert np.array_equal(image, linear(RAMP * 30, 1500, 2000))


def test_the_first_of_several_windows_counts(save: Save) -> None:
    image = imaging.read_radiograph(save(picture(WindowCenter=[1500, 100], WindowWidth=[2000, 50])))
    assert np.array_equal(image, linear(RAMP * 30, 1500, 2000))


def test_the_window_is_of_rescaled_values(save: Save) -> None:
    tags = {"RescaleSlope": "0.5", "RescaleIntercept": "-100", "WindowCenter": 700, "WindowWidth": 900}
    assert np.array_equal(imaging.read_radiograph(save(picture(**tags))), linear(RAMP * 15 - 100, 700, 900))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("SIGMOID", 255 / (1 + np.exp(-4 * (RAMP * 30 - 1500) / 2000))),
        ("LINEAR_EXACT", np.clip((RAMP * 30 - 1500) / 2000 + 0.5, 0, 1) * 255),
    ],
)
def test_the_windows_function_is_obeyed(save: Save, function: str, expected: np.ndarray) -> None:
    image = imaging.read_radiograph(save(picture(WindowCenter=1500, WindowWidth=2000, VOILUTFunction=function)))
    assert np.array_equal(image, np.rint(expected).astype(np.uint8))


def test_a_voi_table_goes_before_a_window(save: Save) -> None:
    values = RAMP.astype(np.uint16)
    table = lut([(value**2) * 5 for value in range(111)], 0)
    image = imaging.read_radiograph(save(picture(values, VOILUTSequence=table, WindowCenter=1, WindowWidth=2)))
    assert np.array_equal(image, np.rint(RAMP**2 / 110**2 * 255).astype(np.uint8))


def test_a_modality_table_goes_before_the_window(save: Save) -> None:
    table = lut([1000 - value for value in range(111)], 0)
    table[0].ModalityLUTType = "US"
    data = picture(RAMP, ModalityLUTSequence=table, WindowCenter=945, WindowWidth=112)
    assert np.array_equal(imaging.read_radiograph(save(data)), linear(1000 - RAMP, 945, 112))


def test_monochrome1_is_inverted_after_the_window(save: Save) -> None:
    data = picture(PhotometricInterpretation="MONOCHROME1", WindowCenter=1500, WindowWidth=2000)
    assert np.array_equal(imaging.read_radiograph(save(data)), 255 - linear(RAMP * 30, 1500, 2000))


@pytest.mark.parametrize("bits", [12, 14, 16])
def test_without_a_window_deep_values_use_the_whole_range_whatever_the_outliers(save: Save, bits: int) -> None:
    values = np.tile(np.linspace(500, 2**bits - 600, 64).astype(np.uint16), (64, 1))
    values[0, 0], values[-1, -1] = 0, 2**bits - 1
    image = imaging.read_radiograph(save(picture(values, BitsStored=bits, HighBit=bits - 1)))
    assert (image[0, 0], image[-1, -1]) == (0, 255)
    assert (image[5, 0], image[5, -1]) == (0, 255)
    assert (np.diff(image[5].astype(int)) > 0).all()


@pytest.mark.parametrize("slope", [1, -1])
def test_signed_values_and_a_negative_slope_keep_their_order(save: Save, slope: int) -> None:
    values = (RAMP * 30 - 1000).astype(np.int16)
    tags = {"RescaleSlope": slope, "RescaleIntercept": 0}
    image = imaging.read_radiograph(save(picture(values, signed=True, **tags))).astype(int)
    assert (np.diff(image, axis=1) * slope >= 0).all()
    assert (image.min(), image.max()) == (0, 255)


def test_eight_bits_without_a_window_stay_as_they_are(save: Save) -> None:
    assert np.array_equal(imaging.read_radiograph(save(picture(RAMP.astype(np.uint8)))), RAMP)


@pytest.mark.parametrize("tags", [{"WindowCenter": 60_000, "WindowWidth": 10}, {"WindowCenter": 5, "WindowWidth": 0}])
def test_a_window_that_shows_nothing_is_passed_over(save: Save, tags: dict[str, int]) -> None:
    image = imaging.read_radiograph(save(picture(**tags)))
    assert (image.min(), image.max()) == (0, 255)


@pytest.mark.parametrize("kind", ["MONOCHROME1", "MONOCHROME2"])
def test_padding_is_black_and_does_not_count(save: Save, kind: str) -> None:
    values = (RAMP * 10 + 1000).astype(np.uint16)
    values[:, :20] = 4000
    image = imaging.read_radiograph(
        save(picture(values, PixelPaddingValue=3990, PixelPaddingRangeLimit=4010, PhotometricInterpretation=kind))
    )
    assert not image[:, :20].any()
    assert image[:, 20:].max() == 255
    assert len(np.unique(image[:, 20:])) > 80


WINDOW = {"WindowCenter": 1500, "WindowWidth": 2000}


@pytest.mark.parametrize(
    "tags",
    [
        {},
        WINDOW,
        {**WINDOW, "PhotometricInterpretation": "MONOCHROME1"},
        {**WINDOW, "VOILUTFunction": "SIGMOID"},
        {"RescaleSlope": -1, "RescaleIntercept": 0},
        {"PixelPaddingValue": 300, "PixelPaddingRangeLimit": 600, "PhotometricInterpretation": "MONOCHROME1"},
        {"PixelPaddingValue": 0, **WINDOW},
        {"VOILUTSequence": lut([(value**2) * 5 for value in range(111)], 0)},
    ],
)
def test_samples_have_the_files_depth_and_the_shades_of_the_picture(save: Save, tags: dict[str, Any]) -> None:
    path = save(picture(RAMP if "VOILUTSequence" in tags else RAMP * 30, **tags))
    samples, image = imaging.read_samples(path), imaging.read_radiograph(path)
    assert (samples.shades[samples.values] == image).all()
    assert len(np.unique(samples.values)) > 95
    assert (np.diff(samples.shades[np.unique(samples.values)].astype(int)) >= 0).all()
    if tags == WINDOW:
        assert (samples.low, samples.high) == (pytest.approx(500, abs=2), pytest.approx(2499, abs=2))


def test_colour_becomes_luminance(save: Save) -> None:
    rgb = np.zeros((H, W, 3), np.uint8)
    rgb[:, : W // 2, 1] = rgb[:, W // 2 :, 2] = 255
    data = picture(rgb, SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
    image = imaging.read_radiograph(save(data))
    assert (image[0, 0], image[0, -1]) == (150, 29)


@pytest.mark.parametrize("syntax", [uid.RLELossless, uid.JPEG2000Lossless])
def test_losslessly_compressed_pixels_are_the_same(save: Save, syntax: Any) -> None:
    data = picture(WindowCenter=1500, WindowWidth=2000)
    data.compress(syntax, generate_instance_uid=False)
    assert data.file_meta.TransferSyntaxUID == syntax
    assert np.array_equal(imaging.read_radiograph(save(data)), linear(RAMP * 30, 1500, 2000))


@pytest.mark.parametrize("kind", ["JPEGLosslessProcess14", "JPEGLosslessProcess14_1", "JPEGLSLossless"])
def test_lossless_jpeg_as_hospitals_keep_it_is_the_same_to_the_bit(save: Save, tmp_path: Path, kind: str) -> None:
    import gdcm

    plain, packed = save(picture(WindowCenter=1500, WindowWidth=2000)), tmp_path / "packed.dcm"
    reader, change, writer = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax(), gdcm.ImageWriter()
    reader.SetFileName(str(plain))
    assert reader.Read()
    change.SetTransferSyntax(gdcm.TransferSyntax(getattr(gdcm.TransferSyntax, kind)))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer.SetFileName(str(packed))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()
    assert packed.stat().st_size < plain.stat().st_size
    assert np.array_equal(imaging.read_radiograph(packed), linear(RAMP * 30, 1500, 2000))


def jpeg(values: np.ndarray) -> Dataset:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "JPEG", quality=95)
    data = picture(values)
    data.PixelData = encapsulate([buffer.getvalue()])
    data["PixelData"].is_undefined_length = True
    data.file_meta.TransferSyntaxUID = uid.JPEGBaseline8Bit
    return data


def test_a_jpeg_inside_is_read(save: Save) -> None:
    image = imaging.read_radiograph(save(jpeg((RAMP * 2).astype(np.uint8))))
    assert np.abs(image.astype(int) - RAMP * 2).max() < 6


def test_other_byte_orders_and_implicit_types_are_read(save: Save, tmp_path: Path) -> None:
    expected = linear(RAMP * 30, 1500, 2000)
    data = picture(WindowCenter=1500, WindowWidth=2000)
    data.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian
    assert np.array_equal(imaging.read_radiograph(save(data)), expected)
    data = picture(WindowCenter=1500, WindowWidth=2000)
    data.PixelData = (RAMP * 30).astype(">u2").tobytes()
    data.file_meta.TransferSyntaxUID = uid.ExplicitVRBigEndian
    assert np.array_equal(imaging.read_radiograph(save(data)), expected)


def test_a_file_without_suffix_is_known_by_its_mark(save: Save) -> None:
    assert imaging.read_radiograph(save(picture(), "IM0001")).shape == (H, W)


def deflated() -> Dataset:
    data = picture()
    data.file_meta.TransferSyntaxUID = uid.DeflatedExplicitVRLittleEndian
    return data


def lying_jpeg() -> Dataset:
    """A header of a few pixels around a stream that claims very many."""
    data = jpeg((RAMP * 2).astype(np.uint8))
    stream = bytes(data.PixelData)
    place = stream.index(b"\xff\xc0") + 5
    data.PixelData = stream[:place] + struct.pack(">2H", 60_000, 60_000) + stream[place + 4 :]
    data["PixelData"].is_undefined_length = True
    return data


def unknown() -> Dataset:
    data = picture()
    data.file_meta.TransferSyntaxUID = uid.MPEG2MPML
    data.PixelData = encapsulate([b"\0\0"])
    data["PixelData"].is_undefined_length = True
    return data


BAD: dict[str, tuple[Callable[[], Dataset], str]] = {
    "a bomb": (lambda: picture(Rows=30_000, Columns=30_000), "30000 x 30000 px has more than 64,000,000 samples"),
    "a stream that is larger than it says": (lying_jpeg, "is 60000 x 60000 px, but the header says 64 x 48 px"),
    "several frames": (lambda: picture(NumberOfFrames=3), "3 frames; save the frame you need"),
    "no rows": (lambda: picture(Rows=None), "has no 'Rows', so the file has no picture"),
    "no pixels": (lambda: picture(PixelData=None), "has no pixel data"),
    "pixels cut off": (lambda: picture(PixelData=b"\0\0"), "truncated or damaged"),
    "a palette": (lambda: picture(PhotometricInterpretation="PALETTE COLOR"), "neither grey (MONOCHROME1 or 2)"),
    "32 bits": (lambda: picture(BitsAllocated=32), "32 bits per pixel"),
    "deflated": (deflated, "compresses the whole file"),
    "a film": (unknown, "cannot be read; save the file in another transfer syntax"),
    "one value": (lambda: picture(RAMP * 0), "every pixel has the same value"),
    "tiny": (lambda: picture(RAMP[:9, :9] * 30), "9 x 9 px, but each side needs at least 32; give another file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_shown_is_named_without_the_person(
    save: Save, name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    make, words = BAD[name]
    path = save(make())
    with pytest.raises(InputError) as error:
        imaging.read_radiograph(path)
    assert words in str(error.value)
    assert str(error.value).startswith(str(path))
    assert NAME not in str(error.value)
    assert (capfd.readouterr(), caplog.text) == (("", ""), "")


def test_a_file_that_is_cut_off_anywhere_is_one_sentence(save: Save) -> None:
    whole = save(picture(WindowCenter=1500, WindowWidth=2000)).read_bytes()
    for length in [*range(0, 1200, 7), len(whole) - 2]:
        path = save(picture())
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as error:
            imaging.read_radiograph(path)
        assert str(error.value).startswith(str(path))
        assert "\n" not in str(error.value)
        assert NAME not in str(error.value)


def test_damaged_bytes_never_show_more_than_a_sentence(save: Save, caplog: pytest.LogCaptureFixture) -> None:
    path = save(picture(WindowCenter=1500, WindowWidth=2000))
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for place in random.integers(132, 900, 4):
            damaged[place] = random.integers(256)
        path.write_bytes(bytes(damaged))
        said = ""
        try:
            assert imaging.read_radiograph(path).ndim == 2
        except InputError as error:
            said = str(error)
        assert "\n" not in said
        assert NAME not in said
        assert not caplog.text


def packed(streams: list[bytes], syntax: str, values: np.ndarray = GREY, **tags: Any) -> Dataset:
    """A file whose pixels are these fragments."""
    data = picture(values, **tags)
    data.PixelData = encapsulate(streams, has_bot=False)
    data["PixelData"].is_undefined_length = True
    data.file_meta.TransferSyntaxUID = syntax
    return data


def jpeg2000(values: np.ndarray = GREY, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "JPEG2000", **options)
    return buffer.getvalue()


def lying_jpeg2000(side: int, tile: int, **options: Any) -> bytes:
    """A stream of a few pixels that says it has ``side`` squared, in tiles of ``tile`` squared."""
    stream = jpeg2000(**options)
    place = stream.index(b"\xff\x4f\xff\x51") + 8
    stream = stream[:place] + struct.pack(">8L", side, side, 0, 0, tile, tile, 0, 0) + stream[place + 32 :]
    box = stream.find(b"ihdr") + 4
    return stream if box == 3 else stream[:box] + struct.pack(">2L", side, side) + stream[box + 8 :]


def small_blocks(side: int) -> bytes:
    """A stream cut into blocks of 4 x 4, of which each is an object of the decoder."""
    stream = lying_jpeg2000(side, side, no_jp2=True)
    place = stream.index(b"\xff\x52") + 10
    return stream[:place] + b"\0\0" + stream[place + 2 :]


def blocks_of_a_tile(side: int) -> bytes:
    """The same, said by the header of the one tile's part."""
    stream = lying_jpeg2000(side, side, no_jp2=True)
    place, head = stream.index(b"\xff\x93"), stream.index(b"\xff\x90")
    main = stream[stream.index(b"\xff\x52") :][: 2 + 12]
    part = main[:10] + b"\0\0" + main[12:]
    length = struct.pack(">L", int.from_bytes(stream[head + 6 : head + 10], "big") + len(part))
    return stream[: head + 6] + length + stream[head + 10 : place] + part + stream[place:]


def scans() -> bytes:
    """A JPEG that draws the same picture over and over."""
    stream = io.BytesIO()
    Image.fromarray(GREY).save(stream, "JPEG")
    whole = stream.getvalue()
    place = whole.index(b"\xff\xda")
    return whole[:place] + whole[place:-2] * 20 + whole[-2:]


def run_lengths(*segments: bytes) -> bytes:
    starts = np.cumsum([64, *map(len, segments)])[: len(segments)]
    return struct.pack("<16L", len(segments), *starts, *[0] * (15 - len(segments))) + b"".join(segments)


def before_pixels(added: bytes) -> bytes:
    """A whole file with these bytes before its pixels."""
    buffer = io.BytesIO()
    picture().save_as(buffer, enforce_file_format=True)
    whole = buffer.getvalue()
    place = whole.index(struct.pack("<2H", 0x7FE0, 0x10))
    return whole[:place] + added + whole[place:]


def items(count: int) -> bytes:
    item = struct.pack("<2HL", 0xFFFE, 0xE000, 0)
    return struct.pack("<2H2sHL", 0x40, 0x275, b"SQ", 0, 2**32 - 1) + item * count + item[:2] + b"\xdd\xe0\0\0\0\0"


def long_window() -> bytes:
    text = b"1\\" * 1_100_000
    return struct.pack("<2H2sHL", 0x28, 0x1050, b"UN", 0, len(text)) + text


J2K = uid.JPEG2000Lossless
# Small files that would take gigabytes or minutes: what is in them, and what the refusal says.
BOMBS: dict[str, tuple[Callable[[], Dataset | bytes], str]] = {
    "a boxed stream": (lambda: packed([lying_jpeg2000(30_000, 30_000)], J2K), "is 30000 x 30000 px, but the header"),
    "tiles": (lambda: packed([lying_jpeg2000(8_000, 16)], J2K, Rows=8000, Columns=8000), "damaged"),
    "blocks": (lambda: packed([small_blocks(8_000)], J2K, Rows=8000, Columns=8000), "damaged"),
    "blocks of a tile": (lambda: packed([blocks_of_a_tile(8_000)], J2K, Rows=8000, Columns=8000), "damaged"),
    "precincts": (
        lambda: packed([lying_jpeg2000(8_000, 8_000, precinct_size=(8, 8), codeblock_size=(4, 4))], J2K, Rows=8000,
                       Columns=8000), "damaged"),
    "more samples": (lambda: packed([jpeg2000(np.zeros((H, W, 3), np.uint8))], J2K), "has 3 samples per pixel"),
    "scans": (lambda: packed([scans()], uid.JPEGBaseline8Bit), "damaged"),
    "a progressive JPEG": (lambda: packed([progressive()], uid.JPEGBaseline8Bit), "damaged"),
    "no JPEG": (lambda: packed([b"hello" * 9], uid.JPEGBaseline8Bit), "damaged"),
    "run lengths": (lambda: packed([run_lengths(b"\x81\0" * 100_000)], uid.RLELossless), "larger than the"),
    "run lengths that end": (lambda: packed([run_lengths(b"\x81\0" * 3)], uid.RLELossless), "damaged"),
    "segments": (lambda: packed([run_lengths(b"\x81\0", b"\x81\0")], uid.RLELossless), "damaged"),
    "fragments": (lambda: packed([b"\0\0"] * 66_000, uid.JPEGBaseline8Bit), "damaged"),
    "items": (lambda: before_pixels(items(60_000)), "damaged"),
    "elements": (lambda: before_pixels(struct.pack("<2H2sH", 0x41, 0x1001, b"LO", 0) * 60_000), "damaged"),
    "a long window": (lambda: before_pixels(long_window()), "damaged"),
    "colour": (lambda: picture(Rows=8000, Columns=8000, SamplesPerPixel=3), "in colour has more than 64,000,000"),
    "no samples": (lambda: picture(SamplesPerPixel=2), "damaged"),
}  # fmt: skip


def progressive() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(GREY).save(stream, "JPEG", progressive=True)
    return stream.getvalue()


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_would_take_much_is_refused(save: Save, tmp_path: Path, name: str) -> None:
    made, words = BOMBS[name][0](), BOMBS[name][1]
    path = tmp_path / "x.dcm"
    path.write_bytes(made) if isinstance(made, bytes) else save(made)
    with pytest.raises(InputError, match=words):
        imaging.read_radiograph(path)


@pytest.mark.parametrize(
    "options",
    [{}, {"no_jp2": True}, {"tile_size": (32, 32)}, {"codeblock_size": (32, 32), "num_resolutions": 3},
     {"precinct_size": (64, 64), "progression": "RPCL"}, {"irreversible": True}],
)  # fmt: skip
def test_jpeg_2000_as_encoders_write_it_is_read(save: Save, options: dict[str, Any]) -> None:
    """With boxes around the stream, against the standard, and in two fragments as well."""
    stream = jpeg2000(**options)
    image = imaging.read_radiograph(save(packed([stream[:100], stream[100:]], uid.JPEG2000)))
    assert np.abs(image.astype(int) - RAMP).max() <= 2 * bool(options.get("irreversible"))


@pytest.mark.parametrize("signed", [False, True])
def test_run_lengths_of_noise_are_the_same_to_the_bit(save: Save, signed: bool) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-2000 * signed, 2000, (H, W)).astype(np.int16 if signed else np.uint16)
    plain = imaging.read_radiograph(save(picture(values, signed=signed)))
    data = picture(values, signed=signed)
    data.compress(uid.RLELossless, generate_instance_uid=False)
    assert np.array_equal(imaging.read_radiograph(save(data)), plain)


def test_run_lengths_in_colour_become_luminance(save: Save) -> None:
    rgb = np.zeros((H, W, 3), np.uint8)
    rgb[:, : W // 2, 1] = rgb[:, W // 2 :, 2] = 255
    data = picture(rgb, SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0)
    data.compress(uid.RLELossless, generate_instance_uid=False)
    image = imaging.read_radiograph(save(data))
    assert (image[0, 0], image[0, -1]) == (150, 29)


def test_text_with_the_suffix_is_no_dicom_file(tmp_path: Path) -> None:
    (tmp_path / "x.dcm").write_text("hello")
    with pytest.raises(InputError, match=r"x\.dcm: not a DICOM file"):
        imaging.read_radiograph(tmp_path / "x.dcm")
    with pytest.raises(InputError, match="no such file"):
        imaging.read_radiograph(tmp_path / "y.dcm")


def test_identifying_tags_are_never_parsed(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Dataset] = []
    original = pydicom.dcmread

    def spy(*args: Any, **options: Any) -> Dataset:
        read.append(original(*args, **options))
        return read[-1]

    monkeypatch.setattr(pydicom, "dcmread", spy)
    imaging.read_radiograph(save(picture()))
    assert read
    for data in read:
        assert not [name for name in ("PatientName", "PatientID", "PatientBirthDate") if name in data]


def test_without_the_extra_the_message_names_it(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(picture())
    original = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "pydicom":
            raise ImportError(name)
        return original(name, *args, **options)

    for module in [name for name in sys.modules if name.partition(".")[0] == "pydicom"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"need a package that is not installed; run: pip install 'chexqa\[dicom\]'"):
        imaging.read_radiograph(path)


def test_without_a_decoder_the_message_names_the_extra(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydicom.pixels.decoders.base import get_decoder

    decoder = get_decoder(uid.JPEGBaseline8Bit)
    monkeypatch.setattr(decoder, "_available", {})
    with pytest.raises(InputError, match=r"JPEG Baseline.*pip install 'chexqa\[dicom\]'"):
        imaging.read_radiograph(save(jpeg((RAMP * 2).astype(np.uint8))))


def test_a_folder_of_dicom_files_becomes_cases_without_the_person(
    save: Save, tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    for folder in ("images", "masks/p1"):
        (tmp_path / folder).mkdir(parents=True)
    tags = {"ViewPosition": "LL", "PatientOrientation": ["R", "F"]}
    save(picture(WindowCenter=1500, WindowWidth=2000, **tags), "images/p1.dcm")
    Image.fromarray(np.uint8((RAMP > 40) & (RAMP < 60)) * 255).save(tmp_path / "masks/p1/effusion.png")
    at = ("--images", tmp_path / "images", "--masks", tmp_path / "masks")
    code, out, err = cli("ingest", "masks", *at, "-o", tmp_path)
    assert (code, "wrote 1 case" in out) == (0, True)
    assert cases.read_manifest(tmp_path)[0].view == "LL", "such views get no questions on frontal views"
    assert "1 radiograph mirrored by the header" in " ".join(err.split())
    (tmp_path / "t.csv").write_text(
        "image,mask,finding\n" + "".join(f"p1.dcm,p1/effusion.png,{one}\n" for one in ("effusion", "edema"))
    )
    code, out, err = cli("ingest", "masks", *at, "--table", tmp_path / "t.csv", "-o", tmp_path / "two.jsonl")
    assert (code, "wrote 2 cases" in out) == (0, True), err
    assert "1 radiograph mirrored by the header" in " ".join(err.split()), "counted once, though it has two findings"
    assert np.array_equal(cases.load_case(cases.read_manifest(tmp_path)[0]).image, linear(RAMP * 30, 1500, 2000))
    for text in (NAME, NUMBER):
        assert text not in (tmp_path / "cases.jsonl").read_text()


@pytest.mark.parametrize(
    ("tags", "spacing"),
    [
        ({"PixelSpacing": [0.14, 0.2], "ImagerPixelSpacing": [0.15, 0.15]}, (0.14, 0.2)),
        ({"ImagerPixelSpacing": ["0.143", "0.139"]}, (0.143, 0.139)),
        ({}, None),
        ({"PixelSpacing": [0, 0.2]}, None),
    ],
)
def test_the_distance_of_pixels_is_read_row_first(
    save: Save, tags: dict[str, Any], spacing: tuple[float, float] | None
) -> None:
    assert dicom.about(save(picture(**tags))).spacing == spacing


def test_a_file_that_is_no_dicom_states_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.dcm").write_bytes(b"no picture")
    assert dicom.about(tmp_path / "x.dcm") == dicom.About()


@pytest.mark.parametrize(
    ("tags", "view", "mirrored"),
    [
        ({"ViewPosition": "LL", "PatientOrientation": ["A", "F"]}, "LL", False),
        ({"ViewPosition": "PA", "PatientOrientation": ["R", "F"]}, "PA", True),
        ({"ViewPosition": "", "PatientOrientation": ["L", "F"]}, None, False),
        ({"PatientOrientation": ""}, None, False),
    ],
)
def test_the_view_and_a_mirrored_picture_are_told(
    save: Save, tags: dict[str, Any], view: str | None, mirrored: bool
) -> None:
    found = dicom.about(save(picture(**tags)))
    assert (found.view, found.mirrored) == (view, mirrored)
