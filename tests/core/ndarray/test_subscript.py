"""Indexing, against NumPy where MXNet agrees with it and against MXNet where not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import nd
from core.autograd import record
from core.ndarray import NDArray
from core.ndarray.np_shape import np_shape

SHAPE = (4, 5, 3, 6)
SOURCE = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)

BASIC = [
    0,
    np.int64(3),
    -1,
    slice(2),
    slice(1, 3),
    slice(np.int32(0), np.int32(4), np.int32(2)),
    slice(3, 0, -1),
    slice(None, None, -2),
    slice(1, 100),
    slice(2, 2),
    (slice(None), slice(None), 1, 5),
    (slice(None), -2, slice(1, 3), 1),
    (1, 2, 0),
    (-4, -3, -2),
    (slice(None, None, -1), 2, slice(0, 2), 1),
    (slice(0, 4, 2), slice(4, 1, -2), slice(1, 3), slice(0, 6, 3)),
    (1, ..., -1),
    (slice(2), ..., None, 0),
    None,
    ...,
    (1, None, -2, 2, -4),
    (1, slice(2, 5), None),
    (slice(None), slice(1, 4), None, slice(2, 3)),
    (None, slice(1, 2), 2, None),
]

ADVANCED = [
    [1],
    [2, 1, 3],
    range(2),
    np.array([[3, 0], [0, 2]], np.int32),
    np.array([[2], [0]], np.int64),
    (1, [2, 3]),
    (1, [2, 3], np.array([[2], [0]])),
    (1, [2], np.array([[1], [2]]), slice(2, 5, 2)),
    (1, [2], np.array([[2]]), slice(None, None, -1)),
    ([1, 1], [2, 3]),
    ([[1]], [[2]], [[0]], [[4]]),
    (slice(0, 2), [[1], [4]], slice(0, 2), slice(0, 5, 2)),
    ([[[[1]]]], 3, slice(0, 3), [1, 3]),
    ([1, 2], slice(3, 5), (1, 2), [3, 4]),
    ([1, 2], slice(3, 5), None, None, [1, 2]),
    (slice(None), slice(3, 5), None, [1, 2], None, [3, 4]),
    (None, slice(None), slice(3, 5), [1, 2], None, [3, 4]),
]


def numpy_result(key: Any) -> np.ndarray:
    result = SOURCE[key]
    return result.reshape(result.shape or (1,))


def with_arrays(key: Any) -> Any:
    """Replace NumPy arrays with NDArrays."""
    if isinstance(key, tuple):
        return tuple(with_arrays(part) for part in key)
    return nd.array(key, dtype=key.dtype) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=repr)
def test_reading_matches_numpy(key: Any) -> None:
    x = nd.array(SOURCE, dtype="int32")
    for form in (key, with_arrays(key)):
        result = x[form].asnumpy()
        assert result.shape == numpy_result(key).shape
        assert np.array_equal(result, numpy_result(key))


@pytest.mark.parametrize("key", BASIC, ids=repr)
def test_contiguous_slices_are_views(key: Any) -> None:
    raw = SOURCE.copy()
    part = NDArray(raw)[key]
    assert np.shares_memory(part.dense(), raw) == (raw[key].flags.c_contiguous and part.size > 0)
    assert part.dense().flags.c_contiguous


@pytest.mark.parametrize("key", ADVANCED, ids=repr)
def test_advanced_indices_copy(key: Any) -> None:
    raw = SOURCE.copy()
    assert not np.shares_memory(NDArray(raw)[key].dense(), raw)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=repr)
def test_writing_matches_numpy(key: Any) -> None:
    shape = SOURCE[key].shape
    value = -np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    last = value[..., 0] if shape else value
    lists = [value.tolist()] if value.size else []
    for source in (value, nd.array(value), -7, np.float32(3.5), last[..., None], *lists):
        x, expected = nd.array(SOURCE, dtype="int32"), SOURCE.copy()
        expected[key] = source.asnumpy() if isinstance(source, NDArray) else source
        x[with_arrays(key)] = source
        assert np.array_equal(x.asnumpy(), expected)


def test_assigned_values_may_have_extra_leading_axes() -> None:
    # NumPy refuses values with more axes than the target; MXNet 1.9.1 does not.
    x = nd.zeros((2, 3))
    x[0] = np.array([[[1, 2, 3]]])
    x[1:] = nd.array([[[4, 5, 6]]])
    assert x.asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_assigning_lists_booleans_and_none() -> None:
    # Values from MXNet 1.9.1.
    x = nd.zeros((1, 3, 1))
    x[0, :2, 0] = [1, 2]
    assert x.asnumpy().ravel().tolist() == [1, 2, 0]
    y = nd.zeros((2, 3))
    y[-1] = True
    y[None, 0] = 7
    assert y.asnumpy().tolist() == [[7, 7, 7], [1, 1, 1]]
    y[:] = None
    assert np.isnan(y.asnumpy()).all()


def test_assigning_keeps_large_integers() -> None:
    x = nd.zeros((2, 1), dtype="int32")
    x[1, 0] = 16800001
    assert x.asnumpy()[1, 0] == 16800001


def test_mxnets_older_methods_write_slices() -> None:
    x = nd.arange(6).reshape((3, 2))
    x.at(1)[:] = 7
    x._slice(2, None)[:] = 8
    assert x.asnumpy().tolist() == [[0, 1], [7, 7], [8, 8]]
    x.slice_assign_scalar(9, (None, 1), (2, None), (None, None))
    assert x.asnumpy().tolist() == [[0, 9], [7, 9], [8, 8]]
    x.slice_assign(nd.zeros((2, 1)), (0, 0), (3, 1), (2, 1))
    assert x.asnumpy().tolist() == [[0, 9], [7, 9], [0, 8]]
    x._sync_copyfrom([[1, 1]] * 3)
    assert (x.asnumpy() == 1).all()
    with pytest.raises(ValueError, match="inconsistent"):
        x._sync_copyfrom([1, 1])


def test_overlapping_rows_may_be_assigned() -> None:
    x = nd.arange(4).reshape((2, 2))
    x[0] = x[1]
    x[:] = x
    assert x.asnumpy().tolist() == [[2, 3], [2, 3]]


def test_boolean_arrays_are_taken_as_integer_indices() -> None:
    # As in MXNet 1.9.1 outside numpy mode: the result of a comparison is not a mask.
    x = nd.array([[1, 2], [3, 4]])
    assert x[np.array([True, False])].asnumpy().tolist() == [[3, 4], [1, 2]]
    assert x[True].asnumpy().tolist() == [3, 4]
    with pytest.raises(ValueError, match="boolean indexing"):
        x[nd.array([True, False], dtype=bool)]


def test_indexing_everything_returns_the_array_itself() -> None:
    x = nd.ones((2, 2))
    assert x[:] is x
    assert x[()] is x


def test_a_scalar_array_takes_empty_keys() -> None:
    x = nd.array(3.0)
    x[()] = 4
    assert x.asnumpy() == 4
    x[:] = 5
    assert x.asscalar() == 5
    with pytest.raises(IndexError, match="too many"):
        x[0]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (5, IndexError, "index 5 is out of bounds for axis 0 with size 4"),
        (-5, IndexError, "out of bounds"),
        ((0, 5), IndexError, "axis 1 with size 5"),
        ((0, 0, 0, 0, 0), IndexError, r"too many indices \(5\) for array with 4 dimensions"),
        (([0, 4],), IndexError, "index 4"),
        ([-5], IndexError, "index -5"),
        ((..., ...), IndexError, "ellipsis"),
        (slice(None, None, 0), ValueError, "step cannot be zero"),
        ("x", ValueError, "does not support slicing with key 'x'"),
        (1.5, ValueError, "does not support slicing"),
        ({}, ValueError, "does not support slicing"),
        ((np.array(["a"]),), ValueError, "does not support slicing"),
    ],
)
def test_invalid_keys_are_refused(key: Any, error: type[Exception], text: str) -> None:
    x = nd.array(SOURCE)
    with pytest.raises(error, match=text):
        x[key]
    with pytest.raises(error, match=text):
        x[key] = 1
    assert np.array_equal(x.asnumpy(), SOURCE)


@pytest.mark.parametrize("key", [slice(None), 0, (slice(None), 1), [0, 1]])
def test_values_of_the_wrong_shape_are_refused(key: Any) -> None:
    x = nd.zeros((2, 3))
    for value in (np.ones((5, 4)), nd.ones((3, 2)), [1, 2, 3, 4]):
        with pytest.raises(ValueError, match=r"broadcast|shape"):
            x[key] = value
    with pytest.raises(TypeError, match="non-array-like"):
        x[key] = "text"
    assert not x.asnumpy().any()


def slices(size: int) -> st.SearchStrategy[slice]:
    bounds = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bounds, bounds, st.none() | st.integers(1, 3) | st.integers(-3, -1))


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    parts = [draw(st.integers(-size, size - 1) | slices(size)) for size in (2, 3, 4)]
    kept = parts[: draw(st.integers(0, 3))]
    for _ in range(draw(st.integers(0, 2))):
        kept.insert(draw(st.integers(0, len(kept))), None)
    return tuple(kept)


@given(keys())
def test_any_basic_key_matches_numpy(key: tuple[Any, ...]) -> None:
    raw = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = raw[key]
    result = NDArray(raw)[key]
    assert result.shape == (expected.shape or (1,))
    assert np.array_equal(result.asnumpy(), expected.reshape(result.shape))
    target, wanted = NDArray(raw.copy()), raw.copy()
    target[key] = -1
    wanted[key] = -1
    assert np.array_equal(target.asnumpy(), wanted)


@pytest.mark.parametrize("value", [[7], nd.array([7]), np.float64([7]), nd.full((1, 1), 7)])
def test_an_element_may_be_assigned_a_one_element_array(value: Any) -> None:
    array = nd.zeros((2, 3), dtype="int32")
    array[1, 2] = value
    array[mx_index(0), 0] = value
    assert array.asnumpy().tolist() == [[7, 0, 0], [0, 0, 7]]


def mx_index(index: int) -> np.ndarray[Any, Any]:
    """An index as an array without axes, which stands for an integer."""
    return np.array(index)


def test_contiguous_slices_are_recognized() -> None:
    source = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    parts = [slice(None), slice(2), slice(1, 3), slice(2, 3), slice(4, 1), slice(None, None, 2)]
    parts += [slice(None, None, -1), slice(0, 9, 9)]
    for key in itertools.product(parts, repeat=3):
        taken = source[key]
        assert NDArray._basic_indexing_sliced_shape(key, source.shape) == taken.shape
        is_one = NDArray._basic_indexing_slice_is_contiguous(key, source.shape)
        assert is_one is taken.flags.c_contiguous, key
        if is_one:
            begin, end = NDArray._basic_indexing_contiguous_flat_begin_end(key, source.shape)
            assert source.ravel()[begin:end].tolist() == taken.ravel().tolist()


def test_indexing_one_element_gives_a_scalar_under_np_shape() -> None:
    array = nd.array([[1, 2], [3, 4]])
    assert array[1, 0].shape == (1,)
    array.attach_grad()
    with np_shape(True), record():
        assert [part.shape for part in (array[1, 0], array[1], array[1][0])] == [(), (2,), ()]
        (array[1, 0] * array[0][1]).backward()
    assert array.grad.asnumpy().tolist() == [[0, 3], [2, 0]]
