"""Updates parameters from their gradients, over one or several devices (``mx.gluon.Trainer``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .. import optimizer as opt
from ..checkpoint import write_atomically
from ..device import Context
from ..errors import UsageError
from ..kvstore import KVStore, KVStoreBase, choose_kvstore, choose_sparse_kvstore
from ..ndarray import NDArray
from .base_parameter import Parameter
from .parameter_dict import ParameterDict

__all__ = ["Trainer"]

STALE = (
    "Gradient of Parameter `{name}` on context {context} has not been updated by backward since "
    "last `step`. This could mean a bug in your model that made it only use a subset of the "
    "Parameters (Blocks) for this iteration. If you are intentionally only using a subset, call "
    "step with ignore_stale_grad=True to suppress this warning and skip updating of Parameters "
    "with stale gradient"
)
ON_KVSTORE = (
    "{call}() when parameters are updated on kvstore is not supported. Try setting "
    "`update_on_kvstore` to False when creating trainer."
)


class LossScaler(Protocol):
    """Finds out whether gradients of a scaled loss are finite (``mx.contrib.amp``)."""

    @property
    def loss_scale(self) -> float:
        """The present factor of the loss."""

    def has_overflow(self, params: Sequence[Parameter]) -> bool:
        """Return whether a gradient is not finite, and choose the next factor."""


class Trainer:
    """An optimizer over parameters.

    Args:
        params: a ``ParameterDict``, a dict or a list of parameters; those of dicts are sorted by
            name.
        optimizer: an optimizer or its name.
        optimizer_params: arguments of a named optimizer.
        kvstore: a store, its name, or None; a single device does not need one.
        compression_params: gradient compression of the store.
        update_on_kvstore: whether the store updates the parameters; None means if it can.

    Raises:
        ValueError: ``params`` are not parameters. UsageError: parameters are on different devices,
        or ``optimizer_params`` are given with an optimizer object.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: opt.Optimizer | str,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: KVStoreBase | str | None = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        self._params = _listed(params)
        self._param2idx = {param.name: index for index, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._contains_sparse_weight = any(one._stype != "default" for one in self._params)
        self._contains_sparse_grad = any(one._grad_stype != "default" for one in self._params)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params or {}))
        # One per device, each with states of its own, over one optimizer.
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]
        self._scale = self._amp_original_scale = self._optimizer.rescale_grad
        self._amp_loss_scaler: LossScaler | None = None
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kv_initialized = False
        self._kvstore: Any = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init: list[Parameter] = list(self._params)

    # -- the optimizer ----------------------------------------------------------------------

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; raise UserWarning if a scheduler determines it."""
        self._optimizer.set_learning_rate(lr)

    # -- steps ------------------------------------------------------------------------------

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients of all devices and update the parameters.

        Args:
            batch_size: divisor of the gradients.
            ignore_stale_grad: skip parameters whose gradient no backward pass has computed since
                the last step.

        Raises:
            UserWarning: a gradient is stale and ``ignore_stale_grad`` is False.
        """
        self._optimizer.rescale_grad = self._scale / batch_size
        self._prepare()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Sum the gradients of all devices; call ``update`` afterwards.

        Raises:
            UsageError: the store updates the parameters.
        """
        self._prepare()
        if self._update_on_kvstore:
            raise UsageError(ON_KVSTORE.format(call="allreduce_grads"))
        self._allreduce_grads()

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Update the parameters from gradients that were summed already; see ``step``.

        Raises:
            UsageError: the store updates the parameters.
        """
        self._prepare()
        if self._update_on_kvstore:
            raise UsageError(ON_KVSTORE.format(call="update"))
        self._optimizer.rescale_grad = self._scale / batch_size
        self._update(ignore_stale_grad)

    # -- states -----------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Write the optimizer and its states to a file in MXNet's format."""
        self._prepare()
        if self._update_on_kvstore:
            if self._params_to_init:
                waiting = [param.name for param in self._params_to_init]
                raise UsageError(
                    "Cannot save trainer states when some parameters are not yet initialized in "
                    f"kvstore: {waiting}; run a forward pass first"
                )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            write_atomically(Path(fname), self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname: str) -> None:
        """Read the optimizer and its states from a file written by MXNet or this class."""
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            states = Path(fname).read_bytes()
            for updater in self._updaters:
                updater.set_states(states)
                # Each has read an optimizer of its own from the file; they share one again.
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        # Not in the file: MXNet leaves the parameters out of a pickled optimizer.
        self._optimizer.param_dict = dict(enumerate(self._params))

    # -- inside -----------------------------------------------------------------------------

    def _reset_kvstore(self) -> None:
        """Discard the store and its values; the next step creates another one."""
        self._kv_initialized = False
        self._kvstore, self._update_on_kvstore = None, None
        self._params_to_init = list(self._params)

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for param in self._params:
            present = param.list_ctx()
            if contexts is not None and contexts != present:
                raise UsageError(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name} is initialized on {present} while previous Parameters are "
                    f"initialized on {contexts}."
                )
            contexts = present
        return contexts or []

    def _make_optimizer(
        self, optimizer: opt.Optimizer | str, options: dict[str, Any]
    ) -> opt.Optimizer:
        param_dict = dict(enumerate(self._params))
        if isinstance(optimizer, str):
            return opt.create(optimizer, param_dict=param_dict, **options)
        if options:
            raise UsageError(
                "optimizer_params must be None if optimizer is an instance of Optimizer instead of "
                "str"
            )
        optimizer.param_dict = param_dict
        for attribute in ("lr_mult", "wd_mult"):
            optimizer.warn_of_overridden(attribute, getattr(optimizer, attribute))
        return optimizer

    def _prepare(self) -> None:
        """Create the store, and register the parameters that are initialized by now."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _init_kvstore(self) -> None:
        store, updates = self._choose_kvstore()
        self._kvstore = store
        self._update_on_kvstore = None if store is None else updates
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if updates:
                store.set_optimizer(self._optimizer)
        self._kv_initialized = True

    def _choose_kvstore(self) -> tuple[Any, bool]:
        wanted, given = self._kvstore_params["update_on_kvstore"], self._kvstore_params["kvstore"]
        if self._contains_sparse_weight:
            # Only the store has all rows; devices fetch those that a batch needs.
            store = choose_sparse_kvstore(given)
            if wanted is False:
                raise ValueError(
                    "Cannot set update_on_kvstore=False when sparse weights are present."
                )
            return store, True
        arrays = [param.data(self._contexts[0]) for param in self._params]
        store, updates = choose_kvstore(given, len(self._contexts), arrays)
        if store is None and wanted:
            raise ValueError(
                f"update_on_kvstore=True needs a store, and kvstore={given!r} makes none for "
                f"{len(self._contexts)} device(s); leave update_on_kvstore None or pass a KVStore"
            )
        if store is None:
            return None, False
        if self._contains_sparse_grad:
            if not isinstance(store, KVStore):
                raise ValueError(
                    f"Cannot use {type(store)} for multi-device training with sparse gradients"
                )
            return store, bool(wanted)
        if wanted and not store.is_capable(KVStoreBase.OPTIMIZER):
            raise ValueError(f"Please set update_on_kvstore=False when training with {type(store)}")
        return store, updates if wanted is None else bool(wanted)

    def _init_params(self) -> None:
        waiting = []
        for param in self._params_to_init if self._kvstore is not None else ():
            if param._deferred_init:
                waiting.append(param)
                continue
            arrays, index = param._all(param._data), self._param2idx[param.name]
            if param._stype != "default":
                self._kvstore.init(index, arrays[0])
            else:
                self._kvstore.broadcast(index, arrays[0], arrays)
        self._params_to_init = waiting

    def _row_sparse_pull(
        self, param: Parameter, out: Any, row_id: NDArray, full_idx: bool = False
    ) -> None:
        self._prepare()
        index = self._param2idx[param.name]
        if full_idx:
            self._kvstore.pull(index, out=out, priority=-index, ignore_sparse=False)
        else:
            self._kvstore.row_sparse_pull(index, out=out, row_ids=row_id, priority=-index)

    def _allreduce_grads(self) -> None:
        if self._kvstore is None:
            return
        for index, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            grads = param.list_grad()
            if grads[0].stype != "default":
                self._kvstore.push(index, grads, priority=-index)
                # The rows of a sparse value are pulled when they are asked for.
                if param._stype == "default":
                    out = param.list_data() if self._update_on_kvstore else grads
                    self._kvstore.pull(index, out, priority=-index, ignore_sparse=False)
            elif self._update_on_kvstore:
                self._kvstore.pushpull(index, grads, out=param.list_data(), priority=-index)
            else:
                self._kvstore.pushpull(index, grads, priority=-index)

    def _update(self, ignore_stale_grad: bool) -> None:
        scaler = self._amp_loss_scaler
        if scaler is not None and scaler.has_overflow(self._params):
            return
        updates: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in self._updaters]
        for index, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            if not ignore_stale_grad:
                _require_fresh(param)
            if self._update_on_kvstore:
                continue
            for update, array, grad in zip(
                updates, param.list_data(), param.list_grad(), strict=True
            ):
                if not ignore_stale_grad or array._fresh_grad:
                    update.append((index, grad, array))
                    array._fresh_grad = False
        for updater, update in zip(self._updaters, updates, strict=True):
            if update:
                indices, grads, arrays = (list(part) for part in zip(*update, strict=True))
                updater(indices, grads, arrays)


def _listed(params: Any) -> list[Parameter]:
    if isinstance(params, (Mapping, ParameterDict)):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ValueError(
            f"First argument must be a list or dict of Parameters, got {type(params)}."
        )
    for param in params:
        if not isinstance(param, Parameter):
            raise ValueError(
                f"First argument must be a list or dict of Parameters, got list of {type(param)}."
            )
    return list(params)


def _require_fresh(param: Parameter) -> None:
    for array in param._all(param._data):
        if not array._fresh_grad:
            raise UserWarning(STALE.format(name=param.name, context=array.context))
