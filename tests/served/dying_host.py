"""Hosts that kill a process after a checkpoint has been renamed and before it is reported.

Each does so once for every checkpoint saved at the end of an epoch; a file beside the checkpoints
records that it has happened. To run a whole server with one of them:

    python -m served.dying_host served.dying_host:ExecutorDies serve ...
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from app.executor.host import ModuleHost
from app.files import checkpoint_files

__all__ = ["ExecutorDies", "ServerDies"]


class _DyingHost(ModuleHost):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        rename = checkpoint_files.rename_durably

        def rename_and_die(source: Path, target: Path) -> None:
            rename(source, target)
            done = target.parent.parent / f"died-at-{target.name}"
            is_seen = target.name.isdecimal() and target.parent.name == "checkpoints"
            if is_seen and not done.exists():
                done.touch()
                self.die()

        checkpoint_files.rename_durably = rename_and_die

    def die(self) -> None:
        """Kill the executor's process or its server's, with which the executor ends as well."""
        raise NotImplementedError


class ExecutorDies(_DyingHost):
    """Kills the executor's own process."""

    def die(self) -> None:
        """End this process as the kernel's out-of-memory killer would."""
        os.kill(os.getpid(), signal.SIGKILL)


class ServerDies(_DyingHost):
    """Kills the server, and thereby the executor, which ends with its server."""

    def die(self) -> None:
        """Kill the server, and wait until this process is ended as a consequence."""
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()


if __name__ == "__main__":
    from app import main
    from app.cli.main import app
    from app.link.process import ProcessOptions

    host = sys.argv.pop(1)

    def options(**given: object) -> ProcessOptions:
        program = ("app.executor", "--host", host)
        return ProcessOptions(**{**given, "program": program})  # type: ignore[arg-type]

    main.ProcessOptions = options  # type: ignore[assignment, misc]
    app()
