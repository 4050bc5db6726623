"""The kernels of ``im2col`` and ``col2im`` in C against the reference."""

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

REFERENCE = CompileOptions(table=None)
WINDOWS: list[tuple[tuple[int, int], dict[str, Any]]] = [
    ((5, 7), {"kernel": (1, 1)}),
    ((9, 40), {"kernel": (3, 3), "pad": (1, 1)}),
    ((9, 21), {"kernel": (3, 2), "stride": (2, 3), "pad": (2, 1)}),
    ((12, 11), {"kernel": (2, 3), "dilate": (3, 2), "pad": (0, 4)}),
    ((4, 3), {"kernel": (2, 2), "stride": (5, 5), "pad": (3, 3)}),
    ((1, 6), {"kernel": (3, 1), "pad": (4, 0)}),
]


def kernels(executor: Any) -> set[str]:
    return {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize("name", ["im2col", "col2im"])
@pytest.mark.parametrize(("size", "window"), WINDOWS, ids=str)
def test_both_passes_match_the_reference(
    size: tuple[int, int], window: dict[str, Any], name: str, grad_req: str
) -> None:
    image = (2, 3, *size)
    symbol, shape = mx.sym.im2col(mx.sym.Variable("data"), **window), image
    if name == "col2im":
        (shape,) = symbol.infer_shape(data=image)[1]
        symbol = mx.sym.col2im(mx.sym.Variable("data"), output_size=size, **window)
    data = np.random.RandomState(1).randn(*shape).astype("float32")
    found = []
    for options in (None, REFERENCE):
        gradient = mx.nd.ones(shape)
        executor = bind(
            symbol,
            mx.cpu(),
            {"data": mx.nd.array(data)},
            {"data": gradient},
            grad_req=grad_req,
            options=options,
        )
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(np.random.RandomState(2).randn(*out.shape))])
        own = {
            one for one in kernels(executor) if one.startswith(("native:im2col", "native:col2im"))
        }
        assert own == (set() if options else {"native:col2im", "native:im2col"})
        found.append((out.asnumpy(), gradient.asnumpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
