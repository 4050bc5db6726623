"""Optimizer steps for half precision: the step is applied to a float32 copy of the weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array, DType
from .operator import Run
from .registry import register
from .updates import NagMomUpdate, SgdMomUpdate, SgdUpdate, Update

__all__ = ["MixedNagMomUpdate", "MixedSgdMomUpdate", "MixedSgdUpdate"]

_FLOAT32 = np.dtype("float32")


class _Mixed(Update):
    """Mix-in that passes the copy to the rule in place of the weight; must precede the rule's
    base."""

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("grad", inputs[1], inputs[0])
        common = self.expect_dtype("output", outputs[0], common)
        states = [
            self.expect_dtype(name, dtype, _FLOAT32)
            for name, dtype in zip(self.states, inputs[2:], strict=True)
        ]
        return [common, common, *states], [common]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, *states, weight32 = inputs
        super().forward(run, [weight32, grad, *states], [weight32])
        run.xp.copyto(outputs[0], weight32, casting="unsafe")


@register("mp_sgd_update")
class MixedSgdUpdate(_Mixed, SgdUpdate):
    """``sgd_update`` of the float32 copy, which the output rounds."""

    states = ("weight32",)


@register("mp_sgd_mom_update")
class MixedSgdMomUpdate(_Mixed, SgdMomUpdate):
    """``sgd_mom_update`` of the float32 copy, which the output rounds."""

    states = ("mom", "weight32")


@register("mp_nag_mom_update")
class MixedNagMomUpdate(_Mixed, NagMomUpdate):
    """``nag_mom_update`` of the float32 copy, which the output rounds."""

    states = ("mom", "weight32")
