"""Problems found in a module's files at the upload, reported until they are resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["UploadWarning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadWarning:
    """One problem.

    Attributes:
        text: for people.
        of: the ``params`` of the file; the ``shape`` of an input, which was guessed; or that of a
            ``label``, which must be given.
        checkpoint: made from the file, if it is about its parameters.
        input: its name, if it is about one.
        shape: that was guessed.
    """

    text: str
    of: Literal["params", "shape", "label"]
    checkpoint: str | None = None
    input: str | None = None
    shape: tuple[int, ...] | None = None

    def stands(self, checkpoint: str | None, bound: Mapping[str, tuple[int, ...]]) -> bool:
        """Return whether it still exists.

        Args:
            checkpoint: with the current parameters, None if there is none.
            bound: shapes of the inputs, empty before the module is bound.
        """
        if self.of == "params":
            return checkpoint is not None and checkpoint == self.checkpoint
        if self.of == "label":
            return self.input not in bound
        return not bound or bound.get(self.input or "") == self.shape
