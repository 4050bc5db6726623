"""JSON bodies that are not domain values of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import STRICT_FIELDS, canonical_json
from app.domain.dataset import DatasetKind
from app.domain.module import (
    SINGLE,
    BucketShapes,
    ModuleKind,
    ModuleRecord,
    symbol_field,
)
from app.domain.names import BucketKey
from app.domain.origin import Head
from app.domain.symbol_parts import keep_outputs
from app.errors.tree import Invalid, Malformed
from app.files.file_kinds import not_a_symbol
from app.services.modules.upload_findings import GivenNames
from app.tensors.json_bodies import parse_json

__all__ = [
    "BucketBody",
    "CanaryBody",
    "CheckpointBody",
    "DatasetBody",
    "LabelBody",
    "LearningRateBody",
    "LoadBody",
    "ModuleBody",
    "canonical_symbol",
]


_LARGEST_SYMBOLS = 1 << 23
"""Maximum length of all symbols of a module together, which are sent to its executor in one
message.
"""
_OF_THE_SYMBOL = (
    "symbol",
    "symbols",
    "buckets",
    "default_bucket_key",
    "outputs",
    "data_names",
    "label_names",
    "state_names",
)
Length: TypeAlias = Annotated[int, Field(gt=0, lt=2**31)]


class CanonicalText(str):
    """JSON of a symbol as written by ``canonical_json``, which need not be parsed again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBody:
    """The checkpoint from which a module is made.

    Attributes:
        module: name of its module.
        epoch: its tag; None takes the newest.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    module: str
    epoch: int | str | None = None

    @property
    def tag(self) -> CheckpointTag | None:
        """The tag, None for the newest."""
        return None if self.epoch is None else CheckpointTag.parse(self.epoch, "from.epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBody:
    """A module to create.

    Attributes:
        name: of the module.
        symbol: symbol JSON, parsed or as text, for a module without buckets.
        symbols: the same by bucket key (JSON text: ``20``, ``[10,20]``), for one with.
        buckets: lengths, for a module with a bucket of each length from one ``symbol``, which must
            be valid for all lengths; ``bind`` then has open axes.
        default_bucket_key: the bucket that ``bind`` binds; it must have every parameter. By default
            the largest, if all keys are numbers.
        outputs: outputs of operators in the symbol, if it is to compute only these: the rest of it,
            such as a head for training with operators of its authors, is cut off.
        data_names, label_names, state_names: inputs of the symbol; inferred if None.
        kind: None infers it from the symbol or symbols.
        fixed_param_names, fixed_param_patterns, excluded_param_patterns: parameters that are not
            trained: by name, and by parts of names, except those with an excluded part.
        compression_params: of gradients between contexts: ``{"type": "2bit", "threshold": 0.5}``.
        source: ``from`` in JSON: a checkpoint of another module, for one with its symbol and its
            parameters,
        output: cut at this internal output,
        head: with this new last layer, whose parameters ``params/init`` or ``fit`` initializes.
        executor: its device; None takes the first one.
        contexts: logical devices that share its batches; if empty, the executor's.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str
    symbol: dict[str, Any] | str | None = None
    symbols: dict[str, dict[str, Any] | str] | None = None
    buckets: Annotated[tuple[Length, ...], Field(max_length=256)] = ()
    default_bucket_key: BucketKey | None = None
    outputs: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    data_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    state_names: tuple[str, ...] | None = None
    fixed_param_names: tuple[str, ...] = ()
    fixed_param_patterns: tuple[str, ...] = ()
    excluded_param_patterns: tuple[str, ...] = ()
    compression_params: dict[str, Any] | None = None
    kind: ModuleKind | None = None
    source: Annotated[SourceBody | None, Field(alias="from")] = None
    output: str | None = None
    head: Head | None = None
    executor: str | None = None
    contexts: tuple[str, ...] = ()

    @property
    def given_names(self) -> GivenNames:
        """The names of inputs that it gives."""
        return {
            "data_names": self.data_names,
            "label_names": self.label_names,
            "state_names": self.state_names,
        }

    def to_record(self, executor: str) -> ModuleRecord:
        """Return the record to create, without the names of its inputs.

        Args:
            executor: device to use unless the body names one.
        """
        if self.source is not None:
            raise Invalid("from", self.source.module, "none in a form; send JSON, without files")
        for field in ("output", "head"):
            if getattr(self, field) is not None:
                expected = "a module whose symbol is to be changed"
                raise Invalid("from", "nothing", expected, f"{field} says where")
        record = ModuleRecord(
            name=self.name,
            kind=self._kind(),
            symbols=self._symbols(),
            default_bucket_key=self._default_key(),
        )
        return self._completed(record, executor)

    def to_derived(self, derived: ModuleRecord, executor: str) -> ModuleRecord:
        """Return the record to create of a module made from another one.

        Args:
            derived: symbols and names of the other module.
            executor: device to use unless the body names one.
        """
        kind = self.kind or derived.kind
        if (kind is ModuleKind.BUCKETING) != (derived.kind is ModuleKind.BUCKETING):
            expected = f"{derived.kind}, as module {derived.name!r} is"
            raise Invalid("kind", kind.value, expected)
        return self._completed(derived.evolve(name=self.name, kind=kind), executor)

    def check_derived(self) -> None:
        """Raise Invalid if the body has fields that cannot be combined with ``from``."""
        for field in _OF_THE_SYMBOL:
            if getattr(self, field) != ModuleBody.__dataclass_fields__[field].default:
                expected = "none beside from: symbol and inputs are the other module's"
                raise Invalid(field, getattr(self, field), expected)
        if self.head is not None and self.output is None:
            raise Invalid("output", None, "the internal output that the head is put on")

    def _completed(self, record: ModuleRecord, executor: str) -> ModuleRecord:
        chosen = self.executor or executor
        return record.evolve(
            fixed_param_names=self.fixed_param_names,
            fixed_param_patterns=self.fixed_param_patterns,
            excluded_param_patterns=self.excluded_param_patterns,
            compression_params=self.compression_params,
            executor=chosen,
            contexts=self.contexts or (chosen,),
        )

    def _kind(self) -> ModuleKind:
        has_buckets = self.symbols is not None or bool(self.buckets)
        implied = ModuleKind.BUCKETING if has_buckets else ModuleKind.MODULE
        chosen = self.kind or implied
        if (chosen is ModuleKind.BUCKETING) != has_buckets:
            expected = "bucketing with symbols or buckets, another kind without"
            raise Invalid("kind", chosen.value, expected)
        return chosen

    def symbol_texts(self) -> dict[str, str]:
        """Return the canonical JSON of the symbols by bucket key, of a single one by ``SINGLE``."""
        if self.symbols is None:
            texts = {} if self.symbol is None else {SINGLE: _symbol_text(self.symbol, "symbol")}
        else:
            texts = {key: _symbol_text(one, f"symbols[{key}]") for key, one in self.symbols.items()}
        letters = sum(len(text) for text in texts.values())
        if letters > _LARGEST_SYMBOLS:
            field = "symbol" if self.symbols is None else "symbols"
            raise Invalid(field, f"{letters:,} letters", f"at most {_LARGEST_SYMBOLS:,} in all")
        return texts

    def with_texts(self, texts: Mapping[str, str]) -> ModuleBody:
        """Return a copy with symbols that ``symbol_texts`` returned."""
        canonical: dict[str, dict[str, Any] | str] = {
            key: CanonicalText(text) for key, text in texts.items()
        }
        if canonical.keys() == {SINGLE}:
            return dataclasses.replace(self, symbol=canonical[SINGLE])
        return dataclasses.replace(self, symbols=canonical) if canonical else self

    def cut_to_outputs(self) -> ModuleBody:
        """Return a copy whose symbols compute only the ``outputs``; this may take a while.

        Raises:
            Invalid: a symbol has no such output.
        """
        if not self.outputs:
            return self
        return self.with_texts(
            {
                key: canonical_json(
                    keep_outputs(parse_json(text.encode()), self.outputs, symbol_field(key))
                )
                for key, text in self.symbol_texts().items()
            }
        )

    def _symbols(self) -> dict[str, str]:
        if (self.symbol is None) == (self.symbols is None):
            got = "nothing" if self.symbol is None else "both"
            expected = "a symbol, as in net-symbol.json, or symbols by bucket key"
            raise Invalid("symbol", got, expected)
        if self.symbols is not None and self.buckets:
            raise Invalid("buckets", list(self.buckets), "none beside symbols, whose keys they are")
        texts = self.symbol_texts()
        if self.symbols is not None:
            return texts
        text = texts[SINGLE]
        keys = sorted({str(length) for length in self.buckets}) or [SINGLE]
        if len(keys) * len(text) > _LARGEST_SYMBOLS:
            most = max(1, _LARGEST_SYMBOLS // len(text))
            raise Invalid("buckets", f"{len(keys)} lengths", f"at most {most} of this symbol")
        return dict.fromkeys(keys, text)

    def _default_key(self) -> str:
        if self.symbols is None and not self.buckets:
            if self.default_bucket_key is not None:
                expected = "none for a module without buckets"
                raise Invalid("default_bucket_key", self.default_bucket_key, expected)
            return SINGLE
        if self.default_bucket_key is None and self.symbols is None:
            return str(max(self.buckets))
        if self.default_bucket_key is None:
            assert self.symbols is not None
            if self.symbols and all(key.isdecimal() for key in self.symbols):
                return max(self.symbols, key=int)
            raise Invalid("default_bucket_key", None, f"one of {', '.join(self.symbols)}")
        return self.default_bucket_key


def canonical_symbol(text: bytes, field: str) -> str:
    """Return the canonical JSON of a symbol's text; raise Invalid for this field."""
    try:
        symbol = parse_json(text)
    except Malformed as error:
        raise Invalid(field, *not_a_symbol(text, str(error))) from None
    if not isinstance(symbol, dict):
        raise Invalid(field, symbol, _SYMBOL)
    return _symbol_text(symbol, field)


_SYMBOL = "a symbol: an object with nodes, arg_nodes and heads"


def _symbol_text(symbol: Any, field: str) -> str:
    if isinstance(symbol, CanonicalText):
        return symbol
    if isinstance(symbol, str):
        return canonical_symbol(symbol.encode(errors="replace"), field)
    if not isinstance(symbol, dict):
        raise Invalid(field, symbol, _SYMBOL)
    return canonical_json(symbol)


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
    """A change of the optimizer.

    Attributes:
        learning_rate: from the next update on.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    learning_rate: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetBody:
    """A file on the server that is to become a dataset.

    Attributes:
        name: of the dataset.
        path: absolute, under a folder that the server's operator allows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: str
    path: str
    kind: DatasetKind = DatasetKind.NPZ


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBody:
    """A checkpoint to save.

    Attributes:
        epoch: of the checkpoint; an existing one is replaced.
        optimizer_states: save the optimizer's states, too.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    epoch: Annotated[int, Field(ge=0, le=999_999_999)]
    optimizer_states: bool = True


VersionText: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda name: str(name) if type(name) is int else name),
    WithJsonSchema({"type": ["string", "integer"], "examples": [3, "latest", "stable"]}),
]
"""A version in a body: the number of an epoch, ``latest`` or a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBody:
    """The version to which a label is given.

    Attributes:
        version: the number of an epoch, ``latest`` or another label.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    version: VersionText


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryBody:
    """A version to serve as the canary.

    Attributes:
        version: the number of an epoch, ``latest`` or a label.
        weight: its share of the predictions that name no version.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    version: VersionText
    weight: Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBody:
    """A checkpoint to load.

    Attributes:
        epoch: its tag: ``12`` or ``12.340``.
        optimizer_states: load these, too.
        allow_missing: parameters that it lacks keep their values, as for fine-tuning.
        allow_extra: skip parameters that the module does not have.
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
