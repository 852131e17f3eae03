"""Reading arrays out of pickled PyTorch tensors and NumPy arrays, without PyTorch and without executing anything.

Three layouts, all written by PyTorch: ``torch.save`` as a zip archive (1.6 and later), ``torch.save`` as a row of
pickles followed by the storages' bytes (before 1.6), and ``pickle.dump`` of a tensor, which embeds the second one.
CheXlocalize's map files (https://github.com/rajpurkarlab/cheXlocalize) are of the third.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chexqa.eval.heatmaps.pickles import BadPickleError, Name, Names, play, short
from chexqa.files.errors import InputError
from chexqa.imaging.read import MAX_PIXELS

# A map of the largest picture, in double precision, with the radiograph's three channels beside it.
MAX_BYTES = MAX_PIXELS * 8 * 4
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_EMBEDDED = "torch.storage._load_from_bytes"
_AXES = 8
_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}


@dataclass(eq=False)
class _Storage:
    """A flat run of numbers; in the layout before 1.6 its bytes come after everything else."""

    kind: str
    count: int
    values: npt.NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A view of a storage: offset, shape and strides in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(eq=False)
class _Built:
    """A NumPy array or dtype between its construction and the operation that fills it."""

    what: str
    value: Any = None


# What reading a damaged file may raise here, in the archive's reader and in NumPy.
DAMAGED = (
    ValueError, TypeError, LookupError, OverflowError, RecursionError, MemoryError, OSError, RuntimeError, EOFError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def read_array(data: bytes, where: str) -> npt.NDArray[Any]:
    """The array of a pickle: its only content, or what its dict has under ``map``; any shape, numbers only.

    Raises ``InputError`` that begins with ``where`` for anything else in it and for a damaged file.
    """
    try:
        array = _array(data)
    except BadPickleError as error:
        raise InputError(f"{where}: {error}") from None
    except DAMAGED as error:
        raise InputError(f"{where}: a damaged pickle, or none at all ({short(str(error))}).") from None
    return array


def _array(data: bytes) -> npt.NDArray[Any]:
    if data.startswith(b"PK\x03\x04"):
        return _from_zip(data)
    stream = io.BytesIO(data)
    first = play(stream, {**_NAMES, _EMBEDDED: _embedded}, fill=_fill)
    return _chosen(_from_row(stream) if first == _LEGACY_MAGIC else first)


def _chosen(content: Any) -> npt.NDArray[Any]:
    """The map in a pickle's content."""
    found = content.get("map") if isinstance(content, dict) else content
    match found:
        case _Tensor():
            return _view(found)
        case _Built("array", np.ndarray() as array):
            return array
    raise BadPickleError("holds no tensor or array, alone or as 'map' in a dict; see the layout of CheXlocalize.")


def _from_zip(data: bytes) -> npt.NDArray[Any]:
    """``torch.save`` since 1.6: ``<name>/data.pkl`` and one stored member for each storage, of which one is read."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
    compressed = [member.filename for member in members.values() if member.compress_type != zipfile.ZIP_STORED]
    if compressed:
        raise BadPickleError(f"the archive's member '{compressed[0]}' is compressed; torch.save compresses none.")
    if "data.pkl" not in members:
        raise BadPickleError("a zip archive without data.pkl, so torch.save did not write it.")
    if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
        raise BadPickleError("written on a big-endian machine; save it on a usual one.")
    storages: dict[str, _Storage] = {}
    program = io.BytesIO(archive.read(members["data.pkl"]))
    content = play(program, _NAMES, lambda key: _described(key, storages), _fill)
    found = content.get("map") if isinstance(content, dict) else content
    if isinstance(found, _Tensor):
        name = next(name for name, storage in storages.items() if storage is found.storage)
        found.storage.values = _numbers(found.storage, archive.read(members[f"data/{name}"]))
    return _chosen(content)


def _from_row(stream: io.BytesIO) -> Any:
    """``torch.save`` before 1.6, after its magic number: version, system, content, storage keys, storages' bytes."""
    play(stream, {})
    system = play(stream, {})
    if not (isinstance(system, dict) and system.get("little_endian") is True):
        raise BadPickleError("written on a big-endian machine, or not by torch.save.")
    storages: dict[str, _Storage] = {}
    content = play(stream, _NAMES, lambda key: _described(key, storages), _fill)
    keys = play(stream, {})
    for key in keys if isinstance(keys, list) else []:
        storage = storages.get(key) if isinstance(key, str) else None
        count = int.from_bytes(stream.read(8), "little")
        if storage is None or count != storage.count:
            raise BadPickleError(f"a damaged file: storage '{short(key)}' is not the one its tensors name.")
        storage.values = _numbers(storage, stream.read(min(count * _width(storage.kind), MAX_BYTES)))
    return content


def _embedded(data: Any) -> _Storage:
    """A storage inside a plain pickle: a whole file of the layout before 1.6."""
    if not isinstance(data, bytes):
        raise TypeError("a storage whose bytes are none")
    stream = io.BytesIO(data)
    if play(stream, {}) != _LEGACY_MAGIC:
        raise BadPickleError("a damaged file: an embedded storage that torch.save did not write.")
    storage = _from_row(stream)
    if not isinstance(storage, _Storage):
        raise TypeError("an embedded storage that is none")
    return storage


def _described(key: Any, storages: dict[str, _Storage]) -> _Storage:
    """The storage that a persistent id ``("storage", type, key, location, count, …)`` speaks of, made once."""
    match key:
        case ("storage", Name(text), str(name), str(), int(count), *rest) if rest in ([], [None]):
            kind = _STORAGES.get(text.removeprefix("torch."))
            if kind is None:
                raise BadPickleError(f"takes '{text}' for a storage.")
            storage = storages.setdefault(name, _Storage(kind, count))
            if (storage.kind, storage.count) != (kind, count):
                raise BadPickleError(f"a damaged file: storage '{name}' is described in two ways.")
            return storage
    raise BadPickleError(f"refers to {short(key)}, which is no storage of a tensor.")


def _width(kind: str) -> int:
    return 2 if kind == "bfloat16" else np.dtype(kind).itemsize


def _numbers(storage: _Storage, data: bytes) -> npt.NDArray[Any]:
    """The storage's bytes as numbers; bfloat16, which NumPy lacks, is the upper half of a float32."""
    if storage.count < 0 or len(data) != storage.count * _width(storage.kind):
        raise BadPickleError(
            f"a damaged file: a storage of {storage.count:,} numbers has {len(data):,} bytes; copy the file again."
        )
    if storage.kind == "bfloat16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, storage.kind)


def _view(tensor: _Tensor) -> npt.NDArray[Any]:
    """The tensor's elements; a view that leaves its storage is refused."""
    values = tensor.storage.values
    shape, strides = tensor.shape, tensor.strides
    count = math.prod(shape)
    last = tensor.offset + sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
    if values is None or min((tensor.offset, *shape, *strides)) < 0 or count > MAX_PIXELS or len(shape) > _AXES:
        raise BadPickleError("a damaged file: a tensor without data, or of an impossible size.")
    if count and last >= len(values):
        raise BadPickleError("a damaged file: a tensor reaches beyond its storage.")
    if not count:
        return np.zeros(shape, values.dtype)
    steps = [stride * values.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(values[tensor.offset :], shape, steps, writeable=False)
    return np.asarray(view)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    """A view of a storage; what follows (gradient, hooks) says nothing of the numbers."""
    whole = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or not all(type(number) is int for number in whole):
        raise TypeError("a tensor that is none")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _dtype(code: Any, *_: Any) -> _Built:
    dtype = np.dtype(code) if isinstance(code, str) and len(code) < 4 else np.dtype(object)
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise BadPickleError(f"holds an array of '{short(code)}', which are no plain numbers.")
    return _Built("dtype", dtype)


def _reconstruct(*_: Any) -> _Built:
    """An array whose numbers come with its state."""
    return _Built("array")


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Built:
    """An array as protocol 5 writes it."""
    made = _Built("array")
    _fill(made, (1, shape, dtype, order == "F", bytes(data) if isinstance(data, bytearray) else data))
    return made


def _scalar(dtype: Any, data: Any) -> Any:
    made = _Built("array")
    _fill(made, (1, (), dtype, False, data))
    return made.value.item()


def _encode(text: Any, encoding: Any) -> bytes:
    """Bytes as protocols up to 2 write them."""
    if encoding != "latin1" or not isinstance(text, str):
        raise TypeError("bytes that are none")
    return text.encode("latin1")


def _fill(made: Any, state: Any) -> None:
    """What the operation BUILD stands for: an array gets its numbers, a dtype its byte order."""
    match made, state:
        case _Built("dtype"), (int(), str(order), *_) if order in "<>|=" and len(order) == 1:
            made.value = made.value.newbyteorder(order)
        case _Built("array"), (int(), tuple(shape), _Built("dtype", dtype), bool(fortran), bytes(data)):
            if not all(type(side) is int and side >= 0 for side in shape):
                raise BadPickleError("a damaged file: an array of an impossible size.")
            if math.prod(shape) * dtype.itemsize != len(data):
                raise BadPickleError(f"a damaged file: an array of shape {short(str(shape))} has {len(data):,} bytes.")
            made.value = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
        case _:
            raise BadPickleError(f"gives {short(made)} a state, which no map needs; it is not read.")


# Names that may stand in a map file, and what a call of each makes; ``None``: it may be named but not called.
_NAMES: Names = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "collections.OrderedDict": lambda *_: {},
    "_codecs.encode": _encode,
    "numpy.ndarray": None,
    "numpy.dtype": _dtype,
    **dict.fromkeys([f"torch.{name}" for name in _STORAGES]),
    **{
        f"numpy.{core}.{name}": made
        for core in ("core", "_core")
        for name, made in {
            "multiarray._reconstruct": _reconstruct,
            "multiarray.scalar": _scalar,
            "numeric._frombuffer": _frombuffer,
        }.items()
    },
}
