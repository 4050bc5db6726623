"""Softmax of few elements by the kernel in C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.executor import bind
from core.kernels.native import is_available
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

KERNEL = "native:softmax"


def computed(symbol: Any, data: Array, *, is_train: bool = False) -> tuple[Array, set[str]]:
    """Return the output, and the kernels that ran."""
    executor = bind(
        symbol, mx.cpu(), {name: mx.nd.array(data) for name in symbol.list_arguments()[:1]}
    )
    (out,) = executor.forward(is_train=is_train)
    steps = executor._last.compiled.program.steps  # type: ignore[union-attr]
    return out.asnumpy(), {step.kernel.name for step in steps if step.kernel is not None}


def exact(data: Array) -> Array:
    with np.errstate(all="ignore"):
        powers = np.exp(data.astype(np.float64) - data.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(1, 1), (1, 10), (3, 15), (4, 16), (2, 3, 9), (7,)])
def test_rows_match_softmax_in_float64(shape: tuple[int, ...]) -> None:
    data = (np.random.RandomState(1).randn(*shape) * 5).astype(np.float32)
    found, kernels = computed(mx.sym.softmax(mx.sym.var("data")), data)
    assert kernels == {KERNEL}
    np.testing.assert_allclose(found, exact(data), rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize(
    "row",
    [
        [1e30, 1e30, 0, -1e30],
        [-np.inf, 0, 1, -200],
        [np.inf, 0, 1, 2],
        [np.nan, 0, 1, 2],
        [0, 1, 2, np.nan],
        [-np.inf] * 4,
    ],
)
def test_large_infinite_and_nan_values(row: list[float]) -> None:
    data = np.float32([row, [0, 1, 2, 3]])
    found, _ = computed(mx.sym.softmax(mx.sym.var("data")), data)
    np.testing.assert_allclose(found, exact(data), rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("preserve_shape", "matrix"), [(False, (2, 12)), (True, (2, 3, 4))], ids=["example", "last"]
)
def test_the_loss_layer_matches_softmax_in_float64(
    preserve_shape: bool, matrix: tuple[int, ...]
) -> None:
    module = mx.mod.Module(
        mx.sym.SoftmaxOutput(mx.sym.var("data"), name="softmax", preserve_shape=preserve_shape)
    )
    module.bind([("data", (2, 3, 4))], for_training=False)
    module.init_params()
    data = np.random.RandomState(2).randn(2, 3, 4).astype(np.float32)
    module.forward(mx.io.DataBatch([mx.nd.array(data)]))
    expected = exact(data.reshape(matrix)).reshape(data.shape)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=2e-6)


@pytest.mark.parametrize(
    ("attributes", "shape", "is_train"),
    [
        ({}, (1, 65), False),
        ({}, (3, 10), True),
        ({"axis": 0}, (32, 2), False),
        ({"temperature": 2.0}, (3, 10), False),
    ],
    ids=["many", "training", "axis", "temperature"],
)
def test_others_are_left_to_onednn(
    attributes: dict[str, Any], shape: tuple[int, ...], is_train: bool
) -> None:
    symbol = mx.sym.softmax(mx.sym.var("data"), **attributes)
    _, kernels = computed(symbol, np.ones(shape, np.float32), is_train=is_train)
    assert KERNEL not in kernels
    assert "onednn:softmax" in kernels
