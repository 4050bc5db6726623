"""A module per bucket, with one set of parameters (``mx.mod.BucketingModule``)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..checkpoint import load_params
from ..compat.module_names import BucketingNames
from ..device import Context, current_context
from ..errors import StageError, UsageError
from ..garbage import collector_paused
from ..initializer import Uniform
from ..io import DataDesc
from ..name import NameManager
from ..ndarray import NDArray, array
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..symbol import Symbol
from ..symbol import load as load_symbol
from .base_module import BaseModule, Params
from .lifecycle import Stage, require_stage
from .module import Module

__all__ = ["BucketingModule"]

SymGen = Callable[[Any], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]]


class BucketingModule(BucketingNames, BaseModule):
    """Handles inputs of various lengths: a symbol is generated and bound for each bucket key.

    All buckets share parameters, optimizer and activation memory, which grows to the size of the
    largest bucket; buckets may be bound in any order.

    Args:
        sym_gen: maps a bucket key to (symbol, data_names, label_names); the counters of automatic
            names start at 0 in every call.
        default_bucket_key: the bucket bound by ``bind``; its symbol must have every parameter.
        logger, context, work_load_list, fixed_param_names, state_names, group2ctxs,
        compression_params: as for ``Module``.
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        if default_bucket_key is None:
            raise UsageError("default_bucket_key is None; name the bucket to bind first")
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._context = context or current_context()
        self._work_load_list = work_load_list
        self._fixed_param_names = list(fixed_param_names or ())
        self._state_names = list(state_names or ())
        self._group2ctxs = group2ctxs
        self._compression_params = compression_params
        self._buckets: dict[Any, Module] = {}
        self._active: Module | None = None
        self._active_key: Any = None
        self._grad_req: Any = "write"
        self._monitor: Any = None
        self._preloaded: tuple[Params, Params] | None = None
        # Built only for its checks: a wrong symbol generator should fail here, not in bind().
        self._new_module(default_bucket_key)

    # -- what it is -------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """How far the module has been set up."""
        return Stage.CREATED if self._active is None else self.default_module.stage

    @property
    def binded(self) -> bool:
        """True once the default bucket is bound."""
        return self._active is not None

    @binded.setter
    def binded(self, value: bool) -> None:
        """Let ``bind`` be called again; the parameters keep their values."""
        if not value and self._active is not None:
            self._preloaded = self.get_params() if self.params_initialized else None
            self._active = None

    @property
    def params_initialized(self) -> bool:
        """True once the parameters have values."""
        return self.stage >= Stage.INITIALIZED or self._preloaded is not None

    @params_initialized.setter
    def params_initialized(self, value: bool) -> None:
        self.default_module.params_initialized = value

    @property
    def optimizer_initialized(self) -> bool:
        """True once there is an optimizer."""
        return self.stage >= Stage.READY

    @optimizer_initialized.setter
    def optimizer_initialized(self, value: bool) -> None:
        for module in self._buckets.values():
            module.optimizer_initialized = value

    @property
    def data_names(self) -> list[str]:
        """Names of the current bucket's data inputs; of the default bucket's before binding."""
        if self._active is not None:
            return self._active.data_names
        return list(self._generate(self._default_bucket_key)[1] or ())

    @property
    def output_names(self) -> list[str]:
        """Names of the current bucket's outputs; of the default bucket's before binding."""
        if self._active is not None:
            return self._active.output_names
        return self._generate(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data inputs of the current bucket."""
        return self._current("data_shapes").data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels of the current bucket."""
        return self._current("label_shapes").label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs of the current bucket."""
        return self._current("output_shapes").output_shapes

    @property
    def symbol(self) -> Symbol:
        """The symbol of the current bucket."""
        return self._current("symbol")._symbol

    @property
    def bucket_keys(self) -> list[Any]:
        """Keys of the bound buckets."""
        return list(self._buckets)

    @property
    def default_module(self) -> Module:
        """The module of the default bucket, which holds parameters and optimizer."""
        if self._active is None:
            require_stage("default_module", Stage.CREATED, Stage.BOUND)
        return self._buckets[self._default_bucket_key]

    # -- binding ----------------------------------------------------------------------------

    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind the default bucket with these shapes."""
        if shared_module is not None:
            raise UsageError("shared_module for BucketingModule is not supported")
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        kept = self.get_params() if self.params_initialized else None
        module = self._new_module(self._default_bucket_key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        if self._monitor is not None:
            module.install_monitor(self._monitor)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = grad_req
        self._buckets = {self._default_bucket_key: module}
        self._active, self._active_key = module, self._default_bucket_key
        if kept is not None:
            self.set_params(*kept)
            self._preloaded = None

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make a bucket the current one, binding it with these shapes on its first use."""
        module = self._buckets.get(bucket_key)
        if module is None:
            current = self._current("switch_bucket()")
            # Binding makes many objects that live as long as the bucket; searching them for
            # garbage would only delay the first batch of every bucket.
            with collector_paused():
                module = self._new_module(bucket_key)
                module.bind(
                    data_shapes,
                    label_shapes,
                    current.for_training,
                    current.inputs_need_grad,
                    shared_module=self.default_module,
                    grad_req=self._grad_req,
                )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._active, self._active_key = module, bucket_key

    def drop_bucket(self, bucket_key: Any) -> None:
        """Free a bucket other than the default one; the next use of its key binds it again.

        MXNet has no such method.
        """
        if bucket_key == self._default_bucket_key:
            raise ValueError(f"bucket {bucket_key!r} is the default one, which has the parameters")
        if self._buckets.pop(bucket_key, None) is self._active:
            self._active = self.default_module
            self._active_key = self._default_bucket_key

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        """Bind the bucket of a batch unless it is bound, without making it the current one."""
        original = self._active_key
        self._switch_to(data_batch)
        self._current("prepare()").prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        # fit() prepares the next batch while callbacks still read the outputs of this one.
        self.switch_bucket(original, None)

    # -- parameters and optimizer -----------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return (arguments, auxiliary states) by name."""
        if self._preloaded is not None:
            return dict(self._preloaded[0]), dict(self._preloaded[1])
        self._require("get_params()", Stage.INITIALIZED)
        return self.default_module.get_params()

    def init_params(
        self,
        initializer: Any = Uniform(0.01),  # noqa: B008 - MXNet's default, never changed
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize the parameters, which all buckets share."""
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.",
                stacklevel=2,
            )
            return
        self._require("init_params()", Stage.BOUND)
        self.default_module.init_params(
            initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
        )

    def set_params(
        self,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameter values of all buckets."""
        self._require("set_params()", Stage.BOUND)
        self.default_module.set_params(
            arg_params, aux_params, allow_missing, force_init, allow_extra
        )

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install one optimizer for all buckets."""
        self._require("init_optimizer()", Stage.INITIALIZED)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self.default_module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not self.default_module:
                module.borrow_optimizer(self.default_module)

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        self._require("save_optimizer_states()", Stage.READY)
        self.default_module.save_optimizer_states(fname)

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        self._require("load_optimizer_states()", Stage.READY)
        self.default_module.load_optimizer_states(fname)

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states of the current bucket."""
        return self._current("get_states()").get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states of the current bucket."""
        self._current("set_states()").set_states(states, value)

    # -- steps ------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Switch to the batch's bucket and compute its outputs."""
        self._require("forward()", Stage.INITIALIZED)
        self._switch_to(data_batch)
        self._current("forward()").forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last training pass."""
        self._require("backward()", Stage.INITIALIZED)
        self._current("backward()").backward(out_grads)

    def update(self) -> None:
        """Update the shared parameters from the current bucket's gradients."""
        self._require("update()", Stage.READY)
        self._current("update()").update()

    @property
    def awaits_backward(self) -> bool:
        """True from a training pass of the current bucket until its backward pass."""
        return self._active is not None and self._active.awaits_backward

    @property
    def has_gradients(self) -> bool:
        """True once a backward pass has followed the current bucket's last forward pass."""
        return self._active is not None and self._active.has_gradients

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last forward pass."""
        return self._current("get_outputs()").get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data inputs."""
        return self._current("get_input_grads()").get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the last outputs."""
        self._current("update_metric()").update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays of all buckets."""
        self._current("install_monitor()")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    def remove_monitor(self) -> None:
        """Remove the installed monitor."""
        self._monitor = None
        for module in self._buckets.values():
            module.remove_monitor()

    # -- files ------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write parameters, a symbol per bucket and the list of (integer) bucket keys."""
        self._require("save_checkpoint()", Stage.INITIALIZED)
        self.save_params(f"{prefix}-{epoch:04d}.params")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        keys = np.array(list(self._buckets), dtype=np.int32)
        save_arrays(f"{prefix}.buckets", array(keys, dtype=np.int32))

    @classmethod
    def load(
        cls,
        prefix: str,
        epoch: int,
        sym_gen: SymGen | None = None,
        default_bucket_key: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return a module with the parameters of ``prefix-NNNN.params``.

        Without ``sym_gen`` the saved symbols are used. The inputs of each bucket are then the
        arguments that are not parameters; those whose names end in ``label`` are its labels.
        """
        arguments, auxiliary = load_params(prefix, epoch)
        if sym_gen is None:
            sym_gen, keys = _saved_symbols(prefix, arguments)
            # The default bucket is the largest, as that of BucketSentenceIter.
            default_bucket_key = max(keys) if default_bucket_key is None else default_bucket_key
        module = cls(sym_gen, default_bucket_key, **kwargs)
        module._preloaded = (arguments, auxiliary)
        return module

    @classmethod
    def load_dict(
        cls,
        sym_dict: Mapping[Any, Symbol] | None = None,
        sym_gen: SymGen | None = None,
        default_bucket_key: Any = None,
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a module from symbols by bucket key and parameters by name.

        Args:
            sym_dict: symbols; buckets missing here get theirs from ``sym_gen``.
            sym_gen: as for the class; also provides the names of data and labels.
            default_bucket_key: the bucket bound by ``bind``.
            arg_params, aux_params: the parameters.
            **kwargs: other arguments of the class.

        Raises:
            UsageError: one of the five is missing.
        """
        if sym_dict is None or sym_gen is None or default_bucket_key is None:
            raise UsageError("load_dict needs sym_dict, sym_gen and default_bucket_key")
        if arg_params is None or aux_params is None:
            raise UsageError("load_dict needs arg_params and aux_params")
        generate, symbols = sym_gen, dict(sym_dict)

        def generate_or_take(key: Any) -> tuple[Symbol, Any, Any]:
            symbol, data_names, label_names = generate(key)
            return symbols.get(key, symbol), data_names, label_names

        module = cls(generate_or_take, default_bucket_key, **kwargs)
        module._preloaded = (arg_params, aux_params)
        return module

    # -- internals --------------------------------------------------------------------------

    def _generate(
        self, bucket_key: Any
    ) -> tuple[Symbol, Sequence[str] | None, Sequence[str] | None]:
        with NameManager():  # so that unnamed layers get the same automatic names in every bucket
            generated = self._sym_gen(bucket_key)
        if not isinstance(generated, tuple) or len(generated) != 3:
            raise ValueError(
                f"sym_gen({bucket_key!r}) returned {type(generated).__name__}; "
                "expected (symbol, data_names, label_names)"
            )
        return generated

    def _new_module(self, bucket_key: Any) -> Module:
        return Module(
            *self._generate(bucket_key),
            logger=self.logger,
            context=self._context,
            work_load_list=self._work_load_list,
            fixed_param_names=self._fixed_param_names,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
            compression_params=self._compression_params,
        )

    def _switch_to(self, batch: Any) -> None:
        key = getattr(batch, "bucket_key", None)
        if key is None:
            raise StageError(
                "the batch has no bucket_key; set DataBatch(..., bucket_key=, provide_data=, "
                "provide_label=) so that its bucket can be found"
            )
        self.switch_bucket(key, batch.provide_data, batch.provide_label)

    def _current(self, call: str) -> Module:
        self._require(call, Stage.BOUND)
        assert self._active is not None
        return self._active

    def _require(self, call: str, needs: Stage) -> None:
        require_stage(call, self.stage, needs)


def _saved_symbols(prefix: str, arguments: Params) -> tuple[SymGen, list[int]]:
    index = Path(f"{prefix}.buckets")
    if not index.exists():
        raise ValueError(f"{index} does not exist; pass the sym_gen of the saved module")
    (saved,) = load_arrays(str(index))
    assert isinstance(saved, NDArray)
    keys = [int(key) for key in saved.asnumpy()]

    def generate(key: Any) -> tuple[Symbol, list[str], list[str]]:
        symbol = load_symbol(f"{prefix}-{key}-symbol.json")
        inputs = [name for name in symbol.list_arguments() if name not in arguments]
        labels = [name for name in inputs if name.endswith("label")]
        return symbol, [name for name in inputs if name not in labels], labels

    return generate, keys
