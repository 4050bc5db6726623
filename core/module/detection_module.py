"""A module for detectors (``DetModule`` of SimpleDet)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from .. import profiler
from ..checkpoint import BatchEndParam, load_checkpoint
from ..device import Context
from ..metric import EvalMetric
from ..symbol import Symbol
from .base_module import as_list
from .module import Module
from .mutable_module import names_containing

__all__ = ["DetModule", "DetectionModule"]

_PROFILED_BATCHES = 10


class DetectionModule(Module):
    """A module whose fixed parameters are chosen by substrings of their names.

    A batch may be a list of one batch per device, all of the same shapes. ``fit`` prepares the
    next batch before it updates the metric, because the metric waits for the devices.

    Args:
        symbol: what is computed.
        data_names, label_names: inputs, in the order of a batch's arrays.
        logger: for progress lines.
        context: a device, or several among which each batch is divided.
        fixed_param: parameters whose names contain one of these are not trained,
        excluded_param: unless their names also contain one of these.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        fixed_param: Sequence[str] | None = None,
        excluded_param: Sequence[str] | None = None,
    ) -> None:
        excluded = set(names_containing(symbol, excluded_param))
        fixed = [name for name in names_containing(symbol, fixed_param) if name not in excluded]
        logger.info("fixed parameters: %s", fixed)
        super().__init__(symbol, data_names, label_names, logger, context, fixed_param_names=fixed)

    @staticmethod
    def load(
        prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any
    ) -> DetectionModule:
        """Return a module from ``prefix-symbol.json`` and ``prefix-NNNN.params``."""
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        module = DetectionModule(symbol, **kwargs)
        module._host.adopt(arguments, auxiliary)
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def fit(self, *args: Any, profile: bool = False, **kwargs: Any) -> None:
        """Train as ``BaseModule.fit`` does.

        Args:
            *args, **kwargs: as for ``BaseModule.fit``.
            profile: write the running profiler's trace after ten batches.
        """
        if profile:
            given = as_list(kwargs.get("batch_end_callback"))
            kwargs["batch_end_callback"] = [*given, self._profile_callback()]
        super().fit(*args, **kwargs)

    def _measure_and_fetch(
        self, eval_metric: EvalMetric, data_batch: Any, fetch: Callable[[], Any]
    ) -> Any:
        following = fetch()
        self._update_metric_of(eval_metric, data_batch)
        return following

    def _profile_callback(self) -> Callable[[BatchEndParam], None]:
        def callback(param: BatchEndParam) -> None:
            if param.nbatch + 1 == _PROFILED_BATCHES:
                self.logger.info("Profiling ends")
                profiler.dump()

        return callback


DetModule = DetectionModule
"""SimpleDet's name for this class."""
