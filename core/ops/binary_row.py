"""The table row that declares an elementwise function of two operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..capabilities.functions import Arithmetic
from ..capabilities.quantized import QuantizedForm
from ..types import Array
from .derivatives import Partials
from .operator import Run
from .sparse_kernel import SparseKernel, no_kernel
from .storage_rules import StorageRule, dense

__all__ = ["BinaryRow", "Function", "Operand", "Slope"]

Operand: TypeAlias = Any
"""An array, or a number in the scalar forms."""

Function: TypeAlias = Callable[[Run, Operand, Operand, Array], None]


class Slope(NamedTuple):
    """A derivative that depends on the operands.

    Attributes:
        function: returns the derivative by one operand: an operand, a new array or a number.
        reads: which operands it reads (0: left, 1: right).
        has_fractions: whether it is a fraction for integers, of which the whole part counts.
    """

    function: Callable[[Run, Operand, Operand], Any]
    reads: tuple[int, ...]
    has_fractions: bool = False


class BinaryRow(NamedTuple):
    """One function.

    Attributes:
        doc: what it computes from the operands a and b.
        function: writes the function's value.
        lhs: derivative by a, a constant, or None if the gradient is 0.
        rhs: derivative by b, likewise.
        elementwise, broadcast, mixed, scalar, reversed: names of each form; empty if there is no
            such form.
        elementwise_storage, broadcast_storage, scalar_storage: the storage type of each form's
            output, given those of its inputs.
        sparse_kernel: returns the kernel of the elementwise form for sparse arrays, if there is
            one.
        keeps_zeros: whether the scalar form with a given number maps 0 to 0, so that sparse arrays
            stay sparse.
        arithmetic: the known function that it is, if any.
        partials: the derivatives in terms of operators, for higher-order gradients.
        on_bytes: the counterpart of the elementwise form on int8, if any.
        names_outputs: as in ``Operator``, of the elementwise form.
    """

    doc: str
    function: Function
    lhs: Slope | float | None = None
    rhs: Slope | float | None = None
    elementwise: tuple[str, ...] = ()
    broadcast: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    scalar: tuple[str, ...] = ()
    reversed: tuple[str, ...] = ()
    elementwise_storage: StorageRule = dense
    broadcast_storage: StorageRule = dense
    scalar_storage: StorageRule = dense
    sparse_kernel: Callable[[Sequence[str]], SparseKernel | None] = no_kernel
    keeps_zeros: Callable[[float], bool] | None = None
    arithmetic: Arithmetic | None = None
    partials: Partials | None = None
    on_bytes: QuantizedForm | None = None
    names_outputs: bool = False
