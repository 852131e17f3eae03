"""Pickled tensors: every layout is read, nothing is ever executed, and nothing hostile gets through."""

from __future__ import annotations

import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_files
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_files import BY_TORCH, as_dict, by_torch, name, pickled, plain, program, row_file, storage, tensor, zip_file

from chexqa.eval.heatmaps.tensors import read_array
from chexqa.files.errors import InputError

SMALL = np.arange(6, dtype="<f4").reshape(1, 1, 2, 3) / 4


def refusal(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_array(data, "x.pkl")
    assert str(caught.value).startswith("x.pkl: ")
    return str(caught.value)


@pytest.mark.parametrize("layout", ["pickle", "zip", "before_1.6"])
def test_what_pytorch_itself_wrote_is_read_in_every_layout(layout: str) -> None:
    np.testing.assert_array_equal(read_array(by_torch(layout), "x.pkl"), SMALL)


def test_a_transposed_parameter_of_bfloat16_is_read() -> None:
    np.testing.assert_array_equal(read_array(by_torch("parameter"), "x.pkl"), SMALL.transpose(0, 1, 3, 2))


@pytest.mark.parametrize("kind", torch_files.STORAGE)
def test_every_usual_type_of_number_is_read_in_every_layout(kind: str) -> None:
    array = np.arange(12).reshape(1, 1, 3, 4).astype(kind)
    for data in (
        pickled(array, prob=0.5, task="Edema", gt=1, cxr_dims=(4, 3)),
        row_file(as_dict(map=tensor(array, storage(array, row=True))), array),
        zip_file(as_dict(map=tensor(array, storage(array))), array),
        zip_file(tensor(array, storage(array)), array),
    ):
        read = read_array(data, "x.pkl")
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


def test_a_view_of_a_storage_is_read_by_offset_and_strides() -> None:
    whole = np.arange(20, dtype="<f4")
    part = np.zeros((2, 3), "<f4")
    data = zip_file(tensor(part, storage(whole), offset=7, strides=(1, 4)), whole)
    np.testing.assert_array_equal(read_array(data, "x.pkl"), [[7, 11, 15], [8, 12, 16]])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f4", "<i2", "|b1"])
def test_numpy_arrays_are_read_from_every_protocol(protocol: int, kind: str) -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(kind))
    content = {"map": array, "prob": np.float32(0.5), "dims": (3, np.int64(2)), "other": [None, True, b"x"]}
    np.testing.assert_array_equal(read_array(pickle.dumps(content, protocol), "x.pkl"), array)


class Hostile:
    """Runs a command when Python unpickles it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_that_runs_a_command_runs_nothing_and_is_refused_by_name(protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for hostile, refused in (
        (Hostile(os.system, f"touch {mark}"), f"{os.name}.system"),
        (Hostile(eval, f"open({str(mark)!r}, 'w')"), "eval"),
        (Hostile(open, str(mark), "w"), "open"),
    ):
        data = pickle.dumps({"map": np.zeros((2, 2)), "more": hostile}, protocol)
        assert f"{refused}', which no map needs" in refusal(data)
    assert not mark.exists()


def test_a_hostile_pickle_inside_an_embedded_storage_or_an_archive_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    bad = name("os", "system") + plain(f"touch {mark}") + b"\x85R"
    embedded = name("torch.storage", "_load_from_bytes") + b"B" + struct.pack("<I", len(program(bad))) + program(bad)
    assert "'os.system'" in refusal(program(embedded + b"\x85R"))
    assert "'os.system'" in refusal(zip_file(as_dict(map=bad), SMALL))
    assert "'os.system'" in refusal(row_file(bad, SMALL))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("operations", "refused"),
    [
        (name("torch.nn.modules", "Module"), "torch.nn.modules.Module"),
        (name("numpy", "ndarray") + b")R", "calls 'numpy.ndarray'"),
        (name("torch", "FloatStorage") + plain(3) + b"\x85R", "calls 'torch.FloatStorage'"),
        (name("collections", "OrderedDict") + b")R}" + plain("x") + plain(1) + b"sb", "sets the state of"),
        (name("torch._utils", "_rebuild_tensor_v2") + b"N}" + b"\x86b", "sets the state of"),
        (name("collections", "OrderedDict") + b")\x81", "NEWOBJ"),
        (b"(" + plain(1) + b"i__builtin__\neval\n", "INST"),
        (b"\x82\x01", "EXT1"),
        (name("numpy", "dtype") + plain("O8") + b"\x85R", "which are not plain numbers"),
        (plain("storage") + b"Q", "which is not a tensor's storage"),
        (b"}" + plain((1, 2)) + plain(3) + b"s", "a key that is neither text nor a number"),
    ],
)  # fmt: skip
def test_what_no_map_needs_is_refused_by_name(operations: bytes, refused: str) -> None:
    assert refused in refusal(program(operations)) or refused in refusal(zip_file(operations, SMALL))


def test_bombs_are_refused_without_going_off() -> None:
    doubling = b")" + b"".join(b"q%c" % n + b"h%c" % n + b"\x86" for n in range(200))
    assert "contains no tensor" in refusal(program(doubling))  # 2^200 entries, were one to print or copy it
    assert "neither text nor a number" in refusal(program(b"}" + doubling + b"Ns"))  # or to hash it
    assert "cannot be read as a pickle" in refusal(
        program(b"r\xff\xff\xff\xff")
    )  # a memo of four thousand million places
    assert "cannot be read as a pickle" in refusal(b"\x80\x02\x8e" + b"\xff" * 8)  # a text of 2^64 bytes
    huge = name("numpy._core.numeric", "_frombuffer") + b"(" + plain(10**15) + name("numpy", "dtype") + plain("f4")
    assert "sets the state of" in refusal(program(huge + b"\x85R" + plain((2, 2)) + plain("C") + b"tR"))
    assert "compressed" in refusal(zip_file(as_dict(map=plain(1)), np.zeros(10**6), zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((2, 4), None, 0), ((2, 3), None, 1), ((2, 3), (-3, 1), 3), ((2, 3), (3, 1), -1), ((40000, 40000), (0, 0), 0)],
)
def test_a_tensor_that_leaves_its_storage_or_is_impossibly_large_is_refused(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int
) -> None:
    view = np.broadcast_to(np.zeros((), "<f4"), shape)
    steps = strides or tuple(np.array([shape[1], 1]).tolist())
    assert "damaged" in refusal(zip_file(tensor(view, storage(SMALL), offset, steps), SMALL))


@pytest.mark.parametrize("data", [b"", b"x", b"PK\x03\x04nothing", pickle.dumps("text"), pickle.dumps({"prob": 0.5})])
def test_what_holds_no_map_is_refused(data: bytes) -> None:
    assert "x.pkl: " in refusal(data)


@pytest.mark.parametrize("layout", BY_TORCH)
def test_a_file_cut_off_anywhere_is_refused(layout: str) -> None:
    data = by_torch(layout)
    for length in range(0, len(data) - 1, 7):
        assert "x.pkl: " in refusal(data[:length])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(layout=st.sampled_from(sorted(BY_TORCH)), edits=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4)),
                                                               min_size=1, max_size=4))  # fmt: skip
def test_damaged_files_give_an_array_or_a_refusal_and_nothing_else(layout: str, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(by_torch(layout))
    for place, patch in edits:
        start = place % len(data)
        data[start : start + len(patch)] = patch
    before = set(sys.modules)
    try:
        array = read_array(bytes(data), "x.pkl")
        assert array.dtype.kind in "fiub"
    except InputError:
        pass
    assert set(sys.modules) - before == set()
