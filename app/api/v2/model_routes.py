"""Models: inputs and outputs, readiness, configuration and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from app.api.dependencies import ServicesOf
from app.api.v2.interfaces import Interface, TensorDesc, interface_of
from app.api.v2.named_models import NamedModel
from app.api.v2.openapi import answers, not_ready
from app.api.v2.readiness import model_states
from app.api.v2.requests import model_now
from app.api.v2.statistics import STATISTICS, statistics_of
from app.api.v2.versions import versions_of
from app.api.v2.views import ModelConfig, ModelMetadata, ModelReadiness, StatisticsAnswer
from app.domain.instances import serving_executors
from app.domain.module import ModuleRecord
from app.domain.serving import MOST_ROWS
from app.services.services import Services

__all__ = ["router"]

router = APIRouter(prefix="/v2/models/{model}", tags=["inference protocol"])

_PLATFORM = "mxnet_mxnet"
_LONGEST_PREFERRED = 64

_TENSOR = {"name": "data", "datatype": "FP32", "shape": [-1, 784]}
_OUTPUT = {"name": "softmax_output", "datatype": "FP32", "shape": [-1, 10]}
_METADATA = {
    "name": "mlp",
    "versions": ["live"],
    "platform": _PLATFORM,
    "inputs": [_TENSOR],
    "outputs": [_OUTPUT],
}
_CONFIG = {
    "name": "mlp",
    "platform": _PLATFORM,
    "backend": "mxnet",
    "version_policy": {"latest": {"num_versions": 1}},
    "max_batch_size": MOST_ROWS,
    "input": [{"name": "data", "data_type": "TYPE_FP32", "dims": [784]}],
    "output": [{"name": "softmax_output", "data_type": "TYPE_FP32", "dims": [10]}],
    "dynamic_batching": {
        "preferred_batch_size": [1, 2, 4, 8, 16, 32, 64],
        "max_queue_delay_microseconds": 0,
    },
    "instance_group": [{"name": "mlp_0", "kind": "KIND_CPU", "count": 1}],
}
_READY = {"name": "mlp", "ready": True}


@router.get(
    "",
    summary="Inputs and outputs of a model",
    response_model=ModelMetadata,
    responses=answers(ModelMetadata, _METADATA, 404, 503),
)
async def get_model_metadata(named: NamedModel, services: ServicesOf) -> dict[str, Any]:
    """Return names, datatypes and shapes; -1 for the number of examples and for ragged axes.

    An input with a transform is of type BYTES, with one element for each example: a text or an
    image file. It also accepts the numbers that it is bound with.
    """
    record = await _record(services, named)
    interface = await interface_of(services, record)
    return {
        "name": record.public_name,
        "versions": versions_of(record),
        "platform": _PLATFORM,
        "inputs": [_tensor(one) for one in interface.inputs],
        "outputs": [_tensor(one) for one in interface.outputs],
    }


@router.get(
    "/ready",
    summary="Check that a model is ready",
    responses=answers(ModelReadiness, _READY, 404) | not_ready(ModelReadiness),
)
async def get_model_readiness(named: NamedModel, services: ServicesOf) -> Response:
    """Answer 200 if an inference can be answered, else 503 with the reason."""
    record = await _record(services, named)
    (state,) = await model_states(services, [record])
    if state.is_ready:
        return JSONResponse({"name": record.public_name, "ready": True})
    error = f"model {record.public_name!r} is not ready: {state.reason or state.state.lower()}"
    plain = {"name": record.public_name, "ready": False, "error": error}
    return JSONResponse(plain, 503, headers={"Retry-After": "1"})


@router.get(
    "/config",
    summary="Configuration of a model",
    response_model=ModelConfig,
    response_model_exclude_unset=True,
    responses=answers(ModelConfig, _CONFIG, 404, 503),
)
async def get_model_config(named: NamedModel, services: ServicesOf) -> dict[str, Any]:
    """Return what Triton calls a model's configuration; `dims` leave out the examples."""
    record = await _record(services, named)
    interface = await interface_of(services, record)
    most = _most_rows(record, interface)
    powers = [1 << power for power in range(_LONGEST_PREFERRED.bit_length())]
    return {
        "name": record.public_name,
        "platform": _PLATFORM,
        "backend": "mxnet",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": most,
        "input": [_dims(one, most) for one in interface.inputs],
        "output": [_dims(one, most) for one in interface.outputs],
        "dynamic_batching": {
            "preferred_batch_size": [size for size in powers if size <= most],
            "max_queue_delay_microseconds": record.serving.max_delay_us,
        },
        "instance_group": [_instances(record, services.executors.names)],
    }


@router.get(
    "/stats",
    summary="Statistics of a model",
    response_model=StatisticsAnswer,
    responses=answers(StatisticsAnswer, STATISTICS, 404, 503),
)
async def get_model_statistics(named: NamedModel, services: ServicesOf) -> dict[str, Any]:
    """Return counts and times of a model's predictions since the server started, by version.

    `inference_count` counts examples, `execution_count` batches. Times are totals in nanoseconds;
    the time of a batch counts for each of its requests. Versions are numbers, because some clients
    read nothing else: `live` is 0, unless there is a version 0.
    """
    record = await model_now(services, named.model)
    if named.version is None:
        return {"model_stats": statistics_of(services, record)}
    version = await services.versions.choose(record, named.version)
    return {"model_stats": statistics_of(services, record, version.name)}


async def _record(services: Services, named: NamedModel) -> ModuleRecord:
    """Return a model's record; raise NotFound if the version does not exist."""
    record = await model_now(services, named.model)
    await services.versions.choose(record, named.version)
    return record


def _tensor(desc: TensorDesc) -> dict[str, Any]:
    return {"name": desc.name, "datatype": desc.datatype, "shape": desc.shape}


def _most_rows(record: ModuleRecord, interface: Interface) -> int:
    """Return the most examples of an inference, 0 if the first axis is not that of the examples."""
    if not interface.has_rows:
        return 0
    return record.serving.max_batch_size or MOST_ROWS


def _dims(desc: TensorDesc, most_rows: int) -> dict[str, Any]:
    dims = desc.shape[1:] if most_rows else desc.shape
    kind = "STRING" if desc.datatype == "BYTES" else desc.datatype
    return {"name": desc.name, "data_type": f"TYPE_{kind}", "dims": dims}


def _instances(record: ModuleRecord, names: Sequence[str]) -> dict[str, Any]:
    executors = serving_executors(record, names) or (record.executor,)
    kind = record.executor.partition("(")[0]
    plain = {"name": f"{record.public_name}_0", "kind": f"KIND_{kind.upper()}"}
    if kind == "gpu":  # a number of each
        gpus = [int(one.rstrip(")").partition("(")[2]) for one in executors]
        return plain | {"count": 1, "gpus": gpus}
    return plain | {"count": len(executors)}
