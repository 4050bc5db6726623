"""Settings for the serving of a module's predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS

__all__ = [
    "MOST_ROWS",
    "BatchSize",
    "Batches",
    "DelayUs",
    "IdleSeconds",
    "InstanceCount",
    "SequenceCount",
    "ServingSpec",
    "StateLink",
]

Batches: TypeAlias = Literal["auto", "always", "never"]

MOST_ROWS = 1 << 16
"""Default maximum number of examples in an inference of the Open Inference Protocol."""
_LONGEST_DELAY_US = 10_000_000
_MOST_INSTANCES = 1024
_MOST_SEQUENCES = 1 << 20
_LONGEST_IDLE_SECONDS = 7 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLink:
    """Which output of a module is the next value of one of its states.

    Attributes:
        state: one of the module's ``state_names``.
        output: name of the output.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    state: str
    output: str


BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=MOST_ROWS)]
DelayUs: TypeAlias = Annotated[int, Field(ge=0, le=_LONGEST_DELAY_US)]
InstanceCount: TypeAlias = Annotated[int, Field(ge=1, le=_MOST_INSTANCES)]
SequenceCount: TypeAlias = Annotated[int, Field(ge=1, le=_MOST_SEQUENCES)]
IdleSeconds: TypeAlias = Annotated[float, Field(gt=0, le=_LONGEST_IDLE_SECONDS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSpec:
    """Settings of the operator; they apply to predictions requested after the change.

    Attributes:
        max_batch_size: maximum number of examples of several requests that are computed together;
            None for as many as take a short time.
        batches: whether requests are computed together. ``auto``: if the outputs for an example are
            found not to depend on the others; ``always``, ``never``: as declared here.
        max_delay_us: maximum wait of a request in microseconds for others to be computed with it.
        instances: number of executors that answer predictions of versions; see
            ``app.domain.instances``.
        is_loaded: False unloads it from its device; predictions are refused until it is loaded
            again.
        states: the output from which each state of the next part is taken; empty for a module that
            keeps no states between predictions.
        max_sequences: maximum number of sequences whose states each instance keeps.
        max_sequence_idle_seconds: a sequence that is idle for this time is lost.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    max_batch_size: BatchSize | None = None
    batches: Batches = "auto"
    max_delay_us: DelayUs = 0
    instances: InstanceCount = 1
    is_loaded: bool = True
    states: tuple[StateLink, ...] = ()
    max_sequences: SequenceCount = 1024
    max_sequence_idle_seconds: IdleSeconds = 600.0
