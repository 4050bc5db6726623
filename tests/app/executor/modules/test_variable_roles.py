"""Classifying the variables of a symbol."""

from __future__ import annotations

import pytest

import core as mx
from app.executor.modules.inspection import examine
from app.executor.modules.variable_roles import GivenNames, Roles, find_roles
from served.awkward_models import HIDDEN, detector, reader


def stored(symbol: mx.sym.Symbol, *inputs: str, **shapes: tuple[int, ...]) -> dict:
    """Return the shapes of everything but the inputs, given the inputs' shapes."""
    arguments, _, auxiliary = symbol.infer_shape(**shapes)
    names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
    every = dict(zip(names, (*arguments, *auxiliary), strict=True))
    return {name: shape for name, shape in every.items() if name not in (*shapes, *inputs)}


def net(*names: str) -> mx.sym.Symbol:
    """Return a layer for each name, concatenated."""
    layers = [
        mx.sym.FullyConnected(mx.sym.Variable(name), num_hidden=3, name=f"fc_{name}")
        for name in names
    ]
    return mx.sym.Concat(*layers)


READER = stored(reader(), "l0_init_c", data=(1, 1, 8, 6), l0_init_h=(1, HIDDEN), label=(1, 2))


@pytest.mark.parametrize(
    ("symbol", "params", "expected"),
    [
        (
            detector(),
            stored(detector(), "label", data=(1, 3, 9, 9)),
            Roles(data=("data",), labels=("label",), states=()),
        ),
        (
            reader(),
            READER,
            Roles(data=("data",), labels=("label",), states=("l0_init_h", "l0_init_c")),
        ),
        (
            net("left", "right"),
            stored(net("left", "right"), left=(1, 4), right=(1, 7)),
            Roles(data=("left", "right"), labels=(), states=()),
        ),
        (
            detector(),
            {"conv_weight": (4, 3, 3, 3), "fc_bias": (2,), "old": (1,)},
            Roles(
                data=("data",),
                labels=("label",),
                states=(),
                missing=("conv_bias", "fc_weight"),
                extra=("old",),
            ),
        ),
    ],
    ids=["label", "reader", "two inputs", "missing and extra"],
)
def test_roles_with_a_parameter_file(symbol: mx.sym.Symbol, params: dict, expected: Roles) -> None:
    assert find_roles(symbol, params) == expected


def test_a_label_is_recognized_by_its_reader() -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    target = mx.sym.Reshape(mx.sym.Variable("wanted"), shape=(-1, 3))
    symbol = mx.sym.LinearRegressionOutput(x, target)
    assert find_roles(symbol, None).labels == ("wanted",)


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (detector(), Roles(data=("data",), labels=("label",), states=())),
        (net("left", "right"), Roles(data=("left", "right"), labels=(), states=())),
        (net("data", "more"), Roles(data=("data", "more"), labels=(), states=())),
        (
            mx.sym.Variable("data") * mx.sym.Variable("how_much"),
            Roles(data=("data",), labels=(), states=()),
        ),
        (
            reader(),
            Roles(data=("data", "l0_init_h", "l0_init_c"), labels=("label",), states=()),
        ),
    ],
    ids=["label", "no data", "two inputs", "a factor is a parameter", "states of unknown width"],
)
def test_roles_without_parameters(symbol: mx.sym.Symbol, expected: Roles) -> None:
    assert find_roles(symbol, None) == expected


def test_declared_roles_are_not_questioned() -> None:
    given = GivenNames(data=["data"], labels=[])
    roles = find_roles(reader(), READER, given)
    assert (roles.data, roles.labels, roles.states) == (("data",), (), ("l0_init_h", "l0_init_c"))
    assert roles.missing == ("label",)
    given = GivenNames(data=["data", "l0_init_h", "l0_init_c"])
    assert find_roles(reader(), READER, given).states == ()


def test_states_get_their_width_from_a_weight() -> None:
    found = examine(reader(), READER, GivenNames(), {})
    assert found.has_declared
    assert found.symbol.attr_dict()["l0_init_h"]["__shape__"] == f"(0, {HIDDEN})"
    again = examine(found.symbol, READER, GivenNames(), {})
    assert not again.has_declared
