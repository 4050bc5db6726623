"""The layout of fused parameters, against known sizes of MXNet's RNN operator."""

from __future__ import annotations

import pytest

from core.ops.rnn_packing import GATES, input_size_of, packed_arrays, packed_size


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_arrays_fill_the_vector_without_gaps(mode: str, bidirectional: bool, layers: int) -> None:
    arrays = list(packed_arrays(mode, layers, 4, 7, bidirectional))
    stops = [0, *(one.stop for one in arrays)]
    assert [one.start for one in arrays] == stops[:-1]
    assert stops[-1] == packed_size(mode, layers, 4, 7, bidirectional)
    assert len({one.name for one in arrays}) == len(arrays)
    kinds = [one.name.rsplit("_", 1)[1] for one in arrays]
    assert kinds == sorted(kinds, reverse=True)


def test_size_of_an_lstm_layer() -> None:
    # 4 gates of input-to-hidden and hidden-to-hidden weights, and two biases.
    assert packed_size("lstm", 1, 200, 200, False) == 4 * (200 * 200 + 200 * 200 + 2 * 200)


def test_input_size_is_found_from_the_vectors_size() -> None:
    size = packed_size("gru", 2, 5, 11, True)
    assert input_size_of(size, "gru", 2, 5, True) == 11
    with pytest.raises(ValueError, match="cannot hold the parameters of 2 gru layers of 5 units"):
        input_size_of(size + 1, "gru", 2, 5, True)
