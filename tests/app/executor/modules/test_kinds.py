"""The kinds of modules on their executor: fixed parameters, accepted shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import BindSpec, InitSpec, InputDesc, ModuleKind, ModuleRecord, OptimizerSpec
from app.link import calls

PERCEPTRON = ["fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]


def fully_convolutional() -> mx.sym.Symbol:
    """Return a network for images of any size."""
    net = mx.sym.Variable("data")
    net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=4, name="conv")
    net = mx.sym.Activation(net, act_type="relu")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def fixed(driver: Any) -> list[str]:
    return [row["name"] for row in driver.describe()["arguments"] if row["fixed"]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"fixed_param_patterns": ("fc1",)}, ["fc1_weight", "fc1_bias"]),
        ({"fixed_param_patterns": ("bias", "fc1")}, ["fc1_weight", "fc1_bias", "fc2_bias"]),
        (
            {"fixed_param_patterns": ("fc",), "excluded_param_patterns": ("weight",)},
            ["fc1_bias", "fc2_bias"],
        ),
        (
            {"fixed_param_names": ("fc2_weight",), "fixed_param_patterns": ("fc1_b",)},
            ["fc1_bias", "fc2_weight"],
        ),
        (
            {
                "kind": ModuleKind.DETECTION,
                "fixed_param_patterns": ("fc",),
                "excluded_param_patterns": ("2_",),
            },
            ["fc1_weight", "fc1_bias"],
        ),
        (
            {"kind": ModuleKind.MUTABLE, "fixed_param_patterns": ("fc1",)},
            ["fc1_weight", "fc1_bias"],
        ),
    ],
)
def test_fixed_parameters_are_not_trained(
    driver: Any, make_network: Any, toy_data: Any, changes: Any, expected: list[str]
) -> None:
    driver.create(make_network(), **changes)
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    spec = OptimizerSpec(options={"learning_rate": 0.1})
    driver.ask(calls.InitOptimizer(module="net", spec=spec))
    before = driver.params()
    batch = {name: values[:8] for name, values in toy_data.items()}
    driver.ask(calls.Forward(module="net", backward=True), **batch)
    driver.ask(calls.Update(module="net"))
    after = driver.params()
    moved = [name for name in PERCEPTRON if not np.array_equal(before[name], after[name])]
    assert fixed(driver) == expected
    assert sorted(moved) == sorted(set(PERCEPTRON) - set(expected))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"fixed_param_patterns": ("fc3",)}, "fixed_param_patterns"),
        ({"fixed_param_patterns": ("",)}, "fixed_param_patterns"),
        ({"excluded_param_patterns": ("data",)}, "excluded_param_patterns"),
        (
            {"kind": ModuleKind.MUTABLE, "fixed_param_names": ("fc1_bias",)},
            "fixed_param_names",
        ),
        (
            {"kind": ModuleKind.MUTABLE, "excluded_param_patterns": ("fc1",)},
            "excluded_param_patterns",
        ),
        ({"kind": ModuleKind.DETECTION, "state_names": ("fc1_bias",)}, "state_names"),
        ({"compression_params": {"type": "2bit"}}, "compression_params"),
        (
            {"compression_params": {"type": "1bit"}, "contexts": ("cpu(0)", "cpu(1)")},
            "compression_params",
        ),
        (
            {
                "compression_params": {"type": "2bit", "treshold": 1},
                "contexts": ("cpu(0)", "cpu(1)"),
            },
            "compression_params",
        ),
    ],
)
def test_what_a_kind_does_not_support_is_refused(
    driver: Any, make_network: Any, changes: Any, field: str
) -> None:
    record = ModuleRecord(name="net", symbols={"null": make_network().tojson()}, **changes)
    assert driver.refusal(calls.CreateModule(record=record)).field_name == field


def test_gradients_are_compressed(driver: Any, make_network: Any) -> None:
    """Each element that arrives is a multiple of the threshold, as in MXNet's 2-bit scheme."""
    compression = {"type": "2bit", "threshold": 0.25}
    contexts = ("cpu(0)", "cpu(1)")
    driver.create(make_network(), contexts=contexts, compression_params=compression)
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(initializer="xavier", seed=1)))
    local = OptimizerSpec(options={"learning_rate": 1.0}, kvstore="local")
    refused = driver.refusal(calls.InitOptimizer(module="net", spec=local))
    assert refused.field_name == "kvstore"
    options = {"learning_rate": 1.0, "rescale_grad": 1.0}
    device = OptimizerSpec(options=options, kvstore="device")
    driver.ask(calls.InitOptimizer(module="net", spec=device))
    before = driver.params()
    data = np.random.RandomState(0).normal(size=(8, 6), scale=3)
    driver.ask(
        calls.Forward(module="net", backward=True), data=data, softmax_label=np.arange(8) % 3
    )
    driver.ask(calls.Update(module="net"))
    steps = {name: (value - before[name]) / 0.25 for name, value in driver.params().items()}
    assert max(np.abs(step).max() for step in steps.values()) >= 1
    for step in steps.values():
        np.testing.assert_allclose(step, np.round(step), atol=1e-4)


class TestMutable:
    """A module bound for images of 8 x 8 that accepts other sizes."""

    @pytest.fixture
    def mutable(self, driver: Any) -> Any:
        """The host, with the module ready."""
        driver.create(fully_convolutional(), kind=ModuleKind.MUTABLE)
        spec = BindSpec(
            data_shapes=(InputDesc(name="data", shape=(2, 1, 8, 8)),),
            label_shapes=(InputDesc(name="softmax_label", shape=(2,)),),
        )
        driver.ask(calls.Bind(module="net", spec=spec))
        driver.ask(calls.InitParams(module="net", spec=InitSpec(initializer="xavier", seed=1)))
        optimizer = OptimizerSpec(options={"learning_rate": 0.1})
        driver.ask(calls.InitOptimizer(module="net", spec=optimizer))
        return driver

    @pytest.mark.parametrize("size", [(8, 8), (5, 7), (12, 9), (3, 20)])
    def test_forward_and_predict_take_any_shape(self, mutable: Any, size: tuple[int, int]) -> None:
        x = np.random.RandomState(3).rand(2, 1, *size).astype(np.float32)
        expected = self.expected(mutable, x)
        _, stepped = mutable.ask(calls.Forward(module="net", is_train=False), data=x)
        np.testing.assert_allclose(stepped["softmax_output"], expected, rtol=1e-4)
        _, predicted = mutable.ask(calls.Predict(module="net"), data=x)
        np.testing.assert_allclose(predicted["softmax_output"], expected, rtol=1e-4)

    def test_training_continues_across_shapes(self, mutable: Any) -> None:
        before = mutable.params()
        for size in (8, 4, 11, 8):
            x = np.random.RandomState(size).rand(2, 1, size, size)
            call = calls.Forward(module="net", backward=True)
            mutable.ask(call, data=x, softmax_label=[0, 1])
            mutable.ask(calls.Update(module="net"))
        after = mutable.params()
        assert all(not np.array_equal(before[name], after[name]) for name in before)
        x = np.random.RandomState(5).rand(3, 1, 6, 10).astype(np.float32)
        _, predicted = mutable.ask(calls.Predict(module="net"), data=x)
        np.testing.assert_allclose(
            predicted["softmax_output"], self.expected(mutable, x), rtol=1e-4
        )

    def test_the_number_of_cached_shapes_is_limited(self, mutable: Any) -> None:
        for size in (*range(3, 20), 3):
            x = np.ones((1, 1, size, size), np.float32)
            _, predicted = mutable.ask(calls.Predict(module="net"), data=x)
            np.testing.assert_allclose(
                predicted["softmax_output"], self.expected(mutable, x), rtol=1e-4
            )
        assert len(mutable.host._loaded_modules.use("net").inference._by_shape) == 8

    def test_a_shape_that_contradicts_the_parameters_is_refused(self, mutable: Any) -> None:
        for call in (calls.Predict(module="net"), calls.Forward(module="net", is_train=False)):
            assert mutable.refusal(call, data=np.zeros((2, 3, 8, 8))).code == "invalid_shape"
            assert mutable.refusal(call, data=np.zeros((2, 8))).field_name == "data"
        x = np.random.RandomState(3).rand(2, 1, 8, 8).astype(np.float32)
        _, after = mutable.ask(calls.Predict(module="net"), data=x)
        np.testing.assert_allclose(after["softmax_output"], self.expected(mutable, x), rtol=1e-4)
        _, after = mutable.ask(calls.Forward(module="net", is_train=False), data=x)
        np.testing.assert_allclose(after["softmax_output"], self.expected(mutable, x), rtol=1e-4)

    @staticmethod
    def expected(driver: Any, x: np.ndarray) -> np.ndarray:
        """Return the outputs as NumPy computes them."""
        params = driver.params()
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        maps = np.einsum("nchwij,fcij->nfhw", windows, params["conv_weight"])
        maps = np.maximum(maps + params["conv_bias"][:, None, None], 0)
        scores = maps.mean(axis=(2, 3)) @ params["fc_weight"].T + params["fc_bias"]
        powers = np.exp(scores)
        return powers / powers.sum(axis=1, keepdims=True)
