"""``If-None-Match`` saves downloads; ``If-Match`` prevents lost updates."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from served.document import openapi_document
from served.many_images import zipped
from served.network import BIND, examples_npz, fit_body
from served.pictures import picture

MODULE = "/v1/modules/net"
CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "/bind", BIND),
    ("POST", "/reshape", BIND),
    ("POST", "/params/init", {"initializer": "xavier"}),
    ("PUT", "/params", {"inputs": {"fc_bias": [0.0, 0.0]}}),
    ("POST", "/optimizer", {"name": "sgd"}),
    ("PATCH", "/optimizer", {"learning_rate": 0.25}),
    ("PATCH", "/serving", {"max_delay_us": 7}),
    ("POST", "/checkpoints", {"epoch": 2}),
    ("POST", "/load", {"epoch": 1}),
    ("POST", "/restore", None),
    ("POST", "/forward", {"inputs": {"data": [[0.0] * 8] * 4}, "is_train": True}),
    ("POST", "/forward_backward", {"inputs": {}}),
    ("POST", "/backward", {}),
    ("POST", "/update", {}),
    ("PUT", "/optimizer/states", None),
    ("PUT", "/states", {"value": 1.0}),
    ("DELETE", "", None),
]


@pytest.fixture
async def saved(ready: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module ``net`` that has checkpoint 1, and a dataset ``examples``."""
    assert (await ready.post(f"{MODULE}/checkpoints", json={"epoch": 1})).is_success
    assert (await ready.put("/v1/datasets/examples", content=examples_npz())).is_success
    return ready


async def etag_of(api: httpx.AsyncClient, path: str) -> str:
    return (await api.get(path)).headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        MODULE,
        f"{MODULE}/symbol",
        f"{MODULE}/checkpoints/1",
        f"{MODULE}/checkpoints/1/files/net-0001.params",
        "/v1/datasets/examples",
        "/v1/datasets/examples/file",
    ],
)
async def test_an_unchanged_resource_is_not_sent_again(saved: httpx.AsyncClient, path: str) -> None:
    full = await saved.get(path)
    etag = full.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await saved.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == etag
    other = await saved.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, full.content)


FILES = [f"{MODULE}/checkpoints/1/files/net-0001.params", "/v1/datasets/examples/file"]


@pytest.mark.parametrize("path", [MODULE, *FILES])
@pytest.mark.parametrize("part", [{}, {"Range": "bytes=0-3"}], ids=["whole", "part"])
async def test_another_resource_than_expected_is_not_sent(
    saved: httpx.AsyncClient, path: str, part: dict[str, str]
) -> None:
    etag = await etag_of(saved, path)
    for expected in (etag, f'"other", {etag}', "*"):
        sent = await saved.get(path, headers={"If-Match": expected} | part)
        assert sent.status_code in (200, 206), expected
    for expected in ('"other"', f"W/{etag}"):
        for ask in (saved.get, saved.head):
            refused = await ask(path, headers={"If-Match": expected} | part)
            assert refused.status_code == 412
            assert refused.headers["etag"] == etag
    assert (await saved.get(f"{path}x", headers={"If-Match": "*"})).status_code == 404


@pytest.mark.parametrize("path", FILES)
async def test_dates_of_files(saved: httpx.AsyncClient, path: str) -> None:
    fields = (await saved.get(path)).headers
    written, etag = fields["last-modified"], fields["etag"]
    long_ago, in_future = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 2894 08:49:37 GMT"
    for name, date, status in (
        ("If-Modified-Since", written, 304),
        ("If-Modified-Since", in_future, 304),
        ("If-Modified-Since", long_ago, 200),
        ("If-Modified-Since", "yesterday", 200),
        ("If-Unmodified-Since", written, 200),
        ("If-Unmodified-Since", in_future, 200),
        ("If-Unmodified-Since", long_ago, 412),
        ("If-Unmodified-Since", "yesterday", 200),
    ):
        for ask in (saved.get, saved.head):
            assert (await ask(path, headers={name: date})).status_code == status, (name, date)
    both = {"If-None-Match": '"other"', "If-Modified-Since": written}
    assert (await saved.get(path, headers=both)).status_code == 200, "the ETag decides"
    both = {"If-Match": etag, "If-Unmodified-Since": long_ago}
    assert (await saved.get(path, headers=both)).status_code == 200, "the ETag decides"


@pytest.mark.parametrize("path", FILES)
async def test_head_has_the_headers_of_get(saved: httpx.AsyncClient, path: str) -> None:
    full = await saved.get(path)
    for asked in ({}, {"Range": "bytes=0-3"}):
        head = await saved.head(path, headers=asked)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-length", "content-type", "content-disposition", "etag"):
            assert head.headers[name] == full.headers[name], name
    known = await saved.head(path, headers={"If-None-Match": full.headers["etag"]})
    assert known.status_code == 304
    assert (await saved.head(f"{path}x")).status_code == 404
    assert (await saved.delete(path)).headers["allow"].startswith("GET, HEAD")


async def test_the_body_contains_the_etag_too(saved: httpx.AsyncClient) -> None:
    for path in (MODULE, f"{MODULE}/checkpoints/1", "/v1/datasets/examples"):
        answer = await saved.get(path)
        assert answer.json()["etag"] == answer.headers["etag"]


@pytest.mark.parametrize("field", ["12-3", '"open', '"a" "b"', ""])
@pytest.mark.parametrize("name", ["If-None-Match", "If-Match"])
async def test_malformed_etags_are_refused(saved: httpx.AsyncClient, name: str, field: str) -> None:
    ask = saved.get if name == "If-None-Match" else saved.delete
    refused = await ask(MODULE, headers={name: field})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == name


@pytest.mark.parametrize(
    ("verb", "path", "body"), CHANGES, ids=[f"{verb} {path}" for verb, path, _ in CHANGES]
)
async def test_a_module_that_has_changed_is_not_overwritten(
    saved: httpx.AsyncClient, verb: str, path: str, body: Any
) -> None:
    seen = await etag_of(saved, MODULE)
    await saved.patch(f"{MODULE}/serving", json={"max_delay_us": 5})  # by another client
    present = await etag_of(saved, MODULE)
    assert seen != present
    content = {"content": b"states"} if path == "/optimizer/states" else {"json": body}
    refused = await saved.request(verb, MODULE + path, headers={"If-Match": seen}, **content)
    assert refused.status_code == 412, refused.text
    assert refused.json()["present"] == refused.headers["etag"] == present
    assert await etag_of(saved, MODULE) == present


@pytest.mark.parametrize("path", ["/serving", "/optimizer"])
async def test_of_two_concurrent_changes_one_is_refused(
    saved: httpx.AsyncClient, path: str
) -> None:
    seen = {"If-Match": await etag_of(saved, MODULE)}
    body = {"max_delay_us": 3} if path == "/serving" else {"learning_rate": 0.125}
    answers = await asyncio.gather(
        *(saved.patch(MODULE + path, json=body, headers=seen) for _ in range(4))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]


async def test_a_change_with_the_current_etag_succeeds(saved: httpx.AsyncClient) -> None:
    for field in (await etag_of(saved, MODULE), "*"):
        headers = {"If-Match": field}
        changed = await saved.post(f"{MODULE}/params/init", json={"seed": 3}, headers=headers)
        assert changed.status_code == 200, changed.text
        assert changed.json()["etag"] == await etag_of(saved, MODULE)
    headers = {"If-Match": await etag_of(saved, MODULE)}
    assert (await saved.delete(MODULE, headers=headers)).status_code == 204


async def test_a_weak_etag_never_matches(saved: httpx.AsyncClient) -> None:
    weak = {"If-Match": f"W/{await etag_of(saved, MODULE)}"}
    assert (await saved.delete(MODULE, headers=weak)).status_code == 412


async def test_checkpoints(saved: httpx.AsyncClient) -> None:
    await saved.post(f"{MODULE}/checkpoints", json={"epoch": 2})
    path = f"{MODULE}/checkpoints/1"
    stale, seen = {"If-Match": '"1-0"'}, {"If-Match": await etag_of(saved, path)}
    params = (await saved.get(f"{path}/files/net-0001.params")).content
    file = f"{path}/files/other-0001.params"
    assert (await saved.put(file, content=params, headers=stale)).status_code == 412
    assert (await saved.put(file, content=params, headers=seen)).status_code == 200
    assert (await saved.delete(path, headers=seen)).status_code == 412  # its file has changed
    seen = {"If-Match": await etag_of(saved, path)}
    assert (await saved.delete(path, headers=seen)).status_code == 204


async def test_datasets(saved: httpx.AsyncClient) -> None:
    path, stale = "/v1/datasets/examples", {"If-Match": '"0"'}
    seen = {"If-Match": await etag_of(saved, path)}
    assert (await saved.put(path, content=examples_npz(), headers=stale)).status_code == 412
    assert (await saved.delete(path, headers=stale)).status_code == 412
    absent = await saved.put("/v1/datasets/new", content=examples_npz(), headers=stale)
    assert (absent.status_code, absent.json()["present"]) == (412, None)
    assert (await saved.put(path, content=examples_npz(), headers=seen)).status_code == 200
    assert (await saved.delete(path, headers=seen)).status_code == 204


async def test_only_what_is_new_is_made(saved: httpx.AsyncClient) -> None:
    new, known = {"If-None-Match": "*"}, "/v1/datasets/examples"
    etag = await etag_of(saved, known)
    for condition in ("*", etag, f"W/{etag}"):
        refused = await saved.put(
            known, content=examples_npz(9), headers={"If-None-Match": condition}
        )
        assert (refused.status_code, refused.json()["present"]) == (412, etag), condition
    assert await etag_of(saved, known) == etag
    assert (await saved.put("/v1/datasets/new", content=examples_npz(), headers=new)).is_success
    other = {"If-None-Match": '"other"'}
    assert (await saved.put(known, content=examples_npz(), headers=other)).is_success


async def test_only_new_files_are_added(saved: httpx.AsyncClient) -> None:
    new, path = {"If-None-Match": "*"}, f"{MODULE}/checkpoints/1/files"
    params = (await saved.get(f"{path}/net-0001.params")).content
    for file in ("other-0001.params", "net-0001.params"):
        answer = await saved.put(f"{path}/{file}", content=params, headers=new)
        assert answer.status_code == (200 if file.startswith("other") else 412), answer.text
    of_another = await saved.put(
        f"{MODULE}/checkpoints/7/files/net-0007.params", content=params, headers=new
    )
    assert of_another.status_code == 200


async def test_jobs(saved: httpx.AsyncClient) -> None:
    body = fit_body(epochs=100_000)
    job = (await saved.post(f"{MODULE}/fit", json=body)).json()
    path, stale = f"/v1/jobs/{job['id']}", {"If-Match": '"0"'}
    for call in ("pause", "cancel", "resume", "retry"):
        refused = await saved.post(f"{path}/{call}", headers=stale)
        assert refused.status_code == 412, call
        assert refused.headers["etag"].startswith(f'"{job["id"]}-')
    await saved.post(f"{path}/cancel")
    while (told := await saved.get(path)).json()["status"] != "cancelled":
        await asyncio.sleep(0.02)
    seen = told.headers["etag"]
    assert (await saved.get(path, headers={"If-None-Match": seen})).status_code == 304
    assert (await saved.delete(path, headers=stale)).status_code == 412
    assert (await saved.delete(path, headers={"If-Match": seen})).status_code == 204


def test_the_document_declares_the_headers_and_their_effects() -> None:
    document = openapi_document()
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            takes = {one["name"].lower() for one in operation.get("parameters", ())}
            answers = operation["responses"]
            assert ("304" in answers) == (verb == "get" and "if-none-match" in takes), path
            assert ("412" in answers) == ("if-match" in takes), f"{verb} {path}"
            assert ("if-none-match" in takes) == ("if-match" in takes), f"{verb} {path}"
            for status, answer in answers.items():
                assert "X-Request-Id" in answer["headers"], f"{verb} {path} {status}"
                assert status != "503" or "Retry-After" in answer["headers"]


CREATES = {"create_module", "add_dataset"}
"""What they make has no ETag yet."""
CHANGES_NOTHING = {"predict_module", "predict_file", "predict_with_version", "preview_fit"}
OF_NO_RESOURCE = {"reload_models"}
"""The models folder has no ETag; its models are changed there."""


def changes() -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and operation of each route that changes a resource with an ETag."""
    return [
        (verb.upper(), path, operation)
        for path, operations in openapi_document()["paths"].items()
        for verb, operation in operations.items()
        if path.startswith("/v1/") and verb != "get"
        if operation["operationId"] not in CREATES | CHANGES_NOTHING | OF_NO_RESOURCE
    ]


def content_of(operation: dict[str, Any], bodies: dict[str, Any]) -> dict[str, Any]:
    """Return a body the operation accepts, as keyword arguments of a request."""
    name = operation["operationId"]
    media = operation.get("requestBody", {}).get("content", {})
    if name in bodies:
        return {"content" if isinstance(bodies[name], bytes) else "json": bodies[name]}
    if "application/json" in media:
        return {"json": media["application/json"]["example"]}
    return {"content": b"[]"} if media else {}


async def test_every_change_with_an_outdated_etag_is_refused(
    saved: httpx.AsyncClient,
) -> None:
    job = (await saved.post(f"{MODULE}/fit", json=fit_body(epochs=1))).json()["id"]
    async with asyncio.timeout(60):
        while (await saved.get(f"/v1/jobs/{job}")).json()["status"] != "succeeded":
            await asyncio.sleep(0.02)
    places = {"module": "net", "dataset": "examples", "job": str(job), "epoch": "1"}
    places |= {"file": "net-0001.params", "version": "1", "label": "stable"}
    places |= {"output": "softmax_output", "input": "data"}
    source = {"dataset": "examples", "batch_size": 2}
    bodies = {
        "put_dataset": examples_npz(),
        "put_images": zipped({"cat/1.png": picture(4, 4)}),
        "set_labels": b"zero\none\ntwo",
        "load_checkpoint": {"epoch": 1},
        "bind_module": BIND,
        "reshape_module": BIND,
        "fit_module": fit_body(),
        "score_module": {**source, "metrics": ["accuracy"]},
        "predict_dataset": {**source, "output": "answers"},
    }
    found = changes()
    assert {"set_states", "apply_bucket_plan", "warm_up_module", "fit_module"} <= {
        operation["operationId"] for _, _, operation in found
    }
    answers = {}
    for verb, path, operation in found:
        name = operation["operationId"]
        assert "if-match" in {one["name"] for one in operation["parameters"]}, name
        if name == "apply_bucket_plan":
            continue  # for modules with buckets; see test_bucket_plans
        refused = await saved.request(
            verb,
            path.format(**places),
            params={"size": "4"} if name == "put_images" else None,
            headers={"If-Match": '"0-0"'},
            **content_of(operation, bodies),
        )
        answers[name] = (refused.status_code, refused.json()["code"], refused.json()["detail"])
    others = {name: one for name, one in answers.items() if one[:2] != (412, "precondition_failed")}
    assert not others, "\n".join(map(str, others.items()))
