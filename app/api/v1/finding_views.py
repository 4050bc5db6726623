"""What was found in a model when a module was made from it, as clients see it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.services.modules.upload_findings import Findings

__all__ = ["FindingsView", "InputFinding", "findings_view"]


class InputFinding(BaseModel):
    """One input."""

    name: str = Field(description="Name of the input.", examples=["data"])
    role: Literal["data", "label", "state"] = Field(
        examples=["data"], description="Its role: `data`, `label` or `state`."
    )
    shape: list[int] | None = Field(
        examples=[[1, 3, 224, 224]],
        description="The shape that `bind` uses if it is given none; null if "
        "unknown. Shapes of states follow from the data.",
    )
    layout: str | None = Field(description="The axis of the batch, if it is not the first.")


class FindingsView(BaseModel):
    """What the server found."""

    inputs: list[InputFinding] = Field(description="What was found for each input of the symbol.")
    outputs: list[str] = Field(description="Outputs of the symbol.", examples=[["softmax_output"]])
    open: list[str] = Field(description="Inputs whose shapes `bind` must be given.")
    warnings: list[str] = Field(description="What was skipped or guessed.")


def findings_view(found: Findings) -> FindingsView:
    """Return the view of what was found."""
    groups = (("data", found.data), ("label", found.labels), ("state", found.states))
    return FindingsView(
        inputs=[
            InputFinding(
                name=name,
                role=role,
                shape=list(found.shapes[name]) if name in found.shapes else None,
                layout=found.layouts.get(name),
            )
            for role, names in groups
            for name in names
        ],
        outputs=list(found.outputs),
        open=list(found.open),
        warnings=found.warnings,
    )
