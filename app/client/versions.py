"""Versions of modules: served, promoted, served as canaries, labelled."""

from __future__ import annotations

from typing import Any

from app.client.bodies import Json
from app.client.methods import method
from app.client.module_results import BucketPlanView, ModuleView, ServingSpec, VersionsView
from app.client.request import AsJson, Request, at, nothing

__all__ = ["VersionCalls"]


class VersionCalls:
    """Calls on how predictions of a module are served, and from which version."""

    @method
    def serving(self, name: str) -> Request[ServingSpec]:
        """Return how predictions of a module are served."""
        return Request("GET", at("modules", name, "serving"), AsJson(ServingSpec))

    @method
    def set_serving(self, /, name: str, **fields: Any) -> Request[ModuleView]:
        """Change how they are served: ``max_batch_size``, ``batches``, ``max_delay_us``,
        ``instances``; of sequences ``states``, ``max_sequences``, ``max_sequence_idle_seconds``.
        """
        path, body = at("modules", name, "serving"), Json(fields)
        return Request("PATCH", path, AsJson(ModuleView), body=body)

    @method
    def warm_up_module(self, name: str) -> Request[None]:
        """Prepare what the first predictions of each batch size would otherwise wait for."""
        return Request("POST", at("modules", name, "warm_up"), nothing)

    @method
    def versions(self, name: str) -> Request[VersionsView]:
        """Return which versions are promoted, labelled and a canary, and the newest of all."""
        return Request("GET", at("modules", name, "versions"), AsJson(VersionsView))

    @method
    def promote(self, name: str, version: int | str) -> Request[VersionsView]:
        """Make a version answer predictions that name no version."""
        path = at("modules", name, "versions", version, "promote")
        return Request("POST", path, AsJson(VersionsView))

    @method
    def roll_back(self, name: str) -> Request[VersionsView]:
        """Promote the version that was promoted before."""
        return Request("POST", at("modules", name, "rollback"), AsJson(VersionsView))

    @method
    def set_version_label(self, name: str, label: str, version: int | str) -> Request[VersionsView]:
        """Give a version another name."""
        path, body = at("modules", name, "version_labels", label), Json({"version": version})
        return Request("PUT", path, AsJson(VersionsView), body=body)

    @method
    def remove_version_label(self, name: str, label: str) -> Request[None]:
        """Remove a label."""
        return Request("DELETE", at("modules", name, "version_labels", label), nothing)

    @method
    def set_canary(self, name: str, version: int | str, weight: float) -> Request[VersionsView]:
        """Make a version answer a share of the predictions that name no version."""
        body = Json({"version": version, "weight": weight})
        return Request("PUT", at("modules", name, "canary"), AsJson(VersionsView), body=body)

    @method
    def remove_canary(self, name: str) -> Request[None]:
        """Remove the canary, if there is one."""
        return Request("DELETE", at("modules", name, "canary"), nothing)

    @method
    def bucket_plan(self, name: str, most: int) -> Request[BucketPlanView]:
        """Return the buckets, at most this many, that need the least padding for the predictions so
        far.
        """
        path, where = at("modules", name, "buckets", "plan"), {"k": most}
        return Request("GET", path, AsJson(BucketPlanView), query=where)

    @method
    def apply_bucket_plan(self, name: str, most: int) -> Request[BucketPlanView]:
        """Bind the buckets of ``bucket_plan``, and drop the others."""
        path, where = at("modules", name, "buckets", "plan"), {"k": most}
        return Request("POST", path, AsJson(BucketPlanView), query=where)
