"""Batcher convolutions: kernels and layouts for each kind, matching the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.memory import channels_last, layout_of

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

REFERENCE = CompileOptions(table=None)


def ran(symbol: mx.sym.Symbol, data: tuple[int, ...], options: CompileOptions | None) -> Any:
    """Return an executor after one training step from fixed values."""
    random = np.random.RandomState(3)
    shapes, (out,), _ = symbol.infer_shape(data=data)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, options=options)
    executor.forward(is_train=False)
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(random.randn(*out))])
    return executor


def steps_of(executor: Any, *, is_train: bool) -> Any:
    """Return the compiled program for training or inference."""
    (program,) = (
        plan.compiled.program
        for plan in executor._plans.values()
        if plan.compiled.program.is_train == is_train
    )
    return program


def assert_equal(executor: Any, expected: Any) -> None:
    named = [*expected.grad_dict.items(), ("output", expected.outputs[0])]
    for name, wanted in named:
        got = executor.outputs[0] if name == "output" else executor.grad_dict[name]
        scale = float(np.abs(wanted.asnumpy()).max())
        np.testing.assert_allclose(
            got.asnumpy() / scale, wanted.asnumpy() / scale, atol=2e-5, err_msg=name
        )


@pytest.mark.parametrize(
    "window",
    [{"pad": (1,)}, {"stride": (2,)}, {"dilate": (3,), "pad": (3,)}],
    ids=["padded", "strided", "dilated"],
)
@pytest.mark.parametrize("channels", [16, 20, 33])
def test_depthwise_convolutions_of_sequences(channels: int, window: dict[str, Any]) -> None:
    """They run as images of height 1: for sequences, oneDNN would multiply group by group."""
    depthwise = {"kernel": (3,), "num_group": channels, "num_filter": channels, **window}
    out = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(1,), num_filter=channels, name="before"
    )
    out = mx.sym.Convolution(out, name="depthwise", **depthwise)
    out = mx.sym.Activation(out, act_type="relu")
    out = mx.sym.Convolution(out, kernel=(1,), num_filter=8, no_bias=True, name="after")
    executor = ran(out, (2, 5, 24), None)
    names = [
        primitive.implementation
        for step in steps_of(executor, is_train=True).steps
        if step.node == "depthwise"
        for primitive, _ in step.kernel._launches
    ]
    assert len(names) == 3
    assert not any("gemm" in name for name in names)
    assert_equal(executor, ran(out, (2, 5, 24), REFERENCE))
    assert_equal(ran(out, (2, 5, 24), CompileOptions(check_kernels=True)), executor)


def test_a_depthwise_convolution_of_sequences_adds_its_residual() -> None:
    data = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1,), num_filter=20, name="before")
    out = mx.sym.Convolution(
        data, kernel=(3,), pad=(1,), num_group=20, num_filter=20, name="depthwise"
    )
    out = mx.sym.Activation(out + data, act_type="relu")
    executor, expected = ran(out, (2, 5, 24), None), ran(out, (2, 5, 24), REFERENCE)
    names = {s.op.names[0] for s in steps_of(executor, is_train=False).steps}
    assert "elemwise_add" not in names, "the residual is added by the convolution"
    for one in (executor, expected):
        one.forward(is_train=False)
    np.testing.assert_allclose(
        executor.outputs[0].asnumpy(), expected.outputs[0].asnumpy(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [(36, 120), (36, 144), (60, 60)], ids=str)
def test_ragged_groups_run_channels_last(channels: tuple[int, int], kernel: int) -> None:
    before, after = channels
    out = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(1, 1), num_filter=before, name="before"
    )
    out = mx.sym.Convolution(
        out,
        kernel=(kernel, kernel),
        pad=(kernel // 2, kernel // 2),
        num_group=3,
        num_filter=after,
        name="grouped",
    )
    out = mx.sym.Convolution(out, kernel=(1, 1), num_filter=16, name="after")
    executor = ran(out, (2, 8, 9, 9), None)
    for is_train in (False, True):
        program = steps_of(executor, is_train=is_train)
        (step,) = (step for step in program.forward_steps if step.node == "grouped")
        value = program.values[step.inputs[0]]
        assert value.layout == layout_of(channels_last(value.shape))
    assert_equal(executor, ran(out, (2, 8, 9, 9), REFERENCE))
