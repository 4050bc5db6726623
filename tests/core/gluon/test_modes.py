"""Forward and backward passes in different modes, against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.modes import CASES, run_block, run_executor

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@every_case
def test_executors_match_mxnets(case: tuple[bool, bool]) -> None:
    golden = golden_file.topic("modes")
    for key, got in run_executor(mx, *case).items():
        assert_close(f"{case} {key}", got, golden[f"executor {case} {key}"])


@pytest.mark.parametrize("hybridize", [False, True])
@every_case
def test_blocks_match_mxnets(case: tuple[bool, bool], hybridize: bool) -> None:
    golden = golden_file.topic("modes")
    for key, got in run_block(mx, *case, hybridize).items():
        assert_close(f"{case} {key}", got, golden[f"block {case} {key}"])


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("train_mode", [False, True])
def test_backward_uses_the_dropout_mask_of_the_forward_pass(
    hybridize: bool, train_mode: bool
) -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.BatchNorm(in_channels=8), mx.gluon.nn.Dropout(0.5))
    net.initialize()
    if hybridize:
        net.hybridize()
    x = mx.nd.array([[1, 2, 3, 4, 5, 6, 7, 8]] * 4)
    x.attach_grad()
    with mx.autograd.record():
        y = net(x + 3 * mx.nd.random.normal(shape=x.shape))
    y.backward(mx.nd.ones(x.shape) * x, train_mode=train_mode)
    if not train_mode:
        # In inference BatchNorm scales each element's gradient independently.
        assert ((x.grad.asnumpy() != 0) == (y.asnumpy() != 0)).all()
    assert x.grad.asnumpy().any()
