"""Special-function kernels in C against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

ENDS = [0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 0.5, 1e-30, 1.5]
POINTS = np.float32([*ENDS, *np.linspace(-6.3, 30, 4096 * 2 + 5)])
SHARES = np.float32([*ENDS, 1 - 2**-24, 1e-9, *np.linspace(-1, 1, 4096 * 2 + 5)])


def trained(op: str, points: Array, options: CompileOptions | None) -> tuple[Array, Array]:
    """Return values and derivatives, having checked whether the kernels computed them."""
    symbol, x = getattr(mx.sym, op)(mx.sym.var("x")), mx.nd.array(points)
    grad = mx.nd.zeros(points.shape)
    executor = bind(symbol, mx.cpu(), {"x": x}, {"x": grad}, options=options)
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.full(points.shape, 2)])
    names = {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }
    assert names == (set() if options else {"native:special", "native:special_backward"})
    return out.asnumpy(), grad.asnumpy()


@pytest.mark.parametrize(
    ("op", "points"), [("gamma", POINTS), ("gammaln", POINTS), ("erfinv", SHARES)]
)
def test_values_and_derivatives_match_the_reference(op: str, points: Array) -> None:
    found, expected = (
        trained(op, points, options) for options in (None, CompileOptions(table=None))
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=2e-7)
    np.testing.assert_allclose(found[1], expected[1], rtol=4e-6, atol=2e-6)
    np.testing.assert_array_equal(np.signbit(found[0][:2]), np.signbit(expected[0][:2]))
