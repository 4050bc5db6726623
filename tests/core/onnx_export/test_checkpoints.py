"""Published models exported to ONNX: ONNX Runtime gives MXNet's outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import core as mx
from core.onnx_export import Export, export_onnx
from oracle.compare import assert_close
from oracle.shared import SHARED
from served.onnx_models import run_onnx

_FOLDER = SHARED / "checkpoints"
_TOLERANCE = 2e-4
"""Whole networks in another engine, each of whose layers rounds in its own way."""
_MODELS = sorted(path.parent.name for path in _FOLDER.glob("*/outputs.npz"))
_LOSSES = {
    "ocr_captcha_bilstm_ctc": ("makeloss0_output",),
    "recsys_opringle": ("log_loss_output", "make_loss0_loss"),
}
"""Outputs that need a label."""


def _npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


def _exported(name: str) -> tuple[Export, dict[str, np.ndarray]]:
    """Return the ONNX model and the inputs MXNet was run with."""
    folder = _FOLDER / name
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    labels = {*meta.get("label_inputs_zero", {}), "label"}
    inputs = {key: one for key, one in _npz(folder / "inputs.npz").items() if key not in labels}
    (file,) = folder.glob("*.params")
    loaded = mx.nd.load(str(file))
    made = export_onnx(
        mx.sym.load(str(folder / "model-symbol.json")),
        {key.partition(":")[2]: one.asnumpy() for key, one in loaded.items()},
        {key: one.shape for key, one in inputs.items()},
    )
    onnx.checker.check_model(made.model, full_check=True)
    return made, {key: one.astype("float32") for key, one in inputs.items()}


@pytest.mark.parametrize("name", _MODELS)
def test_outputs_match_mxnets(name: str) -> None:
    made, inputs = _exported(name)
    assert made.fixed_batch is None
    assert made.left_out == _LOSSES.get(name, ())
    outputs = [one.name for one in made.model.graph.output]
    expected = _npz(_FOLDER / name / "outputs.npz")
    assert {*outputs, *made.left_out} == set(expected)
    found = dict(zip(outputs, run_onnx(made.model, inputs), strict=True))
    for key, one in found.items():
        assert_close(f"{name} {key}", one, expected[key], _TOLERANCE)
    batch = min(one.shape[0] for one in inputs.values())
    larger = {key: np.concatenate([one, one[:1]]) for key, one in inputs.items()}
    for key, one in zip(outputs, run_onnx(made.model, larger), strict=True):
        if one.shape[0] == batch + 1:
            assert_close(f"{name} {key}, one row more", one[:batch], expected[key], _TOLERANCE)
