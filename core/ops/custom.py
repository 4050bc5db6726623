"""The operator ``Custom``, which a script implements in Python and registers by name.

The public classes ``CustomOp`` and ``CustomOpProp`` are in ``core.operator``, which imports this
module: their protocols are here, and with each name it registers what calls its operators.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..errors import ShapeError, TypeInferenceError, UnknownOperator, did_you_mean
from ..profiler.recorder import custom_operator
from ..types import Array, DType, Shape, is_known, to_dtype
from .attributes import attribute
from .operator import ALL, Operator, Reads, Run
from .registry import register

__all__ = ["Custom", "CustomCalls", "Properties", "custom_names", "register_custom"]


class Properties(Protocol):
    """The methods of a ``CustomOpProp``."""

    def list_arguments(self) -> list[str]: ...
    def list_outputs(self) -> list[str]: ...
    def list_auxiliary_states(self) -> list[str]: ...
    def infer_shape(self, in_shape: list[list[int]]) -> Any: ...
    def infer_type(self, in_type: list[Any]) -> Any: ...
    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]: ...


class CustomCalls(Protocol):
    """Creates and calls custom operators; ``arrays`` are raw arrays under MXNet's parameter
    names."""

    def create(self, properties: Properties, inputs: Sequence[Array]) -> Any: ...
    def forward(
        self, op: Any, is_train: bool, req: list[str], **arrays: Sequence[Array]
    ) -> None: ...
    def backward(self, op: Any, req: list[str], **arrays: Sequence[Array]) -> None: ...


class _Registered(NamedTuple):
    make: Callable[..., Properties]
    calls: CustomCalls


_registered: dict[str, _Registered] = {}


def register_custom(name: str, make: Callable[..., Properties], calls: CustomCalls) -> None:
    """Register an ``op_type``; a later registration replaces an earlier one of the same name.

    Args:
        name: the ``op_type``.
        make: makes the properties from the attributes.
        calls: creates and calls the operators of such properties.
    """
    _registered[name] = _Registered(make, calls)


def custom_names() -> list[str]:
    """Return the registered names, sorted."""
    return sorted(_registered)


class _Instances:
    """The operators made so far. Each belongs to the array it writes, and is dropped with it."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, weakref.ref[Any]]] = {}

    def of(self, output: Array, make: Callable[[], Any]) -> Any:
        """Return the operator that writes an output, made at the first call."""
        # Arrays are not hashable. An id is reused only after the array is gone, when the callback
        # of its weak reference has removed the entry.
        key = id(output)
        if key not in self._found:
            reference = weakref.ref(output, lambda _: self._found.pop(key, None))
            self._found[key] = (make(), reference)
        return self._found[key][0]


_instances = _Instances()


@register("Custom")
class Custom(Operator):
    """An operator registered with ``mx.operator.register(op_type)``.

    All further attributes go to the registered class as text.
    """

    variadic: ClassVar[str | None] = ""
    may_widen: ClassVar[bool] = False  # The script's code must see the dtypes that it inferred.
    rest_attribute: ClassVar[str | None] = "arguments"
    uses_random: ClassVar[bool] = True  # Unknown before it runs, so assume it does.

    op_type: str = attribute(doc="the name under which it is registered")
    arguments: tuple[tuple[str, str], ...] = attribute(())

    def __post_init__(self) -> None:
        if self.op_type not in _registered:
            raise UnknownOperator(
                f"Custom operator {self.op_type!r} is not registered"
                f"{did_you_mean(self.op_type, _registered)}; register its class with "
                f"mx.operator.register({self.op_type!r})"
            )

    @functools.cached_property
    def properties(self) -> Properties:
        """The registered class with these attributes."""
        return _registered[self.op_type].make(**dict(self.arguments))

    @property
    def calls(self) -> CustomCalls:
        """What creates and calls the operator."""
        return _registered[self.op_type].calls

    # -- names ------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        return (*self.properties.list_arguments(), *self.auxiliary_names())

    def auxiliary_names(self) -> tuple[str, ...]:
        return tuple(self.properties.list_auxiliary_states())

    def output_names(self) -> tuple[str, ...]:
        return tuple(self.properties.list_outputs())

    def backward_reads(self) -> Reads:
        outputs, inputs = len(self.output_names()), len(self.properties.list_arguments())
        numbers = iter(range(2 * outputs + inputs))
        out_grad, in_data, out_data = (
            [next(numbers) for _ in range(count)] for count in (outputs, inputs, outputs)
        )
        read = self.properties.declare_backward_dependency(out_grad, in_data, out_data)
        # ``backward`` of a script gets in_data and out_data as whole lists, whatever it declares.
        # What matters is whether it reads out_grad: if not, it is a loss, where a backward pass
        # begins.
        return Reads(out_grads=any(i in out_grad for i in read), inputs=(ALL,), outputs=(ALL,))

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        count = len(self.properties.list_arguments())
        try:
            answer = self.properties.infer_shape([list(shape or ()) for shape in inputs[:count]])
        except Exception as error:
            # Code written for known shapes may fail on unknown ones, in any way.
            if not self.check_known(inputs[:count]):
                return inputs, outputs
            raise ShapeError(f"{self.op_type}.infer_shape failed: {error!r}") from error
        in_shapes, out_shapes, aux_shapes = self._parts("infer_shape", answer)
        given = [shape or None for shape in map(tuple, (*in_shapes, *aux_shapes))]
        found = [
            self.expect(name, shape, expected)
            for name, shape, expected in zip(self.input_names(), inputs, given, strict=True)
        ]
        if not all(is_known(shape) for shape in found[:count]):
            return found, outputs
        return found, [
            self.expect(name, shape, tuple(expected))
            for name, shape, expected in zip(self.output_names(), outputs, out_shapes, strict=True)
        ]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        count = len(self.properties.list_arguments())
        first = next((dtype for dtype in (*inputs, *outputs) if dtype is not None), None)
        if first is None and count:
            return inputs, outputs
        # Without inputs, the dtypes must come from the properties.
        known = [(dtype or first).type for dtype in inputs[:count]] if first is not None else []
        try:
            answer = self.properties.infer_type(list(known))
        except Exception as error:
            raise TypeInferenceError(f"{self.op_type}.infer_type failed: {error!r}") from error
        in_types, out_types, aux_types = self._parts("infer_type", answer)
        names = (*self.input_names(), *self.output_names())
        expected = [to_dtype(np.dtype(x)) for x in (*in_types, *aux_types, *out_types)]
        found = [
            self.expect_dtype(name, dtype, wanted)
            for name, dtype, wanted in zip(names, (*inputs, *outputs), expected, strict=True)
        ]
        return [*found[: len(inputs)]], [*found[len(inputs) :]]

    def _parts(self, method: str, answer: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return a method's answer for inputs, outputs and auxiliary states, after checking its
        length."""
        parts = [list(part) for part in answer]
        if len(parts) == 2:
            parts.append([])
        counts = (
            len(self.properties.list_arguments()),
            len(self.output_names()),
            len(self.auxiliary_names()),
        )
        if tuple(len(part) for part in parts) != counts:
            raise ShapeError(
                f"{self.op_type}.{method} returned {[len(part) for part in parts]} entries; "
                f"expected {counts[0]} for inputs, {counts[1]} for outputs and {counts[2]} for "
                f"auxiliary states"
            )
        return parts[0], parts[1], parts[2]

    # -- arithmetic -------------------------------------------------------------------------

    def _instance(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Any:
        count = len(self.properties.list_arguments())
        return _instances.of(outputs[0], lambda: self.calls.create(self.properties, inputs[:count]))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        count = len(self.properties.list_arguments())
        with custom_operator(self.op_type):
            self.calls.forward(
                self._instance(inputs, outputs),
                run.is_train,
                ["write"] * len(outputs),
                in_data=inputs[:count],
                out_data=outputs,
                aux=inputs[count:],
            )

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        count = len(self.properties.list_arguments())
        targets, req = [], []
        for array, target in zip(inputs[:count], in_grads, strict=False):
            req.append("null" if target is None else "write")
            # ``backward`` of a script may write to a gradient that nobody wants.
            targets.append(run.scratch(array.shape, array.dtype) if target is None else target)
        grads = [
            run.xp.zeros(output.shape, output.dtype) if grad is None else grad
            for grad, output in zip(out_grads, outputs, strict=True)
        ]
        with custom_operator(f"_backward_{self.op_type}"):
            self.calls.backward(
                self._instance(inputs, outputs),
                req,
                out_grad=grads,
                in_data=inputs[:count],
                out_data=outputs,
                in_grad=targets,
                aux=inputs[count:],
            )
