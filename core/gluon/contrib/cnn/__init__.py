"""Convolutions that learn where to sample (``mx.gluon.contrib.cnn``)."""

from __future__ import annotations

from . import conv_layers
from .conv_layers import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution", "conv_layers"]
