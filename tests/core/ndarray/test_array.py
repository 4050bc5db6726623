"""Properties of an NDArray, and converting to and from it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import FormatError, MXNetError, ShapeError, TypeInferenceError
from core.ndarray import NDArray


def counting(*shape: int) -> NDArray:
    return nd.arange(int(np.prod(shape))).reshape(shape)


def test_shape_size_dtype_and_context() -> None:
    x = nd.zeros((2, 3), ctx=mx.cpu(1), dtype="float16")
    assert (x.shape, x.size, x.ndim, len(x), x.stype) == ((2, 3), 6, 2, 2, "default")
    assert x.dtype is np.float16
    assert x.context == x.ctx == mx.cpu(1)


def test_repr_matches_mxnets() -> None:
    assert repr(counting(2, 2)) == "\n[[0. 1.]\n [2. 3.]]\n<NDArray 2x2 @cpu(0)>"


def test_data_shares_memory() -> None:
    raw = np.zeros((2, 2), np.float32)
    x = NDArray(raw, mx.cpu(0))
    x[0] = 7
    assert raw[0, 1] == 7
    assert x.dense() is raw


def test_asnumpy_is_a_copy() -> None:
    x = nd.zeros(3)
    x.asnumpy()[0] = 5
    assert x[0].asscalar() == 0


def test_numpy_functions_take_arrays() -> None:
    assert np.array_equal(np.asarray(counting(2, 3)), np.arange(6).reshape(2, 3))
    assert np.asarray(counting(2), dtype=np.int32).dtype == np.int32


@pytest.mark.parametrize(
    ("array", "truth"), [(nd.zeros(1), False), (nd.ones((1, 1)), True), (nd.array([]), False)]
)
def test_truth_of_a_single_element(array: NDArray, truth: bool) -> None:
    assert bool(array) is truth


def test_truth_of_many_is_ambiguous() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        bool(nd.ones((2, 3)))


def test_scalars_convert_to_python_numbers() -> None:
    assert nd.ones(1).asscalar() == 1
    assert float(nd.full((1, 1), 2.5)) == 2.5
    assert int(nd.full((1,), 3)) == 3
    with pytest.raises(ValueError, match="not a scalar"):
        nd.ones(2).asscalar()


def test_iteration_gives_views() -> None:
    x = nd.zeros((3, 2))
    for number, row in enumerate(x):
        row[:] = number
    assert x.asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]


def test_hash_is_identity() -> None:
    x, y = nd.ones(2), nd.ones(2)
    assert len({x, y, x}) == 2


# -- copies -----------------------------------------------------------------------------------


def test_copyto_array_casts() -> None:
    target = nd.zeros((2, 2), dtype="int32")
    assert nd.full((2, 2), 2.7).copyto(target) is target
    assert target.asnumpy().tolist() == [[2, 2], [2, 2]]


def test_copyto_a_context_copies() -> None:
    x = nd.ones(3)
    y = x.copyto(mx.cpu(1))
    y[:] = 5
    assert y.context == mx.cpu(1)
    assert x.asnumpy().tolist() == [1, 1, 1]


def test_invalid_copyto_targets_are_refused() -> None:
    x = nd.ones((2, 3))
    with pytest.raises(ShapeError, match=r"\(3, 2\)"):
        x.copyto(nd.ones((3, 2)))
    with pytest.raises(TypeError, match="copyto does not support"):
        x.copyto(3)
    with pytest.warns(RuntimeWarning, match="itself"):
        assert x.copyto(x) is False


def test_as_in_context_copies_only_to_another_context() -> None:
    x = nd.ones(2)
    assert x.as_in_context(mx.cpu(0)) is x
    assert x.as_in_context(mx.cpu(2)).context == mx.cpu(2)


def test_astype_copies_unless_told_not_to() -> None:
    x = nd.ones((2, 3), dtype="int32")
    assert x.astype("int32") is not x
    assert x.astype(np.int32, copy=False) is x
    assert x.astype("float64").dtype is np.float64
    with pytest.raises(TypeInferenceError, match="complex64"):
        x.astype("complex64")
    with pytest.raises(TypeError):
        x.astype("nonsense")


def test_wait_and_waitall_return() -> None:
    x = nd.ones(2)
    x.wait_to_read()
    nd.waitall()
    mx.waitall()


# -- shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (((-1,),), (30,)),
        ((6, 5), (6, 5)),
        ((-1,), (30,)),
        (((0, -1),), (2, 15)),
        ((-2,), (2, 3, 5)),
        ((-3, -1), (6, 5)),
        (((-4, 1, 2, -2),), (1, 2, 3, 5)),
        ((-1, 0), (10, 3)),
    ],
)
def test_reshape_takes_mxnets_codes(arguments: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    assert counting(2, 3, 5).reshape(*arguments).shape == shape


def test_reshape_from_the_right() -> None:
    assert counting(2, 3, 5).reshape(-1, 0, reverse=True).shape == (6, 5)
    assert counting(2, 3).reshape(shape=(3, 2)).shape == (3, 2)


def test_reshape_shares_memory() -> None:
    x = nd.zeros((2, 3))
    x.reshape((3, 2))[0] = 1
    assert x.asnumpy().tolist() == [[1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 2), (7,), (), (4, -1)])
def test_invalid_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"reshape|shape"):
        counting(2, 3).reshape(shape)


def test_unknown_keywords_of_reshape_are_refused() -> None:
    with pytest.raises(TypeError, match="'order'"):
        counting(2, 3).reshape((3, 2), order="C")


def test_empty_arrays_can_be_reshaped() -> None:
    assert nd.array(np.zeros((0, 3))).reshape((3, 0)).shape == (3, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, inplace: x.flatten(inplace=inplace),
        lambda x, inplace: x.expand_dims(axis=1, inplace=inplace),
        lambda x, inplace: x.expand_dims(axis=-1, inplace=inplace),
        lambda x, inplace: x.squeeze(axis=2, inplace=inplace),
        lambda x, inplace: x.squeeze(inplace=inplace),
    ],
)
def test_inplace_reshapes_return_views(change: Callable[[NDArray, bool], NDArray]) -> None:
    x = counting(2, 3, 1)
    copy, view = change(x, False), change(x, True)
    assert copy.shape == view.shape
    before = copy.asnumpy()
    x[:] = -1
    assert np.array_equal(copy.asnumpy(), before)
    assert (view.asnumpy() == -1).all()


def test_scalars_and_single_elements_reshape() -> None:
    assert nd.array(3.0).reshape((1,)).asnumpy().tolist() == [3]
    assert nd.array(3.0).reshape((1, -1)).shape == (1, 1)
    assert nd.ones((1, 1)).reshape(()).shape == ()


def test_squeeze_refuses_axes_longer_than_one() -> None:
    with pytest.raises(ValueError, match="axis"):
        nd.ones((2, 1)).squeeze(0, inplace=True)


def test_squeezing_every_axis_keeps_one() -> None:
    assert nd.ones((1, 1, 1)).squeeze(inplace=True).shape == (1,)
    assert nd.ones((1, 1, 1)).squeeze().shape == (1,)


def test_expand_dims_refuses_an_axis_out_of_range() -> None:
    with pytest.raises(ShapeError, match="axis 4"):
        nd.ones((2, 2)).expand_dims(4, inplace=True)


def test_broadcast_to_repeats_or_refuses() -> None:
    x = counting(3, 1)
    assert x.broadcast_to((2, 3, 4)).shape == (2, 3, 4)
    assert x.broadcast_to((3, 2)).asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert x.broadcast_like(nd.ones((3, 5))).shape == (3, 5)
    for shape in ((4, 3), (3,)):
        with pytest.raises(ValueError, match="could not be broadcast"):
            x.broadcast_to(shape)


def test_transpose_permutes_axes() -> None:
    assert counting(2, 3, 4).T.shape == (4, 3, 2)
    x = counting(3)
    assert x.T is x
    assert counting(2, 3, 4).transpose(axes=(1, 0, 2)).shape == (3, 2, 4)


# -- pickling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool", "uint16"])
def test_pickling_keeps_values_dtype_and_context(dtype: str) -> None:
    x = nd.array([[0, 1], [1, 0]], dtype=dtype, ctx=mx.cpu(1))
    y = pickle.loads(pickle.dumps(x))
    assert np.array_equal(x.asnumpy(), y.asnumpy())
    assert (y.dtype, y.context) == (x.dtype, x.context)


def test_pickling_a_scalar_and_an_empty_array() -> None:
    assert pickle.loads(pickle.dumps(nd.array(3.0))).asnumpy() == np.float32(3)
    with pytest.raises(MXNetError, match="holds nothing"):
        pickle.loads(pickle.dumps(NDArray(None))).asnumpy()


def test_pickled_state_is_mxnets() -> None:
    state = nd.array([1, 2]).__getstate__()
    # V2 magic, dense, one axis of 2, cpu(0), float32, as MXNet 1.9.1's __getstate__ gives.
    expected = "c9fa93f900000000010000000200000000000000010000000000000000000000"
    assert state == {"handle": bytearray(bytes.fromhex(expected + "0000803f00000040"))}


def test_a_gpu_array_unpickles_on_the_cpu() -> None:
    state = nd.arange(1).__getstate__()
    handle = state["handle"]
    assert handle is not None
    handle[20:24] = b"\x02\x00\x00\x00"
    x = NDArray(None)
    x.__setstate__(state)
    assert x.context == mx.cpu(0)


def test_a_damaged_state_is_refused() -> None:
    with pytest.raises(FormatError):
        NDArray(None).__setstate__({"handle": bytearray(b"\xc9\xfa\x93\xf9")})
    sparse = nd.zeros((2, 2), stype="csr").__getstate__()
    with pytest.raises(FormatError, match="csr"):
        NDArray(None).__setstate__(sparse)


def test_overflow_causes_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(nd.array([1e300]).asnumpy()).all()
        x = nd.zeros(1, dtype="uint8")
        x[:] = 300
    assert x.asscalar() == 44
