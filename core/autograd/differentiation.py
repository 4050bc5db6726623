"""Backward passes over recorded operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MXNetError, UsageError, WrongType
from ..ndarray import NDArray
from ..ndarray.array import mark_variable
from ..ndarray.imperative import differentiate
from ..ndarray.tape import Variable
from ..symbol import Symbol
from .recording import linked, recorded_step
from .tracing import symbol_of

__all__ = ["backward", "get_symbol", "grad", "mark_variables"]


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Make arrays variables whose gradients go into the given buffers.

    Args:
        variables: one array or several.
        gradients: the buffers, of the same shapes.
        grad_reqs: ``"write"``, ``"add"`` or ``"null"``, one for all variables or one for each.
    """
    arrays, buffers = _as_list(variables), _as_list(gradients)
    reqs = [grad_reqs] * len(arrays) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(arrays) == len(buffers) == len(reqs):
        raise ValueError(
            f"mark_variables got {len(arrays)} variables, {len(buffers)} gradients and "
            f"{len(reqs)} grad_reqs; expected as many of each"
        )
    for array, buffer, req in zip(arrays, buffers, reqs, strict=True):
        mark_variable(array, buffer, req)


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute the gradients of all variables that the heads depend on, into their buffers.

    Args:
        heads: arrays computed while recording.
        head_grads: the gradient of each head; None means ones.
        retain_graph: keep the recording for another backward pass.
        train_mode: whether the operators' backward runs as in training.
    """
    arrays, seeds = _heads(heads, head_grads)
    found = differentiate(arrays, seeds, retain_graph=retain_graph, train_mode=train_mode)
    for variable, gradient in found.items():
        variable.receive(gradient)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """Return the gradients of variables, leaving their buffers as they are.

    Args:
        heads: arrays computed while recording.
        variables: arrays with ``attach_grad``.
        head_grads: the gradient of each head; None means ones.
        retain_graph: keep the recording; by default the same as ``create_graph``.
        create_graph: record the computation of the gradients, to differentiate them again. That
            works for operators that have a ``derivative`` or are linear; a second pass through any
            other one raises MXNetError.
        train_mode: whether the operators' backward runs as in training.

    Returns:
        A list of arrays, even if ``variables`` is a single array.

    Raises:
        MXNetError: an array is not a variable, or the heads do not depend on it.
    """
    arrays, seeds = _heads(heads, head_grads)
    wanted = _as_list(variables)
    if not wanted:
        raise UsageError("variables cannot be an empty list.")
    origins = []
    for index, array in enumerate(wanted):
        if not isinstance(array._origin, Variable):
            raise MXNetError(
                f"Cannot differentiate with respect to the {index + 1}-th variable because it does "
                "not require gradient; call attach_grad() on it before it is used"
            )
        origins.append(array._origin)
    found = differentiate(
        arrays,
        seeds,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        train_mode=train_mode,
        step=recorded_step if create_graph else None,
    )
    for index, origin in enumerate(origins):
        if origin not in found:
            raise MXNetError(
                f"Cannot differentiate with respect to the {index + 1}-th variable because it is "
                "unreachable from the outputs."
            )
    results = [found[origin] for origin in origins]
    if create_graph:
        results = [linked(*pair) for pair in zip(results, origins, strict=True)]
    return results


def get_symbol(x: NDArray) -> Symbol:
    """Return the recorded computation of an array as a symbol.

    Its arguments are the arrays that were not computed while recording, named ``var0``, ``var1``...

    Raises:
        MXNetError: the array was not recorded, or its computation contains indexing by arrays or a
            ``Function``, which a graph cannot represent.
    """
    if not isinstance(x, NDArray):
        raise WrongType(f"get_symbol got a {type(x).__name__}; expected an NDArray")
    return symbol_of(x)


def _heads(
    heads: NDArray | Sequence[NDArray], head_grads: NDArray | Sequence[NDArray | None] | None
) -> tuple[list[NDArray], list[NDArray | None]]:
    arrays: list[NDArray] = _as_list(heads)
    seeds: list[NDArray | None] = (
        [None] * len(arrays) if head_grads is None else _as_list(head_grads)
    )
    if len(arrays) != len(seeds):
        raise UsageError(
            f"heads and head_grads must be lists of the same length, got {len(arrays)} and "
            f"{len(seeds)}"
        )
    return arrays, seeds


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, NDArray) else list(value)
