"""VGG under MXNet's import path (``mxnet.gluon.model_zoo.vision.vgg``)."""

from __future__ import annotations

from .plain import (
    VGG,
    get_vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)

__all__ = [
    "VGG",
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
