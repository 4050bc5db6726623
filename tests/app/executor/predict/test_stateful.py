"""Recurrent networks fed in parts, in batches. Expected values: one long pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.codec import from_plain
from app.domain.module import (
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    ParamsSource,
)
from app.domain.sequence import SequencePart, SequenceStates
from app.domain.serving import StateLink
from app.errors.tree import HostError
from app.link import calls
from app.link.protocols import IncomingCall
from served.recurrent import FEATURES, FUSED, UNROLLED, fused, links, long_pass, unrolled

LENGTHS = (4, 2, 3)
"""Steps of the parts of a sequence."""
INIT = InitSpec(initializer="uniform", options={"scale": 0.7}, seed=3)


class Net:
    """A module on a host, and the parts of sequences requested of it."""

    def __init__(
        self, driver: Any, record: ModuleRecord, spec: BindSpec, states: list[Any]
    ) -> None:
        self.driver, self.record, self.spec = driver, record, spec
        self.states = SequenceStates(
            links=from_plain(tuple[StateLink, ...], states), most=100, idle_seconds=600.0
        )
        driver.ask(calls.CreateModule(record=record))
        driver.ask(calls.Bind(module="net", spec=spec))
        driver.ask(calls.InitParams(module="net", spec=INIT))

    def call(self, sequence_id: str, data: np.ndarray, **how: bool) -> IncomingCall:
        part = SequencePart(sequence_id=sequence_id, **how)
        asked = calls.Predict(module="net", part=part, states=self.states)
        _, params = calls.to_call(asked)
        return IncomingCall(1, "predict", params, {"data": data})

    def run(self, *asked: IncomingCall) -> tuple[int, list[np.ndarray]]:
        """Compute parts of different sequences together; return row counts and first outputs."""
        prepared = [self.driver.host.prepare(one) for one in asked]
        assert len({one.group for one in prepared}) == 1
        answers, facts = self.driver.host.predict(prepared)
        return facts.rows, [np.array(next(iter(one.tensors.values()))) for one in answers]

    def refusal(self, *asked: IncomingCall) -> HostError:
        with pytest.raises(HostError) as refusal:
            self.run(*asked)
        return refusal.value


def recurrent_net(
    driver: Any,
    make: Callable[[int], mx.sym.Symbol],
    states: tuple[str, ...],
    layout: str,
    steps: Sequence[int] = LENGTHS,
) -> Net:
    """Create a module with a bucket for each number of steps."""

    def shape(one: int) -> tuple[InputDesc, ...]:
        dims = {"N": 2, "T": one, "C": FEATURES}
        return (InputDesc(name="data", shape=tuple(dims[axis] for axis in layout), layout=layout),)

    record = ModuleRecord(
        name="net",
        kind=ModuleKind.BUCKETING,
        symbols={str(one): make(one).tojson() for one in steps},
        default_bucket_key=str(max(steps)),
        label_names=(),
        state_names=states,
    )
    spec = BindSpec(
        data_shapes=shape(max(steps)),
        for_training=False,
        buckets={str(n): BucketShapes(data_shapes=shape(n)) for n in steps if n != max(steps)},
    )
    return Net(driver, record, spec, links(make(max(steps)), states))


def lstm_net(driver: Any) -> Net:
    return recurrent_net(driver, lambda _: fused("lstm"), FUSED["lstm"], "TNC")


@pytest.mark.parametrize("mode", ["gru", "lstm"])
def test_parts_computed_together_match_one_long_pass(driver, mode):
    net = recurrent_net(driver, lambda _: fused(mode), FUSED[mode], "TNC")
    data = np.random.default_rng(0).normal(size=(sum(LENGTHS), 5, FEATURES)).astype("f")
    found = fed(net, data, 0)
    wanted = long_pass(fused(mode), driver.params(), data)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert np.abs(wanted).max() > 0.1


def test_parts_of_unrolled_cells_match_too(driver):
    net = recurrent_net(driver, unrolled, UNROLLED, "NTC")
    data = np.random.default_rng(1).normal(size=(5, sum(LENGTHS), FEATURES)).astype("f")
    found = fed(net, data, 1)
    wanted = long_pass(unrolled(sum(LENGTHS)), driver.params(), data)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def fed(net: Net, data: np.ndarray, steps_axis: int) -> np.ndarray:
    """Return the outputs of examples that are each a sequence, fed in parts."""
    found, at = [], 0
    for length in LENGTHS:
        piece = np.take(data, range(at, at + length), steps_axis)
        how = {"is_start": at == 0, "is_end": at + length == sum(LENGTHS)}
        at += length
        parts = [
            net.call(str(n), np.take(piece, [n], 1 - steps_axis), **how)
            for n in range(data.shape[1 - steps_axis])
        ]
        rows, outputs = net.run(*parts)
        assert rows == len(parts), "they are one batch"
        found.append(np.concatenate(outputs, 1 - steps_axis))
    return np.concatenate(found, steps_axis)


PART = np.random.default_rng(2).normal(size=(4, 1, FEATURES)).astype("f")


def test_a_part_of_an_unknown_sequence_is_refused(driver):
    net = lstm_net(driver)
    lost = net.refusal(net.call("a", PART))
    assert lost.code == "sequence_lost"
    assert lost.extensions == {"sequence_id": "a"}
    net.run(net.call("a", PART, is_start=True))
    assert net.refusal(net.call("b", PART)).code == "sequence_lost"
    net.run(net.call("a", PART, is_end=True))
    assert net.refusal(net.call("a", PART)).code == "sequence_lost"
    net.run(net.call("a", PART, is_start=True, is_end=True))
    assert net.refusal(net.call("a", PART)).code == "sequence_lost"


def test_a_sequence_restarts_only_after_it_has_ended(driver):
    net = lstm_net(driver)
    (_, (first,)) = net.run(net.call("a", PART, is_start=True))
    (_, (second,)) = net.run(net.call("a", PART))
    assert net.refusal(net.call("a", PART, is_start=True)).code == "conflict"
    (_, (third,)) = net.run(net.call("a", PART, is_end=True))
    (_, (again,)) = net.run(net.call("a", PART, is_start=True))
    np.testing.assert_array_equal(again, first)
    assert not np.allclose(second, first)
    wanted = long_pass(fused("lstm"), driver.params(), np.concatenate([PART] * 3))
    np.testing.assert_allclose(np.concatenate([first, second, third]), wanted, rtol=0, atol=1e-6)


def test_a_refused_part_does_not_change_the_states(driver):
    net = lstm_net(driver)
    net.run(net.call("a", PART, is_start=True))
    assert net.refusal(net.call("a", PART[:1])).field_name == "data"
    two = np.concatenate([PART, PART], 1)
    assert net.refusal(net.call("a", two)).message == (
        "inputs: got 2 examples, expected 1, as in the first part of sequence 'a'"
    )
    _, (found,) = net.run(net.call("a", PART))
    wanted = long_pass(fused("lstm"), driver.params(), np.concatenate([PART, PART]))[4:]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_a_part_may_have_several_examples(driver):
    net = lstm_net(driver)
    data = np.random.default_rng(3).normal(size=(8, 3, FEATURES)).astype("f")
    net.run(net.call("a", data[:4], is_start=True), net.call("b", PART, is_start=True))
    rows, (found, _) = net.run(net.call("a", data[4:]), net.call("b", PART))
    assert rows == 4
    wanted = long_pass(fused("lstm"), driver.params(), data)[4:]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_predictions_without_an_id_start_from_zeros_and_keep_no_states(driver):
    net = lstm_net(driver)
    net.run(net.call("a", PART, is_start=True))
    wanted = long_pass(fused("lstm"), driver.params(), PART)
    for _ in range(2):
        _, outputs = driver.ask(calls.Predict(module="net"), data=PART)
        np.testing.assert_allclose(outputs["rnn_output"], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("change", ["bind", "params", "init", "restore"])
def test_states_are_dropped_when_parameters_change(driver, change):
    net = lstm_net(driver)
    net.run(net.call("a", PART, is_start=True))
    waiting = driver.host.prepare(net.call("a", PART))
    if change == "bind":
        driver.ask(calls.Bind(module="net", spec=net.spec))
    elif change == "params":
        driver.ask(calls.SetParams(module="net"), **driver.params())
    elif change == "init":
        driver.ask(calls.InitParams(module="net", spec=INIT))
    else:
        driver.ask(calls.DeleteModule(module="net"))
        record = net.record.evolve(bind=net.spec, init=INIT, params=ParamsSource.INIT)
        driver.ask(calls.RestoreModule(record=record))
    assert net.refusal(net.call("a", PART)).code == "sequence_lost"
    with pytest.raises(HostError, match="has no states"):
        driver.host.predict([waiting])
    net.run(net.call("a", PART, is_start=True))
    net.run(net.call("a", PART))


def test_training_between_two_parts_keeps_the_sequence(driver):
    net = lstm_net(driver)
    net.run(net.call("a", PART, is_start=True))
    driver.ask(calls.Forward(module="net"), data=np.concatenate([PART, PART], 1))
    driver.host._loaded_modules.free_all(None)  # only its plans: the states keep the module
    net.run(net.call("a", PART))


def test_a_module_with_sequences_is_not_evicted(driver):
    net = lstm_net(driver)
    net.run(net.call("a", PART, is_start=True))
    net.run(net.call("b", PART, is_start=True))
    for sequence in ("a", "b"):
        driver.host._loaded_modules.free_all(None)
        net.run(net.call(sequence, PART, is_end=True))
    driver.host._loaded_modules.free_all(None)
    assert driver.refusal(calls.DescribeModule(module="net")).code == "not_resident"


@pytest.mark.parametrize(
    ("links", "field", "message"),
    [
        ([("x", "rnn_state_output")], "serving.states[0].state", "an input of the symbol"),
        ([("h", "x")], "serving.states[0].output", "one of rnn_output"),
        ([("h", "rnn_output")], "serving.states[0].output", "an output of the shape of 'h'"),
        ([("rnn_weight", "rnn_output")], "serving.states[0].state", "as long as the batch"),
    ],
)
def test_invalid_states_are_refused(driver, links, field, message):
    net = lstm_net(driver)
    states = tuple(StateLink(state=state, output=output) for state, output in links)
    net.states = SequenceStates(links=states, most=1, idle_seconds=1.0)
    refusal = net.refusal(net.call("a", PART, is_start=True))
    assert refusal.field_name == field
    assert message in refusal.message
