"""Run operators on arrays and record them on the tape; differentiate along the tape.

Arrays are handles here; ``NDArray`` is built on this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from ..backends import backend_of
from ..device import Context
from ..errors import MXNetError, ShapeError
from ..ops import Operator
from ..ops.rows import Rows
from ..types import Array, shape_size
from .execute import execute
from .handle import STORAGE_CLASSES, A, Handle
from .nodes import OperatorNode
from .tape import NOT_RECORDED, Node, Step, Variable, live, mode, walk

__all__ = [
    "apply",
    "check_not_recorded",
    "differentiate",
    "numeric_step",
    "parse_context",
    "record",
]

IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined "
    "behavior when evaluating gradients. Please call backward first to clear the graph or do this "
    "out side of a record section. Also note that you cannot use inplace operations like +=, *=, "
    "relu(x, out=x), y[idx]=x, etc inside a record section."
)


def apply(
    op: Operator,
    context: Context,
    inputs: Sequence[Handle[Any]],
    out: Sequence[Handle[Any] | None] = (),
) -> tuple[list[Array], Node | None]:
    """Run an operator.

    Args:
        op: parsed operator.
        context: device of the outputs.
        inputs: arrays, auxiliary states last.
        out: arrays to write the outputs into.

    Returns:
        all raw outputs, and the node on the tape if it was recorded.
    """
    check_not_recorded(array for array in out if array is not None)
    for index, array in enumerate(inputs):
        if array._context is not context and _is_elsewhere(array._context, context):
            raise MXNetError(
                f"operator {op.names[0]}: {op.input_names()[index]} is on {array.context}, the "
                f"first input on {context}; move it with as_in_context"
            )
    raw = [array.dense() for array in inputs]
    given = [
        array.dense_for_write() if array is not None and _is_dense(array) else None for array in out
    ]
    outputs = execute(op, context, raw, given, is_train=mode.training)
    for target, output in zip(out, outputs, strict=False):
        if target is not None and not _is_dense(target):
            target.assign_dense(output)
    if updated := op.auxiliary_names():
        named = zip(op.input_names(), inputs, raw, strict=True)
        _note_updates((array, values) for name, array, values in named if name in updated)
    return outputs, record(op, context, inputs, raw, outputs)


def record(
    op: Operator,
    context: Context,
    inputs: Sequence[Handle[Any]],
    raw: Sequence[Array],
    outputs: Sequence[Array],
) -> Node | None:
    """Put an operator that ran on the tape if this thread records and a gradient is wanted."""
    if not mode.recording:
        return None
    parents = [live(array._origin) for array in inputs]
    if states := len(op.auxiliary_names()):
        parents[-states:] = [None] * states  # they are updated, not differentiated
    if all(parent is None for parent in parents):
        return None
    return OperatorNode(op, context, parents, raw, outputs)


def check_not_recorded(arrays: Iterable[Any]) -> None:
    """Raise MXNetError if an array about to be overwritten takes part in a recording."""
    if mode.recording and any(live(array._origin) is not None for array in arrays):
        raise MXNetError(IN_GRAPH)


def differentiate(
    heads: Sequence[Handle[A]],
    head_grads: Sequence[Handle[A] | None],
    *,
    retain_graph: bool = False,
    train_mode: bool = True,
    step: Step[A] | None = None,
) -> dict[Variable, A]:
    """Return the gradient of every variable that the heads depend on.

    Args:
        heads: arrays computed while recording.
        head_grads: gradient of each head; None stands for ones.
        retain_graph: keep the tape for another call.
        train_mode: whether the operators' backward runs as in training.
        step: how one node's backward runs; what it runs is recorded. By default it is
            ``numeric_step`` and nothing is recorded.

    Raises:
        MXNetError: a head was not recorded; an operator on the way has no gradient.
        ShapeError: a head's gradient has another shape.
    """
    pairs = []
    for head, given in zip(heads, head_grads, strict=True):
        origin = live(head._origin)
        if origin is None:
            raise MXNetError(NOT_RECORDED)
        pairs.append((origin, _head_gradient(head, given)))
    before = mode.recording, mode.training
    mode.recording, mode.training = step is not None, train_mode
    try:
        return walk(pairs, step or numeric_step, retain=retain_graph)
    finally:
        mode.recording, mode.training = before


def numeric_step(node: Node, out_grads: Sequence[A | None]) -> list[A | None]:
    """Run one node's backward on raw arrays."""
    wrap = next(dy.wrap for dy in out_grads if dy is not None)
    in_grads = node.backward([None if dy is None else dy.dense() for dy in out_grads])
    return [
        None
        if dx is None
        else _from_rows(dx, node.context)
        if isinstance(dx, Rows)
        else wrap(dx, node.context)
        for dx in in_grads
    ]


def _from_rows(rows: Rows, context: Context) -> Any:
    array = STORAGE_CLASSES["row_sparse"].zeros(rows.shape, context, rows.dtype)
    array.take(rows)
    return array


def _head_gradient(head: Handle[A], given: Handle[A] | None) -> A:
    backend = backend_of(head.context)
    if given is None:
        with backend.scope():
            return head.wrap(backend.xp.ones(head.shape, head.dtype))
    if shape_size(given.shape) != shape_size(head.shape):
        raise ShapeError(f"the head's gradient has shape {given.shape}, expected {head.shape}")
    gradient = given.tostype("default") if given.stype != "default" else given
    if gradient.shape != head.shape:
        gradient = gradient.reshape(head.shape)
    gradient = gradient.astype(head.dtype, copy=False)
    return cast(A, gradient.as_in_context(head.context))


def parse_context(value: Any) -> Context:
    """Return the context of a Context or of its text, ``"cpu(0)"``."""
    if isinstance(value, Context):
        return value
    kind, _, number = str(value).rstrip(")").partition("(")
    return Context(kind, int(number or 0))


def _note_updates(states: Iterable[tuple[Handle[Any], Array]]) -> None:
    """Mark arrays whose raw values an operator changed; sparse arrays store the new values."""
    for array, values in states:
        if not _is_dense(array):
            array.assign_dense(values)
        elif array.version is not None:
            array.version.bump()


def _is_dense(array: Handle[Any]) -> bool:
    return array.stype == "default"


def _is_elsewhere(a: Context, b: Context) -> bool:
    """Return whether memory of one cannot be read on the other; all CPU contexts share theirs."""
    return a != b and "gpu" in (a.device_type, b.device_type)
