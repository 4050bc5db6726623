"""24 published models: outputs match MXNet's, and so do three training steps of six of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from oracle.compare import assert_close
from oracle.shared import ROUNDING, SHARED

_FOLDER = SHARED / "checkpoints"
_TOLERANCE = {"adagrad": 2e-4, "rmsprop": 2e-4}
"""These divide each gradient by its own size: the rounding of one near zero becomes a step."""


def _models(file: str) -> list[str]:
    return sorted(path.parent.name for path in _FOLDER.glob(f"*/{file}"))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _load(name: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return symbol, arguments and auxiliary states."""
    (parameters,) = (_FOLDER / name).glob("*.params")
    prefix, epoch = parameters.stem.rsplit("-", 1)
    loaded: tuple[Any, dict[str, Any], dict[str, Any]] = mx.model.load_checkpoint(
        str(_FOLDER / name / prefix), int(epoch)
    )
    return loaded


@pytest.mark.parametrize("name", _models("outputs.npz"))
def test_outputs_match_mxnets(name: str) -> None:
    meta = _json(_FOLDER / name / "meta.json")
    symbol, arguments, auxiliary = _load(name)
    labels = meta.get("label_inputs_zero", {})
    fed = {key: np.zeros(shape, "float32") for key, shape in labels.items()}
    with np.load(_FOLDER / name / "inputs.npz") as inputs:
        fed.update({key: inputs[key] for key in inputs.files})
    module = mx.mod.Module(
        symbol,
        data_names=list(meta["inputs"]),
        label_names=list(labels) or None,
    )
    module.bind(
        [(key, tuple(shape)) for key, shape in meta["inputs"].items()],
        [(key, tuple(shape)) for key, shape in labels.items()] or None,
        for_training=False,
    )
    module.set_params(arguments, auxiliary, allow_extra=bool(meta.get("ignored_params")))
    module.forward(
        mx.io.DataBatch(
            data=[mx.nd.array(fed[key], dtype=fed[key].dtype) for key in meta["inputs"]],
            label=[mx.nd.array(fed[key]) for key in labels],
        ),
        is_train=False,
    )
    outputs = dict(zip(symbol.list_outputs(), module.get_outputs(), strict=True))
    with np.load(_FOLDER / name / "outputs.npz") as expected:
        assert set(expected.files) == set(outputs)
        for key in expected.files:
            assert_close(f"{name} {key}", outputs[key].asnumpy(), expected[key], ROUNDING.get(name))


class _Trained:
    """MXNet's results for one training run, and its batches."""

    def __init__(self, name: str) -> None:
        self.meta = _json(_FOLDER / name / "train_meta.json")
        with np.load(_FOLDER / name / "train_oracle.npz") as archive:
            arrays = {key: archive[key] for key in archive.files}
        self.data = {k.removeprefix("in/"): x for k, x in arrays.items() if k.startswith("in/")}
        self.labels = {
            k.removeprefix("label/"): x for k, x in arrays.items() if k.startswith("label/")
        }
        self.expected = arrays

    def shapes(self, arrays: dict[str, np.ndarray]) -> list[tuple[str, tuple[int, ...]]]:
        return [(key, x.shape[1:]) for key, x in arrays.items()]

    def batch(self, step: int) -> Any:
        return mx.io.DataBatch(
            data=[mx.nd.array(x[step]) for x in self.data.values()],
            label=[mx.nd.array(x[step]) for x in self.labels.values()],
        )


@pytest.mark.parametrize("name", _models("train_oracle.npz"))
def test_training_matches_mxnet(name: str) -> None:
    symbol, arguments, auxiliary = _load(name)
    oracle = _Trained(name)
    module = mx.mod.Module(symbol, data_names=list(oracle.data), label_names=list(oracle.labels))
    module.bind(oracle.shapes(oracle.data), oracle.shapes(oracle.labels), inputs_need_grad=True)
    module.init_params(arg_params=arguments, aux_params=auxiliary)
    module.init_optimizer(
        optimizer=oracle.meta["optimizer"], optimizer_params=oracle.meta["optimizer_params"]
    )
    results: dict[str, np.ndarray] = {}
    for step in range(oracle.meta["steps"]):
        module.forward(oracle.batch(step), is_train=True)
        module.backward()
        for key, output in zip(symbol.list_outputs(), module.get_outputs(), strict=True):
            results[f"step{step}/out/{key}"] = output.asnumpy()
        if step == 0:
            for key, gradient in zip(oracle.data, module.get_input_grads(), strict=True):
                results[f"step0/grad/{key}"] = gradient.asnumpy()
        module.update()
    trained, states = module.get_params()
    results.update({f"final/arg/{key}": x.asnumpy() for key, x in trained.items()})
    results.update({f"final/aux/{key}": x.asnumpy() for key, x in states.items()})
    if oracle.meta["optimizer"] == "signum":
        rate = oracle.meta["optimizer_params"]["learning_rate"]
        for key in trained:
            result = f"final/arg/{key}"
            _flip_steps(results[result], oracle.expected[result], rate)
    for key, got in results.items():
        tolerance = _TOLERANCE.get(oracle.meta["optimizer"], ROUNDING.get(name))
        assert_close(f"{name} {key}", got, oracle.expected[key], tolerance)


def _flip_steps(got: np.ndarray, expected: np.ndarray, rate: float) -> None:
    """Flip the steps of at most one weight in 10,000, in place.

    Signum steps by the sign of the momentum, which rounding may flip where it is near 0.
    """
    flipped = np.round((expected - got) / (2 * rate))
    assert np.count_nonzero(flipped) <= got.size / 10_000
    got += (2 * rate * flipped).astype(got.dtype)


@pytest.mark.parametrize("name", _models("train_oracle.npz"))
def test_first_gradients_match_mxnets(name: str) -> None:
    symbol, arguments, auxiliary = _load(name)
    oracle = _Trained(name)
    fed = {key: x[0] for key, x in {**oracle.data, **oracle.labels}.items()}
    expected = {
        key.removeprefix("step0/grad/"): x
        for key, x in oracle.expected.items()
        if key.startswith("step0/grad/")
    }
    executor = symbol.simple_bind(
        mx.cpu(),
        grad_req={key: "write" for key in expected},
        **{key: x.shape for key, x in fed.items()},
    )
    executor.copy_params_from(arguments, auxiliary)
    executor.forward(is_train=True, **{key: mx.nd.array(x) for key, x in fed.items()})
    executor.backward()
    for key, gradient in expected.items():
        assert_close(
            f"{name} {key}", executor.grad_dict[key].asnumpy(), gradient, ROUNDING.get(name)
        )


@pytest.mark.skipif(not _FOLDER.is_dir(), reason="no ../shared beside the repository")
def test_an_unregistered_custom_operator_is_refused() -> None:
    prefix = str(_FOLDER / "mtcnn_head_pnet" / "model")
    with pytest.raises(mx.MXNetError, match="Custom"):
        mx.model.load_checkpoint(prefix, 15)


@pytest.mark.skipif(not _FOLDER.is_dir(), reason="no ../shared beside the repository")
def test_parameters_of_another_symbol_are_refused() -> None:
    symbol, arguments, auxiliary = _load("lstnet_small")
    module = mx.mod.Module(symbol, data_names=["seq_data"], label_names=["seq_label"])
    module.bind([("seq_data", (30, 168, 321))], [("seq_label", (30, 321))])
    with pytest.raises(ValueError, match=r"'convolution0_bias' has shape \(10,\), expected \(1,\)"):
        module.set_params(arguments, auxiliary)
