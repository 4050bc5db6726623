"""Parameters under MXNet's import path (``mxnet.gluon.parameter``)."""

from __future__ import annotations

from .base_parameter import DeferredInitializationError, Parameter
from .constant import Constant
from .parameter_dict import ParameterDict

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict"]
