"""The arrays an executor is bound to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..compiler.storage_plan import StoragePlan
from ..ndarray import NDArray
from ..ops.csr import Csr
from ..ops.rows import Rows
from .lower import Bindings
from .outputs import Outputs

__all__ = ["Bound", "bindings_of"]


@dataclasses.dataclass(frozen=True)
class Bound:
    """The arrays of an executor and what is to be done with its gradients.

    Attributes:
        arguments: in the order of ``list_arguments``.
        gradients: likewise; None if there is none.
        requests: likewise; ``"write"``, ``"add"``, ``"null"``, or ``"rows"``: added to a ``Rows``
            container that replaces the array.
        auxiliaries: in the order of ``list_auxiliary_states``.
        rows: the containers of gradients that are requested as rows, by position.
        stored: the containers of sparse arguments that are read without a dense copy, by
            position. Those that are not in ``storage.copied`` are sparse in ``arguments``, too.
        storage: what is kept sparse; None if nothing is.

    Kernels cache what they compute from arrays that have a version (``NDArray.version``).
    """

    arguments: list[NDArray]
    gradients: list[NDArray | None]
    requests: list[str]
    auxiliaries: list[NDArray]
    rows: Mapping[int, Rows] = dataclasses.field(default_factory=dict)
    stored: Mapping[int, Rows | Csr] = dataclasses.field(default_factory=dict)
    storage: StoragePlan | None = None


def bindings_of(bound: Bound, outputs: Outputs) -> Bindings:
    """Return the arrays to which a plan of the executor is bound."""
    return Bindings(
        arguments=[
            array.dense() if array.stype == "default" else None for array in bound.arguments
        ],
        auxiliaries=[array.dense() for array in bound.auxiliaries],
        gradients=[
            bound.rows[index]
            if index in bound.rows
            else None
            if array is None
            else array.dense_for_write()
            for index, array in enumerate(bound.gradients)
        ],
        outputs=[array.dense() for array in outputs.views()],
        versions=[
            array.version if array.stype == "default" else None
            for array in (*bound.arguments, *bound.auxiliaries)
        ],
        stored=bound.stored,
    )
