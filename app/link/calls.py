"""The calls that an executor answers: parameters, accompanying tensors, and answers.

A caller sends ``to_call(Predict(module="lenet"))``; the host parses it with type checks. Bucket
keys are canonical JSON text everywhere (``20``, ``[10,20]``). Tensors have the names of the
module's inputs, outputs and parameters. A call with a generation is refused with
``precondition_failed`` if the module has another one, a call on a module that is not on the device
with ``not_resident``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.domain.codec import to_plain
from app.domain.job import JobKind
from app.domain.module import (
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleRecord,
    OptimizerSpec,
)
from app.domain.origin import Head
from app.domain.sequence import SequencePart, SequenceStates
from app.domain.serving import Batches
from app.link.call_base import OfModule, Strict
from app.link.file_calls import LoadCheckpoint, LoadVersion, SaveCheckpoint
from app.link.insight_calls import DescribeGraph, ProfileModule, SummarizeParams
from app.link.job_messages import JobControl, JobStart
from app.link.step_calls import (
    Backward,
    Forward,
    GetInputGrads,
    GetOutputs,
    GetStates,
    GetStatistics,
    PassCall,
    SetStates,
    StepCall,
    Update,
)

__all__ = [
    "CALL_NAMES",
    "Backward",
    "Bind",
    "BindBucket",
    "Call",
    "ChangeBuckets",
    "CheckJob",
    "CreateModule",
    "CutSymbols",
    "DeleteModule",
    "DescribeGraph",
    "DescribeModule",
    "ExecutorInfo",
    "Forward",
    "GetInputGrads",
    "GetOptimizer",
    "GetOptimizerStates",
    "GetOutputs",
    "GetParams",
    "GetStates",
    "GetStatistics",
    "InitOptimizer",
    "InitParams",
    "InspectModel",
    "LoadCheckpoint",
    "LoadVersion",
    "OfModule",
    "PassCall",
    "Predict",
    "ProfileModule",
    "ProposeShapes",
    "Reshape",
    "ResidentModules",
    "RestoreModule",
    "SaveCheckpoint",
    "SetLearningRate",
    "SetOptimizerStates",
    "SetParams",
    "SetStates",
    "StepCall",
    "SummarizeParams",
    "Update",
    "WarmUp",
    "to_call",
]


# -- control -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorInfo(Strict):
    """Ask for device, memory, modules and jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateModule(Strict):
    """Create a module on the device; its symbols are parsed, nothing is bound.

    ``already_exists`` if it is there. Whatever stage the record says, the module is only created;
    later stages need their own calls.

    Attributes:
        record: the module.
        max_nodes: limit on the nodes of all its symbols; None for no limit.
    """

    record: ModuleRecord
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreModule(Strict):
    """Restore a module from its record, completely or not at all; no effect if it is on the device.

    Attributes:
        record: says how far to go: bind, initialize or load, install the optimizer. If its
            parameters are lost, the module is only bound.
        checkpoint: directory of the checkpoint with its parameters, whose digests have been
            verified.
        base: directory of the checkpoint whose parameters initialization takes over.
    """

    record: ModuleRecord
    checkpoint: str | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentModules(Strict):
    """Ask for the ``names`` of the modules that are on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectModel(Strict):
    """Ask about a model that is not a module yet: the roles of its variables, and shapes that fit.

    Answers ``data``, ``labels``, ``states``, ``outputs``, ``output_shapes``; ``missing``, ``extra``
    and ``not_finite`` parameters; ``shapes`` and ``layouts`` of inputs; the labels with merely a
    ``usual`` shape, the inputs that are ``free`` to have other shapes, and those whose shapes
    remain ``open``; ``symbol``, if it had to be completed.

    Attributes:
        symbol: its JSON.
        params: path of its parameters; None without parameters.
        shapes: of inputs, where they are known.
        data_names, label_names, state_names: names of inputs, if specified.
        field: the symbol's field in the request, for errors.
        max_nodes: limit on the symbol's nodes; None for no limit.
    """

    symbol: str
    params: str | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    data_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    state_names: tuple[str, ...] | None = None
    field: str = "symbol"
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeShapes(OfModule):
    """Ask how to bind a module: answers ``data_shapes`` and ``label_shapes`` for ``bind``.

    For a bound module these are its current shapes. Refused, with the inputs at issue, if shapes
    cannot be determined.

    Attributes:
        data_shapes, label_shapes: known shapes.
        for_training: every label then needs a shape, inferred or known; otherwise the answer has
            only the labels whose shapes cannot be inferred.
    """

    data_shapes: tuple[InputDesc, ...] = ()
    label_shapes: tuple[InputDesc, ...] = ()
    for_training: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSymbols(OfModule):
    """Ask for a module's symbols, cut off at an internal output, and for their inputs.

    Answers ``symbols`` (JSON text by bucket key), ``data_names``, ``label_names`` and
    ``state_names``.

    Attributes:
        output: where to cut; None leaves the symbols whole.
        head: a new last layer.
    """

    output: str | None = None
    head: Head | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJob(Strict):
    """Refuse parameters with which a job would fail once it starts.

    Attributes:
        params: see ``app.domain.job_params``.
        module: the module whose outputs and labels the metrics name; None if they name none.
    """

    kind: JobKind
    params: dict[str, Any]
    module: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModule(OfModule):
    """Release a module and its memory; ``in_use`` while a job runs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeModule(OfModule):
    """Ask for a module's full description: stage, shapes, arguments, buckets, memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptimizer(OfModule):
    """Ask for ``name``, ``options``, ``kvstore``, ``learning_rate`` and ``num_update``."""


# -- binding -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(OfModule):
    """Bind or rebind; parameters and optimizer stay. All ``spec.buckets`` are bound."""

    spec: BindSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(OfModule):
    """Change the input shapes of a bound module."""

    data_shapes: tuple[InputDesc, ...]
    label_shapes: tuple[InputDesc, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BindBucket(OfModule):
    """Bind one more bucket of a bucketing module."""

    key: str
    shapes: BucketShapes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBuckets(OfModule):
    """Replace all buckets but the default one; new ones are warmed up before they take effect."""

    buckets: dict[str, BucketShapes]
    max_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp(OfModule):
    """Make the plans for predictions up to a batch size; other calls are answered meanwhile."""

    max_batch_size: int | None = None


# -- parameters and optimizer ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitParams(OfModule):
    """Initialize parameters.

    Tensors: values of parameters that are not to be initialized. Answers ``has_unsaved``: False if
    all parameters can be reproduced.

    Attributes:
        spec: specifies the initializer.
        base: directory of the checkpoint with the parameters that a derived module takes over.
    """

    spec: InitSpec
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetParams(OfModule):
    """Set parameters from tensors; may come before binding. Answers ``has_unsaved``.

    Attributes:
        allow_missing: parameters that are not given keep their values.
        allow_extra: skip tensors that are not parameters of the symbol.
        allow_nonfinite: accept NaN and infinity.
    """

    allow_missing: bool = False
    allow_extra: bool = False
    allow_nonfinite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GetParams(OfModule):
    """Fetch parameters as tensors; ``arguments`` and ``auxiliary`` list their names."""

    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptimizer(OfModule):
    """Install an optimizer, replacing an existing one."""

    spec: OptimizerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLearningRate(OfModule):
    """Set the learning rate; ``conflict`` if a scheduler controls it."""

    learning_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptimizerStates(OfModule):
    """Fetch the states in MXNet's pickled form: tensor ``states`` of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptimizerStates(OfModule):
    """Set the states from tensor ``states``."""


# -- predictions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict(OfModule):
    """Compute outputs of any number of examples; no state of the module changes.

    Tensors: data by name, the same number of examples in each. A bucketing module chooses the
    smallest bucket that holds them, pads them as specified when it was bound, and crops the
    outputs.

    Attributes:
        bucket: use this bucket.
        version: the version to compute with, as named by ``LoadVersion``; None for the parameters
            in training. ``version_not_loaded`` if it is not loaded.
        max_batch_size: limit on the examples in its batch; None for as many as take a short time.
        batches: whether it may share a batch; see ``ServingSpec``.
        max_delay_us: microseconds that it may wait for others to join its batch.
        is_strict: as the Open Inference Protocol requires: inputs must have the bound dtypes, and
            no more examples than the largest batch.
        part: the part of a sequence that it is, whose states it continues.
        states: how these are kept; set if ``part`` is.
    """

    bucket: str | None = None
    version: str | None = None
    max_batch_size: int | None = None
    batches: Batches = "auto"
    max_delay_us: int = 0
    is_strict: bool = False
    part: SequencePart | None = None
    states: SequenceStates | None = None


Call: TypeAlias = (
    ExecutorInfo
    | CreateModule
    | RestoreModule
    | ResidentModules
    | CheckJob
    | InspectModel
    | OfModule
    | JobStart
    | JobControl
)

CALL_NAMES: Mapping[type[Any], str] = {
    ExecutorInfo: "executor_info",
    CreateModule: "create_module",
    RestoreModule: "restore_module",
    ResidentModules: "resident_modules",
    CutSymbols: "cut_symbols",
    InspectModel: "inspect_model",
    CheckJob: "check_job",
    DeleteModule: "delete_module",
    DescribeModule: "describe_module",
    DescribeGraph: "describe_graph",
    ProfileModule: "profile_module",
    SummarizeParams: "summarize_params",
    GetOptimizer: "get_optimizer",
    ProposeShapes: "propose_shapes",
    Bind: "bind",
    Reshape: "reshape",
    BindBucket: "bind_bucket",
    ChangeBuckets: "change_buckets",
    WarmUp: "warm_up",
    InitParams: "init_params",
    SetParams: "set_params",
    GetParams: "get_params",
    InitOptimizer: "init_optimizer",
    SetLearningRate: "set_learning_rate",
    GetOptimizerStates: "get_optimizer_states",
    SetOptimizerStates: "set_optimizer_states",
    Forward: "forward",
    Backward: "backward",
    Update: "update",
    GetOutputs: "get_outputs",
    GetInputGrads: "get_input_grads",
    GetStates: "get_states",
    GetStatistics: "get_statistics",
    SetStates: "set_states",
    Predict: "predict",
    SaveCheckpoint: "save_checkpoint",
    LoadCheckpoint: "load_checkpoint",
    LoadVersion: "load_version",
    JobStart: "start_job",
    JobControl: "control_job",
}
"""Names of the calls on the wire."""


def to_call(call: Call) -> tuple[str, dict[str, Any]]:
    """Return method and parameters, as ``ExecutorClient.call`` takes them."""
    plain: dict[str, Any] = to_plain(call)
    return CALL_NAMES[type(call)], plain
