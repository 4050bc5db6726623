"""Modules in a chain: the outputs of each are the data of the next."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

from ..compat.module_names import SequentialNames
from ..errors import UsageError
from ..initializer import Uniform
from ..io import DataDesc
from ..io.inputs import describe
from ..ndarray import NDArray
from .base_module import BaseModule, Params
from .lifecycle import Stage, require_stage

__all__ = ["SequentialModule"]


class SequentialModule(SequentialNames, BaseModule):
    """A chain of modules. If the modules can be written as one symbol, one Module is faster.

    Args:
        logger: for progress lines.
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: list[DataDesc] | None = None

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Append a module; return the chain.

        Args:
            module: the next module; the chain must then be bound and initialized again.
            **kwargs: ``take_labels=True`` passes it the labels of the batch,
                ``auto_wiring=True`` matches the previous outputs to its data names by position.
        """
        known = (self.META_TAKE_LABELS, self.META_AUTO_WIRING)
        for key in kwargs:
            if key not in known:
                raise UsageError(f'Unknown meta "{key}", a typo? Use one of {", ".join(known)}')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        """Names of the first module's data inputs."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """Names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the first module's data inputs."""
        self._require("data_shapes", Stage.BOUND)
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels; None if no module takes any."""
        self._require("label_shapes", Stage.BOUND)
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the last module's outputs."""
        self._require("output_shapes", Stage.BOUND)
        return self._modules[-1].output_shapes

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
        """Bind the modules in order, each to the output shapes of the previous one."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise UsageError("inputs_need_grad needs for_training=True")
        if shared_module is not None:
            raise UsageError("shared_module for SequentialModule is not supported")
        if not self._modules:
            raise UsageError("a SequentialModule without modules cannot be bound; add() some")
        shapes: Sequence[Any] = describe(data_shapes)
        for position, (module, meta) in enumerate(zip(self._modules, self._metas, strict=True)):
            if meta.get(self.META_AUTO_WIRING):
                shapes = _renamed(shapes, module.data_names)
            module.bind(
                shapes,
                label_shapes if meta.get(self.META_TAKE_LABELS) else None,
                for_training,
                # The previous module's backward pass starts from them.
                inputs_need_grad or (for_training and position > 0),
                force_rebind,
                grad_req=grad_req,
            )
            shapes = module.output_shapes
        takes_labels = any(meta.get(self.META_TAKE_LABELS) for meta in self._metas)
        self._label_shapes = describe(label_shapes) if takes_labels and label_shapes else None
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.binded = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return the parameters of all modules."""
        self._require("get_params()", Stage.INITIALIZED)
        return self._collect()

    def init_params(
        self,
        initializer: Any = Uniform(0.01),  # noqa: B008 - MXNet's default, never changed
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize all modules.

        Raises:
            UsageError: two modules have a parameter of the same name.
        """
        if self.params_initialized and not force_init:
            return
        self._require("init_params()", Stage.BOUND)
        for module in self._modules:
            module.init_params(
                initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
            )
        self._collect()
        self.params_initialized = True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer in every module."""
        self._require("init_optimizer()", Stage.INITIALIZED)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run the modules in order."""
        self._require("forward()", Stage.INITIALIZED)
        batch = copy.copy(data_batch)  # its data is replaced, which the caller must not see
        for position, module in enumerate(self._modules):
            module.forward(batch, is_train=is_train)
            if position + 1 == len(self._modules):
                return
            batch.data = module.get_outputs()
            if hasattr(batch, "provide_data"):
                names = self._modules[position + 1].data_names
                batch.provide_data = [
                    DataDesc(name, one.shape, one.dtype)
                    for name, one in zip(names, batch.data, strict=True)
                ]

    def backward(self, out_grads: Any = None) -> None:
        """Compute gradients from the last module to the first."""
        self._require("backward()", Stage.INITIALIZED)
        for position, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads=out_grads)
            if position > 0:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        """Update the parameters of every module."""
        self._require("update()", Stage.READY)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last module."""
        self._require("get_outputs()", Stage.INITIALIZED)
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the first module's data inputs."""
        self._require("get_input_grads()", Stage.INITIALIZED)
        if not self.inputs_need_grad:
            raise UsageError("get_input_grads() needs bind(..., inputs_need_grad=True)")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the outputs of every module that takes labels."""
        self._require("update_metric()", Stage.INITIALIZED)
        for module, meta in zip(self._modules, self._metas, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays of every module."""
        self._require("install_monitor()", Stage.BOUND)
        for module in self._modules:
            module.install_monitor(mon)

    def _collect(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        collected: tuple[dict[str, NDArray], dict[str, NDArray]] = ({}, {})
        for position, module in enumerate(self._modules):
            for known, new in zip(collected, module.get_params(), strict=True):
                twice = known.keys() & new.keys()
                if twice:
                    raise UsageError(
                        f"Duplicated parameter names: {sorted(twice)} of module {position} "
                        f"({type(module).__name__}) are used by an earlier one; rename them"
                    )
                known.update(new)
        return collected

    def _require(self, call: str, needs: Stage) -> None:
        stage = Stage(self.binded + self.params_initialized + self.optimizer_initialized)
        require_stage(call, stage, needs)


def _renamed(shapes: Sequence[Any], names: Sequence[str]) -> list[DataDesc]:
    descs = describe(shapes)
    if len(descs) != len(names):
        raise UsageError(
            f"{len(descs)} outputs {[desc.name for desc in descs]} for the data {list(names)}"
        )
    return [
        DataDesc(name, desc.shape, desc.dtype, desc.layout)
        for name, desc in zip(names, descs, strict=True)
    ]
