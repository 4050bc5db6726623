"""Calling operators in the ways MXNet's generated functions allow."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from core.errors import GraphError
from core.ops.attributes import attribute
from core.ops.operator import Operator
from core.ops.signature import (
    argument_names,
    operator_doc,
    operator_signature,
    order_inputs,
    split_arguments,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dense(Operator):
    """Multiply by a weight."""

    names: ClassVar[tuple[str, ...]] = ("Dense",)

    num_hidden: int = attribute(doc="Width.")
    no_bias: bool = attribute(default=False)
    dtype: str | None = attribute(default=None)

    def input_names(self) -> tuple[str, ...]:
        return ("data", "weight") if self.no_bias else ("data", "weight", "bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Join(Operator):
    """Takes any number of inputs."""

    names: ClassVar[tuple[str, ...]] = ("Join",)
    variadic: ClassVar[str | None] = "num_args"

    num_args: int = attribute()

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"arg{i}" for i in range(self.num_args))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moody(Operator):
    """Has inputs that depend on a required attribute."""

    names: ClassVar[tuple[str, ...]] = ("Moody",)

    mood: str = attribute(choices=("one", "two"))

    def input_names(self) -> tuple[str, ...]:
        return ("data",) if self.mood == "one" else ("data", "other")


def is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


a, b, c = np.zeros(1), np.zeros(2), np.zeros(3)


def split(operator, *args, **kwargs):
    return split_arguments(operator, args, kwargs, is_array)


def test_inputs_and_attributes_by_position() -> None:
    got = split(Dense, a, b, None, 10, True)
    assert got.named == {"data": a, "weight": b}
    assert got.attributes == {"num_hidden": 10, "no_bias": True}


def test_inputs_and_attributes_by_keyword() -> None:
    got = split(Dense, num_hidden=10, weight=b, data=a, bias=None, __lr_mult__="2")
    assert got.named == {"data": a, "weight": b}
    assert got.attributes == {"num_hidden": 10, "__lr_mult__": "2"}


@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16")])
def test_dtypes_become_their_names(dtype: object) -> None:
    assert split(Dense, a, dtype=dtype).attributes == {"dtype": "float16"}


def test_variadic_operators_count_their_inputs() -> None:
    assert split(Join, a, b, c).attributes == {"num_args": 3}
    assert split(Join, arg0=a, arg1=b).attributes == {"num_args": 2}
    assert split(Join, a, num_args=2).attributes == {"num_args": 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split(Dense, a, b, c, 1, True, None, 7), "at most 6 positional arguments"),
        (lambda: split(Dense, a, data=b), "two values for 'data'"),
        (lambda: split(Dense, 3), "input 'data' is int 3"),
        (lambda: split(Join, [a, b]), r"positional argument 0 is list; .*\*inputs"),
        (lambda: split(Join, a, arg1=b), "by position or by keyword"),
    ],
)
def test_wrong_calls_name_the_argument(call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_order_inputs_follows_the_operator() -> None:
    operator = Dense(num_hidden=1)
    got = order_inputs(operator, split(Dense, bias=c, data=a, weight=b))
    assert [x.size for x in got] == [1, 2, 3]
    assert order_inputs(Join(num_args=2), split(Join, a, b)) == [a, b]


@pytest.mark.parametrize(
    ("operator", "arguments", "message"),
    [
        (Dense(num_hidden=1), {"data": a, "weight": b}, "input 'bias' is missing"),
        (
            Dense(num_hidden=1, no_bias=True),
            {"data": a, "weight": b, "wieght": c},
            "no input 'wieght'; did you mean 'weight'",
        ),
    ],
)
def test_order_inputs_refuses_missing_and_unknown_names(operator, arguments, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        order_inputs(operator, split(type(operator), **arguments))


def test_order_inputs_checks_the_count() -> None:
    with pytest.raises(GraphError, match="takes 3 inputs, got 2"):
        order_inputs(Join(num_args=3), split(Join, a, b))


def test_input_names_that_depend_on_an_attribute_must_be_declared() -> None:
    with pytest.raises(TypeError, match="Moody must declare all_inputs"):
        argument_names(Moody)


def test_signature_and_docstring_come_from_the_declaration() -> None:
    assert str(operator_signature(Dense, ("name",))) == (
        "(data=None, weight=None, bias=None, num_hidden=Ellipsis, no_bias=False, dtype=None, *, "
        "name=None)"
    )
    assert str(operator_signature(Join, ())) == "(*data, num_args)"
    doc = operator_doc(Dense, "Symbol")
    assert doc.startswith("Multiply by a weight.")
    assert "    num_hidden: an integer, required. Width." in doc
    assert "    weight: Symbol." in doc
