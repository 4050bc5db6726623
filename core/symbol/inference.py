"""``infer_shape`` and ``infer_type`` as symbols offer them, over the inference of graphs."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ..errors import GraphError, did_you_mean
from ..graph.infer import infer_dtypes, infer_shapes
from ..graph.nodes import Entry, Node, auxiliary_variables, topological_order
from ..ndarray.np_shape import is_np_shape
from ..types import Shape, is_known, to_dtype, with_plain_zeros

__all__ = ["Dtypes", "Shapes", "infer_shape", "infer_type"]

Shapes: TypeAlias = tuple[list[Any], list[Any], list[Any]] | tuple[None, None, None]
"""Shapes of arguments, outputs and auxiliary states; Nones where they cannot be inferred.

In np-shape mode a shape of unknown rank is None.
"""

Dtypes: TypeAlias = (
    tuple[list[type | None], list[type | None], list[type | None]] | tuple[None, None, None]
)
"""NumPy scalar types of arguments, outputs and auxiliary states."""

T = TypeVar("T")


def infer_shape(
    heads: Sequence[Entry], args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool
) -> Shapes:
    """Infer shapes from some of them, given in the order of the arguments or by name."""
    nodes = topological_order(heads)
    known = _match(nodes, "shape", args, kwargs, _parse_shape)
    found = infer_shapes(nodes, known)
    if not partial and not all(is_known(shape) for node in nodes for shape in found[node]):
        arguments, _ = _variables(nodes)
        unknown = [
            (node, found[node][0] or ()) for node in arguments if not is_known(found[node][0])
        ]
        _warn_unknown("shape", " (0s in shape means unknown dimensions)", unknown)
        return None, None, None
    shown = _np_shape if is_np_shape() else _classic_shape
    return _collect(heads, nodes, lambda entry: shown(found[entry.node][entry.output]))


def infer_type(
    heads: Sequence[Entry], args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool
) -> Dtypes:
    """Infer dtypes from some of them, given in the order of the arguments or by name."""
    nodes = topological_order(heads)
    known = _match(nodes, "type", args, kwargs, lambda name, value: to_dtype(value))
    found = infer_dtypes(nodes, known)
    if not partial and any(dtype is None for node in nodes for dtype in found[node]):
        arguments, _ = _variables(nodes)
        unknown = [(node, None) for node in arguments if found[node][0] is None]
        _warn_unknown("type", "", unknown)
        return None, None, None

    def scalar_type(entry: Entry) -> type | None:
        dtype = found[entry.node][entry.output]
        return None if dtype is None else dtype.type

    return _collect(heads, nodes, scalar_type)


def _match(
    nodes: Sequence[Node],
    what: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    parse: Callable[[str, Any], T | None],
) -> dict[str, T]:
    if args and kwargs:
        raise ValueError(
            f"Can only specify known argument {what}s either by positional or kwargs way."
        )
    arguments, auxiliary = _variables(nodes)
    names = [node.name for node in arguments]
    if len(args) > len(names):
        raise GraphError(f"got {len(args)} {what}s for {len(names)} arguments")
    given = dict(zip(names, args, strict=False)) if args else kwargs
    known = [*names, *(node.name for node in auxiliary)]
    for name in given:
        if name not in known:
            raise GraphError(
                f"the symbol has no argument {name!r}{did_you_mean(name, known)}; "
                f"it has {', '.join(known)}"
            )
    parsed = {name: parse(name, value) for name, value in given.items() if value is not None}
    return {name: value for name, value in parsed.items() if value is not None}


def _parse_shape(name: str, value: Any) -> Shape | None:
    """Return a shape, as inference reads it in the present mode."""
    if not isinstance(value, tuple):
        raise TypeError(f"Arguments need to be shapes (tuple), but {name!r} is {type(value)}.")
    return tuple(operator.index(dim) for dim in value)


def _classic_shape(shape: Shape | None) -> Shape:
    """Return a shape as classic MXNet shows it: 0 for an unknown length, () for unknown rank."""
    return with_plain_zeros(shape or ())


def _np_shape(shape: Shape | None) -> Shape | None:
    """Return a shape as np-shape mode shows it: -1 for an unknown length, None for unknown rank."""
    return None if shape is None else with_plain_zeros(tuple(dim or -1 for dim in shape))


def _variables(nodes: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """Return argument and auxiliary variables, in order."""
    nodes = list(nodes)
    updated = auxiliary_variables(nodes)
    variables = [node for node in nodes if node.is_variable]
    return (
        [node for node in variables if node not in updated],
        [node for node in variables if node in updated],
    )


def _collect(
    heads: Sequence[Entry], nodes: Sequence[Node], value_of: Callable[[Entry], T]
) -> tuple[list[T], list[T], list[T]]:
    arguments, auxiliary = _variables(nodes)
    return (
        [value_of(Entry(node, 0)) for node in arguments],
        [value_of(head) for head in heads],
        [value_of(Entry(node, 0)) for node in auxiliary],
    )


def _warn_unknown(what: str, note: str, unknown: Sequence[tuple[Node, object]]) -> None:
    lines = [f"{node.name}: {value}" for node, value in unknown[:10]]
    if len(unknown) > 10:
        lines.append("...")
    warnings.warn(
        f"Cannot decide {what} for the following arguments{note}. "
        "Consider providing them as input:\n\t" + "\n\t".join(lines),
        stacklevel=4,
    )
