from __future__ import annotations

import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from xyla.clients.cli import inputs
from xyla.hlo.shape import Shape
from xyla.support import dtypes
from xyla.support.status import XylaError


def test_only_known_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, arg0=np.ones(2), in0=np.zeros(1), expected=np.ones(1), out1=np.ones(1), other=np.ones(9))
    assert sorted(inputs.read_arrays(path)) == ["arg0", "expected", "in0", "out1"]


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, arg0=np.array([{}], dtype=object))
    with pytest.raises(XylaError, match=r"not a readable \.npz"):
        inputs.read_arrays(path)


def bomb(shape: str) -> bytes:
    """An .npz whose one array claims a shape that it does not hold."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape},), }}".ljust(117) + "\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("arg0.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not an archive", b"\x93NUMPY", bomb("4611686018427387904"), bomb("1000000000000"), bomb("-1")],
)
def test_broken_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(XylaError) as caught:
        inputs.read_arrays(path)
    assert "a.npz" in caught.value.message


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones(3))
    with pytest.raises(XylaError, match="a single array, not an"):
        inputs.read_arrays(path)


def test_numbering() -> None:
    one, two = np.ones(1), np.ones(2)
    assert inputs.numbered({"in1": two, "in0": one}, "arg", "in") == [one, two]
    assert inputs.numbered({"expected": one, "expected1": two, "out0": two}, "expected", "out") == [one, two]
    assert inputs.numbered({}, "arg") == []
    with pytest.raises(XylaError, match="has arg2 but no arg1"):
        inputs.numbered({"arg0": one, "arg2": one}, "arg")


def test_raw_bytes_get_their_type_back(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, arg0=np.array([1.5, 2], ml_dtypes.bfloat16), arg1=np.array([-3, 7], np.int8))
    args = inputs.numbered(inputs.read_arrays(path), "arg")
    assert args[0].dtype.kind == "V"
    shapes = [Shape.array(dtypes.BF16, (2,)), Shape.array(dtypes.S4, (2,))]
    bf16, s4 = inputs.bind_types(args, shapes, "argument")
    assert bf16.dtype == ml_dtypes.bfloat16
    assert bf16.tolist() == [1.5, 2]
    assert s4.dtype == ml_dtypes.int4
    assert [int(v) for v in s4] == [-3, 7]


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(XylaError, match="argument 0: a value does not fit s4"):
        inputs.bind_types([np.array([9], np.int8)], [Shape.array(dtypes.S4, (1,))], "argument")


def test_a_wrong_count_is_refused() -> None:
    with pytest.raises(XylaError, match=r"takes 1 argument\(s\), the archive has 0"):
        inputs.bind_types([], [Shape.array(dtypes.F32, ())], "argument")


def test_split_pieces_keep_their_lines() -> None:
    assert inputs._pieces("a\n// -----\nb\n// -----\n\n") == ["a\n", "\n\nb\n"]
