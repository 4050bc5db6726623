"""How an estimator trains and evaluates on one batch."""

from __future__ import annotations

from typing import Any

from .... import autograd
from ....device import Context
from ....ndarray import NDArray
from ...splitting import split_and_load

__all__ = ["BatchProcessor"]

Shares = list[NDArray]
"""An array for each device."""


class BatchProcessor:
    """Computes predictions and losses of batches; a subclass may define the two methods anew."""

    def _get_data_and_label(
        self, batch: Any, ctx: list[Context], batch_axis: int = 0
    ) -> tuple[Shares, Shares]:
        data, label = batch[0], batch[1]
        return (
            split_and_load(data, ctx_list=ctx, batch_axis=batch_axis),
            split_and_load(label, ctx_list=ctx, batch_axis=batch_axis),
        )

    def evaluate_batch(
        self, estimator: Any, val_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Return data, labels, predictions and losses of a validation batch, each by device."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: Any, train_batch: Any, batch_axis: int = 0
    ) -> tuple[Any, Any, Any, Any]:
        """Compute the gradients; return data, labels, predictions and losses, each by device."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        for one in loss:
            one.backward()
        return data, label, pred, loss
