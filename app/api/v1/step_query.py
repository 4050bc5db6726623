"""The query of a step call: parameters beside its tensors if the body cannot contain them.

A JSON body may have the same fields as members, but a field must not be given twice.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Query

from app.domain.names import Pattern

__all__ = ["ForwardQuery", "PassQuery", "StepQuery"]

Given: TypeAlias = dict[str, Any]
"""The fields in the query, by name."""


async def _of_step(
    generation: Annotated[
        int | None, Query(description="Refuse with 412 unless the module has this generation.")
    ] = None,
    sequence: Annotated[
        int | None,
        Query(
            description="Number of the call; a repetition gets the same answer and is "
            "not carried out again."
        ),
    ] = None,
) -> Given:
    return _present(generation=generation, sequence=sequence)


StepQuery = Annotated[Given, Depends(_of_step)]


async def _of_pass(
    step: StepQuery,
    bucket: Annotated[
        str | None, Query(description="Key of the bucket; by default the smallest that fits.")
    ] = None,
    with_outputs: Annotated[
        bool | None, Query(description="Whether to answer with the outputs; true by default.")
    ] = None,
    monitor: Annotated[
        Pattern | None,
        Query(description="Collect statistics of the operators' outputs whose names match."),
    ] = None,
) -> Given:
    return step | _present(bucket=bucket, with_outputs=with_outputs, monitor=monitor)


PassQuery = Annotated[Given, Depends(_of_pass)]


async def _of_forward(
    given: PassQuery,
    is_train: Annotated[
        bool | None, Query(description="Whether it is a training pass; by default as bound.")
    ] = None,
) -> Given:
    return given | _present(is_train=is_train)


ForwardQuery = Annotated[Given, Depends(_of_forward)]


def _present(**fields: Any) -> Given:
    return {name: value for name, value in fields.items() if value is not None}
