"""Responses about a module's internals; see ``module_results``."""

from __future__ import annotations

from typing import Literal, TypedDict

__all__ = [
    "FiguresView",
    "FoldedView",
    "GraphOutputView",
    "GraphView",
    "HistogramView",
    "NodeInputView",
    "NodeOutputView",
    "NodeView",
    "ParamSummaryView",
    "ParamView",
    "ProfileView",
    "StatisticView",
    "StepTimeView",
]


class NodeInputView(TypedDict):
    """Where an operator's input comes from."""

    name: str
    node: int
    output: int


class NodeOutputView(TypedDict):
    """An output of a node."""

    dtype: str | None
    name: str
    shape: list[int] | None


class FoldedView(TypedDict):
    """A parameter of an operator."""

    dtype: str | None
    input: str
    name: str
    role: Literal["parameter", "auxiliary"]
    shape: list[int] | None


class NodeView(TypedDict):
    """An operator, or an input of the graph."""

    attributes: dict[str, str]
    inputs: list[NodeInputView]
    name: str
    operator: str | None
    outputs: list[NodeOutputView]
    parameters: list[FoldedView]
    role: Literal["data", "label", "state", "parameter"] | None


class GraphOutputView(TypedDict):
    """An output of the graph."""

    name: str
    node: int
    output: int


class GraphView(TypedDict):
    """A bucket's graph; what a node reads comes before it."""

    bucket: str
    is_bound: bool
    nodes: list[NodeView]
    outputs: list[GraphOutputView]


class HistogramView(TypedDict):
    """Distribution of values."""

    counts: list[int]
    high: float
    low: float


class FiguresView(TypedDict):
    """Figures of one array; those of its values cover the finite ones, null if there are none."""

    count: int
    dtype: str
    histogram: HistogramView | None
    infinite: int
    max: float | None
    mean: float | None
    min: float | None
    nan: int
    norm: float | None
    shape: list[int]
    std: float | None


class ParamView(TypedDict):
    """Figures of a parameter."""

    against: FiguresView | None
    change: float | None
    count: int
    dtype: str
    histogram: HistogramView | None
    infinite: int
    max: float | None
    mean: float | None
    min: float | None
    name: str
    nan: int
    norm: float | None
    role: Literal["parameter", "auxiliary"]
    shape: list[int]
    std: float | None


class ParamSummaryView(TypedDict):
    """Figures of all parameters."""

    against: str | None
    checkpoint: str
    items: list[ParamView]
    missing: list[str]


class StepTimeView(TypedDict):
    """One step of a pass."""

    copied: str | None
    kernel: str
    least_seconds: float
    nodes: list[str]
    operator: str
    seconds: float


class ProfileView(TypedDict):
    """Duration of predictions, step by step."""

    batch: int
    bucket: str
    device: str
    runs: int
    seconds: float
    steps: list[StepTimeView]


class StatisticView(TypedDict):
    """Statistics of the finite elements of one array."""

    device: str
    magnitude: float | None
    max: float | None
    mean: float | None
    min: float | None
    name: str
    nonfinite: int
    of: Literal["output", "backward", "parameter", "gradient", "auxiliary"]
    shape: list[int]
    std: float | None
