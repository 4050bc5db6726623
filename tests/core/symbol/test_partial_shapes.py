"""Partially known shapes, in both of MXNet's shape modes, as in its test_infer_shape.py."""

import pytest

import core as mx

U = "unknown"
X, Y, W = (mx.sym.Variable(name) for name in "xyw")
# (symbol, shapes given, shape of the output or None); from mxnet 1.9.1's test_infer_shape.py
CASES = [
    (mx.sym.sin(X), {}, None),
    (mx.sym.dot(X, Y), {"x": (U, 3, 4), "y": (4, 5)}, (U, 3, 5)),
    (mx.sym.batch_dot(X, Y), {"x": (U, 3, 4), "y": (U, 4, 5)}, (U, 3, 5)),
    (mx.sym.batch_dot(X, Y), {"x": (U, 3, 4), "y": (U, U, 5)}, None),
    (mx.sym.Embedding(X, W, input_dim=9, output_dim=2), {"x": (U, 5), "w": (9, 2)}, (U, 5, 2)),
    (mx.sym.transpose(X, axes=(0, 3, 2, 1)), {"x": (U, 3, 8, 9)}, (U, 9, 8, 3)),
    (mx.sym.pick(X, Y, axis=1), {"x": (U, 3, 3), "y": (U, 3)}, (U, 3)),
    (mx.sym.where(W, X, Y), {"w": (U, 2), "x": (U, 2), "y": (U, 2)}, (U, 2)),
]


@pytest.mark.parametrize(("mode", "unknown", "no_rank"), [(False, 0, ()), (True, -1, None)])
@pytest.mark.parametrize(("symbol", "given", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_unknown_lengths_pass_through(symbol, given, expected, mode, unknown, no_rank) -> None:
    def spell(shape):
        return tuple(unknown if dim == U else dim for dim in shape)

    with mx.np_shape(mode):
        _, outputs, _ = symbol.infer_shape_partial(**{k: spell(v) for k, v in given.items()})
    assert outputs == [no_rank if expected is None else spell(expected)]


@pytest.mark.parametrize(("mode", "unknown"), [(False, 0), (True, -1)])
def test_unknown_lengths_are_inferred_from_the_other_operand(mode: bool, unknown: int) -> None:
    with mx.np_shape(mode):
        left = mx.sym.Variable("a", shape=(unknown, 10))
        right = mx.sym.Variable("b", shape=(12, unknown))
        assert (left + right).infer_shape()[0] == [(12, 10), (12, 10)]


def test_a_layer_without_features_has_a_known_weight_under_np_shape() -> None:
    layer = mx.sym.FullyConnected(X, num_hidden=3, name="fc")
    with mx.np_shape(True):
        assert layer.infer_shape(x=(2, 0))[:2] == ([(2, 0), (3, 0), (3,)], [(2, 3)])
        assert layer.infer_shape_partial(x=(2, -1))[0] == [(2, -1), (3, -1), (3,)]
