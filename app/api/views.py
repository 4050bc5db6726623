"""What clients get to see of modules, jobs, datasets and checkpoints."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.api.fact_views import LiveModuleView
from app.api.finding_views import FindingsView
from app.api.instance_views import InstanceView
from app.api.timestamps import Timestamp
from app.domain.archive import ArchiveFacts
from app.domain.checkpoint import CheckpointManifest
from app.domain.codec import to_plain
from app.domain.dataset import DatasetKind, DatasetRecord
from app.domain.module import (
    SINGLE,
    BindSpec,
    InitSpec,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    Stage,
)
from app.domain.origin import Origin
from app.domain.restoration import ModuleState, RestoreStatus
from app.domain.serving import ServingSpec
from app.domain.transforms import ImageTransform, TextTransform, Transform
from app.folder_names import without_folder_names

__all__ = [
    "CheckpointView",
    "DatasetView",
    "ErrorCodeView",
    "FieldFault",
    "ModuleView",
    "PageView",
    "ProblemView",
    "StatisticView",
    "StatusView",
    "checkpoint_view",
    "dataset_view",
    "module_view",
]

T = TypeVar("T")


class FieldFault(BaseModel):
    """One field at fault."""

    field: str = Field(
        description="Which field, header or query parameter, with its place in the body.",
        examples=["data_shapes[0].shape"],
    )
    got: str = Field(description="What was sent, shortened.")
    expected: str = Field(description="What it can be.")
    hint: str = Field(default="", description="What to do; empty where that is plain.")


class ProblemView(BaseModel):
    """An RFC 9457 answer to a request that was refused."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        description="Where the error code is described.", examples=["/v1/errors/not_found"]
    )
    title: str = Field(description="What the code means.")
    status: int = Field(description="The status of the answer.")
    detail: str = Field(description="What happened to this request, and what to do.")
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(
        description="For programs; `GET /v1/errors` lists all.", examples=["not_found"]
    )
    request_id: str = Field(description="The request in the log; give it to the operator.")
    errors: list[FieldFault] = Field(
        default=[], description="Each field at fault; empty where none is."
    )
    needs: Stage | None = Field(default=None, description="Of `wrong_stage`: the stage needed.")
    is_: Stage | None = Field(
        default=None, alias="is", description="Of `wrong_stage`: the present stage."
    )
    call: str | None = Field(default=None, description="Of `wrong_stage`: what to call first.")
    checkpoints: list[str] | None = Field(
        default=None, description="Of `params_lost`: tags of those that can be loaded."
    )
    sequence_id: str | int | None = Field(
        default=None, description="Of `sequence_lost`: the sequence."
    )
    reason: str | None = Field(default=None, description="Of `module_failed`: what to mend.")
    present: str | int | None = Field(
        default=None,
        description="Of `precondition_failed`: the present ETag or number; null where there is "
        "nothing.",
    )
    limit: int | None = Field(
        default=None, description="Of `too_large` and `headers_too_large`: the limit."
    )
    missing_scope: list[str] | None = Field(
        default=None, description="Of `forbidden`: scopes one of which the key would need."
    )


class ErrorCodeView(BaseModel):
    """An error code, of answers or of failed jobs."""

    code: str = Field(
        description="As `code` of problems and of failed jobs.", examples=["not_found"]
    )
    status: int | None = Field(
        description="Status of the answers; null for a code that only jobs have.", examples=[404]
    )
    title: str = Field(description="What it means.", examples=["Not found"])
    remedy: str = Field(description="What to do about it.")
    type: str = Field(
        description="As problems have it: the address of this.", examples=["/v1/errors/not_found"]
    )


class PageView(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T] = Field(description="Of this page, in the order of the list.")
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` for the next page; null on the last one."
    )


class StatusView(BaseModel):
    """How the server is."""

    status: Literal["alive", "ready", "unready"] = Field(
        description="`alive`; of readiness `ready` or `unready`.", examples=["ready"]
    )
    executors: dict[str, Literal["ready", "down"]] = Field(
        description="`ready` or `down`, by the executor.",
        default={},
        examples=[{"cpu(0)": "ready"}],
    )
    warnings: list[str] = Field(
        default=[],
        description="Modules that failed, or came back from an older checkpoint; the others serve.",
    )


class TextTransformView(BaseModel):
    """How a text becomes an input, without the tokens of its vocabulary."""

    type: Literal["text"] = Field(description="Always `text`.")
    vocabulary_size: int = Field(description="Tokens of the vocabulary.")
    tokens: str = Field(description="What a token is.", examples=["words"])
    lowercase: bool = Field(description="Whether letters are made small first.")
    unknown: str | None = Field(description="The token for those not in the vocabulary.")
    padding: str | None = Field(description="The token that shorter texts are filled up with.")
    max_length: int | None = Field(description="Words of a text at most; null for what is bound.")
    longer: str = Field(description="What becomes of longer texts.", examples=["cut"])


class ModuleView(BaseModel):
    """A module."""

    name: str = Field(description="Of the module.", examples=["lenet"])
    kind: ModuleKind = Field(
        description="Which class of the Module family it is.", examples=["module"]
    )
    state: ModuleState = Field(
        examples=["ready"],
        description="`ready`: calls are answered, the first of them after the module was brought "
        "to its device. `params_lost`: its parameters were only in memory and are lost. "
        "`failed`: it cannot be brought to its device; `reason` says why, and "
        "`POST /v1/modules/{module}/restore` tries again.",
    )
    reason: str | None = Field(description="Why it is failed; null for all the others.")
    resident: bool | None = Field(
        description="Whether it is on its device at present; null where its executor does not "
        "say so at once."
    )
    durable: bool = Field(
        description="False while parameters or states were changed and no checkpoint, seed or "
        "file has them: they are lost with the executor, and predict is then 409 `params_lost`."
    )
    restored_from: str | None = Field(
        description="The checkpoint that it was brought back from, where that is not `checkpoint` "
        "because that one is damaged."
    )
    warning: str | None = Field(description="What is wrong with the newer ones.")
    stage: Stage = Field(
        description="How far it has come: symbols, shapes, parameters, optimizer.",
        examples=["ready"],
    )
    data_names: list[str] = Field(description="Inputs that hold data.")
    label_names: list[str] = Field(description="Inputs that hold labels; predictions go without.")
    state_names: list[str] = Field(description="Inputs that hold states.")
    fixed_param_names: list[str] = Field(description="Parameters that are not trained.")
    fixed_param_patterns: list[str] = Field(
        description="Nor are those whose names contain one of these,"
    )
    excluded_param_patterns: list[str] = Field(description="unless they contain one of these.")
    compression_params: dict[str, Any] | None = Field(
        description="How gradients between contexts are compressed; null for not."
    )
    origin: Origin | None = Field(description="The module it was made from.")
    bucket_keys: list[str] = Field(description="Empty for a module without buckets.")
    default_bucket_key: str | None = Field(
        description="Whose shapes are `bind.data_shapes`; null without buckets."
    )
    archive: ArchiveFacts | None = Field(
        description="What was taken over of the archive of mxnet-model-server that it was made "
        "from, and what was not."
    )
    warnings: list[str] = Field(
        description="What was odd about its files when they were uploaded, and still is."
    )
    is_from_folder: bool = Field(
        description="Whether it is a model of the models folder, which is changed there alone."
    )
    executor: str = Field(description="That has it.", examples=["cpu(0)"])
    contexts: list[str] = Field(description="Devices that a batch is spread over.")
    serving: ServingSpec = Field(description="How predictions are served.")
    instances: list[InstanceView] = Field(
        description="The executors that answer predictions, the home first."
    )
    transforms: dict[str, ImageTransform | TextTransformView] = Field(
        description="How images and texts become inputs, by the input."
    )
    labelled_outputs: list[str] = Field(description="Outputs whose classes have labels.")
    bind: BindSpec | None = Field(description="Shapes; null before it is bound.")
    init: InitSpec | None = Field(
        description="How its parameters were initialized; null where they were not."
    )
    optimizer: OptimizerSpec | None = Field(description="What trains it; null before there is one.")
    params: ParamsSource | None = Field(description="Where the parameters came from.")
    checkpoint: str | None = Field(description="Tag of the newest checkpoint.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    version: int = Field(description="Changes with every change of the module.")
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp
    updated_at: Timestamp
    live: LiveModuleView | None = Field(
        default=None,
        description="What the executor knows: arguments, shapes, memory; null while it is down.",
    )
    found: FindingsView | None = Field(
        default=None,
        description="What it was taken for; in the answer to its creation from a symbol alone.",
    )


class ArrayView(BaseModel):
    """One array of a dataset."""

    name: str = Field(description="Of the array.", examples=["train_images"])
    shape: list[int] = Field(
        description="The first axis counts the examples.", examples=[[4000, 28, 28]]
    )
    dtype: str = Field(description="As NumPy names it.", examples=["uint8"])


class DatasetView(BaseModel):
    """A dataset."""

    name: str = Field(description="Of the dataset.", examples=["mnist"])
    kind: DatasetKind = Field(description="The format of its file.", examples=["npz"])
    arrays: list[ArrayView] = Field(description="In it.")
    examples: int | None = Field(
        description="How many; null where the arrays have not as many as each other."
    )
    classes: list[str] = Field(
        description="Names of the classes of its images, in the order of their labels.",
        examples=[["cat", "dog"]],
    )
    size: int = Field(description="Bytes of its file.")
    sha256: str = Field(description="Of its file.")
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp
    path: str | None = Field(description="Of a file that was added where it lies.")


class FileView(BaseModel):
    """A file of a checkpoint."""

    size: int = Field(description="Bytes.")
    sha256: str = Field(description="Of its bytes.")


class CheckpointView(BaseModel):
    """A checkpoint."""

    tag: str = Field(
        description="The epoch, and behind a dash the batch of one within an epoch.",
        examples=["12"],
    )
    module: str = Field(description="That it is of.")
    epoch: int = Field(description="How many epochs it has been trained.")
    batch: int = Field(description="Batches of the epoch after that; 0 between two epochs.")
    files: dict[str, FileView] = Field(description="By name, as MXNet writes them.")
    metrics: dict[str, Any] = Field(description="Of the training, at that time.")
    job_id: int | None = Field(
        description="The job that wrote it; null for one saved or uploaded by hand."
    )
    size: int = Field(description="Bytes of all its files.")
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp


class StatisticView(BaseModel):
    """Statistics of one array; those of its elements that are finite."""

    name: str = Field(description="Of the array.", examples=["fc_weight"])
    of: Literal["output", "backward", "parameter", "gradient", "auxiliary"] = Field(
        examples=["gradient"],
        description="Output of an operator, backward (gradient of an operator's input), "
        "parameter, gradient of a parameter, or auxiliary.",
    )
    device: str = Field(description="That it is on.", examples=["cpu(0)"])
    shape: list[int] = Field(description="Of the array.")
    magnitude: float | None = Field(description="Norm / sqrt(size), as MXNet's Monitor has it.")
    mean: float | None = Field(description="Null where no element is finite.")
    std: float | None = Field(description="Standard deviation.")
    min: float | None = Field(description="The least element.")
    max: float | None = Field(description="The greatest element.")
    nonfinite: int = Field(description="Elements that are NaN or infinite.")


def module_view(
    record: ModuleRecord,
    restored: RestoreStatus,
    resident: bool | None,
    instances: list[InstanceView],
) -> ModuleView:
    """Return the view of a module, its symbols left out.

    Args:
        record: the module.
        restored: how its newest restore went.
        resident: whether it is on its device; None if that is not known.
        instances: the views of its instances.
    """
    plain = to_plain(record.evolve(symbols={}, labels={}, transforms={}))  # which may be large
    has_buckets = list(record.symbols) != [SINGLE]
    return ModuleView(
        **{
            name: plain[name]
            for name in ModuleView.model_fields
            if name in plain and name not in _OWN and name not in _VALUES
        },
        name=record.public_name,
        origin=_origin_of(record),
        transforms={name: _transform_view(one) for name, one in record.transforms.items()},
        labelled_outputs=list(record.labels),
        is_from_folder=record.folder is not None,
        etag=record.etag,
        stage=record.stage.value,
        bucket_keys=list(record.symbols) if has_buckets else [],
        default_bucket_key=record.default_bucket_key if has_buckets else None,
        checkpoint=str(record.checkpoint) if record.checkpoint else None,
        state=_state_of(record, restored),
        reason=_shown(restored.failure),
        resident=resident,
        instances=instances,
        restored_from=str(restored.restored_from) if restored.restored_from else None,
        warning=_shown(restored.warning),
        warnings=record.standing_warnings,
        **{name: getattr(record, name) for name in _VALUES},
    )


_OWN = frozenset(
    {
        *("name", "etag", "stage", "bucket_keys", "default_bucket_key", "checkpoint", "live"),
        *("found", "origin", "transforms", "warnings"),
    }
)


_VALUES = ("archive", "serving", "bind", "init", "optimizer")


def _shown(text: str | None) -> str | None:
    return None if text is None else without_folder_names(text)


def _origin_of(record: ModuleRecord) -> Origin | None:
    origin = record.origin
    if origin is None:
        return None
    return dataclasses.replace(origin, module=without_folder_names(origin.module))


def _transform_view(transform: Transform) -> ImageTransform | TextTransformView:
    if not isinstance(transform, TextTransform):
        return transform
    names = TextTransformView.model_fields.keys() - {"vocabulary_size"}
    fields = {name: getattr(transform, name) for name in names}
    return TextTransformView(**fields, vocabulary_size=len(transform.vocabulary))


def _state_of(record: ModuleRecord, restored: RestoreStatus) -> ModuleState:
    if restored.failure is not None:
        return ModuleState.FAILED
    return ModuleState.PARAMS_LOST if record.lost else ModuleState.READY


def dataset_view(record: DatasetRecord) -> DatasetView:
    """Return the view of a dataset."""
    plain = to_plain(record)
    fields = {name: plain[name] for name in DatasetView.model_fields if name in plain}
    return DatasetView(**fields, etag=record.etag)


def checkpoint_view(manifest: CheckpointManifest) -> CheckpointView:
    """Return the view of a checkpoint."""
    plain = to_plain(manifest)
    fields = {name: plain[name] for name in CheckpointView.model_fields if name in plain}
    fields["module"] = without_folder_names(manifest.module)
    return CheckpointView(**fields, etag=manifest.etag, tag=str(manifest.tag), size=manifest.size)
