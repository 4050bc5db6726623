"""Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .derivatives import Functions, Tensor
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Dropout"]


@register("Dropout", "_npx_dropout")
class Dropout(Operator):
    """Set elements to zero with probability ``p``, and divide the others by ``1 - p``.

    Inference drops nothing, except with ``mode`` ``always``. Elements along each of ``axes`` are
    dropped together. A hidden output holds the mask: 0 or ``1 / (1 - p)``. With ``p`` 1 the output
    is NaN, from 0 / 0, as in MXNet.
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"cudnn_off"})
    uses_random: ClassVar[bool] = True

    p: float = attribute(
        0.5, minimum=0, maximum=1, doc="probability with which an element is dropped"
    )
    mode: str = attribute(
        "training",
        choices=("training", "always"),
        doc="whether elements are dropped in training passes only, or always",
    )
    axes: Shape = attribute((), doc="axes along which elements are dropped together")

    def output_names(self) -> tuple[str, ...]:
        return ("output", "mask")

    def keeps_features(self) -> bool:
        return True

    def visible_outputs(self) -> int:
        return 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        if any(not 0 <= axis < len(data) for axis in self.axes):
            raise ShapeError(f"axes is {self.axes}; data has {len(data)} dimensions")
        mask = tuple(1 if axis in self.axes else n for axis, n in enumerate(data))
        return [data], [data, mask]

    def is_identity(self, is_train: bool) -> bool:
        return not self._drops(is_train)

    def backward_reads(self) -> Reads:
        return Reads(outputs=(1,))

    def stacked(self, shapes: Sequence[Shape], is_shared: Sequence[bool]) -> Operator | None:
        # ``axes`` would count from the new axis.
        return self if not self.axes else None

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        return [f.broadcast_mul(out_grads[0], outputs[1])]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, (out, mask) = run.xp, inputs[0], outputs
        if self._drops(run.is_train):
            if self.p < 1:
                run.random.bernoulli(mask, 1 - self.p, 1 / (1 - self.p))
            else:
                mask[...] = math.nan
            xp.multiply(data, mask, out=out)
        else:
            mask[...] = 1
            xp.copyto(out, data)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.multiply(out_grads[0], outputs[1], out=in_grads[0])

    def _drops(self, is_train: bool) -> bool:
        return self.p > 0 and (is_train or self.mode == "always")
