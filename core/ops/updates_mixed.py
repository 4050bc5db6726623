"""Steps of optimizers for half precision: a float32 copy of the weight takes the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from core.ops.operator import Operator, Run
from core.ops.registry import register
from core.ops.updates import NagMomUpdate, SgdMomUpdate, SgdUpdate
from core.types import Array, DType

__all__ = ["MixedNagMomUpdate", "MixedSgdMomUpdate", "MixedSgdUpdate", "infer_mixed"]

_FLOAT32 = np.dtype("float32")


def infer_mixed(
    operator: Operator, inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    """Infer that the gradient and the output are like the weight, and all states float32."""
    common = operator.expect_dtype("grad", inputs[1], inputs[0])
    common = operator.expect_dtype("output", outputs[0], common)
    states = [
        operator.expect_dtype(name, dtype, _FLOAT32)
        for name, dtype in zip(operator.input_names()[2:], inputs[2:], strict=True)
    ]
    return [common, common, *states], [common]


@register("mp_sgd_update")
class MixedSgdUpdate(SgdUpdate):
    """``sgd_update`` of the float32 copy, which the output rounds."""

    states: ClassVar[tuple[str, ...]] = ("weight32",)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return infer_mixed(self, inputs, outputs)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, weight32 = inputs
        super().forward(run, [weight32, grad], [weight32])
        run.xp.copyto(outputs[0], weight32, casting="unsafe")


@register("mp_sgd_mom_update")
class MixedSgdMomUpdate(SgdMomUpdate):
    """``sgd_mom_update`` of the float32 copy, which the output rounds."""

    states: ClassVar[tuple[str, ...]] = ("mom", "weight32")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return infer_mixed(self, inputs, outputs)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, mom, weight32 = inputs
        super().forward(run, [weight32, grad, mom], [weight32])
        run.xp.copyto(outputs[0], weight32, casting="unsafe")


@register("mp_nag_mom_update")
class MixedNagMomUpdate(NagMomUpdate):
    """``nag_mom_update`` of the float32 copy, which the output rounds."""

    states: ClassVar[tuple[str, ...]] = ("mom", "weight32")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return infer_mixed(self, inputs, outputs)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, mom, weight32 = inputs
        super().forward(run, [weight32, grad, mom], [weight32])
        run.xp.copyto(outputs[0], weight32, casting="unsafe")
