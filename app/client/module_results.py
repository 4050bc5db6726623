"""Responses about modules, their versions and checkpoints.

They are the dictionaries of the server's JSON, unchanged, so that fields added by a newer server
are included. A test compares them with the OpenAPI document.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "ArchiveFacts",
    "BindSpec",
    "BucketPlanView",
    "BucketShapes",
    "CanaryView",
    "CheckpointView",
    "Compression",
    "FileView",
    "FindingsView",
    "FolderModelView",
    "Head",
    "InputDesc",
    "InputFinding",
    "InstanceState",
    "InstanceView",
    "InterfaceTensorView",
    "InterfaceView",
    "LiveModuleView",
    "MemoryView",
    "ModuleKind",
    "ModuleState",
    "ModuleView",
    "OptimizerSpec",
    "OptimizerView",
    "Origin",
    "OutputView",
    "ParamsSource",
    "PlanView",
    "ServingSpec",
    "Stage",
    "StateLink",
    "StepView",
    "TextTransformView",
    "UpdateView",
    "VariableView",
    "VersionView",
    "VersionsView",
]

Stage = Literal["created", "bound", "initialized", "ready"]
ModuleKind = Literal["module", "bucketing", "mutable", "detection"]
ModuleState = Literal["ready", "params_lost", "failed"]
InstanceState = Literal["ready", "loading", "idle", "failed", "down", "missing"]
ParamsSource = Literal["init", "checkpoint", "set"]


class ArchiveFacts(TypedDict):
    """The manifest of an archive, and the use of its files."""

    handler: NotRequired[str | None]
    model: str
    passed_over: NotRequired[list[str]]
    taken: NotRequired[dict[str, str]]
    version: str
    warnings: NotRequired[list[str]]


class InputDesc(TypedDict):
    """One input of a bound module, as MXNet's `DataDesc`: the shape includes the batch."""

    dtype: NotRequired[str]
    layout: NotRequired[str | None]
    lengths_of: NotRequired[str | None]
    name: str
    pad_value: NotRequired[float]
    shape: list[int | None]


class BucketShapes(TypedDict):
    """The shapes of one bucket of a bucketing module."""

    data_shapes: list[InputDesc]
    label_shapes: NotRequired[list[InputDesc]]


class BindSpec(TypedDict):
    """What `bind` was given; enough to bind again after a restart."""

    buckets: NotRequired[dict[str, BucketShapes]]
    data_shapes: NotRequired[list[InputDesc]]
    for_training: NotRequired[bool]
    grad_req: NotRequired[
        Literal["write", "add", "null"] | dict[str, Literal["write", "add", "null"]]
    ]
    inputs_need_grad: NotRequired[bool]
    label_shapes: NotRequired[list[InputDesc]]


class Compression(TypedDict):
    """Compression of gradients between contexts, as in MXNet."""

    threshold: NotRequired[float]
    type: Literal["2bit"]


class InputFinding(TypedDict):
    """One input."""

    layout: str | None
    name: str
    role: Literal["data", "label", "state"]
    shape: list[int] | None


class FindingsView(TypedDict):
    """What the server found."""

    inputs: list[InputFinding]
    open: list[str]
    outputs: list[str]
    warnings: list[str]


class InstanceView(TypedDict):
    """A module on one of its executors."""

    executor: str | None
    is_home: bool
    predictions: int
    reason: str | None
    rows_under_way: int
    state: InstanceState


class VariableView(TypedDict):
    """An input, parameter, state or auxiliary state; shape and dtype once it is bound."""

    dtype: NotRequired[str | None]
    fixed: bool
    name: str
    role: Literal["data", "label", "state", "parameter", "auxiliary"]
    shape: NotRequired[list[int] | None]


class InterfaceTensorView(TypedDict):
    """A tensor that clients send or receive."""

    batch_axis: NotRequired[int | None]
    dtype: str
    name: str
    shape: list[int]


class InterfaceView(TypedDict):
    """Inputs and outputs of predictions."""

    has_rows: bool
    inputs: list[InterfaceTensorView]
    outputs: list[InterfaceTensorView]


class OptimizerView(TypedDict):
    """An optimizer and its current state."""

    kvstore: str | None
    learning_rate: float
    name: str
    num_update: int
    options: dict[str, Any]
    rescale_grad: float


class OutputView(TypedDict):
    """An output."""

    batch_axis: NotRequired[int | None]
    dtype: str
    name: str
    shape: list[int]


class PlanView(TypedDict):
    """How predictions of a bucket are computed."""

    has_rows: bool
    sizes: list[int]


class MemoryView(TypedDict):
    """Bytes that a module uses on its device, by purpose."""

    job_data: NotRequired[int]
    optimizer: int
    parameters: int
    predict: int
    training: int
    versions: NotRequired[int]


class LiveModuleView(TypedDict):
    """An executor's view of a module on its device."""

    arguments: list[VariableView]
    bind: BindSpec | None
    buckets: dict[str, BucketShapes]
    contexts: list[str]
    data_names: list[str]
    generation: int
    has_unsaved: bool
    interface: NotRequired[InterfaceView | None]
    job_id: int | None
    kind: ModuleKind
    label_names: list[str]
    memory: MemoryView | None
    name: str
    optimizer: OptimizerView | None
    output_names: list[str]
    outputs: list[OutputView]
    predict: NotRequired[dict[str, PlanView]]
    sequence: NotRequired[int | None]
    stage: Stage


class OptimizerSpec(TypedDict):
    """What `init_optimizer` was given."""

    kvstore: NotRequired[str | None]
    name: NotRequired[str]
    options: NotRequired[dict[str, Any]]


class Head(TypedDict):
    """A new last layer: fully connected, then a `SoftmaxOutput` named `softmax`."""

    name: NotRequired[str]
    no_bias: NotRequired[bool]
    num_hidden: int


class Origin(TypedDict):
    """Another module's checkpoint, with whose parameters a module begins."""

    epoch: str
    head: NotRequired[Head | None]
    module: str
    output: NotRequired[str | None]


class StateLink(TypedDict):
    """Which output of a module is the next value of one of its states."""

    output: str
    state: str


class ServingSpec(TypedDict):
    """Settings of the operator; they apply to predictions requested after the change."""

    batches: NotRequired[Literal["auto", "always", "never"]]
    instances: NotRequired[int]
    is_loaded: NotRequired[bool]
    max_batch_size: NotRequired[int | None]
    max_delay_us: NotRequired[int]
    max_sequence_idle_seconds: NotRequired[float]
    max_sequences: NotRequired[int]
    states: NotRequired[list[StateLink]]


class TextTransformView(TypedDict):
    """The transform of a text into an input, without the tokens of its vocabulary."""

    longer: str
    lowercase: bool
    max_length: int | None
    padding: str | None
    tokens: str
    type: Literal["text"]
    unknown: str | None
    vocabulary_size: int


class ModuleView(TypedDict):
    """A module."""

    archive: ArchiveFacts | None
    bind: BindSpec | None
    bucket_keys: list[str]
    checkpoint: str | None
    compression_params: Compression | None
    contexts: list[str]
    created_at: str
    data_names: list[str]
    default_bucket_key: str | None
    durable: bool
    etag: str
    excluded_param_patterns: list[str]
    executor: str
    fixed_param_names: list[str]
    fixed_param_patterns: list[str]
    found: NotRequired[FindingsView | None]
    generation: int
    init: dict[str, Any] | None
    instances: list[InstanceView]
    is_from_folder: bool
    kind: ModuleKind
    label_names: list[str]
    labelled_outputs: list[str]
    live: NotRequired[LiveModuleView | None]
    name: str
    optimizer: OptimizerSpec | None
    origin: Origin | None
    params: ParamsSource | None
    reason: str | None
    resident: bool | None
    restored_from: str | None
    serving: ServingSpec
    stage: Stage
    state: ModuleState
    state_names: list[str]
    transforms: dict[str, dict[str, Any]]
    updated_at: str
    version: int
    warning: str | None
    warnings: list[str]


class StepView(TypedDict):
    """Counters after a step call."""

    generation: int
    sequence: int


class UpdateView(TypedDict):
    """Counters after an update."""

    generation: int
    num_update: int
    sequence: int


class BucketPlanView(TypedDict):
    """The buckets as bound, and those that would need the least padding."""

    axis: int
    bound: list[int]
    examples: int
    input: str
    lengths: dict[str, int]
    planned: list[int]
    waste_bound: float
    waste_planned: float


class CanaryView(TypedDict):
    """A canary."""

    version: int
    weight: float


class VersionView(TypedDict):
    """A version: a checkpoint between two epochs."""

    canary: bool
    created_at: str
    labels: list[str]
    metrics: dict[str, dict[str, float | None]]
    promoted: bool
    replaced: bool
    size: int
    version: int


class VersionsView(TypedDict):
    """The versions of a module, and which of them answer predictions."""

    canary: CanaryView | None
    damaged: list[int]
    earlier: list[str]
    items: list[VersionView]
    labels: dict[str, int]
    next_cursor: str | None
    promoted: str


class FileView(TypedDict):
    """A file of a checkpoint."""

    sha256: str
    size: int


class CheckpointView(TypedDict):
    """A checkpoint."""

    batch: int
    created_at: str
    epoch: int
    etag: str
    files: dict[str, FileView]
    job_id: int | None
    metrics: dict[str, dict[str, float | None]]
    module: str
    size: int
    tag: str


class FolderModelView(TypedDict):
    """A model of the models folder."""

    checkpoint: str | None
    epochs: list[int]
    name: str
    reason: str | None
    state: Literal["ready", "failed"]
    warnings: list[str]
