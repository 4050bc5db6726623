"""Optimizer states saved by MXNet's modules, loaded and saved again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.checkpoint import read_states

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adadelta": ("adadelta", {}),
    "adagrad": ("adagrad", {}),
    "adamax": ("adamax", {}),
    "ftml": ("ftml", {}),
    "ftrl": ("ftrl", {}),
    "lamb": ("lamb", {}),
    "lars": ("lars", {"momentum": 0.9}),
    "lbsgd": ("lbsgd", {"momentum": 0.9}),
    "nadam": ("nadam", {}),
    "nag": ("nag", {"momentum": 0.9}),
    "rmsc": ("rmsprop", {"centered": True}),
    "sgdmom": ("sgd", {"momentum": 0.9}),
    "sgld": ("sgld", {}),
    "signum": ("signum", {}),
}


def form(state: Any) -> Any:
    """Return a state with arrays replaced by (shape, dtype, context)."""
    if isinstance(state, mx.nd.NDArray):
        return state.shape, state.dtype, state.context
    if isinstance(state, (dict, tuple)):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        return type(state), {key: form(value) for key, value in items}
    return state


@pytest.mark.parametrize("sample", OPTIMIZERS)
def test_states_of_mxnets_modules_are_saved_again_unchanged(
    shared_dir: Path, tmp_path: Path, sample: str
) -> None:
    prefix = str(shared_dir / "formats" / f"st_local1_{sample}")
    original = Path(f"{prefix}-0001.states").read_bytes()
    name, options = OPTIMIZERS[sample]
    module = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
    module.bind([("data", (5, 4))], [("softmax_label", (5,))])
    module.init_optimizer(optimizer=name, optimizer_params=options)
    saved = tmp_path / "saved.states"
    module.save_optimizer_states(str(saved))
    assert saved.read_bytes() == original

    batch = mx.io.DataBatch([mx.nd.random.normal(shape=(5, 4))], [mx.nd.array([0, 1, 0, 1, 1])])
    before = {key: value.asnumpy() for key, value in module.get_params()[0].items()}
    module.forward_backward(batch)
    module.update()
    after = {key: value.asnumpy() for key, value in module.get_params()[0].items()}
    assert all(np.isfinite(value).all() for value in after.values())
    assert any((after[key] != before[key]).any() for key in before)
    module.save_optimizer_states(str(saved))
    written = saved.read_bytes()
    assert form(read_states(written)) == form(read_states(original))
    if name != "sgld":
        assert written != original
