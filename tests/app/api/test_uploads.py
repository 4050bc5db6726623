"""Checkpoints of other origin in one request: a form with MXNet's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from app.main import create_app
from app.settings import Settings
from served.network import BATCH, BIND, CLASSES, FEATURES, NETWORK
from served.params_file import write_params

SYMBOL = json.dumps(NETWORK).encode()
VALUES = {
    "fc_weight": np.random.RandomState(1).rand(CLASSES, FEATURES).astype(np.float32),
    "fc_bias": np.arange(CLASSES, dtype=np.float32),
}
PARAMS = write_params(VALUES, {})


def files(**changes: Any) -> dict[str, Any]:
    """Return the files of the form; a change to None leaves one out."""
    given = {"symbol": ("my-symbol.json", SYMBOL), "params": ("my-0010.params", PARAMS), **changes}
    return {part: file for part, file in given.items() if file is not None}


async def upload(
    api: httpx.AsyncClient, status: int = 201, given: Any = None, **fields: Any
) -> dict[str, Any]:
    response = await api.post("/v1/modules", data={"name": "my", **fields}, files=given or files())
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_one_request_creates_and_loads(api: httpx.AsyncClient) -> None:
    created = await upload(api)
    assert (created["stage"], created["params"], created["checkpoint"]) == (
        "created",
        "checkpoint",
        "10",
    )
    stored = await api.get("/v1/modules/my/checkpoints/10/files/my-0010.params")
    assert stored.content == PARAMS
    assert (await api.get("/v1/modules/my/checkpoints/10/files/my-symbol.json")).content == SYMBOL
    bound = await api.post("/v1/modules/my/bind", json=BIND)
    assert bound.json()["stage"] == "initialized"
    x = np.random.RandomState(2).rand(BATCH, FEATURES).astype(np.float32)
    answer = await api.post("/v1/modules/my/predict", json={"inputs": {"data": x.tolist()}})
    got = answer.json()["outputs"]["softmax_output"]
    scores = x @ VALUES["fc_weight"].T + VALUES["fc_bias"]
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.reshape(got["data"], got["shape"]), expected, rtol=1e-4)


async def test_optimizer_states_are_uploaded_too(api: httpx.AsyncClient, tmp_path: Path) -> None:
    """As written by ``Module.save_checkpoint`` with the optimizer's states."""
    module = mx.mod.Module(mx.sym.load_json(SYMBOL.decode()))
    module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    zeros = mx.nd.zeros((BATCH, FEATURES))
    module.forward_backward(mx.io.DataBatch([zeros], [mx.nd.zeros((BATCH,))]))
    module.update()
    module.save_checkpoint(str(tmp_path / "my"), 7, save_optimizer_states=True)
    parts = {
        "symbol": ("my-symbol.json", (tmp_path / "my-symbol.json").read_bytes()),
        "params": ("my-0007.params", (tmp_path / "my-0007.params").read_bytes()),
        "states": ("my-0007.states", (tmp_path / "my-0007.states").read_bytes()),
    }
    assert (await upload(api, given=parts))["checkpoint"] == "7"
    await api.post("/v1/modules/my/bind", json=BIND)
    body = {"name": "sgd", "options": {"learning_rate": 0.1, "momentum": 0.9}}
    await api.post("/v1/modules/my/optimizer", json=body)
    loaded = await api.post("/v1/modules/my/load", json={"epoch": 7, "optimizer_states": True})
    assert loaded.status_code == 200, loaded.text
    states = await api.get("/v1/modules/my/optimizer/states")
    assert states.content == (tmp_path / "my-0007.states").read_bytes()


async def test_form_fields_match_those_of_a_json_body(api: httpx.AsyncClient) -> None:
    created = await upload(
        api,
        epoch="3.20",
        data_names=["data"],
        label_names="",
        fixed_param_names=["fc_bias"],
        status=422,
    )
    assert created["errors"][0]["field"] == "softmax_label"
    assert "label_names" in created["errors"][0]["hint"]
    created = await upload(api, epoch="3.20", data_names=["data"], fixed_param_names=["fc_bias"])
    assert created["checkpoint"] == "3.20"
    assert created["fixed_param_names"] == ["fc_bias"]


async def test_a_symbol_for_each_bucket(api: httpx.AsyncClient) -> None:
    given = {
        "symbols[5]": ("my-5-symbol.json", SYMBOL),
        "symbols[9]": ("my-9-symbol.json", SYMBOL),
        "params": ("my-0001.params", PARAMS),
    }
    created = await upload(api, given=given)
    assert (created["kind"], created["bucket_keys"]) == ("bucketing", ["5", "9"])
    assert created["default_bucket_key"] == "9"  # the largest
    assert created["params"] == "checkpoint"


async def test_the_files_of_a_bucketing_module_are_recognized(api: httpx.AsyncClient) -> None:
    """As ``BucketingModule`` writes them: bucket keys are in the symbols' file names."""
    names = ("my-9-symbol.json", "my-10-symbol.json", "my-5-symbol.json")
    given = [
        *(("symbol", (name, SYMBOL)) for name in names),
        ("params", ("my-0001.params", PARAMS)),
    ]
    created = await upload(api, given=given)
    assert (created["kind"], created["default_bucket_key"]) == ("bucketing", "10")
    assert sorted(created["bucket_keys"]) == ["10", "5", "9"]
    assert created["params"] == "checkpoint"
    for other, named in (("my-symbol.json", "my-symbol.json"), ("x-09-symbol.json", "x-09")):
        refused = await upload(api, 422, [*given, ("symbol", (other, SYMBOL))])
        assert named in refused["errors"][0]["got"]


async def test_a_form_without_parameters_only_creates(api: httpx.AsyncClient) -> None:
    created = await upload(api, given=files(params=None))
    assert (created["params"], created["checkpoint"]) == (None, None)


async def test_extra_parameters_are_refused_or_ignored_on_request(api: httpx.AsyncClient) -> None:
    more = write_params({**VALUES, "old_head": np.ones(2, np.float32)}, {})
    given = files(params=("my-0010.params", more))
    refused = await upload(api, 422, given, allow_extra="false")
    assert refused["errors"][0]["field"] == "old_head"
    assert (await api.get("/v1/modules/my")).status_code == 404
    created = await upload(api, 201, given)
    assert created["checkpoint"] == "10"
    assert "old_head" in created["found"]["warnings"][0]


async def test_a_refused_upload_leaves_nothing_behind(
    api: httpx.AsyncClient, data_dir: Path
) -> None:
    given = files(params=("my-0010.params", PARAMS[:-9]))
    refused = await upload(api, 422, given)
    assert refused["code"] == "damaged"
    assert (await api.get("/v1/modules/my")).status_code == 404
    assert not list((data_dir / "uploads").iterdir())
    assert (await upload(api))["checkpoint"] == "10"
    again = await upload(api, 409)
    assert again["code"] == "already_exists"
    assert (await api.get("/v1/modules/my")).json()["checkpoint"] == "10"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (files(symbol=("my-symbol.json", b"{")), "symbol"),
        (files(symbol=("my-symbol.json", b"[]")), "symbol"),
        (files(symbol=None), "symbol"),
        (files(weights=("my-0010.params", PARAMS)), "weights"),
        (files(params=None, states=("my-0010.states", b"")), "params"),
        (files(states=("my-0010.states", b"junk")), "my-0010.states"),
        (files(states=("my-0010.states", b"cos\nsystem\n(S'ls'\ntR.")), "my-0010.states"),
        (files(params=("same.json", SYMBOL), symbol=("same.json", SYMBOL)), "params"),
    ],
)
async def test_mismatched_files_are_refused(api: httpx.AsyncClient, given: Any, field: str) -> None:
    refused = await upload(api, 422, given)
    assert refused["errors"][0]["field"] == field
    assert (await api.get("/v1/modules")).json()["items"] == []


async def test_a_file_name_without_an_epoch_counts_as_the_first(
    api: httpx.AsyncClient,
) -> None:
    assert (await upload(api, 201, files(params=("my.params", PARAMS))))["checkpoint"] == "0"


@pytest.mark.parametrize(
    ("symbol", "params", "epoch", "stored"),
    [
        ("net-symbol (1).json", "net-0010 (2).params", "10", "net-symbol.json net-0010.params"),
        ("сеть-symbol.json", "сеть-0003.params", "3", "model-symbol.json model-0003.params"),
        ("my net-symbol.json", "my net.params", "0", "my_net-symbol.json my_net.params"),
        ("symbol.json", "params", "0", "symbol.json params.params"),
        ("blob", "my-0010.bin", "0", "blob-symbol.json my-0010.bin.params"),
        ("C:\\a\\net.json", "../../etc/my-0010.params", "10", "net.json my-0010.params"),
        ("..", "/", "0", "model-symbol.json model.params"),
    ],
)
async def test_the_names_of_files_are_labels(
    api: httpx.AsyncClient, symbol: str, params: str, epoch: str, stored: str
) -> None:
    created = await upload(api, 201, files(symbol=(symbol, SYMBOL), params=(params, PARAMS)))
    assert created["checkpoint"] == epoch
    found = (await api.get(f"/v1/modules/my/checkpoints/{epoch}")).json()["files"]
    assert sorted(found) == sorted(stored.split())
    for name, content in zip(stored.split(), (SYMBOL, PARAMS), strict=True):
        answer = await api.get(f"/v1/modules/my/checkpoints/{epoch}/files/{name}")
        assert answer.content == content


async def test_parameters_alone_say_how_to_go_on(api: httpx.AsyncClient) -> None:
    row = await fault(api, files(symbol=None))
    assert (row["field"], row["got"]) == ("symbol", "nothing")
    assert "net.load_parameters(FILE), net.hybridize()" in row["hint"]


async def test_the_name_of_a_file_need_not_be_utf8(api: httpx.AsyncClient) -> None:
    parts = (("symbol", b"caf\xe9-symbol.json", SYMBOL), ("params", b"caf\xe9.params", PARAMS))
    body = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nmy\r\n'
    for part, name, content in parts:
        head = b'form-data; name="%s"; filename="%s"' % (part.encode(), name)
        body += b"--x\r\nContent-Disposition: " + head + b"\r\n\r\n" + content + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    made = await api.post("/v1/modules", content=body + b"--x--\r\n", headers=headers)
    assert made.status_code == 201, made.text


async def fault(api: httpx.AsyncClient, given: Any, **fields: Any) -> dict[str, str]:
    """Return the only entry about faulty files."""
    (row,) = (await upload(api, 422, given, **fields))["errors"]
    return dict(row)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "a PNG image"),
        (b"PK\x03\x04" + bytes(99), "a zip archive"),
        (b"<!DOCTYPE html><title>404", "an HTML or XML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
        (b"name,age", "text that begins 'name,age'"),
        (bytes(range(128, 199)), "a file of another kind"),
    ],
)
async def test_files_of_the_wrong_kind_are_identified(
    api: httpx.AsyncClient, sent: bytes, kind: str
) -> None:
    symbol = await fault(api, files(symbol=("my-symbol.json", sent)))
    assert symbol["got"].startswith(kind)
    assert "net-symbol.json" in symbol["expected"]
    params = await fault(api, files(params=("my-0001.params", sent)))
    assert params["got"].startswith(kind)
    assert "net-0010.params" in params["expected"]


async def test_truncated_or_swapped_files_are_refused(api: httpx.AsyncClient) -> None:
    cut = await fault(api, files(params=("my-0001.params", PARAMS[:-3])))
    assert (cut["got"][:24], cut["hint"]) == ("a file that is not whole", "copy it again")
    cut = await fault(api, files(symbol=("my-symbol.json", SYMBOL[:-3])))
    assert (cut["got"][:22], cut["hint"]) == ("JSON that is not whole", "copy the file again")
    exchanged = files(symbol=("my-symbol.json", PARAMS), params=("my-0001.params", SYMBOL))
    assert "send it as params" in (await fault(api, exchanged))["hint"]


async def test_a_parameter_of_an_unknown_argument_is_refused(api: httpx.AsyncClient) -> None:
    row = await fault(api, files(), data_names="dtaa")
    assert (row["field"], row["got"]) == ("data_names", "dtaa")
    assert "did you mean 'data'" in row["expected"]


async def test_parameters_of_another_net_are_refused(api: httpx.AsyncClient) -> None:
    other = write_params({"conv9_weight": np.ones(2, np.float32)}, {})
    refused = await upload(api, 422, files(params=("my-0001.params", other)))
    assert "conv9_weight, so it may be of another net" in refused["errors"][0]["hint"]


async def test_an_unusable_body_is_answered_with_both_formats(api: httpx.AsyncClient) -> None:
    head = {"content-type": "application/zip"}
    refused = await api.post("/v1/modules", content=b"PK", headers=head)
    assert refused.status_code == 415
    assert "'application/zip' is not read here" in refused.json()["detail"]
    assert "multipart/form-data" in refused.json()["detail"]


async def test_invalid_fields_are_refused(api: httpx.AsyncClient) -> None:
    for fields, field in (
        ({"nmae": "x"}, "nmae"),
        ({"epoch": "ten"}, "epoch"),
        ({"allow_extra": "perhaps"}, "allow_extra"),
        ({"executor": ["cpu(0)", "cpu(0)"]}, "executor"),
        ({"executor": "x" * 70_000}, "executor"),
    ):
        assert (await upload(api, 422, **fields))["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"no boundary"),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nmy',
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\r\n--x--',
        ),
        ("multipart/form-data; boundary=" + "x" * 500, b"--x--"),
    ],
)
async def test_malformed_forms_are_refused(
    api: httpx.AsyncClient, content_type: str, body: bytes
) -> None:
    headers = {"Content-Type": content_type}
    response = await api.post("/v1/modules", content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "malformed"), response.text


async def test_too_many_parts_are_refused(api: httpx.AsyncClient) -> None:
    fields = {"data_names": ["data"] * 300}
    assert (await upload(api, 422, **fields))["errors"][0]["expected"] == "at most 256"


async def test_limits_hold_before_and_during_the_upload(tmp_path: Path) -> None:
    symbol = ("my-symbol.json", SYMBOL + b" " * 1024)
    settings = Settings(
        data_dir=tmp_path,
        executor_form="in_process",
        max_checkpoint_bytes=len(PARAMS) + len(symbol[1]) - 1,
        max_body_bytes=len(symbol[1]) - 1,
        log_level="error",
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            small = ("my-symbol.json", symbol[1][:-1])
            refused = await upload(
                api, 413, files(symbol=small, params=("my-0010.params", PARAMS + b"  "))
            )
            assert "MODSERVE_MAX_CHECKPOINT_BYTES" in refused["detail"]
            large = files(params=("my-0010.params", bytes(3 << 20)))
            assert (await upload(api, 413, large))["detail"].startswith("the checkpoint")
            long = files(symbol=symbol, params=None)
            assert "MODSERVE_MAX_BODY_BYTES" in (await upload(api, 413, long))["detail"]
            assert not list((tmp_path / "uploads").iterdir())
            assert (await upload(api, given=files(params=None)))["name"] == "my"


async def test_a_repeated_request_gets_the_first_answer(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    fields = {"name": "my"}
    first = await api.post("/v1/modules", data=fields, files=files(), headers=headers)
    second = await api.post("/v1/modules", data=fields, files=files(), headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    values = {name: value + 1 for name, value in VALUES.items()}
    changed = files(params=("my-0010.params", write_params(values, {})))
    other = await api.post("/v1/modules", data=fields, files=changed, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert (await api.get("/v1/modules/my")).status_code == 200


async def test_a_form_adds_a_checkpoint(initialized: httpx.AsyncClient) -> None:
    path = "/v1/modules/net/checkpoints"
    for _ in range(2):  # the second replaces the first
        added = await initialized.post(path, files=files())
        assert added.status_code == 201, added.text
        assert added.headers["location"] == f"{path}/10"
        assert set(added.json()["files"]) == {"my-symbol.json", "my-0010.params"}
    loaded = await initialized.post("/v1/modules/net/load", json={"epoch": 10})
    assert loaded.status_code == 200, loaded.text
    weight = (await initialized.get("/v1/modules/net/params")).json()["params"]["fc_weight"]
    np.testing.assert_array_equal(
        np.reshape(weight["data"], weight["shape"]).astype(np.float32), VALUES["fc_weight"]
    )
    missing = await initialized.post(path, files=files(params=None))
    assert (missing.status_code, missing.json()["errors"][0]["field"]) == (422, "params")
    named = await initialized.post(path, data={"name": "net"}, files=files())
    assert (named.status_code, named.json()["errors"][0]["field"]) == (422, "name")
    nowhere = await initialized.post("/v1/modules/other/checkpoints", files=files())
    assert nowhere.status_code == 404
