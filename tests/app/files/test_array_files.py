from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors.tree import Damaged
from app.files import array_files
from app.files.array_files import load_npz
from app.tensors.npy import read_npy_header


class Counting(io.BytesIO):
    """Remembers the largest number of bytes requested at once."""

    most = 0

    def readinto(self, buffer: Any) -> int:
        self.most = max(self.most, len(buffer))
        return super().readinto(buffer)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.most = max(self.most, len(data))
        return data


def test_a_large_array_is_read_in_pieces():
    expected = np.arange(1 << 20, dtype=np.float64)
    stream = io.BytesIO()
    np.save(stream, expected)
    file = Counting(stream.getvalue())
    array = array_files._read_array(file, read_npy_header(file, "data"))
    np.testing.assert_array_equal(array, expected)
    assert file.most <= 1 << 20


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_arrays_are_read_back_unchanged_and_read_only(
    tmp_path: Path, shape: tuple[int, ...], order: Any
):
    expected = np.asarray(np.random.default_rng(1).random(shape), order=order)
    np.savez_compressed(tmp_path / "x.npz", a=expected)
    array = load_npz(tmp_path / "x.npz", ["a"])["a"]
    np.testing.assert_array_equal(array, expected)
    assert not array.flags.writeable


def test_a_truncated_member_is_damaged(tmp_path: Path):
    stream = io.BytesIO()
    np.save(stream, np.ones(100))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", stream.getvalue()[:-8])
    with pytest.raises(Damaged):
        load_npz(tmp_path / "x.npz", ["a"])
