"""What the models folder declares of a model, beside its symbol and parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS
from app.domain.serving import Batches, BatchSize, DelayUs

__all__ = ["DeclaredInput", "DeclaredOutput", "FolderModel", "ModelDeclaration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderModel:
    """Which state of which model of the models folder a module holds.

    Attributes:
        model: its folder's name, by which clients call it.
        signature: changes with the model's files.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    model: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredInput:
    """One input: its shape includes the batch, and ``null`` is as long as the bucket.

    ``transform`` says how an image or a text becomes this input. A text's ``vocabulary`` is the
    name of a file beside it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    shape: Annotated[tuple[Annotated[int, Field(ge=1)] | None, ...], Field(min_length=1)]
    dtype: str = "float32"
    layout: str = "NCHW"
    transform: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOutput:
    """One output: ``labels`` is the name of a file beside it, with a class a line."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    labels: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDeclaration:
    """The content of ``modserve.yaml``; each field may be left out.

    Attributes:
        inputs: by name; those that are not there are worked out from symbol and parameters.
        outputs: by name.
        label_names: inputs of the symbol that predictions go without.
        buckets: lengths of an open axis of the inputs.
        max_batch_size, batches, max_delay_us: see ``ServingSpec``.
        executor: the device that serves it; the server's first one where None.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    inputs: dict[str, DeclaredInput] = field(default_factory=dict)
    outputs: dict[str, DeclaredOutput] = field(default_factory=dict)
    label_names: tuple[str, ...] | None = None
    buckets: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(max_length=256)] = ()
    max_batch_size: BatchSize | None = None
    batches: Batches = "auto"
    max_delay_us: DelayUs = 0
    executor: str | None = None
