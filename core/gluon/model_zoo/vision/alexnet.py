"""AlexNet under MXNet's import path (``mxnet.gluon.model_zoo.vision.alexnet``)."""

from __future__ import annotations

from .plain import AlexNet, alexnet

__all__ = ["AlexNet", "alexnet"]
