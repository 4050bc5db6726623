"""Chains of modules, some made of symbols and some in Python."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import StageError, UsageError


def _layer(name: str, hidden: int, **options: object) -> mx.mod.Module:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=hidden, name=name)
    return mx.mod.Module(symbol, label_names=None, **options)


def _softmax_gradient(scores: mx.nd.NDArray, labels: mx.nd.NDArray) -> np.ndarray:
    probabilities = mx.nd.softmax(scores).asnumpy()
    probabilities[np.arange(len(probabilities)), labels.asnumpy().astype(int)] -= 1
    return probabilities


def _chain() -> mx.mod.SequentialModule:
    chain = mx.mod.SequentialModule()
    chain.add(_layer("fc1", 6)).add(_layer("fc2", 3), auto_wiring=True)
    loss = mx.mod.PythonLossModule(grad_func=_softmax_gradient)
    return chain.add(loss, take_labels=True, auto_wiring=True)


def _whole() -> mx.mod.Module:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2")
    return mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))


def _data() -> mx.io.NDArrayIter:
    random = np.random.RandomState(0)
    data = random.normal(size=(12, 5)).astype("float32")
    return mx.io.NDArrayIter(data, random.randint(0, 3, 12).astype("float32"), 4)


def test_trains_like_one_module_of_the_whole_network() -> None:
    random = np.random.RandomState(1)
    shapes = {"fc1_weight": (6, 5), "fc1_bias": (6,), "fc2_weight": (3, 6), "fc2_bias": (3,)}
    start = {name: mx.nd.array(random.normal(size=shape)) for name, shape in shapes.items()}
    trained = []
    for module in (_chain(), _whole()):
        module.fit(
            _data(),
            optimizer_params={"learning_rate": 0.5, "rescale_grad": 0.25},
            arg_params=start,
            aux_params={},
            num_epoch=2,
        )
        trained.append({name: one.asnumpy() for name, one in module.get_params()[0].items()})
    assert trained[0].keys() == trained[1].keys() == start.keys()
    for name in start:
        np.testing.assert_allclose(trained[0][name], trained[1][name], rtol=1e-5, atol=1e-6)
        assert not np.allclose(trained[0][name], start[name].asnumpy())


def test_gradients_reach_the_inputs_of_the_first_module() -> None:
    chain = mx.mod.SequentialModule().add(_layer("a", 2)).add(_layer("b", 1), auto_wiring=True)
    chain.bind([("data", (1, 3))], inputs_need_grad=True)
    chain.init_params(mx.init.One())
    chain.forward(mx.io.DataBatch([mx.nd.ones((1, 3))]), is_train=True)
    chain.backward([mx.nd.ones((1, 1))])
    np.testing.assert_array_equal(chain.get_input_grads()[0].asnumpy(), [[2, 2, 2]])
    assert chain.output_shapes == [("b_output", (1, 1))]
    assert chain.label_shapes is None
    assert chain.data_names == ["data"]


def test_invalid_chains_are_refused() -> None:
    chain = mx.mod.SequentialModule()
    with pytest.raises(UsageError, match='Unknown meta "take_label", a typo'):
        chain.add(_layer("a", 2), take_label=True)
    with pytest.raises(UsageError, match="without modules"):
        chain.bind([("data", (1, 3))])
    chain.add(_layer("a", 2)).add(_layer("a", 2), auto_wiring=True)
    with pytest.raises(StageError, match="init_params"):
        chain.init_params()
    chain.bind([("data", (1, 3))])
    with pytest.raises(UsageError, match=r"Duplicated parameter names: \['a_bias', 'a_weight'\]"):
        chain.init_params()


def test_python_modules_check_the_shapes_they_are_bound_to() -> None:
    loss = mx.mod.PythonLossModule()
    with pytest.raises(UsageError, match=r"describes \['x'\], the module takes \['data'\]"):
        loss.bind([("x", (2, 3))])
    with pytest.raises(UsageError, match="a Python module needs grad_req='write'"):
        loss.bind([("data", (2, 3))], grad_req="add")
    loss.bind([("data", (2, 3))], [("softmax_label", (2,))])
    assert loss.output_shapes == [("pyloss_output", (2, 3))]
    loss.forward(mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.zeros((2,))]))
    with pytest.raises(NotImplementedError, match="grad_func"):
        loss.backward()
    with pytest.raises(AssertionError, match="no out_grads"):
        loss.backward([mx.nd.ones((2, 3))])
    with pytest.raises(UsageError, match="one data input and one label"):
        mx.mod.PythonLossModule(data_names=("a", "b"))
    with pytest.raises(RuntimeError, match="presliced"):
        loss.update_metric(mx.metric.create("acc"), [], pre_sliced=True)
