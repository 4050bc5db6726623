"""Predictions of one predictor computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.executor.predict.inference import Inference
from app.executor.predict.prediction import Prediction
from app.link.packed_frames import BatchFacts
from app.link.protocols import Predicted, Prepared

__all__ = ["BatchWork", "predict_batch"]


class BatchWork(NamedTuple):
    """The ``work`` of a prepared prediction: what computes it, and what that belongs to."""

    inference: Inference
    prediction: Prediction


def predict_batch(batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
    """Compute predictions of one group."""
    predictions: list[Prediction] = [one.work.prediction for one in batch]
    predictor = predictions[0].predictor
    run = predictor.run_batch([(one.inputs(), one.rows) for one in predictions])
    answers = [
        Predicted(one.call, prediction.result, prediction.own_part(outputs))
        for one, prediction, outputs in zip(batch, predictions, run.outputs, strict=True)
    ]
    input_us, infer_us = round(run.input_seconds * 1e6), round(run.infer_seconds * 1e6)
    return answers, BatchFacts(run.rows, input_us, infer_us)
