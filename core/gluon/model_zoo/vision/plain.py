"""Networks that are a plain sequence of layers: AlexNet, and VGG (arXiv:1409.1556)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ....initializer import Xavier
from ... import nn
from .classifier import Classifier
from .pretrained import load_pretrained

__all__ = [
    "VGG",
    "AlexNet",
    "alexnet",
    "get_vgg",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_FILTERS = [64, 128, 256, 512, 512]

# By number of layers: the number of convolutions before each pooling.
_DEPTHS = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}


class AlexNet(Classifier):
    """Five convolutions and three dense layers.

    Args:
        classes: number of outputs.
        **kwargs: as for ``Block``.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                # (channels, kernel, stride, padding, whether pooled)
                for channels, kernel, stride, padding, pooled in (
                    (64, 11, 4, 2, True),
                    (192, 5, 1, 2, True),
                    (384, 3, 1, 1, False),
                    (256, 3, 1, 1, False),
                    (256, 3, 1, 1, True),
                ):
                    self.features.add(
                        nn.Conv2D(channels, kernel, stride, padding, activation="relu")
                    )
                    if pooled:
                        self.features.add(nn.MaxPool2D(3, 2))
                self.features.add(nn.Flatten())
                for _ in range(2):
                    self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


class VGG(Classifier):
    """Groups of convolutions of 3x3, each followed by pooling, and three dense layers.

    Args:
        layers: number of convolutions in each group.
        filters: number of channels in each group.
        classes: number of outputs.
        batch_norm: whether batch normalization follows each convolution.
        **kwargs: as for ``Block``.
    """

    def __init__(
        self,
        layers: Sequence[int],
        filters: Sequence[int],
        classes: int = 1000,
        batch_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(layers) != len(filters):
            raise AssertionError(f"{len(layers)} groups of layers, {len(filters)} of filters")
        dense = partial(nn.Dense, weight_initializer="normal", bias_initializer="zeros")
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(layers, filters, strict=True):
                for _ in range(count):
                    first = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                    self.features.add(
                        nn.Conv2D(
                            channels,
                            3,
                            padding=1,
                            weight_initializer=first,
                            bias_initializer="zeros",
                        )
                    )
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(dense(4096, activation="relu"), nn.Dropout(rate=0.5))
            self.output = dense(classes)


def alexnet(
    pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> AlexNet:
    """Return an AlexNet; if ``pretrained``, with parameters from a file."""
    net = AlexNet(**kwargs)
    if pretrained:
        load_pretrained(net, "alexnet", ctx, root)
    return net


def get_vgg(
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> VGG:
    """Return a VGG of 11, 13, 16 or 19 layers; if ``pretrained``, with parameters from a file."""
    net = VGG(_DEPTHS[num_layers], _FILTERS, **kwargs)
    if pretrained:
        suffix = "_bn" if kwargs.get("batch_norm") else ""
        load_pretrained(net, f"vgg{num_layers}{suffix}", ctx, root)
    return net


vgg11 = partial(get_vgg, 11)
vgg13 = partial(get_vgg, 13)
vgg16 = partial(get_vgg, 16)
vgg19 = partial(get_vgg, 19)
vgg11_bn = partial(get_vgg, 11, batch_norm=True)
vgg13_bn = partial(get_vgg, 13, batch_norm=True)
vgg16_bn = partial(get_vgg, 16, batch_norm=True)
vgg19_bn = partial(get_vgg, 19, batch_norm=True)
