"""A host that may be busy with a long batch when a job arrives; its jobs finish at once.

The environment variable ``BUSY`` names the busy device, and ``BUSY_UNTIL`` a file: the batch is
over once that file exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.link.job_messages import JobDone, start_from_wire, to_wire
from app.link.protocols import Arrays, Emit, Priority
from served.processes import wait_until
from served.single_predictions import SinglePredictions

__all__ = ["BusyHost"]


class BusyHost(SinglePredictions):
    """Accepts jobs; on one device it is busy until a file exists."""

    def __init__(self, device: str, emit: Emit, wake: Callable[[], None]) -> None:
        self._emit = emit
        self._is_busy = device == os.environ["BUSY"]

    def priority(self, method: str) -> Priority:
        return Priority.CONTROL

    def handle(
        self, method: str, params: dict[str, Any], tensors: Arrays
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        if self._is_busy:
            wait_until(Path(os.environ["BUSY_UNTIL"]).exists, "the end of the batch", seconds=240)
        if method == "start_job":
            start = start_from_wire(params)
            self._emit(to_wire(JobDone(job_id=start.job_id, attempt=start.attempt)))
        return {}, {}

    def has_work(self) -> bool:
        return False

    def advance(self) -> None:
        raise AssertionError("there is no work")

    def close(self) -> None:
        pass
