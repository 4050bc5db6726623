"""Responses of the Open Inference Protocol, as the OpenAPI document describes them."""

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
    version: str = Field(description="Version of modserve.", examples=["0.1.0"])
    extensions: list[str] = Field(
        description="Supported extensions of the protocol.",
        examples=[["binary_tensor_data", "model_repository"]],
    )


class ServerLiveness(_View):
    """Whether the server is alive."""

    live: bool = Field(description="Always true: a server that is down does not answer.")


class ServerReadiness(_View):
    """Whether the server can infer."""

    ready: bool = Field(description="True if every executor is up.")
    error: str | None = Field(
        default=None, description="Which executors are not up; absent if all are."
    )


class ModelReadiness(_View):
    """Whether a model can infer."""

    name: str = Field(description="Name of the model.", examples=["mlp"])
    ready: bool = Field(description="True if an inference can be answered.")
    error: str | None = Field(default=None, description="Why not; absent if it is ready.")


class TensorMetadata(_View):
    """An input or output of a model."""

    name: str = Field(description="Name of the tensor.", examples=["data"])
    datatype: str = Field(description="Data type, by the protocol's name.", examples=["FP32"])
    shape: list[int] = Field(
        description="-1 for the number of examples and for ragged axes.", examples=[[-1, 784]]
    )


class ModelMetadata(_View):
    """Inputs and outputs of a model."""

    name: str = Field(description="Name of the model.", examples=["mlp"])
    versions: list[str] = Field(
        description="`live`, and the versions that are promoted, a canary or labelled.",
        examples=[["live", "3"]],
    )
    platform: str = Field(description="Always `mxnet_mxnet`.", examples=["mxnet_mxnet"])
    inputs: list[TensorMetadata] = Field(description="Inputs of an inference.")
    outputs: list[TensorMetadata] = Field(description="Outputs of an inference.")


class ConfiguredTensor(_View):
    """An input or output in a model's configuration."""

    name: str = Field(description="Name of the tensor.", examples=["data"])
    data_type: str = Field(description="Data type, by Triton's name.", examples=["TYPE_FP32"])
    dims: list[int] = Field(
        description="Shape, without the axis of examples unless `max_batch_size` is 0.",
        examples=[[784]],
    )


class LatestVersions(_View):
    """How many of the latest versions are served."""

    num_versions: int = Field(description="Always 1; other versions are requested by name.")


class VersionPolicy(_View):
    """Which versions are served, in Triton's terms."""

    latest: LatestVersions = Field(description="The latest version.")


class DynamicBatching(_View):
    """How waiting requests are batched."""

    preferred_batch_size: list[int] = Field(description="Bound batch sizes.")
    max_queue_delay_microseconds: int = Field(description="`max_delay_us` of the module's serving.")


class InstanceGroup(_View):
    """Where a model is computed."""

    name: str = Field(description="Name of the group.", examples=["mlp_0"])
    kind: Literal["KIND_CPU", "KIND_GPU"] = Field(description="Kind of the device.")
    count: int = Field(description="Number of instances on the device.")
    gpus: list[int] | None = Field(
        default=None, description="Numbers of the GPUs; absent for CPUs."
    )


class ModelConfig(_View):
    """What Triton calls a model's configuration."""

    name: str = Field(description="Name of the model.", examples=["mlp"])
    platform: str = Field(description="Always `mxnet_mxnet`.", examples=["mxnet_mxnet"])
    backend: str = Field(description="Always `mxnet`.", examples=["mxnet"])
    version_policy: VersionPolicy = Field(description="Which versions are served.")
    max_batch_size: int = Field(
        description="Maximum number of examples per inference; 0 if the first axis "
        "is not that of the examples."
    )
    input: list[ConfiguredTensor] = Field(description="Inputs of an inference.")
    output: list[ConfiguredTensor] = Field(description="Outputs of an inference.")
    dynamic_batching: DynamicBatching = Field(description="How requests share batches.")
    instance_group: list[InstanceGroup] = Field(description="Where the model is computed.")


class Sum(_View):
    """How often something happened, and how long it took."""

    count: int = Field(description="Number of times.")
    ns: int = Field(description="Total time in nanoseconds.")


class InferenceSums(_View):
    """Requests by how they ended, and where their time went."""

    success: Sum = Field(description="Requests that were answered.")
    fail: Sum = Field(description="Requests that were refused or failed.")
    queue: Sum = Field(description="Time waiting for the device.")
    compute_input: Sum = Field(description="Time gathering inputs.")
    compute_infer: Sum = Field(description="Time computing.")
    compute_output: Sum = Field(description="Time delivering outputs.")


class BatchSums(_View):
    """Batches of one size, and where their time went."""

    batch_size: int = Field(description="Number of examples in a batch.")
    compute_input: Sum = Field(description="Time gathering inputs.")
    compute_infer: Sum = Field(description="Time computing.")
    compute_output: Sum = Field(description="Time delivering outputs.")


class ModelStatistics(_View):
    """Counts and times of one version of a model."""

    name: str = Field(description="Name of the model.", examples=["mlp"])
    version: str = Field(
        description="A number; 0 for `live`, except beside a version 0.", examples=["3"]
    )
    last_inference: int = Field(
        description="Time of the last inference in milliseconds since 1970; 0 if there was none."
    )
    inference_count: int = Field(description="Number of examples.")
    execution_count: int = Field(description="Number of batches.")
    inference_stats: InferenceSums = Field(description="Totals over requests.")
    batch_stats: list[BatchSums] = Field(description="Totals over batches, by batch size.")


class StatisticsAnswer(_View):
    """Counts and times since the server began."""

    model_stats: list[ModelStatistics] = Field(description="One row per version.")


class IndexRow(_View):
    """A model of the repository."""

    name: str = Field(description="Name of the model.", examples=["mlp"])
    version: str = Field(description="`live`, or the number of an epoch.", examples=["live"])
    state: Literal["READY", "LOADING", "UNAVAILABLE"] = Field(
        description="Whether the model can infer."
    )
    reason: str = Field(description="Why not; empty if it can.")


class OutputParameters(_View):
    """Parameters of an output."""

    binary_data_size: int = Field(description="Number of its bytes after the JSON.")


class OutputTensor(_View):
    """An output of an inference."""

    name: str = Field(description="Name of the output.", examples=["softmax_output"])
    datatype: str = Field(description="`BYTES` for class labels.", examples=["FP32"])
    shape: list[int] = Field(description="Shape of the tensor.", examples=[[1, 2]])
    parameters: OutputParameters | None = Field(
        default=None, description="Parameters of a binary tensor; absent if `data` is present."
    )
    data: list[Any] | None = Field(
        default=None, description="The elements in row-major order; absent if the tensor is binary."
    )


class InferAnswer(_View):
    """Outputs of an inference."""

    model_name: str = Field(description="Name of the model.", examples=["mlp"])
    model_version: str = Field(
        description="The version that answered: `live`, or the number of an epoch.",
        examples=["live"],
    )
    id: str | None = Field(
        default=None, description="Id of the request, if it has one.", examples=["42"]
    )
    outputs: list[OutputTensor] = Field(description="The requested outputs; by default all.")
