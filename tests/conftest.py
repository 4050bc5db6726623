"""Fixtures for all tests."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import signal
from pathlib import Path

import pytest

from oracle.shared import SHARED

pytest_plugins = ["workers"]


def pytest_configure() -> None:
    """Prepare this process and the ones that tests start."""
    _make_clients_quick()
    _heed_interrupts()


def _make_clients_quick() -> None:
    """Let a client of httpx be made in no time, here and in processes begun by tests.

    To read the certificates of the whole world takes 20 ms, and tests make thousands of clients.
    A folder is read only when a certificate is looked for.
    """
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    draw_the_same_examples()


def draw_the_same_examples() -> None:
    """Let Hypothesis draw the same examples in every run, and no example be too slow.

    Its own limit of 0.2 s fails tests on a loaded machine. One with a GPU may lack Hypothesis.
    """
    if importlib.util.find_spec("hypothesis") is not None:
        from hypothesis import settings

        settings.load_profile("ci")


def _heed_interrupts() -> None:
    """Handle SIGINT even where a shell has started the tests in the background.

    Such a shell has it ignored, and so would all processes that tests start and interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempt collected tests from garbage collection.

    Scanning 34,000 of them takes a third of a second each time a test calls the collector.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def warnings_are_logged() -> None:
    """Keep an earlier test's server from disabling the log capture of this one."""
    logging.getLogger().setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of real models beside the repository; skip if there is none."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the repository")
    return SHARED
