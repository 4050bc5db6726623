"""API keys in the OpenAPI document: how they are sent, and which scope each operation needs."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.api.problems import PROBLEM_JSON
from app.api.security.scopes import needed_scopes
from app.api.v1.views import ProblemView
from app.tensors.codec import JSON

__all__ = ["declare_keys"]

_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key of `modserve keys add`. Servers without keys ask for none.",
    },
    "api_key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same, for clients that use `Authorization` otherwise.",
    },
}


class _Refusal(NamedTuple):
    description: str
    codes: tuple[str, ...]
    field: str | None = None


_REFUSALS = {
    401: _Refusal("No valid API key was sent", ("unauthorized",), "WWW-Authenticate"),
    403: _Refusal(
        "The API key lacks the scope in `missing_scope`, the request comes from a page of another "
        "site, or the host is not a name of the server",
        ("forbidden", "foreign_origin", "misdirected"),
    ),
    429: _Refusal("The API key's rate limit is exceeded", ("too_many_requests",), "Retry-After"),
}
_PROBLEM = {"$ref": f"#/components/schemas/{ProblemView.__name__}"}


def declare_keys(document: dict[str, Any]) -> None:
    """Declare the scope that each operation needs, and the refusals."""
    document["components"]["securitySchemes"] = _SCHEMES
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            needed = needed_scopes(verb.upper(), path)
            # One of the entries suffices; the names in one are all needed.
            operation["security"] = [{name: [scope]} for scope in needed for name in _SCHEMES]
            if needed:
                _add_refusals(path, operation)


def _add_refusals(path: str, operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    for status, refusal in _REFUSALS.items():
        answer: dict[str, Any] = {"description": refusal.description}
        if path.startswith("/v2"):
            error = {"$ref": "#/components/schemas/ProtocolError"}
            answer["content"] = {JSON: {"schema": error, "example": {"error": refusal.description}}}
        else:
            examples = {code: {"$ref": f"#/components/examples/{code}"} for code in refusal.codes}
            answer["content"] = {PROBLEM_JSON: {"schema": _PROBLEM, "examples": examples}}
        if refusal.field is not None:
            reference = {"$ref": f"#/components/headers/{refusal.field}"}
            answer["headers"] = {refusal.field: reference}
        responses.setdefault(str(status), answer)
