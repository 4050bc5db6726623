"""A server run as a manifest says, but without a container.

It gets the image's environment, the manifest's arguments and environment, and folders of this
machine in place of the volumes.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.client.local_server import ServerProcess

__all__ = ["ENTRY", "container_server", "image_environment", "image_facts", "mapped"]

DOCKERFILE = Path(__file__).parents[2] / "docker" / "Dockerfile"
ENTRY = ("-m", "app")
"""What Python runs in place of the image's entry point, ``modserve``."""
_HERE = {"MODSERVE_HOST": "127.0.0.1", "MODSERVE_PORT": "0", "MODSERVE_THREADS": "1"}
"""Overrides the manifest, since other servers run on this machine at the same time."""
_START_SECONDS = 60.0
_LISTENING = re.compile(r"listening on (https?://\S+) ")


def _instructions(variant: str) -> list[tuple[str, str]]:
    """Return the instructions of an image's stages, base first."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    rows = [line.partition(" ") for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    stages: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for word, _, rest in rows:
        if word == "FROM":
            base, _, name = rest.replace("${VARIANT}", variant).partition(" AS ")
            current = stages[name or "final"] = list(stages.get(base, []))
        else:
            current.append((word, rest))
    return stages["final"]


def image_environment(variant: str = "cpu") -> dict[str, str]:
    """Return the environment variables set by the image."""
    pairs = [
        word.partition("=")
        for name, rest in _instructions(variant)
        if name == "ENV"
        for word in shlex.split(rest)
    ]
    return {name: value for name, _, value in pairs}


def image_facts(variant: str = "cpu") -> dict[str, str]:
    """Return the last instruction of each name: ``USER``, ``VOLUME``, ``ENTRYPOINT``."""
    return dict(_instructions(variant))


def mapped(text: str, folders: Mapping[str, Path]) -> str:
    """Return a container path as one of this machine; other paths are unchanged."""
    for inside, here in folders.items():
        if text == inside or text.startswith(f"{inside}/"):
            return f"{here}{text[len(inside) :]}"
    return text


@contextmanager
def container_server(
    args: Sequence[str],
    environment: Mapping[str, str],
    folders: Mapping[str, Path],
    log: Path,
    *,
    grace_seconds: float = 30.0,
) -> Iterator[ServerProcess]:
    """Run a server for the duration of the block, which is entered once the server listens.

    Args:
        args: arguments of the image's entry point.
        environment: the manifest's variables; they override those of the image.
        folders: the mounted folders by their path in the container.
        log: the file that the server's output is appended to.
        grace_seconds: how long the server may take to stop before it is killed.

    Raises:
        subprocess.TimeoutExpired: the server did not stop in time.
    """
    own = {key: value for key, value in os.environ.items() if not key.startswith("MODSERVE_")}
    image = {key: one for key, one in image_environment().items() if key != "PATH"}
    values = {**image, **environment, **_HERE}
    with log.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(
            [sys.executable, *ENTRY, *(mapped(one, folders) for one in args)],
            env=own | {name: mapped(value, folders) for name, value in values.items()},
            stdout=output,
            stderr=output,
        )
    try:
        yield ServerProcess(process, _listening(process, log, begin), log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _listening(process: subprocess.Popen[bytes], log: Path, begin: int) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        found = _LISTENING.search(log.read_bytes()[begin:].decode())
        if found is not None:
            return found[1]
        is_late = process.poll() is not None or time.monotonic() > deadline
        assert not is_late, f"the server did not start:\n{log.read_text()[-4000:]}"
        time.sleep(0.05)
