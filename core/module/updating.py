"""How a module's parameters are updated from the gradients of its devices."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import kvstore as kv
from core import optimizer as opt
from core.checkpoint import write_atomically
from core.errors import UsageError, did_you_mean
from core.executor.sparse import gradient_storages
from core.module.checks import storage_type
from core.module.group import ExecutorGroup
from core.ndarray import NDArray
from core.profiler.recorder import span

__all__ = ["GroupUpdater"]


class GroupUpdater:
    """An optimizer installed in a module: alone, or behind a key-value store.

    With one device the optimizer runs over the flat parameters. With several, a store sums their
    gradients and either updates its own copy, which the devices fetch, or hands the sum back.

    Args:
        group: the executors whose parameters are updated.
        arg_params: the parameters' present values.
        kvstore: a store, its name, or None.
        optimizer: an optimizer or its name.
        options: arguments of a named optimizer; ``rescale_grad`` is 1/batch_size by default.
        compression: parameters of the store's gradient compression, if any.
    """

    def __init__(
        self,
        group: ExecutorGroup,
        arg_params: Mapping[str, NDArray],
        kvstore: kv.KVStoreBase | str | None,
        optimizer: opt.Optimizer | str,
        options: dict[str, Any],
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        self.param_names = list(group.spec.param_names)
        self.devices = len(group.spec.contexts)
        self.kvstore, self.update_on_kvstore = kv.choose_kvstore(
            kvstore, self.devices, arg_params.values()
        )
        self.sparse = _sparse_parameters(group)
        self.optimizer = self._make_optimizer(group, optimizer, options)
        self.updater = None if self.update_on_kvstore else opt.get_updater(self.optimizer)
        if self.kvstore is not None:
            if compression:
                self.kvstore.set_gradient_compression(compression)
            self._fill_kvstore(self.kvstore, group, arg_params)

    def update(self, group: ExecutorGroup) -> None:
        """Update the parameters of a group (of any bucket) from its gradients."""
        if self.kvstore is not None:
            with span("api", "KVStore.pushpull"):
                self._exchange(self.kvstore, group)
        if self.updater is not None:
            with span("api", f"{type(self.optimizer).__name__}.update"):
                for device in range(self.devices):
                    self._update_device(self.updater, group, device)

    def pull_rows(self, group: ExecutorGroup, row_ids: Any) -> None:
        """Check which rows of ``row_sparse`` parameters a batch needs.

        The devices hold whole parameters and get these by every update: there is nothing to fetch.

        Raises:
            UsageError: no dict, or a name that is no parameter.
        """
        if not isinstance(row_ids, Mapping):
            raise UsageError(
                f"sparse_row_id_fn returned {type(row_ids).__name__}; expected a dict of row "
                "numbers by parameter"
            )
        attributes = group.spec.symbol.attr_dict()
        for name in row_ids:
            if name not in self.param_names:
                raise UsageError(
                    f"sparse_row_id_fn: {name!r} is no parameter"
                    f"{did_you_mean(name, self.param_names)}"
                )
            if storage_type(attributes, name) != "row_sparse":
                warnings.warn(
                    f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.",
                    stacklevel=4,
                )

    def save_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        if self.updater is not None:
            write_atomically(Path(fname), self.updater.get_states())
        elif self.kvstore is not None:
            self.kvstore.save_optimizer_states(fname)

    def load_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        if self.updater is not None:
            self.updater.set_states(Path(fname).read_bytes())
        elif self.kvstore is not None:
            self.kvstore.load_optimizer_states(fname)

    def _make_optimizer(
        self, group: ExecutorGroup, optimizer: opt.Optimizer | str, options: dict[str, Any]
    ) -> opt.Optimizer:
        rescale_grad = 1.0 / group.batch_size if group.batch_size else 1.0
        names = self._index_names()
        if isinstance(optimizer, str):
            options = {"rescale_grad": rescale_grad, **options}
            return opt.create(optimizer, sym=group.spec.symbol, param_idx2name=names, **options)
        if optimizer.rescale_grad != rescale_grad:
            warnings.warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized "
                f"to 1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale_grad}). "
                "Is this intended?",
                stacklevel=5,
            )
        if not optimizer.idx2name:
            optimizer.idx2name = names
        return optimizer

    def _index_names(self) -> dict[int, str]:
        """Return the parameter name of each index the optimizer is called with."""
        copies = 1 if self.update_on_kvstore else self.devices
        return {
            position * copies + device: name
            for position, name in enumerate(self.param_names)
            for device in range(copies)
        }

    def _fill_kvstore(
        self, store: kv.KVStore, group: ExecutorGroup, arg_params: Mapping[str, NDArray]
    ) -> None:
        if self.update_on_kvstore:
            store.set_optimizer(self.optimizer)
        for name, copies in zip(self.param_names, group.param_arrays, strict=True):
            store.init(name, arg_params[name])
            if self.update_on_kvstore:
                store.pull(name, copies)

    def _exchange(self, store: kv.KVStore, group: ExecutorGroup) -> None:
        """Sum the gradients of the devices; get them or the updated weights back."""
        names = group.spec.param_names
        for name, weights, grads in zip(
            names, group.param_arrays, group.grad_arrays or [], strict=True
        ):
            if grads[0] is None:
                continue
            if self.update_on_kvstore and name in self.sparse:
                store.push(name, [grad.tostype("row_sparse") for grad in grads if grad is not None])
                store.pull(name, weights)
            else:
                store.pushpull(name, grads, out=weights if self.update_on_kvstore else grads)

    def _update_device(self, updater: opt.Updater, group: ExecutorGroup, device: int) -> None:
        index = {name: i * self.devices + device for i, name in enumerate(self.param_names)}
        parameters = group.parameters[device]
        singly: list[str] = []
        for weights, gradients in zip(parameters.weights, parameters.gradients, strict=True):
            chosen = {name: index[name] for name in weights.views if name in index}
            if updater.can_update_flat(weights):
                dense = {name: key for name, key in chosen.items() if name not in self.sparse}
                updater.update_flat(dense, weights, gradients)
                singly.extend(chosen.keys() - dense.keys())
            else:
                singly.extend(chosen)
        # In MXNet's order, which matters to Nadam and LARS: their parameters share a schedule.
        singly.sort(key=lambda name: index[name])
        values = {name: parameters.value(name) for name in singly}
        stored = {
            name: value.tostype("row_sparse")
            for name, value in values.items()
            if self.sparse.get(name) == "row_sparse"
        }
        updater(
            [index[name] for name in singly],
            [self._stored_gradient(name, parameters.gradient(name)) for name in singly],
            [stored.get(name, values[name]) for name in singly],
        )
        for name, value in stored.items():
            value.copyto(values[name])

    def _stored_gradient(self, name: str, gradient: NDArray | None) -> NDArray | None:
        """Return a gradient in the storage type that MXNet gives it."""
        if gradient is None or name not in self.sparse:
            return gradient
        return gradient.tostype("row_sparse")


def _sparse_parameters(group: ExecutorGroup) -> dict[str, str]:
    """Return the parameters of whose gradients MXNet keeps a few rows, with their storage types.

    Lazy updates leave the other rows of the parameter and its states alone.
    """
    attributes = group.spec.symbol.attr_dict()
    return {
        name: storage_type(attributes, name)
        for name, stype in gradient_storages(group.execs[0].graph).items()
        if stype == "row_sparse"
    }
