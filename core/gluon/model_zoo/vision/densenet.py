"""DenseNet under MXNet's import path (``mxnet.gluon.model_zoo.vision.densenet``)."""

from __future__ import annotations

from .joined import (
    DenseNet,
    densenet121,
    densenet161,
    densenet169,
    densenet201,
    get_densenet,
)

__all__ = [
    "DenseNet",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "get_densenet",
]
