"""Sequences: inputs that are sent in parts, with states kept between the parts."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.serving import StateLink
from app.errors.tree import Invalid

__all__ = ["SequencePart", "SequenceStates", "sequence_part"]

_LONGEST_ID = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencePart:
    """Which part of which sequence a prediction is.

    Attributes:
        sequence_id: chosen by the client, unique among those of the module; a number is its digits.
        is_start: whether it is the first part, so that the states begin as zeros.
        is_end: whether it is the last part, so that the states are released after it.
    """

    sequence_id: str
    is_start: bool = False
    is_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStates:
    """How the states of a module's sequences are kept, see ``ServingSpec``."""

    links: tuple[StateLink, ...]
    most: int
    idle_seconds: float


def sequence_part(
    sequence_id: int | str | None, is_start: bool, is_end: bool, prefix: str = ""
) -> SequencePart | None:
    """Return the part that a prediction is; None if it belongs to no sequence.

    An id of 0 or an empty one means none, as in the Open Inference Protocol.

    Args:
        sequence_id, is_start, is_end: as sent by the client.
        prefix: of the names of fields in errors.

    Raises:
        Invalid: the id is malformed, or missing for a first or last part.
    """
    if not sequence_id:
        if is_start or is_end:
            field = "sequence_start" if is_start else "sequence_end"
            expected = "a sequence_id beside it, which is neither 0 nor empty"
            raise Invalid(f"{prefix}{field}", True, expected)
        return None
    text = str(sequence_id)
    if (isinstance(sequence_id, int) and sequence_id < 0) or len(text) > _LONGEST_ID:
        expected = f"a number of at least 0 or up to {_LONGEST_ID} characters"
        raise Invalid(f"{prefix}sequence_id", sequence_id, expected)
    return SequencePart(sequence_id=text, is_start=is_start, is_end=is_end)
