"""The concatenation kernel in C for images stored channels last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


def executor_of(channels: tuple[int, ...], options: CompileOptions | None) -> Any:
    """Return an executor that concatenates convolution results without writing them in place."""
    data = mx.sym.Variable("data")
    parts = [
        mx.sym.Convolution(data, name=f"part{index}", num_filter=count, kernel=(3, 3))
        for index, count in enumerate(channels)
    ]
    whole = mx.sym.concat(*parts, dim=1, name="whole")
    symbol = mx.sym.Convolution(whole, name="last", num_filter=16, kernel=(3, 3), stride=(2, 2))
    random = np.random.RandomState(3)
    shapes, _, _ = symbol.infer_shape(data=(2, 24, 9, 11))
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    return bind(symbol, mx.cpu(), arguments, gradients, options=options)


@pytest.mark.parametrize("is_train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("channels", [(20, 7), (18, 5, 30), (40, 40), (17, 600, 30)], ids=str)
def test_it_equals_the_reference(channels: tuple[int, ...], is_train: bool) -> None:
    executor, reference = (
        executor_of(channels, options) for options in (None, CompileOptions(table=None))
    )
    (got,), (wanted,) = (one.forward(is_train=is_train) for one in (executor, reference))
    largest = float(np.abs(wanted.asnumpy()).max())
    np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=0, atol=1e-5 * largest)
    names = {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }
    if not is_train:
        assert "native:concat" in names
