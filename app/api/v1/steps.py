"""Step calls: forward, backward and update, for clients that run the training loop themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.api.bodies import beside_the_loop, read_body
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, NamePattern, ServicesOf, VersionName, VersionQuery
from app.api.disconnect import unless_hung_up
from app.api.openapi import problems, tensor_body, tensor_or_raw_body
from app.api.openapi_answers import tensor_answer
from app.api.v1.fact_views import StepView, UpdateView
from app.api.v1.ragged_predictions import answer_ragged, may_be_ragged
from app.api.v1.raw_bodies import inputs_in
from app.api.v1.sequence_query import PartOfQuery
from app.api.v1.step_query import ForwardQuery, PassQuery, StepQuery
from app.api.v1.tensor_io import (
    ForwardFields,
    PassFields,
    PredictFields,
    StateFields,
    StepFields,
    answer,
    answer_ranked,
    members_of,
    read_step,
)
from app.api.v1.views import PageView, StatisticView
from app.domain.codec import from_plain
from app.domain.module import ModuleKind
from app.domain.sequence import SequencePart
from app.errors.tree import HostError, Invalid
from app.link import calls
from app.services.predictions.predict_calls import bound_dtypes, pieces_of, rows_of
from app.services.services import Services
from app.tensors.json_tensors import is_uneven

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["steps"])

_BATCH = {"inputs": {"data": [[0.5, 1.0]], "softmax_label": [1]}, "is_train": True}
_FIELDS: dict[str, Any] = {
    "generation": {"type": ["integer", "null"]},
    "sequence": {"type": ["integer", "null"]},
}
_BUCKET = {"bucket": {"type": ["string", "integer", "null"]}}
_PREDICT_FIELDS = {
    **_BUCKET,
    "sequence_id": {"type": ["string", "integer", "null"]},
    "sequence_start": {"type": "boolean"},
    "sequence_end": {"type": "boolean"},
}
_PASS_FIELDS = {
    **_FIELDS,
    **_BUCKET,
    "with_outputs": {"type": "boolean"},
    "monitor": {"type": ["string", "null"], "minLength": 1},
}
_FORWARD_FIELDS = {**_PASS_FIELDS, "is_train": {"type": ["boolean", "null"]}}
_BUCKET_TAKEN = {
    "bucket": {"type": "string", "description": "Key of the bucket taken, where there are some."}
}
TopK = Annotated[
    int | None,
    Query(ge=1, le=1000, description="Answer with this many of the best classes of each row."),
]
_BESIDE_OUTPUTS = {
    **_BUCKET_TAKEN,
    "version": {"type": "string", "description": "Version that answered: `live`, or an epoch."},
}
_BESIDE_PASS = {
    **_BUCKET_TAKEN,
    "generation": {"type": "integer", "description": "Changes whenever state in memory was lost."},
    "sequence": {
        "type": "integer",
        "description": "Counts the steps since then.",
    },
}
_ERRORS = problems(400, 404, 409, 412, 413, 415, 422, 503)


_PREDICTED = {
    **tensor_answer("outputs", _BESIDE_OUTPUTS, is_ranked=True),
    **problems(400, 404, 409, 413, 415, 422, 503, 504),
}


async def _forward(
    module: str,
    request: Request,
    services: Services,
    given: Mapping[str, Any],
    stage_of: str,
    backward: bool,
) -> Response:
    record = await services.access.known(module)
    names = (*record.data_names, *record.label_names)
    kind = PassFields if backward else ForwardFields
    tensors, fields = await read_step(request, names, kind, given, bound_dtypes(record))
    call = calls.Forward(
        module=module,
        is_train=fields.is_train if isinstance(fields, ForwardFields) else True,
        bucket=fields.bucket,
        backward=backward,
        with_outputs=fields.with_outputs,
        monitor=fields.monitor,
        generation=fields.generation,
        sequence=fields.sequence,
    )
    reply = await services.access.step(module, stage_of, call, tensors)
    return await answer(request, reply, "outputs", reply.result)


@router.post(
    "/forward",
    summary="Forward pass",
    openapi_extra=tensor_body(_BATCH, _FORWARD_FIELDS),
    responses={**tensor_answer("outputs", _BESIDE_PASS), **_ERRORS},
    dependencies=IF_MATCH,
)
async def forward_module(
    module: ModuleName, request: Request, services: ServicesOf, given: ForwardQuery
) -> Response:
    """Compute the outputs of a batch given by input name.

    A training pass changes auxiliary states, such as the averages of BatchNorm: they are only in
    memory (the module's `durable` is false) until a checkpoint is saved.
    """
    return await _forward(module, request, services, given, "forward", backward=False)


@router.post(
    "/forward_backward",
    summary="Forward and backward pass",
    openapi_extra=tensor_body({"inputs": _BATCH["inputs"]}, _PASS_FIELDS),
    responses={**tensor_answer("outputs", _BESIDE_PASS), **_ERRORS},
    dependencies=IF_MATCH,
)
async def forward_backward_module(
    module: ModuleName, request: Request, services: ServicesOf, given: PassQuery
) -> Response:
    """Compute outputs and gradients of a batch; see `forward` for auxiliary states."""
    return await _forward(module, request, services, given, "forward_backward", backward=True)


@router.post(
    "/backward",
    summary="Backward pass",
    openapi_extra=tensor_body({"inputs": {"fc_output": [[1.0, 0.0]]}}, _FIELDS, required=False),
    responses=_ERRORS,
    dependencies=IF_MATCH,
)
async def backward_module(
    module: ModuleName, request: Request, services: ServicesOf, given: StepQuery
) -> StepView:
    """Compute the gradients of the last training pass; a loss needs no output gradients.

    See `forward` for auxiliary states: those of BatchNorm change here as well.
    """
    tensors, fields = await read_step(request, (), StepFields, given)
    call = calls.Backward(module=module, generation=fields.generation, sequence=fields.sequence)
    reply = await services.access.step(module, "backward", call, tensors)
    reply.release()
    return StepView(**reply.result)


@router.post(
    "/update",
    summary="Update the parameters",
    openapi_extra=tensor_body({"sequence": 3}, _FIELDS, required=False),
    responses=_ERRORS,
    dependencies=IF_MATCH,
)
async def update_params(
    module: ModuleName, request: Request, services: ServicesOf, given: StepQuery
) -> UpdateView:
    """Update the parameters from the gradients of the last backward pass.

    The new values are only in memory (the module's `durable` is false) until a checkpoint is saved.
    If the executor dies before that, calls that need parameters are refused with 409 `params_lost`,
    and the module's `generation` changes when it is restored to its device.
    """
    tensors, fields = await read_step(request, (), StepFields, given)
    if tensors:
        raise Invalid("inputs", sorted(tensors), "none; backward takes the gradients of outputs")
    call = calls.Update(module=module, generation=fields.generation, sequence=fields.sequence)
    reply = await services.access.step(module, "update", call)
    reply.release()
    return UpdateView(**reply.result)


@router.get(
    "/outputs",
    summary="Outputs of the last pass",
    responses={**tensor_answer("outputs"), **problems(404, 409, 422, 503)},
)
async def get_outputs(module: ModuleName, request: Request, services: ServicesOf) -> Response:
    """Return the outputs of the last forward pass."""
    call = calls.GetOutputs(module=module)
    reply = await services.access.ask_at(module, "get_outputs", call)
    return await answer(request, reply, "outputs")


@router.get("/monitor", summary="Statistics of arrays", responses=problems(404, 409, 422, 503))
async def get_statistics(
    module: ModuleName, services: ServicesOf, pattern: NamePattern = "*"
) -> PageView[StatisticView]:
    """Return statistics of parameters, auxiliary states and gradients whose names match.

    Before them come the outputs of operators, if the last `forward` or `forward_backward` had
    a `monitor`.
    """
    call = calls.GetStatistics(module=module, pattern=pattern)
    reply = await services.access.ask_at(module, "monitor", call)
    reply.release()
    return PageView(items=[StatisticView(**row) for row in reply.result["statistics"]])


@router.get(
    "/input_grads",
    summary="Gradients of the inputs",
    responses={**tensor_answer("input_grads"), **problems(404, 409, 422, 503)},
)
async def get_input_grads(module: ModuleName, request: Request, services: ServicesOf) -> Response:
    """Return the gradients of the data inputs; bind with `inputs_need_grad` for them."""
    call = calls.GetInputGrads(module=module)
    reply = await services.access.ask_at(module, "get_input_grads", call)
    return await answer(request, reply, "input_grads")


@router.get(
    "/states",
    summary="Fetch the states",
    responses={**tensor_answer("states"), **problems(404, 409, 422, 503)},
)
async def get_states(module: ModuleName, request: Request, services: ServicesOf) -> Response:
    """Return the arrays named in `state_names`; those of several contexts are concatenated."""
    reply = await services.access.ask_at(module, "states", calls.GetStates(module=module))
    return await answer(request, reply, "states")


@router.put(
    "/states",
    status_code=204,
    summary="Set the states",
    openapi_extra=tensor_body(
        {"inputs": {"lstm_state": [[0.0]]}}, {"value": {"type": "number"}}, required=False
    ),
    responses=_ERRORS,
    dependencies=IF_MATCH,
)
async def set_states(module: ModuleName, request: Request, services: ServicesOf) -> None:
    """Set the arrays named in `state_names`, or all of them to one `value`.

    They are only in memory: the module's `durable` is false, it stays on its device, and after its
    executor's death calls that need parameters are refused with 409 `params_lost`. A checkpoint
    ends that, but like MXNet's contains no states: a module restored from one begins with zeros,
    and its `generation` has changed.
    """
    tensors, fields = await read_step(request, (), StateFields)
    call = calls.SetStates(module=module, value=fields.value)
    (await services.access.step(module, "states", call, tensors)).release()


@router.post(
    "/predict",
    tags=["predict"],
    summary="Predict",
    openapi_extra=tensor_or_raw_body({"inputs": {"data": [[0.5, 1.0]]}}, _PREDICT_FIELDS),
    responses=_PREDICTED,
)
async def predict_module(
    module: ModuleName,
    request: Request,
    services: ServicesOf,
    part: PartOfQuery,
    version: VersionQuery = None,
    top_k: TopK = None,
) -> Response:
    """Compute the outputs of any number of examples; the module does not change.

    With `top_k` the answer is JSON: instead of each row of an output its best classes, the best
    first, as `{"label": "cat", "index": 281, "score": 0.93}`. Classes are the last axis; a label is
    null if `PUT …/labels/{output}` has set none.

    Inputs may be images and texts, if `PUT …/transforms/{input}` has defined their transform:
    `{"inputs": {"data": {"b64": "…"}}}` with a file of an image in Base64, `{"text": "…"}` or
    `{"inputs": {"data": "…"}}`, lists of them; a body that is an image (`Content-Type: image/jpeg`)
    or a text (`text/plain`); a form with files, each under the name of its input.

    Many examples are computed in pieces, of the bound batch size or of about 20 ms, between which
    other predictions are answered and a fit continues: each piece uses the parameters at its time.
    If the client hangs up, the rest is cancelled.

    A module that is not on its device is first loaded there. It never answers from parameters other
    than those set last: 409 `params_lost` if they were only in memory and their executor died (load
    a checkpoint, initialize or set parameters), `module_failed` if it cannot be restored.

    A module whose states are declared (`PATCH .../serving`) computes sequences a part at a time:
    `sequence_id` names the sequence, `sequence_start` its first part, which begins with zeros, and
    `sequence_end` the last one. Send a part after the previous one was answered; a refused part
    does not change the states. 409 `sequence_lost` if the states no longer exist.
    """
    return await _predict(module, version, request, services, part, top_k)


@router.put(
    "/predict",
    tags=["predict"],
    summary="Predict a file",
    openapi_extra=tensor_or_raw_body({"inputs": {"data": [[0.5, 1.0]]}}, _PREDICT_FIELDS),
    responses=_PREDICTED,
)
async def predict_file(
    module: ModuleName,
    request: Request,
    services: ServicesOf,
    part: PartOfQuery,
    version: VersionQuery = None,
    top_k: TopK = None,
) -> Response:
    """Answer `curl -T cat.jpg …/predict?top_k=5` as `POST` does; the module does not change.

    Image, npy, npz and safetensors files are recognized by their first bytes.
    """
    return await _predict(module, version, request, services, part, top_k)


@router.post(
    "/versions/{version}/predict",
    tags=["predict"],
    summary="Predict with a version",
    openapi_extra=tensor_or_raw_body({"inputs": {"data": [[0.5, 1.0]]}}, _PREDICT_FIELDS),
    responses=_PREDICTED,
)
async def predict_with_version(
    module: ModuleName,
    version: VersionName,
    request: Request,
    services: ServicesOf,
    part: PartOfQuery,
    top_k: TopK = None,
) -> Response:
    """Compute the outputs of any number of examples; see `predict` without a version."""
    return await _predict(module, version, request, services, part, top_k)


async def _predict(
    module: str,
    wanted: str | None,
    request: Request,
    services: Services,
    part: SequencePart | None,
    top_k: int | None,
) -> Response:
    record = await services.access.known(module)
    body = await read_body(request)
    try:
        tensors, rest = await inputs_in(request, body, record)
    except (Invalid, HostError) as error:
        # Only then read as examples of differing lengths, because few bodies are.
        if part is not None or not (is_uneven(error) and may_be_ragged(record)):
            raise
        return await answer_ragged(request, services, record, wanted, body, top_k)
    fields = from_plain(PredictFields, rest) if rest else PredictFields()
    if part is not None and fields.part is not None:
        got = "one in the query and one in the body"
        raise Invalid("sequence_id", got, "only one of them")
    part = part or fields.part
    version = await services.versions.choose(record, wanted, part)
    predictions = services.predictions
    target = predictions.target(record, version, rows_of(tensors), fields.bucket, part)
    size = sum(one.nbytes for one in tensors.values())
    pieces = await beside_the_loop(size, partial(pieces_of, tensors))
    asked = predictions.outcome(record, version, target, pieces)
    reply = (await unless_hung_up(request, asked)).reply()
    extra = {"version": version.name}
    axes = reply.result.get("batch_axes", {})
    if record.kind is ModuleKind.BUCKETING:
        extra["bucket"] = reply.result["bucket"]
    if top_k is not None:
        response = await answer_ranked(reply, top_k, record.labels, extra)
    else:
        response = await answer(request, reply, "outputs", extra, members_of(axes))
    response.headers["X-Model-Version"] = version.name
    if axes:
        response.headers["X-Batch-Axes"] = json.dumps(axes)
    return response
