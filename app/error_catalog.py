"""All error codes that clients can get, each with its meaning and remedy."""

from __future__ import annotations

from dataclasses import dataclass

from app.error_table import all_kinds

__all__ = ["CATALOG", "CatalogEntry"]

_AS_THE_DETAIL_SAYS = "Do as detail and errors[] of the answer say."

_REMEDIES = {
    "malformed": "Send what the Content-Type says, whole.",
    "unauthorized": "Send a valid key as `Authorization: Bearer KEY` or `X-API-Key: KEY`.",
    "forbidden": "Use a key of one of the scopes in `missing_scope`.",
    "too_many_requests": "Try again after Retry-After, and ask more slowly.",
    "foreign_origin": "Let the operator add the page's origin to MODSERVE_ALLOWED_ORIGINS.",
    "not_found": "List what there is; the detail names the path.",
    "method_not_allowed": "Use a verb of the Allow header.",
    "too_slow": "Send the request faster, or in smaller pieces.",
    "already_exists": "Choose another name, or delete what has it.",
    "in_use": "Wait for what depends on it, or cancel it.",
    "wrong_stage": "Make the call named in `call` first.",
    "params_lost": "Load one of `checkpoints`, or initialize or set the parameters anew.",
    "sequence_lost": "Send the sequence again from its first part on, with sequence_start.",
    "module_failed": "Mend what `reason` names and POST /v1/modules/{module}/restore, or load a "
    "sound checkpoint.",
    "precondition_failed": "Read it again; `present` is the ETag, or the number, that it has now.",
    "too_large": "Send less, or let the operator raise the setting named.",
    "unsupported_media_type": "Send one of the content types named.",
    "range_not_satisfiable": "Ask for bytes before the length that Content-Range names.",
    "misdirected": "Use a name of the server's, or let the operator add this one to "
    "MODSERVE_ALLOWED_HOSTS.",
    "idempotency_mismatch": "Use a new Idempotency-Key for a new request.",
    "headers_too_large": "Send fewer or shorter header fields.",
    "unavailable": "Try again after Retry-After.",
    "version_damaged": "Put the version's files back, or promote another version.",
    "version_not_loaded": "Try again after Retry-After.",
    "version_replaced": "Try again after Retry-After.",
    "storage_full": "Delete datasets, checkpoints or modules, or give the disk more room.",
    "out_of_memory": "Send fewer examples at once, or put modules away.",
    "executor_gone": "Try again after Retry-After; whether the call took effect is not known.",
    "not_resident": "Try again after Retry-After.",
    "internal": "Give the request_id to the operator: the log has the details under it.",
}

_OF_JOBS = {
    "attempt_lost": ("An attempt ended without a result", "It is made again by itself."),
    "attempts_exhausted": (
        "As many attempts were lost in a row as may be",
        "See why in the job's events, then POST /v1/jobs/{job}/retry.",
    ),
    "deadline_exceeded": (
        "The job used up its time",
        "POST /v1/jobs/{job}/retry goes on from its newest checkpoint.",
    ),
}


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One code.

    Attributes:
        code: in answers and in errors of jobs.
        status: of answers; None if only jobs have it.
        title: what it means.
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
"""All errors by code: those of answers by status, then those that only jobs have."""
