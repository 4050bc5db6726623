"""``mx.onnx.export_model`` as MXNet's tutorials call it, with what ONNX Runtime computes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError

onnxruntime = pytest.importorskip("onnxruntime")


def _saved(tmp_path: Path) -> tuple[mx.mod.Module, str]:
    """Return a module with two inputs, a label and an auxiliary state, and its files' prefix."""
    joined = mx.sym.broadcast_add(mx.sym.Variable("data"), mx.sym.Variable("more"))
    dense = mx.sym.FullyConnected(mx.sym.BatchNorm(joined, name="bn"), num_hidden=2, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(dense, name="softmax"), ["data", "more"])
    module.bind([("data", (4, 3)), ("more", (4, 3))], [("softmax_label", (4,))])
    mx.random.seed(3)
    module.init_params(mx.init.Normal(1))
    module.save_checkpoint(str(tmp_path / "net"), 1)
    return module, str(tmp_path / "net")


def _inputs(rows: int) -> dict[str, Any]:
    random = np.random.RandomState(1)
    return {name: random.rand(rows, 3).astype("float32") for name in ("data", "more")}


def _computed(path: str, inputs: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def _expected(module: mx.mod.Module, inputs: dict[str, Any]) -> Any:
    batch = mx.io.DataBatch([mx.nd.array(one) for one in inputs.values()])
    module.forward(batch, is_train=False)
    return module.get_outputs()[0].asnumpy()


def test_files_symbols_and_dicts_are_exported(tmp_path: Path) -> None:
    module, prefix = _saved(tmp_path)
    path, inputs = str(tmp_path / "net.onnx"), _inputs(4)
    arguments, auxiliary = module.get_params()
    prefixed = mx.nd.load(f"{prefix}-0001.params")
    for symbol, params in (
        (f"{prefix}-symbol.json", f"{prefix}-0001.params"),
        (module._symbol, [arguments, auxiliary]),
        (module._symbol, {**arguments, **auxiliary}),
        (module._symbol, prefixed),
    ):
        found = mx.contrib.onnx.export_model(
            symbol, params, [(4, 3), (4, 3)], np.float32, path, verbose=True
        )
        assert found == path
        np.testing.assert_allclose(
            _computed(path, inputs), _expected(module, inputs), rtol=1e-5, atol=1e-6
        )


def test_the_batch_size_is_fixed_unless_dynamic(tmp_path: Path) -> None:
    module, _ = _saved(tmp_path)
    path, inputs = str(tmp_path / "net.onnx"), _inputs(6)
    options: dict[str, Any] = {"onnx_file_path": path, "run_shape_inference": True}
    shapes = [(4, 3), (4, 3)]
    mx.onnx.export_model(module._symbol, module.get_params(), shapes, **options)
    with pytest.raises(Exception, match="Got: 6 Expected: 4"):
        _computed(path, inputs)
    for more in ({}, {"dynamic_input_shapes": [(None, 3), ("rows", 3)]}):
        mx.onnx.export_model(
            module._symbol,
            module.get_params(),
            input_shape=shapes,
            input_type=[np.float32, "float32"],
            dynamic=True,
            **more,
            **options,
        )
        np.testing.assert_allclose(
            _computed(path, inputs), _expected(module, inputs), rtol=1e-5, atol=1e-6
        )


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    module, _ = _saved(tmp_path)
    symbol, params = module._symbol, module.get_params()
    with pytest.raises(UsageError, match="in_shapes has 1 for the 2 inputs data, more"):
        mx.onnx.export_model(symbol, params, [(4, 3)])
    with pytest.raises(UsageError, match="only its batch axis may be None"):
        mx.onnx.export_model(
            symbol,
            params,
            [(4, 3)] * 2,
            dynamic=True,
            dynamic_input_shapes=[(None, None), (None, 3)],
        )
    with pytest.raises(ValueError, match="expected a Symbol or its file"):
        mx.onnx.export_model(3, params, [(4, 3)] * 2)
    with pytest.raises(ValueError, match="params is int"):
        mx.onnx.export_model(symbol, 3, [(4, 3)] * 2)
    with pytest.raises(AttributeError, match="does not read them"):
        _ = mx.contrib.onnx.import_model


def test_operators_that_can_be_exported_are_listed() -> None:
    names = mx.onnx.get_operator_support()
    assert {"Convolution", "BatchNorm", "FullyConnected", "softmax"} <= set(names)
    assert "_contrib_boolean_mask" not in names
    with pytest.raises(UsageError, match="opset"):
        mx.onnx.get_operator_support(9)


def test_without_the_package_the_import_works_and_the_call_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [one for one in sys.modules if one.startswith("core.onnx_export")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'modserve\[onnx\]'"):
        mx.onnx.get_operator_support()
