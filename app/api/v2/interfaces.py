"""The inputs and outputs of models, as their executors report them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.api.v2.datatypes import datatype_of
from app.domain.module import ModuleRecord, require
from app.errors.tree import Unavailable
from app.link import calls
from app.services.services import Services

__all__ = ["Interface", "TensorDesc", "interface_of"]

_ONE_ELEMENT_EACH = (-1, 1)
"""Shape of examples that are a text or an image file, as in Triton's configurations."""


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """One input or output.

    Attributes:
        name: its name.
        datatype: the protocol's name of its dtype; ``BYTES`` for an input with a transform.
        shape: -1 for an axis whose length varies from request to request.
        batch_axis: of an input, the axis of the examples; -1 for none.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    batch_axis: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """Inputs and outputs.

    Attributes:
        inputs, outputs: in order.
        has_rows: whether the first axis of each is that of the examples.
    """

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    has_rows: bool


async def interface_of(services: Services, record: ModuleRecord) -> Interface:
    """Return a model's inputs and outputs; the model is loaded if it is not on its device.

    Raises:
        WrongStage, ParamsLost, Unavailable: its executor cannot report them.
    """
    require(record, "predict")
    if not record.serving.is_loaded:
        raise Unavailable(f"model {record.public_name!r} was unloaded")
    reply = await services.access.ask(record, calls.DescribeModule(module=record.name))
    reply.release()  # its result stays; only tensors in shared memory are given back
    plain = reply.result["interface"]
    return Interface(
        tuple(_input(record, one) for one in plain["inputs"]),
        tuple(_desc(one) for one in plain["outputs"]),
        plain["has_rows"],
    )


def _input(record: ModuleRecord, plain: dict[str, Any]) -> TensorDesc:
    if plain["name"] in record.transforms:
        return TensorDesc(plain["name"], "BYTES", _ONE_ELEMENT_EACH)
    return _desc(plain)


def _desc(plain: dict[str, Any]) -> TensorDesc:
    datatype = datatype_of(np.dtype(plain["dtype"]))
    return TensorDesc(plain["name"], datatype, tuple(plain["shape"]), plain.get("batch_axis", 0))
