"""Functions of ``mx.profiler`` under deprecated names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["OldFunctions", "old_functions"]


class OldFunctions(NamedTuple):
    """Functions under their deprecated names."""

    profiler_set_config: Callable[..., None]
    profiler_set_state: Callable[..., None]
    dump_profile: Callable[[], None]


def old_functions(
    set_config: Callable[..., None], set_state: Callable[[str], None], dump: Callable[[bool], None]
) -> OldFunctions:
    """Return the deprecated functions, in terms of those that replace them."""

    def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
        """Configure the profiler (deprecated: use ``set_config``)."""
        _warn("profiler_set_config", "set_config")
        set_config(**{f"profile_{mode}": True, "filename": filename})

    def profiler_set_state(state: str = "stop") -> None:
        """Start or stop the profiler (deprecated: use ``set_state``)."""
        _warn("profiler_set_state", "set_state")
        set_state(state)

    def dump_profile() -> None:
        """Write the file and stop the profiler (deprecated: use ``dump``)."""
        _warn("dump_profile", "dump")
        dump(True)

    return OldFunctions(profiler_set_config, profiler_set_state, dump_profile)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", stacklevel=3
    )
