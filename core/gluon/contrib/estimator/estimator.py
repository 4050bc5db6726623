"""An estimator: a block with its loss, metrics and trainer, which trains over a data loader."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from typing import Any, NamedTuple

from ....context import Context, cpu, gpu, num_gpus
from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from ....ndarray import NDArray
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    ValidationHandler,
)
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
    check_event_handlers,
)
from .metric_choice import check_handler_metrics, check_metrics, suggest_metric_for_loss

__all__ = ["Estimator"]


class _Handlers(NamedTuple):
    """The handlers of each event, in the order of their priority."""

    train_begin: list[Any]
    epoch_begin: list[Any]
    batch_begin: list[Any]
    batch_end: list[Any]
    epoch_end: list[Any]
    train_end: list[Any]


class Estimator:
    """Trains and evaluates a block (``mx.gluon.contrib.estimator.Estimator``).

    Args:
        net: the block.
        loss: the loss.
        train_metrics, val_metrics: metrics of training and validation; by default the loss, and the
            accuracy for ``SoftmaxCrossEntropyLoss``.
        initializer: initializes the block unless it is initialized.
        trainer: updates the parameters; by default SGD with a learning rate of 0.001.
        context: a device, or several that share each batch.
        val_net: the block that is evaluated, which may share parameters with ``net``.
        val_loss: the loss of evaluations.
        batch_processor: computes batches; see ``BatchProcessor``.

    Attributes:
        logger: writes to standard output, at level INFO.

    Raises:
        ValueError: an argument of another type.
    """

    def __init__(
        self,
        net: Any,
        loss: Any,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Any = None,
        context: Any = None,
        val_net: Any = None,
        val_loss: Any = None,
        batch_processor: Any = None,
    ) -> None:
        self.net = net
        self.loss = _checked_loss(loss)
        self._train_metrics = check_metrics(train_metrics)
        self._val_metrics = check_metrics(val_metrics)
        self._name_training_metrics()
        self._name_validation_metrics()
        self.val_loss = self.loss if val_loss is None else _checked_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _checked_contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = _checked_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """The metrics of the training, named ``training ...``."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """The metrics of evaluations, named ``validation ...``."""
        return self._val_metrics

    def evaluate(self, val_data: Any, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Compute the validation metrics over a data loader.

        Args:
            val_data: the loader.
            batch_axis: the axis along which the devices share a batch.
            event_handlers: handlers to add to those of metrics and logging.

        Raises:
            ValueError: not a data loader, or a handler with metrics of others.
        """
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(
        self,
        train_data: Any,
        val_data: Any = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for a number of epochs or of batches.

        Args:
            train_data: a data loader.
            val_data: a data loader to evaluate after each epoch.
            epochs, batches: how long to train; exactly one of them.
            event_handlers: handlers to add to those of stopping, updates, metrics, validation and
                logging. Of the latter four one of yours takes the place of the default.
            batch_axis: the axis along which the devices share a batch.

        Raises:
            ValueError: not a data loader; both or none of epochs and batches; a handler with
                metrics of others.
        """
        _check_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or "
                "number of batches. Please specify one and only one of: epochs or batches."
            )
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._categorize_handlers(
            self._prepare_default_handlers(val_data, event_handlers)
        )
        for handler in handlers.train_begin:
            handler.train_begin(self)
        while not self._run_epoch(train_data, handlers):
            pass
        for handler in handlers.train_end:
            handler.train_end(self)

    def _run_epoch(self, train_data: Any, handlers: _Handlers) -> bool:
        """Return whether a handler asks to end the training."""
        for handler in handlers.epoch_begin:
            handler.epoch_begin(self)
        for batch in train_data:
            for handler in handlers.batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.fit_batch(self, batch, self.batch_axis)
            ends = [
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                for handler in handlers.batch_end
            ]
            if any(ends):
                break
        return any([handler.epoch_end(self) for handler in handlers.epoch_end])

    # -- handlers ---------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Any) -> list[EventHandler]:
        handlers = check_event_handlers(event_handlers)
        added: list[EventHandler] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if not _of(handlers, GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if not _of(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if val_data and not _of(handlers, ValidationHandler):
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if not _of(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return _joined(handlers, added, [*self.train_metrics, *self.val_metrics])

    def _prepare_default_validation_handlers(self, event_handlers: Any) -> list[EventHandler]:
        handlers = check_event_handlers(event_handlers)
        added: list[EventHandler] = []
        if not _of(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not _of(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return _joined(handlers, added, self.val_metrics)

    def _categorize_handlers(self, event_handlers: list[EventHandler]) -> _Handlers:
        """Return the handlers of each event."""
        return _Handlers(
            _of(event_handlers, TrainBegin),
            _of(event_handlers, EpochBegin),
            _of(event_handlers, BatchBegin),
            _of(event_handlers, BatchEnd),
            _of(event_handlers, EpochEnd),
            _of(event_handlers, TrainEnd),
        )

    # -- parts ------------------------------------------------------------------------------

    def _name_training_metrics(self) -> None:
        if not self._train_metrics:
            suggested = suggest_metric_for_loss(self.loss)
            self._train_metrics = [] if suggested is None else [suggested]
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("1234567890")))
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"

    def _name_validation_metrics(self) -> None:
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = f"validation {metric.name}"

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            # Layers that are initialized stay as they are.
            options = {"init": initializer} if initializer else {}
            self.net.initialize(ctx=self.context, **options)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to "
                "pass initializer if you already initialized your net. You can use "
                "net.initialize(init=your_initializer, force_reinit=True) to force "
                "re-initialize.",
                stacklevel=3,
            )

    def _is_initialized(self) -> bool:
        for param in self.net.collect_params().values():
            try:
                param.list_ctx()
            except RuntimeError:
                return False
        return True

    def _checked_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warnings.warn(
                "No trainer specified, default SGD optimizer with learning rate 0.001 is used.",
                stacklevel=3,
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(
                "Trainer must be a Gluon Trainer instance, refer to gluon.Trainer; got "
                f"{type(trainer).__name__}"
            )
        return trainer

    def _get_data_and_label(
        self, batch: Any, ctx: list[Context], batch_axis: int = 0
    ) -> tuple[list[NDArray], list[NDArray]]:
        return BatchProcessor()._get_data_and_label(batch, ctx, batch_axis)


def _of(handlers: list[EventHandler], kind: type[Any]) -> list[Any]:
    return [handler for handler in handlers if isinstance(handler, kind)]


def _joined(
    given: list[EventHandler], added: list[EventHandler], metrics: list[EvalMetric]
) -> list[EventHandler]:
    """Return all handlers in the order of their priority."""
    handlers = [*given, *added]
    if given and added:
        for handler in handlers:
            check_handler_metrics(handler, metrics)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))


def _check_loader(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise ValueError(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform "
            "your DataIter or any NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader; "
            f"got {type(data).__name__}"
        )


def _checked_loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss: {loss}")
    return loss


def _checked_processor(processor: Any) -> Any:
    if processor is None:
        return BatchProcessor()
    for name in ("fit_batch", "evaluate_batch"):
        if not callable(getattr(processor, name, None)):
            raise ValueError(
                "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods"
            )
    return processor


def _checked_contexts(context: Any) -> list[Context]:
    count = num_gpus()
    if not context:
        if count > 1:
            warnings.warn(
                "You have multiple GPUs, gpu(0) will be used by default. To utilize all your "
                "GPUs, specify context as a list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)] ",
                stacklevel=4,
            )
        return [gpu(0) if count else cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, list) or not all(isinstance(one, Context) for one in contexts):
        raise ValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), "
            f"mx.gpu(1)], refer to mxnet.Context: {context}"
        )
    present = [gpu(position) for position in range(count)]
    for one in contexts:
        if one not in present and not str(one).startswith("cpu"):
            known = ", ".join(["mx.cpu()", *map(str, present)])
            raise AssertionError(
                f"{one} is not available, please make sure your context is in one of: {known}"
            )
    return contexts
