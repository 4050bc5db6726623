"""What executors tell of modules, jobs and themselves, as clients see it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from app.domain.module import BindSpec, BucketShapes, ModuleKind, Stage

__all__ = [
    "FitResult",
    "JobFailure",
    "JobProgress",
    "LiveModuleView",
    "OptimizerView",
    "PartMetrics",
    "PredictResult",
    "PreviewView",
    "ScoreResult",
    "StepView",
    "UpdateView",
]

Metrics: TypeAlias = dict[str, float | None]


class _Facts(BaseModel):
    """Executors of other versions may tell more."""

    model_config = ConfigDict(extra="allow")


class OptimizerView(_Facts):
    """An optimizer and where it stands."""

    name: str = Field(description="MXNet's name of it, in lower case.", examples=["sgd"])
    options: dict[str, Any] = Field(description="Its arguments, as they were given.")
    kvstore: str | None = Field(description="MXNet's name of the store; null for none.")
    learning_rate: float = Field(description="At present, a scheduler's taken into account.")
    num_update: int = Field(description="Updates made.")
    rescale_grad: float = Field(description="What gradients are multiplied by.")


class StepView(_Facts):
    """Where the step level stands after a call."""

    generation: int = Field(description="Changes whenever state in memory was lost.")
    sequence: int = Field(description="Counts the calls of the step level since then.")


class UpdateView(StepView):
    """Where the step level stands after an update."""

    num_update: int = Field(description="Updates made by the optimizer.")


class PreviewView(RootModel[dict[str, list[Any]]]):
    """By array its first rows, null for one too long to show; of a text its `lines`."""


class VariableView(_Facts):
    """An input, parameter, state or auxiliary state; shape and dtype once it is bound."""

    name: str = Field(description="Of the array.", examples=["fc_weight"])
    role: Literal["data", "label", "state", "parameter", "auxiliary"] = Field(
        description="What it is for.", examples=["parameter"]
    )
    fixed: bool = Field(description="Whether training leaves it as it is.")
    shape: list[int] | None = Field(default=None, description="Null before it is bound.")
    dtype: str | None = Field(default=None, description="Null before it is bound.")


class OutputView(_Facts):
    """An output."""

    name: str = Field(description="Of the output.", examples=["softmax_output"])
    shape: list[int] = Field(description="For the batch that is bound.")
    dtype: str = Field(description="As NumPy names it.")
    batch_axis: int | None = Field(
        default=0,
        description="The axis that has the examples; null where none has, and predictions are "
        "answered whole.",
    )


class MemoryView(_Facts):
    """Bytes that a module takes on its device, by what for."""

    parameters: int = Field(description="Parameters and auxiliary states.")
    optimizer: int = Field(description="The optimizer's states.")
    training: int = Field(description="Plans and buffers of training.")
    predict: int = Field(description="Plans and buffers of predictions.")
    job_data: int = Field(default=0, description="Data of its job.")
    versions: int = Field(default=0, description="Parameters of versions beside the one trained.")


class PlanView(_Facts):
    """How predictions of a bucket are computed."""

    has_rows: bool = Field(
        description="Whether outputs have a row for each example, so that requests share a batch."
    )
    sizes: list[int] = Field(description="Batch sizes that are bound.")


class InterfaceTensorView(_Facts):
    """What clients may send or get."""

    name: str = Field(description="Of the input or output.", examples=["data"])
    dtype: str = Field(description="As NumPy names it.", examples=["float32"])
    shape: list[int] = Field(description="-1 for lengths that vary.", examples=[[-1, 784]])
    batch_axis: int | None = Field(default=None, description="Where the examples are.")


class InterfaceView(_Facts):
    """What predictions take and answer."""

    inputs: list[InterfaceTensorView] = Field(description="What a prediction takes.")
    outputs: list[InterfaceTensorView] = Field(description="What it answers.")
    has_rows: bool = Field(description="Whether the first axis of each has the examples.")


class LiveModuleView(_Facts):
    """What an executor knows of a module that is on its device."""

    name: str = Field(description="Of the module.")
    kind: ModuleKind = Field(description="Which class of the Module family it is.")
    stage: Stage = Field(description="How far it has come on the device.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    job_id: int | None = Field(description="The job that works on it.")
    data_names: list[str] = Field(description="Inputs that hold data.")
    label_names: list[str] = Field(description="Inputs that hold labels.")
    output_names: list[str] = Field(description="Of the symbol.")
    contexts: list[str] = Field(description="Devices that a batch is spread over.")
    bind: BindSpec | None = Field(description="Shapes; null before it is bound.")
    has_unsaved: bool = Field(description="Whether it has what no checkpoint has.")
    optimizer: OptimizerView | None = Field(description="Null before there is one.")
    arguments: list[VariableView] = Field(description="Inputs, parameters and auxiliary states.")
    buckets: dict[str, BucketShapes] = Field(description="Shapes of the bound ones by key.")
    outputs: list[OutputView] = Field(description="Empty before it is bound.")
    memory: MemoryView | None = Field(description="Null before it is bound.")
    predict: dict[str, PlanView] = Field(
        default={}, description="How predictions are computed, by bucket."
    )
    interface: InterfaceView | None = Field(default=None, description="Null before it is bound.")
    sequence: int | None = Field(
        default=None, description="Counts the calls of the step level since its generation."
    )


class JobProgress(_Facts):
    """How far a job is; empty before its first report."""

    epoch: int | None = Field(default=None, description="The one in work, from 0.")
    epochs: int | None = Field(default=None, description="Of the whole job.")
    batch: int | None = Field(default=None, description="Batches done of the epoch.")
    batches: int | None = Field(default=None, description="Of an epoch; null where not known.")
    samples: int | None = Field(default=None, description="Examples done.")
    samples_per_second: float | None = Field(default=None, description="Since the report before.")
    metrics: Metrics = Field(default={}, description="Running values.")


class BestCheckpoint(BaseModel):
    """The best checkpoint of a fit."""

    checkpoint: str = Field(description="Its tag.", examples=["12"])
    metric: str = Field(
        description="That it is best in, with its part of the data.",
        examples=["validation.accuracy"],
    )
    value: float | None = Field(description="Of the metric.")


class FitResult(_Facts):
    """What came out of a training."""

    epochs: int = Field(description="Epochs trained in all.")
    stopped_early: bool = Field(description="Whether no epoch was better for too long.")
    best: BestCheckpoint | None = Field(
        default=None, description="By the metric that was to be watched; null without one."
    )
    train: Metrics = Field(description="Metrics of the last epoch over the training data.")
    validation: Metrics = Field(description="The same over the validation data; empty without.")
    checkpoint: str | None = Field(description="The last one saved.")
    samples: int = Field(description="Examples trained on.")
    seconds: float = Field(description="How long it took.")


class ScoreResult(_Facts):
    """What came out of an evaluation."""

    metrics: Metrics = Field(description="Over the whole dataset.")
    samples: int = Field(description="Examples looked at.")


class PredictResult(_Facts):
    """What came out of the prediction of a dataset."""

    output: str = Field(description="The dataset that has the outputs.")
    samples: int = Field(description="Examples predicted.")
    shapes: dict[str, list[int]] = Field(description="Of the arrays of the output, by name.")


class JobFailure(_Facts):
    """Why a job, or an attempt of it, ended."""

    code: str = Field(examples=["storage_full"], description="See `/v1/errors`.")
    message: str = Field(description="What happened, and what to do.")
    field: str | None = Field(description="The parameter at fault; null where none is.")


class PartMetrics(RootModel[dict[str, Metrics]]):
    """Values by metric, of `train` and `validation`; null for NaN and infinity."""


class Compression(BaseModel):
    """How gradients between contexts are compressed, as MXNet has it."""

    type: Literal["2bit"] = Field(description="To two bits a number.")
    threshold: float = Field(default=0.5, gt=0, description="What a number is rounded to.")


class SymbolNode(_Facts):
    """A node of a graph."""

    op: str = Field(description="Its operator; `null` for a variable.", examples=["Convolution"])
    name: str = Field(description="Of the node.", examples=["conv0"])
    attrs: dict[str, str] = Field(default={}, description="Attributes of the operator, as text.")
    attr: dict[str, str] = Field(default={}, description="As `attrs`, in files of old versions.")
    param: dict[str, str] = Field(default={}, description="As `attrs`, in files of the oldest.")
    backward_source_id: int = Field(default=-1, description="Of the oldest files: -1.")
    inputs: list[list[int]] = Field(description="Node, output and version of each input.")
    control_deps: list[int] = Field(default=[], description="Nodes that must come before.")
    subgraphs: list[Symbol] = Field(default=[], description="Bodies of loops and branches.")


class Symbol(_Facts):
    """A graph in MXNet's JSON, as `Symbol.save` writes it."""

    nodes: list[SymbolNode] = Field(description="Each after those that it reads.")
    arg_nodes: list[int] = Field(default=[], description="Numbers of the variables.")
    node_row_ptr: list[int] = Field(default=[], description="Outputs before each node.")
    heads: list[list[int]] = Field(description="Node and output of each output of the graph.")
    attrs: dict[str, Any] = Field(
        default={},
        description="Of the graph: `mxnet_version`.",
        examples=[{"mxnet_version": ["int", 10901]}],
    )
