"""The predecessor of ``mx.autograd`` (``mx.contrib.autograd``), which old scripts use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from .. import autograd
from ..autograd import mark_variables
from ..ndarray import NDArray, zeros_like

__all__ = [
    "NDArray",
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Switch recording and training mode on or off together; return whether recording was on."""
    autograd.set_training(bool(is_train))
    return bool(autograd.set_recording(bool(is_train)))


class TrainingStateScope:
    """A ``with`` block that switches recording and training mode on or off together.

    Args:
        enter_state: True to switch on.
    """

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._previous = False

    def __enter__(self) -> None:
        self._previous = set_is_training(self._enter_state)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous != self._enter_state:
            set_is_training(self._previous)


def train_section() -> TrainingStateScope:
    """Return a scope that records in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """Return a scope without recording, in inference mode, for use within a recorded scope."""
    return TrainingStateScope(False)


def backward(
    outputs: Sequence[NDArray],
    out_grads: Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Compute the gradients of all marked variables, in training mode.

    Args:
        outputs: the arrays to differentiate.
        out_grads: the gradient of each output; None means ones.
        retain_graph: keep the recording for another backward pass.
    """
    if not isinstance(outputs, (list, tuple)):
        raise AssertionError("outputs must be a list or tuple of NDArrays")
    if out_grads is not None and len(out_grads) != len(outputs):
        raise AssertionError("outputs and out_grads must have the same length")
    autograd.backward(list(outputs), out_grads and list(out_grads), retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """The oldest name of ``backward(outputs)``."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """Return a function that returns the gradients of a function's arguments, and its value.

    Args:
        func: takes arrays and returns one or a list.
        argnum: which arguments get a gradient; None for all, which must then be arrays.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        chosen = [argnum] if isinstance(argnum, int) else argnum
        variables = list(args) if chosen is None else [args[index] for index in chosen]
        if not all(isinstance(variable, NDArray) for variable in variables):
            raise AssertionError("type of autograd input should NDArray.")
        gradients = [zeros_like(variable) for variable in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., list[NDArray]]:
    """Return a function that returns the gradients of a function's arguments."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(both)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
