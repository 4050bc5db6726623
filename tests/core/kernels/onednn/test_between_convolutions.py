"""Layers between convolutions run on kernels in oneDNN's layouts, and match the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.primitives import Reorder
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

Symbol = mx.sym.Symbol
SHAPE = (2, 3, 10, 12)
REFERENCE = CompileOptions(table=None)
CHECKED = CompileOptions(check_kernels=True)


def convolution(data: Symbol, name: str, channels: int, **attributes: Any) -> Symbol:
    given = {"kernel": (3, 3), "pad": (1, 1), "num_filter": channels, "no_bias": True}
    return mx.sym.Convolution(data, name=name, **{**given, **attributes})


def norm(data: Symbol) -> Symbol:
    return mx.sym.BatchNorm(data, fix_gamma=False, name="norm")


def relu(data: Symbol) -> Symbol:
    return mx.sym.Activation(data, act_type="relu", name="relu")


def pooling(data: Symbol, **attributes: Any) -> Symbol:
    given = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "name": "pool"}
    return mx.sym.Pooling(data, **{**given, **attributes})


def depthwise(data: Symbol, channels: int, side: int, stride: int = 1) -> Symbol:
    window = {"kernel": (side, side), "pad": (side // 2, side // 2), "stride": (stride, stride)}
    return convolution(data, "groups", channels, num_group=channels, **window)


def leaky(data: Symbol, **attributes: Any) -> Symbol:
    return mx.sym.LeakyReLU(data, name="leaky", **attributes)


def deconvolution(data: Symbol, channels: int, **attributes: Any) -> Symbol:
    given = {"kernel": (2, 2), "stride": (2, 2), "num_filter": channels, "name": "deconv"}
    return mx.sym.Deconvolution(data, **{**given, **attributes})


def scaled(data: Symbol, channels: Symbol) -> Symbol:
    return mx.sym.broadcast_mul(data, mx.sym.Reshape(channels, shape=(0, 0, 1, 1)))


Case = tuple[int, Callable[[Symbol], Symbol]]
CASES: dict[str, Case] = {
    **{
        f"{name}-{channels}": (channels, layer)
        for channels in (16, 20, 24, 58, 72)
        for name, layer in {
            "norm": norm,
            "norm_relu": lambda x: relu(norm(x)),
            "max_pooling": lambda x: pooling(x, pool_type="max"),
            "average_pooling": lambda x: pooling(x, pool_type="avg"),
            "sigmoid": lambda x: mx.sym.sigmoid(x, name="sigmoid"),
            "prelu": lambda x: leaky(x, act_type="prelu"),
        }.items()
    },
    **{
        f"{act_type}-20": (20, lambda x, act_type=act_type: leaky(x, act_type=act_type, slope=0.3))
        for act_type in ("leaky", "elu", "gelu")
    },
    "softrelu-20": (20, lambda x: mx.sym.Activation(x, act_type="softrelu")),
    "prelu_shared-20": (
        20,
        lambda x: mx.sym.LeakyReLU(x, mx.sym.Variable("gamma", shape=(1,)), act_type="prelu"),
    ),
    "depthwise-72": (72, lambda x: depthwise(x, 72, 3)),
    "depthwise_strided-20": (20, lambda x: depthwise(x, 20, 3, 2)),
    "depthwise_wide-72": (72, lambda x: depthwise(x, 72, 5)),
    "depthwise_wide-96": (96, lambda x: depthwise(x, 96, 5, 2)),
    "groups-128": (128, lambda x: convolution(x, "groups", 128, num_group=32)),
    "groups_biased-36": (36, lambda x: convolution(x, "groups", 24, num_group=3, no_bias=False)),
}


CASES |= {
    f"deconvolution-{channels}-{bias}": (
        channels,
        lambda x, c=channels, b=bias: deconvolution(x, c, no_bias=b == "unbiased"),
    )
    for channels in (16, 20)
    for bias in ("biased", "unbiased")
}


CASES |= {
    f"{name}-{channels}": (channels, layer)
    for channels in (16, 20)
    for name, layer in {
        "excitation": lambda x: mx.sym.broadcast_mul(x, pooling(x, global_pool=True)),
        "excitation_from_the_left": lambda x: mx.sym.broadcast_mul(pooling(x, global_pool=True), x),
        "square": lambda x: x * x,
        "swish": lambda x: x * mx.sym.sigmoid(x, name="sigmoid"),
        "scale": lambda x, c=channels: mx.sym.broadcast_mul(
            x, mx.sym.Variable("scale", shape=(1, c, 1, 1))
        ),
    }.items()
}


CASES |= {
    f"{name}-{channels}": (channels, layer)
    for channels in (33, 48)
    for name, layer in {
        "softmax_of_channels": lambda x: mx.sym.softmax(x, axis=1),
        "log_softmax_of_channels": lambda x: mx.sym.log_softmax(x, axis=1),
        "softmax_activation": lambda x: mx.sym.SoftmaxActivation(x, mode="channel"),
    }.items()
}
CASES |= {
    f"{name}-{channels}": (channels, layer)
    for channels in (16, 20)
    for name, layer in {
        "mean_of_places": lambda x: scaled(x, mx.sym.mean(x, axis=(2, 3), keepdims=True)),
        "sum_of_places": lambda x: scaled(x, mx.sym.sum(x, axis=(-1, -2), keepdims=True)),
        "flat_mean_of_places": lambda x: scaled(x, mx.sym.mean(x, axis=(2, 3))),
        "times_mean_of_channels": lambda x: mx.sym.broadcast_mul(
            x, mx.sym.mean(x, axis=1, keepdims=True)
        ),
        "plus_repeated_mean": lambda x: (
            x + mx.sym.broadcast_like(mx.sym.mean(x, axis=(2, 3), keepdims=True), x)
        ),
        "by_number_of_channel": lambda x, c=channels: mx.sym.broadcast_div(
            x, mx.sym.Variable("scale", shape=(1, c, 1, 1))
        ),
        "less_mean_of_channels": lambda x: mx.sym.broadcast_sub(
            x, mx.sym.mean(x, axis=1, keepdims=True)
        ),
        "biased": lambda x, c=channels: mx.sym.broadcast_add(
            x, mx.sym.Variable("bias", shape=(1, c, 1, 1))
        ),
        "less_a_number_each": lambda x, c=channels: mx.sym.broadcast_sub(
            x, mx.sym.Variable("bias", shape=(1, c, 1, 1))
        ),
        "shifted_by_its_mean": lambda x: mx.sym.broadcast_add(
            x, mx.sym.mean(x, axis=(2, 3), keepdims=True)
        ),
        "numbers": lambda x: 3 - (2 * x + 1 - 4) / 5,
        "unit_samples": lambda x: mx.sym.L2Normalization(x, eps=0.1),
        "unit_channels": lambda x: mx.sym.L2Normalization(x, mode="channel", eps=0.1),
        "unit_places": lambda x: mx.sym.L2Normalization(x, mode="spatial", eps=0.1),
        "instance_norm": lambda x: mx.sym.InstanceNorm(x, name="norm"),
        "group_norm": lambda x: mx.sym.GroupNorm(x, num_groups=4, name="norm"),
        "flat_sum_of_places": lambda x: scaled(x, mx.sym.sum(x, axis=(0, 1), exclude=True)),
    }.items()
}


ELEMENTWISE: dict[str, Case] = {
    f"{name}-{channels}": (channels, layer)
    for channels in (16, 20)
    for name, layer in {
        "clip": lambda x: mx.sym.clip(x, -0.5, 0.7),
        "clip_above_zero": lambda x: mx.sym.clip(x, 0.1, 0.7),
        "relu": mx.sym.relu,
        "maximum": lambda x: mx.sym.maximum(mx.sym.minimum(x, 0.8), -0.1),
        "hard_swish": lambda x: x * mx.sym.clip(x + 3, 0, 6) / 6,
        "hard_sigmoid": lambda x: mx.sym.hard_sigmoid(x, alpha=0.3),
        "softsign": lambda x: mx.sym.Activation(x, act_type="softsign"),
        "selu": lambda x: leaky(x, act_type="selu"),
        "sum": lambda x: mx.sym.add_n(x, 2 * x, mx.sym.exp(x)),
        "quotient": lambda x: x / (mx.sym.abs(x) + 2),
    }.items()
}
CASES |= ELEMENTWISE


def shuffle(data: Symbol, groups: int, swap: Callable[[Symbol], Symbol]) -> Symbol:
    parted = mx.sym.Reshape(data, shape=(0, -4, groups, -1, -2))
    return mx.sym.Reshape(swap(parted), shape=(0, -3, -2))


def maxout(data: Symbol, **attributes: Any) -> Symbol:
    return mx.sym.maximum(*mx.sym.SliceChannel(data, num_outputs=2, name="split", **attributes))


CASES |= {
    f"{name}-{channels}": (channels, layer)
    for channels in (20, 32, 64)
    for name, layer in {
        "concat": lambda x: mx.sym.Concat(x, relu(x), convolution(x, "grown", 12), dim=1),
        "concat_rows": lambda x: mx.sym.Concat(x, relu(x), dim=2),
        "cut": lambda x, c=channels: mx.sym.slice_axis(relu(x), axis=1, begin=c // 2, end=None),
        "slice": lambda x: mx.sym.slice(relu(x), begin=(None, 1, 2, 3), end=(None, -1, None, 7)),
        "slice_like": lambda x: mx.sym.slice_like(x, pooling(x, pool_type="max"), axes=(2, 3)),
        "shuffle": lambda x: shuffle(
            relu(x), 4, lambda y: mx.sym.transpose(y, axes=(0, 2, 1, 3, 4))
        ),
        "shuffle_by_swap": lambda x, c=channels: shuffle(
            x, c // 2, lambda y: mx.sym.SwapAxis(y, dim1=1, dim2=2)
        ),
        "upsampling": lambda x: mx.sym.UpSampling(x, scale=2, sample_type="nearest"),
        "upsampling_to_three": lambda x: mx.sym.UpSampling(relu(x), scale=3, sample_type="nearest"),
        "resized": lambda x: mx.sym.contrib.BilinearResize2D(x, height=7, width=25),
        "means": lambda x: mx.sym.contrib.AdaptiveAvgPooling2D(x, output_size=(5, 4)),
        "transpose": lambda x: mx.sym.transpose(relu(x), axes=(0, 3, 1, 2)),
        "crop": lambda x: mx.sym.Crop(relu(x), offset=(2, 1), h_w=(5, 7), num_args=1),
    }.items()
}
ELEMENTWISE |= {f"maxout-{channels}": (channels, maxout) for channels in (20, 32)} | {
    "maxout_of_rows-20": (20, lambda x: maxout(x, axis=2)),
    "maxout_of_split_v2-32": (32, lambda x: mx.sym.maximum(*mx.sym.split_v2(x, 2, axis=1))),
}
CASES |= ELEMENTWISE


def network(case: str) -> Symbol:
    channels, layer = CASES[case]
    inner = layer(convolution(mx.sym.Variable("data"), "first", channels))
    return convolution(inner, "last", 16)


def executor_of(symbol: Symbol, options: CompileOptions | None, *, trains: bool) -> Any:
    random = np.random.RandomState(5)
    shapes, _, states = symbol.infer_shape(data=SHAPE)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1.5, shape))
        for name, shape in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    return bind(
        symbol,
        mx.cpu(),
        arguments,
        gradients if trains else None,
        aux_states=auxiliary,
        options=options,
    )


def results(executor: Any, *, trains: bool) -> dict[str, np.ndarray]:
    random = np.random.RandomState(6)
    for _ in range(2):
        (out,) = executor.forward(is_train=trains)
        if trains:
            executor.backward([mx.nd.array(random.randn(*out.shape))])
    found = {"output": out.asnumpy()}
    if trains:
        found |= {name: one.asnumpy() for name, one in executor.grad_dict.items()}
    return found | {name: one.asnumpy() for name, one in executor.aux_dict.items()}


def reordered(executor: Any) -> set[str]:
    """Return the names of reordered values, except weights."""
    (plan,) = executor._plans.values()
    names = [step.node for step in plan.compiled.program.steps if isinstance(step.op, Reorder)]
    return {name for name in names if "weight" not in name}


def on_references(executor: Any) -> list[str]:
    (plan,) = executor._plans.values()
    steps = plan.compiled.program.steps
    return [str(s) for s in steps if s.kernel is None and not isinstance(s.op, Reorder)]


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_run_it_and_match_the_reference(case: str, trains: bool) -> None:
    symbol = network(case)
    expected = results(executor_of(symbol, REFERENCE, trains=trains), trains=trains)
    executor = executor_of(symbol, None, trains=trains)
    got = results(executor, trains=trains)
    if case not in ELEMENTWISE:
        assert on_references(executor) == []
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max()), 1e-6)
        np.testing.assert_allclose(got[name] / scale, wanted / scale, atol=5e-5, err_msg=name)
    results(executor_of(symbol, CHECKED, trains=trains), trains=trains)


@pytest.mark.parametrize("case", [name for name in ELEMENTWISE if name.endswith("16")])
def test_elementwise_references_keep_the_layout(case: str) -> None:
    executor = executor_of(network(case), None, trains=True)
    results(executor, trains=True)
    bound = {"data", "data_grad", "last_output", "last_output_head_grad"}
    assert reordered(executor) <= bound


@pytest.mark.parametrize("case", ["mean_of_places-16", "flat_sum_of_places-16"])
def test_summing_over_positions_keeps_the_layout(case: str) -> None:
    executor = executor_of(network(case), None, trains=True)
    images = {"data", "first_output", "first_output_grad", "last_output", "last_output_head_grad"}
    assert reordered(executor) & images <= {"data", "last_output", "last_output_head_grad"}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_over_positions_keep_the_layout(name: str, keepdims: bool) -> None:
    layers = convolution(convolution(mx.sym.Variable("data"), "first", 32), "second", 64)
    symbol = getattr(mx.sym, name)(layers, axis=(2, 3), keepdims=keepdims, name="extreme")
    executor = executor_of(symbol, None, trains=False)
    executor.arg_dict["second_weight"][0] = np.nan
    (got,) = executor.forward(is_train=False)
    assert "second_output" not in reordered(executor)
    reference = executor_of(symbol, REFERENCE, trains=False)
    reference.copy_params_from(executor.arg_dict)
    (wanted,) = reference.forward(is_train=False)
    assert np.isnan(got.asnumpy()[:, 0]).all()
    np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-5)
    executor_of(symbol, CHECKED, trains=False).forward(is_train=False)
