"""Operators written in Python: ``mx.operator``.

class Swish(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0]
        self.assign(out_data[0], req[0], x * mx.nd.sigmoid(x))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        s = mx.nd.sigmoid(in_data[0])
        slope = s + in_data[0] * s * (1 - s)
        self.assign(in_grad[0], req[0], out_grad[0] * slope)

@mx.operator.register("swish")
class SwishProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Swish()

y = mx.sym.Custom(x, op_type="swish")
"""

from __future__ import annotations

from .arguments import OperatorArguments, get_operator_arguments
from .custom import (
    CustomOp,
    CustomOpProp,
    get_all_registered_operators,
    register,
)
from .python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]
