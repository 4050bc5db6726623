"""Internals of a module as clients see them: its graph, times of its steps, figures of its
parameters.
"""

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
_SHAPE = Field(description="Null if it does not follow from the bound shapes.")
_DTYPE = Field(description="Null if it cannot be inferred.")


class NodeInputView(BaseModel):
    """Where an operator's input comes from."""

    node: int = Field(description="Position of the node in `nodes`.")
    output: int = Field(description="Index of the node's output.")
    name: str = Field(description="The operator's name for the input.", examples=["data"])


class FoldedView(BaseModel):
    """A parameter of an operator."""

    name: str = Field(description="Name in the symbol.", examples=["fc1_weight"])
    input: str = Field(description="The operator's name for the parameter.", examples=["weight"])
    role: Literal["parameter", "auxiliary"] = Field(description="`auxiliary` is not trained.")
    shape: Shape = _SHAPE
    dtype: str | None = _DTYPE


class NodeOutputView(BaseModel):
    """An output of a node."""

    name: str = Field(description="Name as in monitors.", examples=["fc1_output"])
    shape: Shape = _SHAPE
    dtype: str | None = _DTYPE


class NodeView(BaseModel):
    """An operator, or an input of the graph."""

    name: str = Field(description="Name in the symbol.", examples=["fc1"])
    operator: str | None = Field(
        description="The operator; null for an input.", examples=["FullyConnected"]
    )
    role: Literal["data", "label", "state", "parameter"] | None = Field(
        description="Role of an input; null for an operator."
    )
    attributes: dict[str, str] = Field(
        description="Attributes as in the symbol.", examples=[{"num_hidden": "10"}]
    )
    inputs: list[NodeInputView] = Field(description="Inputs in order, without parameters.")
    parameters: list[FoldedView] = Field(description="Parameters that it reads.")
    outputs: list[NodeOutputView] = Field(description="Outputs in order.")


class GraphOutputView(BaseModel):
    """An output of the graph."""

    node: int = Field(description="Position of the node in `nodes`.")
    output: int = Field(description="Index of the node's output.")
    name: str = Field(description="Name as in answers.", examples=["softmax_output"])


class GraphView(BaseModel):
    """A bucket's graph; what a node reads comes before it."""

    bucket: str = Field(description="Key of the bucket.")
    is_bound: bool = Field(description="Whether shapes are known.")
    nodes: list[NodeView] = Field(description="Operators and inputs in topological order.")
    outputs: list[GraphOutputView] = Field(description="Outputs in order.")


class StepTimeView(BaseModel):
    """One step of a pass."""

    operator: str = Field(description="The operation computed.", examples=["convolution"])
    kernel: str = Field(
        description="The kernel that computed it; `reference` for the operator's own code.",
        examples=["onednn:convolution_folded"],
    )
    copied: str | None = Field(
        description="The value, if the step only copied it to another memory layout; else null."
    )
    nodes: list[str] = Field(
        description="Names of the nodes that were fused into this step, or into "
        "several steps that name the same nodes. Nodes in no step "
        "needed no computation.",
        examples=[["conv0", "bn0", "relu0"]],
    )
    seconds: float = Field(description="Median over the passes.")
    least_seconds: float = Field(description="Time in the fastest pass.")


class ProfileView(BaseModel):
    """Duration of predictions, step by step."""

    bucket: str = Field(description="Key of the bucket.")
    batch: int = Field(description="Number of examples per pass.")
    device: str = Field(description="The device.", examples=["cpu(0)"])
    runs: int = Field(description="Number of passes measured.")
    seconds: float = Field(description="Median of a pass without waiting for each step.")
    steps: list[StepTimeView] = Field(description="Steps in execution order.")


class HistogramView(BaseModel):
    """Distribution of values."""

    low: float = Field(description="Start of the first bin.")
    high: float = Field(description="End of the last bin.")
    counts: list[int] = Field(
        description="Number of values in each bin; all bins have the same width."
    )


class FiguresView(BaseModel):
    """Figures of one array; those of its values cover the finite ones, null if there are none."""

    shape: list[int] = Field(description="Its shape.")
    dtype: str = Field(description="Its data type.", examples=["float32"])
    count: int = Field(description="Number of elements.")
    nan: int = Field(description="Number of elements that are NaN.")
    infinite: int = Field(description="Number of elements that are infinite.")
    norm: float | None = Field(description="Square root of the sum of squares.")
    mean: float | None = Field(description="Mean.")
    std: float | None = Field(description="Standard deviation.")
    min: float | None = Field(description="Minimum.")
    max: float | None = Field(description="Maximum.")
    histogram: HistogramView | None = Field(description="Histogram of the finite values.")


class ParamView(FiguresView):
    """Figures of a parameter."""

    name: str = Field(description="Name in the symbol.", examples=["fc1_weight"])
    role: Literal["parameter", "auxiliary"] = Field(description="`auxiliary` is not trained.")
    against: FiguresView | None = Field(
        description="The same for the other checkpoint, with histograms over the "
        "same bins; null without one, or if it lacks the parameter."
    )
    change: float | None = Field(
        description="Norm of the difference divided by the norm in the other "
        "checkpoint; null if the shapes differ, or if all elements "
        "there are zero."
    )


class ParamSummaryView(BaseModel):
    """Figures of all parameters."""

    checkpoint: str = Field(
        description="The checkpoint described: `live` or a tag.", examples=["12"]
    )
    against: str | None = Field(description="The checkpoint to compare with; null for none.")
    items: list[ParamView] = Field(description="Figures of each parameter.")
    missing: list[str] = Field(description="Parameters that only the other checkpoint has.")
