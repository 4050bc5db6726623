"""Loops and branches on arrays: ``mx.nd.contrib.foreach``, ``while_loop`` and ``cond``.

Python runs them step by step, and autograd records what the steps do. Where MXNet takes arrays in
nested lists, ``Nested`` stands for an array or a list or tuple of such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ..ops import get_operator
from .array import NDArray
from .creation import zeros
from .functions import make_function

__all__ = ["cond", "foreach", "while_loop"]

Nested: TypeAlias = Any

_stack_arrays = make_function(get_operator("stack"), "stack")


def foreach(
    body: Callable[[Any, Any], tuple[Nested, Nested]], data: Nested, init_states: Nested
) -> tuple[Nested, Nested]:
    """Run ``outputs, states = body(slice, states)`` for every slice of the data along axis 0.

    Args:
        body: what a step does.
        data: an array, or a list of arrays with equally many slices; ``body`` gets a list then.
        init_states: the states of the first step.

    Returns:
        the outputs of all steps stacked along axis 0, in the form ``body`` returns them, and the
        last states.

    Raises:
        ValueError: the data has no slices, or steps return different forms.
        TypeError: something else than arrays is given or returned.
    """
    states = init_states
    # For their checks alone: anything but arrays is refused before the first step runs.
    list(_leaves("data", data))
    list(_leaves("init_states", init_states))
    slices = [data] if isinstance(data, NDArray) else list(data)
    steps: list[Nested] = []
    for i in range(slices[0].shape[0] if slices else 0):
        given = data[i] if isinstance(data, NDArray) else [array[i] for array in slices]
        outputs, states = body(given, states)
        steps.append(outputs)
    if not steps:
        raise ValueError("foreach: data has no slices along axis 0; give one at least")
    return _stack("foreach", steps), states


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., tuple[Nested, Nested]],
    loop_vars: Nested,
    max_iterations: int | None = None,
) -> tuple[Nested, Nested]:
    """Run ``outputs, loop_vars = func(*loop_vars)`` while ``cond(*loop_vars)`` holds.

    Args:
        cond: returns a number or an array of one element.
        func: what a step does; its outputs may be None.
        loop_vars: an array or a list of arrays, one at least.
        max_iterations: most steps, required.

    Returns:
        the outputs of all steps stacked along axis 0, filled up with zeros to ``max_iterations``
        (an empty list if there was no step), and the last ``loop_vars``.

    Raises:
        ValueError: an argument is missing, or steps return different forms.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    is_single = isinstance(loop_vars, NDArray)
    variables = [loop_vars] if is_single else list(loop_vars)
    if not variables:
        raise ValueError("loop_vars should contain at least one element")
    steps: list[Nested] = []
    while len(steps) < max_iterations and _truth("the value of cond", cond(*variables)):
        outputs, changed = func(*variables)
        changed = [changed] if isinstance(changed, NDArray) else list(changed or ())
        if len(changed) != len(variables):
            raise ValueError(
                f"while_loop: func returned {len(changed)} loop_vars, it was given "
                f"{len(variables)}; the number should be consistent during the loop"
            )
        variables = changed
        steps.append([] if outputs is None else outputs)
    stacked = _stack("while_loop", steps, int(max_iterations)) if steps else []
    return stacked, variables[0] if is_single else variables


def cond(pred: Any, then_func: Callable[[], Nested], else_func: Callable[[], Nested]) -> Nested:
    """Return ``then_func()`` where ``pred``, a number or an array of one element, is not 0, else
    ``else_func()``."""
    return then_func() if _truth("pred", pred) else else_func()


def _truth(what: str, value: Any) -> bool:
    if isinstance(value, NDArray):
        value = value.asscalar()
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {what} to python bool") from None


def _leaves(what: str, nested: Nested) -> Iterator[NDArray]:
    """Yield the arrays of a nested list, in order."""
    if isinstance(nested, NDArray):
        yield nested
        return
    if not isinstance(nested, (list, tuple)):
        raise TypeError(
            f"{what} is a {type(nested).__name__}; expected an NDArray or a (nested) list of them"
        )
    for item in nested:
        yield from _leaves(what, item)


def _form(nested: Nested) -> Any:
    return None if isinstance(nested, NDArray) else [_form(item) for item in nested]


def _stack(what: str, steps: Sequence[Nested], length: int | None = None) -> Nested:
    """Stack the outputs of steps, filled up with zeros to a length, in the form of one step."""
    flat = [list(_leaves(f"{what} output", step)) for step in steps]
    form = _form(steps[0])
    if any(_form(step) != form for step in steps):
        raise ValueError(f"{what}: the outputs should have the same form in each step")
    stacked = []
    for position, arrays in enumerate(zip(*flat, strict=True)):
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise ValueError(f"{what}: output {position} has inconsistent shapes: {sorted(shapes)}")
        padding = [zeros(arrays[0].shape, arrays[0].context, arrays[0].dtype)] * (
            (length or len(arrays)) - len(arrays)
        )
        together = [*arrays, *padding]
        stacked.append(_stack_arrays(*together, axis=0))
    return _regroup(iter(stacked), form)


def _regroup(arrays: Iterator[NDArray], form: Any) -> Nested:
    return next(arrays) if form is None else [_regroup(arrays, inner) for inner in form]
