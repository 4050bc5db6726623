"""Checks which outputs feed a module's states."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.module import ModuleRecord
from app.domain.serving import StateLink
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid

__all__ = ["check_state_links"]


def check_state_links(
    record: ModuleRecord, links: Sequence[StateLink], output_names: Sequence[str]
) -> None:
    """Raise Invalid unless each state of a module is linked to one output, or none is linked."""
    names = record.state_names
    seen: list[str] = []
    for position, one in enumerate(links):
        field = f"states[{position}]"
        if one.state not in names:
            near = did_you_mean(one.state, names)
            expected = f"one of the module's state_names, {', '.join(names) or 'of which none is'}"
            raise Invalid(f"{field}.state", one.state, f"{expected}{near}")
        if one.state in seen:
            raise Invalid(f"{field}.state", one.state, "each state once")
        if one.output not in output_names:
            near = did_you_mean(one.output, output_names)
            expected = f"an output of the symbol: {', '.join(output_names)}{near}"
            raise Invalid(f"{field}.output", one.output, expected)
        seen.append(one.state)
    missing = [name for name in names if name not in seen]
    if links and missing:
        raise Invalid("states", seen, f"all states of the module: {', '.join(missing)} too")
