"""The arrays an executor is bound to."""

from __future__ import annotations

import dataclasses

from core.ndarray import NDArray

__all__ = ["Bound"]


@dataclasses.dataclass(frozen=True)
class Bound:
    """The arrays of an executor and what is to be done with its gradients.

    Attributes:
        arguments: in the order of ``list_arguments``.
        gradients: likewise; None where there is none.
        requests: likewise; ``"write"``, ``"add"`` or ``"null"``.
        auxiliaries: in the order of ``list_auxiliary_states``.

    Of arrays that have a version (``NDArray.version``) kernels keep what they make of them.
    """

    arguments: list[NDArray]
    gradients: list[NDArray | None]
    requests: list[str]
    auxiliaries: list[NDArray]
