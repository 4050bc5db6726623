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
    _skip_loading_certificates()
    _use_fixed_examples()
    _restore_interrupts()


def _skip_loading_certificates() -> None:
    """Keep httpx from loading all CA certificates for each client, here and in child processes.

    That takes 20 ms, and tests make thousands of clients, none of which uses TLS. Certificates in
    a folder, unlike those in a file, are loaded only when one is looked for.
    """
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)


def _use_fixed_examples() -> None:
    """Make Hypothesis draw the same examples in every run, without a time limit for each.

    Its default limit of 0.2 s fails tests on a loaded machine. Hypothesis may be missing where
    only the tests for GPUs are run.
    """
    if importlib.util.find_spec("hypothesis") is not None:
        from hypothesis import settings

        settings.load_profile("ci")


def _restore_interrupts() -> None:
    """Handle SIGINT even where a shell has started the tests in the background.

    A shell makes background processes ignore it. The processes that tests start and interrupt
    would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempt collected tests from garbage collection.

    Scanning tens of thousands takes a third of a second each time a test calls the collector.
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
