"""The model of scripts from before ``Module`` (``mx.model.FeedForward``)."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .. import metric as metrics
from .. import optimizer as opt
from ..callback import LogValidationMetricsCallback
from ..checkpoint import BatchEndParam, load_checkpoint, save_checkpoint
from ..compat.executor_manager import _check_arguments
from ..compat.model_stores import _multiple_callbacks
from ..device import Context, cpu
from ..errors import UsageError
from ..executor import Executor
from ..initializer import Uniform
from ..io import DataBatch, DataDesc, DataIter, NDArrayIter
from ..module import BaseModule, BucketingModule, Module
from ..ndarray import NDArray, zeros
from ..symbol import Symbol

__all__ = ["FeedForward"]

Arrays = dict[str, NDArray]

_DEPRECATED = "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead."


class FeedForward:
    """A network with its parameters, trained by ``fit`` and used by ``predict``; it runs a Module.

    Args:
        symbol: the network; or a function from a bucket key to it.
        ctx: a device, or several among which each batch is divided when training.
        num_epoch: number of the epoch to train up to.
        epoch_size: batches of an epoch; None for those of the iterator.
        optimizer: an optimizer, or the name of one made of ``kwargs``.
        initializer: called with the name and the array of each parameter that is not given.
        numpy_batch_size: examples of a batch if the data are arrays.
        arg_params, aux_params: parameters by name.
        allow_extra_params: leave out parameters that the network does not have.
        begin_epoch: number of the first epoch.
        **kwargs: of the optimizer; ``rescale_grad`` is 1/batch_size unless given there.

    Raises:
        UsageError: ``symbol`` is neither a symbol nor a function.
        ValueError: two of its arguments have one name.
    """

    def __init__(
        self,
        symbol: Symbol | Callable[[Any], Symbol],
        ctx: Context | list[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: opt.Optimizer | str = "sgd",
        initializer: Callable[[Any, NDArray], None] = Uniform(0.01),  # noqa: B008 - never changed
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        if not isinstance(symbol, Symbol) and not callable(symbol):
            raise UsageError(
                f"symbol is {symbol!r}; expected a Symbol or a function that makes one"
            )
        self.symbol: Symbol | None = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen = None if isinstance(symbol, Symbol) else symbol
        self.ctx = [ctx] if isinstance(ctx, Context) else list(ctx or [cpu()])
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = None if arg_params is None else dict(arg_params)
        self.aux_params = None if aux_params is None else dict(aux_params)
        self.allow_extra_params = allow_extra_params
        self.begin_epoch = begin_epoch
        self.kwargs = dict(kwargs)
        self._pred_exec: Executor | None = None
        if self.symbol is not None:
            _check_arguments(self.symbol)
            if allow_extra_params:
                self._leave_out_extra(self.symbol)

    # -- files ------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write ``prefix-symbol.json`` and ``prefix-NNNN.params``.

        Raises:
            UsageError: neither ``epoch`` nor ``num_epoch`` is given.
        """
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise UsageError("epoch is None, and so is num_epoch; name the epoch to save as")
        arguments, auxiliary = self.arg_params or {}, self.aux_params or {}
        save_checkpoint(prefix, epoch, self.symbol, arguments, auxiliary, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """Return a model from its files; training continues with epoch ``epoch``."""
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol,
            ctx=ctx,
            arg_params=arguments,
            aux_params=auxiliary,
            begin_epoch=epoch,
            **kwargs,
        )

    @staticmethod
    def create(
        symbol: Any,
        X: Any,
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: opt.Optimizer | str = "sgd",
        initializer: Callable[[Any, NDArray], None] = Uniform(0.01),  # noqa: B008 - never changed
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008 - never changed
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Return a model that is trained; see the class and ``fit`` for the arguments."""
        model = FeedForward(
            symbol,
            ctx=ctx,
            num_epoch=num_epoch,
            epoch_size=epoch_size,
            optimizer=optimizer,
            initializer=initializer,
            **kwargs,
        )
        model.fit(
            X,
            y,
            eval_data=eval_data,
            eval_metric=eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback,
            kvstore=kvstore,
            logger=logger,
            work_load_list=work_load_list,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
        )
        return model

    # -- training ---------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008 - never changed
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train from ``begin_epoch`` up to ``num_epoch``.

        Args:
            X: an iterator, or an array of examples with ``y``, their labels; arrays are shuffled.
            eval_data: an iterator, or a pair of arrays, scored after every epoch.
            eval_metric: a metric, its name or a function of labels and outputs.
            epoch_end_callback: called with (epoch, symbol, arguments, auxiliary states).
            batch_end_callback: called with a ``BatchEndParam``, whose first batch is number 1.
            kvstore: a store, its name or None.
            logger: for progress lines.
            work_load_list: relative shares of the devices.
            monitor: watches arrays while training.
            eval_end_callback, eval_batch_end_callback: of the scoring.

        Raises:
            TypeError, ValueError: data that are neither an iterator nor fitting arrays, or no
                ``num_epoch``.
        """
        if self.num_epoch is None:
            raise ValueError("num_epoch is None; say for how many epochs to train")
        logger = logging if logger is None else logger
        train_data = self._as_iterator(X, y, is_train=True)
        eval_data = self._as_eval_iterator(eval_data)
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(train_data.default_bucket_key)  # type: ignore[attr-defined]
        metric = metrics.create(eval_metric)
        module = self._training_module(train_data, kvstore, logger, work_load_list, monitor)
        assert self.arg_params is not None
        assert self.aux_params is not None
        train_data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            started = time.monotonic()
            metric.reset()
            for nbatch, batch in enumerate(self._epoch_batches(train_data, epoch, logger), 1):
                _train_on(module, batch, metric, monitor)
                _call(batch_end_callback, epoch, nbatch, metric, locals())
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.monotonic() - started)
            _copy_into((self.arg_params, self.aux_params), module.get_params())
            _multiple_callbacks(
                epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params
            )
            if eval_data is not None:
                metric.reset()
                eval_data.reset()
                count = 0
                for number, batch in enumerate(eval_data):
                    module.prepare(batch)
                    module.forward(batch, is_train=False)
                    module.update_metric(metric, batch.label)
                    _call(eval_batch_end_callback, epoch, number, metric, locals())
                    count = number + 1
                _call(eval_end_callback, epoch, count, metric, locals())
                eval_data.reset()
        self._pred_exec = None

    def _training_module(
        self, train_data: DataIter, kvstore: Any, logger: Any, work_load_list: Any, monitor: Any
    ) -> BaseModule:
        """Return a module that is ready to train, with this model's parameters."""
        data = [_described(one) for one in train_data.provide_data]
        labels = [_described(one) for one in train_data.provide_label or ()]
        self._init_params([*data, *labels])
        names = [one.name for one in data], [one.name for one in labels]
        module: BaseModule
        if self.sym_gen is not None:
            make_symbol = self.sym_gen
            module = BucketingModule(
                lambda key: (make_symbol(key), *names),
                train_data.default_bucket_key,  # type: ignore[attr-defined]
                logger=logger,
                context=self.ctx,
                work_load_list=work_load_list,
            )
        else:
            assert self.symbol is not None
            module = Module(
                self.symbol, *names, logger=logger, context=self.ctx, work_load_list=work_load_list
            )
        module.bind(data, labels or None)
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_params(None, self.arg_params, self.aux_params)
        module.init_optimizer(kvstore, self.optimizer, self.kwargs)
        return module

    def _epoch_batches(self, train_data: DataIter, epoch: int, logger: Any) -> Iterator[DataBatch]:
        """Yield the batches of an epoch: of one round, or of as many as ``epoch_size`` takes."""
        count, is_fresh = 0, False
        while True:
            before = count
            for batch in train_data:
                yield batch
                count += 1
                if count == self.epoch_size:
                    return
            if is_fresh and count == before:
                raise UsageError(
                    f"the training data have no batch; epoch_size is {self.epoch_size}"
                )
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            train_data.reset()
            is_fresh = True
            if self.epoch_size is None:
                return

    def _init_params(self, inputs: list[Any], overwrite: bool = False) -> tuple[list[str], ...]:
        """Give each parameter its value: the one it has, else the initializer's.

        Args:
            inputs: descriptions of data and labels.
            overwrite: ask the initializer for all.

        Returns:
            Names of all arguments, of the parameters, and of the auxiliary states.
        """
        assert self.symbol is not None
        descs = [_described(one) for one in inputs]
        shapes, _, aux_shapes = self.symbol.infer_shape(**{one.name: one.shape for one in descs})
        dtypes, _, aux_dtypes = self.symbol.infer_type(**{one.name: one.dtype for one in descs})
        names, aux_names = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        given = {one.name for one in descs}
        arguments = {
            name: zeros(shape, dtype=dtype)
            for name, shape, dtype in zip(names, shapes or (), dtypes or (), strict=True)
            if name not in given
        }
        auxiliary = {
            name: zeros(shape, dtype=dtype)
            for name, shape, dtype in zip(
                aux_names, aux_shapes or (), aux_dtypes or (), strict=True
            )
        }
        for found, known in ((arguments, self.arg_params), (auxiliary, self.aux_params)):
            for name, array in found.items():
                if known and name in known and not overwrite:
                    array[:] = known[name]
                else:
                    self._initialize(name, array)
        self.arg_params, self.aux_params = arguments, auxiliary
        return names, list(arguments), aux_names

    def _initialize(self, name: str, array: NDArray) -> None:
        # A plain name, as MXNet passes here: the rules of old scripts' names hold.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.initializer(name, array)

    def _leave_out_extra(self, symbol: Symbol) -> None:
        arguments, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
        self.arg_params = {k: v for k, v in (self.arg_params or {}).items() if k in arguments}
        self.aux_params = {k: v for k, v in (self.aux_params or {}).items() if k in auxiliary}

    # -- prediction -------------------------------------------------------------------------

    def predict(
        self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True
    ) -> Any:
        """Return the outputs of all examples as NumPy arrays, computed on the first device.

        Args:
            X: an iterator or an array of examples.
            num_batch: stop after so many batches.
            return_data: return (outputs, data, labels).
            reset: reset the iterator first.

        Returns:
            One array, or a list if there are several outputs; the same for data and labels.
        """
        data = self._as_iterator(X, None, is_train=False)
        parts: list[list[list[Any]]] = []
        for batch, outputs in self._predictions(data, num_batch, reset):
            real = data.batch_size - (batch.pad or 0)
            kinds = [outputs, batch.data, batch.label or []] if return_data else [outputs]
            parts.append([[array[0:real].asnumpy() for array in arrays] for arrays in kinds])
        if not parts:
            raise ValueError("there is no batch to predict")
        merged = [_merged([part[kind] for part in parts]) for kind in range(len(parts[0]))]
        return tuple(merged) if return_data else merged[0]

    def score(
        self,
        X: Any,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """Return a metric over an iterator, computed on the first device."""
        metric = metrics.create(eval_metric)
        data = self._as_iterator(X, None, is_train=False)
        for number, (batch, outputs) in enumerate(self._predictions(data, num_batch, reset)):
            metric.update(batch.label, outputs)
            _call(batch_end_callback, 0, number, metric, locals())
        return metric.get()[1]

    def _predictions(
        self, data: DataIter, num_batch: int | None, reset: bool
    ) -> Iterator[tuple[DataBatch, list[NDArray]]]:
        if reset:
            data.reset()
        executor = self._predictor([_described(one) for one in data.provide_data])
        inputs = [executor.arg_dict[_described(one).name] for one in data.provide_data]
        for number, batch in enumerate(data):
            if number == num_batch:
                return
            for array, values in zip(inputs, batch.data, strict=True):
                array[:] = values
            yield batch, executor.forward(is_train=False)

    def _predictor(self, inputs: list[DataDesc]) -> Executor:
        if self.symbol is None or self.arg_params is None:
            raise UsageError("the model has no parameters; call fit() or pass arg_params")
        wanted = {one.name: one.shape for one in inputs}
        bound = self._pred_exec
        if bound is None or any(bound.arg_dict[k].shape != shape for k, shape in wanted.items()):
            shapes: dict[str, Any] = {name: one.shape for name, one in self.arg_params.items()}
            dtypes = {name: array.dtype for name, array in self.arg_params.items()}
            dtypes.update({one.name: one.dtype for one in inputs})
            bound = self.symbol.simple_bind(
                self.ctx[0], grad_req="null", type_dict=dtypes, **{**shapes, **wanted}
            )
            bound.copy_params_from(self.arg_params, self.aux_params)
            self._pred_exec = bound
        return bound

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pred_exec": None}

    # -- data -------------------------------------------------------------------------------

    def _as_iterator(self, X: Any, y: Any, is_train: bool) -> DataIter:
        """Return an iterator as it is, or one over arrays."""
        if isinstance(X, DataIter):
            return X
        if not isinstance(X, (np.ndarray, NDArray)):
            raise TypeError(f"X must be DataIter, NDArray or numpy.ndarray, got {type(X).__name__}")
        if y is None and is_train:
            raise ValueError("y must be specified when X is numpy.ndarray")
        labels = np.zeros(X.shape[0]) if y is None else y
        if not isinstance(labels, (np.ndarray, NDArray)):
            raise TypeError("y must be ndarray when X is numpy.ndarray")
        if X.shape[0] != labels.shape[0]:
            raise ValueError(
                "The numbers of data points and labels not equal: "
                f"{X.shape[0]} and {labels.shape[0]}"
            )
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels.reshape((-1,))
        if labels.ndim != 1:
            raise ValueError("Label must be 1D or 2D (with 2nd dimension being 1)")
        batch_size = min(X.shape[0], self.numpy_batch_size)
        last = "roll_over" if is_train else "pad"
        return NDArrayIter(X, labels, batch_size, shuffle=is_train, last_batch_handle=last)

    def _as_eval_iterator(self, eval_data: Any) -> DataIter | None:
        if eval_data is None or isinstance(eval_data, DataIter):
            return eval_data
        if not isinstance(eval_data, (tuple, list)) or len(eval_data) != 2:
            raise TypeError(
                "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list "
                "of length 2)"
            )
        data, labels = eval_data
        if data is None:
            raise ValueError("Eval data is NONE")
        if labels is None and isinstance(data, DataIter):
            return data
        data, labels = (np.array(x) if isinstance(x, list) else x for x in (data, labels))
        return self._as_iterator(data, labels, is_train=True)  # as in MXNet, shuffled too


def _train_on(module: BaseModule, batch: DataBatch, metric: Any, monitor: Any) -> None:
    if monitor is not None:
        monitor.tic()
    module.prepare(batch)
    module.forward_backward(batch)
    module.update()
    if monitor is not None:
        monitor.toc_print()
    module.update_metric(metric, batch.label)


def _described(desc: Any) -> DataDesc:
    return desc if isinstance(desc, DataDesc) else DataDesc(*desc)


def _copy_into(kept: tuple[Arrays, Arrays], found: tuple[Arrays, Arrays]) -> None:
    """Write new values into the arrays that scripts hold."""
    for targets, sources in zip(kept, found, strict=True):
        for name, array in targets.items():
            array[:] = sources[name]


def _merged(batches: list[list[Any]]) -> Any:
    arrays = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return arrays[0] if len(arrays) == 1 else arrays


def _call(callbacks: Any, epoch: int, nbatch: int, metric: Any, local: dict[str, Any]) -> None:
    _multiple_callbacks(callbacks, BatchEndParam(epoch, nbatch, metric, local))
