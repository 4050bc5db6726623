"""A script's optimizer and schedule, as options from which a server can make the same ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import UsageError
from core.optimizer import Optimizer, lr_scheduler
from core.symbol import Symbol

__all__ = ["optimizer_spec"]

_SCHEDULES: Mapping[type[lr_scheduler.LRScheduler], str] = {
    lr_scheduler.FactorScheduler: "factor",
    lr_scheduler.MultiFactorScheduler: "multifactor",
    lr_scheduler.PolyScheduler: "poly",
    lr_scheduler.CosineScheduler: "cosine",
}
_ATTRIBUTES = {"learning_rate": ("lr",), "pwr": ("power",), "eps": ("eps", "float_stable_eps")}
_SET_BY_THE_MODULE = {"self", "kwargs", "sym", "param_idx2name", "param_dict", "begin_num_update"}


def optimizer_spec(
    optimizer: Optimizer | str, options: Mapping[str, Any], symbol: Symbol
) -> dict[str, Any]:
    """Return the name and options of an optimizer.

    Args:
        optimizer: its name, or an instance that has not made any update yet.
        options: of an optimizer given by name, as ``init_optimizer`` takes them.
        symbol: whose parameters it updates.

    Raises:
        UsageError: the server cannot make the same optimizer.
    """
    if isinstance(optimizer, str):
        found, name = dict(options), optimizer
    else:
        _check_multipliers(optimizer, symbol)
        found, name = _options_of(optimizer), type(optimizer).__name__.lower()
    schedule = found.get("lr_scheduler")
    if schedule is not None:
        found["lr_scheduler"] = _schedule_spec(schedule)
    return {"name": name, "options": found}


def _options_of(optimizer: Optimizer) -> dict[str, Any]:
    cls = type(optimizer)
    if Optimizer.opt_registry.get(cls.__name__.lower()) is not cls:
        raise UsageError(
            f"optimizer {cls.__name__} is defined by the script; a server only has built-in ones "
            "such as 'sgd' or 'adam'"
        )
    if optimizer.num_update:
        raise UsageError(
            f"optimizer {cls.__name__} has made {optimizer.num_update} updates; give a new one, "
            "then call load_optimizer_states"
        )
    found = {name: _value(optimizer, name) for name in _option_names(cls)}
    if found.get("lr_scheduler") is not None:
        del found["learning_rate"]  # part of the schedule instead
    return {name: value for name, value in found.items() if value is not None}


def _check_multipliers(optimizer: Optimizer, symbol: Symbol) -> None:
    """Raise UsageError if the server's optimizer would treat some parameters differently.

    As in MXNet, a module excludes biases from weight decay and applies the symbol's multipliers
    only if the optimizer is given by name. The server always makes it by name.
    """
    declared = {key for attributes in symbol.attr_dict().values() for key in attributes}
    if optimizer.wd or optimizer.lr_mult or optimizer.wd_mult:
        reason = "its decay or multipliers"
    elif declared & {"__lr_mult__", "__wd_mult__"}:
        reason = "the symbol's multipliers"
    else:
        return
    raise UsageError(
        f"optimizer {type(optimizer).__name__}: a server makes it by name and would apply "
        f"{reason} to other parameters; give its name and optimizer_params"
    )


def _option_names(cls: type[Optimizer]) -> Iterator[str]:
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if base is not object and "__init__" in vars(base):
            names |= dict.fromkeys(inspect.signature(vars(base)["__init__"]).parameters)
    return (name for name in names if name not in _SET_BY_THE_MODULE)


def _schedule_spec(schedule: Any) -> dict[str, Any]:
    name = _SCHEDULES.get(type(schedule))
    if name is None:
        raise UsageError(
            f"lr_scheduler is a {type(schedule).__name__}; a server has "
            f"{', '.join(cls.__name__ for cls in _SCHEDULES)}"
        )
    if getattr(schedule, "count", 0):
        raise UsageError(f"lr_scheduler {type(schedule).__name__} is in use; give a new one")
    accepted = inspect.signature(type(schedule)).parameters
    return {"name": name, **{option: _value(schedule, option) for option in accepted}}


def _value(thing: Any, option: str) -> Any:
    for attribute in _ATTRIBUTES.get(option, (option,)):
        if hasattr(thing, attribute):
            return getattr(thing, attribute)
    raise UsageError(
        f"{type(thing).__name__} does not tell its {option}; name the optimizer and give "
        "optimizer_params"
    )
