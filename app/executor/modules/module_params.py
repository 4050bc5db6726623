"""Reading and setting the parameters of a hosted module as tensors by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.domain.module import InitSpec, ParamsSource
from app.errors.quoting import did_you_mean
from app.errors.tree import FieldError, Invalid, NotFound
from app.executor.background import Waits, awaited, in_background
from app.executor.faults import client_fault
from app.executor.modules.host_copy import Values
from app.executor.modules.hosted_module import HostedModule
from app.executor.predict.inputs import check_castable
from app.link.protocols import Arrays
from core import initializer
from core.ndarray import NDArray, array

__all__ = ["check_values", "get_params", "init_params", "make_initializer", "set_params"]

_MOST_ROWS = 50
"""Largest number of parameters that an error names."""


def get_params(module: HostedModule, names: Sequence[str] | None) -> tuple[dict[str, Any], Arrays]:
    """Return the values of parameters, and which of the names are arguments and which auxiliary
    states.

    Raises:
        NotFound: the module has no parameter of a name.
    """
    module.require("get_params")
    values = module.values()
    assert values is not None
    arguments, auxiliary = values
    every = {**arguments, **auxiliary}
    for name in names or ():
        if name not in every:
            near = did_you_mean(name, every).removeprefix("; ")
            raise NotFound("parameter", name, near or "GET the module's params lists all")
    chosen = every if names is None else {name: every[name] for name in names}
    kinds = {
        "arguments": [name for name in chosen if name in arguments],
        "auxiliary": [name for name in chosen if name in auxiliary],
    }
    return kinds, {name: value.asnumpy() for name, value in chosen.items()}


def set_params(
    module: HostedModule,
    tensors: Arrays,
    *,
    allow_missing: bool = False,
    allow_extra: bool = False,
    allow_nonfinite: bool = False,
) -> Waits[None]:
    """Set parameters, which are copied first; see ``app.link.calls.SetParams``.

    Raises:
        Invalid: a name, shape or dtype that does not fit, a missing one, or NaN or infinity.
    """
    given = yield from awaited(in_background(_copied, tensors))
    values = yield from module.beside(
        check_values,
        module,
        given,
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        allow_nonfinite=allow_nonfinite,
    )
    module.has_unsaved = True
    yield from module.beside(module.install, values, ParamsSource.SET)


def make_initializer(spec: InitSpec, prefix: str) -> initializer.Initializer:
    """Return the initializer for a specification; raise HostError for one that the engine rejects.

    Args:
        spec: its name and options.
        prefix: leads to the specification in the request (``initializer.``), for errors.
    """
    with client_fault(f"{prefix}initializer"):
        made: initializer.Initializer = initializer.create(spec.initializer, **spec.options)
    return made


def init_params(
    module: HostedModule,
    spec: InitSpec,
    given: Arrays,
    prefix: str,
    kept: Mapping[str, NDArray] | None = None,
) -> None:
    """Initialize the parameters, except for those given or kept.

    The initializer draws from the random stream that the caller has entered.

    Args:
        module: a bound module.
        spec: specifies the initializer.
        given: values from the client, by name.
        prefix: leads to the specification in the request (``initializer.``), for errors.
        kept: values of the module that this one was made from, by name; those given take
            precedence.
    """
    module.require("init_params")
    fill = make_initializer(spec, prefix)
    present = module.on_device()
    values = dict(kept or {})
    values |= _copied(given)
    _check_each(values, {**present.arguments, **present.auxiliary}, allow_nonfinite=False)
    arguments, auxiliary = _split(module, values)
    with client_fault(f"{prefix}initializer"):
        module.engine.init_params(fill, arguments, auxiliary, allow_missing=True, force_init=True)
    module.note_params(ParamsSource.INIT)
    module.has_unsaved = spec.seed is None or bool(given)


def check_values(
    module: HostedModule,
    given: Mapping[str, NDArray],
    *,
    allow_missing: bool = False,
    allow_extra: bool = False,
    allow_nonfinite: bool = False,
) -> Values:
    """Return values for all of a module's parameters; those not given keep their current values.

    Raises:
        Invalid: see ``set_params``.
    """
    names = [name for part in module.param_names() for name in part]
    if not allow_extra:
        _refuse_extra([name for name in given if name not in names], names)
    chosen = {name: value for name, value in given.items() if name in names}
    if module.record.bind is not None:
        present = module.on_device()
        _check_each(chosen, {**present.arguments, **present.auxiliary}, allow_nonfinite)
    else:
        _check_each(chosen, {}, allow_nonfinite)
    missing = [name for name in names if name not in chosen]
    if missing:
        chosen |= _present_values(module, missing, allow_missing)
    return _split(module, chosen)


def _refuse_extra(extra: Sequence[str], names: Sequence[str]) -> None:
    if extra:
        raise Invalid.from_errors(
            FieldError(
                name,
                "a tensor of this name",
                f"a parameter of the module, or allow_extra true{did_you_mean(name, names)}",
            )
            for name in extra[:_MOST_ROWS]
        )


def _present_values(
    module: HostedModule, missing: Sequence[str], allow_missing: bool
) -> dict[str, NDArray]:
    values = module.values()
    if values is None or not allow_missing:
        instead = "or allow_missing true"
        if values is None:
            instead = "because the module has none to keep yet"
        raise Invalid.from_errors(
            FieldError(name, "no tensor", f"all parameters, {instead}")
            for name in missing[:_MOST_ROWS]
        )
    every = {**values[0], **values[1]}
    return {name: every[name] for name in missing}


def _check_each(
    given: Mapping[str, NDArray], present: Mapping[str, NDArray], allow_nonfinite: bool
) -> None:
    for name, value in given.items():
        own = present.get(name)
        if own is not None and value.shape != own.shape:
            raise Invalid(name, f"shape {value.shape}", f"shape {own.shape}")
        dtype = np.dtype(value.dtype)
        check_castable(name, dtype, np.dtype(own.dtype if own is not None else np.float64))
        if dtype.kind in "biu" or allow_nonfinite:
            continue
        with np.errstate(over="ignore"):  # beyond the parameter's own range: infinite
            stored = value.dense().astype(dtype if own is None else own.dtype, copy=False)
        if not np.isfinite(stored).all():
            raise Invalid(name, "NaN or infinity", "finite numbers, or allow_nonfinite true")


def _copied(tensors: Arrays) -> dict[str, NDArray]:
    return {name: array(tensor, dtype=tensor.dtype) for name, tensor in tensors.items()}


def _split(module: HostedModule, values: Mapping[str, NDArray]) -> Values:
    arguments, auxiliary = module.param_names()
    return (
        {name: values[name] for name in arguments if name in values},
        {name: values[name] for name in auxiliary if name in values},
    )
