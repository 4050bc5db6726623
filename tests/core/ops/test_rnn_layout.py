"""The fused RNN's parameter vector and reserve space."""

from __future__ import annotations

import numpy as np
import pytest

from core.ops.rnn_layout import ReserveLayout, parameter_size, split_parameters


def test_weights_come_before_biases() -> None:
    size = parameter_size(layers=2, directions=2, inputs=3, hidden=2, gates=1)
    layers = split_parameters(np.arange(size), 2, 2, 3, 2, 1)
    firsts = [[[int(array.flat[0]) for array in cell[:4]] for cell in layer] for layer in layers]
    # Layer 0: two directions of (2, 3) and (2, 2); layer 1: two of (2, 4) and (2, 2); then biases.
    assert firsts == [[[0, 6, 44, 46], [10, 16, 48, 50]], [[20, 28, 52, 54], [32, 40, 56, 58]]]
    assert size == 60


def test_projection_weights_follow_the_layers_other_weights() -> None:
    size = parameter_size(layers=2, directions=1, inputs=3, hidden=2, gates=1, projected=1)
    layers = split_parameters(np.arange(size), 2, 1, 3, 2, 1, 1)
    firsts = [[int(array.flat[0]) for array in cell] for (cell,) in layers]
    # Layer 0: (2, 3), (2, 1) and (1, 2); layer 1: (2, 1), (2, 1) and (1, 2); then biases.
    assert firsts == [[0, 6, 16, 18, 8], [10, 12, 20, 22, 14]]
    assert size == 24


@pytest.mark.parametrize("has_dropout", [False, True])
@pytest.mark.parametrize("has_kept", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_reserve_is_split_without_gap_or_overlap(layers, has_kept, has_dropout) -> None:
    layout = ReserveLayout(
        steps=2,
        batch=3,
        hidden=4,
        state=2,
        gates=3,
        layers=layers,
        directions=2,
        has_kept=has_kept,
        has_dropout=has_dropout,
    )
    vector = np.zeros(layout.size())
    parts = [
        array
        for layer in layout.split(vector)
        for array in (*layer.gates, *layer.kept, layer.output, layer.dropped, layer.mask)
        if array is not None
    ]
    for array in parts:
        array += 1
    np.testing.assert_array_equal(vector, 1)
    assert {array.shape[:2] for array in parts} == {(2, 3)}
    last = layout.split(vector)[-1]
    assert (last.output, last.dropped, last.mask) == (None, None, None)
