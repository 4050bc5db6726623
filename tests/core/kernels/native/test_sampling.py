"""Bilinear sampling kernels in C against the reference."""

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
Arrays = dict[str, Any]
Symbol = mx.sym.Symbol


def trained(symbol: Symbol, values: Arrays, options: CompileOptions | None, **requests: str) -> Any:
    """Return an executor after a training step."""
    arguments = {name: mx.nd.array(value) for name, value in values.items()}
    gradients = {name: mx.nd.ones(value.shape) for name, value in values.items()}
    wanted = {name: requests.get(name, "write") for name in values}
    executor = bind(symbol, mx.cpu(), arguments, gradients, grad_req=wanted, options=options)
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.array(np.random.RandomState(4).randn(*out.shape))])
    return executor


def kernels(executor: Any) -> set[str]:
    return {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }


def assert_equals_reference(symbol: Symbol, values: Arrays, name: str, **requests: str) -> None:
    found, wanted = (trained(symbol, values, one, **requests) for one in (None, REFERENCE))
    assert {f"native:{name}", f"native:{name}_backward"} <= kernels(found)
    pairs = {"output": (found.outputs[0], wanted.outputs[0])}
    pairs |= {key: (value, wanted.grad_dict[key]) for key, value in found.grad_dict.items()}
    for key, (got, expected) in pairs.items():
        scale = max(float(np.abs(expected.asnumpy()).max()), 1e-3)
        np.testing.assert_allclose(
            got.asnumpy() / scale, expected.asnumpy() / scale, atol=1e-5, err_msg=key
        )


def grid_values(channels: int, output: tuple[int, int]) -> Arrays:
    """Grids that reach outside the image, hit pixels exactly, or hold NaN."""
    random = np.random.RandomState(channels)
    grid = random.uniform(-1.4, 1.4, (2, 2, *output))
    grid[0, :, 0] = 1
    grid[1, 0, 0, 0], grid[1, 1, -1, -1] = np.nan, np.inf
    return {"data": random.randn(2, channels, 6, 5), "grid": grid}


@pytest.mark.parametrize("channels", [1, 16, 37])
@pytest.mark.parametrize("output", [(1, 1), (4, 4), (5, 7)], ids=str)
def test_bilinear_sampler_matches_the_reference(channels: int, output: tuple[int, int]) -> None:
    symbol = mx.sym.BilinearSampler(mx.sym.Variable("data"), mx.sym.Variable("grid"))
    assert_equals_reference(symbol, grid_values(channels, output), "bilinear_sampler")


@pytest.mark.parametrize(
    "requests", [{"data": "null"}, {"grid": "null"}, {"data": "add", "grid": "add"}], ids=str
)
def test_bilinear_sampler_with_other_gradient_requests(requests: dict[str, str]) -> None:
    symbol = mx.sym.BilinearSampler(mx.sym.Variable("data"), mx.sym.Variable("grid"))
    assert_equals_reference(symbol, grid_values(3, (4, 5)), "bilinear_sampler", **requests)


def test_spatial_transformer_matches_the_reference() -> None:
    symbol = mx.sym.SpatialTransformer(
        *(mx.sym.Variable(name) for name in ("data", "loc")),
        target_shape=(4, 7),
        transform_type="affine",
        sampler_type="bilinear",
    )
    random = np.random.RandomState(1)
    values = {"data": random.randn(3, 20, 6, 5), "loc": random.uniform(-1, 1, (3, 6))}
    assert_equals_reference(symbol, values, "bilinear_sampler")


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize(
    ("groups", "parts", "no_bias"), [(1, 1, False), (2, 1, True), (1, 2, True), (2, 4, False)]
)
def test_deformable_convolution_matches_the_reference(
    groups: int, parts: int, no_bias: bool, masked: bool
) -> None:
    """Strided and dilated windows, with offsets that also leave the image; two images."""
    random = np.random.RandomState(groups + 2 * parts)
    attrs = {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (2, 1), "num_filter": 6}
    values = {
        "data": random.randn(2, 40, 7, 6),
        "offset": random.randn(2, 12 * parts, 5, 6) * 2,
        "mask": random.rand(2, 6 * parts, 5, 6),
        "weight": random.randn(6, 40 // groups, 3, 2),
        "bias": random.randn(6),
    }
    absent = {name for name, is_absent in (("mask", not masked), ("bias", no_bias)) if is_absent}
    values = {name: value for name, value in values.items() if name not in absent}
    values["offset"][0, 0, 0, 0] = np.nan
    name = "ModulatedDeformableConvolution" if masked else "DeformableConvolution"
    symbol = getattr(mx.sym.contrib, name)(
        *(mx.sym.Variable(one) for one in values),
        no_bias=no_bias,
        num_group=groups,
        num_deformable_group=parts,
        **attrs,
    )
    assert_equals_reference(symbol, values, "deformable_convolution")
