"""A symbol with the roles of its inputs, as remote modules send it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.errors import UsageError
from core.io import DataDesc
from core.io.inputs import check_input_names
from core.ndarray import NDArray, zeros
from core.symbol import Symbol

__all__ = ["Graph", "host"]

Named = dict[str, NDArray]


class Graph:
    """A symbol, and which of its arguments are data, labels, states and parameters.

    Args:
        symbol: the graph.
        data_names, label_names, state_names, fixed_param_names: as for ``Module``.

    Raises:
        ValueError: a name is not an argument of the symbol.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None,
        label_names: Sequence[str] | None,
        state_names: Sequence[str] | None = None,
        fixed_param_names: Sequence[str] | None = None,
    ) -> None:
        self.symbol = symbol
        self.data_names = list(data_names or ())
        self.label_names = list(label_names or ())
        self.state_names = list(state_names or ())
        self.fixed_param_names = list(fixed_param_names or ())
        check_input_names(symbol, self.data_names, "data", required=True)
        check_input_names(symbol, self.label_names, "label", required=False)
        check_input_names(symbol, self.state_names, "state", required=True)
        check_input_names(symbol, self.fixed_param_names, "fixed_param", required=True)
        self._arguments = dict.fromkeys(symbol.list_arguments())
        inputs = {*self.data_names, *self.label_names, *self.state_names}
        self.param_names = [one for one in self._arguments if one not in inputs]

    def names(self) -> dict[str, list[str]]:
        """Return the names as ``POST /v1/modules`` takes them, without labels only for metrics."""
        return {
            "data_names": self.data_names,
            "label_names": [one for one in self.label_names if self.takes(one)],
            "state_names": self.state_names,
            "fixed_param_names": self.fixed_param_names,
        }

    def takes(self, name: str) -> bool:
        """Return whether the graph has an input; a label may be used only by a metric."""
        return name in self._arguments

    def output_shapes(self, inputs: Sequence[DataDesc]) -> list[tuple[str, tuple[int, ...]]]:
        """Return (name, shape) of the outputs for inputs of these shapes."""
        _, shapes, _ = self.symbol.infer_shape(**self._shapes(inputs))
        return list(zip(self.symbol.list_outputs(), shapes or (), strict=True))

    def allocate(self, inputs: Sequence[DataDesc]) -> tuple[Named, Named]:
        """Return zero-filled arrays for the parameters and the auxiliary states."""
        symbol = self.symbol
        shapes, _, aux_shapes = symbol.infer_shape(**self._shapes(inputs))
        known = {one.name: one.dtype for one in inputs if self.takes(one.name)}
        dtypes, _, aux_dtypes = symbol.infer_type(**known)
        rows = zip(self._arguments, shapes or (), dtypes or (), strict=True)
        aux_names = symbol.list_auxiliary_states()
        aux_rows = zip(aux_names, aux_shapes or (), aux_dtypes or (), strict=True)
        wanted = set(self.param_names)
        return (
            {n: zeros(shape, dtype=dtype) for n, shape, dtype in rows if n in wanted},
            {n: zeros(shape, dtype=dtype) for n, shape, dtype in aux_rows},
        )

    def tensors(
        self, batch: Any, data: Sequence[DataDesc], labels: Sequence[DataDesc]
    ) -> dict[str, np.ndarray]:
        """Return the arrays of a batch by name.

        Args:
            batch: a ``DataBatch``.
            data, labels: descriptions of the batch's arrays, if it has none of its own.
        """
        if isinstance(batch, list):
            raise UsageError(
                "one batch for each device: give a single batch, which the server splits"
            )
        names = [one[0] for one in getattr(batch, "provide_data", None) or data]
        label_names = [one[0] for one in getattr(batch, "provide_label", None) or labels]
        named = dict(zip(names, batch.data, strict=True))
        named |= dict(zip(label_names, batch.label or (), strict=False))
        return {name: host(one) for name, one in named.items() if self.takes(name)}

    def _shapes(self, inputs: Sequence[DataDesc]) -> dict[str, tuple[int, ...]]:
        return {one.name: one.shape for one in inputs if self.takes(one.name)}


def host(value: Any) -> np.ndarray:
    """Return an array's values in a copy that later writes do not change."""
    return value.asnumpy() if isinstance(value, NDArray) else np.array(value)
