"""Proposes shapes for a module whose caller does not specify them all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.codec import to_plain
from app.domain.module import InputDesc, ModuleKind, described_input
from app.errors.tree import FieldError, Invalid
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.input_shapes import ShapeGuess, guess_shapes
from app.link.calls import ProposeShapes
from core.types import Shape

__all__ = ["propose_shapes"]


def propose_shapes(module: HostedModule, call: ProposeShapes) -> Mapping[str, Any]:
    """Answer the call.

    Raises:
        Invalid: names every input whose shape must be specified, with an example.
    """
    if module.record.kind is ModuleKind.BUCKETING:
        expected = "the shapes of the default bucket, with null for the length where it is open"
        raise Invalid("data_shapes", to_plain(call.data_shapes), expected)
    bind = module.record.bind
    if bind is not None and not call.data_shapes:
        labels = call.label_shapes or bind.label_shapes
        return {"data_shapes": to_plain(bind.data_shapes), "label_shapes": to_plain(labels)}
    given = {one.name: one for one in (*call.data_shapes, *call.label_shapes)}
    guess = guess_shapes(
        module.default_symbol,
        _stored(module),
        {name: one.shape for name, one in given.items()},
        module.data_names,
        module.label_names,
    )
    _refuse_open(guess, is_training=call.for_training)
    needed = guess.shapes if call.for_training else guess.usual
    return {
        "data_shapes": to_plain(
            [given.get(name) or _described(name, guess) for name in module.data_names]
        ),
        "label_shapes": to_plain(
            [
                given.get(name) or _described(name, guess)
                for name in module.label_names
                if name in given or name in needed
            ]
        ),
    }


def _stored(module: HostedModule) -> dict[str, Shape]:
    values = module.values()
    arrays = {} if values is None else {**values[0], **values[1]}
    return {name: one.shape for name, one in arrays.items()}


def _refuse_open(guess: ShapeGuess, *, is_training: bool) -> None:
    rows = [
        FieldError(
            "data_shapes",
            f"no shape of {name!r}",
            "its shape, because none was found that fits the parameters",
            f"for example {_example('data_shapes', name, (1, 3, 224, 224))}",
        )
        for name in guess.open
    ]
    rows += [
        FieldError(
            "label_shapes",
            f"no shape of {name!r}",
            "its shape, which does not follow from those of the data",
            f"for example {_example('label_shapes', name, guess.shapes[name])}; "
            'or "for_training": false, to predict without it',
        )
        for name in (guess.usual if is_training else ())
    ]
    if rows:
        raise Invalid.from_errors(rows)


def _example(field: str, name: str, shape: Sequence[int]) -> str:
    return f'"{field}": {json.dumps([{"name": name, "shape": list(shape)}])}'


def _described(name: str, guess: ShapeGuess) -> InputDesc:
    return described_input(
        name, guess.shapes[name], guess.layouts.get(name), guess.dtypes.get(name)
    )
