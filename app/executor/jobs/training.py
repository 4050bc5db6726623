"""Fit as a job: ``BaseModule.fit``, one batch at a time, resumable after any crash.

Everything that a batch depends on is in the module, in ``FitState``, or follows from seed and
position. A checkpoint holds all of it, so a fit that resumes from one ends with the same bits.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from app.domain.checkpoint import CheckpointManifest
from app.domain.job import JobAction
from app.domain.job_params import FitParams
from app.domain.module import InitSpec
from app.errors.tree import HostError, Invalid, ServiceError
from app.executor.background import Waits, awaited, in_background
from app.executor.jobs.bad_examples import check_batch_labels, check_finite, look_at_labels
from app.executor.jobs.class_labels import class_labels
from app.executor.jobs.diverged import Diverged, check_present, nonfinite_parameter
from app.executor.jobs.epoch_plan import EpochPlan, PlannedBatch, plan_epoch
from app.executor.jobs.examples import Examples
from app.executor.jobs.fit_checkpoints import FitCheckpoints
from app.executor.jobs.fit_curves import FitCurves
from app.executor.jobs.fit_setup import (
    bind_for_fit,
    bucket_lengths,
    choose_init,
    choose_optimizer,
    load_examples,
    make_callbacks,
    report_too_long,
)
from app.executor.jobs.fit_state import FitState
from app.executor.jobs.fit_watch import FitWatch
from app.executor.jobs.job_context import JobContext, finite
from app.executor.jobs.job_metrics import make_metrics, update_metric
from app.executor.jobs.last_good import Beginning, restore_fit
from app.executor.jobs.losses import LossMeter
from app.executor.jobs.real_positions import real_positions, without_padding
from app.executor.jobs.scoring import Evaluation, as_arrays
from app.executor.modules.class_ranges import ClassRange
from app.executor.modules.engine_optimizer import (
    optimizer_of,
    update_parameters,
)
from app.executor.modules.module_files import read_base
from app.executor.modules.module_params import init_params
from app.executor.modules.optimizer_specs import get_position
from app.executor.modules.randomness import RandomStreams
from app.executor.modules.statistics import parameter_statistics, watched
from app.files.checkpoint_files import verify_checkpoint
from app.link.job_messages import (
    ExecutorEvent,
    JobDone,
    JobPrepared,
    JobStatistics,
)
from core.checkpoint import BatchEndParam
from core.errors import MXNetError
from core.io import DataBatch, DataDesc
from core.ndarray import NDArray
from core.types import to_dtype

__all__ = ["FitJob"]

_TRAINING_STREAM = 1 << 32
"""Added to the seed for training, so that its random numbers do not depend on whether the
parameters were initialized by this fit."""

Stop = Waits[ExecutorEvent | None]


class FitJob:
    """One attempt of a fit."""

    def __init__(self, context: JobContext, params: FitParams, random: RandomStreams) -> None:
        self._context = context
        self._module = context.module
        self._params = params
        self._random = random
        self._stream = ("job", context.job_id)
        outputs = self._module.default_symbol.list_outputs()
        self._metric = make_metrics(params.metrics, "metrics", outputs, self._module.label_names)
        self._loss = LossMeter(self._module.default_symbol)
        self._state = FitState(epoch=params.first_epoch)
        self._lengths: list[int] = []
        self._examples: Examples
        self._validation: Examples | None = None
        self._checkpoints = FitCheckpoints(context)
        self._beginning: Beginning | None = None
        self._ranges: list[ClassRange] = []
        self._watch = FitWatch(params)
        monitor = params.monitor
        self._curves = FitCurves(self._module, None if monitor is None else monitor.pattern)
        self._clock = time.monotonic()

    def run(self) -> Waits[ExecutorEvent]:
        """Yield between batches; return the final event.

        Raises:
            ServiceError, MXNetError, HostError: it cannot continue; the message says why.
        """
        try:
            return (yield from self._run())
        except (ServiceError, MXNetError, HostError, OSError) as error:
            # Moving averages, for instance, take up NaN of a batch that then fails for it.
            if isinstance(error, Diverged) or nonfinite_parameter(self._module) is not None:
                yield from self._return_to_good()
            raise
        finally:
            # A thread that is left behind would still rename its checkpoint to its place, maybe
            # after the next attempt has begun.
            self._checkpoints.end()
            self._curves.close()

    def _run(self) -> Waits[ExecutorEvent]:
        context, params = self._context, self._params
        stopped = yield from self._prepare()
        state = self._state
        while stopped is None and not self._is_done():
            stopped = yield from self._run_epoch()
        if stopped is not None:
            return stopped
        yield from self._checkpoints.finish(state)
        result = {
            "epochs": state.epoch - params.first_epoch,
            "stopped_early": state.epoch < params.epochs,
            **({"best": state.best} if state.best else {}),
            "train": state.train,
            "validation": state.validation,
            "checkpoint": str(state.tag),
            "samples": state.samples,
            "seconds": round(self._seconds(), 3),
        }
        return JobDone(job_id=context.job_id, attempt=context.attempt, result=result)

    def _is_done(self) -> bool:
        return self._state.epoch >= self._params.epochs or self._watch.has_stopped(self._state)

    # -- before the first batch -------------------------------------------------------------

    def _prepare(self) -> Stop:
        context, params, module = self._context, self._params, self._module
        if params.first_epoch >= params.epochs:
            raise Invalid("begin_epoch", params.begin_epoch, f"less than epochs, {params.epochs}")
        yield from self._load()
        if context.requested is not None:
            return context.stopped()
        self._lengths = bucket_lengths(module, params.bucket_keys)
        if self._lengths and params.last_batch == "roll_over":
            raise Invalid("last_batch", "roll_over", "pad or discard where there are buckets")
        report_too_long(context, self._examples, self._lengths)
        self._watch.check(self._metric_names())
        has_unsaved = module.has_unsaved  # before this attempt changes anything
        if context.start.resume is None:
            check_present(module)
        yield from bind_for_fit(module, self._examples, params.batch_size, self._lengths)
        yield None
        yield from self._look_at_labels()
        for warning in context.start.warnings:
            context.log(warning, "warning")
        if context.start.resume is not None:
            yield from self._go_on(Path(context.start.resume))
            init = None
        else:
            init = yield from self._begin()
        if context.start.series_path is not None:
            place = (self._state.epoch, self._state.batch)
            self._curves.begin(Path(context.start.series_path), self._metric_names(), place)
        optimizer = module.record.optimizer
        assert module.record.bind is not None
        assert optimizer is not None
        context.send(
            JobPrepared(
                job_id=context.job_id,
                attempt=context.attempt,
                bind=module.record.bind,
                init=init,
                optimizer=optimizer,
                labels=class_labels(module, params, context.start.datasets[params.dataset].record),
            )
        )
        if context.start.resume is None:
            yield from self._secure_beginning(has_unsaved)
        context.is_revertible = context.start.resume is None and not has_unsaved
        yield None
        return None

    def _add_to_curves(self) -> None:
        metrics = finite(self._metric.get_global_name_value())
        values = [*metrics.values(), *([self._loss.last] if self._loss.is_known else [])]
        self._curves.add(self._state.epoch, self._state.batch - 1, values)

    def _load(self) -> Waits[None]:
        context, params = self._context, self._params
        self._examples = yield from load_examples(context, params, "", with_labels=True)
        if params.validation is not None:
            self._validation = yield from load_examples(
                context, params.validation, "validation", with_labels=True
            )

    def _look_at_labels(self) -> Waits[None]:
        params = self._params
        sources = [(self._examples, params.dataset, "")]
        if self._validation is not None and params.validation is not None:
            sources.append((self._validation, params.validation.dataset, "validation."))
        self._ranges = yield from look_at_labels(self._module, sources)

    def _secure_beginning(self, has_unsaved: bool) -> Waits[None]:
        """Save the initial state if it exists only in memory; never overwrite a checkpoint."""
        tag = self._state.tag
        is_there = (Path(self._context.start.checkpoint_root) / str(tag)).exists()
        if has_unsaved and not is_there:
            yield from self._save()
            yield from self._checkpoints.finish(self._state)
            return
        if has_unsaved:
            self._context.log(
                f"checkpoint {tag} is there already, so the module's unsaved parameters are not "
                "saved; if they are lost before the first checkpoint, the fit begins from what is",
                "warning",
            )
        self._beginning = Beginning.of(self._module)
        self._module.job_data_bytes += self._beginning.nbytes

    def _forget_beginning(self) -> None:
        """Release the copy of the initial state, because there is a checkpoint."""
        if self._beginning is not None and self._checkpoints.durable is not None:
            self._module.job_data_bytes -= self._beginning.nbytes
            self._beginning = None

    def _return_to_good(self) -> Waits[None]:
        """Give the module the last parameters that were of use."""
        context = self._context
        yield from self._checkpoints.settle(self._state)
        directory = self._checkpoints.durable
        try:
            if directory is not None:
                yield from self._restore(directory)
                found = f"checkpoint {directory.name}"
            elif self._beginning is not None:
                self._beginning.restore(self._module)
                found = "before the fit"
            else:
                return
        except (ServiceError, HostError, MXNetError, OSError) as error:
            context.log(f"the last good parameters could not be restored: {error}", "error")
        else:
            context.log(f"the module has the parameters of {found} again", "warning")

    def _begin(self) -> Waits[InitSpec | None]:
        context, params, module = self._context, self._params, self._module
        init = choose_init(context, params)
        if init is not None:
            assert init.seed is not None
            kept = yield from read_base(module, context.start.base)
            self._random.seed(self._stream, init.seed, module.contexts)
            init_params(module, init, {}, "initializer.", kept)
        optimizer = choose_optimizer(context, params)
        if params.optimizer is not None or optimizer_of(module.engine) is None:
            module.init_optimizer(optimizer, "optimizer.")
        self._random.seed(self._stream, params.seed + _TRAINING_STREAM, module.contexts)
        return init

    def _restore(self, directory: Path) -> Waits[FitState]:
        manifest, states = yield from awaited(in_background(_read, directory))
        spec = choose_optimizer(self._context, self._params)
        return (yield from restore_fit(self._module, directory, manifest, states, spec))

    def _go_on(self, directory: Path) -> Waits[None]:
        """Restore module and state from a checkpoint."""
        context = self._context
        state = self._state = yield from self._restore(directory)
        self._random.set_position(self._stream, state.random)
        self._metric.set_state(state.metric)
        self._loss.set_state(state.loss)
        self._checkpoints.newest, self._checkpoints.durable = state.tag, directory
        context.log(f"going on from checkpoint {state.tag}")

    # -- epochs -----------------------------------------------------------------------------

    def _run_epoch(self) -> Stop:
        context, params, state = self._context, self._params, self._state
        started = time.monotonic()
        plan = self._plan()
        callbacks = make_callbacks(params, len(plan.batches))
        if state.batch == 0:
            self._metric.reset()
            self._loss.reset()
        context.begin_stretch(state.samples)
        for batch in plan.batches[state.batch :]:
            self._train(batch, len(plan.batches))
            self._add_to_curves()
            for callback in callbacks:
                callback(BatchEndParam(state.epoch, state.batch - 1, self._metric, None))
            self._report(len(plan.batches))
            self._checkpoints.look(state)
            self._forget_beginning()
            if state.batch < len(plan.batches) and self._is_save_due():
                yield from self._save()
            yield None
            if context.requested is not None:
                return (yield from self._stop())
        self._synchronize_devices()
        state.train = self._train_values()
        context.metric(state.epoch, "train", state.train, time.monotonic() - started)
        stopped = yield from self._validate()
        if stopped is not None:
            return stopped
        is_best = self._watch.end_epoch(state)
        is_due = self._is_save_due()  # after the last batch, whose checkpoint is that of the epoch
        state.epoch, state.batch, state.rolled = state.epoch + 1, 0, plan.rolled.tolist()
        every = params.checkpoint.epochs
        if is_best or is_due or self._is_done() or (every and state.epoch % every == 0):
            yield from self._save()
        yield None
        return (yield from self._stop()) if context.requested is not None else None

    def _plan(self) -> EpochPlan:
        params, state = self._params, self._state
        plan = plan_epoch(
            self._examples.count,
            params.batch_size,
            seed=params.seed,
            epoch=state.epoch,
            shuffle=params.shuffle,
            last_batch=params.last_batch,
            rolled=np.array(state.rolled, dtype=np.intp),
            lengths=self._examples.lengths,
            bucket_keys=self._lengths,
        )
        if not plan.batches:
            raise Invalid(
                "batch_size", params.batch_size, f"at most {self._examples.count}, the examples"
            )
        return plan

    def _validate(self) -> Stop:
        context, params, state = self._context, self._params, self._state
        if self._validation is None:
            return None
        started = time.monotonic()
        evaluation = Evaluation(
            context,
            self._validation,
            params.batch_size,
            metrics=params.metrics,
            bucket_keys=self._lengths,
        )
        for _ in evaluation.steps():
            yield None
            if context.requested is not None:
                return (yield from self._stop())
        state.validation = evaluation.values()
        seconds = time.monotonic() - started
        context.metric(state.epoch, "validation", state.validation, seconds)
        return None

    # -- batches ----------------------------------------------------------------------------

    def _train(self, planned: PlannedBatch, batches: int) -> None:
        engine, state = self._module.engine, self._state
        given = as_arrays(self._examples.fill(planned))
        check_batch_labels(given, self._examples, planned, self._ranges, self._params.dataset)
        self._forward_backward(self._as_batch(given, planned))
        outputs = dict(zip(engine.output_names, engine.get_outputs(), strict=True))
        labels = {name: given[name] for name in self._module.label_names}
        count = len(planned.rows) - planned.pad
        lengths = self._examples.lengths_of(labels, planned.rows)
        real = real_positions(labels, outputs, lengths, count)
        labels, outputs = without_padding(labels, outputs, len(planned.rows), count)
        if not self._loss.update(labels, outputs, count):
            where = f"in epoch {state.epoch}, batch {state.batch} of {batches}"
            check_finite(self._params.dataset, self._examples, given, planned, where)
            raise Diverged(f"the loss became NaN or infinite {where}")
        update_parameters(engine)
        update_metric(self._metric, *(real or (labels, outputs)), "metrics")
        self._module.has_unsaved = True
        state.batch += 1
        state.samples += count

    def _forward_backward(self, batch: DataBatch) -> None:
        context, monitor, state = self._context, self._params.monitor, self._state
        if monitor is None or state.batch % monitor.interval:
            self._module.engine.forward_backward(batch)
            return
        with watched(self._module.engine, monitor.pattern) as rows:
            self._module.engine.forward_backward(batch)
        rows += parameter_statistics(self._module, monitor.pattern)
        self._curves.add_histograms(state.epoch, state.batch)
        context.send(
            JobStatistics(
                job_id=context.job_id,
                attempt=context.attempt,
                epoch=state.epoch,
                batch=state.batch,
                arrays=tuple(rows),
            )
        )

    def _as_batch(self, given: dict[str, NDArray], planned: PlannedBatch) -> DataBatch:
        module = self._module
        shapes = self._examples.shapes(len(planned.rows), planned.bucket)
        descs = {
            one.name: DataDesc(one.name, one.shape, to_dtype(one.dtype), one.layout)
            for one in shapes
        }
        return DataBatch(
            [given[name] for name in module.data_names],
            [given[name] for name in module.label_names],
            pad=planned.pad,
            bucket_key=planned.bucket,
            provide_data=[descs[name] for name in module.data_names],
            provide_label=[descs[name] for name in module.label_names],
        )

    def _synchronize_devices(self) -> None:
        """Average the auxiliary states over the devices, as MXNet does after every epoch."""
        if len(self._module.contexts) > 1:
            self._module.engine.set_params(*self._module.engine.get_params())

    def _report(self, batches: int) -> None:
        context, state = self._context, self._state
        if context.progress_is_due() or state.batch == batches:
            context.progress(
                epoch=state.epoch,
                epochs=self._params.epochs,
                begin_epoch=self._params.first_epoch,
                batch=state.batch,
                batches=batches,
                samples=state.samples,
                metrics=self._train_values(),
            )

    def _train_values(self) -> dict[str, float | None]:
        values = finite(self._metric.get_global_name_value())
        return values if self._loss.mean is None else values | finite([("loss", self._loss.mean)])

    def _metric_names(self) -> list[str]:
        names = [str(name) for name, _ in self._metric.get_global_name_value()]
        return [*names, "loss"] if self._loss.is_known else names

    # -- checkpoints ------------------------------------------------------------------------

    def _is_save_due(self) -> bool:
        cadence = self._params.checkpoint
        if cadence.batches is not None and self._state.batch % cadence.batches == 0:
            return True
        seconds = time.monotonic() - self._checkpoints.saved_at
        return cadence.seconds is not None and seconds >= cadence.seconds

    def _stop(self) -> Stop:
        """Return the final event of a job that was asked to stop; a pause saves a checkpoint
        first."""
        if self._context.requested is JobAction.PAUSE:
            # A checkpoint of the same position has the same content.
            if self._checkpoints.newest != self._state.tag:
                yield from self._save()
            yield from self._checkpoints.finish(self._state)
        else:
            yield from self._checkpoints.settle(self._state)
            if nonfinite_parameter(self._module) is not None:
                yield from self._return_to_good()
        return self._context.stopped()

    def _save(self) -> Waits[None]:
        state = self._state
        optimizer = optimizer_of(self._module.engine)
        assert optimizer is not None
        state.random = self._random.position(self._stream)
        state.optimizer = get_position(optimizer)
        state.metric, state.loss = self._metric.get_state(), self._loss.get_state()
        state.seconds = self._seconds()
        self._clock = time.monotonic()
        self._curves.flush()  # curves must not lag behind a checkpoint
        yield from self._checkpoints.save(state)

    def _seconds(self) -> float:
        return self._state.seconds + time.monotonic() - self._clock


def _read(directory: Path) -> tuple[CheckpointManifest, bytes]:
    """Return the manifest and the optimizer's states of an intact checkpoint that a fit wrote."""
    manifest = verify_checkpoint(directory)
    states = next(name for name in manifest.files if name.endswith(".states"))
    return manifest, (directory / states).read_bytes()
