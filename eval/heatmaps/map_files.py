"""Map files: NumPy arrays, grey PNGs and pickled tensors, each read as an array ``(H, W)`` of numbers."""

from __future__ import annotations

import io
import math
import threading
import tokenize
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from PIL import Image

from chexqa.eval.heatmaps import tensors
from chexqa.eval.heatmaps.pickles import short
from chexqa.files.errors import InputError
from chexqa.files.opening import read_whole
from chexqa.imaging.read import MAX_PIXELS

Map = npt.NDArray[np.float64]
# The table of a maker's scores in a folder of maps.
SCORES = "scores.csv"
# Name of the file with the origin of a folder's maps, and its schema.
ORIGIN, ORIGIN_SCHEMA = "maker.json", "map_folder"
_NPY_MAGIC = b"\x93NUMPY"
# Errors that NumPy raises for a damaged header, which it parses as a Python expression.
_DAMAGED = (*tensors.DAMAGED, ArithmeticError, AttributeError, SyntaxError, tokenize.TokenError)
_MOST_OF_A_SCORE = 4096
# NumPy reads a header by Python's parser, which in some versions fails if two threads use it (CPython issue 106905).
_ONE_HEADER = threading.Lock()
_HEADERS = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}


def read_map(path: Path) -> Map:
    """Read one map file as float64 ``(H, W)``; further axes of length 1 are dropped.

    Raise ``InputError`` for a damaged file, a link out of the map's folder, several arrays or channels, or values that
    are not numbers.
    """
    data = read_whole(path, tensors.MAX_BYTES, path.parent)
    array = READERS[path.suffix.lower()](data, str(path))
    shape = array.shape
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path}: has values of type {array.dtype}; save the map as an array of real numbers.")
    if array.ndim < 2 or max(shape[:-2], default=1) > 1 or min(shape) == 0:
        raise InputError(
            f"{path}: has the shape {shape}; save the map with the shape (height, width); axes of length 1 may come "
            "first, such as (1, height, width)."
        )
    if array.size > MAX_PIXELS:
        raise InputError(
            f"{path}: has the shape {shape}, but a map may have at most {MAX_PIXELS:,} values; save it smaller."
        )
    return np.asarray(array.reshape(shape[-2:]), np.float64)


def map_name(case_id: str, finding: str) -> str:
    """Return the name of a map's file: the case id without its finding, percent-encoded, and the finding.

    >>> map_name("patient1/view1/effusion", "effusion")
    'patient1%2Fview1_effusion.npz'
    """
    return f"{file_stem(case_id, finding)}_{finding}.npz"


def file_stem(case_id: str, finding: str) -> str:
    """Return the beginning of a map's file name: the case id without its finding, percent-encoded."""
    return quote(case_id.removesuffix(f"/{finding}"), safe=" ,()=+@")


def read_score(path: Path) -> float:
    """Return the number ``score`` in a map file ``.npz``; NaN if the file has none.

    Raise ``InputError`` for a damaged file, or if ``score`` is not a single number.
    """
    data = read_whole(path, tensors.MAX_BYTES, path.parent)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if "score.npy" not in archive.namelist():
                return math.nan
            member = archive.read("score.npy") if archive.getinfo("score.npy").file_size < _MOST_OF_A_SCORE else b""
    except tensors.DAMAGED as error:
        raise InputError(f"{path}: is damaged or not a NumPy archive ({short(str(error))}); save it again.") from None
    score = _from_npy(member, f"{path}, score")
    if score.size != 1 or score.dtype.kind not in "fiu":
        raise InputError(f"{path}: its 'score' is not a single number; save one number.")
    return float(score.reshape(()))


def _from_npy(data: bytes, where: str) -> npt.NDArray[Any]:
    """Read an array in NumPy's format.

    Object arrays, which contain a pickle, are refused.
    """
    stream = io.BytesIO(data)
    try:
        if not data.startswith(_NPY_MAGIC):
            raise ValueError("its first bytes are not those of a NumPy file")
        version = np.lib.format.read_magic(stream)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about damaged headers and headers of Python 2
            with _ONE_HEADER:
                shape, fortran, dtype = _HEADERS[min(version, 2)](stream)
        if dtype.hasobject:
            raise ValueError("its values are Python objects, not numbers")
        if dtype.itemsize * math.prod(shape) != len(data) - stream.tell():
            raise ValueError(f"shape {shape} and type {dtype} do not match its length")
        return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran else "C")
    except _DAMAGED as error:
        reason = short(" ".join(str(error).split()))
        raise InputError(f"{where}: is damaged or not a NumPy file ({reason}); save it again.") from None


def _from_npz(data: bytes, where: str) -> npt.NDArray[Any]:
    """Read the map of an archive: its only array, or the array called ``map``."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = {member.filename: member for member in archive.infolist() if member.filename.endswith(".npy")}
        chosen = members.get("map.npy") or (next(iter(members.values())) if len(members) == 1 else None)
        if chosen is None:
            names = ", ".join(name.removesuffix(".npy") for name in members) or "none"
            raise InputError(f"{where}: must have a single array, or an array named 'map', but has {names}.")
        if chosen.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"{where}: is compressed in a way that NumPy does not use; save it with numpy.savez_compressed."
            )
        if chosen.file_size > tensors.MAX_BYTES:
            raise InputError(
                f"{where}: its array would unpack to {chosen.file_size:,} bytes, which is too large for "
                "a map; save it smaller."
            )
        with archive.open(chosen) as member:
            content = member.read(chosen.file_size)
    except tensors.DAMAGED as error:
        raise InputError(f"{where}: is damaged or not a NumPy archive ({short(str(error))}); save it again.") from None
    return _from_npy(content, where)


def _from_png(data: bytes, where: str) -> npt.NDArray[Any]:
    """Read a grey PNG of 8 or 16 bits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the bound below is stricter
            picture = Image.open(io.BytesIO(data), formats=("PNG",))
        if picture.width * picture.height > MAX_PIXELS:
            raise InputError(
                f"{where}: has {picture.width} x {picture.height} px, which is too large for a map; save it smaller."
            )
        if picture.mode not in ("L", "I;16", "1"):
            raise InputError(
                f"{where}: is not a grey picture (its mode is {picture.mode}); save the map's values as a grey PNG."
            )
        return np.asarray(picture)
    except (*tensors.DAMAGED, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{where}: cannot be read as a PNG ({error}); save the map again.") from None


READERS: dict[str, Callable[[bytes, str], npt.NDArray[Any]]] = {
    ".npy": _from_npy,
    ".npz": _from_npz,
    ".png": _from_png,
    ".pkl": tensors.read_array,
}
