"""Concatenation, stacking and repetition: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, {"num_args": len(inputs), **attrs}).infer_shape(list(inputs), [output])


def repeat(op: str, data, **attrs):
    return make(op, attrs).infer_shape([data], [None])[1][0]


def test_concat_completes_its_inputs() -> None:
    assert infer("Concat", (2, 3), None) == ([(2, 3), (2, 0)], [(2, 0)])
    assert infer("Concat", (2, 3), (0, 4)) == ([(2, 3), (2, 4)], [(2, 7)])
    assert infer("Concat", (2, 3), None, output=(0, 7)) == ([(2, 3), (2, 4)], [(2, 7)])
    assert infer("Concat", None, None) == ([None, None], [None])
    assert infer("Concat", (2,), (3,), dim=0) == ([(2,), (3,)], [(5,)])


@pytest.mark.parametrize(
    ("inputs", "attrs", "message"),
    [
        (((2, 3), (2, 3)), {"dim": 2}, "axis 2 is out of range"),
        (((2, 3), (3, 3)), {}, r"arg1 has shape"),
        (((2, 3), (2, 3, 1)), {}, r"arg1 has shape"),
    ],
)
def test_inputs_that_cannot_be_joined_are_refused(inputs, attrs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("Concat", *inputs, **attrs)


def test_an_output_too_short_for_the_inputs_is_refused() -> None:
    with pytest.raises(ShapeError, match="too short"):
        infer("Concat", (2, 3), None, output=(2, 3))


def test_concat_needs_a_number_of_inputs() -> None:
    with pytest.raises(AttributeValueError, match="'num_args' is required"):
        make("Concat", {})


def test_concat_needs_every_gradient_array() -> None:
    assert make("Concat", {"num_args": 2}).needs_every_gradient()


def test_stack_completes_its_inputs() -> None:
    assert infer("stack", (2, 0), (0, 3), axis=-1) == ([(2, 3), (2, 3)], [(2, 3, 2)])
    assert infer("stack", None, None, output=(2, 5), axis=0) == ([(5,), (5,)], [(2, 5)])
    with pytest.raises(ShapeError, match="axis 3 is out of range"):
        infer("stack", (2, 3), (2, 3), axis=3)


def test_repeated_shapes() -> None:
    assert repeat("tile", (0, 3), reps=(2, 1)) == (0, 3)
    assert repeat("tile", (3,), reps=(2, 1, 3)) == (2, 1, 9)
    assert repeat("tile", (3,), reps=()) == (3,)
    assert repeat("repeat", (0, 3), repeats=2) == (0,)
    assert repeat("repeat", (0, 3), repeats=2, axis=1) == (0, 6)


def test_repetitions_are_checked() -> None:
    with pytest.raises(AttributeValueError, match="minimum is 1"):
        make("tile", {"reps": (0, 2)})
    with pytest.raises(AttributeValueError, match="minimum is 1"):
        make("repeat", {"repeats": -1})
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        repeat("repeat", (2, 3), repeats=2, axis=2)


def test_gradients_of_half_precision_copies_are_summed_in_float32() -> None:
    operator = make("repeat", {"repeats": 4096})
    gradient = np.zeros(1, "float16")
    run = type("Run", (), {"xp": np})()
    operator.backward(run, [np.full(4096, 8.0, "float16")], [None], [None], [gradient])
    assert gradient[0] == 32768


def test_concat_of_more_arrays_than_the_library_supports() -> None:
    columns = np.arange(4000, dtype=np.float32)
    data = mx.sym.Variable("data")
    joined = mx.sym.Concat(*[data + float(add) for add in columns[:3]], *[data] * 3997, dim=1)
    executor = joined.simple_bind(mx.cpu(), grad_req="null", data=(2, 1))
    (output,) = executor.forward(is_train=False, data=mx.nd.ones((2, 1)))
    expected = np.ones((2, 4000), np.float32)
    expected[:, :3] += columns[:3]
    np.testing.assert_array_equal(output.asnumpy(), expected)
