"""Layers in bfloat16, against float64 products and MXNet in float32."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends import has_bfloat16
from core.executor import executor as executor_module
from core.kernels.onednn import bfloat16
from oracle import golden_file, networks
from oracle.topics.models import build, make_inputs

EPSILON = 2.0**-8
"""Twice the relative error of rounding a number to 8 significant bits: what two factors bring into
their product."""
NAME = "_bfloat16"

needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(),
    reason="the processor has no instructions for bfloat16, or oneDNN is missing",
)

Setting = Callable[..., None]


@pytest.fixture(name="set_math")
def fixture_set_math(monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Set MODSERVE_MATH for executors bound afterwards."""

    def set_math(in_bfloat16: bool, **others: Any) -> None:
        changed = dataclasses.replace(executor_module.config, in_bfloat16=in_bfloat16, **others)
        monkeypatch.setattr(executor_module, "config", changed)

    return set_math


def _bound(
    symbol: mx.sym.Symbol, values: Mapping[str, np.ndarray], **options: Any
) -> mx.executor.Executor:
    """Return an executor with ``data`` and ``data1`` as inputs and everything else constant."""
    shapes = {name: value.shape for name, value in values.items() if name.startswith("data")}
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes, **options)
    for name, value in values.items():
        (executor.arg_dict | executor.aux_dict)[name][:] = value
    return executor


def _output(executor: mx.executor.Executor) -> np.ndarray:
    return executor.forward(is_train=False)[0].asnumpy().astype("float64")


def _convolution(x: Any, **attributes: Any) -> Any:
    return mx.sym.Convolution(
        x, **{"kernel": (3, 3), "pad": (1, 1), "num_filter": 32, "name": "layer"} | attributes
    )


def _layers() -> dict[str, tuple[Any, dict[str, tuple[int, ...]]]]:
    data, other = mx.sym.var("data"), mx.sym.var("data1")
    images = {"data": (2, 16, 14, 14)}
    sized = {"layer_weight": (32, 16, 3, 3), "layer_bias": (32,)}
    return {
        "convolution": (_convolution(data), images | sized),
        "strided": (_convolution(data, stride=(2, 2)), images | sized),
        "pointwise": (
            _convolution(data, kernel=(1, 1), pad=(0, 0), no_bias=True),
            images | {"layer_weight": (32, 16, 1, 1)},
        ),
        "depthwise": (
            _convolution(data, num_filter=16, num_group=16),
            images | {"layer_weight": (16, 1, 3, 3), "layer_bias": (16,)},
        ),
        "first of a network": (
            _convolution(data),
            {"data": (2, 3, 14, 14), "layer_weight": (32, 3, 3, 3), "layer_bias": (32,)},
        ),
        "sequence": (
            _convolution(data, kernel=(3,), pad=(1,)),
            {"data": (2, 16, 40), "layer_weight": (32, 16, 3), "layer_bias": (32,)},
        ),
        "dense": (
            mx.sym.FullyConnected(data, num_hidden=512, name="layer"),
            {"data": (4, 600), "layer_weight": (512, 600), "layer_bias": (512,)},
        ),
        "dot": (mx.sym.dot(data, other), {"data": (96, 80), "data1": (80, 72)}),
        "dot, transposed": (
            mx.sym.dot(data, other, transpose_a=True, transpose_b=True),
            {"data": (80, 96), "data1": (72, 80)},
        ),
        "batch_dot": (
            mx.sym.batch_dot(data, other, transpose_b=True),
            {"data": (3, 64, 40), "data1": (3, 72, 40)},
        ),
    }


def _random(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    random = np.random.RandomState(11)
    return {name: random.randn(*shape).astype("float32") for name, shape in shapes.items()}


@needs_bfloat16
@pytest.mark.parametrize("name", _layers())
def test_the_error_is_bounded_by_rounding_the_factors(name: str, set_math: Setting) -> None:
    symbol, shapes = _layers()[name]
    values = _random(shapes)
    set_math(False)
    exact = _bound(symbol, values)
    assert NAME not in exact.debug_str()
    expected = _output(exact)
    # The same sums over absolute values bound how far a sum of rounded products can be off.
    magnitudes = _output(_bound(symbol, {key: np.abs(value) for key, value in values.items()}))
    set_math(True)
    rounded = _bound(symbol, values)
    assert NAME in rounded.debug_str()
    got = _output(rounded)
    # Half of EPSILON more: a convolution rounds its result.
    assert np.all(np.abs(got - expected) <= 1.6 * EPSILON * magnitudes)
    assert (
        np.sqrt(np.mean((got - expected) ** 2)) > EPSILON / 100
    )  # proves it did not run in float32
    assert np.array_equal(_output(_bound(symbol, values)), got)


def _block() -> mx.sym.Symbol:
    """Everything that may come between convolutions: batch norm, residual, activation, pooling,
    concatenation, arithmetic."""
    x = mx.sym.var("data")
    x = _convolution(x, name="c0")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="b0", fix_gamma=False), act_type="relu")
    y = mx.sym.BatchNorm(_convolution(x, name="c1"), name="b1")
    x = mx.sym.Activation(x + y, act_type="relu")
    x = mx.sym.Concat(x, _convolution(x, name="c2"), dim=1)
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="b2"), act_type="relu")
    x = _convolution(x, name="c3") * mx.sym.sigmoid(_convolution(x, name="c4"))
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    # Layers that flatten their input themselves, on plain and on blocked data.
    x = mx.sym.FullyConnected(x, num_hidden=4096, name="d0")
    return mx.sym.FullyConnected(mx.sym.reshape(x, (0, 64, 64)), num_hidden=64, name="d1")


def _values(symbol: mx.sym.Symbol, data: np.ndarray) -> dict[str, np.ndarray]:
    """Return the data, and parameters and states made from their names."""
    shapes, _, states = symbol.infer_shape(data=data.shape)
    sizes = dict(zip(symbol.list_arguments(), shapes, strict=True))
    sizes |= dict(zip(symbol.list_auxiliary_states(), states, strict=True))
    parameters = {k: v for k, v in sizes.items() if k not in ("data", "softmax_label")}
    return networks.make_parameters(parameters) | {"data": data}


def _distance(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the root mean square of the difference, relative to that of the expected values."""
    return float(np.sqrt(np.mean((got - expected) ** 2) / np.mean(expected**2)))


@needs_bfloat16
def test_layers_between_convolutions_run_in_bfloat16(set_math: Setting) -> None:
    values = _values(_block(), _random({"data": (2, 16, 16, 16)})["data"])
    set_math(False)
    expected = _output(_bound(_block(), values))
    set_math(True)
    executor = _bound(_block(), values)
    got = _output(executor)
    assert _distance(got, expected) < 6 * EPSILON
    plan = executor.debug_str()
    for kernel in ("convolution_folded", "pooling", "concat", "batch_norm_fused", "arithmetic"):
        assert f"onednn:{kernel}{NAME}" in plan, plan
    steps = [line for line in plan.splitlines() if "_plan_reorder" in line and "weight" not in line]
    assert len(steps) <= 4, steps


@needs_bfloat16
def test_kernels_agree_with_their_references(set_math: Setting) -> None:
    set_math(True, check_kernels=True)
    _output(_bound(_block(), _values(_block(), _random({"data": (1, 16, 8, 8)})["data"])))


@needs_bfloat16
def test_a_network_gives_mxnets_output(set_math: Setting) -> None:
    symbol, layers = build(mx, "lenet"), 4
    set_math(True)
    executor = _bound(symbol, _values(symbol, make_inputs("lenet")["data"]))
    assert executor.debug_str().count(f"onednn:convolution{NAME}") == 2
    golden = golden_file.topic("models")["lenet"].astype("float64")
    # Logits less their mean, which softmax ignores.
    got, expected = (
        np.log(one) - np.log(one).mean(axis=1, keepdims=True) for one in (_output(executor), golden)
    )
    # The layers' errors are independent, so their squares add up.
    assert EPSILON / 100 < _distance(got, expected) < np.sqrt(layers) * EPSILON


@needs_bfloat16
def test_a_graph_in_bfloat16_ignores_the_setting(set_math: Setting) -> None:
    set_math(False)
    x = mx.sym.Cast(mx.sym.var("data"), dtype="bfloat16")
    x = _convolution(x, name="halved")
    x = mx.sym.Cast(mx.sym.Activation(x, act_type="relu"), dtype="float32")
    symbol = _convolution(x, name="whole")
    shapes = {"data": (2, 16, 14, 14), "halved_weight": (32, 16, 3, 3), "halved_bias": (32,)}
    values = _random(shapes | {"whole_weight": (32, 32, 3, 3), "whole_bias": (32,)})
    executor = _bound(symbol, values)
    steps = [line for line in executor.debug_str().splitlines() if " by " in line]
    (halved,) = [line for line in steps if NAME in line]
    assert "convolution" in halved
    assert any(("Convolution 'whole'" in line) and NAME not in line for line in steps)
    plain = _convolution(
        mx.sym.Activation(_convolution(mx.sym.var("data"), name="halved"), act_type="relu"),
        name="whole",
    )
    distance = _distance(_output(executor), _output(_bound(plain, values)))
    assert EPSILON / 100 < distance < 3 * EPSILON


def test_a_graph_in_bfloat16_runs_in_float32_where_the_processor_lacks_it(
    monkeypatch: pytest.MonkeyPatch, set_math: Setting
) -> None:
    set_math(False)
    monkeypatch.setattr(bfloat16, "has_bfloat16", lambda: False)
    x = mx.sym.Cast(mx.sym.var("data"), dtype="bfloat16")
    symbol = mx.sym.Cast(_convolution(x), dtype="float32")
    executor = _bound(symbol, _random({"data": (2, 16, 14, 14), "layer_weight": (32, 16, 3, 3)}))
    assert NAME not in executor.debug_str()


@needs_bfloat16
def test_training_and_unversioned_weights_stay_in_float32(set_math: Setting) -> None:
    set_math(True)
    symbol, shapes = _layers()["convolution"]
    values = _random(shapes)
    training = symbol.simple_bind(mx.cpu(), data=shapes["data"])
    training.forward(is_train=True)
    assert NAME not in training.debug_str()
    arrays = {name: mx.nd.array(value) for name, value in values.items()}
    assert NAME not in symbol.bind(mx.cpu(), arrays, grad_req="null").debug_str()


@needs_bfloat16
def test_small_layers_stay_in_float32(set_math: Setting) -> None:
    set_math(True)
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=10, name="layer")
    assert NAME not in dense.simple_bind(mx.cpu(), grad_req="null", data=(1, 64)).debug_str()
    thin = mx.sym.dot(mx.sym.var("data"), mx.sym.var("data1"))
    shapes = {"data": (1, 1024), "data1": (1024, 1024)}
    assert NAME not in thin.simple_bind(mx.cpu(), grad_req="null", **shapes).debug_str()


def test_the_setting_is_refused_where_the_processor_lacks_it() -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MODSERVE_MATH": "bfloat16"}
    ended = subprocess.run(
        [sys.executable, "-c", "import core"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "MODSERVE_MATH is 'bfloat16', but this processor has no instructions" in ended.stderr
