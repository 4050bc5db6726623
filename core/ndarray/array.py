"""``NDArray``: the handle that scripts hold on an array, and the calls of operators on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ..backends import backend_of
from ..compat.array_names import ArrayNames
from ..device import Context, current_context
from ..errors import FormatError, MXNetError, ShapeError
from ..kernels.kernel import Version
from ..ops import Operator, get_operator
from ..ops.attributes import attribute_fields
from ..ops.signature import order_inputs, split_arguments
from ..types import Array, Shape, shape_size, to_dtype
from . import arithmetic, shaping, subscript
from .casting import cast_storage
from .execute import operator_of
from .handle import STORAGE_CLASSES
from .imperative import apply, check_not_recorded, differentiate, parse_context
from .methods import OperatorMethods
from .nodes import CopyNode
from .sparse_operators import apply_stored
from .stored import StoredArray, decode_array, encode_array, host_context
from .tape import Entry, Origin, Variable, live, mode

__all__ = ["NDArray", "call_operator", "invoke", "mark_variable"]

Number = (int, float, np.generic)


class NDArray(OperatorMethods, ArrayNames):
    """A dense array on a device.

    The methods that MXNet has and that are not written out here are operators
    (``core.ndarray.methods``).

    Args:
        data: a NumPy or CuPy array, which is shared, not copied. None makes an array without
            memory, which unpickling then fills in.
        ctx: the device the array is on; ``cpu(0)`` when not given.
        writable: whether the in-place operators and assignments are allowed.
        version: tells executors when values derived from the array are stale; views share their
            base's. None for an array that other code can write to unnoticed, of which executors
            keep nothing derived.
    """

    __slots__ = ("__weakref__", "_context", "_data", "_origin", "version", "writable")

    # Makes NumPy leave `numpy_array + nd_array` to __radd__ instead of iterating over the NDArray.
    __array_priority__: ClassVar[float] = 1000.0

    def __init__(
        self,
        data: Array = None,
        ctx: Context | None = None,
        writable: bool = True,
        *,
        version: Version | None = None,
    ) -> None:
        self._data = data
        self._context = ctx if ctx is not None else Context("cpu", 0)
        self._origin: Origin | None = None
        self.writable = writable
        self.version = version

    # -- what it is -------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """Length of each axis."""
        shape: Shape = self._data.shape
        return shape

    @property
    def dtype(self) -> Any:
        """The NumPy scalar type of the elements (``numpy.float32``)."""
        return self._data.dtype.type

    @property
    def nbytes(self) -> int:
        """Bytes that the array holds."""
        return 0 if self._data is None else int(self._data.nbytes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return shape_size(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def context(self) -> Context:
        """The device of the array."""
        return self._context

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type: ``"default"``, ``"row_sparse"`` or ``"csr"``."""
        return "default"

    @property
    def handle(self) -> NDArray:
        """This array; scripts compare handles to see whether two arrays are the same."""
        return self

    def __repr__(self) -> str:
        shape = "x".join(str(dim) for dim in self.shape)
        return f"\n{self.asnumpy()!s}\n<{type(self).__name__} {shape} @{self.context}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return self.size == 1 and bool(self.asscalar())

    def __iter__(self) -> Iterator[NDArray]:
        return (self[i] for i in range(len(self)))

    # -- arithmetic -------------------------------------------------------------------------

    __add__ = __radd__ = arithmetic.add
    __iadd__ = arithmetic.add_inplace
    __sub__ = arithmetic.subtract
    __rsub__ = arithmetic.subtract_from
    __isub__ = arithmetic.subtract_inplace
    __mul__ = __rmul__ = arithmetic.multiply
    __imul__ = arithmetic.multiply_inplace
    __truediv__ = arithmetic.divide
    __rtruediv__ = arithmetic.divide_into
    __itruediv__ = arithmetic.divide_inplace
    __mod__ = arithmetic.modulo
    __rmod__ = arithmetic.modulo_of
    __imod__ = arithmetic.modulo_inplace
    __pow__ = arithmetic.power
    __rpow__ = arithmetic.power_of
    __neg__ = arithmetic.negative
    __eq__ = arithmetic.equal
    __ne__ = arithmetic.not_equal
    __gt__ = arithmetic.greater
    __ge__ = arithmetic.greater_equal
    __lt__ = arithmetic.lesser
    __le__ = arithmetic.lesser_equal

    # By identity, with MXNet's formula: __eq__ compares elements, which would leave no hash.
    def __hash__(self) -> int:
        return id(self) // 16

    def __abs__(self) -> NDArray:
        return cast(NDArray, self.abs())

    # -- values out -------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy copy."""
        return backend_of(self._context).to_host(self.dense()).copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.asnumpy() if dtype is None else self.asnumpy().astype(dtype)

    def asscalar(self) -> Any:
        """Return the only element as a NumPy scalar; raise ValueError if there are more."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(-1)[0]

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def wait_to_read(self) -> None:
        """Wait until the values are computed."""
        backend_of(self._context).synchronize()

    def to_dlpack_for_read(self) -> Any:
        """Return a DLPack capsule of the memory, after waiting for its values."""
        self.wait_to_read()
        return self.dense().__dlpack__()

    def to_dlpack_for_write(self) -> Any:
        """Return a DLPack capsule whose consumer may write to the memory at any time."""
        if self.version is not None:
            self.version.lose()  # the consumer's writes go unnoticed
        return self.to_dlpack_for_read()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None,), self.__getstate__()

    def __getstate__(self) -> dict[str, bytearray | None]:
        """Return MXNet's pickled state: the array as a ``.params`` file holds it."""
        return {"handle": None if self._data is None else bytearray(encode_array(self.stored()))}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        handle = state.get("handle")
        if handle is not None:
            stored = decode_array(bytes(handle))
            self.restore(stored, host_context(stored.context))

    # -- copies and views -------------------------------------------------------------------

    def copy(self) -> NDArray:
        """Return a copy on the same device."""
        return cast(NDArray, self.copyto(self._context))

    def copyto(self, other: NDArray | Context) -> Any:
        """Copy into an array of the same shape, or to a new array on a device.

        Returns:
            the array copied to; False (with a warning) for a copy of an array to itself.
        """
        if isinstance(other, Context):
            other = NDArray(backend_of(other).empty(self.shape, np.dtype(self.dtype)), other)
        elif not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other is self:
            warnings.warn(
                "You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2
            )
            return False
        if other.shape != self.shape:
            raise ShapeError(f"copyto: the target has shape {other.shape}, expected {self.shape}")
        check_not_recorded([other])
        other.assign_dense(self.dense())
        origin = live(self._origin)
        if mode.recording and origin is not None:
            kind = np.dtype(other.dtype)
            node = CopyNode(self._context, origin, self.dense(), other.context, kind)
            other._origin = Entry(node, 0)
        return other

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Return a copy of another dtype; with ``copy=False``, this array if it has that dtype."""
        dtype = to_dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        raw = backend_of(self._context).empty(self.shape, dtype)
        return cast(NDArray, self.copyto(NDArray(raw, self._context)))

    def as_in_context(self, context: Context) -> NDArray:
        """Return this array if it is on the device, else a copy there."""
        return self if self._context == context else cast(NDArray, self.copyto(context))

    as_in_ctx = as_in_context

    def as_nd_ndarray(self) -> NDArray:
        """Return this array (it is not a NumPy-style array of MXNet)."""
        return self

    def detach(self) -> NDArray:
        """Return the same memory without the computation it came from."""
        return NDArray(self._data, self._context, version=self.version)

    def tostype(self, stype: str) -> NDArray:
        """Return a copy in another storage type (``default``, ``row_sparse``, ``csr``)."""
        return cast_storage(self, stype)

    # -- parts and shapes -------------------------------------------------------------------

    __getitem__ = subscript.get_item
    __setitem__ = subscript.set_item
    at = _at = subscript.at
    _slice = subscript.stretch
    slice_assign = subscript.slice_assign
    slice_assign_scalar = subscript.slice_assign_scalar
    reshape = shaping.reshape
    flatten = shaping.flatten
    expand_dims = shaping.expand_dims
    squeeze = shaping.squeeze
    split_v2 = shaping.split_v2
    broadcast_to = shaping.broadcast_to
    broadcast_like = shaping.broadcast_like

    @property
    def T(self) -> NDArray:
        """A copy with its axes reversed."""
        return shaping.transposed(self)

    def _sync_copyfrom(self, source_array: Any) -> None:
        """Copy from anything array-like of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise ValueError(f"Shape inconsistent: expected {self.shape} vs got {source.shape}")
        self[:] = source

    # -- gradients --------------------------------------------------------------------------

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make a buffer for the gradient of this array, filled with zeros.

        Args:
            grad_req: ``"write"``, ``"add"`` or ``"null"``.
            stype: storage type of the buffer, by default this array's.
        """
        zeros = backend_of(self._context).xp.zeros(self.shape, self.dtype)
        gradient = NDArray(zeros, self._context)
        if (stype or self.stype) != "default":
            gradient = gradient.tostype(stype or self.stype)
        mark_variable(self, gradient, grad_req)

    @property
    def grad(self) -> NDArray | None:
        """The buffer of the gradient, None without ``attach_grad``."""
        origin = self._origin
        return cast(NDArray, origin.gradient) if isinstance(origin, Variable) else None

    @property
    def _fresh_grad(self) -> bool:
        """True from a backward pass until set to False."""
        return isinstance(self._origin, Variable) and self._origin.is_fresh

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        if isinstance(self._origin, Variable):
            self._origin.is_fresh = bool(state)

    def backward(
        self,
        out_grad: NDArray | None = None,
        retain_graph: bool = False,
        train_mode: bool = True,
    ) -> None:
        """Compute the gradients of all arrays with ``attach_grad`` this one depends on.

        Args:
            out_grad: gradient of this array, ones by default.
            retain_graph: keep the computation for another backward pass.
            train_mode: whether the operators' backward runs as in training.
        """
        gradients = differentiate(
            [self], [out_grad], retain_graph=retain_graph, train_mode=train_mode
        )
        for variable, gradient in gradients.items():
            variable.receive(gradient)

    def take_gradient(self, gradient: NDArray, *, add: bool) -> None:
        """Write a gradient into this buffer, or add it."""
        raw = gradient.as_in_context(self._context).dense()
        if add:
            with backend_of(self._context).scope():
                raw = self.dense() + raw
        self.assign_dense(raw)

    # -- internals --------------------------------------------------------------------------

    def dense(self) -> Array:
        """Return the raw values as operators read them; a sparse array makes a dense copy."""
        if self._data is None:
            raise MXNetError("the array holds nothing (it was made by NDArray(None))")
        return self._data

    def dense_for_write(self) -> Array:
        """Return the raw values for writing now, and mark the array as changed.

        Call this again for every later write, so that executors notice it too.
        """
        if self.version is not None:
            self.version.bump()
        return self._data

    def check_writable(self) -> None:
        """Raise ValueError if the memory is shared read-only by another library."""
        if not self.writable:
            raise ValueError("trying to write to a readonly NDArray; copy() it first")

    def wrap(self, raw: Array, context: Context | None = None) -> NDArray:
        """Return a handle on another raw array, by default of this array's device."""
        return NDArray(raw, context or self._context)

    def assign_dense(self, raw: Array) -> None:
        """Write raw values of this shape, of any device and dtype, over the array."""
        backend_of(self._context).copy_into(self._data, raw)
        if self.version is not None:
            self.version.bump()
        # Releases the node of a computation that a backward pass has freed; variables stay.
        self._origin = live(self._origin)

    def stored(self) -> StoredArray:
        """Return the array as files hold it."""
        data = backend_of(self._context).to_host(self.dense())
        return StoredArray("default", data.shape, data, (), self._context)

    def restore(self, stored: StoredArray, context: Context) -> None:
        """Become the array that a file or pickle holds, on a device."""
        if stored.stype != "default":
            raise FormatError(f"a pickled NDArray has storage type {stored.stype!r}, not 'default'")
        self._data = backend_of(context).asarray(stored.data)
        self._context = context

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        return self._apply(array_op, scalar_op, other, None)

    def _binary_inplace(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        self.check_writable()
        return self._apply(array_op, scalar_op, other, self)

    def _apply(self, array_op: str, scalar_op: str, other: Any, out: NDArray | None) -> NDArray:
        if isinstance(other, NDArray):
            return cast(NDArray, invoke(operator_of(array_op, {}), (self, other), out))
        if isinstance(other, Number):
            op = operator_of(scalar_op, {"scalar": float(other)})
            return cast(NDArray, invoke(op, (self,), out))
        raise TypeError(f"type {type(other)} not supported")

    @staticmethod
    def _call_operator(name: str, *args: Any, **kwargs: Any) -> Any:
        return call_operator(get_operator(name), args, kwargs)


STORAGE_CLASSES["default"] = NDArray


def invoke(
    op: Operator,
    inputs: Sequence[NDArray],
    out: NDArray | Sequence[NDArray] | None = None,
    context: Context | None = None,
) -> NDArray | list[NDArray]:
    """Run a parsed operator.

    Args:
        op: the operator.
        inputs: arrays in the operator's order, auxiliary states last.
        out: where to write the visible outputs.
        context: device of an operator without inputs, by default the current context.

    Returns:
        the output, or the list of them if the operator has several visible ones.
    """
    given: Sequence[NDArray] = () if out is None else [out] if isinstance(out, NDArray) else out
    if inputs:
        context = inputs[0]._context
    elif context is None:
        context = given[0]._context if given else current_context()
    if not given and any(array.stype != "default" for array in inputs):
        stored = apply_stored(op, context, inputs)
        if stored is not None:
            return cast(NDArray, stored)
    # What MXNet calls storage fallback: computed on dense values, then cast to the storage type
    # that the operator infers for its output.
    raw, node = apply(op, context, inputs, given)
    results = [
        given[index] if index < len(given) else NDArray(raw[index], context)
        for index in range(op.visible_outputs())
    ]
    if node is not None:
        for index, result in enumerate(results):
            result._origin = Entry(node, index)
    if not given and any(array.stype != "default" for array in inputs):
        results = _stored(op.output_storage([array.stype for array in inputs]), results)
    return results[0] if len(results) == 1 else results


def _stored(stype: str, results: Sequence[NDArray]) -> list[NDArray]:
    """Return outputs in a storage type."""
    if stype == "default":
        return list(results)
    converted = [result.tostype(stype) for result in results]
    for sparse, result in zip(converted, results, strict=True):
        sparse._origin = result._origin
    return converted


def call_operator(
    operator: type[Operator], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> NDArray | list[NDArray]:
    """Call an operator as ``nd.X(*args, **kwargs)`` does.

    ``out`` and ``name`` are the namespace's own; ``ctx`` places the result of an operator without
    inputs.
    """
    out = kwargs.pop("out", None)
    kwargs.pop("name", None)
    name = operator.names[0]
    # The usual call, whose arguments need no sorting into inputs and attributes.
    if args and operator.variadic is None and _are_plain(operator, args, kwargs):
        op = operator_of(name, kwargs)
        if len(args) == len(op.input_names()):
            return invoke(op, args, out)
    context = kwargs.get("ctx")
    if "ctx" not in _field_names(operator):
        kwargs.pop("ctx", None)
    arguments = split_arguments(operator, args, kwargs, _is_array)
    op = operator_of(name, arguments.attributes)
    inputs = order_inputs(op, arguments)
    return invoke(op, inputs, out, None if context is None else parse_context(context))


def mark_variable(array: NDArray, gradient: NDArray, grad_req: str) -> None:
    """Make an array a variable: drop its history, and collect its gradient from now on."""
    if grad_req not in ("write", "add", "null"):
        raise ValueError(f"grad_req is {grad_req!r}; expected 'write', 'add' or 'null'")
    array._origin = Variable(gradient, grad_req)


def _are_plain(operator: type[Operator], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the positional arguments are all arrays and the others all attributes."""
    return all(isinstance(arg, NDArray) for arg in args) and kwargs.keys() <= _field_names(operator)


_fields: dict[type[Operator], frozenset[str]] = {}


def _field_names(operator: type[Operator]) -> frozenset[str]:
    if operator not in _fields:
        _fields[operator] = frozenset(attribute_fields(operator))
    return _fields[operator]


def _is_array(value: Any) -> bool:
    return isinstance(value, NDArray)
