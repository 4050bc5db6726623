"""Backward passes that are themselves recorded, for higher-order gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .. import ndarray as nd
from ..backends import backend_of
from ..errors import MXNetError
from ..ndarray import NDArray
from ..ndarray.execute import run_of
from ..ndarray.imperative import numeric_step
from ..ndarray.nodes import CopyNode, IndexNode, OperatorNode
from ..ndarray.sparse_operators import SparseNode
from ..ndarray.tape import Entry, Node, Origin, Variable, live, mode
from ..types import Array, Shape

__all__ = ["linked", "recorded_step"]


def recorded_step(node: Node, out_grads: Sequence[NDArray | None]) -> Sequence[NDArray | None]:
    """Run one node's backward in a differentiable way.

    The gradient of an operator with a ``derivative`` is computed by recorded operators, that of a
    linear operator by its adjoint. Differentiating any other gradient raises an error.
    """
    if isinstance(node, SparseNode):
        node = node.as_dense()
    if isinstance(node, OperatorNode):
        return _operator_step(node, out_grads)
    if isinstance(node, CopyNode):
        (dy,) = out_grads
        assert dy is not None
        return [dy.as_in_context(node.context).astype(node.source.dtype, copy=False)]
    if isinstance(node, IndexNode):
        return _mark(_IndexAdjoint(node, out_grads), numeric_step(node, out_grads))
    return _mark(_Opaque(node, out_grads), numeric_step(node, out_grads))


def _operator_step(
    node: OperatorNode, out_grads: Sequence[NDArray | None]
) -> Sequence[NDArray | None]:
    if node.op.has_derivative():
        # The arrays of the recorded pass with their old origins, so that what is computed from them
        # now is differentiated through the whole recording.
        inputs = [_handle(*pair, node) for pair in zip(node.inputs, node.parents, strict=True)]
        outputs = [_handle(raw, Entry(node, i), node) for i, raw in enumerate(node.outputs)]
        # Not ``y * 0``, which would be NaN where an output is infinite.
        pairs = zip(outputs, out_grads, strict=True)
        heads = [nd.zeros_like(y) if dy is None else dy for y, dy in pairs]
        derived = node.op.derivative(nd, inputs, outputs, heads)
        if derived is not None:
            return cast(Sequence[NDArray | None], derived)
    grads = numeric_step(node, out_grads)
    if node.op.is_linear:
        # The gradient of y = Ax is A'dy: linear in dy, and independent of x.
        return _mark(_OperatorAdjoint(node, out_grads), grads)
    if not node.op.gradient_inputs(len(node.inputs)):
        return grads  # zeros, whatever the inputs are
    return _mark(_Opaque(node, out_grads), grads)


def linked(result: NDArray, variable: Variable) -> NDArray:
    """Return a gradient, linked to the variable even if it does not depend on it.

    Differentiating it again then gives zeros, as in MXNet, and not an error.
    """
    if mode.recording and live(result._origin) is None:
        result._origin = Entry(_Constant(result, variable), 0)
    return result


def _handle(raw: Array, origin: Origin | None, node: Node) -> NDArray:
    array = NDArray(raw, node.context)
    array._origin = origin
    return array


def _mark(node: Node, results: Sequence[NDArray | None]) -> Sequence[NDArray | None]:
    """Record a node as the origin of gradients that depend on something that needs a gradient."""
    if mode.recording and any(parent is not None for parent in node.parents):
        for index, result in enumerate(results):
            if result is not None:
                result._origin = Entry(node, index)
    return results


def _origins(arrays: Sequence[NDArray | None]) -> list[Origin | None]:
    return [None if array is None else live(array._origin) for array in arrays]


class _OperatorAdjoint(Node):
    """The backward of a linear operator, whose own backward is the operator's forward."""

    __slots__ = ("_inputs", "_op", "_outputs")

    def __init__(self, node: OperatorNode, out_grads: Sequence[NDArray | None]) -> None:
        super().__init__(node.context, _origins(out_grads), len(node.inputs))
        self._op = node.op
        self._inputs = [(x.shape, x.dtype) for x in node.inputs]
        self._outputs = [(y.shape, y.dtype) for y in node.outputs]

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        backend = backend_of(self.context)
        with backend.scope():
            inputs = [
                backend.xp.zeros(*spec) if dx is None else dx
                for spec, dx in zip(self._inputs, out_grads, strict=True)
            ]
            outputs = [backend.empty(*spec) for spec in self._outputs]
            self._op.forward(run_of(self.context, mode.training), inputs, outputs)
        return [
            y if parent is not None else None
            for y, parent in zip(outputs, self.parents, strict=True)
        ]


class _IndexAdjoint(Node):
    """The backward of indexing; its own backward is indexing again."""

    __slots__ = ("_key", "_shape")

    def __init__(self, node: IndexNode, out_grads: Sequence[NDArray | None]) -> None:
        super().__init__(node.context, _origins(out_grads))
        self._key = node.key
        self._shape: Shape = node.shape

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        with backend_of(self.context).scope():
            return [dx[self._key].reshape(self._shape).copy() for dx in out_grads if dx is not None]


class _Constant(Node):
    """A gradient that does not depend on a variable."""

    __slots__ = ("_spec",)

    def __init__(self, gradient: NDArray, variable: Variable) -> None:
        super().__init__(gradient.context, [variable])
        self._spec = (gradient.shape, gradient.dtype)

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        backend = backend_of(self.context)
        with backend.scope():
            return [backend.xp.zeros(*self._spec)]


class _Opaque(Node):
    """A backward that cannot be differentiated, because the operator has no ``derivative``."""

    __slots__ = ("_name",)

    def __init__(self, node: Node, out_grads: Sequence[NDArray | None]) -> None:
        # Such a gradient depends on the inputs as well; to leave them out would give wrong numbers
        # instead of an error.
        parents = [*_origins(out_grads), *(live(parent) for parent in node.parents)]
        super().__init__(node.context, parents, len(node.parents))
        self._name = (
            f"operator {node.op.names[0]}"
            if isinstance(node, OperatorNode)
            else type(node).__name__.strip("_")
        )

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        raise MXNetError(
            f"the gradient of {self._name} cannot be differentiated again; gradients of gradients "
            "exist for operators that have a derivative (core/ops) or are linear"
        )
