"""SqueezeNet under MXNet's import path (``mxnet.gluon.model_zoo.vision.squeezenet``)."""

from __future__ import annotations

from .joined import (
    SqueezeNet,
    get_squeezenet,
    squeezenet1_0,
    squeezenet1_1,
)

__all__ = [
    "SqueezeNet",
    "get_squeezenet",
    "squeezenet1_0",
    "squeezenet1_1",
]
