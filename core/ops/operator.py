"""The base class of all operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeGuard, overload

import numpy as np

from ..capabilities.functions import Arithmetic, Pointwise, Reduction
from ..capabilities.kinds import Kind
from ..capabilities.layers import LayerData
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError, TypeInferenceError
from ..random import DeviceRandom
from ..types import Array, DType, Shape, is_known, merge_dtypes, merge_shapes
from .derivatives import Functions, Tensor
from .implied_loss import ImpliedLoss
from .sparse_kernel import SparseKernel
from .subgraph import Bodies, Subgraph

__all__ = ["ALL", "Operator", "Reads", "Run"]

ALL = -1
"""In ``Reads``: every input, or every output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What an operator's ``backward`` reads; everything else may be overwritten before it runs.

    ``backward`` receives ``None`` in place of operands that it did not declare.
    """

    out_grads: bool = True
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


Suppress: TypeAlias = Callable[[Sequence[Array], Array | None, float, bool, int], Array | None]


class LinearAlgebra(Protocol):
    """The linear algebra that a backend may have kernels for (documented at ``Backend``)."""

    def solve_triangular(
        self,
        triangle: Array,
        sides: Array,
        out: Array,
        *,
        lower: bool,
        transpose: bool,
        rightside: bool,
    ) -> bool:
        """Solve ``A X = B``; return False if there is no kernel."""

    def invert(self, matrices: Array, out: Array) -> bool:
        """Write inverses; return False if there is no kernel."""

    def determine(self, matrices: Array) -> tuple[Array, Array] | None:
        """Return signs and logarithms of determinants; None if there is no kernel."""


class Run:
    """The environment in which an operator runs.

    Attributes:
        xp: numpy or cupy.
        is_train: True in a training pass.
        random: the device's random number generator.
        bodies: runs an operator's subgraphs; None outside of executors.
        suppress: the backend's non-maximum suppression (``Backend.suppress``), or None.
        linear: the backend's kernels for linear algebra, or None.
    """

    __slots__ = ("_allocate", "bodies", "is_train", "linear", "random", "suppress", "xp")

    def __init__(
        self,
        xp: Any,
        is_train: bool,
        random: DeviceRandom,
        allocate: Callable[[Shape, DType], Array],
        bodies: Bodies | None = None,
        suppress: Suppress | None = None,
        linear: LinearAlgebra | None = None,
    ) -> None:
        self.bodies = bodies
        self.suppress = suppress
        self.linear = linear
        self.xp = xp
        self.is_train = is_train
        self.random = random
        self._allocate = allocate

    def scratch(self, shape: Shape, dtype: DType | str = "float32") -> Array:
        """Return an uninitialised array that the operator may use until it returns.

        A bound plan reuses the same memory for every step, so that steps allocate nothing.
        """
        return self._allocate(shape, np.dtype(dtype))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operator:
    """Base of all operators. One instance is one set of parsed attributes.

    A subclass is declared with ``@register(name, *aliases)`` and annotated fields
    (see ``core.ops.attributes``), and overrides what differs from the defaults here:
    one input ``data``, one output, all shapes and dtypes equal.

    ``forward`` and ``backward`` are the reference implementation: they use ``run.xp``, write into
    the given arrays, do not change their inputs and accept strided ones. ``grad_req`` is handled by
    the caller.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """The canonical name, followed by aliases."""

    kind: ClassVar[Kind[Any] | None] = None
    """The key under which kernels are registered, set by ``implements``
    (``core.capabilities.kinds``). A subclass of another operator that computes something else must
    set it to None."""

    ignored_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are accepted for compatibility but have no effect (``cudnn_off``)."""

    ignores_unknown: ClassVar[bool] = False
    """Whether unknown attributes are accepted; operators without attributes always accept them."""

    rest_attribute: ClassVar[str | None] = None
    """The field that collects all attributes without a field of their own, as pairs of name and
    text; without such a field they are an error."""

    variadic: ClassVar[str | None] = None
    """The attribute with the number of inputs (``num_args``), for operators with any number of
    them; ``""`` if there is no such attribute."""

    all_inputs: ClassVar[tuple[str, ...]] = ()
    """Names of all inputs that the operator can have, in order. Needed only if ``input_names``
    depends on required attributes or grows with optional ones (LeakyReLU's ``gamma``)."""

    may_widen: ClassVar[bool] = True
    """False if ``forward`` and ``backward`` must receive exactly the graph's dtypes. Others receive
    float32 arrays instead of half precision when compiled for a CPU."""

    updates_backwards: ClassVar[bool] = False
    """True if only ``backward`` updates the auxiliary states, so that ``forward`` may run again."""

    is_costly: ClassVar[bool] = False
    """True if ``forward`` is too expensive to be recomputed for the sake of memory: the operators
    that MXNet's ``MXNET_BACKWARD_DO_MIRROR`` does not recompute, and batch norms."""

    backward_reads_mode: ClassVar[bool] = False
    """True if ``backward`` computes something else in training than in inference."""

    is_linear: ClassVar[bool] = False
    """True if the outputs are linear in all inputs together. The backward of such an operator's
    gradient is the operator itself."""

    monitors_data: ClassVar[bool] = False
    """True if MXNet 1.9.1 shows the operator's only input to monitors under the name ``data``; for
    most operators with a single input it has no name there."""

    quantized_form: ClassVar[QuantizedForm | None] = None
    """Its counterpart on int8 in quantized networks; None if it has none."""

    names_outputs: ClassVar[bool] = False
    """True if MXNet derives the names of nodes that it inserts behind this one from the name of an
    output and not from its index."""

    uses_random: ClassVar[bool] = False
    """True if ``forward`` draws from ``run.random``."""

    shaped_by_values: ClassVar[str | None] = None
    """For an operator whose output shapes depend on its inputs' values: its function in
    ``mx.nd.contrib``. Graphs with it run operator by operator, without a plan of the memory."""

    graph_names: ClassVar[tuple[str, ...]] = ()
    """Names of its subgraphs (``then_branch``); its function takes them before the inputs."""

    def __post_init__(self) -> None:
        """Raise AttributeValueError for attributes that contradict each other."""

    # -- names ------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, auxiliary states last."""
        return ("data",)

    def auxiliary_names(self) -> tuple[str, ...]:
        """Names of the inputs that ``forward`` or ``backward`` update (running averages)."""
        return ()

    def updated_inputs(self) -> tuple[int, ...]:
        """Indices of the inputs that ``forward`` updates."""
        updated = () if self.updates_backwards else self.auxiliary_names()
        return tuple(i for i, name in enumerate(self.input_names()) if name in updated)

    def variable_initializers(self) -> Mapping[str, str]:
        """``__init__`` attributes that composition adds to input variables, by input name.

        For example ``{"moving_var": '["one", {}]'}``; a variable that has the attribute keeps it.
        """
        return {}

    def output_names(self) -> tuple[str, ...]:
        """Names of all outputs, hidden ones last."""
        return ("output",)

    def visible_outputs(self) -> int:
        """Number of outputs that a symbol has."""
        return len(self.output_names())

    def stored_outputs(self) -> int:
        """Number of outputs in MXNet's JSON (``node_row_ptr``): one more than here if MXNet has a
        workspace among them."""
        return len(self.output_names())

    def nested_graphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs, one for each of ``graph_names``."""
        return ()

    def uncast(self, output: int) -> int | None:
        """The input that an output is a cast of, if mixed precision inserted this operator; None
        for all other operators. Symbols are saved without such casts unless the caller wants
        them."""
        return None

    def set_to_one(self) -> tuple[int, ...]:
        """Indices of inputs whose arrays a training pass fills with 1, as MXNet's operator does, so
        that checkpoints contain 1 (BatchNorm's gamma with ``fix_gamma``)."""
        return ()

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Infer unknown shapes (0 and None) from known ones, in both directions.

        The lists may be changed in place. Raise ShapeError on a contradiction; the caller adds
        the node's name. By default all shapes are equal.
        """
        common: Shape | None = None
        names = (*self.input_names(), *self.output_names())
        for name, shape in zip(names, (*inputs, *outputs), strict=True):
            common = self.expect(name, shape, common)
        return [common] * len(inputs), [common] * len(outputs)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        """Infer unknown dtypes from known ones, in both directions. By default all are equal."""
        common: DType | None = None
        for dtype in (*inputs, *outputs):
            common = merge_dtypes(common, dtype)
        return [common] * len(inputs), [common] * len(outputs)

    # -- facts for the planner --------------------------------------------------------------

    def backward_reads(self) -> Reads:
        """What ``backward`` reads. ``ALL`` in a tuple means every index."""
        return Reads(inputs=(ALL,), outputs=(ALL,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        """Indices of the inputs that get a gradient, out of ``count``; the others get zeros."""
        auxiliary = len(self.auxiliary_names())
        return tuple(range(count - auxiliary))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        """Pairs (input, output): the output may be written into the input's memory."""
        return ()

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        """Pairs (output, input): the input's gradient may overwrite the output's gradient."""
        return ()

    def is_view(self) -> bool:
        """True if the only output has the elements of the first input, in another shape."""
        return False

    def is_identity(self, is_train: bool) -> bool:
        """True if, in this mode, the first output is an unchanged copy of the first input.

        A plan then drops the operator (Dropout in inference). The default is ``is_view``.
        """
        return self.is_view()

    def given(self, shapes: Sequence[Shape]) -> Operator:
        """Return a simpler operator that is equivalent for inputs of these shapes, or itself."""
        return self

    def stacked(self, shapes: Sequence[Shape], is_shared: Sequence[bool]) -> Operator | None:
        """Return the operator that does to each entry of a new first axis what this one does alone.

        A plan then replaces equal computations, for example those of all time steps, by one. By
        default elementwise operators do so, for inputs of one shape.

        Args:
            shapes: the inputs' shapes without the new axis.
            is_shared: for each input, whether it is the same for all entries and so has no new
                axis; at least one input has it.

        Returns:
            the operator, whose output has the new axis, too; None if there is none.
        """
        is_even = len(set(shapes)) == 1 and not any(is_shared)
        return self if is_even and self.is_elementwise() else None

    def opened(self) -> Sequence[tuple[Operator, tuple[int, ...]]]:
        """Return the chain of simpler operators that this one amounts to in inference; empty if it
        is simple itself. A plan without backward runs the chain instead, and fuses what it can.

        Returns:
            the operators, each with the indices of this one's inputs that it reads; from the second
            on, the output of the operator before precedes them.
        """
        return ()

    def is_elementwise(self) -> bool:
        """True if each element that ``forward`` and ``backward`` write depends only on the elements
        at the same position of tensors of the same shape.

        Where a plan keeps tensors in a blocked layout, ``forward`` and ``backward`` receive them as
        vectors whose elements are in the order of that layout.
        """
        return False

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        """Pairs (output, input): the input's gradient is the output's gradient, in another shape.

        A plan then passes the gradient on without calling ``backward``. By default views do so,
        except for losses, which ignore the incoming gradient.
        """
        return ((0, 0),) if self.is_view() and self.backward_reads().out_grads else ()

    def needs_every_gradient(self) -> bool:
        """True if ``backward`` needs the arrays of all gradients to locate the wanted ones.

        ``in_grads`` then has an array for each of ``gradient_inputs``, and unwanted ones are
        dropped after the call (Concat: a gradient's offset depends on the sizes before it).
        """
        return False

    def output_storage(self, inputs: Sequence[str]) -> str:
        """Storage type of the outputs, from those of the inputs (see ``storage_rules.py``)."""
        return "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        """The kernel that works directly on inputs of these storage types; without one,
        ``forward`` and ``backward`` run on dense copies."""
        return None

    def row_gradients(self) -> tuple[int, ...]:
        """Inputs whose gradient ``backward`` can also add to ``core.ops.rows.Rows``, because only
        few of its rows are not zero."""
        return ()

    # -- known functions --------------------------------------------------------------------

    def pointwise(self) -> Pointwise | None:
        """The function applied to each element of the only input, if it is a known one."""
        return None

    def is_nonnegative(self) -> bool:
        """Whether no element of the output is below 0, whatever the input is."""
        function = self.pointwise()
        return function is not None and function.is_nonnegative

    def arithmetic(self) -> Arithmetic | None:
        """The function applied to pairs of elements of two inputs, broadcast or not, if known."""
        return None

    def reduction(self) -> Reduction | None:
        """The reduction along some axes that the operator computes, if it is a known one."""
        return None

    def on_bytes(self) -> QuantizedForm | None:
        """The counterpart on int8 for these attributes. The default is ``quantized_form``."""
        return self.quantized_form

    def fills_with(self) -> float | None:
        """The value of every element of the output, if that does not depend on the inputs."""
        return None

    # -- facts about networks ---------------------------------------------------------------

    def keeps_features(self) -> bool:
        """True if the first output has the channels of the first input, or all elements of an
        example as features.

        A layer behind such operators determines the channels or features of what they read.
        """
        return self.is_elementwise()

    def data_from_weight(self, weight: Shape) -> LayerData | None:
        """What a layer's weight, the second input, determines of its data, if anything."""
        return None

    def implied_loss(self) -> ImpliedLoss | None:
        """The loss that the first output stands for, if the operator is an output layer."""
        return None

    # -- arithmetic -------------------------------------------------------------------------

    def prepare(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None
    ) -> None:
        """Compile the subgraphs that ``forward`` or ``backward`` will run for these arrays.

        Args:
            run: as for the pass itself.
            inputs: the arrays that will be its inputs.
            in_grads: the arrays of its gradients; None for ``forward``.
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
        """Return whether the operator defines a gradient."""
        return cls.backward is not Operator.backward

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        """Return the gradient of each input in terms of operators, so that it can be differentiated
        again; None if there is no such rule. Linear operators (``is_linear``) need none.

        Args:
            f: a namespace with the operators.
            inputs, outputs, out_grads: as for ``backward``.
        """
        return None

    @classmethod
    def has_derivative(cls) -> bool:
        """Return whether the operator has a ``derivative``, at least for some attributes."""
        return cls.derivative is not Operator.derivative

    # -- helpers for inference --------------------------------------------------------------

    def check_known(self, shapes: Sequence[Shape | None]) -> TypeGuard[Sequence[Shape]]:
        """Return whether all shapes are fully known."""
        return all(is_known(shape) for shape in shapes)

    @overload
    def expect(self, what: str, got: Shape, expected: Shape | None) -> Shape: ...
    @overload
    def expect(self, what: str, got: Shape | None, expected: Shape) -> Shape: ...
    @overload
    def expect(self, what: str, got: Shape | None, expected: Shape | None) -> Shape | None: ...
    def expect(self, what: str, got: Shape | None, expected: Shape | None) -> Shape | None:
        """Merge two partially known shapes of the same thing; the error on a contradiction names
        ``what``."""
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
        """Merge two possibly unknown dtypes of the same thing; the error on a contradiction names
        ``what``."""
        try:
            return merge_dtypes(got, expected)
        except TypeInferenceError:
            raise TypeInferenceError(f"{what} has dtype {got}, expected {expected}") from None
