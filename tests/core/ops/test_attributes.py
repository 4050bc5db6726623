"""Operator attributes: MXNet's notation is parsed, and invalid values are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.errors import AttributeValueError
from core.ops.attributes import attribute_fields, format_attribute, parse_attributes
from core.ops.registry import (
    declares_attributes,
    get_operator,
    make_operator,
    registered_names,
)

READ = [
    ("Dropout", "p", "0.25", 0.25),
    ("Dropout", "p", "true", 1.0),
    ("Dropout", "axes", "[0, 1]", (0, 1)),
    ("Dropout", "axes", "(2,)", (2,)),
    ("Dropout", "axes", 3, (3,)),
    ("FullyConnected", "num_hidden", "10L", 10),
    ("FullyConnected", "num_hidden", 10.0, 10),
    ("FullyConnected", "num_hidden", "1e1", 10),
    ("FullyConnected", "no_bias", " True ", True),
    ("FullyConnected", "no_bias", "0", False),
    ("FullyConnected", "no_bias", np.bool_(True), True),
    ("slice", "begin", "(None, 1)", (None, 1)),
    ("sum", "axis", "None", None),
    ("Cast", "dtype", "float16", np.dtype("float16")),
]
REQUIRED = {
    "FullyConnected": {"num_hidden": 1},
    "slice": {"begin": (0, 0), "end": (1, 2)},
    "Cast": {"dtype": "float32"},
}


def make(name: str, **attributes: Any) -> Any:
    return make_operator(name, "node0", {**REQUIRED.get(name, {}), **attributes})


@pytest.mark.parametrize(("operator", "name", "text", "value"), READ)
def test_parses_mxnets_notation(operator: str, name: str, text: Any, value: Any) -> None:
    parsed = getattr(make(operator, **{name: text}), name)
    assert parsed == value
    assert type(parsed) is type(value)


REFUSED = [
    ({"no_bias": "yes"}, "attribute 'no_bias' is 'yes'; expected True or False"),
    ({"no_bias": 2}, "attribute 'no_bias' is 2; expected True or False"),
    ({"num_hidden": "1.5"}, "attribute 'num_hidden' is '1.5'; expected an integer"),
    ({"num_hidden": 2**64}, "attribute 'num_hidden' is 18446744073709551616; expected an integer"),
    ({"num_hiden": 3}, "attribute 'num_hiden' is unknown; did you mean 'num_hidden'"),
]


@pytest.mark.parametrize(("attributes", "message"), REFUSED)
def test_refuses_invalid_values_naming_node_and_attribute(
    attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(AttributeValueError, match=f"^FullyConnected 'node0': {message}"):
        make("FullyConnected", **attributes)


def test_required_attributes_must_be_given() -> None:
    with pytest.raises(AttributeValueError, match="attribute 'num_hidden' is required and missing"):
        make_operator("FullyConnected", "node0", {})


def test_ignores_graph_attributes_and_ones_without_effect() -> None:
    assert make("FullyConnected", __lr_mult__="2") == make("FullyConnected")
    assert make("Dropout", cudnn_off="True") == make("Dropout")
    assert make("zeros_like", dtype="float16") == make("zeros_like")


def test_passes_unknown_attributes_to_operators_that_take_any() -> None:
    custom = get_operator("Custom")
    attributes = {"op_type": "mine", "scale": 2, "__shape__": "(1,)"}
    parsed = parse_attributes(custom, "node0", attributes)
    assert parsed == {"op_type": "mine", custom.rest_attribute: (("scale", "2"),)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32, "float32"),
        (np.dtype("int8"), "int8"),
        ((np.int64(3), 4), "(3, 4)"),
        ([1, np.float64(0.5)], "[1, 0.5]"),
        (True, "True"),
        (None, "None"),
    ],
)
def test_writes_attributes_as_mxnet_does(value: object, text: str) -> None:
    assert format_attribute(value) == text


@pytest.mark.parametrize("name", sorted({get_operator(n).names[0] for n in registered_names()}))
def test_help_describes_each_attribute(name: str) -> None:
    fields = attribute_fields(get_operator(name))
    assert [key for key, field in fields.items() if not field.metadata["doc"]] == []


def test_operators_sharing_an_init_are_not_equal() -> None:
    sine, cosine = make_operator("sin", "node0", {}), make_operator("cos", "node0", {})
    assert type(sine).__init__ is type(cosine).__init__  # generated once, for their common base
    assert sine == make_operator("sin", "node1", {})
    assert sine != cosine


def test_a_subclass_checks_its_bases_attributes() -> None:
    class Even(get_operator("FullyConnected")):  # type: ignore[misc]
        def __post_init__(self) -> None:
            if self.num_hidden % 2:
                raise AttributeValueError("num_hidden is odd")

    assert declares_attributes(Even)(num_hidden=2) == Even(num_hidden=2)
    with pytest.raises(AttributeValueError, match="odd"):
        Even(num_hidden=3)
