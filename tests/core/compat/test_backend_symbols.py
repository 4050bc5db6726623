"""``optimize_for`` and ``get_backend_symbol``: errors and log lines of MXNet 1.9.1."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import core as mx
from core.errors import MXNetError


def _net() -> mx.sym.Symbol:
    return mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=2, name="fc")


@pytest.mark.parametrize("backend", ["MKLDNN", "MKLDNN_QUANTIZE"])
def test_partitioning_for_a_backend_does_not_change_results(backend: str) -> None:
    net = _net()
    values = {"x": mx.nd.array([[1, 2]]), "fc_weight": mx.nd.ones((2, 2)), "fc_bias": mx.nd.ones(2)}
    for found in (
        net.optimize_for(backend, args={"x": mx.nd.ones((3, 4))}, ctx=mx.cpu(), inference=True),
        net.get_backend_symbol(backend),
    ):
        assert found is not net
        assert found.list_arguments() == net.list_arguments()
        assert found.infer_shape(x=(3, 4)) == net.infer_shape(x=(3, 4))
        assert found.eval(mx.cpu(), **values)[0].asnumpy().tolist() == [[4, 4]]


def test_unknown_backends_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    net = _net()
    with caplog.at_level(logging.ERROR):
        found = net.optimize_for("foo")
    assert "Error optimizing for backend 'foo' cannot be found" in caplog.text
    assert found.tojson() == net.tojson()
    with pytest.raises(MXNetError, match="SubgraphProperty foo is not found"):
        net.get_backend_symbol("foo")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"backend": None}, AssertionError),
        ({"args": [1]}, AssertionError),
        ({"aux": [1]}, AssertionError),
        ({"ctx": 3}, AssertionError),
        ({"shape_dict": {"x": 3}}, ValueError),
        ({"stype_dict": {"x": "y"}}, ValueError),
        ({"type_dict": {"x": "y"}}, TypeError),
    ],
)
def test_invalid_arguments_are_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        _net().optimize_for(**{"backend": "MKLDNN", **given})
