"""``prefix-symbol.json`` and ``prefix-0010.params``."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core import model, nd
from core.checkpoint import (
    load_checkpoint,
    load_params,
    load_params_by_name,
    save_checkpoint,
    write_atomically,
)
from core.errors import FormatError, MXNetError


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "net")


def network() -> mx.symbol.Symbol:
    return mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")


def test_a_saved_checkpoint_is_loaded_again(
    prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = {"fc_weight": nd.array([[1, 2], [3, 4]], ctx=mx.cpu(1)), "fc_bias": nd.zeros(2)}
    with caplog.at_level(logging.INFO):
        save_checkpoint(prefix, 7, network(), arguments, {"mean": nd.ones(3)})
    assert f'Saved checkpoint to "{prefix}-0007.params"' in caplog.messages
    assert {path.name for path in tmp_path.iterdir()} == {"net-symbol.json", "net-0007.params"}
    symbol, loaded, auxiliary = load_checkpoint(prefix, 7)
    assert symbol.tojson() == network().tojson()
    assert loaded["fc_weight"].asnumpy().tolist() == [[1, 2], [3, 4]]
    assert loaded["fc_weight"].context == mx.cpu(0)
    assert auxiliary["mean"].asnumpy().tolist() == [1, 1, 1]


def test_a_checkpoint_without_a_symbol(prefix: str, tmp_path: Path) -> None:
    save_checkpoint(prefix, 12345, None, {"w": nd.ones(1)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["net-12345.params"]
    assert load_params(prefix, 12345)[0]["w"].asscalar() == 1


def test_parameters_with_other_prefixes_are_ignored(prefix: str) -> None:
    nd.save(
        f"{prefix}-0000.params", {"arg:w": nd.ones(1), "foo:x": nd.ones(1), "aux:a:b": nd.ones(1)}
    )
    arguments, auxiliary = load_params(prefix, 0)
    assert list(arguments) == ["w"]
    assert list(auxiliary) == ["a:b"]


def test_parameters_without_a_prefix_are_refused(prefix: str) -> None:
    nd.save(f"{prefix}-0000.params", {"weight": nd.ones(1)})
    with pytest.raises(ValueError, match="'weight' has no prefix"):
        load_params(prefix, 0)
    nd.save(f"{prefix}-0001.params", [nd.ones(1)])
    with pytest.raises(ValueError, match="no names"):
        load_params(prefix, 1)


def test_an_empty_file_warns(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    nd.save(f"{prefix}-0000.params", {})
    assert load_params(prefix, 0) == ({}, {})
    assert "is empty" in caplog.text


def test_missing_and_damaged_files_are_refused(prefix: str) -> None:
    with pytest.raises(MXNetError, match=r"net-0003\.params"):
        load_params(prefix, 3)
    Path(f"{prefix}-0003.params").write_bytes(b"nothing like it")
    with pytest.raises(FormatError, match=r"net-0003\.params"):
        load_params(prefix, 3)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("core.ndarray.files.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_files_get_the_default_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ours", b"x")
    (tmp_path / "usual").write_bytes(b"x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_batch_end_param_holds_its_fields() -> None:
    param = model.BatchEndParam(epoch=1, nbatch=2, eval_metric=None, locals={"a": 1})
    assert (param.epoch, param.nbatch, param.eval_metric, param.locals) == (1, 2, None, {"a": 1})
    assert model.BatchEndParam(1, 2, None, None).locals is None


def test_a_checkpoint_of_mxnet_is_read(shared_dir: Path) -> None:
    prefix = str(shared_dir / "formats" / "st_local1_sgdmom")
    symbol, arguments, auxiliary = load_checkpoint(prefix, 1)
    assert set(symbol.list_arguments()) - set(arguments) == {"data", "softmax_label"}
    assert arguments["fc1_weight"].shape == (3, 4)
    assert not auxiliary
    assert np.isfinite(arguments["fc1_weight"].asnumpy()).all()


def test_names_without_prefixes_are_read_on_request(prefix: str) -> None:
    path = f"{prefix}-0000.params"
    nd.save(
        path, {"w": nd.ones(1), "a:0": nd.ones(2), "rows": nd.zeros((3, 2), stype="row_sparse")}
    )
    loaded = load_params_by_name(path)
    assert {name: (one.shape, one.stype) for name, one in loaded.items()} == {
        "w": ((1,), "default"),
        "a:0": ((2,), "default"),
        "rows": ((3, 2), "default"),
    }
    nd.save(
        path, {"arg:w": nd.ones(1), "foo:x": nd.ones(1), "aux:a:b": nd.ones(1), "v": nd.ones(1)}
    )
    assert list(load_params_by_name(path)) == ["w", "a:b", "v"]
    nd.save(path, {"arg:w": nd.ones(1), "w": nd.ones(1)})
    with pytest.raises(ValueError, match="'w' is there twice"):
        load_params_by_name(path)
