"""Every route has a scope, and every row of the scope table a route."""

from __future__ import annotations

import pytest
from fastapi.routing import iter_route_contexts

from app.api.security.scopes import OPEN_PATHS, SCOPES, is_open, needed_scopes
from app.domain.api_key import KeyScope
from app.main import create_app
from app.settings import Settings

QUESTION = ("POST", "/v2/repository/index")
"""A list, whose filter is in a body."""


def routes() -> set[tuple[str, str]]:
    """Return method and path of all routes, including documents and mounts."""
    found = set()
    for route in iter_route_contexts(create_app(Settings()).routes):
        verbs = route.methods or {"GET"}
        found |= {(verb, str(route.path)) for verb in verbs if verb != "HEAD"}
    return found


def test_every_route_has_a_scope() -> None:
    assert not routes() - SCOPES.keys(), "say in app/api/security/scopes.py who may use it"


def test_every_scope_has_a_route() -> None:
    assert not SCOPES.keys() - routes()


def test_routes_without_a_scope_are_those_without_a_key() -> None:
    open_routes = {path for (_, path), needed in SCOPES.items() if not needed}
    assert [path for path in open_routes if not is_open(path)] == []
    assert {path for path in OPEN_PATHS if path.startswith("/v1")} == set()


def test_routes_that_change_something_need_more_than_read() -> None:
    for (verb, path), needed in SCOPES.items():
        if verb != "GET" and (verb, path) != QUESTION:
            assert KeyScope.READ not in needed, f"{verb} {path}"
        if path.endswith(("/infer", "/predict")):
            assert needed == (KeyScope.INFER,)


@pytest.mark.parametrize("verb", ["GET", "POST", "TRACE"])
def test_routes_in_no_row_need_admin(verb: str) -> None:
    assert needed_scopes(verb, "/v1/new") == (KeyScope.ADMIN,)
