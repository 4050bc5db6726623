"""Plans of buckets: which lengths would need the least padding for the predictions so far."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.openapi import problems
from app.services.predictions.observed_lengths import BucketPlan

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/buckets", tags=["predict"])

_MOST_BUCKETS = 64

BucketCount = Annotated[
    int, Query(ge=2, le=_MOST_BUCKETS, description="Maximum number of buckets.")
]


class BucketPlanView(BaseModel):
    """The buckets as bound, and those that would need the least padding."""

    input: str = Field(description="The input whose length chooses the bucket.", examples=["data"])
    axis: int = Field(description="The axis of its shape that varies.", examples=[1])
    examples: int = Field(description="Number of examples whose length is known.", examples=[5120])
    lengths: dict[str, int] = Field(
        description="Number of examples by length.", examples=[{"7": 310, "12": 1800}]
    )
    bound: list[int] = Field(description="Lengths that are bound now.", examples=[[12, 18, 24, 30]])
    planned: list[int] = Field(
        description="Lengths that the plan proposes.", examples=[[12, 15, 19, 30]]
    )
    waste_bound: float = Field(
        description="Share of the computed steps that is padding, with the buckets bound now.",
        examples=[0.21],
    )
    waste_planned: float = Field(description="The same with the proposed buckets.", examples=[0.13])


def plan_view(plan: BucketPlan) -> BucketPlanView:
    """Return the view of a plan."""
    return BucketPlanView(
        input=plan.length.name,
        axis=plan.length.axis,
        examples=sum(plan.counts.values()),
        lengths={str(length): count for length, count in sorted(plan.counts.items())},
        bound=list(plan.length.bound),
        planned=list(plan.planned),
        waste_bound=_waste(plan.steps, plan.steps_bound),
        waste_planned=_waste(plan.steps, plan.steps_planned),
    )


def _waste(steps: int, computed: int) -> float:
    return 1 - steps / computed if computed else 0.0


@router.get("/plan", summary="Plan buckets", responses=problems(404, 409, 422))
async def get_bucket_plan(
    module: ModuleName, services: ServicesOf, k: BucketCount
) -> BucketPlanView:
    """Return at most `k` lengths to bind that need the least padding for the predictions so far.

    Lengths are counted as predictions are answered, and the counts survive restarts. The longest
    bound bucket and the default one always stay in the plan; all others are chosen among the
    module's bucket keys. If several are bound, at least two stay, because they show which axis may
    vary.
    """
    return plan_view(await services.lengths.plan(module, k))


@router.post(
    "/plan",
    summary="Apply a plan of buckets",
    responses=problems(404, 409, 412, 422, 503),
    dependencies=IF_MATCH,
)
async def apply_bucket_plan(
    module: ModuleName, services: ServicesOf, k: BucketCount
) -> BucketPlanView:
    """Bind the buckets that `GET` plans, warm them up, and drop those that are not in the plan.

    No prediction is refused meanwhile: the old buckets answer until the new ones are warm. The
    answer is the plan: `bound` are the old buckets, `planned` the new ones.
    """
    plan = await services.lengths.plan(module, k)
    await services.commands.change_buckets(module, plan.planned)
    return plan_view(plan)
