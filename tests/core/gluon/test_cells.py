"""Gluon's recurrent cells: graphs, names, results and files of MXNet 1.9.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import contrib, nn, rnn
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics import gluon_cells
from oracle.topics.recurrent import describe

CASES = list(gluon_cells.CASES)
FILES = ("hybrid_stack", "stack_of_both", "zoneout", "projected")


def _expected(case_id: str, key: str) -> np.ndarray:
    array: np.ndarray = golden_file.topic("gluon_cells")[f"{case_id}/{key}"]
    return array


@pytest.mark.parametrize("case_id", CASES)
def test_graphs_and_repr_match_mxnets(case_id: str) -> None:
    got = describe(mx, gluon_cells.graph(mx, case_id))
    assert json.loads(got) == json.loads(str(_expected(case_id, "graph")))
    assert repr(gluon_cells.make(mx, case_id)[0]) == str(_expected(case_id, "text"))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case_id", CASES)
def test_outputs_states_and_gradients_match_mxnets(case_id: str, compiled: bool) -> None:
    golden = golden_file.topic("gluon_cells")
    got = gluon_cells.compute(mx, case_id, compiled)
    others = {f"{case_id}/{key}" for key in ("graph", "text", "file")}
    assert set(got) == {
        key.removeprefix(f"{case_id}/") for key in golden if key.startswith(f"{case_id}/")
    } - {key.removeprefix(f"{case_id}/") for key in others}
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"])


@pytest.mark.parametrize("case_id", FILES)
def test_parameter_files_match_mxnets(case_id: str, tmp_path: Path) -> None:
    expected = _expected(case_id, "file").tobytes()
    assert gluon_cells.written(mx, case_id) == expected
    path = tmp_path / "cell.params"
    path.write_bytes(expected)
    cell, options = gluon_cells.make(mx, case_id)
    cell.load_parameters(str(path))
    data = {name: mx.nd.array(one) for name, one in gluon_cells.inputs(case_id).items()}
    outputs, _ = cell.unroll(gluon_cells.STEPS, data.pop("data"), **options, **data)
    first = outputs[0] if isinstance(outputs, list) else outputs
    assert_close(case_id, first.asnumpy(), _expected(case_id, "out0"))


class _Net(mx.gluon.HybridBlock):  # type: ignore[misc]
    """A cell unrolled inside a block, as scripts do."""

    def __init__(self, case_id: str) -> None:
        super().__init__(prefix="")
        self.cell, self.options = gluon_cells.make(mx, case_id)

    def hybrid_forward(self, F: Any, x: Any, *lengths: Any, **kwargs: Any) -> Any:
        options = {"valid_length": lengths[0]} if lengths else {}
        return self.cell.unroll(gluon_cells.STEPS, x, **self.options, **options)


@pytest.mark.parametrize("case_id", [one for one in CASES if one != "stack"])
def test_cells_inside_a_hybridized_block(case_id: str) -> None:
    net = _Net(case_id)
    net.initialize()
    net.hybridize()
    arrays = [mx.nd.array(one) for one in gluon_cells.inputs(case_id).values()]
    net(*arrays)
    gluon_cells.fill(mx, net)
    found = net(*arrays)
    flat = gluon_cells._flat(mx, found)
    for place, one in enumerate(flat):
        assert_close(f"{case_id} out{place}", one.asnumpy(), _expected(case_id, f"out{place}"))


LAYERS = {
    "rnn": 1,
    "lstm": 1,
    "lstm_lengths": 1,
    "gru_lengths_time_major": 1,
    "hybrid_stack": 2,
    "stack": 2,
    "both_merged": 2,
    "both_lengths": 2,
    "stack_of_both": 3,
    "residual_both": 2,
}


@pytest.mark.parametrize("grad_req", ["null", "write"])
@pytest.mark.parametrize("case_id", LAYERS)
def test_unrolled_cells_run_as_layers(case_id: str, grad_req: str) -> None:
    arrays = gluon_cells.inputs(case_id)
    shapes = {name.removeprefix("valid_"): one.shape for name, one in arrays.items()}
    shapes = {"lengths" if name == "length" else name: one for name, one in shapes.items()}
    executor = gluon_cells.graph(mx, case_id).simple_bind(mx.cpu(), grad_req, **shapes)
    executor.forward(is_train=grad_req == "write")
    (plan,) = executor._plans.values()
    names = [step.op.names[0] for step in plan.compiled.program.forward_steps]
    assert names.count("_plan_recurrent") == LAYERS[case_id]


def _filled(cell: Any, x: mx.nd.NDArray) -> Any:
    cell.initialize()
    cell.unroll(gluon_cells.STEPS, x)
    gluon_cells.fill(mx, cell)
    return cell


X = mx.nd.array(np.random.RandomState(1).normal(size=(2, 3, 4)))


def test_bidirectional_cells_with_lengths_merge_outputs_by_default() -> None:
    cell = _filled(gluon_cells._both(mx), X)
    lengths = mx.nd.array([1, 3])
    for layout, x in (("NTC", X), ("TNC", X.swapaxes(0, 1))):
        merged, _ = cell.unroll(3, x, layout=layout, merge_outputs=True, valid_length=lengths)
        found, _ = cell.unroll(3, x, layout=layout, valid_length=lengths)
        np.testing.assert_array_equal(found.asnumpy(), merged.asnumpy())


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_unfused_layers_give_the_same_results(kind: str, bidirectional: bool) -> None:
    layers = getattr(rnn, kind)(5, 2, dropout=0.5, bidirectional=bidirectional, layout="NTC")
    cells = layers._unfuse()
    layers.initialize()
    expected, states = layers(X, layers.begin_state(2))
    assert set(cells.collect_params()) == set(layers.collect_params())
    got, last = cells.unroll(3, X, merge_outputs=True)
    assert_close(kind, got.asnumpy(), expected.asnumpy())
    assert len(last) == len(states) * states[0].shape[0]
    assert_close(kind, last[0].asnumpy(), states[0].asnumpy()[0])


def test_begin_state_makes_arrays_or_variables() -> None:
    cell = rnn.LSTMCell(3, prefix="x_")
    zeros = cell.begin_state(batch_size=2)
    assert [state.shape for state in zeros] == [(2, 3), (2, 3)]
    assert cell.begin_state(2, mx.nd.ones, dtype="float64")[0].dtype == np.float64
    assert cell.begin_state(2, mx.nd.random.uniform, low=1, high=2)[1].asnumpy().min() >= 1
    cell.reset()
    fed = cell.begin_state(func=mx.sym.var)
    assert [state.name for state in fed] == ["x_begin_state_0", "x_begin_state_1"]
    assert fed[0].attr("__layout__") == "NC"
    assert rnn.LSTM(3, prefix="y_").begin_state(func=mx.sym.var)[1].name == "y_h0_1"


def test_activations_may_be_blocks() -> None:
    cell = _filled(rnn.RNNCell(4, nn.LeakyReLU(0.25), prefix="x_"), X)
    got, (state,) = cell(X[:, 0], cell.begin_state(2))
    linear = _filled(rnn.RNNCell(4, lambda it, **_: it, prefix="x_"), X)
    expected = linear(X[:, 0], linear.begin_state(2))[0].asnumpy()
    assert_close("leaky", got.asnumpy(), np.where(expected > 0, expected, expected / 4))
    np.testing.assert_array_equal(state.asnumpy(), got.asnumpy())


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("lengths", [None, [1, 3]])
def test_a_cell_as_the_body_of_a_loop(layout: str, lengths: list[int] | None) -> None:
    cell = _filled(rnn.LSTMCell(4, prefix="x_"), X)
    x = X if layout == "NTC" else X.swapaxes(0, 1)
    lengths = None if lengths is None else mx.nd.array(lengths)
    expected, states = cell.unroll(3, x, layout=layout, merge_outputs=True, valid_length=lengths)
    begin = cell.begin_state(2)
    unroll = contrib.rnn.rnn_cell.dynamic_unroll
    got, last = unroll(cell, x, begin, layout=layout, valid_length=lengths)
    assert_close("outputs", got.asnumpy(), expected.asnumpy())
    for one, other in zip(last, states, strict=True):
        assert_close("state", one.asnumpy(), other.asnumpy())
    mx.random.seed(1)  # so that some elements are dropped and some stay
    with mx.autograd.record():
        dropped, _ = unroll(cell, x, begin, drop_outputs=0.5, layout=layout)
    whole, _ = unroll(cell, x, begin, layout=layout)
    mask = dropped.asnumpy() / whole.asnumpy()
    time = layout.index("T")
    np.testing.assert_allclose(mask, np.repeat(mask.take([0], time), 3, time), atol=1e-5)
    assert set(np.round(mask).ravel()) == {0, 2}


def test_variational_dropout_uses_one_mask_for_all_steps() -> None:
    mx.random.seed(3)
    cell = contrib.rnn.VariationalDropoutCell(rnn.RNNCell(4, "relu"), drop_states=0.5)
    assert cell.begin_state(batch_size=2, func=mx.nd.zeros)[0].shape == (2, 4)
    ones = mx.nd.ones((2, 4))
    cell.initialize(mx.init.Zero())
    masks = []
    with mx.autograd.record():
        for _ in range(2):
            cell(ones, [ones])
            masks.append(cell.drop_states_mask.asnumpy())
        np.testing.assert_array_equal(masks[0], masks[1])
        cell.reset()
        assert cell.drop_states_mask is None


def test_zoneout_keeps_some_outputs_and_states() -> None:
    mx.random.seed(3)
    cell = rnn.ZoneoutCell(_filled(rnn.RNNCell(4), X), zoneout_outputs=0.5, zoneout_states=0.5)
    with mx.autograd.record():
        first, states = cell(X[:, 0], [mx.nd.ones((2, 4)) * 7])
        second, _ = cell(X[:, 1], states)
    assert {0.0} < set(first.asnumpy().ravel())
    assert 0 < (states[0].asnumpy() == 7).sum() < 8
    assert 0 < (second.asnumpy() == first.asnumpy()).sum() < 8


def test_invalid_arguments_are_refused() -> None:
    cell = rnn.LSTMCell(4)
    residual = rnn.ResidualCell(cell)
    with pytest.raises(UsageError, match="inside a modifier cell"):
        cell.begin_state()
    with pytest.raises(UsageError, match="One cell cannot be modified twice"):
        rnn.ZoneoutCell(cell)
    both = rnn.BidirectionalCell(residual, rnn.LSTMCell(4))
    stack = rnn.HybridSequentialRNNCell()
    stack.add(both)
    for one in (both, stack):
        with pytest.raises(UsageError, match="doesn't support zoneout"):
            rnn.ZoneoutCell(one)
        with pytest.raises(UsageError, match="doesn't support variational state dropout"):
            contrib.rnn.VariationalDropoutCell(one, drop_states=0.1)
    with pytest.raises(NotImplementedError, match="Please use unroll"):
        both(X[:, 0], [])
    with pytest.raises(UsageError, match="Please use unroll"):
        stack(X[:, 0], [])
    with pytest.raises(UsageError, match="have 3 steps on axis 1, expected 5"):
        rnn.GRUCell(4).unroll(5, X)
    with pytest.raises(UsageError, match="2 inputs for 3 steps"):
        rnn.GRUCell(4).unroll(3, [X[:, 0], X[:, 1]])
    with pytest.raises(UsageError, match="inputs=None"):
        rnn.GRUCell(4).unroll(3, None)
    with pytest.raises(UsageError, match="rate must be a number"):
        rnn.DropoutCell("much")
    with pytest.raises(UsageError, match="Only support odd number"):
        contrib.rnn.Conv2DRNNCell((3, 5, 5), 4, 3, 2)
    with pytest.raises(UsageError, match="For 1D convolution"):
        contrib.rnn.Conv1DGRUCell((3, 5), 4, (3, 3), 3)


def test_hybridized_names_count_steps_once(tmp_path: Path) -> None:
    cell = rnn.GRUCell(4, prefix="x_")
    cell.initialize()
    cell.hybridize()
    cell(X[:, 0], cell.begin_state(2))
    cell.export(str(tmp_path / "cell"))
    saved = mx.sym.load(str(tmp_path / "cell-symbol.json"))
    assert saved.list_outputs()[0] == "x_t0_out_output"
