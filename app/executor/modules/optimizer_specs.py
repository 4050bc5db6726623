"""Optimizers from their specifications, and the data that a checkpoint must keep about them.

MXNet's ``.states`` files hold only the state arrays. Update counts, the current learning rate and
the scheduler's position are kept next to them, as plain data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from app.domain.module import OptimizerSpec
from app.errors.quoting import did_you_mean
from app.errors.tree import HostError, Invalid
from core import kvstore
from core.ndarray import NDArray
from core.optimizer import Optimizer, lr_scheduler

__all__ = ["check_states", "get_position", "make_options", "other_optimizer", "set_position"]

_SCHEDULERS: Mapping[str, type[lr_scheduler.LRScheduler]] = {
    "factor": lr_scheduler.FactorScheduler,
    "multifactor": lr_scheduler.MultiFactorScheduler,
    "poly": lr_scheduler.PolyScheduler,
    "cosine": lr_scheduler.CosineScheduler,
}
_SET_BY_THE_MODULE = frozenset({"return", "kwargs", "sym", "param_idx2name", "param_dict"})
_PLAIN = (bool, int, float, str, type(None))


def make_options(spec: OptimizerSpec, prefix: str) -> dict[str, Any]:
    """Return a specification's options as ``init_optimizer`` takes them.

    Raises:
        Invalid: unknown optimizer, option, scheduler or store, or a value of another type than the
            optimizer declares; ``prefix`` leads to the specification in the request.
    """
    _check_kvstore(spec.kvstore, f"{prefix}kvstore")
    known = Optimizer.opt_registry
    cls = known.get(spec.name.lower())
    if cls is None:
        raise Invalid(
            f"{prefix}name",
            spec.name,
            f"one of {', '.join(sorted(known))}{did_you_mean(spec.name.lower(), known)}",
        )
    accepted = _accepted_options(cls)
    options: dict[str, Any] = {}
    for name, value in spec.options.items():
        path = f"{prefix}options.{name}"
        if name not in accepted:
            near = did_you_mean(name, accepted)
            raise Invalid(path, value, f"an option of {spec.name}: {', '.join(accepted)}{near}")
        if name == "lr_scheduler":
            options[name] = None if value is None else _make_scheduler(value, path)
        else:
            options[name] = _typed(value, accepted[name], path)
    return options


def get_position(optimizer: Optimizer) -> dict[str, Any]:
    """Return the parts of an optimizer that updates change, as plain data; see ``set_position``."""
    counts = optimizer._all_index_update_counts
    scheduler = optimizer.lr_scheduler
    return {
        "attributes": _plain_attributes(optimizer),
        # As lists of pairs, because the keys of a JSON object would come back as strings.
        "counts": [[device, list(table.items())] for device, table in counts.items()],
        "scheduler": None if scheduler is None else _plain_attributes(scheduler),
    }


def set_position(
    optimizer: Optimizer, position: Mapping[str, Any], *, keep_rates: bool = False
) -> None:
    """Bring an optimizer to the position of another one of its class.

    Args:
        optimizer: made from the same specification, or (``keep_rates``) from one with other rates.
        position: what ``get_position`` returned.
        keep_rates: keep the learning rate and everything else from the specification.
    """
    attributes = dict(position["attributes"])
    if keep_rates:
        for name in ("lr", *_accepted_options(type(optimizer))):
            attributes.pop(name, None)
    vars(optimizer).update(attributes)
    tables = optimizer._all_index_update_counts
    tables.clear()
    tables.update((device, {key: n for key, n in items}) for device, items in position["counts"])
    # MXNet's optimizers count updates in the table of the present device, by this second name.
    optimizer._index_update_count = tables.setdefault(0, {})
    schedule = position["scheduler"]
    if optimizer.lr_scheduler is not None and schedule is not None and not keep_rates:
        vars(optimizer.lr_scheduler).update(schedule)


def check_states(
    states: Mapping[Any, Any], optimizer: Optimizer, weights: Mapping[str, NDArray]
) -> None:
    """Raise unless the states have the structure that an optimizer keeps for a model's parameters.

    Args:
        states: by the optimizer's index of the parameter.
        optimizer: knows the names of the parameters.
        weights: parameters by name.

    Raises:
        Invalid, HostError: names the parameter.
    """
    for index, state in states.items():
        name = optimizer.idx2name.get(index, str(index))
        weight = weights.get(name)
        if weight is None:
            raise HostError(
                "invalid", f"states: there is no parameter of index {index!r}", "states"
            )
        arrays = _arrays_of(state)
        kept = _arrays_of(optimizer.create_state_multi_precision(index, weight))
        if len(arrays) != len(kept):
            got = f"{len(arrays)} arrays for {name!r}"
            raise other_optimizer(got, f"{type(optimizer).__name__} ({len(kept)} for each)")
        for array, own in zip(arrays, kept, strict=True):
            if array.shape != own.shape:
                raise HostError(
                    "invalid_shape",
                    f"states: {name!r} has a state of shape {array.shape}, expected {own.shape}; "
                    "use states saved from the same model",
                    "states",
                )


def other_optimizer(got: str, present: str) -> Invalid:
    """Return the error for states that were saved by a different optimizer."""
    hint = "install the optimizer that they are of, then load them"
    return Invalid("states", got, f"states of {present}", hint)


def _accepted_options(cls: type[Optimizer]) -> dict[str, Any]:
    """Return the types of an optimizer's options by name."""
    types: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not object and "__init__" in vars(base):
            types.update(get_type_hints(vars(base)["__init__"]))
    return {name: types[name] for name in sorted(types.keys() - _SET_BY_THE_MODULE)}


def _make_scheduler(value: Any, path: str) -> lr_scheduler.LRScheduler:
    if not isinstance(value, Mapping) or "name" not in value:
        raise Invalid(path, value, 'an object like {"name": "factor", "step": 500, "factor": 0.9}')
    options = {key: option for key, option in value.items() if key != "name"}
    cls = _SCHEDULERS.get(str(value["name"]))
    if cls is None:
        raise Invalid(f"{path}.name", value["name"], f"one of {', '.join(_SCHEDULERS)}")
    types = get_type_hints(cls.__init__)
    accepted = [name for name in inspect.signature(cls).parameters if name != "self"]
    for name, option in options.items():
        if name not in accepted:
            raise Invalid(f"{path}.{name}", option, f"one of {', '.join(accepted)}")
        options[name] = _typed(option, types[name], f"{path}.{name}")
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise Invalid(path, value, str(error)) from None


def _typed(value: Any, wanted: Any, path: str) -> Any:
    """Return a value checked against a type; an int is accepted as a float, a bool not as a
    number."""
    try:
        typed = TypeAdapter(wanted).validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors(include_url=False)[-1]["msg"].removeprefix("Input should be ")
        raise Invalid(path, value, message) from None
    if isinstance(typed, float) and not math.isfinite(typed):
        raise Invalid(path, value, "a finite number")
    return typed


def _check_kvstore(name: str | None, path: str) -> None:
    if name is not None:
        try:
            kvstore.create(name)
        except ValueError as error:
            raise Invalid(path, name, "the name of a key-value store", str(error)) from None


def _plain_attributes(thing: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(thing).items()
        if isinstance(value, _PLAIN)
        or (isinstance(value, list) and all(isinstance(one, _PLAIN) for one in value))
    }


def _arrays_of(state: Any) -> list[NDArray]:
    if isinstance(state, NDArray):
        return [state]
    if isinstance(state, tuple | list):
        return [array for one in state for array in _arrays_of(one)]
    return []
