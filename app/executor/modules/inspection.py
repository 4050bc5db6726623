"""Finds out the inputs of a model from its files, and shapes that fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.domain.codec import canonical_json
from app.executor.background import Waits, awaited, in_background
from app.executor.faults import client_fault
from app.executor.modules.bind_checks import check_arguments
from app.executor.modules.graph_limits import check_symbols
from app.executor.modules.input_shapes import ShapeGuess, guess_shapes, output_shapes
from app.executor.modules.param_files import read_param_file
from app.executor.modules.variable_roles import GivenNames, Roles, declare_states, find_roles
from app.link.calls import InspectModel
from core.ndarray import NDArray
from core.symbol import Symbol, load_json
from core.types import Shape

__all__ = ["Examination", "examine", "inspect_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings about a model.

    Attributes:
        symbol: the graph, with the widths of its initial states declared.
        has_declared: whether that changed the graph.
        roles: roles of its variables.
        guess: likely shapes of its inputs.
    """

    symbol: Symbol
    has_declared: bool
    roles: Roles
    guess: ShapeGuess


def examine(
    symbol: Symbol,
    stored: Mapping[str, Shape] | None,
    given: GivenNames,
    shapes: Mapping[str, Shape],
) -> Examination:
    """Work out a model's inputs and their shapes.

    Args:
        symbol: its graph; initial states whose width follows from a weight are declared in place.
        stored: shapes of its parameters by name; None without a file of parameters.
        given: names of inputs that the caller specified.
        shapes: shapes of inputs that the caller specified.
    """
    roles = find_roles(symbol, stored, given, shapes)
    has_declared = declare_states(symbol, roles.states, stored or {})
    if roles.missing or stored is None:
        guess = ShapeGuess(shapes=shapes, open=tuple(n for n in roles.data if n not in shapes))
    else:
        guess = guess_shapes(symbol, stored, shapes, roles.data, roles.labels)
    return Examination(symbol=symbol, has_declared=has_declared, roles=roles, guess=guess)


def inspect_model(call: InspectModel) -> Waits[Mapping[str, Any]]:
    """Answer the call off the device thread.

    Raises:
        HostError, Damaged: the symbol or the parameters cannot be read.
    """
    return (yield from awaited(in_background(_inspect, call)))


def _inspect(call: InspectModel) -> Mapping[str, Any]:
    check_symbols({call.field: call.symbol}, call.max_nodes)
    with client_fault(call.field):
        symbol = load_json(call.symbol)
    arrays = None if call.params is None else read_param_file(call.params, "params")
    stored = None if arrays is None else {name: one.shape for name, one in arrays.items()}
    given = GivenNames(data=call.data_names, labels=call.label_names, states=call.state_names)
    _check_given(symbol, call)
    shapes = {name: tuple(shape) for name, shape in call.shapes.items()}
    found = examine(symbol, stored, given, shapes)
    roles, guess = found.roles, found.guess
    return {
        "symbol": canonical_json(json.loads(symbol.tojson())) if found.has_declared else None,
        "data": roles.data,
        "labels": roles.labels,
        "states": roles.states,
        "outputs": symbol.list_outputs(),
        "output_shapes": output_shapes(symbol, {**(stored or {}), **guess.shapes}),
        "missing": roles.missing,
        "extra": roles.extra,
        "not_finite": [name for name, one in (arrays or {}).items() if not _is_finite(one)],
        "shapes": {name: list(shape) for name, shape in guess.shapes.items()},
        "layouts": dict(guess.layouts),
        "dtypes": dict(guess.dtypes),
        "usual": guess.usual,
        "free": guess.free,
        "ranges": {name: list(one) for name, one in guess.ranges.items()},
        "open": guess.open,
    }


def _check_given(symbol: Symbol, call: InspectModel) -> None:
    arguments = symbol.list_arguments()
    for field in ("data_names", "state_names"):  # a net need not read its labels
        check_arguments(field, getattr(call, field) or (), arguments)


def _is_finite(array: NDArray) -> bool:
    values = array.asnumpy()
    # Not ``kind == "f"``, which bfloat16 does not have.
    return values.dtype.kind in "biu" or bool(np.isfinite(values).all())
