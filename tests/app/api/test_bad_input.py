"""Invalid requests: each gets a 4xx that names the field, and nothing changes."""

import io
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from served.network import FEATURES, NETWORK, examples_npz, fit_body

GOOD = {"inputs": {"data": [[0.1, 0.2, 0.3, 0.4, 0.5]]}}


async def refused(response: httpx.Response, status: int, code: str, *words: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["x-request-id"]
    for word in words:
        assert word in json.dumps(problem), f"{word!r} is not in {problem}"
    for row in problem["errors"]:
        assert row["field"], row
        assert row["expected"], row
    return problem


async def still_works(api: httpx.AsyncClient) -> None:
    response = await api.post("/v1/modules/net/predict", json=GOOD)
    assert response.status_code == 200, response.text


async def test_malformed_json(initialized: httpx.AsyncClient) -> None:
    for path in ("bind", "predict", "params/init", "fit"):
        response = await initialized.post(
            f"/v1/modules/net/{path}",
            content=b'{"data_shapes": [',
            headers={"Content-Type": "application/json"},
        )
        await refused(response, 400, "malformed", "line 1")
    await still_works(initialized)


async def test_deeply_nested_json(initialized: httpx.AsyncClient) -> None:
    for body in (b"[" * 100_000, b'{"inputs": {"data": ' + b"[" * 5000 + b"]" * 5000 + b"}}"):
        response = await initialized.post("/v1/modules/net/predict", content=body)
        assert 400 <= response.status_code < 500, response.text
    await still_works(initialized)


async def test_unknown_operator(api: httpx.AsyncClient, network: dict) -> None:
    symbol = json.loads(json.dumps(network))
    symbol["nodes"][3]["op"] = "FullyConected"
    response = await api.post("/v1/modules", json={"name": "net", "symbol": symbol})
    problem = await refused(response, 422, "unknown_operator", "FullyConected", "FullyConnected")
    (row,) = problem["errors"]
    assert row["field"] == "symbol"
    assert "FullyConected" in row["got"]
    assert "operators" in row["expected"]
    assert "op of the nodes" in row["hint"]
    assert (await api.get("/v1/modules")).json()["items"] == []


async def test_unknown_and_missing_attribute(api: httpx.AsyncClient, network: dict) -> None:
    symbol = json.loads(json.dumps(network))
    symbol["nodes"][3]["attrs"] = {"num_hiden": "3"}
    response = await api.post("/v1/modules", json={"name": "net", "symbol": symbol})
    await refused(response, 422, "invalid_attribute", "num_hiden", "num_hidden", "fc")
    symbol["nodes"][3]["attrs"] = {}
    response = await api.post("/v1/modules", json={"name": "net", "symbol": symbol})
    await refused(response, 422, "invalid_attribute", "num_hidden", "required")


@pytest.mark.parametrize(
    "change",
    [
        {"symbol": 3},
        {"symbol": {}},
        {"symbol": {"nodes": [], "arg_nodes": [], "heads": [[0, 0, 0]]}},
        {"symbol": {"nodes": [{"op": "null"}], "arg_nodes": [0], "heads": [[0, 0, 0]]}},
        {"symbol": None},
        {"data_names": ["nothing"]},
        {"surprise": 1},
        {"name": "../../etc/passwd"},
        {"name": ".hidden"},
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 200},
        {"executor": "gpu(7)"},
        {"executor": "tpu(0)"},
    ],
    ids=str,
)
async def test_invalid_modules_are_refused(
    api: httpx.AsyncClient, network: dict, change: dict[str, Any]
) -> None:
    response = await api.post("/v1/modules", json={"name": "net", "symbol": network, **change})
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert (await api.get("/v1/modules")).json()["items"] == []


async def test_contradicting_shapes(created: httpx.AsyncClient) -> None:
    cases = (
        (
            {
                "data_shapes": [{"name": "data", "shape": [4, 5]}],
                "label_shapes": [{"name": "softmax_label", "shape": [3]}],
            },
            "4",
        ),
        ({"data_shapes": [{"name": "fc_weight", "shape": [3, 5]}]}, "fc_weight"),
        ({"data_shapes": []}, "data"),
        ({"data_shapes": [{"name": "data", "shape": [0, 5]}]}, "data"),
        ({"data_shapes": [{"name": "data", "shape": [-4, 5]}]}, "data"),
        ({"data_shapes": [{"name": "data", "shape": [2**40, 2**40]}]}, "data"),
        ({"data_shapes": [{"name": "data", "shape": [4, "5"]}]}, "data_shapes[0].shape[1]"),
        ({"data_shapes": [{"name": "data", "shape": [4, 5], "dtype": "complex64"}]}, "complex64"),
        ({"data_shapes": [{"name": "data"}]}, "data_shapes[0].shape"),
    )
    for body, word in cases:
        response = await created.post("/v1/modules/net/bind", json=body)
        assert response.status_code == 422, (body, response.text)
        assert word in response.text, (body, response.text)
    assert (await created.get("/v1/modules/net")).json()["stage"] == "created"


@pytest.mark.parametrize(
    ("inputs", "word"),
    [
        ({}, "data"),
        ({"data": [[1, 2, 3, 4, 5]], "extra": [1]}, "extra"),
        ({"dta": [[1, 2, 3, 4, 5]]}, "dta"),
        ({"data": [[1, 2, 3]]}, "data"),
        ({"data": 7}, "data"),
        ({"data": [[1, 2, 3, 4], [5]]}, "inputs.data"),
        ({"data": [["a", "b", "c", "d", "e"]]}, "inputs.data"),
        ({"data": [[1, 2, 3, 4, None]]}, "inputs.data"),
        ({"data": {"shape": [2, 5], "data": [1, 2, 3, 4, 5]}}, "inputs.data.shape"),
        ({"data": {"shape": [1, 5], "dtype": "float128", "data": [1, 2, 3, 4, 5]}}, "dtype"),
        ({"data": {"shape": [1, 5], "values": [1, 2, 3, 4, 5]}}, "values"),
        ({"data": []}, "data"),
    ],
    ids=str,
)
async def test_invalid_tensors_are_refused(
    initialized: httpx.AsyncClient, inputs: dict[str, Any], word: str
) -> None:
    response = await initialized.post("/v1/modules/net/predict", json={"inputs": inputs})
    assert response.status_code == 422, response.text
    assert word in response.text
    await still_works(initialized)


async def test_wrong_dtype_of_a_binary_tensor(initialized: httpx.AsyncClient) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([["a"]]))
    response = await initialized.post(
        "/v1/modules/net/predict",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npy"},
    )
    await refused(response, 422, "invalid", "dtype")


async def test_pickled_npy_is_never_loaded(initialized: httpx.AsyncClient) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    response = await initialized.post(
        "/v1/modules/net/predict",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npy"},
    )
    await refused(response, 422, "invalid", "object")


async def test_npy_with_less_data_than_declared_is_refused(initialized: httpx.AsyncClient) -> None:
    header = b"\x93NUMPY\x01\x00"
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000,), }"
    text += b" " * (118 - len(text)) + b"\n"
    body = header + len(text).to_bytes(2, "little") + text + b"\0" * 16
    response = await initialized.post(
        "/v1/modules/net/predict", content=body, headers={"Content-Type": "application/x-npy"}
    )
    await refused(response, 422, "damaged", "400000000000")


async def test_nan_is_refused_where_it_would_ruin_the_parameters(
    initialized: httpx.AsyncClient,
) -> None:
    stream = io.BytesIO()
    np.savez(stream, fc_bias=np.array([1, np.nan, 2], dtype=np.float32))
    before = (await initialized.get("/v1/modules/net/params")).json()["params"]
    response = await initialized.put(
        "/v1/modules/net/params?allow_missing=true",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    await refused(response, 422, "invalid", "fc_bias", "NaN")
    assert (await initialized.get("/v1/modules/net/params")).json()["params"] == before


async def test_a_call_at_the_wrong_stage_says_what_to_call_first(
    created: httpx.AsyncClient,
) -> None:
    response = await created.post("/v1/modules/net/params/init", json={})
    await refused(response, 409, "wrong_stage", "POST /v1/modules/net/bind", "created")
    response = await created.post("/v1/modules/net/predict", json=GOOD)
    assert response.status_code == 409, response.text
    response = await created.post("/v1/modules/net/update")
    assert response.status_code == 409, response.text


async def test_backward_and_update_out_of_order_are_refused(ready: httpx.AsyncClient) -> None:
    for call in ("backward", "update"):
        response = await ready.post(f"/v1/modules/net/{call}")
        await refused(response, 409, "wrong_stage", "forward")
    await still_works(ready)


@pytest.mark.parametrize(
    ("changes", "field", "word"),
    [
        ({"optimizer": {"name": "sgdd"}}, "optimizer.name", "did you mean 'sgd'"),
        ({"optimizer": {"name": "sgd", "options": {"lr": 1}}}, "optimizer.options.lr", "momentum"),
        ({"metrics": ["acuracy"]}, "metrics[0]", "accuracy"),
        ({"callbacks": {"speedo": {}}}, "callbacks.speedo", "speedometer"),
        ({"initializer": {"initializer": "xavie"}}, "initializer.initializer", "xavier"),
    ],
)
async def test_names_unknown_to_the_engine_are_refused_when_a_fit_is_submitted(
    api: httpx.AsyncClient, changes: dict[str, Any], field: str, word: str
) -> None:
    await api.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
    await api.put("/v1/datasets/examples?kind=npz", content=examples_npz())
    response = await api.post("/v1/modules/net/fit", json={**fit_body(), **changes})
    body = await refused(response, 422, "invalid", word)
    assert body["errors"][0]["field"] == field
    assert (await api.get("/v1/jobs")).json()["items"] == []


async def test_update_and_backward_need_no_inputs(ready: httpx.AsyncClient) -> None:
    batch = {"inputs": {"data": [[0.5] * FEATURES] * 4, "softmax_label": [0, 1, 2, 0]}}
    first = await ready.post("/v1/modules/net/forward", json={**batch, "is_train": True})
    assert first.status_code == 200, first.text
    for sequence, call in ((2, "backward"), (3, "update")):
        response = await ready.post(f"/v1/modules/net/{call}", json={"sequence": sequence})
        assert response.status_code == 200, response.text
    response = await ready.post("/v1/modules/net/forward", json={"sequence": 4})
    await refused(response, 422, "invalid", "inputs")


async def test_a_path_with_an_extra_slash_is_not_found(api: httpx.AsyncClient) -> None:
    await refused(await api.get("/v1/modules/"), 404, "not_found", "/v1/modules/")


async def test_a_missing_bucket_key_is_not_found(initialized: httpx.AsyncClient) -> None:
    response = await initialized.get("/v1/modules/net/symbol?key=20")
    await refused(response, 404, "not_found", "leave key out")


async def test_a_file_that_is_not_npz_is_told_of_the_kind_parameter(api: httpx.AsyncClient) -> None:
    response = await api.put("/v1/datasets/table", content=b"1,2")
    await refused(response, 422, "damaged", "?kind=")


async def test_unknown_ids(initialized: httpx.AsyncClient) -> None:
    for verb, path in (
        ("GET", "/v1/modules/nobody"),
        ("POST", "/v1/modules/nobody/predict"),
        ("GET", "/v1/modules/net/params/nothing"),
        ("GET", "/v1/modules/net/checkpoints/99"),
        ("GET", "/v1/jobs/99"),
        ("POST", "/v1/jobs/99/cancel"),
        ("GET", "/v1/jobs/99/events"),
        ("GET", "/v1/datasets/nothing"),
        ("GET", "/v1/nothing"),
    ):
        response = await initialized.request(verb, path, json=GOOD if verb == "POST" else None)
        await refused(response, 404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/modules/..%2f..%2fetc",
        "/v1/datasets/..%2fmodserve.db",
        "/v1/datasets/%2e%2e",
        "/v1/modules/net/checkpoints/..%2f..",
        "/v1/modules/net/checkpoints/3/files/..%2fmanifest.json",
        "/v1/modules/net/checkpoints/3/files/%2fetc%2fpasswd",
        "/v1/modules/net%00",
    ],
)
async def test_path_tricks(initialized: httpx.AsyncClient, path: str) -> None:
    response = await initialized.get(path)
    assert response.status_code in (404, 422), response.text
    assert "root:" not in response.text


async def test_body_over_the_limit(initialized: httpx.AsyncClient) -> None:
    big = b"[" + b"0," * (1 << 20) + b"0]"
    response = await initialized.post("/v1/modules/net/predict", content=big)
    await refused(response, 413, "too_large", "MODSERVE_MAX_BODY_BYTES")

    async def unannounced():
        for _ in range(64):
            yield b"0" * 65536

    response = await initialized.post("/v1/modules/net/predict", content=unannounced())
    await refused(response, 413, "too_large")
    await still_works(initialized)


async def test_npz_bomb(initialized: httpx.AsyncClient) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, data=np.zeros((1 << 22,), dtype=np.float32))
    assert len(stream.getvalue()) < 1 << 20
    response = await initialized.post(
        "/v1/modules/net/predict",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    await refused(response, 413, "too_large")


async def test_unsupported_media_types_and_methods_are_refused(
    initialized: httpx.AsyncClient,
) -> None:
    response = await initialized.post(
        "/v1/modules/net/predict", content=b"x", headers={"Content-Type": "text/html"}
    )
    await refused(response, 415, "unsupported_media_type", "application/x-npy")
    response = await initialized.post(
        "/v1/modules/net/predict", content=b"x", headers={"Content-Type": "image/png"}
    )
    await refused(response, 422, "invalid", "transform")
    response = await initialized.put("/v1/modules/net/forward", json=GOOD)
    await refused(response, 405, "method_not_allowed", "POST")
    assert response.headers["allow"] == "POST"
    response = await initialized.patch("/v1/modules")
    await refused(response, 405, "method_not_allowed", "use GET, HEAD, POST")


async def test_invalid_optimizers_are_refused(initialized: httpx.AsyncClient) -> None:
    for body, word in (
        ({"name": "sdg"}, "sgd"),
        ({"name": "sgd", "options": {"momentun": 0.9}}, "momentun"),
        ({"name": "sgd", "options": {"learning_rate": "fast"}}, "learning_rate"),
        ({"name": "sgd", "options": {"lr_scheduler": {"name": "facter"}}}, "facter"),
        ({"nme": "sgd"}, "nme"),
    ):
        response = await initialized.post("/v1/modules/net/optimizer", json=body)
        assert response.status_code == 422, (body, response.text)
        assert word in response.text, (body, response.text)
    assert (await initialized.get("/v1/modules/net")).json()["stage"] == "initialized"


async def test_invalid_initializers_are_refused(bound: httpx.AsyncClient) -> None:
    for body, word in (
        ({"initializer": "xaver"}, "xavier"),
        ({"initializer": "xavier", "options": {"magnitud": 1}}, "magnitud"),
        ({"initializer": "xavier", "seed": "x"}, "seed"),
    ):
        response = await bound.post("/v1/modules/net/params/init", json=body)
        assert response.status_code == 422, (body, response.text)
        assert word in response.text, (body, response.text)


async def test_invalid_jobs_are_refused(initialized: httpx.AsyncClient) -> None:
    good = {"dataset": "none", "epochs": 1, "batch_size": 4}
    for body, status, word in (
        (good, 404, "none"),
        ({**good, "epochs": 0}, 422, "epochs"),
        ({**good, "batch_size": -1}, 422, "batch_size"),
        ({**good, "epoch": 3}, 422, "epoch"),
        ({}, 422, "dataset"),
        ([], 422, ""),
    ):
        response = await initialized.post("/v1/modules/net/fit", json=body)
        assert response.status_code in (status, 422), (body, response.text)
        assert word in response.text
    assert (await initialized.get("/v1/jobs")).json()["items"] == []


async def test_incomplete_checkpoints_are_refused(initialized: httpx.AsyncClient) -> None:
    await initialized.post("/v1/modules/net/checkpoints", json={"epoch": 1})
    whole = (await initialized.get("/v1/modules/net/checkpoints/1/files/net-0001.params")).content
    before = (await initialized.get("/v1/modules/net/params")).json()["params"]
    for damaged in (whole[: len(whole) // 2], b"", b"\0" * len(whole), whole[:-1]):
        put = await initialized.put(
            "/v1/modules/net/checkpoints/2/files/net-0002.params", content=damaged
        )
        assert put.status_code < 500, put.text
        response = await initialized.post("/v1/modules/net/load", json={"epoch": 2})
        assert response.status_code == 422, response.text
        assert response.json()["code"] == "damaged", response.text
    assert (await initialized.get("/v1/modules/net/params")).json()["params"] == before
    await still_works(initialized)


async def test_states_that_run_code_are_refused(ready: httpx.AsyncClient, tmp_path: Path) -> None:
    trace = tmp_path / "code-was-run"

    class Evil:
        def __reduce__(self) -> tuple[Any, Any]:
            return os.system, (f"touch {trace}",)

    response = await ready.put(
        "/v1/modules/net/optimizer/states", content=pickle.dumps({0: Evil()})
    )
    assert response.status_code == 422, response.text
    assert not trace.exists()
    await still_works(ready)


async def test_errors_from_the_executor_have_got_and_expected(bound: httpx.AsyncClient) -> None:
    response = await bound.post("/v1/modules/net/predict", json=GOOD)
    problem = await refused(response, 409, "wrong_stage")
    assert problem["call"] == "POST /v1/modules/net/params/init"
    assert (problem["needs"], problem["is"]) == ("initialized", "bound")
    await bound.post("/v1/modules/net/params/init")
    response = await bound.post("/v1/modules/net/predict", json={"inputs": {"data": [[1]]}})
    (row,) = (await refused(response, 422, "invalid"))["errors"]
    assert row == {
        "field": "data",
        "got": "shape (1, 1)",
        "expected": "shape (n, 5)",
        "hint": "send examples of that shape, or bind the module with yours by POST …/bind; one of "
        "the kind mutable takes any size that its net does",
    }
    for inputs, hint in (
        ({"data": [[[1], [2], [3], [4], [5]]]}, "reshape each example to [5]"),
        ({**GOOD["inputs"], "softmax_label": [1]}, "leave it out; labels are for training"),
        ({**GOOD["inputs"], "state": [1]}, "among its data_names"),
    ):
        response = await bound.post("/v1/modules/net/predict", json={"inputs": inputs})
        (row,) = (await refused(response, 422, "invalid"))["errors"]
        assert hint in row["hint"]
    await still_works(bound)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"data_names": ["x"]}, "arguments of the symbol: data, softmax_label"),
        ({"state_names": ["begin"]}, "arguments of the symbol: data, softmax_label"),
        ({"fixed_param_names": ["fc_wight"]}, "; did you mean 'fc_weight'?"),
    ],
)
async def test_names_of_unknown_arguments_are_refused(
    api: httpx.AsyncClient, network: dict, names: dict[str, list[str]], expected: str
) -> None:
    response = await api.post("/v1/modules", json={"name": "net", "symbol": network, **names})
    (row,) = (await refused(response, 422, "invalid"))["errors"]
    ((field, (got,)),) = names.items()
    assert (row["field"], row["got"]) == (field, got)
    assert expected in row["expected"]


async def test_a_symbol_as_text_is_refused_unless_it_is_a_graph(
    api: httpx.AsyncClient, network: dict
) -> None:
    for text in ("lenet-symbol.json", "[1]", '{"nodes": ', "\ud800"):
        body = json.dumps({"name": "net", "symbol": text}).encode()
        response = await api.post("/v1/modules", content=body)
        assert response.status_code in (400, 422), response.text
    body = {"name": "net", "symbol": json.dumps(network)}
    assert (await api.post("/v1/modules", json=body)).status_code == 201
    symbol = await api.get("/v1/modules/net/symbol")
    assert symbol.json()["nodes"] == network["nodes"]
    body = {"name": "two", "symbols": {"5": json.dumps(network)}, "default_bucket_key": 5}
    assert (await api.post("/v1/modules", json=body)).status_code == 201


def deep(depth: int, inside: str = "1") -> str:
    return "[" * depth + inside + "]" * depth


@pytest.mark.parametrize(
    ("tensor", "field"),
    [
        ('{"shape": [0, 4611686018427387904], "data": []}', "inputs.data.shape"),
        ('{"shape": [0, 1e30], "data": []}', "inputs.data.shape"),
        (f'{{"shape": [{"1, " * 64}1], "data": [1]}}', "inputs.data.shape"),
        (f'{{"shape": [1], "data": {deep(65)}}}', "inputs.data.data"),
        (deep(65), "inputs.data"),
        (deep(1000), "inputs.data"),
        (deep(300, '{"a": 1}'), "inputs.data"),
        (f'["{"a" * 1000}", "", ""]', "inputs.data"),
        ("[1, [2]]", "inputs.data"),
        ("[[1], 2]", "inputs.data"),
        ('{"data": {"data": [1]}}', "inputs.data.data"),
        ('{"data": "[1]", "dtype": "int8"}', "inputs.data.data"),
        ('{"data": [18446744073709551616], "dtype": "uint64"}', "inputs.data.data"),
        ('{"data": [1e400]}', "body"),
    ],
)
async def test_malformed_json_tensors_are_refused(
    initialized: httpx.AsyncClient, tensor: str, field: str
) -> None:
    body = f'{{"inputs": {{"data": {tensor}}}}}'
    response = await initialized.post("/v1/modules/net/predict", content=body)
    assert response.status_code in (400, 422), response.text
    if response.status_code == 422:
        assert response.json()["errors"][0]["field"] == field
    await still_works(initialized)


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "body",
    [
        npy("<f4", f"(0, {10**30})"),
        npy("<f4", f"({2**62}, 0)"),
        npy("<f4", f"({'1, ' * 65})", bytes(4)),
        npy("<f4", "(True, 5)", bytes(20)),
        npy("<f4", "(1, 5)", bytes(19)),
        npy("|V99999999", "(0,)"),
        npy("<U999999999", "(0,)"),
        npy("<f4" * 2000, "(1,)"),
    ],
)
async def test_malformed_npy_is_refused(initialized: httpx.AsyncClient, body: bytes) -> None:
    response = await initialized.post("/v1/modules/net/predict", content=body)
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["field"] == "body"
    response = await initialized.put("/v1/datasets/hostile?kind=npy", content=body)
    assert response.status_code == 422, response.text
    await still_works(initialized)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/modules", '{"name": "deep", "symbol": {"nodes": %s}}'),
        ("/v1/modules", '{"name": "deep", "symbols": {"1": {"nodes": %s}}}'),
        ("/v1/modules", '{"name": "deep", "compression_params": {"type": %s}}'),
        ("/v1/modules/net/bind", '{"data_shapes": %s}'),
        ("/v1/modules/net/bind", "%s"),
        ("/v1/modules/net/params/init", '{"initializer": "xavier", "options": {"a": %s}}'),
        ("/v1/modules/net/optimizer", '{"name": "sgd", "options": {"learning_rate": %s}}'),
        ("/v1/modules/net/fit", '{"dataset": "d", "callbacks": {"speedometer": {"a": %s}}}'),
        ("/v1/modules/net/forward", '{"inputs": {}, "monitor": %s}'),
        ("/v1/modules/net/predict", '{"inputs": %s}'),
        ("/v1/modules/net/load", '{"epoch": %s}'),
    ],
)
@pytest.mark.parametrize("depth", [99, 260, 1000])
async def test_deep_nesting_is_refused(
    initialized: httpx.AsyncClient, path: str, body: str, depth: int
) -> None:
    for inside in (deep(depth), '{"a":' * depth + "1" + "}" * depth):
        response = await initialized.post(path, content=body % inside)
        assert response.status_code in (400, 404, 422), response.text
    text = json.dumps({"name": "deep", "symbol": body % deep(depth)})
    assert (await initialized.post("/v1/modules", content=text)).status_code in (400, 422)
    await still_works(initialized)
