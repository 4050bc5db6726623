"""Inferring shapes of inputs that were not given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import core as mx
from app.executor.modules.input_shapes import ShapeGuess, guess_shapes


def guess(
    symbol: mx.sym.Symbol, labels: tuple[str, ...] = (), given: dict | None = None, **shapes: tuple
) -> ShapeGuess:
    """Return the shapes inferred for a net bound with these shapes."""
    arguments, _, auxiliary = symbol.infer_shape(**shapes)
    names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
    params = dict(zip(names, (*arguments, *auxiliary), strict=True))
    inputs = [name for name in shapes if name not in labels]
    stored = {name: shape for name, shape in params.items() if name not in (*inputs, *labels)}
    return guess_shapes(symbol, stored, given or {}, inputs, labels)


def image(height: int) -> mx.sym.Symbol:
    """Return a net that fixes the number of rows of its images."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=2, name="conv")
    rows = mx.sym.SliceChannel(x, num_outputs=height, axis=2, squeeze_axis=True)
    return mx.sym.FullyConnected(rows[0], num_hidden=2, name="fc")


def recurrent(swapped: bool) -> mx.sym.Symbol:
    x = mx.sym.Variable("data")
    x = mx.sym.transpose(x, axes=(1, 0, 2)) if swapped else x
    return mx.sym.RNN(
        x,
        mx.sym.Variable("rnn_parameters"),
        mx.sym.Variable("state"),
        mode="gru",
        state_size=6,
        num_layers=2,
        bidirectional=True,
    )


def test_rectangular_images() -> None:
    assert guess(image(80), data=(2, 3, 80, 32)).shapes == {"data": (1, 3, 80, 32)}


def test_all_image_sizes_are_tried_beside_many_other_inputs() -> None:
    x = mx.sym.FullyConnected(image(80), num_hidden=4, name="last")
    states = [f"l{layer}_init_h" for layer in range(6)]
    for name in states:
        x = x + mx.sym.FullyConnected(mx.sym.Variable(name), num_hidden=4, name=f"{name}_to")
    shapes = {"data": (2, 3, 80, 32), **dict.fromkeys(states, (2, 9))}
    found = guess(x, **shapes)
    assert found.shapes == {"data": (1, 3, 80, 32), **dict.fromkeys(states, (1, 9))}


@pytest.mark.parametrize(
    ("swapped", "shape", "layouts"),
    [(True, (1, 10, 7), {}), (False, (10, 1, 7), {"data": "TNC"})],
)
def test_features_of_sequences_are_inferred(swapped: bool, shape: tuple, layouts: dict) -> None:
    found = guess(recurrent(swapped), data=(3, 4, 7), state=())
    assert found.shapes["data"] == shape
    assert found.layouts == layouts


def test_a_reshape_determines_everything() -> None:
    x = mx.sym.Reshape(mx.sym.Variable("data"), shape=(-1, 2, 9, 7))
    x = mx.sym.Convolution(x, kernel=(2, 2), num_filter=2, name="conv")
    assert guess(x, data=(5, 126)).shapes == {"data": (1, 2, 9, 7)}


def test_alternative_sizes_are_reported() -> None:
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, name="conv")
    found = guess(x, data=(1, 3, 50, 50))
    assert (found.shapes, found.free) == ({"data": (1, 3, 224, 224)}, ("data",))


def test_only_undetermined_dimensions_stay_open() -> None:
    known = mx.sym.FullyConnected(mx.sym.Variable("known"), num_hidden=4, name="fc")
    symbol = mx.sym.broadcast_add(known, mx.sym.sum(mx.sym.Variable("odd"), axis=(1, 2, 3)))
    found = guess(symbol, known=(4, 6), odd=(4, 2, 2, 2))
    assert found.open == ("odd",)
    assert guess(symbol, given={"odd": (4, 2, 2, 2)}, known=(4, 6), odd=(4, 2, 2, 2)).shapes == {
        "odd": (4, 2, 2, 2),
        "known": (4, 6),
    }


def test_labels_that_cannot_be_inferred_are_marked() -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, flatten=False, name="fc")
    x = mx.sym.transpose(x, axes=(1, 0, 2))
    symbol = mx.sym.CTCLoss(x, mx.sym.Variable("label"))
    found = guess(symbol, ("label",), {"data": (2, 12, 5)}, data=(2, 12, 5), label=(2, 3))
    assert (found.usual, found.shapes["label"]) == (("label",), (2, 12))


@pytest.mark.parametrize("prepare", [mx.sym.sqrt, mx.sym.LeakyReLU], ids=["sqrt", "leaky"])
def test_operators_before_the_first_layer_that_keep_features(
    prepare: Callable[[mx.sym.Symbol], mx.sym.Symbol],
) -> None:
    x = prepare(mx.sym.Variable("data"))
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="conv")
    assert guess(x, data=(1, 3, 50, 50)).shapes == {"data": (1, 3, 224, 224)}


def test_images_whose_channels_come_last() -> None:
    x = mx.sym.transpose(mx.sym.Variable("data"), axes=(0, 3, 1, 2))
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="conv")
    found = guess(x, data=(1, 50, 50, 3))
    assert (found.shapes, found.free) == ({"data": (1, 224, 224, 3)}, ("data",))


def halved(times: int) -> mx.sym.Symbol:
    x = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(3, 3), num_filter=2, pad=(1, 1), name="conv"
    )
    for _ in range(times):
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    return mx.sym.FullyConnected(x, num_hidden=3, name="fc")


@pytest.mark.parametrize(
    ("times", "size", "guessed", "fitting"),
    [
        (6, 192, 224, (192, 255)),
        (5, 160, 160, (160, 191)),
        (3, 136, 136, (136, 143)),
        (0, 27, 27, None),
    ],
)
def test_the_sizes_that_fit_are_told(
    times: int, size: int, guessed: int, fitting: tuple[int, int] | None
) -> None:
    found = guess(halved(times), data=(1, 3, size, size))
    assert found.shapes == {"data": (1, 3, guessed, guessed)}
    assert found.ranges == ({} if fitting is None else {"data": fitting})
    for side in fitting or ():
        assert guess(halved(times), data=(1, 3, side, side)).ranges == found.ranges


def test_a_shape_in_the_file_is_taken() -> None:
    """As Keras-MXNet writes it."""
    x = mx.sym.transpose(mx.sym.Variable("data", shape=(0, 40, 30, 1)), axes=(0, 3, 1, 2))
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=2, name="conv")
    found = guess(x, data=(2, 40, 30, 1))
    assert (found.shapes, found.free, found.ranges) == ({"data": (1, 40, 30, 1)}, (), {})


def test_unrolled_cells_tell_the_sequence() -> None:
    cell = mx.rnn.LSTMCell(8, prefix="l_")
    outputs, _ = cell.unroll(7, mx.sym.Variable("data"), layout="NTC", merge_outputs=True)
    assert guess(outputs, data=(2, 7, 5)).shapes == {"data": (1, 7, 5)}


@pytest.mark.parametrize(("layout", "shape"), [("TNC", (10, 1, 5)), ("NTC", (1, 10, 5))])
def test_recurrent_layers_of_gluon_tell_the_features(layout: str, shape: tuple) -> None:
    layer = mx.gluon.rnn.LSTM(6, num_layers=2, layout=layout, bidirectional=True)
    layer.initialize()
    assert guess(layer(mx.sym.Variable("data")), data=(3, 2, 5)).shapes == {"data": shape}


def test_parts_of_the_data_tell_the_whole() -> None:
    data = mx.sym.Variable("data")
    parts = [
        mx.sym.Embedding(
            mx.sym.slice_axis(data, axis=1, begin=index, end=index + 1),
            input_dim=9,
            output_dim=4,
            name=f"e{index}",
        )
        for index in range(3)
    ]
    x = mx.sym.FullyConnected(mx.sym.Concat(*parts, dim=2), num_hidden=2, name="fc")
    assert guess(x, data=(4, 3)).shapes == {"data": (1, 3)}


def test_a_batch_that_the_graph_fixes() -> None:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=6, name="embed")
    x = mx.sym.Reshape(x, shape=(50, 1, 56, 6))
    x = mx.sym.Convolution(x, kernel=(3, 6), num_filter=2, name="conv")
    assert guess(x, data=(50, 56)).shapes == {"data": (50, 56)}


def test_casts_of_mixed_precision_are_passed() -> None:
    x = mx.sym.amp_cast(mx.sym.Variable("data"), dtype="float16")
    x = mx.sym.FullyConnected(x, num_hidden=2, name="fc")
    assert guess(x, data=(2, 7)).shapes == {"data": (1, 7)}
