"""Operators written in Python and registered by name: ``CustomOp`` and its properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import autograd
from ..device import Context
from ..errors import MXNetError, UsageError
from ..ndarray import NDArray
from ..ndarray.execute import forget_operators
from ..ops.custom import Properties, register_custom
from ..ops.registry import registered_names
from ..types import Array

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "get_all_registered_operators",
    "register",
    "register_properties",
]

_T = TypeVar("_T", bound="type[CustomOpProp]")


class CustomOp:
    """Base of operators written in Python. Each use of it in a graph has one."""

    def forward(
        self,
        is_train: bool,
        req: list[str],
        in_data: list[NDArray],
        out_data: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        """Write the outputs into ``out_data``; ``req`` says how, for ``assign``."""

    def backward(
        self,
        req: list[str],
        out_grad: list[NDArray],
        in_data: list[NDArray],
        out_data: list[NDArray],
        in_grad: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        """Write the gradients of the inputs into ``in_grad``; ``req`` says how."""

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write ``src`` into ``dst`` (``write``, ``inplace``), add it (``add``) or do nothing."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """The properties of a custom operator: names, shapes, dtypes. Subclasses override what differs.

    The attributes of ``Custom`` arrive as texts in the keyword arguments of ``__init__``.

    Args:
        need_top_grad: whether ``backward`` reads the gradients of the outputs; a loss does not.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states."""
        return []

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return the shapes of inputs and outputs, and of auxiliary states if there are any.

        An input of unknown shape comes as an empty list.
        """
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return the dtypes of inputs, outputs and auxiliary states."""
        outputs = [in_type[0]] * len(self.list_outputs())
        return in_type, outputs, [in_type[0]] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Return the storage types of inputs, outputs and auxiliary states: all dense.

        Custom operators are given dense arrays whatever this returns; a subclass may define it, as
        for MXNet.

        Raises:
            UsageError: an input is sparse.
        """
        _check_dense("in_stype", in_stype)
        outputs = ["default"] * len(self.list_outputs())
        return in_stype, outputs, ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(
        self,
        ograd_stype: list[str],
        in_stype: list[str],
        out_stype: list[str],
        igrad_stype: list[str],
        aux_stype: list[str],
    ) -> Any:
        """Return the storage types of all arrays of a backward pass: all dense.

        Raises:
            UsageError: a gradient is sparse.
        """
        _check_dense("ograd_stype", ograd_stype)
        _check_dense("igrad_stype", [one for one in igrad_stype if one != "undefined"])
        every = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(stypes) for stypes in every)

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Return which of the arrays numbered in the arguments ``backward`` reads."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(
        self, ctx: Context, in_shapes: list[list[int]], in_dtypes: list[Any]
    ) -> CustomOp:
        """Return the operator for inputs of these shapes and dtypes on a device."""
        return CustomOp()


def _check_dense(what: str, stypes: list[str]) -> None:
    for index, stype in enumerate(stypes):
        if stype != "default":
            raise UsageError(
                f"{what}[{index}] is {stype!r}; the default infer_storage_type takes 'default' "
                "alone: implement infer_storage_type and infer_storage_type_backward"
            )


def register(reg_name: str) -> Callable[[_T], _T]:
    """Register a ``CustomOpProp`` as the ``op_type`` of this name; a later one replaces it."""

    def decorate(prop_cls: _T) -> _T:
        register_properties(reg_name, prop_cls)
        forget_operators()  # parsed ones may belong to an earlier class of this name
        return prop_cls

    return decorate


def register_properties(name: str, make: Callable[..., Properties]) -> None:
    """Register what makes the properties of an ``op_type``; operators get handles of arrays."""
    register_custom(name, make, _CALLS)


def get_all_registered_operators() -> list[str]:
    """Return the names of all operators, aliases included."""
    return list(registered_names())


class _Calls:
    """Calls custom operators with handles for the raw arrays, and records nothing."""

    def create(self, properties: Properties, inputs: Sequence[Array]) -> Any:
        context = _context_of(inputs)
        shapes, dtypes = [list(x.shape) for x in inputs], [x.dtype.type for x in inputs]
        with context:
            return _guarded(properties, "create_operator")(context, shapes, dtypes)

    def forward(self, op: Any, is_train: bool, req: list[str], **arrays: Sequence[Array]) -> None:
        # What the script computes inside is not part of the caller's graph: its gradient is
        # ``backward``.
        with _context_of(arrays["out_data"]), autograd.pause(is_train):
            handles = _handles(arrays, writable=("out_data", "aux"))
            _guarded(op, "forward")(is_train=is_train, req=req, **handles)

    def backward(self, op: Any, req: list[str], **arrays: Sequence[Array]) -> None:
        with _context_of(arrays["out_data"]), autograd.pause():
            handles = _handles(arrays, writable=("in_grad", "aux"))
            _guarded(op, "backward")(req=req, **handles)


def _context_of(arrays: Sequence[Array]) -> Context:
    if not arrays or isinstance(arrays[0], np.ndarray):
        return Context("cpu", 0)
    return Context("gpu", arrays[0].device.id)


def _handles(
    arrays: dict[str, Sequence[Array]], writable: tuple[str, ...]
) -> dict[str, list[NDArray]]:
    return {
        name: [NDArray(raw, _context_of([raw]), writable=name in writable) for raw in group]
        for name, group in arrays.items()
    }


def _guarded(owner: Any, method: str) -> Callable[..., Any]:
    """Return a method whose errors name it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(owner, method)(*args, **kwargs)
        except MXNetError:
            raise
        except Exception as error:
            raise MXNetError(
                f"{type(owner).__name__}.{method} of a custom operator failed: {error!r}"
            ) from error

    return call


_CALLS = _Calls()
