"""The query of a prediction that is a part of a sequence."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from app.domain.sequence import SequencePart, sequence_part

__all__ = ["PartOfQuery"]


async def _part_of_query(
    sequence_id: Annotated[
        str | None,
        Query(description="The sequence to which it belongs; by default as given in the body."),
    ] = None,
    sequence_start: Annotated[bool, Query(description="Whether it is the first part.")] = False,
    sequence_end: Annotated[bool, Query(description="Whether it is the last part.")] = False,
) -> SequencePart | None:
    return sequence_part(sequence_id, sequence_start, sequence_end)


PartOfQuery = Annotated[SequencePart | None, Depends(_part_of_query)]
