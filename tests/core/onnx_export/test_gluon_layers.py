"""Recurrent layers of Gluon, whose parameters are joined in the graph, and a detector's end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import core as mx
from core import gluon
from core.onnx_export import export_onnx
from core.symbol import Symbol
from served.onnx_models import run_onnx

STEPS, INPUTS, STATE = 5, 3, 4

LAYERS = {
    "lstm": lambda: gluon.rnn.LSTM(STATE, input_size=INPUTS),
    "lstm, both directions, two layers": lambda: gluon.rnn.LSTM(
        STATE, num_layers=2, bidirectional=True, input_size=INPUTS
    ),
    "gru, batch first": lambda: gluon.rnn.GRU(STATE, layout="NTC", input_size=INPUTS),
    "rnn": lambda: gluon.rnn.RNN(STATE, input_size=INPUTS),
}


class Tagger(gluon.HybridBlock):
    """A network that begins its layer with zeros by itself."""

    def __init__(self) -> None:
        super().__init__(prefix="tagger_")
        with self.name_scope():
            self.words = gluon.nn.Embedding(9, INPUTS)
            self.layer = gluon.rnn.LSTM(STATE, layout="NTC", bidirectional=True, input_size=INPUTS)
            self.tags = gluon.nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.tags(self.layer(self.words(x)))


def exported(net: Any, folder: Path) -> tuple[Symbol, dict[str, np.ndarray]]:
    """Return what ``export`` writes for a network that was called once."""
    net.export(str(folder / "net"), 0)
    saved = mx.nd.load(str(folder / "net-0000.params"))
    parameters = {name.partition(":")[2]: one.asnumpy() for name, one in saved.items()}
    return mx.sym.load(str(folder / "net-symbol.json")), parameters


def compare(
    net: Any, model: Any, inputs: Mapping[str, np.ndarray], call: list[Any], count: int
) -> None:
    onnx.checker.check_model(model, full_check=True)
    outputs = net(*call)
    first, *states = outputs if isinstance(outputs, list | tuple) else [outputs]
    expected = [first, *(states[0] if states else [])]
    found = run_onnx(model, inputs)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.asnumpy(), rtol=1e-5, atol=1e-6)
    values = sum(int(np.prod(one.dims)) for one in model.graph.initializer)
    assert values < 1.2 * count, "each parameter is there once"


@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_and_its_states(name: str, tmp_path: Path) -> None:
    net = LAYERS[name]()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    axis = 0 if "batch first" in name else 1
    random = np.random.RandomState(4)

    def of_batch(batch: int) -> list[np.ndarray]:
        shape = (batch, STEPS, INPUTS) if axis == 0 else (STEPS, batch, INPUTS)
        states = [one.shape for one in net.begin_state(batch_size=batch)]
        return [random.uniform(-1, 1, one).astype("float32") for one in (shape, *states)]

    def call(arrays: list[np.ndarray]) -> list[Any]:
        data, *states = map(mx.nd.array, arrays)
        return [data, states]

    arrays = of_batch(2)
    net(*call(arrays))
    symbol, parameters = exported(net, tmp_path)
    names = [one for one in symbol.list_inputs() if one not in parameters]
    made = export_onnx(
        symbol,
        parameters,
        {one: array.shape for one, array in zip(names, arrays, strict=True)},
        batch_axes={one: axis if one == names[0] else 1 for one in names},
    )
    assert made.fixed_batch is None
    count = sum(one.size for one in parameters.values())
    for batch in (2, 7):
        arrays = of_batch(batch)
        given = dict(zip(names, arrays, strict=True))
        compare(net, made.model, given, call(arrays), count)


def test_a_network_with_a_recurrent_layer(tmp_path: Path) -> None:
    net = Tagger()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    net(mx.nd.array(np.ones((2, STEPS))))
    symbol, parameters = exported(net, tmp_path)
    made = export_onnx(symbol, parameters, {"data": (2, STEPS)})
    assert made.fixed_batch is None
    count = sum(one.size for one in parameters.values())
    for batch in (1, 6):
        words = np.random.RandomState(batch).randint(0, 9, (batch, STEPS)).astype("float32")
        compare(net, made.model, {"data": words}, [mx.nd.array(words)], count)


def test_a_parameter_that_passes_unchanged_keeps_its_name() -> None:
    weight = mx.sym.BlockGrad(mx.sym.Variable("weight"))
    symbol = mx.sym.broadcast_mul(mx.sym.Variable("data"), weight, name="product")
    made = export_onnx(symbol, {"weight": np.ones((1, 40), "float32")}, {"data": (3, 40)})
    assert [one.name for one in made.model.graph.initializer] == ["weight"]


@pytest.mark.parametrize("topk", [-1, 6])
@pytest.mark.parametrize("force", [False, True])
def test_the_end_of_a_detector_takes_any_batch(topk: int, force: bool) -> None:
    offsets, scores, anchors = (mx.sym.Variable(one) for one in ("offsets", "scores", "anchors"))
    boxes = mx.sym.contrib.box_decode(offsets, anchors, std0=0.1, std1=0.1, std2=0.2, std3=0.2)
    rows = mx.sym.concat(scores, boxes, dim=-1)
    best = mx.sym.contrib.box_nms(
        rows,
        overlap_thresh=0.4,
        valid_thresh=0.1,
        topk=topk,
        coord_start=2,
        score_index=1,
        id_index=0,
        force_suppress=force,
        out_format="center",
    )
    random = np.random.RandomState(2)
    centers = random.uniform(0, 1, (1, 20, 4)).astype("float32")

    def inputs(batch: int) -> dict[str, np.ndarray]:
        classes = random.randint(0, 3, (batch, 20, 1))
        found = [classes, random.randint(0, 9, (batch, 20, 1)) / 9]  # with equal scores
        return {
            "offsets": random.normal(0, 1, (batch, 20, 4)).astype("float32"),
            "scores": np.concatenate(found, axis=-1).astype("float32"),
        }

    shapes = {name: one.shape for name, one in inputs(2).items()}
    made = export_onnx(best, {"anchors": centers}, shapes)
    assert made.fixed_batch is None
    onnx.checker.check_model(made.model, full_check=True)
    for batch in (1, 5):
        given = inputs(batch)
        arrays = {name: mx.nd.array(one) for name, one in given.items()}
        (expected,) = best.eval(ctx=mx.cpu(), anchors=mx.nd.array(centers), **arrays)
        (found,) = run_onnx(made.model, given)
        np.testing.assert_allclose(found, expected.asnumpy(), rtol=1e-5, atol=1e-6)
        assert 0 < (expected.asnumpy()[..., 1] >= 0).sum() < batch * 20


@pytest.mark.parametrize("operator", ["ROIPooling", "ROIAlign"])
def test_regions_of_any_number(operator: str) -> None:
    function = {"ROIPooling": mx.sym.ROIPooling, "ROIAlign": mx.sym.contrib.ROIAlign}[operator]
    data, rois = mx.sym.Variable("data"), mx.sym.Variable("rois")
    symbol = function(data, rois, pooled_size=(3, 2), spatial_scale=0.5)
    made = export_onnx(
        symbol, {}, {"data": (2, 3, 8, 9), "rois": (4, 5)}, batch_axes={"data": -1, "rois": 0}
    )
    assert made.fixed_batch is None
    random = np.random.RandomState(1)
    features = random.normal(0, 1, (2, 3, 8, 9)).astype("float32")
    regions = np.array(
        [[0, 1, 2, 9, 8], [1, 0, 0, 17, 15], [-1, 0, 0, 5, 5], [1, 4.5, 3.5, 4.6, 3.6], [0] * 5],
        "float32",
    )
    given = {"data": features, "rois": regions}
    (expected,) = symbol.eval(ctx=mx.cpu(), **{k: mx.nd.array(v) for k, v in given.items()})
    (found,) = run_onnx(made.model, given)
    np.testing.assert_allclose(found, expected.asnumpy(), rtol=1e-5, atol=1e-6)
    assert not found[2].any()
