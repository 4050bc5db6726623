"""Blocks that run operator by operator or as a compiled graph (``mx.gluon.HybridBlock``)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray, symbol
from ..errors import FormatError, UsageError
from ..ndarray import NDArray
from ..symbol import Symbol
from .base_block import Block
from .base_parameter import DeferredInitializationError, Parameter
from .nesting import Form, flatten, leaves, regroup
from .parameter_dict import ParameterDict
from .symbol_block import SymbolBlock

__all__ = ["HybridBlock", "compiled_graph"]


class HybridBlock(Block):
    """Base of blocks that work on both arrays and symbols.

    A subclass defines ``hybrid_forward(F, x, ..., weight)``: ``F`` is ``mx.nd`` or ``mx.sym``, and
    parameters are passed by name. After ``hybridize()`` the block is compiled like a symbol.

    Args:
        prefix, params: as for ``Block``.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._active = False
        self._compiled: dict[Form, tuple[SymbolBlock, Form]] = {}
        self._hook: tuple[Any, bool] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Register blocks and parameters; the graph compiled without them is discarded."""
        super().__setattr__(name, value)
        if isinstance(value, (Block, Parameter)):
            self._compiled = {}

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which must be compilable as well.

        Raises:
            ValueError: it is neither a ``HybridBlock`` nor a ``SymbolBlock``.
        """
        if not isinstance(block, (HybridBlock, SymbolBlock)):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block!r} has type "
                f"{type(block)}. If you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)
        self._compiled = {}

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile the block at its next call; ``active=False`` runs operator by operator again.

        Args:
            active: whether to compile.
            **kwargs: MXNet's flags (``static_alloc`` ...), which have no effect here: the memory of
                a compiled block is always planned in advance.
        """
        self._active = active
        self._compiled = {}
        super().hybridize(active, **kwargs)

    def optimize_for(
        self, x: Any, *args: Any, backend: str | None = None, clear: bool = False, **kwargs: Any
    ) -> None:
        """Compile the block for these inputs now, without computing anything.

        Args:
            x, args: the inputs.
            backend: see ``Symbol.optimize_for``.
            clear: discard previously compiled graphs; has no effect, as they always are.
            kwargs: as for ``hybridize``, and the backend's options.

        Raises:
            ValueError: no backend is named.
        """
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self.hybridize(True, **kwargs)
        compiled, _ = self._compile((x, *args))
        compiled.optimize_for(backend=backend)

    def register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        """Call a function with the output of each operator while the block runs compiled.

        Args:
            callback: called with the names of the array and the operator, and the array.
            monitor_all: also call it with the operators' inputs.
        """
        self._hook = (callback, monitor_all)
        for compiled, _ in self._compiled.values():
            compiled.register_op_hook(callback, monitor_all)
        super().register_op_hook(callback, monitor_all)

    def cast(self, dtype: Any) -> None:
        """Change the dtype of all parameters."""
        self._compiled = {}
        super().cast(dtype)

    def infer_shape(self, *args: Any) -> None:
        """Infer the shapes of parameters from those of inputs."""
        graph, names, _ = self._trace(*flatten("input", args))
        given = [one for one in leaves(args) if isinstance(one, NDArray)]
        known = {name: one.shape for name, one in zip(names, given, strict=True)}
        params = self.collect_params()
        arguments, _, auxiliary = graph.infer_shape_partial(**known)
        for found, listed in (
            (arguments, graph.list_arguments()),
            (auxiliary, graph.list_auxiliary_states()),
        ):
            for name, shape in zip(listed, found or (), strict=True):
                if name in params and shape and 0 not in shape:
                    params[name].shape = shape

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write ``path-symbol.json`` and ``path-NNNN.params``; the block must have been called.

        Raises:
            UsageError: it has not been hybridized or not been called.
        """
        compiled_graph(self).export(path, epoch, remove_amp_cast)

    def forward(self, *args: Any) -> Any:
        """Compute the outputs for arrays or symbols; None means an omitted input.

        Inputs and outputs may be nested lists.

        Raises:
            UsageError: the first input is neither array nor symbol, or both kinds are mixed, or a
                compiled block is called with arrays on several devices.
        """
        if len(args) == 1 and not (self._active or self._reg_params):
            (only,) = args  # the fast path: most blocks get a single array
            if isinstance(only, NDArray):
                return self.hybrid_forward(ndarray, only)
        given = list(leaves(args))
        first = next((one for one in (*given, *args) if one is not None), None)
        if len({isinstance(one, Symbol) for one in given}) == 2:
            raise UsageError("a HybridBlock is called with NDArrays or Symbols, got both")
        if isinstance(first, Symbol):
            with self.name_scope():
                variables = {name: param.var() for name, param in self._params_used()}
                return self.hybrid_forward(symbol, *args, **variables)
        if not isinstance(first, NDArray):
            raise UsageError(
                f"a HybridBlock is called with NDArrays or Symbols, got {type(first).__name__}"
            )
        if self._active:
            _require_one_device(given)
            block, form = self._compile(args)
            found = block(*given)
            return regroup(found if isinstance(found, list) else [found], form)
        context = first.context
        try:
            values = {name: param.data(context) for name, param in self._params_used()}
        except DeferredInitializationError:
            self.infer_shape(*args)
            for _, param in self._params_used():
                param._finish_deferred_init()
            values = {name: param.data(context) for name, param in self._params_used()}
        return self.hybrid_forward(ndarray, *args, **values)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs by the functions of ``F``; parameters are passed by keyword."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")

    def _describe_graph(self) -> dict[str, Any]:
        if not self._compiled:
            return {"hybridized": False}
        form, (compiled, outputs) = list(self._compiled.items())[-1]
        return {
            "in_format": form,
            "out_format": outputs,
            "inputs": [symbol.Variable(name).tojson() for name in compiled._inputs],
            "symbol": compiled._symbol.tojson(),
            "hybridized": True,
        }

    def _restore_graph(self, record: Mapping[str, Any]) -> None:
        self._compiled = {}
        if not record.get("hybridized"):
            return
        graph = symbol.load_json(record["symbol"])
        inputs = [symbol.load_json(one) for one in record["inputs"]]
        params = self.collect_params()
        unknown = set(graph.list_inputs()) - {one.name for one in inputs} - set(params)
        if unknown:
            raise FormatError(
                f"the graph saved of block {self.name} reads {sorted(unknown)}, which are not "
                "parameters of the block"
            )
        compiled = SymbolBlock(graph, inputs, params)
        self._compiled[_tuples(record["in_format"])] = compiled, _tuples(record["out_format"])
        self._active = True

    def _params_used(self) -> list[tuple[str, Any]]:
        return list(self._reg_params.items())

    def _trace(self, args: Sequence[Any], form: Form) -> tuple[Symbol, list[str], Form]:
        """Return the block as a symbol, the names of its inputs, and the form of its outputs."""
        count = sum(one is not None for one in args)
        names = ["data"] if count == 1 else [f"data{place}" for place in range(count)]
        variables = iter([symbol.Variable(name) for name in names])
        # Not a subclass's forward, because that one asks for the graph.
        found = HybridBlock.forward(
            self, *regroup([None if one is None else next(variables) for one in args], form)
        )
        outputs, output_form = flatten("output", found)
        return symbol.Group(outputs), names, output_form

    def _compile(self, args: tuple[Any, ...]) -> tuple[SymbolBlock, Form]:
        """Return a compiled block that takes the inputs separately, and the form of its outputs."""
        flat, form = flatten("input", args)
        if form not in self._compiled:
            graph, names, outputs = self._trace(flat, form)
            _warn_of_unused(graph, names)
            inputs = [symbol.Variable(name) for name in names]
            compiled = SymbolBlock(graph, inputs, self.collect_params())
            if self._hook is not None:
                compiled.register_op_hook(*self._hook)
            self._compiled[form] = compiled, outputs
        return self._compiled[form]


def compiled_graph(block: HybridBlock | SymbolBlock) -> SymbolBlock:
    """Return what a block was compiled to last, with the block's parameters.

    Raises:
        UsageError: not a block that can be compiled, or it has not been called yet.
    """
    if isinstance(block, SymbolBlock):
        return block
    if not isinstance(block, HybridBlock):
        raise UsageError(f"{type(block).__name__} is not a HybridBlock or SymbolBlock")
    if not block._compiled:
        raise UsageError(
            "Please first call block.hybridize() and then run forward with this block at least "
            f"once: {block.name} has not been compiled yet"
        )
    newest, _ = list(block._compiled.values())[-1]
    return newest


def _tuples(form: Any) -> Form:
    """Return a form with tuples in place of the lists that JSON has."""
    return tuple(_tuples(part) for part in form) if isinstance(form, list) else form


def _require_one_device(arrays: Sequence[Any]) -> None:
    # As in MXNet, cpu, cpu_pinned and cpu_shared are one kind of device, gpu is another.
    devices = {(one.context.device_typeid & 1, one.context.device_id) for one in arrays}
    if len(devices) > 1:
        found = ", ".join(sorted({str(one.context) for one in arrays}))
        raise UsageError(f"a compiled HybridBlock needs all arrays on one device, got {found}")


def _warn_of_unused(graph: Symbol, names: Sequence[str]) -> None:
    used = set(graph.list_inputs())
    unused = [f"{place}-th" for place, name in enumerate(names) if name not in used]
    if unused:
        warnings.warn(
            f"The {', '.join(unused)} input to HybridBlock is not used by any computation. "
            "Is this intended?",
            stacklevel=6,
        )
