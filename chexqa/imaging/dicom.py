"""Reader of DICOM radiographs: the pixels as a viewer shows them.

Only the header elements that are needed are parsed. Of the elements that identify a patient, only Patient ID is
parsed, to find radiographs of one patient; it appears in no message and no file. Windowing follows DICOM PS3.3,
C.11.2. The package's extra ``dicom`` (pydicom) must be installed.
"""

from __future__ import annotations

import io
import logging
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from chexqa.files.errors import InputError
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import open_binary
from chexqa.imaging import percentile_window
from chexqa.imaging.dicom_streams import RLE, Coded, coded, frame, unpacked

if TYPE_CHECKING:
    from pydicom import Dataset

Values = npt.NDArray[Any]
Result = TypeVar("Result")

SUFFIXES = (".dcm", ".dicom")
_MARK_PLACE, _MARK = 128, b"DICM"
_NEEDED = ("Rows", "Columns", "BitsAllocated", "BitsStored", "PhotometricInterpretation")
_HEADER = (
    *_NEEDED, "SamplesPerPixel", "PlanarConfiguration", "HighBit", "PixelRepresentation", "NumberOfFrames",
    "PixelPaddingValue", "PixelPaddingRangeLimit", "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence",
    "WindowCenter", "WindowWidth", "VOILUTFunction", "VOILUTSequence",
)  # fmt: skip
_SPACING = ("PixelSpacing", "ImagerPixelSpacing")
_ABOUT = ("SOPInstanceUID", "Rows", "Columns", *_SPACING, "ViewPosition", "PatientOrientation", "PatientID")
MAX_SPACING_MM = 100
_GRAYS, _COLOURS = ("MONOCHROME1", "MONOCHROME2"), ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
_DEFLATED, _SYNTAX, _MOST_BITS = "1.2.840.10008.1.2.1.99", 0x00020010, 16
# Bounds on a header: the number of reads (an element takes two or three), and the bytes of a needed element.
MAX_ELEMENTS = 50_000
MAX_VALUE = 2 * 2**20
# Bytes by which the compressed stream of a small picture may exceed the uncompressed picture.
_MARGIN = 2**16
_ANOTHER = "the file is damaged, so give another copy."
# Errors that pydicom and its decoders raise for damaged files.
_DAMAGED = (
    OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, NotImplementedError, RuntimeError,
    EOFError, struct.error, StopIteration,
)  # fmt: skip


def is_dicom(path: Path) -> bool:
    """Return True if a file begins as a DICOM file or has a DICOM suffix; False if it cannot be read."""
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with open_binary(path) as file:
            return file.read(_MARK_PLACE + len(_MARK))[_MARK_PLACE:] == _MARK
    except (InputError, OSError):
        return False


def read(path: Path, max_pixels: int) -> npt.NDArray[np.uint8]:
    """Return the picture of a DICOM file with one frame, ``(H, W)`` uint8, as a viewer first shows it.

    The steps are:

    1. The modality table, or rescale slope and intercept, is applied to the stored values.
    2. The first table of the VOI LUT sequence, or the first window (linear, exact or sigmoid), is applied. If the
       header has neither, values of more than 8 bits are mapped by :mod:`chexqa.imaging.percentile_window`.
    3. MONOCHROME1 is inverted, padding becomes black, and colour becomes luminance.

    Raises ``InputError`` if pydicom (the package's extra ``dicom``) is not installed, and for a file that is damaged,
    or has several frames, more than 16 bits or more than ``max_pixels`` pixels (checked before decoding).
    """
    return _opened(path, max_pixels, _shown)


def samples(path: Path, max_pixels: int) -> tuple[Values, npt.NDArray[np.bool_]]:
    """Return two arrays ``(H, W)``: the stored samples of a DICOM file, and the mask of its padding.

    For a colour file, the first array is the luminance. Padding pixels only fill the rectangle around the picture.
    Raises ``InputError`` as :func:`read` does.
    """

    def unchanged(dataset: Dataset, stored: Values) -> tuple[Values, npt.NDArray[np.bool_]]:
        if stored.ndim == 3:
            return _shown(dataset, stored), np.zeros(stored.shape[:2], np.bool_)
        return stored, _padding(dataset, stored)

    return _opened(path, max_pixels, unchanged)


def _opened(path: Path, max_pixels: int, use: Callable[[Dataset, Values], Result]) -> Result:
    """Check and decode a DICOM file with one frame; return the result of ``use`` on its data set and samples."""
    with parsed(path) as elements:
        from pydicom.pixels.utils import pixel_array

        _check_header(path, elements(_HEADER), max_pixels)
        dataset = elements((*_HEADER, "PixelData"))
        _check_frame(path, dataset)
        return use(dataset, pixel_array(dataset))


@contextmanager
def parsed(path: Path) -> Iterator[Callable[[Sequence[str]], Dataset]]:
    """Open a DICOM file; yield a function that takes keywords and returns the data set with only these elements.

    The ``with`` statement raises ``InputError`` if the file is damaged or cannot be read, or if pydicom (the package's
    extra ``dicom``) is not installed.
    """
    try:
        import pydicom
        from pydicom.errors import BytesLengthException, InvalidDicomError
    except ImportError:
        raise InputError(
            f"{path}: DICOM files need a package that is not installed; run: pip install 'chexqa[dicom]'."
        ) from None
    try:
        with _silence(), open_binary(path, MAX_PICTURE_BYTES) as opened:
            file = _Counted(io.FileIO(opened.fileno(), closefd=False))
            _check_syntax(path, _syntax(file))

            def elements(keywords: Sequence[str]) -> Dataset:
                return pydicom.dcmread(_again(file), stop_before_pixels="PixelData" not in keywords,
                                       specific_tags=list(keywords))  # fmt: skip

            yield elements
    except InvalidDicomError:
        raise InputError(f"{path}: not a DICOM file (the mark 'DICM' is missing); give a DICOM file.") from None
    except (BytesLengthException, *_DAMAGED):
        raise InputError(f"{path}: a truncated or damaged DICOM file; give a complete file.") from None


class About(NamedTuple):
    """Facts about a radiograph from its DICOM header; ``None`` or False if the header does not state a fact.

    - ``size``: the picture's height and width in pixels.
    - ``spacing``: the distances between neighbouring rows and columns, in mm: Pixel Spacing (at the patient, or
      calibrated), otherwise Imager Pixel Spacing (at the detector).
    - ``view``: View Position, such as PA or LL.
    - ``mirrored``: by Patient Orientation, the patient's left is on the left of the picture.
    - ``uid``, ``patient``: the SOP Instance UID and the Patient ID. Never write the Patient ID to a message or file.
    """

    size: tuple[int, int] | None = None
    spacing: tuple[float, float] | None = None
    view: str | None = None
    mirrored: bool = False
    uid: str | None = None
    patient: str | None = None


def about(path: Path) -> About:
    """Return the facts in a DICOM header; none if the file cannot be read (:func:`read` raises an error for it)."""
    try:
        with parsed(path) as elements:
            told = elements(_ABOUT)
            view, across = told.get("ViewPosition"), "".join(told.get("PatientOrientation") or "")
            patient = str(told.get("PatientID") or "").strip() or None
            return About((int(told.Rows), int(told.Columns)), _spacing(told), str(view)[:16] if view else None,
                         across.startswith("R"), told.get("SOPInstanceUID"), patient)  # fmt: skip
    except InputError:
        return About()


def _spacing(told: Dataset) -> tuple[float, float] | None:
    try:
        row, column = (float(value) for value in next(told.get(name) for name in _SPACING if told.get(name)))
    except (TypeError, ValueError, StopIteration):
        return None
    return (row, column) if 0 < row < MAX_SPACING_MM and 0 < column < MAX_SPACING_MM else None


class _Counted(io.BufferedReader):
    """File with a bound on the number of reads: pydicom reads elements one by one, so very many would take too long."""

    pieces = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.pieces += 1
        if self.pieces > MAX_ELEMENTS:
            raise ValueError("more elements than any radiograph has")
        return super().read(size)


def _again(file: _Counted) -> _Counted:
    file.seek(0)
    file.pieces = 0
    return file


def _syntax(file: _Counted) -> str:
    """Return the transfer syntax (the coding of the data set), which a DICOM file states before its data set."""
    from pydicom.errors import InvalidDicomError
    from pydicom.filereader import data_element_generator

    if file.read(_MARK_PLACE + len(_MARK))[_MARK_PLACE:] != _MARK:
        raise InvalidDicomError
    elements = data_element_generator(file, False, True, stop_when=lambda tag, *_: tag >> 16 != 2)
    syntax = next(element.value for element in elements if element.tag == _SYNTAX)
    return bytes(syntax or b"").decode("ascii", "replace").strip("\0 ")


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress pydicom's warnings and log lines: they quote identifying content of damaged headers."""
    log = logging.getLogger("pydicom")
    before = log.disabled
    log.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = before


def _check_syntax(path: Path, syntax: str) -> None:
    """Raise ``InputError`` for a transfer syntax that cannot be read, or that could decompress to an unlimited size."""
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import UID

    # A damaged syntax field may hold any part of the header, so its text is never shown.
    name = known if UID(syntax).is_valid and (known := UID(syntax).name) != syntax else "unknown"
    if syntax == _DEFLATED:
        raise InputError(
            f"{path}: the transfer syntax ({name}) compresses the whole file and cannot be read; save the file in "
            "another transfer syntax."
        )
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        raise InputError(
            f"{path}: the transfer syntax ({name}) cannot be read; save the file in another transfer syntax."
        ) from None
    if not decoder.is_available:
        raise InputError(
            f"{path}: the transfer syntax ({name}) needs decoders that are not installed; run: "
            "pip install 'chexqa[dicom]'."
        )


def _check_header(path: Path, header: Dataset, max_pixels: int) -> None:
    """Raise an error unless the header describes one frame of a supported kind and size; no pixel is decoded."""
    from pydicom.dataelem import RawDataElement

    # Elements are still raw bytes here; in a radiograph's header they are short.
    if any((element.length or 0) > MAX_VALUE for element in header.values() if isinstance(element, RawDataElement)):
        raise ValueError("an element that is too long")
    missing = [keyword for keyword in _NEEDED if header.get(keyword) is None]
    if missing:
        raise InputError(
            f"{path}: the DICOM header has no '{missing[0]}', so the file has no picture; give another file."
        )
    rows, columns, frames = int(header.Rows), int(header.Columns), int(header.get("NumberOfFrames") or 1)
    if rows < 1 or columns < 1 or _samples(header) not in (1, 3):
        raise ValueError("no rows, columns or samples")
    if rows * columns * _samples(header) > max_pixels:
        raise InputError(
            f"{path}: the picture of {columns} x {rows} px{' in colour' if _samples(header) > 1 else ''} has more than "
            f"{max_pixels:,} samples, so it is not decoded; give a smaller radiograph."
        )
    if frames != 1:
        raise InputError(f"{path}: the file has {frames} frames; save the frame you need as a separate file.")
    if header.BitsAllocated not in (8, _MOST_BITS):
        raise InputError(
            f"{path}: the file has {header.BitsAllocated} bits per pixel, but only 8 or 16 can be read; "
            "save it with 8 or 16 bits per pixel."
        )
    kind = str(header.PhotometricInterpretation)
    if kind not in _GRAYS + _COLOURS or (kind in _COLOURS and header.BitsAllocated != 8):
        raise InputError(
            f"{path}: the picture is neither grey (MONOCHROME1 or 2) nor 8-bit colour (RGB or YBR); save it as grey or "
            "8-bit colour."
        )


def _check_frame(path: Path, dataset: Dataset) -> None:
    """Check that compressed pixel data agree with the header in size, and replace them by the bare compressed stream.

    The check bounds the time and memory that decoding takes.
    """
    if "PixelData" not in dataset:
        raise InputError(f"{path}: the DICOM file has no pixel data; give a file with a picture.")
    if not dataset.file_meta.TransferSyntaxUID.is_encapsulated:
        return
    from pydicom.encaps import encapsulate
    from pydicom.uid import ExplicitVRLittleEndian

    rows, columns, samples = said = Coded(int(dataset.Rows), int(dataset.Columns), _samples(dataset))
    width = int(dataset.BitsAllocated) // 8
    stream, syntax = frame(dataset.PixelData), str(dataset.file_meta.TransferSyntaxUID)
    if len(stream) > 2 * rows * columns * samples * width + _MARGIN:
        raise InputError(f"{path}: the compressed data are larger than the uncompressed picture; {_ANOTHER}")
    if syntax == RLE:
        dataset.PixelData = unpacked(stream, rows * columns, samples, width)
        dataset["PixelData"].is_undefined_length = False
        dataset.file_meta.TransferSyntaxUID, dataset.PlanarConfiguration = ExplicitVRLittleEndian, 1
        return
    stream, found = coded(stream, syntax)
    if found[:2] != said[:2]:
        raise InputError(
            f"{path}: the compressed picture is {found.columns} x {found.rows} px, but the header says {columns} x "
            f"{rows} px; {_ANOTHER}"
        )
    if found.samples != samples:
        raise InputError(
            f"{path}: the compressed picture has {found.samples} samples per pixel, but the header says {samples}; "
            f"{_ANOTHER}"
        )
    dataset.PixelData = encapsulate([stream], has_bot=False)


def _samples(dataset: Dataset) -> int:
    """Return the number of samples per pixel; a radiograph has 1 or 3."""
    return int(dataset.get("SamplesPerPixel") or 1)


def _shown(dataset: Dataset, stored: Values) -> npt.NDArray[np.uint8]:
    if stored.ndim == 3:
        return np.array(Image.fromarray(stored).convert("L"))
    padding = _padding(dataset, stored)
    image = _windowed(dataset, stored)
    seen = image[~padding] if image is not None else np.zeros(0, np.uint8)
    if image is None or seen.size == 0 or seen.min() == seen.max():  # no window, or a window outside the values
        image = _unwindowed(dataset, stored, ~padding)
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        image = 255 - image
    image[padding] = 0
    return image


def _padding(dataset: Dataset, stored: Values) -> npt.NDArray[np.bool_]:
    """Return the bool mask ``(H, W)`` of padding pixels, which only fill the rectangle around the picture."""
    value = dataset.get("PixelPaddingValue")
    if value is None:
        return np.zeros(stored.shape, np.bool_)
    limit = dataset.get("PixelPaddingRangeLimit")
    low, high = sorted((int(value), int(value if limit is None else limit)))
    return np.asarray((stored >= low) & (stored <= high))


def _windowed(dataset: Dataset, stored: Values) -> npt.NDArray[np.uint8] | None:
    """Return the picture after the header's first VOI table or window; None if the header has no usable one.

    The grey level is computed once for each possible stored value: for at most 65,536 values instead of millions of
    pixels.
    """
    from pydicom.pixels.processing import apply_modality_lut, apply_voi

    low = int(stored.min())
    values = apply_modality_lut(np.arange(low, int(stored.max()) + 1, dtype=np.int32).astype(stored.dtype), dataset)
    if dataset.get("VOILUTSequence"):
        table = apply_voi(np.rint(values).astype(np.int32), dataset).astype(np.float64)
        levels = (table - table.min()) / max(float(np.ptp(table)), 1.0)
    else:
        center, width = _first(dataset.get("WindowCenter")), _first(dataset.get("WindowWidth"))
        if center is None or width is None or not width >= 1:
            return None
        levels = _levels(values, center, width, str(dataset.get("VOILUTFunction") or "LINEAR"))
    shades = np.asarray(np.rint(np.clip(levels, 0, 1) * 255), np.uint8)
    places = stored.astype(np.int32)
    places -= low
    return np.asarray(shades[places])


def _levels(values: Values, center: float, width: float, function: str) -> Values:
    """Map values through a window's function to 0 (black) … 1 (white); values outside the window exceed this range."""
    if function == "SIGMOID":
        # Beyond 50 widths the curve is flat, and its exponential would overflow.
        return np.asarray(1 / (1 + np.exp(np.clip(-4 * (values - center) / width, -200, 200))))
    if function == "LINEAR_EXACT":
        return np.asarray((values - center) / width + 0.5)
    # A window with a width of one acts as a threshold.
    return np.asarray((values - (center - 0.5)) / max(width - 1, 1e-6) + 0.5)


def _unwindowed(dataset: Dataset, stored: Values, counted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    if stored.dtype == np.uint8 and dataset.BitsStored == 8:
        return stored.copy()
    falling = (_first(dataset.get("RescaleSlope")) or 0) < 0
    # A linear rescale keeps the order of values or reverses it, so percentiles of the stored values are enough.
    return percentile_window.by_percentiles(-stored.astype(np.int32) if falling else stored, counted)


def _first(value: Any) -> float | None:
    """Return a header value as a number; a list gives its first entry, and a value that is not a number gives None."""
    if value is None or value == "":
        return None
    return float(value if isinstance(value, (int, float)) else next(iter(value)))
