"""Layouts of convolutions in training; their gradients match the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.primitives import Reorder
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.memory import channels_last, layout_of

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

SHAPE = (2, 16, 10, 10)


def chain(kernel: tuple[int, int], stride: tuple[int, int]) -> mx.sym.Symbol:
    """Three convolutions, the middle one as given."""
    same = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 32}
    out = mx.sym.Convolution(mx.sym.Variable("data"), name="first", **same)
    pad = (kernel[0] // 2, kernel[1] // 2)
    out = mx.sym.Convolution(
        out, kernel=kernel, stride=stride, pad=pad, num_filter=48, no_bias=True, name="middle"
    )
    return mx.sym.Convolution(out, name="last", **same)


def trained(symbol: mx.sym.Symbol, options: CompileOptions | None = None) -> Any:
    """Return an executor after one step from fixed values."""
    random = np.random.RandomState(3)
    shapes, (out,), _ = symbol.infer_shape(data=SHAPE)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, options=options)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(random.randn(*out))])
    return executor


def reordered(executor: Any) -> set[str]:
    """Return the names of reordered values, except weights."""
    (plan,) = executor._plans.values()
    names = [step.node for step in plan.compiled.program.steps if isinstance(step.op, Reorder)]
    return {name for name in names if "weight" not in name}


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)], ids=str)
def test_the_backward_pass_keeps_the_layouts_of_the_forward_pass(
    kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    symbol = chain(kernel, stride)
    executor = trained(symbol)
    bound = {"data", "data_grad", "last_output", "last_output_head_grad"}
    assert reordered(executor) <= bound
    expected = trained(symbol, CompileOptions(table=None))
    for name, wanted in expected.grad_dict.items():
        scale = float(np.abs(wanted.asnumpy()).max())
        got = executor.grad_dict[name].asnumpy() / scale
        np.testing.assert_allclose(got, wanted.asnumpy() / scale, atol=2e-5, err_msg=name)


def is_channels_last_in_the_middle(executor: Any) -> bool:
    """Return whether the middle convolution reads channels last in the forward pass."""
    (plan,) = executor._plans.values()
    program = plan.compiled.program
    (step,) = (step for step in program.forward_steps if step.node == "middle")
    value = program.values[step.inputs[0]]
    return value.layout == layout_of(channels_last(value.shape))


@pytest.mark.parametrize("window", [(5, 1, 1), (3, 2, 1), (3, 1, 2)], ids=str)
@pytest.mark.parametrize("filters", [(20, 50), (16, 24), (33, 64)], ids=str)
def test_ragged_channels_are_trained_channels_last(
    filters: tuple[int, int], window: tuple[int, int, int]
) -> None:
    """Blocks of 16 channels would need padding; also with strides and dilation."""
    before, after = filters
    size, stride, dilate = window
    out = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(1, 1), num_filter=before, name="first"
    )
    out = mx.sym.Convolution(
        out,
        num_filter=after,
        kernel=(size, size),
        stride=(stride, stride),
        dilate=(dilate, dilate),
        pad=(1, 1),
        name="middle",
    )
    executor, expected = trained(out), trained(out, CompileOptions(table=None))
    assert is_channels_last_in_the_middle(executor)
    for name, wanted in [*expected.grad_dict.items(), ("output", expected.outputs[0])]:
        got = executor.outputs[0] if name == "output" else executor.grad_dict[name]
        scale = float(np.abs(wanted.asnumpy()).max())
        np.testing.assert_allclose(
            got.asnumpy() / scale, wanted.asnumpy() / scale, atol=2e-5, err_msg=name
        )


@pytest.mark.parametrize("activation", [None, "relu", "tanh"])
@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("height", [1, 3])
def test_windows_as_wide_as_the_data(height: int, no_bias: bool, activation: str | None) -> None:
    symbol = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(height, 6), num_filter=5, no_bias=no_bias, name="c"
    )
    if activation is not None:
        symbol = mx.sym.Activation(symbol, act_type=activation)
    random = np.random.RandomState(4)
    shapes, _, _ = symbol.infer_shape(data=(3, 1, 7, 6))
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    for trains in (False, True):
        found = []
        for options in (None, CompileOptions(table=None), CompileOptions(check_kernels=True)):
            gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
            executor = bind(
                symbol, mx.cpu(), arguments, gradients if trains else None, options=options
            )
            (out,) = executor.forward(is_train=trains)
            if trains:
                executor.backward([mx.nd.ones(out.shape)])
            found.append([out.asnumpy(), *(one.asnumpy() for one in gradients.values())])
            (plan,) = executor._plans.values()
            names = [s.kernel.name for s in plan.compiled.program.steps if s.kernel is not None]
            has_kernels = options is None or options.table is not None
            assert ("onednn:convolution_full_width" in names) == has_kernels
        for got, wanted in zip(found[0], found[1], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
