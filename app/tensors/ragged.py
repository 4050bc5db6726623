"""Examples that differ in length: JSON lists grouped into tensors, and outputs back to lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.errors.tree import Invalid
from app.tensors.json_tensors import HostArray, read_tensor
from app.tensors.writing import json_pieces

__all__ = ["SameShapeExamples", "group_examples", "ragged_pieces"]


class SameShapeExamples(NamedTuple):
    """Examples of the same shape, stacked.

    Attributes:
        places: their indices among all examples, ascending.
        tensors: stacked examples by input.
    """

    places: list[int]
    tensors: dict[str, HostArray]


def group_examples(inputs: Mapping[str, Any], dtypes: Mapping[str, str]) -> list[SameShapeExamples]:
    """Group examples by shape, in order of each shape's first example.

    Args:
        inputs: by name, a list with an element for each example.
        dtypes: of plain numbers by name; others keep JSON's precision, float64.

    Raises:
        Invalid: an input is not a list, or the inputs have different numbers of examples.
    """
    examples = {
        name: _examples(value, f"inputs.{name}", dtypes.get(name, "float64"))
        for name, value in inputs.items()
    }
    first = next(iter(examples))
    for name, arrays in examples.items():
        if len(arrays) != len(examples[first]):
            expected = f"{len(examples[first])}, as in {first!r}"
            raise Invalid(f"inputs.{name}", f"{len(arrays)} examples", expected)
    places: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for place in range(len(examples[first])):
        shapes = tuple(arrays[place].shape for arrays in examples.values())
        places.setdefault(shapes, []).append(place)
    return [
        SameShapeExamples(
            those, {name: _stacked(arrays, those) for name, arrays in examples.items()}
        )
        for those in places.values()
    ]


def ragged_pieces(examples: Sequence[HostArray]) -> Iterator[bytes]:
    """Yield the JSON text of an output; if its examples differ in shape, in a ragged form.

    The ragged form's ``data`` is a list of lists, and ``lengths`` has their lengths.
    """
    yield b'{"dtype":%s,' % orjson.dumps(examples[0].dtype.name)
    if len({one.shape for one in examples}) == 1:
        yield b'"shape":%s,' % orjson.dumps((len(examples), *examples[0].shape))
    else:
        yield b'"lengths":%s,' % orjson.dumps([one.shape[0] for one in examples])
    yield b'"data":'
    opening = b"["
    for one in examples:
        yield opening
        yield from json_pieces(one)
        opening = b","
    yield b"]}"


def _examples(value: Any, field: str, dtype: str) -> list[HostArray]:
    if not isinstance(value, list):
        expected = "a list of examples, because those of another input differ in length"
        raise Invalid(field, value, expected)
    return [
        read_tensor([one], f"{field}[{place}]", dtype).reshape(())
        if isinstance(one, int | float)
        else read_tensor(one, f"{field}[{place}]", dtype)
        for place, one in enumerate(value)
    ]


def _stacked(arrays: Sequence[HostArray], places: Sequence[int]) -> HostArray:
    return np.stack([arrays[place] for place in places])
