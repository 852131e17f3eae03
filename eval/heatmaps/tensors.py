"""Reader of pickled PyTorch tensors and NumPy arrays that needs no PyTorch and runs no code from the file.

It reads three layouts:

- ``torch.save`` since 1.6: a zip archive.
- ``torch.save`` before 1.6: a sequence of pickles, followed by the bytes of the storages.
- ``pickle.dump`` of a tensor: a pickle in which the second layout is embedded. CheXlocalize's map files
  (https://github.com/rajpurkarlab/cheXlocalize) have this layout.
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

# Enough for a map of the largest picture in double precision, and the radiograph's three channels.
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
    """Storage of a tensor: a flat sequence of numbers. In the layout before 1.6, the bytes of all storages are at the
    end of the file.
    """

    kind: str
    count: int
    values: npt.NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class _Tensor:
    """Tensor as a view of a storage; offset, shape and strides are in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(eq=False)
class _Built:
    """A NumPy array or dtype that was constructed but does not have its content yet."""

    what: str
    value: Any = None


# Errors that a damaged file may raise here, in the archive's reader and in NumPy.
DAMAGED = (
    ValueError, TypeError, LookupError, OverflowError, RecursionError, MemoryError, OSError, RuntimeError, EOFError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def read_array(data: bytes, where: str) -> npt.NDArray[Any]:
    """Return the array of numbers, of any shape, in a pickle.

    The array is the pickle's only content, or the value of ``map`` in a dict. Raise ``InputError`` for any other
    content and for a damaged file; the message begins with ``where``.
    """
    try:
        array = _array(data)
    except BadPickleError as error:
        raise InputError(f"{where}: {error}") from None
    except DAMAGED as error:
        raise InputError(f"{where}: cannot be read as a pickle ({short(str(error))}); save the map again.") from None
    return array


def _array(data: bytes) -> npt.NDArray[Any]:
    if data.startswith(b"PK\x03\x04"):
        return _from_zip(data)
    stream = io.BytesIO(data)
    first = play(stream, {**_NAMES, _EMBEDDED: _embedded}, fill=_fill)
    return _chosen(_from_row(stream) if first == _LEGACY_MAGIC else first)


def _chosen(content: Any) -> npt.NDArray[Any]:
    """Return the map in the content of a pickle."""
    found = content.get("map") if isinstance(content, dict) else content
    match found:
        case _Tensor():
            return _view(found)
        case _Built("array", np.ndarray() as array):
            return array
    raise BadPickleError(
        "contains no tensor, no array and no dict with one of these as 'map'; write it in the layout of CheXlocalize."
    )


def _from_zip(data: bytes) -> npt.NDArray[Any]:
    """Read a file of ``torch.save`` since 1.6: the pickle ``<name>/data.pkl``, and the map's storage alone."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
    compressed = [member.filename for member in members.values() if member.compress_type != zipfile.ZIP_STORED]
    if compressed:
        raise BadPickleError(
            f"has a compressed member '{compressed[0]}', which torch.save does not write; save the tensor again with "
            "torch.save."
        )
    if "data.pkl" not in members:
        raise BadPickleError(
            "is a zip archive without data.pkl, so torch.save did not write it; save the tensor with torch.save."
        )
    if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
        raise BadPickleError("was written on a big-endian machine; save it on a little-endian one.")
    storages: dict[str, _Storage] = {}
    program = io.BytesIO(archive.read(members["data.pkl"]))
    content = play(program, _NAMES, lambda key: _described(key, storages), _fill)
    found = content.get("map") if isinstance(content, dict) else content
    if isinstance(found, _Tensor):
        name = next(name for name, storage in storages.items() if storage is found.storage)
        found.storage.values = _numbers(found.storage, archive.read(members[f"data/{name}"]))
    return _chosen(content)


def _from_row(stream: io.BytesIO) -> Any:
    """Read a ``torch.save`` file of the layout before 1.6; the stream is after its magic number.

    The parts that follow are: version, system, content, keys, storages.
    """
    play(stream, {})
    system = play(stream, {})
    if not (isinstance(system, dict) and system.get("little_endian") is True):
        raise BadPickleError(
            "is big-endian or not made by torch.save; save it with torch.save on a little-endian machine."
        )
    storages: dict[str, _Storage] = {}
    content = play(stream, _NAMES, lambda key: _described(key, storages), _fill)
    keys = play(stream, {})
    for key in keys if isinstance(keys, list) else []:
        storage = storages.get(key) if isinstance(key, str) else None
        count = int.from_bytes(stream.read(8), "little")
        if storage is None or count != storage.count:
            raise BadPickleError(f"is damaged: storage '{short(key)}' does not match the tensors.")
        storage.values = _numbers(storage, stream.read(min(count * _width(storage.kind), MAX_BYTES)))
    return content


def _embedded(data: Any) -> _Storage:
    """Return the storage that a plain pickle embeds as a complete file of the layout before 1.6."""
    if not isinstance(data, bytes):
        raise TypeError("a storage without bytes")
    stream = io.BytesIO(data)
    if play(stream, {}) != _LEGACY_MAGIC:
        raise BadPickleError("is damaged: torch.save did not write its embedded storage.")
    storage = _from_row(stream)
    if not isinstance(storage, _Storage):
        raise TypeError("an embedded object that is not a storage")
    return storage


def _described(key: Any, storages: dict[str, _Storage]) -> _Storage:
    """Return the storage of a persistent id ``("storage", type, key, location, count, …)``.

    For the same key, the same storage is returned each time.
    """
    match key:
        case ("storage", Name(text), str(name), str(), int(count), *rest) if rest in ([], [None]):
            kind = _STORAGES.get(text.removeprefix("torch."))
            if kind is None:
                raise BadPickleError(f"uses '{text}' as a storage.")
            storage = storages.setdefault(name, _Storage(kind, count))
            if (storage.kind, storage.count) != (kind, count):
                raise BadPickleError(f"is damaged: storage '{name}' is described in two ways.")
            return storage
    raise BadPickleError(f"refers to {short(key)}, which is not a tensor's storage.")


def _width(kind: str) -> int:
    return 2 if kind == "bfloat16" else np.dtype(kind).itemsize


def _numbers(storage: _Storage, data: bytes) -> npt.NDArray[Any]:
    """Return the storage's bytes as numbers. NumPy lacks bfloat16, so it becomes the upper half of a float32."""
    if storage.count < 0 or len(data) != storage.count * _width(storage.kind):
        raise BadPickleError(
            f"is damaged: a storage of {storage.count:,} numbers has {len(data):,} bytes; copy the file again."
        )
    if storage.kind == "bfloat16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, storage.kind)


def _view(tensor: _Tensor) -> npt.NDArray[Any]:
    """Return the tensor's elements; a view that goes beyond its storage is refused."""
    values = tensor.storage.values
    shape, strides = tensor.shape, tensor.strides
    count = math.prod(shape)
    last = tensor.offset + sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
    if values is None or min((tensor.offset, *shape, *strides)) < 0 or count > MAX_PIXELS or len(shape) > _AXES:
        raise BadPickleError("is damaged: it has a tensor without data, or of an impossible size.")
    if count and last >= len(values):
        raise BadPickleError("is damaged: a tensor reaches beyond its storage.")
    if not count:
        return np.zeros(shape, values.dtype)
    steps = [stride * values.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(values[tensor.offset :], shape, steps, writeable=False)
    return np.asarray(view)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    """Return a view of a storage; the other arguments (gradient, hooks) do not change the numbers."""
    whole = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or not all(type(number) is int for number in whole):
        raise TypeError("an object that is not a tensor")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _dtype(code: Any, *_: Any) -> _Built:
    dtype = np.dtype(code) if isinstance(code, str) and len(code) < 4 else np.dtype(object)
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise BadPickleError(
            f"contains an array of '{short(code)}', which are not plain numbers; save the map as an array of numbers."
        )
    return _Built("dtype", dtype)


def _reconstruct(*_: Any) -> _Built:
    """Return an empty array; :func:`_fill` puts the numbers into it later."""
    return _Built("array")


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Built:
    """Return an array from its buffer, as pickles of protocol 5 store it."""
    made = _Built("array")
    _fill(made, (1, shape, dtype, order == "F", bytes(data) if isinstance(data, bytearray) else data))
    return made


def _scalar(dtype: Any, data: Any) -> Any:
    made = _Built("array")
    _fill(made, (1, (), dtype, False, data))
    return made.value.item()


def _encode(text: Any, encoding: Any) -> bytes:
    """Return the bytes in a text; pickles of protocols up to 2 store bytes as text."""
    if encoding != "latin1" or not isinstance(text, str):
        raise TypeError("an object that is not bytes")
    return text.encode("latin1")


def _fill(made: Any, state: Any) -> None:
    """Perform the operation BUILD: an array gets its numbers, a dtype its byte order."""
    match made, state:
        case _Built("dtype"), (int(), str(order), *_) if order in "<>|=" and len(order) == 1:
            made.value = made.value.newbyteorder(order)
        case _Built("array"), (int(), tuple(shape), _Built("dtype", dtype), bool(fortran), bytes(data)):
            if not all(type(side) is int and side >= 0 for side in shape):
                raise BadPickleError("is damaged: it has an array of an impossible size.")
            if math.prod(shape) * dtype.itemsize != len(data):
                raise BadPickleError(f"is damaged: an array of shape {short(str(shape))} has {len(data):,} bytes.")
            made.value = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
        case _:
            raise BadPickleError(f"sets the state of {short(made)}, which no map needs, so the file was not read.")


# Names allowed in a map file, and the function called for each; ``None``: the name may appear but not be called.
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
