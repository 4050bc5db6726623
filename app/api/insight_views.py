"""What is told of a module's inside: its graph, its steps' times, its parameters' figures."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = [
    "FiguresView",
    "GraphView",
    "HistogramView",
    "NodeView",
    "ParamSummaryView",
    "ParamView",
    "ProfileView",
    "StepTimeView",
]

Shape = list[int] | None
_SHAPE = Field(description="Null where it does not follow from the shapes bound.")
_DTYPE = Field(description="Null where it does not follow.")


class NodeInputView(BaseModel):
    """Where an operator's input comes from."""

    node: int = Field(description="Position of the node in `nodes`.")
    output: int = Field(description="Which of its outputs.")
    name: str = Field(description="What the operator calls the input.", examples=["data"])


class FoldedView(BaseModel):
    """A parameter, at an operator that reads it."""

    name: str = Field(description="As the symbol has it.", examples=["fc1_weight"])
    input: str = Field(description="What the operator calls it.", examples=["weight"])
    role: Literal["parameter", "auxiliary"] = Field(description="Auxiliary: not trained.")
    shape: Shape = _SHAPE
    dtype: str | None = _DTYPE


class NodeOutputView(BaseModel):
    """An output of a node."""

    name: str = Field(description="As monitors call it.", examples=["fc1_output"])
    shape: Shape = _SHAPE
    dtype: str | None = _DTYPE


class NodeView(BaseModel):
    """An operator, or an input of the graph."""

    name: str = Field(description="As the symbol has it.", examples=["fc1"])
    operator: str | None = Field(description="Null for an input.", examples=["FullyConnected"])
    role: Literal["data", "label", "state", "parameter"] | None = Field(
        description="Of an input; null for an operator."
    )
    attributes: dict[str, str] = Field(
        description="As the symbol has them.", examples=[{"num_hidden": "10"}]
    )
    inputs: list[NodeInputView] = Field(description="In order, without parameters.")
    parameters: list[FoldedView] = Field(description="Those that it reads.")
    outputs: list[NodeOutputView] = Field(description="In order.")


class GraphOutputView(BaseModel):
    """An output of the graph."""

    node: int = Field(description="Position of the node in `nodes`.")
    output: int = Field(description="Which of its outputs.")
    name: str = Field(description="As answers call it.", examples=["softmax_output"])


class GraphView(BaseModel):
    """A bucket's graph; what a node reads comes before it."""

    bucket: str = Field(description="Key of the bucket.")
    is_bound: bool = Field(description="Whether shapes are known.")
    nodes: list[NodeView] = Field(description="Operators and inputs, first those read first.")
    outputs: list[GraphOutputView] = Field(description="In order.")


class StepTimeView(BaseModel):
    """One step of a pass."""

    operator: str = Field(description="What was computed.", examples=["convolution"])
    kernel: str = Field(
        description="What computed it; `reference` for the operator's own code.",
        examples=["onednn:convolution_folded"],
    )
    copied: str | None = Field(
        description="Value that was only copied into another order of memory; null for others."
    )
    nodes: list[str] = Field(
        description="Names of the nodes that ran as one, in this step or together with others that "
        "name the same nodes. Nodes in no step left nothing to compute.",
        examples=[["conv0", "bn0", "relu0"]],
    )
    seconds: float = Field(description="Median of the passes.")
    least_seconds: float = Field(description="Of the fastest pass.")


class ProfileView(BaseModel):
    """What predictions take, step by step."""

    bucket: str = Field(description="Key of the bucket.")
    batch: int = Field(description="Examples of a pass.")
    device: str = Field(description="Where.", examples=["cpu(0)"])
    runs: int = Field(description="Passes measured.")
    seconds: float = Field(description="Median of a pass that does not wait for each step.")
    steps: list[StepTimeView] = Field(description="In the order in which they ran.")


class HistogramView(BaseModel):
    """How many values lie where."""

    low: float = Field(description="Where the first bin begins.")
    high: float = Field(description="Where the last one ends.")
    counts: list[int] = Field(description="Of bins of one width.")


class FiguresView(BaseModel):
    """Figures of one array; those of its values are of the finite ones, null where none is."""

    shape: list[int] = Field(description="Its lengths.")
    dtype: str = Field(description="Its type of number.", examples=["float32"])
    count: int = Field(description="Elements.")
    nan: int = Field(description="Of them NaN.")
    infinite: int = Field(description="Of them infinite.")
    norm: float | None = Field(description="Square root of the sum of squares.")
    mean: float | None = Field(description="Their mean.")
    std: float | None = Field(description="Their standard deviation.")
    min: float | None = Field(description="The least.")
    max: float | None = Field(description="The largest.")
    histogram: HistogramView | None = Field(description="Of the finite values.")


class ParamView(FiguresView):
    """Figures of a parameter."""

    name: str = Field(description="As the symbol has it.", examples=["fc1_weight"])
    role: Literal["parameter", "auxiliary"] = Field(description="Auxiliary: not trained.")
    against: FiguresView | None = Field(
        description="The same of the checkpoint compared with, histograms over the same bins; null "
        "without one, or where it lacks the parameter."
    )
    change: float | None = Field(
        description="Norm of the difference by the norm there; null where shapes differ, or all "
        "is zero there."
    )


class ParamSummaryView(BaseModel):
    """Figures of all parameters."""

    checkpoint: str = Field(description="Whose they are: `live` or a tag.", examples=["12"])
    against: str | None = Field(description="The checkpoint compared with.")
    items: list[ParamView] = Field(description="One for each parameter.")
    missing: list[str] = Field(description="Parameters that only the checkpoint compared with has.")
