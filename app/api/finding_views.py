"""What a model was taken for when a module was made of it, as clients see it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.services.upload_findings import Findings

__all__ = ["FindingsView", "InputFinding", "findings_view"]


class InputFinding(BaseModel):
    """One input."""

    name: str = Field(description="Of the input.", examples=["data"])
    role: Literal["data", "label", "state"] = Field(
        examples=["data"], description="`data`, `label` or `state`."
    )
    shape: list[int] | None = Field(
        examples=[[1, 3, 224, 224]],
        description="What `bind` takes where it is not said; null where that is not known. Shapes "
        "of states follow from the data.",
    )
    layout: str | None = Field(description="Where the batch is not the first axis.")


class FindingsView(BaseModel):
    """What the server worked out."""

    inputs: list[InputFinding] = Field(description="What each input of the symbol was taken for.")
    outputs: list[str] = Field(description="Of the symbol.", examples=[["softmax_output"]])
    open: list[str] = Field(description="Inputs whose shapes `bind` must be told.")
    warnings: list[str] = Field(description="What was skipped or guessed.")


def findings_view(found: Findings) -> FindingsView:
    """Return the view of what was worked out."""
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
