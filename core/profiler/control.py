"""Starting and stopping the profiler, and reading its results (the functions of
``mx.profiler``)."""

from __future__ import annotations

from typing import Any

from ..errors import MXNetError, UsageError, did_you_mean
from .recorder import Settings, Switches, profiler
from .statistics import SORT_KEYS

__all__ = [
    "dump",
    "dumps",
    "pause",
    "resume",
    "set_config",
    "set_state",
]

_SWITCHES = ("symbolic", "imperative", "memory", "api")
_OPTIONS = (
    "profile_all",
    *(f"profile_{name}" for name in _SWITCHES),
    "filename",
    "continuous_dump",
    "dump_period",
    "aggregate_stats",
    "profile_process",
)


def set_config(**kwargs: Any) -> None:
    """Configure what the profiler records and where; omitted options get their defaults.

    Args:
        profile_all: record everything, regardless of the next four options. False by default.
        profile_symbolic: record steps of executors, each with its node and its kernel. True by
            default.
        profile_imperative: record operators called on arrays (``mx.nd``). True by default.
        profile_memory: record the sizes of executors' memory. True by default.
        profile_api: record whole passes of executors and updates of optimizers. True by default.
        filename: name of the trace file, ``"profile.json"`` by default.
        continuous_dump: append to the file while the profiler runs. True by default.
        dump_period: seconds between two appends, 1 by default.
        aggregate_stats: collect the statistics for ``dumps``. False by default.
        profile_process: only ``"worker"``: no other process computes.

    Raises:
        MXNetError: an option is unknown or has an invalid value.
    """
    for name in kwargs:
        if name not in _OPTIONS:
            raise MXNetError(
                f"Cannot find argument {name!r}{did_you_mean(name, _OPTIONS)}, possible arguments: "
                f"{', '.join(_OPTIONS)}"
            )
    _check_process(kwargs.get("profile_process", "worker"))
    everything = _flag(kwargs, "profile_all", False)
    period = kwargs.get("dump_period", 1.0)
    if isinstance(period, bool) or not isinstance(period, (int, float)) or period <= 0:
        raise MXNetError(f"dump_period is {period!r}, expected a positive number of seconds")
    profiler.settings = Settings(
        switches=Switches(
            **{name: everything or _flag(kwargs, f"profile_{name}", True) for name in _SWITCHES}
        ),
        filename=str(kwargs.get("filename", "profile.json")),
        continuous_dump=_flag(kwargs, "continuous_dump", True),
        dump_period=float(period),
        aggregate_stats=_flag(kwargs, "aggregate_stats", False),
    )


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start (``"run"``) or stop (``"stop"``) the profiler.

    Raises:
        UsageError: the state is unknown. MXNetError: the process is not ``"worker"``.
    """
    _check_process(profile_process)
    if state not in ("run", "stop"):
        raise UsageError(f"state is {state!r}, expected 'run' or 'stop'")
    if state == "run":
        profiler.start()
    else:
        profiler.stop()


def pause(profile_process: str = "worker") -> None:
    """Suspend recording until ``resume`` or ``set_state("run")``."""
    _check_process(profile_process)
    profiler.pause()


def resume(profile_process: str = "worker") -> None:
    """End a pause."""
    _check_process(profile_process)
    profiler.resume()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write what has been recorded to the file.

    Args:
        finished: also stop the profiler; the next run begins a new file.
        profile_process: only ``"worker"``.

    Raises:
        MXNetError: the profiler has not run since the file was finished. OSError: it cannot be
            written.
    """
    _check_process(profile_process)
    session = profiler.session
    if session is None:
        raise MXNetError(
            "Profiler hasn't been run. Config and start profiler first: set_config(...), then "
            "set_state('run')"
        )
    session.flush()
    if finished:
        profiler.finish()


def dumps(
    reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False
) -> str:
    """Return totals by operator, by kernel, by layout reorder and by whatever else was recorded.

    Args:
        reset: clear the totals afterwards.
        format: ``"table"`` or ``"json"``.
        sort_by: ``"total"``, ``"avg"``, ``"min"``, ``"max"`` or ``"count"``.
        ascending: smallest first.

    Returns:
        the text; ``""`` unless the profiler runs, or has run, with ``aggregate_stats=True``.

    Raises:
        UsageError: an argument has an invalid value.
    """
    if format not in ("table", "json"):
        raise UsageError(f"Invalid value provided for format: {format}. Support: 'table', 'json'")
    if sort_by not in SORT_KEYS:
        raise UsageError(
            f"Invalid value provided for sort_by: {sort_by}. Support: {', '.join(SORT_KEYS)}"
        )
    session = profiler.session
    if session is None or not session.keeps_statistics:
        return ""
    statistics = session.count()
    show = statistics.table if format == "table" else statistics.json
    text = show(sort_by, ascending)
    if reset:
        statistics.clear()
    return text


def _flag(options: dict[str, Any], name: str, default: bool) -> bool:
    value = options.get(name, default)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value not in (True, False):
        raise MXNetError(f"Invalid Parameter format for {name} expect boolean but value={value!r}")
    return bool(value)


def _check_process(process: str) -> None:
    if process != "worker":
        raise MXNetError(
            f"profile_process is {process!r}, expected 'worker': no key-value store here runs in a "
            "process of its own"
        )
