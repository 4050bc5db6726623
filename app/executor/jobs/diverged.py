"""Training that has produced NaN or infinity."""

from __future__ import annotations

from app.errors.tree import Conflict, HostError
from app.executor.modules.finite_values import REMEDY, nonfinite_name
from app.executor.modules.hosted_module import HostedModule

__all__ = ["Diverged", "check_present", "nonfinite_parameter"]


class Diverged(HostError):
    """The parameters are of no use any more, even if they are finite: they give NaN."""

    def __init__(self, what: str) -> None:
        """Prepare.

        Args:
            what: where NaN or infinity was found.
        """
        advice = "lower the learning rate, or clip gradients"
        super().__init__("invalid", f"{what}; {advice}", "optimizer")


def nonfinite_parameter(module: HostedModule) -> str | None:
    """Return the name of a parameter or auxiliary state that holds NaN or infinity, if any."""
    values = module.values()
    return None if values is None else nonfinite_name(p for part in values for p in part.items())


def check_present(module: HostedModule) -> None:
    """Raise Conflict if a module's parameters are not finite before it is trained."""
    if (name := nonfinite_parameter(module)) is not None:
        raise Conflict(
            f"parameter {name!r} of module {module.name!r} holds NaN or infinity before the first "
            f"batch; {REMEDY}"
        )
