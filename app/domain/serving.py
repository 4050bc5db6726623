"""How predictions of a module are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS

__all__ = ["MOST_ROWS", "BatchSize", "Batches", "DelayUs", "ServingSpec"]

Batches: TypeAlias = Literal["auto", "always", "never"]

MOST_ROWS = 1 << 16
"""Examples of one inference of the Open Inference Protocol, where no fewer are set."""
_LONGEST_DELAY_US = 10_000_000

BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=MOST_ROWS)]
DelayUs: TypeAlias = Annotated[int, Field(ge=0, le=_LONGEST_DELAY_US)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSpec:
    """What an operator sets; a prediction that is asked for sees what is set then.

    Attributes:
        max_batch_size: examples of several requests that are computed together at most; None for
            as many as take a short time.
        batches: whether requests are computed together. ``auto``: where the outputs for an example
            are found not to depend on the others; ``always``, ``never``: as is declared here.
        max_delay_us: microseconds that a request may wait for others to be computed with it.
        is_loaded: False for one that is to leave its device; predictions are refused until it is
            loaded again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    max_batch_size: BatchSize | None = None
    batches: Batches = "auto"
    max_delay_us: DelayUs = 0
    is_loaded: bool = True
