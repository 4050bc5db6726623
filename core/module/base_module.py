"""What all modules share: training, scoring and prediction over data iterators."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import metric as metrics
from ..base import _as_list
from ..checkpoint import BatchEndParam
from ..compat.input_checks import _check_input_names, _check_names_match, _parse_data_desc
from ..compat.module_names import BaseNames
from ..errors import UsageError
from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray, array, concatenate
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..symbol import Symbol
from .lifecycle import Stage, require_stage

__all__ = [
    "BaseModule",
    "_as_list",
    "_check_input_names",
    "_check_names_match",
    "_parse_data_desc",
]

Params = Mapping[str, NDArray]


def as_list(value: Any) -> list[Any]:
    """Return one callback, several or None as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


class BaseModule(BaseNames):
    """Base of all modules (``mx.mod.BaseModule``).

    A subclass defines the abstract calls below; ``fit``, ``score`` and ``predict`` use them.
    """

    binded: bool = False
    for_training: bool = False
    inputs_need_grad: bool = False
    params_initialized: bool = False
    optimizer_initialized: bool = False
    _symbol: Symbol | None = None

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger

    @property
    def stage(self) -> Stage:
        """How far the module has been set up."""
        if not self.binded:
            return Stage.CREATED
        if not self.params_initialized:
            return Stage.BOUND
        return Stage.READY if self.optimizer_initialized else Stage.INITIALIZED

    # -- to be defined by each module -------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        raise NotImplementedError(f"{type(self).__name__} must define data_names")

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define output_names")

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the bound data inputs."""
        raise NotImplementedError(f"{type(self).__name__} must define data_shapes")

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the bound labels; None if there are none."""
        raise NotImplementedError(f"{type(self).__name__} must define label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define output_shapes")

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
        """Set the input shapes and allocate memory."""
        raise NotImplementedError(f"{type(self).__name__} must define bind")

    def init_params(
        self,
        initializer: Any = Uniform(0.01),  # noqa: B008 - MXNet's default, never changed
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize the parameters."""
        raise NotImplementedError(f"{type(self).__name__} must define init_params")

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer."""
        raise NotImplementedError(f"{type(self).__name__} must define init_optimizer")

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return (arguments, auxiliary states) by name."""
        raise NotImplementedError(f"{type(self).__name__} must define get_params")

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward pass."""
        raise NotImplementedError(f"{type(self).__name__} must define backward")

    def update(self) -> None:
        """Update the parameters from their gradients."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last forward pass."""
        raise NotImplementedError(f"{type(self).__name__} must define get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data inputs."""
        raise NotImplementedError(f"{type(self).__name__} must define get_input_grads")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the last outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define update_metric")

    def install_monitor(self, mon: Any) -> None:
        """Watch intermediate arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define install_monitor")

    # -- common to all ----------------------------------------------------------------------

    @property
    def symbol(self) -> Any:
        """The symbol."""
        return self._symbol

    def prepare(
        self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None
    ) -> None:
        """Get ready for a batch before it is run (switch bucket, fetch sparse rows)."""

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states; a module without any returns an empty list."""
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states; a module without any accepts none."""
        if states or value:
            raise UsageError(f"{type(self).__name__} has no states; name them in state_names")

    def set_params(
        self,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameter values."""
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    def save_params(self, fname: str) -> None:
        """Write the parameters to a ``.params`` file."""
        arguments, auxiliary = self.get_params()
        named = {f"arg:{name}": values for name, values in arguments.items()}
        named.update({f"aux:{name}": values for name, values in auxiliary.items()})
        save_arrays(fname, named)

    def load_params(self, fname: str) -> None:
        """Read the parameters from a ``.params`` file."""
        arguments: dict[str, NDArray] = {}
        auxiliary: dict[str, NDArray] = {}
        loaded = load_arrays(fname)
        if not isinstance(loaded, Mapping):
            raise ValueError(f"Invalid param file {fname}: its arrays have no names")
        for key, values in loaded.items():
            kind, _, name = key.partition(":")
            if kind not in ("arg", "aux") or not name:
                raise ValueError(f"Invalid param file {fname}: {key!r} lacks 'arg:' or 'aux:'")
            (arguments if kind == "arg" else auxiliary)[name] = values
        self.set_params(arguments, auxiliary)

    def forward_backward(self, data_batch: Any) -> None:
        """Run ``forward`` and ``backward`` of a training step."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(
        self,
        eval_data: Any,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> list[tuple[str, float]]:
        """Evaluate a metric over an iterator; return (name, value) pairs."""
        self._require_parameters("score()")
        metric = eval_metric = _as_metric(eval_metric)
        metric.reset()
        if reset:
            eval_data.reset()
        count = 0
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            self._update_metric_of(eval_metric, batch)
            _call(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        _call(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return metric.get_name_value()

    def iter_predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        reset: bool = True,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """Yield (outputs without padding, batch number, batch) for every batch."""
        self._require_parameters("iter_predict()")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield self._unpadded_outputs(batch), nbatch, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return the outputs over an iterator, an NDArray or a NumPy array.

        Args:
            eval_data: iterator or one array of examples.
            num_batch: stop after this many batches.
            merge_batches: concatenate the batches; otherwise return one list per batch.
            reset: reset the iterator first.
            always_output_list: return a list even if there is only one output.
            sparse_row_id_fn: maps a batch to the row ids it needs of each sparse parameter.
        """
        self._require_parameters("predict()")
        if not hasattr(eval_data, "reset"):
            if not isinstance(eval_data, (NDArray, np.ndarray)):
                raise ValueError(
                    f"eval_data is {type(eval_data).__name__}; expected an iterator, an NDArray or "
                    "a NumPy array"
                )
            self.forward(DataBatch([_as_ndarray(eval_data)]), is_train=False)
            return self.get_outputs()[0]  # as in MXNet only the first output
        batches = [
            # Copies, because the next pass overwrites the outputs.
            [output.copy() for output in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)
        ]
        if not batches or not merge_batches:
            return batches
        counts = {len(outputs) for outputs in batches}
        if len(counts) > 1:
            raise UsageError(
                f"Cannot merge batches: their numbers of outputs differ: {sorted(counts)}; "
                "pass merge_batches=False with buckets"
            )
        merged = [concatenate(list(parts)) for parts in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = Uniform(0.01),  # noqa: B008 - MXNet's default, never changed
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        """Train over an iterator from ``begin_epoch`` up to ``num_epoch``.

        Binds, initializes and installs the optimizer unless that has been done. Batch-end
        callbacks get a ``BatchEndParam``, epoch-end callbacks (epoch, symbol, arguments, auxiliary
        states). With ``eval_data`` the validation metric is scored after every epoch.
        """
        # The arguments, which scripts' callbacks read from `param.locals` by MXNet's names.
        scope = locals()
        if num_epoch is None:
            raise UsageError("num_epoch is None; pass the number of epochs to train for")
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = _as_metric(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            tic = time.monotonic()
            scope.update(validation_metric=validation_metric, tic=tic)
            totals = self._fit_epoch(
                *(epoch, train_data, eval_metric, batch_end_callback, monitor, sparse_row_id_fn),
                scope,
            )
            for name, value in totals:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.monotonic() - tic)
            # As in MXNet all devices continue with the mean of their parameters and auxiliary
            # states: each updates its own running means of BatchNorm during the epoch.
            arguments, auxiliary = self.get_params()
            self.set_params(arguments, auxiliary)
            for callback in as_list(epoch_end_callback):
                callback(epoch, self.symbol, arguments, auxiliary)
            if eval_data is not None:
                scores = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in scores:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _fit_epoch(
        self,
        epoch: int,
        train_data: Any,
        eval_metric: metrics.EvalMetric,
        batch_end_callback: Any,
        monitor: Any,
        sparse_row_id_fn: Callable[[Any], Any] | None,
        scope: Mapping[str, Any],
    ) -> list[tuple[str, float]]:
        eval_metric.reset()
        eval_name_vals: list[tuple[str, float]] = []
        data_iter = iter(train_data)

        def fetch() -> Any:
            batch = next(data_iter, None)
            if batch is not None:
                self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            return batch

        nbatch = 0
        next_data_batch = next(data_iter, None)
        while next_data_batch is not None:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            # As in MXNet the next batch is fetched before the callbacks run: preparing it may bind
            # a new bucket, which callbacks (a checkpoint, say) then see.
            next_data_batch = self._measure_and_fetch(eval_metric, data_batch, fetch)
            end_of_batch = next_data_batch is None
            if end_of_batch:
                eval_name_vals = eval_metric.get_global_name_value()
            if monitor is not None:
                monitor.toc_print()
            # Scripts' callbacks read `param.locals` by the names that MXNet's fit gives its locals.
            _call(
                batch_end_callback,
                BatchEndParam(epoch, nbatch, eval_metric, {**scope, **locals()}),
            )
            nbatch += 1
        return eval_name_vals

    def _measure_and_fetch(
        self, eval_metric: metrics.EvalMetric, data_batch: Any, fetch: Callable[[], Any]
    ) -> Any:
        """Update the metric, then return the next batch, ready to run."""
        self._update_metric_of(eval_metric, data_batch)
        return fetch()

    def _update_metric_of(self, eval_metric: metrics.EvalMetric, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [one.label for one in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def _unpadded_outputs(self, batch: Any) -> list[NDArray]:
        pad = batch.pad or 0  # None in a batch that a script made without pad=
        return [output[0 : output.shape[0] - pad] for output in self.get_outputs()]

    def _require_parameters(self, call: str) -> None:
        if not (self.binded and self.params_initialized):
            stage = Stage.BOUND if self.binded else Stage.CREATED
            require_stage(call, stage, Stage.INITIALIZED)


def _as_metric(eval_metric: Any) -> metrics.EvalMetric:
    if isinstance(eval_metric, metrics.EvalMetric):
        return eval_metric
    return metrics.create(eval_metric)


def _as_ndarray(value: Any) -> NDArray:
    return value if isinstance(value, NDArray) else array(value)


def _call(callbacks: Any, param: BatchEndParam) -> None:
    for callback in as_list(callbacks):
        callback(param)
