"""Datasets of images, and transformations of images (``mx.gluon.data.vision``)."""

from __future__ import annotations

from . import datasets, transforms
from .datasets import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["datasets", "transforms"]
__all__ += datasets.__all__
