"""Fast kernels: implementations of single steps that are specific to a backend.

A kernel is created in two stages, so that all decisions are made when a plan is compiled:

1. ``prepare``: a registered function is asked whether it can run a step. It receives the operator's
   attributes and the specs of all tensors, including layouts, and returns a ``Kernel`` that states
   the layouts it needs, or None. The plan then reorders tensors in other layouts.
2. ``Kernel.bind``: the kernel receives its arrays, whose addresses are fixed, and returns a closure
   without arguments. It is bound again whenever memory moves, so expensive work belongs in
   ``prepare``.

If no kernel is registered, all decline, or one cannot be created (it raises
``KernelUnavailable``), the operator's reference runs. A fused step is split instead, so that its
parts can use their own kernels. ``README.md`` tells how to write a backend.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Hashable, Iterable, MutableMapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from ..capabilities.kinds import Kind, Named
from ..errors import KernelError
from ..types import Array, DType, Shape

__all__ = [
    "BackendTraits",
    "Kernel",
    "KernelArrays",
    "KernelLayouts",
    "KernelRequest",
    "KernelResources",
    "KernelTable",
    "KernelUnavailable",
    "Layout",
    "Prepack",
    "Prepare",
    "Reorder",
    "TensorSpec",
    "Version",
    "Watch",
    "kernels",
    "library_failure",
    "register_layout",
    "reorder",
]

_log = logging.getLogger(__name__)

O = TypeVar("O")  # noqa: E741 - an operator
S = TypeVar("S", covariant=True)
"""The type by which a kernel knows the operator of a request."""


_OUT_OF_MEMORY = 1
"""The status ``dnnl_out_of_memory`` of oneDNN."""


def library_failure(status: int) -> KernelError | MemoryError:
    """Return the error for the nonzero status of a library call."""
    if status == _OUT_OF_MEMORY:
        return MemoryError("the device's library is out of memory")
    return KernelError(f"the device's library failed to compute this (status {status})")


class KernelUnavailable(Exception):
    """The library cannot create this kernel after all; the reference is used."""


class Version:
    """Counts the changes of an array, so that results computed from its values can be cached.

    ``core/executor/arena.py`` tells who asks what, and when.

    Args:
        whole: the version of a larger array that this one is part of, whose changes count as well.
    """

    __slots__ = ("_is_tainted", "_own", "_whole")

    clock: ClassVar[int] = 0
    _ticks: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, whole: Version | None = None) -> None:
        self._own = 0
        self._whole = whole
        self._is_tainted = False

    @property
    def is_tainted(self) -> bool:
        """Whether the array may change unnoticed, by itself or with the whole."""
        return self._is_tainted or (self._whole is not None and self._whole.is_tainted)

    @property
    def count(self) -> int:
        """A number that is larger than before if the array may have changed since."""
        if self._is_tainted:
            return next(self._ticks)
        return self._own if self._whole is None else self._own + self._whole.count

    def bump(self) -> None:
        """Record that the array has changed, or is about to."""
        # All increments differ: if two threads race and one update is lost, the count still differs
        # from what anyone has seen before. With increments of 1 it might not.
        self._own += next(self._ticks)
        # Last: a Watch that polled between the two, the clock being first, would remember the new
        # clock with the old count, and never see the change.
        Version.clock = next(self._ticks)

    def lose(self) -> None:
        """Record that the array may change unnoticed from now on, so that counts never match."""
        # First: a Watch that polled after the bump alone would rely on the clock from then on.
        self._is_tainted = True
        self.bump()


class Watch:
    """Several arrays that something was computed from; see ``core/executor/arena.py``."""

    __slots__ = ("_clock", "_count", "_versions")

    def __init__(self, versions: Iterable[Version | None]) -> None:
        self._versions = tuple({version for version in versions if version is not None})
        self._clock = self._count = -1

    def poll(self) -> bool:
        """Return whether an array has changed, or may have, since the last poll; at first, True."""
        clock = Version.clock  # before the counts, so that the next poll sees a change in between
        if clock == self._clock or (not self._versions and self._clock >= 0):
            return False
        count = sum(version.count for version in self._versions)
        # The clock tells nothing of changes to a lost array, so it is not remembered.
        if not any(version.is_tainted for version in self._versions):
            self._clock = clock
        before, self._count = self._count, count
        return count != before

    def forget(self) -> None:
        """Make the next poll report a change, because what depends on the arrays is outdated."""
        self._clock = self._count = -1


class Layout(Hashable, Protocol):
    """An arrangement of a tensor's elements that only a backend understands.

    Plain C order is not a layout but its absence, None.
    """

    @property
    def is_rounded(self) -> bool:
        """Whether the elements are kept in fewer bits than the tensor's dtype has."""
        ...

    def nbytes(self, shape: Shape, dtype: DType) -> int:
        """Return the size of a tensor in this layout."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape, dtype and layout of a tensor, known before it has memory."""

    shape: Shape
    dtype: DType
    layout: Layout | None = None

    @property
    def is_rounded(self) -> bool:
        """Whether its elements are kept in fewer bits than its dtype has."""
        return self.layout is not None and self.layout.is_rounded

    def unrounded(self) -> TensorSpec:
        """Return the same tensor with elements of its dtype."""
        return TensorSpec(self.shape, self.dtype) if self.is_rounded else self


Specs = tuple[TensorSpec | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelRequest(Generic[S]):
    """One step of a plan.

    Attributes:
        operator: the operator, for its attributes.
        is_backward: whether the step runs the operator's backward.
        is_train: mode of the plan.
        inputs: specs of the inputs. A backward kernel may read any of them, even those that the
            operator's reference does not read.
        outputs: specs of the outputs; a forward kernel chooses their layouts.
        out_grads: specs of the outputs' gradients; None if there is none.
        in_grads: specs of the wanted gradients; None for those that are not wanted.
        is_constant: which inputs change only when their version does (weights in inference).
        forward: the kernel chosen for the forward step.
        prefers_blocks: whether to store images in blocks of channels where it makes no difference
            to the kernel.
        in_bfloat16: whether the kernel may round what it multiplies to bfloat16.
    """

    operator: S
    is_backward: bool
    is_train: bool
    inputs: Specs
    outputs: Specs
    out_grads: Specs = ()
    in_grads: Specs = ()
    is_constant: tuple[bool, ...] = ()
    forward: Kernel | None = None
    prefers_blocks: bool = False
    in_bfloat16: bool = False

    @property
    def has_rounded(self) -> bool:
        """Whether any input is kept in fewer bits than its dtype has."""
        return any(spec is not None and spec.is_rounded for spec in self.inputs)

    def in_full(self) -> KernelRequest[S]:
        """Return the request for a kernel that knows only elements of the tensors' dtypes."""
        if not self.in_bfloat16 and not self.has_rounded:
            return self
        inputs = tuple(None if spec is None else spec.unrounded() for spec in self.inputs)
        return dataclasses.replace(self, inputs=inputs, in_bfloat16=False)

    def of(self, operator: O) -> KernelRequest[O]:
        """Return the same request for another operator, a part of this one with equal tensors."""
        # Not by `dataclasses.replace`, for which the type checker would keep the operator's type.
        return KernelRequest(
            operator,
            self.is_backward,
            self.is_train,
            self.inputs,
            self.outputs,
            self.out_grads,
            self.in_grads,
            self.is_constant,
            self.forward,
            self.prefers_blocks,
            self.in_bfloat16,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class KernelLayouts:
    """Layouts by position; an empty tuple means that all are plain."""

    inputs: tuple[Layout | None, ...] = ()
    outputs: tuple[Layout | None, ...] = ()
    out_grads: tuple[Layout | None, ...] = ()
    in_grads: tuple[Layout | None, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class KernelArrays:
    """The arrays of one step, None for absent ones.

    A tensor with a layout is a vector of bytes. A backward step has only those arrays that the
    kernel has declared to read.
    """

    inputs: Sequence[Array | None]
    outputs: Sequence[Array | None]
    out_grads: Sequence[Array | None] = ()
    in_grads: Sequence[Array | None] = ()
    workspace: Array | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class KernelResources:
    """What a bound kernel may use besides its arrays.

    Attributes:
        xp: numpy or cupy.
        allocate: returns memory that belongs to the kernel as long as it is bound.
        scratch: returns temporary memory for one call, without allocating; other steps reuse it
            afterwards.
        versions: for each input, its version; None if it may change at every run.
        prepack: returns cached bytes computed from inputs that have versions (folded weights). The
            plan recomputes them before a run if an input has changed. Plans that share memory share
            cache entries with equal keys. Takes a key, the inputs' positions, the number of bytes,
            and a function that fills the bytes it is given.
        scratchpad: ``Kernel.scratchpad_bytes`` at a fixed address; other steps overwrite it between
            calls.
        shared: objects shared by the kernels of one plan, by keys of the kernels' choice; an entry
            lives as long as some kernel refers to it.
    """

    xp: Any
    allocate: Callable[[Shape, DType], Array]
    scratch: Callable[[Shape, DType], Array]
    versions: tuple[Version | None, ...]
    prepack: Prepack
    scratchpad: Array | None = None
    shared: MutableMapping[Hashable, Any] = dataclasses.field(default_factory=WeakValueDictionary)


Prepack = Callable[[Hashable, Sequence[int], int, Callable[[Array], None]], Array]


class Kernel:
    """A prepared kernel. Subclasses override the attributes that differ and implement ``bind``.

    Attributes:
        name: for profiles and errors, for example ``"onednn:convolution"``.
        layouts: layouts required of operands that are read, and produced for those written.
        workspace_bytes: memory that a forward kernel keeps for its backward kernel; both receive it
            in ``KernelArrays.workspace``.
        backward_inputs: indices of the inputs a backward kernel reads; None: as the reference.
        backward_outputs: indices of the outputs a backward kernel reads; None: as the reference.
        unwritten_outputs: indices of hidden outputs that a forward kernel does not write, because
            only the reference's backward reads them.
        inplace: pairs as in ``Operator.inplace_forward`` or ``inplace_backward``; None: as the
            operator declares.
        parts: of a kernel that only copies its inputs one after the other, the offset of each in
            the output, in bytes. The executor may have the inputs written there and omit the step.
        scratchpad_bytes: temporary memory needed during a call, at a fixed address.
        uses_scratch: whether its closure calls ``KernelResources.scratch``.
    """

    name: str = "kernel"
    layouts: KernelLayouts = KernelLayouts()
    workspace_bytes: int = 0
    backward_inputs: tuple[int, ...] | None = None
    backward_outputs: tuple[int, ...] | None = None
    unwritten_outputs: tuple[int, ...] = ()
    inplace: tuple[tuple[int, int], ...] | None = None
    parts: tuple[int, ...] | None = None
    scratchpad_bytes: int = 0
    uses_scratch: bool = True

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that runs the kernel on these arrays.

        The closure returns None, or the status of a library call: 0, 1 if memory is exhausted, any
        other number if the call failed (``library_failure``). It raises failures that a library
        reports by other numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be bound")


Prepare: TypeAlias = Callable[[KernelRequest[O]], Kernel | None]

Reorder = Callable[[TensorSpec, TensorSpec], Kernel]
"""Returns a kernel that copies ``inputs[0]`` with the first spec to ``outputs[0]`` with the second.

At least one of the two has a layout; the other may be plain.
"""

_reorders: dict[type[Layout], Reorder] = {}


def register_layout(layout: type[Layout], reorder: Reorder) -> None:
    """Register the function that creates copies to and from a kind of layout."""
    _reorders[layout] = reorder


def reorder(source: TensorSpec, target: TensorSpec) -> Kernel:
    """Return the kernel that copies a tensor from one layout to another."""
    layout = target.layout if source.layout is None else source.layout
    assert layout is not None
    return _reorders[type(layout)](source, target)


@dataclasses.dataclass(frozen=True, slots=True)
class BackendTraits:
    """What the compiler asks of a backend's kernels as a whole.

    Attributes:
        stores_half: whether kernels read and write half precision. If not, plans keep float32
            between the arrays that are visible from outside.
        blocks_channels: whether kernels may store images in blocks of channels.
    """

    stores_half: bool = False
    blocks_channels: bool = False


class KernelTable:
    """The functions that prepare kernels, by backend and kind of operator."""

    def __init__(self) -> None:
        self._traits: dict[str, BackendTraits] = {}
        self._prepares: dict[tuple[str, Kind[Any], bool], list[Prepare[Any]]] = {}
        self._rounding: set[Prepare[Any]] = set()

    def register_rounding(self, backend: str, kind: Kind[O], forward: Prepare[O]) -> None:
        """Register a function for a kind of operator that is tried first, and asked as it is about
        inputs kept in fewer bits and about computing in bfloat16. All others are asked as if there
        were no such thing; the plan then reorders their inputs."""
        self.register(backend, kind, forward)
        self._rounding.add(forward)

    def register(
        self,
        backend: str,
        kind: Kind[O],
        forward: Prepare[O] | None = None,
        backward: Prepare[O] | None = None,
    ) -> None:
        """Register functions for a kind of operator; the last one registered is tried first.

        Args:
            backend: ``Backend.name`` of the arrays they run on.
            kind: the ``kind`` that the operators declare.
            forward, backward: prepare kernels for the operators' ``forward`` and ``backward``.
        """
        for prepare, is_backward in ((forward, False), (backward, True)):
            if prepare is not None:
                self._prepares.setdefault((backend, kind, is_backward), []).insert(0, prepare)

    def describe(self, backend: str, traits: BackendTraits) -> None:
        """Set the traits of a backend's kernels."""
        self._traits[backend] = traits

    def traits(self, backend: str) -> BackendTraits:
        """Return the traits of a backend's kernels."""
        return self._traits.get(backend, BackendTraits())

    def unregister(
        self, backend: str, kind: Kind[O], prepare: Prepare[O], *, backward: bool = False
    ) -> None:
        """Remove a registered function."""
        self._prepares[backend, kind, backward].remove(prepare)

    def has_any(self, backend: str) -> bool:
        """Return whether the backend has any kernels."""
        return any(key[0] == backend and found for key, found in self._prepares.items())

    def kinds(self, backend: str) -> frozenset[Kind[Any]]:
        """Return the kinds of operators that the backend has kernels for."""
        return frozenset(kind for kind, _ in self.entries(backend))

    def entries(self, backend: str) -> frozenset[tuple[Kind[Any], bool]]:
        """Return pairs (kind, is_backward) of everything that has a kernel."""
        return frozenset(
            key[1:] for key, found in self._prepares.items() if key[0] == backend and found
        )

    def select(self, backend: str, request: KernelRequest[Named]) -> Kernel | None:
        """Return the first kernel that can run the request, None for the reference."""
        operator = request.operator
        if operator.kind is None:
            return None
        in_full = request.in_full()
        for prepare in self._prepares.get((backend, operator.kind, request.is_backward), ()):
            try:
                kernel = prepare(request if prepare in self._rounding else in_full)
            except KernelUnavailable as error:
                name = operator.names[0]
                _log.warning("kernel for %s is unavailable, trying the next: %s", name, error)
                continue
            if kernel is not None:
                return kernel
        return None


kernels = KernelTable()
"""The table with which plans are compiled."""
