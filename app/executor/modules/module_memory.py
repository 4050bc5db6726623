"""The memory that a module uses on its device, by purpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from app.executor.modules.engine_optimizer import main_module
from app.executor.modules.hosted_module import HostedModule
from core.kvstore import KVStore
from core.optimizer import Updater

__all__ = ["memory_of"]

_STEP_BYTES = 8 * 1024
"""Estimate for a node in a plan, besides its arrays; 17 kB were measured for a node in two
plans."""


def memory_of(module: HostedModule) -> dict[str, int]:
    """Return bytes of parameters with gradients, optimizer, plans, and the data of its job.

    Parameters of loaded versions are included.
    """
    plan_bytes = module.nodes * _STEP_BYTES
    if module.record.bind is None:
        early = module.values() or ({}, {})
        parameters = sum(_nbytes(array) for part in early for array in part.values())
        own = {"parameters": parameters, "optimizer": 0, "training": plan_bytes, "predict": 0}
        return own | {"job_data": module.job_data_bytes, "versions": 0}
    group = main_module(module.engine).executor_group
    reports = [executor.memory_report() for executor in group.execs]
    training = sum(one.outputs + one.arena + one.kept for one in reports) + plan_bytes
    predict, plans = module.predict_bytes(), module.predict_plans()
    return {
        "parameters": sum(one.nbytes() for one in group.parameters),
        "optimizer": _nbytes(_optimizer_states(module)),
        "training": training,
        "predict": predict + plans * plan_bytes,
        "job_data": module.job_data_bytes,
        "versions": module.versions.nbytes(),
    }


def _optimizer_states(module: HostedModule) -> Iterable[Any]:
    updates = main_module(module.engine)
    updater: Any = updates._updater
    store = updates.kvstore
    if updater is None and isinstance(store, KVStore):
        updater = store.updater
    return updater.states.values() if isinstance(updater, Updater) else ()


def _nbytes(states: Any) -> int:
    """Return the bytes of arrays in nested tuples and lists."""
    if isinstance(states, Iterable) and not hasattr(states, "asnumpy"):
        return sum(_nbytes(one) for one in states)
    if not hasattr(states, "asnumpy"):
        return 0
    return int(states.size * np.dtype(states.dtype).itemsize)
