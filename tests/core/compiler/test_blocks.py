"""Which programs store images in blocks of channels: those that run faster that way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.memory import blocked, layout_of

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")


def net(*, size: int = 1, groups: int = 1) -> Any:
    """Pointwise convolutions; the second may have groups, the third another window."""
    data = mx.sym.Variable("data")
    for index, (side, group) in enumerate(((1, 1), (1, groups), (size, 1), (1, 1))):
        pad = (side // 2,) * 2
        data = mx.sym.Convolution(
            data, name=f"layer{index}", num_filter=32, kernel=(side, side), pad=pad, num_group=group
        )
    return data


def inference(symbol: Any, images: int, options: CompileOptions | None = None) -> Any:
    """Return an executor after a forward pass."""
    random = np.random.RandomState(3)
    shape = (images, 32, 14, 14)
    shapes, _, _ = symbol.infer_shape(data=shape)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, one))
        for name, one in zip(symbol.list_arguments(), shapes, strict=True)
    }
    executor = bind(symbol, mx.cpu(), arguments, options=options)
    executor.forward(is_train=False)
    return executor


def is_in_blocks(executor: Any) -> bool:
    """Return whether the second layer's images are stored in blocks."""
    (plan,) = executor._plans.values()
    program = plan.compiled.program
    (step,) = (step for step in program.steps if step.node == "layer1")
    value = program.values[step.outputs[0]]
    return bool(value.layout == layout_of(blocked(value.shape)))


@pytest.mark.parametrize(
    ("images", "others", "expected"),
    [
        (4, {}, True),
        (1, {}, False),
        (4, {"size": 5}, False),
        (4, {"groups": 32}, False),
    ],
    ids=["batch", "single", "large windows", "depthwise"],
)
def test_pointwise_convolutions_use_blocks_in_batches(
    images: int, others: dict[str, int], expected: bool
) -> None:
    symbol = net(**others)
    executor = inference(symbol, images)
    assert is_in_blocks(executor) == expected
    wanted = inference(symbol, images, CompileOptions(table=None)).outputs[0].asnumpy()
    got = executor.outputs[0].asnumpy()
    np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())
