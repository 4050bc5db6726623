"""Answers of the Open Inference Protocol, as the document tells of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "IndexRow",
    "InferAnswer",
    "ModelConfig",
    "ModelMetadata",
    "ModelReadiness",
    "ProtocolError",
    "ServerLiveness",
    "ServerMetadata",
    "ServerReadiness",
    "StatisticsAnswer",
]


class _View(BaseModel):
    model_config = ConfigDict(protected_namespaces=())


class ProtocolError(_View):
    """Why a request was refused."""

    error: str = Field(description="What is wrong, and what to do.")


class ServerMetadata(_View):
    """What the server is."""

    name: str = Field(description="Always `modserve`.", examples=["modserve"])
    version: str = Field(description="Of modserve.", examples=["0.1.0"])
    extensions: list[str] = Field(
        description="Extensions of the protocol that are served.",
        examples=[["binary_tensor_data", "model_repository"]],
    )


class ServerLiveness(_View):
    """Whether the server is alive."""

    live: bool = Field(description="Always true: a server that is not answers nothing.")


class ServerReadiness(_View):
    """Whether the server can infer."""

    ready: bool = Field(description="True where every executor is up.")
    error: str | None = Field(default=None, description="Which are not; absent where all are.")


class ModelReadiness(_View):
    """Whether a model can infer."""

    name: str = Field(description="Of the model.", examples=["mlp"])
    ready: bool = Field(description="True where an inference can be answered.")
    error: str | None = Field(default=None, description="Why not; absent where it is ready.")


class TensorMetadata(_View):
    """An input or output of a model."""

    name: str = Field(description="Of the tensor.", examples=["data"])
    datatype: str = Field(description="As the protocol names it.", examples=["FP32"])
    shape: list[int] = Field(
        description="-1 for the number of examples and for ragged axes.", examples=[[-1, 784]]
    )


class ModelMetadata(_View):
    """Inputs and outputs of a model."""

    name: str = Field(description="Of the model.", examples=["mlp"])
    versions: list[str] = Field(
        description="`live`, and the versions that have a part in the serving.",
        examples=[["live", "3"]],
    )
    platform: str = Field(description="Always `mxnet_mxnet`.", examples=["mxnet_mxnet"])
    inputs: list[TensorMetadata] = Field(description="What an inference takes.")
    outputs: list[TensorMetadata] = Field(description="What it answers.")


class ConfiguredTensor(_View):
    """An input or output in a model's configuration."""

    name: str = Field(description="Of the tensor.", examples=["data"])
    data_type: str = Field(description="As Triton names it.", examples=["TYPE_FP32"])
    dims: list[int] = Field(
        description="Without the axis of examples, where `max_batch_size` is not 0.",
        examples=[[784]],
    )


class LatestVersions(_View):
    """How many of the latest versions are served."""

    num_versions: int = Field(description="Always 1; others are asked for by their names.")


class VersionPolicy(_View):
    """Which versions are served, as Triton tells it."""

    latest: LatestVersions = Field(description="The latest ones.")


class DynamicBatching(_View):
    """How requests that wait are computed together."""

    preferred_batch_size: list[int] = Field(description="Sizes that are bound.")
    max_queue_delay_microseconds: int = Field(description="`max_delay_us` of the serving.")


class InstanceGroup(_View):
    """Where a model is computed."""

    name: str = Field(description="Of the group.", examples=["mlp_0"])
    kind: Literal["KIND_CPU", "KIND_GPU"] = Field(description="Of the device.")
    count: int = Field(description="Instances on it.")
    gpus: list[int] | None = Field(default=None, description="Of GPUs their numbers.")


class ModelConfig(_View):
    """What Triton calls a model's configuration."""

    name: str = Field(description="Of the model.", examples=["mlp"])
    platform: str = Field(description="Always `mxnet_mxnet`.", examples=["mxnet_mxnet"])
    backend: str = Field(description="Always `mxnet`.", examples=["mxnet"])
    version_policy: VersionPolicy = Field(description="Which versions are served.")
    max_batch_size: int = Field(
        description="Examples of an inference at most; 0 where the first axis has none."
    )
    input: list[ConfiguredTensor] = Field(description="What an inference takes.")
    output: list[ConfiguredTensor] = Field(description="What it answers.")
    dynamic_batching: DynamicBatching = Field(description="How requests share batches.")
    instance_group: list[InstanceGroup] = Field(description="Where it is computed.")


class Sum(_View):
    """How often something happened, and how long it took."""

    count: int = Field(description="How often.")
    ns: int = Field(description="Nanoseconds, all of them together.")


class InferenceSums(_View):
    """Requests by how they ended, and where their time went."""

    success: Sum = Field(description="Answered.")
    fail: Sum = Field(description="Refused or failed.")
    queue: Sum = Field(description="Waiting for the device.")
    compute_input: Sum = Field(description="Gathering inputs.")
    compute_infer: Sum = Field(description="Computing.")
    compute_output: Sum = Field(description="Handing outputs over.")


class BatchSums(_View):
    """Batches of one size, and where their time went."""

    batch_size: int = Field(description="Examples in a batch.")
    compute_input: Sum = Field(description="Gathering inputs.")
    compute_infer: Sum = Field(description="Computing.")
    compute_output: Sum = Field(description="Handing outputs over.")


class ModelStatistics(_View):
    """Counts and times of one version of a model."""

    name: str = Field(description="Of the model.", examples=["mlp"])
    version: str = Field(
        description="A number; 0 for `live`, except beside a version 0.", examples=["3"]
    )
    last_inference: int = Field(description="Milliseconds since 1970; 0 where there was none.")
    inference_count: int = Field(description="Examples.")
    execution_count: int = Field(description="Batches.")
    inference_stats: InferenceSums = Field(description="Over requests.")
    batch_stats: list[BatchSums] = Field(description="Over batches, by their size.")


class StatisticsAnswer(_View):
    """Counts and times since the server began."""

    model_stats: list[ModelStatistics] = Field(description="A row a version.")


class IndexRow(_View):
    """A model of the repository."""

    name: str = Field(description="Of the model.", examples=["mlp"])
    version: str = Field(description="`live`, or the number of an epoch.", examples=["live"])
    state: Literal["READY", "LOADING", "UNAVAILABLE"] = Field(description="Whether it can infer.")
    reason: str = Field(description="Why it cannot; empty where it can.")


class OutputParameters(_View):
    """What is beside an output."""

    binary_data_size: int = Field(description="Bytes of it behind the JSON.")


class OutputTensor(_View):
    """An output of an inference."""

    name: str = Field(description="Of the output.", examples=["softmax_output"])
    datatype: str = Field(description="`BYTES` for names of classes.", examples=["FP32"])
    shape: list[int] = Field(description="Of the tensor.", examples=[[1, 2]])
    parameters: OutputParameters | None = Field(
        default=None, description="Where it is binary; absent where `data` is there."
    )
    data: list[Any] | None = Field(
        default=None, description="The elements, flat; absent where it is binary."
    )


class InferAnswer(_View):
    """Outputs of an inference."""

    model_name: str = Field(description="Of the model.", examples=["mlp"])
    model_version: str = Field(
        description="That answered: `live`, or the number of an epoch.", examples=["live"]
    )
    id: str | None = Field(
        default=None, description="The request's, where it has one.", examples=["42"]
    )
    outputs: list[OutputTensor] = Field(description="Those that were asked for, else all.")
