"""The dashboard's files: safe headers, cacheable names, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.client.local_server import running_server
from app.guides.reading import FILES
from app.settings import Settings
from served.keys import add_key
from served.processes import ENVIRONMENT
from served.threaded import served

STATIC = Path(__file__).parents[3] / "app" / "static"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client without a key, of a server that has keys."""
    folder = tmp_path_factory.mktemp("pages")
    add_key(folder, "someone", "admin")
    with (
        running_server(folder, environment=ENVIRONMENT) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        yield client


def loaded_by(text: str) -> list[str]:
    """Return the addresses a page loads, as written."""
    return re.findall(r'(?:src|href)="([^"]+)"', text.partition("<body")[0])


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_need_no_key_and_load_nothing_foreign(pages: httpx.Client, path: str) -> None:
    answer = pages.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    addresses = loaded_by(answer.text)
    assert addresses
    for address in addresses:
        assert address.startswith("./static/"), "relative, since a proxy may add any prefix"
        assert pages.get(address[1:]).status_code == 200
    assert not re.search(r"<style|<script(?![^>]*\ssrc=)|\son\w+=|style=", answer.text)


def test_assets_are_cached_forever_and_compressed(pages: httpx.Client) -> None:
    names = [path.name for path in STATIC.iterdir() if path.suffix != ".html"]
    assert {Path(name).suffix for name in names} >= {".js", ".css"}
    for name in names:
        answer = pages.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.content == (STATIC / name).read_bytes()
        assert "immutable" in answer.headers["cache-control"]
        assert re.search(r"-[\w-]{8}\.\w+$", name), "the name has a digest of the content"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "Accept-Encoding"
        plain = pages.get(f"/static/{name}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == answer.content
        assert plain.headers["etag"] != answer.headers["etag"]
    script = next(name for name in names if name.endswith(".js"))
    assert pages.get(f"/static/{script}").headers["content-type"].startswith("text/javascript")


def test_an_unchanged_page_is_not_sent_again(pages: httpx.Client) -> None:
    etag = pages.get("/").headers["etag"]
    answer = pages.get("/", headers={"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")
    head = pages.head("/")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)


def test_they_are_counted_by_their_paths(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, executor_form="in_process", log_level="error")
    with served(settings) as url:
        before = httpx.get(f"{url}/metrics").text
        httpx.get(f"{url}/static/none.js")
        httpx.get(f"{url}/docs")
        after = httpx.get(f"{url}/metrics").text
    for line in (
        'modserve_http_requests_total{method="GET",route="/static/{file}",status="404"} 1.0',
        'modserve_http_requests_total{method="GET",route="/docs",status="200"} 1.0',
    ):
        assert line not in before
        assert line in after


def test_guides_and_their_resources_need_no_key(pages: httpx.Client) -> None:
    answer = pages.get("/guides/index")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.json()["title"] == "Guides"
    known = {"If-None-Match": answer.headers["etag"]}
    assert pages.get("/guides/index", headers=known).status_code == 304
    for name, path in FILES.items():
        answer = pages.get(f"/guides/files/{name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_link_from_another_site_opens_the_dashboard(pages: httpx.Client) -> None:
    fields = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for path in ("/", "/docs", "/?from=wiki"):
        assert pages.get(path, headers=fields).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/static/none.js", "/static/index.html", "/static/", "/static", "/static/../v1/modules"),
        *("/static/%2e%2e/main.py", "/static/..%2fmain.py", "/static/a/b", "/index.html"),
        *("/guides/", "/guides", "/guides/none", "/guides/index.md", "/guides/../main.py"),
        *("/guides/files/", "/guides/files/README.md", "/guides/files/..%2freading.py"),
        *("/static//etc/passwd", "/redoc", "/docs/oauth2-redirect", "/docs/"),
    ],
)
def test_no_other_files_are_served(pages: httpx.Client, path: str) -> None:
    answer = pages.get(path)
    assert answer.status_code in (401, 404)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/docs", "/static/none.js", "/guides/index"])
def test_pages_are_read_only(pages: httpx.Client, path: str) -> None:
    assert pages.post(path).status_code == 405
