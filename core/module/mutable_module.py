"""A module that accepts any input shape (``MutableModule`` of the Faster R-CNN scripts)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..compat.module_names import MutableNames
from ..device import Context
from ..errors import UsageError
from ..io import DataDesc
from ..io.inputs import describe
from ..symbol import Symbol
from ..types import Shape
from .module import Module

__all__ = ["MutableModule", "names_containing"]


def names_containing(symbol: Symbol, parts: Sequence[str] | None) -> list[str]:
    """Return the arguments whose names contain any of these parts."""
    arguments: list[str] = symbol.list_arguments()
    return [name for name in arguments if any(part in name for part in parts or ())]


class MutableModule(MutableNames, Module):
    """Binds with the largest shapes, and reuses that memory when it rebinds to other shapes.

    The shapes of a batch come from ``provide_data`` and ``provide_label`` or else from its arrays.
    Memory grows for shapes beyond the largest.

    Args:
        symbol: what is computed.
        data_names, label_names: inputs, in the order of a batch's arrays.
        logger: for progress lines.
        context: a device, or several that share each batch.
        work_load_list: relative shares of the devices.
        max_data_shapes, max_label_shapes: (name, shape) of the inputs whose shapes vary.
        fixed_param_prefix: parameters whose names contain one of these are not trained. (MXNet's
            name; it is matched anywhere in a name, as there.)
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None,
        label_names: Sequence[str] | None,
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Sequence[float] | None = None,
        max_data_shapes: Sequence[Any] | None = None,
        max_label_shapes: Sequence[Any] | None = None,
        fixed_param_prefix: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            symbol,
            data_names,
            label_names,
            logger,
            context,
            work_load_list,
            fixed_param_names=names_containing(symbol, fixed_param_prefix),
        )
        largest = [*describe(max_data_shapes), *describe(max_label_shapes)]
        self._largest: dict[str, Shape] = {desc.name: desc.shape for desc in largest}

    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind inputs with their largest shapes where those are known, else with the given ones."""
        if shared_module is not None:
            raise UsageError("shared_module for MutableModule is not supported")
        super().bind(
            self._enlarged(data_shapes),
            self._enlarged(label_shapes),
            for_training,
            inputs_need_grad,
            force_rebind,
            grad_req=grad_req,
        )

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch of any shape."""
        data = describe(getattr(data_batch, "provide_data", None))
        labels = describe(getattr(data_batch, "provide_label", None))
        if self.binded and (_differ(data, self.data_shapes) or _differ(labels, self.label_shapes)):
            self.reshape(data or self.data_shapes, labels or self.label_shapes)
        super().forward(data_batch, is_train)

    def _enlarged(self, shapes: Sequence[Any] | None) -> list[DataDesc]:
        return [
            DataDesc(desc.name, self._largest.get(desc.name, desc.shape), desc.dtype, desc.layout)
            for desc in describe(shapes)
        ]


def _differ(given: Sequence[DataDesc], bound: Sequence[DataDesc] | None) -> bool:
    present: Mapping[str, Shape] = {desc.name: desc.shape for desc in bound or ()}
    return any(present.get(desc.name) != desc.shape for desc in given)
