"""Training by stochastic variance-reduced gradients."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ...device import Context
from ...errors import UsageError
from ...module import Module
from ...module.lifecycle import Stage
from ...ndarray import NDArray, zeros
from ...optimizer import Optimizer
from ...symbol import Symbol
from .svrg_optimizer import FULL, _SVRGOptimizer

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """A module that trains with variance-reduced gradients.

    Every ``update_freq`` epochs a second module takes a snapshot of the parameters and computes
    its mean gradient over all data. For each batch, the optimizer receives the gradient minus the
    second module's gradient of the same batch plus that mean.

    Args:
        update_freq: number of epochs between snapshots.
        symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names,
            state_names, group2ctxs, compression_params: as of ``Module``.

    Raises:
        TypeError: ``update_freq`` is not an integer.
        ValueError: it is not positive.
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
        compression_params: Any = None,
        update_freq: int | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        super().__init__(symbol, data_names, label_names, logger, **options)
        if not isinstance(update_freq, int):
            raise TypeError(f"update_freq is {update_freq!r}; expected a number of epochs")
        if update_freq <= 0:
            raise ValueError(f"update_freq is {update_freq}; expected a positive number of epochs")
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, data_names, label_names, logger, **options)
        self._param_dict: list[dict[str, NDArray]] | None = None
        self._ctx_len = len(self._context)

    # -- both modules -----------------------------------------------------------------------

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
        """Bind both modules, the second one for training alone; see ``Module.bind``."""
        options = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind)
        super().bind(*options, shared_module, grad_req)
        if for_training:
            shared = shared_module._mod_aux if isinstance(shared_module, SVRGModule) else None
            self._mod_aux.bind(*options, shared, grad_req)

    def reshape(
        self, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None = None
    ) -> None:
        """Change the input shapes of both modules."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, in training by both modules."""
        super().forward(data_batch, is_train)
        if self.for_training if is_train is None else is_train:
            if not self._mod_aux.params_initialized:
                raise UsageError(
                    "SVRGModule needs the gradients over all data before training: call "
                    "update_full_grads(train_data) first"
                )
            self._mod_aux.forward(data_batch, True)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of both modules."""
        super().backward(out_grads)
        self._mod_aux.backward(out_grads)

    # -- gradients over all data ------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Optimizer | str = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer; a store runs it and also sums up the full gradients."""
        self._require("init_optimizer()", Stage.INITIALIZED)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        arguments, _ = self.get_params()
        self._param_dict = [
            {name: zeros(one.shape, context, one.dtype) for name, one in arguments.items()}
            for context in self._context
        ]
        params = {"rescale_grad": 1.0 / self.executor_group.batch_size, **dict(optimizer_params)}
        wrapped = _SVRGOptimizer(optimizer, param_idx2name=self._names_by_index(), **params)
        super().init_optimizer(kvstore, wrapped, params, force_init)
        if self.kvstore is not None:
            for name in self._param_names:
                self.kvstore.init(name + FULL, zeros(arguments[name].shape))

    def _names_by_index(self) -> dict[int, str]:
        """Return the names of parameters on each device, then those of the full gradients."""
        names = [name for name in self._param_names for _ in range(self._ctx_len)]
        return dict(enumerate([*names, *(name + FULL for name in self._param_names)]))

    def update_full_grads(self, train_data: Any) -> None:
        """Copy the parameters to the second module, and compute its gradients over all data.

        Args:
            train_data: the iterator, which is reset first.
        """
        self._require("update_full_grads()", Stage.READY)
        sums = self._full_gradients()
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        batches, padding = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            batches += 1
            padding = batch.pad or 0
            # As in MXNet, the previous mean is included as if it were one more sum of gradients.
            for name, of_devices in self._gradients(self._mod_aux):
                for device, gradient in enumerate(of_devices):
                    sums[device][name] += gradient
        count = batches - padding / train_data.batch_size
        for name, _ in self._gradients(self._mod_aux):
            for of_device in sums:
                of_device[name] /= count
            if self.kvstore is not None:
                self._accumulate_kvstore(name, [of_device[name] for of_device in sums])

    def update(self) -> None:
        """Update the parameters with variance-reduced gradients."""
        self._require("update()", Stage.READY)
        self._update_svrg_gradients()
        super().update()

    def _update_svrg_gradients(self) -> None:
        """Subtract the second module's gradients, and add the mean over all data."""
        means = self._full_gradients()
        pairs = zip(self._gradients(self), self._gradients(self._mod_aux), strict=True)
        for (name, own), (_, others) in pairs:
            for device, gradient in enumerate(own):
                self._svrg_grads_update_rule(gradient, others[device], means[device][name])

    def _svrg_grads_update_rule(self, gradient: NDArray, other: NDArray, mean: NDArray) -> NDArray:
        gradient -= other
        gradient += mean
        return gradient

    def _full_gradients(self) -> list[dict[str, NDArray]]:
        assert self._param_dict is not None
        return self._param_dict

    @staticmethod
    def _gradients(module: Module) -> list[tuple[str, list[NDArray]]]:
        """Return the gradients of each parameter that has any, on all devices."""
        group = module.executor_group
        return [
            (name, [one for one in of_devices if one is not None])
            for name, of_devices in zip(
                group.spec.param_names, group.grad_arrays or [], strict=True
            )
            if of_devices[0] is not None
        ]

    def _accumulate_kvstore(self, key: str, value: list[NDArray]) -> None:
        """Sum full gradients over all devices and machines."""
        assert self.kvstore is not None
        self.kvstore.push(key + FULL, value)
        self.kvstore.pull(key + FULL, value)
        self._allocate_gradients(key, value)

    def _allocate_gradients(self, key: str, value: Sequence[NDArray]) -> None:
        """Store each device's share of a sum of full gradients."""
        for of_device, total in zip(self._full_gradients(), value, strict=False):
            of_device[key] = total / self._ctx_len

    def _fit_epoch(self, epoch: int, train_data: Any, *args: Any, **kwargs: Any) -> Any:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
            train_data.reset()
        return super()._fit_epoch(epoch, train_data, *args, **kwargs)
