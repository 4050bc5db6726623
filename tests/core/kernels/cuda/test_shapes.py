"""CUDA kernels against references at shapes that golden cases are too small for.

Sums of several blocks, vectors of 16 bytes and what remains of them, rows of a thread, a warp and a
block, tiles with edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import core as mx
from core.backends import gpu_count
from core.compiler.compile import CompileOptions
from core.executor import bind

from .host_modules import is_available
from .machines import GPU, HOST, Machine

_on_host = pytest.mark.skipif(not is_available(), reason="needs g++ on x86-64")

sym = mx.sym
Build = Callable[[Any], Any]


def run(
    symbol: Any,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    train: bool,
    context: Any,
    options: CompileOptions,
) -> tuple[dict[str, np.ndarray], set[str]]:
    """Return outputs, gradients and states by name, and the names of the kernels."""
    random = np.random.RandomState(5)
    shapes, out_shapes, aux_shapes = symbol.infer_shape(data=shape)
    types, _, aux_types = symbol.infer_type(data=dtype)
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()

    def arrays(names: list[str], shapes: Any, types: Any) -> dict[str, Any]:
        found = {}
        for name, one, kind in zip(names, shapes, types, strict=True):
            value = random.uniform(0.5, 1.5, one) if "var" in name else random.normal(1, 2, one)
            if "label" in name:
                value = random.randint(-1, 4, one)
            found[name] = mx.nd.array(value.astype(np.float32), dtype=kind)
        return found

    given, kept = arrays(names, shapes, types), arrays(states, aux_shapes, aux_types)
    wanted = [name for name in names if "label" not in name] if train else []
    grads = {name: mx.nd.zeros(given[name].shape, dtype=given[name].dtype) for name in wanted}
    requests = {name: "write" for name in wanted}
    executor = bind(symbol, context, given, grads, requests, kept, options=options)
    outputs = executor.forward(is_train=train)
    found = {f"output {i}": one.asnumpy() for i, one in enumerate(outputs)}
    if train:
        heads = [mx.nd.array(random.normal(size=one), dtype=outputs[0].dtype) for one in out_shapes]
        executor.backward(heads)
    found |= {f"gradient of {name}": one.asnumpy() for name, one in grads.items()}
    found |= {name: one.asnumpy() for name, one in kept.items()}
    (plan, *_) = executor._plans.values()
    steps = plan.compiled.program.steps
    return found, {step.kernel.name for step in steps if step.kernel is not None}


def assert_equal_to_reference(
    symbol: Any,
    shape: tuple[int, ...],
    dtype: Any = "float32",
    *,
    train: bool = True,
    machine: Machine = HOST,
) -> set[str]:
    """Compare a graph on kernels with its references; return the names of the kernels."""
    references, kernels = CompileOptions(table=None), CompileOptions(table=machine.table)
    wanted, _ = run(symbol, shape, dtype, train=train, context=mx.cpu(), options=references)
    given = {"train": train, "context": machine.context, "options": kernels}
    with machine.scope():
        first, names = run(symbol, shape, dtype, **given)
        again, _ = run(symbol, shape, dtype, **given)
    tolerance = {"float32": 1e-4, "float16": 4e-3}.get(np.dtype(dtype).name, 3e-2)
    for name, expected in wanted.items():
        got, expected = (one.astype(np.float64) for one in (first[name], expected))
        scale = np.sqrt(np.mean(expected**2))
        assert np.isfinite(got).all(), name
        np.testing.assert_allclose(
            got, expected, rtol=tolerance, atol=tolerance * scale, err_msg=name
        )
        # Threads run in another order each time; the bits must not tell.
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)
    return names


def norm(data: Any, **attributes: Any) -> Any:
    return sym.BatchNorm(data, fix_gamma=False, name="norm", **attributes)


_TRAINED: list[tuple[str, Build, tuple[int, ...]]] = [
    ("norm_parts", norm, (5, 3, 47, 53)),
    ("norm_packs", norm, (4, 3, 32, 72)),
    ("norm_columns", norm, (700, 37)),
    ("norm_last", lambda x: norm(x, axis=-1), (9, 20, 33)),
    ("norm_fixed", lambda x: sym.BatchNorm(x, name="norm"), (5, 3, 7, 9)),
    ("norm_global", lambda x: norm(x, use_global_stats=True), (5, 3, 7, 9)),
    ("norm_relu", lambda x: sym.Activation(norm(x), act_type="relu"), (5, 3, 47, 53)),
    ("norm_relu_packs", lambda x: sym.relu(norm(x)), (4, 3, 8, 8)),
    ("norm_clip", lambda x: sym.clip(norm(x), 0, 6), (4, 5, 7, 8)),
    ("pool", lambda x: sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1)), (3, 5, 23, 17)),
    (
        "pool_mean",
        lambda x: sym.Pooling(x, kernel=(3, 2), stride=(2, 1), pool_type="avg", pad=(1, 1)),
        (3, 5, 23, 17),
    ),
    ("pool_global", lambda x: sym.Pooling(x, global_pool=True, pool_type="avg"), (7, 9, 11, 13)),
    ("pool_global_max", lambda x: sym.Pooling(x, global_pool=True), (7, 9, 11, 13)),
    ("softmax_warps", lambda x: sym.softmax(x), (37, 130)),
    ("softmax_blocks", lambda x: sym.softmax(x, temperature=2.0), (3, 2500)),
    ("softmax_threads", lambda x: sym.log_softmax(x, axis=1), (3, 21, 19, 5)),
    ("loss", lambda x: sym.SoftmaxOutput(x, sym.Variable("label")), (70, 130)),
    (
        "loss_valid",
        lambda x: sym.SoftmaxOutput(
            x,
            sym.Variable("label"),
            multi_output=True,
            use_ignore=True,
            ignore_label=-1,
            normalization="valid",
        ),
        (3, 4, 21, 19),
    ),
    (
        "loss_smooth",
        lambda x: sym.SoftmaxOutput(x, sym.Variable("label"), smooth_alpha=0.1),
        (9, 7),
    ),
    (
        "cross_entropy",
        lambda x: sym.softmax_cross_entropy(x, sym.Variable("label")),
        (300, 11),
    ),
    ("tanh_rest", lambda x: sym.tanh(x), (1031,)),
    ("gelu", lambda x: sym.LeakyReLU(x, act_type="gelu"), (33, 31)),
    ("prelu", lambda x: sym.LeakyReLU(x, act_type="prelu"), (5, 6, 41, 37)),
    ("bias", lambda x: sym.broadcast_add(x, sym.Variable("b", shape=(1, 6, 1))), (40, 6, 301)),
    ("scale", lambda x: sym.broadcast_mul(x, sym.Variable("b", shape=(1, 77))), (900, 77)),
    ("quotient", lambda x: sym.broadcast_div(x, sym.norm(x, axis=1, keepdims=True)), (31, 45)),
    ("product", lambda x: x * sym.tanh(x) - x / (sym.square(x) + 1), (11, 95)),
    ("add_n", lambda x: sym.add_n(sym.tanh(x), x, sym.square(x)), (37, 11)),
    ("sum_all", lambda x: sym.sum(x), (130, 301)),
    ("sum_rows", lambda x: sym.mean(x, axis=(0, 2)), (9, 3, 1501)),
    ("sum_columns", lambda x: sym.sum(x, axis=0), (1500, 45)),
    ("max_columns", lambda x: sym.max(x, axis=1), (7, 91, 35)),
    ("min_rows", lambda x: sym.min(x, axis=1), (70, 700)),
    ("transpose", lambda x: sym.transpose(sym.tanh(x)), (70, 45)),
    ("transpose_batch", lambda x: sym.transpose(sym.tanh(x), axes=(0, 2, 1)), (3, 35, 66)),
    ("transpose_heads", lambda x: sym.transpose(sym.tanh(x), axes=(0, 2, 1, 3)), (2, 5, 7, 8)),
    ("concat", lambda x: sym.concat(sym.tanh(x), sym.square(x), sym.sin(x), dim=1), (5, 3, 9, 7)),
    ("split", lambda x: sym.concat(*list(sym.split(sym.tanh(x), num_outputs=3))[::-1]), (5, 6, 8)),
    (
        "slice",
        lambda x: sym.slice(sym.tanh(x), begin=(1, 2, 30), end=(4, 6, 3), step=(1, 2, -3)),
        (5, 6, 33),
    ),
    ("layer_norm", lambda x: sym.LayerNorm(x), (70, 130)),
    ("layer_norm_long", lambda x: sym.LayerNorm(x), (5, 1500)),
    ("layer_norm_axis", lambda x: sym.LayerNorm(x, axis=1), (9, 21, 30)),
    ("instance_norm", lambda x: sym.InstanceNorm(x), (5, 6, 41)),
    ("group_norm", lambda x: sym.GroupNorm(x, num_groups=2), (5, 6, 410)),
    ("l2_norm", lambda x: sym.L2Normalization(x), (5, 6, 310)),
    ("l2_norm_channel", lambda x: sym.L2Normalization(x, mode="channel"), (5, 6, 310)),
    ("local_response", lambda x: sym.LRN(x, nsize=5, alpha=0.3), (3, 11, 5, 7)),
    ("local_response_line", lambda x: sym.LRN(x, nsize=3, alpha=0.3), (3, 11, 35)),
]


_each = pytest.mark.parametrize(
    ("build", "shape"), [row[1:] for row in _TRAINED], ids=[row[0] for row in _TRAINED]
)


@_on_host
@_each
def test_training_equals_the_references(build: Build, shape: tuple[int, ...]) -> None:
    kernels = assert_equal_to_reference(build(sym.Variable("data")), shape)
    assert any(name.endswith("_backward") for name in kernels), kernels


@pytest.mark.gpu
@pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")
@_each
def test_training_on_a_gpu_equals_the_references(build: Build, shape: tuple[int, ...]) -> None:
    assert assert_equal_to_reference(build(sym.Variable("data")), shape, machine=GPU)


@_on_host
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["norm_relu_packs", "norm_columns", "pool", "softmax_warps", "tanh_rest", "sum_rows"]
)
def test_half_precision_is_computed_in_float32(name: str, dtype: Any) -> None:
    (build, shape) = next(row[1:] for row in _TRAINED if row[0] == name)
    assert assert_equal_to_reference(build(sym.Variable("data")), shape, dtype)


@_on_host
@pytest.mark.parametrize(
    "build",
    [
        lambda x: norm(x),
        lambda x: sym.relu(norm(x)),
        lambda x: sym.Activation(norm(x), act_type="relu"),
        lambda x: sym.LRN(norm(x), nsize=3),
        lambda x: sym.Pooling(x, kernel=(2, 2), pooling_convention="full", stride=(2, 2)),
        lambda x: sym.concat(x, sym.tanh(x), dim=0),
    ],
)
def test_inference_equals_the_references(build: Build) -> None:
    assert assert_equal_to_reference(build(sym.Variable("data")), (5, 8, 7, 9), train=False)


def residual_network(data: Any) -> Any:
    """A residual network with both orders of norm and addition, whose layers run on references."""
    layer = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 6, "no_bias": True}
    x = sym.Convolution(data, name="first", **layer)
    for i in range(2):
        y = sym.Activation(sym.BatchNorm(x, name=f"norm{i}"), act_type="relu")
        y = sym.BatchNorm(sym.Convolution(y, name=f"layer{i}", **layer), name=f"last{i}")
        x = sym.relu(x + y)
    x = sym.Pooling(sym.concat(x, sym.Pooling(x, **_SAME)), kernel=(2, 2), stride=(2, 2))
    x = sym.Flatten(sym.Pooling(x, global_pool=True, pool_type="avg"))
    x = sym.FullyConnected(x, num_hidden=5, name="end")
    return sym.SoftmaxOutput(x, sym.Variable("label"), normalization="batch")


_SAME = {"kernel": (3, 3), "pad": (1, 1), "pool_type": "avg"}


@_on_host
def test_a_network_trains_as_on_references() -> None:
    kernels = assert_equal_to_reference(residual_network(sym.Variable("data")), (6, 3, 9, 8))
    assert len(kernels) > 10, kernels


@pytest.mark.gpu
@pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")
def test_a_network_trains_on_a_gpu_as_on_references() -> None:
    network = residual_network(sym.Variable("data"))
    assert_equal_to_reference(network, (6, 3, 9, 8), machine=GPU)


@_on_host
def test_a_norm_and_its_activation_are_one_kernel() -> None:
    symbol = sym.relu(norm(sym.Variable("data")))
    for train in (False, True):
        kernels = assert_equal_to_reference(symbol, (5, 3, 7, 9), train=train)
        assert {name.removesuffix("_backward") for name in kernels} == {"cuda:batch_norm"}


@_on_host
def test_plans_keep_half_precision_between_kernels() -> None:
    symbol = sym.tanh(sym.square(sym.Variable("data")))
    data = {"data": mx.nd.ones((4, 5), dtype="float16")}
    with HOST.scope():
        executor = bind(symbol, HOST.context, data, options=CompileOptions(table=HOST.table))
    (plan, *_) = executor._plans.values()
    assert {value.dtype for value in plan.compiled.program.values} == {np.dtype("float16")}
