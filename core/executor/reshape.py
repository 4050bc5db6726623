"""``Executor.reshape``: the same symbol and memory with other input shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..compiler.trace import Graph, SpecOf, specs_of
from ..errors import ShapeError, did_you_mean
from ..graph.infer import infer_graph
from ..graph.nodes import Entry
from ..ndarray import NDArray
from ..types import Shape, is_known, shape_size
from .arrays import resized, zeros
from .bound import Bound

__all__ = ["reshape_bound"]

CHANGED = (
    "the shape of {name!r}, which is not named, changes from {old} to {new}; if that is intended "
    "(it then keeps only part of its values), pass partial_shaping=True"
)
LARGER = (
    "the new shape {new} of {name!r} is larger than the bound {old}; bind for the largest shapes "
    "first and reshape to smaller ones, or pass allow_up_sizing=True for new memory"
)


def reshape_bound(
    graph: Graph,
    bound: Bound,
    shapes: Mapping[str, Shape],
    partial_shaping: bool,
    allow_up_sizing: bool,
) -> tuple[SpecOf, Bound]:
    """Infer new shapes, and return arrays of these shapes in the memory of the old ones.

    Arguments and errors are those of ``Executor.reshape``.
    """
    known = [node.name for node in (*graph.arguments, *graph.auxiliaries)]
    for name in shapes:
        if name not in known:
            raise ShapeError(f"the graph has no input {name!r}{did_you_mean(name, known)}")
    spec_of = _infer(graph, bound, {name: tuple(shape) for name, shape in shapes.items()})
    # By identity: an array that is bound in several places stays one array.
    made: dict[int, NDArray] = {}

    def fit(name: str, array: NDArray, shape: Shape) -> NDArray:
        if id(array) not in made:
            made[id(array)] = _fit(
                name, array, shape, partial_shaping or name in shapes, allow_up_sizing
            )
        return made[id(array)]

    arguments = [
        fit(node.name, array, spec_of(Entry(node, 0))[0])
        for node, array in zip(graph.arguments, bound.arguments, strict=True)
    ]
    gradients = [
        None if array is None else fit(node.name, array, spec_of(Entry(node, 0))[0])
        for node, array in zip(graph.arguments, bound.gradients, strict=True)
    ]
    auxiliaries = [
        fit(node.name, array, spec_of(Entry(node, 0))[0])
        for node, array in zip(graph.auxiliaries, bound.auxiliaries, strict=True)
    ]
    return spec_of, Bound(arguments, gradients, bound.requests, auxiliaries)


def _infer(graph: Graph, bound: Bound, shapes: Mapping[str, Shape]) -> SpecOf:
    """Infer from the new shapes; arguments they do not determine keep their shape."""
    variables = [
        *zip(graph.arguments, bound.arguments, strict=True),
        *zip(graph.auxiliaries, bound.auxiliaries, strict=True),
    ]
    dtypes = {node.name: np.dtype(array.dtype) for node, array in variables}
    found = infer_graph(graph.heads, shapes, dtypes, partial=True)
    kept = {
        node.name: array.shape
        for node, array in variables
        if not is_known(found.shape(Entry(node, 0)))
    }
    return specs_of(infer_graph(graph.heads, {**kept, **shapes}, dtypes))


def _fit(
    name: str, array: NDArray, shape: Shape, may_change: bool, allow_up_sizing: bool
) -> NDArray:
    if array.shape == shape:
        return array
    if not may_change:
        raise ShapeError(CHANGED.format(name=name, old=array.shape, new=shape))
    if shape_size(shape) <= array.size:
        return resized(array, shape)
    if not allow_up_sizing:
        raise ShapeError(LARGER.format(name=name, old=array.shape, new=shape))
    return zeros(shape, np.dtype(array.dtype), array.context)
