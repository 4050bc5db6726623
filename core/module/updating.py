"""How a module's parameters are updated from the gradients of its devices."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import kvstore as kv
from .. import optimizer as opt
from ..checkpoint import copy_states, write_atomically, write_states
from ..compat.model_stores import _update_params
from ..errors import UsageError, did_you_mean
from ..ndarray import NDArray
from ..profiler.recorder import span
from .group import ExecutorGroup

__all__ = ["GroupUpdater"]


class GroupUpdater:
    """A module's optimizer, used directly or through a key-value store.

    On one device the optimizer updates the flat parameter buffers. With several devices a store
    sums their gradients, and then either updates its own copy of the parameters, which the devices
    fetch, or returns the sum for the devices to update their parameters with.

    Args:
        group: the executors whose parameters are updated.

    Attributes:
        optimizer: the optimizer; None until ``install``, or until a script sets the parts.
        kvstore: the store; None if none is needed.
        update_on_kvstore: whether the store updates the parameters.
        updater: updates the parameters; None if the store does.
    """

    def __init__(self, group: ExecutorGroup) -> None:
        self.param_names = list(group.spec.param_names)
        self.devices = len(group.spec.contexts)
        # MXNet's numbering of the parameters' copies, by which .states files name them.
        self._indices = [
            {name: i * self.devices + device for i, name in enumerate(self.param_names)}
            for device in range(self.devices)
        ]
        self.optimizer: opt.Optimizer | None = None
        self.kvstore: kv.KVStore | None = None
        self.update_on_kvstore = False
        self.updater: Callable[..., None] | None = None

    def install(
        self,
        group: ExecutorGroup,
        arg_params: Mapping[str, NDArray],
        kvstore: kv.KVStoreBase | str | None,
        optimizer: opt.Optimizer | str,
        options: dict[str, Any],
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        """Choose all parts as ``Module.init_optimizer`` does.

        Args:
            group: the executors whose parameters are updated.
            arg_params: the current values of the parameters.
            kvstore: a store, its name, or None.
            optimizer: an optimizer or its name.
            options: arguments of a named optimizer; ``rescale_grad`` is 1/batch_size by default.
            compression: parameters of the store's gradient compression, if any.
        """
        self.kvstore, self.update_on_kvstore = kv.choose_kvstore(
            kvstore, self.devices, arg_params.values()
        )
        self.optimizer = self._make_optimizer(group, optimizer, options)
        self.updater = None if self.update_on_kvstore else opt.get_updater(self.optimizer)
        if self.kvstore is not None:
            if compression:
                self.kvstore.set_gradient_compression(compression)
            self._fill_kvstore(self.kvstore, group, arg_params)

    def update(self, group: ExecutorGroup) -> None:
        """Update the parameters of a group (of any bucket) from its gradients.

        Raises:
            UsageError: a script has removed both the updater and the store.
        """
        if self.updater is None and not (self.kvstore is not None and self.update_on_kvstore):
            raise UsageError(
                "update() has neither an updater nor a store that updates the parameters; call "
                "init_optimizer(force_init=True), or set _updater"
            )
        if self.kvstore is not None:
            with span("api", "KVStore.pushpull"):
                self._exchange(self.kvstore, group)
        if isinstance(self.updater, opt.Updater):
            with span("api", f"{type(self.optimizer).__name__}.update"):
                for device in range(self.devices):
                    self._update_device(self.updater, group, device)
        elif self.updater is not None:
            _update_params(group.param_arrays, group.grad_arrays or (), self.updater, self.devices)

    def pull_rows(self, group: ExecutorGroup, row_ids: Any) -> None:
        """Fetch the rows of ``row_sparse`` parameters that a batch needs.

        The devices then have these rows and no others.

        Args:
            group: the executors.
            row_ids: row numbers by parameter, for all devices or as a list with one per device.

        Raises:
            UsageError: not a dict, or a name that is not a parameter.
        """
        if not isinstance(row_ids, Mapping):
            raise UsageError(
                f"sparse_row_id_fn returned {type(row_ids).__name__}; expected a dict of row "
                "numbers by parameter"
            )
        assert self.kvstore is not None
        for name, rows in row_ids.items():
            if name not in self.param_names:
                raise UsageError(
                    f"sparse_row_id_fn: {name!r} is not a parameter"
                    f"{did_you_mean(name, self.param_names)}"
                )
            arrays = group.param_arrays[self.param_names.index(name)]
            if arrays[0].stype == "row_sparse":
                self.kvstore.row_sparse_pull(name, arrays, row_ids=rows)
                continue
            warnings.warn(
                f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.",
                stacklevel=4,
            )

    def fetch_rows(self, parameters: Mapping[str, NDArray]) -> None:
        """Fetch all rows of ``row_sparse`` parameters if the store updates them."""
        if self.kvstore is None or not self.update_on_kvstore:
            return
        for name, array in parameters.items():
            if array.stype == "row_sparse":
                self.kvstore.pull(name, array, ignore_sparse=False)

    def save_states(self, fname: str) -> None:
        """Write the optimizer's states to a file."""
        if self.updater is not None:
            write_atomically(Path(fname), self._own_updater().get_states())
        elif self.kvstore is not None:
            self.kvstore.save_optimizer_states(fname)

    def copy_states(self) -> Callable[[], bytes]:
        """Copy the optimizer's states; return a function that serializes the copy.

        It may be called at any later time and in any thread.
        """
        updater = self._updater_of_states()
        if updater is not None:
            return partial(write_states, copy_states(updater.states))
        with tempfile.TemporaryDirectory(prefix="modserve-") as directory:
            path = Path(directory) / "optimizer.states"
            self.save_states(str(path))  # now, since later steps change the states
            return partial(bytes, path.read_bytes())

    def set_states(self, content: bytes) -> None:
        """Set the states from the content of a states file."""
        updater = self._updater_of_states()
        if updater is not None:
            updater.set_states(content)
            return
        with tempfile.TemporaryDirectory(prefix="modserve-") as directory:
            path = Path(directory) / "optimizer.states"
            path.write_bytes(content)
            self.load_states(str(path))

    def _updater_of_states(self) -> opt.Updater | None:
        """Return the updater that has the states, or None if a user's own kind of store has them.

        Such a store can only write its states to a file.
        """
        if self.updater is not None:
            return self._own_updater()
        updater = self.kvstore.updater if isinstance(self.kvstore, kv.KVStore) else None
        return updater if isinstance(updater, opt.Updater) else None

    def _own_updater(self) -> opt.Updater:
        """Return the updater; UsageError if it is a script's own function, which has no states."""
        if not isinstance(self.updater, opt.Updater):
            raise UsageError(
                f"the module's _updater is {type(self.updater).__name__}, which has no states to "
                "save or load; set one made by mx.optimizer.get_updater()"
            )
        return self.updater

    def load_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        if self.updater is not None:
            self._own_updater().set_states(Path(fname).read_bytes())
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
        ignored = optimizer.multipliers_ignored(group.spec.symbol)
        if ignored:
            warnings.warn(
                f"the symbol's lr_mult and wd_mult of {', '.join(sorted(set(ignored)))} have no "
                "effect: an optimizer object does not know the symbol; create it with "
                "sym=symbol, or give the optimizer's name and optimizer_params",
                stacklevel=5,
            )
        if not optimizer.idx2name:
            optimizer.idx2name = names
        return optimizer

    def _index_names(self) -> dict[int, str]:
        """Return the parameter name of each index that the optimizer is called with."""
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
            assert self.optimizer is not None
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
            if self.update_on_kvstore:
                store.pushpull(name, grads, out=weights)
            else:
                store.push(name, grads)
                store.pull(name, grads, ignore_sparse=False)

    def _update_device(self, updater: opt.Updater, group: ExecutorGroup, device: int) -> None:
        index, parameters = self._indices[device], group.parameters[device]
        singly = [name for name in parameters.apart if name in index]
        for weights, gradients in zip(parameters.weights, parameters.gradients, strict=True):
            chosen = {name: index[name] for name in weights.views if name in index}
            if updater.can_update_flat(weights):
                updater.update_flat(chosen, weights, gradients)
            else:
                singly.extend(chosen)
        if not singly:
            return
        # In MXNet's order, because results depend on it: Nadam's momentum schedule advances with
        # every parameter, and LARS corrects the momentum only of the parameters updated first.
        singly.sort(key=lambda name: index[name])
        updater(
            [index[name] for name in singly],
            [parameters.gradient(name) for name in singly],
            [parameters.value(name) for name in singly],
        )
