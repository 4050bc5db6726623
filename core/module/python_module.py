"""Modules written in Python, without parameters: a step of a chain such as a loss."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError
from ..initializer import Uniform
from ..io import DataDesc
from ..io.inputs import describe
from ..ndarray import NDArray, array
from .base_module import BaseModule, Params

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters or optimizer.

    A subclass defines ``forward``, ``backward``, ``get_outputs``, ``get_input_grads`` and
    ``_compute_output_shapes``.

    Args:
        data_names, label_names: inputs; ``label_names`` is None for a module without labels.
        output_names: outputs.
        logger: for progress lines.
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None
        self._output_shapes: list[tuple[str, tuple[int, ...]]] = []

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data inputs."""
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels; None for a module without labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return empty dicts: there are no parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = Uniform(0.01),  # noqa: B008 - MXNet's default, never changed
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Do nothing: there are no parameters to initialize."""
        self.params_initialized = True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Do nothing: there are no parameters to optimize."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Do nothing: there are no parameters to update."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the outputs, if the module has labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError(f"{type(self).__name__} does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

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
        """Record the shapes.

        Raises:
            UsageError: the inputs are not the declared ones, or ``grad_req`` is not ``"write"``.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise UsageError(f"a Python module needs grad_req='write', got {grad_req!r}")
        data = describe(data_shapes)
        _check_names("data_shapes", data, self._data_names)
        labels = None if label_shapes is None else describe(label_shapes)
        if labels is not None:
            _check_names("label_shapes", labels, self._label_names or [])
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data, labels
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (name, shape) of the outputs for ``self.data_shapes`` and labels."""
        raise NotImplementedError(f"{type(self).__name__} must define _compute_output_shapes")


class PythonLossModule(PythonModule):
    """A loss whose gradient is computed by a Python function; its output is its input.

    Args:
        name: of the module; the output is ``<name>_output``.
        data_names: the name of the scores.
        label_names: the name of the labels.
        logger: for progress lines.
        grad_func: maps (scores, labels) to the gradient of the loss with respect to the scores.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        if len(data_names) != 1 or len(label_names) != 1:
            raise UsageError(
                f"a loss has one data input and one label, got {list(data_names)} and "
                f"{list(label_names)}"
            )
        if grad_func is not None and not callable(grad_func):
            raise UsageError(f"grad_func is {type(grad_func).__name__}; expected a function")
        self._name = name
        self._grad_func = grad_func
        self._scores: NDArray | None = None
        self._labels: NDArray | None = None
        self._scores_grad: NDArray | None = None

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Keep the scores, and when training the labels, for the backward pass."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[NDArray | None]:
        """Return the scores."""
        _require_merged(merge_multi_context)
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores."""
        if out_grads is not None:
            raise UsageError("a loss module takes no out_grads: it starts the backward pass")
        if not self.for_training:
            raise UsageError("backward() needs a module bound with for_training=True")
        self._backward_impl()

    def _backward_impl(self) -> None:
        """Set ``self._scores_grad`` from scores and labels."""
        if self._grad_func is None:
            raise NotImplementedError("pass grad_func= or define _backward_impl in a subclass")
        assert self._scores is not None
        assert self._labels is not None
        gradient = self._grad_func(self._scores, self._labels)
        self._scores_grad = gradient if isinstance(gradient, NDArray) else array(gradient)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[NDArray | None]:
        """Return the gradient of the scores."""
        _require_merged(merge_multi_context)
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """Raise NotImplementedError: there are no executors to watch."""
        raise NotImplementedError(f"{type(self).__name__} has no executors to watch")

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(self._output_names[0], self._data_shapes[0].shape)]


def _check_names(what: str, descs: Sequence[DataDesc], names: Sequence[str]) -> None:
    given = [desc.name for desc in descs]
    if given != list(names):
        raise UsageError(f"{what} describes {given}, the module takes {list(names)}")


def _require_merged(merge_multi_context: bool) -> None:
    if merge_multi_context is not True:
        raise UsageError("a Python module runs on one device; leave merge_multi_context True")
