"""Which reshapes and transposes are recognized as a channel shuffle, and its results."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

SHAPE = (2, 6, 3, 4)
DATA = mx.sym.Variable("data")


def parted(groups=2):
    return mx.sym.Reshape(DATA, shape=(0, -4, groups, -1, -2))


def joined(symbol):
    return mx.sym.Reshape(symbol, shape=(0, -3, -2))


def executor_of(symbol, options=None):
    data = mx.nd.array(np.arange(np.prod(SHAPE)).reshape(SHAPE))
    gradient = mx.nd.zeros(SHAPE)
    return bind(symbol, mx.cpu(), {"data": data}, {"data": gradient}, options=options)


def names(executor):
    executor.forward(is_train=True)
    (plan,) = executor._plans.values()
    return [step.op.names[0] for step in plan.compiled.program.forward_steps]


@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize(
    "swap",
    [
        lambda x: mx.sym.transpose(x, axes=(0, 2, 1, 3, 4)),
        lambda x: mx.sym.SwapAxis(x, dim1=2, dim2=1),
    ],
    ids=["transpose", "swap"],
)
def test_a_channel_shuffle_is_one_step(groups, swap):
    executor = executor_of(joined(swap(parted(groups))) * 2)
    assert "_plan_shuffle" in names(executor)
    data = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    parts = data.reshape(2, groups, 6 // groups, 3, 4)
    expected = 2 * parts.swapaxes(1, 2).reshape(SHAPE)
    (out,) = executor.forward(is_train=True)
    np.testing.assert_array_equal(out.asnumpy(), expected)
    executor.backward([mx.nd.array(expected)])
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), 4 * data)


SWAPPED = mx.sym.transpose(parted(), axes=(0, 2, 1, 3, 4))


@pytest.mark.parametrize(
    "symbol",
    [
        joined(mx.sym.transpose(parted(), axes=(0, 2, 1, 4, 3))),
        mx.sym.Reshape(SWAPPED, shape=(0, 0, -1)),
        mx.sym.Group([joined(SWAPPED), SWAPPED]),
        joined(mx.sym.transpose(mx.sym.Reshape(DATA, shape=(4, 3, 1, 3, 4)), axes=(0, 2, 1, 3, 4))),
        mx.sym.Reshape(mx.sym.transpose(DATA, axes=(0, 2, 1, 3)), shape=SHAPE),
    ],
    ids=["rows and columns, too", "another shape", "seen by another", "the batch", "no groups"],
)
def test_similar_transposes_are_not_a_shuffle(symbol):
    executor = executor_of(symbol)
    assert "_plan_shuffle" not in names(executor)
    expected = executor_of(symbol, CompileOptions(table=None)).forward()
    for got, wanted in zip(executor.forward(), expected, strict=True):
        np.testing.assert_array_equal(got.asnumpy(), wanted.asnumpy())
