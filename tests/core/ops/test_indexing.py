"""Reading by index: inference, dtypes, and out-of-range indices."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, OutOfRange, ShapeError, TypeInferenceError
from oracle.apply import apply, make

F16, F32, I32 = map(np.dtype, ("float16", "float32", "int32"))


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [output])


def test_embedding_shapes_are_inferred_both_ways() -> None:
    attrs = {"input_dim": 5, "output_dim": 3}
    assert infer("Embedding", (0, 4), None, **attrs) == ([(0, 4), (5, 3)], [(0, 4, 3)])
    got = infer("Embedding", None, None, output=(2, 4, 3), **attrs)
    assert got == ([(2, 4), (5, 3)], [(2, 4, 3)])
    with pytest.raises(ShapeError, match=r"weight has shape \(6, 3\), expected \(5, 3\)"):
        infer("Embedding", (2,), (6, 3), **attrs)


def test_embedding_dtypes() -> None:
    operator = make("Embedding", {"input_dim": 5, "output_dim": 3})
    assert operator.infer_type([I32, None], [None]) == ([I32, F32], [F32])
    assert operator.infer_type([I32, F16], [None]) == ([I32, F16], [F16])
    with pytest.raises(TypeInferenceError):
        operator.infer_type([I32, F16], [F32])


def test_embedding_accepts_sparse_grad_and_requires_output_dim() -> None:
    make("Embedding", {"input_dim": 5, "output_dim": 3, "sparse_grad": True})
    with pytest.raises(AttributeValueError, match="'output_dim' is required"):
        make("Embedding", {"input_dim": 5})


def test_rows_used_twice_get_the_sum() -> None:
    weight = np.zeros((3, 2), "float32")
    head = np.float32([[1, 2], [10, 20], [100, 200]])
    attrs = {"input_dim": 3, "output_dim": 2}
    got = apply("Embedding", attrs, [np.float32([1, 0, 1]), weight], [head])
    np.testing.assert_array_equal(got.grads[1], [[10, 20], [101, 202], [0, 0]])


@pytest.mark.parametrize("index", [-1, 5])
def test_take_can_refuse_out_of_range_indices(index: int) -> None:
    data = np.zeros((5, 3), "float32")
    with pytest.raises(OutOfRange, match=f"index {index} is outside an axis of size 5"):
        apply("take", {"mode": "raise"}, [data, np.float32([0, index])])


@pytest.mark.parametrize("index", [-4, 3])
def test_gather_nd_refuses_out_of_range_indices(index: int) -> None:
    with pytest.raises(IndexError, match=f"index {index} is outside"):
        apply("gather_nd", {}, [np.zeros((3, 2), "float32"), np.float32([[index]])])


def test_index_vectors_longer_than_the_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match="select along 3 axes"):
        infer("gather_nd", (4, 3), (3, 2))
    with pytest.raises(ShapeError, match="select along 3 axes"):
        infer("scatter_nd", None, (3, 2), shape=(4, 3))
    assert infer("scatter_nd", None, (1, 2), shape=(4, 3)) == ([(2, 3), (1, 2)], [(4, 3)])


def test_pick_shapes() -> None:
    assert infer("pick", (4, 3), None) == ([(4, 3), (4,)], [(4,)])
    assert infer("pick", (4, 3), (0, 1), keepdims=True) == ([(4, 3), (4, 1)], [(4, 1)])
    with pytest.raises(ShapeError, match="axis is None"):
        infer("pick", (4, 3), (4,), axis=None)
    with pytest.raises(ShapeError, match=r"index has shape \(5,\)"):
        infer("pick", (4, 3), (5,))


def test_batch_take_needs_int32() -> None:
    operator = make("batch_take", {})
    assert operator.infer_type([F32, None], [None]) == ([F32, I32], [F32])
    with pytest.raises(TypeInferenceError, match="indices has dtype float32, expected int32"):
        operator.infer_type([F32, F32], [None])


def test_batch_take_has_no_gradient() -> None:
    assert not make("batch_take", {}).has_backward()


def test_fill_element_sets_one_element_in_each_row() -> None:
    operator = "fill_element_0index"
    assert infer(operator, (2, 3), None, None) == ([(2, 3), (2,), (2,)], [(2, 3)])
    with pytest.raises(ShapeError, match=r"mhs has shape \(3,\), expected \(2,\)"):
        infer(operator, (2, 3), (3,), None)
    with pytest.raises(ShapeError, match="expected 2 dimensions"):
        infer(operator, (2, 3, 4), None, None)
    assert not make(operator, {}).has_backward()


def test_fill_element_skips_rows_with_an_out_of_range_column() -> None:
    inputs = [np.zeros((3, 3), "float32"), np.float32([5, 6, 7]), np.float32([0, 7, -1])]
    got = apply("fill_element_0index", {}, inputs)
    assert got.outputs[0].tolist() == [[5, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_one_hot_shapes_are_inferred_both_ways() -> None:
    assert infer("one_hot", None, output=(2, 0), depth=4) == ([(2,)], [(2, 4)])
    with pytest.raises(AttributeValueError, match="minimum is 0"):
        make("one_hot", {"depth": -1})


@pytest.mark.parametrize("names", [5000, 40, 3, 1])
def test_rows_read_often_get_the_sum_of_all_gradients(names: int) -> None:
    """For distinct rows, some repeated ones, and a few repeated ones only."""
    random = np.random.RandomState(names)
    data = random.randint(0, names, (20, 30)).astype("float32")
    grad = random.randn(20, 30, 8).astype("float32")
    attributes = {"input_dim": names, "output_dim": 8}
    run = apply("Embedding", attributes, [data, np.zeros((names, 8), "float32")], heads=[grad])
    expected = np.zeros((names, 8))
    np.add.at(expected, data.astype(int).reshape(-1), grad.reshape(-1, 8))
    np.testing.assert_allclose(run.grads[1], expected, rtol=1e-5, atol=1e-5)
