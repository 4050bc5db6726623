"""Prepares predictions for batches, and splits the results."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from app.domain.codec import from_plain
from app.domain.module import ModuleRecord
from app.domain.serving import MOST_ROWS, Batches
from app.errors.tree import HostError, Invalid
from app.executor.background import Waits
from app.executor.modules.hosted_module import HostedModule
from app.executor.predict.inference import Inference
from app.executor.predict.inputs import check_dtype
from app.executor.predict.prediction import Prediction
from app.executor.predict.predictor import MANY_NODES, Predictor
from app.executor.predict.sequences import OpenPart, SequenceTable
from app.link.calls import Predict
from app.link.packed_frames import BatchFacts
from app.link.protocols import Answer, Arrays, Computation, IncomingCall, Predicted, Prepared

__all__ = ["Batching"]

_MOST_KNOWN = 4096
_STATES_OF_BUDGET = 8
"""The states of all sequences may use the memory budget divided by this."""


class _Work(NamedTuple):
    """What a prepared prediction is computed with, and what makes it valid.

    Attributes:
        answer_bytes: size of the outputs.
        part: the part of a sequence that it is, whose states are among the inputs.
    """

    asked: Predict
    inference: Inference
    prediction: Prediction
    answer_bytes: int
    part: OpenPart | None = None

    def fits(self, module: HostedModule) -> bool:
        """Return whether the module is still as it was when this was prepared."""
        is_same = self.inference is module.inference_of(self.asked.version)
        return is_same and (self.part is None or self.part.basis == module.basis)


class _Known(NamedTuple):
    """Findings from the first prediction of a target, which hold for all similar ones."""

    record: ModuleRecord
    work: _Work


class Batching:
    """Prepares predictions, and computes those of the same predictor as one batch."""

    def __init__(self, module: Callable[[str], HostedModule], budget_bytes: int) -> None:
        """Create an empty cache.

        Args:
            module: returns the module of a name; raises HostError.
            budget_bytes: memory that modules may use.
        """
        self._module = module
        self._sequences = SequenceTable(budget_bytes // _STATES_OF_BUDGET)

    def known(self, call: IncomingCall) -> Prepared | None:
        """Return the prepared prediction from the cache, if one like it was prepared and is still
        valid."""
        if call.target is None:
            return None
        try:
            module = self._module(call.target.module)
        except HostError:
            return None
        known: _Known | None = module.learned.get(call.target)
        if known is None or module.record is not known.record:
            return None
        work = known.work
        if work.asked.version is not None:
            module.versions.use(work.asked.version)
        prediction = work.prediction.of(call.tensors)
        return _prepared(call, work._replace(prediction=prediction))

    def plan(self, call: IncomingCall) -> tuple[Predict, Callable[[], Waits[None]]] | None:
        """Return the work that plans a large graph off the device thread.

        None if the plan exists, or is quick to make. Nothing else may use the module meanwhile.
        """
        module = self._module(call.params["module"])
        if module.nodes <= MANY_NODES or module.job_id is not None or call.was_planned:
            return None
        asked = from_plain(Predict, call.params)
        if asked.part is not None:
            return None
        inference = module.inference_of(asked.version)
        tensors = call.tensors if asked.is_strict else inference.as_batch(call.tensors)
        wanted = tensors, asked.bucket, asked.batches == "auto"
        if inference.is_planned(*wanted):
            return None
        call.was_planned = True
        return asked, lambda: module.beside(inference.plan, *wanted)

    def prepare(self, call: IncomingCall) -> Prepared:
        """Return a prediction that is ready to join a batch; raise Invalid or HostError."""
        asked = from_plain(Predict, call.params)
        module = self._module(asked.module)
        inference = module.inference_of(asked.version)
        if asked.part is not None:
            return self._prepare_part(call, asked, module, inference)
        tensors = call.tensors if asked.is_strict else inference.as_batch(call.tensors)
        prediction = inference.prepare(tensors, asked.bucket)
        if asked.is_strict:
            _check_strictly(asked, prediction, tensors)
        work = _Work(asked, inference, prediction, prediction.answer_bytes())
        prepared = _prepared(call, work)  # raises before anything is cached
        if call.target is not None and tensors is call.tensors:
            if len(module.learned) >= _MOST_KNOWN:  # clients may send any number of shapes
                module.learned.clear()
            without = work._replace(prediction=prediction.of({}))
            module.learned[call.target] = _Known(module.record, without)
        return prepared

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        """Compute predictions of the same predictor as one batch."""
        first: _Work = batch[0].work
        if first.fits(self._module(first.asked.module)):
            return _predict(batch)
        # The module has changed since they were prepared, so they may no longer fit together.
        answers = []
        # One by one; each run overwrites the outputs of the one before.
        for one in batch:
            (found,), facts = _predict([self.prepare(one.call)])
            copies = {name: value.copy() for name, value in found.tensors.items()}
            answers.append(Predicted(found.call, found.result, copies))
        return answers, facts

    def _prepare_part(
        self, call: IncomingCall, asked: Predict, module: HostedModule, inference: Inference
    ) -> Prepared:
        """Prepare a part of a sequence; all earlier parts have been computed or refused."""
        assert asked.part is not None
        assert asked.states is not None
        prediction, (predictor, states) = inference.stateful(
            call.tensors, asked.bucket, asked.states.links
        )
        if asked.is_strict:
            _check_strictly(asked, prediction, call.tensors)
        rows = prediction.rows
        if rows > predictor.most_rows:
            name = predictor.inputs[0].name
            expected = f"at most {predictor.most_rows} in one part of a sequence"
            raise Invalid(name, f"{rows} examples", expected)
        part = self._sequences.open(
            module, asked.part, asked.states, rows, states, version=asked.version
        )
        prediction = prediction.of(call.tensors | part.states)
        size = prediction.answer_bytes()
        prepared = _prepared(call, _Work(asked, inference, prediction, size, part))
        return dataclasses.replace(prepared, most_rows=max(rows, prepared.most_rows))

    def answer(self, asked: Predict, tensors: Arrays) -> Answer | Computation:
        """Answer a prediction by itself, in pieces if it is large."""
        inference = self._inference(asked)
        given = tensors if asked.is_strict else inference.as_batch(tensors)
        prediction = inference.prepare(given, asked.bucket)
        result = prediction.result
        if not prediction.is_large:
            return result, prediction.run()

        def run(outputs: Arrays) -> Waits[Mapping[str, Any]]:
            yield from prediction.steps(outputs)
            return result

        return Computation(prediction.specs(), run)

    def _inference(self, asked: Predict) -> Inference:
        return self._module(asked.module).inference_of(asked.version)


def _prepared(call: IncomingCall, work: _Work) -> Prepared:
    asked, prediction = work.asked, work.prediction
    predictor, rows = prediction.predictor, prediction.rows
    most_rows = prediction.quick_rows
    if asked.max_batch_size is not None:
        most_rows = min(most_rows, asked.max_batch_size)
    if not _may_join(predictor, asked.batches):
        most_rows = min(most_rows, rows)
    elif predictor.is_large:
        most_rows = min(most_rows, predictor.planned_rows(rows))
    delay_ns = asked.max_delay_us * 1000
    return Prepared(call, predictor, rows, most_rows, delay_ns, work, work.answer_bytes)


def _check_strictly(asked: Predict, prediction: Prediction, tensors: Arrays) -> None:
    inputs = prediction.predictor.inputs
    for desc in inputs:
        if desc.name not in tensors:
            continue  # states, and lengths that were added
        check_dtype(desc.name, tensors[desc.name].dtype, desc.dtype)
    most = asked.max_batch_size or MOST_ROWS
    if prediction.rows > most:
        expected = f"at most {most}, the max_batch_size"
        raise Invalid(inputs[0].name, f"{prediction.rows} examples", expected)


def _may_join(predictor: Predictor, declared: Batches) -> bool:
    """Return whether requests may share a batch: as declared, or else as found by a trial."""
    if declared == "auto":
        return predictor.can_join and predictor.rows_are_independent
    return declared == "always" and predictor.can_join


def _predict(batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
    predictions: list[Prediction] = [one.work.prediction for one in batch]
    predictor = predictions[0].predictor
    run = predictor.run_batch([(one.inputs(), one.rows) for one in predictions])
    answers = [
        Predicted(one.call, prediction.result, prediction.own_part(outputs))
        for one, prediction, outputs in zip(batch, predictions, run.outputs, strict=True)
    ]
    for one, outputs in zip(batch, run.outputs, strict=True):
        if one.work.part is not None:
            one.work.part.keep(outputs)
    input_us, infer_us = round(run.input_seconds * 1e6), round(run.infer_seconds * 1e6)
    output_us = round((time.perf_counter() - run.ended) * 1e6)
    return answers, BatchFacts(run.rows, input_us, infer_us, output_us)
