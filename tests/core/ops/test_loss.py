"""Output layers: shapes and dtypes of labels, and where their gradients come from."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make

OUTPUTS = ("SoftmaxOutput", "SVMOutput")


def infer_label(op: str, data, label=None, **attrs):
    (_, inferred), _ = make(op, attrs).infer_shape([data, label], [None])
    return inferred


@pytest.mark.parametrize("op", OUTPUTS)
def test_only_data_gets_a_gradient_and_no_head_gradient_is_read(op: str) -> None:
    operator = make(op, {})
    assert operator.gradient_inputs(2) == (0,)
    assert not operator.backward_reads().out_grads
    assert not make("MakeLoss", {}).backward_reads().out_grads


@pytest.mark.parametrize(
    ("op", "attrs", "data", "label"),
    [
        ("SoftmaxOutput", {}, (4, 6), (4,)),
        ("SoftmaxOutput", {}, (0, 6), (0,)),
        ("SoftmaxOutput", {"preserve_shape": True}, (4, 5, 6), (4, 5)),
        ("SoftmaxOutput", {"multi_output": True}, (4, 6, 5, 3), (4, 15)),
        ("SVMOutput", {}, (4, 6), (4,)),
    ],
)
def test_label_shape_is_inferred_from_data(op, attrs, data, label) -> None:
    assert infer_label(op, data, **attrs) == label


@pytest.mark.parametrize("label", [(4, 15), (4, 5, 3), (4, 1, 5, 3), (4, 6, 5, 3)])
def test_labels_for_each_position(label) -> None:
    assert infer_label("SoftmaxOutput", (4, 6, 5, 3), label, multi_output=True) == label


@pytest.mark.parametrize(
    ("op", "attrs", "data", "label", "message"),
    [
        ("SoftmaxOutput", {}, (4, 6), (5,), r"label has shape \(5,\), expected \(4,\)"),
        (
            "SoftmaxOutput",
            {"multi_output": True},
            (4, 6, 5, 3),
            (4, 5),
            r"label has shape \(4, 5\), expected \(4, 15\) or \(4, 5, 3\)",
        ),
        ("SoftmaxOutput", {"multi_output": True}, (4,), None, "classes on axis 1"),
        ("SVMOutput", {}, (4, 6), (4, 6), r"expected \(4,\)"),
        ("softmax_cross_entropy", {}, (4, 6, 2), None, r"expected \(batch, classes\)"),
        ("softmax_cross_entropy", {}, (4, 6), (4, 1), r"label has shape \(4, 1\)"),
    ],
)
def test_labels_of_the_wrong_shape_are_refused(op, attrs, data, label, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer_label(op, data, label, **attrs)


def test_smooth_alpha_must_be_between_0_and_1() -> None:
    with pytest.raises(AttributeValueError, match=r"'smooth_alpha' is 1\.5; its maximum is 1"):
        make("SoftmaxOutput", {"smooth_alpha": 1.5})


@pytest.mark.parametrize("op", ["MakeLoss", "SVMOutput"])
def test_losses_are_identities_in_inference(op: str) -> None:
    assert make(op, {}).is_identity(is_train=False)
    assert not make(op, {}).is_identity(is_train=True)


def test_label_has_datas_dtype() -> None:
    single = np.dtype("float32")
    assert make("SoftmaxOutput", {}).infer_type([single, None], [None])[0] == [single, single]
