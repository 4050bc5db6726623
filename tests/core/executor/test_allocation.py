"""Steady training and inference allocate no array memory (NumPy reports its own to tracemalloc)."""

import tracemalloc

import numpy as np
import pytest

import core.symbol as sym
from core.device import cpu

ALLOWED_BYTES = 160 * 1024
"""Views, tuples and the like, and the buffers of fixed size (8192 elements an operand) that NumPy's
iterator takes for a moment. The arrays here are larger."""


def mlp():
    net = sym.Variable("data")
    for i in range(2):
        net = sym.FullyConnected(net, num_hidden=256, name=f"fc{i}")
        net = sym.Activation(net, act_type="relu", name=f"relu{i}")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=256, name="fc2"), name="softmax")


def lenet():
    net = sym.Variable("data")
    for i, filters in enumerate((20, 50)):
        net = sym.Convolution(net, kernel=(5, 5), num_filter=filters, name=f"conv{i}")
        net = sym.Activation(net, act_type="tanh", name=f"tanh{i}")
        net = sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{i}")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=500, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=10, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def residual():
    def norm(net, name):
        net = sym.BatchNorm(net, fix_gamma=False, name=name)
        return sym.Activation(net, act_type="relu", name=f"{name}_relu")

    def conv(net, name):
        return sym.Convolution(
            net, kernel=(3, 3), pad=(1, 1), num_filter=16, no_bias=True, name=name
        )

    net = norm(conv(sym.Variable("data"), "conv0"), "bn0")
    net = net + norm(conv(net, "conv1"), "bn1")
    net = sym.Pooling(net, pool_type="avg", global_pool=True, kernel=(1, 1), name="pool")
    net = sym.Dropout(sym.Flatten(net), p=0.5, name="drop")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=10, name="fc"), name="softmax")


def normalized():
    net = sym.Variable("data")
    net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=24, name="conv")
    net = sym.L2Normalization(sym.InstanceNorm(net, name="in"), mode="channel")
    net = net + sym.GroupNorm(sym.L2Normalization(net), num_groups=4, name="gn")
    excited = sym.sigmoid(sym.mean(net, axis=(2, 3), keepdims=True))
    net = sym.broadcast_sub(sym.broadcast_mul(net, excited), sym.mean(net, axis=1, keepdims=True))
    flat = sym.FullyConnected(net, num_hidden=100, name="fc")
    losses = (
        sym.sum(net, axis=(0, 3)),
        sym.norm(net, axis=3),
        sym.max(net, axis=(2, 3)),
        sym.softmin(flat, temperature=2),
        sym.softmax_cross_entropy(flat, sym.Variable("softmax_label", shape=(32,))),
    )
    return sym.Group([sym.MakeLoss(loss) for loss in losses])


NETS = {
    "normalized": (normalized, (32, 8, 16, 16)),
    "mlp": (mlp, (512, 784)),
    "lenet": (lenet, (64, 1, 28, 28)),
    "residual": (residual, (64, 3, 16, 16)),
}


def peak_of(step):
    """Return the peak number of bytes allocated while a warm step runs."""
    for _ in range(3):
        step()
    tracemalloc.start()
    try:
        step()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.fixture(params=NETS)
def exe(request):
    build, shape = NETS[request.param]
    found = build().simple_bind(cpu(), data=shape)
    random = np.random.default_rng(0)
    for name, value in found.arg_dict.items():
        if name != "softmax_label":
            value[:] = random.normal(scale=0.1, size=value.shape)
    return found


def test_training_step_allocates_nothing(exe):
    def step():
        exe.forward(is_train=True)
        exe.backward()

    assert peak_of(step) < ALLOWED_BYTES
    assert exe.memory_report().plans["training"].misses == 0


def test_inference_allocates_nothing(exe):
    assert peak_of(exe.forward) < ALLOWED_BYTES
    assert exe.memory_report().plans["inference"].misses == 0


def test_copying_inputs_in_allocates_nothing(exe):
    data = np.ones(exe.arg_dict["data"].shape, np.float32)
    assert peak_of(lambda: exe.forward(data=data)) < ALLOWED_BYTES
