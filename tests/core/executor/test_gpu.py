"""The same plans on a GPU, through CuPy."""

import numpy as np
import pytest

import core.symbol as sym
from core.backends import gpu_count
from core.device import cpu, gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_count() == 0, reason="no usable CUDA device"),
]


def network():
    net = sym.Variable("data")
    net = sym.Convolution(net, kernel=(3, 3), num_filter=4, name="conv")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="relu")
    net = sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def train(context):
    exe = network().simple_bind(context, data=(4, 3, 8, 8))
    random = np.random.default_rng(0)
    for name, value in exe.arg_dict.items():
        value[:] = (
            random.integers(0, 5, value.shape)
            if name == "softmax_label"
            else random.normal(size=value.shape)
        )
    exe.aux_dict["bn_moving_var"][:] = 1
    results = []
    for _ in range(3):
        results += [exe.forward(is_train=True)[0].asnumpy()]
        exe.backward()
        results += [gradient.asnumpy() for gradient in exe.grad_arrays]
    return [*results, exe.forward()[0].asnumpy()], exe


def test_a_gpu_gives_the_cpus_results():
    for got, expected in zip(train(gpu())[0], train(cpu())[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_steady_steps_allocate_no_scratch_memory():
    _, exe = train(gpu())
    assert all(plan.misses == 0 for plan in exe.memory_report().plans.values())
