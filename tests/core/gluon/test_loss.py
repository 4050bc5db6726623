"""Gluon's losses against MXNet, on arrays and in symbols."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import loss as losses
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.losses import CASES, compute


@pytest.mark.parametrize("case_id", CASES)
def test_values_and_gradients_match_mxnets(case_id: str) -> None:
    golden, results = golden_file.case("losses", case_id), compute(mx, case_id)
    assert results.keys() == golden.keys()
    for key, array in results.items():
        assert_close(f"{case_id} {key}", array, golden[key])


@pytest.mark.parametrize("case_id", [one for one in CASES if one != "sdml"])
def test_losses_can_be_hybridized_and_composed(case_id: str) -> None:
    name, options, inputs = CASES[case_id]
    random = np.random.RandomState(0)
    arrays = [mx.nd.array(random.randint(1, 3, shape)) for _, shape in inputs]
    loss = getattr(losses, name)(**options)
    expected = loss(*arrays).asnumpy()
    variables = [mx.sym.Variable(f"x{place}") for place in range(len(arrays))]
    names = [variable.name for variable in variables]
    bound = loss(*variables).bind(mx.cpu(), dict(zip(names, arrays, strict=True)))
    np.testing.assert_allclose(bound.forward()[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)
    loss.hybridize()
    np.testing.assert_allclose(loss(*arrays).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_module_trains_on_a_loss() -> None:
    random = np.random.RandomState(0)
    data = random.normal(size=(40, 6)).astype("float32")
    label = (data[:, 0] > 0).astype("float32")
    batches = mx.io.NDArrayIter(data, label, 10, label_name="label")
    output = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    loss = losses.SoftmaxCrossEntropyLoss()(output, mx.sym.Variable("label"))
    module = mx.mod.Module(mx.sym.make_loss(loss), label_names=("label",))
    module.fit(
        batches,
        num_epoch=30,
        optimizer_params={"learning_rate": 1.0},
        eval_metric=mx.metric.Loss(),
        initializer=mx.init.Xavier(),
    )
    assert module.score(batches, mx.metric.Loss())[0][1] < 0.1


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="signed or binary"):
        losses.LogisticLoss(label_format="ternary")
    with pytest.raises(AssertionError, match="weight must be a number"):
        losses.L1Loss(weight="1")
    with pytest.raises(UsageError, match="'NTC' and 'TNC'"):
        losses.CTCLoss(layout="CNT")
    with pytest.raises(UsageError, match="not equal"):
        losses.SDMLLoss()(mx.nd.ones((2, 2)), mx.nd.ones((2, 3)))
    assert repr(losses.L2Loss()) == "L2Loss(batch_axis=0, w=1.0)"
