"""Functions of ``mx.profiler`` under deprecated names."""

from __future__ import annotations

import warnings

from ..profiler.control import dump, set_config, set_state

__all__ = ["dump_profile", "profiler_set_config", "profiler_set_state"]


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Configure the profiler (deprecated: use ``set_config``)."""
    warnings.warn(
        "profiler.profiler_set_config() is deprecated. Please use profiler.set_config() instead",
        stacklevel=2,
    )
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """Start or stop the profiler (deprecated: use ``set_state``)."""
    warnings.warn(
        "profiler.profiler_set_state() is deprecated. Please use profiler.set_state() instead",
        stacklevel=2,
    )
    set_state(state)


def dump_profile() -> None:
    """Write the file and stop the profiler (deprecated: use ``dump``)."""
    warnings.warn(
        "profiler.dump_profile() is deprecated. Please use profiler.dump() instead", stacklevel=2
    )
    dump(True)
