"""The module: a symbol with its parameters, memory and optimizer (``mx.mod.Module``)."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..checkpoint import load_checkpoint, save_checkpoint
from ..compat.module_names import ModuleNames
from ..device import Context, current_context
from ..errors import StageError, UsageError
from ..initializer import Uniform
from ..io import DataDesc
from ..io.inputs import check_input_names, describe_inputs
from ..kvstore import KVStore
from ..ndarray import NDArray
from ..optimizer import Optimizer
from ..symbol import Symbol
from .base_module import BaseModule, Params
from .checks import group_contexts
from .group import ExecutorGroup
from .group_spec import GroupSpec
from .host_parameters import HostParameters
from .lifecycle import Stage, StepState, require_stage
from .shapes import other_shapes, shape_key
from .updating import GroupUpdater

__all__ = ["Module"]

_SHAPES_KEPT = 8
"""The number of input shapes whose executors a module keeps; the least recently used are freed."""


class Module(ModuleNames, BaseModule):
    """A symbol that is bound, initialized, trained and used for prediction.

    Args:
        symbol: what is computed.
        data_names: arguments that come from a batch's data, in its order.
        label_names: arguments that come from a batch's labels.
        logger: for progress lines.
        context: a device, or several that share each batch.
        work_load_list: relative shares of the devices.
        fixed_param_names: parameters that are not trained.
        state_names: arguments that are neither data nor parameters, kept between batches.
        group2ctxs: device of each ``ctx_group``.
        compression_params: gradient compression of the key-value store.

    Raises:
        ValueError: a name is not an argument of the symbol.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger)
        context = context or current_context()
        self._context = [context] if isinstance(context, Context) else list(context)
        self._work_load_list = list(work_load_list or [1] * len(self._context))
        if len(self._work_load_list) != len(self._context):
            raise UsageError(
                f"{len(self._work_load_list)} work loads for {len(self._context)} devices"
            )
        self._compression_params = dict(compression_params or {})
        self._group2ctxs = group_contexts(group2ctxs, len(self._context))
        self._symbol: Symbol = symbol
        self._data_names = list(data_names or ())
        self._label_names = list(label_names or ())
        self._state_names = list(state_names or ())
        self._fixed_param_names = list(fixed_param_names or ())
        check_input_names(symbol, self._data_names, "data", required=True)
        check_input_names(symbol, self._label_names, "label", required=False)
        check_input_names(symbol, self._state_names, "state", required=True)
        check_input_names(symbol, self._fixed_param_names, "fixed_param", required=True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._host: HostParameters = HostParameters()
        self._updates: GroupUpdater | None = None
        self._preload_opt_states: str | None = None
        self._monitor: Any = None
        self._exec_group: ExecutorGroup | None = None
        self._groups: OrderedDict[Any, ExecutorGroup] = OrderedDict()
        self._step = StepState.IDLE

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Return a module from ``prefix-symbol.json`` and ``prefix-NNNN.params``.

        With ``load_optimizer_states`` the next ``init_optimizer`` loads the states of
        ``prefix-NNNN.states``.
        """
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._host.adopt(arguments, auxiliary)
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(
        self,
        prefix: str,
        epoch: int,
        save_optimizer_states: bool = False,
        remove_amp_cast: bool = True,
    ) -> None:
        """Write the symbol, the parameters and optionally the optimizer's states."""
        self._require("save_checkpoint()", Stage.INITIALIZED)
        save_checkpoint(prefix, epoch, self._symbol, *self.get_params(), remove_amp_cast)
        if save_optimizer_states:
            states = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(states)
            self.logger.info('Saved optimizer state to "%s"', states)

    # -- what it is -------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the bound data inputs."""
        return self._group("data_shapes").data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the bound labels; None if there are none."""
        return self._group("label_shapes").label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs of a whole batch."""
        return self._group("output_shapes").output_shapes()

    @property
    def executor_group(self) -> ExecutorGroup:
        """The executors of the current shapes, one per device; StageError unless bound."""
        return self._group("executor_group")

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer installed; None if there is none."""
        return self._updates.optimizer if self._updates else None

    @property
    def kvstore(self) -> KVStore | None:
        """The store that gradients or parameters go through; None if none is needed."""
        return self._updates.kvstore if self._updates else None

    # -- binding ----------------------------------------------------------------------------

    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Infer all shapes and allocate memory.

        Args:
            data_shapes: descriptions or (name, shape) pairs, for whole batches.
            label_shapes: the same for the labels; None if none are given.
            for_training: allocate gradients.
            inputs_need_grad: compute gradients of the data inputs too.
            force_rebind: bind again; parameters keep their values.
            shared_module: a bound module whose parameters and memory are reused.
            grad_req: ``"write"``, ``"add"`` or ``"null"``, for all or by argument.
        """
        if force_rebind or not self.binded:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise UsageError("inputs_need_grad needs for_training=True")
        data, labels = describe_inputs(
            self._data_names, self._label_names, data_shapes, label_shapes
        )
        shared = None
        if shared_module is not None:
            shared_module._require("bind(shared_module=...) of the other module", Stage.INITIALIZED)
            shared = shared_module._exec_group
        spec = GroupSpec(
            self._symbol,
            self._context,
            self._work_load_list,
            self._param_names,
            self._state_names,
            self._fixed_param_names,
            for_training,
            inputs_need_grad,
            grad_req,
            self._group2ctxs,
        )
        group = ExecutorGroup(spec, data, labels, shared)
        self._use_group(group)
        self._step = StepState.FRESH
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        if shared_module is not None:
            self._host = shared_module._host
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self._host.known:
            group.set_params(self._host.arguments, self._host.auxiliary)

    def reshape(
        self, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None = None
    ) -> None:
        """Change the input shapes, keeping parameters and memory."""
        current = self._group("reshape()")
        data, labels = describe_inputs(
            self._data_names, self._label_names, data_shapes, label_shapes
        )
        key = shape_key(data, labels)
        known = self._groups.get(key)
        group = known or ExecutorGroup(current.spec, data, labels, current)
        # Covers callbacks that a script set on the executors; _use_group() installs the module's.
        for executor, watched in zip(group.execs, current.execs, strict=True):
            executor.adopt_monitor(watched)
        self._use_group(group)

    def _use_group(self, group: ExecutorGroup) -> None:
        key = shape_key(group.data_shapes, group.label_shapes)
        if self._monitor is not None and key not in self._groups:
            group.install_monitor(self._monitor)
        self._groups[key] = group
        self._groups.move_to_end(key)
        self._is_marked_unbound = False
        while len(self._groups) > _SHAPES_KEPT:
            self._groups.popitem(last=False)
        self._exec_group = group
        self._step = StepState.IDLE

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays of all devices, for the current shapes and any later ones."""
        self._group("install_monitor()").install_monitor(mon)
        self._monitor = mon

    def remove_monitor(self) -> None:
        """Remove the installed monitor; plans are optimized and share memory again."""
        self._monitor = None
        for group in self._groups.values():
            for executor in group.execs:
                executor.set_monitor_callback(None)

    def _group(self, call: str) -> ExecutorGroup:
        group = self._exec_group
        if group is None or self._is_marked_unbound:
            require_stage(call, Stage.CREATED, Stage.BOUND)
        assert group is not None
        return group

    def _initialized_group(self, call: str) -> ExecutorGroup:
        """Return the executors; StageError unless the parameters have values."""
        group = self._exec_group
        if group is None or self._is_marked_unbound or not self._host.known:
            self._require(call, Stage.INITIALIZED)
        assert group is not None
        return group

    # -- parameters -------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return (arguments, auxiliary states) by name, averaged over the devices."""
        if not self._host.known:
            self._require("get_params()", Stage.INITIALIZED)
        if self._exec_group is not None:
            self._host.sync(self._exec_group)
        return self._host.arguments, self._host.auxiliary

    def release_params(self) -> None:
        """Let go of the host's copy of the parameters; ``get_params()`` makes another one."""
        self._host.release(self._initialized_group("release_params()"))

    def init_params(
        self,
        initializer: Callable[[str, NDArray], None] | None = Uniform(0.01),  # noqa: B008
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters to the given values, and initialize those that are not given.

        Args:
            initializer: called with each parameter that is not given.
            arg_params, aux_params: values by name.
            allow_missing: let the initializer fill in parameters missing from these.
            force_init: initialize again.
            allow_extra: only affects ``set_params``; this method always ignores names that the
                symbol does not have, as MXNet does.

        Raises:
            RuntimeError: a parameter is missing and ``allow_missing`` is False.
        """
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.",
                stacklevel=2,
            )
            return
        group = self._group("init_params()")
        self._host.initialize(group, initializer, arg_params, aux_params, allow_missing)

    def set_params(
        self,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameter values; with ``allow_missing`` those not given keep theirs."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. set_params call ignored.",
                stacklevel=2,
            )
            return
        self._host.overwrite(self._group("set_params()"), arg_params, aux_params, allow_extra)

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        """Fetch the rows of ``row_sparse`` parameters that a batch needs.

        Args:
            data_batch: the next batch.
            sparse_row_id_fn: maps the batch to a dict of row numbers by parameter.
        """
        self._require("prepare()", Stage.BOUND)
        if sparse_row_id_fn is None:
            return
        if self._updates is None or not self._updates.update_on_kvstore:
            warnings.warn(
                "Parameters are not updated in the KVStore. No need to call sparse_row_id_fn.",
                stacklevel=2,
            )
            return
        self._updates.pull_rows(self._group("prepare()"), sparse_row_id_fn(data_batch))

    # -- optimizer --------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: KVStore | str | None = "local",
        optimizer: Optimizer | str = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer; one given by name gets ``rescale_grad`` 1/batch_size by default."""
        self._require("init_optimizer()", Stage.INITIALIZED)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        group = self._group("init_optimizer()")
        updates = GroupUpdater(group)
        updates.install(
            group,
            self.get_params()[0],
            kvstore,
            optimizer,
            dict(optimizer_params),
            self._compression_params,
        )
        self._updates = updates
        self._is_marked_without_optimizer = False
        self._host.fetch_rows = updates.fetch_rows
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use the optimizer, states and store of another module with the same parameters."""
        shared_module._require("borrow_optimizer() of the other module", Stage.READY)
        self._updates = shared_module._updates
        self._is_marked_without_optimizer = False

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file in MXNet's format."""
        self._optimizer_of("save_optimizer_states()").save_states(fname)

    def copy_optimizer_states(self) -> Callable[[], bytes]:
        """Copy the optimizer's states; return a function that serializes the copy in any thread."""
        return self._optimizer_of("copy_optimizer_states()").copy_states()

    def set_optimizer_states(self, content: bytes) -> None:
        """Set the optimizer's states from the content of a states file."""
        self._optimizer_of("set_optimizer_states()").set_states(content)

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file that MXNet or this class wrote."""
        self._optimizer_of("load_optimizer_states()").load_states(fname)

    def _optimizer_of(self, call: str) -> GroupUpdater:
        self._require(call, Stage.READY)
        if self._updates is None:  # a script has only set optimizer_initialized
            require_stage(call, Stage.INITIALIZED, Stage.READY)
        assert self._updates is not None
        return self._updates

    def _new_updates(self) -> GroupUpdater:
        return GroupUpdater(self._group("setting a part of the optimizer"))

    # -- steps ------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, rebinding if its size or shapes differ from the last.

        Args:
            data_batch: a batch, or a list of one batch per device.
            is_train: run a training pass; None for what the module was bound for.
        """
        # The state before reshape(), which resets it: an inference pass of another shape between
        # backward() and update() must not invalidate the gradients.
        group, step = self._initialized_group("forward()"), self._step
        other = other_shapes(data_batch, group)
        if other is not None:
            self.reshape(*other)
            group = self._group("forward()")
        training = self.for_training if is_train is None else is_train
        if training:
            self._note_updated_states(group)
        group.forward(data_batch, training)
        self._step = step.after_forward(is_training=training and self.for_training)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward pass; may be called repeatedly.

        A training pass must have run before. If an inference pass has followed it, the gradients
        are those of the inference pass, as in MXNet.

        Args:
            out_grads: gradients of the outputs; not needed for outputs of loss layers.
        """
        group = self._initialized_group("backward()")
        if not self.for_training:
            raise StageError("backward() needs a module bound with for_training=True")
        if self._step is StepState.IDLE:
            raise StageError(
                "backward() needs a training pass before it; call forward(batch, is_train=True)"
            )
        grads = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or ())
        self._note_updated_states(group)
        group.backward(grads)
        self._step = StepState.BACKWARDED

    def _note_updated_states(self, group: ExecutorGroup) -> None:
        """Mark the host's copy as outdated: a pass updates auxiliary states on the devices."""
        self._host.dirty = self._host.dirty or bool(group.spec.auxiliary)

    def update(self) -> None:
        """Update the parameters from the gradients of the last backward pass."""
        self._require("update()", Stage.READY)
        if self._step in (StepState.IDLE, StepState.FORWARDED):
            raise StageError("update() needs gradients; call forward(batch) and backward() first")
        self._host.dirty = True
        self._optimizer_of("update()").update(self._group("update()"))

    @property
    def awaits_backward(self) -> bool:
        """True from a training pass until its backward pass."""
        return self._step is StepState.FORWARDED

    @property
    def has_gradients(self) -> bool:
        """True once a backward pass has followed the last forward pass."""
        return self._step is StepState.BACKWARDED

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last forward pass.

        They are not copies: the next pass overwrites them.
        """
        return self._initialized_group("get_outputs()").get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data inputs."""
        group = self._initialized_group("get_input_grads()")
        if not self.inputs_need_grad:
            raise StageError("get_input_grads() needs bind(..., inputs_need_grad=True)")
        return group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states; unmerged, as a list of the devices' arrays for each state."""
        arrays = self._initialized_group("get_states()").state_arrays
        if not merge_multi_context:
            return arrays
        if len(self._context) > 1:
            raise UsageError(
                f"the states of {len(self._context)} devices cannot be merged; call "
                "get_states(merge_multi_context=False)"
            )
        return [copies[0] for copies in arrays]

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states from arrays (per state, per device), or all to one value."""
        self._initialized_group("set_states()").set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the last outputs."""
        self._group("update_metric()").update_metric(eval_metric, labels, pre_sliced)

    # -- checks -----------------------------------------------------------------------------

    def _require(self, call: str, needs: Stage) -> None:
        require_stage(call, self.stage, needs)
