"""What is fused in training, without changing any result.

Batch norms fuse a following ReLU or clip; LRNs do not keep their sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.fuse import FusedLocalResponse
from core.compiler.fuse_training import NormActivation
from core.executor import bind
from core.kernels.onednn import is_available
from core.ops.elemwise_special import Clip
from core.ops.norm import BatchNorm

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

UNFUSED = CompileOptions(table=None)
SHAPE = (4, 16, 6, 5)


def norm(data: mx.sym.Symbol, name: str = "norm", **attributes: Any) -> mx.sym.Symbol:
    return mx.sym.BatchNorm(data, name=name, **{"fix_gamma": False, **attributes})


def relu(data: mx.sym.Symbol) -> mx.sym.Symbol:
    return mx.sym.Activation(data, act_type="relu", name="relu")


def clip(data: mx.sym.Symbol, low: float = 0, high: float = 6) -> mx.sym.Symbol:
    return mx.sym.clip(data, low, high, name="clip")


def convolution(data: mx.sym.Symbol) -> mx.sym.Symbol:
    return mx.sym.Convolution(data, kernel=(3, 3), num_filter=16, no_bias=True, name="conv")


def executor_of(
    symbol: mx.sym.Symbol,
    options: CompileOptions | None = None,
    requests: str | dict[str, str] = "write",
) -> Any:
    random = np.random.RandomState(5)
    shapes, _, aux_shapes = symbol.infer_shape(data=SHAPE)
    arguments = {
        name: mx.nd.array(random.randn(*shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1.5, shape))
        for name, shape in zip(symbol.list_auxiliary_states(), aux_shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    return bind(
        symbol, mx.cpu(), arguments, gradients, requests, aux_states=auxiliary, options=options
    )


def fused_steps(executor: Any) -> int:
    (plan,) = executor._plans.values()
    return sum(isinstance(step.op, NormActivation) for step in plan.compiled.program.steps)


def results(executor: Any, steps: int = 2) -> dict[str, np.ndarray]:
    random = np.random.RandomState(6)
    for _ in range(steps):
        outputs = executor.forward(is_train=True)
        executor.backward([mx.nd.array(random.randn(*one.shape)) for one in outputs])
    found = {f"output{i}": one.asnumpy() for i, one in enumerate(executor.outputs)}
    found |= {name: one.asnumpy() for name, one in executor.grad_dict.items() if one is not None}
    return found | {name: one.asnumpy() for name, one in executor.aux_dict.items()}


def assert_equal_to_unfused(
    symbol: mx.sym.Symbol, requests: str | dict[str, str] = "write", check: bool = False
) -> None:
    got = results(executor_of(symbol, CompileOptions(check_kernels=check), requests))
    expected = results(executor_of(symbol, UNFUSED, requests))
    assert got.keys() == expected.keys()
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max()), 1e-6)
        np.testing.assert_allclose(got[name] / scale, wanted / scale, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"fix_gamma": True}, {"momentum": 0.5, "eps": 1e-2}], ids=str
)
def test_a_batch_norm_fuses_its_relu(attributes: dict[str, Any], check: bool) -> None:
    symbol = relu(norm(mx.sym.Variable("data"), **attributes))
    assert fused_steps(executor_of(symbol)) == 2
    assert_equal_to_unfused(symbol, check=check)


@pytest.mark.parametrize("options", [None, UNFUSED], ids=["kernel", "reference"])
def test_a_fused_relu_turns_nan_into_zero(options: CompileOptions | None) -> None:
    executor = executor_of(relu(mx.sym.Variable("data")), options)
    executor.arg_dict["data"][0, 0, 0, 0] = np.nan
    (out,) = executor.forward(is_train=True)
    assert out.asnumpy()[0, 0, 0, 0] == 0
    executor.backward([mx.nd.ones(SHAPE)])
    assert executor.grad_dict["data"].asnumpy()[0, 0, 0, 0] == 0


@pytest.mark.parametrize("channels", [16, 20])
def test_a_relu_that_keeps_nan_keeps_it_behind_a_norm(channels: int) -> None:
    """So does its gradient, as in MXNet; a kernel takes it in where channels are in blocks."""
    layer = {"kernel": (1, 1), "num_filter": channels, "no_bias": True, "name": "conv"}
    symbol = mx.sym.relu(norm(mx.sym.Convolution(mx.sym.Variable("data"), **layer)))
    assert fused_steps(executor_of(symbol)) == (2 if channels == 16 else 0)
    assert_equal_to_unfused(symbol)
    for options in (None, UNFUSED):
        executor = executor_of(symbol, options)
        executor.arg_dict["norm_gamma"][2] = np.nan
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.ones(out.shape)])
        assert np.isnan(out.asnumpy()).all(axis=(0, 2, 3)).nonzero()[0].tolist() == [2]
        assert np.isnan(executor.grad_dict["norm_beta"].asnumpy()).nonzero()[0].tolist() == [2]


def test_fusion_in_a_blocked_layout() -> None:
    symbol = relu(norm(convolution(mx.sym.Variable("data"))))
    symbol = mx.sym.Convolution(symbol, kernel=(3, 3), num_filter=32, no_bias=True, name="next")
    assert fused_steps(executor_of(symbol)) == 2
    assert_equal_to_unfused(symbol)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("bounds", [(0, 6), (-0.4, 0.7), (0, 0.5)], ids=str)
@pytest.mark.parametrize("attributes", [{}, {"fix_gamma": True}], ids=str)
def test_a_batch_norm_fuses_its_clip(
    attributes: dict[str, Any], bounds: tuple[float, float], check: bool
) -> None:
    symbol = clip(norm(convolution(mx.sym.Variable("data")), **attributes), *bounds)
    symbol = mx.sym.Convolution(symbol, kernel=(3, 3), num_filter=32, no_bias=True, name="next")
    assert fused_steps(executor_of(symbol)) == 2
    assert_equal_to_unfused(symbol, check=check)


@pytest.mark.parametrize("gamma", [0, np.nan], ids=str)
def test_a_fused_clip_passes_gradients_at_its_bounds_and_at_nan(gamma: float) -> None:
    symbol = clip(norm(convolution(mx.sym.Variable("data"))), 0, 6)
    found = []
    for options in (None, UNFUSED):
        executor = executor_of(symbol, options)
        executor.arg_dict["norm_gamma"][:] = gamma
        executor.arg_dict["norm_beta"][:] = 0
        executor.arg_dict["norm_beta"][3] = 6
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.ones(out.shape)])
        found.append((out.asnumpy(), executor.grad_dict["norm_beta"].asnumpy()))
    (out, shift), expected = found
    np.testing.assert_array_equal(out, expected[0])
    np.testing.assert_array_equal(shift, expected[1])
    assert (shift == out[:, 0].size).all()


def test_a_clip_is_not_fused_where_no_kernel_supports_it() -> None:
    """With ragged channels both run separately, in backward too."""
    layer = {"kernel": (1, 1), "num_filter": 20, "no_bias": True, "name": "conv"}
    symbol = clip(norm(mx.sym.Convolution(mx.sym.Variable("data"), **layer)))
    executor = executor_of(symbol)
    assert fused_steps(executor) == 0
    assert kernels_of(executor, BatchNorm) == ["onednn:batch_norm", "onednn:batch_norm_backward"]
    assert kernels_of(executor, Clip) == ["native:piecewise", "native:piecewise_backward"]
    assert_equal_to_unfused(symbol)


def test_a_relu_that_is_read_twice() -> None:
    shown = relu(norm(mx.sym.Variable("data")))
    symbol = mx.sym.Pooling(shown, kernel=(2, 2), pool_type="max") + mx.sym.Pooling(
        shown, kernel=(2, 2), pool_type="avg"
    )
    assert fused_steps(executor_of(symbol)) == 2
    assert_equal_to_unfused(symbol)


def test_gradients_are_added_with_grad_req_add() -> None:
    symbol = relu(norm(mx.sym.Variable("data")))
    requests = {"data": "add", "norm_gamma": "write", "norm_beta": "add"}
    assert_equal_to_unfused(symbol, requests)


@pytest.mark.parametrize(
    "symbol",
    [
        mx.sym.Activation(norm(mx.sym.Variable("data")), act_type="tanh"),
        relu(norm(mx.sym.Variable("data"), use_global_stats=True)),
        relu(norm(mx.sym.Variable("data"), axis=3)),
        mx.sym.Group([(shared := norm(mx.sym.Variable("data"))), relu(shared)]),
        relu(shared) + shared,
        relu(mx.sym.Reshape(norm(mx.sym.Variable("data")), shape=(0, -1))),
        mx.sym.Group([(clipped := norm(convolution(mx.sym.Variable("data")))), clip(clipped)]),
        clip(clipped) + clipped,
    ],
    ids=[
        *("tanh", "global", "last axis", "an output", "read twice", "reshaped"),
        *("an output clipped", "read twice clipped"),
    ],
)
def test_what_is_not_fused(symbol: mx.sym.Symbol) -> None:
    assert fused_steps(executor_of(symbol)) == 0
    assert_equal_to_unfused(symbol)


def test_a_norm_whose_data_needs_no_gradient_is_not_fused() -> None:
    symbol = relu(norm(mx.sym.Variable("data")))
    requests = {"data": "null", "norm_gamma": "write", "norm_beta": "write"}
    assert fused_steps(executor_of(symbol, None, requests)) == 0
    assert_equal_to_unfused(symbol, requests)


def test_a_monitor_sees_the_norm_and_relu_separately() -> None:
    executor = executor_of(relu(norm(mx.sym.Variable("data"))))
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, _: seen.append(name))
    executor.forward(is_train=True)
    assert "norm_output" in seen


def local_response(data: mx.sym.Symbol, **attributes: Any) -> mx.sym.Symbol:
    return mx.sym.LRN(data, name="lrn", **{"nsize": 5, "alpha": 0.3, **attributes})


def kernels_of(executor: Any, kind: type) -> list[str]:
    (plan,) = executor._plans.values()
    steps = plan.compiled.program.steps
    return [getattr(one.kernel, "name", "") for one in steps if isinstance(one.op, kind)]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"nsize": 3}, {"knorm": 1.0}], ids=str)
@pytest.mark.parametrize("is_blocked", [False, True])
def test_an_lrn_does_not_keep_its_sums(
    attributes: dict[str, Any], check: bool, is_blocked: bool
) -> None:
    data = mx.sym.Variable("data")
    symbol = local_response(convolution(data) if is_blocked else data, **attributes)
    kernels = kernels_of(executor_of(symbol), FusedLocalResponse)
    assert kernels == ["onednn:local_response", "onednn:local_response_backward"]
    assert_equal_to_unfused(symbol, check=check)


@pytest.mark.parametrize("attributes", [{"beta": 0.5}, {"nsize": 1}, {"nsize": 7}], ids=str)
def test_lrns_with_unreliable_onednn_kernels_run_on_the_reference(
    attributes: dict[str, Any],
) -> None:
    symbol = local_response(mx.sym.Variable("data"), **attributes)
    assert kernels_of(executor_of(symbol), FusedLocalResponse) == ["", ""]
    assert_equal_to_unfused(symbol)


@pytest.mark.parametrize("channels", [1, 3, 17, 37])
@pytest.mark.parametrize("nsize", [3, 5])
def test_an_lrn_over_any_number_of_channels(channels: int, nsize: int) -> None:
    data = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(1, 1), num_filter=channels, no_bias=True, name="conv"
    )
    assert_equal_to_unfused(local_response(data, nsize=nsize))


def test_the_gradient_of_an_lrn_is_added() -> None:
    assert_equal_to_unfused(local_response(mx.sym.Variable("data")), {"data": "add"})


def test_an_lrn_over_sequences_is_not_fused() -> None:
    symbol = local_response(mx.sym.Reshape(mx.sym.Variable("data"), shape=(0, 0, -1)))
    assert kernels_of(executor_of(symbol), FusedLocalResponse) == []
    assert_equal_to_unfused(symbol)
