"""The record of a module, its stage, and what each call needs.

    created      it has its symbols
    bound        it has shapes:        bind
    initialized  it has parameters:    params/init, PUT params, load
    ready        it has an optimizer:  optimizer

The stage is derived from the record. Parameters may exist before binding and survive rebinding, so
a module that is loaded first and bound second is initialized at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

from app.domain.archive import ArchiveFacts
from app.domain.checkpoint import CheckpointTag
from app.domain.codec import STRICT_FIELDS, canonical_json
from app.domain.declaration import FolderModel
from app.domain.origin import Origin
from app.domain.serving import ServingSpec
from app.domain.transforms import Transform
from app.domain.upload_warnings import UploadWarning
from app.domain.versions import VersionSpec
from app.errors.tree import Conflict, ParamsLost, WrongStage

__all__ = [
    "CALLS",
    "SINGLE",
    "BindSpec",
    "BucketShapes",
    "Call",
    "InitSpec",
    "InputDesc",
    "ModuleKind",
    "ModuleRecord",
    "OptimizerSpec",
    "ParamsSource",
    "Stage",
    "described_input",
    "quoted_buckets",
    "require",
    "symbol_field",
]

GradReq = Literal["write", "add", "null"]
Dim: TypeAlias = Annotated[
    int,
    BeforeValidator(lambda dim: 0 if dim is None else dim),
    WithJsonSchema({"type": ["integer", "null"]}),
]

SINGLE = canonical_json(None)
"""The bucket key of the only symbol of a module without buckets."""


def symbol_field(key: str) -> str:
    """Return the name of the request's field with the symbol of a bucket key."""
    return "symbol" if key == SINGLE else f"symbols[{key}]"


def quoted_buckets(keys: Iterable[str]) -> str:
    """Return what a message says is expected of a bucket key, given those that exist."""
    known = [key for key in keys if key != SINGLE]
    return f"one of {', '.join(known)}" if known else "no bucket key: the module has no buckets"


class ModuleKind(StrEnum):
    """Which class of the Module family it is.

    A chain (``SequentialModule``) is one symbol, composed by the client, and Python modules are not
    supported, because code of clients is never run. Neither is a kind.
    """

    MODULE = "module"
    BUCKETING = "bucketing"
    """A symbol, or a shape, per bucket key; all buckets have the same parameters."""
    MUTABLE = "mutable"
    """Bound at the largest shapes expected; batches of other shapes are computed, too."""
    DETECTION = "detection"
    """Selects fixed parameters only by parts of their names, as SimpleDet's ``DetModule``."""


class ParamsSource(StrEnum):
    """Where a module's parameters came from, and so how they are restored."""

    INIT = "init"
    """Initialized: run the initializer again, with its seed."""
    CHECKPOINT = "checkpoint"
    """Loaded from the checkpoint in the record, or saved to it and trained since."""
    SET = "set"
    """Sent by a client: only in memory until a checkpoint is saved."""


class Stage(StrEnum):
    """How far a module has come; each stage includes those before it."""

    CREATED = "created"
    BOUND = "bound"
    INITIALIZED = "initialized"
    READY = "ready"

    @property
    def rank(self) -> int:
        """Position in the order of stages, from 0."""
        return list(Stage).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDesc:
    """One input of a bound module, as MXNet's ``DataDesc``: the shape includes the batch.

    An axis of 0, in a body also ``null``, has the length of the bucket.

    Attributes:
        name: of the input.
        shape: including the batch.
        dtype: by NumPy's name.
        layout: one letter per axis, N for the examples; null if they are along the first axis and
            the rest is unknown.
        pad_value: with which predictions pad shorter examples to the bucket's length.
        lengths_of: name of another input. If a prediction is sent without this input, it is the
            length of each example of the other one, before padding.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str
    shape: tuple[Dim, ...]
    dtype: str = "float32"
    layout: str | None = None
    pad_value: float = 0.0
    lengths_of: str | None = None

    def __post_init__(self) -> None:
        # MXNet's default, NCHW, is used with shapes of any rank: then it only says where N is.
        if self.layout and self.layout[0] == "N" and len(self.layout) != len(self.shape):
            object.__setattr__(self, "layout", None)


def described_input(
    name: str, shape: tuple[int, ...], layout: str | None = None, dtype: str | None = None
) -> InputDesc:
    """Return the description of an input of a shape, with the usual layout and dtype unless others
    are given."""
    plain = InputDesc(name=name, shape=shape)
    return dataclasses.replace(plain, layout=layout or plain.layout, dtype=dtype or plain.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShapes:
    """The shapes of one bucket of a bucketing module.

    Attributes:
        data_shapes: of the inputs for data.
        label_shapes: of the inputs for labels; empty for a module bound without labels.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    data_shapes: tuple[InputDesc, ...]
    label_shapes: tuple[InputDesc, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BindSpec:
    """What ``bind`` was given; enough to bind again after a restart.

    Attributes:
        data_shapes: of the default bucket, if there are buckets. A request may omit inputs whose
            shapes follow from the parameters, or from how the module is bound.
        label_shapes: empty for a module bound without labels.
        for_training: so that it can be trained; False binds for predictions only.
        inputs_need_grad: also compute the gradients of the data inputs.
        grad_req: one value for all arguments, or one per argument.
        buckets: shapes of the other bound buckets, by bucket key as canonical JSON text.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    data_shapes: tuple[InputDesc, ...] = ()
    label_shapes: tuple[InputDesc, ...] = ()
    for_training: bool = True
    inputs_need_grad: bool = False
    grad_req: GradReq | dict[str, GradReq] = "write"
    buckets: dict[str, BucketShapes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitSpec:
    """What ``init_params`` was given.

    Attributes:
        initializer: MXNet's name, in lower case: ``xavier``, ``uniform``, ``normal``.
        options: its arguments: ``{"magnitude": 2.24}``.
        seed: of the device's random numbers before initializing; None does not set it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    initializer: str = "uniform"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSpec:
    """What ``init_optimizer`` was given.

    Attributes:
        name: MXNet's name, in lower case: ``sgd``, ``adam``.
        options: its arguments: ``{"learning_rate": 0.1, "momentum": 0.9}``; an ``lr_scheduler``
            is ``{"name": "factor", "step": 500, "factor": 0.9}``.
        kvstore: MXNet's name of the store: ``local``, ``device``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str = "sgd"
    options: dict[str, Any] = field(default_factory=dict)
    kvstore: str | None = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """The record of a module, which outlives every process.

    Attributes:
        name: chosen by the client, unique.
        symbols: symbol JSON by bucket key (canonical JSON text); ``SINGLE`` without buckets.
        default_bucket_key: the key whose shapes are ``bind.data_shapes``.
        executor: name of the executor process that has it: ``cpu(0)``.
        contexts: the logical devices that share its batches.
        fixed_param_names: parameters that are not trained.
        fixed_param_patterns: parameters whose names contain one of these are not trained either,
        excluded_param_patterns: unless they contain one of these.
        origin: the module from which it was made, if any.
        folder: the model of the models folder that it represents, if any.
        archive: the archive of mxnet-model-server or SageMaker from which it was made, if any.
        warnings: problems found in its files when they were uploaded.
        compression_params: of the gradients between contexts, as in MXNet:
            ``{"type": "2bit", "threshold": 0.5}``; the optimizer's kvstore must be ``device``.
            Residuals that were not sent yet are not part of a checkpoint: a fit that continues
            after a death starts without them.
        serving: how predictions are served.
        transforms: how images and texts become inputs, by the input's name.
        labels: of the classes of an output, by its name.
        versions: which checkpoints answer predictions.
        highest_deleted: the highest number of a version that was deleted, if there is none above
            it; numbers are not used again.
        bind, init, optimizer: the specifications of the calls made, None before the call.
        params: source of the parameters, None if there are none.
        checkpoint: the newest durable state of its parameters.
        durable: False if parameters, auxiliary states or optimizer states have changed and no
            checkpoint, seed or file has them.
        lost: whether they were not durable, and their executor died.
        saved_states: whether ``checkpoint`` has the optimizer's states; else it starts from scratch
            when the module is restored.
        generation: changes whenever state that was only in memory is lost.
        version: changes with every change of this record; its ETag.
    """

    id: int = 0
    name: str
    kind: ModuleKind = ModuleKind.MODULE
    symbols: Mapping[str, str]
    default_bucket_key: str = SINGLE
    data_names: tuple[str, ...] = ("data",)
    label_names: tuple[str, ...] = ("softmax_label",)
    state_names: tuple[str, ...] = ()
    fixed_param_names: tuple[str, ...] = ()
    fixed_param_patterns: tuple[str, ...] = ()
    excluded_param_patterns: tuple[str, ...] = ()
    compression_params: Mapping[str, Any] | None = None
    origin: Origin | None = None
    folder: FolderModel | None = None
    archive: ArchiveFacts | None = None
    warnings: tuple[UploadWarning, ...] = ()
    executor: str = "cpu(0)"
    contexts: tuple[str, ...] = ("cpu(0)",)
    serving: ServingSpec = field(default_factory=ServingSpec)
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    versions: VersionSpec = field(default_factory=VersionSpec)
    highest_deleted: int | None = None
    bind: BindSpec | None = None
    init: InitSpec | None = None
    optimizer: OptimizerSpec | None = None
    params: ParamsSource | None = None
    checkpoint: CheckpointTag | None = None
    durable: bool = True
    lost: bool = False
    saved_states: bool = False
    generation: int = 1
    version: int = 1
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def stage(self) -> Stage:
        """Its stage."""
        if self.bind is None:
            return Stage.CREATED
        if self.params is None or self.lost:
            return Stage.BOUND
        if self.optimizer is None or not self.bind.for_training:
            return Stage.INITIALIZED
        return Stage.READY

    @property
    def standing_warnings(self) -> list[str]:
        """Problems found in its files that are not resolved yet."""
        bind = self.bind
        inputs = () if bind is None else (*bind.data_shapes, *bind.label_shapes)
        bound = {one.name: one.shape for one in inputs}
        is_saved = self.params is ParamsSource.CHECKPOINT and self.durable
        checkpoint = str(self.checkpoint) if is_saved else None
        return [one.text for one in self.warnings if one.stands(checkpoint, bound)]

    @property
    def public_name(self) -> str:
        """The name that clients use."""
        return self.name if self.folder is None else self.folder.model

    @property
    def etag(self) -> str:
        """A strong ETag of this record, including quotes."""
        return f'"{self.id}-{self.version}"'

    def evolve(self, **changes: Any) -> ModuleRecord:
        """Return a copy with these fields changed."""
        return dataclasses.replace(self, **changes)

    def is_restored_from(self, tag: CheckpointTag) -> bool:
        """Return whether it would be restored with the parameters of this checkpoint."""
        is_kept = self.durable and not self.lost
        return is_kept and (self.params, self.checkpoint) == (ParamsSource.CHECKPOINT, tag)

    def with_set_params(self) -> ModuleRecord:
        """Return the record after parameters came from a source that cannot be read again."""
        return self.evolve(params=ParamsSource.SET, durable=False, lost=False, saved_states=False)

    def with_init(self, spec: InitSpec) -> ModuleRecord:
        """Return the record after an initialization, which is repeatable with a seed."""
        return self.evolve(
            init=spec,
            params=ParamsSource.INIT,
            durable=spec.seed is not None,
            lost=False,
            saved_states=False,
        )

    def with_checkpoint(self, tag: CheckpointTag, *, saved_states: bool) -> ModuleRecord:
        """Return the record after its parameters were saved to a checkpoint, or loaded from it."""
        return self.evolve(
            params=ParamsSource.CHECKPOINT,
            checkpoint=tag,
            durable=True,
            lost=False,
            saved_states=saved_states,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """Requirements of a call on a module.

    Attributes:
        needs: the minimum stage.
        training: True if the module must be bound for training.
    """

    needs: Stage
    training: bool = False


CALLS: Mapping[str, Call] = {
    "bind": Call(Stage.CREATED),
    "set_params": Call(Stage.CREATED),
    "load": Call(Stage.CREATED),
    "fit": Call(Stage.CREATED),
    "reshape": Call(Stage.BOUND),
    "bind_bucket": Call(Stage.BOUND),
    "init_params": Call(Stage.BOUND),
    "get_params": Call(Stage.INITIALIZED),
    "save_checkpoint": Call(Stage.INITIALIZED),
    "init_optimizer": Call(Stage.INITIALIZED, training=True),
    "forward": Call(Stage.INITIALIZED),
    "get_outputs": Call(Stage.INITIALIZED),
    "states": Call(Stage.INITIALIZED),
    "monitor": Call(Stage.INITIALIZED),
    "predict": Call(Stage.INITIALIZED),
    "predict_version": Call(Stage.BOUND),
    "score": Call(Stage.INITIALIZED),
    "predict_dataset": Call(Stage.INITIALIZED),
    "backward": Call(Stage.INITIALIZED, training=True),
    "get_input_grads": Call(Stage.INITIALIZED, training=True),
    "forward_backward": Call(Stage.INITIALIZED, training=True),
    "update": Call(Stage.READY, training=True),
    "get_optimizer": Call(Stage.READY, training=True),
    "set_learning_rate": Call(Stage.READY, training=True),
    "optimizer_states": Call(Stage.READY, training=True),
}
"""Requirements of every call on a module. ``fit`` binds and initializes what is missing."""

_NEXT = {
    Stage.CREATED: "POST /v1/modules/{name}/bind",
    Stage.BOUND: "POST /v1/modules/{name}/params/init",
    Stage.INITIALIZED: "POST /v1/modules/{name}/optimizer",
}


def require(record: ModuleRecord, call: str) -> None:
    """Raise an error unless the module's stage suffices for this call.

    Raises:
        ParamsLost: it had parameters that are in no checkpoint, and lost them.
        WrongStage: names the stage needed, the current stage, and what to call first.
        Conflict: the module is bound for inference only and the call trains.
    """
    wanted = CALLS[call]
    stage = record.stage
    if record.lost and wanted.needs.rank >= Stage.INITIALIZED.rank:
        raise ParamsLost(record.name)
    if wanted.training and record.bind is not None and not record.bind.for_training:
        raise Conflict(
            f"{call} trains, module {record.name!r} is bound with for_training false; "
            f"bind it again with for_training true"
        )
    if stage.rank < wanted.needs.rank:
        raise WrongStage(
            f"{call} of module {record.name!r}",
            needs=wanted.needs.value,
            is_=stage.value,
            call=_NEXT[stage].format(name=record.name),
        )
