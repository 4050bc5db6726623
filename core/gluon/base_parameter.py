"""Parameters of blocks: a value and a gradient on every device (``mx.gluon.Parameter``)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import autograd, initializer, symbol
from ..compat.parameter_names import ParameterNames
from ..device import Context, cpu, current_context
from ..errors import MXNetError, UsageError
from ..initializer import InitDesc, Uniform
from ..ndarray import NDArray, arange, zeros
from ..ndarray.np_shape import is_np_shape
from ..ndarray.sparse_array import BaseSparseNDArray
from ..symbol import Symbol
from ..types import Shape, to_dtype
from .keeper import Keeper, store_updates

__all__ = ["DeferredInitializationError", "Parameter", "contexts_of", "is_shape_known"]

STORAGE_TYPES = ("default", "row_sparse", "csr")
GRAD_REQS = ("write", "add", "null")

DEFERRED = (
    "Parameter '{name}' has not been initialized yet because initialization was deferred: its "
    "shape is only known after the first forward pass. Pass one batch of data through the network "
    "before accessing it, or give its whole shape"
)
NOT_INITIALIZED = (
    "Parameter '{name}' has not been initialized; call initialize() (and collect_params() to get "
    "the parameters of nested blocks, too)"
)


class DeferredInitializationError(MXNetError):
    """The parameter has no value yet, because its shape is not known."""


class _Deferred(NamedTuple):
    """The arguments of an initialization that is deferred until the shape is known."""

    init: Any
    contexts: list[Context]
    default_init: Any
    data: NDArray | None


def contexts_of(ctx: Context | Sequence[Context] | None) -> list[Context]:
    """Return a list of devices; None means the current one."""
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


def is_shape_known(shape: Shape | None) -> bool:
    """Return whether the rank and all dimensions are known; 0, or with np-shape -1, is unknown."""
    unknown = -1 if is_np_shape() else 0
    return shape is not None and unknown not in shape


class Parameter(ParameterNames):
    """A value on one or several devices, with its gradients.

    Args:
        name: unique among the parameters of a trainer.
        grad_req: ``"write"``, ``"add"`` or ``"null"``.
        shape: 0 is a dimension that is not known yet.
        dtype: dtype of value and gradient.
        lr_mult, wd_mult: multiply the optimizer's learning rate and weight decay.
        init: an initializer, its name, or None for the default given to ``initialize``.
        allow_deferred_init: whether initialization may be deferred until the shape is known.
        differentiable: if False, ``grad_req`` is always ``"null"``.
        stype: storage type of the value: ``"default"``, ``"row_sparse"`` or ``"csr"``.
        grad_stype: storage type of the gradient.
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Shape | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        for what, given in (("grad_stype", grad_stype), ("stype", stype)):
            if given not in STORAGE_TYPES:
                raise UsageError(
                    f"{what} for Parameter '{name}' must be one of {', '.join(STORAGE_TYPES)}, "
                    f"got {given!r}"
                )
        self.name = name
        self.lr_mult, self.wd_mult, self.init = lr_mult, wd_mult, init
        self._var: Symbol | None = None
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] = []
        self._trainer: Keeper | None = None
        self._deferred_init: _Deferred | tuple[()] = ()
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._shape = (shape,) if isinstance(shape, int) else shape
        self._dtype = dtype
        self._stype, self._grad_stype = stype, grad_stype
        self._grad_req = "null"
        self.grad_req = grad_req

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    # -- what it is -------------------------------------------------------------------------

    @property
    def grad_req(self) -> str:
        """How a backward pass changes the gradient: ``"write"``, ``"add"`` or ``"null"``."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in GRAD_REQS:
            raise UsageError(
                f"grad_req must be one of {', '.join(GRAD_REQS)}, got {req!r} ('{self.name}')"
            )
        req = req if self._differentiable else "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if self._data is None:
            return
        if req == "null":
            # Detached arrays are no variables, so that autograd does not record what uses them.
            self._grad = None
            self._data = [array.detach() for array in self._data]
        else:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """Dtype of value and gradient; setting it casts both."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Shape | None:
        """The shape, as far as it is known."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(dim or -1 for dim in self._shape)

    @shape.setter
    def shape(self, new_shape: Shape) -> None:
        if self._shape is not None and not (
            len(self._shape) == len(new_shape)
            and all(old in (-1, 0, new) for new, old in zip(new_shape, self._shape, strict=True))
        ):
            raise UsageError(
                f"Expected shape {tuple(new_shape)} is incompatible with given shape "
                f"{self._shape} of Parameter '{self.name}'"
            )
        self._shape = tuple(new_shape)

    def var(self) -> Symbol:
        """Return the variable for the parameter in symbols."""
        if self._var is None:
            self._var = symbol.var(
                self.name,
                shape=self.shape,
                dtype=self.dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
                stype=self._stype,
            )
        return self._var

    # -- first values -----------------------------------------------------------------------

    def initialize(
        self,
        init: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        default_init: Any = Uniform(),  # noqa: B008 - MXNet's default, never changed
        force_reinit: bool = False,
    ) -> None:
        """Create and initialize the value, and the gradients, on devices.

        Args:
            init: an initializer or its name; None uses the parameter's own, or else
                ``default_init``.
            ctx: devices; None is the current one.
            default_init: used if neither ``init`` nor the parameter specifies an initializer.
            force_reinit: initialize again if already initialized.

        Raises:
            ValueError: the shape is not known and initialization may not be deferred.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True "
                "to re-initialize.",
                stacklevel=2,
            )
            return
        if not is_shape_known(self.shape) and not self._allow_deferred_init:
            raise ValueError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: "
                f"{self.shape}."
            )
        self._data = self._grad = None
        if init is None:
            init = default_init if self.init is None else self.init
        self._deferred_init = _Deferred(init, contexts_of(ctx), default_init, None)
        if is_shape_known(self.shape):
            self._finish_deferred_init()

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Move the parameter to other devices."""
        if self._data is not None:
            self._init_impl(self._reduce(), contexts_of(ctx))
        elif self._deferred_init:
            self._deferred_init = self._deferred_init._replace(contexts=contexts_of(ctx))
        else:
            raise ValueError(
                f"Cannot reset context for Parameter '{self.name}' because it has not been "
                "initialized."
            )

    def set_data(self, data: NDArray) -> None:
        """Set the value on all devices."""
        self.shape = tuple(data.shape)
        if self._data is None:
            if not self._deferred_init:
                raise UsageError(NOT_INITIALIZED.format(name=self.name))
            self._deferred_init = self._deferred_init._replace(data=data)
            return
        trainer = self._trainer
        if trainer is not None and store_updates(trainer, self):
            # The store has a copy of the value, which the next step would write over this one.
            trainer._reset_kvstore()
        for array in self._data:
            array[:] = data

    def cast(self, dtype: Any) -> None:
        """Change the dtype of value and gradient."""
        self._dtype = dtype
        if self._data is None:
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            if self._grad is not None:
                self._grad = [array.astype(dtype) for array in self._grad]
                autograd.mark_variables(self._data, self._grad, self.grad_req)

    # -- values -----------------------------------------------------------------------------

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the value on a device; by default the only one, or else the current one."""
        self._require_dense(f"on {ctx} via data()", "row_sparse_data()")
        return self._on(self._data, ctx)

    def list_data(self) -> list[NDArray]:
        """Return the values on all devices."""
        self._require_dense("on all contexts via list_data()", "list_row_sparse_data()")
        return self._all(self._data)

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Return these rows of the ``row_sparse`` value, on the device of ``row_id``."""
        self._require_sparse("row_sparse_data()", "data()")
        array = self._on(self._data, row_id.context)
        self._pull_rows(array, row_id)
        return array

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Return these rows of the ``row_sparse`` values on all devices."""
        self._require_sparse("list_row_sparse_data()", "list_data()")
        arrays = self._all(self._data)
        self._pull_rows(arrays, row_id)
        return arrays

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient on a device."""
        self._require_grad()
        return self._on(self._grad, ctx)

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all devices."""
        self._require_grad()
        return self._all(self._grad)

    def list_ctx(self) -> list[Context]:
        """Return the devices."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init:
            return self._deferred_init.contexts
        raise MXNetError(NOT_INITIALIZED.format(name=self.name))

    def zero_grad(self) -> None:
        """Set the gradients to zero."""
        for array in self._grad or ():
            if isinstance(array, BaseSparseNDArray):
                array.clear()
            else:
                array[:] = 0

    # -- inside -----------------------------------------------------------------------------

    def _set_trainer(self, trainer: Keeper | None) -> None:
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise RuntimeError(
                f"Failed to set the trainer for Parameter '{self.name}' because it was already "
                f"set. More than one trainer for a {self._stype} Parameter is not supported."
            )
        self._trainer = trainer

    def _all(self, arrays: list[NDArray] | None) -> list[NDArray]:
        if arrays is not None:
            return arrays
        if self._deferred_init:
            raise DeferredInitializationError(DEFERRED.format(name=self.name))
        raise MXNetError(NOT_INITIALIZED.format(name=self.name))

    def _on(self, arrays: list[NDArray] | None, ctx: Context | None) -> NDArray:
        known = self._all(arrays)
        if ctx is None and len(known) == 1:
            return known[0]
        ctx = ctx or current_context()
        for array, context in zip(known, self._ctx_list, strict=True):
            # As in MXNet, cpu, cpu_pinned and cpu_shared are one kind of device, gpu is another.
            same_kind = context.device_typeid & 1 == ctx.device_typeid & 1
            if same_kind and context.device_id == ctx.device_id:
                return array
        raise RuntimeError(
            f"Parameter '{self.name}' was not initialized on context {ctx}. It was only "
            f"initialized on {self._ctx_list}."
        )

    def _pull_rows(self, out: Any, row_id: NDArray) -> None:
        if not isinstance(row_id, NDArray):
            raise TypeError(f"row_id must have NDArray type, but {type(row_id)} is given")
        if self._trainer is None:
            raise RuntimeError(
                f"Cannot get row_sparse data for Parameter '{self.name}' when no Trainer is "
                "created with it."
            )
        self._trainer._row_sparse_pull(self, out, row_id)

    def _require_dense(self, how: str, instead: str) -> None:
        if self._stype != "default":
            raise RuntimeError(
                f"Cannot return a copy of Parameter '{self.name}' {how} because its storage type "
                f"is {self._stype}. Please use {instead} instead."
            )

    def _require_sparse(self, how: str, instead: str) -> None:
        if self._stype != "row_sparse":
            raise RuntimeError(
                f"Cannot return a copy of Parameter '{self.name}' via {how} because its storage "
                f"type is {self._stype}. Please use {instead} instead."
            )

    def _require_grad(self) -> None:
        if self._data is not None and self._grad is None:
            raise RuntimeError(
                f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'"
            )

    def _finish_deferred_init(self) -> None:
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        if not is_shape_known(self.shape):
            raise UsageError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: "
                f"{self.shape}; give the missing dimensions"
            )
        self._deferred_init = ()
        with autograd.pause():
            if data is None:
                # On the CPU and then copied, so that all devices start from the same values.
                dense = zeros(self.shape or (), dtype=self.dtype, ctx=cpu())
                desc = InitDesc(self.name, {"__init__": init})
                initializer.create(default_init)(desc, dense)
                data = dense if self._stype == "default" else dense.tostype(self._stype)
            self._init_impl(data, contexts)

    def _init_impl(self, data: NDArray, contexts: Sequence[Context]) -> None:
        self._ctx_list = list(contexts)
        with autograd.pause():
            self._data = [data.copyto(context) for context in self._ctx_list]
        self._init_grad()

    def _init_grad(self) -> None:
        if self.grad_req == "null":
            self._grad = None
            return
        values = self._all(self._data)
        self._grad = [
            zeros(array.shape, dtype=array.dtype, ctx=array.context, stype=self._grad_stype)
            for array in values
        ]
        autograd.mark_variables(values, self._grad, self.grad_req)

    def _reduce(self) -> NDArray:
        """Return the mean of the devices' values, on the CPU, for saving."""
        if self._stype != "default":
            assert self.shape is not None
            whole = zeros(self.shape, stype="row_sparse", dtype=self.dtype)
            if self._trainer is None:
                self._all(self._data)[0].copyto(whole)
            else:
                rows = arange(0, self.shape[0], dtype="int64")
                self._trainer._row_sparse_pull(self, whole, rows, full_idx=True)
            return whole
        arrays = [array.copyto(cpu()) for array in self.list_data()]
        mean: NDArray = arrays[0]
        for other in arrays[1:]:
            mean += other
        if len(arrays) > 1:
            mean /= len(arrays)
        return mean

    def _load_init(
        self,
        data: NDArray,
        ctx: Context | Sequence[Context] | None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set the value to one loaded from a file; see ``ParameterDict.load``."""
        self._fit_shape(data)
        data = self._fit_dtype(data, cast_dtype, dtype_source)
        if data.stype != self._stype:
            data = data.tostype(self._stype)
        wanted = None if ctx is None else contexts_of(ctx)
        present = self._ctx_list if self._data is not None else None
        if self._deferred_init:
            present = self._deferred_init.contexts
        if wanted is not None and present is not None and set(wanted) != set(present):
            raise UsageError(
                f"Failed to load Parameter '{self.name}' on {wanted} because it was previously "
                f"initialized on {present}; call reset_ctx first"
            )
        if self._data is None:
            self._init_impl(data, present or wanted or [cpu()])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _fit_shape(self, data: NDArray) -> None:
        if not self.shape:
            self._shape = tuple(data.shape)
            return
        known = all(
            dim in (-1 if is_np_shape() else 0, other)
            for dim, other in zip(self.shape, data.shape, strict=False)
        )
        if not known or len(self.shape) != len(data.shape):
            raise UsageError(
                f"Failed loading Parameter '{self.name}' from saved params: shape incompatible "
                f"expected {self.shape} vs saved {data.shape}"
            )
        self._shape = tuple(data.shape)

    def _fit_dtype(self, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise UsageError(f"dtype_source is {dtype_source!r}; use 'current' or 'saved'")
        if to_dtype(self.dtype) == np.dtype(data.dtype):
            return data
        if not cast_dtype:
            raise UsageError(
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible "
                f"expected {to_dtype(self.dtype)} vs saved {np.dtype(data.dtype)}. Set "
                "cast_dtype=True to cast the dtype of saved params."
            )
        if dtype_source == "current":
            return data.astype(self.dtype, copy=False)
        self.dtype = data.dtype
        return data
