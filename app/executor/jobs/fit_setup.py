"""What a job does before its first batch: load its examples, bind and initialize the module."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.domain.codec import canonical_json
from app.domain.job_params import DatasetSource, FitParams
from app.domain.module import BindSpec, BucketShapes, InitSpec, InputDesc, ModuleKind, OptimizerSpec
from app.errors.tree import Conflict, Invalid, ParamsLost
from app.executor.background import Waits, awaited, in_background
from app.executor.faults import client_fault
from app.executor.jobs.epoch_plan import bucket_of_lengths
from app.executor.jobs.examples import Examples, InputForm
from app.executor.jobs.job_context import JobContext
from app.executor.modules.hosted_module import HostedModule, parse_key
from core import callback
from core.checkpoint import BatchEndParam

__all__ = [
    "Callback",
    "bind_for_fit",
    "bucket_lengths",
    "choose_init",
    "choose_optimizer",
    "load_examples",
    "make_callbacks",
    "report_too_long",
]

Callback = Callable[[BatchEndParam], None]

_COUNTS = frozenset({"frequent", "length", "period"})
"""Options of callbacks that count batches or characters."""


def load_examples(
    context: JobContext, source: DatasetSource, field: str, with_labels: bool
) -> Waits[Examples]:
    """Load the examples for a job's module, off the device thread."""
    module = context.module
    names = [*module.data_names, *(module.label_names if with_labels else ())]
    bound = {one.name: one for one in _bound_inputs(module)}
    forms = [
        InputForm(name, bound[name].dtype, bound[name].layout) if name in bound else InputForm(name)
        for name in names
    ]
    files = context.start.datasets
    examples = yield from awaited(in_background(Examples, source, files, forms, field))
    module.job_data_bytes += examples.nbytes()
    return examples


def bucket_lengths(module: HostedModule, wanted: Sequence[int]) -> list[int]:
    """Return the lengths of the buckets that a job uses, ascending; empty without buckets.

    Raises:
        Invalid: a bucket has no symbol, the module has no buckets, or its keys are not lengths.
    """
    if module.record.kind is not ModuleKind.BUCKETING:
        if wanted:
            raise Invalid("bucket_keys", list(wanted), "none for a module without buckets")
        return []
    keys = [parse_key(key, "symbols") for key in module.symbols]
    lengths = sorted(key for key in keys if isinstance(key, int))
    if len(lengths) < len(keys):
        raise Invalid("bucket_keys", keys, "a module whose bucket keys are lengths")
    for key in wanted:
        if key not in lengths:
            raise Invalid("bucket_keys", key, f"buckets that have symbols: {lengths}")
    return sorted(set(wanted)) or lengths


def report_too_long(context: JobContext, examples: Examples, lengths: Sequence[int]) -> None:
    """Log how many examples are too long for every bucket; raise Invalid if none is left."""
    if not lengths:
        return
    if examples.lengths is None:
        raise Invalid("inputs", "no input with lengths", "one whose examples have lengths")
    positions = bucket_of_lengths(examples.lengths, lengths)
    left_out = int((positions == len(lengths)).sum())
    if left_out == examples.count:
        raise Invalid("bucket_keys", list(lengths), "a bucket that holds an example")
    if left_out:
        context.log(
            f"{left_out} of {examples.count} examples are longer than the largest bucket "
            f"({lengths[-1]}) and are left out",
            "warning",
        )


def bind_for_fit(
    module: HostedModule, examples: Examples, batch_size: int, lengths: Sequence[int]
) -> Waits[None]:
    """Bind the module for training with the shapes of the job's batches, unless it already is.

    Raises:
        Conflict: it is bound with ``grad_req`` add, and the fit would never reset its gradients.
        Invalid, HostError: the shapes do not fit the symbols or the parameters.
    """
    present = module.record.bind
    if present is not None and _adds_gradients(present):
        raise Conflict(
            f"module {module.name!r} is bound with grad_req add, and a fit would never clear its "
            "gradients; bind it again with grad_req write"
        )
    default = module.default_key if lengths else None
    shapes = _split(module, examples.shapes(batch_size, default))
    buckets = {
        canonical_json(length): _split(module, examples.shapes(batch_size, length))
        for length in lengths
        if length != default
    }
    wanted = BindSpec(
        data_shapes=shapes.data_shapes,
        label_shapes=shapes.label_shapes,
        inputs_need_grad=present is not None and present.inputs_need_grad,
        grad_req=present.grad_req if present is not None else "write",
        buckets=buckets,
    )
    if present is not None:
        wanted = dataclasses.replace(wanted, buckets={**present.buckets, **buckets})
    if present != wanted:
        yield from module.bind(wanted)


def choose_init(context: JobContext, params: FitParams) -> InitSpec | None:
    """Return the initialization to apply, with a seed; None if the module has parameters.

    Raises:
        ParamsLost: the module had parameters that are gone; only the client may replace them.
    """
    if context.module.record.lost:
        raise ParamsLost(context.module.name)
    if context.module.record.params is not None:
        return None
    spec = params.initializer or context.start.init or InitSpec()
    return spec if spec.seed is not None else dataclasses.replace(spec, seed=params.seed)


def choose_optimizer(context: JobContext, params: FitParams) -> OptimizerSpec:
    """Return the optimizer to train with: the job's, or else the module's.

    Raises:
        Invalid: neither has one.
    """
    spec = params.optimizer or context.module.record.optimizer or context.start.optimizer
    if spec is None:
        raise Invalid("optimizer", None, "an optimizer, because the module has none")
    return spec


def make_callbacks(params: FitParams, batches: int) -> list[Callback]:
    """Return the callbacks that a fit asks for; their log lines go into the job's log.

    Raises:
        Invalid, HostError: an unknown name or option.
    """
    makers: Mapping[str, Callable[..., Callback]] = {
        "speedometer": lambda **options: callback.Speedometer(params.batch_size, **options),
        "progress_bar": lambda **options: callback.ProgressBar(batches, **options),
        "log_train_metric": callback.log_train_metric,
    }
    made = []
    for name, options in params.callbacks.items():
        if name not in makers:
            raise Invalid(f"callbacks.{name}", options, f"one of {', '.join(makers)}")
        for option in _COUNTS & options.keys():
            count = options[option]
            if type(count) is not int or count < 1:
                field = f"callbacks.{name}.{option}"
                raise Invalid(field, count, "a whole number, at least 1")
        with client_fault(f"callbacks.{name}"):
            made.append(makers[name](**options))
    return made


def _bound_inputs(module: HostedModule) -> list[InputDesc]:
    bound = module.record.bind
    return [] if bound is None else [*bound.data_shapes, *bound.label_shapes]


def _adds_gradients(spec: BindSpec) -> bool:
    requests: Any = spec.grad_req.values() if isinstance(spec.grad_req, dict) else [spec.grad_req]
    return "add" in requests


def _split(module: HostedModule, shapes: Sequence[InputDesc]) -> BucketShapes:
    """Return descriptions of data and labels, with the padding that the module is bound with, so
    that predictions keep using it."""
    bound = {one.name: one for one in _bound_inputs(module)}
    descs = [_padded_as(one, bound.get(one.name)) for one in shapes]
    return BucketShapes(
        data_shapes=tuple(one for one in descs if one.name in module.data_names),
        label_shapes=tuple(one for one in descs if one.name in module.label_names),
    )


def _padded_as(desc: InputDesc, bound: InputDesc | None) -> InputDesc:
    if bound is None:
        return desc
    return dataclasses.replace(desc, pad_value=bound.pad_value, lengths_of=bound.lengths_of)
