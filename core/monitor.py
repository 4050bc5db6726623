"""Statistics of intermediate arrays while a module runs (``mx.mon.Monitor``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .ndarray import NDArray, array

__all__ = ["Monitor"]


def _root_mean_square(values: NDArray) -> NDArray:
    host = values.asnumpy().reshape(-1)
    return array(np.array([np.linalg.norm(host) / np.sqrt(max(host.size, 1))], dtype=np.float32))


class Monitor:
    """Collect a statistic of outputs, weights and gradients every ``interval`` batches.

    Args:
        interval: batches between two collections.
        stat_func: computes the statistic of an NDArray; the root mean square by default.
        pattern: regular expression for the names to collect.
        sort: sort the results by name.
        monitor_all: also collect the inputs of operators.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.interval = interval
        self.stat_func = stat_func or _root_mean_square
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []

    def stat_helper(self, name: str, values: NDArray) -> None:
        """Called by executors with every intermediate array."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(values)))

    def install(self, exe: Any) -> None:
        """Watch an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Begin a batch."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch; return the collected (step, name, statistic as text)."""
        if not self.activated:
            return []
        for exe in self.exes:
            symbol = exe._symbol
            for names, arrays in (
                (symbol.list_arguments(), exe.arg_arrays),
                (symbol.list_auxiliary_states(), exe.aux_arrays),
            ):
                for name, values in zip(names, arrays, strict=True):
                    self.stat_helper(name, values)
        self.activated = False
        queue = sorted(self.queue, key=lambda entry: entry[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(stats)) for step, name, stats in queue]

    def toc_print(self) -> None:
        """End a batch and log the collected statistics."""
        for step, name, stats in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, stats)


def _text(stats: Any) -> str:
    values = stats if isinstance(stats, (list, tuple)) else [stats]
    texts = []
    for value in values:
        single = isinstance(value, NDArray) and value.size == 1
        texts.append(str(value.asnumpy().reshape(-1)[0] if single else value))
    return "\t".join(texts) + "\t"
