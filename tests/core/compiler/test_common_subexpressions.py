"""Repeated nodes are compiled once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx

SWITCH = "MXNET_ELIMINATE_COMMON_EXPR"


_A, _B = mx.sym.Variable("a"), mx.sym.Variable("b")


_W, _C = mx.sym.Variable("w"), mx.sym.Variable("c")


def _dense() -> mx.sym.Symbol:
    return mx.sym.FullyConnected(_A, _W, _C, num_hidden=3)


# Number of internal outputs in MXNet 1.9.1, before and after elimination of repeats.
INTERNALS: dict[str, tuple[Callable[[], mx.sym.Symbol], int, int]] = {
    "numbers": (lambda: (1 + _A) + (_A + 1), 4, 3),
    "other numbers": (lambda: (_A + 1) + (_A + 2), 4, 4),
    "other order": (lambda: (_A + _B) + (_B + _A), 5, 5),
    "chains": (lambda: ((_A + _B) + 2) + ((_A + _B) + 2), 7, 5),
    "heads": (lambda: mx.sym.Group([_A * _B, _A * _B]), 4, 4),
    "below heads": (lambda: mx.sym.Group([_A * _B + _B, _B + _A * _B]), 6, 5),
    "a head first": (lambda: mx.sym.Group([mx.sym.sin(_A), mx.sym.cos(mx.sym.sin(_A))]), 4, 3),
    "a head last": (lambda: mx.sym.Group([mx.sym.cos(mx.sym.sin(_A)), mx.sym.sin(_A)]), 4, 3),
    "with parameters": (lambda: _dense() + _dense(), 6, 5),
    "random": (lambda: mx.sym.Dropout(_A, p=0.5) + mx.sym.Dropout(_A, p=0.5), 4, 4),
    "no inputs": (lambda: _A + mx.sym.zeros((2, 3)) + mx.sym.zeros((2, 3)), 5, 5),
    "losses": (lambda: mx.sym.MakeLoss(_A) + mx.sym.MakeLoss(_A), 4, 4),
}


def _heads_among_repeats() -> mx.sym.Symbol:
    first, second = mx.sym.sin(_A, name="first"), mx.sym.sin(_A, name="second")
    tangent = mx.sym.tan(mx.sym.cos(first, name="inner"))
    return mx.sym.Group([tangent, first, second, mx.sym.cos(second, name="outer")])


INTERNALS["heads among repeats"] = (_heads_among_repeats, 6, 5)


def _bind(symbol: mx.sym.Symbol) -> mx.executor.Executor:
    shapes = {name: (2, 3) for name in ("a", "b") if name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), **shapes)
    random = np.random.default_rng(3)
    for array in executor.arg_arrays:
        array[:] = random.uniform(-1, 1, array.shape)
    return executor


def _inside(executor: mx.executor.Executor) -> int:
    return len(executor.get_optimized_symbol().get_internals().list_outputs())


@pytest.mark.parametrize("case", INTERNALS)
def test_repeated_nodes_are_eliminated(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, without, left = INTERNALS[case]
    symbol = make()
    found: list[Any] = []
    for value in ("0", "1"):
        monkeypatch.setenv(SWITCH, value)
        executor = _bind(symbol)
        mx.random.seed(2)
        outputs = [one.asnumpy() for one in executor.forward(is_train=True)]
        executor.backward([mx.nd.full(one.shape, 0.5) for one in executor.outputs])
        gradients = [one.asnumpy() for one in executor.grad_arrays]
        assert executor.get_optimized_symbol().list_arguments() == symbol.list_arguments()
        assert list(executor.output_dict) == symbol.list_outputs()
        found.append((_inside(executor), outputs, gradients))
    assert (found[0][0], found[1][0]) == (without, left)
    for before, after in zip(found[0][1:], found[1][1:], strict=True):
        for expected, got in zip(before, after, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_symbol_does_not_change_and_shapes_may() -> None:
    symbol = mx.sym.sqrt(_A * _A) + mx.sym.sqrt(_A * _A)
    text = symbol.tojson()
    executor = _bind(symbol)
    assert _inside(executor) == 4
    assert symbol.tojson() == text
    other = executor.reshape(a=(1, 3))
    assert _inside(other) == 4
    np.testing.assert_allclose(other.forward(a=mx.nd.full((1, 3), -2))[0].asnumpy(), 4)
