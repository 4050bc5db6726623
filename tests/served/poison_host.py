"""A host whose process ends, as by the kernel's killer, in calls on modules of certain names.

Run by an executor process: ``app.executor --host served.poison_host:PoisonHost``.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from app.executor.host import ModuleHost

__all__ = ["PoisonHost"]


class PoisonHost(ModuleHost):
    """Dies when it restores module ``poison``, and when ``hungry`` predicts or runs a job."""

    def handle(self, method: str, params: dict[str, Any], tensors: Any) -> Any:
        """Answer a call, or die."""
        is_poison = method == "restore_module" and params["record"]["name"] == "poison"
        is_hungry = method == "predict" and params["module"] == "hungry"
        if is_poison or is_hungry:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().handle(method, params, tensors)

    def advance(self) -> None:
        """Run one batch of one job, or die of it."""
        is_hungry = any(job["module"] == "hungry" for job in self._jobs.summarize())
        super().advance()
        if is_hungry:
            os.kill(os.getpid(), signal.SIGKILL)
