"""Checks of a job's parameters against the engine that need not wait for the job to start."""

from __future__ import annotations

from app.domain.job_params import FitParams, JobParams, ScoreParams
from app.executor.jobs.fit_setup import make_callbacks
from app.executor.jobs.job_metrics import make_metrics
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_params import make_initializer
from app.executor.modules.optimizer_specs import make_options

__all__ = ["check_job"]


def check_job(params: JobParams, module: HostedModule | None = None) -> None:
    """Refuse names and options that the engine, or the module, does not know.

    Raises:
        Invalid, HostError: a metric, callback, optimizer or initializer, with its field.
    """
    if isinstance(params, FitParams | ScoreParams):
        outputs = None if module is None else module.default_symbol.list_outputs()
        labels = None if module is None else module.label_names
        make_metrics(params.metrics, "metrics", outputs, labels)
    if isinstance(params, FitParams):
        make_callbacks(params, batches=1)
        if params.optimizer is not None:
            make_options(params.optimizer, "optimizer.")
        if params.initializer is not None:
            make_initializer(params.initializer, "initializer.")
