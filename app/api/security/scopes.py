"""The table of the scopes that routes require of an API key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from app.domain.api_key import KeyScope

__all__ = ["OPEN_PATHS", "SCOPES", "Needed", "is_open", "needed_scopes"]

Needed: TypeAlias = tuple[KeyScope, ...]
"""One of these suffices; if empty, none is needed."""

_OPEN: Needed = ()
_METRICS: Needed = (KeyScope.METRICS,)
_READ: Needed = (KeyScope.READ,)
_INFER: Needed = (KeyScope.INFER,)

_READ_OR_INFER: Needed = (KeyScope.READ, KeyScope.INFER)
_TRAIN: Needed = (KeyScope.TRAIN,)
_ADMIN: Needed = (KeyScope.ADMIN,)

_MODULE = "/v1/modules/{module}"

SCOPES: Mapping[tuple[str, str], Needed] = {
    # Pages, and the sessions of their users.
    ("GET", "/"): _OPEN,
    ("GET", "/docs"): _OPEN,
    ("GET", "/static/{file}"): _OPEN,
    ("GET", "/guides/{guide}"): _OPEN,
    ("GET", "/guides/files/{file}"): _OPEN,
    ("GET", "/session"): _OPEN,
    ("POST", "/session"): _OPEN,
    ("DELETE", "/session"): _OPEN,
    # Operations.
    ("GET", "/livez"): _OPEN,
    ("GET", "/readyz"): _OPEN,
    ("GET", "/metrics"): _METRICS,
    ("GET", "/openapi.json"): _READ,
    ("GET", "/v1/errors"): _READ_OR_INFER,
    ("GET", "/v1/errors/{code}"): _READ_OR_INFER,
    ("GET", "/v1/executors"): _READ,
    ("GET", "/v1/models"): _READ,
    ("POST", "/v1/models/reload"): _ADMIN,
    ("GET", "/v1/events"): _READ,
    # Modules.
    ("GET", "/v1/modules"): _READ,
    ("POST", "/v1/modules"): _TRAIN,
    ("GET", _MODULE): _READ,
    ("DELETE", _MODULE): _TRAIN,
    ("POST", f"{_MODULE}/restore"): _TRAIN,
    ("GET", f"{_MODULE}/symbol"): _READ,
    ("GET", f"{_MODULE}/graph"): _READ,
    ("POST", f"{_MODULE}/profile"): _TRAIN,
    ("POST", f"{_MODULE}/bind"): _TRAIN,
    ("POST", f"{_MODULE}/reshape"): _TRAIN,
    ("GET", f"{_MODULE}/buckets"): _READ,
    ("POST", f"{_MODULE}/buckets"): _TRAIN,
    ("GET", f"{_MODULE}/buckets/plan"): _READ,
    ("POST", f"{_MODULE}/buckets/plan"): _TRAIN,
    ("POST", f"{_MODULE}/warm_up"): _TRAIN,
    ("GET", f"{_MODULE}/serving"): _READ,
    ("PATCH", f"{_MODULE}/serving"): _ADMIN,
    ("POST", f"{_MODULE}/predict"): _INFER,
    ("PUT", f"{_MODULE}/predict"): _INFER,
    ("POST", f"{_MODULE}/versions/{{version}}/predict"): _INFER,
    ("GET", f"{_MODULE}/versions"): _READ_OR_INFER,
    ("POST", f"{_MODULE}/versions/{{version}}/promote"): _ADMIN,
    ("POST", f"{_MODULE}/rollback"): _ADMIN,
    ("PUT", f"{_MODULE}/version_labels/{{label}}"): _ADMIN,
    ("DELETE", f"{_MODULE}/version_labels/{{label}}"): _ADMIN,
    ("PUT", f"{_MODULE}/canary"): _ADMIN,
    ("DELETE", f"{_MODULE}/canary"): _ADMIN,
    ("GET", f"{_MODULE}/labels/{{output}}"): _READ_OR_INFER,
    ("PUT", f"{_MODULE}/labels/{{output}}"): _TRAIN,
    ("DELETE", f"{_MODULE}/labels/{{output}}"): _TRAIN,
    ("GET", f"{_MODULE}/transforms/{{input}}"): _READ_OR_INFER,
    ("PUT", f"{_MODULE}/transforms/{{input}}"): _TRAIN,
    ("DELETE", f"{_MODULE}/transforms/{{input}}"): _TRAIN,
    # Parameters and the optimizer.
    ("POST", f"{_MODULE}/params/init"): _TRAIN,
    ("GET", f"{_MODULE}/params"): _READ,
    ("PUT", f"{_MODULE}/params"): _TRAIN,
    ("GET", f"{_MODULE}/params/{{parameter}}"): _READ,
    ("GET", f"{_MODULE}/param_summary"): _READ,
    ("POST", f"{_MODULE}/optimizer"): _TRAIN,
    ("GET", f"{_MODULE}/optimizer"): _READ,
    ("PATCH", f"{_MODULE}/optimizer"): _TRAIN,
    ("GET", f"{_MODULE}/optimizer/states"): _READ,
    ("PUT", f"{_MODULE}/optimizer/states"): _TRAIN,
    # Training step by step.
    ("POST", f"{_MODULE}/forward"): _TRAIN,
    ("POST", f"{_MODULE}/forward_backward"): _TRAIN,
    ("POST", f"{_MODULE}/backward"): _TRAIN,
    ("POST", f"{_MODULE}/update"): _TRAIN,
    ("GET", f"{_MODULE}/outputs"): _READ,
    ("GET", f"{_MODULE}/monitor"): _READ,
    ("GET", f"{_MODULE}/input_grads"): _READ,
    ("GET", f"{_MODULE}/states"): _READ,
    ("PUT", f"{_MODULE}/states"): _TRAIN,
    # Checkpoints.
    ("POST", f"{_MODULE}/checkpoints"): _TRAIN,
    ("GET", f"{_MODULE}/checkpoints"): _READ,
    ("GET", f"{_MODULE}/checkpoints/{{epoch}}"): _READ,
    ("DELETE", f"{_MODULE}/checkpoints/{{epoch}}"): _TRAIN,
    ("GET", f"{_MODULE}/checkpoints/{{epoch}}/files/{{file}}"): _READ,
    ("GET", f"{_MODULE}/checkpoints/{{epoch}}/onnx"): _READ,
    ("PUT", f"{_MODULE}/checkpoints/{{epoch}}/files/{{file}}"): _TRAIN,
    ("POST", f"{_MODULE}/load"): _TRAIN,
    # Datasets.
    ("GET", "/v1/datasets"): _READ,
    ("POST", "/v1/datasets"): _TRAIN,
    ("PUT", "/v1/datasets/{dataset}"): _TRAIN,
    ("PUT", "/v1/datasets/{dataset}/images"): _TRAIN,
    ("GET", "/v1/datasets/{dataset}"): _READ,
    ("GET", "/v1/datasets/{dataset}/preview"): _READ,
    ("GET", "/v1/datasets/{dataset}/file"): _READ,
    ("DELETE", "/v1/datasets/{dataset}"): _TRAIN,
    # Jobs.
    ("POST", f"{_MODULE}/fit"): _TRAIN,
    ("POST", f"{_MODULE}/fit/preview"): _TRAIN,
    ("POST", f"{_MODULE}/score"): _TRAIN,
    ("POST", f"{_MODULE}/predict_dataset"): _TRAIN,
    ("GET", "/v1/jobs"): _READ,
    ("GET", "/v1/jobs/{job}"): _READ,
    ("DELETE", "/v1/jobs/{job}"): _TRAIN,
    ("POST", "/v1/jobs/{job}/cancel"): _TRAIN,
    ("POST", "/v1/jobs/{job}/pause"): _TRAIN,
    ("POST", "/v1/jobs/{job}/resume"): _TRAIN,
    ("POST", "/v1/jobs/{job}/retry"): _TRAIN,
    ("GET", "/v1/jobs/{job}/metrics"): _READ,
    ("GET", "/v1/jobs/{job}/histograms"): _READ,
    ("GET", "/v1/jobs/{job}/events"): _READ,
    # The Open Inference Protocol.
    ("GET", "/v2"): _READ_OR_INFER,
    ("GET", "/v2/"): _READ_OR_INFER,
    ("GET", "/v2/health/live"): _OPEN,
    ("GET", "/v2/health/ready"): _OPEN,
    ("GET", "/v2/models/stats"): _READ_OR_INFER,
    **{
        (verb, f"{model}{rest}"): needed
        for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        for verb, rest, needed in (
            ("GET", "", _READ_OR_INFER),
            ("GET", "/config", _READ_OR_INFER),
            ("GET", "/ready", _READ_OR_INFER),
            ("GET", "/stats", _READ_OR_INFER),
            ("POST", "/infer", _INFER),
        )
    },
    ("POST", "/v2/repository/index"): _READ_OR_INFER,
    ("POST", "/v2/repository/models/{model}/load"): _ADMIN,
    ("POST", "/v2/repository/models/{model}/unload"): _ADMIN,
}
"""By verb and the router's path. Routes without a row are for administrators."""

OPEN_PATHS = frozenset(
    {"/", "/docs", "/session", "/livez", "/readyz", "/v2/health/live", "/v2/health/ready"}
)
"""Paths answered without a key, compared exactly; all others need one."""

_OPEN_FOLDERS = ("/static/", "/guides/")
"""Files of the pages, and guides, which are the same on every server."""


def is_open(path: str) -> bool:
    """Return whether a path, exactly as requested, is answered without a key."""
    return path in OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


def needed_scopes(verb: str, path: str) -> Needed:
    """Return the scopes of a route.

    Args:
        path: of the route, with its parameters in braces.
    """
    return SCOPES.get(("GET" if verb == "HEAD" else verb, path), _ADMIN)
