"""Array files: MXNet's own, read and rewritten, and malformed ones."""

from __future__ import annotations

import contextlib
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core as mx
from core import nd
from core.errors import FormatError, MXNetError
from core.ndarray import CSRNDArray, NDArray, RowSparseNDArray
from core.ndarray.np_shape import is_np_shape, np_shape, use_np_shape
from core.ndarray.serialization import dumps
from core.types import DTYPE_NAMES

V2 = 0xF993FAC9

# Written by MXNet 1.9.1: mx.nd.save("f", {"w": mx.nd.array([1, 2])}) and
# mx.nd.save("f", [mx.nd.array([[0, 1], [0, 0]]).tostype("row_sparse")]).
NAMED = bytes.fromhex(
    "1201000000000000000000000000000001000000000000"
    "00c9fa93f9000000000100000002000000000000000100000000000000000000000000803f00000040"
    "0100000000000000010000000000000077"
)


def header(count: int) -> bytes:
    return struct.pack("<QQQ", 0x112, 0, count)


def dense(shape: tuple[int, ...], data: bytes, code: int = 0, magic: int = V2) -> bytes:
    layout = struct.pack(f"<Iii{len(shape)}q", magic, 0, len(shape), *shape)
    return layout + struct.pack("<iii", 1, 0, code) + data


def one(array: bytes) -> bytes:
    return header(1) + array + struct.pack("<Q", 0)


# -- MXNet's own files --------------------------------------------------------------------------


def test_a_file_of_named_arrays_written_by_hand() -> None:
    loaded = nd.load_frombuffer(NAMED)
    assert list(loaded) == ["w"]
    assert loaded["w"].asnumpy().tolist() == [1, 2]
    assert dumps(loaded) == NAMED


def sample(shared_dir: Path, name: str) -> Path:
    return shared_dir / "formats" / name


@pytest.mark.parametrize(
    "name",
    [
        "dense",
        "empty",
        "list",
        "sparse",
        "rs_zero",
        "csr_zero",
        "np_v3",
        "gluon_collect",
        "gluon_export-0003",
        "gluon_save_parameters",
        "st_device2_adam-0001",
    ],
)
def test_samples_are_rewritten_byte_for_byte(shared_dir: Path, tmp_path: Path, name: str) -> None:
    original = sample(shared_dir, f"{name}.params")
    loaded = nd.load(original)
    nd.save(tmp_path / "copy", loaded)
    assert (tmp_path / "copy").read_bytes() == original.read_bytes()


@pytest.mark.parametrize("name", ["v0.params", "v1.params"])
def test_old_versions_are_read(shared_dir: Path, name: str) -> None:
    loaded = nd.load(sample(shared_dir, name))
    assert set(loaded) == {"arg:a", "aux:b"}
    assert loaded["arg:a"].asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["aux:b"].asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_sparse_arrays_written_by_mxnet_are_read(shared_dir: Path) -> None:
    loaded = nd.load(sample(shared_dir, "sparse.params"))
    rows, csr = loaded["rs"], loaded["cs"]
    assert isinstance(rows, RowSparseNDArray)
    assert rows.indices.asnumpy().tolist() == [1, 3]
    assert rows.asnumpy().tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]]
    assert isinstance(csr, CSRNDArray)
    assert csr.asnumpy().tolist() == [[0, 1, 0], [2, 0, 3]]


def test_published_models_are_rewritten_byte_for_byte(shared_dir: Path, tmp_path: Path) -> None:
    files = sorted((shared_dir / "checkpoints").glob("*/*.params"))
    current = [path for path in files if path.read_bytes()[24:28] == struct.pack("<I", V2)]
    assert current
    for path in files:
        loaded = nd.load(path)
        assert loaded, path
        nd.save(tmp_path / "copy", loaded)
        written = (tmp_path / "copy").read_bytes()
        if path in current and b"arg:" in written and _on_cpu(path):
            assert written == path.read_bytes(), path


def _on_cpu(path: Path) -> bool:
    """Return whether a V2 file's first array was saved from cpu(0)."""
    raw = path.read_bytes()
    (ndim,) = struct.unpack_from("<i", raw, 32)
    return struct.unpack_from("<ii", raw, 36 + 8 * ndim) == (1, 0)


# -- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_dtype_survives(tmp_path: Path, dtype: str) -> None:
    x = nd.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    nd.save(str(tmp_path / "x"), x)
    (y,) = nd.load(str(tmp_path / "x"))
    assert y.dtype is x.dtype
    assert np.array_equal(x.asnumpy(), y.asnumpy())


@pytest.mark.parametrize("shape", [(0,), (2, 0, 1), (3, 0, 0, 0), (1,) * 6])
def test_every_shape_survives(shape: tuple[int, ...]) -> None:
    (y,) = nd.load_frombuffer(dumps([nd.array(np.zeros(shape))]))
    assert y.shape == shape


def test_bfloat16_survives() -> None:
    """It is the upper half of a float32."""
    halves = np.array([1.5, -2.0, 0.0], np.float32).view(np.uint32) >> 16
    stored = one(dense((3,), halves.astype("<u2").tobytes(), code=12))
    (x,) = nd.load_frombuffer(stored)
    assert np.dtype(x.dtype).name == "bfloat16"
    assert x.astype("float32").asnumpy().tolist() == [1.5, -2, 0]
    assert halves.astype("<u2").tobytes() in dumps([x])


def test_views_and_arrays_of_other_devices_are_saved() -> None:
    x = nd.arange(6, ctx=mx.cpu(1)).reshape((2, 3))
    loaded = nd.load_frombuffer(dumps({"é:row": x[1]}))
    assert loaded["é:row"].asnumpy().tolist() == [3, 4, 5]
    assert loaded["é:row"].context == mx.cpu(0)


def test_scalars_need_version_3() -> None:
    written = dumps([nd.array(3.5), nd.ones(2)])
    assert struct.unpack_from("<I", written, 24) == (0xF993FACA,)
    scalar, pair = nd.load_frombuffer(written)
    assert scalar.shape == ()
    assert scalar.asscalar() == 3.5
    assert pair.asnumpy().tolist() == [1, 1]
    with pytest.raises(FormatError, match="csr"):
        dumps([nd.array(3.5), nd.zeros((1, 1), stype="csr")])


def test_np_shape_arrays_are_saved_as_version_3() -> None:
    x = [nd.ones(2)]
    plain = dumps(x)
    with np_shape(True):
        assert is_np_shape()
        assert struct.unpack_from("<I", dumps(x), 24) == (0xF993FACA,)
        with np_shape(False):
            assert dumps(x) == plain
    assert use_np_shape(is_np_shape)()
    assert not is_np_shape()


# -- misuse -------------------------------------------------------------------------------------


def test_save_refuses_other_containers_and_values() -> None:
    x = nd.ones(2)
    with pytest.raises(ValueError, match="tuple"):
        dumps((x,))
    with pytest.raises(TypeError, match="dict str->NDArray"):
        dumps({1: x})
    with pytest.raises(TypeError, match="list"):
        dumps([x, np.ones(2)])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MXNetError, match="missing"):
        nd.load(tmp_path / "missing")
    with pytest.raises(MXNetError, match="no/such"):
        nd.save(tmp_path / "no/such", [nd.ones(1)])
    with pytest.raises(TypeError, match="path"):
        nd.load(5)
    with pytest.raises(TypeError, match="bytes"):
        nd.load_frombuffer("text")


def test_a_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.params"
    nd.save(path, [nd.ones(2)])
    before = path.read_bytes()
    with pytest.raises(FormatError):
        nd.save(path, [nd.array(3.5), nd.zeros((1, 1), stype="csr")])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- malformed files ----------------------------------------------------------------------------

SPARSE = dumps(
    {
        "r": nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 3]), shape=(5, 2)),
        "c": nd.sparse.csr_matrix(([1, 2, 3], [0, 2, 2], [0, 2, 3]), shape=(2, 3)),
        "d": nd.array([[1, 2], [3, 4]], dtype="float16"),
    }
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header takes 24 bytes, 0 are left"),
        (b"PK\x03\x04" + bytes(40), "expected 0x112"),
        (header(2**63), "array 0"),
        (one(dense((2,), bytes(4))), "takes 8 bytes"),
        (one(dense((10**6, 10**6), b"")), "takes 4000000000000 bytes"),
        (one(dense((2**59,), b"")), "elements takes"),
        (one(dense((2**62, 2**62, 0), b"")), "too large"),
        (one(dense((-1,), b"")), "cannot be negative"),
        (one(dense((1,) * 33, bytes(4))), "number of axes is 33"),
        (one(dense((), b"")), "holds nothing"),
        (one(dense((2,), bytes(8), code=99)), "dtype code is 99"),
        (one(dense((2,), bytes(8), code=-1)), "dtype code is -1"),
        (one(dense((2,), bytes(8), magic=7)), r"context is \(0, 0\)"),
        (one(dense((2,), bytes(8), magic=77)), "number of axes is 77"),
        (one(struct.pack("<Ii", V2, 3)), "storage type is 3"),
        (one(struct.pack("<Ii", V2, -1)), "storage type is -1"),
        (one(struct.pack("<Ii", 0xF993FACA, 1)), "storage type is 1"),
        (header(1) + dense((2,), bytes(8)) + struct.pack("<Q", 2), "expected 0 or 1"),
        (header(1) + dense((2,), bytes(8)) + struct.pack("<QQ", 1, 2**60), "name 0 of 1"),
        (header(1) + dense((2,), bytes(8)) + struct.pack("<QQ", 1, 1) + b"\xff", "UTF-8"),
        (one(struct.pack("<Iiiqiii", V2, 0, 1, 2, 9, 0, 0) + bytes(8)), r"context is \(9, 0\)"),
    ],
    ids=itertools.count(),
)
def test_malformed_fields_are_named(data: bytes, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        nd.load_frombuffer(data)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (RowSparseNDArray((5, 2), np.ones((2, 2), "f4"), (np.array([3, 1]),)), "do not ascend"),
        (RowSparseNDArray((5, 2), np.ones((2, 2), "f4"), (np.array([1, 5]),)), "an index"),
        (RowSparseNDArray((5, 2), np.ones((2, 2), "f4"), (np.array([1]),)), "cannot have"),
        (RowSparseNDArray((5, 2), np.ones((1, 3), "f4"), (np.array([1]),)), "cannot have"),
        (
            CSRNDArray((2, 3), np.ones(2, "f4"), (np.array([0, 1, 2]), np.array([0, 3]))),
            "an index",
        ),
        (
            CSRNDArray((2, 3), np.ones(2, "f4"), (np.array([0, 2, 1]), np.array([0, 1]))),
            "row pointers",
        ),
        (
            CSRNDArray((2, 3), np.ones(2, "f4"), (np.array([0, 3, 2]), np.array([0, 1]))),
            "row pointers",
        ),
        (CSRNDArray((2, 3), np.ones(2, "f4"), (np.array([0, 2]), np.array([0, 1]))), "cannot have"),
    ],
)
def test_malformed_sparse_fields_are_named(array: NDArray, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        nd.load_frombuffer(dumps([array]))


@pytest.mark.parametrize("data", [NAMED, SPARSE], ids=["dense", "sparse"])
def test_every_truncation_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(FormatError):
            nd.load_frombuffer(data[:length])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_files_raise_only_format_errors(data: st.DataObject) -> None:
    original = bytearray(data.draw(st.sampled_from([NAMED, SPARSE])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(original) - 1))
        original[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        nd.load_frombuffer(bytes(original))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_raise_only_format_errors(noise: bytes) -> None:
    for data in (noise, header(1) + noise, header(1) + struct.pack("<I", V2) + noise):
        with contextlib.suppress(FormatError):
            nd.load_frombuffer(data)
