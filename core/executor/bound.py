"""The arrays an executor is bound to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from core.backends.kernels import Version
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
        versions: by name of the argument, who counts its changes. Kernels may then keep what they
            made of it; whoever writes to the array must bump its version.
    """

    arguments: list[NDArray]
    gradients: list[NDArray | None]
    requests: list[str]
    auxiliaries: list[NDArray]
    versions: Mapping[str, Version] = dataclasses.field(default_factory=dict)
