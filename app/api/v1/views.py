"""Modules, jobs, datasets and checkpoints as clients see them."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.api.timestamps import Timestamp
from app.api.v1.fact_views import LiveModuleView
from app.api.v1.finding_views import FindingsView
from app.api.v1.instance_views import InstanceView
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
    """An invalid field."""

    field: str = Field(
        description="Field, header or query parameter, with its path in the body.",
        examples=["data_shapes[0].shape"],
    )
    got: str = Field(description="The value sent, shortened.")
    expected: str = Field(description="The values allowed.")
    hint: str = Field(default="", description="What to do; empty if that is obvious.")


class ProblemView(BaseModel):
    """An RFC 9457 answer to a refused request."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        description="Address of the error code's description.", examples=["/v1/errors/not_found"]
    )
    title: str = Field(description="Meaning of the code.")
    status: int = Field(description="HTTP status of the answer.")
    detail: str = Field(description="What happened to this request, and what to do.")
    instance: str = Field(description="Path of the request.")
    code: str = Field(
        description="Machine-readable code; `GET /v1/errors` lists all.", examples=["not_found"]
    )
    request_id: str = Field(description="Id of the request in the log; quote it to the operator.")
    errors: list[FieldFault] = Field(
        default=[], description="All invalid fields; empty if there are none."
    )
    needs: Stage | None = Field(default=None, description="For `wrong_stage`: the stage needed.")
    is_: Stage | None = Field(
        default=None, alias="is", description="For `wrong_stage`: the current stage."
    )
    call: str | None = Field(default=None, description="For `wrong_stage`: what to call first.")
    checkpoints: list[str] | None = Field(
        default=None, description="For `params_lost`: tags of the checkpoints that can be loaded."
    )
    sequence_id: str | int | None = Field(
        default=None, description="For `sequence_lost`: the sequence."
    )
    reason: str | None = Field(default=None, description="For `module_failed`: what to repair.")
    present: str | int | None = Field(
        default=None,
        description="For `precondition_failed`: the current ETag or number; null if there is none.",
    )
    limit: int | None = Field(
        default=None, description="For `too_large` and `headers_too_large`: the limit."
    )
    missing_scope: list[str] | None = Field(
        default=None, description="For `forbidden`: the key needs one of these scopes."
    )


class ErrorCodeView(BaseModel):
    """An error code, of answers or of failed jobs."""

    code: str = Field(description="`code` of problems and of failed jobs.", examples=["not_found"])
    status: int | None = Field(
        description="HTTP status of the answers; null for a code that only jobs have.",
        examples=[404],
    )
    title: str = Field(description="Meaning of the code.", examples=["Not found"])
    remedy: str = Field(description="How to resolve it.")
    type: str = Field(
        description="`type` of problems: the address of this description.",
        examples=["/v1/errors/not_found"],
    )


class PageView(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T] = Field(description="Items of this page, in the order of the list.")
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` to get the next page; null on the last one."
    )


class StatusView(BaseModel):
    """The server's health."""

    status: Literal["alive", "ready", "unready"] = Field(
        description="`alive` for liveness; `ready` or `unready` for readiness.", examples=["ready"]
    )
    executors: dict[str, Literal["ready", "down"]] = Field(
        description="`ready` or `down`, by executor.",
        default={},
        examples=[{"cpu(0)": "ready"}],
    )
    warnings: list[str] = Field(
        default=[],
        description="What needs a look while everything else serves: modules that failed or were "
        "restored from an older checkpoint, damage found at the start, a disk that is full.",
    )


class TextTransformView(BaseModel):
    """The transform of a text into an input, without the tokens of its vocabulary."""

    type: Literal["text"] = Field(description="Always `text`.")
    vocabulary_size: int = Field(description="Number of tokens in the vocabulary.")
    tokens: str = Field(description="Kind of tokens.", examples=["words"])
    lowercase: bool = Field(description="Whether the text is converted to lower case first.")
    unknown: str | None = Field(description="The token that replaces those not in the vocabulary.")
    padding: str | None = Field(description="The token with which shorter texts are padded.")
    max_length: int | None = Field(
        description="Maximum number of tokens in a text; null for the bound length."
    )
    longer: str = Field(description="What happens to longer texts.", examples=["cut"])


class ModuleView(BaseModel):
    """A module."""

    name: str = Field(description="Name of the module.", examples=["lenet"])
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
    reason: str | None = Field(description="Why it failed; null unless it has.")
    resident: bool | None = Field(
        description="Whether it is on its device now; null if its executor does not "
        "respond at once."
    )
    durable: bool = Field(
        description="False if parameters or states have changed and no checkpoint, "
        "seed or file has them: they are lost with the executor, and "
        "predict is then answered 409 `params_lost`."
    )
    restored_from: str | None = Field(
        description="The checkpoint from which it was restored, if that is not "
        "`checkpoint`, because `checkpoint` is damaged."
    )
    warning: str | None = Field(description="What is wrong with newer checkpoints.")
    stage: Stage = Field(
        description="Stage of its preparation: symbols, shapes, parameters, optimizer.",
        examples=["ready"],
    )
    data_names: list[str] = Field(description="Inputs for data.")
    label_names: list[str] = Field(description="Inputs for labels; not needed for predictions.")
    state_names: list[str] = Field(description="Inputs for states.")
    fixed_param_names: list[str] = Field(description="Parameters that are not trained.")
    fixed_param_patterns: list[str] = Field(
        description="Parts of names: parameters whose names contain one are not trained either."
    )
    excluded_param_patterns: list[str] = Field(
        description="Exceptions to `fixed_param_patterns`: parameters whose names "
        "contain one of these are trained."
    )
    compression_params: dict[str, Any] | None = Field(
        description="How gradients are compressed between contexts; null for no compression."
    )
    origin: Origin | None = Field(description="The module from which it was made.")
    bucket_keys: list[str] = Field(
        description="Keys of its buckets; empty for a module without buckets."
    )
    default_bucket_key: str | None = Field(
        description="Key of the bucket whose shapes are in `bind.data_shapes`; null "
        "without buckets."
    )
    archive: ArchiveFacts | None = Field(
        description="What was taken from the archive of mxnet-model-server or SageMaker from which "
        "it was made, and what was not."
    )
    warnings: list[str] = Field(
        description="Problems found in its files at the upload that are not resolved yet."
    )
    is_from_folder: bool = Field(
        description="Whether it is a model of the models folder, and can only be changed there."
    )
    executor: str = Field(description="Executor that has the module.", examples=["cpu(0)"])
    contexts: list[str] = Field(description="Devices that share each batch.")
    serving: ServingSpec = Field(description="How predictions are served.")
    instances: list[InstanceView] = Field(
        description="The executors that answer predictions, the module's own first."
    )
    transforms: dict[str, ImageTransform | TextTransformView] = Field(
        description="Transforms of images and texts into inputs, by input."
    )
    labelled_outputs: list[str] = Field(description="Outputs whose classes have labels.")
    bind: BindSpec | None = Field(description="Shapes; null before it is bound.")
    init: InitSpec | None = Field(
        description="How its parameters were initialized; null where they were not."
    )
    optimizer: OptimizerSpec | None = Field(description="The optimizer; null before there is one.")
    params: ParamsSource | None = Field(description="Where the parameters came from.")
    checkpoint: str | None = Field(description="Tag of the newest checkpoint.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    version: int = Field(description="Changes with every change of the module.")
    etag: str = Field(description="ETag for `If-Match` and `If-None-Match`.", examples=['"12-3"'])
    created_at: Timestamp
    updated_at: Timestamp
    live: LiveModuleView | None = Field(
        default=None,
        description="The executor's view: arguments, shapes, memory; null while the "
        "executor is down.",
    )
    found: FindingsView | None = Field(
        default=None,
        description="What was found in the symbol; only in the answer to a creation "
        "from a symbol alone.",
    )


class ArrayView(BaseModel):
    """One array of a dataset."""

    name: str = Field(description="Name of the array.", examples=["train_images"])
    shape: list[int] = Field(
        description="Its shape; the first axis counts the examples.", examples=[[4000, 28, 28]]
    )
    dtype: str = Field(
        description="Data type, by NumPy's name; `str` for texts that are no classes.",
        examples=["uint8"],
    )
    classes: list[str] = Field(
        description="Of a column of texts: the texts whose places it has, in order."
    )


class DatasetView(BaseModel):
    """A dataset."""

    name: str = Field(description="Name of the dataset.", examples=["mnist"])
    kind: DatasetKind = Field(description="The format of its file.", examples=["npz"])
    arrays: list[ArrayView] = Field(description="Arrays in the dataset.")
    examples: int | None = Field(
        description="Number of examples; null if the arrays' numbers differ."
    )
    classes: list[str] = Field(
        description="Names of the classes of its images, in the order of their labels.",
        examples=[["cat", "dog"]],
    )
    size: int = Field(description="Size of its file in bytes.")
    sha256: str = Field(description="SHA-256 of its file.")
    etag: str = Field(description="ETag for `If-Match` and `If-None-Match`.", examples=['"12-3"'])
    created_at: Timestamp
    path: str | None = Field(description="Path of a file that was added without copying it.")


class FileView(BaseModel):
    """A file of a checkpoint."""

    size: int = Field(description="Size in bytes.")
    sha256: str = Field(description="SHA-256 of its content.")


class CheckpointView(BaseModel):
    """A checkpoint."""

    tag: str = Field(
        description="The epoch; for a checkpoint within an epoch followed by a dot and the batch.",
        examples=["12"],
    )
    module: str = Field(description="Name of its module.")
    epoch: int = Field(description="Number of epochs trained.")
    batch: int = Field(description="Number of batches of the next epoch; 0 between two epochs.")
    files: dict[str, FileView] = Field(description="Files by name, as named by MXNet.")
    metrics: dict[str, Any] = Field(description="Metrics of the training at that time.")
    job_id: int | None = Field(
        description="The job that wrote it; null for one saved or uploaded by hand."
    )
    size: int = Field(description="Total size of its files in bytes.")
    etag: str = Field(description="ETag for `If-Match` and `If-None-Match`.", examples=['"12-3"'])
    created_at: Timestamp


class StatisticView(BaseModel):
    """Statistics of the finite elements of one array."""

    name: str = Field(description="Name of the array.", examples=["fc_weight"])
    of: Literal["output", "backward", "parameter", "gradient", "auxiliary"] = Field(
        examples=["gradient"],
        description="What the array is: an operator's output, the gradient of an "
        "operator's input (backward), a parameter, the gradient of a "
        "parameter, or an auxiliary state.",
    )
    device: str = Field(description="The device that it is on.", examples=["cpu(0)"])
    shape: list[int] = Field(description="Shape of the array.")
    magnitude: float | None = Field(description="Norm / sqrt(size), as in MXNet's Monitor.")
    mean: float | None = Field(description="Mean; null if no element is finite.")
    std: float | None = Field(description="Standard deviation.")
    min: float | None = Field(description="Minimum.")
    max: float | None = Field(description="Maximum.")
    nonfinite: int = Field(description="Number of elements that are NaN or infinite.")


def module_view(
    record: ModuleRecord,
    restored: RestoreStatus,
    resident: bool | None,
    instances: list[InstanceView],
) -> ModuleView:
    """Return the view of a module, without its symbols.

    Args:
        record: the module.
        restored: the outcome of its latest restore.
        resident: whether it is on its device; None if that is not known.
        instances: the views of its instances.
    """
    # Without those, which may be large, and are not in the view as they are.
    plain = to_plain(record.evolve(symbols={}, labels={}, transforms={}))
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
"""Members of the view that are not the record's fields of the same name."""

_VALUES = ("archive", "serving", "bind", "init", "optimizer")
"""Members that are domain values, which the view takes as they are."""


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
