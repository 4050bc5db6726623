"""Inception v3 (arXiv:1512.00567)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent
from ...hybrid_block import HybridBlock
from .classifier import Classifier
from .pretrained import load_pretrained

__all__ = ["Inception3", "inception_v3"]

_WIDE, _HIGH = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))

# A branch is a sequence of convolutions (channels, kernel, stride, padding) and poolings,
# optionally ending with a list of branches that are concatenated.
_AVERAGE, _LARGEST = "average", "largest"


def _a(pooled: int) -> list[list[Any]]:
    return [
        [(64, 1)],
        [(48, 1), (64, 5, 1, 2)],
        [(64, 1), (96, 3, 1, 1), (96, 3, 1, 1)],
        [_AVERAGE, (pooled, 1)],
    ]


def _c(inner: int) -> list[list[Any]]:
    wide, high = (inner, *_WIDE), (inner, *_HIGH)
    return [
        [(192, 1)],
        [(inner, 1), wide, (192, *_HIGH)],
        [(inner, 1), high, wide, high, (192, *_WIDE)],
        [_AVERAGE, (192, 1)],
    ]


_SPLIT = [[(384, (1, 3), 1, (0, 1))], [(384, (3, 1), 1, (1, 0))]]
_B: list[list[Any]] = [[(384, 3, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 2)], [_LARGEST]]
_D: list[list[Any]] = [
    [(192, 1), (320, 3, 2)],
    [(192, 1), (192, *_WIDE), (192, *_HIGH), (192, 3, 2)],
    [_LARGEST],
]
_E: list[list[Any]] = [
    [(320, 1)],
    [[(384, 1)], _SPLIT],
    [[(448, 1), (384, 3, 1, 1)], _SPLIT],
    [_AVERAGE, (192, 1)],
]

_MODULES = {
    "A1_": _a(32),
    "A2_": _a(64),
    "A3_": _a(64),
    "B_": _B,
    "C1_": _c(128),
    "C2_": _c(160),
    "C3_": _c(160),
    "C4_": _c(192),
    "D_": _D,
    "E1_": _E,
    "E2_": _E,
}


def _convolution(
    channels: int, kernel: Any, stride: int = 1, padding: Any = 0
) -> nn.HybridSequential:
    row = nn.HybridSequential(prefix="")
    row.add(nn.Conv2D(channels, kernel, stride, padding, use_bias=False))
    row.add(nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))
    return row


def _branch(parts: list[Any]) -> HybridBlock:
    row = nn.HybridSequential(prefix="")
    if isinstance(parts[0], list):
        first, split = parts
        row.add(_branch(first), _joined(split, ""))
        return row
    for part in parts:
        if part == _AVERAGE:
            row.add(nn.AvgPool2D(3, 1, 1))
        elif part == _LARGEST:
            row.add(nn.MaxPool2D(3, 2))
        else:
            row.add(_convolution(*part))
    return row


def _joined(branches: list[list[Any]], prefix: str) -> HybridConcurrent:
    both = HybridConcurrent(axis=1, prefix=prefix)
    with both.name_scope():
        both.add(*[_branch(parts) for parts in branches])
    return both


class Inception3(Classifier):
    """Inception v3, for images of 299 x 299.

    Args:
        classes: number of outputs.
        **kwargs: as for ``Block``.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            chain = self.features = nn.HybridSequential(prefix="")
            for shape in ((32, 3, 2), (32, 3), (64, 3, 1, 1), (), (80, 1), (192, 3), ()):
                chain.add(_convolution(*shape) if shape else nn.MaxPool2D(3, 2))
            for prefix, branches in _MODULES.items():
                chain.add(_joined(branches, prefix))
            chain.add(nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def inception_v3(
    pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> Inception3:
    """Return an Inception v3; if ``pretrained``, with parameters from a file."""
    net = Inception3(**kwargs)
    if pretrained:
        load_pretrained(net, "inceptionv3", ctx, root)
    return net
