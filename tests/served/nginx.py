"""A real nginx beside the server."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["running_nginx"]


@contextlib.contextmanager
def running_nginx(nginx: str, config: Path) -> Iterator[None]:
    """Run nginx with a configuration, whose folder gets its log.

    Args:
        nginx: path of the program.
    """
    tested = subprocess.run(
        [nginx, "-t", "-c", str(config)], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stderr
    command = [nginx, "-g", "daemon off; user root;", "-c", str(config)]
    with (config.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)
