"""JSON bodies that are no domain values of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS, canonical_json
from app.domain.module import SINGLE, BucketShapes, ModuleKind, ModuleRecord
from app.domain.names import BucketKey
from app.errors import Invalid

__all__ = ["BucketBody", "CheckpointBody", "LearningRateBody", "LoadBody", "ModuleBody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBody:
    """A module to create.

    Attributes:
        symbol: parsed symbol JSON, for a module without buckets.
        symbols: parsed symbol JSON by bucket key (JSON text: ``20``, ``[10,20]``), for one with.
        default_bucket_key: the bucket that ``bind`` binds; it must have every parameter.
        executor: device that holds it; the first one where None.
        contexts: logical devices its batches are spread over; the executor's where empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str
    symbol: dict[str, Any] | None = None
    symbols: dict[str, dict[str, Any]] | None = None
    default_bucket_key: BucketKey | None = None
    data_names: tuple[str, ...] = ("data",)
    label_names: tuple[str, ...] = ("softmax_label",)
    state_names: tuple[str, ...] = ()
    fixed_param_names: tuple[str, ...] = ()
    executor: str | None = None
    contexts: tuple[str, ...] = ()

    def to_record(self, executor: str) -> ModuleRecord:
        """Return the record to create.

        Args:
            executor: where it goes unless the body says.
        """
        if (self.symbol is None) == (self.symbols is None):
            got = "neither" if self.symbol is None else "both"
            raise Invalid("symbol", got, "either symbol, or symbols by bucket key")
        given = {SINGLE: self.symbol} if self.symbols is None else self.symbols
        symbols = {key: canonical_json(symbol) for key, symbol in given.items()}
        chosen = self.executor or executor
        return ModuleRecord(
            name=self.name,
            kind=ModuleKind.MODULE if self.symbols is None else ModuleKind.BUCKETING,
            symbols=symbols,
            default_bucket_key=self._default_key(),
            data_names=self.data_names,
            label_names=self.label_names,
            state_names=self.state_names,
            fixed_param_names=self.fixed_param_names,
            executor=chosen,
            contexts=self.contexts or (chosen,),
        )

    def _default_key(self) -> str:
        if self.symbols is None:
            return SINGLE
        if self.default_bucket_key is None:
            raise Invalid("default_bucket_key", None, f"one of {', '.join(self.symbols)}")
        return self.default_bucket_key


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBody(BucketShapes):
    """A bucket to bind.

    Attributes:
        key: bucket key as JSON text (``20``, ``[10,20]``) or a number.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    key: BucketKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRateBody:
    """A change of the optimizer."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    learning_rate: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBody:
    """A checkpoint to save: of which epoch, and whether with the optimizer's states."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    epoch: Annotated[int, Field(ge=0, le=999_999_999)]
    optimizer_states: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBody:
    """A checkpoint to load.

    Attributes:
        epoch: its tag: ``12`` or ``12.340``.
        optimizer_states: take these too.
        allow_missing: parameters that it lacks keep their values, as for fine-tuning.
        allow_extra: pass over what is no parameter of the module.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    epoch: int | str
    optimizer_states: bool = False
    allow_missing: bool = False
    allow_extra: bool = False

    def options(self) -> dict[str, bool]:
        """Return all but the tag."""
        return {
            "optimizer_states": self.optimizer_states,
            "allow_missing": self.allow_missing,
            "allow_extra": self.allow_extra,
        }
