"""What a monitor callback is shown.

Names and order are MXNet 1.9.1's for this network, except that MXNet calls the input of an
Activation ``act_input0``; here every input has its documented name.
"""

import dataclasses

import numpy as np
import pytest

import core.symbol as sym
from core.device import cpu
from core.executor import executor

FORWARD = [
    "fc1_output",
    "act_output",
    "drop_output",
    "drop_mask",
    "bn_output",
    "bn_mean",
    "bn_var",
    "fl_output",
    "softmax_output",
]
BACKWARD = [
    "softmax_backward_output0",
    "softmax_backward_output1",
    "fl_backward_output",
    "bn_backward_output0",
    "bn_backward_output1",
    "bn_backward_output2",
    "drop_backward_output",
    "act_backward_output",
    "fc1_backward_output0",
    "fc1_backward_output1",
    "fc1_backward_output2",
]
INPUTS = [
    ["data", "fc1_data", "fc1_weight", "fc1_weight", "fc1_bias", "fc1_bias"],
    ["act_input0"],
    ["drop_data"],
    ["bn_data", "bn_gamma", "bn_gamma", "bn_beta", "bn_beta"]
    + ["bn_moving_mean"] * 2
    + ["bn_moving_var"] * 2,
    ["fl_input0"],
    ["softmax_data", "softmax_label", "softmax_label"],
]
OUTPUTS = [
    ["fc1_output"],
    ["act_output"],
    FORWARD[2:4],
    FORWARD[4:7],
    ["fl_output"],
    ["softmax_output"],
]


@pytest.fixture
def watched():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc1")
    net = sym.Activation(net, act_type="relu", name="act")
    net = sym.BatchNorm(sym.Dropout(net, name="drop"), name="bn")
    net = sym.SoftmaxOutput(sym.Flatten(net, name="fl"), name="softmax")
    exe = net.simple_bind(cpu(), data=(2, 4))
    return exe


def test_outputs_of_every_operator_are_shown_in_both_passes(watched):
    names = []
    watched.set_monitor_callback(lambda name, values: names.append(name))
    watched.forward(is_train=True)
    assert names == FORWARD
    names.clear()
    watched.backward()
    assert names == BACKWARD
    names.clear()
    watched.forward(is_train=False)
    assert names == FORWARD


def test_inputs_are_shown_before_the_operator_runs(watched):
    names = []
    watched.set_monitor_callback(lambda name, values: names.append(name), monitor_all=True)
    watched.forward()
    assert names == [n for pair in zip(INPUTS, OUTPUTS, strict=True) for part in pair for n in part]


def test_values_are_current(watched):
    seen = {}
    watched.set_monitor_callback(lambda name, values: seen.update({name: values.asnumpy()}))
    random = np.random.default_rng(0)
    weight = random.normal(size=(3, 4)).astype(np.float32)
    data = random.normal(size=(2, 4)).astype(np.float32)
    watched.forward(data=data, fc1_weight=weight)
    np.testing.assert_allclose(seen["fc1_output"], data @ weight.T, rtol=1e-5)
    np.testing.assert_array_equal(seen["act_output"], np.maximum(seen["fc1_output"], 0))


def test_a_monitor_changes_no_result_and_can_be_removed(watched):
    random = np.random.default_rng(0)
    for value in watched.arg_arrays:
        value[:] = random.normal(size=value.shape)
    watched.aux_dict["bn_moving_var"][:] = 1
    plain = watched.forward()[0].asnumpy()
    names = []
    watched.set_monitor_callback(lambda name, values: names.append(name))
    # A monitored plan runs references, which round differently from kernels.
    np.testing.assert_allclose(watched.forward()[0].asnumpy(), plain, rtol=1e-5)
    assert names
    names.clear()
    watched.set_monitor_callback(None)
    np.testing.assert_array_equal(watched.forward()[0].asnumpy(), plain)
    assert not names


def test_values_in_a_kernels_own_layout_are_shown_plain(monkeypatch):
    """Convolutions keep their channels in blocks, of which a monitor sees nothing."""
    data = sym.Variable("data")
    net = sym.Convolution(data, kernel=(3, 3), num_filter=20, name="one")
    net = sym.Activation(sym.BatchNorm(net, name="norm"), act_type="relu", name="act")
    net = sym.Convolution(net, kernel=(3, 3), num_filter=9, stride=(2, 2), name="two")
    net = sym.Pooling(net, kernel=(2, 2), pool_type="max", name="pool")
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=4), name="softmax")

    def shown(kernels: bool) -> dict[str, np.ndarray]:
        if not kernels:
            compile_graph = executor.compile_graph

            def without(*arguments, options, **more):
                options = dataclasses.replace(options, table=None)
                return compile_graph(*arguments, options=options, **more)

            monkeypatch.setattr(executor, "compile_graph", without)
        exe = net.simple_bind(cpu(), data=(3, 5, 14, 14))
        rng = np.random.default_rng(4)
        for name, array in exe.arg_dict.items():
            array[:] = rng.normal(size=array.shape) if name != "softmax_label" else 1
        for name, array in exe.aux_dict.items():
            array[:] = 0 if name.endswith("mean") else 1
        found = {}
        exe.set_monitor_callback(lambda name, value: found.update({name: value.asnumpy().copy()}))
        exe.forward(is_train=True)
        exe.backward()
        return found

    with_kernels, references = shown(True), shown(False)
    assert list(with_kernels) == list(references)
    for name, expected in references.items():
        assert with_kernels[name].shape == expected.shape
        np.testing.assert_allclose(with_kernels[name], expected, rtol=2e-4, atol=2e-4, err_msg=name)
