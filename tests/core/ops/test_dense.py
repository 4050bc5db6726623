"""FullyConnected: what golden cases cannot cover."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError
from core.ops import make_operator
from oracle.case import Case, normal
from oracle.run_operator import run_operator


def infer(data, weight=None, bias=None, output=None, **attrs):
    operator = make_operator("FullyConnected", "fc", {"num_hidden": "5", **attrs})
    return operator.infer_shape([data, weight, bias], [output])


def test_batch_is_inferred_from_the_output() -> None:
    assert infer((0, 4), output=(3, 5))[0] == [(3, 4), (5, 4), (5,)]
    assert infer((0, 0, 4), output=(3, 2, 5), flatten="False")[0][0] == (3, 2, 4)


def test_unknown_features_stay_unknown() -> None:
    assert infer((2, 0, 3)) == ([(2, 0, 3), (5, 0), (5,)], [(2, 5)])


def test_nothing_is_inferred_without_data() -> None:
    """As in MXNet, whose infer_shape_partial then gives () for weight and bias."""
    assert infer(None, weight=(5, 3)) == ([None, (5, 3), None], [None])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ((2, 4), (5, 3)),
            r"weight has shape \(5, 3\), expected \(num_hidden, features\) = \(5, 4\); set num",
        ),
        (((2, 4), (5, 4), (4,)), r"bias has shape \(4,\), expected \(5,\)"),
        (((),), r"data has shape \(\)"),
    ],
)
def test_contradicting_shapes_are_refused(shapes, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(*shapes)


def test_num_hidden_must_be_positive() -> None:
    with pytest.raises(AttributeValueError, match="'num_hidden' is 0; its minimum is 1"):
        make_operator("FullyConnected", "fc", {"num_hidden": "0"})


def test_half_precision_accumulates_in_float32() -> None:
    # 4096 ones sum to 4096; a running sum in float16 would stop at 2048.
    ones = {name: normal(1, 4096, loc=1, scale=0, dtype="float16") for name in ("data", "weight")}
    case = Case("half", "FullyConnected", {"num_hidden": 1, "no_bias": True}, ones)
    results = run_operator(case)
    assert results["out0"].dtype == np.float16
    assert results["out0"].item() == 4096
    assert results["grad_data"].dtype == np.float16


def test_biases_may_be_a_column() -> None:
    """MXNet infers (num_hidden, 1), too."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    assert net.infer_shape(data=(2, 3), fc_bias=(4, 1))[0] == [(2, 3), (4, 3), (4, 1)]
    data, weight = mx.nd.ones((2, 3)), mx.nd.ones((4, 3))
    bias = mx.nd.arange(4).reshape((4, 1))
    expected = [[3, 4, 5, 6]] * 2
    for given in (data, data.tostype("csr")):
        got = mx.nd.FullyConnected(given, weight, bias, num_hidden=4)
        assert got.asnumpy().tolist() == expected
    gradient = mx.nd.zeros((4, 1))
    arrays = {"data": data, "fc_weight": weight, "fc_bias": bias}
    bound = net.bind(mx.cpu(), arrays, {"fc_bias": gradient})
    assert bound.forward(is_train=True)[0].asnumpy().tolist() == expected
    bound.backward([mx.nd.ones((2, 4))])
    assert gradient.asnumpy().tolist() == [[2]] * 4
    with pytest.raises(ShapeError, match=r"bias has shape \(4, 2\), expected \(4, 1\)"):
        net.infer_shape(data=(2, 3), fc_bias=(4, 2))
