"""Reports of executors on modules, jobs and themselves, as clients see them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from app.domain.module import BindSpec, BucketShapes, ModuleKind, Stage

__all__ = [
    "FitResult",
    "InputPreviewView",
    "InputPreviewsView",
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
    """Executors of other versions may send more fields."""

    model_config = ConfigDict(extra="allow")


class OptimizerView(_Facts):
    """An optimizer and its current state."""

    name: str = Field(description="MXNet's name of the optimizer, in lower case.", examples=["sgd"])
    options: dict[str, Any] = Field(description="Its arguments, as given.")
    kvstore: str | None = Field(description="MXNet's name of the key-value store; null for none.")
    learning_rate: float = Field(
        description="Current learning rate, including the effect of a scheduler."
    )
    num_update: int = Field(description="Number of updates.")
    rescale_grad: float = Field(description="Factor by which gradients are multiplied.")


class StepView(_Facts):
    """Counters after a step call."""

    generation: int = Field(description="Changes whenever state in memory was lost.")
    sequence: int = Field(description="Number of step calls since then.")


class UpdateView(StepView):
    """Counters after an update."""

    num_update: int = Field(description="Number of updates by the optimizer.")


class PreviewView(RootModel[dict[str, list[Any]]]):
    """The first rows by array, null for rows too long to show; for a text its `lines`."""


class InputPreviewView(BaseModel):
    """The first example of a dataset, as one input of a module."""

    names: list[str] = Field(
        description="The array, or the columns, that the input is read from.",
        examples=[["sepal_length", "petal_length"]],
    )
    shape: list[int] = Field(description="Shape of the example.", examples=[[2]])
    dtype: str = Field(description="Data type of the input.", examples=["float32"])
    example: Any = Field(
        description="Its numbers as nested lists; null if they are too many.",
        examples=[[5.1, 1.4]],
    )
    classes: list[str] = Field(
        description="The texts that its numbers stand for, in order; empty for numbers."
    )
    text: str | None = Field(
        description="The text that the example's number stands for; null for numbers."
    )


class InputPreviewsView(BaseModel):
    """The first example of a dataset, as the inputs of a module."""

    inputs: dict[str, InputPreviewView] = Field(description="By the name of the input.")


class VariableView(_Facts):
    """An input, parameter, state or auxiliary state; shape and dtype once it is bound."""

    name: str = Field(description="Name of the array.", examples=["fc_weight"])
    role: Literal["data", "label", "state", "parameter", "auxiliary"] = Field(
        description="Its role in the graph.", examples=["parameter"]
    )
    fixed: bool = Field(description="Whether training does not change it.")
    shape: list[int] | None = Field(default=None, description="Null before it is bound.")
    dtype: str | None = Field(default=None, description="Null before it is bound.")


class OutputView(_Facts):
    """An output."""

    name: str = Field(description="Name of the output.", examples=["softmax_output"])
    shape: list[int] = Field(description="Shape for the bound batch size.")
    dtype: str = Field(description="Data type, by NumPy's name.")
    batch_axis: int | None = Field(
        default=0,
        description="The axis of the examples; null if there is none, so that "
        "predictions are answered as a whole.",
    )


class MemoryView(_Facts):
    """Bytes that a module uses on its device, by purpose."""

    parameters: int = Field(description="Bytes of parameters and auxiliary states.")
    optimizer: int = Field(description="Bytes of the optimizer's states.")
    training: int = Field(description="Bytes of plans and buffers for training.")
    predict: int = Field(description="Bytes of plans and buffers for predictions.")
    job_data: int = Field(default=0, description="Bytes of its job's data.")
    versions: int = Field(
        default=0, description="Bytes of the parameters of versions beside the trained one."
    )


class PlanView(_Facts):
    """How predictions of a bucket are computed."""

    has_rows: bool = Field(
        description="Whether outputs have a row for each example, so that requests share a batch."
    )
    sizes: list[int] = Field(description="Batch sizes that are bound.")


class InterfaceTensorView(_Facts):
    """A tensor that clients send or receive."""

    name: str = Field(description="Name of the input or output.", examples=["data"])
    dtype: str = Field(description="Data type, by NumPy's name.", examples=["float32"])
    shape: list[int] = Field(
        description="Its shape; -1 for lengths that vary.", examples=[[-1, 784]]
    )
    batch_axis: int | None = Field(
        default=None, description="The axis of the examples; null if there is none."
    )


class InterfaceView(_Facts):
    """Inputs and outputs of predictions."""

    inputs: list[InterfaceTensorView] = Field(description="Inputs of a prediction.")
    outputs: list[InterfaceTensorView] = Field(description="Outputs of a prediction.")
    has_rows: bool = Field(
        description="Whether the first axis of all of them is that of the examples."
    )


class LiveModuleView(_Facts):
    """An executor's view of a module on its device."""

    name: str = Field(description="Name of the module.")
    kind: ModuleKind = Field(description="Which class of the Module family it is.")
    stage: Stage = Field(description="Stage of its preparation on the device.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    job_id: int | None = Field(description="The job that works on it.")
    data_names: list[str] = Field(description="Inputs for data.")
    label_names: list[str] = Field(description="Inputs for labels.")
    output_names: list[str] = Field(description="Outputs of the symbol.")
    contexts: list[str] = Field(description="Devices that share each batch.")
    bind: BindSpec | None = Field(description="Shapes; null before it is bound.")
    has_unsaved: bool = Field(description="Whether it has changes that are in no checkpoint.")
    optimizer: OptimizerView | None = Field(description="The optimizer; null before there is one.")
    arguments: list[VariableView] = Field(description="Inputs, parameters and auxiliary states.")
    buckets: dict[str, BucketShapes] = Field(description="Shapes of the bound buckets, by key.")
    outputs: list[OutputView] = Field(description="Outputs; empty before it is bound.")
    memory: MemoryView | None = Field(description="Memory that it uses; null before it is bound.")
    predict: dict[str, PlanView] = Field(
        default={}, description="How predictions are computed, by bucket."
    )
    interface: InterfaceView | None = Field(
        default=None, description="What predictions take and answer; null before it is bound."
    )
    sequence: int | None = Field(
        default=None, description="Number of step calls since this generation began."
    )


class JobProgress(_Facts):
    """Progress of a job; empty before its first report."""

    epoch: int | None = Field(default=None, description="The current epoch, from 0.")
    epochs: int | None = Field(default=None, description="The last epoch, exclusive.")
    begin_epoch: int | None = Field(default=None, description="The first epoch of the job.")
    batch: int | None = Field(
        default=None, description="Number of batches of the epoch that are done."
    )
    batches: int | None = Field(
        default=None, description="Number of batches in an epoch; null if unknown."
    )
    samples: int | None = Field(default=None, description="Number of examples that are done.")
    samples_per_second: float | None = Field(
        default=None, description="Speed since the previous report."
    )
    metrics: Metrics = Field(default={}, description="Values so far.")


class BestCheckpoint(BaseModel):
    """The best checkpoint of a fit."""

    checkpoint: str = Field(description="Tag of the checkpoint.", examples=["12"])
    metric: str = Field(
        description="The metric in which it is best, with its part of the data.",
        examples=["validation.accuracy"],
    )
    value: float | None = Field(description="Value of the metric.")


class FitResult(_Facts):
    """Result of a training."""

    epochs: int = Field(description="Number of epochs that it trained.")
    stopped_early: bool = Field(
        description="Whether the fit ended early, because no epoch was better for too long."
    )
    best: BestCheckpoint | None = Field(
        default=None, description="The best checkpoint by the monitored metric; null without one."
    )
    train: Metrics = Field(description="Metrics of the last epoch over the training data.")
    validation: Metrics = Field(
        description="Metrics of the last epoch over the validation data; empty without them."
    )
    checkpoint: str | None = Field(description="The last checkpoint saved.")
    samples: int = Field(description="Number of examples trained on.")
    seconds: float = Field(description="Duration of the training.")


class ScoreResult(_Facts):
    """Result of an evaluation."""

    metrics: Metrics = Field(description="Metrics over the whole dataset.")
    samples: int = Field(description="Number of examples evaluated.")


class PredictResult(_Facts):
    """Result of the prediction of a dataset."""

    output: str = Field(description="The dataset with the outputs.")
    samples: int = Field(description="Number of examples predicted.")
    shapes: dict[str, list[int]] = Field(description="Shapes of the output's arrays, by name.")


class JobFailure(_Facts):
    """Why a job, or an attempt of it, failed."""

    code: str = Field(examples=["storage_full"], description="Error code; see `/v1/errors`.")
    message: str = Field(description="What happened, and what to do.")
    field: str | None = Field(description="The invalid parameter; null if there is none.")


class PartMetrics(RootModel[dict[str, Metrics]]):
    """Values by metric, of `train` and `validation`; null for NaN and infinity."""


class Compression(BaseModel):
    """Compression of gradients between contexts, as in MXNet."""

    type: Literal["2bit"] = Field(description="Two bits per number.")
    threshold: float = Field(
        default=0.5, gt=0, description="The magnitude to which numbers are rounded."
    )


class SymbolNode(_Facts):
    """A node of a graph."""

    op: str = Field(description="Its operator; `null` for a variable.", examples=["Convolution"])
    name: str = Field(description="Name of the node.", examples=["conv0"])
    attrs: dict[str, str] = Field(default={}, description="Attributes of the operator, as strings.")
    attr: dict[str, str] = Field(
        default={}, description="The same as `attrs`, in files of old versions."
    )
    param: dict[str, str] = Field(
        default={}, description="The same as `attrs`, in files of the oldest versions."
    )
    backward_source_id: int = Field(
        default=-1, description="Always -1; in files of the oldest versions."
    )
    inputs: list[list[int]] = Field(description="Node, output and version of each input.")
    control_deps: list[int] = Field(default=[], description="Nodes that must run before it.")
    subgraphs: list[Symbol] = Field(default=[], description="Bodies of loops and branches.")


class Symbol(_Facts):
    """A graph in MXNet's JSON, as `Symbol.save` writes it."""

    nodes: list[SymbolNode] = Field(description="Nodes, each after its inputs.")
    arg_nodes: list[int] = Field(default=[], description="Positions of the variables in `nodes`.")
    node_row_ptr: list[int] = Field(default=[], description="Number of outputs before each node.")
    heads: list[list[int]] = Field(description="Node and output of each output of the graph.")
    attrs: dict[str, Any] = Field(
        default={},
        description="Attributes of the graph: `mxnet_version`.",
        examples=[{"mxnet_version": ["int", 10901]}],
    )
