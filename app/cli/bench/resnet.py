"""Residual networks for 224 by 224 images (He et al. 2015), strides in the 3 by 3 convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import core as mx

__all__ = ["Symbol", "conv_norm", "residual_unit", "resnet18", "resnet50"]

Symbol: TypeAlias = mx.sym.Symbol


def resnet18() -> Symbol:
    """Eight units of two convolutions."""
    return _resnet((2, 2, 2, 2), (64, 128, 256, 512), bottleneck=False)


def resnet50() -> Symbol:
    """Sixteen units of three convolutions."""
    return _resnet((3, 4, 6, 3), (256, 512, 1024, 2048), bottleneck=True)


def conv_norm(x: Symbol, kernel: int, stride: int, filters: int, name: str) -> Symbol:
    """Convolution with "same" padding, and batch normalization."""
    x = mx.sym.Convolution(
        x,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad=(kernel // 2, kernel // 2),
        num_filter=filters,
        no_bias=True,
        name=f"{name}_conv",
    )
    x = mx.sym.BatchNorm(x, fix_gamma=False, eps=1e-5, momentum=0.9, name=f"{name}_bn")
    return x


def residual_unit(
    x: Symbol, filters: int, stride: int, name: str, *, bottleneck: bool = False, project: bool
) -> Symbol:
    """Two convolutions (three, the outer ones of size 1, in a bottleneck) beside a shortcut."""
    if bottleneck:
        y = _relu(conv_norm(x, 1, 1, filters // 4, f"{name}_1"), f"{name}_r1")
        y = _relu(conv_norm(y, 3, stride, filters // 4, f"{name}_2"), f"{name}_r2")
        y = conv_norm(y, 1, 1, filters, f"{name}_3")
    else:
        y = _relu(conv_norm(x, 3, stride, filters, f"{name}_1"), f"{name}_r1")
        y = conv_norm(y, 3, 1, filters, f"{name}_2")
    shortcut = conv_norm(x, 1, stride, filters, f"{name}_sc") if project else x
    return _relu(y + shortcut, f"{name}_out")


def _resnet(units: Sequence[int], filters: Sequence[int], *, bottleneck: bool) -> Symbol:
    x: Symbol = _relu(conv_norm(mx.sym.Variable("data"), 7, 2, 64, "0"), "r0")
    x = mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max", name="p0")
    for stage, (count, width) in enumerate(zip(units, filters, strict=True)):
        for unit in range(count):
            is_first = unit == 0
            x = residual_unit(
                x,
                width,
                2 if stage and is_first else 1,
                f"s{stage}u{unit}",
                bottleneck=bottleneck,
                project=is_first and (stage > 0 or bottleneck),
            )
    x = mx.sym.Pooling(x, global_pool=True, kernel=(7, 7), pool_type="avg", name="gp")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=1000, name="fc")
    x = mx.sym.SoftmaxOutput(x, name="softmax")
    return x


def _relu(x: Symbol, name: str) -> Symbol:
    x = mx.sym.Activation(x, act_type="relu", name=name)
    return x
