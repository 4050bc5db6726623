"""Inspecting a module: its graph, the time of its steps, statistics of its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from served import padded_sums
from served.network import BIND, NETWORK

SHAPE = (2, 3, 8, 8)


def network() -> Any:
    """Return a convolution with fused operators, a view, and a layer on top."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name="bn")
    net = mx.sym.Activation(net, act_type="relu", name="relu")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of a server with a module ``looked``."""
    with Client(server.url) as client:
        client.create_module("looked", network().tojson())
        client.bind(
            "looked",
            [{"name": "data", "shape": SHAPE}],
            [{"name": "softmax_label", "shape": SHAPE[:1]}],
        )
        client.init_params("looked", "xavier", seed=3)
        yield client
        client.delete_module("looked")


def test_a_graph_lists_parameters_with_their_node_and_all_shapes(client: Client) -> None:
    graph = client.graph("looked")
    assert graph["is_bound"]
    nodes = graph["nodes"]
    assert [one["name"] for one in nodes] == [
        *("data", "conv", "bn", "relu", "flat", "fc", "softmax_label", "softmax")
    ]
    conv = nodes[1]
    assert conv["operator"] == "Convolution"
    assert conv["attributes"]["kernel"] == "(3, 3)"
    assert conv["inputs"] == [{"node": 0, "output": 0, "name": "data"}]
    assert [(one["name"], one["input"], one["shape"]) for one in conv["parameters"]] == [
        ("conv_weight", "weight", [4, 3, 3, 3]),
        ("conv_bias", "bias", [4]),
    ]
    assert [one["role"] for one in nodes[2]["parameters"]] == [
        *("parameter", "parameter", "auxiliary", "auxiliary")
    ]
    assert (nodes[0]["role"], nodes[6]["role"], conv["role"]) == ("data", "label", None)
    assert graph["outputs"] == [{"node": 7, "output": 0, "name": "softmax_output"}]
    internals = network().get_internals()
    _, shapes, _ = internals.infer_shape(data=SHAPE)
    expected = dict(zip(internals.list_outputs(), map(list, shapes), strict=True))
    for node in nodes:
        for one in node["outputs"]:
            assert one["shape"] == expected[one["name"]], one
            assert one["dtype"] == "float32"


def test_each_bucket_has_its_own_shapes(client: Client) -> None:
    padded_sums.create(client, "lengths")
    try:
        for key, steps in (("6", 6), (None, 12)):
            graph = client.graph("lengths", key)
            assert graph["bucket"] == str(steps)
            data = next(one for one in graph["nodes"] if one["name"] == "data")
            assert data["outputs"][0]["shape"] == [padded_sums.BATCH, steps, padded_sums.FEATURES]
        with pytest.raises(ClientError, match="expected one of 12, 6") as refused:
            client.graph("lengths", "7")
        assert refused.value.status == 404
        assert client.profile("lengths", bucket="6", runs=1)["bucket"] == "6"
    finally:
        client.delete_module("lengths")


def test_an_unbound_module_has_a_graph_without_shapes(client: Client) -> None:
    client.create_module("bare", NETWORK)
    try:
        graph = client.graph("bare")
        assert not graph["is_bound"]
        assert [one["name"] for one in graph["nodes"]] == ["data", "fc", "softmax_label", "softmax"]
        assert graph["nodes"][1]["outputs"] == [{"name": "fc_output", "shape": None, "dtype": None}]
        for ask in (client.profile, client.param_summary):
            with pytest.raises(ClientError, match="wrong_stage") as refused:
                ask("bare")
            assert refused.value.status == 409
    finally:
        client.delete_module("bare")


def test_fused_nodes_are_reported_together(client: Client) -> None:
    profile = client.profile("looked", runs=3, batch=2)
    assert (profile["batch"], profile["runs"], profile["device"]) == (2, 3, "cpu(0)")
    steps = profile["steps"]
    together = [one["nodes"] for one in steps if one["nodes"]]
    told = Counter(name for names in together for name in set(names))
    # Fused into one step where a kernel supports it; separate operators elsewhere.
    assert together in (
        [["conv", "bn", "relu"], ["fc"], ["softmax"]],
        [["conv"], ["bn", "relu"], ["fc"], ["softmax"]],
        [["conv"], ["bn"], ["relu"], ["fc"], ["softmax"]],
    )
    assert set(told) == {"conv", "bn", "relu", "fc", "softmax"}, "flat computes nothing"
    for step in steps:
        assert 0 < step["least_seconds"] <= step["seconds"] < 60
        assert (step["copied"] is None) == bool(step["nodes"])
    assert profile["seconds"] > 0


def test_predictions_and_profiling_do_not_interfere(client: Client) -> None:
    data = np.random.default_rng(0).normal(size=SHAPE).astype("f")
    expected = client.predict("looked", data=data)["softmax_output"]
    before = client.params("looked")
    with ThreadPoolExecutor(1) as pool:
        profiling = pool.submit(client.profile, "looked", runs=100)
        while not profiling.done():
            np.testing.assert_array_equal(
                client.predict("looked", data=data)["softmax_output"], expected
            )
        assert profiling.result()["runs"] == 100
    for name, value in client.params("looked").items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"runs": 0}, "runs"),
        ({"runs": 101}, "runs"),
        ({"batch": 0}, "batch"),
        ({"batch": 5000}, "at most 64"),
        ({"speed": 1}, "speed"),
    ],
)
def test_what_cannot_be_profiled_is_refused(
    client: Client, body: dict[str, Any], told: str
) -> None:
    with pytest.raises(ClientError, match=told) as refused:
        client.profile("looked", **body)
    assert refused.value.status == 422


def check(figures: dict[str, Any], values: np.ndarray, span: tuple[float, float]) -> None:
    """Compare the reported statistics with NumPy's over the whole array at once."""
    wide = values.astype(np.float64).reshape(-1)
    finite = wide[np.isfinite(wide)]
    assert (figures["shape"], figures["dtype"]) == (list(values.shape), values.dtype.name)
    assert figures["count"] == values.size
    assert figures["nan"] == np.isnan(wide).sum()
    assert figures["infinite"] == np.isinf(wide).sum()
    for name, expected in (
        ("norm", np.linalg.norm(finite)),
        ("mean", finite.mean()),
        ("std", finite.std()),
        ("min", finite.min()),
        ("max", finite.max()),
    ):
        assert figures[name] == pytest.approx(expected, rel=1e-9, abs=1e-12), name
    counts, edges = np.histogram(finite, 32, span)
    assert figures["histogram"]["counts"] == counts.tolist()
    assert figures["histogram"]["low"] == pytest.approx(edges[0])
    assert figures["histogram"]["high"] == pytest.approx(edges[-1])


def test_statistics_match_numpys(client: Client) -> None:
    params = client.params("looked")
    damaged = params["fc_weight"].copy()
    damaged[0, :3] = np.nan, np.inf, -np.inf
    client.set_params("looked", params | {"fc_weight": damaged}, allow_nonfinite=True)
    summary = client.param_summary("looked")
    assert (summary["checkpoint"], summary["against"]) == ("live", None)
    rows = {one["name"]: one for one in summary["items"]}
    assert rows.keys() == params.keys()
    assert rows["bn_moving_var"]["role"] == "auxiliary"
    for name, row in rows.items():
        values = damaged if name == "fc_weight" else params[name]
        finite = values[np.isfinite(values)].astype(np.float64)
        check(row, values, (finite.min(), finite.max()))
        assert (row["against"], row["change"]) == (None, None)
    client.set_params("looked", params)


def test_two_checkpoints_are_compared(client: Client, tmp_path: Path) -> None:
    before = client.params("looked")
    client.save_checkpoint("looked", 1)
    random = np.random.default_rng(1)
    after = {
        name: (value + random.normal(size=value.shape)).astype(value.dtype)
        for name, value in before.items()
    }
    client.set_params("looked", after)
    client.save_checkpoint("looked", 2)
    for own in ("live", 2):
        summary = client.param_summary("looked", own, against=1)
        assert (summary["checkpoint"], summary["against"]) == (str(own), "1")
        assert summary["missing"] == []
        for row in summary["items"]:
            new, old = (one[row["name"]].astype(np.float64) for one in (after, before))
            span = min(new.min(), old.min()), max(new.max(), old.max())
            check(row, after[row["name"]], span)
            check(row["against"] | {"dtype": "float32"}, before[row["name"]], span)
            norm = np.linalg.norm(old)
            moved = np.linalg.norm(new - old)
            expected = pytest.approx(moved / norm, rel=1e-6) if norm else None
            assert row["change"] == expected, row["name"]
    same = client.param_summary("looked", 1, against=1)
    assert {row["change"] for row in same["items"]} <= {0, None}
    for query, field in (
        ("checkpoint=9", "9"),
        ("against=9", "9"),
        ("checkpoint=x", "checkpoint"),
        ("against=live", "against"),
        ("bins=0", "bins"),
    ):
        with pytest.raises(ClientError, match=field) as refused:
            client.request("GET", f"/v1/modules/looked/param_summary?{query}")
        assert refused.value.status in (404, 422)


def test_statistics_of_checkpoints_need_no_bound_module(client: Client) -> None:
    client.create_module("other", NETWORK)
    try:
        client.bind("other", **BIND)
        client.init_params("other", seed=1)
        client.save_checkpoint("other", 3)
        told = client.param_summary("other", 3)
        client.request("POST", "/v2/repository/models/other/unload")
        assert client.module("other")["resident"] is False
        assert client.param_summary("other", 3) == told
        assert client.module("other")["resident"] is False
    finally:
        client.delete_module("other")
