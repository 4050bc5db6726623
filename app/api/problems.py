"""Errors of every path as answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.error_answers import error_answer
from app.error_table import ERROR_TABLE
from app.errors import FieldError, HostError, Invalid, Malformed, MethodNotAllowed, NotFound
from app.quoting import brief

__all__ = ["PROBLEM_JSON", "install_error_handlers", "problem_response"]

PROBLEM_JSON = "application/problem+json"

_VERBS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of the application a problem+json answer."""
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    for cls in (*ERROR_TABLE, HostError):
        app.add_exception_handler(cls, _on_error)


def problem_response(request: Request, error: BaseException) -> Response:
    """Return the answer to an error; internal errors are logged with their traceback."""
    answer = error_answer(error, _request_id(request), request.url.path)
    return Response(answer.body, answer.status, headers=dict(answer.headers))


async def _on_error(request: Request, error: Exception) -> Response:
    return problem_response(request, error)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    rows = error.errors()
    if any(row["type"] == "json_invalid" for row in rows):
        return problem_response(request, Malformed(f"the body is not JSON: {rows[0]['msg']}"))
    return problem_response(request, Invalid.from_errors(_field_error(dict(row)) for row in rows))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem_response(request, NotFound("path", request.url.path, "see /docs"))
    if error.status_code == 405:
        return problem_response(request, MethodNotAllowed(request.method, _allowed(request)))
    return problem_response(request, Malformed(str(error.detail)))


def _allowed(request: Request) -> str:
    """Return the verbs of all routes of the path; Starlette's own answer knows only the first."""
    scope = {"type": "http", "path": request.url.path, "root_path": "", "headers": []}
    served = (
        verb
        for verb in _VERBS
        if any(
            route.matches({**scope, "method": verb})[0] is Match.FULL
            for route in request.app.routes
        )
    )
    return ", ".join(served)


def _request_id(request: Request) -> str:
    request_id: str = request.scope.get("state", {}).get("request_id", "")
    return request_id


def _field_error(row: dict[str, Any]) -> FieldError:
    location = [str(part) for part in row["loc"] if part not in ("body", "path", "query")]
    got = "nothing" if row["type"] == "missing" else brief(row.get("input"))
    message = str(row["msg"]).removeprefix("Input should be ")
    return FieldError(".".join(location) or "body", got, message[:1].lower() + message[1:])
