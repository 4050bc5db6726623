"""Metrics of a job: created by name with options, and updated without padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.job_params import Metric, MetricSpec
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid
from app.executor.faults import client_fault
from core import metric as metrics
from core.ndarray import NDArray

__all__ = ["make_metrics", "update_metric"]

_REQUIRED: Mapping[str, Mapping[str, Any]] = {"perplexity": {"ignore_label": None}}
"""Defaults for options that MXNet requires."""


def make_metrics(
    wanted: Sequence[Metric],
    field: str,
    outputs: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
) -> metrics.CompositeEvalMetric:
    """Return metrics.

    Args:
        wanted: metrics by name, or by name with options.
        field: where they are in the job's parameters, for errors.
        outputs, labels: names of the module's; None if they are not known yet.

    Raises:
        Invalid, HostError: an unknown metric, option, output or label, or two metrics whose values
            would share a name.
    """
    composite = metrics.CompositeEvalMetric()
    specs = [MetricSpec(name=one) if isinstance(one, str) else one for one in wanted]
    for position, spec in enumerate(specs):
        path = f"{field}[{position}]"
        _check_names(spec.outputs, outputs, f"{path}.outputs")
        _check_names(spec.labels, labels, f"{path}.labels")
        with client_fault(path):
            composite.add(_make(spec))
    names = [str(name) for name, _ in composite.get_name_value()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None and any(isinstance(one, MetricSpec) for one in wanted):
        expected = 'names of their own: "options": {"name": "..."}'
        raise Invalid(field, f"two metrics called {twice!r}", expected)
    return composite


def update_metric(
    metric: metrics.EvalMetric,
    labels: Mapping[str, NDArray],
    outputs: Mapping[str, NDArray],
    field: str,
) -> None:
    """Update with a batch; raise HostError for a metric that does not fit the module."""
    with client_fault(field):
        metric.update_dict(labels, outputs)


def _make(spec: MetricSpec) -> metrics.EvalMetric:
    options = {**_REQUIRED.get(spec.name.lower(), {}), **spec.options}
    if spec.outputs:
        options["output_names"] = list(spec.outputs)
    if spec.labels:
        options["label_names"] = list(spec.labels)
    made: metrics.EvalMetric = metrics.create(spec.name, **options)
    if spec.outputs and "name" not in spec.options:
        made.name += f"({','.join(spec.outputs)})"
    return made


def _check_names(names: Sequence[str], known: Sequence[str] | None, field: str) -> None:
    for position, name in enumerate(names):
        if known is not None and name not in known:
            expected = f"one of {', '.join(known) or 'none'}{did_you_mean(name, known)}"
            raise Invalid(f"{field}[{position}]", name, expected)
