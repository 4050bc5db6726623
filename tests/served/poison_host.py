"""A host that kills its own process in calls on modules of certain names.

Run by an executor process: ``app.executor --host served.poison_host:PoisonHost``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.executor.background import Waits, awaited, in_background
from app.executor.host import ModuleHost
from app.link.packed_frames import BatchFacts
from app.link.protocols import Arrays, Computation, Predicted, Prepared

__all__ = ["PoisonHost"]

_SIGNALS = {"hungry": signal.SIGKILL, "faulty": signal.SIGSEGV}


def _die_beside(outputs: Arrays) -> Waits[Mapping[str, Any]]:
    yield from awaited(in_background(_die_unnoticed))
    return {}


def _die_unnoticed() -> None:
    """Die while the device's thread already works on something else."""
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


class PoisonHost(ModuleHost):
    """Dies when it restores module ``poison``, and when ``hungry`` predicts or runs a job.

    It ends as if killed by the kernel's out-of-memory killer. Predictions of ``faulty`` end it with
    a segmentation fault, those of ``slow`` take a minute.
    """

    def handle(self, method: str, params: dict[str, Any], tensors: Any) -> Any:
        """Answer a call, or die."""
        if method == "restore_module" and params["record"]["name"] == "poison":
            return Computation({}, _die_beside, is_exclusive=True)
        return super().handle(method, params, tensors)

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        """Compute predictions, or die."""
        name = batch[0].call.params["module"]
        if name == "slow":
            time.sleep(60)
        if name in _SIGNALS:
            os.kill(os.getpid(), _SIGNALS[name])
        return super().predict(batch)

    def advance(self) -> None:
        """Run one batch of one job; die after one of ``hungry``."""
        is_hungry = any(job["module"] == "hungry" for job in self._jobs.summarize())
        super().advance()
        if is_hungry:
            os.kill(os.getpid(), signal.SIGKILL)
