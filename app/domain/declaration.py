"""The declaration of a model in the models folder, beside its symbol and parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS
from app.domain.serving import (
    Batches,
    BatchSize,
    DelayUs,
    IdleSeconds,
    InstanceCount,
    SequenceCount,
    ServingSpec,
    StateLink,
)
from app.domain.versions import Canary, VersionSpec, check_label
from app.errors.tree import Invalid

__all__ = ["DeclaredInput", "DeclaredOutput", "FolderModel", "ModelDeclaration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderModel:
    """The model of the models folder, and its state, that a module represents.

    Attributes:
        model: name of its folder, by which clients address it.
        signature: changes with the model's files.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    model: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredInput:
    """One input: its shape includes the batch, and ``null`` stands for the length of the bucket.

    ``transform`` defines how an image or a text becomes this input. A text's ``vocabulary`` is the
    name of a file beside it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    shape: Annotated[tuple[Annotated[int, Field(ge=1)] | None, ...], Field(min_length=1)]
    dtype: str = "float32"
    layout: str | None = None
    transform: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOutput:
    """One output: ``labels`` is the name of a file beside it, with one class per line."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    labels: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVersions:
    """Which epochs are served.

    Attributes:
        promoted: answers predictions that name no version; None takes the last one.
        labels: epochs by their other names.
        canary: answers a share of those that name no version.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    promoted: int | None = None
    labels: dict[str, int] = field(default_factory=dict)
    canary: Canary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDeclaration:
    """The content of ``modserve.yaml``; each field is optional.

    Attributes:
        inputs: by name; missing ones are inferred from symbol and parameters.
        outputs: by name.
        label_names: inputs of the symbol that predictions do not need.
        buckets: lengths of an open axis of the inputs.
        versions: which epochs answer.
        max_batch_size, batches, max_delay_us, instances, states, max_sequences,
        max_sequence_idle_seconds: see ``ServingSpec``.
        executor: the device that serves it; None takes the server's first one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    inputs: dict[str, DeclaredInput] = field(default_factory=dict)
    outputs: dict[str, DeclaredOutput] = field(default_factory=dict)
    label_names: tuple[str, ...] | None = None
    buckets: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(max_length=256)] = ()
    max_batch_size: BatchSize | None = None
    batches: Batches = "auto"
    max_delay_us: DelayUs = 0
    instances: InstanceCount = 1
    states: tuple[StateLink, ...] = ()
    max_sequences: SequenceCount = 1024
    max_sequence_idle_seconds: IdleSeconds = 600.0
    versions: DeclaredVersions = field(default_factory=DeclaredVersions)
    executor: str | None = None

    @property
    def serving(self) -> ServingSpec:
        """How predictions are served."""
        names = (one.name for one in fields(ServingSpec) if one.name != "is_loaded")
        return ServingSpec(**{name: getattr(self, name) for name in names})

    def version_spec(self, epochs: Collection[int]) -> VersionSpec:
        """Return which versions are in use.

        Args:
            epochs: the existing ones.

        Raises:
            Invalid: a named epoch does not exist, or a label is invalid.
        """
        declared = self.versions
        named = {f"labels.{check_label(label)}": one for label, one in declared.labels.items()}
        if declared.promoted is not None:
            named["promoted"] = declared.promoted
        if declared.canary is not None:
            named["canary.version"] = declared.canary.version
        for place, epoch in named.items():
            if epoch not in epochs:
                expected = f"an epoch with a file: {', '.join(map(str, sorted(epochs)))}"
                raise Invalid(f"versions.{place}", epoch, expected)
        promoted = declared.promoted
        if promoted is None and self.instances > 1:
            promoted = max(epochs)  # a version, because `live` is answered by only one instance
        return VersionSpec(
            promoted=promoted, labels=dict(sorted(declared.labels.items())), canary=declared.canary
        )
