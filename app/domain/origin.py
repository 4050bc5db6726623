"""The origin of a module made from another one, as in fine-tuning for a new task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS

__all__ = ["Head", "Origin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A new last layer: fully connected, then a ``SoftmaxOutput`` named ``softmax``.

    Attributes:
        name: of the fully connected layer, whose parameters are ``<name>_weight`` and
            ``<name>_bias``.
        num_hidden: number of classes.
        no_bias: whether it has no bias.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")] = "fc_new"
    num_hidden: Annotated[int, Field(gt=0, lt=2**31)]
    no_bias: bool = False

    @property
    def params(self) -> tuple[str, ...]:
        """Names of its parameters."""
        kinds = ("weight",) if self.no_bias else ("weight", "bias")
        return tuple(f"{self.name}_{kind}" for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Another module's checkpoint, with whose parameters a module begins.

    Attributes:
        module: the other module.
        epoch: tag of its checkpoint.
        output: the output at which its symbol was cut, None if it was not.
        head: appended there; its parameters are initialized, all others kept.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    module: str
    epoch: str
    output: str | None = None
    head: Head | None = None
