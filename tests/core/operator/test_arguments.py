"""``get_operator_arguments``: the arguments of operators, in MXNet 1.9.1's words."""

from __future__ import annotations

import pytest

import core as mx
from core.errors import UnknownOperator


def test_arguments_of_activation() -> None:
    found = mx.operator.get_operator_arguments("Activation")
    assert isinstance(found, mx.operator.OperatorArguments)
    assert found.narg == 2
    assert found.names == ["data", "act_type"]
    assert found.types == [
        "NDArray-or-Symbol",
        "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, required",
    ]


@pytest.mark.parametrize(
    ("operator", "argument", "kind"),
    [
        ("Convolution", "bias", "NDArray-or-Symbol"),
        ("Convolution", "kernel", "Shape(tuple), required"),
        ("Convolution", "no_bias", "boolean, optional, default=0"),
        ("Concat", "data", "NDArray-or-Symbol[]"),
        ("Concat", "num_args", "int, required"),
        ("Concat", "dim", "int, optional, default='1'"),
        ("topk", "axis", "int or None, optional, default='-1'"),
    ],
)
def test_types_are_described_as_in_mxnet(operator: str, argument: str, kind: str) -> None:
    found = mx.operator.get_operator_arguments(operator)
    assert found.narg == len(found.names) == len(found.types)
    assert dict(zip(found.names, found.types, strict=True))[argument] == kind


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(UnknownOperator, match="Activaton"):
        mx.operator.get_operator_arguments("Activaton")
