"""The optimizer inside an engine's module: installed, saved, and moved to another module."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.domain.module import OptimizerSpec
from app.worker.faults import client_fault
from app.worker.optimizer_specs import check_states, get_position, make_options, set_position
from core.module import BucketingModule, Module
from core.optimizer import Optimizer
from core.types import Shape

__all__ = [
    "Engine",
    "Parked",
    "holder_of",
    "install_optimizer",
    "load_states",
    "optimizer_of",
    "park_optimizer",
    "states_of",
    "unpark_optimizer",
]

Engine = Module | BucketingModule


@dataclass(frozen=True, slots=True)
class Parked:
    """An optimizer taken out of a module: its position and its states in MXNet's form."""

    position: dict[str, Any]
    states: bytes


def holder_of(engine: Engine) -> Module:
    """Return the bound module that holds parameters and optimizer: itself or the default bucket."""
    return engine._default if isinstance(engine, BucketingModule) else engine


def optimizer_of(engine: Engine) -> Optimizer | None:
    """Return the optimizer installed, None where there is none."""
    return holder_of(engine)._optimizer if engine.binded else None


def install_optimizer(engine: Engine, spec: OptimizerSpec, prefix: str) -> None:
    """Install an optimizer by its specification.

    ``prefix`` leads to the specification in the request (``optimizer.``), for errors.

    Raises:
        Invalid, HostError: the specification does not fit.
    """
    options = make_options(spec, prefix)
    with client_fault(f"{prefix}options"):
        engine.init_optimizer(
            kvstore=spec.kvstore, optimizer=spec.name, optimizer_params=options, force_init=True
        )


def states_of(engine: Engine) -> bytes:
    """Return the optimizer's states in MXNet's form."""
    with tempfile.TemporaryDirectory(prefix="modserve-") as directory:
        path = Path(directory) / "optimizer.states"
        engine.save_optimizer_states(str(path))
        return path.read_bytes()


def load_states(engine: Engine, states: bytes, shapes: Mapping[str, Shape]) -> None:
    """Take over states; such as do not belong to parameters of these shapes change nothing.

    Raises:
        HostError: damaged, or of another model.
    """
    before = states_of(engine)
    _set_states(engine, states)
    holder = holder_of(engine)
    updater = holder._updater
    if updater is None and holder._kvstore is not None:
        updater = holder._kvstore._updater
    assert updater is not None
    assert holder._optimizer is not None
    try:
        check_states(updater.states, holder._optimizer.idx2name, shapes)
    except Exception:
        _set_states(engine, before)
        raise


def park_optimizer(engine: Engine) -> Parked | None:
    """Return all there is to know of the optimizer, None where there is none."""
    optimizer = optimizer_of(engine)
    return None if optimizer is None else Parked(get_position(optimizer), states_of(engine))


def unpark_optimizer(engine: Engine, parked: Parked) -> None:
    """Bring the optimizer just installed to where another one was.

    The gradients keep the new one's scale: the batch may have another size than before.
    """
    optimizer = optimizer_of(engine)
    assert optimizer is not None
    scale = optimizer.rescale_grad
    _set_states(engine, parked.states)
    set_position(optimizer, parked.position)
    optimizer.rescale_grad = scale


def _set_states(engine: Engine, states: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="modserve-") as directory:
        path = Path(directory) / "optimizer.states"
        path.write_bytes(states)
        with client_fault("states"):
            engine.load_optimizer_states(str(path))
