"""A saved model as a block (``mx.gluon.SymbolBlock``)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import symbol as sym
from ..checkpoint import save_checkpoint
from ..device import Context
from ..errors import UsageError
from ..initializer import Uniform
from ..ndarray import NDArray
from ..ndarray import load as load_arrays
from ..symbol import Symbol
from .base_block import Block
from .base_parameter import Parameter, is_shape_known
from .graph_function import ExecutorPool
from .parameter_dict import ParameterDict

__all__ = ["SymbolBlock"]

_SHAPES_KEPT = 8
"""The number of input shapes whose executors a block keeps on each device, as many as a Module; the
least recently used are freed."""


class SymbolBlock(Block):
    """A symbol with its parameters.

        net = mx.gluon.SymbolBlock.imports("model-symbol.json", ["data"], "model-0010.params")
        net(mx.nd.ones((1, 3, 224, 224)))

    Under ``autograd.record`` calls are recorded, so that a ``Trainer`` can train the parameters.

    Args:
        outputs: a symbol or several.
        inputs: variables of the symbol that are the block's inputs, in order.
        params: parameters to share by name.

    Raises:
        UsageError: an input is not a variable, or a parameter is ``row_sparse``.
    """

    def __init__(
        self,
        outputs: Symbol | Sequence[Symbol],
        inputs: Symbol | Sequence[Symbol],
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix="")
        self._inputs = _input_names([inputs] if isinstance(inputs, Symbol) else list(inputs))
        self._symbol = outputs if isinstance(outputs, Symbol) else sym.Group(list(outputs))
        self._params = ParameterDict("", params)
        self._pools: dict[Context, OrderedDict[Any, ExecutorPool]] = {}
        self._hook: tuple[Any, bool] | None = None
        attributes = self._symbol.attr_dict()
        for names, options in (
            (self._symbol.list_arguments(), {}),
            (self._symbol.list_auxiliary_states(), {"grad_req": "null"}),
        ):
            for name in names:
                if name in self._inputs:
                    continue
                if attributes.get(name, {}).get("__storage_type__") == "1":
                    raise UsageError(
                        f"SymbolBlock doesn't support Parameter '{name}' because its storage type "
                        "is 'row_sparse'."
                    )
                # A shared parameter keeps its own grad_req, which a script may have changed.
                shared = params is not None and name in params
                self._params.get(name, **({} if shared else options), allow_deferred_init=True)
        # Files of a block around this one have MXNet's names, without what all of them begin with.
        start = _common_length(list(self._params))
        self._reg_params = {name[start:]: one for name, one in self._params.items()}

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: str | Sequence[str],
        param_file: str | None = None,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Return a block from the files of a checkpoint.

        Args:
            symbol_file: the graph, ``prefix-symbol.json``.
            input_names: names of the variables that are inputs.
            param_file: values, ``prefix-0000.params``; if omitted, call ``initialize``.
            ctx: devices of the parameters.
            allow_missing: accept a file that lacks parameters.
            ignore_extra: skip names that the symbol does not have.
        """
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        block = SymbolBlock(sym.load(symbol_file), [sym.Variable(name) for name in names])
        if param_file is not None:
            block.params.load(
                param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved"
            )
        return block

    def __repr__(self) -> str:
        outputs = self._symbol.list_outputs()
        return (
            f"{type(self).__name__}(\n{self._symbol!r} : {len(self._inputs)} -> {len(outputs)}\n)"
        )

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters, optionally only those whose names match a regular expression."""
        if select is None:
            return self._params
        chosen = ParameterDict(self._params.prefix)
        pattern = re.compile(select)
        chosen.update({name: one for name, one in self._params.items() if pattern.match(name)})
        return chosen

    def initialize(
        self,
        init: Any = Uniform(),  # noqa: B008 - MXNet's default, never changed
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize the parameters; their shapes are inferred at the first call."""
        self._params.initialize(init, ctx, verbose, force_reinit)
        self._pools.clear()

    def _rename(self, name: str) -> None:
        """Change the block's name; parameters keep the names in the symbol."""
        self._name = name

    def _describe_graph(self) -> dict[str, Any]:
        # MXNet's class is a HybridBlock; compiling changes nothing, because the graph is given.
        return {"hybridized": False}

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move the parameters to other devices."""
        self._params.reset_ctx(ctx)
        self._pools.clear()

    def cast(self, dtype: Any) -> None:
        """Change the dtype; parameters of batch norms stay float32 beside float16."""
        kept = self._batch_norm_names() if np.dtype(dtype) == np.float16 else set()
        for name, param in self._params.items():
            param.cast("float32" if name in kept else dtype)
        self._pools.clear()

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write the parameters to a file that ``load_parameters`` and ``imports`` read.

        Args:
            filename: the file.
            deduplicate: has no effect: no two names share a parameter.
        """
        self._params.save(filename)

    def load_parameters(
        self,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a file; see ``ParameterDict.load``.

        MXNet's ``save_parameters`` leaves out what all names begin with; both forms are read.
        """
        loaded = load_arrays(filename)
        if not loaded and not self._params:
            return
        if not isinstance(loaded, Mapping):
            raise UsageError(f"{filename}: its arrays have no names")
        places = self._params
        if not loaded.keys() & places.keys() and loaded.keys() & self._reg_params.keys():
            places = ParameterDict()
            places.update(self._reg_params)
        places.load_dict(
            loaded, ctx, allow_missing, ignore_extra, "", filename, cast_dtype, dtype_source
        )

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write ``path-symbol.json`` and ``path-NNNN.params``, as ``Module`` loads them."""
        auxiliary = set(self._symbol.list_auxiliary_states())
        values = {name: param._reduce() for name, param in self._params.items()}
        save_checkpoint(
            path,
            epoch,
            self._symbol,
            {name: one for name, one in values.items() if name not in auxiliary},
            {name: one for name, one in values.items() if name in auxiliary},
            remove_amp_cast,
        )

    def optimize_for(self, *inputs: Any, backend: str | None = None, **kwargs: Any) -> None:
        """Prepare the block for a backend; see ``HybridBlock.optimize_for``.

        Raises:
            ValueError: no backend is named.
        """
        if not backend:
            raise ValueError('Must specify "backend" to optimize_for')
        self._symbol = self._symbol.optimize_for(backend)
        self._pools.clear()

    def register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        """Call a function with the output of each operator; see ``HybridBlock``."""
        self._hook = (callback, monitor_all)
        self._pools.clear()

    def forward(self, *inputs: Any) -> Any:
        """Return the output, or the list of outputs, for arrays or symbols.

        Raises:
            UsageError: the number of inputs is wrong.
        """
        if len(inputs) != len(self._inputs):
            raise UsageError(f"{len(inputs)} inputs for {self._inputs}")
        if all(isinstance(one, Symbol) for one in inputs):
            return self._symbol(**dict(zip(self._inputs, inputs, strict=True)))
        outputs = self._pool(inputs).run(inputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _pool(self, inputs: Sequence[NDArray]) -> ExecutorPool:
        context = inputs[0].context
        shapes = tuple((one.shape, np.dtype(one.dtype).name) for one in inputs)
        self._complete(inputs)
        # Executors are bound to the parameters' arrays, which cast and reset_ctx replace. A pool
        # keeps its arrays alive, so that no other array gets their ids.
        arrays = {name: param.data(context) for name, param in self._params.items()}
        key = (shapes, tuple(id(array) for array in arrays.values()))
        pools = self._pools.setdefault(context, OrderedDict())
        pool = pools.get(key)
        if pool is None:
            auxiliary = set(self._symbol.list_auxiliary_states())
            pool = pools[key] = ExecutorPool(
                self._symbol,
                context,
                self._inputs,
                {name: one for name, one in arrays.items() if name not in auxiliary},
                {name: one for name, one in arrays.items() if name in auxiliary},
                self._hook,
            )
            if len(pools) > _SHAPES_KEPT:
                pools.popitem(last=False)
        pools.move_to_end(key)
        return pool

    def _complete(self, inputs: Sequence[NDArray]) -> None:
        """Infer the shapes of parameters with deferred initialization, and initialize them."""
        waiting = [param for param in self._params.values() if param._deferred_init]
        if not waiting:
            return
        known = {name: one.shape for name, one in zip(self._inputs, inputs, strict=True)}
        known.update(
            {
                name: param.shape
                for name, param in self._params.items()
                if param.shape is not None and is_shape_known(param.shape)
            }
        )
        # Partially, because the shapes behind an operator may depend on values.
        arguments, _, auxiliary = self._symbol.infer_shape_partial(**known)
        shapes = dict(zip(self._symbol.list_arguments(), arguments or (), strict=False))
        shapes.update(zip(self._symbol.list_auxiliary_states(), auxiliary or (), strict=False))
        for param in waiting:
            self._finish(param, shapes)

    @staticmethod
    def _finish(param: Parameter, shapes: dict[str, Any]) -> None:
        if param.name in shapes:
            param.shape = shapes[param.name]
        param._finish_deferred_init()

    def _batch_norm_names(self) -> set[str]:
        found: set[str] = set()
        for name in self._symbol.list_auxiliary_states():
            for ending, mean in (("running_var", "running_mean"), ("moving_var", "moving_mean")):
                if name.endswith(ending):
                    stem = name[: -len(ending)]
                    found |= {name, stem + mean, stem + "gamma", stem + "beta"}
        return found


def _common_length(names: Sequence[str]) -> int:
    """Return how many characters all names have in common at their beginning."""
    columns = enumerate(zip(*names, strict=False))
    shortest = min(map(len, names), default=0)
    return next((place for place, letters in columns if len(set(letters)) > 1), shortest)


def _input_names(inputs: Sequence[Symbol]) -> list[str]:
    names = []
    for one in inputs:
        if len(one.get_internals().list_outputs()) != 1:
            raise UsageError(
                f"Input symbols must be variables, but {one.name} is an output of operators"
            )
        names.extend(one.list_outputs())
    return names
