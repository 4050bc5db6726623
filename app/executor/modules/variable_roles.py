"""What each variable of a symbol is: data, label, state or parameter.

The names that MXNet's users give decide first, then the operators that read a variable, and where
there is a file of parameters, what it holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.capabilities.arrays import CAST, TRANSPOSE
from core.capabilities.kinds import is_of
from core.graph.nodes import Node, topological_order
from core.ops import Operator
from core.symbol import Symbol
from core.types import Shape

__all__ = ["GivenNames", "Roles", "declare_states", "find_roles", "is_label"]

_PARAMETER_ENDINGS = ("_weight", "_bias", "_gamma", "_beta", "_parameters")
_PARAMETER_INPUTS = frozenset({"weight", "bias", "gamma", "beta", "parameters"})
_STATE_INPUTS = frozenset({"state", "state_cell"})
_STATE = re.compile(
    r"(^|_)((init|begin)_(state|states|h|c|hidden|cell)|state(_cell)?)(_?\d+)?$", re.IGNORECASE
)


class _Reading(NamedTuple):
    """How an operator reads a variable."""

    node: Node
    op: Operator
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNames:
    """The names that the caller specified; None if they are to be worked out."""

    data: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    states: Sequence[str] | None = None

    def role_of(self, name: str) -> str | None:
        """Return the role that was specified for a variable, or None."""
        groups = (("data", self.data), ("label", self.labels), ("state", self.states))
        return next((role for role, names in groups if names and name in names), None)

    def is_given(self, role: str) -> bool:
        """Return whether the names of a role were specified."""
        given = {"data": self.data, "label": self.labels, "state": self.states}
        return given.get(role) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Names of the variables, in the symbol's order.

    Attributes:
        data, labels, states: the inputs.
        missing: parameters that the file lacks, auxiliary states included.
        extra: what the file has and the symbol does not.
    """

    data: tuple[str, ...]
    labels: tuple[str, ...]
    states: tuple[str, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def is_label(name: str) -> bool:
    """Return whether an argument is a label by its name, as MXNet's users name them."""
    name = name.partition("/")[0]  # label/0, of the modules that take lists of batches
    return name == "label" or name.endswith("_label") or name.startswith("label_")


def find_roles(
    symbol: Symbol,
    stored: Mapping[str, Shape] | None,
    given: GivenNames | None = None,
    described: Collection[str] = (),
) -> Roles:
    """Return what each variable is.

    Args:
        symbol: the graph.
        stored: shapes of the parameters in the file, by name; None without a file, in which case
            nothing tells a parameter of an unusual name from an input.
        given: names that the caller specified, which are taken as they are.
        described: inputs whose shapes the caller specified: data, unless ``given`` says otherwise.
    """
    given = given or GivenNames()
    readings = _readings(symbol)
    arguments = symbol.list_arguments()
    found = {
        name: given.role_of(name) or ("data" if name in described else "") for name in arguments
    }
    open_names = [name for name in arguments if not found[name] and name not in (stored or ())]
    for name in open_names:
        found[name] = _role(name, readings.get(name, ()), stored)
    if stored is None:
        _leave_parameters(found, open_names, readings, given)
        _keep_states_together(found, open_names)
    _keep_to_given_names(found, open_names, given)

    def named(role: str) -> tuple[str, ...]:
        return tuple(name for name in arguments if found[name] == role)

    auxiliary = symbol.list_auxiliary_states()
    present = stored if stored is not None else dict.fromkeys((*arguments, *auxiliary))
    lacking = (*named("parameter"), *auxiliary)
    return Roles(
        data=named("data"),
        labels=named("label"),
        states=named("state"),
        missing=tuple(name for name in lacking if name not in present),
        extra=tuple(name for name in present if name not in {*arguments, *auxiliary}),
    )


def declare_states(symbol: Symbol, states: Collection[str], stored: Mapping[str, Shape]) -> bool:
    """Declare the number of features of states, as far as layers' weights determine them; return
    whether any was declared.

    Shape inference does not go backwards through a ``FullyConnected`` layer, so MXNet's scripts
    specify the shape of each initial state. The batch size stays unknown.
    """
    has_changed = False
    readings = _readings(symbol)
    variables = {node.name: node for node in topological_order(symbol.heads) if node.is_variable}
    for name in states:
        features = _features(readings.get(name, ()), stored)
        if features is not None and "__shape__" not in variables[name].attrs:
            variables[name].attrs["__shape__"] = f"(0, {features})"
            has_changed = True
    return has_changed


def _role(name: str, readings: Sequence[_Reading], stored: Mapping[str, Shape] | None) -> str:
    inputs = {one.input for one in readings}
    if is_label(name) or (inputs and inputs == {"label"}):
        return "label"
    if (inputs and inputs <= _STATE_INPUTS) or (
        _STATE.search(name) and not _is_of_unknown_width(readings, stored)
    ):
        return "state"
    if name.endswith(_PARAMETER_ENDINGS) or (inputs and inputs <= _PARAMETER_INPUTS):
        return "parameter"
    return "data"


def _is_of_unknown_width(readings: Sequence[_Reading], stored: Mapping[str, Shape] | None) -> bool:
    """Return whether a state is read by a layer of which no weight says how wide it is."""
    layers = [one for one in readings if _is_data_of_layer(one)]
    return bool(layers) and _features(readings, stored or {}) is None


def _leave_parameters(
    found: dict[str, str],
    open_names: Sequence[str],
    readings: Mapping[str, Sequence[_Reading]],
    given: GivenNames,
) -> None:
    """Take for parameters what no layer reads as its data, where it is clear what the data are."""
    if given.data is None and "data" not in found:
        return
    for name in open_names:
        of_layers = any(_is_data_of_layer(one) for one in readings.get(name, ()))
        if found[name] == "data" and name != "data" and not of_layers:
            found[name] = "parameter"


def _keep_states_together(found: dict[str, str], open_names: Sequence[str]) -> None:
    """Take all initial states for data if some must be, because nothing determines their shapes."""
    named = [name for name in open_names if _STATE.search(name)]
    if any(found[name] == "data" for name in named):
        found.update(dict.fromkeys(named, "data"))


def _keep_to_given_names(
    found: dict[str, str], open_names: Sequence[str], given: GivenNames
) -> None:
    """Add nothing to the names of a role that were specified: the rest are parameters."""
    for name in open_names:
        if given.is_given(found[name]):
            found[name] = "parameter"


def _readings(symbol: Symbol) -> dict[str, list[_Reading]]:
    """Return how each variable is read, through operators that only give it another form."""
    origin: dict[Node, str] = {}
    readings: dict[str, list[_Reading]] = {}
    for node in topological_order(symbol.heads):
        if node.op is None:
            origin[node] = node.name
            continue
        sources = [origin.get(entry.node) for entry in node.inputs]
        if sources and sources[0] is not None and _only_rearranges(node.op):
            origin[node] = sources[0]
            continue
        for source, name in zip(sources, node.op.input_names(), strict=False):
            if source is not None:
                readings.setdefault(source, []).append(_Reading(node, node.op, name))
    return readings


def _only_rearranges(operator: Operator) -> bool:
    """Return whether an operator's output has the elements of its first input in another form."""
    return operator.is_view() or is_of(operator, CAST) or is_of(operator, TRANSPOSE)


def _is_data_of_layer(reading: _Reading) -> bool:
    return reading.input == "data" and "weight" in reading.op.input_names()


def _features(readings: Sequence[_Reading], stored: Mapping[str, Shape]) -> int | None:
    """Return how many features the weight of a layer that reads a variable says it has."""
    for reading in readings:
        if _is_data_of_layer(reading):
            weight = stored.get(reading.node.inputs[1].node.name)
            found = None if weight is None else reading.op.data_from_weight(weight)
            if found is not None and not found.spatial_axes:
                return found.features
    return None
