"""Installing, saving and moving the optimizer of an engine's module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.module import OptimizerSpec
from app.errors.tree import HostError, Invalid
from app.executor.faults import client_fault
from app.executor.modules.optimizer_specs import (
    check_states,
    get_position,
    make_options,
    other_optimizer,
    set_position,
)
from core.checkpoint import read_states, write_states
from core.module import BucketingModule, Module
from core.ndarray import NDArray, arange
from core.optimizer import Optimizer

__all__ = [
    "Engine",
    "Parked",
    "SavedStates",
    "check_saved",
    "install_optimizer",
    "load_states",
    "main_module",
    "optimizer_of",
    "park_optimizer",
    "states_of",
    "unpark_optimizer",
    "update_parameters",
]

Engine = Module | BucketingModule


@dataclass(frozen=True, slots=True)
class Parked:
    """An optimizer taken out of a module: its position, and its states in MXNet's format."""

    position: dict[str, Any]
    states: bytes


@dataclass(frozen=True, slots=True)
class SavedStates:
    """States in MXNet's format that a module's optimizer can continue from; see ``check_saved``.

    Attributes:
        content: the states without the optimizer.
        position: the optimizer's position, if the optimizer was saved with the states.
    """

    content: bytes
    position: dict[str, Any] | None


def main_module(engine: Engine) -> Module:
    """Return the bound module that owns parameters and optimizer: itself or the default
    bucket's."""
    return engine.default_module if isinstance(engine, BucketingModule) else engine


def optimizer_of(engine: Engine) -> Optimizer | None:
    """Return the installed optimizer, or None."""
    return main_module(engine).optimizer if engine.binded else None


def update_parameters(engine: Engine) -> None:
    """Update the parameters from the gradients of the last backward pass.

    Row-sparse parameters in a store are pulled with all rows: a script says by ``Module.prepare``
    which rows a batch needs, but a client cannot.
    """
    engine.update()
    module = main_module(engine)
    if not module._update_on_kvstore:
        return
    group = module.executor_group
    rows = {
        name: arange(0, arrays[0].shape[0], dtype="int64")
        for name, arrays in zip(group.param_names, group.param_arrays, strict=True)
        if arrays[0].stype == "row_sparse"
    }
    if rows:
        module.prepare(None, lambda batch: rows)


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
    """Return the optimizer's states in MXNet's format."""
    return main_module(engine).copy_optimizer_states()()


def check_saved(engine: Engine, content: bytes, weights: Mapping[str, NDArray]) -> SavedStates:
    """Return the states in a file after checking that the installed optimizer can continue from
    them.

    Args:
        engine: a module with an optimizer.
        content: a ``.states`` file, with or without the optimizer itself.
        weights: the parameters by name.

    Raises:
        HostError, Invalid: damaged, of another model or of another optimizer.
    """
    optimizer = optimizer_of(engine)
    assert optimizer is not None
    with client_fault("states"):
        loaded = read_states(content)
    states, saved = loaded if isinstance(loaded, tuple) and len(loaded) == 2 else (loaded, None)
    if not isinstance(states, dict) or not isinstance(saved, Optimizer | None):
        raise Invalid("states", f"a {type(loaded).__name__}", "states by number of parameter")
    if saved is None:
        check_states(states, optimizer, weights)
        return SavedStates(content, None)
    if type(saved) is not type(optimizer):
        raise other_optimizer(f"states of {type(saved).__name__}", type(optimizer).__name__)
    check_states(states, optimizer, weights)
    return SavedStates(write_states(states), get_position(saved))


def load_states(engine: Engine, saved: SavedStates) -> None:
    """Load states that have been checked; learning rate and options stay as they are."""
    _set_states(engine, saved.content)
    optimizer = optimizer_of(engine)
    assert optimizer is not None
    if saved.position is not None:
        set_position(optimizer, saved.position, keep_rates=True)


def park_optimizer(engine: Engine) -> Parked | None:
    """Return the optimizer's position and states; None without an optimizer."""
    optimizer = optimizer_of(engine)
    return None if optimizer is None else Parked(get_position(optimizer), states_of(engine))


def unpark_optimizer(engine: Engine, parked: Parked) -> None:
    """Bring the newly installed optimizer to the position and states of a parked one.

    The gradients keep the new one's scale, because the batch size may have changed.
    """
    optimizer = optimizer_of(engine)
    assert optimizer is not None
    scale = optimizer.rescale_grad
    _set_states(engine, parked.states)
    set_position(optimizer, parked.position)
    optimizer.rescale_grad = scale


def _set_states(engine: Engine, states: bytes) -> None:
    with client_fault("states"):
        main_module(engine).set_optimizer_states(states)


def set_learning_rate(engine: Engine, learning_rate: float) -> None:
    """Set the learning rate; raise HostError if a scheduler controls it, Invalid for a value that
    cannot be one."""
    optimizer = optimizer_of(engine)
    assert optimizer is not None
    if optimizer.lr_scheduler is not None:
        raise HostError(
            "conflict",
            "an lr_scheduler gives the learning rate; install an optimizer without one",
            "learning_rate",
        )
    if not 0 <= learning_rate < float("inf"):
        raise Invalid("learning_rate", learning_rate, "a finite number, at least 0")
    optimizer.set_learning_rate(learning_rate)
