"""Calls that look inside a module: its graph, its parameters, the time that its steps take."""

from __future__ import annotations

from typing import Any

from app.client.bodies import Json
from app.client.inspection_results import (
    GraphView,
    ParamSummaryView,
    ProfileView,
    StatisticView,
)
from app.client.methods import method
from app.client.request import AsJson, Pages, Request, at

__all__ = ["InspectionCalls"]


class InspectionCalls:
    """Calls that look inside a module."""

    @method
    def graph(self, name: str, bucket: str | None = None) -> Request[GraphView]:
        """Return the nodes and outputs of a bucket's graph, with inferred shapes."""
        path, where = at("modules", name, "graph"), {"bucket": bucket}
        return Request("GET", path, AsJson(GraphView), query=where)

    @method
    def profile(self, name: str, /, **options: Any) -> Request[ProfileView]:
        """Time each step of a prediction; options are ``bucket``, ``batch`` and ``runs``."""
        path, body = at("modules", name, "profile"), Json(options)
        return Request("POST", path, AsJson(ProfileView), body=body)

    @method
    def param_summary(
        self, name: str, checkpoint: int | str = "live", against: int | str | None = None
    ) -> Request[ParamSummaryView]:
        """Return statistics of all parameters, beside those of a checkpoint if one is named."""
        path = at("modules", name, "param_summary")
        where = {"checkpoint": checkpoint, "against": against}
        return Request("GET", path, AsJson(ParamSummaryView), query=where)

    @method
    def statistics(self, name: str, pattern: str = "*") -> Pages[StatisticView]:
        """Return statistics of the arrays whose names match, also of a monitored pass."""
        return Pages(at("modules", name, "monitor"), StatisticView, {"pattern": pattern})
