"""ONNX files written by hand: a model of one 1 x 1 convolution, so that no package is needed to make it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

FLOAT = 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _tensor(name: str, values: Sequence[float], dims: Sequence[int]) -> bytes:
    data = b"".join(struct.pack("<f", value) for value in values)
    return b"".join(_number(1, dim) for dim in dims) + _number(2, FLOAT) + _bytes(8, name) + _bytes(9, data)


def _value(name: str, dims: Sequence[int | str]) -> bytes:
    shape = b"".join(_bytes(1, _number(1, dim) if isinstance(dim, int) else _bytes(2, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, FLOAT) + _bytes(2, shape)))


def convolution(
    slopes: Sequence[float], offsets: Sequence[float], side: int | None = 64, colours: int = 1, inputs: int = 1
) -> bytes:
    """Return a model whose channel k is ``slopes[k] * x + offsets[k]`` at every pixel.

    If ``side`` is None, pictures may have any size.
    """
    count = len(slopes)
    weights = [slope / colours for slope in slopes for _ in range(colours)]
    sides: list[int | str] = [side, side] if side else ["height", "width"]
    node = _bytes(1, "x") + _bytes(1, "w") + _bytes(1, "b") + _bytes(2, "y") + _bytes(4, "Conv")
    graph = b"".join((
        _bytes(1, node),
        _bytes(2, "tiny"),
        _bytes(5, _tensor("w", weights, (count, colours, 1, 1))),
        _bytes(5, _tensor("b", offsets, (count,))),
        *(_bytes(11, _value(name, [1, colours, *sides])) for name in ("x", "unused")[:inputs]),
        _bytes(12, _value("y", [1, count, *sides])),
    ))  # fmt: skip
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))
