"""The fully connected layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..capabilities.layers import LayerData
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import NO_ELEMENTS, Array, Shape, is_known, merge_shapes, shape_size
from .attributes import attribute
from .derivatives import Functions, Tensor
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .sparse_kernel import SparseKernel
from .sparse_products import LAYER
from .summation import add_up

__all__ = ["FullyConnected"]


@register("FullyConnected", "_npx_fully_connected", "_sparse_FullyConnected")
@implements(kinds.FULLY_CONNECTED)
class FullyConnected(Operator):
    """Multiply by a weight and add a bias: ``data · weightᵀ + bias``.

    ``weight`` has shape (num_hidden, features), ``bias`` (num_hidden,) or (num_hidden, 1). With
    ``flatten``, all axes of ``data`` but the first are features, and the output is (batch,
    num_hidden). Without, only the last axis holds features, and the output keeps the others.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm(
        "_contrib_quantized_fully_connected", is_layer=True
    )
    names_outputs: ClassVar[bool] = True

    is_costly: ClassVar[bool] = True

    num_hidden: int = attribute(minimum=1, doc="number of output features")
    no_bias: bool = attribute(False, doc="whether there is no bias")
    flatten: bool = attribute(
        True,
        doc="whether all axes but the first are joined; else only the last axis holds features",
    )

    def input_names(self) -> tuple[str, ...]:
        return ("data", "weight") if self.no_bias else ("data", "weight", "bias")

    def data_from_weight(self, weight: Shape) -> LayerData | None:
        return LayerData(weight[1]) if len(weight) == 2 else None

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        if data is None:
            return inputs, outputs
        if not self.no_bias:
            is_column = inputs[2] is not None and len(inputs[2]) == 2
            whole = (self.num_hidden, 1) if is_column else (self.num_hidden,)
            inputs[2] = self.expect("bias", inputs[2], whole)
        if not data:
            raise ShapeError("data has shape (); expected a batch axis or an axis of features")
        leading = data[:1] if self.flatten else data[:-1]
        output = self.expect("output", output, (*leading, self.num_hidden))
        leading = output[:-1]
        inputs[0] = data = (*leading, *data[len(leading) :])
        inputs[1] = self._infer_weight(inputs[1], self._features(data))
        return inputs, [output]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def stacked(self, shapes: Sequence[Shape], is_shared: Sequence[bool]) -> Operator | None:
        # With another weight for each entry, the product is a batched one, which this layer is not.
        if len(shapes[0]) != 2 or is_shared[0] or not all(is_shared[1:]):
            return None
        # Unlike ``flatten``, this keeps the new axis and the batch apart.
        return FullyConnected(num_hidden=self.num_hidden, no_bias=self.no_bias, flatten=False)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return LAYER if inputs[0] == "csr" else None

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        x, weight = inputs[0], inputs[1]
        dy = out_grads[0].reshape((-1, weight.shape[0]))
        grads = [
            f.dot(dy, weight).reshape(x.shape),
            f.dot(dy, x.reshape((-1, weight.shape[1])), transpose_a=True),
        ]
        return grads if self.no_bias else [*grads, f.sum(dy, axis=0)]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out = outputs[0].reshape(-1, self.num_hidden)
        run.xp.matmul(self._rows(inputs[0]), inputs[1].T, out=out)
        if not self.no_bias:
            out += inputs[2].reshape(-1)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad = out_grads[0].reshape(-1, self.num_hidden)
        data_grad, weight_grad, *bias_grad = in_grads
        if data_grad is not None:
            run.xp.matmul(grad, inputs[1], out=self._rows(data_grad))
        if weight_grad is not None:
            run.xp.matmul(grad.T, self._rows(inputs[0]), out=weight_grad)
        if bias_grad and bias_grad[0] is not None:
            add_up(run, grad, 0, bias_grad[0].reshape(-1))

    def _rows(self, data: Array) -> Array:
        return data.reshape(data.shape[0] if self.flatten else -1, self._features(data.shape))

    def _features(self, data: Shape) -> int:
        axes = data[1:] if self.flatten else data[-1:]
        return shape_size(axes) or (NO_ELEMENTS if is_known(axes) else 0)

    def _infer_weight(self, weight: Shape | None, features: int) -> Shape | None:
        try:
            return merge_shapes(weight, (self.num_hidden, features))
        except ShapeError:
            raise ShapeError(
                f"weight has shape {weight}, expected (num_hidden, features) = "
                f"{(self.num_hidden, features)}; set num_hidden or fix data_shapes"
            ) from None
