"""Arrays for ``simple_bind``: new ones, or memory shared with another executor or a buffer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ..compiler.trace import SpecOf
from ..device import Context
from ..errors import ShapeError, did_you_mean
from ..graph.nodes import Entry, Node
from ..kernels.kernel import Version
from ..ndarray import NDArray
from ..ndarray.sparse_array import sparse_zeros
from ..types import shape_size
from .arrays import resized, zeros
from .executor import Executor

__all__ = ["Allocator"]


class Allocator:
    """Provides the array of each variable of a graph.

    Args:
        context: where variables are placed that belong to no ``ctx_group``.
        group2ctx: contexts by ``ctx_group`` attribute.
        spec_of: inferred shapes and dtypes.
        lender: executor whose arrays are shared: the arguments in ``lent_names``, their gradients,
            and auxiliary states of the same name and shape.
        lent_names: the arguments to share with the lender; without a lender, those that must not
            use the buffer's memory.
        buffer: arrays by name of the argument, gradients under ``"grad of "`` and that name. They
            are reused where large enough; newly allocated ones are added.
        storages, gradient_storages: storage types of the arrays and of their gradients, by
            variable; dense if missing. A sparse array starts empty and never uses the buffer.
        inputs: variables that change at every run. Arrays allocated for all others have a version,
            so that kernels can cache what they compute from them (reordered or folded weights).

    Raises:
        ValueError: the lender has no argument of a name in ``lent_names``.
    """

    def __init__(
        self,
        context: Context,
        group2ctx: Mapping[str, Context] | None,
        spec_of: SpecOf,
        lender: Executor | None,
        lent_names: Sequence[str] | None,
        buffer: dict[str, NDArray] | None,
        storages: Mapping[Node, str],
        gradient_storages: Mapping[Node, str],
        inputs: Collection[str] = (),
    ) -> None:
        self._context = context
        self._storages = storages
        self._gradient_storages = gradient_storages
        self._group2ctx = group2ctx or {}
        self._spec_of = spec_of
        self._arguments = {} if lender is None else lender.arg_dict
        self._gradients = {} if lender is None else lender.grad_dict
        self._auxiliaries = {} if lender is None else lender.aux_dict
        self._lent = frozenset(lent_names or ())
        self._buffer = buffer
        self._inputs = inputs
        # MXNet accepts unknown names where there is no executor to share them with.
        for name in lent_names or ():
            if lender is not None and name not in self._arguments:
                raise ValueError(
                    f"shared_arg_names has {name!r}, which is not an argument of shared_exec"
                    f"{did_you_mean(name, self._arguments)}"
                )

    def argument(self, node: Node) -> NDArray:
        """Return the array of an argument."""
        if node.name not in self._lent:
            return self._buffered(node.name, node, self._storages, self._variable)
        lent = self._arguments.get(node.name)
        return self._variable(node) if lent is None else self._matching(node, lent)

    def gradient(self, node: Node) -> NDArray:
        """Return the array of an argument's gradient."""
        if node.name not in self._lent:
            storages = self._gradient_storages
            return self._buffered(f"grad of {node.name}", node, storages, self._gradient)
        lent = self._gradients.get(node.name)
        return self._gradient(node) if lent is None else self._matching(node, lent)

    def auxiliary(self, node: Node) -> NDArray:
        """Return the array of an auxiliary state."""
        shape, dtype = self._spec_of(Entry(node, 0))
        lent = self._auxiliaries.get(node.name)
        if lent is not None and (lent.shape, lent.dtype) == (shape, dtype):
            return lent
        return self._variable(node)

    def _buffered(
        self,
        name: str,
        node: Node,
        storages: Mapping[Node, str],
        make: Callable[[Node], NDArray],
    ) -> NDArray:
        """Return a dense array in the buffer's memory; allocate it and add it if necessary."""
        shape, dtype = self._spec_of(Entry(node, 0))
        if self._buffer is None or storages.get(node, "default") != "default":
            return make(node)
        found = self._buffer.get(name)
        if found is not None and found.size >= shape_size(shape) and found.dtype == dtype:
            return resized(found, shape)
        made = self._buffer[name] = make(node)
        return made

    def _gradient(self, node: Node) -> NDArray:
        return self._zeros(node, self._gradient_storages.get(node, "default"))

    def _matching(self, node: Node, lent: NDArray) -> NDArray:
        shape, dtype = self._spec_of(Entry(node, 0))
        if lent.shape != shape or lent.dtype != dtype:
            raise ShapeError(
                f"{node.name!r} is shared with shape {lent.shape} and dtype "
                f"{np.dtype(lent.dtype)}, but here it has {shape} and {dtype}; take it out of "
                "shared_arg_names"
            )
        return lent

    def _variable(self, node: Node) -> NDArray:
        array = self._zeros(node, self._storages.get(node, "default"))
        array.version = None if node.name in self._inputs else Version()
        return array

    def _zeros(self, node: Node, stype: str) -> NDArray:
        context = self._group2ctx.get(node.attrs.get("__ctx_group__", ""), self._context)
        shape, dtype = self._spec_of(Entry(node, 0))
        if stype != "default":
            return sparse_zeros(stype, shape, context, dtype)
        return zeros(shape, dtype, context)
