"""Checkpoints of a training, from which it may go on."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....errors import UsageError
from ....metric import EvalMetric
from ...hybrid_block import HybridBlock, compiled_graph
from ...symbol_block import SymbolBlock
from .events import BatchEnd, EpochEnd, TrainBegin
from .metric_choice import comparison_of

__all__ = ["CheckpointHandler"]

_PERIODS = (
    "To use resume from checkpoint, you must only specify the same type of period you used for "
    "training. For example, if you are training based on number of epochs, you must save only "
    "based on epochs, and set batch_period to None."
)


class _Saved(NamedTuple):
    """A checkpoint in the folder, by the numbers in its name."""

    epoch: int
    batch: int
    prefix: str


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves the symbol of a compiled model once, and parameters and trainer after some epochs or
    batches, as ``prefix-epochEbatchB.params`` and ``.states``.

    Args:
        model_dir: the folder, which is created.
        model_prefix: what the files' names begin with.
        monitor: for ``save_best``, one of the estimator's metrics.
        verbose: 1 to log every checkpoint.
        save_best: also keep the checkpoint with the metric's best value, as ``prefix-best``.
        mode: ``"min"`` or ``"max"``, or ``"auto"`` to go by the metric's name.
        epoch_period: number of epochs between checkpoints; None for none after epochs.
        batch_period: likewise for batches.
        max_checkpoints: how many are kept, besides the best one; the oldest are removed.
        resume_from_checkpoint: go on from the newest checkpoint in the folder.

    Raises:
        ValueError: ``save_best`` without a metric.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: Any = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        self.monitor = monitor
        self.verbose = verbose
        Path(model_dir).mkdir(parents=True, exist_ok=True)
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = self.current_epoch = 0
        self.trained_epoch = self.trained_batch = -1
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ValueError(
                    "To save best model only, please provide one of the metric objects from "
                    "estimator.train_metrics and estimator.val_metrics as monitor."
                )
            self.monitor_op = comparison_of(monitor, mode, "ModelCheckpoint")
            self.best = self._worst()

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from zero, or go on from the newest checkpoint."""
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = self._worst()
        if not self.resume_from_checkpoint:
            return
        if estimator.max_batch and (self.epoch_period or not self.batch_period):
            raise AssertionError(_PERIODS)
        if estimator.max_epoch and (self.batch_period or not self.epoch_period):
            raise AssertionError(_PERIODS)
        self._resume(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save if it is time; the symbol after the first batch."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save if it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _worst(self) -> float:
        return np.inf if self.monitor_op is np.less else -np.inf

    def _save_symbol(self, estimator: Any) -> None:
        file = Path(self.model_dir, f"{self.model_prefix}-symbol.json")
        net = estimator.net
        if isinstance(net, SymbolBlock) or (isinstance(net, HybridBlock) and net._compiled):
            compiled_graph(net)._symbol.save(str(file))
            return
        estimator.logger.info(
            "Model architecture(symbol file) is not saved, please use HybridBlock to construct "
            "your model, and call net.hybridize() before passing to Estimator in order to save "
            "model architecture as %s.",
            file,
        )

    def _save_checkpoint(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            # At the end of an epoch its last batch has been counted already.
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        prefix = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save(estimator, prefix)
        self._forget_oldest(prefix)
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with "
                "prefix: %s",
                self.current_epoch,
                self.current_batch + 1,
                self.model_dir,
                prefix,
            )
        if self.save_best:
            self._save_if_best(estimator)

    def _save_if_best(self, estimator: Any) -> None:
        name, value = self.monitor.get()
        if np.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the "
                "metric objects estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        if self.monitor_op(value, self.best):
            prefix = f"{self.model_prefix}-best"
            self._save(estimator, prefix)
            line = (
                f"{name} improved from {self.best:.5f} to {value:.5f}, updating best model at "
                f"{self.model_dir} with prefix: {prefix}"
            )
            self.best = value
        else:
            line = f"{name} did not improve from {self.best:.5f}, skipping updating best model"
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s", self.current_epoch, line)

    def _save(self, estimator: Any, prefix: str) -> None:
        estimator.net.save_parameters(str(self._file(prefix, "params")))
        estimator.trainer.save_states(str(self._file(prefix, "states")))

    def _forget_oldest(self, prefix: str) -> None:
        self.saved_checkpoints.append(prefix)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            # Exactly its files: MXNet also removes batch 10 with batch 1.
            for ending in ("params", "states"):
                self._file(oldest, ending).unlink(missing_ok=True)

    def _file(self, prefix: str, ending: str) -> Path:
        return Path(self.model_dir, f"{prefix}.{ending}")

    # -- going on ---------------------------------------------------------------------------

    def _resume(self, estimator: Any) -> None:
        found = self._checkpoints()
        if not found:
            amount = (
                f"{estimator.max_batch} batches"
                if estimator.max_batch
                else f"{estimator.max_epoch} epochs"
            )
            estimator.logger.info(
                "CheckpointHandler: No checkpoint found, training from scratch for %s", amount
            )
            self.trained_epoch = self.trained_batch = -1
            return
        self.trained_epoch, self.trained_batch, prefix = found[-1]
        self.saved_checkpoints = [one.prefix for one in found]
        rest = []
        if estimator.max_epoch:
            estimator.max_epoch = _rest_of(estimator.max_epoch, self.trained_epoch, "epoch")
            rest.append(f"{estimator.max_epoch} epochs")
        if estimator.max_batch:
            estimator.max_batch = _rest_of(estimator.max_batch, self.trained_batch, "batch")
            rest.append(f"{estimator.max_batch} batches")
        for ending in ("params", "states"):
            file = self._file(prefix, ending)
            if not file.exists():
                raise UsageError(f"Failed to load checkpoint, {file} does not exist")
        estimator.net.load_parameters(str(self._file(prefix, "params")), ctx=estimator.context)
        estimator.trainer.load_states(str(self._file(prefix, "states")))
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for "
            "%s ",
            self.trained_epoch,
            self.trained_batch,
            " ".join(rest),
        )

    def _checkpoints(self) -> list[_Saved]:
        """Return the checkpoints in the folder, the oldest first."""
        found = []
        start = f"{self.model_prefix}-epoch"
        for file in Path(self.model_dir).iterdir():
            if not (file.name.startswith(start) and file.suffix == ".params"):
                continue
            numbers = re.fullmatch(r"(\d+)batch(\d+)", file.stem.removeprefix(start))
            if numbers is None:
                raise ValueError(
                    f"Error parsing checkpoint file {file.name}, please check your checkpoints "
                    "have the format: {model_name}-epoch{epoch_number}batch{batch_number}.params, "
                    "there should also be a .states file for each .params file "
                )
            found.append(_Saved(int(numbers[1]), int(numbers[2]), file.stem))
        return sorted(found)


def _rest_of(wanted: int, trained: int, unit: str) -> int:
    """Return how many epochs or batches remain; ValueError if there are none."""
    rest: int = wanted - trained - 1
    if rest <= 0:
        raise ValueError(
            f"Found checkpoint with maximum number of {unit} {wanted} reached, please specify "
            "resume_from_checkpoint=False (default value) if you want to train from scratch."
        )
    return rest
