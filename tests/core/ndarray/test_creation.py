"""Creating arrays; expected values from MXNet 1.9.1 and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import MXNetError, ShapeError
from core.ndarray import NDArray


@pytest.mark.parametrize(
    ("source", "dtype", "expected"),
    [
        ([1, 2], None, np.float32),
        (np.zeros(2), None, np.float32),
        (np.zeros(2, np.int64), None, np.float32),
        (nd.zeros(2, dtype="int8"), None, np.int8),
        (nd.zeros(2, dtype="int8"), "float64", np.float64),
        ([1, 2], "int32", np.int32),
        ([True, False], bool, np.bool_),
        (5, None, np.float32),
    ],
)
def test_dtype_of_array(source: Any, dtype: Any, expected: type) -> None:
    assert nd.array(source, dtype=dtype).dtype is expected


def test_dtypes_by_code() -> None:
    by_code = nd._DTYPE_MX_TO_NP
    assert by_code[-1] is None
    assert [by_code[code] for code in (0, 2, 6, 7)] == [np.float32, np.float16, np.int64, np.bool_]
    assert {nd._DTYPE_NP_TO_MX[kind] for kind in by_code.values()} == set(by_code)


def test_array_copies_its_source() -> None:
    raw = np.ones(3, np.float32)
    x = nd.array(raw)
    raw[:] = 9
    y = nd.array(x)
    x[:] = 5
    assert y.asnumpy().tolist() == [1, 1, 1]


def test_arrays_from_scalars_and_empty_lists() -> None:
    assert nd.array(3.0).shape == ()
    assert nd.array([]).shape == (0,)
    assert nd.array(np.zeros((2, 0, 3))).shape == (2, 0, 3)


def test_invalid_sources_are_refused() -> None:
    with pytest.raises(TypeError, match="array like"):
        nd.array("text")
    with pytest.raises(TypeError, match="array like"):
        nd.array([[1, 2], [3]])


def test_current_context_is_the_default() -> None:
    with mx.Context("cpu", 3):
        made = [nd.zeros(1), nd.array([1]), nd.arange(2), nd.eye(2), nd.linspace(0, 1, 3)]
    assert {x.context for x in made} == {mx.cpu(3)}


@pytest.mark.parametrize("make", [nd.zeros, nd.ones, nd.empty])
def test_zeros_ones_and_empty(make: Any) -> None:
    assert make(3).shape == (3,)
    assert make((2, 3), dtype="int64").dtype is np.int64
    with mx.np_shape():
        assert make((), dtype="float16").shape == ()
        assert make((3, 0)).shape == (3, 0)
    assert make(shape=np.array([2, 2])).shape == (2, 2)
    with pytest.raises(ShapeError, match="negative"):
        make((2, -1))


@pytest.mark.parametrize("make", [nd.zeros, nd.ones])
@pytest.mark.parametrize("shape", [(), (0, 1, 3, 0), 0])
def test_zeros_and_ones_without_elements_need_np_shape(make: Any, shape: Any) -> None:
    with pytest.raises(MXNetError, match=r"made inside `with mx.np_shape\(\):`"):
        make(shape)


def test_zeros_ones_and_full_values() -> None:
    assert nd.zeros((2,)).asnumpy().tolist() == [0, 0]
    assert nd.ones((2,)).asnumpy().tolist() == [1, 1]
    assert nd.full((2,), 2.5).asnumpy().tolist() == [2.5, 2.5]
    out = nd.zeros((2, 2))
    assert nd.full((2, 2), 3, out=out) is out
    assert (out.asnumpy() == 3).all()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((5,), [0, 1, 2, 3, 4]),
        ((2, 5), [2, 3, 4]),
        ((0, 1, 0.25), [0, 0.25, 0.5, 0.75]),
        ((5, 0, -2), [5, 3, 1]),
        ((0, 2, 1, 3), [0, 0, 0, 1, 1, 1]),
    ],
)
def test_arange_matches_mxnets(arguments: tuple[float, ...], expected: list[float]) -> None:
    assert nd.arange(*arguments).asnumpy().tolist() == expected


def test_arange_keeps_large_integers() -> None:
    expected = np.arange(0, 10000**2, 10001, dtype=np.int32)
    assert np.array_equal(nd.arange(0, 10000**2, 10001, dtype="int32").asnumpy(), expected)


def test_invalid_ranges_are_refused() -> None:
    with pytest.raises(MXNetError, match="empty range"):
        nd.arange(3, 3)
    with pytest.warns(DeprecationWarning, match="infer_range"):
        nd.arange(2, infer_range=False)


def test_linspace_and_eye_match_numpy() -> None:
    assert nd.linspace(0, 1, 5).asnumpy().tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert nd.linspace(0, 1, 4, endpoint=False).asnumpy().tolist() == [0, 0.25, 0.5, 0.75]
    assert np.array_equal(nd.eye(2, 3, 1).asnumpy(), np.eye(2, 3, 1))
    assert nd.eye(2, dtype="int32").dtype is np.int32


def test_from_numpy_shares_memory_and_makes_the_source_read_only() -> None:
    raw = np.array([[1, 2], [3, 4]], dtype="float32")
    x = nd.from_numpy(raw)
    with pytest.raises(ValueError, match="read-only"):
        raw[0] = 0
    x[1, 1] = 100
    assert raw[1, 1] == 100
    again = nd.from_numpy(raw)
    again[0, 0] = 7
    assert raw[0, 0] == 7
    assert nd.from_numpy(np.zeros(3, np.float64)).dtype is np.float64
    with pytest.raises(ValueError, match="c-contiguous"):
        nd.from_numpy(np.zeros((2, 3)).T)
    assert nd.from_numpy(np.zeros((2, 3)).T, zero_copy=False).shape == (3, 2)


def test_concatenate_matches_numpy() -> None:
    parts = [np.ones((2, width, 2), np.float32) * width for width in (1, 2, 3)]
    joined = nd.concatenate([nd.array(part) for part in parts], axis=1)
    assert np.array_equal(joined.asnumpy(), np.concatenate(parts, axis=1))


def test_concatenate_of_one_array_may_return_it() -> None:
    x = nd.ones(2)
    assert nd.concatenate([x], always_copy=False) is x
    assert nd.concatenate([x]) is not x


def test_concatenate_refuses_mismatched_arrays() -> None:
    with pytest.raises(ValueError, match="list"):
        nd.concatenate([])
    with pytest.raises(TypeError, match="dtypes"):
        nd.concatenate([nd.ones(1), nd.ones(1, dtype="int32")])
    with pytest.raises(ShapeError):
        nd.concatenate([nd.ones((2, 2)), nd.ones((3, 3))])


@pytest.mark.parametrize(
    ("source", "destination", "shape"),
    [
        (0, 1, (2, 1, 3, 4)),
        (1, -1, (1, 3, 4, 2)),
        ([0, 1], [2, 3], (3, 4, 1, 2)),
        ([3, 0], [1, 0], (1, 4, 2, 3)),
        (range(4), range(4), (1, 2, 3, 4)),
    ],
)
def test_moveaxis_moves_axes(source: Any, destination: Any, shape: tuple[int, ...]) -> None:
    assert nd.moveaxis(nd.zeros((1, 2, 3, 4)), source, destination).shape == shape


@pytest.mark.parametrize(
    ("source", "destination"), [(3, 0), (-4, 0), (0, 5), ([0, 0], [0, 1]), ([0, 1], [0])]
)
def test_moveaxis_refuses_invalid_axes(source: Any, destination: Any) -> None:
    with pytest.raises(ValueError, match=r"moveaxis|elements"):
        nd.moveaxis(nd.zeros((1, 2, 3)), source, destination)


def test_split_v2_takes_sections_or_indices() -> None:
    x = nd.arange(12).reshape((2, 6))
    assert [part.shape for part in nd.split_v2(x, 3, axis=1)] == [(2, 2)] * 3
    parts = nd.split_v2(x, (1, 3), axis=1)
    assert [part.asnumpy().tolist() for part in parts] == [
        [[0], [6]],
        [[1, 2], [7, 8]],
        [[3, 4, 5], [9, 10, 11]],
    ]
    squeezed = nd.split_v2(x, 6, axis=1, squeeze_axis=True)
    assert [part.shape for part in squeezed] == [(2,)] * 6
    with pytest.raises(ValueError, match="equal division"):
        nd.split_v2(x, 4, axis=1)


def test_histogram_matches_mxnets() -> None:
    # Values from MXNet 1.9.1.
    x = nd.array([1, 2, 3, 9])
    counts, edges = nd.histogram(x, bins=3, range=(0, 10))
    assert counts.asnumpy().tolist() == [3, 0, 1]
    assert counts.dtype is np.int64
    assert edges.asnumpy() == pytest.approx([0, 10 / 3, 20 / 3, 10])
    counts, _ = nd.histogram(x, bins=nd.array([0, 2, 10]))
    assert counts.asnumpy().tolist() == [1, 3]
    counts, edges = nd.histogram(x, 3)
    assert counts.dtype is np.float32
    assert edges.asnumpy() == pytest.approx([1, 3.6666667, 6.3333335, 9])


def test_onehot_encode_writes_to_out() -> None:
    out = nd.ones((3, 4))
    nd.onehot_encode(nd.array([1, 0, 3]), out)
    assert np.array_equal(out.asnumpy(), np.eye(4)[[1, 0, 3]])


def test_dlpack_shares_memory() -> None:
    x = nd.arange(6).reshape((2, 3))
    for exchange in (
        x.dense(),
        nd.to_dlpack_for_read(x),
        nd.to_dlpack_for_write(x),
        x.to_dlpack_for_read(),
        x.to_dlpack_for_write(),
    ):
        y = nd.from_dlpack(exchange)
        assert np.array_equal(x.asnumpy(), y.asnumpy())
    assert np.shares_memory(nd.from_dlpack(nd.to_dlpack_for_write(x)).dense(), x.dense())


def test_arrays_from_dlpack_are_written_to_unless_their_memory_is_read_only() -> None:
    x = nd.ones((2, 3))
    for shared in (nd.from_dlpack(x.to_dlpack_for_write()), nd.from_dlpack(x.dense())):
        shared += 1
    assert (x.asnumpy() == 3).all()
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    shared = nd.from_dlpack(fixed)
    assert shared.asnumpy().tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        shared += 1


def test_new_arrays_may_be_sparse() -> None:
    assert nd.zeros((2, 3), stype="csr").stype == "csr"
    assert nd.empty((2, 3), stype="row_sparse").stype == "row_sparse"
    x = nd.array(nd.array([[0, 1], [0, 0]]).tostype("row_sparse"))
    assert isinstance(x, NDArray)
    assert x.stype == "row_sparse"
    assert x.asnumpy().tolist() == [[0, 1], [0, 0]]


def test_split_v2_as_a_method() -> None:
    x = nd.arange(6).reshape((1, 6))
    parts = x.split_v2((1, 4), axis=1)
    assert [part.asnumpy().tolist() for part in parts] == [[[0]], [[1, 2, 3]], [[4, 5]]]
    assert [part.shape for part in x.split_v2(3, axis=1)] == [(1, 2)] * 3
    assert x.split_v2(1, squeeze_axis=True).shape == (6,)
    with pytest.raises(ValueError, match="equal division"):
        x.split_v2(4, axis=1)
    with pytest.raises(ValueError, match="int or tuple"):
        x.split_v2([1, 4], axis=1)
