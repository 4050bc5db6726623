"""Any attributes and shapes from a file or request give a result or an MXNetError.

Clients send arbitrary values, and an IndexError in an operator would be reported as a fault of the
server. Values are random, but the same in every run.
"""

from __future__ import annotations

import dataclasses
import random
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import MXNetError
from core.ops import canonical_names, get_operator, make_operator
from core.ops.attributes import attribute_fields, describe_attribute
from core.types import NO_ELEMENTS, Shape

_OPERATORS = sorted(
    name for name in set(canonical_names()) - {"Custom"} if not get_operator(name).graph_names
)
"""Custom's attributes are those of a class that a script registers; loops need subgraphs, see
``test_control_flow.py``."""

_TRIALS = 150
_MEMORY = 16 * 2**30
"""Address space that a test may use: a test that asks for more fails, but is not killed."""

_DIMS = (0, 1, 2, 3, 4, 6)


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _draw_attribute(draw: random.Random, operator: Any, name: str, length: int) -> str:
    """Return the text of an attribute; most tuples have the same length, as some must match."""
    choices = attribute_fields(operator)[name].metadata["choices"]
    if choices:
        return draw.choice(choices)
    kind = describe_attribute(operator, name)
    if "tuple" in kind:
        length = length if draw.random() < 0.7 else draw.randint(0, 4)
        return str(tuple(draw.choice((-1, 0, 1, 2, 3)) for _ in range(length)))
    if "True or False" in kind:
        return draw.choice(("True", "False"))
    if "integer" in kind:
        return str(draw.choice((-2, -1, 0, 1, 2, 3, 5)))
    if "number" in kind:
        return str(draw.choice((-1.0, 0.0, 0.5, 1.0)))
    return draw.choice(("float32", "int32", "text"))


def _draw_shape(draw: random.Random) -> Shape | None:
    if draw.random() < 0.15:
        return None
    return tuple(draw.choice(_DIMS) for _ in range(draw.randint(0, 5)))


@pytest.mark.parametrize("name", _OPERATORS)
def test_inference_gives_specs_or_an_error(name: str) -> None:
    draw = random.Random(name)
    operator = get_operator(name)
    made = 0
    for _ in range(_TRIALS):
        length = draw.randint(0, 4)
        raw = {
            key: _draw_attribute(draw, operator, key, length)
            for key, field in attribute_fields(operator).items()
            if field.default is dataclasses.MISSING or draw.random() < 0.4
        }
        try:
            op = make_operator(name, "node", raw)
        except MXNetError:
            continue
        made += 1
        inputs = [_draw_shape(draw) for _ in op.input_names()]
        outputs = [_draw_shape(draw) if draw.random() < 0.2 else None for _ in op.output_names()]
        _check_shapes(op, raw, inputs, outputs)
    assert made, "no drawn attributes were valid; draw others"


def _check_shapes(op: Any, raw: Any, inputs: list[Any], outputs: list[Any]) -> None:
    try:
        found = op.infer_shape(list(inputs), list(outputs))
    except MXNetError:
        return
    except Exception as error:
        raise AssertionError(f"{op.names[0]} {raw} of {inputs}, {outputs}: {error!r}") from error
    assert [len(shapes) for shapes in found] == [len(inputs), len(outputs)]
    for shape in (*found[0], *found[1]):
        dims = () if shape is None else shape
        assert all((type(dim) is int and dim >= 0) or dim is NO_ELEMENTS for dim in dims), raw


@pytest.mark.parametrize("name", _OPERATORS)
def test_a_huge_count_is_refused_before_names_are_made(name: str) -> None:
    """Counts of inputs are checked by the reader, which knows the inputs."""
    operator = get_operator(name)
    draw = random.Random(name)
    for key in attribute_fields(operator):
        kind = describe_attribute(operator, key)
        if key == operator.variadic or "integer" not in kind or "tuple" in kind:
            continue
        raw = {other: _draw_attribute(draw, operator, other, 1) for other in _required(operator)}
        try:
            op = make_operator(name, "node", {**raw, key: "100000000"})
        except MXNetError:
            continue
        assert len(op.output_names()) + len(op.input_names()) < 100_000


def _required(operator: Any) -> list[str]:
    fields = attribute_fields(operator).items()
    return [key for key, field in fields if field.default is dataclasses.MISSING]
