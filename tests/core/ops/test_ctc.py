"""Connectionist temporal classification: errors, and the operator of the warp-ctc plugin."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, OutOfRange, ShapeError
from oracle import golden_file
from oracle.apply import apply, make
from oracle.cases.ctc import CASES


def infer(*inputs, output=None, **attrs):
    return make("CTCLoss", attrs).infer_shape(list(inputs), [output])


def test_lengths_are_inputs_where_used() -> None:
    assert make("CTCLoss", {}).input_names() == ("data", "label")
    both = make("CTCLoss", {"use_data_lengths": True, "use_label_lengths": True})
    assert both.input_names() == ("data", "label", "data_lengths", "label_lengths")
    assert infer((9, 2, 5), (2, 4), None, use_label_lengths=True)[0][2] == (2,)


def test_contradicting_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="data has shape"):
        infer((9, 2), (2, 4))
    with pytest.raises(ShapeError, match=r"label has shape \(3, 4\), expected \(2, 0\)"):
        infer((9, 2, 5), (3, 4))
    with pytest.raises(ShapeError, match="label has 4 labels per example, data only 3 steps"):
        infer((3, 2, 5), (2, 4))


def test_an_out_of_range_label_is_refused() -> None:
    with pytest.raises(OutOfRange, match="index 5 is outside an axis of size 5"):
        apply("CTCLoss", {}, [np.zeros((4, 1, 5), "float32"), np.float32([[5, 0]])])


def test_half_precision() -> None:
    (case,) = (case for case in CASES if case.id == "plain")
    data, label = case.make_inputs().values()
    got = apply("CTCLoss", {}, [data.astype("float16"), label], [np.ones(3, "float16")])
    wide = apply("CTCLoss", {}, [data, label], [np.ones(3, "float32")])
    assert got.grads[0].dtype == got.outputs[0].dtype == np.float16
    np.testing.assert_allclose(got.outputs[0], wide.outputs[0], rtol=2e-3)
    np.testing.assert_allclose(got.grads[0], wide.grads[0], atol=2e-3)


def test_labels_too_long_for_the_data_have_no_gradient() -> None:
    data = np.random.default_rng(0).normal(size=(3, 2, 4)).astype("float32")
    label = np.float32([[1, 1, 0], [1, 1, 1]])
    got = apply("CTCLoss", {}, [data, label], [np.ones(2, "float32")])
    assert got.outputs[0][0] > 0
    assert got.outputs[0][1] == 0
    assert got.grads[0][:, 0].any()
    assert not got.grads[0][:, 1].any()


def test_warp_ctc_has_the_gradient_of_the_loss() -> None:
    """Values from MXNet's CTCLoss; zeros among the labels are dropped."""
    (case,) = (case for case in CASES if case.id == "plain")
    data, label = case.make_inputs().values()
    spread = np.zeros((3, 6), "float32")
    spread[:, [0, 2, 3, 5]] = label
    head = case.make_head(0, (3,), "float32")
    expected = golden_file.ops("ctc")["plain/grad_data"] / head[:, None]
    flat = data.reshape(27, 5)
    got = apply(
        "WarpCTC",
        {"input_length": 9, "label_length": 6},
        [flat, spread.reshape(-1).astype("int32")],
        [np.full((27, 5), np.nan, "float32")],
    )
    np.testing.assert_allclose(got.grads[0], expected.reshape(27, 5), atol=1e-5)
    softmax = np.exp(flat) / np.exp(flat).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got.outputs[0], softmax, rtol=1e-5)


def test_inferred_shapes_of_warp_ctc() -> None:
    attrs = {"input_length": 9, "label_length": 6}
    assert make("WarpCTC", attrs).infer_shape([(27, 5), None], [None])[0] == [(27, 5), (18,)]
    with pytest.raises(ShapeError, match="28 rows; expected a multiple of input_length 9"):
        make("WarpCTC", attrs).infer_shape([(28, 5), None], [None])
    with pytest.raises(AttributeValueError, match="label_length is 0; expected at least 1"):
        make("WarpCTC", {"input_length": 9})


def test_steps_after_an_examples_end_have_no_gradient_even_at_nan() -> None:
    """Values from MXNet 1.9.1."""
    data = np.random.RandomState(0).randn(4, 2, 3).astype("float32")
    data[2:, 0] = np.nan
    inputs = [data, np.float32([[1, 2], [1, 2]]), np.float32([2, 4]), np.float32([2, 2])]
    used = {"use_data_lengths": True, "use_label_lengths": True}
    with np.errstate(all="ignore"):
        got = apply("CTCLoss", used, inputs, [np.ones(2, "float32")])
    np.testing.assert_allclose(got.outputs[0], [3.4741454, 2.5836186], rtol=1e-6)
    gradient = got.grads[0]
    expected = [[0.58423525, -0.85063267, 0.26639745], [0.594823, 0.19771333, -0.79253626]]
    np.testing.assert_allclose(gradient[:2, 0], expected, rtol=1e-5)
    assert not gradient[2:, 0].any()
    assert np.isfinite(gradient).all()
