"""Array files whose arrays are read lazily."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError
from core.ndarray.array_file import ArrayFile


def test_each_array_is_read_when_asked_for(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "arg:w": mx.nd.array(random.normal(size=(3, 4))),
        "arg:half": mx.nd.array(random.normal(size=5), dtype="float16"),
        "aux:int": mx.nd.array([1, 2], dtype="int8"),
        "arg:rows": mx.nd.array([[0, 0], [1, 2], [0, 0]]).tostype("row_sparse"),
    }
    mx.nd.save(tmp_path / "a.params", arrays)
    file = ArrayFile(tmp_path / "a.params")
    assert file.names == list(arrays)
    for name in reversed(arrays):
        read = file.read(name)
        assert read.dtype == arrays[name].dtype
        np.testing.assert_array_equal(read, arrays[name].asnumpy())


def test_truncated_files_and_files_without_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    mx.nd.save(path, {"arg:w": mx.nd.zeros((8, 8))})
    whole = path.read_bytes()
    for size in (10, 60, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"left in the file|ended"):
            ArrayFile(path)
    mx.nd.save(path, [mx.nd.zeros((2,))])
    with pytest.raises(FormatError, match="no names"):
        ArrayFile(path)
    with pytest.raises(MXNetError, match="cannot read"):
        ArrayFile(tmp_path / "none")


def test_a_shape_that_numpy_refuses_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    mx.nd.save(path, {"arg:w": mx.nd.zeros((3, 5), dtype="float64")})
    lengths = struct.pack("<qq", 3, 5)
    whole = path.read_bytes()
    assert whole.count(lengths) == 1
    path.write_bytes(whole.replace(lengths, struct.pack("<qq", 0, 2**60)))
    with pytest.raises(FormatError, match="too large for any array"):
        ArrayFile(path)
    with pytest.raises(FormatError, match="too large for any array"):
        mx.nd.load(path)
