"""The arrays an executor is bound to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..ndarray import NDArray
from ..ops.rows import Rows

__all__ = ["Bound"]


@dataclasses.dataclass(frozen=True)
class Bound:
    """The arrays of an executor and what is to be done with its gradients.

    Attributes:
        arguments: in the order of ``list_arguments``.
        gradients: likewise; None where there is none.
        requests: likewise; ``"write"``, ``"add"``, ``"null"``, or ``"rows"``: added to the rows
            that are kept in place of the array.
        auxiliaries: in the order of ``list_auxiliary_states``.
        rows: by position, what stands for the arrays of gradients that are requested as rows.

    Of arrays that have a version (``NDArray.version``) kernels keep what they make of them.
    """

    arguments: list[NDArray]
    gradients: list[NDArray | None]
    requests: list[str]
    auxiliaries: list[NDArray]
    rows: Mapping[int, Rows] = dataclasses.field(default_factory=dict)
