"""All error codes that clients can get, each with its meaning and remedy."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors.http import all_kinds

__all__ = ["CATALOG", "CatalogEntry"]

_AS_THE_DETAIL_SAYS = "Follow the detail and errors[] of the response."

_REMEDIES = {
    "malformed": "Send a complete body in the format that its Content-Type names.",
    "unauthorized": "Send a valid key as `Authorization: Bearer KEY` or `X-API-Key: KEY`.",
    "forbidden": "Use a key with one of the scopes in `missing_scope`.",
    "too_many_requests": "Try again after Retry-After, and send fewer requests.",
    "foreign_origin": "Ask the operator to add the page's origin to MODSERVE_ALLOWED_ORIGINS.",
    "not_found": "List the existing ones; the detail names the path.",
    "method_not_allowed": "Use one of the methods in the Allow header.",
    "too_slow": "Send the request faster, or in smaller pieces.",
    "already_exists": "Choose another name, or delete the existing one.",
    "in_use": "Wait for whatever depends on it, or cancel that.",
    "wrong_stage": "Make the call named in `call` first.",
    "params_lost": "Load one of `checkpoints`, or initialize or set the parameters again.",
    "sequence_lost": "Send the sequence again from its first part, with sequence_start.",
    "module_failed": "Fix what `reason` names and POST /v1/modules/{module}/restore, or load a "
    "sound checkpoint.",
    "precondition_failed": "Read it again; `present` is its current ETag or number.",
    "too_large": "Send less, or ask the operator to raise the named setting.",
    "unsupported_media_type": "Send one of the named content types.",
    "range_not_satisfiable": "Ask for bytes before the length that Content-Range names.",
    "misdirected": "Use one of the server's names, or ask the operator to add this one to "
    "MODSERVE_ALLOWED_HOSTS.",
    "idempotency_mismatch": "Use a new Idempotency-Key for a new request.",
    "headers_too_large": "Send fewer or shorter header fields.",
    "unavailable": "Try again after Retry-After.",
    "version_damaged": "Restore the version's files, or promote another version.",
    "version_not_loaded": "Try again after Retry-After.",
    "version_replaced": "Try again after Retry-After.",
    "storage_full": "Delete datasets, checkpoints or modules, or enlarge the disk.",
    "out_of_memory": "Send fewer examples at once, or unload modules.",
    "executor_gone": "Try again after Retry-After; it is unknown whether the call took effect.",
    "call_too_long": "Send fewer or smaller examples at once, or ask the operator to raise "
    "MODSERVE_MAX_CALL_SECONDS.",
    "not_resident": "Try again after Retry-After.",
    "internal": "Report the request_id to the operator: the log has the details under it.",
}

_OF_JOBS = {
    "attempt_lost": ("An attempt ended without a result", "It is retried automatically."),
    "attempts_exhausted": (
        "Too many attempts were lost in a row",
        "The job's events say why; then POST /v1/jobs/{job}/retry.",
    ),
    "row_damaged": (
        "The job's row in the database was damaged",
        "Submit the job again, and look at the server's disk.",
    ),
    "deadline_exceeded": (
        "The job ran out of time",
        "POST /v1/jobs/{job}/retry continues from its newest checkpoint.",
    ),
}


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One error code.

    Attributes:
        code: in responses, and in the errors of jobs.
        status: HTTP status; None if only jobs have this code.
        title: what went wrong.
        remedy: what to do.
    """

    code: str
    status: int | None
    title: str
    remedy: str


CATALOG: dict[str, CatalogEntry] = {
    kind.code: CatalogEntry(
        kind.code, kind.status, kind.title, _REMEDIES.get(kind.code, _AS_THE_DETAIL_SAYS)
    )
    for kind in all_kinds()
} | {code: CatalogEntry(code, None, *texts) for code, texts in _OF_JOBS.items()}
"""All errors by code: first those of responses, by status, then those of jobs only."""
