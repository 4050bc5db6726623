"""Maximum pooling is moved before activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.primitives import Reorder
from core.executor import bind
from core.executor.executor import Executor
from core.kernels.onednn import is_available

Symbol = mx.sym.Symbol
AS_WRITTEN = CompileOptions(rewrite=False, table=None)
DATA = mx.sym.Variable("data")
SHAPE = (2, 6, 8, 10)
INF, NAN = np.inf, np.nan
LOWEST = np.finfo("float32").min


def activated(act_type: str, data: Symbol = DATA) -> Symbol:
    return mx.sym.Activation(data, act_type=act_type, name="act")


def pooled(data: Symbol, **others: object) -> Symbol:
    attributes = {"kernel": (2, 2), "stride": (2, 2), "pool_type": "max", **others}
    return mx.sym.Pooling(data, name="pool", **attributes)


def norm(data: Symbol = DATA) -> Symbol:
    return mx.sym.BatchNorm(data, fix_gamma=False, name="norm")


def convolution(data: Symbol = DATA) -> Symbol:
    return mx.sym.Convolution(data, num_filter=4, kernel=(3, 3), name="conv")


def bound(
    symbol: Symbol,
    data: np.ndarray,
    options: CompileOptions | None = None,
    requests: str = "write",
) -> Executor:
    shapes, _, states = symbol.infer_shape(data=data.shape)
    rng = np.random.default_rng(1)

    def drawn(name: str, shape: tuple[int, ...]) -> mx.nd.NDArray:
        values = data if name == "data" else rng.uniform(0.5, 1.5, shape)
        return mx.nd.array(values, dtype=data.dtype)

    arguments = {n: drawn(n, s) for n, s in zip(symbol.list_arguments(), shapes, strict=True)}
    auxiliary = symbol.list_auxiliary_states()
    return bind(
        symbol,
        mx.cpu(),
        arguments,
        {name: mx.nd.zeros_like(array) for name, array in arguments.items()},
        requests,
        aux_states={n: drawn(n, s) for n, s in zip(auxiliary, states, strict=True)},
        options=options,
    )


def results(executor: Executor) -> list[np.ndarray]:
    """Return the outputs of inference, those of a training step, and its gradients."""
    rng = np.random.default_rng(2)
    inference = [one.asnumpy() for one in executor.forward(is_train=False)]
    outputs = executor.forward(is_train=True)
    dtype = outputs[0].dtype
    heads = [mx.nd.array(rng.standard_normal(one.shape), dtype=dtype) for one in outputs]
    executor.backward(heads)
    return [*inference, *(one.asnumpy() for one in (*outputs, *executor.grad_arrays))]


def steps(executor: Executor, *, is_train: bool) -> list[str]:
    """Return the names of the operators of a forward pass, without changes of layout."""
    executor.forward(is_train=is_train)
    (plan,) = (plan for mode, plan in executor._plans.items() if mode.is_train is is_train)
    names = (step.op.names[0] for step in plan.compiled.program.forward_steps)
    return [name for name in names if name != Reorder.names[0]]


def order(symbol: Symbol, data: np.ndarray | None = None, *, is_train: bool = True) -> list[str]:
    """Return the operators of a forward pass, after comparing all results with the graph's."""
    if data is None:
        data = np.random.default_rng(3).standard_normal(SHAPE).astype("float32")
    executor = bound(symbol, data)
    expected = results(bound(symbol, data, AS_WRITTEN))
    for one, other in zip(results(executor), expected, strict=True):
        rms = np.sqrt(np.mean(np.square(other)))
        assert (np.abs(one - other) <= 1e-5 * (np.abs(other) + rms)).all()
    return steps(executor, is_train=is_train)


def is_moved(symbol: Symbol, data: np.ndarray | None = None, *, is_train: bool = True) -> bool:
    names = order(symbol, data, is_train=is_train)
    assert names.count("Pooling") == 1
    return names[-1] != "Pooling"


@pytest.mark.parametrize(
    "symbol",
    [
        activated("relu"),
        activated("sigmoid"),
        activated("softrelu"),
        activated("tanh"),
        mx.sym.relu(DATA),
        mx.sym.sigmoid(DATA),
        mx.sym.tanh(DATA),
        mx.sym.LeakyReLU(DATA, act_type="elu", slope=1.5),
    ],
    ids=lambda symbol: symbol.list_outputs()[0],
)
def test_pooling_moves_before_a_function_that_keeps_the_maximum(symbol: Symbol) -> None:
    assert is_moved(pooled(symbol))


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"kernel": (3, 3)}, SHAPE),
        ({"kernel": (3, 3), "pad": (1, 1)}, SHAPE),
        ({"kernel": (3, 3), "pooling_convention": "full"}, SHAPE),
        ({"kernel": (2,), "stride": (2,)}, (2, 6, 9)),
        ({"kernel": (3,), "stride": (2,), "pooling_convention": "same"}, (2, 6, 10)),
        ({"kernel": (2, 2, 2), "stride": (2, 2, 2)}, (2, 3, 4, 6, 8)),
        ({"layout": "NHWC"}, (2, 8, 10, 6)),
        ({"kernel": (3, 3), "pad": (1, 1), "layout": "NHWC"}, (2, 8, 10, 6)),
        ({"global_pool": True}, SHAPE),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pooling_moves_whatever_its_windows(
    attributes: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> None:
    data = np.random.default_rng(4).standard_normal(shape).astype(dtype)
    assert is_moved(pooled(activated("tanh"), **attributes), data)


def test_pooling_moves_before_several_functions() -> None:
    symbol = pooled(activated("relu", mx.sym.tanh(DATA)))
    assert order(symbol) == ["Pooling", "tanh", "Activation"]


@pytest.mark.parametrize("act_type", ["relu", "sigmoid", "softrelu", "tanh"])
def test_equal_numbers_get_the_same_gradients(act_type: str) -> None:
    whole = np.random.default_rng(5).integers(-2, 3, SHAPE)
    for data in (whole, np.zeros(SHAPE), np.full(SHAPE, 1e10), np.full(SHAPE, -1e10)):
        assert is_moved(pooled(activated(act_type)), data.astype("float32"))


@pytest.mark.parametrize("act_type", ["relu", "sigmoid", "softrelu", "tanh"])
@pytest.mark.parametrize("scale", [1, 3, 10, 100])
def test_gradients_of_large_numbers_change_no_more_than_by_rounding(
    act_type: str, scale: float
) -> None:
    # A few of many elements get another one's gradient, which is small there: no error by element.
    data = scale * np.random.default_rng(5).standard_normal((4, 16, 32, 32)).astype("float32")
    symbol = pooled(activated(act_type))
    got, expected = (results(bound(symbol, data, one))[-1] for one in (None, AS_WRITTEN))
    assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("act_type", ["relu", "sigmoid", "softrelu", "tanh"])
def test_infinities_give_what_they_gave(act_type: str) -> None:
    windows = [[-INF] * 4, [-INF, -INF, INF, 1], [INF, -INF, INF, 2], [-1, -INF, -2, -INF]]
    data = np.array(windows, "float32").reshape(1, 4, 2, 2)
    symbol = pooled(activated(act_type))
    executor = bound(symbol, data)
    expected = results(bound(symbol, data, AS_WRITTEN))
    for one, other in zip(results(executor), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert steps(executor, is_train=True) == ["Pooling", "Activation"]


def test_a_relu_without_nan_gives_what_it_gave_for_nan() -> None:
    data = np.array([[NAN] * 4, [NAN, -1, 2, NAN], [-1, NAN, NAN, -2]], "float32")
    data, symbol = data.reshape(1, 3, 2, 2), pooled(activated("relu"))
    for one, other in zip(
        results(bound(symbol, data)), results(bound(symbol, data, AS_WRITTEN)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_nan_is_ignored_and_a_window_of_nothing_else_counts_as_the_lowest_number() -> None:
    data = np.array([[NAN, 2, NAN, 1], [NAN] * 4], "float32").reshape(1, 2, 2, 2)
    symbol = pooled(activated("tanh"))
    for options, nothing in ((AS_WRITTEN, LOWEST), (None, -1)):
        (out,) = bound(symbol, data, options).forward(is_train=False)
        np.testing.assert_allclose(out.asnumpy().ravel(), [np.tanh(2), nothing], rtol=1e-6)


@pytest.mark.parametrize(
    "symbol",
    [
        activated("softsign"),  # of infinity it is NaN
        mx.sym.clip(DATA, 0, 1),  # its slope at 0 is 1, also where negative numbers give 0
        mx.sym.LeakyReLU(DATA, act_type="leaky", slope=0.25),  # not the same of -inf and LOWEST
        mx.sym.LeakyReLU(DATA, act_type="gelu"),
        mx.sym.LeakyReLU(DATA, act_type="elu", slope=-0.5),
        mx.sym.square(DATA),
        mx.sym.Dropout(DATA, p=0.0),
        DATA * 2,
    ],
    ids=["softsign", "clip", "leaky", "gelu", "elu", "square", "dropout", "linear"],
)
def test_other_functions_keep_their_place(symbol: Symbol) -> None:
    assert not is_moved(pooled(symbol))


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"pool_type": "avg"}, SHAPE),
        ({"pool_type": "sum"}, SHAPE),
        ({"pool_type": "lp", "p_value": 2}, SHAPE),
        ({"stride": (1, 1)}, SHAPE),
        ({"kernel": (1, 3), "stride": (1, 1)}, SHAPE),
    ],
    ids=["avg", "sum", "lp", "overlapping", "hardly smaller"],
)
def test_other_poolings_keep_their_place(
    attributes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    assert not is_moved(pooled(activated("sigmoid"), **attributes))


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel": (2, 2), "stride": (4, 4), "pad": (1, 1), "pooling_convention": "full"},
        {"kernel": (1, 1), "stride": (3, 3), "pad": (1, 1)},
    ],
    ids=["behind the data", "before the data"],
)
def test_windows_of_nothing_but_padding_keep_the_lowest_number(attributes: dict[str, Any]) -> None:
    data = np.random.default_rng(6).standard_normal((1, 2, 6, 6)).astype("float32")
    symbol = pooled(activated("tanh"), **attributes)
    executor = bound(symbol, data)
    (out,) = executor.forward(is_train=False)
    assert out.asnumpy().min() == LOWEST
    assert steps(executor, is_train=True) == ["Activation", "Pooling"]


def test_a_function_that_others_read_keeps_its_place() -> None:
    first = activated("tanh")
    for symbol in (
        mx.sym.Group([mx.sym.exp(first), pooled(first)]),
        mx.sym.Group([first, pooled(first)]),
    ):
        assert not is_moved(symbol)


def test_a_monitor_sees_the_function_and_the_pooling() -> None:
    data = np.random.default_rng(7).standard_normal(SHAPE).astype("float32")
    executor = bound(pooled(activated("tanh")), data)
    seen = {}
    executor.set_monitor_callback(lambda name, values: seen.update({name: values.asnumpy()}))
    executor.forward(is_train=True)
    np.testing.assert_allclose(seen["act_output"], np.tanh(data), rtol=1e-6)
    assert seen["pool_output"].shape == (2, 6, 4, 5)


def test_a_relu_moves_only_in_plans_with_a_backward_pass() -> None:
    symbol = pooled(activated("relu"))
    data = np.ones(SHAPE, "float32")
    assert steps(bound(symbol, data), is_train=True) == ["Pooling", "Activation"]
    assert steps(bound(symbol, data), is_train=False) == ["Activation", "Pooling"]
    assert steps(bound(symbol, data, requests="null"), is_train=True) == ["Activation", "Pooling"]


def test_a_transcendental_function_moves_in_inference_too() -> None:
    assert is_moved(pooled(activated("tanh")), is_train=False)


@pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")
def test_a_relu_stays_in_the_layer_that_it_is_fused_with() -> None:
    data = np.random.default_rng(8).standard_normal(SHAPE).astype("float32")
    trained = steps(bound(pooled(activated("relu", norm())), data), is_train=True)
    assert trained == ["_plan_batch_norm_activation", "Pooling"]
    predicted = steps(bound(pooled(activated("relu", convolution())), data), is_train=False)
    assert predicted == ["_plan_convolution", "Pooling"]


def test_a_function_that_is_not_fused_with_a_batch_norm_moves() -> None:
    assert order(pooled(activated("tanh", norm()))) == ["BatchNorm", "Pooling", "Activation"]
    executor = bound(pooled(activated("relu", convolution())), np.ones(SHAPE, "float32"))
    names = steps(executor, is_train=True)
    assert names.index("Pooling") < names.index("Activation")
