"""A short fit as a job of a host, and the same by the engine's own ``Module.fit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import core as mx
from app.domain.module import ModuleRecord
from served.perceptron import BATCH

__all__ = [
    "assert_equal_params",
    "fit_params",
    "reference_fit",
    "run_fit",
    "without_seconds",
]


def fit_params(**changes: Any) -> dict[str, Any]:
    """Return the parameters of a short fit."""
    return {
        "dataset": "toy",
        "epochs": 3,
        "batch_size": BATCH,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.2, "momentum": 0.9}},
        "initializer": {"initializer": "xavier", "seed": 4},
        **changes,
    }


def run_fit(driver: Any, jobs: Any, record: ModuleRecord, **changes: Any) -> dict[str, Any]:
    """Run a fit to its end and return its last event."""
    resume, attempt = changes.pop("resume", None), changes.pop("attempt", 1)
    start = jobs.start(record, fit_params(**changes), resume=resume, attempt=attempt)
    driver.ask(start)
    return driver.run_jobs()


def reference_fit(
    symbol: mx.sym.Symbol,
    data: Mapping[str, np.ndarray],
    *,
    contexts: list[mx.Context] | None = None,
    last_batch: str = "pad",
    epochs: int = 3,
    scheduler: mx.lr_scheduler.LRScheduler | None = None,
) -> dict[str, np.ndarray]:
    """Train with the engine's own module; return its parameters."""
    position = mx.random.get_state()
    module = mx.mod.Module(symbol, context=contexts or mx.cpu())
    iterator = mx.io.NDArrayIter(
        data["data"],
        data["softmax_label"].astype(np.float32),
        BATCH,
        last_batch_handle=last_batch,
    )
    mx.random.seed(4)
    options = {"learning_rate": 0.2, "momentum": 0.9}
    if scheduler is not None:
        options["lr_scheduler"] = scheduler
    initializer = mx.init.Xavier()
    module.fit(iterator, num_epoch=epochs, optimizer_params=options, initializer=initializer)
    mx.random.set_state(position)
    arguments, auxiliary = module.get_params()
    return {name: value.asnumpy() for name, value in {**arguments, **auxiliary}.items()}


def assert_equal_params(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Assert that parameters are equal in names and bits."""
    assert got.keys() == expected.keys()
    for name, value in got.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def without_seconds(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's result without its duration."""
    return {name: value for name, value in result.items() if name != "seconds"}
