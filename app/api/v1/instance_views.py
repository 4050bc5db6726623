"""A module's instances as clients see them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.domain.module import ModuleRecord
from app.services.predictions.instances import InstanceState
from app.services.services import Services

__all__ = ["InstanceView", "instance_views"]


class InstanceView(BaseModel):
    """A module on one of its executors."""

    executor: str | None = Field(
        examples=["cpu(1)"],
        description="The executor; null if the server has none for this instance.",
    )
    is_home: bool = Field(
        description="Whether it has the parameters in training: everything but "
        "predictions of versions is done there."
    )
    state: InstanceState = Field(
        examples=["ready"],
        description="`ready`: it serves. `loading`: a version is being sent to it. "
        "`idle`: no version is wanted there. `failed`: a version could "
        "not be loaded, and will be tried again. `down`: its executor "
        "is down. `missing`: the server has fewer executors than "
        "`serving.instances` says.",
    )
    reason: str | None = Field(description="Why it is not ready.")
    rows_under_way: int = Field(
        description="Number of examples of all modules that are queued or computed "
        "at its executor; the instance with the fewest gets the next "
        "request."
    )
    predictions: int = Field(
        description="Number of examples it has answered since the server started."
    )


def instance_views(services: Services, record: ModuleRecord) -> list[InstanceView]:
    """Return the views of a module's instances, that on its own executor first."""
    answered = services.statistics.answers().get(record.public_name, {})
    return [
        InstanceView(
            executor=one.executor,
            is_home=one.is_home,
            state=one.state,
            reason=one.reason,
            rows_under_way=one.rows,
            predictions=answered.get(one.executor or "", 0),
        )
        for one in services.instances.facts(record)
    ]
