"""Calls on the versions of modules: promotion, canaries, labels."""

from __future__ import annotations

from typing import Any

from app.client.bodies import Json
from app.client.methods import method
from app.client.module_results import BucketPlanView, ModuleView, ServingSpec, VersionsView
from app.client.request import AsJson, Request, at, nothing

__all__ = ["VersionCalls"]


class VersionCalls:
    """Calls on how a module's predictions are served, and from which version."""

    @method
    def serving(self, name: str) -> Request[ServingSpec]:
        """Return a module's serving settings."""
        return Request("GET", at("modules", name, "serving"), AsJson(ServingSpec))

    @method
    def set_serving(self, /, name: str, **fields: Any) -> Request[ModuleView]:
        """Change serving settings.

        They are ``max_batch_size``, ``batches``, ``max_delay_us`` and ``instances``; for sequences
        ``states``, ``max_sequences`` and ``max_sequence_idle_seconds``.
        """
        path, body = at("modules", name, "serving"), Json(fields)
        return Request("PATCH", path, AsJson(ModuleView), body=body)

    @method
    def warm_up_module(self, name: str) -> Request[None]:
        """Prepare a module so that the first predictions of each batch size do not have to wait."""
        return Request("POST", at("modules", name, "warm_up"), nothing)

    @method
    def versions(self, name: str) -> Request[VersionsView]:
        """Return the promoted, labelled and canary versions, and the newest one."""
        return Request("GET", at("modules", name, "versions"), AsJson(VersionsView))

    @method
    def promote(self, name: str, version: int | str) -> Request[VersionsView]:
        """Make a version answer predictions that do not name one."""
        path = at("modules", name, "versions", version, "promote")
        return Request("POST", path, AsJson(VersionsView))

    @method
    def roll_back(self, name: str) -> Request[VersionsView]:
        """Promote the previously promoted version again."""
        return Request("POST", at("modules", name, "rollback"), AsJson(VersionsView))

    @method
    def set_version_label(self, name: str, label: str, version: int | str) -> Request[VersionsView]:
        """Give a version a label."""
        path, body = at("modules", name, "version_labels", label), Json({"version": version})
        return Request("PUT", path, AsJson(VersionsView), body=body)

    @method
    def remove_version_label(self, name: str, label: str) -> Request[None]:
        """Remove a label."""
        return Request("DELETE", at("modules", name, "version_labels", label), nothing)

    @method
    def set_canary(self, name: str, version: int | str, weight: float) -> Request[VersionsView]:
        """Make a version answer a share of the predictions that do not name one."""
        body = Json({"version": version, "weight": weight})
        return Request("PUT", at("modules", name, "canary"), AsJson(VersionsView), body=body)

    @method
    def remove_canary(self, name: str) -> Request[None]:
        """Remove the canary, if there is one."""
        return Request("DELETE", at("modules", name, "canary"), nothing)

    @method
    def bucket_plan(self, name: str, most: int) -> Request[BucketPlanView]:
        """Return up to ``most`` buckets that would have needed the least padding so far."""
        path, where = at("modules", name, "buckets", "plan"), {"k": most}
        return Request("GET", path, AsJson(BucketPlanView), query=where)

    @method
    def apply_bucket_plan(self, name: str, most: int) -> Request[BucketPlanView]:
        """Bind the buckets of ``bucket_plan``, and unbind all others."""
        path, where = at("modules", name, "buckets", "plan"), {"k": most}
        return Request("POST", path, AsJson(BucketPlanView), query=where)
