"""Errors of every path as answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.domain.names import in_words
from app.errors.answers import error_answer
from app.errors.http import ERROR_TABLE
from app.errors.quoting import brief
from app.errors.tree import FieldError, HostError, Invalid, Malformed, MethodNotAllowed, NotFound

__all__ = ["PROBLEM_JSON", "install_error_handlers", "problem_response"]

PROBLEM_JSON = "application/problem+json"

_VERBS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")

_EXPECTED = {
    "missing": "a value; the parameter is required",
    "bool_parsing": "true or false",
    "int_parsing": "a whole number",
    "float_parsing": "a number",
}
"""Instead of pydantic's messages, by its type of error."""

_PATTERNS = {
    "^(latest|[0-9]{1,18})$": "latest or the id of an event",
    "^[a-z_]{1,64}$": "lower-case letters and _, as in not_found",
}
"""Instead of the patterns themselves, which few readers of an error can read."""


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of the application a problem+json answer."""
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    for cls in (*ERROR_TABLE, HostError):
        app.add_exception_handler(cls, _on_error)


def problem_response(request: Request, error: BaseException) -> Response:
    """Return the answer to an error; internal errors are logged with their traceback."""
    root_path = request.scope.get("root_path", "")
    answer = error_answer(error, _request_id(request), request.url.path, root_path)
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
        hint = "/docs lists the paths of this server"
        return problem_response(request, NotFound("path", request.url.path, hint))
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
    # Only parameters are checked by FastAPI; routes read bodies themselves. A number in the
    # location counts the values of a parameter, which clients may have sent in one text.
    location = [one for one in row["loc"][1:] if isinstance(one, str)]
    got = "nothing" if row["type"] == "missing" else brief(row.get("input"))
    expected = (
        _EXPECTED.get(row["type"])
        or _PATTERNS.get(row.get("ctx", {}).get("pattern", ""))
        or _in_words(in_words(row["msg"]))
    )
    return FieldError(".".join(location), got, expected)


def _in_words(message: str) -> str:
    """Return what pydantic's message expects, to be read after ``expected``."""
    message = message.replace("String should match pattern", "a text that matches")
    for opening in ("Input should be ", "String should have ", "List should have "):
        message = message.removeprefix(opening)
    return message[:1].lower() + message[1:]
