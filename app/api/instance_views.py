"""What clients see of a module's instances."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.domain.module import ModuleRecord
from app.services.instances import InstanceState
from app.services.services import Services

__all__ = ["InstanceView", "instance_views"]


class InstanceView(BaseModel):
    """A module on one of its executors."""

    executor: str | None = Field(
        examples=["cpu(1)"], description="Null where the server has no executor for it."
    )
    is_home: bool = Field(
        description="It has the parameters in training: all but predictions of versions goes there."
    )
    state: InstanceState = Field(
        examples=["ready"],
        description="`ready`: it is asked. `loading`: a version is on its way to it. `idle`: no "
        "version is wanted of it. `failed`: one could not be loaded, and is tried again. `down`: "
        "its executor is. `missing`: the server has fewer executors than `serving.instances` says.",
    )
    reason: str | None = Field(description="Why it is not ready.")
    rows_under_way: int = Field(
        description="Examples that wait at its executor or are computed there, of all modules; "
        "the instance with the fewest is asked next."
    )
    predictions: int = Field(description="Those it has answered since the server began.")


def instance_views(services: Services, record: ModuleRecord) -> list[InstanceView]:
    """Return the views of a module's instances, its home first."""
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
