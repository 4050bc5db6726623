"""Graphs whose shapes depend on values: evaluated, bound, hybridized, exported.

The expected numbers of masks are those that MXNet 1.9.1 gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError, ShapeError
from core.executor.operatorwise import OperatorwiseExecutor

DATA = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def _masked() -> mx.sym.Symbol:
    return mx.sym.contrib.boolean_mask(mx.sym.Variable("x"), mx.sym.Variable("m"))


def _bind(symbol: mx.sym.Symbol, grad_req: str = "write") -> Any:
    arrays = {"x": mx.nd.array(DATA), "m": mx.nd.array([1, 0, 1])}
    gradients = {"x": mx.nd.ones((3, 2)), "m": mx.nd.ones((3,))}
    return symbol.bind(mx.cpu(), arrays, gradients, grad_req)


def test_a_mask_is_evaluated() -> None:
    (output,) = _masked().eval(x=mx.nd.array(DATA), m=mx.nd.array([1, 0, 1]))
    assert output.asnumpy().tolist() == [[1, 2], [5, 6]]


def test_a_bound_mask_follows_the_values_of_each_pass() -> None:
    executor = _bind(_masked())
    assert isinstance(executor, OperatorwiseExecutor)
    with pytest.raises(ShapeError, match="before its first forward pass"):
        _ = executor.outputs
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 2)))
    assert executor.grad_dict["x"].asnumpy().tolist() == [[1, 1], [0, 0], [1, 1]]
    assert not executor.grad_dict["m"].asnumpy().any()
    (output,) = executor.forward(is_train=True, m=mx.nd.array([0, 1, 0]))
    assert output.asnumpy().tolist() == [[3, 4]]
    executor.backward(mx.nd.ones((1, 2)) * 2)
    assert executor.grad_dict["x"].asnumpy().tolist() == [[0, 0], [2, 2], [0, 0]]
    with pytest.raises(ShapeError, match="shape"):
        executor.backward(mx.nd.ones((2, 2)))
    with pytest.raises(MXNetError, match="needs its head gradient"):
        executor.backward()


def test_gradients_may_be_added() -> None:
    executor = _bind(mx.sym.make_loss(mx.sym.sum(_masked() * 2)), "add")
    (output,) = executor.forward(is_train=True)
    assert output.asnumpy().tolist() == [28]
    executor.backward()
    executor.backward()
    assert executor.grad_dict["x"].asnumpy().tolist() == [[5, 5], [1, 1], [5, 5]]


def test_what_a_bound_graph_can_be_asked() -> None:
    executor = _bind(_masked())
    seen: list[tuple[str, Any]] = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.shape)))
    executor.forward()
    assert seen == [(_name(executor), (2, 2))]
    assert executor.output_dict[_name(executor)].shape == (2, 2)
    assert executor.memory_report().total == 4 * (6 + 3 + 6 + 3 + 4)
    assert "_contrib_boolean_mask" in executor.debug_str()
    executor.copy_params_from({"m": mx.nd.array([0, 0, 1])})
    assert executor.forward()[0].asnumpy().tolist() == [[5, 6]]
    for call in (lambda: executor.reshape(x=(4, 2)), executor.timed_forward):
        with pytest.raises(MXNetError, match="depend on values"):
            call()


def _name(executor: Any) -> str:
    (name,) = executor._symbol.list_outputs()
    return str(name)


def test_auxiliary_states_are_updated() -> None:
    symbol = mx.sym.BatchNorm(_masked(), name="bn", momentum=0.5, fix_gamma=True)
    arguments = {"x": mx.nd.array(DATA), "m": mx.nd.array([1, 0, 1])}
    arguments |= {"bn_gamma": mx.nd.zeros(2), "bn_beta": mx.nd.zeros(2)}
    states = {"bn_moving_mean": mx.nd.zeros(2), "bn_moving_var": mx.nd.ones(2)}
    gradients = {"bn_beta": mx.nd.zeros(2)}
    executor = symbol.bind(mx.cpu(), arguments, gradients, "write", states)
    executor.forward_backward(mx.nd.ones((2, 2)))
    assert gradients["bn_beta"].asnumpy().tolist() == [2, 2]
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [1.5, 2]
    assert arguments["bn_gamma"].asnumpy().tolist() == [1, 1]  # fix_gamma


class _Net(mx.gluon.HybridBlock):
    """Selects rows of a layer, and passes them through another one."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.first = mx.gluon.nn.Dense(3, **options)
        self.second = mx.gluon.nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any, m: Any) -> Any:
        return self.second(F.contrib.boolean_mask(self.first(x), m))


@pytest.mark.parametrize("options", [{"in_units": 2}, {}])
def test_a_hybridized_block_computes_and_learns_as_without(options: dict[str, int]) -> None:
    nets = _Net(**options), _Net(**options)
    nets[1].hybridize()
    for net in nets:
        net.initialize(mx.init.One())
    for mask in ([1, 0, 1], [0, 0, 1], [1, 1, 1]):
        outputs, gradients = [], []
        for net in nets:
            with mx.autograd.record():
                output = net(mx.nd.array(DATA), mx.nd.array(mask))
                loss = (output**2).sum()
            loss.backward()
            outputs.append(output.asnumpy())
            gradients.append([one.grad().asnumpy() for one in net.collect_params().values()])
        assert outputs[1].shape == (sum(mask), 2)
        np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-6)
        for plain, compiled in zip(*gradients, strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=1e-6)


def test_an_exported_block_selects_rows(tmp_path: Path) -> None:
    net = _Net(in_units=2)
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.array(DATA)
    net(x, mx.nd.array([1, 0, 1]))
    net.export(str(tmp_path / "net"))
    files = [str(tmp_path / name) for name in ("net-symbol.json", "net-0000.params")]
    block = mx.gluon.SymbolBlock.imports(files[0], ["data0", "data1"], files[1])
    assert block(x, mx.nd.array([1, 0, 0])).asnumpy().tolist() == [[9, 9]]
