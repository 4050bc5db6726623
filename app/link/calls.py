"""The calls an executor answers: parameters of each, tensors that go along, what comes back.

A caller sends ``to_call(Predict(module="lenet"))``; the host reads it back with the types checked.
Bucket keys are canonical JSON text everywhere (``20``, ``[10,20]``). Tensors go by the names of the
module's inputs, outputs and parameters. A call that names a generation is refused with
``precondition_failed`` when the module has another one, a call on a module that is not on the
device with ``not_resident``.
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
    """Hold a module; its symbols are parsed, nothing is bound.

    ``already_exists`` when it is held. Stages after created are brought about by the calls for
    them, not by the record.

    Attributes:
        record: the module.
        max_nodes: of all its symbols together; None for any number.
    """

    record: ModuleRecord
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreModule(Strict):
    """Bring a module back as its record says, whole or not at all; nothing where it is there.

    Attributes:
        record: bound, initialized or loaded, and given its optimizer as far as it says. One whose
            parameters are lost is bound alone.
        checkpoint: directory of the checkpoint that has its parameters; its files were compared
            with their digests already.
        base: directory of the checkpoint whose parameters it keeps when it is initialized.
    """

    record: ModuleRecord
    checkpoint: str | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentModules(Strict):
    """Ask for the ``names`` of the modules that are on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectModel(Strict):
    """Ask what is not a module yet: what its variables are, and which shapes fit its parameters.

    Answers ``data``, ``labels``, ``states``, ``outputs``, ``output_shapes``; ``missing`` and
    ``extra`` parameters, and those ``not_finite``; ``shapes`` and ``layouts`` of inputs, which
    labels have only a ``usual`` shape, which inputs are ``free`` to have another and which are
    ``open``; ``symbol``, where it had to be completed.

    Attributes:
        symbol: its JSON.
        params: path of its parameters; None if there are none yet.
        shapes: of inputs, where they are known.
        data_names, label_names, state_names: where they were said.
        field: where the symbol is in the request, for errors.
        max_nodes: of the symbol; None for any number.
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
    """Ask how to bind a module: answers ``data_shapes`` and ``label_shapes`` as ``bind`` has them.

    A module that is bound has those that it has. Refused, with all that is open, where they cannot
    be told.

    Attributes:
        data_shapes, label_shapes: of inputs, where they are known.
        for_training: labels must then have shapes that follow from the data, or are known; else
            the answer has only those which do not.
    """

    data_shapes: tuple[InputDesc, ...] = ()
    label_shapes: tuple[InputDesc, ...] = ()
    for_training: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSymbols(OfModule):
    """Ask for a module's symbols, cut at an internal output, and the inputs that they have.

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
    """Refuse a job's parameters that could only fail when its turn has come.

    Attributes:
        params: see ``app.domain.job_params``.
        module: whose outputs and labels the metrics name; None if they name none.
    """

    kind: JobKind
    params: dict[str, Any]
    module: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModule(OfModule):
    """Release a module and its memory; ``in_use`` while a job runs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeModule(OfModule):
    """Ask for all that is known of a module: stage, shapes, arguments, buckets, memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptimizer(OfModule):
    """Ask for ``name``, ``options``, ``kvstore``, ``learning_rate`` and ``num_update``."""


# -- binding -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(OfModule):
    """Bind, or bind anew; parameters and optimizer stay. All ``spec.buckets`` are bound."""

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
    """Have these buckets beside the default one; new ones are warm before they are taken."""

    buckets: dict[str, BucketShapes]
    max_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp(OfModule):
    """Make the plans of predictions of up to so many examples, between others' calls."""

    max_batch_size: int | None = None


# -- parameters and optimizer ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitParams(OfModule):
    """Initialize parameters. Tensors: values of some of them, which the initializer leaves.

    Answers ``has_unsaved``: False if all of them can be had again.

    Attributes:
        spec: how.
        base: directory of the checkpoint whose parameters a module made from another one keeps.
    """

    spec: InitSpec
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetParams(OfModule):
    """Set parameters from tensors; may come before binding. Answers ``has_unsaved``.

    Attributes:
        allow_missing: parameters not given keep their values.
        allow_extra: tensors whose names the symbol does not have are skipped.
        allow_nonfinite: NaN and infinity are accepted.
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
    """Install an optimizer, in the place of an existing one."""

    spec: OptimizerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLearningRate(OfModule):
    """Set the learning rate; ``conflict`` where a scheduler gives it."""

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

    Tensors: data by name, the same number of examples in each. A bucketing module takes the
    smallest bucket that holds them, pads them as it was bound and cuts the outputs back.

    Attributes:
        bucket: take this bucket.
        version: the version to compute with, as ``LoadVersion`` calls it; None for the parameters
            in training. ``version_not_loaded`` if it is not there.
        max_batch_size: examples that may be computed together with it; None for as many as take a
            short time.
        batches: whether it may be computed with others; see ``ServingSpec``.
        max_delay_us: microseconds that it may wait for others to be computed with it.
        is_strict: as the Open Inference Protocol has it: inputs have the dtypes that are bound,
            and no more examples than may be computed together.
        part: of a sequence, whose states it continues.
        states: how these are kept; there where ``part`` is.
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
"""The name of each call on the wire."""


def to_call(call: Call) -> tuple[str, dict[str, Any]]:
    """Return method and parameters, as ``ExecutorClient.call`` takes them."""
    plain: dict[str, Any] = to_plain(call)
    return CALL_NAMES[type(call)], plain
