"""Score and predict jobs: a pass over a dataset, one batch at a time, interleaved with training."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.codec import canonical_json
from app.domain.job_params import Metric, PredictParams, ScoreParams
from app.domain.module import ModuleKind
from app.errors.tree import Conflict, Invalid
from app.executor.background import Waits, awaited, in_background
from app.executor.jobs.epoch_plan import PlannedBatch, plan_epoch
from app.executor.jobs.examples import Examples
from app.executor.jobs.fit_setup import load_examples, report_too_long
from app.executor.jobs.job_context import JobContext, finite
from app.executor.jobs.job_metrics import make_metrics, update_metric
from app.executor.jobs.losses import LossMeter
from app.executor.jobs.real_positions import real_positions
from app.executor.modules.hosted_module import HostedModule, parse_key
from app.files.durable_files import hidden_sibling, rename_durably, sync_file
from app.link.job_messages import ExecutorEvent, JobDone
from core.device import cpu
from core.ndarray import NDArray

__all__ = ["Evaluation", "PredictJob", "ScoreJob", "as_arrays"]

HostArrays = dict[str, npt.NDArray[Any]]


def as_arrays(tensors: HostArrays) -> dict[str, NDArray]:
    """Wrap host arrays as NDArrays that share their memory."""
    return {name: NDArray(value, cpu(0)) for name, value in tensors.items()}


class _Pass:
    """A pass over the examples in order with the module's current parameters.

    Attributes:
        batches: the batches, incomplete ones without padding.
    """

    def __init__(
        self,
        context: JobContext,
        examples: Examples,
        batch_size: int,
        bucket_keys: Sequence[int],
        num_batch: int | None,
    ) -> None:
        self._module = context.module
        self._examples = examples
        lengths = _bound_lengths(self._module, bucket_keys)
        report_too_long(context, examples, lengths)
        # The plan fills up an incomplete batch with row numbers: without this bound, a client could
        # have it allocate as many as it likes.
        size = min(batch_size, examples.count)
        plan = plan_epoch(examples.count, size, lengths=examples.lengths, bucket_keys=lengths)
        self.batches: list[PlannedBatch] = plan.batches[:num_batch]

    def run(self, batch: PlannedBatch) -> Generator[None, None, tuple[HostArrays, HostArrays]]:
        """Return the inputs (with labels) and the outputs of a batch without padding.

        Yields between runs if the batch takes several.
        """
        rows = batch.rows[: len(batch.rows) - batch.pad]
        given = self._examples.fill(PlannedBatch(rows, 0, batch.bucket))
        data = {name: given[name] for name in self._module.data_names}
        key = None if batch.bucket is None else canonical_json(batch.bucket)
        prediction = self._module.inference.prepare(data, key, is_repeatable=True)
        if not prediction.is_large:
            return given, prediction.run()
        outputs = {
            name: np.empty(shape, dtype) for name, (shape, dtype) in prediction.specs().items()
        }
        yield from prediction.steps(outputs)
        return given, outputs


class Evaluation:
    """Metrics over a dataset.

    Attributes:
        batches: number of batches.
        samples: examples seen.
    """

    def __init__(
        self,
        context: JobContext,
        examples: Examples,
        batch_size: int,
        *,
        metrics: Sequence[Metric],
        bucket_keys: Sequence[int] = (),
        num_batch: int | None = None,
    ) -> None:
        self._pass = _Pass(context, examples, batch_size, bucket_keys, num_batch)
        self._labels = context.module.label_names
        names = context.module.default_symbol.list_outputs()
        self._metric = make_metrics(metrics, "metrics", names, self._labels)
        self._examples = examples
        self._loss = LossMeter(context.module.default_symbol)
        self.batches = len(self._pass.batches)
        self.samples = 0

    def steps(self) -> Iterator[int | None]:
        """Run all batches; yield the number done after each batch, and None within a batch."""
        for done, batch in enumerate(self._pass.batches, 1):
            given, outputs = yield from self._pass.run(batch)
            labels = as_arrays({name: given[name] for name in self._labels})
            predictions = as_arrays(outputs)
            count = len(batch.rows) - batch.pad
            self._loss.update(labels, predictions, count)
            lengths = self._examples.lengths_of(self._labels, batch.rows[:count])
            real = real_positions(labels, predictions, lengths, count)
            labels, predictions = real or (labels, predictions)
            update_metric(self._metric, labels, predictions, "metrics")
            self.samples += count
            yield done

    def values(self) -> dict[str, float | None]:
        """Return the metrics, and the loss if there is one, over the batches run so far."""
        values = finite(self._metric.get_name_value())
        return values if self._loss.mean is None else values | finite([("loss", self._loss.mean)])


class ScoreJob:
    """``BaseModule.score`` as a job. After an interruption it starts from the beginning."""

    def __init__(self, context: JobContext, params: ScoreParams) -> None:
        self._context = context
        self._params = params

    def run(self) -> Waits[ExecutorEvent]:
        """Yield between batches; return the final event."""
        context, params = self._context, self._params
        context.module.require("score")
        examples = yield from load_examples(context, params, "", with_labels=True)
        evaluation = Evaluation(
            context,
            examples,
            params.batch_size,
            metrics=params.metrics,
            bucket_keys=params.bucket_keys,
            num_batch=params.num_batch,
        )
        yield None
        for done in evaluation.steps():
            if done is not None and (context.progress_is_due() or done == evaluation.batches):
                context.progress(
                    epoch=0,
                    epochs=1,
                    batch=done,
                    batches=evaluation.batches,
                    samples=evaluation.samples,
                    metrics=evaluation.values(),
                )
            yield None
            if (stopped := context.stopped()) is not None:
                return stopped
        result = {"metrics": evaluation.values(), "samples": evaluation.samples}
        return JobDone(job_id=context.job_id, attempt=context.attempt, result=result)


class PredictJob:
    """``BaseModule.predict`` over a dataset as a job that writes an npz file.

    Its arrays are ``output0``, ``output1``, ... with a row per example in the dataset's order;
    where examples differ in length their rows lie one after the other, and ``output0_lengths``
    counts them. After an interruption it starts from the beginning.
    """

    def __init__(self, context: JobContext, params: PredictParams) -> None:
        self._context = context
        self._params = params

    def run(self) -> Waits[ExecutorEvent]:
        """Yield between batches; return the final event."""
        context, params = self._context, self._params
        module = context.module
        module.require("predict_dataset")
        for key in module.buckets():
            if not module.inference.predictor(key).has_rows:
                raise Conflict(
                    f"module {module.name!r} has an output without a row per example; such outputs "
                    "cannot be made a dataset"
                )
        examples = yield from load_examples(context, params, "", with_labels=False)
        work = _Pass(context, examples, params.batch_size, params.bucket_keys, params.num_batch)
        first = module.inference.predictor(next(iter(module.buckets())))
        table = _Table(first.output_names, first.output_axes, examples.count)
        yield None
        samples = 0
        for done, batch in enumerate(work.batches, 1):
            count = len(batch.rows) - batch.pad
            _, outputs = yield from work.run(batch)
            table.put(batch.rows[:count], outputs)
            samples += count
            if context.progress_is_due() or done == len(work.batches):
                context.progress(
                    epoch=0,
                    epochs=1,
                    batch=done,
                    batches=len(work.batches),
                    samples=samples,
                    metrics={},
                )
            yield None
            if (stopped := context.stopped()) is not None:
                return stopped
        assert context.start.output_path is not None
        path = Path(context.start.output_path)
        shapes = yield from awaited(in_background(table.write, path))
        result = {"output": params.output, "samples": samples, "shapes": shapes}
        return JobDone(job_id=context.job_id, attempt=context.attempt, result=result)


class _Table:
    """Collects outputs by example, in whatever order they arrive."""

    def __init__(self, names: Sequence[str], axes: Sequence[int], count: int) -> None:
        self._axes = dict(zip(names, axes, strict=True))
        self._rows: dict[str, list[npt.NDArray[Any] | None]] = {
            name: [None] * count for name in names
        }

    def put(self, rows: npt.NDArray[np.intp], outputs: HostArrays) -> None:
        """Store the outputs of some examples."""
        for name, output in outputs.items():
            target = self._rows[name]
            # A copy, because the next batch overwrites the outputs.
            by_example = np.moveaxis(np.array(output), self._axes[name], 0)
            for row, value in zip(rows, by_example, strict=True):
                target[row] = value

    def write(self, path: Path) -> dict[str, list[int]]:
        """Write an npz file atomically; return the arrays' shapes."""
        arrays: HostArrays = {}
        for number, rows in enumerate(self._rows.values()):
            present = [row for row in rows if row is not None]  # num_batch leaves out the others
            if len({row.shape for row in present}) == 1:
                arrays[f"output{number}"] = np.stack(present)
            else:
                arrays[f"output{number}"] = np.concatenate(present)
                arrays[f"output{number}_lengths"] = np.array([len(row) for row in present])
        part = hidden_sibling(path, "part")
        try:
            with part.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            sync_file(part)
            rename_durably(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return {name: list(array.shape) for name, array in arrays.items()}


def _bound_lengths(module: HostedModule, wanted: Sequence[int]) -> list[int]:
    """Return the lengths of the buckets to use; by default all that are bound."""
    if module.record.kind is not ModuleKind.BUCKETING:
        if wanted:
            raise Invalid("bucket_keys", list(wanted), "none for a module without buckets")
        return []
    bound = [parse_key(key, "buckets") for key in module.buckets()]
    lengths = sorted(key for key in bound if isinstance(key, int))
    for key in wanted:
        if key not in lengths:
            raise Invalid("bucket_keys", key, f"buckets that are bound: {lengths}")
    return sorted(set(wanted)) or lengths
