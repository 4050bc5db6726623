"""Fast kernels: a backend's own way to run one step of a plan.

A kernel goes through two stages, so that all decisions fall when a plan is compiled:

1. ``prepare``: a registered function is asked whether it can run a step. It sees the operator's
   attributes and the specs of all tensors, layouts included, and answers with a ``Kernel``, which
   states the layouts it wants, or with None. The plan then reorders what does not fit.
2. ``Kernel.bind``: the kernel is given its arrays, at addresses that stay, and returns a closure
   without arguments. It is bound anew when memory moves; expensive things belong in ``prepare``.

Where no kernel is registered, none holds, or one fails to be made (it raises
``KernelUnavailable``), the operator's reference runs; but of a fused step, kernels of its parts.
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
    "Keep",
    "Kernel",
    "KernelArrays",
    "KernelLayouts",
    "KernelRequest",
    "KernelResources",
    "KernelTable",
    "KernelUnavailable",
    "Layout",
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
"""What is known of the operator of a request."""


_OUT_OF_MEMORY = 1
"""Among the statuses of oneDNN."""


def library_failure(status: int) -> KernelError | MemoryError:
    """Return the error for the status that a library's call has returned."""
    if status == _OUT_OF_MEMORY:
        return MemoryError("the device's library has no memory for it")
    return KernelError(f"the device's library refuses to compute it (status {status})")


class KernelUnavailable(Exception):
    """The library cannot make this kernel after all; the reference is used."""


class Version:
    """Counts the changes of an array, for those who keep what they made of its values.

    Whoever writes to the array calls ``bump``; whoever keeps something asks a ``Watch``.

    Args:
        whole: the version of a larger array that this one is a part of, whose changes count too.

    Attributes:
        clock: differs from what it was if any version has changed since. Where nothing at all has
            changed, which is the rule between two predictions, this alone is compared.
    """

    __slots__ = ("_own", "_whole", "is_lost")

    clock: ClassVar[int] = 0
    _ticks: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, whole: Version | None = None) -> None:
        self._own = 0
        self._whole = whole
        self.is_lost = False

    @property
    def count(self) -> int:
        """A number that is larger than before if the array may have changed since."""
        if self.is_lost:
            return next(self._ticks)
        return self._own if self._whole is None else self._own + self._whole.count

    def bump(self) -> None:
        """Say that the array has changed, or is about to."""
        # A new number each time, so that two threads cannot hide one another's change.
        self._own += next(self._ticks)
        Version.clock = next(self._ticks)

    def lose(self) -> None:
        """Say that the array may change at any time from now on: no count equals another."""
        self.bump()
        self.is_lost = True


class Watch:
    """Tells whether one of some arrays has changed since it was last asked; at first it has."""

    __slots__ = ("_clock", "_count", "_versions")

    def __init__(self, versions: Iterable[Version | None]) -> None:
        self._versions = tuple({version for version in versions if version is not None})
        self._clock = self._count = -1

    def has_changed(self) -> bool:
        """Tell whether an array has changed, or may have, since the last call."""
        clock = Version.clock
        if clock == self._clock:
            return False
        count = sum(version.count for version in self._versions)
        if not any(version.is_lost for version in self._versions):
            self._clock = clock
        before, self._count = self._count, count
        return count != before

    def forget(self) -> None:
        """Say that what depends on the arrays is not up to date after all."""
        self._clock = self._count = -1


class Layout(Hashable, Protocol):
    """An arrangement of a tensor's elements that only a backend understands.

    Plain C order is not a layout but its absence, None.
    """

    def nbytes(self, shape: Shape, dtype: DType) -> int:
        """Return the size of a tensor in this layout."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor before it has an address."""

    shape: Shape
    dtype: DType
    layout: Layout | None = None


Specs = tuple[TensorSpec | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KernelRequest(Generic[S]):
    """One step of a plan.

    Attributes:
        operator: the operator, for its attributes.
        is_backward: whether its backward is meant.
        is_train: mode of the plan.
        inputs: specs of the inputs. A backward kernel may read any of them, whatever the
            operator's reference reads.
        outputs: specs of the outputs; layouts are the kernel's to choose in a forward step.
        out_grads: specs of the outputs' gradients; None where nothing is given.
        in_grads: specs of the gradients wanted; None where none is.
        is_constant: which inputs change only when their version does (weights in inference).
        forward: the kernel chosen for the forward step.
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

    def of(self, operator: O) -> KernelRequest[O]:
        """Return the same for another operator: a part of this one that has the same tensors."""
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
        )


@dataclasses.dataclass(frozen=True, slots=True)
class KernelLayouts:
    """Layouts by position; an empty tuple stands for plain ones throughout."""

    inputs: tuple[Layout | None, ...] = ()
    outputs: tuple[Layout | None, ...] = ()
    out_grads: tuple[Layout | None, ...] = ()
    in_grads: tuple[Layout | None, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class KernelArrays:
    """The arrays of one step, None where there is nothing.

    An array of a layout of its own is a vector of bytes. In a backward step only what the kernel
    declared to read is there.
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
        allocate: returns memory that is the kernel's as long as it is bound (folded weights).
        scratch: returns memory during one call, free of charge; it is other steps' afterwards.
        versions: for each input, its version; None where it may change at every run.
        keep: returns bytes for what a kernel makes of inputs that have versions (folded weights).
            The plan has them made before a run if an input has changed; all plans that share
            memory share what is kept under equal keys. Takes a key, the inputs' positions, the
            number of bytes, and a function that is given the bytes and fills them.
        scratchpad: ``Kernel.scratchpad_bytes`` at a fixed address; other steps use it in between.
        shared: what kernels of one plan make once, as long as one of them holds it, by keys of
            their own.
    """

    xp: Any
    allocate: Callable[[Shape, DType], Array]
    scratch: Callable[[Shape, DType], Array]
    versions: tuple[Version | None, ...]
    keep: Keep
    scratchpad: Array | None = None
    shared: MutableMapping[Hashable, Any] = dataclasses.field(default_factory=WeakValueDictionary)


Keep = Callable[[Hashable, Sequence[int], int, Callable[[Array], None]], Array]


class Kernel:
    """A prepared kernel. Subclasses set what differs and implement ``bind``.

    Attributes:
        name: for profiles and errors, for example ``"onednn:convolution"``.
        layouts: layouts wanted of what is read, and produced of what is written.
        workspace_bytes: memory a forward kernel keeps for its backward kernel, both get it in
            ``KernelArrays.workspace``.
        backward_inputs: indices of the inputs a backward kernel reads; None: as the reference.
        backward_outputs: indices of the outputs a backward kernel reads; None: as the reference.
        unwritten_outputs: indices of hidden outputs that a forward kernel leaves unwritten, as only
            the reference's backward reads them.
        inplace: pairs as ``Operator.inplace_forward`` or ``inplace_backward`` gives; None: as the
            operator says.
        scratchpad_bytes: memory needed during a call, at an address that stays.
        uses_scratch: whether its closure calls ``KernelResources.scratch``.
    """

    name: str = "kernel"
    layouts: KernelLayouts = KernelLayouts()
    workspace_bytes: int = 0
    backward_inputs: tuple[int, ...] | None = None
    backward_outputs: tuple[int, ...] | None = None
    unwritten_outputs: tuple[int, ...] = ()
    inplace: tuple[tuple[int, int], ...] | None = None
    scratchpad_bytes: int = 0
    uses_scratch: bool = True

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that runs the kernel on these arrays.

        What the closure returns is the status of a library call: anything true is a failure.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be bound")


Prepare: TypeAlias = Callable[[KernelRequest[O]], Kernel | None]

Reorder = Callable[[TensorSpec, TensorSpec], Kernel]
"""Returns a kernel that copies ``inputs[0]``, of the first spec, to ``outputs[0]``, of the second.

At least one of the two has a layout; the other may be plain.
"""

_reorders: dict[type[Layout], Reorder] = {}


def register_layout(layout: type[Layout], reorder: Reorder) -> None:
    """Register what copies tensors to a kind of layout and from it."""
    _reorders[layout] = reorder


def reorder(source: TensorSpec, target: TensorSpec) -> Kernel:
    """Return the kernel that copies a tensor from one layout to another."""
    layout = target.layout if source.layout is None else source.layout
    assert layout is not None
    return _reorders[type(layout)](source, target)


class KernelTable:
    """Which functions prepare kernels for which kinds of operators on which backend."""

    def __init__(self) -> None:
        self._prepares: dict[tuple[str, Kind[Any], bool], list[Prepare[Any]]] = {}

    def register(
        self,
        backend: str,
        kind: Kind[O],
        forward: Prepare[O] | None = None,
        backward: Prepare[O] | None = None,
    ) -> None:
        """Register functions for a kind of operators; the last registered is asked first.

        Args:
            backend: ``Backend.name`` of the arrays they run on.
            kind: what the operators declare to be.
            forward, backward: prepare kernels for the operators' ``forward`` and ``backward``.
        """
        for prepare, is_backward in ((forward, False), (backward, True)):
            if prepare is not None:
                self._prepares.setdefault((backend, kind, is_backward), []).insert(0, prepare)

    def unregister(
        self, backend: str, kind: Kind[O], prepare: Prepare[O], *, backward: bool = False
    ) -> None:
        """Take a registered function out again."""
        self._prepares[backend, kind, backward].remove(prepare)

    def has_any(self, backend: str) -> bool:
        """Tell whether the backend has a kernel for anything."""
        return any(key[0] == backend and found for key, found in self._prepares.items())

    def kinds(self, backend: str) -> frozenset[Kind[Any]]:
        """Return the kinds of operators that the backend has kernels for."""
        return frozenset(kind for kind, _ in self.entries(backend))

    def entries(self, backend: str) -> frozenset[tuple[Kind[Any], bool]]:
        """Return (kind, whether its backward is meant) of all that has a kernel."""
        return frozenset(
            key[1:] for key, found in self._prepares.items() if key[0] == backend and found
        )

    def select(self, backend: str, request: KernelRequest[Named]) -> Kernel | None:
        """Return the first kernel that can run the request, None for the reference."""
        operator = request.operator
        if operator.kind is None:
            return None
        for prepare in self._prepares.get((backend, operator.kind, request.is_backward), ()):
            try:
                kernel = prepare(request)
            except KernelUnavailable as error:
                name = operator.names[0]
                _log.warning("no kernel for %s, using what is next best: %s", name, error)
                continue
            if kernel is not None:
                return kernel
        return None


kernels = KernelTable()
"""The table plans are compiled with."""
