"""Executors that answer without an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.link.process import ProcessClient, ProcessOptions


@pytest.fixture
def echo_options() -> ProcessOptions:
    """Options of a process that runs ``echo_host.EchoHost``."""
    return ProcessOptions(
        threads=1,
        program=("app.executor", "--host", "echo_host:EchoHost"),
        beat_seconds=0.1,
        environ={"PYTHONPATH": str(Path(__file__).parent)},
    )


@pytest.fixture
async def executor(echo_options: ProcessOptions) -> AsyncIterator[ProcessClient]:
    """A running executor process."""
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    yield client
    await client.stop()
