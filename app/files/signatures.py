"""Signatures in archives of mxnet-model-server: names, shapes and types of inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.domain.declaration import DeclaredInput
from app.domain.transforms import Transform, parse_transform
from app.errors.tree import Damaged

__all__ = ["Signature", "read_signature"]

_IMAGE, _CHANNELS = "image/jpeg", 3
_MOST_INPUTS = 1000
_MOST_AXES = 32
_LONGEST = 1 << 31


@dataclass(frozen=True, slots=True)
class Signature:
    """What a signature says, in the terms of ``modserve.yaml``.

    Attributes:
        inputs: shapes with a batch of 1; inputs with other open axes are left out.
        transforms: of image inputs, as that server's vision service makes them.
        warnings: differences from how that server would behave.
    """

    inputs: dict[str, DeclaredInput] = field(default_factory=dict)
    transforms: dict[str, Transform] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read_signature(parsed: Any) -> Signature:
    """Read a parsed signature; raise Damaged."""
    found = Signature()
    rows = parsed.get("inputs") if isinstance(parsed, dict) else None
    if not isinstance(rows, list) or len(rows) > _MOST_INPUTS:
        raise Damaged("signature.inputs", rows, "a list of inputs")
    for position, row in enumerate(rows):
        where = f"signature.inputs[{position}]"
        if not isinstance(row, dict) or not isinstance(row.get("data_name"), str):
            raise Damaged(where, row, "an object with data_name and data_shape")
        name = row["data_name"]
        shape = _shape(row.get("data_shape", row.get("shape")), f"{where}.data_shape")
        if name in found.inputs:
            raise Damaged(f"{where}.data_name", name, "each input once")
        if 0 in shape[1:]:
            axes = ", ".join(str(axis) for axis, size in enumerate(shape) if axis and not size)
            found.warnings.append(
                f"the signature leaves axis {axes} of input {name!r} open, which is bound with a "
                "size that fits the parameters; bind it otherwise by POST …/bind"
            )
            continue
        found.inputs[name] = DeclaredInput(shape=(shape[0] or 1, *shape[1:]))
        if parsed.get("input_type") == _IMAGE and len(shape) == 4 and shape[1] == _CHANNELS:
            height, width = shape[2:]
            found.transforms[name] = parse_transform(
                {"size": [height, width], "interpolation": "cubic"}, f"{where}.data_shape"
            )
            found.warnings.append(
                f"images for input {name!r} are resized to {height} x {width} pixels, with values "
                "from 0 to 255, as that server's own vision service does; set another transform "
                f"by PUT …/transforms/{name} where the handler does something else"
            )
    return found


def _shape(sizes: Any, where: str) -> list[int]:
    is_list = isinstance(sizes, list) and 0 < len(sizes) <= _MOST_AXES
    if not is_list or not all(type(one) is int and 0 <= one < _LONGEST for one in sizes):
        raise Damaged(where, sizes, "a list of sizes, 0 for one that is open")
    return list(sizes)
