"""Half-precision graphs compute in float32 and round whatever is visible outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.ir import Place
from core.compiler.primitives import Copy
from core.executor.plan import Plan
from core.kernels.kernel import kernels
from core.types import is_half

needs_kernels = pytest.mark.skipif(
    not kernels.has_any("numpy"), reason="without kernels nothing is widened"
)
HALVES = ("float16", "bfloat16")
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}


def _network(dtype: str) -> mx.sym.Symbol:
    """Cast, convolve, normalize, multiply, all in half precision but the batch norm's arrays."""
    x = mx.sym.Cast(mx.sym.var("data"), dtype=dtype)
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=8, pad=(1, 1), name="conv")
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="norm", fix_gamma=False), act_type="relu")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=5, name="dense")
    return mx.sym.Cast(x, dtype="float32")


def _executor(dtype: str, **options: Any) -> mx.executor.Executor:
    """Bind random values that half precision can represent."""
    executor = _network(dtype).simple_bind(mx.cpu(), data=(4, 3, 6, 6), **options)
    random = np.random.default_rng(5)
    for array in executor.arg_arrays:
        array[:] = (random.integers(-8, 9, array.shape) / 8).astype("float32")
    for name, array in executor.aux_dict.items():
        array[:] = 1 if name.endswith("var") else 0
    return executor


def _plan(executor: mx.executor.Executor) -> Plan:
    (plan,) = executor._plans.values()
    return plan


def test_a_float16_loss_may_be_an_output() -> None:
    """MXNet's check_numeric_gradient binds such a graph in float16."""
    x = mx.sym.Variable("x")
    executor = mx.sym.make_loss(mx.sym.square(x)).simple_bind(
        mx.cpu(), x=(2,), type_dict={"x": "float16"}
    )
    executor.forward(is_train=True, x=np.array([1, 3]))
    executor.backward()
    assert executor.outputs[0].asnumpy().tolist() == [1, 9]
    assert executor.grad_dict["x"].asnumpy().tolist() == [2, 6]


@pytest.mark.parametrize("is_train", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_outputs_and_gradients_are_float32_results_rounded(dtype: str, is_train: bool) -> None:
    half, full = _executor(dtype), _executor("float32")
    for executor in (half, full):
        executor.forward(is_train=is_train)
    expected = full.outputs[0].asnumpy()
    bound = ROUNDING[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(half.outputs[0].asnumpy(), expected, rtol=0, atol=bound)
    if not is_train:
        return
    for executor in (half, full):
        executor.backward(mx.nd.ones((4, 5)))
    for name, grad in half.grad_dict.items():
        assert grad.dtype is half.arg_dict[name].dtype
        expected = full.grad_dict[name].asnumpy()
        bound = ROUNDING[dtype] * (np.abs(expected).max() + 1)
        got = grad.astype("float32").asnumpy()
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=name)


@needs_kernels
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_layers_run_on_float32_kernels(dtype: str) -> None:
    executor = _executor(dtype, grad_req="null")
    executor.forward()
    steps = _plan(executor).compiled.program.steps
    kernels = [step.kernel for step in steps if step.kernel is not None]
    made = {kernel.name.removesuffix("_bfloat16") for kernel in kernels}
    full = _executor("float32", grad_req="null")
    full.forward()
    expected = {step.kernel.name for step in _plan(full).compiled.program.steps if step.kernel}
    assert made - {"native:cast"} == expected != set()


@needs_kernels
def test_parameters_are_converted_when_they_change() -> None:
    executor = _executor("float16", grad_req="null")
    executor.forward()
    program = _plan(executor).compiled.program
    kept = [v for v in program.values if v.place is Place.CACHE and v.layout is None]
    assert {value.name for value in kept} == {
        "conv_weight",
        "conv_bias",
        "dense_weight",
        "dense_bias",
    }
    before = executor.forward()[0].asnumpy()
    executor.arg_dict["dense_bias"][:] += 1
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), before + 1, atol=2e-3)


def test_a_cast_to_half_precision_rounds() -> None:
    x = mx.sym.Cast(mx.sym.Cast(mx.sym.var("x"), dtype="float16"), dtype="float32")
    executor = (x * 1).bind(mx.cpu(), {"x": mx.nd.array([1 + 2**-12, 70000])})
    assert executor.forward()[0].asnumpy().tolist() == [1, np.inf]


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_halves_add_up(dtype: str) -> None:
    """For a parameter used twice, over two passes that add, through a view of it."""
    x = mx.sym.var("x", dtype=dtype)
    y = x * mx.sym.relu(x) + mx.sym.Reshape(x, shape=(1, 2)).reshape((2,))
    value, grad = mx.nd.array([2, -3], dtype=dtype), mx.nd.zeros((2,), dtype=dtype)
    executor = y.bind(mx.cpu(), {"x": value}, {"x": grad}, grad_req="add")
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.array([1, 10], dtype=dtype))
    assert executor.outputs[0].astype("float32").asnumpy().tolist() == [6, -3]
    assert grad.astype("float32").asnumpy().tolist() == [10, 20]


@needs_kernels
def test_head_gradients_are_converted_only_for_operators() -> None:
    cast = mx.sym.Cast(mx.sym.var("x"), dtype="float16")
    for head, is_converted in ((cast, False), (mx.sym.relu(cast), True)):
        executor = head.simple_bind(mx.cpu(), x=(4, 8))
        executor.forward(is_train=True, x=np.ones((4, 8)))
        executor.backward(mx.nd.full((4, 8), 2, dtype="float16"))
        program = _plan(executor).compiled.program
        (given,) = program.head_gradients
        assert program.values[given].dtype == np.float16
        readers = [step.op for step in program.backward_steps if given in step.reads()]
        assert [isinstance(op, Copy) for op in readers] == [is_converted]
        assert (executor.grad_dict["x"].asnumpy() == 2).all()


def test_custom_operators_see_the_graphs_dtype() -> None:
    seen = []

    class Same(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux) -> None:
            seen.append(in_data[0].dtype)
            self.assign(out_data[0], req[0], in_data[0])

    @mx.operator.register("same_in_test_widen")
    class SameProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes) -> Same:
            return Same()

    x = mx.sym.relu(mx.sym.Cast(mx.sym.var("x"), dtype="float16"))
    x = mx.sym.relu(mx.sym.Custom(x, op_type="same_in_test_widen"))
    executor = x.bind(mx.cpu(), {"x": mx.nd.array([-1, 2])})
    assert executor.forward()[0].asnumpy().tolist() == [0, 2]
    assert seen == [np.float16]
    assert executor.outputs[0].dtype is np.float16


def test_float32_graphs_are_not_changed() -> None:
    executor = _executor("float32", grad_req="null")
    executor.forward()
    assert not any(is_half(v.dtype) for v in _plan(executor).compiled.program.values)
