"""Parameter files as other tools write them: without prefixes, sparse, or not to be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

X = np.random.RandomState(5).rand(2, 3, 6, 6).astype("f")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


def normalized() -> mx.sym.Symbol:
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="bn")
    return mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=2, name="fc")


def save(folder: Path, change: dict[str, mx.nd.NDArray] | None = None) -> tuple[list[Path], object]:
    """Write a net whose parameters have bare names; return its files, and its outputs for X."""
    module = mx.mod.Module(normalized(), label_names=None)
    module.bind([("data", X.shape)], for_training=False)
    module.init_params(mx.init.Uniform(0.5))
    arguments, auxiliary = module.get_params()
    arguments |= change or {}
    auxiliary["bn_moving_mean"][:] = 0.5
    auxiliary["bn_moving_var"][:] = 4.0
    module.set_params({name: one.tostype("default") for name, one in arguments.items()}, auxiliary)
    (folder / "net-symbol.json").write_text(normalized().tojson())
    mx.nd.save(str(folder / "net-0003.params"), {**arguments, **auxiliary})
    module.forward(mx.io.DataBatch([mx.nd.array(X)]), is_train=False)
    files = [folder / "net-symbol.json", folder / "net-0003.params"]
    return files, module.get_outputs()[0].asnumpy()


def test_bare_names_are_parameters(client: Client, tmp_path: Path) -> None:
    files, expected = save(tmp_path)
    created = client.create_from_files("bare", files)
    assert created["found"]["warnings"] == []
    client.bind("bare", [{"name": "data", "shape": [2, 3, 6, 6]}])
    (got,) = client.predict("bare", data=X).values()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_the_symbol_tells_which_bare_names_are_auxiliary(client: Client, tmp_path: Path) -> None:
    client.create_from_files("bare", save(tmp_path)[0])
    for checkpoint in ("live", "3"):
        if checkpoint == "live":
            client.bind("bare", [{"name": "data", "shape": [2, 3, 6, 6]}])
        rows = client.param_summary("bare", checkpoint=checkpoint)["items"]
        roles = {row["name"]: row["role"] for row in rows}
        assert roles["bn_moving_var"] == roles["bn_moving_mean"] == "auxiliary"
        assert roles["bn_gamma"] == roles["conv_weight"] == "parameter"


def test_sparse_parameters_become_dense(client: Client, tmp_path: Path) -> None:
    weight = mx.nd.zeros((2, 64))
    weight[1] = 0.25
    files, expected = save(tmp_path, {"fc_weight": weight.tostype("row_sparse")})
    client.create_from_files("sparse", files)
    client.bind("sparse", [{"name": "data", "shape": [2, 3, 6, 6]}])
    (got,) = client.predict("sparse", data=X).values()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_name_that_is_there_twice_is_refused(client: Client, tmp_path: Path) -> None:
    (symbol, params), _ = save(tmp_path)
    arrays = mx.nd.load(str(params))
    mx.nd.save(str(params), {**arrays, "arg:fc_bias": arrays["fc_bias"]})
    with pytest.raises(ClientError) as refused:
        client.create_from_files("twice", [symbol, params])
    (row,) = refused.value.problem["errors"]
    assert row["field"] == "params"
    assert "'fc_bias' is there twice, as 'fc_bias' and 'arg:fc_bias'" in row["got"]


def test_many_missing_parameters_are_one_sentence(client: Client, tmp_path: Path) -> None:
    x = mx.sym.Variable("data")
    for layer in range(27):
        x = mx.sym.BatchNorm(x, name=f"bn{layer}")
    (tmp_path / "deep-symbol.json").write_text(x.tojson())
    names = [name for name in x.list_arguments() if name != "data"]
    arrays = {f"arg:{name}": mx.nd.ones((3,)) for name in names}
    arrays |= {f"aux:bn{layer}_running_mean": mx.nd.ones((3,)) for layer in range(27)}
    mx.nd.save(str(tmp_path / "deep-0000.params"), arrays)
    files = [tmp_path / "deep-symbol.json", tmp_path / "deep-0000.params"]
    with pytest.raises(ClientError) as refused:
        client.create_from_files("deep", files)
    (row,) = refused.value.problem["errors"]
    assert row["got"].startswith("no tensor of 54: bn0_moving_mean, bn0_moving_var, bn1_")
    assert "the file has 'bn0_running_mean' where the symbol has 'bn0_moving_mean'" in row["hint"]
    assert len(refused.value.problem["detail"]) < 600


def test_a_net_cast_to_float16_is_bound_so(client: Client, tmp_path: Path) -> None:
    """Its symbol, as ``net.cast("float16")`` and ``export`` write it, fixes the input's dtype."""
    weight = mx.sym.Variable("fc_weight", dtype="float16", shape=(2, 3))
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2, no_bias=True)
    (tmp_path / "half-symbol.json").write_text(x.tojson())
    half = mx.nd.array([[1, 2, 3], [0, 1, 0]], dtype="float16")
    mx.nd.save(str(tmp_path / "half-0000.params"), {"arg:fc_weight": half})
    files = [tmp_path / "half-symbol.json", tmp_path / "half-0000.params"]
    client.create_from_files("half", files)
    bound = client.bind("half", for_training=False)
    assert bound["bind"]["data_shapes"][0]["dtype"] == "float16"
    (got,) = client.predict("half", data=np.array([[1, 1, 2]], "f")).values()
    assert (got.dtype, got.tolist()) == (np.float16, [[9, 1]])


def test_arrays_without_names_are_refused(client: Client, tmp_path: Path) -> None:
    (symbol, params), _ = save(tmp_path)
    mx.nd.save(str(params), list(mx.nd.load(str(params)).values()))
    with pytest.raises(ClientError) as refused:
        client.create_from_files("unnamed", [symbol, params])
    (row,) = refused.value.problem["errors"]
    assert "the arrays have no names" in row["got"]
    assert "copy" not in str(row)
