"""The checkpoints of a fit, written while training continues.

The device thread only copies the contents of a checkpoint; another thread hashes the files and
waits for the disk. One checkpoint is written at a time, and it is reported when it is durable.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path

from app.domain.checkpoint import BestPolicy, CheckpointTag
from app.domain.job_params import FitParams, parse_job_params
from app.errors.tree import HostError, ServiceError
from app.executor.background import Waits, in_background, settled
from app.executor.jobs.diverged import Diverged
from app.executor.jobs.fit_state import FitSnapshot, FitState
from app.executor.jobs.job_context import JobContext
from app.executor.modules.snapshot import Snapshot
from app.files.checkpoint_files import write_checkpoint
from app.files.durable_files import sync_file
from app.files.histogram_series import histograms_path
from app.link.job_messages import JobCheckpoint

__all__ = ["FitCheckpoints"]


@dataclass(frozen=True, slots=True)
class _UnderWay:
    tag: CheckpointTag
    written: Future[None]


class FitCheckpoints:
    """Takes and writes the checkpoints of one attempt.

    Attributes:
        newest: the latest one that was started, or that the fit resumed from; None before there is
            one.
        durable: directory of the latest one that is durable, or that the fit resumed from; None
            before there is one.
        saved_at: when the latest one became durable, on the monotonic clock; before that, the time
            of construction.
    """

    def __init__(self, context: JobContext) -> None:
        self.newest: CheckpointTag | None = None
        self.durable: Path | None = None
        self.saved_at = time.monotonic()
        self._context = context
        self._under_way: _UnderWay | None = None

    def save(self, state: FitState) -> Waits[None]:
        """Copy module and state and start writing them, after finishing the previous checkpoint.

        Raises:
            Diverged: a parameter of the previous checkpoint is not finite.
            OSError: it could not be written.
        """
        yield from self.finish(state)
        module = self._context.module
        snapshot = Snapshot.of(module, optimizer_states=True)
        written = in_background(_write, self._context, snapshot, FitSnapshot.of(state, module))
        self._under_way = _UnderWay(state.tag, written)
        self.newest = state.tag

    def look(self, state: FitState) -> None:
        """Report the checkpoint being written if it is durable now; raise as ``save`` does if it
        failed."""
        if self._under_way is not None and self._under_way.written.done():
            self._report(self._under_way, state)

    def finish(self, state: FitState) -> Waits[None]:
        """Wait until the checkpoint being written is durable; raise as ``save`` does if it
        failed."""
        if self._under_way is not None:
            yield from settled(self._under_way.written)
            self._report(self._under_way, state)

    def settle(self, state: FitState) -> Waits[None]:
        """Wait as ``finish`` does, but only log a failure, because the fit ends anyway."""
        try:
            yield from self.finish(state)
        except (ServiceError, HostError, OSError) as error:
            self._context.log(f"the last checkpoint could not be written: {error}", "warning")

    def end(self) -> None:
        """Block until nothing is being written any more, ignoring failures."""
        if self._under_way is not None:
            wait([self._under_way.written])

    def _report(self, done: _UnderWay, state: FitState) -> None:
        self._under_way = None
        try:
            done.written.result()
        except BaseException:
            del done  # see in_background
            raise
        self.saved_at = time.monotonic()
        context = self._context
        self.durable = Path(context.start.checkpoint_root) / str(done.tag)
        # A module that is restored now has this checkpoint's parameters, not those from before.
        context.is_revertible = False
        if state.tag == done.tag:  # nothing has been trained since
            context.module.has_unsaved = False
        context.send(
            JobCheckpoint(
                job_id=context.job_id,
                attempt=context.attempt,
                epoch=done.tag.epoch,
                batch=done.tag.batch,
            )
        )


def _write(context: JobContext, snapshot: Snapshot, fit: FitSnapshot) -> None:
    epoch, batch = fit.state["epoch"], fit.state["batch"]
    if (name := snapshot.nonfinite()) is not None:
        raise Diverged(
            f"parameter {name!r} holds NaN or infinity after epoch {epoch}, batch {batch}"
        )
    # The curves first: a fit that resumes from this checkpoint keeps what they have up to its
    # position, so they must not have lost any of that in a power failure.
    if context.start.series_path is not None:
        series = Path(context.start.series_path)
        for path in (series, histograms_path(series)):
            if path.exists():
                sync_file(path)
    with write_checkpoint(
        Path(context.start.checkpoint_root),
        CheckpointTag(epoch, batch),
        module=snapshot.name,
        job_id=context.job_id,
        attempt=context.attempt,
    ) as writer:
        snapshot.write(writer.directory, epoch)
        fit.write(writer.directory)
        writer.metrics = {"train": fit.state["train"], "validation": fit.state["validation"]}
        writer.keep_best = _policy(context)


def _policy(context: JobContext) -> BestPolicy | None:
    params = parse_job_params(context.start.kind, dict(context.start.params))
    if not isinstance(params, FitParams) or params.checkpoint.keep_best is None:
        return None
    best = params.checkpoint.keep_best
    part = params.part_of(best)
    return BestPolicy(part=part, metric=best.metric, mode=best.mode, count=best.count)
