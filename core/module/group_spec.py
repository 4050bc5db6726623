"""The settings of a module's executors that do not depend on input shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..device import Context
from ..errors import UsageError
from ..symbol import Symbol

__all__ = ["GroupSpec"]


@dataclass(frozen=True)
class GroupSpec:
    """The settings that all executors of a module have in common."""

    symbol: Symbol
    contexts: Sequence[Context]
    work_load: Sequence[float]
    param_names: Sequence[str]
    state_names: Sequence[str]
    fixed_param_names: Sequence[str]
    for_training: bool
    inputs_need_grad: bool
    grad_req: Any
    group2ctxs: Sequence[Mapping[str, Context] | None]
    arguments: list[str] = field(init=False)
    auxiliary: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", self.symbol.list_arguments())
        object.__setattr__(self, "auxiliary", self.symbol.list_auxiliary_states())

    def gradient_requests(self, data_names: Sequence[str]) -> dict[str, str]:
        """Return the gradient request of each argument: write, add or null."""
        if not self.for_training:
            return dict.fromkeys(self.arguments, "null")
        if isinstance(self.grad_req, (list, tuple)):
            if len(self.grad_req) != len(self.arguments):
                raise UsageError(
                    f"grad_req has {len(self.grad_req)} entries for {len(self.arguments)} arguments"
                )
            return dict(zip(self.arguments, self.grad_req, strict=True))
        if not isinstance(self.grad_req, (str, Mapping)):
            raise ValueError(
                f"grad_req is {self.grad_req!r}; expected a string, a list in the order of the "
                "arguments, or a dict by name"
            )
        default = self.grad_req if isinstance(self.grad_req, str) else "write"
        trained = set(self.param_names).difference(self.fixed_param_names)
        requests = {}
        for name in self.arguments:
            wanted = name in trained
            wanted = wanted or (name in data_names and self.inputs_need_grad)
            requests[name] = default if wanted else "null"
        if isinstance(self.grad_req, Mapping):
            requests.update(self.grad_req)
        return requests
