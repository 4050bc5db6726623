"""Host and Origin checks: programs and our own pages may ask, pages of other sites may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from app.main import create_app
from app.settings import Settings

FIT = b'{"dataset": "d", "epochs": 1, "batch_size": 1}'
EVIL = "https://evil.example"


@asynccontextmanager
async def serving(tmp_path: Path, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        Settings(data_dir=tmp_path, executor_form="in_process", log_level="error", **settings)
    )
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as api:
            yield api


def refused(answer: httpx.Response, status: int, code: str, setting: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert setting in answer.json()["detail"]
    assert answer.headers["x-request-id"]
    assert "access-control-allow-origin" not in answer.headers


async def test_a_page_of_another_site_cannot_start_anything(server) -> None:
    async with httpx.AsyncClient(base_url=server.url) as api:
        for fields in (
            {"Origin": EVIL},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": f"http://127.0.0.1.evil.example:{api.base_url.port}"},
            {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            headers = {"Content-Type": "text/plain", **fields}
            answer = await api.post("/v1/modules/net/fit", content=FIT, headers=headers)
            refused(answer, 403, "foreign_origin", "MODSERVE_ALLOWED_ORIGINS")
            for path in ("/v1/modules", "/metrics", "/v1/events"):
                answer = await api.get(path, headers=fields)
                refused(answer, 403, "foreign_origin", "MODSERVE_ALLOWED_ORIGINS")
            for path in ("/livez", "/readyz", "/docs", "/openapi.json"):
                answer = await api.get(path, headers=fields)
                assert answer.status_code == 200
                assert "access-control-allow-origin" not in answer.headers


async def test_a_preflight_from_another_site_is_refused(server) -> None:
    headers = {"Origin": EVIL, "Access-Control-Request-Method": "PUT"}
    for path in ("/v1/datasets/d", "/livez"):
        answer = httpx.options(server.url + path, headers=headers)
        refused(answer, 403, "foreign_origin", "MODSERVE_ALLOWED_ORIGINS")


async def test_programs_and_our_own_pages_are_allowed(server) -> None:
    own = httpx.URL(server.url)
    for fields in (
        {},
        {"Origin": f"http://127.0.0.1:{own.port}"},
        {"Origin": f"http://localhost:{own.port}", "Host": f"localhost:{own.port}"},
        {"Origin": "https://127.0.0.1", "Host": "127.0.0.1"},
        {"Origin": f"http://[::1]:{own.port}", "Host": f"[::1]:{own.port}"},
        {"Origin": server.url, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert httpx.get(f"{server.url}/v1/modules", headers=fields).status_code == 200, fields
        answer = httpx.post(f"{server.url}/v1/modules/none/fit", content=FIT, headers=fields)
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil", "[::2]"),
        *("10.0.0.1", "", "[", "127.0.0.1:x:y", "127.0.0.1@evil.example", "0.0.0.0", "127.1"),
    ],
)
async def test_foreign_host_names_are_refused(server, host: str) -> None:
    for path in ("/v1/modules", "/livez"):
        answer = httpx.get(server.url + path, headers={"Host": host})
        refused(answer, 403, "misdirected", "MODSERVE_ALLOWED_HOSTS")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.9", "[::1]", "localhost."])
async def test_names_of_loopback_are_allowed(server, host: str) -> None:
    assert httpx.get(f"{server.url}/livez", headers={"Host": host}).status_code == 200


async def test_host_names_in_the_settings_are_allowed(tmp_path: Path) -> None:
    names = ("models.example", "*.lab.example")
    async with serving(tmp_path, allowed_hosts=names) as api:
        for host, status in (
            ("models.example", 200),
            ("MODELS.example:443", 200),
            ("a.lab.example", 200),
            ("lab.example", 403),
            ("a.models.example", 403),
            ("127.0.0.1", 200),
        ):
            answer = await api.get("/v1/modules", headers={"Host": host})
            assert answer.status_code == status, host


async def test_on_all_addresses_only_foreign_names_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, host="0.0.0.0") as api:
        for host, status in (("10.1.2.3:8000", 200), ("localhost", 200), ("evil.example", 403)):
            assert (await api.get("/livez", headers={"Host": host})).status_code == status


async def test_any_name_is_allowed_by_a_wildcard_setting(tmp_path: Path) -> None:
    async with serving(tmp_path, allowed_hosts=("*",)) as api:
        answer = await api.get("/livez", headers={"Host": "any.example"})
        assert answer.status_code == 200


async def test_allowed_origins_may_ask_and_read(tmp_path: Path) -> None:
    async with serving(tmp_path, allowed_origins=("https://lab.example",)) as api:
        fields = {"Origin": "https://lab.example", "Sec-Fetch-Site": "cross-site"}
        answer = await api.get("/v1/modules", headers=fields)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://lab.example"
        answer = await api.get("/v1/modules/none", headers=fields)
        assert answer.status_code == 404
        assert answer.headers["access-control-allow-origin"] == "https://lab.example"
        preflight = {
            "Access-Control-Request-Method": "PUT",
            "Access-Control-Request-Headers": "content-type",
        }
        answer = await api.options("/v1/datasets/d", headers=fields | preflight)
        assert answer.status_code == 200
        assert "PUT" in answer.headers["access-control-allow-methods"]
        answer = await api.get("/v1/modules", headers={"Origin": EVIL})
        refused(answer, 403, "foreign_origin", "MODSERVE_ALLOWED_ORIGINS")


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_hosts": ("http://a",)},
        {"allowed_hosts": ("a:80",)},
        {"allowed_origins": ("lab.example",)},
        {"allowed_origins": ("https://lab.example/",)},
    ],
)
def test_settings_that_could_never_match_are_refused(wrong: dict[str, tuple[str]]) -> None:
    with pytest.raises(ValidationError, match="expected"):
        Settings(**wrong)
