"""How executors run loops and branches: compiled bodies, random numbers, dtypes, errors."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import compile_graph
from core.errors import StageError
from core.executor import body as bodies
from core.ops import get_operator
from core.ops.control_flow import Foreach
from core.ops.operator import Run
from core.random import device_random
from core.symbol import Symbol

Shapes = Mapping[str, tuple[int, ...]]


def _bound(symbol: Symbol, shapes: Shapes, dtype: str = "float32", **options: Any) -> Any:
    """Bind random arguments, the same for the same names and shapes."""
    types = dict.fromkeys(symbol.list_arguments(), dtype)
    executor = symbol.simple_bind(mx.cpu(), type_dict=types, **options, **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.RandomState(len(name)).normal(size=array.shape)
    return executor


def _train(executor: Any) -> list[np.ndarray]:
    """Return outputs and gradients of a pass whose head gradients are ones."""
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.ones(one.shape, dtype=one.dtype) for one in outputs])
    gradients = [one for one in executor.grad_arrays if one is not None]
    return [one.asnumpy().copy() for one in (*outputs, *gradients)]


def _step(x: Any, state: Any) -> Any:
    hidden = mx.sym.FullyConnected(x, num_hidden=4, name="fc") + state
    hidden = mx.sym.Activation(hidden, act_type="tanh")
    return hidden, hidden


def _loop(steps: int) -> Symbol:
    out, state = mx.sym.contrib.foreach(_step, mx.sym.var("x"), mx.sym.var("s"))
    return mx.sym.Group([out, state])


def _unrolled(steps: int) -> Symbol:
    weight, bias = mx.sym.var("fc_weight"), mx.sym.var("fc_bias")
    state, outs = mx.sym.var("s"), []
    for x in mx.sym.split(mx.sym.var("x"), axis=0, num_outputs=steps, squeeze_axis=True):
        state = mx.sym.FullyConnected(x, weight, bias, num_hidden=4) + state
        state = mx.sym.Activation(state, act_type="tanh")
        outs.append(state)
    return mx.sym.Group([mx.sym.stack(*outs, axis=0), state])


_SHAPES: Shapes = {"x": (5, 2, 3), "s": (2, 4)}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_a_loop_matches_its_unrolled_steps(dtype: str, tolerance: float) -> None:
    loop, unrolled = _bound(_loop(5), _SHAPES, dtype), _bound(_unrolled(5), _SHAPES, dtype)
    expected = dict(zip(unrolled.arg_dict, _train(unrolled)[2:], strict=True))
    found = _train(loop)
    for one, other in zip(found[:2], unrolled.outputs, strict=True):
        np.testing.assert_allclose(one, other.asnumpy(), tolerance, tolerance)
    for name, gradient in zip(loop.arg_dict, found[2:], strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, expected[name], tolerance, tolerance)


def test_half_precision_is_close_to_float32() -> None:
    half = _train(_bound(_loop(5), _SHAPES, "float16"))
    single = _train(_bound(_loop(5), _SHAPES))
    for one, other in zip(half, single, strict=True):
        assert one.dtype == np.float16
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)


def test_data_and_states_may_differ_in_dtype() -> None:
    def step(x: Any, states: Any) -> Any:
        count, total = states
        out = mx.sym.cast(x, "float32") * mx.sym.cast(count, "float32") + total
        return out, [count * 2, out]

    outs, states = mx.sym.contrib.foreach(step, mx.sym.var("x"), [mx.sym.var("n"), mx.sym.var("t")])
    symbol = mx.sym.Group([outs, *states])
    arrays = {
        "x": mx.nd.array([[1], [2]], dtype="float16"),
        "n": mx.nd.array([3], dtype="int32"),
        "t": mx.nd.array([0.5]),
    }
    gradients = {name: mx.nd.zeros((2, 1), dtype="float16") for name in ("x",)}
    gradients["t"] = mx.nd.zeros((1,))
    executor = symbol.bind(mx.cpu(), arrays, args_grad=gradients)
    outs, count, total = executor.forward(is_train=True)
    assert (count.dtype, count.asnumpy().tolist()) == (np.int32, [12])
    assert (total.dtype, total.asnumpy().tolist()) == (np.float32, [15.5])
    executor.backward([mx.nd.ones((2, 1)), mx.nd.ones((1,), dtype="int32"), mx.nd.ones((1,))])
    assert gradients["x"].asnumpy().tolist() == [[9], [12]]
    assert gradients["t"].asnumpy().tolist() == [3]


def test_each_gradient_computed_alone_is_the_same() -> None:
    every = _bound(_loop(5), _SHAPES)
    expected = dict(zip(every.arg_dict, _train(every)[2:], strict=True))
    for name in every.arg_dict:
        one = _bound(_loop(5), _SHAPES, grad_req={name: "write"})
        np.testing.assert_allclose(_train(one)[2], expected[name], rtol=1e-6)


def test_a_body_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def count(graph: Any, *args: Any, **kwargs: Any) -> Any:
        compiled.append(graph)
        return compile_graph(graph, *args, **kwargs)

    monkeypatch.setattr(bodies, "compile_graph", count)
    executor = _bound(_loop(5), _SHAPES)
    assert len(compiled) == 2  # once with its backward pass and once without, when it was bound
    first = _train(executor)
    for one, other in zip(_train(executor), first, strict=True):
        np.testing.assert_array_equal(one, other)
    executor.forward(is_train=False)
    assert len(compiled) == 3
    _train(executor)
    executor.forward(is_train=False)
    assert len(compiled) == 3


def test_steady_training_allocates_nothing() -> None:
    executor = _bound(_loop(30), {"x": (30, 16, 32), "s": (16, 4)})
    heads = [mx.nd.ones(one.shape) for one in executor.outputs]
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward(heads)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        executor.forward(is_train=True)
        executor.backward(heads)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 16_000  # a state of all steps has 7,680 bytes, the data 61,440
    assert executor.memory_report().arena >= executor.memory_report().plans["training"].arena


def test_a_loop_may_appear_twice_in_a_graph() -> None:
    net, _ = mx.sym.contrib.foreach(_step, mx.sym.var("x"), mx.sym.var("s"))
    joined = mx.sym.Group([net(x=mx.sym.var("a")), net(x=mx.sym.var("b"))])
    shapes = {"a": (5, 2, 3), "b": (5, 2, 3), "s": (2, 4)}
    with pytest.raises(ValueError, match="Duplicate names"):
        _ = joined.simple_bind(mx.cpu(), **shapes).arg_dict
    random = np.random.RandomState(0)
    names = joined.list_arguments()
    arrays = [mx.nd.array(random.normal(size=shape)) for shape in joined.infer_shape(**shapes)[0]]
    executor = joined.bind(mx.cpu(), arrays, args_grad=[one.copy() for one in arrays])
    found = executor.forward(is_train=True)
    executor.backward([mx.nd.ones((5, 2, 4))] * 2)
    for which in ("a", "b"):
        start = 0 if which == names[0] else len(names) // 2
        part = net.bind(
            mx.cpu(), arrays[start : start + 4], args_grad=[one.copy() for one in arrays[:4]]
        )
        np.testing.assert_array_equal(
            part.forward(is_train=True)[0].asnumpy(), found[start // 4].asnumpy()
        )
        part.backward(mx.nd.ones((5, 2, 4)))
        for one, other in zip(part.grad_arrays, executor.grad_arrays[start:], strict=False):
            np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def test_changed_weights_take_effect() -> None:
    executor = _bound(_loop(5), _SHAPES)
    for _ in range(2):
        executor.forward(is_train=False)
    executor.arg_dict["fc_weight"][:] = 0
    executor.arg_dict["fc_bias"][:] = 0
    executor.arg_dict["s"][:] = 0
    assert not executor.forward(is_train=False)[0].asnumpy().any()


def test_loops_reshape_and_share_memory() -> None:
    executor = _bound(_loop(5), _SHAPES)
    first = _train(executor)
    shorter = executor.reshape(x=(3, 2, 3))
    _train(shorter)
    shared = _loop(5).bind(
        mx.cpu(), executor.arg_arrays, args_grad=executor.grad_arrays, shared_exec=executor
    )
    _train(shared)
    for one, other in zip(_train(executor), first, strict=True):
        np.testing.assert_array_equal(one, other)
    executor.forward(is_train=True)
    shorter.forward(is_train=True)
    with pytest.raises(StageError, match="are gone"):
        executor.backward([mx.nd.ones((5, 2, 4)), mx.nd.ones((2, 4))])


def test_a_monitor_sees_the_loop_as_one_operator() -> None:
    executor = _bound(_loop(5), _SHAPES)
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, _: seen.append(name))
    watched = _train(executor)
    assert [name.split("_", 2)[2] for name in seen] == [
        "output0",
        "output1",
        *(f"backward_output{index}" for index in range(4)),
    ]
    executor.set_monitor_callback(None)
    for one, other in zip(_train(executor), watched, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# -- random numbers ---------------------------------------------------------------------


def _dropped(x: Any, state: Any) -> Any:
    out = mx.sym.Dropout(x, p=0.5)
    return out, state + out


def _check_dropped(executor: Any, count: int) -> None:
    """Check that gradients are non-zero exactly where outputs are: the masks agree."""
    out, state, gradient, _ = _train(executor)
    kept = out != 0
    assert 0 < kept.sum() < count
    assert len({one.tobytes() for one in kept}) > 1
    np.testing.assert_array_equal(gradient, np.where(kept, 4, 0))
    np.testing.assert_allclose(state, out.sum(axis=0), rtol=1e-5)


def test_the_backward_pass_repeats_the_forward_passes_random_numbers() -> None:
    out, state = mx.sym.contrib.foreach(_dropped, mx.sym.var("x"), mx.sym.var("s"))
    executor = mx.sym.Group([out, state]).simple_bind(mx.cpu(), x=(20, 5), s=(5,))
    executor.arg_dict["x"][:] = 1
    mx.random.seed(3)
    _check_dropped(executor, 100)
    after = device_random(mx.cpu()).get_state()
    mx.random.seed(3)
    executor.forward(is_train=True)
    assert device_random(mx.cpu()).get_state() == after


def test_nested_loops_and_branches_repeat_their_random_numbers() -> None:
    def outer(x: Any, state: Any) -> Any:
        return mx.sym.contrib.cond(
            mx.sym.sum(x) > 0,
            lambda: list(mx.sym.contrib.foreach(_dropped, x, state)),
            lambda: [x, state],
        )

    out, state = mx.sym.contrib.foreach(outer, mx.sym.var("x"), mx.sym.var("s"))
    executor = mx.sym.Group([out, state]).simple_bind(mx.cpu(), x=(3, 4, 5), s=(5,))
    executor.arg_dict["x"][:] = 1
    out, state, gradient, _ = _train(executor)
    assert 0 < (out != 0).sum() < 60
    np.testing.assert_array_equal(gradient, np.where(out != 0, 4, 0))
    np.testing.assert_allclose(state, out.sum(axis=(0, 1)), rtol=1e-5)


def test_custom_operators_repeat_their_random_numbers() -> None:
    class Noise(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            noise = mx.nd.random.uniform(shape=in_data[0].shape)
            self.assign(out_data[0], req[0], in_data[0] * noise)

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * out_data[0] / in_data[0])

    class NoiseProp(mx.operator.CustomOpProp):
        def create_operator(self, *_: Any) -> Any:
            return Noise()

    mx.operator.register("test_control_flow_noise")(NoiseProp)
    out, _ = mx.sym.contrib.foreach(
        lambda x, _: (mx.sym.Custom(x, op_type="test_control_flow_noise"), []), mx.sym.var("x"), []
    )
    executor = out.simple_bind(mx.cpu(), x=(4, 3))
    executor.arg_dict["x"][:] = 2
    out, gradient = _train(executor)
    assert len(set(out.ravel())) == 12
    np.testing.assert_allclose(gradient, out / 2, rtol=1e-6)


# -- while loops ------------------------------------------------------------------------


def _halving(condition: Callable[[Any], Any]) -> Any:
    return mx.sym.contrib.while_loop(
        condition, lambda x: (x * 3, x * 0.5), mx.sym.var("x"), max_iterations=6
    )


def test_rows_after_the_last_iteration_are_zero() -> None:
    out, final = _halving(lambda x: mx.sym.sum(x) > 1)
    executor = mx.sym.Group([out, final]).simple_bind(mx.cpu(), x=(1,))
    for start, expected in ((32, [96, 48, 24, 12, 6, 0]), (4, [12, 6, 0, 0, 0, 0]), (1, [0] * 6)):
        executor.arg_dict["x"][:] = start
        out, final, gradient = _train(executor)
        count = np.count_nonzero(expected)
        assert out[:, 0].tolist() == expected
        assert final.tolist() == [start * 0.5**count]
        assert gradient.tolist() == [0.5**count + 3 * sum(0.5**i for i in range(count))]


def test_the_condition_may_read_variables_the_body_does_not() -> None:
    out, final = _halving(lambda x: mx.sym.sum(x) > mx.sym.sum(mx.sym.var("bound")))
    executor = mx.sym.Group([out, final]).simple_bind(mx.cpu(), x=(1,), bound=(2,))
    executor.arg_dict["x"][:] = 8
    executor.arg_dict["bound"][:] = 1
    executor.grad_dict["bound"][:] = 7
    _train(executor)
    assert executor.outputs[1].asnumpy().tolist() == [2]
    assert executor.grad_dict["bound"].asnumpy().tolist() == [0, 0]


# -- branches ---------------------------------------------------------------------------


def test_only_the_chosen_branch_runs() -> None:
    seen: list[str] = []

    class Seen(mx.operator.CustomOp):
        def __init__(self, which: str) -> None:
            self.which = which

        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            seen.append(self.which)
            self.assign(out_data[0], req[0], in_data[0])

    class SeenProp(mx.operator.CustomOpProp):
        def __init__(self, which: str) -> None:
            super().__init__()
            self.which = which

        def create_operator(self, *_: Any) -> Any:
            return Seen(self.which)

    mx.operator.register("test_control_flow_seen")(SeenProp)

    def branch(which: str) -> Callable[[], Any]:
        return lambda: mx.sym.Custom(x, op_type="test_control_flow_seen", which=which)

    x = mx.sym.var("x")
    symbol = mx.sym.contrib.cond(mx.sym.sum(x) > 0, branch("yes"), branch("no"))
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", x=(2,))
    for value in (1, -1):
        executor.arg_dict["x"][:] = value
        assert executor.forward()[0].asnumpy().tolist() == [value, value]
    assert seen == ["yes", "no"]


def test_branch_outputs_may_be_variables_and_share_an_input() -> None:
    x = mx.sym.var("x")
    symbol = mx.sym.contrib.cond(mx.sym.sum(x) > 0, lambda: [x, x * x], lambda: [x, x])
    executor = mx.sym.Group([*symbol, x * 1]).simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = 3
    assert _train(executor)[-1].tolist() == [1 + 6 + 1] * 2
    executor.arg_dict["x"][:] = -3
    assert _train(executor)[-1].tolist() == [3, 3]


# -- modules ----------------------------------------------------------------------------


def test_a_module_trains_a_loop() -> None:
    random = np.random.RandomState(1)
    data = random.normal(size=(64, 6, 3)).astype("float32")
    label = (data.sum(axis=(1, 2)) > 0).astype("float32")
    x = mx.sym.SwapAxis(mx.sym.var("data"), dim1=0, dim2=1)
    _, state = mx.sym.contrib.foreach(_step, x, mx.sym.zeros((16, 4)), name="layer")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(state, num_hidden=2), name="softmax")
    module = mx.mod.Module(net)
    mx.random.seed(5)
    batches = mx.io.NDArrayIter(data, label, 16)
    module.fit(
        batches,
        num_epoch=30,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.03},
        initializer=mx.init.Xavier(),
    )
    assert dict(module.score(batches, "acc"))["accuracy"] > 0.9
    again = mx.mod.Module(mx.sym.load_json(net.tojson()))
    again.bind(batches.provide_data, for_training=False)
    again.set_params(*module.get_params())
    np.testing.assert_array_equal(
        again.predict(batches).asnumpy(), module.predict(batches).asnumpy()
    )


def test_moving_averages_in_a_body_are_updated_in_backward() -> None:
    def step(x: Any, s: Any) -> Any:
        return mx.sym.BatchNorm(x, name="bn", momentum=0.5), s + 1

    out, _ = mx.sym.contrib.foreach(step, mx.sym.var("x"), mx.sym.var("s"))
    assert out.list_auxiliary_states() == []  # as in MXNet, which cannot train such a loop
    executor = out.simple_bind(mx.cpu(), x=(3, 2, 4), s=(1,))
    x = np.arange(24).reshape(3, 2, 4)
    executor.arg_dict["x"][:] = x
    executor.arg_dict["bn_moving_var"][:] = 1
    expected = x / np.sqrt(1 + 1e-3)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), expected, rtol=1e-5)
    mean = np.zeros(4)
    for _ in range(2):
        executor.forward(is_train=True)
        np.testing.assert_allclose(executor.arg_dict["bn_moving_mean"].asnumpy(), mean, rtol=1e-5)
        executor.backward(mx.nd.ones((3, 2, 4)))
        for batch in x[::-1]:
            mean = 0.5 * mean + 0.5 * batch.mean(axis=0)
    np.testing.assert_allclose(executor.arg_dict["bn_moving_mean"].asnumpy(), mean, rtol=1e-5)
    np.testing.assert_array_equal(executor.grad_dict["bn_moving_mean"].asnumpy(), np.zeros(4))
    variance = executor.arg_dict["bn_moving_var"].asnumpy()
    expected = (x - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), expected, rtol=1e-4)


# -- what is refused --------------------------------------------------------------------


class _Counting(mx.operator.CustomOp):
    """Counts its forward passes in an auxiliary state."""

    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0])

    def backward(
        self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
    ) -> None:
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("counting_in_a_loop")
class _CountingProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self) -> list[str]:
        return ["count"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, in_shape, [(1,)]

    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> _Counting:
        return _Counting()


def test_states_updated_in_forward_change_once_an_iteration() -> None:
    def step(x: Any, s: Any) -> Any:
        return mx.sym.Custom(x, op_type="counting_in_a_loop", name="custom"), s + 1

    out, _ = mx.sym.contrib.foreach(step, mx.sym.var("x"), mx.sym.var("s"))
    grad_req = {"x": "write", "s": "null", "custom_count": "null"}
    executor = out.simple_bind(mx.cpu(), grad_req=grad_req, x=(3, 2), s=(1,))
    for passes in (1, 2):
        executor.forward(is_train=True)
        assert executor.arg_dict["custom_count"].asnumpy() == [3 * passes]
        executor.backward(mx.nd.ones((3, 2)))
        assert executor.arg_dict["custom_count"].asnumpy() == [3 * passes]
        assert executor.grad_dict["x"].asnumpy().tolist() == [[1, 1]] * 3


def test_each_branch_updates_only_its_own_states() -> None:
    x = mx.sym.var("x")
    out = mx.sym.contrib.cond(
        mx.sym.var("choice"),
        lambda: mx.sym.Custom(x, op_type="counting_in_a_loop", name="custom"),
        lambda: x * 2,
    )
    grad_req = {"x": "write", "choice": "null", "custom_count": "null"}
    executor = out.simple_bind(mx.cpu(), grad_req=grad_req, x=(2,), choice=(1,))
    for choice, count, gradient in ((0, 0, 2), (1, 1, 1), (0, 1, 2), (1, 2, 1)):
        executor.forward(is_train=True, choice=mx.nd.array([choice]))
        executor.backward(mx.nd.ones((2,)))
        assert executor.arg_dict["custom_count"].asnumpy() == [count]
        assert executor.grad_dict["x"].asnumpy().tolist() == [gradient] * 2


def test_loops_outside_an_executor_are_refused() -> None:
    symbol = _loop(5)
    op = symbol._heads[0].node.op
    assert isinstance(op, Foreach)
    assert get_operator("_foreach") is Foreach
    run = Run(np, False, device_random(mx.cpu()), np.empty)
    with pytest.raises(StageError, match="in executors only"):
        op.forward(run, [np.zeros((1, 1), "float32")] * 4, [np.zeros((1,), "float32")] * 3)
