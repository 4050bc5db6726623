"""The one form in which every operator is declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeGuard, overload

import numpy as np

from ..capabilities.functions import Arithmetic, Pointwise, Reduction
from ..capabilities.kinds import Kind
from ..capabilities.quantized import ByteForm
from ..errors import ShapeError, TypeInferenceError
from ..random import DeviceRandom
from ..types import Array, DType, Shape, is_known, merge_dtypes, merge_shapes
from .derivatives import Functions, Tensor
from .sparse_kernel import SparseKernel
from .subgraph import Bodies, Subgraph

__all__ = ["ALL", "Operator", "Reads", "Run"]

ALL = -1
"""In ``Reads``: every input (or output) is read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What an operator's ``backward`` reads; all else may be overwritten before it runs.

    ``backward`` finds ``None`` in the place of what it did not declare.
    """

    out_grads: bool = True
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


Suppress: TypeAlias = Callable[[Sequence[Array], Array | None, float, bool, int], Array | None]


class Run:
    """What an operator is given besides its arrays.

    Attributes:
        xp: numpy or cupy.
        is_train: True in a training pass.
        random: the device's random numbers.
        bodies: what runs an operator's subgraphs; None outside of executors.
        suppress: the device's own non-maximum suppression (``Backend.suppress``); None for none.
    """

    __slots__ = ("_allocate", "bodies", "is_train", "random", "suppress", "xp")

    def __init__(
        self,
        xp: Any,
        is_train: bool,
        random: DeviceRandom,
        allocate: Callable[[Shape, DType], Array],
        bodies: Bodies | None = None,
        suppress: Suppress | None = None,
    ) -> None:
        self.bodies = bodies
        self.suppress = suppress
        self.xp = xp
        self.is_train = is_train
        self.random = random
        self._allocate = allocate

    def scratch(self, shape: Shape, dtype: DType | str = "float32") -> Array:
        """Return an uninitialised array that is the operator's until it returns.

        A bound plan hands out the same memory at every step, so a step allocates nothing.
        """
        return self._allocate(shape, np.dtype(dtype))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operator:
    """Base of all operators. One instance is one set of parsed attributes.

    A subclass is declared with ``@register(name, *aliases)`` and annotated fields
    (see ``core.ops.attributes``), and overrides what differs from the defaults here:
    one input ``data``, one output, all shapes and dtypes equal.

    ``forward`` and ``backward`` are the reference: written against ``run.xp``, they write into the
    arrays given, leave their inputs unchanged and accept strided inputs. ``grad_req`` is
    not their affair.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """Canonical name, then aliases."""

    kind: ClassVar[Kind[Any] | None] = None
    """What kernels know it as, set by ``implements`` (``core.capabilities.kinds``); an operator
    that is derived from another one, and computes something else, says None."""

    ignored_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes accepted and without effect here (``cudnn_off``, ``workspace``)."""

    ignores_unknown: ClassVar[bool] = False
    """Whether any other attribute is accepted, too; so it is where there are none at all."""

    rest_attribute: ClassVar[str | None] = None
    """The field that takes all attributes that no other field is for, as pairs of name and text;
    without one they are refused."""

    variadic: ClassVar[str | None] = None
    """The attribute that counts the inputs (``num_args``), for operators with any number of them;
    ``""`` where no attribute counts them."""

    all_inputs: ClassVar[tuple[str, ...]] = ()
    """Names of all inputs that some attributes give the operator, in order, where ``input_names``
    depends on required attributes or grows with optional ones (LeakyReLU's ``gamma``)."""

    may_widen: ClassVar[bool] = True
    """False where ``forward`` and ``backward`` must see the dtypes that the graph says: compiled
    for a CPU, others are given float32 arrays in place of half precision."""

    updates_backwards: ClassVar[bool] = False
    """True where ``backward`` alone updates the auxiliary states: ``forward`` may run once more."""

    is_costly: ClassVar[bool] = False
    """True where ``forward`` is too much work to be done a second time to save memory."""

    backward_reads_mode: ClassVar[bool] = False
    """True where ``backward`` does something else in training than in inference."""

    is_linear: ClassVar[bool] = False
    """True where the outputs are linear in all inputs together: the derivative of the gradient is
    then the operator itself."""

    monitors_data: ClassVar[bool] = False
    """True where MXNet 1.9.1 calls the only input ``data`` when it is monitored; most lone inputs
    have no name there."""

    byte_form: ClassVar[ByteForm | None] = None
    """How it is done on bytes, in networks that are quantized; None for only on numbers."""

    names_outputs: ClassVar[bool] = False
    """True where MXNet's quantized graphs call what is made of an output by the output's name, and
    not by its number."""

    uses_random: ClassVar[bool] = False
    """True where ``forward`` draws from ``run.random``."""

    graph_names: ClassVar[tuple[str, ...]] = ()
    """What its subgraphs are for (``then_branch``); its function takes them before the inputs."""

    def __post_init__(self) -> None:
        """Raise AttributeValueError for attributes that contradict each other."""

    # -- names ------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, auxiliary states last."""
        return ("data",)

    def auxiliary_names(self) -> tuple[str, ...]:
        """Names of those inputs that ``forward`` or ``backward`` update (moving averages)."""
        return ()

    def variable_initializers(self) -> Mapping[str, str]:
        """``__init__`` attributes that composing gives input variables, by input name.

        For example ``{"moving_var": '["one", {}]'}``; a variable that has one keeps its own.
        """
        return {}

    def output_names(self) -> tuple[str, ...]:
        """Names of all outputs, hidden ones last."""
        return ("output",)

    def visible_outputs(self) -> int:
        """How many of the outputs a symbol shows."""
        return len(self.output_names())

    def stored_outputs(self) -> int:
        """How many outputs MXNet's JSON counts (``node_row_ptr``): one more than there are here
        where MXNet hides a workspace among them."""
        return len(self.output_names())

    def held_graphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs, one for each of ``graph_names``."""
        return ()

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Complete what is known of the shapes, in both directions (0 and None: unknown).

        The lists may be changed in place. Raise ShapeError on a contradiction; the caller adds
        the node's name. The default: all shapes are equal.
        """
        common: Shape | None = None
        names = (*self.input_names(), *self.output_names())
        for name, shape in zip(names, (*inputs, *outputs), strict=True):
            common = self.expect(name, shape, common)
        return [common] * len(inputs), [common] * len(outputs)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        """Complete what is known of the dtypes, in both directions. The default: all are equal."""
        common: DType | None = None
        for dtype in (*inputs, *outputs):
            common = merge_dtypes(common, dtype)
        return [common] * len(inputs), [common] * len(outputs)

    # -- facts for the planner --------------------------------------------------------------

    def backward_reads(self) -> Reads:
        """What ``backward`` reads. ``ALL`` in a tuple stands for every index."""
        return Reads(inputs=(ALL,), outputs=(ALL,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        """Indices of the inputs that get a gradient, of ``count`` in all; the rest get zeros."""
        auxiliary = len(self.auxiliary_names())
        return tuple(range(count - auxiliary))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        """Pairs (input, output): the output may be written over the input's memory."""
        return ()

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        """Pairs (output, input): the input's gradient may be written over the output's gradient."""
        return ()

    def is_view(self) -> bool:
        """True where the only output is the first input's memory under another shape."""
        return False

    def is_identity(self, is_train: bool) -> bool:
        """True where, in this mode, the first output is an unchanged copy of the first input.

        A plan then leaves the operator out (Dropout in inference). The default: ``is_view``.
        """
        return self.is_view()

    def given(self, shapes: Sequence[Shape]) -> Operator:
        """Return an operator that does the same on inputs of these shapes, if one is simpler."""
        return self

    def is_elementwise(self) -> bool:
        """True where each element of what ``forward`` and ``backward`` write depends on nothing but
        the elements in its place of tensors of the same shape.

        They are then given vectors, too, all in one order, where a plan keeps tensors in another.
        """
        return False

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        """Pairs (output, input): the input's gradient is just the output's, under its own shape.

        A plan then hands the gradient on and does not ask ``backward`` for it. The default: that of
        a view, unless it is a loss, which ignores what arrives.
        """
        return ((0, 0),) if self.is_view() and self.backward_reads().out_grads else ()

    def needs_every_gradient(self) -> bool:
        """True where ``backward`` needs the arrays of all gradients to place the wanted ones.

        ``in_grads`` then has an array for each of ``gradient_inputs``; unwanted ones are
        dropped after the call (Concat: what lies before a gradient tells where it starts).
        """
        return False

    def output_storage(self, inputs: Sequence[str]) -> str:
        """Storage type of the outputs, from those of the inputs (see ``storage_rules.py``)."""
        return "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        """What computes from inputs of these storage types as they are stored; without one,
        ``forward`` and ``backward`` do, from dense copies."""
        return None

    def row_gradients(self) -> tuple[int, ...]:
        """Inputs whose gradient ``backward`` can also add to ``core.ops.rows.Rows``: it has few
        rows, and those of a shape are not to be filled with zeros."""
        return ()

    # -- known functions --------------------------------------------------------------------

    def pointwise(self) -> Pointwise | None:
        """The function applied to each element of the only input, where it is a known one."""
        return None

    def arithmetic(self) -> Arithmetic | None:
        """What is done to the elements of two inputs, broadcast or not, where it is known."""
        return None

    def reduction(self) -> Reduction | None:
        """What is computed of all elements along some axes, where it is known."""
        return None

    def on_bytes(self) -> ByteForm | None:
        """How these attributes are done on bytes. The default: ``byte_form``."""
        return self.byte_form

    def fills_with(self) -> float | None:
        """The number that every element of the output is, whatever the inputs are."""
        return None

    # -- arithmetic -------------------------------------------------------------------------

    def prepare(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None
    ) -> None:
        """Compile the subgraphs that ``forward`` of these inputs runs, or that ``backward`` does.

        Args:
            run: as for the pass itself.
            inputs: the arrays that will be its inputs.
            in_grads: those of its gradients; None for ``forward``.
        """

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Write every output."""
        raise NotImplementedError(f"{self.names[0]} has no forward")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Write the gradient of every input whose entry in ``in_grads`` is not None."""
        raise NotImplementedError(f"{self.names[0]} has no gradient")

    @classmethod
    def has_backward(cls) -> bool:
        """Tell whether the operator defines a gradient."""
        return cls.backward is not Operator.backward

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        """Return the gradient of each input in terms of operators, so that it can be differentiated
        again; None where that is not known. What ``is_linear`` needs none.

        Args:
            f: what has the operators, by name.
            inputs, outputs, out_grads: as for ``backward``.
        """
        return None

    @classmethod
    def has_derivative(cls) -> bool:
        """Tell whether the operator has a ``derivative``, for some attributes at least."""
        return cls.derivative is not Operator.derivative

    # -- helpers for inference --------------------------------------------------------------

    def check_known(self, shapes: Sequence[Shape | None]) -> TypeGuard[Sequence[Shape]]:
        """Tell whether all shapes are fully known."""
        return all(is_known(shape) for shape in shapes)

    @overload
    def expect(self, what: str, got: Shape, expected: Shape | None) -> Shape: ...
    @overload
    def expect(self, what: str, got: Shape | None, expected: Shape) -> Shape: ...
    @overload
    def expect(self, what: str, got: Shape | None, expected: Shape | None) -> Shape | None: ...
    def expect(self, what: str, got: Shape | None, expected: Shape | None) -> Shape | None:
        """Merge two views of one input's shape; a contradiction names the input."""
        try:
            return merge_shapes(got, expected)
        except ShapeError:
            raise ShapeError(f"{what} has shape {got}, expected {expected}") from None

    @overload
    def expect_dtype(self, what: str, got: DType, expected: DType | None) -> DType: ...
    @overload
    def expect_dtype(self, what: str, got: DType | None, expected: DType) -> DType: ...
    @overload
    def expect_dtype(
        self, what: str, got: DType | None, expected: DType | None
    ) -> DType | None: ...
    def expect_dtype(self, what: str, got: DType | None, expected: DType | None) -> DType | None:
        """Merge two views of one input's dtype; a contradiction names the input."""
        try:
            return merge_dtypes(got, expected)
        except TypeInferenceError:
            raise TypeInferenceError(f"{what} has dtype {got}, expected {expected}") from None
