"""Hybrid blocks with nested inputs and outputs, and with loops: hybridizing changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon.nesting import flatten, regroup
from core.ndarray import NDArray


class _Function(mx.gluon.HybridBlock):
    """A block made of one function of the namespace and the inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, *args: Any) -> Any:
        return self.function(F, *args)


def _random(*shape: int) -> NDArray:
    return mx.nd.array(np.random.RandomState(sum(shape)).normal(size=shape))


def _plain(nested: Any) -> Any:
    return nested.asnumpy() if isinstance(nested, NDArray) else [_plain(one) for one in nested]


def _assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _assert_same(one, other)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=5e-6)


def _check(function: Callable[..., Any], *args: Any) -> None:
    """Compare hybridized with imperative, recorded and not; outputs keep their nesting."""
    expected = _plain(_Function(function)(*args))
    block = _Function(function)
    block.hybridize()
    _assert_same(_plain(block(*args)), expected)
    with mx.autograd.record():
        found = block(*args)
    _assert_same(_plain(found), expected)


def test_nested_lists_as_inputs_and_outputs() -> None:
    x, y = _random(2, 3), _random(3, 2)
    _check(lambda F, a, b: [a + 1, [b * 2, [a * 3]]], x, y)
    _check(lambda F, a: [a[0] * 2, a[1][0] - 1], [x, [y]])
    _check(lambda F, a: F.split(a, num_outputs=3, axis=1), x)
    block = _Function(lambda F, a: a[0] + a[1])
    block.hybridize()
    _assert_same(_plain(block([x, x])), 2 * _plain(x))
    with pytest.raises(UsageError, match=r"input of HybridBlock must be .* got 3 of type int"):
        block([x, 3])


def test_flatten_and_regroup_are_inverse() -> None:
    a, b = mx.sym.var("a"), mx.sym.split(mx.sym.var("b"), num_outputs=2)
    flat, form = flatten("input", [a, (None, b), []])
    assert form == (0, (-1, 2), ())
    assert flat == [a, None, b]
    assert regroup([1, None, 2, 3], form) == [1, [None, [2, 3]], []]


def test_an_unused_input_causes_a_warning() -> None:
    block = _Function(lambda F, a, b: b * 2)
    block.hybridize()
    with pytest.warns(UserWarning, match="The 0-th input to HybridBlock is not used"):
        found = block(_random(2), _random(3))
    np.testing.assert_allclose(found.asnumpy(), 2 * _random(3).asnumpy(), rtol=1e-6)


_FOREACH_STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, s: (x, s),
    lambda x, s: ([x], s),
    lambda x, s: ([[x, s[0] if isinstance(s, list) else s]], s),
    lambda x, s: ([x, x + 1], s),
]


@pytest.mark.parametrize("step", _FOREACH_STEPS)
def test_foreach_keeps_the_nesting_of_its_body(step: Callable[[Any, Any], Any]) -> None:
    data, state = _random(4, 2), _random(2)
    for states in (state, [state], [state, [state + 1]]):
        _check(lambda F, x, s: F.contrib.foreach(step, x, s), data, states)


def test_while_loop_keeps_the_nesting_of_its_body() -> None:
    def run(F: Any, x: Any, func: Any, *rest: Any) -> Any:
        return F.contrib.while_loop(
            lambda *y: F.sum(y[0]) < 1e6, func, [x, *rest] if rest else x, max_iterations=5
        )

    x = _random(2)
    _check(lambda F, a: run(F, a, lambda s: (s, s)), x)
    _check(lambda F, a: run(F, a, lambda s: ([s], s)), x)
    _check(lambda F, a: run(F, a, lambda s, t: ([s, t * 2], [s + 1, t]), a * 3), x)


def test_cond_keeps_the_nesting_of_its_branches() -> None:
    for function in (lambda x: x, lambda x: [x], lambda x: [x, x * 2]):
        _check(
            lambda F, a, f=function: F.contrib.cond(F.sum(a) > 0, lambda: f(a), lambda: f(-a)),
            _random(2),
        )


def test_nested_loops_give_the_same_hybridized() -> None:
    # Inner variables share names with each other and with outer values.
    def run(F: Any, x: Any, state: Any) -> Any:
        out, states = F.contrib.foreach(lambda d, s: (d + 1, s), x, [state])
        first = F.squeeze(F.slice_axis(out, axis=0, begin=0, end=1), axis=0)
        return F.contrib.foreach(lambda d, s: (d, [s[0] + states[0] + first]), out, states)

    _check(run, _random(3, 2), _random(2))

    def repeat(F: Any, x: Any) -> Any:
        _, states = F.contrib.while_loop(
            lambda i: F.sum(i) < 5, lambda i: (None, i + 1), x, max_iterations=10
        )
        return F.contrib.while_loop(
            lambda i: F.sum(i) < 9 + 0 * F.sum(states), lambda i: ([], i + x * x), states, 12
        )[1]

    _check(repeat, mx.nd.array([0.5]))


def test_loop_names_are_numbered() -> None:
    saved = mx.attribute.AttrScope._subgraph_names
    mx.attribute.AttrScope._subgraph_names = defaultdict(int)
    try:
        for _ in range(2):
            block = _Function(
                lambda F, a: F.contrib.cond(a > 0, lambda: a * 2, lambda: a * 3, name="mine")
            )
            block.hybridize()
            block(mx.nd.ones((1,)))
        assert dict(mx.attribute.AttrScope._subgraph_names) == {
            "mine_pred": 2,
            "mine_then": 2,
            "mine_else": 2,
        }
    finally:
        mx.attribute.AttrScope._subgraph_names = saved


class _Cell(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.from_input = mx.gluon.nn.Dense(6)
            self.from_state = mx.gluon.nn.Dense(6)

    def hybrid_forward(self, F: Any, x: Any, states: Any) -> Any:
        out = F.tanh(self.from_input(x) + self.from_state(states[0]))
        return out, [out]


class _Layer(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = _Cell()

    def hybrid_forward(self, F: Any, x: Any, states: Any) -> Any:
        return F.contrib.foreach(self.cell, x, states)[0]


def test_a_recurrent_layer_trains_the_same_hybridized(tmp_path: Any) -> None:
    x, states = _random(4, 3, 5), [_random(3, 6)]
    layer = _Layer()
    layer.initialize(mx.init.Xavier())
    results = []
    for active in (False, True):
        layer.hybridize(active)
        with mx.autograd.record():
            out = layer(x, states)
        out.backward()
        gradients = [one.grad().asnumpy() for one in layer.collect_params().values()]
        results.append([out.asnumpy(), *gradients])
    _assert_same(results[1], results[0])

    layer.export(str(tmp_path / "layer"))
    again = mx.gluon.SymbolBlock.imports(
        str(tmp_path / "layer-symbol.json"), ["data0", "data1"], str(tmp_path / "layer-0000.params")
    )
    _assert_same(_plain(again(x, *states)), results[0][0])
