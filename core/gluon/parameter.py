"""Parameters under the path that scripts import them by (``mxnet.gluon.parameter``)."""

from __future__ import annotations

from core.gluon.base_parameter import DeferredInitializationError, Parameter
from core.gluon.constant import Constant
from core.gluon.parameter_dict import ParameterDict

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict"]
