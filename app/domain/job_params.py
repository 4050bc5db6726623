"""Parameters of the three kinds of jobs.

A dataset's arrays become a module's inputs by ``DatasetSource.inputs``: input name to array, or to
columns of a table. Inputs that are not named there take the array of their own name.

    {"dataset": "mnist", "epochs": 12, "batch_size": 64,
     "inputs": {"data": {"array": "train_images", "shape": [1, 28, 28], "scale": 0.00392156862},
                "softmax_label": {"array": "train_labels"}},
     "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1, "momentum": 0.9}},
     "checkpoint": {"epochs": 1}}

    {"dataset": "iris", "inputs": {"data": {"all_but": ["kind"]}, "softmax_label": "kind"}, ...}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, GetJsonSchemaHandler, Tag
from pydantic_core import CoreSchema

from app.domain.codec import STRICT_FIELDS, from_plain
from app.domain.job import JobKind
from app.domain.module import InitSpec, OptimizerSpec
from app.domain.names import Pattern, check_name
from app.errors.tree import Invalid

__all__ = [
    "ArraySource",
    "CheckpointCadence",
    "DatasetSource",
    "EarlyStopping",
    "FitParams",
    "JobParams",
    "KeepBest",
    "Metric",
    "MetricChoice",
    "MetricSpec",
    "MonitorSpec",
    "PredictParams",
    "ScoreParams",
    "dataset_names",
    "names_parts",
    "parse_job_params",
    "parse_source",
]

Count: TypeAlias = Annotated[int, Field(ge=0)]
Positive: TypeAlias = Annotated[int, Field(gt=0)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySource:
    """One input of the module, read from one array of the dataset, or from columns of a table.

    Attributes:
        array: name of the array; its first axis counts the examples.
        columns: instead of it, arrays of one number for each example, which are put side by side.
        all_but: instead of these, all columns but those named.
        shape: shape to which each example is reshaped.
        axes: order of the axes of one example, as for NumPy's ``transpose``: ``[2, 0, 1]`` moves
            the last axis, such as the channels of an image, to the front.
        scale: factor for every value, after the conversion to the input's dtype.
        lengths: name of an array of ints: ``array`` then holds examples of these lengths,
            concatenated along its first axis, and each example is padded to its bucket.
        padding: the value with which such examples are padded.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    array: Text | None = None
    columns: tuple[Text, ...] = ()
    all_but: tuple[Text, ...] | None = None
    shape: tuple[Positive, ...] | None = None
    axes: tuple[int, ...] | None = None
    scale: float = 1.0
    lengths: str | None = None
    padding: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays to read, without those that ``lengths`` and ``all_but`` name."""
        return self.columns if self.array is None else (self.array,)


class _OrName:
    """In the schema: a name or a list of names may stand for an ``ArraySource``, see
    ``_expand_names``.
    """

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        name = {"type": "string", "minLength": 1}
        names = {"type": "array", "items": name, "minItems": 1}
        return {"anyOf": [handler(schema), name, names]}


ArrayOrName: TypeAlias = Annotated[ArraySource, _OrName]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """A dataset and how its arrays become the module's inputs.

    Attributes:
        dataset: its name.
        inputs: input name to array, to an array's name or to the names of columns; other inputs
            read the array of their own name.
        classes: the texts of a column in the order of their numbers, by the column's name. Without
            them, those of labels have the numbers that the module's labels give them, or else those
            of the sorted texts.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    dataset: Text
    inputs: dict[str, ArrayOrName] = field(default_factory=dict)
    classes: dict[str, tuple[Text, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric with its options.

    Attributes:
        name: MXNet's: ``top_k_accuracy``.
        options: ``{"top_k": 5}``. The option ``name`` names its values; by default they have the
            name of the metric, with those of ``outputs``, if given.
        outputs: of the module to which it applies; all if empty.
        labels: with which these are compared; all if empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: Text
    options: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Text, ...] = ()
    labels: tuple[Text, ...] = ()


Metric: TypeAlias = Annotated[
    Annotated[str, Tag("str")] | Annotated[MetricSpec, Tag("MetricSpec")],
    Discriminator(lambda given: "str" if isinstance(given, str) else "MetricSpec"),
]
"""A metric by its name, or with options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChoice:
    """A metric, and which of its values are better.

    Attributes:
        metric: name, as in the job's metrics: ``accuracy``, ``loss``.
        mode: whether the minimum or the maximum is the best.
        part: of the data; None takes validation if there is one, else training.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    metric: Text
    mode: Literal["min", "max"]
    part: Literal["train", "validation"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping(MetricChoice):
    """When a fit ends before its last epoch.

    Attributes:
        patience: number of consecutive epochs without improvement.
        min_delta: minimum improvement.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    patience: Positive = 1
    min_delta: Annotated[float, Field(ge=0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepBest(MetricChoice):
    """Which checkpoints between epochs are never pruned; the best epochs are always saved.

    Attributes:
        count: how many.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    count: Positive = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCadence:
    """How often a fit saves: after some epochs, and within them after batches or seconds.

    Attributes:
        epochs: 0 saves only at the end.
        batches: None does not save by batches.
        seconds: None does not save by time.
        keep: number of checkpoints between epochs to keep; None keeps all. Of those within an epoch
            only the newest is kept.
        keep_best: also keep the best of the job; None does not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    epochs: Count = 1
    batches: Positive | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None
    keep: Positive | None = None
    keep_best: KeepBest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSpec:
    """Statistics of arrays during a fit, as collected by MXNet's ``Monitor``.

    Attributes:
        interval: number of batches between collections, from the first of an epoch.
        pattern: of the names of outputs, parameters and gradients: ``fc*``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    interval: Positive = 100
    pattern: Pattern = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitParams(DatasetSource):
    """``BaseModule.fit`` as a job.

    Attributes:
        validation: scored after every epoch, if given.
        epochs: how many to train; with ``begin_epoch`` the last one, exclusive, as MXNet's
            ``num_epoch``.
        begin_epoch: first epoch, counted from 0; None goes on counting from the module's highest
            version. The version at the end of an epoch is numbered one higher; a fit that is told
            where to begin replaces those that exist, unless they are in use.
        batch_size: examples per step, over all contexts.
        shuffle: before every epoch, from ``seed``.
        seed: of the device's random numbers when the job first begins.
        last_batch: handling of an incomplete last batch, as by ``NDArrayIter``.
        bucket_keys: lengths of the buckets, ascending, of a bucketing module; each example uses the
            smallest that fits.
        initializer: of missing parameters; None takes the module's, or uniform.
        optimizer: None takes the module's, which must then have one.
        metrics: names of metrics, or objects with their options, for training and validation.
            Positions that pad an example to its bucket never count.
        callbacks: options of a callback by its name: ``{"speedometer": {"frequent": 50}}``.
        checkpoint: when to save.
        monitor: report statistics of arrays as events of type ``statistics``; None does not.
        early_stopping: when to end before the last epoch; None never does.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    validation: DatasetSource | None = None
    epochs: Positive
    begin_epoch: Count | None = None
    batch_size: Positive
    shuffle: bool = True
    seed: int = 0
    last_batch: Literal["pad", "discard", "roll_over"] = "pad"
    bucket_keys: tuple[Positive, ...] = ()
    initializer: InitSpec | None = None
    optimizer: OptimizerSpec | None = None
    metrics: tuple[Metric, ...] = ("accuracy",)
    callbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    checkpoint: CheckpointCadence = CheckpointCadence()
    monitor: MonitorSpec | None = None
    early_stopping: EarlyStopping | None = None

    @property
    def first_epoch(self) -> int:
        """The first epoch, 0 unless it is known."""
        return self.begin_epoch or 0

    def beginning_at(self, epoch: int | None) -> FitParams:
        """Return the parameters with this first epoch, unless they have one."""
        if self.begin_epoch is not None or epoch is None:
            return self
        return dataclasses.replace(self, begin_epoch=epoch, epochs=epoch + self.epochs)

    def part_of(self, choice: MetricChoice) -> Literal["train", "validation"]:
        """Return the part of the data whose metrics a choice refers to."""
        if choice.part is not None:
            return choice.part
        return "train" if self.validation is None else "validation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParams(DatasetSource):
    """``BaseModule.score`` as a job; the result holds the value of each metric.

    Attributes:
        batch_size: examples computed together, over all contexts.
        bucket_keys: lengths of the buckets, ascending, of a bucketing module.
        metrics: their names.
        num_batch: maximum number of batches; None for all.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    batch_size: Positive
    bucket_keys: tuple[Positive, ...] = ()
    metrics: tuple[Metric, ...] = ("accuracy",)
    num_batch: Positive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictParams(DatasetSource):
    """``BaseModule.predict`` as a job; the outputs become a dataset of kind npz.

    Attributes:
        batch_size: examples computed together, over all contexts.
        bucket_keys: lengths of the buckets, ascending, of a bucketing module.
        output: name of the dataset to write: arrays ``output0``, ``output1``, ...
        num_batch: maximum number of batches; None for all.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    batch_size: Positive
    bucket_keys: tuple[Positive, ...] = ()
    output: Text
    num_batch: Positive | None = None


JobParams: TypeAlias = FitParams | ScoreParams | PredictParams

_TYPES: Mapping[JobKind, type[FitParams] | type[ScoreParams] | type[PredictParams]] = {
    JobKind.FIT: FitParams,
    JobKind.SCORE: ScoreParams,
    JobKind.PREDICT: PredictParams,
}


def parse_job_params(kind: JobKind, data: Any) -> JobParams:
    """Check the parameters of a job; raise Invalid naming every invalid field."""
    params: JobParams = from_plain(_TYPES[kind], _expand_names(data))
    _check_source(params, "")
    if isinstance(params, FitParams) and params.validation is not None:
        _check_source(params.validation, "validation.")
    if isinstance(params, FitParams):
        _check_parts(params)
    if isinstance(params, PredictParams):
        check_name(params.output, "output")
    return params


def parse_source(data: Any) -> DatasetSource:
    """Check a dataset and how its arrays become inputs; raise Invalid, which names each fault."""
    source = from_plain(DatasetSource, _expand_names(data))
    _check_source(source, "")
    return source


def _check_source(source: DatasetSource, prefix: str) -> None:
    check_name(source.dataset, f"{prefix}dataset")
    for name, one in source.inputs.items():
        field_name = f"{prefix}inputs.{name}"
        given = [one.array is not None, bool(one.columns), one.all_but is not None]
        if given.count(True) != 1:
            got = "several of them" if any(given) else "none of them"
            expected = "one of array (a name), columns (a list of names) and all_but (a list)"
            raise Invalid(field_name, got, expected)
        if one.lengths is not None and one.array is None:
            raise Invalid(f"{field_name}.lengths", one.lengths, "none for columns of numbers")


def _check_parts(params: FitParams) -> None:
    choices = {
        "early_stopping": params.early_stopping,
        "checkpoint.keep_best": params.checkpoint.keep_best,
    }
    for field_name, choice in choices.items():
        if choice is not None and choice.part == "validation" and params.validation is None:
            expected = "train, or a fit with a validation dataset"
            raise Invalid(f"{field_name}.part", choice.part, expected)


def _expand_names(source: Any) -> Any:
    """Return a source in which names of arrays or columns are replaced by ``ArraySource``
    objects.
    """
    if not isinstance(source, Mapping):
        return source
    expanded = dict(source)
    if isinstance(inputs := source.get("inputs"), Mapping):
        expanded["inputs"] = {name: _expanded(one) for name, one in inputs.items()}
    if "validation" in source:
        expanded["validation"] = _expand_names(source["validation"])
    return expanded


def _expanded(one: Any) -> Any:
    if isinstance(one, str):
        return {"array": one}
    if isinstance(one, list):
        return {"columns": one}
    if isinstance(one, Mapping) and isinstance(one.get("all_but"), str):
        return {**one, "all_but": [one["all_but"]]}
    return one


def names_parts(params: JobParams) -> bool:
    """Return whether metrics name outputs or labels, which depend on the module."""
    metrics = params.metrics if isinstance(params, FitParams | ScoreParams) else ()
    return any(isinstance(one, MetricSpec) and (one.outputs or one.labels) for one in metrics)


def dataset_names(params: JobParams) -> tuple[str, ...]:
    """Return the names of the datasets a job reads."""
    if isinstance(params, FitParams) and params.validation is not None:
        return params.dataset, params.validation.dataset
    return (params.dataset,)
