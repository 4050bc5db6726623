"""Passes in different modes through BatchNorm, whose gradient tells the modes apart."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "record", "run_block", "run_executor"]

CASES = [(forward, backward) for forward in (True, False) for backward in (True, False)]
"""Whether each pass is one of training."""

GAMMA, BETA, MEAN, VARIANCE = [1.5, 0.5], [0.1, -0.2], [0.3, 1.0], [2.0, 0.7]


def _data() -> np.ndarray:
    return np.random.RandomState(0).normal(size=(4, 2)).astype("float32")


def run_executor(mx: Any, forward: bool, backward: bool) -> dict[str, np.ndarray]:
    """Return an executor's output, gradients and moving averages after two rounds."""
    normal = mx.sym.BatchNorm(mx.sym.Variable("x"), fix_gamma=False, momentum=0.5, name="bn")
    exe = (normal * normal).simple_bind(mx.cpu(), grad_req="write", x=(4, 2))
    exe.arg_dict["x"][:] = _data()
    exe.arg_dict["bn_gamma"][:] = mx.nd.array(GAMMA)
    exe.arg_dict["bn_beta"][:] = mx.nd.array(BETA)
    exe.aux_dict["bn_moving_mean"][:] = mx.nd.array(MEAN)
    exe.aux_dict["bn_moving_var"][:] = mx.nd.array(VARIANCE)
    for _ in range(2):
        output = exe.forward(is_train=forward)[0].asnumpy()
        exe.backward([mx.nd.ones((4, 2))], is_train=backward)
    found = {**exe.grad_dict, **exe.aux_dict}
    return {"output": output, **{name: array.asnumpy() for name, array in found.items()}}


def run_block(mx: Any, forward: bool, backward: bool, hybridize: bool) -> dict[str, np.ndarray]:
    """Return the same for a block under autograd, and the gradient of a second backward pass."""
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.BatchNorm(momentum=0.5, in_channels=2))
        net.add(mx.gluon.nn.HybridLambda(lambda F, x: x * x))
    net.initialize()
    normal = net[0]
    for parameter, value in (
        (normal.gamma, GAMMA),
        (normal.beta, BETA),
        (normal.running_mean, MEAN),
        (normal.running_var, VARIANCE),
    ):
        parameter.set_data(mx.nd.array(value))
    if hybridize:
        net.hybridize()
    x = mx.nd.array(_data())
    x.attach_grad()
    found = {}
    for round_ in range(2):
        with mx.autograd.record(train_mode=forward):
            y = net(x)
            total = (y * y).sum()
        for again in range(2):
            total.backward(retain_graph=again == 0, train_mode=backward)
            found[f"x {round_} {again}"] = x.grad.asnumpy()
            found[f"gamma {round_} {again}"] = normal.gamma.grad().asnumpy()
            found[f"mean {round_} {again}"] = normal.running_mean.data().asnumpy().copy()
            found[f"var {round_} {again}"] = normal.running_var.data().asnumpy().copy()
    return {**found, "output": y.asnumpy()}


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases; hybridizing a block does not change them."""
    results = {}
    for case in CASES:
        for name, found in {
            "executor": run_executor(mx, *case),
            "block": run_block(mx, *case, hybridize=False),
        }.items():
            results.update({f"{name} {case} {key}": value for key, value in found.items()})
    return results
