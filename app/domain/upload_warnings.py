"""What was odd about a module's files when they were uploaded, told for as long as it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["UploadWarning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadWarning:
    """One of them.

    Attributes:
        text: for people.
        of: the ``params`` of the file; the ``shape`` of an input, which was guessed; or that of a
            ``label``, which is to be said.
        checkpoint: that the file became, where it is of its parameters.
        input: the name, where it is of one.
        shape: that was guessed.
    """

    text: str
    of: Literal["params", "shape", "label"]
    checkpoint: str | None = None
    input: str | None = None
    shape: tuple[int, ...] | None = None

    def stands(self, checkpoint: str | None, bound: Mapping[str, tuple[int, ...]]) -> bool:
        """Return whether it is still so.

        Args:
            checkpoint: that has the current parameters, None if none has.
            bound: shapes of the inputs, empty before the module is bound.
        """
        if self.of == "params":
            return checkpoint is not None and checkpoint == self.checkpoint
        if self.of == "label":
            return self.input not in bound
        return not bound or bound.get(self.input or "") == self.shape
