"""Regression outputs: shapes of labels, and where their gradients come from."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make

OUTPUTS = ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")

every_output = pytest.mark.parametrize("op", OUTPUTS)


@every_output
def test_only_data_gets_a_gradient_and_no_head_gradient_is_read(op: str) -> None:
    operator = make(op, {})
    assert operator.gradient_inputs(2) == (0,)
    assert not operator.backward_reads().out_grads


@every_output
@pytest.mark.parametrize(
    ("data", "given", "label"),
    [
        ((4, 6), None, (4, 6)),
        ((4, 1), None, (4,)),
        ((4,), None, (4,)),
        ((4, 1), (4, 1), (4, 1)),
        ((2, 3, 4), (2, 12), (2, 12)),
    ],
)
def test_label_needs_as_many_elements_as_data(op: str, data, given, label) -> None:
    assert make(op, {}).infer_shape([data, given], [None]) == ([data, label], [data])


@every_output
def test_unknown_batch_is_inferred_from_output_or_label(op: str) -> None:
    operator = make(op, {})
    assert operator.infer_shape([(0, 3), None], [(2, 3)]) == ([(2, 3), (2, 3)], [(2, 3)])
    assert operator.infer_shape([(0, 3), (2, 3)], [None]) == ([(2, 3), (2, 3)], [(2, 3)])
    assert operator.infer_shape([None, (2, 3)], [None]) == ([None, (2, 3)], [None])


@every_output
@pytest.mark.parametrize("label", [(4,), (3, 6), (4, 5), (6, 4)])
def test_labels_of_the_wrong_shape_are_refused(op: str, label) -> None:
    with pytest.raises(ShapeError, match=r"label has shape .*, expected \(4, 6\) like data"):
        make(op, {}).infer_shape([(4, 6), label], [None])


def test_losses_are_identities_in_inference() -> None:
    for op in ("LinearRegressionOutput", "MAERegressionOutput"):
        assert make(op, {}).is_identity(is_train=False)
        assert not make(op, {}).is_identity(is_train=True)
    assert not make("LogisticRegressionOutput", {}).is_identity(is_train=False)
